/* device/cpu/compiled.c - compiled calls on the CPU: which ops have a faster way, how their weights are kept.
 * An op that is not in the table runs the plain way, on the kernels of the best instruction set. */
#include "device/cpu/cpu.h"

const mx_cpu_op mx_cpu_fast_ops[MX_OP_COUNT] = {
    [MX_OP_MATMUL] = {0},
};
