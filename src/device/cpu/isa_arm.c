/* device/cpu/isa_arm.c - the instruction sets of 64-bit ARM: NEON is part of every one of them, the dot product of
 * 8-bit integers of most. */
#include "device/cpu/kernels.h"

extern const mx_kernels mx_ref_table, mx_neon_table, mx_neondot_table;

static const mx_isa sets[] = {
    {"ref", &mx_ref_table, NULL},
    {"neon", &mx_ref_table, &mx_neon_table},
    {"neondot", &mx_ref_table, &mx_neondot_table},
};

const mx_isa *mx_cpu_isa(int index) { return index >= 0 && (size_t)index < MX_COUNT(sets) ? &sets[index] : NULL; }
