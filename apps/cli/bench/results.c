/* cli/bench/results.c - the runs of `bench` in figures: statistics, work and rates, as a table or as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "common/json_writer.h"
#include "common/stdout.h"

static const struct {
    const char *name, *unit; /* unit: what the stage is counted in; NULL: nothing */
} stages[BENCH_STAGES] = {
    [BENCH_MEL] = {"mel", NULL},        [BENCH_ENCODE] = {"encode", "window"}, [BENCH_CROSS] = {"cross", "window"},
    [BENCH_PROMPT] = {"prompt", "run"}, [BENCH_STEP] = {"step", "step"},       [BENCH_OTHER] = {"other", NULL},
    [BENCH_TOTAL] = {"total", NULL},
};

/* ---- statistics ----------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bench_statistics bench_describe(double *values, int n) {
    bench_statistics s = {0};
    if (n < 1)
        return s;
    qsort(values, (size_t)n, sizeof(*values), ascending);
    s.least = values[0];
    s.median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    for (int i = 0; i < n; i++)
        s.mean += values[i] / n;
    for (int i = 0; i < n; i++)
        s.deviation += (values[i] - s.mean) * (values[i] - s.mean);
    s.deviation = n > 1 ? sqrt(s.deviation / (n - 1)) : 0;
    return s;
}

static bench_statistics stage_statistics(const bench_record *record, bench_stage stage) {
    static double values[BENCH_MAX_RUNS];
    for (int i = 0; i < record->n_runs; i++)
        values[i] = record->runs[i].ms[stage];
    return bench_describe(values, record->n_runs);
}

static const mxw_stage_counters *counters_of(const bench_run *run, bench_stage stage) {
    switch (stage) {
    case BENCH_ENCODE: return &run->counters.encode;
    case BENCH_CROSS: return &run->counters.cross;
    case BENCH_PROMPT: return &run->counters.prompt;
    case BENCH_STEP: return &run->counters.step;
    default: return NULL;
    }
}

int64_t bench_units(const bench_run *run, bench_stage stage) {
    const mxw_stage_counters *counters = counters_of(run, stage);
    if (!counters)
        return 0;
    return stage == BENCH_ENCODE || stage == BENCH_CROSS ? counters->items : counters->runs;
}

/* ---- work ----------------------------------------------------------------------------------------------- */

/* A multiplication with an addition counts as two. */
static double encoder_flops(const mxw_dims *d) {
    double t = d->n_audio_ctx, s = d->n_audio_state, layers = d->n_audio_layer;
    double convolutions = 2 * t * s * 3 * d->n_mels + t * s * 3 * s;
    double products = t * s * s * (4 + 8), attention = 2 * t * t * s;
    return 2 * (convolutions + layers * (products + attention));
}

static double cross_flops(const mxw_dims *d) {
    return 2 * (double)d->n_text_layer * 2 * d->n_audio_ctx * d->n_text_state * d->n_text_state;
}

/* rows: sequences in the step; cells: cached positions that all of them look at. */
static double step_flops(const mxw_dims *d, double rows, double cells) {
    double s = d->n_text_state, layers = d->n_text_layer;
    double row = s * s * (4 + 2 + 8) + 2 * (double)d->n_audio_ctx * s;
    return 2 * (layers * (rows * row + 2 * cells * s) + rows * s * d->n_vocab);
}

/* Every weight once, in the form the engine keeps it in, and the f32 caches: all cross keys and values, however many
 * rows share them, and the cells in use of the others. */
static double step_bytes(const bench_record *record, double cells) {
    const mxw_dims *d = &record->dims;
    double caches = 2 * (double)d->n_text_layer * d->n_text_state * (d->n_audio_ctx + cells);
    return (double)record->runs[0].counters.step.weight_bytes + 4 * caches;
}

bench_work bench_work_of(const bench_record *record, bench_stage stage) {
    const mxw_dims *d = &record->dims;
    mxw_stage_counters step = {0};
    for (int i = 0; i < record->n_runs; i++) {
        step.runs += record->runs[i].counters.step.runs;
        step.items += record->runs[i].counters.step.items;
        step.cells += record->runs[i].counters.step.cells;
    }
    double runs = step.runs ? (double)step.runs : 1;
    switch (stage) {
    case BENCH_ENCODE: return (bench_work){encoder_flops(d), 0};
    case BENCH_CROSS: return (bench_work){cross_flops(d), 0};
    case BENCH_STEP:
        return (bench_work){step_flops(d, (double)step.items / runs, (double)step.cells / runs),
                            step_bytes(record, (double)step.cells / runs)};
    default: return (bench_work){0, 0};
    }
}

/* Median time of one unit, and the rates of the least time: the machine's own are the most it did, so the stage's are
 * taken the same way. */
typedef struct rates {
    double unit_ms, gflops, gbs;
} rates;

static rates rates_of(const bench_record *record, bench_stage stage) {
    static double values[BENCH_MAX_RUNS];
    int n = 0;
    for (int i = 0; i < record->n_runs; i++) {
        int64_t units = bench_units(&record->runs[i], stage);
        if (units > 0)
            values[n++] = record->runs[i].ms[stage] / (double)units;
    }
    bench_work work = bench_work_of(record, stage);
    bench_statistics s = bench_describe(values, n);
    return s.least > 0 ? (rates){s.median, work.flops / s.least / 1e6, work.bytes / s.least / 1e6} : (rates){0, 0, 0};
}

static double sequences_per_step(const bench_record *record) {
    const mxw_stage_counters *counters = &record->runs[0].counters.step;
    return counters->runs ? (double)counters->items / (double)counters->runs : 0;
}

static double bench_cold_ms(const bench_record *record) {
    return record->model.load_ms + record->model.compile_ms + record->first_ms;
}

const char *bench_stage_name(bench_stage stage) { return stages[stage].name; }

/* ---- table ---------------------------------------------------------------------------------------------- */

void bench_device_of(const bench_record *record, mxw_device_info *info) {
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, info) >= 0 && !strcmp(info->id, record->model.device))
            return;
    *info = (mxw_device_info){.struct_size = sizeof(*info), .description = "unknown", .features = ""};
}

/* The roof of a stage's arithmetic: that of tensor cores where engine max has them; engine gpu multiplies in f32. At
 * --precision exact, a product of f32 values is two or more of f16, so that half of this roof is the most. In int8 on a
 * CPU, that of products in 8 bits, although convolutions and attention stay f32; a GPU's products in 8 bits are the
 * encoder's alone, and may exceed the roof of f16. */
static double arithmetic_peak(const bench_record *record) {
    if (record->model.precision == MXW_PRECISION_INT8 && record->peak.int8_gops > 0)
        return record->peak.int8_gops;
    int tensor = record->model.engine == MXW_ENGINE_MAX && record->peak.tensor_gflops > 0;
    return tensor ? record->peak.tensor_gflops : record->peak.gflops;
}

/* "  160.2   78 %" behind what is on the line already; nothing for a rate that is not there. */
static void add_rate(char *line, size_t size, double rate, double peak) {
    size_t used = strlen(line);
    if (rate > 0 && peak > 0)
        snprintf(line + used, size - used, " %9.1f %5.0f %%", rate, 100 * rate / peak);
    else if (rate > 0)
        snprintf(line + used, size - used, " %9.1f %7s", rate, "");
}

static void print_stage(const bench_record *record, bench_stage stage) {
    bench_statistics s = stage_statistics(record, stage);
    rates r = rates_of(record, stage);
    char each[40] = "", spread[40], line[200];
    if (r.unit_ms > 0)
        snprintf(each, sizeof(each), "%.*f / %s", r.unit_ms < 10 ? 3 : 1, r.unit_ms, stages[stage].unit);
    snprintf(spread, sizeof(spread), "%.1f ± %.1f", s.mean, s.deviation);
    snprintf(line, sizeof(line), "%-7s %10.1f %10.1f %18s  %-*s", stages[stage].name, s.median, s.least, spread,
             r.gflops > 0 ? 15 : 0, each);
    add_rate(line, sizeof(line), r.gflops, arithmetic_peak(record));
    add_rate(line, sizeof(line), r.gbs, record->peak.read_gbs);
    size_t n = strlen(line);
    while (n && line[n - 1] == ' ')
        line[--n] = 0;
    out_print("%s\n", line);
}

static void print_head(const bench_record *record) {
    mxw_device_info device = {.struct_size = sizeof(device)};
    bench_device_of(record, &device);
    out_print("max-whisper %s, %s, engine %s on %s, %d threads\n", mxw_version(), record->checkpoint.size_name,
              engine_names[record->model.engine], record->model.device, record->model.threads);
    out_print("%s (%s)\n", device.description, device.features);
    if (record->peak.gflops > 0)
        out_print("measured here: %.1f GFLOP/s in registers, %.1f GB/s read from memory\n", record->peak.gflops,
                  record->peak.read_gbs);
    if (record->peak.tensor_gflops > 0)
        out_print("measured here: %.1f GFLOP/s of f16 on tensor cores\n", record->peak.tensor_gflops);
    if (record->model.precision == MXW_PRECISION_INT8 && record->peak.int8_gops > 0)
        out_print("measured here: %.1f GOP/s of int8 in registers\n", record->peak.int8_gops);
    const bench_counters *counters = &record->runs[0].counters;
    out_print("%s: %.1f s; windows %" PRId64 ", steps %" PRId64 " of %.1f sequences; %" PRId64 " bytes of text, %s\n\n",
              record->path, record->audio_s, counters->encode.items, counters->step.runs, sequences_per_step(record),
              record->characters, record->steady ? "the same in every run" : "NOT the same in every run");
}

void bench_print(const bench_record *record) {
    print_head(record);
    out_print("%-7s %10s %10s %18s  %-15s %9s %7s %9s %7s\n", "stage", "median ms", "least", "mean ± std", "each ms",
              "GFLOP/s", "of peak", "GB/s", "of peak");
    for (int i = 0; i < BENCH_STAGES; i++)
        print_stage(record, (bench_stage)i);
    bench_statistics total = stage_statistics(record, BENCH_TOTAL);
    out_print("\n%.1f times as fast as the recording, of %d runs\n",
              total.median > 0 ? 1000 * record->audio_s / total.median : 0, record->n_runs);
    if (record->cold)
        out_print("cold: load %.1f ms, compile %.1f ms, first run %.1f ms: %.1f ms\n", record->model.load_ms,
                  record->model.compile_ms, record->first_ms, bench_cold_ms(record));
    else
        out_print("the model was warm; first run %.1f ms\n", record->first_ms);
    out_print("warm: median %.1f ms, least %.1f ms\n", total.median, total.least);
    out_print("peak memory %.1f MiB", (double)record->peak_kib / 1024);
    out_print(record->gpu_kib ? "; of the GPU %.1f MiB\n" : "\n", (double)record->gpu_kib / 1024);
    if (record->n_starts) {
        static double values[BENCH_MAX_RUNS];
        memcpy(values, record->starts_ms, (size_t)record->n_starts * sizeof(*values));
        bench_statistics s = bench_describe(values, record->n_starts);
        out_print("process start to the start of the first encoding: median %.1f ms, least %.1f, of %d\n", s.median,
                  s.least, record->n_starts);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static void write_statistics(json_writer *json, const bench_statistics *s) {
    json_number(json, "median_ms", s->median, 4);
    json_number(json, "least_ms", s->least, 4);
    json_number(json, "mean_ms", s->mean, 4);
    json_number(json, "std_ms", s->deviation, 4);
}

static void write_stage(json_writer *json, const bench_record *record, bench_stage stage) {
    bench_statistics s = stage_statistics(record, stage);
    bench_work work = bench_work_of(record, stage);
    rates r = rates_of(record, stage);
    json_begin(json, stages[stage].name);
    write_statistics(json, &s);
    if (stages[stage].unit) {
        json_text(json, "unit", stages[stage].unit);
        json_number(json, "unit_ms", r.unit_ms, 5);
    }
    if (work.flops > 0) {
        json_number(json, "unit_gflop", work.flops / 1e9, 6);
        json_number(json, "gflops", r.gflops, 3);
    }
    if (work.bytes > 0) {
        json_number(json, "unit_mb", work.bytes / 1e6, 4);
        json_number(json, "gbs", r.gbs, 3);
    }
    json_end(json);
}

static void write_run(json_writer *json, const bench_run *run) {
    json_begin(json, NULL);
    for (int i = 0; i < BENCH_STAGES; i++)
        json_number(json, stages[i].name, run->ms[i], 4);
    json_whole(json, "windows", run->counters.encode.items);
    json_whole(json, "steps", run->counters.step.runs);
    json_whole(json, "rows", run->counters.step.items);
    json_end(json);
}

static void write_machine(json_writer *json, const bench_record *record) {
    mxw_device_info device = {.struct_size = sizeof(device)};
    bench_device_of(record, &device);
    json_begin(json, "machine");
    json_text(json, "description", device.description);
    json_text(json, "features", device.features);
    json_whole(json, "cores", device.cores);
    json_number(json, "peak_gflops", record->peak.gflops, 2);
    json_number(json, "peak_read_gbs", record->peak.read_gbs, 2);
    if (record->peak.tensor_gflops > 0)
        json_number(json, "peak_tensor_gflops", record->peak.tensor_gflops, 2);
    if (record->peak.int8_gops > 0)
        json_number(json, "peak_int8_gops", record->peak.int8_gops, 2);
    json_end(json);
}

static void write_starts(json_writer *json, const bench_record *record) {
    static double values[BENCH_MAX_RUNS];
    memcpy(values, record->starts_ms, (size_t)record->n_starts * sizeof(*values));
    bench_statistics s = bench_describe(values, record->n_starts);
    json_begin(json, "start");
    write_statistics(json, &s);
    json_whole(json, "n", record->n_starts);
    json_end(json);
}

void bench_write(const bench_record *record, FILE *file) {
    char date[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    const char *slash = strrchr(record->path, '/');
    json_writer json;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_start(&json, file, 0);
    json_begin(&json, NULL);
    json_text(&json, "version", mxw_version());
    json_text(&json, "date", date);
    json_text(&json, "file", slash ? slash + 1 : record->path);
    json_number(&json, "audio_s", record->audio_s, 3);
    json_text(&json, "model", record->checkpoint.size_name);
    json_text(&json, "engine", engine_names[record->model.engine]);
    json_text(&json, "device", record->model.device);
    json_text(&json, "precision", precision_names[record->model.precision]);
    json_whole(&json, "threads", record->model.threads);
    write_machine(&json, record);
    json_number(&json, "load_ms", record->model.load_ms, 3);
    json_number(&json, "compile_ms", record->model.compile_ms, 3);
    json_number(&json, "first_run_ms", record->first_ms, 3);
    if (record->cold)
        json_number(&json, "cold_ms", bench_cold_ms(record), 3);
    json_whole(&json, "peak_memory_kib", record->peak_kib);
    if (record->gpu_kib)
        json_whole(&json, "peak_gpu_memory_kib", record->gpu_kib);
    json_bool(&json, "same_text", record->steady);
    json_begin(&json, "stages");
    for (int i = 0; i < BENCH_STAGES; i++)
        write_stage(&json, record, (bench_stage)i);
    json_end(&json);
    if (record->n_starts)
        write_starts(&json, record);
    json_list(&json, "runs");
    for (int i = 0; i < record->n_runs; i++)
        write_run(&json, &record->runs[i]);
    json_end(&json);
    json_end(&json);
    fflush(file);
}
