/* test_pool.c - every piece of every region runs exactly once before the call returns: with 1 to 64 threads, many
 * callers at once, regions inside regions, workers awake and asleep, pools that come and go; and moving threads between
 * cores pins none of them. `full` runs longer. */
#include "kit/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/core.h"
#include "base/mem.h"
#include "base/pool.h"

#define MAX_PIECES 1000
#define MAX_THREADS 64
#define MANY_CALLERS 80   /* more than a pool keeps jobs for */

static const int thread_counts[] = {1, 2, 3, 8, MAX_THREADS};
static int hammer_times = 40;

typedef struct region {
    mx_pool *pool;
    atomic_int runs[MAX_PIECES];
    atomic_int in_slot[MAX_THREADS];
    atomic_int faults;
    int64_t n;
    int64_t plain[MAX_PIECES];   /* not atomic: the call's return must make it visible */
    int n_slots;
    int inner;                   /* pieces of a region inside each piece */
    int piece_us;                /* time to sleep in a piece */
} region;

static void clear(region *r, int64_t n) {
    r->n = n;
    for (int i = 0; i < MAX_PIECES; i++) {
        atomic_store(&r->runs[i], 0);
        r->plain[i] = -1;
    }
}

static void add_one(void *context, int64_t i) { atomic_fetch_add((atomic_int *)context, 1); }

static void run_piece(void *context, int64_t i) {
    region *r = context;
    if (i < 0 || i >= r->n)
        atomic_fetch_add(&r->faults, 1);
    else
        atomic_fetch_add(&r->runs[i], 1), r->plain[i] = 3 * i;
    if (r->inner) {
        atomic_int inner = 0;
        mx_pool_for(r->pool, r->inner, add_one, &inner);
        if (atomic_load(&inner) != r->inner)
            atomic_fetch_add(&r->faults, 1);
    }
    if (r->piece_us)
        usleep((unsigned)r->piece_us);
}

static void run_piece_in_slot(void *context, int64_t i, int slot) {
    region *r = context;
    if (slot < 0 || slot >= r->n_slots || atomic_fetch_add(&r->in_slot[slot], 1) != 0)
        atomic_fetch_add(&r->faults, 1);
    run_piece(context, i);
    atomic_fetch_sub(&r->in_slot[slot], 1);
}

/* Errors of a region that has ended. */
static int count_faults(region *r) {
    int faults = atomic_load(&r->faults);
    for (int64_t i = 0; i < MAX_PIECES; i++)
        faults += atomic_load(&r->runs[i]) != (i < r->n) || r->plain[i] != (i < r->n ? 3 * i : -1);
    return faults;
}

static void test_pieces(mx_pool *pool) {
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, MAX_PIECES, -1};
    static region r;
    for (size_t k = 0; k < MX_COUNT(sizes); k++)
        for (int n_slots = 0; n_slots <= 4; n_slots++) {
            r.pool = pool;
            clear(&r, MX_MAX(sizes[k], 0));
            r.n_slots = MX_MAX(n_slots, 1);
            if (n_slots == 0)
                mx_pool_for(pool, sizes[k], run_piece, &r);
            else
                mx_pool_for_slots(pool, sizes[k], n_slots, run_piece_in_slot, &r);
            CHECK_EQ_INT(count_faults(&r), 0);
        }
}

/* Workers and caller fall asleep: pieces longer than anyone spins, and pauses between regions. */
static void test_sleep(mx_pool *pool) {
    static region r;
    r.pool = pool;
    for (int k = 0; k < 6; k++) {
        clear(&r, 2 + k);
        r.piece_us = k % 2 ? 1500 : 0;
        r.n_slots = mx_pool_threads(pool);
        mx_pool_for_slots(pool, r.n, r.n_slots, run_piece_in_slot, &r);
        CHECK_EQ_INT(count_faults(&r), 0);
        usleep(700);
    }
}

/* A region that was tiny and is long the next time, and the other way round. */
static void test_tiny(mx_pool *pool) {
    static region r;
    r.pool = pool;
    for (int k = 0; k < 8; k++) {
        clear(&r, 5);
        r.piece_us = k % 4 == 3 ? 300 : 0;
        mx_pool_for(pool, r.n, run_piece, &r);
        CHECK_EQ_INT(count_faults(&r), 0);
        usleep(200);
    }
}

typedef struct caller {
    pthread_t thread;
    mx_pool *pool;
    region *region;
    int index, faults;
} caller;

static void *call_often(void *argument) {
    caller *c = argument;
    region *r = c->region;
    r->pool = c->pool;
    for (int k = 0; k < hammer_times; k++) {
        unsigned mix = (unsigned)(k * 31 + c->index * 17);
        clear(r, 1 + mix % (mix % 5 ? 20 : MAX_PIECES));
        r->inner = mix % 3 == 0 ? (int)(mix % 11) : 0;
        r->n_slots = mx_pool_threads(c->pool);
        if (mix % 2)
            mx_pool_for(c->pool, r->n, run_piece, r);
        else
            mx_pool_for_slots(c->pool, r->n, r->n_slots, run_piece_in_slot, r);
        c->faults += count_faults(r);
        if (mix % 16 == 0)
            usleep(mix % 200);
    }
    return NULL;
}

static void test_callers(mx_pool *pool, int n_callers) {
    caller *callers = mx_alloc_zero((size_t)n_callers, sizeof(*callers));
    region *regions = mx_alloc_zero((size_t)n_callers, sizeof(*regions));
    if (CHECK(callers && regions)) {
        for (int i = 0; i < n_callers; i++) {
            callers[i] = (caller){.pool = pool, .region = &regions[i], .index = i};
            CHECK_EQ_INT(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
        }
        for (int i = 0; i < n_callers; i++) {
            pthread_join(callers[i].thread, NULL);
            CHECK_EQ_INT(callers[i].faults, 0);
        }
    }
    mx_free(callers);
    mx_free(regions);
}

/* A region in a region in a region, all of them wide. */
static void descend(void *context, int64_t i) {
    region *r = context;
    if (r->inner == 0) {
        atomic_fetch_add(&r->faults, 1);
        return;
    }
    region below = {.pool = r->pool, .inner = r->inner - 1};
    mx_pool_for(r->pool, 6, descend, &below);
    atomic_fetch_add(&r->faults, atomic_load(&below.faults));
}

static void test_nested(mx_pool *pool) {
    region *top = mx_alloc_zero(1, sizeof(*top));
    if (!CHECK(top != NULL))
        return;
    top->pool = pool;
    top->inner = 3;
    mx_pool_for(pool, 6, descend, top);
    CHECK_EQ_INT(atomic_load(&top->faults), 6 * 6 * 6 * 6);
    mx_free(top);
}

static void test_open_close(void) {
    atomic_int sum = 0;
    for (int k = 0; k < 60; k++) {
        mx_pool *pool = NULL;
        CHECK_EQ_INT(mx_pool_open(thread_counts[k % 4], &pool), MXW_OK);
        if (k % 3)
            mx_pool_for(pool, 50, add_one, &sum);
        if (k % 5 == 0)
            usleep(300);
        mx_pool_close(pool);
    }
    CHECK_EQ_INT(atomic_load(&sum), 40 * 50);
    mx_pool_close(NULL);
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

static atomic_int other_state;   /* 0: sleep, 1: run, 2: end */

static void *other_thread(void *argument) {
    while (atomic_load(&other_state) != 2)
        if (atomic_load(&other_state) == 0)
            usleep(20000);
    return NULL;
}

static int seen_waiting(pthread_t thread, int waiting) {
    for (int i = 0; i < 5000; i++) {
        if (mx_core_is_waiting(thread) == waiting)
            return 1;
        mx_core_leave();   /* on our own core it waits whatever it does */
        usleep(500);
    }
    return 0;
}

static void check_mask(pthread_t thread, const cpu_set_t *want) {
    cpu_set_t mask;
    CHECK_EQ_INT(pthread_getaffinity_np(thread, sizeof(mask), &mask), 0);
    CHECK(CPU_EQUAL(&mask, want));
}

static void test_cores(void) {
    cpu_set_t all, narrow;
    pthread_t other;
    CHECK_EQ_INT(sched_getaffinity(0, sizeof(all), &all), 0);
    CHECK_EQ_INT(mx_core_count(), CPU_COUNT(&all));
    CHECK(CPU_ISSET(mx_core_now(), &all));
    mx_core_leave();
    check_mask(pthread_self(), &all);

    CPU_ZERO(&narrow);
    CPU_SET(mx_core_now(), &narrow);
    CHECK_EQ_INT(sched_setaffinity(0, sizeof(narrow), &narrow), 0);
    mx_core_leave();   /* nowhere to go */
    check_mask(pthread_self(), &narrow);
    CHECK_EQ_INT(pthread_create(&other, NULL, other_thread, NULL), 0);
    CHECK_EQ_INT(pthread_setaffinity_np(other, sizeof(all), &all), 0);
    mx_core_move_here(other);
    check_mask(other, &all);
    CHECK_EQ_INT(sched_setaffinity(0, sizeof(all), &all), 0);
    mx_core_move_here(other);
    check_mask(other, &all);
    CHECK(seen_waiting(other, 1));
    atomic_store(&other_state, 1);
    CHECK(CPU_COUNT(&all) == 1 || seen_waiting(other, 0));
    atomic_store(&other_state, 2);
    pthread_join(other, NULL);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "full") == 0)
        hammer_times = 2000;
    test_pieces(NULL);
    CHECK_EQ_INT(mx_pool_threads(NULL), 1);
    for (size_t k = 0; k < MX_COUNT(thread_counts); k++) {
        mx_pool *pool = NULL;
        if (!CHECK_EQ_INT(mx_pool_open(thread_counts[k], &pool), MXW_OK))
            continue;
        CHECK_EQ_INT(mx_pool_threads(pool), thread_counts[k]);
        test_pieces(pool);
        test_sleep(pool);
        test_tiny(pool);
        test_nested(pool);
        test_callers(pool, 2);
        test_callers(pool, 9);
        mx_pool_close(pool);
    }
    mx_pool *pool = NULL;
    CHECK_EQ_INT(mx_pool_open(0, &pool), MXW_OK);
    CHECK(mx_pool_threads(pool) >= 1);
    test_callers(pool, MANY_CALLERS);
    mx_pool_close(pool);
    test_open_close();
    test_cores();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
