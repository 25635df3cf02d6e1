/* modules/cuda/megakernel/stages.cuh - the decode megakernel: the calls of a decoder step as stages of one kernel, for
 * few rows. megakernel/build.cu builds it from the calls that a graph capture sees together, megakernel/schedule.cu
 * assigns stages to CTAs, megakernel/sm90/kernel.cu runs it. A stage starts when its inputs are there; CTAs do not wait
 * for each other otherwise. Design and measurements: docs/internals/decode-megakernel.md. */
#ifndef MX_CUDA_MEGAKERNEL_STAGES_CUH
#define MX_CUDA_MEGAKERNEL_STAGES_CUH
#include "modules/cuda/attention/decode_tile.cuh"
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/operand.cuh"
#include "modules/cuda/logits/select_partial.cuh"
#include "modules/cuda/ops/gather_scatter.cuh"

namespace mx::megakernel {

using namespace attention;
using namespace gemm;
using namespace logits;
using namespace ops;

/* ---- tiles of keys ----------------------------------------------------------------------------------------------- */

/* A tile with its values and its keys: of two terms, those of a warp's lane together; which of the keys are published
 * in this step, and by which row. */
struct fresh_tile_smem : tile_smem {
    uint4 v[TILE_CHUNKS<2>], k[TILE_CHUNKS<2>];
    alignas(16) uint16_t fresh[TILE_ROWS][TILE_WARPS];
};

/* ---- stages ------------------------------------------------------------------------------------------------------ */

constexpr int MAX_ROWS = 8;   /* at most */
constexpr int MAX_STAGES = 64;   /* stages */
constexpr int MAX_ITEMS = 24;   /* K slices of tiles whose sums a CTA holds at a time */
constexpr int ITEM_SUM_BYTES = 256;   /* bytes of each: 8 rows by 8 columns */
constexpr int WORKER_WARPS = 8;
constexpr int LOGIT_TILES_PER_WARP = 4;   /* tiles of logits that a warp accumulates */
constexpr int SMEM_RESERVE = 2048;   /* bytes of shared memory besides ring, work and stages, alignment included */
constexpr int PARTIAL_VALUES = HEAD_DIM + 2;   /* values of a partial result: row max and sum last */

/* Values that CTAs pass to each other: each a float and, above it, the epoch of the launch that wrote it. A reader
 * polls until the epoch matches, so a value is its own signal. Every stage has values of its own. */
typedef uint64_t flagged;

enum stage_kind {
    STAGE_EMBED,
    STAGE_GEMM,
    STAGE_SELF_ATTN,
    STAGE_CROSS_ATTN,   /* a GEMM whose result is the queries, and attention over windows */
    STAGE_COMBINE,
    STAGE_LOGITS,   /* the last GEMM; with partials, also the reduction of each CTA's logits */
    STAGE_SELECT    /* combines those: the selection */
};

/* The CTAs of a stage: `n` of them from `first` on, modulo the grid. */
struct stage_ctas {
    int first, n;
};

/* A flag that is set some time before the input of a stage is ready: polled first, since it is small. */
struct hint_flag {
    const flagged *at;
    int n, step;         /* n flags, a power of two, step apart; 0: none */
};

/* A GEMM; columns from[i] to from[i] + width of its result also go into a cache, at the rows' cells. */
struct gemm_stage {
    const void *weight;
    int64_t w_term_bytes;          /* bytes from one term of the weight to the next */
    const flagged *x;        /* rows of k; NULL: at plain_x, with stride ldx */
    const float *plain_x;
    const float *gamma, *beta, *bias;
    const flagged *residual; /* rows of n; NULL: none */
    flagged *y;              /* rows of n; NULL: none */
    float *plain;            /* rows with stride ldy; NULL: not needed */
    void *cache[2];          /* f16 where x has one term, else f32 */
    int width, from[2];      /* width 0: no caches */
    float eps;
    int n, k, ldx, ldy, act;
    int tiles, blocks, slices;
    unsigned fours;          /* 2^32 / (k / 4), rounded up */
    int picked;              /* row r of x is row pick[r] */
    int split;               /* y is published as f16 terms (grid_sync.cuh): for GEMMs that do not normalise it */
    int each;                /* CTAs that have the same tiles */
    int group;               /* tiles of 8 columns that are loaded together */
    int share, longer;       /* tiles per CTA; the first `longer` CTAs have one more */
    uint8_t starts[MAX_SLICES + 1];   /* of the K slices, in blocks of 64 */
};

/* y = rows of a, plus those of b if present; both also on their own, where needed. */
struct embed_stage {
    flagged *y;
    float *plain, *to_a, *to_b;
    embedding_table a, b;
    int n;
};

struct attention_stage {
    decode_params job;
    const flagged *q;        /* over a cache: rows of ld, queries first; keys and values of these rows at k and v */
    int ld, k, v;
    flagged *partials;          /* [rows][heads][tiles][PARTIAL_VALUES] */
    flagged *y;              /* rows of d, as f16 terms */
    float *plain;
};

struct select_stage {
    partial_selection of;     /* a range per CTA */
    flagged *partials;          /* [rows][PARTIAL_PAIRS][ranges][2]; NULL: no selection */
};

/* Copied to shared memory 16 bytes at a time, hence the alignment. */
struct alignas(16) stage_desc {
    int kind;
    int from;                      /* the stage that produces a GEMM's x */
    stage_ctas place;
    hint_flag hint;
    gemm_stage product;      /* of a GEMM, and of the queries of cross-attention */
    union {
        embed_stage tables;
        attention_stage attention;
        select_stage selection;
    };
};

/* For each row: the cell its key and value go to, the cells of its past, the window it attends to, the row of x its
 * logits are computed from, and its selection rule. NULL: not needed. */
struct row_info {
    const int32_t *cell, *seq, *pos, *window, *pick;
    const mx_rule *rules;
};

struct kernel_params {
    int rows, n, blocks;          /* n: stages; blocks: CTAs of the kernel */
    int ring_bytes, work_bytes;   /* of shared memory */
    unsigned *met;                /* launches so far; CTAs that have finished, 0 before and after */
    row_info known;
    const stage_desc *at;     /* on the GPU: kernel parameters would be read one word at a time */
};

struct megakernel_params : kernel_params {
    static constexpr bool publishes = true;
};
/* A single stage publishes nothing. */
struct single_stage_params : kernel_params {
    static constexpr bool publishes = false;
    stage_desc one;
};

/* How stages share CTAs and shared memory: the first line is input, the second output. */
struct schedule_params {
    int rows, n, blocks, w_terms;
    int ring_bytes, work_bytes;
};

/* ---- entry points ------------------------------------------------------------------------------------------------ */

size_t megakernel_take(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* Assigns CTAs and work to each stage; whether there is enough memory. */
int make_schedule(const mx_cuda *gpu, stage_desc *stages, schedule_params *d);
/* A single GEMM of few rows and very many columns. */
int megakernel_gemm_can_implement(const mx_cuda *gpu, const gemm_params &p);
void megakernel_gemm(mx_cuda *gpu, const gemm_params &p);
/* x_terms and w_terms: of all GEMMs. */
void launch_megakernel(mx_cuda *gpu, const megakernel_params &params, int x_terms, int w_terms);
void launch_megakernel(mx_cuda *gpu, const single_stage_params &params, int x_terms, int w_terms);

}   /* namespace mx::megakernel */
#endif
