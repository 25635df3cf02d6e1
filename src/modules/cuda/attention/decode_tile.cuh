/* modules/cuda/attention/decode_tile.cuh - attention of decoder rows over a tile of keys, by eight warps on tensor
 * cores; heads of 64. Used by kernels that differ in tile assignment (attention/decode_paged.cu,
 * megakernel/sm90/kernel.cu), so that they agree bit for bit: a tile leaves the row max, the sum of weights and the
 * weighted sum of values, and tiles are combined in the order of the keys.
 *
 * Queries, keys, weights and values are two f16 terms each (common/mma.cuh). Eight rows are half of an operand: its
 * upper rows are their second terms, so that one step multiplies both. A warp scores 16 keys for all rows; its scores
 * are operands of the next product, in which a warp computes 8 columns over all keys.
 * Invariants: the order of every sum follows from the number of keys alone, not from the rows that share a tile. */
#ifndef MX_CUDA_ATTENTION_DECODE_TILE_CUH
#define MX_CUDA_ATTENTION_DECODE_TILE_CUH
#include "modules/cuda/attention/head.cuh"
#include "modules/cuda/common/mma.cuh"

namespace mx::attention {

constexpr int TILE_KEYS = 128;   /* keys of a tile */
constexpr int TILE_ROWS = 8;   /* rows that share a tile, at most */
constexpr int TILE_WARPS = 8;   /* warps of a tile, 16 keys each */
constexpr float LOG2_E = 1.4426950408889634f;

struct decode_params {
    const float *q, *k, *v;
    float *y, *partials;             /* partials [rows][heads][tiles][PARTIAL_FLOATS] */
    unsigned *arrived;            /* [rows * heads], 0 before and after */
    const int32_t *seq, *pos, *cells, *window;   /* of a cache: seq, pos and cells; of windows: window */
    int64_t ld_q, ctx, keys;
    int rows, heads, d, tiles;    /* tiles: of the longest possible row */
    float scale;
};

/* n adjacent rows that attend to the same keys. */
struct row_group {
    int row, n, head, n_keys, n_tiles;
    const float *k, *v;           /* of the head, key 0 */
    const int32_t *cells;         /* NULL: keys are contiguous */
};

/* The block's shared memory. A key's values: eight chunks of eight first terms, then as many second ones; chunk i is at
 * i ^ key % 8, so that neighbouring keys are in different banks. */
struct tile_smem {
    uint4 q[HEAD_DIM / 16 * WARP_SIZE];           /* queries [step][lane] */
    uint4 weights[TILE_WARPS * WARP_SIZE];      /* [warp][lane] */
    float row_max[TILE_ROWS][TILE_WARPS], sums[TILE_ROWS][TILE_WARPS];   /* per warp */
    uint4 v[TILE_KEYS * HEAD_DIM / 4];
};

/* For a lane's row, lane / 4: two columns from 8 warp + 2 (lane % 4) on, scaled by 1/16; row max as a power of 2, and
 * sum of weights. */
struct tile_result {
    float2 y;
    float top, sum;
};

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Four adjacent values scaled by 1/16: first terms, then second ones. */
__device__ __forceinline__ static uint4 split4(const float4 &v) {
    uint4 o;
    split_f16(__fmul_rn(v.x, X_SCALE), __fmul_rn(v.y, X_SCALE), o.x, o.z);
    split_f16(__fmul_rn(v.z, X_SCALE), __fmul_rn(v.w, X_SCALE), o.y, o.w);
    return o;
}

__device__ __forceinline__ static uint2 split2(const float2 &v) {
    uint2 o;
    split_f16(__fmul_rn(v.x, X_SCALE), __fmul_rn(v.y, X_SCALE), o.x, o.y);
    return o;
}

/* Columns 2 pair and 2 pair + 1 of a query. In an operand a lane has four adjacent elements, as it has of a key. */
__device__ __forceinline__ static void put_query(tile_smem &s, int row, int pair, const float2 &v) {
    ((uint2 *)s.q)[pair / 8 * 2 * WARP_SIZE + row * 8 + pair % 8] = split2(v);
}

/* Columns 4 four to 4 four + 3 of a value. */
__device__ __forceinline__ static void put_value(tile_smem &s, int key, int four, const float4 &v) {
    uint2 *to = (uint2 *)(s.v + key * (HEAD_DIM / 4)) + ((four / 2 ^ key % 8) * 2 + four % 2);
    uint4 o = split4(v);
    to[0] = make_uint2(o.x, o.y);
    to[HEAD_DIM / 4] = make_uint2(o.z, o.w);
}

/* Of the keys 16 of, 16 of + 1, ... and 8 columns from 8 warp on: first terms, then second ones. */
__device__ __forceinline__ static uint4 get_values(const tile_smem &s, int of, int warp, int lane) {
    int key = of * 16 + lane % 16;
    unsigned at = (unsigned)__cvta_generic_to_shared(s.v + key * (HEAD_DIM / 4) + lane / 16 * 8 + (warp ^ key % 8));
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

/* The float4 of a key that step i of its lane needs: of the warp's key 8 (i % 2) + lane / 4. */
__device__ __forceinline__ static int four_of_step(int i, int lane) { return i / 2 * 4 + lane % 4; }

/* Combines two products of terms: first x first, and those with one second term. */
__device__ __forceinline__ static float combine_terms(float first, float second, float other) {
    return __fmaf_rn(__fadd_rn(second, other), LO_UNSCALE, first);
}

/* Scores of the lane's keys 2 (lane % 4), + 1, + 8 and + 9 of the warp's, as powers of 2; -inf past the last key. */
__device__ __forceinline__ static void score(const tile_smem &s, const uint4 (&k)[8], int left, float scale, int lane,
                                             float (&scores)[4]) {
    float first[2][4] = {}, second[2][4] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint4 q = s.q[i / 2 * WARP_SIZE + lane];
        mma_m16n8k16(first[i % 2], q, k[i].x, k[i].y);
        mma_m16n8k16(second[i % 2], q, k[i].z, k[i].w);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum = combine_terms(first[i / 2][i % 2], first[i / 2][2 + i % 2], second[i / 2][i % 2]);
        scores[i] = i / 2 * 8 + lane % 4 * 2 + i % 2 < left ? __fmul_rn(sum, scale) : -CUDART_INF_F;
    }
}

__device__ __forceinline__ static float largest_of_row(const float (&of)[TILE_ROWS]) {
    float4 a = *(const float4 *)of, b = *(const float4 *)(of + 4);
    return fmaxf(fmaxf(fmaxf(a.x, a.y), fmaxf(a.z, a.w)), fmaxf(fmaxf(b.x, b.y), fmaxf(b.z, b.w)));
}

__device__ __forceinline__ static float sum_of_row(const float (&of)[TILE_ROWS]) {
    float4 a = *(const float4 *)of, b = *(const float4 *)(of + 4);
    return __fadd_rn(__fadd_rn(__fadd_rn(a.x, a.y), __fadd_rn(a.z, a.w)),
                     __fadd_rn(__fadd_rn(b.x, b.y), __fadd_rn(b.z, b.w)));
}

/* Weights 2^(score - max) of the lane's keys, as operands, and their sum over the warp's keys. */
__device__ __forceinline__ static void weigh(tile_smem &s, const float (&scores)[4], float top, int warp, int lane) {
    float p[4];
    uint4 o;
#pragma unroll
    for (int i = 0; i < 4; i++)
        p[i] = exp2_approx(__fsub_rn(scores[i], top));
    float sum = __fadd_rn(__fadd_rn(p[0], p[1]), __fadd_rn(p[2], p[3]));
    split_f16(p[0], p[1], o.x, o.y);
    split_f16(p[2], p[3], o.z, o.w);
    s.weights[warp * WARP_SIZE + lane] = o;
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    if (lane % 4 == 0)
        s.sums[lane / 4][warp] = sum;
}

/* All rows over a tile that has min(left, TILE_KEYS) keys: first the scores, then the rest. Queries are in shared
 * memory; values are too after one more barrier, of which the second half has two. k: the lane's float4s of keys.
 * scale: from scores to powers of 2; queries and keys are scaled by 1/16. Rows that do not exist are computed but not
 * stored. */
__device__ __forceinline__ static void begin_tile(tile_smem &s, const uint4 (&k)[8], int left, float scale,
                                                  float (&scores)[4]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    score(s, k, left - warp * 16, scale, lane, scores);
    float top = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    if (lane % 4 == 0)
        s.row_max[lane / 4][warp] = top;
}

/* early: the operands of the values are loaded before the weights are ready, which takes registers. */
template <bool early, typename Meet>
__device__ __forceinline__ static tile_result finish_tile(tile_smem &s, const float (&scores)[4], const Meet &sync) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    float first[2][4] = {}, second[2][4] = {};
    uint4 v[TILE_WARPS];
    tile_result r;
    sync();
    r.top = largest_of_row(s.row_max[lane / 4]);
#pragma unroll
    for (int i = 0; i < TILE_WARPS && early; i++)
        v[i] = get_values(s, i, warp, lane);
    weigh(s, scores, r.top, warp, lane);
    sync();
#pragma unroll
    for (int i = 0; i < TILE_WARPS; i++) {
        uint4 w = s.weights[i * WARP_SIZE + lane];
        if (!early)
            v[i] = get_values(s, i, warp, lane);
        mma_m16n8k16(first[i % 2], w, v[i].x, v[i].y);
        mma_m16n8k16(second[i % 2], w, v[i].z, v[i].w);
    }
    r.sum = sum_of_row(s.sums[lane / 4]);
    r.y.x = combine_terms(__fadd_rn(first[0][0], first[1][0]), __fadd_rn(first[0][2], first[1][2]),
                          __fadd_rn(second[0][0], second[1][0]));
    r.y.y = combine_terms(__fadd_rn(first[0][1], first[1][1]), __fadd_rn(first[0][3], first[1][3]),
                          __fadd_rn(second[0][1], second[1][1]));
    return r;
}

/* The factor from scores to powers of 2. */
__device__ __forceinline__ static float power_scale(const decode_params &job) {
    return __fmul_rn(job.scale, X_UNSCALE * X_UNSCALE * LOG2_E);
}

/* The factor of the weighted sum of a row's values, over all tiles. A single tile has weight 1. */
__device__ __forceinline__ static float share_of(float sum) { return __fdiv_rn(X_UNSCALE, sum); }

__device__ __forceinline__ static float2 times(float2 v, float by) {
    return make_float2(__fmul_rn(v.x, by), __fmul_rn(v.y, by));
}

decode_params decode_params_of(const mx_cuda *gpu, const mx_call *call);   /* attention/decode_paged.cu */

}   /* namespace mx::attention */
#endif
