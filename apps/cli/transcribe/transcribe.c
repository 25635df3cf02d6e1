/* cli/transcribe/transcribe.c - `transcribe`: checks what the files ask for together, then has them done. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/log.h"
#include "common/trace.h"
#include "transcribe/batch.h"
#include "transcribe/output/output_name.h"
#include "transcribe/output/outputs.h"
#include "transcribe/transcribe_options.h"

_Static_assert(sizeof(transcribe_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

/* ---- before the first file ------------------------------------------------------------------------------ */

/* Options of which one has little or no effect beside the other. */
static void warn_about_lines(const transcribe_options *o) {
    if (o->max_line_count && !o->max_line_width)
        log_say(MXW_LOG_WARN, "--max-line-count has no effect without --max-line-width");
    if (o->max_words_per_line && o->max_line_width)
        log_say(MXW_LOG_WARN, "--max-words-per-line has little effect with --max-line-width");
}

/* Files of several formats need several names. */
static int check_names(const transcribe_options *o) {
    int n = 0;
    for (int i = 0; mxw_format_name(i); i++)
        n += transcribe_wants(o, mxw_format_name(i));
    if (!o->output_dir || n < 2 || output_name_has(o->output_name, "{format}"))
        return 1;
    log_error("--output-name: '%s' gives the files of %d formats the same name; add {format}", o->output_name, n);
    return 0;
}

static int check_combination(const transcribe_options *o) {
    char message[256];
    if (o->format && !o->output_dir && (strchr(o->format, ',') || !strcmp(o->format, "all"))) {
        log_error("--format: '%s' names several formats, but standard output takes one; add --output-dir DIR",
                  o->format);
        return 0;
    }
    if (o->skip_existing && !o->output_dir) {
        log_error("--skip-existing: requires --output-dir DIR, where the results are");
        return 0;
    }
    if (o->skip_existing &&
        (output_name_has(o->output_name, "{model}") || output_name_has(o->output_name, "{language}"))) {
        log_error("--skip-existing: --output-name '%s' is not known in advance; use only {stem} and {format}",
                  o->output_name);
        return 0;
    }
    if (o->resume && o->mel_reference == MXW_MEL_RUNNING) {
        log_error("--resume: live audio (--mel-reference running) cannot be read a second time");
        return 0;
    }
    const char *name = transcribe_conflict(o, message, sizeof(message));
    if (name) {
        log_error("--%s: %s", name, message);
        return 0;
    }
    warn_about_lines(o);
    return check_names(o);
}

static int check_outputs(const transcribe_options *o, const inputs *list) {
    const input *a, *b;
    char path[PATH_MAX];
    int n = outputs_collide(list, !output_name_has(o->output_name, "{stem}"), &a, &b);
    if (n > 0)
        log_error("'%s' and '%s' would write the same files in %s; rename one, or use two folders", a->path, b->path,
                  o->output_dir);
    if (n)
        return 0;
    n = outputs_overwrite(o, list, path, sizeof(path));
    if (n)
        log_error("--output-dir: a result would overwrite the recording %s; choose another folder or --output-name",
                  path);
    return n == 0;
}

/* Two recordings must not write the same files, none may be overwritten, and nothing reads standard input twice. */
static int check_collisions(const transcribe_options *o, const inputs *list) {
    int n_standard = 0;
    for (int i = 0; i < list->n; i++)
        n_standard += !strcmp(list->items[i].path, "-");
    if (n_standard && transcribe_splits(o)) {
        log_error("--channel: split reads the recording once per channel, which standard input does not allow; "
                  "save it to a file first");
        return 0;
    }
    if (n_standard > 1) {
        log_error("standard input (-) is given twice");
        return 0;
    }
    return !o->output_dir || check_outputs(o, list);
}

static int make_folder(const char *path) {
    int made = outputs_make_folder(path);
    if (!made)
        log_error("--output-dir: cannot create %s: %s", path, errno == ENOTDIR ? "not a folder" : strerror(errno));
    return made;
}

/* Takes out those whose results are there. */
static void skip_existing(const transcribe_options *o, inputs *list) {
    int n_skipped = 0, n = list->n;
    for (int i = list->n - 1; i >= 0; i--)
        if (!list->items[i].problem && outputs_exist(o, &list->items[i])) {
            log_say(MXW_LOG_INFO, "%s: skipped, its results exist", list->items[i].path);
            inputs_drop(list, i);
            n_skipped++;
        }
    if (n_skipped)
        log_note("skipped %d of %d files: their results exist", n_skipped, n);
}

/* ---- the run -------------------------------------------------------------------------------------------- */

static int run_list(const transcribe_options *o, inputs *list) {
    int several = list->n > 1;
    if (o->output_dir && !make_folder(o->output_dir))
        return EXIT_FAILED;
    if (o->skip_existing)
        skip_existing(o, list);
    if (o->fp16)
        log_say(MXW_LOG_WARN, "--fp16 has no effect; use --precision f16 on a GPU");
    if (!list->n)
        return EXIT_OK;
    if (o->trace && !trace_open(o->trace))
        return EXIT_FAILED;
    int exit_status = batch_run(o, list, several);
    return trace_close() || exit_status ? exit_status : EXIT_FAILED;
}

static int run(const void *chosen, char **words, int n_words) {
    const transcribe_options *o = chosen;
    inputs list = {0};
    if (!check_combination(o))
        return EXIT_USAGE;
    if (!inputs_expand(&list, words, n_words, o->recursive) || !inputs_identify(&list)) {
        log_error("out of memory: the list of files");
        inputs_free(&list);
        return EXIT_FAILED;
    }
    int exit_status = check_collisions(o, &list) ? run_list(o, &list) : EXIT_USAGE;
    inputs_free(&list);
    return exit_status;
}

const command command_transcribe = {
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = INT_MAX,
    .word_name = "an audio or video file",
    .summary = "Transcribe recordings; 'max-whisper FILE...' does the same.",
    .details = "FILE is any audio or video file, a folder of them, a pattern like '*.mp3', or - for standard input. "
               "Without --format, segments are printed as [mm:ss.mmm --> mm:ss.mmm] text as soon as they are found. "
               "Nothing is written to disk without --output-dir or --resume. Defaults are in brackets; - and _ are "
               "interchangeable in option names.",
    .options = transcribe_rows,
    .options_size = sizeof(transcribe_options),
    .run = run,
};
