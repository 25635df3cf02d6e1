/* modules/cuda/gemm/gemm.cuh - what the kernels of compiled products share, so that they agree bit for bit: the rows of
 * x, their norm, their split into tensor-core operands, the order of a sum, what is done with a finished element.
 * What holds: k is cut into slices by its length alone; an element is the sum, in order, of its slices' sums, each of
 * which is one chain of steps of 16 of k. Every rounding is written out, so that no compiler contracts two of them. */
#ifndef MX_CUDA_GEMM_GEMM_CUH
#define MX_CUDA_GEMM_GEMM_CUH
#include "modules/cuda/common/mma.cuh"

#define SLICE_BLOCKS 4   /* at most, of 64 of k each */

/* A product as a kernel takes it. */
struct gemm_params {
    gemm_desc f;
    int quad_x;           /* fours of x's rows and of the norm are aligned */
    int even_y, quad_y;   /* pairs and fours of y and of what is added to it are aligned */
    int tiles;            /* of 8 columns */
    int blocks, slices;   /* of k */
    int64_t w_term_bytes;       /* bytes from a part of the weight to the next */
};

__device__ __forceinline__ int slice_start(const gemm_params &p, int slice) {
    return (int)((unsigned)(slice * p.blocks) / (unsigned)p.slices);
}

/* The same for all slices, where a division would take too long; of no more than so many. */
#define MAX_SLICES 23
static inline void slice_starts(const gemm_params &p, uint8_t (&starts)[MAX_SLICES + 1]) {
    for (int slice = 0; slice <= p.slices; slice++)
        starts[slice] = (uint8_t)(slice * p.blocks / p.slices);
}

/* ---- rows of x --------------------------------------------------------------------------------------------------- */

/* Elements [first, last) of a row are there; the others are zeros. There are fewer than 2^31 rows: a division of 64
 * bits is a hundred instructions, and a block that runs them once waits for each to come from memory. */
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

/* What was written after the kernel began, by one before it (launch_kernel) or by another block, is not read only, and
 * is not looked for near this multiprocessor. */
template <bool early, typename T> __device__ __forceinline__ T load_global(const T *from) {
    return early ? __ldcg(from) : __ldg(from);
}

/* Elements k to k + 3; k is a multiple of 4. Quad: all rows are aligned for fours, and k of them a multiple of 4. */
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

/* ---- norm -------------------------------------------------------------------------------------------------------- */

/* Sums over the fours of a row that a lane has, those of k = 4 (lane + 32 i), in order; those past n do not count. */
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

/* A warp holds a row in registers, as long as it is no longer than this. */
#define ROW_REGS 4
#define ROW_REGS_FLOATS (ROW_REGS * 4 * WARP_SIZE)

/* Mean and rate of a row, by one warp; its first ROW_REGS fours for each lane stay in `held`. */
template <bool quad, bool early = false>
__device__ __forceinline__ float2 row_stats(const gemm_params &p, const x_row &row, float4 (&held)[ROW_REGS]) {
    int n = (int)p.f.k, first = threadIdx.x % WARP_SIZE * 4;
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++)
        held[i] = load_row4<quad, early>(row, first + i * 4 * WARP_SIZE);
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++)
        sum = sum4(sum, held[i], first + i * 4 * WARP_SIZE, n);
#pragma unroll 4
    for (int k = first + ROW_REGS_FLOATS; k < n; k += 4 * WARP_SIZE)
        sum = sum4(sum, load_row4<quad, early>(row, k), k, n);
    float mean = row_mean(sum, n);
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++)
        squares = sum_squares4(squares, held[i], mean, first + i * 4 * WARP_SIZE, n);
#pragma unroll 4
    for (int k = first + ROW_REGS_FLOATS; k < n; k += 4 * WARP_SIZE)
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

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Four elements of a row as the two pairs of an operand, of each part. */
template <int terms>
__device__ __forceinline__ void operand_pairs(const float4 &v, uint32_t (&first)[terms], uint32_t (&second)[terms]) {
    float a = __fmul_rn(v.x, X_SCALE), b = __fmul_rn(v.y, X_SCALE);
    float c = __fmul_rn(v.z, X_SCALE), d = __fmul_rn(v.w, X_SCALE);
    if (terms == 2) {
        split_f16(a, b, first[0], first[terms - 1]);
        split_f16(c, d, second[0], second[terms - 1]);
    } else {
        first[0] = pack_half2(a, b);
        second[0] = pack_half2(c, d);
    }
}

/* A lane's operand of 16 rows by 16 of k, from its four of row g and its four of row g + 8. */
template <int terms>
__device__ __forceinline__ void make_operand(const float4 &low, const float4 &high, uint4 (&a)[terms]) {
    uint32_t x[terms], y[terms], z[terms], w[terms];
    operand_pairs<terms>(low, x, z);
    operand_pairs<terms>(high, y, w);
#pragma unroll
    for (int i = 0; i < terms; i++)
        a[i] = make_uint4(x[i], y[i], z[i], w[i]);
}

/* The same of 8 rows at most, of its four at a 16th of their size: the second parts lie where row g + 8 would. */
template <int terms> __device__ __forceinline__ uint4 make_operand8(const float4 &v) {
    uint4 o = make_uint4(0, 0, 0, 0);
    if (terms == 2) {
        split_f16(v.x, v.y, o.x, o.y);
        split_f16(v.z, v.w, o.z, o.w);
    } else {
        o.x = pack_half2(v.x, v.y);
        o.z = pack_half2(v.z, v.w);
    }
    return o;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* One step of an element's chain: x in x_terms, the weight in w_terms. */
template <int x_terms, int w_terms>
__device__ __forceinline__ void mma_step(float (&hi)[4], float (&lo)[4], const uint4 (&a)[x_terms],
                                         const uint32_t (&b0)[w_terms], const uint32_t (&b1)[w_terms]) {
    mma_m16n8k16(hi, a[0], b0[0], b1[0]);
    if (x_terms == 2)
        mma_m16n8k16(lo, a[x_terms - 1], b0[0], b1[0]);
    if (w_terms == 2)
        mma_m16n8k16(lo, a[0], b0[w_terms - 1], b1[w_terms - 1]);
}

template <int x_terms> __device__ __forceinline__ float slice_sum(float hi, float lo) {
    return x_terms == 2 ? __fmaf_rn(lo, LO_UNSCALE, hi) : hi;
}

/* ---- what is done with a sum ------------------------------------------------------------------------------------- */

/* v times the share of a normal distribution below v: max(v, 0) - x / 2 erfc(x / sqrt 2), x = |v|, with erfc as 2^q(x),
 * q fitted so that the largest error of the whole is least: 9e-9 for this q, 5e-7 for the shorter one, whose results
 * become one f16 each. Both fall for all x from 0 on. No branch, no table, one slow instruction. */
__device__ __forceinline__ float gelu_from_exponent(float v, float q) {
    float over;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(over) : "f"(__fmul_rn(q, fabsf(v))));
    return __fmaf_rn(__fmul_rn(fabsf(v), -0.5f), over, fmaxf(v, 0.0f));
}

/* Of v that is 1 / `scale` of its size, scale a power of 2: so is the result, and its bits are the same else. */
template <int scale = 1> __device__ __forceinline__ float gelu_erf(float v) {
    constexpr float p = scale, p2 = p * p, p3 = p2 * p, p4 = p2 * p2;
    float x = fabsf(v), q = __fmaf_rn(x, -1.90214533e-6f * p4 * p4, 2.80578716e-5f * p4 * p3);
    q = __fmaf_rn(q, x, -1.31477568e-4f * p3 * p3);
    q = __fmaf_rn(q, x, -2.72065332e-4f * p3 * p2);
    q = __fmaf_rn(q, x, 7.2454076e-3f * p4);
    q = __fmaf_rn(q, x, -5.26276012e-2f * p3);
    q = __fmaf_rn(q, x, -4.59162146e-1f * p2);
    return gelu_from_exponent(v, __fmaf_rn(q, x, -1.15111105f * p));
}

template <int scale = 1> __device__ __forceinline__ float gelu_short(float v) {
    constexpr float p = scale, p2 = p * p, p3 = p2 * p;
    float x = fabsf(v), q = __fmaf_rn(x, -4.88117224e-4f * p3 * p2, 7.19880541e-3f * p2 * p2);
    q = __fmaf_rn(q, x, -5.21468027e-2f * p3);
    q = __fmaf_rn(q, x, -4.59595711e-1f * p2);
    return gelu_from_exponent(v, __fmaf_rn(q, x, -1.15100058f * p));
}

/* Of a product of f16, instead of MX_ACT_GELU_ERF, in all kernels (make_gemm_params). */
#define ACT_GELU_SHORT 64

__device__ __forceinline__ float activate(int act, float v) {
    if (act == MX_ACT_GELU_ERF)
        return gelu_erf(v);
    if (act == ACT_GELU_SHORT)
        return gelu_short(v);
    if (act == MX_ACT_GELU_TANH) {
        float cube = __fmul_rn(__fmul_rn(v, v), v), u = __fmul_rn(0.79788456f, __fmaf_rn(0.044715f, cube, v));
        return __fdiv_rn(v, __fadd_rn(1.0f, expf(__fmul_rn(-2.0f, u))));
    }
    return v;
}

/* Two neighbours of a vector or of a row; zeros where there is none. The first is even, and inside of n. */
template <bool early = false>
__device__ __forceinline__ float2 load2(const float *from, int column, int64_t n, int even) {
    if (!from)
        return make_float2(0, 0);
    if (even && column + 1 < n)
        return load_global<early>((const float2 *)(from + column));
    return make_float2(load_global<early>(from + column), column + 1 < n ? load_global<early>(from + column + 1) : 0);
}

__device__ __forceinline__ const float *residual_row(const gemm_desc &f, int64_t row) {
    if (!f.residual)
        return NULL;
    if (f.residual_rows != f.m)
        row = (unsigned)row % (unsigned)f.residual_rows;
    return f.residual + row * f.ld_residual;
}

/* What is added to columns `column` and the one after it; column is even. To be fetched before the sums are ready, and
 * for many at once: a load is not waited for until its value is used. */
struct epilogue_inputs {
    float2 bias, residual;
    int there;   /* of the two: 0, 1 or both */
};

template <bool early = false>
__device__ __forceinline__ epilogue_inputs epilogue_load(const gemm_params &p, int64_t row, int column) {
    epilogue_inputs e = {};
    if (row >= p.f.m || column >= p.f.n)
        return e;
    e.there = column + 1 < p.f.n ? 2 : 1;
    e.bias = load2(p.f.bias, column, p.f.n, p.even_y);
    e.residual = load2<early>(residual_row(p.f, row), column, p.f.n, p.even_y);
    return e;
}

/* Two neighbours from their sums. F: an gemm_desc, or what has its bias, act and residual. */
template <typename F>
__device__ __forceinline__ float2 epilogue_apply(const F &f, float a, float b, const epilogue_inputs &e) {
    a = __fmul_rn(a, X_UNSCALE);
    b = __fmul_rn(b, X_UNSCALE);
    if (f.bias) {
        a = __fadd_rn(a, e.bias.x);
        b = __fadd_rn(b, e.bias.y);
    }
    a = activate(f.act, a);
    b = activate(f.act, b);
    if (f.residual) {
        a = __fadd_rn(a, e.residual.x);
        b = __fadd_rn(b, e.residual.y);
    }
    return make_float2(a, b);
}

__device__ __forceinline__ void epilogue_store(const gemm_params &p, int64_t row, int column, float a, float b,
                                               const epilogue_inputs &e) {
    if (!e.there)
        return;
    float2 v = epilogue_apply(p.f, a, b, e);
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

gemm_params make_gemm_params(const gemm_desc *f);

/* What the kernels of a step ask for: rows of x in fours, of whole blocks of k, of which the starts of slices can be
 * kept; a residual for each row; a weight that can be copied by 16 bytes, and that no kernel has just written. */
static inline int gemm_is_regular(const gemm_params &p) {
    return p.quad_x && p.f.m > 0 && p.f.k > 0 && p.f.k % 64 == 0 && p.f.positions == 0 && p.slices <= MAX_SLICES &&
           !p.f.weight.fresh && (uintptr_t)p.f.weight.bytes % 16 == 0 &&
           (!p.f.residual || p.f.residual_rows == p.f.m);
}

void skinny_gemm(mx_cuda *gpu, const gemm_params &p);    /* a few rows; any number */
/* The same, faster; whether it was taken. Columns from[i] to from[i] + width of row r may go to row cell[r] of a cache
 * as well, of as many floats; where a cell comes again later, the later row is what stays. */
struct kv_cache_out {
    float *state[2];
    const int32_t *cell;
    int from[2], width;   /* width 0: no caches */
};
int skinny_cluster_gemm(mx_cuda *gpu, const gemm_params &p, const kv_cache_out &to);
/* Statistics of rows, where there is a norm, lie in f.scratch before these two. */
void mma_sync_gemm(mx_cuda *gpu, const gemm_params &p);
void wgmma_rs_gemm(mx_cuda *gpu, const gemm_params &p);    /* on GPUs that have wide steps */
int has_wgmma(mx_cuda *gpu);
/* The same, of rows that are operands already, or are made so before, in f.scratch; where it takes them. */
int wgmma_ss_can_implement(const gemm_params &p);
gemm_params prepack_a(mx_cuda *gpu, const gemm_params &p);   /* the product with such rows */
void wgmma_ss_gemm(mx_cuda *gpu, const gemm_params &p);
/* The same of very many rows that are operands already. */
int persistent_can_implement(mx_cuda *gpu, const gemm_params &p);
void persistent_gemm(mx_cuda *gpu, const gemm_params &p);
/* The same of very many short rows, which a block holds. */
int pingpong_can_implement(mx_cuda *gpu, const gemm_params &p);
void pingpong_gemm(mx_cuda *gpu, const gemm_params &p);
#endif
