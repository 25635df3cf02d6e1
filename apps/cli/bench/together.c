/* cli/bench/together.c - `bench --batch`: all recordings at once, so many at a time, run after run.
 *
 * Invariants: a recording goes to the next free worker, in the order of the command line; the model is opened again
 * for so many sessions, and samples are in memory before the clock starts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/bench.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/peak_rss.h"
#include "common/stdout.h"

typedef struct together {
    const bench_options *options;
    mxw_model *model;
    const lab_samples *samples;
    int n;
    atomic_int next;
    atomic_int failed; /* mxw_status of the first failure, ... */
    char why[1024];    /* ... and its line */
} together;

static void *work(void *user) {
    together *t = user;
    for (int i = atomic_fetch_add(&t->next, 1); i < t->n; i = atomic_fetch_add(&t->next, 1)) {
        mxw_session *session = NULL;
        mxw_status status = bench_hear(t->model, t->options, &t->samples[i], &session);
        int none = 0;
        if (status < 0 && atomic_compare_exchange_strong(&t->failed, &none, status))
            snprintf(t->why, sizeof(t->why), "%s", mxw_last_error());
        mxw_session_close(session);
    }
    return NULL;
}

/* Milliseconds for all of them; negative after a line. */
static double run_once(together *t) {
    pthread_t threads[256];
    struct timespec start, end;
    int n_threads = 0, wanted = t->options->batch < t->n ? (int)t->options->batch : t->n;
    atomic_store(&t->next, 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (n_threads < wanted && !pthread_create(&threads[n_threads], NULL, work, t))
        n_threads++;
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (n_threads == 0 || atomic_load(&t->failed) < 0) {
        log_error("--batch: %s", n_threads ? t->why : "cannot start a thread");
        return -1;
    }
    return 1e3 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
}

static int tell(const bench_options *o, double *ms, const together *t, FILE *file) {
    double audio_s = 0;
    for (int i = 0; i < t->n; i++)
        audio_s += (double)t->samples[i].n / MXW_SAMPLE_RATE;
    bench_statistics s = bench_describe(ms, (int)o->runs);
    json_writer json;
    if (!file) {
        out_print("\n%d files together, %d at a time: %.1f s of sound\n", t->n, (int)o->batch, audio_s);
        out_print("median %.1f ms, least %.1f, mean %.1f ± %.1f, of %d runs: %.1f times as fast as the recordings\n",
                  s.median, s.least, s.mean, s.deviation, (int)o->runs, s.median > 0 ? 1000 * audio_s / s.median : 0);
        out_print("peak memory %.1f MiB\n", (double)memory_peak_kib() / 1024);
        return out_flush() ? EXIT_FAILED : EXIT_OK;
    }
    json_start(&json, file, 0);
    json_begin(&json, NULL);
    json_whole(&json, "together", t->n);
    json_whole(&json, "batch", o->batch);
    json_number(&json, "audio_s", audio_s, 3);
    json_number(&json, "median_ms", s.median, 4);
    json_number(&json, "least_ms", s.least, 4);
    json_number(&json, "mean_ms", s.mean, 4);
    json_number(&json, "std_ms", s.deviation, 4);
    json_whole(&json, "n_runs", o->runs);
    json_whole(&json, "peak_memory_kib", memory_peak_kib());
    json_end(&json);
    return fflush(file) ? EXIT_FAILED : EXIT_OK;
}

int bench_together(const bench_options *o, const lab_samples *samples, int n) {
    static double ms[BENCH_MAX_RUNS];
    together t = {.options = o, .samples = samples, .n = n};
    memory_forget_peak();
    int exit_status = open_model(&o->model, (int)o->batch, &t.model);
    for (int64_t i = -o->warm_up; i < o->runs && exit_status == EXIT_OK; i++) {
        double took = run_once(&t);
        if (took < 0)
            exit_status = EXIT_FAILED;
        else if (i >= 0)
            ms[i] = took;
    }
    if (exit_status == EXIT_OK)
        exit_status = tell(o, ms, &t, o->json ? stdout : NULL);
    mxw_model_close(t.model);
    return exit_status;
}
