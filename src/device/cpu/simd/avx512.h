/* device/cpu/simd/avx512.h - sixteen floats: AVX-512 (F, BW, DQ, VL) under the names of simd.h, which alone includes
 * this. */
#ifndef MX_SIMD_AVX512_H
#define MX_SIMD_AVX512_H
#include <immintrin.h>

#define VL 16
#define VF_HAS_MASKS   /* the last elements of a row take the same path as the others, under a mask */
typedef __m512 vf;
typedef __m512i vi;
typedef __m512d vd;

MX_INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
MX_INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
MX_INLINE vf vf_load(const float *x) { return _mm512_loadu_ps(x); }
MX_INLINE void vf_store(float *y, vf x) { _mm512_storeu_ps(y, x); }
MX_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
MX_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
MX_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
MX_INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
MX_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
MX_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
MX_INLINE vf vf_abs(vf x) { return _mm512_abs_ps(x); }
/* Of a number and a NaN, in any order, the instructions return the second operand. */
MX_INLINE vf vf_max(vf c, vf x) { return _mm512_max_ps(c, x); }
MX_INLINE vf vf_min(vf c, vf x) { return _mm512_min_ps(c, x); }
MX_INLINE vf vf_maxnum(vf x, vf m) { return _mm512_max_ps(x, m); }

MX_INLINE vi vf_bits(vf x) { return _mm512_castps_si512(x); }
MX_INLINE vf vi_floats(vi x) { return _mm512_castsi512_ps(x); }
MX_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
MX_INLINE vi vi_shl(vi x, const unsigned n) { return _mm512_slli_epi32(x, n); }
MX_INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
MX_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
MX_INLINE vi vi_srl(vi x, const unsigned n) { return _mm512_srli_epi32(x, n); }
MX_INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
MX_INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
MX_INLINE vi vi_load(const void *x) { return _mm512_loadu_si512(x); }
MX_INLINE vi vi_load_u8(const void *x) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(x)); }
MX_INLINE vi vi_load_i8(const void *x) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(x)); }
MX_INLINE vf vi_to_floats(vi x) { return _mm512_cvtepi32_ps(x); }

typedef __m128i vh;
MX_INLINE vh vh_load(const void *x) { return _mm_loadu_si128(x); }
MX_INLINE void vh_store(void *y, vh x) { _mm_storeu_si128(y, x); }
MX_INLINE vh vh_low8(vh a, vh b) { return _mm_unpacklo_epi8(a, b); }
MX_INLINE vh vh_high8(vh a, vh b) { return _mm_unpackhi_epi8(a, b); }
#define VF_HAS_SCALE
MX_INLINE vf vf_scale(vf p, vf n, vf i) { return _mm512_scalef_ps(p, n); }

MX_INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= VL ? 0xffff : n <= 0 ? 0 : (1u << n) - 1); }
MX_INLINE vf vf_load_first(const float *x, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), x); }
MX_INLINE vf vf_load_or(const float *x, int64_t n, vf other) {
    return _mm512_mask_loadu_ps(other, first_lanes(n), x);
}
MX_INLINE void vf_store_first(float *y, vf x, int64_t n) { _mm512_mask_storeu_ps(y, first_lanes(n), x); }
MX_INLINE vf vf_first_or(vf x, vf other, int64_t n) { return _mm512_mask_blend_ps(first_lanes(n), other, x); }

MX_INLINE vf vf_number_or(vf x, vf a, vf b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), b, a);
}
MX_INLINE vf vf_less(vf x, vf m, vf a, vf b) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, m, _CMP_LT_OQ), b, a);
}
MX_INLINE unsigned vf_greater(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }

MX_INLINE vf vf_suppress(vf v, const uint8_t *out, int64_t n) {
    __m128i bytes = _mm_maskz_loadu_epi8(first_lanes(n), out);
    return _mm512_mask_blend_ps(_mm_testn_epi8_mask(bytes, bytes), _mm512_set1_ps(-INFINITY), v);
}

MX_INLINE float vf_reduce_max(vf x) { return _mm512_reduce_max_ps(x); }

MX_INLINE void vf_transpose(vf x[VL]) {
    vf a[16];
    for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 16; i += 4)   /* fours of rows: in each quarter of x[i + c], column c of the quarter */
        for (int h = 0; h < 2; h++) {
            vd low = _mm512_castps_pd(a[i + h]), high = _mm512_castps_pd(a[i + h + 2]);
            x[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            x[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) {
        vf first = _mm512_shuffle_f32x4(x[c], x[c + 4], 0x88), second = _mm512_shuffle_f32x4(x[c], x[c + 4], 0xdd);
        vf third = _mm512_shuffle_f32x4(x[c + 8], x[c + 12], 0x88);
        vf fourth = _mm512_shuffle_f32x4(x[c + 8], x[c + 12], 0xdd);
        a[c] = _mm512_shuffle_f32x4(first, third, 0x88);
        a[c + 8] = _mm512_shuffle_f32x4(first, third, 0xdd);
        a[c + 4] = _mm512_shuffle_f32x4(second, fourth, 0x88);
        a[c + 12] = _mm512_shuffle_f32x4(second, fourth, 0xdd);
    }
    for (int i = 0; i < 16; i++)
        x[i] = a[i];
}

MX_INLINE vf vf_load_f16(const void *x) { return _mm512_cvtph_ps(_mm256_loadu_si256(x)); }
MX_INLINE void vf_store_f16(void *y, vf x) { _mm256_storeu_si256(y, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }

/* ---- eight doubles ----------------------------------------------------------------------------------------------- */

#define VD_CHAINS 4
MX_INLINE vd vd_zero(void) { return _mm512_setzero_pd(); }
MX_INLINE vd vd_set1(double x) { return _mm512_set1_pd(x); }
MX_INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
MX_INLINE vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
MX_INLINE vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
MX_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
MX_INLINE vd vd_load(const float *x) { return _mm512_cvtps_pd(_mm256_loadu_ps(x)); }
MX_INLINE void vd_store(float *y, vd x) { _mm256_storeu_ps(y, _mm512_cvtpd_ps(x)); }
MX_INLINE void vd_store_doubles(double *y, vd x) { _mm512_storeu_pd(y, x); }
MX_INLINE vd vd_low(vf x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
MX_INLINE vd vd_high(vf x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }

MX_INLINE __mmask8 first_doubles(int64_t n) { return (__mmask8)(n >= VL / 2 ? 0xff : n <= 0 ? 0 : (1u << n) - 1); }
MX_INLINE vd vd_load_first(const float *x, int64_t n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first_doubles(n), x));
}
MX_INLINE void vd_store_first(float *y, vd x, int64_t n) {
    _mm256_mask_storeu_ps(y, first_doubles(n), _mm512_cvtpd_ps(x));
}
MX_INLINE vd vd_first(vd x, int64_t n) { return _mm512_maskz_mov_pd(first_doubles(n), x); }

MX_INLINE double vd_join(const vd sum[VD_CHAINS]) {
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(sum[0], sum[1]), _mm512_add_pd(sum[2], sum[3])));
}
MX_INLINE double vd_sum(vd x) { return _mm512_reduce_add_pd(x); }

/* ---- sums across the lanes of sixteen vectors -------------------------------------------------------------------- */

#define VS 16
typedef __m512 vs;
MX_INLINE void vs_store(float *y, vs x) { _mm512_storeu_ps(y, x); }
MX_INLINE float vs_first(vs x) { return _mm512_cvtss_f32(x); }

MX_INLINE vs vf_sums(const vf x[1][VS]) {
    vf two[8], four[4], pair[2];
    for (int i = 0; i < 8; i++)
        two[i] = _mm512_add_ps(_mm512_unpacklo_ps(x[0][2 * i], x[0][2 * i + 1]),
                               _mm512_unpackhi_ps(x[0][2 * i], x[0][2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        vd a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int i = 0; i < 2; i++)
        pair[i] = _mm512_add_ps(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                                _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(pair[0], pair[1], 0x88), _mm512_shuffle_f32x4(pair[0], pair[1], 0xdd));
}
#endif
