/* device/cpu/avx512/math.h - functions of sixteen floats, for kernels that are compiled with AVX-512.
 * NaN stays NaN in all of them. */
#ifndef MX_AVX512_MATH_H
#define MX_AVX512_MATH_H
#include <immintrin.h>

#include "device/cpu/simd/poly.h"

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

/* 2^x for x <= 127, within 2.1 units in the last place, down to 2^-126; less than that below, 0 from -127 on. The
 * exponential of softmax: the exponent is added to the bits of 2^r, and at -127 those of 1 become those of 0. */
static inline __m512 mx_exp2_16(__m512 x) {
    const __m512 magic = _mm512_set1_ps(MX_ROUND);
    x = _mm512_max_ps(_mm512_set1_ps(-127.0f), x);
    __m512 shifted = _mm512_add_ps(x, magic);
    __m512 r = _mm512_sub_ps(x, _mm512_sub_ps(shifted, magic));
    __m512 p = _mm512_set1_ps(MX_EXP2_5);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(MX_EXP2_1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);   /* magic's own bits go off the top */
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), exponent));
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

/* x [16][16]: rows become columns. */
static inline void mx_transpose16(__m512 x[16]) {
    __m512 a[16];
    for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 16; i += 4)   /* fours of rows: in each quarter of x[i + c], column c of the quarter */
        for (int h = 0; h < 2; h++) {
            __m512d low = _mm512_castps_pd(a[i + h]), high = _mm512_castps_pd(a[i + h + 2]);
            x[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            x[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) {
        __m512 first = _mm512_shuffle_f32x4(x[c], x[c + 4], 0x88), second = _mm512_shuffle_f32x4(x[c], x[c + 4], 0xdd);
        __m512 third = _mm512_shuffle_f32x4(x[c + 8], x[c + 12], 0x88);
        __m512 fourth = _mm512_shuffle_f32x4(x[c + 8], x[c + 12], 0xdd);
        a[c] = _mm512_shuffle_f32x4(first, third, 0x88);
        a[c + 8] = _mm512_shuffle_f32x4(first, third, 0xdd);
        a[c + 4] = _mm512_shuffle_f32x4(second, fourth, 0x88);
        a[c + 12] = _mm512_shuffle_f32x4(second, fourth, 0xdd);
    }
    for (int i = 0; i < 16; i++)
        x[i] = a[i];
}
#endif
