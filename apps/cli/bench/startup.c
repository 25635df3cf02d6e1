/* cli/bench/startup.c - `bench --starts`: how long a fresh process takes to the start of its first encoding.
 *
 * This program is started again on the same file, told to decode one token and to report its times. Both processes read
 * the same clock: ours before the start, the other when its first window goes into the encoder. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "common/log.h"
#include "common/progress.h"

enum { REPORT_BYTES = 8192 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* In the new process: standard error is the pipe, standard output goes nowhere. */
static void become(char *const *words, int report) {
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0 && dup2(report, STDERR_FILENO) >= 0)
        execv("/proc/self/exe", words);
    _exit(127);
}

static int start_once(char *const *words, char *text, size_t size, int64_t *started_ns) {
    int ends[2], status = -1;
    size_t n = 0;
    ssize_t got;
    if (pipe(ends))
        return -1;
    *started_ns = now_ns();
    pid_t child = fork();
    if (child == 0)
        become(words, ends[1]);
    close(ends[1]);
    while (child > 0 && ((got = read(ends[0], text + n, size - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    text[n] = 0;
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The command line of the new process. execv wants words that it could write to, and does not. */
typedef struct words {
    char *items[32];
    int n;
} words;

static void add(words *w, const char *word) { w->items[w->n++] = (char *)(uintptr_t)word; }

static void add_option(words *w, const char *name, const char *value) {
    add(w, name);
    add(w, value);
}

static int start_all(const words *w, const char *path, double *ms, int n) {
    static const char name[] = "\"first_encode_ns\": ";
    char report[REPORT_BYTES];
    for (int i = 0; i < n; i++) {
        int64_t started = 0;
        progress_note("starting");
        int status = start_once(w->items, report, sizeof(report), &started);
        const char *field = status == 0 ? strstr(report, name) : NULL;
        int64_t encoding = field ? strtoll(field + strlen(name), NULL, 10) : 0;
        if (encoding <= started) {
            log_error("--starts: a new process reported no time for %s: %.300s", path, status ? report : "no window");
            return EXIT_FAILED;
        }
        ms[i] = (double)(encoding - started) / 1e6;
    }
    return EXIT_OK;
}

int bench_start(const bench_options *o, const char *path, double *ms, int n) {
    char threads[32];
    words w = {.n = 0};
    snprintf(threads, sizeof(threads), "%" PRId64, o->model.threads);
    add(&w, "max-whisper");
    add(&w, "transcribe");
    add(&w, "--stats");
    add(&w, "--quiet");
    add(&w, "--greedy");
    add_option(&w, "--sample-len", "1");
    add_option(&w, "--temperature-increment-on-fallback", "none");
    add_option(&w, "--language", o->language ? o->language : "none");
    add_option(&w, "--model", o->model.model);
    if (o->model.model_dir)
        add_option(&w, "--model-dir", o->model.model_dir);
    add_option(&w, "--engine", engine_names[o->model.engine]);
    add_option(&w, "--device", o->model.device);
    add_option(&w, "--precision", precision_names[o->model.precision]);
    add_option(&w, "--threads", threads);
    add_option(&w, "--", path);
    add(&w, NULL);
    return start_all(&w, path, ms, n);
}
