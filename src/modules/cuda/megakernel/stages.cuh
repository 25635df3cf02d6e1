/* modules/cuda/megakernel/stages.cuh - a chain: many calls of a decoder's step as the phases of one kernel, for few
 * rows. megakernel/build.cu makes it of the calls that a recording sees together, megakernel/schedule.cu deals it to
 * blocks, megakernel/sm90/kernel.cu runs it. A phase begins where what it reads is there; blocks do not wait for each
 * other otherwise. */
#ifndef MX_CUDA_MEGAKERNEL_STAGES_CUH
#define MX_CUDA_MEGAKERNEL_STAGES_CUH
#include <cuda_bf16.h>

#include "modules/cuda/gemm/gemm.cuh"
#include "modules/cuda/attention/decode_tile.cuh"
#include "modules/cuda/logits/select_partial.cuh"

/* ---- rows of tables (ops/gather_scatter.cu) ---------------------------------------------------------------------- */

struct embedding_table {
    const void *rows;
    const int32_t *index;
    int dtype;   /* MXW_F32, MXW_F16 or MXW_BF16 */
};

__device__ __forceinline__ float table_at(const embedding_table &t, int64_t i) {
    return t.dtype == MXW_F32   ? __ldcg((const float *)t.rows + i)
           : t.dtype == MXW_F16 ? __half2float(__ldcg((const __half *)t.rows + i))
                                : __bfloat162float(__ldcg((const __nv_bfloat16 *)t.rows + i));
}

embedding_table table_of(const mx_call *gather);
int is_embedding(const mx_call *const *calls, size_t n);   /* gather, gather and the sum of both */
/* Whether they are two writes, at the same indices, of columns from[i] to from[i] + width of `rows` rows of y, which
 * are ld apart and have so many columns, to rows of caches. */
int cache_writes_of(const mx_call *const *calls, size_t n, const float *y, int64_t rows, int64_t ld, int64_t columns,
                    kv_cache_out *to);

/* ---- tiles of keys ----------------------------------------------------------------------------------------------- */

/* A tile with its keys, those of a warp's lane together; which of the keys are told, by whose row of the step. */
struct fresh_tile_smem : tile_smem {
    uint4 k[TILE_WARPS * 8 * WARP_SIZE];
    alignas(16) uint16_t fresh[TILE_ROWS][TILE_WARPS];
};

/* ---- phases ------------------------------------------------------------------------------------------------------ */

#define MAX_ROWS 8      /* at most */
#define MAX_STAGES 64     /* phases */
#define MAX_ITEMS 24    /* slices of tiles whose sums a block holds at a time */
#define ITEM_SUM_BYTES 256     /* bytes of each: 8 rows by 8 columns */
#define WORKER_WARPS 8
#define LOGIT_TILES_PER_WARP 4   /* tiles of logits that a warp has sums for */
#define SMEM_RESERVE 2048   /* bytes of shared memory besides ring, work and phases, with what aligns them */
#define PARTIAL_VALUES (HEAD_DIM + 2)   /* values of a tile's result: largest score and sum last */

/* Values that blocks hand to each other: each a float and, above it, the tag of the launch that wrote it. Whoever reads
 * them looks until the tag is there, so a value is its own signal. Every phase has values of its own. */
typedef uint64_t flagged;

enum stage_kind {
    STAGE_EMBED,
    STAGE_GEMM,
    STAGE_SELF_ATTN,
    STAGE_CROSS_ATTN,   /* a product whose result is the queries, and attention over windows */
    STAGE_COMBINE,
    STAGE_LOGITS,   /* the last product; if there are parts for it, what the logits of each block come to */
    STAGE_SELECT    /* the join of that: the selection */
};

/* The blocks that a phase is for: `n` of them from `first` on, counted round. */
struct stage_ctas {
    int first, n;
};

/* Something that is there some time before what a phase needs is: looked at first, since it is small. */
struct hint_flag {
    const flagged *at;
    int n, step;         /* n places, a power of two, step apart; 0: none */
};

/* A product; columns from[i] to from[i] + width of its result go into a cache as well, at the rows' cells. */
struct gemm_stage {
    const void *weight;
    int64_t w_term_bytes;          /* bytes from a part of the weight to the next */
    const flagged *x;        /* rows of k; NULL: at plain_x, ldx apart */
    const float *plain_x;
    const float *gamma, *beta, *bias;
    const flagged *residual; /* rows of n; NULL: none */
    flagged *y;              /* rows of n; NULL: none */
    float *plain;            /* rows ldy apart; NULL: not wanted */
    float *cache[2];
    int width, from[2];      /* width 0: no caches */
    float eps;
    int n, k, ldx, ldy, act;
    int tiles, blocks, slices;
    unsigned fours;          /* 2^32 / (k / 4), rounded up */
    int picked;              /* row r of x is row pick[r] */
    int split;               /* y is told as parts (megakernel/sm90/grid_sync.cuh): for products that do not norm it */
    int each;                /* blocks that have the same tiles */
    int group;               /* tiles of 8 columns that come together */
    int share, longer;       /* a block's tiles; the first `longer` blocks have one more */
    uint8_t starts[MAX_SLICES + 1];   /* of the slices of k, in blocks of 64 */
};

/* y = rows of a, plus those of b if there are any; both also on their own, where they are wanted. */
struct embed_stage {
    flagged *y;
    float *plain, *to_a, *to_b;
    embedding_table a, b;
    int n;
};

struct attention_stage {
    decode_params job;
    const flagged *q;        /* over a cache: rows of ld, queries from 0 on; keys and values of these rows at k and v */
    int ld, k, v;
    flagged *partials;          /* [rows][heads][tiles][PARTIAL_VALUES] */
    flagged *y;              /* rows of d, as parts */
    float *plain;
};

struct select_stage {
    partial_selection of;     /* a range to each block */
    flagged *partials;          /* [rows][PARTIAL_PAIRS][ranges][2]; NULL: no selection */
};

/* Brought to shared memory by 16 bytes: what lies behind the last one is nobody's. */
struct alignas(16) stage_desc {
    int kind;
    int from;                      /* the phase that makes a product's x */
    stage_ctas place;
    hint_flag hint;
    gemm_stage product;      /* of a product, and of the queries to LISTEN */
    union {
        embed_stage tables;
        attention_stage attention;
        select_stage selection;
    };
};

/* Of each row: where its key and value go, which cells are its past, which window it listens to, which row of x its
 * logits are made of, by which rule it selects. NULL: not needed. */
struct row_info {
    const int32_t *cell, *seq, *pos, *window, *pick;
    const mx_rule *rules;
};

struct kernel_params {
    int rows, n, blocks;          /* n: phases; blocks: of the kernel */
    int ring_bytes, work_bytes;   /* of shared memory */
    unsigned *met;                /* launches so far; blocks that have left, 0 before and after */
    row_info known;
    const stage_desc *at;     /* on the GPU: what a kernel is launched with is read one word at a time */
};

struct megakernel_params : kernel_params {
    static constexpr bool publishes = true;
};
/* One phase has nobody to tell. */
struct single_stage_params : kernel_params {
    static constexpr bool publishes = false;
    stage_desc one;
};

/* How phases share blocks and shared memory: the first line is known, the second is found. */
struct schedule_params {
    int rows, n, blocks, w_terms;
    int ring_bytes, work_bytes;
};

/* ---- doors ------------------------------------------------------------------------------------------------------- */

size_t megakernel_take(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* Which blocks each phase is for, and what of it each has; whether there is memory enough. */
int make_schedule(const mx_cuda *gpu, stage_desc *stages, schedule_params *d);
/* One product of many columns; whether it was taken. */
int megakernel_gemm(mx_cuda *gpu, const gemm_params &p);
/* x_terms and w_terms: of all products. */
void launch_megakernel(mx_cuda *gpu, const megakernel_params &params, int x_terms, int w_terms);
void launch_megakernel(mx_cuda *gpu, const single_stage_params &params, int x_terms, int w_terms);
#endif
