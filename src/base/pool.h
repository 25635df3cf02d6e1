/* base/pool.h - a thread pool for many short parallel regions.
 *
 * In: n pieces and a function. Out: every piece run once, on the calling thread and on any worker that is free; the
 * call returns when all are done. Several threads may call at once, and calls may nest.
 * Invariants: pieces are independent, so a result never depends on which thread runs a piece; nothing is allocated.
 *
 * Tuned for long series of regions of some ten microseconds: between two of them workers spin briefly, so that a region
 * costs about one microsecond of overhead; then they sleep, and are woken only if there is enough work. No thread is
 * pinned to a core. */
#ifndef MX_POOL_H
#define MX_POOL_H
#include "base/status.h"

typedef struct mx_pool mx_pool;
typedef void (*mx_pool_fn)(void *context, int64_t i);
typedef void (*mx_pool_slot_fn)(void *context, int64_t i, int slot);

/* threads: their number, including the caller's; 0: as many as the process may use. */
mxw_status mx_pool_open(int threads, mx_pool **out);
void mx_pool_close(mx_pool *pool);
int mx_pool_threads(const mx_pool *pool);
/* pool NULL: on this thread alone, in order. */
void mx_pool_for(mx_pool *pool, int64_t n, mx_pool_fn fn, void *context);
/* The same with at most n_slots threads; each knows its slot, 0 to min(n_slots, threads) - 1, for scratch memory that
 * two threads never use at once. */
void mx_pool_for_slots(mx_pool *pool, int64_t n, int n_slots, mx_pool_slot_fn fn, void *context);
#endif
