/* device/cpu/neon/table.c - what is written for NEON; the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels MX_FAST(table) = {
    .gelu_erf = MX_FAST(gelu_erf),
    .gelu_tanh = MX_FAST(gelu_tanh),
};
