/* modules/cuda/attention/decode_tile.cuh - attention of decoder rows over a tile of keys, by eight warps on tensor
 * cores; heads of 64. Used by kernels that differ in tile assignment (attention/decode_paged.cu,
 * megakernel/sm90/kernel.cu), so that they agree bit for bit: a tile leaves the row max, the sum of weights and the
 * weighted sum of values, and tiles are combined in the order of the keys.
 *
 * Queries and weights are two f16 terms each (common/mma.cuh). Keys and values that are f32 in memory are, too; those
 * that are f16 there are used as they are, one term (`terms`, of keys and values). Eight rows are half of an operand:
 * its upper rows are their second terms, so that one step multiplies both. A warp scores 16 keys for all rows; its
 * scores are operands of the next product, in which a warp computes 8 columns over all keys.
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
    const float *q;
    const void *k, *v;               /* f32, f16 or, over windows, e4m3 */
    int terms, f8;                   /* terms: 2 or 1; f8: e4m3, which has one */
    float *y, *partials;             /* partials [rows][heads][tiles][PARTIAL_FLOATS]; then block_partials */
    float *block_partials;           /* [blocks][TILE_ROWS][tiles][PARTIAL_FLOATS] */
    unsigned *arrived;            /* [rows * heads], 0 before and after */
    const int32_t *seq, *pos, *cells, *window;   /* of a cache: seq, pos and cells; of windows: window */
    int64_t ld_q, ctx, keys;
    int rows, heads, d, tiles;    /* tiles: of the longest possible row */
    float scale;
};

/* n adjacent rows that attend to the same keys. */
struct row_group {
    int row, n, head, n_keys, n_tiles;
    const void *k, *v;            /* of the head, key 0 */
    const int32_t *cells;         /* NULL: keys are contiguous */
    float *partials;              /* of its first row and of the head; a row's are row_step apart */
    int64_t row_step;
};

/* The block's shared memory, besides keys and values. */
struct tile_smem {
    uint4 q[HEAD_DIM / 16 * WARP_SIZE];           /* queries [step][lane] */
    uint4 weights[TILE_WARPS * WARP_SIZE];      /* [warp][lane] */
    float row_max[TILE_ROWS][TILE_WARPS], sums[TILE_ROWS][TILE_WARPS];   /* per warp */
};

/* Values in shared memory, 16 bytes each: a key has eight chunks of eight first terms, then as many second ones;
 * chunk i is at i ^ key % 8, so that neighbouring keys are in different banks. Keys of one term likewise. */
template <int terms> constexpr int TILE_CHUNKS = TILE_KEYS * HEAD_DIM / 8 * terms;

/* A lane's part of a key as an operand, of step i / 2 and the warp's key 8 (i % 2) + lane / 4: four elements. */
template <int terms> struct key_part;
template <> struct key_part<2> {
    typedef uint4 type;
};
template <> struct key_part<1> {
    typedef uint2 type;
};
template <int terms> using key_operand = typename key_part<terms>::type[8];

/* For a lane's row, lane / 4: two columns from 8 warp + 2 (lane % 4) on, of two terms scaled by 1/16; row max as a
 * power of 2, and sum of weights. */
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

/* Columns 2 pair and 2 pair + 1 of a query. In an operand a lane has of a key of two terms four adjacent elements; of
 * one term, two of each half of a step, as ldmatrix loads them. */
template <int terms>
__device__ __forceinline__ static void put_query(tile_smem &s, int row, int pair, const float2 &v) {
    int in = pair % 8;
    ((uint2 *)s.q)[pair / 8 * 2 * WARP_SIZE + row * 8 + (terms == 2 ? in : in % 4 * 2 + in / 4)] = split2(v);
}

/* Columns 4 four to 4 four + 3 of a value, as two terms. */
__device__ __forceinline__ static void put_value(uint4 *values, int key, int four, const float4 &v) {
    uint2 *to = (uint2 *)(values + key * (HEAD_DIM / 4)) + ((four / 2 ^ key % 8) * 2 + four % 2);
    uint4 o = split4(v);
    to[0] = make_uint2(o.x, o.y);
    to[HEAD_DIM / 4] = make_uint2(o.z, o.w);
}

/* Where the 8 columns `chunk` of a key or value of one term lie. */
__device__ __forceinline__ static int chunk_at(int key, int chunk) { return key * (HEAD_DIM / 8) + (chunk ^ key % 8); }

/* The lane's address for ldmatrix. Two terms: of the keys 16 of, 16 of + 1, ... and 8 columns from 8 warp on, the first
 * terms, then the second ones. One term: of 32 keys from 32 of on. */
template <int terms>
__device__ __forceinline__ static uint4 get_values(const uint4 *values, int of, int warp, int lane) {
    int key = of * 16 + lane % 16;
    const uint4 *from = terms == 2 ? values + key * (HEAD_DIM / 4) + lane / 16 * 8 + (warp ^ key % 8)
                                   : values + chunk_at(of * 32 + lane, warp);
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"((unsigned)__cvta_generic_to_shared(from))
                 : "memory");
    return v;
}

/* A warp's 16 keys of one term as operands. */
__device__ __forceinline__ static void get_keys(const uint4 *keys, int warp, int lane, key_operand<1> &k) {
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; step++) {
        int key = warp * 16 + lane / 16 * 8 + lane % 8, chunk = step * 2 + lane / 8 % 2;
        uint4 v;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"((unsigned)__cvta_generic_to_shared(keys + chunk_at(key, chunk)))
                     : "memory");
        k[step * 2] = make_uint2(v.x, v.y);
        k[step * 2 + 1] = make_uint2(v.z, v.w);
    }
}

/* ---- a tile ------------------------------------------------------------------------------------------------------ */

/* The float4 of a key that step i of its lane needs: of the warp's key 8 (i % 2) + lane / 4. */
__device__ __forceinline__ static int four_of_step(int i, int lane) { return i / 2 * 4 + lane % 4; }

/* Combines two products of terms: first x first, and those with one second term. */
__device__ __forceinline__ static float combine_terms(float first, float second, float other) {
    return __fmaf_rn(__fadd_rn(second, other), LO_UNSCALE, first);
}

/* Scores of the lane's keys 2 (lane % 4), + 1, + 8 and + 9 of the warp's, as powers of 2; -inf past the last key. */
template <int terms>
__device__ __forceinline__ static void score(const tile_smem &s, const key_operand<terms> &k, int left, float scale,
                                             int lane, float (&scores)[4]) {
    float first[2][4] = {}, second[2][4] = {};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        uint4 q = s.q[i / 2 * WARP_SIZE + lane];
        mma_m16n8k16(first[i % 2], q, k[i].x, k[i].y);
        if constexpr (terms == 2)
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

/* The largest score of each row over the warp's keys. */
__device__ __forceinline__ static void note_max(tile_smem &s, const float (&scores)[4]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    float top = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    if (lane % 4 == 0)
        s.row_max[lane / 4][warp] = top;
}

/* A lane's weighted values of one term: the sums of even and of odd warps' keys. */
__device__ __forceinline__ static float2 tile_values(const float (&sums)[2][4]) {
    return make_float2(combine_terms(__fadd_rn(sums[0][0], sums[1][0]), __fadd_rn(sums[0][2], sums[1][2]), 0),
                       combine_terms(__fadd_rn(sums[0][1], sums[1][1]), __fadd_rn(sums[0][3], sums[1][3]), 0));
}

/* All rows over a tile that has min(left, TILE_KEYS) keys: first the scores, then the rest. Queries are in shared
 * memory; values are too after one more barrier, of which the second half has two. k: the lane's parts of keys.
 * scale: from scores to powers of 2. Rows that do not exist are computed but not stored. */
template <int terms>
__device__ __forceinline__ static void begin_tile(tile_smem &s, const key_operand<terms> &k, int left, float scale,
                                                  float (&scores)[4]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    score<terms>(s, k, left - warp * 16, scale, lane, scores);
    note_max(s, scores);
}

/* A lane's operands of values from shared memory. */
template <int terms> struct value_loader {
    __device__ __forceinline__ uint4 operator()(const uint4 *values, int of, int warp, int lane) const {
        return get_values<terms>(values, of, warp, lane);
    }
};

/* early: the operands of the values are loaded before the weights are ready, which takes registers. load: what loads
 * them. */
template <int terms, bool early, typename Meet, typename Load = value_loader<terms>>
__device__ __forceinline__ static tile_result finish_tile(tile_smem &s, const uint4 *values, const float (&scores)[4],
                                                          const Meet &sync, const Load &load = Load()) {
    constexpr int at_once = terms == 2 ? 1 : 2;   /* warps' keys that are loaded together */
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    float first[2][4] = {}, second[2][4] = {};
    uint4 v[TILE_WARPS / at_once];
    tile_result r;
    sync();
    r.top = largest_of_row(s.row_max[lane / 4]);
#pragma unroll
    for (int i = 0; i < TILE_WARPS / at_once && early; i++)
        v[i] = load(values, i, warp, lane);
    weigh(s, scores, r.top, warp, lane);
    sync();
#pragma unroll
    for (int i = 0; i < TILE_WARPS; i++) {
        uint4 w = s.weights[i * WARP_SIZE + lane], &of = v[i / at_once];
        if (!early && i % at_once == 0)
            of = load(values, i / at_once, warp, lane);
        if constexpr (terms == 2) {
            mma_m16n8k16(first[i % 2], w, of.x, of.y);
            mma_m16n8k16(second[i % 2], w, of.z, of.w);
        } else {
            mma_m16n8k16(first[i % 2], w, i % 2 ? of.z : of.x, i % 2 ? of.w : of.y);
        }
    }
    r.sum = sum_of_row(s.sums[lane / 4]);
    if constexpr (terms == 1) {
        r.y = tile_values(first);
        return r;
    }
    r.y.x = combine_terms(__fadd_rn(first[0][0], first[1][0]), __fadd_rn(first[0][2], first[1][2]),
                          __fadd_rn(second[0][0], second[1][0]));
    r.y.y = combine_terms(__fadd_rn(first[0][1], first[1][1]), __fadd_rn(first[0][3], first[1][3]),
                          __fadd_rn(second[0][1], second[1][1]));
    return r;
}

/* The factor from scores to powers of 2: queries, and keys of two terms, are scaled by 1/16. */
template <int terms> __device__ __forceinline__ static float power_scale(const decode_params &job) {
    return __fmul_rn(job.scale, X_UNSCALE * (terms == 2 ? X_UNSCALE : 1) * LOG2_E);
}

/* The factor of the weighted sum of a row's values, over all tiles. A single tile has weight 1. */
template <int terms> __device__ __forceinline__ static float share_of(float sum) {
    return __fdiv_rn(terms == 2 ? X_UNSCALE : 1.0f, sum);
}

__device__ __forceinline__ static float2 times(float2 v, float by) {
    return make_float2(__fmul_rn(v.x, by), __fmul_rn(v.y, by));
}

decode_params decode_params_of(const mx_cuda *gpu, const mx_call *call);   /* attention/decode_paged.cu */

}   /* namespace mx::attention */
#endif
