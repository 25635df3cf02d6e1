/* bench/pool.c - what a parallel region costs, and what another process on one of our cores does to a stream of them.
 *
 * In: `bench-pool [--threads N] [--seconds S] [--wait S]`. Out: latency of an empty region, awake and after a sleep;
 * the speed-up of regions of 20, 50 and 100 microseconds; and, for a decoder-like stream (steps of 35 regions of 20 to
 * 100 us in pieces of about 5 us), the time with a busy process beside it divided by the time alone. Next to each
 * figure stands the share of the machine that other processes took meanwhile: figures from a busy machine mean little,
 * so with --wait a round is put off until the machine is quiet, and repeated if it did not stay so, for S seconds. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"

#define REGIONS 35
#define PIECE_US 5
#define ROUNDS 5
#define CORE_ANY (-1)
#define QUIET 6          /* percent of the machine that others may take in a round that counts */

static double loops_per_us;
static int n_threads;
static double seconds = 0.4;   /* of each measurement */
static double wait_seconds;    /* to wait for a quiet machine, in all */

/* ---- work that takes a known time ---------------------------------------------------------------- */

static volatile double seed = 0.5;   /* volatile: the sum is not for the compiler to work out */

static void work_loops(int64_t loops) {
    double x = seed;
    for (int64_t i = 0; i < loops; i++)
        x = x * 0.999999 + 1e-6;
    if (x == 0)
        seed = x;
}

static void calibrate(void) {
    double best = 0;
    for (int i = 0; i < 50; i++) {
        int64_t start = mx_now_ns();
        work_loops(200000);
        double rate = 200000.0 / ((double)(mx_now_ns() - start) / 1e3);
        best = rate > best ? rate : best;
    }
    loops_per_us = best;
}

static void piece(void *context, int64_t i) { work_loops(*(const int64_t *)context); }

static void nothing(void *context, int64_t i) {}

/* Work of us microseconds on each thread. */
static void region(mx_pool *pool, double us) {
    int64_t n = (int64_t)(us * n_threads / PIECE_US + 0.5), loops = (int64_t)(loops_per_us * PIECE_US);
    mx_pool_for(pool, n, piece, &loops);
}

static double region_us(int i) { return 20 + 80.0 * (i * 7 % REGIONS) / (REGIONS - 1); }

/* Microseconds of a step, on average. */
static double time_steps(mx_pool *pool) {
    int64_t start = mx_now_ns(), n = 0;
    do {
        for (int i = 0; i < REGIONS; i++)
            region(pool, region_us(i));
        n++;
    } while (mx_since_ms(start) < seconds * 1e3);
    return (double)(mx_now_ns() - start) / 1e3 / (double)n;
}

/* ---- how busy the machine was -------------------------------------------------------------------- */

typedef struct load {
    double busy, total, ours;   /* seconds of CPU since the machine or the process began */
} load;

static double child_seconds(pid_t child) {
    char path[64], line[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
    FILE *f = fopen(path, "r");
    if (f) {
        const char *rest = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
        if (rest)
            sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
        fclose(f);
    }
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static load read_load(pid_t child) {
    unsigned long long v[8] = {0};
    load l = {0};
    struct rusage usage;
    FILE *f = fopen("/proc/stat", "r");
    if (f) {
        if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
                   &v[7]) != 8)
            memset(v, 0, sizeof(v));
        fclose(f);
    }
    for (int i = 0; i < 8; i++) {
        l.total += (double)v[i] / (double)sysconf(_SC_CLK_TCK);
        l.busy += i == 3 || i == 4 ? 0 : (double)v[i] / (double)sysconf(_SC_CLK_TCK);
    }
    getrusage(RUSAGE_SELF, &usage);
    l.ours = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6 + (child ? child_seconds(child) : 0);
    return l;
}

/* Percent of the machine's time that neither we nor the child used and that was not idle. */
static double others(load from, load to) {
    double total = to.total - from.total, foreign = to.busy - from.busy - (to.ours - from.ours);
    return total > 0 && foreign > 0 ? 100 * foreign / total : 0;
}

/* ---- latency and speed-up ------------------------------------------------------------------------ */

static void bench_latency(mx_pool *pool) {
    double best = 1e30, asleep = 0;
    for (int round = 0; round < 20; round++) {
        int64_t start = mx_now_ns();
        for (int i = 0; i < 1000; i++)
            mx_pool_for(pool, n_threads, nothing, NULL);
        double us = (double)(mx_now_ns() - start) / 1e3 / 1000;
        best = us < best ? us : best;
    }
    printf("empty region, awake           %8.2f us\n", best);
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        int64_t start = mx_now_ns();
        region(pool, 100);
        asleep += (double)(mx_now_ns() - start) / 1e3 / 100;
    }
    printf("100 us region after a sleep   %8.2f us\n", asleep);
}

static void bench_speedup(mx_pool *pool, double us) {
    double alone = 1e30, together = 1e30;
    int n = (int)(1e4 / us);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < 2; i++) {
            int64_t start = mx_now_ns();
            for (int k = 0; k < n; k++)
                region(i ? pool : NULL, us);
            double each = (double)(mx_now_ns() - start) / 1e3 / n, *least = i ? &together : &alone;
            *least = each < *least ? each : *least;
        }
    printf("regions of %3.0f us             %8.2f us   speed-up %.2f of %d\n", us, together, alone / together,
           n_threads);
}

/* ---- a busy process beside us -------------------------------------------------------------------- */

static pid_t start_busy(int core, int own_session) {
    pid_t child = fork();
    if (child != 0)
        return child;
    if (own_session)
        setsid();
    if (core != CORE_ANY) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(core, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    for (;;)
        work_loops(1000000);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whether there is still time to wait, after waiting until others leave the machine alone. */
static int wait_for_quiet(int64_t since) {
    while (mx_since_ms(since) < wait_seconds * 1e3) {
        load before = read_load(0);
        usleep(100000);
        if (others(before, read_load(0)) < QUIET)
            return 1;
        usleep(400000);
    }
    return 0;
}

/* A step's time beside the child divided by that alone; others' share in percent. */
static double time_beside(mx_pool *pool, pid_t child, double *alone_us, double *foreign) {
    load before = read_load(child);
    *alone_us = time_steps(pool);
    kill(child, SIGCONT);
    double beside_us = time_steps(pool);
    kill(child, SIGSTOP);
    *foreign = others(before, read_load(child));
    return beside_us / *alone_us;
}

static void bench_contention(mx_pool *pool, const char *name, int core, int own_session, int64_t since) {
    double factors[ROUNDS], alone_us = 0, foreign = 0;
    pid_t child = start_busy(core, own_session);
    if (child < 0) {
        printf("%s: cannot start a process: %s\n", name, strerror(errno));
        return;
    }
    kill(child, SIGSTOP);
    for (int i = 0; i < ROUNDS;) {
        double alone, share;
        int can_wait = wait_for_quiet(since);
        factors[i] = time_beside(pool, child, &alone, &share);
        if (share > QUIET && can_wait)
            continue;
        alone_us += alone / ROUNDS;
        foreign += share / ROUNDS;
        i++;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    qsort(factors, ROUNDS, sizeof(double), by_value);
    printf("step alone %7.0f us; beside %-28s x %.2f (%.2f to %.2f), others took %.0f %%\n", alone_us, name,
           factors[ROUNDS / 2], factors[0], factors[ROUNDS - 1], foreign);
}

int main(int argc, char **argv) {
    mx_pool *pool;
    int threads = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--wait") == 0)
            wait_seconds = atof(argv[i + 1]);
        else
            return fprintf(stderr, "usage: bench-pool [--threads N] [--seconds S] [--wait S]\n"), 2;
    }
    calibrate();
    if (mx_pool_open(threads, &pool) < 0)
        return fprintf(stderr, "%s\n", mx_error()), 1;
    n_threads = mx_pool_threads(pool);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d threads\n", n_threads);
    int64_t since = mx_now_ns();
    wait_for_quiet(since);
    load before = read_load(0);
    bench_latency(pool);
    for (int i = 0; i < 3; i++)
        bench_speedup(pool, (double[]){20, 50, 100}[i]);
    printf("others took %.0f %%\n", others(before, read_load(0)));
    bench_contention(pool, "a process", CORE_ANY, 0, since);
    bench_contention(pool, "a process on core 0", 0, 0, since);
    bench_contention(pool, "a process on core 1", 1, 0, since);
    bench_contention(pool, "a process of another session", CORE_ANY, 1, since);
    mx_pool_close(pool);
    return 0;
}
