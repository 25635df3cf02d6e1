/* modules/cuda/gemm/norm.cuh - rows of x as the GEMM kernels read them (strided, or windows of a convolution), and
 * their layer norm by one warp. Shared, so that all kernels agree bit for bit.
 * Invariants: the order of every sum follows from the row's length alone; every rounding is explicit (__fmul_rn and so
 * on), so that no compiler contracts two of them. */
#ifndef MX_CUDA_GEMM_NORM_CUH
#define MX_CUDA_GEMM_NORM_CUH
#include "modules/cuda/gemm/gemm.cuh"

namespace mx::gemm {

/* ---- rows of x --------------------------------------------------------------------------------------------------- */

/* A row of x: elements [first, last) are in memory, the others are zeros. There are fewer than 2^31 rows, so indices
 * divide as 32-bit numbers: a 64-bit division is a hundred instructions, and a block that runs them once waits for each
 * to be fetched. */
struct x_row {
    const float *at;
    int first, last;
};

__device__ __forceinline__ x_row x_row_of(const gemm_desc &f, int64_t r) {
    x_row row = {f.x, 0, 0};
    if (r >= f.m)
        return row;
    row.last = (int)f.k;
    if (f.positions == 0) {
        row.at = f.x + r * f.ldx;
    } else {
        unsigned out = (unsigned)f.out_positions, entry = (unsigned)r / out;
        int64_t start = (int64_t)((unsigned)r - entry * out) * f.stride - f.pad, after = f.positions - start;
        row.at = f.x + (entry * f.positions + start) * f.channels;
        row.first = start < 0 ? (int)min(-start * f.channels, f.k) : 0;
        row.last = (int)max(min(after * f.channels, f.k), (int64_t)row.first);
    }
    return row;
}

/* `early`: the data may be written after this kernel has started, by its predecessor (PDL) or by another block; such a
 * load must bypass the read-only path and L1. */
template <bool early, typename T> __device__ __forceinline__ T load_global(const T *from) {
    return early ? __ldcg(from) : __ldg(from);
}

/* Elements k to k + 3; k is a multiple of 4. `quad`: every row is 16-byte aligned and its length a multiple of 4. */
template <bool quad, bool early = false> __device__ __forceinline__ float4 load_row4(const x_row &row, int k) {
    float4 v = make_float4(0, 0, 0, 0);
    if (quad) {
        if (k >= row.first && k < row.last)
            v = load_global<early>((const float4 *)(row.at + k));
        return v;
    }
    v.x = k >= row.first && k < row.last ? load_global<early>(row.at + k) : 0;
    v.y = k + 1 >= row.first && k + 1 < row.last ? load_global<early>(row.at + k + 1) : 0;
    v.z = k + 2 >= row.first && k + 2 < row.last ? load_global<early>(row.at + k + 2) : 0;
    v.w = k + 3 >= row.first && k + 3 < row.last ? load_global<early>(row.at + k + 3) : 0;
    return v;
}

template <bool quad> __device__ __forceinline__ float4 load_vec4(const float *vector, int64_t n, int k) {
    x_row whole = {vector, 0, (int)n};
    return load_row4<quad>(whole, k);
}

/* ---- layer norm -------------------------------------------------------------------------------------------------- */

/* A lane sums the float4s of a row at k = 4 (lane + 32 i), in order; elements past n do not count. */
__device__ __forceinline__ float sum4(float sum, const float4 &v, int k, int n) {
    sum = k < n ? __fadd_rn(sum, v.x) : sum;
    sum = k + 1 < n ? __fadd_rn(sum, v.y) : sum;
    sum = k + 2 < n ? __fadd_rn(sum, v.z) : sum;
    return k + 3 < n ? __fadd_rn(sum, v.w) : sum;
}

__device__ __forceinline__ float sum_squares4(float sum, const float4 &v, float mean, int k, int n) {
    float a = __fsub_rn(v.x, mean), b = __fsub_rn(v.y, mean), c = __fsub_rn(v.z, mean), d = __fsub_rn(v.w, mean);
    sum = k < n ? __fmaf_rn(a, a, sum) : sum;
    sum = k + 1 < n ? __fmaf_rn(b, b, sum) : sum;
    sum = k + 2 < n ? __fmaf_rn(c, c, sum) : sum;
    return k + 3 < n ? __fmaf_rn(d, d, sum) : sum;
}

__device__ __forceinline__ float row_mean(float sum, int n) {
    return __fdiv_rn(warp_reduce(sum, op_sum()), (float)n);
}

/* 1 / sqrt(variance + eps) */
__device__ __forceinline__ float row_rstd(float squares, int n, double eps) {
    float variance = __fdiv_rn(warp_reduce(squares, op_sum()), (float)n);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(variance, (float)eps)));
}

/* float4s of a row that a lane keeps in registers; longer rows are read again. */
constexpr int ROW_REGS = 4;
constexpr int ROW_REGS_FLOATS = ROW_REGS * 4 * WARP_SIZE;

/* Mean and 1 / sqrt(variance + eps) of a row, by one warp; each lane's first float4s stay in `held`. */
template <bool quad, bool early = false, int n_held>
__device__ __forceinline__ float2 row_stats(const gemm_params &p, const x_row &row, float4 (&held)[n_held]) {
    int n = (int)p.f.k, first = threadIdx.x % WARP_SIZE * 4;
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < n_held; i++)
        held[i] = load_row4<quad, early>(row, first + i * 4 * WARP_SIZE);
#pragma unroll
    for (int i = 0; i < n_held; i++)
        sum = sum4(sum, held[i], first + i * 4 * WARP_SIZE, n);
#pragma unroll 4
    for (int k = first + n_held * 4 * WARP_SIZE; k < n; k += 4 * WARP_SIZE)
        sum = sum4(sum, load_row4<quad, early>(row, k), k, n);
    float mean = row_mean(sum, n);
#pragma unroll
    for (int i = 0; i < n_held; i++)
        squares = sum_squares4(squares, held[i], mean, first + i * 4 * WARP_SIZE, n);
#pragma unroll 4
    for (int k = first + n_held * 4 * WARP_SIZE; k < n; k += 4 * WARP_SIZE)
        squares = sum_squares4(squares, load_row4<quad, early>(row, k), mean, k, n);
    return make_float2(mean, row_rstd(squares, n, p.f.eps));
}

__device__ __forceinline__ float norm1(float v, float2 statistics, float gamma, float beta) {
    return __fmaf_rn(__fmul_rn(__fsub_rn(v, statistics.x), statistics.y), gamma, beta);
}

__device__ __forceinline__ float4 norm4(const float4 &v, float2 s, const float4 &gamma, const float4 &beta) {
    return make_float4(norm1(v.x, s, gamma.x, beta.x), norm1(v.y, s, gamma.y, beta.y), norm1(v.z, s, gamma.z, beta.z),
                       norm1(v.w, s, gamma.w, beta.w));
}

}   /* namespace mx::gemm */
#endif
