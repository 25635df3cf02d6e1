/* device/cpu/isa_x86.c - the instruction sets of x86-64 that kernels are compiled for. */
#include "device/cpu/kernels.h"

#include <cpuid.h>

/* Not every compiler's __builtin_cpu_supports knows this one. That the system saves its registers follows from AVX2. */
static int has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

extern const mx_kernels mx_ref_table, mx_ref_avx2_table, mx_ref_avx512_table, mx_avx2_table, mx_avx512_table,
    mx_avx512vnni_table;

static int always(void) { return 1; }
static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

static const mx_isa sets[] = {
    {"ref", always, &mx_ref_table, NULL},
    {"avx2", has_avx2, &mx_ref_avx2_table, &mx_avx2_table},
    {"avx512", has_avx512, &mx_ref_avx512_table, &mx_avx512_table},
    {"avx512vnni", has_vnni, &mx_ref_avx512_table, &mx_avx512vnni_table},
};

const mx_isa *mx_cpu_isa(int index) { return index >= 0 && (size_t)index < MX_COUNT(sets) ? &sets[index] : NULL; }
