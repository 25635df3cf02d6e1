/* modules/cuda/gemm/epilogue.cuh - what happens to a finished sum: scale, bias, activation, residual, store. Shared, so
 * that all kernels agree bit for bit; every rounding is explicit. */
#ifndef MX_CUDA_GEMM_EPILOGUE_CUH
#define MX_CUDA_GEMM_EPILOGUE_CUH
#include "modules/cuda/gemm/norm.cuh"

namespace mx::gemm {

/* GELU as max(v, 0) - x / 2 erfc(x / sqrt 2), x = |v|, with erfc(x / sqrt 2) as 2^(x q(x)). q is a minimax fit of the
 * whole: an error of at most 9e-9, and of 5e-7 for the shorter polynomial, whose results become one f16 each. Both
 * exponents fall monotonically from x = 0 on. No branch, no table, one transcendental instruction. */
__device__ __forceinline__ float gelu_from_exponent(float v, float q) {
    float over;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(over) : "f"(__fmul_rn(q, fabsf(v))));
    return __fmaf_rn(__fmul_rn(fabsf(v), -0.5f), over, fmaxf(v, 0.0f));
}

/* `scale`, a power of 2: v is given at 1 / scale of its size, and so is the result, with the same significand. */
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

/* Replaces MX_ACT_GELU_ERF in all kernels when the precision is f16 (make_gemm_params). */
constexpr int ACT_GELU_SHORT = 64;

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

/* Two neighbours of a vector or a row; zeros if `from` is NULL. The first column is even and less than n. */
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

/* What the epilogue adds to columns `column` and `column` + 1; column is even. Load it before the sums are ready, and
 * many at once: a load is not waited for until its value is used. */
struct epilogue_inputs {
    float2 bias, residual;
    int there;   /* how many of the two columns exist: 0, 1 or 2 */
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

/* Two neighbours from their sums. F: a gemm_desc, or any type with its bias, act and residual. */
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

}   /* namespace mx::gemm */
#endif
