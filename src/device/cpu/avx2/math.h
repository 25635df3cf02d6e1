/* device/cpu/avx2/math.h - functions of eight floats, for kernels that are compiled with AVX2 and FMA.
 * NaN stays NaN in all of them. */
#ifndef MX_AVX2_MATH_H
#define MX_AVX2_MATH_H
#include <immintrin.h>

#include "device/cpu/simd/poly.h"

/* 2^n for whole n in [-127, 127], -127 giving 0. */
static inline __m256 mx_power8(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x within 1.1 units in the last place; 0 below -104, infinity above 89. */
static inline __m256 mx_exp8(__m256 x) {
    x = _mm256_max_ps(_mm256_set1_ps(MX_EXP_LEAST), x);   /* of a number and a NaN, max and min give the second */
    x = _mm256_min_ps(_mm256_set1_ps(MX_EXP_MOST), x);
    const __m256 magic = _mm256_set1_ps(MX_ROUND);
    __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(MX_LOG2_E), magic);
    __m256 n = _mm256_sub_ps(shifted, magic);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(MX_LN2_HIGH), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(MX_LN2_LOW), r);
    __m256 p = _mm256_set1_ps(MX_EXP_6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP_5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP_4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP_3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP_2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP_1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    /* 2^n in two factors: n runs from -150 to 128 */
    __m256i i = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(magic));
    __m256i half = _mm256_srai_epi32(i, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, mx_power8(half)), mx_power8(_mm256_sub_epi32(i, half)));
}

/* 2^x for x <= 127, within 2.1 units in the last place, down to 2^-126; less than that below, 0 from -127 on. The
 * exponential of softmax: the exponent is added to the bits of 2^r, and at -127 those of 1 become those of 0. */
static inline __m256 mx_exp2_8(__m256 x) {
    const __m256 magic = _mm256_set1_ps(MX_ROUND);
    x = _mm256_max_ps(_mm256_set1_ps(-127.0f), x);
    __m256 shifted = _mm256_add_ps(x, magic);
    __m256 r = _mm256_sub_ps(x, _mm256_sub_ps(shifted, magic));
    __m256 p = _mm256_set1_ps(MX_EXP2_5);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP2_4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP2_3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP2_2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(MX_EXP2_1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);   /* magic's own bits go off the top */
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), the tail Phi(-a) as 2 to the power of a polynomial: no division, and the error
 * is below 2 * 2^-24 of |x|. */
static inline __m256 mx_gelu_erf8(__m256 x) {
    __m256 a = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    a = _mm256_min_ps(_mm256_set1_ps(MX_TAIL_MOST), a);
    __m256 g = _mm256_set1_ps(MX_TAIL_8);
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_7));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_6));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_5));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_4));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_3));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_2));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_1));
    g = _mm256_fmadd_ps(g, a, _mm256_set1_ps(MX_TAIL_0));
    return _mm256_fnmadd_ps(a, mx_exp2_8(g), _mm256_max_ps(x, _mm256_setzero_ps()));
}

static inline __m256 mx_gelu_tanh8(__m256 x) {
    __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), _mm256_mul_ps(x, _mm256_set1_ps(MX_TANH_CUBE)));
    __m256 u = _mm256_mul_ps(_mm256_add_ps(x, cube), _mm256_set1_ps(-2.0f * MX_TANH_SCALE));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), mx_exp8(u)));
}

/* x [8][8]: rows become columns. */
static inline void mx_transpose8(__m256 x[8]) {
    __m256 a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4)   /* fours of rows: in each half of b[i + c], column c of the half */
        for (int h = 0; h < 2; h++) {
            __m256d low = _mm256_castps_pd(a[i + h]), high = _mm256_castps_pd(a[i + h + 2]);
            b[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
            b[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) {
        x[c] = _mm256_permute2f128_ps(b[c], b[c + 4], 0x20);
        x[c + 4] = _mm256_permute2f128_ps(b[c], b[c + 4], 0x31);
    }
}
#endif
