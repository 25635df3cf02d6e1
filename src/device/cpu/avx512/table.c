/* device/cpu/avx512/table.c - the kernels that are written for AVX-512 (F, BW, DQ, VL); the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels mx_avx512_table = {0};
