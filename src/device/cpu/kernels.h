/* device/cpu/kernels.h - the table of kernels of the CPU, and the functions of each instruction set. */
#ifndef MX_CPU_KERNELS_H
#define MX_CPU_KERNELS_H
#include "op/op.h"

typedef struct mx_kernels {
#define MX_KERNEL(name, parameters) void(*name) parameters;
#include "device/cpu/kernels.def"
#undef MX_KERNEL
} mx_kernels;

/* ref: plain loops, the specification. */
#define MX_KERNEL(name, parameters) void mx_ref_##name parameters;
#include "device/cpu/kernels.def"
#undef MX_KERNEL

/* The table that the eager engine runs: ref, its gemm replaced by the blas module's where that is installed. Made once;
 * the same table for every caller. */
const mx_kernels *mx_cpu_kernels(void);

/* What the blas module exports. Calls are single-threaded. */
typedef struct mx_blas_module {
    const char *(*describe)(void);   /* "OpenBLAS 0.3.21 SkylakeX" */
    void (*gemm)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                 int b_transposed, float *c, int64_t ldc);
} mx_blas_module;
#endif
