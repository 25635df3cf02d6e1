/* cli/bench/baseline.c - `bench --baseline`: this run beside a former one, kept in a file or run again by the former
 * program, and whether it is slower beyond noise.
 *
 * In: a file of JSON lines that --save wrote, of which the last record of the same recording, model, engine, device,
 * threads and machine counts; or a program, which is then run in turn with this one, so that both meet the same noise.
 * Out: a table of ratios with their intervals, and a verdict.
 * Invariants: intervals come from resampling both sides with numbers that are the same every time. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/stdout.h"

enum { RESAMPLES = 4000, LINE_BYTES = 1 << 20 };

/* ---- intervals ------------------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double resampled_median(const double *values, int n, double *room, uint64_t *state) {
    for (int i = 0; i < n; i++)
        room[i] = values[next_random(state) % (uint64_t)n];
    return bench_describe(room, n).median;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bench_ratio bench_compare(const double *now, int n_now, const double *then, int n_then) {
    static double ratios[RESAMPLES], room[BENCH_MAX_RUNS];
    uint64_t state = 1;
    bench_ratio r = {0, 0, 0};
    if (n_now < 1 || n_then < 1)
        return r;
    memcpy(room, then, (size_t)n_then * sizeof(*room));
    double before = bench_describe(room, n_then).median;
    memcpy(room, now, (size_t)n_now * sizeof(*room));
    r.middle = before > 0 ? bench_describe(room, n_now).median / before : 0;
    for (int i = 0; i < RESAMPLES; i++) {
        double divisor = resampled_median(then, n_then, room, &state);
        ratios[i] = divisor > 0 ? resampled_median(now, n_now, room, &state) / divisor : 0;
    }
    qsort(ratios, RESAMPLES, sizeof(*ratios), by_size);
    r.low = ratios[RESAMPLES * 25 / 1000];
    r.high = ratios[RESAMPLES * 975 / 1000];
    return r;
}

/* ---- a former record ------------------------------------------------------------------------------------ */

typedef struct former {
    char version[32], date[32];
    double ms[BENCH_STAGES][BENCH_MAX_RUNS];
    int n;
} former;

static int same_text(const json_t *record, const char *key, const char *value) {
    const char *text = json_string_value(json_object_get(record, key));
    return text && !strcmp(text, value);
}

static int is_same_work(const json_t *record, const bench_record *now, const char *machine) {
    const char *slash = strrchr(now->path, '/');
    return same_text(record, "file", slash ? slash + 1 : now->path) &&
           same_text(record, "model", now->checkpoint.size_name) &&
           same_text(record, "engine", engine_names[now->model.engine]) &&
           same_text(record, "device", now->model.device) &&
           json_integer_value(json_object_get(record, "threads")) == now->model.threads &&
           (!machine || same_text(json_object_get(record, "machine"), "description", machine));
}

static void take_runs(const json_t *record, former *f) {
    const json_t *runs = json_object_get(record, "runs");
    for (size_t i = 0; i < json_array_size(runs) && f->n < BENCH_MAX_RUNS; i++, f->n++)
        for (int stage = 0; stage < BENCH_STAGES; stage++)
            f->ms[stage][f->n] =
                json_number_value(json_object_get(json_array_get(runs, i), bench_stage_name((bench_stage)stage)));
    const char *version = json_string_value(json_object_get(record, "version"));
    const char *date = json_string_value(json_object_get(record, "date"));
    snprintf(f->version, sizeof(f->version), "%s", version ? version : "?");
    snprintf(f->date, sizeof(f->date), "%s", date ? date : "?");
}

/* The last record of the file that is of the same work; a line that is no record is one line of error. */
static int read_former(const char *path, const bench_record *now, const char *machine, former *f) {
    FILE *file = fopen(path, "r");
    char *line = file ? malloc(LINE_BYTES) : NULL;
    int status = EXIT_OK;
    for (int number = 1; line && status == EXIT_OK && fgets(line, LINE_BYTES, file); number++) {
        json_t *record = json_loads(line, 0, NULL);
        if (!json_is_object(record)) {
            log_error("--baseline: line %d of %s was not written by --save", number, path);
            status = EXIT_FAILED;
        } else if (is_same_work(record, now, machine)) {
            f->n = 0;
            take_runs(record, f);
        }
        json_decref(record);
    }
    if (!line)
        log_error("--baseline: cannot read %s: %s", path, strerror(errno));
    else if (status == EXIT_OK && f->n == 0)
        log_error("--baseline: %s has no run of this recording with model %s, engine %s, device %s, %d threads on this "
                  "machine", path, now->checkpoint.size_name, engine_names[now->model.engine], now->model.device,
                  now->model.threads);
    free(line);
    if (file)
        fclose(file);
    return line && status == EXIT_OK && f->n > 0 ? EXIT_OK : EXIT_FAILED;
}

static double median_of(const double *values, int n) {
    static double room[BENCH_MAX_RUNS];
    memcpy(room, values, (size_t)n * sizeof(*room));
    return bench_describe(room, n).median;
}

int bench_history(const char *path, const bench_record *now, bench_past *past, int most) {
    former *f = calloc(1, sizeof(*f));
    FILE *file = f ? fopen(path, "r") : NULL;
    char *line = file ? malloc(LINE_BYTES) : NULL;
    mxw_device_info device = {.struct_size = sizeof(device)};
    int n = 0;
    bench_device_of(now, &device);
    while (line && fgets(line, LINE_BYTES, file)) {
        json_t *record = json_loads(line, 0, NULL);
        f->n = 0;
        if (json_is_object(record) && is_same_work(record, now, device.description))
            take_runs(record, f);
        json_decref(record);
        if (f->n == 0)
            continue;
        if (n == most)
            memmove(past, past + 1, (size_t)--n * sizeof(*past));
        bench_past *p = &past[n++];
        memcpy(p->version, f->version, sizeof(p->version));
        memcpy(p->date, f->date, sizeof(p->date));
        for (int i = 0; i < BENCH_STAGES; i++)
            p->ms[i] = median_of(f->ms[i], f->n);
    }
    free(line);
    if (file)
        fclose(file);
    free(f);
    return n;
}

/* ---- a former program ----------------------------------------------------------------------------------- */

int bench_is_program(const char *path) {
    struct stat s;
    return !stat(path, &s) && S_ISREG(s.st_mode) && !access(path, X_OK);
}

/* One run of the other program; its record is added to `path`. */
int bench_run_other(const bench_options *o, const char *recording, const char *path) {
    char threads[32], beam[32];
    snprintf(threads, sizeof(threads), "%lld", (long long)o->model.threads);
    snprintf(beam, sizeof(beam), "%lld", (long long)o->beam_size);
    const char *words[] = {o->baseline, "bench", "--runs", "1", "--warm-up", "1", "--json", "--quiet", "--save", path,
                           "--language", o->language ? o->language : "none", "--beam-size",
                           o->beam_size ? beam : "none", "--model", o->model.model, "--engine",
                           engine_names[o->model.engine], "--device", o->model.device, "--threads", threads,
                           "--", recording, NULL};
    int status = -1;
    gpu_connection_forget();   /* here, since the child of a process with threads may not change its environment */
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execv(o->baseline, (char *const *)(uintptr_t)words);
        _exit(127);
    }
    gpu_connection_ask();
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return EXIT_OK;
    log_error("--baseline: %s failed", o->baseline);
    return EXIT_FAILED;
}

/* Every record of the file is one run of it. */
static int read_others(const char *path, former *f) {
    FILE *file = fopen(path, "r");
    char *line = file ? malloc(LINE_BYTES) : NULL;
    while (line && fgets(line, LINE_BYTES, file)) {
        json_t *record = json_loads(line, 0, NULL);
        if (record)
            take_runs(record, f);
        json_decref(record);
    }
    free(line);
    if (file)
        fclose(file);
    if (f->n == 0)
        log_error("--baseline: the program wrote no record");
    return f->n ? EXIT_OK : EXIT_FAILED;
}

/* ---- verdict -------------------------------------------------------------------------------------------- */

typedef struct comparison {
    double then[BENCH_STAGES], now[BENCH_STAGES];
    bench_ratio ratios[BENCH_STAGES];
    double allowed;
    int slower;
} comparison;

static comparison compare(const bench_options *o, const bench_record *record, const former *f) {
    static double now[BENCH_MAX_RUNS];
    comparison c = {.allowed = 1 + o->tolerance / 100};
    for (int stage = 0; stage < BENCH_STAGES; stage++) {
        for (int i = 0; i < record->n_runs; i++)
            now[i] = record->runs[i].ms[stage];
        c.ratios[stage] = bench_compare(now, record->n_runs, f->ms[stage], f->n);
        c.then[stage] = median_of(f->ms[stage], f->n);
        c.now[stage] = median_of(now, record->n_runs);
    }
    c.slower = c.ratios[BENCH_TOTAL].low > c.allowed;
    return c;
}

static void print_comparison(const bench_options *o, const former *f, const comparison *c) {
    const bench_ratio *total = &c->ratios[BENCH_TOTAL];
    out_print("\nbeside %s: version %s of %s, %d runs\n", o->baseline, f->version, f->date, f->n);
    out_print("%-7s %10s %10s %8s  %s\n", "stage", "then ms", "now ms", "ratio", "95 % interval");
    for (int i = 0; i < BENCH_STAGES; i++)
        out_print("%-7s %10.1f %10.1f %8.3f  %.3f to %.3f\n", bench_stage_name((bench_stage)i), c->then[i], c->now[i],
                  c->ratios[i].middle, c->ratios[i].low, c->ratios[i].high);
    if (c->slower)
        out_print("slower: %.3f times the time, beyond noise (at least %.3f; %.3f is allowed)\n", total->middle,
                  total->low, c->allowed);
    else
        out_print("not slower beyond noise (%.3f to %.3f times the time; %.3f is allowed)\n", total->low, total->high,
                  c->allowed);
    out_flush();
}

static void write_comparison(const bench_options *o, const former *f, const comparison *c) {
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "baseline", o->baseline);
    json_text(&json, "version", f->version);
    json_text(&json, "date", f->date);
    json_whole(&json, "n_runs", f->n);
    json_number(&json, "allowed", c->allowed, 4);
    json_bool(&json, "slower", c->slower);
    json_begin(&json, "stages");
    for (int i = 0; i < BENCH_STAGES; i++) {
        json_begin(&json, bench_stage_name((bench_stage)i));
        json_number(&json, "then_ms", c->then[i], 4);
        json_number(&json, "now_ms", c->now[i], 4);
        json_number(&json, "ratio", c->ratios[i].middle, 5);
        json_number(&json, "low", c->ratios[i].low, 5);
        json_number(&json, "high", c->ratios[i].high, 5);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
    fflush(stdout);
}

int bench_judge(const bench_options *o, const bench_record *record, const char *others) {
    former *f = calloc(1, sizeof(*f));
    mxw_device_info device = {.struct_size = sizeof(device)};
    if (!f)
        return EXIT_FAILED;
    bench_device_of(record, &device);
    int status = others ? read_others(others, f) : read_former(o->baseline, record, device.description, f);
    if (status == EXIT_OK) {
        comparison c = compare(o, record, f);
        (o->json ? write_comparison : print_comparison)(o, f, &c);
        status = c.slower ? EXIT_FAILED : EXIT_OK;
    }
    free(f);
    return status;
}
