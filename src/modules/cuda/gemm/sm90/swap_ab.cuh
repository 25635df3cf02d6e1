/* modules/cuda/gemm/sm90/swap_ab.cuh - what the GEMMs of very many rows share (pingpong_a_resident.cu,
 * persistent_epilogue_warps.cu): swap-AB. A warpgroup computes the transpose, 64 columns of y by many rows: the
 * weights are wgmma's M operand, and the rows of x, with their f16 terms side by side, its N operand. So one wgmma
 * reads each weight once for both terms. A lane has columns g and g + 8 of its warp's 16, and of each 8 rows the pair
 * 2 t, 2 t + 1. Invariants: K slices are reduced in order, as in gemm/skinny.cu; the epilogue is in
 * epilogue_layouts.cuh. */
#ifndef MX_CUDA_GEMM_SM90_SWAP_AB_CUH
#define MX_CUDA_GEMM_SM90_SWAP_AB_CUH
#include "modules/cuda/common/f8.cuh"
#include "modules/cuda/common/pipeline.cuh"
#include "modules/cuda/common/wgmma.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

constexpr int SWAP_AB_COLUMNS = 64;   /* of a warpgroup */
constexpr int SWAP_AB_W_BYTES = 8192;   /* of 64 columns by 64 of k */
constexpr int OPERAND_TILE_BYTES = 8192;   /* of 64 rows by 64 of k, one term, in MX_LAYOUT_OPERAND */
constexpr int SWAP_AB_SMEM = 227 << 10;   /* bytes of shared memory of a block */
constexpr int SWAP_AB_THREADS = 384;   /* two consumer warpgroups and a producer warpgroup */
constexpr int STAGING_BYTES = 1024;   /* of a consumer warp, for its results (epilogue_layouts.cuh) */

/* What tensor cores add up products of such elements in. */
template <mx_cuda_element element> struct sum_of { typedef float type; };
template <> struct sum_of<MX_CUDA_S8> { typedef int type; };

/* A tile of rows, K as `slices` of `blocks` blocks each; a block of weights is a pipeline stage. The operands of 8 rows
 * by 16 of k take 256 bytes plus `pad`; 16 bytes of it make a warp that writes a row bank-conflict free. */
template <int rows_, int terms_, int chunks_, int blocks_, int pad_ = 16, mx_cuda_element element_ = MX_CUDA_F16>
struct swap_ab {
    static constexpr mx_cuda_element element = element_;
    typedef typename sum_of<element>::type sum;
    static constexpr int rows = rows_, terms = terms_, slices = chunks_, blocks = blocks_;
    static constexpr int sums = rows * terms / 2, totals = rows / 2;   /* accumulators of a lane */
    static constexpr int step = 256 + pad_, eight = 4 * step;          /* bytes of 8 rows by 16 of k, and by 64 */
    static constexpr int x_term_bytes = rows / 8 * eight;                    /* of a term of a block of k */
    static constexpr int x_bytes = x_term_bytes * terms + 4 * pad_;    /* of a block, each starting at other banks */
    static constexpr int turn = slices * blocks;                       /* stages of all of K */
    static constexpr int stages = (SWAP_AB_SMEM - 1024 - 8 * STAGING_BYTES - slices * blocks * x_bytes) /
                                  SWAP_AB_W_BYTES;
    static_assert(stages >= 3, "weights for both warpgroups and one stage in flight");
};

/* Tiles of the GEMM. For MX_LAYOUT_QKV they start over with each entry, whose rows are padded to a multiple of 64. */
template <typename S> __host__ __device__ __forceinline__ int64_t swap_ab_tiles(const gemm_params &p) {
    if (p.f.y_layout != MX_LAYOUT_QKV)
        return (p.f.m + S::rows - 1) / S::rows;
    int64_t padded = (p.f.entry_rows + 63) / 64 * 64;
    return p.f.m / p.f.entry_rows * ((padded + S::rows - 1) / S::rows);
}

#if MX_HAS_WGMMA
/* 32 bytes of k. */
template <typename S, int n>
__device__ __forceinline__ void mma_step(typename S::sum (&sums)[n], uint64_t w, uint64_t x, int add) {
    if constexpr (S::element == MX_CUDA_S8)
        wgmma_s8(sums, w, x, add);
    else if constexpr (S::element == MX_CUDA_E4M3)
        wgmma_e4m3(sums, w, x, add);
    else
        wgmma(sums, w, x, add);
}

/* Merges the terms of the first slice; the totals are the first half of `sums`. */
template <typename S> __device__ __forceinline__ void merge_terms(float (&sums)[S::sums]) {
    if (S::terms == 2)
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            sums[i] = slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]);
}

/* Adds another slice to the totals. */
template <typename S>
__device__ __forceinline__ void add_slice(float (&total)[S::sums], float (&sums)[S::sums]) {
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        total[i] = __fadd_rn(total[i], slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A tile: its first row in x, how many of its rows exist, its first row within its entry, and which entry. */
struct row_tile {
    int64_t row;
    int left, in;
    unsigned entry;
};

template <typename S> __device__ __forceinline__ row_tile row_tile_of(const gemm_params &p, int64_t tile) {
    if (p.f.y_layout != MX_LAYOUT_QKV)
        return {tile * S::rows, (int)min(p.f.m - tile * S::rows, (int64_t)S::rows), 0, 0};
    unsigned entry = (unsigned)p.f.entry_rows, each = ((entry + 63) / 64 * 64 + S::rows - 1) / S::rows;
    unsigned number = (unsigned)tile / each, in = ((unsigned)tile - number * each) * S::rows;
    return {(int64_t)number * entry + in, min((int)entry - (int)in, S::rows), (int)in, number};
}

/* Reduces four rows over a warp at once, each in the order of warp_reduce; eight lanes end up with each sum. */
__device__ __forceinline__ float reduce_4_rows(const float (&v)[4]) {
    bool upper = threadIdx.x & 16, odd = threadIdx.x & 8;
    float two[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        two[i] = __fadd_rn(upper ? v[i + 2] : v[i], __shfl_xor_sync(0xffffffffu, upper ? v[i] : v[i + 2], 16));
    float one = __fadd_rn(odd ? two[1] : two[0], __shfl_xor_sync(0xffffffffu, odd ? two[0] : two[1], 8));
#pragma unroll
    for (int half = 4; half > 0; half /= 2)
        one = __fadd_rn(one, __shfl_xor_sync(0xffffffffu, one, half));
    return one;
}

__device__ __forceinline__ void broadcast_4_rows(float one, float (&all)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        all[i] = __shfl_sync(0xffffffffu, one, i * 8);
}

/* Norms four rows, with the bits of row_stats and norm4, scaled by X_SCALE: a lane has the float4s at k = 4 (lane + 32
 * i) of each row, which are all of K. gamma and beta are scaled already. */
template <int fours>
__device__ __forceinline__ void norm_4_rows(const gemm_params &p, float4 (&v)[4][fours], const float4 (&gamma)[fours],
                                            const float4 (&beta)[fours]) {
    constexpr int n = fours * 4 * WARP_SIZE;
    float sums[4] = {}, mean[4], rate[4];
#pragma unroll
    for (int i = 0; i < 4 * fours; i++)
        sums[i % 4] = sum4(sums[i % 4], v[i % 4][i / 4], 0, n);
    broadcast_4_rows(__fdiv_rn(reduce_4_rows(sums), (float)n), mean);
#pragma unroll
    for (int i = 0; i < 4; i++)
        sums[i] = 0;
#pragma unroll
    for (int i = 0; i < 4 * fours; i++)
        sums[i % 4] = sum_squares4(sums[i % 4], v[i % 4][i / 4], mean[i % 4], 0, n);
    float variance = __fdiv_rn(reduce_4_rows(sums), (float)n);
    broadcast_4_rows(__fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(variance, (float)p.f.eps))), rate);
#pragma unroll
    for (int i = 0; i < 4 * fours; i++)
        v[i % 4][i / 4] =
            norm4(v[i % 4][i / 4], make_float2(mean[i % 4], rate[i % 4]), gamma[i / 4], beta[i / 4]);
}

/* A lane's four elements of a row, scaled already, as operands to the address of their block, k step and row. */
template <typename S> __device__ __forceinline__ void store_x4(unsigned at, const float4 &v) {
    uint32_t first[S::terms], second[S::terms];
    if (S::terms == 2) {
        split_f16(v.x, v.y, first[0], first[S::terms - 1]);
        split_f16(v.z, v.w, second[0], second[S::terms - 1]);
    } else {
        first[0] = pack_half2(v.x, v.y);
        second[0] = pack_half2(v.z, v.w);
    }
#pragma unroll
    for (int term = 0; term < S::terms; term++) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + term * S::x_term_bytes), "r"(first[term]) : "memory");
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + term * S::x_term_bytes + 128), "r"(second[term]) : "memory");
    }
}

/* Reads four rows at a time; `whole`: the lanes' float4s are all of K. Past the last row it reads that one again: those
 * rows are computed but not stored. */
template <int fours_, bool whole> struct dense_rows {
    static constexpr int fours = fours_;
    unsigned row;
    __device__ __forceinline__ dense_rows(const gemm_params &p, int64_t first) : row((unsigned)first) {}
    __device__ __forceinline__ void fetch(const gemm_params &p, float4 (&v)[4][fours]) {
        int k = threadIdx.x % WARP_SIZE * 4;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *at = p.f.x + (uint64_t)min(row + j, (unsigned)p.f.m - 1) * (unsigned)p.f.ldx + k;
#pragma unroll
            for (int i = 0; i < fours; i++)
                v[j][i] = whole || k + i * 4 * WARP_SIZE < p.f.k ? __ldcg((const float4 *)(at + i * 4 * WARP_SIZE))
                                                               : make_float4(0, 0, 0, 0);
        }
        row += 4;
    }
};

/* The same for a convolution: a row starts `stride` positions after the one before, or with a new entry. */
template <int fours_> struct conv_rows {
    static constexpr int fours = fours_;
    const float *at;   /* the lane's first float4 of the next row */
    int in, left;      /* its position in the entry; rows that are left */
    __device__ __forceinline__ conv_rows(const gemm_params &p, int64_t first) {
        unsigned out = (unsigned)p.f.out_positions, entry = (unsigned)first / out;
        in = (int)((unsigned)first - entry * out);
        left = (int)(p.f.m - first);
        at = p.f.x + (entry * p.f.positions + in * p.f.stride - p.f.pad) * p.f.channels + threadIdx.x % WARP_SIZE * 4;
    }
    __device__ __forceinline__ void fetch(const gemm_params &p, float4 (&v)[4][fours]) {
        int channels = (int)p.f.channels, stride = (int)p.f.stride, positions = (int)p.f.positions;
        int k = threadIdx.x % WARP_SIZE * 4, last = (int)p.f.out_positions - 1;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int start = in * stride - (int)p.f.pad, begin = start < 0 ? -start * channels : 0;
            int end = left > j ? min((positions - start) * channels, (int)p.f.k) : 0;
#pragma unroll
            for (int i = 0; i < fours; i++)
                v[j][i] = k + i * 4 * WARP_SIZE >= begin && k + i * 4 * WARP_SIZE < end
                              ? *(const float4 *)(at + i * 4 * WARP_SIZE) : make_float4(0, 0, 0, 0);
            at += (in == last ? positions - last * stride : stride) * channels;
            in = in == last ? 0 : in + 1;
        }
        left -= 4;
    }
};

/* Stores four rows as operands, normed if `norm`; `to` is the address of the first. */
template <typename S, bool norm, int fours>
__device__ __forceinline__ void store_rows(const gemm_params &p, float4 (&v)[4][fours], const float4 (&gamma)[fours],
                                           const float4 (&beta)[fours], unsigned to) {
    if (norm)
        norm_4_rows<fours>(p, v, gamma, beta);
#pragma unroll
    for (int i = 0; i < 4 * fours; i++)
        store_x4<S>(to + i / 4 * 2 * S::x_bytes + i % 4 * 16, norm ? v[i % 4][i / 4] : scale_x(v[i % 4][i / 4]));
}

/* Loads a tile's rows as operands into shared memory, by the eight consumer warps: four rows at a time, and while they
 * are converted the next four are loaded, if rows are short enough for the registers. */
template <typename S, bool norm, typename Rows>
__device__ __forceinline__ void load_a_resident(const gemm_params &p, int64_t first, unsigned x) {
    constexpr int fours = Rows::fours, each = S::rows / 8;
    constexpr bool early = fours <= 4;   /* registers suffice to load ahead */
    constexpr int unrolled = !early     ? 4
                             : each % 8 ? each
                                        : 8; /* rows of an unrolled iteration: double-buffered, or all */
    int lane = threadIdx.x % WARP_SIZE, begin = (int)threadIdx.x / WARP_SIZE * each, end = begin + each;
    unsigned to = x + lane / 16 * S::x_bytes + lane % 16 / 4 * S::step + lane % 4 * 4;
    auto place = [&](int row) { return to + row / 8 * S::eight + row % 8 * 16; };
    Rows rows(p, first + begin);
    float4 gamma[fours], beta[fours], one[4][fours], two[4][fours];
    rows.fetch(p, one);
#pragma unroll
    for (int i = 0; i < fours && norm; i++) {
        gamma[i] = scale_x(__ldg((const float4 *)p.f.gamma + lane + i * WARP_SIZE));
        beta[i] = scale_x(__ldg((const float4 *)p.f.beta + lane + i * WARP_SIZE));
    }
#pragma unroll 1
    for (int row = begin; row < end; row += unrolled) {
#pragma unroll
        for (int i = 0; i < unrolled; i += 4) {
            float4(&now)[4][fours] = i % 8 ? two : one, (&then)[4][fours] = i % 8 ? one : two;
            if (early && (i + 4 < unrolled || row + unrolled < end))
                rows.fetch(p, then);
            store_rows<S, norm>(p, now, gamma, beta, place(row + i));
            if (!early && row + 4 < end)
                rows.fetch(p, one);
        }
    }
}

/* ---- warpgroup roles --------------------------------------------------------------------------------------------- */

/* The producer warpgroup gives registers to the consumers. */
__device__ __forceinline__ void warpgroup_reg_alloc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void warpgroup_reg_dealloc() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
#endif

}   /* namespace mx::gemm */
#endif
