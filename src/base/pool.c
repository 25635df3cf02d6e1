/* base/pool.c - see pool.h. Jobs are in a fixed table; a bit mask has those that can be joined.
 *
 * A worker joins a job in two steps: it increments holders, then checks that the job's bit is still set. The
 * thread that takes the last piece clears the bit, and the caller returns once it has seen holders at zero after that.
 * All of these are sequentially consistent, so a worker that saw the bit was counted before the caller looked: no
 * thread reads a job whose caller has returned. Locks are taken only to sleep and to wake. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/core.h"
#include "base/mem.h"

#define MAX_JOBS 64           /* bits of the mask; further callers work alone */
#define LINE 64               /* a cache line, to avoid false sharing */
#define WORKER_SPIN_NS 50000  /* longer than the serial code between two regions, too short to be noticed */
#define WAIT_SPIN_NS 10000    /* how long a caller spins beyond the length of a piece: about the cost of a wake-up */
#define WAIT_SPIN_MAX_NS 200000
#define LOOK_AGAIN_NS 1000000 /* a sleeping caller checks whether a worker needs its core */
#define STEP_ASIDE_NS 1000000 /* a worker leaves its caller's core at most this often */
#define TINY_NS 8000          /* less work than this is not worth a wake-up */
#define N_SEEN 64             /* remembered durations of regions */
#define SLEEPING 0x80000000u  /* in holders: the caller waits on `left` */

typedef struct job {
    _Alignas(LINE) atomic_llong next;   /* the next piece to take */
    _Alignas(LINE) atomic_uint holders; /* number of workers in the job, and SLEEPING */
    pthread_mutex_t lock;
    pthread_cond_t left;                /* the last worker left */
    /* Written by the caller before the job can be joined. */
    _Alignas(LINE) mx_pool_slot_fn fn;
    void *context;
    int64_t n;
    int n_slots;
    pthread_t caller;
    atomic_int slots;                   /* given out */
    atomic_int caller_works;            /* the caller is still running pieces */
} job;

typedef struct worker {
    pthread_t thread;
    struct mx_pool *pool;
    unsigned index;
    int64_t stepped_ns;                 /* when it last moved away from its caller's core */
    _Alignas(LINE) _Atomic(job *) inside;
} worker;

struct mx_pool {
    _Alignas(LINE) atomic_ullong open;   /* jobs that can be joined; idle workers poll this */
    _Alignas(LINE) atomic_ullong taken;  /* jobs in use */
    atomic_uint seen[N_SEEN];            /* ns of work in a region of that kind when last run; 0: not known */
    _Alignas(LINE) atomic_int sleepers;  /* workers to be woken; written under the lock */
    int wakes;                           /* sleepers that were signalled and have not woken yet; under the lock */
    atomic_int closing;
    pthread_mutex_t lock;
    pthread_cond_t work;
    atomic_int caller_core;              /* the core on which the last region was entered */
    int64_t spin_ns;                     /* 0: more threads than cores */
    int n_workers;
    job jobs[MAX_JOBS];
    worker workers[];
};

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");   /* `yield` does nothing on most cores; this waits about as long as x86's pause */
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- waking and sleeping ----------------------------------------------------------------------------------------- */

/* Wakes at most two; they wake the next ones, so that no thread pays for all wake-ups. */
static void wake_sleepers(mx_pool *pool, const job *j) {
    int64_t pieces = j->n - atomic_load(&j->next);
    if (pieces <= 0 || atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    int n = (int)MX_MIN(MX_MIN(pieces, 2), atomic_load(&pool->sleepers));
    atomic_fetch_sub(&pool->sleepers, n);
    pool->wakes += n;
    for (int i = 0; i < n; i++)
        pthread_cond_signal(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void sleep_until_work(mx_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->sleepers, 1);
    if (atomic_load(&pool->open) || atomic_load(&pool->closing)) {
        atomic_fetch_sub(&pool->sleepers, 1);
    } else {
        while (pool->wakes == 0 && !atomic_load(&pool->closing))
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->wakes > 0)
            pool->wakes--;
    }
    pthread_mutex_unlock(&pool->lock);
}

/* A worker on its caller's core must not spin: the caller could not run meanwhile. */
static int spin_until_work(mx_pool *pool) {
    int64_t start = mx_now_ns();
    do {
        if (pool->spin_ns == 0 || mx_core_now() == atomic_load_explicit(&pool->caller_core, memory_order_relaxed))
            return atomic_load(&pool->open) != 0;
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(&pool->open, memory_order_relaxed))
                return 1;
            pause_briefly();
        }
    } while (mx_now_ns() - start < pool->spin_ns && !atomic_load(&pool->closing));
    return 0;
}

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void close_to_workers(mx_pool *pool, const job *j) {
    atomic_fetch_and(&pool->open, ~(1ull << (j - pool->jobs)));
}

/* Runs pieces until none is left; returns how many. Sleepers that were not woken at the start are woken once the work
 * turns out to be long: `lazy_from` is when it began, or 0. */
static int64_t run_pieces(mx_pool *pool, job *j, int slot, int64_t lazy_from) {
    int64_t n = j->n, done = 0;
    for (;; done++) {
        int64_t i = atomic_fetch_add(&j->next, 1);
        if (i == n - 1)
            close_to_workers(pool, j);
        if (i >= n)
            return done;
        j->fn(j->context, i, slot);
        if (lazy_from && mx_now_ns() - lazy_from > TINY_NS) {
            wake_sleepers(pool, j);
            lazy_from = 0;
        }
    }
}

static void leave(job *j) {
    if (atomic_fetch_sub(&j->holders, 1) != (SLEEPING | 1))
        return;
    pthread_mutex_lock(&j->lock);
    pthread_cond_broadcast(&j->left);
    pthread_mutex_unlock(&j->lock);
}

static void join(worker *w, job *j, int woken) {
    mx_pool *pool = w->pool;
    atomic_fetch_add(&j->holders, 1);
    if (atomic_load(&pool->open) >> (j - pool->jobs) & 1) {
        int slot = atomic_fetch_add(&j->slots, 1);
        if (slot >= j->n_slots - 1)
            close_to_workers(pool, j);
        if (slot < j->n_slots) {
            if (woken)
                wake_sleepers(pool, j);
            atomic_store_explicit(&w->inside, j, memory_order_relaxed);
            run_pieces(pool, j, slot, 0);
            atomic_store_explicit(&w->inside, NULL, memory_order_relaxed);
        }
    }
    leave(j);
}

/* ---- other processes on our cores -------------------------------------------------------------------------------- */

/* The kernel may wake a worker on its caller's core when other processes occupy the other cores. */
static void avoid_caller(worker *w) {
    mx_pool *pool = w->pool;
    if (pool->spin_ns == 0 || mx_core_now() != atomic_load_explicit(&pool->caller_core, memory_order_relaxed) ||
        __builtin_popcountll(atomic_load(&pool->taken)) != 1 || mx_now_ns() - w->stepped_ns < STEP_ASIDE_NS)
        return;
    mx_core_leave();
    w->stepped_ns = mx_now_ns();
}

/* Before a worker sleeps: a caller that was preempted within a piece gets this core. While the worker is counted in
 * holders, a working caller cannot return, so its thread exists. */
static void help_caller(mx_pool *pool) {
    for (uint64_t taken = atomic_load(&pool->taken); taken && pool->spin_ns; taken &= taken - 1) {
        job *j = &pool->jobs[__builtin_ctzll(taken)];
        int helped = 0;
        atomic_fetch_add(&j->holders, 1);
        if (atomic_load(&j->caller_works) && mx_core_is_waiting(j->caller)) {
            mx_core_move_here(j->caller);
            helped = 1;
        }
        leave(j);
        if (helped)
            return;
    }
}

/* Before a caller sleeps: a worker that was preempted within a piece gets the caller's core. */
static void help_worker(mx_pool *pool, const job *j) {
    for (int i = 0; i < pool->n_workers && pool->spin_ns; i++) {
        worker *w = &pool->workers[i];
        if (atomic_load_explicit(&w->inside, memory_order_relaxed) == j && mx_core_is_waiting(w->thread)) {
            mx_core_move_here(w->thread);
            return;
        }
    }
}

/* Workers scan the jobs from different starts, so that several callers each get some. */
static job *choose(mx_pool *pool, uint64_t open, unsigned first) {
    uint64_t rotated = first ? open >> first | open << (MAX_JOBS - first) : open;
    return &pool->jobs[((unsigned)__builtin_ctzll(rotated) + first) % MAX_JOBS];
}

static void *work(void *argument) {
    worker *w = argument;
    mx_pool *pool = w->pool;
    int woken = 0;
    for (;;) {
        uint64_t open = atomic_load(&pool->open);
        if (open) {
            avoid_caller(w);
            join(w, choose(pool, open, w->index % MAX_JOBS), woken);
            woken = 0;
        } else if (atomic_load(&pool->closing)) {
            return NULL;
        } else if (!spin_until_work(pool)) {
            help_caller(pool);
            sleep_until_work(pool);
            woken = 1;
        }
    }
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static void init_locks(mx_pool *pool) {
    pthread_condattr_t forward;
    pthread_condattr_init(&forward);
    pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    for (int i = 0; i < MAX_JOBS; i++) {
        pthread_mutex_init(&pool->jobs[i].lock, NULL);
        pthread_cond_init(&pool->jobs[i].left, &forward);
    }
    pthread_condattr_destroy(&forward);
}

mxw_status mx_pool_open(int threads, mx_pool **out) {
    *out = NULL;
    int cores = mx_core_count();
    if (threads <= 0)
        threads = cores;
    mx_pool *pool = mx_alloc_zero(1, sizeof(*pool) + (size_t)threads * sizeof(worker));
    if (!pool)
        return MXW_E_MEMORY;
    init_locks(pool);
    /* With more threads than cores, a spinning thread would take the core of a working one. */
    pool->spin_ns = threads <= cores ? WORKER_SPIN_NS : 0;
    while (pool->n_workers < threads - 1) {
        worker *w = &pool->workers[pool->n_workers];
        w->pool = pool;
        w->index = (unsigned)pool->n_workers;
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            mx_pool_close(pool);
            return mx_fail(MXW_E_MEMORY, "cannot start %d threads", threads);
        }
        pool->n_workers++;
    }
    *out = pool;
    return MXW_OK;
}

void mx_pool_close(mx_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->closing, 1);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i].thread, NULL);
    for (int i = 0; i < MAX_JOBS; i++) {
        pthread_mutex_destroy(&pool->jobs[i].lock);
        pthread_cond_destroy(&pool->jobs[i].left);
    }
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    mx_free(pool);
}

int mx_pool_threads(const mx_pool *pool) { return pool ? pool->n_workers + 1 : 1; }

/* ---- a region ---------------------------------------------------------------------------------------------------- */

static job *take_job(mx_pool *pool) {
    unsigned long long taken = atomic_load(&pool->taken);
    while (~taken) {
        int i = __builtin_ctzll(~taken);
        if (atomic_compare_exchange_weak(&pool->taken, &taken, taken | 1ull << i))
            return &pool->jobs[i];
    }
    return NULL;
}

static void sleep_until_left(mx_pool *pool, job *j) {
    pthread_mutex_lock(&j->lock);
    atomic_fetch_or(&j->holders, SLEEPING);
    while (atomic_load(&j->holders) != SLEEPING) {
        help_worker(pool, j);
        int64_t until = mx_now_ns() + LOOK_AGAIN_NS;
        struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
        pthread_cond_timedwait(&j->left, &j->lock, &t);
    }
    atomic_fetch_and(&j->holders, ~SLEEPING);
    pthread_mutex_unlock(&j->lock);
}

static void wait_until_left(mx_pool *pool, job *j, int64_t now, int64_t patience) {
    int64_t until = now + MX_MIN(patience, WAIT_SPIN_MAX_NS);
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load(&j->holders) == 0)
                return;
            pause_briefly();
        }
    } while (mx_now_ns() < until);
    sleep_until_left(pool, j);
}

/* How much work a region of this function and size had when it was last run. */
static atomic_uint *seen_work(mx_pool *pool, mx_pool_slot_fn fn, const void *kind, int64_t n) {
    uint64_t key = (uint64_t)(uintptr_t)fn ^ (uint64_t)(uintptr_t)kind << 1 ^ (uint64_t)n << 48;
    return &pool->seen[key * 0x9E3779B97F4A7C15u >> 58];
}

static void run_region(mx_pool *pool, job *j, atomic_uint *seen) {
    unsigned work = atomic_load_explicit(seen, memory_order_relaxed);
    int tiny = work > 0 && work < TINY_NS;
    atomic_fetch_or(&pool->open, 1ull << (j - pool->jobs));
    if (!tiny)
        wake_sleepers(pool, j);
    int64_t start = mx_now_ns();
    int64_t done = run_pieces(pool, j, 0, tiny ? start : 0);
    atomic_store(&j->caller_works, 0);
    int64_t now = mx_now_ns(), piece_ns = done > 0 ? (now - start) / done : 0;
    if (done > 0) {
        work = (unsigned)MX_MIN(1 + piece_ns * MX_MIN(j->n, (int64_t)TINY_NS), (int64_t)UINT32_MAX);
        atomic_store_explicit(seen, work, memory_order_relaxed);
    }
    wait_until_left(pool, j, now, WAIT_SPIN_NS + 2 * piece_ns);
}

static void run_alone(int64_t n, mx_pool_slot_fn fn, void *context) {
    for (int64_t i = 0; i < n; i++)
        fn(context, i, 0);
}

static void run(mx_pool *pool, int64_t n, int n_slots, mx_pool_slot_fn fn, void *context, const void *kind) {
    job *j = pool && pool->n_workers > 0 && n > 1 && n_slots > 1 ? take_job(pool) : NULL;
    if (!j) {
        run_alone(n, fn, context);
        return;
    }
    j->fn = fn;
    j->context = context;
    j->n = n;
    j->n_slots = n_slots;
    j->caller = pthread_self();
    atomic_store_explicit(&j->caller_works, 1, memory_order_release);
    atomic_store_explicit(&pool->caller_core, mx_core_now(), memory_order_relaxed);
    atomic_store_explicit(&j->slots, 1, memory_order_relaxed);
    atomic_store_explicit(&j->next, 0, memory_order_relaxed);
    run_region(pool, j, seen_work(pool, fn, kind, n));
    atomic_fetch_and(&pool->taken, ~(1ull << (j - pool->jobs)));
}

void mx_pool_for_slots(mx_pool *pool, int64_t n, int n_slots, mx_pool_slot_fn fn, void *context) {
    run(pool, n, n_slots, fn, context, NULL);
}

typedef struct plain {
    mx_pool_fn fn;
    void *context;
} plain;

static void run_plain(void *context, int64_t i, int slot) {
    const plain *p = context;
    p->fn(p->context, i);
}

void mx_pool_for(mx_pool *pool, int64_t n, mx_pool_fn fn, void *context) {
    plain p = {fn, context};
    run(pool, n, mx_pool_threads(pool), run_plain, &p, (const void *)(uintptr_t)fn);
}
