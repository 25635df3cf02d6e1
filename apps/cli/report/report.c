/* cli/report/report.c - `report`: every engine on one recording: accuracy checks, times, words and kernels, as HTML and
 * Markdown with pictures.
 *
 * Out: COMPLETE_RESULTS.md, COMPLETE_RESULTS.html and the pictures, in a folder. Invariants: exit 0 only if all that
 * can run here ran and nothing drifts; the report is written even if not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/log.h"
#include "common/progress.h"
#include "report/report.h"

_Static_assert(sizeof(report_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(report_options, member)

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "output", .letter = 'o', .kind = OPTION_NAME, .fallback = ".", .placeholder = "DIR", .group = "Output",
     AT(output), .help = "Folder for COMPLETE_RESULTS.md, COMPLETE_RESULTS.html and the pictures."},
    {.name = "runs", .letter = 'n', .kind = OPTION_WHOLE, .fallback = "3", .placeholder = "N", .group = "Measuring",
     AT(runs), .low = 1, .high = BENCH_MAX_RUNS, .help = "Timed runs of each engine."},
    {.name = "warm-up", .kind = OPTION_WHOLE, .fallback = "1", .placeholder = "N", .group = "Measuring", AT(warm_up),
     .low = 0, .high = BENCH_MAX_RUNS, .help = "Untimed runs before them."},
    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .fallback = "en", .placeholder = "LANGUAGE",
     .group = "Decoding", AT(language), .none = 1, .check = check_language, .values = language_value,
     .help = "Language spoken; none: detect it in every run."},
    BEAM_ROWS(report_options, beam_size, greedy),
    MODEL_NAME_ROW(report_options, model),
    MODEL_DIR_ROW(report_options, model_dir),
    THREADS_ROW(report_options, threads),
    PRECISION_ROW(report_options, precision),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* Whether the report can be written is better known before everything is measured. */
static int check_folder(const report_options *o) {
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/COMPLETE_RESULTS.md", o->output);
    mkdir(o->output, 0777);
    int fault = n > 0 && (size_t)n < sizeof(path) ? doc_can_save(path) : ENAMETOOLONG;
    if (fault)
        log_error("--output: cannot write into %s: %s", o->output, strerror(fault));
    return !fault;
}

/* What the exit status rests on. */
static int all_well(const report_run *r) {
    mxw_op_check c = {.struct_size = sizeof(c)};
    for (size_t i = 0; r->checks && i < mxw_op_checks_count(r->checks); i++)
        if (mxw_op_checks_get(r->checks, i, &c) >= 0 && !(c.of_bound <= 1))
            return 0;
    for (int i = 0; i < r->n_engines; i++) {
        const report_engine *e = &r->engines[i];
        if (!e->skipped && (e->n_bad || e->why[0] || !report_text_holds(r, e)))
            return 0;
    }
    return 1;
}

static int run(const void *chosen, char **words, int n_words) {
    report_options options = *(const report_options *)chosen;
    report_run *r = calloc(1, sizeof(*r));
    int exit_status = EXIT_FAILED;
    if (!r) {
        log_error("out of memory");
        return EXIT_FAILED;
    }
    options.beam_size = options.greedy ? 0 : options.beam_size;
    r->options = &options;
    r->path = words[0];
    if (check_folder(r->options) && lab_read(r->path, &r->samples)) {
        progress_start(1, NULL, !r->options->common.quiet && progress_possible());
        progress_name(r->path);
        int measured = report_measure(r);
        progress_stop();
        exit_status = measured ? report_write(r) : EXIT_FAILED;
        if (exit_status == EXIT_OK && !all_well(r)) {
            log_error("report: an engine failed or is inaccurate; see COMPLETE_RESULTS.md");
            exit_status = EXIT_FAILED;
        }
    }
    report_free(r);
    return exit_status;
}

const command command_report = {
    .arguments = "FILE",
    .min_words = 1,
    .max_words = 1,
    .word_name = "an audio or video file",
    .summary = "Write a report on every engine, with pictures: accuracy, times, words and kernels.",
    .details = "Runs every engine that can run here on the recording, and writes COMPLETE_RESULTS.md and "
               "COMPLETE_RESULTS.html: text and word times under the log-mel, time per stage, error per layer "
               "against engine cpu and of engine cpu against float64, the attention of the alignment heads, and a "
               "roofline of the kernels. The page is self-contained; pictures need the cairo module. Engines that "
               "cannot run are listed with the reason. The exit status is 0 if every engine is accurate and gave the "
               "same text.",
    .options = rows,
    .options_size = sizeof(report_options),
    .run = run,
};
