/* modules/cuda/attention/flash.cuh - what the flash attention kernels share: queries as operands, online softmax over
 * tiles of keys, the epilogue. A lane has two rows, 8 apart, and two adjacent columns of every 8. */
#ifndef MX_CUDA_ATTENTION_FLASH_CUH
#define MX_CUDA_ATTENTION_FLASH_CUH
#include "modules/cuda/attention/head.cuh"
#include "modules/cuda/common/f8.cuh"
#include "modules/cuda/common/mma.cuh"

namespace mx::attention {

constexpr int FLASH_KEYS = 64;   /* keys of a tile */

struct flash_params {
    const float *q, *k, *v;
    float *y;
    void *operands;         /* keys and values of [entry][head][tile], in the layout of the kernel */
    int64_t ldq, ldk, ldv, ldy;
    int t, s, heads, tiles;
    int entries;
    int across, items;      /* of flash_wgmma.cu: work items per head; of all heads and entries */
    int whole;              /* the items before those that are half an item */
    int quads;              /* float4s of queries, keys and values are aligned */
    int qkv_operands;       /* queries, keys and values came as operands (MX_LAYOUT_QKV) */
    int y_operands;         /* 1: y is not f32 rows, but operands of the next GEMM; 2: of one in 8-bit floats */
    float scale;            /* from scores to powers of 2 */
};

/* The entry and head of the queries. */
struct head_index {
    int64_t entry;
    int head;
};

/* An operand of 16 rows by 16 of K in natural order: v[0] row g, v[1] row g + 8, v[2], v[3] the same 8 of K later. */
template <int terms> __device__ __forceinline__ void operand_in_order(const float2 (&v)[4], uint4 (&a)[terms]) {
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        split_f16_unscaled<terms>(v[i].x, v[i].y, hi[i], lo[i]);
    a[0] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    if (terms == 2)
        a[terms - 1] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

/* The operands of 16 rows, of which the lane has `row` and the one 8 further. */
template <int terms>
__device__ __forceinline__ void load_queries(const flash_params &f, int row, uint4 (&q)[4][terms]) {
    const float *from = f.q + (int64_t)blockIdx.z * f.t * f.ldq + blockIdx.y * HEAD_DIM + threadIdx.x % 4 * 2;
#pragma unroll
    for (int step = 0; step < 4; step++) {
        float2 v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int r = row + j % 2 * 8;
            const float *at = from + r * f.ldq + step * 16 + j / 2 * 8;
            v[j] = r < f.t ? make_float2(at[0], at[1]) : make_float2(0, 0);
        }
        operand_in_order<terms>(v, q[step]);
    }
}

/* Probabilities are summed and multiplied scaled by 2^4: small ones lose less in f16. */
constexpr int EXP2_SHIFT = 4;

/* For each of a lane's two rows: the (sticky) row max that is subtracted from scores, and the sum of exponentials. */
struct softmax_state {
    float row_max[2], sum[2];
};

__device__ __forceinline__ float shifted_max(float score, float scale) { return __fmaf_rn(score, scale, -EXP2_SHIFT); }

/* Scores [8 tiles][4] into probabilities relative to the running row max, which is kept as a power of 2; returns the
 * rescale factor of older sums. Both use the max as rounded, so that its rounding cancels. */
__device__ __forceinline__ float2 online_softmax(float (&s)[32], softmax_state &r, float scale) {
    float rescale_factor[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float maxes[4] = {-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F}, sums[4] = {};   /* at once */
#pragma unroll
        for (int i = 0; i < 16; i++)
            maxes[i % 4] = fmaxf(maxes[i % 4], s[i / 2 * 4 + row * 2 + i % 2]);
        float row_max = fmaxf(fmaxf(maxes[0], maxes[1]), fmaxf(maxes[2], maxes[3]));
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 1));
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 2));
        row_max = fmaxf(shifted_max(row_max, scale), r.row_max[row]);
        rescale_factor[row] = exp2_approx(__fsub_rn(r.row_max[row], row_max));
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float &p = s[i / 2 * 4 + row * 2 + i % 2];
            p = exp2_approx(__fmaf_rn(p, scale, -row_max));
            sums[i % 4] = __fadd_rn(sums[i % 4], p);
        }
        float sum = __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3]));
        r.row_max[row] = row_max;
        r.sum[row] = __fmaf_rn(r.sum[row], rescale_factor[row], sum);
    }
    return make_float2(rescale_factor[0], rescale_factor[1]);
}

/* Probabilities, as they come out of one MMA, as operands of the next. */
template <int terms> __device__ __forceinline__ void probs_to_operands(const float (&s)[32], uint4 (&p)[4][terms]) {
#pragma unroll
    for (int step = 0; step < 4; step++) {
        uint32_t hi[4], lo[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *from = &s[(step * 2 + j / 2) * 4 + j % 2 * 2];
            split_f16_unscaled<terms>(from[0], from[1], hi[j], lo[j]);
        }
        p[step][0] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
        if (terms == 2)
            p[step][terms - 1] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
    }
}

/* Keys past the last get no weight. */
__device__ __forceinline__ void mask_keys(float (&s)[32], int first, int keys) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (first + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 >= keys)
            s[i] = -CUDART_INF_F;
}

/* The factor of a row's values; the sum is over the lanes of the row. */
__device__ __forceinline__ float inverse_sum(float sum) {
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    return __fdiv_rn(1.0f, sum);
}

__device__ __forceinline__ void store_output(const flash_params &f, const head_index &of, int row, const float (&o)[32],
                                             const softmax_state &r) {
    float *to = f.y + of.entry * f.t * f.ldy + of.head * HEAD_DIM + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float share = inverse_sum(r.sum[i]);
        if (row + i * 8 < f.t)
#pragma unroll
            for (int j = 0; j < 8; j++) {
                float *at = to + (row + i * 8) * f.ldy + j * 8;
                at[0] = __fmul_rn(o[j * 4 + i * 2], share);
                at[1] = __fmul_rn(o[j * 4 + i * 2 + 1], share);
            }
    }
}

/* The same as operands of a GEMM (MX_LAYOUT_OPERAND): of 8 rows by 16 elements a lane writes eight bytes, after
 * exchanging what the layout wants in other lanes. */
template <int terms>
__device__ __forceinline__ void store_output_operand(const flash_params &f, const head_index &of, int row,
                                                     const float (&o)[32], const softmax_state &r) {
    int t = threadIdx.x % 4;
    bool upper = t >= 2;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float share = inverse_sum(r.sum[i]);
        int64_t at = of.entry * f.t + row + i * 8;
        char *to = (char *)f.y + ((at / 64 * f.heads + of.head) * terms * 8 + at % 64 / 8) * 1024 + t % 2 * 128 +
                   at % 8 * 16 + t / 2 * 8;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t pair[2][terms];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *from = &o[(j * 2 + half) * 4 + i * 2];
                float a = __fmul_rn(__fmul_rn(from[0], share), X_SCALE);
                float b = __fmul_rn(__fmul_rn(from[1], share), X_SCALE);
                if (terms == 2)
                    split_f16(a, b, pair[half][0], pair[half][terms - 1]);
                else
                    pair[half][0] = pack_half2(a, b);
            }
#pragma unroll
            for (int term = 0; term < terms; term++) {
                uint32_t received = __shfl_xor_sync(0xffffffffu, upper ? pair[0][term] : pair[1][term], 2);
                uint2 both = upper ? make_uint2(received, pair[1][term]) : make_uint2(pair[0][term], received);
                if (row + i * 8 < f.t)
                    *(uint2 *)(to + term * 8192 + j * 256) = both;
            }
        }
    }
}

/* The same in 8-bit floats: a lane has two of each 8 elements, and gets a row's 16 from the other three. */
__device__ __forceinline__ void store_output_e4m3(const flash_params &f, const head_index &of, int row,
                                                  const float (&o)[32], const softmax_state &r) {
    int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float share = inverse_sum(r.sum[i]);
        int64_t at = of.entry * f.t + row + i * 8, blocks = f.heads / 2;
        char *to = (char *)f.y + ((at / 64 * blocks + of.head / 2) * 8 + at % 64 / 8) * 1024 +
                   (of.head % 2 * 4 + t) * 128 + at % 8 * 16;
        uint32_t mine[4], all[4];   /* of 16 elements: 2 t and 8 further, 2 t + 1 and 8 further */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *low = &o[j * 8 + i * 2], *high = low + 4;
            mine[j] = pack_f8(__fmul_rn(low[0], share), __fmul_rn(high[0], share), __fmul_rn(low[1], share),
                                __fmul_rn(high[1], share));
        }
        /* lane t collects sixteen t: in round j it gets those of lane t ^ j, and gives it its sixteen t ^ j */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t given = (t ^ j) == 0 ? mine[0] : (t ^ j) == 1 ? mine[1] : (t ^ j) == 2 ? mine[2] : mine[3];
            uint32_t got = __shfl_xor_sync(0xffffffffu, given, j);
#pragma unroll
            for (int lane = 0; lane < 4; lane++)
                all[lane] = (t ^ j) == lane ? got : j == 0 ? 0 : all[lane];
        }
        if (row + i * 8 < f.t)
            *(uint4 *)to = make_uint4(all[0], all[1], all[2], all[3]);
    }
}

/* attention/sm90/flash_wgmma.cu: on GPUs that have wgmma. */
void flash_wgmma(mx_cuda *gpu, const flash_params &f, int terms);

}   /* namespace mx::attention */
#endif
