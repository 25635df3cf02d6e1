/* modules/cuda/product.cuh - what the kernels of compiled products share, so that they agree bit for bit: the rows of
 * x, their norm, their split into tensor-core operands, the order of a sum, what is done with a finished element.
 * What holds: k is cut into chunks by its length alone; an element is the sum, in order, of its chunks' sums, each of
 * which is one chain of steps of 16 of k. Every rounding is written out, so that no compiler contracts two of them. */
#ifndef MX_CUDA_PRODUCT_CUH
#define MX_CUDA_PRODUCT_CUH
#include "modules/cuda/mma.cuh"

#define MX_CHUNK_BLOCKS 4   /* at most, of 64 of k each */

/* A product as a kernel takes it. */
struct mx_product {
    mx_cuda_fused f;
    int quad_x;           /* fours of x's rows and of the norm are aligned */
    int even_y, quad_y;   /* pairs and fours of y and of what is added to it are aligned */
    int tiles;            /* of 8 columns */
    int blocks, chunks;   /* of k */
    int64_t w_part;       /* bytes from a part of the weight to the next */
};

__device__ __forceinline__ int mx_chunk_start(const mx_product &p, int chunk) {
    return (int)((unsigned)(chunk * p.blocks) / (unsigned)p.chunks);
}

/* The same for all chunks, where a division would take too long; of no more than so many. */
#define MX_STARTS 23
static inline void mx_chunk_starts(const mx_product &p, uint8_t (&starts)[MX_STARTS + 1]) {
    for (int chunk = 0; chunk <= p.chunks; chunk++)
        starts[chunk] = (uint8_t)(chunk * p.blocks / p.chunks);
}

/* ---- rows of x --------------------------------------------------------------------------------------------------- */

/* Elements [first, last) of a row are there; the others are zeros. There are fewer than 2^31 rows: a division of 64
 * bits is a hundred instructions, and a block that runs them once waits for each to come from memory. */
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
        unsigned out = (unsigned)f.out_positions, entry = (unsigned)r / out;
        int64_t start = (int64_t)((unsigned)r - entry * out) * f.stride - f.pad, after = f.positions - start;
        row.at = f.x + (entry * f.positions + start) * f.channels;
        row.first = start < 0 ? (int)min(-start * f.channels, f.k) : 0;
        row.last = (int)max(min(after * f.channels, f.k), (int64_t)row.first);
    }
    return row;
}

/* What was written after the kernel began, by one before it (mx_launch) or by another block, is not read only, and is
 * not looked for near this multiprocessor. */
template <bool early, typename T> __device__ __forceinline__ T mx_read(const T *from) {
    return early ? __ldcg(from) : __ldg(from);
}

/* Elements k to k + 3; k is a multiple of 4. Quad: all rows are aligned for fours, and k of them a multiple of 4. */
template <bool quad, bool early = false> __device__ __forceinline__ float4 mx_four_of(const mx_row &row, int k) {
    float4 v = make_float4(0, 0, 0, 0);
    if (quad) {
        if (k >= row.first && k < row.last)
            v = mx_read<early>((const float4 *)(row.at + k));
        return v;
    }
    v.x = k >= row.first && k < row.last ? mx_read<early>(row.at + k) : 0;
    v.y = k + 1 >= row.first && k + 1 < row.last ? mx_read<early>(row.at + k + 1) : 0;
    v.z = k + 2 >= row.first && k + 2 < row.last ? mx_read<early>(row.at + k + 2) : 0;
    v.w = k + 3 >= row.first && k + 3 < row.last ? mx_read<early>(row.at + k + 3) : 0;
    return v;
}

template <bool quad> __device__ __forceinline__ float4 mx_four_at(const float *vector, int64_t n, int k) {
    mx_row whole = {vector, 0, (int)n};
    return mx_four_of<quad>(whole, k);
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

/* Sums over the fours of a row that a lane has, those of k = 4 (lane + 32 i), in order; those past n do not count. */
__device__ __forceinline__ float mx_sum_four(float sum, const float4 &v, int k, int n) {
    sum = k < n ? __fadd_rn(sum, v.x) : sum;
    sum = k + 1 < n ? __fadd_rn(sum, v.y) : sum;
    sum = k + 2 < n ? __fadd_rn(sum, v.z) : sum;
    return k + 3 < n ? __fadd_rn(sum, v.w) : sum;
}

__device__ __forceinline__ float mx_square_four(float sum, const float4 &v, float mean, int k, int n) {
    float a = __fsub_rn(v.x, mean), b = __fsub_rn(v.y, mean), c = __fsub_rn(v.z, mean), d = __fsub_rn(v.w, mean);
    sum = k < n ? __fmaf_rn(a, a, sum) : sum;
    sum = k + 1 < n ? __fmaf_rn(b, b, sum) : sum;
    sum = k + 2 < n ? __fmaf_rn(c, c, sum) : sum;
    return k + 3 < n ? __fmaf_rn(d, d, sum) : sum;
}

__device__ __forceinline__ float mx_mean_of(float sum, int n) {
    return __fdiv_rn(mx_join_warp(sum, mx_sum()), (float)n);
}

/* 1 / sqrt(variance + eps) */
__device__ __forceinline__ float mx_rate_of(float squares, int n, double eps) {
    float variance = __fdiv_rn(mx_join_warp(squares, mx_sum()), (float)n);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(variance, (float)eps)));
}

/* A warp holds a row in registers, as long as it is no longer than this. */
#define MX_HELD 4
#define MX_HELD_AT_MOST (MX_HELD * 4 * MX_WARP)

/* Mean and rate of a row, by one warp; its first MX_HELD fours for each lane stay in `held`. */
template <bool quad, bool early = false>
__device__ __forceinline__ float2 mx_row_statistics(const mx_product &p, const mx_row &row, float4 (&held)[MX_HELD]) {
    int n = (int)p.f.k, first = threadIdx.x % MX_WARP * 4;
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        held[i] = mx_four_of<quad, early>(row, first + i * 4 * MX_WARP);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        sum = mx_sum_four(sum, held[i], first + i * 4 * MX_WARP, n);
#pragma unroll 4
    for (int k = first + MX_HELD_AT_MOST; k < n; k += 4 * MX_WARP)
        sum = mx_sum_four(sum, mx_four_of<quad, early>(row, k), k, n);
    float mean = mx_mean_of(sum, n);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        squares = mx_square_four(squares, held[i], mean, first + i * 4 * MX_WARP, n);
#pragma unroll 4
    for (int k = first + MX_HELD_AT_MOST; k < n; k += 4 * MX_WARP)
        squares = mx_square_four(squares, mx_four_of<quad, early>(row, k), mean, k, n);
    return make_float2(mean, mx_rate_of(squares, n, p.f.eps));
}

__device__ __forceinline__ float mx_normed(float v, float2 statistics, float gamma, float beta) {
    return __fmaf_rn(__fmul_rn(__fsub_rn(v, statistics.x), statistics.y), gamma, beta);
}

__device__ __forceinline__ float4 mx_norm_four(const float4 &v, float2 s, const float4 &gamma, const float4 &beta) {
    return make_float4(mx_normed(v.x, s, gamma.x, beta.x), mx_normed(v.y, s, gamma.y, beta.y),
                       mx_normed(v.z, s, gamma.z, beta.z), mx_normed(v.w, s, gamma.w, beta.w));
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Four elements of a row as the two pairs of an operand, of each part. */
template <int parts> __device__ __forceinline__ void mx_pairs(const float4 &v, uint32_t (&first)[parts],
                                                              uint32_t (&second)[parts]) {
    float a = __fmul_rn(v.x, MX_X_DOWN), b = __fmul_rn(v.y, MX_X_DOWN);
    float c = __fmul_rn(v.z, MX_X_DOWN), d = __fmul_rn(v.w, MX_X_DOWN);
    if (parts == 2) {
        mx_split(a, b, first[0], first[parts - 1]);
        mx_split(c, d, second[0], second[parts - 1]);
    } else {
        first[0] = mx_halves(a, b);
        second[0] = mx_halves(c, d);
    }
}

/* A lane's operand of 16 rows by 16 of k, from its four of row g and its four of row g + 8. */
template <int parts>
__device__ __forceinline__ void mx_operand(const float4 &low, const float4 &high, uint4 (&a)[parts]) {
    uint32_t x[parts], y[parts], z[parts], w[parts];
    mx_pairs<parts>(low, x, z);
    mx_pairs<parts>(high, y, w);
#pragma unroll
    for (int i = 0; i < parts; i++)
        a[i] = make_uint4(x[i], y[i], z[i], w[i]);
}

/* The same of 8 rows at most, of its four at a 16th of their size: the second parts lie where row g + 8 would. */
template <int parts> __device__ __forceinline__ uint4 mx_operand_of_8(const float4 &v) {
    uint4 o = make_uint4(0, 0, 0, 0);
    if (parts == 2) {
        mx_split(v.x, v.y, o.x, o.y);
        mx_split(v.z, v.w, o.z, o.w);
    } else {
        o.x = mx_halves(v.x, v.y);
        o.z = mx_halves(v.z, v.w);
    }
    return o;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* One step of an element's chain: x in x_parts, the weight in w_parts. */
template <int x_parts, int w_parts>
__device__ __forceinline__ void mx_step(float (&hi)[4], float (&lo)[4], const uint4 (&a)[x_parts],
                                        const uint32_t (&b0)[w_parts], const uint32_t (&b1)[w_parts]) {
    mx_mma(hi, a[0], b0[0], b1[0]);
    if (x_parts == 2)
        mx_mma(lo, a[x_parts - 1], b0[0], b1[0]);
    if (w_parts == 2)
        mx_mma(lo, a[0], b0[w_parts - 1], b1[w_parts - 1]);
}

template <int x_parts> __device__ __forceinline__ float mx_chunk_sum(float hi, float lo) {
    return x_parts == 2 ? __fmaf_rn(lo, MX_LO_DOWN, hi) : hi;
}

/* ---- what is done with a sum ------------------------------------------------------------------------------------- */

/* v times the share of a normal distribution below v: max(v, 0) - x / 2 erfc(x / sqrt 2), x = |v|, with erfc as 2^q(x),
 * q fitted so that the largest error of the whole is least: 9e-9 for this q, 5e-7 for the shorter one, whose results
 * become one f16 each. Both fall for all x from 0 on. No branch, no table, one slow instruction. */
__device__ __forceinline__ float mx_gelu_of(float v, float q) {
    float over;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(over) : "f"(__fmul_rn(q, fabsf(v))));
    return __fmaf_rn(__fmul_rn(fabsf(v), -0.5f), over, fmaxf(v, 0.0f));
}

/* Of v that is 1 / `part` of its size, part a power of 2: so is the result, and its bits are the same else. */
template <int part = 1> __device__ __forceinline__ float mx_gelu_erf(float v) {
    constexpr float p = part, p2 = p * p, p3 = p2 * p, p4 = p2 * p2;
    float x = fabsf(v), q = __fmaf_rn(x, -1.90214533e-6f * p4 * p4, 2.80578716e-5f * p4 * p3);
    q = __fmaf_rn(q, x, -1.31477568e-4f * p3 * p3);
    q = __fmaf_rn(q, x, -2.72065332e-4f * p3 * p2);
    q = __fmaf_rn(q, x, 7.2454076e-3f * p4);
    q = __fmaf_rn(q, x, -5.26276012e-2f * p3);
    q = __fmaf_rn(q, x, -4.59162146e-1f * p2);
    return mx_gelu_of(v, __fmaf_rn(q, x, -1.15111105f * p));
}

template <int part = 1> __device__ __forceinline__ float mx_gelu_short(float v) {
    constexpr float p = part, p2 = p * p, p3 = p2 * p;
    float x = fabsf(v), q = __fmaf_rn(x, -4.88117224e-4f * p3 * p2, 7.19880541e-3f * p2 * p2);
    q = __fmaf_rn(q, x, -5.21468027e-2f * p3);
    q = __fmaf_rn(q, x, -4.59595711e-1f * p2);
    return mx_gelu_of(v, __fmaf_rn(q, x, -1.15100058f * p));
}

/* Of a product of f16, instead of MX_ACT_GELU_ERF, in all kernels (mx_product_of). */
#define MX_ACT_GELU_SHORT 64

__device__ __forceinline__ float mx_act_of(int act, float v) {
    if (act == MX_ACT_GELU_ERF)
        return mx_gelu_erf(v);
    if (act == MX_ACT_GELU_SHORT)
        return mx_gelu_short(v);
    if (act == MX_ACT_GELU_TANH) {
        float cube = __fmul_rn(__fmul_rn(v, v), v), u = __fmul_rn(0.79788456f, __fmaf_rn(0.044715f, cube, v));
        return __fdiv_rn(v, __fadd_rn(1.0f, expf(__fmul_rn(-2.0f, u))));
    }
    return v;
}

/* Two neighbours of a vector or of a row; zeros where there is none. The first is even, and inside of n. */
template <bool early = false>
__device__ __forceinline__ float2 mx_two_of(const float *from, int column, int64_t n, int even) {
    if (!from)
        return make_float2(0, 0);
    if (even && column + 1 < n)
        return mx_read<early>((const float2 *)(from + column));
    return make_float2(mx_read<early>(from + column), column + 1 < n ? mx_read<early>(from + column + 1) : 0);
}

__device__ __forceinline__ const float *mx_residual_of(const mx_cuda_fused &f, int64_t row) {
    if (!f.residual)
        return NULL;
    if (f.residual_rows != f.m)
        row = (unsigned)row % (unsigned)f.residual_rows;
    return f.residual + row * f.ld_residual;
}

/* What is added to columns `column` and the one after it; column is even. To be fetched before the sums are ready, and
 * for many at once: a load is not waited for until its value is used. */
struct mx_ending {
    float2 bias, residual;
    int there;   /* of the two: 0, 1 or both */
};

template <bool early = false>
__device__ __forceinline__ mx_ending mx_ending_of(const mx_product &p, int64_t row, int column) {
    mx_ending e = {};
    if (row >= p.f.m || column >= p.f.n)
        return e;
    e.there = column + 1 < p.f.n ? 2 : 1;
    e.bias = mx_two_of(p.f.bias, column, p.f.n, p.even_y);
    e.residual = mx_two_of<early>(mx_residual_of(p.f, row), column, p.f.n, p.even_y);
    return e;
}

/* Two neighbours from their sums. F: an mx_cuda_fused, or what has its bias, act and residual. */
template <typename F>
__device__ __forceinline__ float2 mx_ended(const F &f, float a, float b, const mx_ending &e) {
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
    return make_float2(a, b);
}

__device__ __forceinline__ void mx_finish(const mx_product &p, int64_t row, int column, float a, float b,
                                          const mx_ending &e) {
    if (!e.there)
        return;
    float2 v = mx_ended(p.f, a, b, e);
    float *y = p.f.y + row * p.f.ldy + column;
    if (p.even_y && e.there == 2) {
        *(float2 *)y = v;
    } else {
        y[0] = v.x;
        if (e.there == 2)
            y[1] = v.y;
    }
}

/* ---- the kernels' doors ------------------------------------------------------------------------------------------ */

mx_product mx_product_of(const mx_cuda_fused *f);

/* What the kernels of a step ask for: rows of x in fours, of whole blocks of k, of which the starts of chunks can be
 * kept; a residual for each row; a weight that can be copied by 16 bytes, and that no kernel has just written. */
static inline int mx_product_is_regular(const mx_product &p) {
    return p.quad_x && p.f.m > 0 && p.f.k > 0 && p.f.k % 64 == 0 && p.f.positions == 0 && p.chunks <= MX_STARTS &&
           !p.f.weight.fresh && (uintptr_t)p.f.weight.bytes % 16 == 0 &&
           (!p.f.residual || p.f.residual_rows == p.f.m);
}

void mx_rows_product(mx_cuda *gpu, const mx_product &p);    /* a few rows; any number */
/* The same, faster; whether it was taken. Columns from[i] to from[i] + width of row r may go to row cell[r] of a cache
 * as well, of as many floats; where a cell comes again later, the later row is what stays. */
struct mx_few_caches {
    float *state[2];
    const int32_t *cell;
    int from[2], width;   /* width 0: no caches */
};
int mx_few_product(mx_cuda *gpu, const mx_product &p, const mx_few_caches &to);
/* Statistics of rows, where there is a norm, lie in f.scratch before these two. */
void mx_tiles_product(mx_cuda *gpu, const mx_product &p);
void mx_wide_product(mx_cuda *gpu, const mx_product &p);    /* on GPUs that have wide steps */
int mx_product_is_wide(mx_cuda *gpu);
/* The same, of rows that are operands already, or are made so before, in f.scratch; where it takes them. */
int mx_ready_takes(const mx_product &p);
mx_product mx_ready_rows(mx_cuda *gpu, const mx_product &p);   /* the product with such rows */
void mx_ready_product(mx_cuda *gpu, const mx_product &p);
/* The same of very many rows that are operands already. */
int mx_passed_takes(mx_cuda *gpu, const mx_product &p);
void mx_passed_product(mx_cuda *gpu, const mx_product &p);
/* The same of very many short rows, which a block holds. */
int mx_held_takes(mx_cuda *gpu, const mx_product &p);
void mx_held_product(mx_cuda *gpu, const mx_product &p);
#endif
