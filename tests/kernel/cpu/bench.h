/* bench.h - what the timings of kcheck --bench share. */
#ifndef KCHECK_BENCH_H
#define KCHECK_BENCH_H
#include "base/pool.h"
#include "device/device.h"
#include "kcheck.h"

/* libraries.c: c [m][n] = a [m][k] b^T, b [n][k], by someone else's library on all of the pool's threads. */
typedef struct bench_library {
    const char *name;
    void (*gemm)(mx_pool *pool, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);
} bench_library;
/* The libraries there are, told to use no more than this instruction set; those that are not there, by name on a line
 * "SKIP: ...". */
int bench_libraries(const char *isa, bench_library out[2]);

/* What every timing needs to know. */
typedef struct bench_machine {
    const mx_device *cpu;
    mx_pool *pool;
    const char *isa;
    const char *memory;      /* to measure how fast it is read */
    size_t memory_bytes;
    int turns;
} bench_machine;
/* bench_ops.c: those whose names hold `filter`; the machine's best so far is given. */
void bench_ops(const bench_machine *b, const char *filter, double flops, double read);
#endif
