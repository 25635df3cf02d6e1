/* device/cpu/isa_x86.c - the instruction sets of x86-64 that kernels are compiled for. */
#include "device/cpu/kernels.h"

extern const mx_kernels mx_ref_table, mx_ref_avx2_table, mx_ref_avx512_table, mx_avx2_table, mx_avxvnni_table,
    mx_avx512_table, mx_avx512vnni_table, mx_amx_table;

static const mx_isa sets[] = {
    {"ref", &mx_ref_table, NULL},
    {"avx2", &mx_ref_avx2_table, &mx_avx2_table},
    {"avxvnni", &mx_ref_avx2_table, &mx_avxvnni_table},
    {"avx512", &mx_ref_avx512_table, &mx_avx512_table},
    {"avx512vnni", &mx_ref_avx512_table, &mx_avx512vnni_table},
    {"amx", &mx_ref_avx512_table, &mx_amx_table},
};

const mx_isa *mx_cpu_isa(int index) { return index >= 0 && (size_t)index < MX_COUNT(sets) ? &sets[index] : NULL; }
