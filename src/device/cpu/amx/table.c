/* device/cpu/amx/table.c - what is written for AMX; the rest is AVX-512's. */
#include "device/cpu/kernels.h"

extern const mx_kernels MX_FAST(table);

const mx_kernels MX_FAST(table) = {
    .w8a8_blocks = MX_FAST(w8a8_blocks),
    .w8a8_begin = MX_FAST(w8a8_begin),
    .w8a8_end = MX_FAST(w8a8_end),
    .w8a8_row = MX_FAST(w8a8_row),
    .w8a8_tile = MX_FAST(w8a8_tile),
};
