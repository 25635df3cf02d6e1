/* device/cpu/kernels.h - the table of kernels of the CPU, and the functions of each instruction set. */
#ifndef MX_CPU_KERNELS_H
#define MX_CPU_KERNELS_H
#include "op/op.h"
#include "tensor/blocks.h"

#define MX_PANEL 32   /* columns of a weight's panel: a cache line of f16 */
#define MX_CHUNK 16   /* elements of k that stay adjacent where rows are interleaved: a cache line of f32 */

/* Attention over whole windows. */
#define MX_ATTN_QUERIES 384     /* of one call at most: they share keys and values while those are in the cache */
#define MX_ATTN_KEYS 64         /* of a step of the online softmax */
/* Floats of scratch for heads of a width. */
static inline int64_t mx_attn_tile_floats(int64_t width) {
    return (width + 7) / 8 * 8 * 2 * (MX_ATTN_KEYS + MX_ATTN_QUERIES) + 64 * MX_ATTN_KEYS + 2 * MX_ATTN_QUERIES;
}

/* Attention of a decoder's rows. */
#define MX_SUM_LANES 16        /* in which its sums run */
#define MX_ATTN_RANGE 96        /* keys of a window that a piece takes: a multiple of MX_SUM_LANES */

#define MX_TILE_PANELS 2

/* The partial result of select over a range of ids, for one row. */
#define MX_TOPK 64         /* candidates that a range keeps at most */
typedef struct mx_select_side {
    double sum;            /* of e^(x - top) */
    float top;             /* -inf: no id of this side is left */
    int32_t n;             /* candidates */
} mx_select_side;
typedef struct mx_select_part {
    mx_select_side raw;        /* all ids, before the rules; only where the rule has a no_speech id */
    mx_select_side side[2];    /* what is left of the text, of the timestamps */
    float no_speech;           /* the raw logit of that id, if it lies in the range */
} mx_select_part;

/* A quantized activation row of the int8 logits. */
typedef struct mx_int8_row {
    float scale;           /* of its integers */
    float slack;           /* times the scale of an id: the error bound of its int8 logit; inf: unknown */
} mx_int8_row;

/* The blocking of a large GEMM. It follows the caches and never changes a bit. */
typedef struct mx_gemm_blocks {
    int64_t tile_rows;      /* of one gemm_tile call */
    int64_t tile_panels;    /* of one gemm_tile call, at most MX_TILE_PANELS */
    int64_t row_block;      /* rows of a piece: they share each panel that was widened */
    int64_t k_block;        /* of a panel at a time: it stays in the L1 cache; a multiple of MX_CHUNK */
    int64_t column_block;   /* of a piece whose chains are split into blocks of k */
} mx_gemm_blocks;

/* One tile of a large GEMM: y = chains of a b, continued from `start`, + bias + residual, in this order. */
typedef struct mx_gemm_tile {
    int64_t rows, k, panels;
    const float *a;          /* [ceil(k / MX_CHUNK)][a_rows][MX_CHUNK] */
    int64_t a_rows;
    const float *b;          /* [panels][k][MX_PANEL], panels b_stride floats apart */
    int64_t b_stride;
    const float *start;      /* [rows][panels * MX_PANEL]: partial sums that the chains continue from; NULL: zeros */
    const float *bias;       /* [panels * MX_PANEL] or NULL */
    const float *residual;   /* [rows][panels * MX_PANEL], rows ld_residual apart, or NULL */
    int64_t ld_residual;
    float *y;                /* [rows][panels * MX_PANEL], rows ldy apart; may be start */
    int64_t ldy;
    /* Memory to prefetch: for each chunk of k one kilobyte, prefetch_stride bytes apart. May be NULL, or point past the
     * end of an array. */
    const void *prefetch;
    int64_t prefetch_stride;
} mx_gemm_tile;

/* The blocking of a product in 8 bits, and how a number p of a row is stored: as p + offset in `bytes` bytes. */
typedef struct mx_w8a8_blocks {
    int64_t tile_rows;      /* of one w8a8_tile call */
    int64_t tile_panels;    /* of one w8a8_tile call, at most MX_TILE_PANELS */
    int64_t row_block;      /* rows of a piece of many */
    int64_t bytes;          /* 1 or 2 */
    int32_t offset;         /* 0 or 128 */
    int64_t adjacent;       /* fours of a row that make a line, whose bytes are adjacent: 1, or 16 */
} mx_w8a8_blocks;

/* One tile of a product in 8 bits: y = (sum of (p + shift) w) * (scale of the column * scale of the row) + bias +
 * residual, each step rounded to f32, in this order. */
typedef struct mx_w8a8_tile {
    int64_t rows, quads, panels;
    const void *a;            /* [lines][a_rows][adjacent][4] numbers of rows, lines = ceil(quads / adjacent) */
    int64_t a_rows;
    const float *row_scales;  /* [rows] */
    const int32_t *row_shifts;   /* [rows] */
    const int8_t *b;          /* [panels][quads][MX_PANEL][4], -128 among them */
    const float *scales;      /* [panels * MX_PANEL] */
    const int32_t *sums;      /* [panels * MX_PANEL]: the sum of each column's w, for shift and offset */
    const float *bias;        /* [panels * MX_PANEL] or NULL */
    const float *residual;    /* [rows][panels * MX_PANEL], rows ld_residual apart, or NULL */
    int64_t ld_residual;
    float *y;                 /* [rows][panels * MX_PANEL], rows ldy apart */
    int64_t ldy;
    int streams;              /* b is read from memory, once: prefetch it */
} mx_w8a8_tile;

typedef struct mx_kernels {
#define MX_KERNEL(name, parameters) void(*name) parameters;
#include "device/cpu/kernels.def"
#undef MX_KERNEL
} mx_kernels;

/* The reference loops of ref/ are compiled once for each instruction set, under a name of their own: mx_ref_gelu_erf
 * for the baseline, mx_ref_avx2_gelu_erf, ... The source fixes every order of summation and nothing may be contracted,
 * so all of them give the same bits; wider vectors are only faster. */
#define MX_JOIN_(a, b) a##b
#define MX_JOIN(a, b) MX_JOIN_(a, b)
#ifndef MX_ISA
#define MX_ISA mx_ref_   /* the build passes mx_ref_avx2_ and so on */
#endif
#define MX_REF(name) MX_JOIN(MX_ISA, name)

#define MX_KERNEL(name, parameters) void MX_REF(name) parameters;
#include "device/cpu/kernels.def"
#undef MX_KERNEL

/* The kernels written for vectors, as templates in simd/ or by hand in avx2/, avx512/, amx/, neon/: MX_FAST(gelu_erf)
 * is mx_avx2_gelu_erf and so on. */
#ifdef MX_FAST_ISA
#define MX_FAST(name) MX_JOIN(MX_FAST_ISA, name)
#define MX_KERNEL(name, parameters) void MX_FAST(name) parameters;
#include "device/cpu/kernels.def"
#undef MX_KERNEL
#endif

/* The instruction sets that were built, the baseline first, each better than the one before; NULL past the end. */
typedef struct mx_isa {
    const char *name;               /* base/cpu.h */
    const mx_kernels *kernels;      /* the reference loops compiled for it: every kernel */
    const mx_kernels *fast;         /* written for its vectors, the others NULL; NULL where it has none */
} mx_isa;
const mx_isa *mx_cpu_isa(int index);
/* The best one that the processor has and MXW_CPU allows. */
const mx_isa *mx_cpu_best_isa(void);

/* The table of the eager engine: the reference loops for the best instruction set that the processor has and MXW_CPU
 * allows, their gemm replaced by the blas module's where that is installed. Made once; the same for every caller. */
const mx_kernels *mx_cpu_kernels(void);
/* The table of compiled calls: the reference loops, overlaid with the vector kernels of each instruction set up to the
 * best one. No BLAS. */
const mx_kernels *mx_cpu_fast_kernels(void);
/* The table of compiled calls in 8 bits: the same, with the kernels whose bits depend on the instruction set replaced
 * by the same_.. ones. */
const mx_kernels *mx_cpu_int8_kernels(void);
/* Whose table that is: the best one that the system lets this process use (mx_cpu_enable), too. */
const mx_isa *mx_cpu_int8_isa(void);
/* The set that a kernel of a table comes from: in mx_cpu_fast_kernels, say, of AVX-512's for a GEMM on a processor with
 * AMX. kernel: offsetof(mx_kernels, name); best: mx_cpu_best_isa() or mx_cpu_int8_isa(). */
const char *mx_cpu_set_of(const mx_isa *best, size_t kernel);
/* mx_cpu_fast_kernels for one instruction set, for tests; 0 if this process cannot use it. */
int mx_cpu_fast_for(const mx_isa *isa, mx_kernels *out);
#endif
