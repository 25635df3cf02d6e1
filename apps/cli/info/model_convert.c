/* cli/info/model_convert.c - `model convert`, and `model export`, its older name: a checkpoint in another program's
 * format. Nothing on standard output; the progress line is on standard error, on a terminal only. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "common/model.h"
#include "common/progress.h"

typedef struct convert_options {
    common_options common;
    const char *model_dir;
    int format, type; /* see the names below */
} convert_options;

/* "auto": by the name of OUT. The others are the library's own, which it checks against each other. */
static const char *const format_names[] = {"auto", "ggml", "gguf", "ct2", "safetensors", "npz", NULL};
static const char *const export_names[] = {"npz", "ggml", "gguf", "ct2", "safetensors", NULL};
static const char *const type_names[] = {"auto", "f32",  "f16",  "bf16", "q8_0", "q5_0",
                                         "q5_1", "q4_0", "q4_1", "int8", NULL};

#define TYPE_ROW                                                                                                       \
    {.name = "type", .kind = OPTION_CHOICE, .fallback = "auto", .placeholder = "TYPE", .group = "Output",              \
     .target = offsetof(convert_options, type), .choices = type_names,                                                 \
     .help = "Type of the matrices: f32, f16, bf16 (not ggml, npz), q8_0, q5_0, q5_1, q4_0, q4_1 (ggml, gguf), int8 "  \
             "(ct2, safetensors); auto: that of the checkpoint where the format has it, otherwise f16."}

/* A table reads by rows. */
/* clang-format off */
static const option_row convert_rows[] = {
    {.name = "format", .letter = 'f', .kind = OPTION_CHOICE, .fallback = "auto", .placeholder = "FORM",
     .group = "Output", .target = offsetof(convert_options, format), .choices = format_names,
     .help = "ggml: one file for whisper.cpp; gguf: one file for transcribe.cpp; ct2: a folder for CTranslate2 and "
             "faster-whisper; safetensors: a folder for Hugging Face transformers; npz: one file for numpy; auto: by "
             "the ending of OUT (.bin, .gguf, .npz)."},
    TYPE_ROW,
    MODEL_DIR_ROW(convert_options, model_dir),
    COMMON_ROWS,
    {.name = NULL},
};

static const option_row export_rows[] = {
    {.name = "format", .letter = 'f', .kind = OPTION_CHOICE, .fallback = "npz", .placeholder = "FORM",
     .group = "Output", .target = offsetof(convert_options, format), .choices = export_names,
     .help = "As for model convert."},
    TYPE_ROW,
    MODEL_DIR_ROW(convert_options, model_dir),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

static volatile sig_atomic_t caught;

static void on_signal(int number) { caught = number; }

typedef struct line {
    int wanted;
    double drawn_s;
} line;

static int on_progress(void *user, const char *tensor, uint64_t done, uint64_t total) {
    line *l = user;
    char text[256];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double now = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    if (l->wanted && now - l->drawn_s >= 0.1) {
        l->drawn_s = now;
        snprintf(text, sizeof(text), "converting: %2.0f %%, %s", 100.0 * (double)done / (double)total, tensor);
        progress_note(text);
    }
    return caught != 0;
}

/* The format that a file's name means; NULL: none. */
static const char *format_of(const char *path) {
    static const struct {
        const char *suffix, *format;
    } rows[] = {{".bin", "ggml"}, {".gguf", "gguf"}, {".npz", "npz"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t n = strlen(path), m = strlen(rows[i].suffix);
        if (n > m && !strcmp(path + n - m, rows[i].suffix))
            return rows[i].format;
    }
    return NULL;
}

/* Whether the format has the type: told before a model is opened. */
static int has_type(const char *format, const char *type) {
    const char *name;
    for (int i = 0; (name = mxw_convert_type(format, i)); i++)
        if (!strcmp(name, type))
            return 1;
    return 0;
}

static int convert(const convert_options *options, const char *format, char **words) {
    line l = {.wanted = !options->common.quiet && progress_possible()};
    mxw_checkpoint *checkpoint = NULL;
    mxw_convert_options convert;
    mxw_convert_options_default(&convert);
    convert.format = format;
    convert.type = type_names[options->type];
    convert.progress = on_progress;
    convert.user = &l;
    if (!has_type(format, convert.type)) {
        log_error("--type: format %s has no %s", format, convert.type);
        return EXIT_USAGE;
    }
    int exit_status = open_checkpoint(words[0], options->model_dir, &checkpoint);
    if (exit_status != EXIT_OK)
        return exit_status;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    progress_start(1, NULL, l.wanted);
    mxw_status status = mxw_checkpoint_convert(checkpoint, words[1], &convert);
    progress_stop();
    if (status < 0) {
        log_failure(words[1], status);
        exit_status = caught ? 128 + caught : EXIT_FAILED;
    }
    mxw_checkpoint_close(checkpoint);
    return exit_status;
}

static int run_convert(const void *chosen, char **words, int n_words) {
    const convert_options *options = chosen;
    const char *format = options->format ? format_names[options->format] : format_of(words[1]);
    (void)n_words;
    if (format)
        return convert(options, format, words);
    log_error("--format is needed: '%s' ends neither in .bin (ggml) nor .gguf nor .npz", words[1]);
    return EXIT_USAGE;
}

static int run_export(const void *chosen, char **words, int n_words) {
    const convert_options *options = chosen;
    (void)n_words;
    return convert(options, export_names[options->format], words);
}

const command command_model_convert = {
    .arguments = "MODEL OUT",
    .min_words = 2,
    .max_words = 2,
    .word_name = "a model and the file or folder to write",
    .summary = "Convert a checkpoint for whisper.cpp, transcribe.cpp, faster-whisper, transformers or numpy.",
    .details = "MODEL is a released name, OWNER/NAME from the Hugging Face hub, a checkpoint file or its folder, in "
               "any format that is read. OUT is written completely or not at all: a file is replaced, a folder must be "
               "new or empty. Tensors that have the type already are copied as they are; what the other program needs "
               "besides the weights is written, too.",
    .options = convert_rows,
    .options_size = sizeof(convert_options),
    .values = model_value,
    .run = run_convert,
};

const command command_model_export = {
    .arguments = "MODEL OUT",
    .min_words = 2,
    .max_words = 2,
    .word_name = "a model and the file to write",
    .summary = "The older name of model convert; without --format, it writes .npz.",
    .details = "See model convert.",
    .options = export_rows,
    .options_size = sizeof(convert_options),
    .values = model_value,
    .run = run_export,
};
