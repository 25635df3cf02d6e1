/* device/cpu/peak.c - the measured peak of the processor: fused multiply-adds in registers, and bytes read from
 * memory.
 * The loops are written for each instruction set with the compiler's target attribute, so that no flag is needed. */
#include "device/cpu/peak.h"

#include <string.h>

#include "base/base.h"
#include "device/cpu/kernels.h"

#define STEPS 200000               /* of a register loop: some tenths of a millisecond */
#define READ_BYTES ((size_t)128 << 20)   /* more than any cache that a process has to itself */
#define ROUNDS 16                  /* of reading, of which the best counts; ten times as many of arithmetic */

typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec16 __attribute__((vector_size(64)));

/* Twelve independent chains, enough to hide the latency of two units; their sum keeps them alive. */
#define LOOP(name, type, attribute, operation, constraint)                                                             \
    attribute static float name(int64_t steps) {                                                                       \
        type c0 = {0}, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0,      \
             c11 = c0, x = c0 + 0.5f;                                                                                  \
        for (int64_t i = 0; i < steps; i++)                                                                            \
            __asm__ volatile(operation(0) operation(1) operation(2) operation(3) operation(4) operation(5)             \
                             operation(6) operation(7) operation(8) operation(9) operation(10) operation(11)           \
                             : constraint(c0), constraint(c1), constraint(c2), constraint(c3), constraint(c4),         \
                               constraint(c5), constraint(c6), constraint(c7), constraint(c8), constraint(c9),         \
                               constraint(c10), constraint(c11)                                                        \
                             : INPUT(x));                                                                              \
        type sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;                                        \
        return sum[0];                                                                                                 \
    }

#if defined(__x86_64__)
#define FMA(i) "vfmadd231ps %12, %12, %" #i "\n"
#define IN_OUT(c) "+v"(c)
#define INPUT(x) "v"(x)
LOOP(fma_avx2, vec8, __attribute__((target("avx2,fma"))), FMA, IN_OUT)
LOOP(fma_avx512, vec16, __attribute__((target("avx512f"))), FMA, IN_OUT)

__attribute__((target("avx2"))) static float read_avx2(const char *x, size_t bytes) {
    vec8 s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
    for (size_t i = 0; i + 128 <= bytes; i += 128) {
        const vec8 *v = (const void *)(x + i);
        s0 += v[0];
        s1 += v[1];
        s2 += v[2];
        s3 += v[3];
    }
    s0 += s1 + s2 + s3;
    return s0[0];
}
#elif defined(__aarch64__)
#define FMA(i) "fmla %" #i ".4s, %12.4s, %12.4s\n"
#define IN_OUT(c) "+w"(c)
#define INPUT(x) "w"(x)
LOOP(fma_neon, vec4, , FMA, IN_OUT)
#endif

/* Whatever the compiler makes of it. */
static float fma_plain(int64_t steps) {
    vec4 c[12] = {{0}}, x = {0.5f, 0.5f, 0.5f, 0.5f};
    for (int64_t i = 0; i < steps; i++)
        for (int j = 0; j < 12; j++)
            c[j] += x * x;
    for (int j = 1; j < 12; j++)
        c[0] += c[j];
    return c[0][0];
}

static float read_plain(const char *x, size_t bytes) {
    vec4 s0 = {0}, s1 = s0;
    for (size_t i = 0; i + 32 <= bytes; i += 32) {
        s0 += *(const vec4 *)(const void *)(x + i);
        s1 += *(const vec4 *)(const void *)(x + i + 16);
    }
    s0 += s1;
    return s0[0];
}

/* ---- on all threads ---------------------------------------------------------------------------------------------- */

typedef struct loops {
    float (*fma)(int64_t steps);
    int64_t flops;   /* of a step */
    float (*read)(const char *x, size_t bytes);
    const char *bytes;
    size_t n_each;
    volatile float sink;
} loops;

static loops choose(const char *isa) {
    loops l = {.fma = fma_plain, .flops = 12 * 4 * 2, .read = read_plain};
#if defined(__x86_64__)
    if (strcmp(isa, "ref") != 0)
        l.read = read_avx2;
    if (strcmp(isa, "avx2") == 0) {
        l.fma = fma_avx2;
        l.flops = 12 * 8 * 2;
    } else if (strncmp(isa, "avx512", 6) == 0) {
        l.fma = fma_avx512;
        l.flops = 12 * 16 * 2;
    }
#elif defined(__aarch64__)
    if (strcmp(isa, "ref") != 0)
        l.fma = fma_neon;
#endif
    return l;
}

static void run_fma(void *context, int64_t i) {
    loops *l = context;
    l->sink = l->fma(STEPS);
}

static void run_read(void *context, int64_t i) {
    loops *l = context;
    l->sink = l->read(l->bytes + (size_t)i * l->n_each, l->n_each);
}

double mx_peak_gflops(const char *isa, mx_pool *pool) {
    loops l = choose(isa);
    int threads = mx_pool_threads(pool);
    int64_t start = mx_now_ns();
    mx_pool_for(pool, threads, run_fma, &l);
    return (double)l.flops * STEPS * threads / (double)(mx_now_ns() - start);
}

double mx_peak_read_gbs(const char *isa, mx_pool *pool, const void *bytes, size_t n) {
    loops l = choose(isa);
    int threads = mx_pool_threads(pool);
    l.bytes = bytes;
    l.n_each = n / (size_t)threads / 4096 * 4096;
    int64_t start = mx_now_ns();
    mx_pool_for(pool, threads, run_read, &l);
    return (double)l.n_each * threads / (double)(mx_now_ns() - start);
}

mxw_status mx_cpu_measure(const mx_device *device, mx_pool *pool, mxw_device_peak *peak) {
    const char *isa = mx_cpu_best_isa()->name;
    char *bytes = mx_alloc(READ_BYTES);
    if (!bytes)
        return MXW_E_MEMORY;
    memset(bytes, 1, READ_BYTES);
    peak->gflops = peak->read_gbs = 0;
    for (int i = 0; i < 10 * ROUNDS; i++) {
        double gflops = mx_peak_gflops(isa, pool);
        peak->gflops = MX_MAX(peak->gflops, gflops);
        double read_gbs = i % 10 ? 0 : mx_peak_read_gbs(isa, pool, bytes, READ_BYTES);
        peak->read_gbs = MX_MAX(peak->read_gbs, read_gbs);
    }
    mx_free(bytes);
    return MXW_OK;
}
