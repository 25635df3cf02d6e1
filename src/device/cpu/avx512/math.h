/* device/cpu/avx512/math.h - functions of sixteen floats, for kernels that are compiled with AVX-512.
 * NaN stays NaN in all of them. */
#ifndef MX_AVX512_MATH_H
#define MX_AVX512_MATH_H
#include <immintrin.h>

#include "device/cpu/poly.h"

/* e^x within 1.1 units in the last place, subnormal results included; 0 below -104, infinity above 89. */
static inline __m512 mx_exp16(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(MX_EXP_LEAST), x);   /* of a number and a NaN, max and min give the second */
    x = _mm512_min_ps(_mm512_set1_ps(MX_EXP_MOST), x);
    const __m512 magic = _mm512_set1_ps(MX_ROUND);
    __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(MX_LOG2_E), magic), magic);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(MX_LN2_HIGH), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(MX_LN2_LOW), r);
    __m512 p = _mm512_set1_ps(MX_EXP_6);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP_5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP_4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP_3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP_2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP_1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* 2^x for x <= 127, within 2.1 units in the last place; 0 below -150. The exponential of softmax. */
static inline __m512 mx_exp2_16(__m512 x) {
    const __m512 magic = _mm512_set1_ps(MX_ROUND);
    x = _mm512_max_ps(_mm512_set1_ps(-151.0f), x);
    __m512 n = _mm512_sub_ps(_mm512_add_ps(x, magic), magic);
    __m512 r = _mm512_sub_ps(x, n);
    __m512 p = _mm512_set1_ps(MX_EXP2_5);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), the tail Phi(-a) as 2 to the power of a polynomial: no division, and the error
 * is below 2 * 2^-24 of |x|. */
static inline __m512 mx_gelu_erf16(__m512 x) {
    __m512 a = _mm512_min_ps(_mm512_set1_ps(MX_TAIL_MOST), _mm512_abs_ps(x));
    __m512 g = _mm512_set1_ps(MX_TAIL_8);
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_7));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_6));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_5));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_4));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_3));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_2));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_1));
    g = _mm512_fmadd_ps(g, a, _mm512_set1_ps(MX_TAIL_0));
    return _mm512_fnmadd_ps(a, mx_exp2_16(g), _mm512_max_ps(x, _mm512_setzero_ps()));
}

static inline __m512 mx_gelu_tanh16(__m512 x) {
    __m512 cube = _mm512_mul_ps(_mm512_mul_ps(x, x), _mm512_mul_ps(x, _mm512_set1_ps(MX_TANH_CUBE)));
    __m512 u = _mm512_mul_ps(_mm512_add_ps(x, cube), _mm512_set1_ps(-2.0f * MX_TANH_SCALE));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), mx_exp16(u)));
}
#endif
