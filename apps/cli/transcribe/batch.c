/* cli/transcribe/batch.c - threads that each take the next recording of the list, until it is empty. */
#include "transcribe/batch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/progress.h"
#include "common/stdout.h"
#include "transcribe/interrupt.h"
#include "transcribe/recording.h"

/* How many recordings at once, unless told: on a processor, enough for steps to be worth sharing without much memory;
 * an accelerator is idle until many do. */
enum { BATCH_CPU = 4, BATCH_ACCELERATOR = 32, FEW_THREADS = 3, MOST = 256 };

typedef struct job {
    recording_batch batch;
    int n;
    pthread_mutex_t lock;
    int next, n_running, n_done, n_failed;
    char **failures; /* [n] why each failed that did */
} job;

/* ---- workers -------------------------------------------------------------------------------------------- */

static void *work(void *argument) {
    job *j = argument;
    recording_end end = RECORDING_DONE;
    pthread_mutex_lock(&j->lock);
    while (j->next < j->n && end != RECORDING_STOP && !j->batch.stopped && !interrupt_signal()) {
        int place = j->next++;
        pthread_mutex_unlock(&j->lock);
        end = recording_transcribe(&j->batch, place, &j->batch.list->items[place], &j->failures[place]);
        pthread_mutex_lock(&j->lock);
        j->n_done += end == RECORDING_DONE;
        j->n_failed += end == RECORDING_FAILED;
    }
    j->n_running--;
    pthread_mutex_unlock(&j->lock);
    interrupt_wake();
    return NULL;
}

/* Whether all that still runs is a recording that waits for standard input, which a signal cannot end. */
static int is_stuck(job *j) {
    pthread_mutex_lock(&j->lock);
    int stuck = interrupt_signal() && j->n_running == 1 && interrupt_waits_for_input();
    pthread_mutex_unlock(&j->lock);
    return stuck;
}

static int n_running(job *j) {
    pthread_mutex_lock(&j->lock);
    int n = j->n_running;
    pthread_mutex_unlock(&j->lock);
    return n;
}

static void wait_for_workers(job *j) {
    while (n_running(j) > 0) {
        interrupt_wait();
        if (is_stuck(j)) {
            ordered_finish(j->batch.output);
            progress_stop();
            out_flush();
            _exit(128 + interrupt_signal());
        }
    }
}

/* As many threads as can be had; this one works itself where there would be one. */
static void run_workers(job *j, int n_workers) {
    pthread_t *threads = n_workers > 1 ? calloc((size_t)n_workers, sizeof(*threads)) : NULL;
    int n_started = 0;
    interrupt_use_workers(threads != NULL);
    j->n_running = threads ? n_workers : 1;
    while (threads && n_started < n_workers && !pthread_create(&threads[n_started], NULL, work, j))
        n_started++;
    if (threads && n_started) {
        pthread_mutex_lock(&j->lock);
        j->n_running -= n_workers - n_started;
        pthread_mutex_unlock(&j->lock);
        wait_for_workers(j);
        for (int i = 0; i < n_started; i++)
            pthread_join(threads[i], NULL);
    } else {
        interrupt_use_workers(0);
        work(j);
    }
    free(threads);
}

/* ---- the job -------------------------------------------------------------------------------------------- */

static int device_batch(const transcribe_options *o) {
    return model_uses_accelerator(&o->model) ? BATCH_ACCELERATOR : BATCH_CPU;
}

/* Few cores are kept busy by one session: on two, four take 6 % less processor time and 120 MB more. */
static int is_small(const transcribe_options *o) {
    int64_t threads = o->model.threads > 0 ? o->model.threads : sysconf(_SC_NPROCESSORS_ONLN);
    return !model_uses_accelerator(&o->model) && threads <= FEW_THREADS;
}

/* How many of n sessions at once. */
static int choose_batch(const transcribe_options *o, int n) {
    int64_t batch = o->batch;
    if (n > 1 && batch <= 0)
        batch = is_small(o) ? 1 : device_batch(o);
    return batch <= 0 || n < batch ? n : (int)batch;
}

/* With --parallel a session keeps the device busy by itself: a second one is there to read its audio meanwhile. */
static int choose_lanes(const transcribe_options *o, int n, int *sessions) {
    int most = device_batch(o), lanes = (int)o->parallel;
    *sessions = o->batch > 0 ? (int)o->batch : lanes < 0 ? 2 : most / lanes > 2 ? most / lanes : 2;
    *sessions = n < *sessions ? n : *sessions;
    if (lanes < 0)
        lanes = most / *sessions > 1 ? most / *sessions : 1;
    if (*sessions > MOST / lanes)
        *sessions = MOST / lanes;
    return lanes;
}

/* Recordings at once. A split one is taken to have two channels, as nearly all have: they go side by side, and so do as
 * many recordings as that leaves room for. */
static int share_out(job *j, const transcribe_options *o) {
    int n_each = transcribe_splits(o) ? 2 : 1, n = j->n < INT_MAX / 2 ? n_each * j->n : j->n;
    if (o->parallel)
        j->batch.lanes = choose_lanes(o, n, &j->batch.batch);
    else
        j->batch.batch = choose_batch(o, n);
    j->batch.channels = j->batch.batch < n_each ? j->batch.batch : n_each;
    return j->batch.batch / j->batch.channels;
}

/* One bar for all of them; a file's size stands for its duration. 1: messages for a person are wanted. */
static int start_progress(const transcribe_options *o, const inputs *list) {
    int wanted = !o->common.quiet && o->verbose >= 0 && progress_possible();
    double *sizes = wanted ? calloc((size_t)list->n, sizeof(*sizes)) : NULL;
    for (int i = 0; sizes && i < list->n; i++) {
        struct stat info;
        const char *path = list->items[i].path;
        if (strcmp(path, "-") && !stat(path, &info) && S_ISREG(info.st_mode))
            sizes[i] = (double)info.st_size;
    }
    progress_start(list->n, sizes, sizes != NULL);
    free(sizes);
    return wanted;
}

/* ---- how it went ---------------------------------------------------------------------------------------- */

/* What was stopped, and the words that go on with it. */
static void tell_stopped(const job *j, const transcribe_options *o) {
    const char *skip = o->output_dir && !o->skip_existing && j->n_done ? " --skip-existing" : "";
    if (o->common.quiet || o->mel_reference == MXW_MEL_RUNNING)
        return;
    if (o->resume)
        log_error("interrupted; %d of %d files are done. To continue, run the same command%s%s", j->n_done, j->n,
                  skip[0] ? " with" : "", skip);
    else if (o->output_dir)
        log_error("interrupted; %d of %d files are done. To do the others, run the same command%s%s (with "
                  "--resume from the start, unfinished files are kept too)",
                  j->n_done, j->n, skip[0] ? " with" : "", skip);
    else
        log_error("interrupted; start with --resume to make a run resumable");
}

/* Every failure once more: where there are many files, what was said of each is far above. */
static void tell_failures(const job *j) {
    log_error("%d of %d files failed:", j->n_failed, j->n);
    for (int i = 0; i < j->n; i++)
        if (j->failures[i])
            log_error("  %s", j->failures[i]);
}

static int tell_end(job *j, const transcribe_options *o) {
    int interrupted = interrupt_signal() && j->n_done + j->n_failed < j->n;
    if (j->n_failed && j->n > 1)
        tell_failures(j);
    if (interrupted) {
        tell_stopped(j, o);
        return 128 + interrupt_signal();
    }
    if (j->batch.stopped)
        return j->batch.exit_status;
    return j->n_failed ? EXIT_FAILED : EXIT_OK;
}

int batch_run(const transcribe_options *options, const inputs *list, int several) {
    job j = {.n = list->n, .batch = {.options = options, .list = list, .several = several}};
    j.batch.output = ordered_open(j.n, several);
    j.failures = calloc((size_t)j.n, sizeof(*j.failures));
    if (!j.batch.output || !j.failures) {
        log_error("out of memory: %d files", j.n);
        ordered_close(j.batch.output);
        free(j.failures);
        return EXIT_FAILED;
    }
    int n_workers = share_out(&j, options);
    pthread_mutex_init(&j.lock, NULL);
    pthread_mutex_init(&j.batch.lock, NULL);
    pthread_cond_init(&j.batch.freed, NULL);
    interrupt_catch(start_progress(options, list));
    run_workers(&j, n_workers);
    ordered_finish(j.batch.output);
    progress_stop();
    mxw_model_close(j.batch.model);
    ordered_close(j.batch.output);
    int exit_status = tell_end(&j, options);
    for (int i = 0; i < j.n; i++)
        free(j.failures[i]);
    free(j.failures);
    return exit_status;
}
