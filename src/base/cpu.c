/* base/cpu.c - see cpu.h. */
#include "base/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static int always(void) { return 1; }

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not every compiler's __builtin_cpu_supports knows this one. AVX2 implies that the OS saves the registers. */
static int has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

/* Nor this one. */
static int has_avxvnni(void) {
    enum { AVX_VNNI = 1 << 4 };
    unsigned a = 0, b, c, d;
    return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX_VNNI);
}

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static int has_vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

/* Whether the system saves these parts of the registers at all. AVX2 implies that there is xgetbv. */
static int saves(unsigned parts) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & parts) == parts;
}

static int has_amx(void) {
    enum { TILE_SHAPES = 1 << 17, TILE_DATA = 1 << 18, TILES = 1 << 24, INT8 = 1 << 25 };
    unsigned a, b, c, d = 0;
    return has_vnni() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & TILES) && (d & INT8) &&
           saves(TILE_SHAPES | TILE_DATA);
}

/* The system grants 8 KB more of state to every thread of this process, and refuses where a signal stack is too small
 * for that. */
static int enable_amx(void) {
#ifdef __linux__
    enum { REQUEST = 0x1023, TILE_DATA = 18 };   /* ARCH_REQ_XCOMP_PERM */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return 0;
#endif
}
#endif

#ifdef __aarch64__
#include <sys/auxv.h>

static int has_dot(void) { return (getauxval(AT_HWCAP) & (1 << 20)) != 0; }   /* HWCAP_ASIMDDP */
#endif

static const struct {
    const char *name;
    int (*has)(void), (*enable)(void);
} sets[] = {
    {"ref", always, always},
#ifdef __x86_64__
    {"avx2", has_avx2, always},
    {"avxvnni", has_avxvnni, always},
    {"avx512", has_avx512, always},
    {"avx512vnni", has_vnni, always},
    {"amx", has_amx, enable_amx},
#elif defined(__aarch64__)
    {"neon", always, always},   /* mandatory on 64-bit ARM */
    {"neondot", has_dot, always},
#endif
};

/* The index of the set; the number of sets if it is unknown. */
static size_t find(const char *set) {
    size_t i = 0;
    while (i < MX_COUNT(sets) && strcmp(sets[i].name, set) != 0)
        i++;
    return i;
}

int mx_cpu_has(const char *set) {
    size_t at = find(set);
    return at < MX_COUNT(sets) && sets[at].has();
}

int mx_cpu_may(const char *set) {
    const char *cap = getenv("MXW_CPU");
    return mx_cpu_has(set) && (!cap || find(set) <= find(cap));
}

mxw_status mx_cpu_check(void) {
    const char *cap = getenv("MXW_CPU");
    char names[128] = "";
    if (!cap || !*cap || find(cap) < MX_COUNT(sets))
        return MXW_OK;
    for (size_t i = 0; i < MX_COUNT(sets); i++) {
        const char *between = i == 0 ? "" : i + 1 < MX_COUNT(sets) ? ", " : " or ";
        size_t end = strlen(names);
        snprintf(names + end, sizeof(names) - end, "%s%s", between, sets[i].name);
    }
    return mx_fail(MXW_E_ARGUMENT, "MXW_CPU: '%s': expected %s", cap, names);
}

int mx_cpu_enable(const char *set) {
    size_t at = find(set);
    return at < MX_COUNT(sets) && sets[at].has() && sets[at].enable();
}
