/* modules/cuda/chain.cuh - a chain: many calls of a decoder's step as the phases of one kernel, for few rows.
 * chain_build.cu makes it of the calls that a recording sees together, chain_divide.cu deals it to blocks, chain.cu
 * runs it. A phase begins where what it reads is there; blocks do not wait for each other otherwise. */
#ifndef MX_CUDA_CHAIN_CUH
#define MX_CUDA_CHAIN_CUH
#include <cuda_bf16.h>

#include "modules/cuda/product.cuh"
#include "modules/cuda/rows_attention.cuh"
#include "modules/cuda/select_ranges.cuh"

/* ---- rows of tables (step.cu) ------------------------------------------------------------------------------------ */

struct mx_table {
    const void *rows;
    const int32_t *index;
    int dtype;   /* MXW_F32, MXW_F16 or MXW_BF16 */
};

__device__ __forceinline__ float mx_table_at(const mx_table &t, int64_t i) {
    return t.dtype == MXW_F32   ? __ldcg((const float *)t.rows + i)
           : t.dtype == MXW_F16 ? __half2float(__ldcg((const __half *)t.rows + i))
                                : __bfloat162float(__ldcg((const __nv_bfloat16 *)t.rows + i));
}

mx_table mx_table_of(const mx_call *gather);
int mx_cuda_is_embedding(const mx_call *const *calls, size_t n);   /* gather, gather and the sum of both */
/* Whether they are two writes, at the same indices, of columns from[i] to from[i] + width of `rows` rows of y, which
 * are ld apart and have so many columns, to rows of caches. */
int mx_cuda_writes_of(const mx_call *const *calls, size_t n, const float *y, int64_t rows, int64_t ld, int64_t columns,
                      mx_few_caches *to);

/* ---- tiles of keys ----------------------------------------------------------------------------------------------- */

/* A tile with its keys, those of a warp's lane together; which of the keys are told, by whose row of the step. */
struct mx_tile_pad : rows_pad {
    uint4 k[LISTENERS * 8 * MX_WARP];
    alignas(16) uint16_t fresh[ROWS][LISTENERS];
};

/* ---- phases ------------------------------------------------------------------------------------------------------ */

#define MX_CHAIN_ROWS 8      /* at most */
#define MX_CHAIN_MOST 64     /* phases */
#define MX_CHAIN_ITEMS 24    /* chunks of tiles whose sums a block holds at a time */
#define MX_CHAIN_SUM 256     /* bytes of each: 8 rows by 8 columns */
#define MX_CHAIN_WARPS 8
#define MX_CHAIN_OF_WARP 4   /* tiles of logits that a warp has sums for */
#define MX_CHAIN_BESIDES 2048   /* bytes of shared memory besides ring, work and phases, with what aligns them */
#define MX_CHAIN_PART (WIDTH + 2)   /* values of a tile's result: largest score and sum last */

/* Values that blocks hand to each other: each a float and, above it, the tag of the launch that wrote it. Whoever reads
 * them looks until the tag is there, so a value is its own signal. Every phase has values of its own. */
typedef uint64_t mx_told;

enum mx_chain_kind {
    MX_CHAIN_TABLES,
    MX_CHAIN_PRODUCT,
    MX_CHAIN_CACHED,
    MX_CHAIN_LISTEN,   /* a product whose result is the queries, and attention over windows */
    MX_CHAIN_JOIN,
    MX_CHAIN_LOGITS,   /* the last product; if there are parts for it, what the logits of each block come to */
    MX_CHAIN_CHOOSE    /* the join of that: the selection */
};

/* The blocks that a phase is for: `n` of them from `first` on, counted round. */
struct mx_chain_place {
    int first, n;
};

/* Something that is there some time before what a phase needs is: looked at first, since it is small. */
struct mx_chain_sign {
    const mx_told *at;
    int n, step;         /* n places, a power of two, step apart; 0: none */
};

/* A product; columns from[i] to from[i] + width of its result go into a cache as well, at the rows' cells. */
struct mx_chain_product {
    const void *weight;
    int64_t w_part;          /* bytes from a part of the weight to the next */
    const mx_told *x;        /* rows of k; NULL: at plain_x, ldx apart */
    const float *plain_x;
    const float *gamma, *beta, *bias;
    const mx_told *residual; /* rows of n; NULL: none */
    mx_told *y;              /* rows of n; NULL: none */
    float *plain;            /* rows ldy apart; NULL: not wanted */
    float *cache[2];
    int width, from[2];      /* width 0: no caches */
    float eps;
    int n, k, ldx, ldy, act;
    int tiles, blocks, chunks;
    unsigned fours;          /* 2^32 / (k / 4), rounded up */
    int picked;              /* row r of x is row pick[r] */
    int split;               /* y is told as parts (chain_crew.cuh): for products that do not norm it */
    int each;                /* blocks that have the same tiles */
    int group;               /* tiles of 8 columns that come together */
    int share, longer;       /* a block's tiles; the first `longer` blocks have one more */
    uint8_t starts[MX_STARTS + 1];   /* of the chunks of k, in blocks of 64 */
};

/* y = rows of a, plus those of b if there are any; both also on their own, where they are wanted. */
struct mx_chain_tables {
    mx_told *y;
    float *plain, *to_a, *to_b;
    mx_table a, b;
    int n;
};

struct mx_chain_attention {
    rows_job job;
    const mx_told *q;        /* over a cache: rows of ld, queries from 0 on; keys and values of these rows at k and v */
    int ld, k, v;
    mx_told *parts;          /* [rows][heads][tiles][MX_CHAIN_PART] */
    mx_told *y;              /* rows of d, as parts */
    float *plain;
};

struct mx_chain_selection {
    ranged_selection of;     /* a range to each block */
    mx_told *parts;          /* [rows][PART_PAIRS][ranges][2]; NULL: no selection */
};

/* Brought to shared memory by 16 bytes: what lies behind the last one is nobody's. */
struct alignas(16) mx_chain_phase {
    int kind;
    int from;                      /* the phase that makes a product's x */
    mx_chain_place place;
    mx_chain_sign sign;
    mx_chain_product product;      /* of a product, and of the queries to LISTEN */
    union {
        mx_chain_tables tables;
        mx_chain_attention attention;
        mx_chain_selection selection;
    };
};

/* Of each row: where its key and value go, which cells are its past, which window it listens to, which row of x its
 * logits are made of, by which rule it selects. NULL: not needed. */
struct mx_chain_known {
    const int32_t *cell, *seq, *pos, *window, *pick;
    const mx_rule *rules;
};

struct mx_chain {
    int rows, n, blocks;          /* n: phases; blocks: of the kernel */
    int ring_bytes, work_bytes;   /* of shared memory */
    unsigned *met;                /* launches so far; blocks that have left, 0 before and after */
    mx_chain_known known;
    const mx_chain_phase *at;     /* on the GPU: what a kernel is launched with is read one word at a time */
};

struct mx_long_chain : mx_chain {
    static constexpr bool tells = true;
};
/* One phase has nobody to tell. */
struct mx_short_chain : mx_chain {
    static constexpr bool tells = false;
    mx_chain_phase one;
};

/* How phases share blocks and shared memory: the first line is known, the second is found. */
struct mx_chain_division {
    int rows, n, blocks, w_parts;
    int ring_bytes, work_bytes;
};

/* ---- doors ------------------------------------------------------------------------------------------------------- */

size_t mx_cuda_take_chain(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* Which blocks each phase is for, and what of it each has; whether there is memory enough. */
int mx_chain_divide(const mx_cuda *gpu, mx_chain_phase *phases, mx_chain_division *d);
/* One product of many columns; whether it was taken. */
int mx_chain_one_product(mx_cuda *gpu, const mx_product &p);
/* x_parts and w_parts: of all products. */
void mx_chain_run(mx_cuda *gpu, const mx_long_chain &chain, int x_parts, int w_parts);
void mx_chain_run(mx_cuda *gpu, const mx_short_chain &chain, int x_parts, int w_parts);
#endif
