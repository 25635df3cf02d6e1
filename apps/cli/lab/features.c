/* cli/lab/features.c - `features extract`, `compare`, `diverge`: what a run computes, stage by stage.
 *
 * Invariants: nothing is written but the file that was asked for; compare and diverge exit 1 when a stage parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "common/stdout.h"
#include "lab/stages.h"

typedef struct features_options {
    common_options common;
    model_choice model;
    int json, fused;
    const char *output, *like, *inject;
    double start;
} features_options;

_Static_assert(sizeof(features_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(features_options, member)

/* A table reads by rows. */
/* clang-format off */
#define RUN_ROWS                                                                                                       \
    {.name = "fused", .kind = OPTION_FLAG, .fallback = "False", .group = "Run", AT(fused),                             \
     .help = "Let engine max fuse as in a normal run; fewer stages are then visible."},                                \
    {.name = "start", .kind = OPTION_NUMBER, .fallback = "0", .placeholder = "S", .group = "Run", AT(start), .low = 0, \
     .high = 1e6, .help = "Start of the window in seconds."},                                                          \
    INJECT_ROW(features_options, inject), MODEL_ROWS(features_options, model)

static const option_row extract_rows[] = {
    {.name = "output", .letter = 'o', .kind = OPTION_NAME, .placeholder = "FILE.npz", .group = "Output", AT(output),
     .help = "Write every stage to a .npz file for numpy.load."},
    JSON_ROW(features_options, json),
    {.name = "like", .kind = OPTION_NAME, .placeholder = "FILE.npz", .group = "Run", AT(like),
     .help = "Force the decoder over the tokens in this dump, so that the two can be compared."},
    RUN_ROWS, COMMON_ROWS, {.name = NULL}};
static const option_row compare_rows[] = {JSON_ROW(features_options, json), RUN_ROWS, COMMON_ROWS, {.name = NULL}};
static const option_row decode_rows[] = {JSON_ROW(features_options, json), MODEL_ROWS(features_options, model),
                                         COMMON_ROWS, {.name = NULL}};
/* clang-format on */

/* ---- runs and dumps ------------------------------------------------------------------------------------- */

static mxw_features *capture(const features_options *o, const char *path, const mxw_features *like) {
    lab_samples samples;
    mxw_model *model = NULL;
    mxw_features *features = NULL;
    mxw_features_options options;
    mxw_session_options session;
    mxw_features_options_default(&options);
    lab_session_options(&session);
    options.session = &session;
    options.seek = (int64_t)(o->start * 100);
    options.like = like;
    if (!lab_read(path, &samples))
        return NULL;
    if (lab_open(&o->model, !o->fused, o->inject, &model) == EXIT_OK) {
        mxw_status status = mxw_features_capture(model, samples.data, samples.n, &options, &features);
        if (status < 0)
            log_failure(path, status);
    }
    mxw_model_close(model);
    free(samples.data);
    return features;
}

static mxw_features *load(const char *path) {
    mxw_features *features = NULL;
    mxw_status status = mxw_features_open(path, &features);
    if (status < 0)
        log_failure(path, status);
    return features;
}

static int is_dump(const char *path) {
    size_t n = strlen(path);
    return n > 4 && !strcmp(path + n - 4, ".npz");
}

static void print_about(const char *label, const mxw_features *f) {
    const char *engine = mxw_features_note(f, "engine"), *injected = mxw_features_note(f, "injected");
    const char *model = mxw_features_note(f, "model"), *device = mxw_features_note(f, "device");
    const char *text = mxw_features_note(f, "text");
    out_print("%s: %s%s%s%s%s%s%s\n", label, model ? model : "model not known", engine ? ", engine " : "",
              engine ? engine : "", device ? " on " : "", device ? device : "", injected ? ", injected: " : "",
              injected ? injected : "");
    if (text)
        out_print("   text: %.160s%s\n", text, strlen(text) > 160 ? " ..." : "");
}

/* ---- extract -------------------------------------------------------------------------------------------- */

static int run_extract(const void *chosen, char **words, int n_words) {
    const features_options *o = chosen;
    mxw_features *like = o->like ? load(o->like) : NULL;
    if (o->like && !like)
        return EXIT_FAILED;
    mxw_features *features = capture(o, n_words ? words[0] : NULL, like);
    mxw_features_close(like);
    if (!features)
        return EXIT_FAILED;
    mxw_status status = o->output ? mxw_features_save(features, o->output) : MXW_OK;
    if (status < 0)
        log_failure(o->output, status);
    if (o->json) {
        json_writer json;
        json_start(&json, stdout, 1);
        json_begin(&json, NULL);
        lab_write_notes(&json, "run", features);
        json_text(&json, "injected", mxw_features_note(features, "injected"));
        lab_write_stages(&json, features);
        json_end(&json);
    } else {
        print_about("run", features);
        lab_print_stages(features);
    }
    mxw_features_close(features);
    return status < 0 ? EXIT_FAILED : EXIT_OK;
}

/* ---- compare and diverge -------------------------------------------------------------------------------- */

/* The checkpoint of the runs, if it is the one that --model names. */
static mxw_checkpoint *weights_of(const features_options *o, const mxw_features *a) {
    const char *size = mxw_features_note(a, "model");
    mxw_checkpoint *checkpoint = NULL;
    mxw_checkpoint_info info = {.struct_size = sizeof(info)};
    if (mxw_checkpoint_open(o->model.model, o->model.model_dir, &checkpoint) < 0)
        return NULL;
    if (mxw_checkpoint_get_info(checkpoint, &info) >= 0 && size && !strcmp(size, info.size_name))
        return checkpoint;
    mxw_checkpoint_close(checkpoint);
    return NULL;
}

/* How the error grew up to the first bad stage, and past it. */
static void print_growth(const mxw_comparison *c, const mxw_finding *finding) {
    mxw_difference d = {.struct_size = sizeof(d)};
    double before = 0;
    out_print("%-36s %10s %10s %8s\n", "stage", "relative", "bound", "growth");
    for (size_t i = 0; i < mxw_comparison_count(c) && mxw_comparison_get(c, i, &d) >= 0; i++) {
        char a[32], b[32], g[32] = "";
        if (d.apart) {
            if (d.bad)
                out_print("%-36s %s   <-- parts\n", d.name, d.apart);
            continue;
        }
        if (before > 0 && d.relative > 0)
            snprintf(g, sizeof(g), "x %.3g", d.relative / before);
        before = d.relative;
        out_print("%-36s %10s %10s %8s%s\n", d.name, lab_short(d.relative, a), lab_short(d.bound, b), g,
                  (int64_t)i == finding->index ? "   <-- the first that parts" : d.bad ? "   <-- parts" : "");
    }
}

static void report(const features_options *o, int diverge, const mxw_features *a, const mxw_features *b,
                   const mxw_comparison *c, const mxw_finding *finding) {
    if (o->json) {
        json_writer json;
        json_start(&json, stdout, 1);
        json_begin(&json, NULL);
        lab_write_notes(&json, "first", a);
        lab_write_notes(&json, "second", b);
        json_text(&json, "injected", mxw_features_note(b, "injected"));
        json_whole(&json, "bad_stages", (int64_t)lab_count_bad(c));
        if (diverge)
            lab_write_finding(&json, finding);
        lab_write_rows(&json, c);
        json_end(&json);
        return;
    }
    print_about("first ", a);
    print_about("second", b);
    if (!diverge)
        lab_print_rows(c, 0);
    else
        print_growth(c, finding);
    size_t n_bad = lab_count_bad(c);
    if (!n_bad)
        out_text("\nNo stage parts: the two agree within rounding.\n");
    else if (diverge)
        out_print("\n%s is the first that parts. It looks like: %s.\n%s.\n", finding->stage, finding->fault,
                  finding->explanation);
    else
        out_print("\n%zu stages part; 'features diverge' looks for the cause.\n", n_bad);
}

static int compare(const features_options *o, char **words, int diverge) {
    int exit_status = EXIT_FAILED;
    mxw_comparison *c = NULL;
    mxw_finding finding = {.struct_size = sizeof(finding), .index = -1};
    if (!is_dump(words[0])) {
        log_error("'%s': the first argument must be a dump, FILE.npz, from 'features extract --output'", words[0]);
        return EXIT_USAGE;
    }
    mxw_features *a = load(words[0]);
    mxw_features *b = !a ? NULL : is_dump(words[1]) ? load(words[1]) : capture(o, words[1], a);
    mxw_checkpoint *weights = a && b && diverge ? weights_of(o, a) : NULL;
    mxw_status status = a && b ? mxw_comparison_open(a, b, &c) : MXW_E_ARGUMENT;
    if (status >= 0 && diverge)
        status = mxw_comparison_diagnose(c, weights, &finding);
    if (status >= 0) {
        report(o, diverge, a, b, c, &finding);
        exit_status = lab_count_bad(c) ? EXIT_FAILED : EXIT_OK;
    } else if (a && b) {
        log_failure(NULL, status);
    }
    mxw_checkpoint_close(weights);
    mxw_comparison_close(c);
    mxw_features_close(a);
    mxw_features_close(b);
    return exit_status;
}

static int run_compare(const void *chosen, char **words, int n_words) {
    (void)n_words;
    return compare(chosen, words, 0);
}

static int run_diverge(const void *chosen, char **words, int n_words) {
    (void)n_words;
    return compare(chosen, words, 1);
}

/* ---- decode --------------------------------------------------------------------------------------------- */

/* Silence as long as the window that the features were made of: only its length counts. */
static mxw_status decode_features(mxw_model *model, const mxw_features *features, mxw_session **out) {
    static const float silence[MXW_SAMPLE_RATE / 100];
    mxw_session_options options;
    mxw_feature frames = {.struct_size = sizeof(frames)};
    int64_t index = mxw_features_find(features, "recording.frames"), n = 3000;
    const mxw_segment *segment;
    if (index >= 0 && mxw_features_get(features, (size_t)index, &frames) >= 0 && frames.max >= 1 && frames.max < n)
        n = (int64_t)frames.max;
    lab_session_options(&options);
    options.language = mxw_features_note(features, "language");
    mxw_status status = mxw_lab_session_open(model, &options, features, out);
    for (int64_t i = 0; i < n && status >= 0; i++)
        status = mxw_session_feed(*out, silence, MXW_SAMPLE_RATE / 100);
    if (status >= 0)
        status = mxw_session_finish(*out);
    while (status == MXW_OK)
        status = mxw_session_next(*out, &segment);
    return status;
}

static int run_decode(const void *chosen, char **words, int n_words) {
    const features_options *o = chosen;
    mxw_model *model = NULL;
    mxw_session *session = NULL;
    mxw_features *features = load(words[0]);
    (void)n_words;
    if (!features)
        return EXIT_FAILED;
    int exit_status = lab_open(&o->model, 0, NULL, &model);
    mxw_status status = exit_status == EXIT_OK ? decode_features(model, features, &session) : MXW_OK;
    const mxw_result *result = status == MXW_END ? mxw_session_result(session) : NULL;
    if (result && o->json)
        mxw_result_write(result, "json", NULL, out_write, NULL);
    else if (result)
        out_print("%s\n", result->text[0] == ' ' ? result->text + 1 : result->text);
    else if (exit_status == EXIT_OK)
        log_failure(words[0], status);
    mxw_session_close(session);
    mxw_model_close(model);
    mxw_features_close(features);
    return result ? EXIT_OK : EXIT_FAILED;
}

const command command_features_decode = {
    .arguments = "FILE.npz",
    .min_words = 1,
    .max_words = 1,
    .word_name = "a dump",
    .summary = "Decode a window from saved encoder features.",
    .details = "Reads encoder.ln_post from a dump of any engine; the encoder does not run. Decoding the features of "
               "one engine with another shows whether the encoder or the decoder is wrong.",
    .options = decode_rows,
    .options_size = sizeof(features_options),
    .run = run_decode,
};

const command command_features_extract = {
    .arguments = "[FILE]",
    .max_words = 1,
    .summary = "Run one window and show or save every stage, and the whole text.",
    .details = "Prints shape, mean, standard deviation, minimum, maximum and L2 norm of every stage: mel, encoder, "
               "cross, decoder, candidates. Without FILE, uses built-in synthetic audio.",
    .options = extract_rows,
    .options_size = sizeof(features_options),
    .run = run_extract,
};

const command command_features_compare = {
    .arguments = "FIRST.npz SECOND",
    .min_words = 2,
    .max_words = 2,
    .word_name = "two dumps, or a dump and a recording",
    .summary = "Compare two runs stage by stage; exit status 1 if they differ by more than rounding.",
    .details = "SECOND is a dump, or a recording that is run now with this model and engine, with the decoder forced "
               "over the tokens of FIRST. A dump of openai-whisper comes from 'tests/golden/make/reference.py "
               "features'.",
    .options = compare_rows,
    .options_size = sizeof(features_options),
    .run = run_compare,
};

const command command_features_diverge = {
    .arguments = "FIRST.npz SECOND",
    .min_words = 2,
    .max_words = 2,
    .word_name = "two dumps, or a dump and a recording",
    .summary = "Find the first stage where two runs differ, and what kind of fault it looks like.",
    .details = "Like compare, then walks the stages in order: how the error grows, the first stage that rounding "
               "does not explain, and which wrong computation would give this result. --model allows GEMMs to be "
               "recomputed.",
    .options = compare_rows,
    .options_size = sizeof(features_options),
    .run = run_diverge,
};
