/* device/cpu/avx2/table.c - the kernels that are written for AVX2, FMA and F16C; the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels mx_avx2_table = {0};
