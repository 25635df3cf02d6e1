/* device/cpu/avx2/table.c - what is written for AVX2, FMA and F16C; the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels MX_FAST(table) = {0};
