/* peak.c - what the machine can do: fused multiply-adds in registers, and bytes read from memory.
 * The loops are written for each instruction set with the compiler's target attribute, so that no flag is needed. */
#include "bench.h"

#include "base/base.h"

#define STEPS 200000   /* of a register loop: about a tenth of a millisecond */

/* Independent chains, enough to hide the latency of two units; the sum keeps them alive. */
typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef float vec16 __attribute__((vector_size(64)));


#if defined(__x86_64__)
#define LOOP(name, type, isa, instruction)                                                                             \
    __attribute__((target(isa))) static float name(int64_t steps) {                                                    \
        type c0 = {0}, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0, c9 = c0, c10 = c0,      \
             c11 = c0, x = c0 + 0.5f;                                                                                  \
        for (int64_t i = 0; i < steps; i++)                                                                            \
            __asm__ volatile(instruction " %12, %12, %0\n" instruction " %12, %12, %1\n" instruction                  \
                                         " %12, %12, %2\n" instruction " %12, %12, %3\n" instruction                  \
                                         " %12, %12, %4\n" instruction " %12, %12, %5\n" instruction                  \
                                         " %12, %12, %6\n" instruction " %12, %12, %7\n" instruction                  \
                                         " %12, %12, %8\n" instruction " %12, %12, %9\n" instruction                  \
                                         " %12, %12, %10\n" instruction " %12, %12, %11\n"                            \
                             : "+v"(c0), "+v"(c1), "+v"(c2), "+v"(c3), "+v"(c4), "+v"(c5), "+v"(c6), "+v"(c7),         \
                               "+v"(c8), "+v"(c9), "+v"(c10), "+v"(c11)                                                \
                             : "v"(x));                                                                                \
        type sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;                                        \
        return sum[0];                                                                                                 \
    }
LOOP(fma_avx2, vec8, "avx2,fma", "vfmadd231ps")
LOOP(fma_avx512, vec16, "avx512f", "vfmadd231ps")
#undef LOOP

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
#endif

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

typedef struct peak {
    float (*fma)(int64_t steps);
    int64_t flops;   /* of a step */
    float (*read)(const char *x, size_t bytes);
    const char *bytes;
    size_t n_each;
    volatile float sink;
} peak;

static peak choose(const char *isa) {
    peak p = {.fma = fma_plain, .flops = 12 * 4 * 2, .read = read_plain};
#if defined(__x86_64__)
    if (strcmp(isa, "ref") != 0)
        p.read = read_avx2;
    if (strcmp(isa, "avx2") == 0) {
        p.fma = fma_avx2;
        p.flops = 12 * 8 * 2;
    } else if (strcmp(isa, "avx512") == 0) {
        p.fma = fma_avx512;
        p.flops = 12 * 16 * 2;
    }
#endif
    return p;
}

static void run_fma(void *context, int64_t i) {
    peak *p = context;
    p->sink = p->fma(STEPS);
}

static void run_read(void *context, int64_t i) {
    peak *p = context;
    p->sink = p->read(p->bytes + (size_t)i * p->n_each, p->n_each);
}

double bench_peak_flops(const char *isa, mx_pool *pool) {
    peak p = choose(isa);
    int threads = mx_pool_threads(pool);
    int64_t start = mx_now_ns();
    mx_pool_for(pool, threads, run_fma, &p);
    return (double)p.flops * STEPS * threads / (double)(mx_now_ns() - start);
}

double bench_peak_read(const char *isa, mx_pool *pool, const void *bytes, size_t n) {
    peak p = choose(isa);
    int threads = mx_pool_threads(pool);
    p.bytes = bytes;
    p.n_each = n / (size_t)threads / 4096 * 4096;
    int64_t start = mx_now_ns();
    mx_pool_for(pool, threads, run_read, &p);
    return (double)p.n_each * threads / (double)(mx_now_ns() - start);
}
