/* cli/bench/bench.c - `bench`: times the stages of a transcription, run after run, and compares them with the machine's
 * peak; with --batch, also all recordings together.
 *
 * Invariants: the model stays open between runs; a picture or a file that cannot be written fails before the first
 * measurement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "common/log.h"
#include "common/progress.h"
#include "common/stdout.h"

_Static_assert(sizeof(bench_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(bench_options, member)

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "runs", .letter = 'n', .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", .group = "Measuring",
     AT(runs), .low = 1, .high = BENCH_MAX_RUNS, .help = "Timed runs."},
    {.name = "warm-up", .kind = OPTION_WHOLE, .fallback = "1", .placeholder = "N", .group = "Measuring", AT(warm_up),
     .low = 0, .high = BENCH_MAX_RUNS, .help = "Untimed runs before them."},
    {.name = "starts", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Measuring", AT(starts),
     .low = 0, .high = BENCH_MAX_RUNS,
     .help = "Also start the program N times, and time it from process start to the first encoder run."},
    {.name = "batch", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Measuring", AT(batch),
     .low = 0, .high = 256,
     .help = "Also transcribe all files together, N at a time, for the throughput."},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "False", .group = "Output", AT(json),
     .help = "One JSON line per file, with every run, instead of tables."},
    {.name = "save", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Output", AT(save),
     .help = "Also append the JSON lines to a file."},
    {.name = "plot", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Output", AT(plot), .check = bench_check_plot,
     .help = "Draw the stages of every run as PATH.svg, .png or .pdf; with --save, also those of earlier runs in that "
             "file."},
    {.name = "baseline", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Comparing", AT(baseline),
     .help = "Compare with an earlier run: a file from --save, or another max-whisper program, which then runs "
             "alternately with this one. Exit status 1 if this one is significantly slower."},
    {.name = "tolerance", .kind = OPTION_NUMBER, .fallback = "2", .placeholder = "PERCENT", .group = "Comparing",
     AT(tolerance), .low = 0, .high = 1000, .help = "Slowdown in percent that is not yet a regression."},
    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .fallback = "en", .placeholder = "LANGUAGE",
     .group = "Decoding", AT(language), .none = 1, .check = check_language, .values = language_value,
     .help = "Language spoken; none: detect it in every run."},
    BEAM_ROWS(bench_options, beam_size, greedy),
    MODEL_ROWS(bench_options, model),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

/* ---- one recording -------------------------------------------------------------------------------------- */

static int report(const bench_options *o, const bench_record *record) {
    if (o->json) {
        bench_write(record, stdout);
    } else {
        bench_print(record);
        out_flush();
    }
    FILE *file = o->save ? fopen(o->save, "a") : NULL;
    if (!o->save)
        return EXIT_OK;
    if (file)
        bench_write(record, file);
    if (!file || fclose(file)) {
        log_error("--save: cannot write %s", o->save);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

/* A file for the other program's records, if there is one to compare with. */
static int open_others(const bench_options *o, char *path, size_t size) {
    const char *folder = getenv("TMPDIR");
    path[0] = 0;
    if (!o->baseline || !bench_is_program(o->baseline))
        return EXIT_OK;
    snprintf(path, size, "%s/max-whisper-bench-XXXXXX", folder && folder[0] ? folder : "/tmp");
    int file = mkstemp(path);
    if (file < 0) {
        log_error("--baseline: cannot create %s", path);
        return EXIT_FAILED;
    }
    close(file);
    return EXIT_OK;
}

/* record: model and path are known; the text is freed. */
static int bench_file(mxw_model *model, const bench_options *o, const lab_samples *s, bench_record *record,
                      bench_plot *plot) {
    char others[512];
    const char *path = record->path;
    if (open_others(o, others, sizeof(others)) != EXIT_OK)
        return EXIT_FAILED;
    progress_start(1, NULL, !o->common.quiet && progress_possible());
    progress_name(path);
    mxw_status status = bench_measure(model, o, s, record, others[0] ? others : NULL);
    progress_stop();
    int exit_status = EXIT_FAILED;
    if (status < 0) {
        if (!others[0] || status != MXW_E_ARGUMENT) /* else it was said */
            log_failure(path, status);
    } else {
        record->n_starts = (int)o->starts;
        exit_status = bench_start(o, path, record->starts_ms, record->n_starts);
        if (exit_status == EXIT_OK)
            exit_status = report(o, record);
        if (exit_status == EXIT_OK && plot)
            bench_plot_add(plot, o, record);
        if (exit_status == EXIT_OK && o->baseline)
            exit_status = bench_judge(o, record, others[0] ? others : NULL);
    }
    if (others[0])
        unlink(others);
    free(record->text);
    record->text = NULL;
    return exit_status;
}

/* Every file by itself; the samples of all stay in memory if they are to be transcribed together as well. */
static int bench_files(mxw_model *model, const bench_options *o, char **words, int n_words, lab_samples *samples,
                       bench_plot *plot) {
    bench_record *record = malloc(sizeof(*record));
    uint64_t free_before = o->free_before;
    int exit_status = record ? EXIT_OK : EXIT_FAILED;
    if (!record)
        log_error("out of memory");
    for (int i = 0; i < n_words && exit_status == EXIT_OK; i++) {
        if (i && !o->json)
            out_text("\n");
        memset(record, 0, sizeof(*record));
        record->path = words[i];
        record->cold = i == 0;
        record->free_before = free_before;
        exit_status = lab_read(words[i], &samples[i]) ? bench_file(model, o, &samples[i], record, plot) : EXIT_FAILED;
        if (!o->batch) {
            free(samples[i].data);
            samples[i].data = NULL;
        }
    }
    free(record);
    return exit_status;
}

/* Of the GPU that will be used, if it is one: what is free before the model is there. */
static uint64_t free_on_gpu(void) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && !strcmp(info.kind, "cuda") && info.usable)
            return info.memory_free_bytes;
    return 0;
}

static int run(const void *chosen, char **words, int n_words) {
    bench_options options = *(const bench_options *)chosen, *o = &options;
    mxw_model *model = NULL;
    bench_plot *plot = NULL;
    o->beam_size = o->greedy ? 0 : o->beam_size;
    lab_samples *samples = calloc((size_t)n_words, sizeof(*samples));
    int exit_status = samples ? EXIT_OK : EXIT_FAILED;
    if (exit_status == EXIT_OK && o->plot)
        exit_status = bench_plot_open(o, &plot);
    o->free_before = strcmp(o->model.device, "cpu") && o->model.engine != MXW_ENGINE_CPU ? free_on_gpu() : 0;
    if (exit_status == EXIT_OK)
        exit_status = open_model(&o->model, 1, &model);
    if (exit_status == EXIT_OK)
        exit_status = bench_files(model, o, words, n_words, samples, plot);
    mxw_model_close(model);
    if (exit_status == EXIT_OK && o->batch)
        exit_status = bench_together(o, samples, n_words);
    if (exit_status == EXIT_OK && plot)
        exit_status = bench_plot_save(plot, o);
    for (int i = 0; samples && i < n_words; i++)
        free(samples[i].data);
    free(samples);
    bench_plot_close(plot);
    return exit_status;
}

const command command_bench = {
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = 1000,
    .word_name = "an audio or video file",
    .summary = "Time each stage of a transcription, and compare it with the peak of the device.",
    .details = "Times the log-mel, the encoder, the cross keys and values, the prompt, and each decoder step: "
               "median, minimum, mean and standard deviation over the runs, without temperature fallback. The audio "
               "is read and the model is loaded first; cold is the time to load, compile and run once. Encoder and "
               "decoder steps are also shown as arithmetic and memory read rates of the fastest run, next to the "
               "peak that is measured on the same device. With --baseline, ratios of medians are shown with 95 % "
               "bootstrap intervals; the exit status is 1 if the interval of the total lies above --tolerance.",
    .options = rows,
    .options_size = sizeof(bench_options),
    .run = run,
};
