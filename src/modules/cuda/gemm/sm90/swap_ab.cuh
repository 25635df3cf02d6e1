/* modules/cuda/gemm/sm90/swap_ab.cuh - a part of a compiled product of very many rows
 * (gemm/sm90/pingpong_a_resident.cu). Four warps make 64 columns of the result for many rows, turned: the weights are
 * what a wide step calls rows, and the rows of x, all of their parts side by side, are its columns. So a step reads
 * each weight once for both parts. A lane has columns g and g + 8 of its warp's 16, and of each 8 rows the two
 * neighbours 2 t and 2 t + 1.
 * What holds: the slices of k are added in order, as in gemm/skinny.cu; what is done with a sum is in
 * gemm/sm90/epilogue_layouts.cuh. */
#ifndef MX_CUDA_GEMM_SM90_SWAP_AB_CUH
#define MX_CUDA_GEMM_SM90_SWAP_AB_CUH
#include "modules/cuda/common/wgmma.cuh"
#include "modules/cuda/gemm/gemm.cuh"

#define SWAP_AB_COLUMNS 64             /* of a group */
#define SWAP_AB_W_BYTES 8192            /* bytes of 64 columns by 64 of k */
#define OPERAND_TILE_BYTES 8192              /* bytes of 64 rows by 64 of k, a part of them, as others take them */
#define SWAP_AB_SMEM (227 << 10)     /* bytes that a block may have */
#define SWAP_AB_THREADS 384            /* two groups that multiply, one that brings operands */
#define STAGING_BYTES 1024 /* bytes of a warp that multiplies, for its results (gemm/sm90/epilogue_layouts.cuh) */

/* A tile of rows, k in `slices` of `blocks` blocks each, one of which is a stage of weights. The operands of 8 rows by
 * 16 of k take 256 bytes and `pad`: with 16 of them, a warp that writes a row meets no bank twice. */
template <int rows_, int terms_, int chunks_, int blocks_, int pad_ = 16> struct swap_ab {
    static constexpr int rows = rows_, terms = terms_, slices = chunks_, blocks = blocks_;
    static constexpr int sums = rows * terms / 2, totals = rows / 2;   /* floats of a lane */
    static constexpr int step = 256 + pad_, eight = 4 * step;          /* bytes of 16 of k, and of 64, of 8 rows */
    static constexpr int x_term_bytes = rows / 8 * eight;                    /* of a part of a block of k */
    static constexpr int x_bytes = x_term_bytes * terms + 4 * pad_;    /* of a block, which begins at other banks */
    static constexpr int turn = slices * blocks;                       /* stages of all of k */
    static constexpr int stages = (SWAP_AB_SMEM - 1024 - 8 * STAGING_BYTES - slices * blocks * x_bytes) /
                                  SWAP_AB_W_BYTES;
    static_assert(stages >= 3, "weights for both groups, and some that come");
};

/* How many; those of rows for attention begin anew with each entry, and go on to a multiple of 64. */
template <typename S> __host__ __device__ __forceinline__ int64_t swap_ab_tiles(const gemm_params &p) {
    if (p.f.y_rows != MX_LAYOUT_QKV)
        return (p.f.m + S::rows - 1) / S::rows;
    int64_t padded = (p.f.entry_rows + 63) / 64 * 64;
    return p.f.m / p.f.entry_rows * ((padded + S::rows - 1) / S::rows);
}

#if MX_HAS_WGMMA
/* Stages of a ring in the order in which they are filled; the parity of a stage's gate turns with each round. */
struct pipeline_state {
    int stage, parity;
    __device__ __forceinline__ void advance(int n, int stages) {
        stage += n % stages;
        parity ^= n / stages & 1;
        if (stage >= stages) {
            stage -= stages;
            parity ^= 1;
        }
    }
};

/* Sums of a slice into totals, which are the first of them. */
template <typename S> __device__ __forceinline__ void merge_terms(float (&sums)[S::sums]) {
    if (S::terms == 2)
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            sums[i] = slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]);
}

/* Adds a slice's sums to the totals. */
template <typename S>
__device__ __forceinline__ void add_slice(float (&total)[S::sums], float (&sums)[S::sums]) {
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        total[i] = __fadd_rn(total[i], slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where a tile lies: its first row among all, how many rows of it there are, its first row in an entry, and which. */
struct row_tile {
    int64_t row;
    int left, in;
    unsigned entry;
};

template <typename S> __device__ __forceinline__ row_tile row_tile_of(const gemm_params &p, int64_t tile) {
    if (p.f.y_rows != MX_LAYOUT_QKV)
        return {tile * S::rows, (int)min(p.f.m - tile * S::rows, (int64_t)S::rows), 0, 0};
    unsigned entry = (unsigned)p.f.entry_rows, each = ((entry + 63) / 64 * 64 + S::rows - 1) / S::rows;
    unsigned number = (unsigned)tile / each, in = ((unsigned)tile - number * each) * S::rows;
    return {(int64_t)number * entry + in, min((int)entry - (int)in, S::rows), (int)in, number};
}

/* Sums of four rows over a warp, each in the order of warp_reduce: eight lanes have the sum of each. */
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

/* Four rows as row_stats and norm4 would have them, at 1/16 of their size: a lane has the fours of
 * k = 4 (lane + 32 i) of each, which are all of k. The norm's gamma and beta are at 1/16 already. */
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

/* A lane's four of a row, at 1/16 of their size, to where its block, its 16 of k and its row lie. */
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

/* Four rows after the other, as they lie in memory; `whole`: a lane's fours are all of k. Past the last row it comes
 * again: nobody takes the results. */
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

/* The same of a convolution: a row begins `stride` positions behind the one before, or with a new entry. */
template <int fours_> struct conv_rows {
    static constexpr int fours = fours_;
    const float *at;   /* of the next row, of the lane's first four */
    int in, left;      /* its position in the entry; rows that there are */
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

/* Four rows, normed if they are to be, as operands to where the first of them lies. */
template <typename S, bool norm, int fours>
__device__ __forceinline__ void store_rows(const gemm_params &p, float4 (&v)[4][fours], const float4 (&gamma)[fours],
                                           const float4 (&beta)[fours], unsigned to) {
    if (norm)
        norm_4_rows<fours>(p, v, gamma, beta);
#pragma unroll
    for (int i = 0; i < 4 * fours; i++)
        store_x4<S>(to + i / 4 * 2 * S::x_bytes + i % 4 * 16, norm ? v[i % 4][i / 4] : scale_x(v[i % 4][i / 4]));
}

/* The operands of a tile's rows into x, by eight warps: four rows at a time, while, if they are short, the next four
 * are fetched. */
template <typename S, bool norm, typename Rows>
__device__ __forceinline__ void load_a_resident(const gemm_params &p, int64_t first, unsigned x) {
    constexpr int fours = Rows::fours, each = S::rows / 8;
    constexpr bool early = fours <= 4;   /* there are registers for them */
    constexpr int at_once = !early ? 4 : each % 8 ? each : 8;   /* an even number of fours, or all */
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
    for (int row = begin; row < end; row += at_once) {
#pragma unroll
        for (int i = 0; i < at_once; i += 4) {
            float4(&now)[4][fours] = i % 8 ? two : one, (&then)[4][fours] = i % 8 ? one : two;
            if (early && (i + 4 < at_once || row + at_once < end))
                rows.fetch(p, then);
            store_rows<S, norm>(p, now, gamma, beta, place(row + i));
            if (!early && row + 4 < end)
                rows.fetch(p, one);
        }
    }
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

/* Registers go from the group that brings to those that multiply. */
__device__ __forceinline__ void warpgroup_reg_alloc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void warpgroup_reg_dealloc() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
#endif
#endif
