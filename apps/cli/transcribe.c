/* cli/transcribe.c - `transcribe`: checks what the files ask for together, then has them done. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "job.h"
#include "log.h"
#include "recording.h"
#include "trace.h"
#include "transcribe_options.h"

_Static_assert(sizeof(transcribe_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

/* ---- before the first file ------------------------------------------------------------------------------ */

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
    return 1;
}

static int same_stem(const char *a, const char *b) {
    size_t n, m;
    const char *stem_a = recording_stem(a, &n), *stem_b = recording_stem(b, &m);
    return n == m && !memcmp(stem_a, stem_b, n);
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
            if (o->output_dir && same_stem(paths[i], paths[j])) {
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
