/* modules/cuda/chain.cuh - a chain: many calls of a decoder's step as the phases of one kernel, for few rows.
 * chain_build.cu makes it of the calls that a recording sees together, chain.cu runs it. A phase begins when every
 * block is done with the one before. */
#ifndef MX_CUDA_CHAIN_CUH
#define MX_CUDA_CHAIN_CUH
#include <cuda_bf16.h>

#include "modules/cuda/product.cuh"
#include "modules/cuda/rows_attention.cuh"

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
int mx_cuda_is_writes(const mx_call *const *calls, size_t n);      /* two writes at the same indices */

/* ---- phases ------------------------------------------------------------------------------------------------------ */

#define MX_CHAIN_ROWS 8      /* at most */
#define MX_CHAIN_MOST 64     /* phases */
#define MX_CHAIN_ITEMS 23    /* chunks of tiles whose sums a block holds at a time */
#define MX_CHAIN_SUM 256     /* bytes of each: 8 rows by 8 columns */
#define MX_CHAIN_WARPS 8
#define MX_CHAIN_CHUNKS 23   /* of k, at most */

enum mx_chain_kind { MX_CHAIN_TABLES, MX_CHAIN_PRODUCT, MX_CHAIN_CACHED, MX_CHAIN_WINDOW, MX_CHAIN_JOIN };

/* A product; columns from[i] to from[i] + width of its result go into a cache as well, at the rows' cells. */
struct mx_chain_product {
    mx_product p;
    int group;           /* tiles of 8 columns that come together */
    int share, longer;   /* a block's tiles; the first `longer` blocks have one more */
    uint8_t starts[MX_CHAIN_CHUNKS + 1];   /* of the chunks of k, in blocks of 64 */
    int width, from[2];  /* width 0: none does */
    float *cache[2];
};

/* y = rows of a, plus those of b if there are any; both also on their own, where they are wanted. */
struct mx_chain_tables {
    float *y, *to_a, *to_b;
    mx_table a, b;
    int n;
};

struct mx_chain_phase {
    int kind;
    union {
        mx_chain_product product;
        mx_chain_tables tables;
        rows_job attention;
    };
};

/* Of each row: where its key and value go, which cells are its past, which window it listens to. NULL: not needed. */
struct mx_chain_known {
    const int32_t *cell, *seq, *pos, *window;
};

template <int most> struct mx_chain {
    int rows, n, blocks;          /* n: phases; blocks: of the kernel */
    int ring_bytes, work_bytes;   /* of shared memory */
    unsigned *met;                /* two counters, 0 before and after */
    mx_chain_known known;
    mx_chain_phase at[most];
};

typedef mx_chain<MX_CHAIN_MOST> mx_long_chain;
typedef mx_chain<1> mx_short_chain;

/* ---- doors ------------------------------------------------------------------------------------------------------- */

size_t mx_cuda_take_chain(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status);
/* One product of many columns; whether it was taken. */
int mx_chain_one_product(mx_cuda *gpu, const mx_product &p);
/* x_parts and w_parts: of all products. */
void mx_chain_run(mx_cuda *gpu, const mx_long_chain &chain, int x_parts, int w_parts);
void mx_chain_run(mx_cuda *gpu, const mx_short_chain &chain, int x_parts, int w_parts);
#endif
