/* base/pool.c - a list of jobs under a mutex; pieces handed out by an atomic counter.
 * A job lives on its caller's stack: the caller leaves only when no worker holds it any more. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define SPIN_NS 20000   /* about what a futex wake-up costs: longer spinning only takes a core from others */

typedef struct job {
    mx_pool_fn fn;
    void *context;
    int64_t n;
    atomic_llong next;   /* the next piece to hand out */
    int holders;         /* workers inside the job; under the pool's lock */
    struct job *link;
} job;

struct mx_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;   /* a job came, or the pool closes */
    pthread_cond_t left;   /* a worker left a job */
    job *jobs;
    atomic_int n_jobs;     /* for the spin, without the lock */
    int closing;
    int n_workers;
    pthread_t workers[];
};

static void run_pieces(job *j) {
    for (;;) {
        int64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->n)
            return;
        j->fn(j->context, i);
    }
}

static job *find_job(mx_pool *pool) {
    for (job *j = pool->jobs; j; j = j->link)
        if (atomic_load(&j->next) < j->n)
            return j;
    return NULL;
}

static void *worker(void *argument) {
    mx_pool *pool = argument;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        job *j = find_job(pool);
        if (j) {
            j->holders++;
            pthread_mutex_unlock(&pool->lock);
            run_pieces(j);
            pthread_mutex_lock(&pool->lock);
            if (--j->holders == 0)
                pthread_cond_broadcast(&pool->left);
            continue;
        }
        if (pool->closing)
            break;
        pthread_mutex_unlock(&pool->lock);
        int64_t start = mx_now_ns();
        while (atomic_load(&pool->n_jobs) == 0 && mx_now_ns() - start < SPIN_NS)
            sched_yield();
        pthread_mutex_lock(&pool->lock);
        if (!find_job(pool) && !pool->closing)
            pthread_cond_wait(&pool->work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static int default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

mxw_status mx_pool_open(int threads, mx_pool **out) {
    *out = NULL;
    if (threads <= 0)
        threads = default_threads();
    mx_pool *pool = mx_alloc_zero(1, sizeof(*pool) + (size_t)threads * sizeof(pthread_t));
    if (!pool)
        return MXW_E_MEMORY;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->left, NULL);
    while (pool->n_workers < threads - 1) {
        if (pthread_create(&pool->workers[pool->n_workers], NULL, worker, pool) != 0) {
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
    pool->closing = 1;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->left);
    mx_free(pool);
}

int mx_pool_threads(const mx_pool *pool) { return pool ? pool->n_workers + 1 : 1; }

void mx_pool_for(mx_pool *pool, int64_t n, mx_pool_fn fn, void *context) {
    job j = {.fn = fn, .context = context, .n = n};
    if (n <= 0)
        return;
    if (!pool || pool->n_workers == 0 || n == 1) {
        for (int64_t i = 0; i < n; i++)
            fn(context, i);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    j.link = pool->jobs;
    pool->jobs = &j;
    atomic_fetch_add(&pool->n_jobs, 1);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);

    run_pieces(&j);

    pthread_mutex_lock(&pool->lock);
    job **link = &pool->jobs;
    while (*link != &j)
        link = &(*link)->link;
    *link = j.link;
    atomic_fetch_sub(&pool->n_jobs, 1);
    while (j.holders > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
