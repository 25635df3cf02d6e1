/* device/cpu/avx2/table_vnni.c - what is compiled once more for AVX2 with VNNI. */
#include "device/cpu/kernels.h"

const mx_kernels MX_FAST(table) = {
    .int8_gemm = MX_FAST(int8_gemm),
    .w8a8_blocks = MX_FAST(w8a8_blocks),
    .w8a8_row = MX_FAST(w8a8_row),
    .w8a8_tile = MX_FAST(w8a8_tile),
};
