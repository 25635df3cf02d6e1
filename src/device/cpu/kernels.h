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
#endif
