/* base/pool.h - threads that take small pieces of work as they come free.
 * mx_pool_for runs fn(context, i) for every i in [0, n), on the calling thread and on whichever workers are running;
 * it returns when all are done. Several threads may call it at once. Which thread runs a piece never changes a
 * result: pieces are independent. Workers spin briefly, then sleep. */
#ifndef MX_POOL_H
#define MX_POOL_H
#include "base/status.h"

typedef struct mx_pool mx_pool;
typedef void (*mx_pool_fn)(void *context, int64_t i);

/* threads: how many in all, the caller's included; 0: as many as the process may use. */
mxw_status mx_pool_open(int threads, mx_pool **out);
void mx_pool_close(mx_pool *pool);
int mx_pool_threads(const mx_pool *pool);
void mx_pool_for(mx_pool *pool, int64_t n, mx_pool_fn fn, void *context);   /* pool NULL: on this thread alone */
#endif
