/* cli/transcribe.c - `transcribe`: checks what the files ask for together, then has them done. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "job.h"
#include "log.h"
#include "output_name.h"
#include "recording.h"
#include "trace.h"
#include "transcribe_options.h"

_Static_assert(sizeof(transcribe_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

/* ---- before the first file ------------------------------------------------------------------------------ */

/* What only words with times can do, as openai-whisper's command line refuses it too. */
static int check_words(const transcribe_options *o) {
    const struct {
        const char *name;
        int given;
    } needing[] = {{"highlight-words", o->highlight_words},
                   {"max-line-count", o->max_line_count > 0},
                   {"max-line-width", o->max_line_width > 0},
                   {"max-words-per-line", o->max_words_per_line > 0},
                   {"hallucination-silence-threshold", o->hallucination_silence_threshold != MXW_NONE}};
    for (size_t i = 0; i < sizeof(needing) / sizeof(*needing); i++)
        if (needing[i].given && !o->word_timestamps) {
            log_error("--%s: needs --word-timestamps", needing[i].name);
            return 0;
        }
    if (o->max_line_count && !o->max_line_width)
        log_say(MXW_LOG_WARN, "--max-line-count has no effect without --max-line-width");
    if (o->max_words_per_line && o->max_line_width)
        log_say(MXW_LOG_WARN, "--max-words-per-line has little effect beside --max-line-width");
    return 1;
}

/* Files of several formats need several names. */
static int check_names(const transcribe_options *o) {
    int n = 0;
    for (int i = 0; mxw_format_name(i); i++)
        n += transcribe_wants(o, mxw_format_name(i));
    if (!o->output_dir || n < 2 || output_name_has(o->output_name, "{format}"))
        return 1;
    log_error("--output-name: '%s' would name the files of %d formats alike; put {format} into it", o->output_name, n);
    return 0;
}

static int check_combination(const transcribe_options *o) {
    if (o->format && !o->output_dir && (strchr(o->format, ',') || !strcmp(o->format, "all"))) {
        log_error("--format: '%s' is more than one format, and standard output takes one; add --output-dir DIR",
                  o->format);
        return 0;
    }
    if (o->patience != MXW_NONE && (o->greedy || o->beam_size == 0)) {
        log_error("--patience: belongs to beam search, which %s turns off",
                  o->greedy ? "--greedy" : "--beam-size none");
        return 0;
    }
    return check_words(o) && check_names(o);
}

/* Whether the files of two recordings would have the same names, as far as can be known now. */
static int same_names(const transcribe_options *o, const char *a, const char *b) {
    char name_a[PATH_MAX], name_b[PATH_MAX];
    output_fields fields_a = {a, "", "", ""}, fields_b = {b, "", "", ""};
    return output_name_expand(o->output_name, &fields_a, name_a, sizeof(name_a)) ==
               output_name_expand(o->output_name, &fields_b, name_b, sizeof(name_b)) &&
           !strcmp(name_a, name_b);
}

/* Two recordings must not write the same files, and nothing reads standard input twice. */
static int check_collisions(const transcribe_options *o, char **paths, int n) {
    for (int i = 0; i < n; i++) {
        if (!strcmp(paths[i], "-") && transcribe_splits(o)) {
            log_error("--channel: split reads a recording once for each channel, and standard input comes only once; "
                      "save it to a file");
            return 0;
        }
        for (int j = 0; j < i; j++) {
            if (!strcmp(paths[i], "-") && !strcmp(paths[j], "-")) {
                log_error("standard input (-) is named twice");
                return 0;
            }
            if (o->output_dir && same_names(o, paths[i], paths[j])) {
                log_error("'%s' and '%s' would be written to the same files in %s; rename one or use two folders",
                          paths[j], paths[i], o->output_dir);
                return 0;
            }
        }
    }
    return 1;
}

/* The folder and those above it. */
static int make_folder(const char *path) {
    char partial[PATH_MAX];
    size_t n = strlen(path);
    if (!n || n >= sizeof(partial)) {
        log_error("--output-dir: '%s' cannot be a folder", path);
        return 0;
    }
    memcpy(partial, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (partial[i] != '/' && partial[i])
            continue;
        char kept = partial[i];
        partial[i] = 0;
        struct stat info;
        if (mkdir(partial, 0777) && (errno != EEXIST || stat(partial, &info) || !S_ISDIR(info.st_mode))) {
            log_error("--output-dir: cannot create %s: %s", partial,
                      errno == EEXIST ? "not a folder" : strerror(errno));
            return 0;
        }
        partial[i] = kept;
    }
    return 1;
}

/* ---- the run -------------------------------------------------------------------------------------------- */

static int run(const void *chosen, char **words, int n_words) {
    const transcribe_options *o = chosen;
    if (!check_combination(o) || !check_collisions(o, words, n_words))
        return EXIT_USAGE;
    if (o->output_dir && !make_folder(o->output_dir))
        return EXIT_FAILED;
    if (o->fp16)
        log_say(MXW_LOG_WARN, "--fp16 has no effect: this engine computes in f32");
    if (o->trace && !trace_open(o->trace))
        return EXIT_FAILED;
    int exit_status = job_run(o, words, n_words);
    return trace_close() || exit_status ? exit_status : EXIT_FAILED;
}

const command command_transcribe = {
    .name = "transcribe",
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = INT_MAX,
    .word_name = "an audio or video file",
    .summary = "Turn recordings into text; 'max-whisper FILE...' is the same.",
    .details = "FILE is any audio or video file, or - for standard input. Without --format, segments are printed as "
               "[mm:ss.mmm --> mm:ss.mmm] text when they are found. Nothing is written to disk without --output-dir. "
               "Defaults are in brackets; - and _ are the same in option names.",
    .options = transcribe_rows,
    .options_size = sizeof(transcribe_options),
    .run = run,
};
