/* device/cpu/neon/table_dot.c - what is compiled once more for 64-bit ARM with the dot product. */
#include "device/cpu/kernels.h"

extern const mx_kernels MX_FAST(table);

const mx_kernels MX_FAST(table) = {
    .w8a8_blocks = MX_FAST(w8a8_blocks),
    .w8a8_row = MX_FAST(w8a8_row),
    .w8a8_tile = MX_FAST(w8a8_tile),
};
