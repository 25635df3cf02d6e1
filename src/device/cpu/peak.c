/* device/cpu/peak.c - the measured peak of the processor: fused multiply-adds and products in 8 bits in
 * registers, and bytes read from memory.
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
                             : INPUT(x)                                                                                \
                             : CLOBBERS);                                                                              \
        type sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;                                        \
        return sum[0];                                                                                                 \
    }

#if defined(__x86_64__)
#define FMA(i) "vfmadd231ps %12, %12, %" #i "\n"
#define IN_OUT(c) "+v"(c)
#define INPUT(x) "v"(x)
#define CLOBBERS "xmm15"
LOOP(fma_avx2, vec8, __attribute__((target("avx2,fma"))), FMA, IN_OUT)
LOOP(fma_avx512, vec16, __attribute__((target("avx512f"))), FMA, IN_OUT)

/* Pairs of 16-bit numbers, or fours of bytes where there is an instruction that does not saturate. */
#define PAIRS_AVX2(i) "vpmaddwd %12, %12, %%ymm15\nvpaddd %%ymm15, %" #i ", %" #i "\n"
#define PAIRS_AVX512(i) "vpmaddwd %12, %12, %%zmm15\nvpaddd %%zmm15, %" #i ", %" #i "\n"
#define FOURS_AVXVNNI(i) "%{vex%} vpdpbusd %12, %12, %" #i "\n"
#define FOURS_VNNI(i) "vpdpbusd %12, %12, %" #i "\n"
LOOP(int8_avx2, vec8, __attribute__((target("avx2"))), PAIRS_AVX2, IN_OUT)
LOOP(int8_avxvnni, vec8, __attribute__((target("avx2,avxvnni"))), FOURS_AVXVNNI, IN_OUT)
LOOP(int8_avx512, vec16, __attribute__((target("avx512f,avx512bw"))), PAIRS_AVX512, IN_OUT)
LOOP(int8_vnni, vec16, __attribute__((target("avx512f,avx512vnni"))), FOURS_VNNI, IN_OUT)

/* Six tiles of sums, each product of 16 x 64 by 64 x 16 numbers. */
#define AMX_SHORTER 16   /* one of its steps is as long as so many of the others */
static float int8_amx(int64_t steps) {
    struct {
        uint8_t palette, zero[15];
        uint16_t bytes[16];
        uint8_t lines[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.lines[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shape) : "memory");   /* all tiles are zeros then */
    for (int64_t i = 0; i < steps / AMX_SHORTER; i++)
        __asm__ volatile("tdpbssd %tmm7, %tmm6, %tmm0\ntdpbssd %tmm7, %tmm6, %tmm1\ntdpbssd %tmm7, %tmm6, %tmm2\n"
                         "tdpbssd %tmm7, %tmm6, %tmm3\ntdpbssd %tmm7, %tmm6, %tmm4\ntdpbssd %tmm7, %tmm6, %tmm5\n");
    __asm__ volatile("tilerelease" ::: "memory");
    return 0;
}

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
#define CLOBBERS "v31"
LOOP(fma_neon, vec4, , FMA, IN_OUT)

#define PAIRS(i) "smull v31.8h, %12.8b, %12.8b\nsadalp %" #i ".4s, v31.8h\n"
#define FOURS(i) "sdot %" #i ".4s, %12.16b, %12.16b\n"
LOOP(int8_neon, vec4, , PAIRS, IN_OUT)
LOOP(int8_dot, vec4, __attribute__((target("arch=armv8.2-a+dotprod"))), FOURS, IN_OUT)
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

static float int8_plain(int64_t steps) {
    int32_t c[12] = {0};
    int8_t x[12];
    memset(x, (int)steps, sizeof(x));
    for (int64_t i = 0; i < steps; i++)
        for (int j = 0; j < 12; j++)
            c[j] += x[j] * x[11 - j] + (int32_t)i;
    for (int j = 1; j < 12; j++)
        c[0] += c[j];
    return (float)c[0];
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
    float (*int8)(int64_t steps);
    int64_t int8_ops;
    float (*read)(const char *x, size_t bytes);
    const char *bytes;
    size_t n_each;
    volatile float sink;
} loops;

static loops choose(const char *isa) {
    loops l = {.fma = fma_plain, .flops = 12 * 4 * 2, .read = read_plain, .int8 = int8_plain, .int8_ops = 12 * 2};
#if defined(__x86_64__)
    if (strcmp(isa, "ref") != 0)
        l.read = read_avx2;
    if (strcmp(isa, "avx2") == 0 || strcmp(isa, "avxvnni") == 0) {
        l.fma = fma_avx2;
        l.flops = 12 * 8 * 2;
        l.int8 = int8_avx2;
        l.int8_ops = 12 * 16 * 2;
    } else if (strncmp(isa, "avx512", 6) == 0 || strcmp(isa, "amx") == 0) {
        l.fma = fma_avx512;
        l.flops = 12 * 16 * 2;
        l.int8 = int8_avx512;
        l.int8_ops = 12 * 32 * 2;
    }
    if (strcmp(isa, "avxvnni") == 0) {
        l.int8 = int8_avxvnni;
        l.int8_ops = 12 * 32 * 2;
    }
    if (strcmp(isa, "avx512vnni") == 0) {
        l.int8 = int8_vnni;
        l.int8_ops = 12 * 64 * 2;
    }
    if (strcmp(isa, "amx") == 0) {
        l.int8 = int8_amx;
        l.int8_ops = 6 * 16 * 16 * 64 * 2 / AMX_SHORTER;
    }
#elif defined(__aarch64__)
    if (strcmp(isa, "ref") != 0) {
        l.fma = fma_neon;
        l.int8 = int8_neon;
        l.int8_ops = 12 * 8 * 2;
    }
    if (strcmp(isa, "neondot") == 0) {
        l.int8 = int8_dot;
        l.int8_ops = 12 * 16 * 2;
    }
#endif
    return l;
}

static void run_fma(void *context, int64_t i) {
    loops *l = context;
    l->sink = l->fma(STEPS);
}

static void run_int8(void *context, int64_t i) {
    loops *l = context;
    l->sink = l->int8(STEPS);
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

double mx_peak_int8_gops(const char *isa, mx_pool *pool) {
    loops l = choose(isa);
    int threads = mx_pool_threads(pool);
    int64_t start = mx_now_ns();
    mx_pool_for(pool, threads, run_int8, &l);
    return (double)l.int8_ops * STEPS * threads / (double)(mx_now_ns() - start);
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
    const char *isa = mx_cpu_best_isa()->name, *int8_isa = mx_cpu_int8_isa()->name;
    char *bytes = mx_alloc(READ_BYTES);
    if (!bytes)
        return MXW_E_MEMORY;
    memset(bytes, 1, READ_BYTES);
    peak->gflops = peak->read_gbs = peak->int8_gops = 0;
    for (int i = 0; i < 10 * ROUNDS; i++) {
        double gflops = mx_peak_gflops(isa, pool), int8_gops = mx_peak_int8_gops(int8_isa, pool);
        peak->gflops = MX_MAX(peak->gflops, gflops);
        peak->int8_gops = MX_MAX(peak->int8_gops, int8_gops);
        double read_gbs = i % 10 ? 0 : mx_peak_read_gbs(isa, pool, bytes, READ_BYTES);
        peak->read_gbs = MX_MAX(peak->read_gbs, read_gbs);
    }
    mx_free(bytes);
    return MXW_OK;
}
