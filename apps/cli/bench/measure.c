/* cli/bench/measure.c - the runs of `bench` and `report`: one recording, transcribed repeatedly, every stage timed.
 *
 * Invariants: the samples are in memory before the first run; a window is never decoded twice, so that runs do the same
 * work; the machine's peak is measured by this process before the runs and after them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "common/peak_rss.h"
#include "common/progress.h"

/* ---- one run -------------------------------------------------------------------------------------------- */

void bench_count(const mxw_model *model, bench_counters *counters) {
    const struct {
        mxw_stage stage;
        mxw_stage_counters *counters;
    } all[] = {{MXW_STAGE_ENCODE, &counters->encode},
               {MXW_STAGE_CROSS, &counters->cross},
               {MXW_STAGE_PROMPT, &counters->prompt},
               {MXW_STAGE_STEP, &counters->step}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        *all[i].counters = (mxw_stage_counters){.struct_size = sizeof(mxw_stage_counters)};
        mxw_model_get_counters(model, all[i].stage, all[i].counters);
    }
}

static mxw_stage_counters difference(const mxw_stage_counters *after, const mxw_stage_counters *before) {
    return (mxw_stage_counters){.runs = after->runs - before->runs, .items = after->items - before->items,
                                .cells = after->cells - before->cells, .ms = after->ms - before->ms,
                                .weight_bytes = after->weight_bytes};
}

static bench_counters count_since(const bench_counters *before, const bench_counters *after) {
    return (bench_counters){.encode = difference(&after->encode, &before->encode),
                            .cross = difference(&after->cross, &before->cross),
                            .prompt = difference(&after->prompt, &before->prompt),
                            .step = difference(&after->step, &before->step)};
}

static void fill_run(bench_run *run, const mxw_result *result) {
    run->ms[BENCH_MEL] = result->times->mel_ms;
    run->ms[BENCH_ENCODE] = run->counters.encode.ms;
    run->ms[BENCH_CROSS] = run->counters.cross.ms;
    run->ms[BENCH_PROMPT] = run->counters.prompt.ms;
    run->ms[BENCH_STEP] = run->counters.step.ms;
    run->ms[BENCH_TOTAL] = result->times->total_ms;
    run->ms[BENCH_OTHER] = run->ms[BENCH_TOTAL];
    for (int i = 0; i < BENCH_OTHER; i++)
        run->ms[BENCH_OTHER] -= run->ms[i];
}

/* Text and length of the first run are kept; a run with another text is remembered. */
static void compare_text(bench_record *record, const mxw_result *result) {
    record->audio_s = result->duration_s;
    if (!record->text) {
        record->text = strdup(result->text);
        record->characters = (int64_t)strlen(result->text);
        record->steady = 1;
    } else if (strcmp(record->text, result->text)) {
        record->steady = 0;
    }
}

mxw_status bench_hear(mxw_model *model, const bench_options *o, const lab_samples *s, mxw_session **session) {
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_session_options_default(&options);
    options.language = lab_language(o->language);
    options.beam_size = (int)o->beam_size;
    options.temperature_increment = MXW_NONE;
    mxw_status status = mxw_session_open(model, &options, session);
    if (status >= 0)
        status = mxw_session_feed(*session, s->data, s->n);
    if (status >= 0)
        status = mxw_session_finish(*session);
    while (status == MXW_OK)
        status = mxw_session_next(*session, &segment);
    return status;
}

static mxw_status run_once(mxw_model *model, const bench_options *o, const lab_samples *s, bench_record *record,
                           bench_run *run) {
    mxw_session *session = NULL;
    bench_counters before, after;
    bench_count(model, &before);
    mxw_status status = bench_hear(model, o, s, &session);
    bench_count(model, &after);
    run->counters = count_since(&before, &after);
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result) {
        fill_run(run, result);
        compare_text(record, result);
    }
    mxw_session_close(session);
    return status < 0 ? status : result ? MXW_OK : MXW_E_MEMORY;
}

/* ---- all runs -------------------------------------------------------------------------------------- */

/* The better of what was known and a new measurement: other programs only ever take away. A device that cannot be
 * measured has no peak, and its rates are shown without one. */
static void measure_peak(bench_record *record) {
    mxw_device_peak now = {.struct_size = sizeof(now)}, *peak = &record->peak;
    if (mxw_device_measure(record->model.device, record->model.threads, &now) < 0)
        return;
    peak->gflops = now.gflops > peak->gflops ? now.gflops : peak->gflops;
    peak->read_gbs = now.read_gbs > peak->read_gbs ? now.read_gbs : peak->read_gbs;
    peak->tensor_gflops = now.tensor_gflops > peak->tensor_gflops ? now.tensor_gflops : peak->tensor_gflops;
    peak->int8_gops = now.int8_gops > peak->int8_gops ? now.int8_gops : peak->int8_gops;
}

/* others: where the runs of the program that this one is compared with are kept, in turn with its own; or NULL. */
static mxw_status run_all(mxw_model *model, const bench_options *o, const lab_samples *s, bench_record *record,
                          const char *others) {
    char note[64];
    mxw_status status = MXW_OK;
    int n = (int)(o->warm_up + o->runs);
    for (int i = 0; i < n && status >= 0; i++) {
        bench_run run = {.ms = {0}};
        int number = i - (int)o->warm_up + 1;
        snprintf(note, sizeof(note), number < 1 ? "warm-up" : "run %d of %d", number, (int)o->runs);
        progress_note(note);
        status = run_once(model, o, s, record, &run);
        if (i == 0)
            record->first_ms = run.ms[BENCH_TOTAL];
        if (i >= o->warm_up)
            record->runs[record->n_runs++] = run;
        if (i >= o->warm_up && others && status >= 0 && bench_run_other(o, record->path, others) != EXIT_OK)
            status = MXW_E_ARGUMENT;
    }
    progress_hide();
    return status;
}

/* Bytes of a GPU's memory that are free now; 0: not known, or no GPU. */
static uint64_t free_bytes(const bench_record *record) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && !strcmp(info.id, record->model.device))
            return info.memory_free_bytes;
    return 0;
}

mxw_status bench_measure(mxw_model *model, const bench_options *o, const lab_samples *s, bench_record *record,
                         const char *others) {
    record->model.struct_size = sizeof(record->model);
    mxw_status status = mxw_model_get_info(model, &record->model);
    if (status >= 0) {
        record->checkpoint = *record->model.checkpoint;
        record->dims = *record->checkpoint.dims;
    }
    if (status < 0)
        return status;
    int64_t loaded_kib = memory_peak_kib();
    measure_peak(record);
    memory_forget_peak(); /* the measurement itself takes memory, which is not the model's */
    status = run_all(model, o, s, record, others);
    record->peak_kib = memory_peak_kib();
    if (record->peak_kib < loaded_kib)
        record->peak_kib = loaded_kib;
    uint64_t now = free_bytes(record);
    if (now && now < record->free_before)
        record->gpu_kib = (int64_t)((record->free_before - now) / 1024);
    measure_peak(record);
    return status;
}
