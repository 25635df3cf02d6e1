/* device/cpu/avx512/table.c - what is written for AVX-512 (F, BW, DQ, VL); the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels MX_FAST(table) = {0};
