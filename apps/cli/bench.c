/* cli/bench.c - `bench`: times the stages of a transcription, run after run, beside what the machine can do.
 *
 * What holds: the model stays open and the samples are in memory before the first run; a window is never decoded twice,
 * so that runs do the same work; the machine's peak is measured by this process before the runs and after them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "log.h"
#include "memory.h"
#include "out.h"
#include "progress.h"

_Static_assert(sizeof(bench_options) <= MAX_OPTIONS_BYTES, "options fit where main keeps them");

#define AT(member) .target = offsetof(bench_options, member)

/* A table reads by rows. */
/* clang-format off */
static const option_row rows[] = {
    {.name = "runs", .letter = 'n', .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", .group = "Measuring",
     AT(runs), .low = 1, .high = BENCH_MAX_RUNS, .help = "Timed runs."},
    {.name = "warm-up", .kind = OPTION_WHOLE, .fallback = "1", .placeholder = "N", .group = "Measuring", AT(warm_up),
     .low = 0, .high = BENCH_MAX_RUNS, .help = "Runs before them that do not count."},
    {.name = "starts", .kind = OPTION_WHOLE, .fallback = "0", .placeholder = "N", .group = "Measuring", AT(starts),
     .low = 0, .high = BENCH_MAX_RUNS,
     .help = "Also start the program N times: from process start to the start of the first encoding."},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "False", .group = "Output", AT(json),
     .help = "A JSON object on a line for each file, with every run, instead of tables."},
    {.name = "save", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Output", AT(save),
     .help = "Append the JSON lines to a file as well."},
    {.name = "baseline", .kind = OPTION_NAME, .placeholder = "PATH", .group = "Comparing", AT(baseline),
     .help = "Compare with a former run: a file that --save wrote, or another max-whisper program, which is then run "
             "in turn with this one. Exit status 1 if this one is slower beyond noise."},
    {.name = "tolerance", .kind = OPTION_NUMBER, .fallback = "2", .placeholder = "PERCENT", .group = "Comparing",
     AT(tolerance), .low = 0, .high = 1000, .help = "How much slower is still not a regression."},
    {.name = "language", .letter = 'l', .kind = OPTION_TEXT, .fallback = "en", .placeholder = "LANGUAGE",
     .group = "Decoding", AT(language), .none = 1, .check = check_language,
     .help = "Language spoken; none: detected, once more in every run."},
    {.name = "beam-size", .kind = OPTION_WHOLE, .fallback = "5", .placeholder = "N", .group = "Decoding", AT(beam_size),
     .low = 1, .high = 100, .none = 1, .none_value = 0, .help = "Sequences of the beam search; none: greedy."},
    MODEL_ROWS(bench_options, model),
    COMMON_ROWS,
    {.name = NULL},
};
/* clang-format on */

typedef struct samples {
    float *data;
    size_t n, capacity;
} samples;

static mxw_status read_samples(const char *path, samples *s) {
    mxw_audio_options options;
    mxw_audio *audio = NULL;
    size_t got = 1;
    mxw_audio_options_default(&options);
    options.path = path;
    mxw_status status = mxw_audio_open(&options, &audio);
    for (s->n = 0; status >= 0 && got; s->n += got) {
        if (s->n + MXW_SAMPLE_RATE > s->capacity) {
            size_t capacity = 2 * s->capacity + 60 * (size_t)MXW_SAMPLE_RATE;
            float *data = realloc(s->data, capacity * sizeof(*data));
            if (!data) {
                mxw_audio_close(audio);
                return MXW_E_MEMORY;
            }
            s->data = data;
            s->capacity = capacity;
        }
        status = mxw_audio_read(audio, s->data + s->n, MXW_SAMPLE_RATE, &got);
    }
    mxw_audio_close(audio);
    return status;
}

/* ---- one run -------------------------------------------------------------------------------------------- */

static mxw_stage_use difference(mxw_stage_use after, mxw_stage_use before) {
    return (mxw_stage_use){after.runs - before.runs, after.items - before.items, after.cells - before.cells,
                           after.ms - before.ms};
}

static mxw_model_use use_since(const mxw_model_use *before, const mxw_model_use *after) {
    mxw_model_use use = {.struct_size = sizeof(use)};
    use.encode = difference(after->encode, before->encode);
    use.cross = difference(after->cross, before->cross);
    use.prompt = difference(after->prompt, before->prompt);
    use.step = difference(after->step, before->step);
    return use;
}

static void fill_run(bench_run *run, const mxw_result *result) {
    run->ms[BENCH_MEL] = result->times.mel_ms;
    run->ms[BENCH_ENCODE] = run->use.encode.ms;
    run->ms[BENCH_CROSS] = run->use.cross.ms;
    run->ms[BENCH_PROMPT] = run->use.prompt.ms;
    run->ms[BENCH_STEP] = run->use.step.ms;
    run->ms[BENCH_TOTAL] = result->times.total_ms;
    run->ms[BENCH_OTHER] = run->ms[BENCH_TOTAL];
    for (int i = 0; i < BENCH_OTHER; i++)
        run->ms[BENCH_OTHER] -= run->ms[i];
}

/* Text and length of the first run are kept; a run with another text is remembered. */
static void compare_text(bench_record *record, char **text, const mxw_result *result) {
    record->audio_s = result->duration_s;
    if (!*text) {
        *text = strdup(result->text);
        record->characters = (int64_t)strlen(result->text);
        record->steady = 1;
    } else if (strcmp(*text, result->text)) {
        record->steady = 0;
    }
}

static mxw_status run_once(mxw_model *model, const bench_options *o, const samples *s, bench_record *record,
                           char **text, bench_run *run) {
    mxw_session_options options;
    mxw_session *session = NULL;
    const mxw_segment *segment;
    mxw_model_use before = {.struct_size = sizeof(before)}, after = before;
    mxw_session_options_default(&options);
    options.language = o->language && strcmp(o->language, "auto") ? o->language : NULL;
    options.beam_size = (int)o->beam_size;
    options.temperature_increment = MXW_NONE;
    mxw_model_get_use(model, &before);
    mxw_status status = mxw_session_open(model, &options, &session);
    if (status >= 0)
        status = mxw_session_feed(session, s->data, s->n);
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status == MXW_OK)
        status = mxw_session_next(session, &segment);
    mxw_model_get_use(model, &after);
    run->use = use_since(&before, &after);
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result) {
        fill_run(run, result);
        compare_text(record, text, result);
    }
    mxw_session_close(session);
    return status < 0 ? status : result ? MXW_OK : MXW_E_MEMORY;
}

/* ---- one recording -------------------------------------------------------------------------------------- */

/* The better of what was known and a new measurement: other programs only ever take away. */
static void measure_peak(bench_record *record) {
    mxw_device_peak now = {.struct_size = sizeof(now)};
    if (strcmp(record->model.device, "cpu") || mxw_device_measure("cpu", record->model.threads, &now) < 0)
        return;
    if (now.gflops > record->peak.gflops)
        record->peak.gflops = now.gflops;
    if (now.read_gbs > record->peak.read_gbs)
        record->peak.read_gbs = now.read_gbs;
}

/* others: where the runs of the program that this one is compared with are kept, in turn with its own; or NULL. */
static mxw_status run_all(mxw_model *model, const bench_options *o, const samples *s, bench_record *record,
                          const char *others) {
    char *text = NULL, note[64];
    mxw_status status = MXW_OK;
    int n = (int)(o->warm_up + o->runs);
    for (int i = 0; i < n && status >= 0; i++) {
        bench_run run = {.ms = {0}};
        int number = i - (int)o->warm_up + 1;
        snprintf(note, sizeof(note), number < 1 ? "warm-up" : "run %d of %d", number, (int)o->runs);
        progress_note(note);
        status = run_once(model, o, s, record, &text, &run);
        if (i == 0)
            record->first_ms = run.ms[BENCH_TOTAL];
        if (i >= o->warm_up)
            record->runs[record->n_runs++] = run;
        if (i >= o->warm_up && others && status >= 0 && bench_run_other(o, record->path, others) != EXIT_OK)
            status = MXW_E_ARGUMENT;
    }
    progress_hide();
    free(text);
    return status;
}

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
        log_error("--baseline: cannot make %s", path);
        return EXIT_FAILED;
    }
    close(file);
    return EXIT_OK;
}

static mxw_status measure(mxw_model *model, const bench_options *o, samples *s, bench_record *record,
                          const char *others) {
    mxw_status status = read_samples(record->path, s);
    if (status >= 0)
        status = mxw_model_get_info(model, &record->model);
    if (status < 0)
        return status;
    int64_t loaded_kib = memory_peak_kib();
    measure_peak(record);
    memory_forget_peak(); /* the measurement itself takes memory, which is not the model's */
    status = run_all(model, o, s, record, others);
    record->peak_kib = memory_peak_kib();
    if (record->peak_kib < loaded_kib)
        record->peak_kib = loaded_kib;
    measure_peak(record);
    return status;
}

static int bench_file(mxw_model *model, const bench_options *o, const char *path, samples *s, bench_record *record) {
    char others[512];
    memset(record, 0, sizeof(*record));
    record->path = path;
    if (open_others(o, others, sizeof(others)) != EXIT_OK)
        return EXIT_FAILED;
    progress_start(1, NULL, !o->common.quiet && progress_possible());
    progress_name(path);
    mxw_status status = measure(model, o, s, record, others[0] ? others : NULL);
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
        if (exit_status == EXIT_OK && o->baseline)
            exit_status = bench_judge(o, record, others[0] ? others : NULL);
    }
    if (others[0])
        unlink(others);
    return exit_status;
}

static int run(const void *chosen, char **words, int n_words) {
    const bench_options *o = chosen;
    mxw_model *model = NULL;
    samples s = {0};
    bench_record *record = malloc(sizeof(*record));
    int exit_status = record ? open_model(&o->model, 1, &model) : EXIT_FAILED;
    for (int i = 0; i < n_words && exit_status == EXIT_OK; i++) {
        if (i && !o->json)
            out_text("\n");
        exit_status = bench_file(model, o, words[i], &s, record);
    }
    free(s.data);
    free(record);
    mxw_model_close(model);
    return exit_status;
}

const command command_bench = {
    .name = "bench",
    .arguments = "FILE...",
    .min_words = 1,
    .max_words = 1000,
    .word_name = "an audio or video file",
    .summary = "Time the stages of a transcription, beside what the machine can do at most.",
    .details = "Samples are read and the model is opened first; then each run transcribes the file anew, without "
               "temperature fallback. The encoder and each step of the decoder are also shown as a rate: of arithmetic "
               "and of bytes that must be read from memory, beside the machine's own, measured here.",
    .options = rows,
    .options_size = sizeof(bench_options),
    .run = run,
};
