/* modules/cuda/product.cuh - what the kernels of compiled products share, so that they agree bit for bit: the rows of
 * x, their norm, their split into tensor-core operands, the order of a sum, and what is done with a finished element.
 * What holds: k is cut into chunks by its length alone; an element is the sum, in order, of its chunks' sums, each of
 * which is one chain of steps of 16 of k. Every rounding is written out, so that no compiler contracts two of them. */
#ifndef MX_CUDA_PRODUCT_CUH
#define MX_CUDA_PRODUCT_CUH
#include "modules/cuda/mma.cuh"

#define MX_CHUNK_BLOCKS 8   /* at most, of 32 of k each */

/* A product as a kernel takes it. */
struct mx_product {
    mx_cuda_fused f;
    int even_x, even_y;   /* pairs of elements of x's rows, and of y and what is added to it, begin at even addresses */
    int tiles;            /* of 8 columns */
    int blocks, chunks;   /* of k */
    int64_t w_part;       /* uint4 from a part of the weight to the next */
};

__device__ __forceinline__ int mx_chunk_start(const mx_product &p, int chunk) {
    return (int)((unsigned)(chunk * p.blocks) / (unsigned)p.chunks);
}

/* ---- rows of x --------------------------------------------------------------------------------------------------- */

/* Elements [first, last) of a row are there; the others are zeros. */
struct mx_row {
    const float *at;
    int first, last;
};

__device__ __forceinline__ mx_row mx_row_of(const mx_cuda_fused &f, int64_t r) {
    mx_row row = {f.x, 0, 0};
    if (r >= f.m)
        return row;
    row.last = (int)f.k;
    if (f.positions == 0) {
        row.at = f.x + r * f.ldx;
    } else {
        int64_t start = r % f.out_positions * f.stride - f.pad, after = f.positions - start;
        row.at = f.x + (r / f.out_positions * f.positions + start) * f.channels;
        row.first = start < 0 ? (int)min(-start * f.channels, f.k) : 0;
        row.last = (int)max(min(after * f.channels, f.k), (int64_t)row.first);
    }
    return row;
}

/* Of a kernel that begins early (mx_launch), what another one wrote is not read only: it was written meanwhile. */
template <bool early, typename T> __device__ __forceinline__ T mx_read(const T *from) {
    return early ? *from : __ldg(from);
}

template <bool early = false> __device__ __forceinline__ float2 mx_pair_of(const mx_row &row, int k, int even) {
    float2 v = make_float2(0, 0);
    if (even) {
        if (k >= row.first && k < row.last)
            v = mx_read<early>((const float2 *)(row.at + k));
    } else {
        if (k >= row.first && k < row.last)
            v.x = mx_read<early>(row.at + k);
        if (k + 1 >= row.first && k + 1 < row.last)
            v.y = mx_read<early>(row.at + k + 1);
    }
    return v;
}

#define MX_ROW_HELD 16   /* elements of a row that a lane holds, where all of them fit */

/* Mean and 1 / sqrt(variance + eps) of a row, by one warp: a lane sums its elements in order, then lanes are joined. */
__device__ __forceinline__ float2 mx_row_statistics(const float *x, int k, float eps) {
    int lane = threadIdx.x % MX_WARP;
    float sum = 0, squares = 0, held[MX_ROW_HELD];
    bool fits = k <= MX_ROW_HELD * MX_WARP;
    if (fits) {   /* all loads under way at once */
#pragma unroll
        for (int i = 0; i < MX_ROW_HELD; i++)
            held[i] = lane + i * MX_WARP < k ? x[lane + i * MX_WARP] : 0;
#pragma unroll
        for (int i = 0; i < MX_ROW_HELD; i++)
            sum = lane + i * MX_WARP < k ? __fadd_rn(sum, held[i]) : sum;
    } else {
#pragma unroll 8
        for (int i = lane; i < k; i += MX_WARP)
            sum = __fadd_rn(sum, x[i]);
    }
    float mean = __fdiv_rn(mx_join_warp(sum, mx_sum()), (float)k);
    if (fits) {
#pragma unroll
        for (int i = 0; i < MX_ROW_HELD; i++) {
            float d = __fsub_rn(held[i], mean);
            squares = lane + i * MX_WARP < k ? __fmaf_rn(d, d, squares) : squares;
        }
    } else {
#pragma unroll 8
        for (int i = lane; i < k; i += MX_WARP) {
            float d = __fsub_rn(x[i], mean);
            squares = __fmaf_rn(d, d, squares);
        }
    }
    float variance = __fdiv_rn(mx_join_warp(squares, mx_sum()), (float)k);
    return make_float2(mean, __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(variance, eps))));
}

/* gamma and beta: of all k, wherever they lie. */
__device__ __forceinline__ float2 mx_normed_by(float2 v, float2 statistics, int k, int all, const float *gamma,
                                               const float *beta) {
    if (k < all)
        v.x = __fmaf_rn(__fmul_rn(__fsub_rn(v.x, statistics.x), statistics.y), gamma[k], beta[k]);
    if (k + 1 < all)
        v.y = __fmaf_rn(__fmul_rn(__fsub_rn(v.y, statistics.x), statistics.y), gamma[k + 1], beta[k + 1]);
    return v;
}

__device__ __forceinline__ float2 mx_normed(const mx_cuda_fused &f, float2 v, float2 statistics, int k) {
    return mx_normed_by(v, statistics, k, (int)f.k, f.gamma, f.beta);
}

/* A lane's operand of 16 rows by 16 of k: v[0] row g, v[1] row g + 8, v[2] and v[3] the same 8 of k later. */
template <int parts> __device__ __forceinline__ void mx_operand(const float2 (&v)[4], uint4 (&a)[parts]) {
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float x = __fmul_rn(v[i].x, MX_X_DOWN), y = __fmul_rn(v[i].y, MX_X_DOWN);
        if (parts == 2)
            mx_split(x, y, hi[i], lo[i]);
        else
            hi[i] = mx_halves(x, y);
    }
    a[0] = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    if (parts == 2)
        a[parts - 1] = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* One step of an element's chain: x in x_parts, the weight in w_parts. */
template <int x_parts, int w_parts>
__device__ __forceinline__ void mx_step(float (&hi)[4], float (&lo)[4], const uint4 (&a)[x_parts],
                                        const uint4 (&w)[w_parts],
                                        int second) {
    uint32_t b0 = second ? w[0].z : w[0].x, b1 = second ? w[0].w : w[0].y;
    mx_mma(hi, a[0], b0, b1);
    if (x_parts == 2)
        mx_mma(lo, a[x_parts - 1], b0, b1);
    if (w_parts == 2)
        mx_mma(lo, a[0], second ? w[w_parts - 1].z : w[w_parts - 1].x, second ? w[w_parts - 1].w : w[w_parts - 1].y);
}

template <int x_parts> __device__ __forceinline__ float mx_chunk_sum(float hi, float lo) {
    return x_parts == 2 ? __fmaf_rn(lo, MX_LO_DOWN, hi) : hi;
}

/* ---- what is done with a sum ------------------------------------------------------------------------------------- */

__device__ __forceinline__ float mx_act_of(int act, float v) {
    if (act == MX_ACT_GELU_ERF) {
        float e = erff(__fmul_rn(v, 0.70710678f));
        return __fmul_rn(__fmul_rn(v, 0.5f), __fadd_rn(1.0f, e));
    }
    if (act == MX_ACT_GELU_TANH) {
        float cube = __fmul_rn(__fmul_rn(v, v), v), u = __fmul_rn(0.79788456f, __fmaf_rn(0.044715f, cube, v));
        return __fdiv_rn(v, __fadd_rn(1.0f, expf(__fmul_rn(-2.0f, u))));
    }
    return v;
}

/* Two neighbours of a row; 0 for the second where there is none. Pair: they can be read as one. */
template <bool early = false>
__device__ __forceinline__ float2 mx_two_of(const float *from, int both, int pair) {
    if (pair)
        return mx_read<early>((const float2 *)from);
    return make_float2(mx_read<early>(from), both ? mx_read<early>(from + 1) : 0);
}

/* What is added to columns `column` and the one after it; column is even. To be fetched before the sums are ready, and
 * for many at once: a load is not waited for until its value is used. */
struct mx_ending {
    float2 bias, residual;
    int there;   /* of the two: 0, 1 or both */
};

template <bool early = false>
__device__ __forceinline__ mx_ending mx_ending_of(const mx_product &p, int64_t row, int column) {
    const mx_cuda_fused &f = p.f;
    mx_ending e = {};
    if (row >= f.m || column >= f.n)
        return e;
    e.there = column + 1 < f.n ? 2 : 1;
    if (f.bias)
        e.bias = mx_two_of(f.bias + column, e.there == 2, 0);
    if (f.residual) {
        int64_t at = f.residual_rows == f.m ? row : row % f.residual_rows;
        e.residual = mx_two_of<early>(f.residual + at * f.ld_residual + column, e.there == 2,
                                      p.even_y && e.there == 2);
    }
    return e;
}

__device__ __forceinline__ void mx_finish_with(const mx_product &p, int64_t row, int column, float a, float b,
                                               const mx_ending &e) {
    const mx_cuda_fused &f = p.f;
    if (!e.there)
        return;
    a = __fmul_rn(a, MX_X_UP);
    b = __fmul_rn(b, MX_X_UP);
    if (f.bias) {
        a = __fadd_rn(a, e.bias.x);
        b = __fadd_rn(b, e.bias.y);
    }
    a = mx_act_of(f.act, a);
    b = mx_act_of(f.act, b);
    if (f.residual) {
        a = __fadd_rn(a, e.residual.x);
        b = __fadd_rn(b, e.residual.y);
    }
    float *y = f.y + row * f.ldy + column;
    if (p.even_y && e.there == 2) {
        *(float2 *)y = make_float2(a, b);
    } else {
        y[0] = a;
        if (e.there == 2)
            y[1] = b;
    }
}

/* By a kernel that begins early. */
__device__ __forceinline__ void mx_finish(const mx_product &p, int64_t row, int column, float a, float b) {
    mx_finish_with(p, row, column, a, b, mx_ending_of<true>(p, row, column));
}

/* ---- the kernels' doors ------------------------------------------------------------------------------------------ */

/* Statistics of rows, where there is a norm, lie in f.scratch before mx_tiles_product. */
void mx_rows_product(mx_cuda *gpu, const mx_product &p);
void mx_tiles_product(mx_cuda *gpu, const mx_product &p);
#define MX_ROWS_AT_MOST 64   /* that mx_rows_product takes */
#endif
