/* device/cpu/simd/avx2.h - eight floats: AVX2, FMA and F16C under the names of simd.h, which alone includes this. */
#ifndef MX_SIMD_AVX2_H
#define MX_SIMD_AVX2_H
#include <immintrin.h>

#define VL 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256d vd;

MX_INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
MX_INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
MX_INLINE vf vf_load(const float *x) { return _mm256_loadu_ps(x); }
MX_INLINE void vf_store(float *y, vf x) { _mm256_storeu_ps(y, x); }
MX_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
MX_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
MX_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
MX_INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
MX_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
MX_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
MX_INLINE vf vf_abs(vf x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
/* Of a number and a NaN, in any order, the instructions return the second operand. */
MX_INLINE vf vf_max(vf c, vf x) { return _mm256_max_ps(c, x); }
MX_INLINE vf vf_min(vf c, vf x) { return _mm256_min_ps(c, x); }
MX_INLINE vf vf_maxnum(vf x, vf m) { return _mm256_max_ps(x, m); }

MX_INLINE vi vf_bits(vf x) { return _mm256_castps_si256(x); }
MX_INLINE vf vi_floats(vi x) { return _mm256_castsi256_ps(x); }
MX_INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
MX_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
MX_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
MX_INLINE vi vi_shl(vi x, const int n) { return _mm256_slli_epi32(x, n); }
MX_INLINE vi vi_sra(vi x, const int n) { return _mm256_srai_epi32(x, n); }

MX_INLINE vi vi_srl(vi x, const int n) { return _mm256_srli_epi32(x, n); }
MX_INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
MX_INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
MX_INLINE vi vi_load(const void *x) { return _mm256_loadu_si256(x); }
MX_INLINE vi vi_load_u8(const void *x) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(x)); }
MX_INLINE vi vi_load_i8(const void *x) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(x)); }
MX_INLINE vf vi_to_floats(vi x) { return _mm256_cvtepi32_ps(x); }

MX_INLINE vi first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)MX_MIN(n, VL)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MX_INLINE vf vf_load_first(const float *x, int64_t n) { return _mm256_maskload_ps(x, first_lanes(n)); }
MX_INLINE vf vf_load_or(const float *x, int64_t n, vf other) {
    if (n >= VL)
        return _mm256_loadu_ps(x);
    vi in = first_lanes(n);
    return _mm256_blendv_ps(other, _mm256_maskload_ps(x, in), _mm256_castsi256_ps(in));
}
MX_INLINE void vf_store_first(float *y, vf x, int64_t n) { _mm256_maskstore_ps(y, first_lanes(n), x); }

MX_INLINE vf vf_number_or(vf x, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, x, _CMP_ORD_Q)); }
MX_INLINE vf vf_less(vf x, vf m, vf a, vf b) { return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, m, _CMP_LT_OQ)); }
MX_INLINE unsigned vf_greater(vf a, vf b) { return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }

MX_INLINE vf vf_suppress(vf v, const uint8_t *out, int64_t n) {
    uint64_t bytes = 0;
    if (n >= VL)
        memcpy(&bytes, out, VL);
    else
        memcpy(&bytes, out, (size_t)n);
    vi wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    vf kept = _mm256_castsi256_ps(_mm256_cmpeq_epi32(wide, _mm256_setzero_si256()));
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, kept);
}

MX_INLINE float vf_reduce_max(vf x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

MX_INLINE void vf_transpose(vf x[VL]) {
    vf a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4)   /* fours of rows: in each half of b[i + c], column c of the half */
        for (int h = 0; h < 2; h++) {
            vd low = _mm256_castps_pd(a[i + h]), high = _mm256_castps_pd(a[i + h + 2]);
            b[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
            b[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) {
        x[c] = _mm256_permute2f128_ps(b[c], b[c + 4], 0x20);
        x[c + 4] = _mm256_permute2f128_ps(b[c], b[c + 4], 0x31);
    }
}

/* ---- f16, and eight 16-bit elements ------------------------------------------------------------------------------ */

MX_INLINE vf vf_load_f16(const void *x) { return _mm256_cvtph_ps(_mm_loadu_si128(x)); }
MX_INLINE void vf_store_f16(void *y, vf x) { _mm_storeu_si128(y, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }

typedef __m128i vh;
MX_INLINE vh vh_load(const void *x) { return _mm_loadu_si128(x); }
MX_INLINE void vh_store(void *y, vh x) { _mm_storeu_si128(y, x); }
MX_INLINE vh vh_low8(vh a, vh b) { return _mm_unpacklo_epi8(a, b); }
MX_INLINE vh vh_high8(vh a, vh b) { return _mm_unpackhi_epi8(a, b); }
MX_INLINE vh vh_low16(vh a, vh b) { return _mm_unpacklo_epi16(a, b); }
MX_INLINE vh vh_high16(vh a, vh b) { return _mm_unpackhi_epi16(a, b); }
MX_INLINE vh vh_low32(vh a, vh b) { return _mm_unpacklo_epi32(a, b); }
MX_INLINE vh vh_high32(vh a, vh b) { return _mm_unpackhi_epi32(a, b); }
MX_INLINE vh vh_low64(vh a, vh b) { return _mm_unpacklo_epi64(a, b); }
MX_INLINE vh vh_high64(vh a, vh b) { return _mm_unpackhi_epi64(a, b); }

/* ---- four doubles ------------------------------------------------------------------------------------------------ */

#define VD_CHAINS 4
MX_INLINE vd vd_zero(void) { return _mm256_setzero_pd(); }
MX_INLINE vd vd_set1(double x) { return _mm256_set1_pd(x); }
MX_INLINE vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
MX_INLINE vd vd_sub(vd a, vd b) { return _mm256_sub_pd(a, b); }
MX_INLINE vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
MX_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
MX_INLINE vd vd_load(const float *x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }
MX_INLINE void vd_store(float *y, vd x) { _mm_storeu_ps(y, _mm256_cvtpd_ps(x)); }
MX_INLINE void vd_store_doubles(double *y, vd x) { _mm256_storeu_pd(y, x); }
MX_INLINE vd vd_low(vf x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
MX_INLINE vd vd_high(vf x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

MX_INLINE __m128i first_doubles(int64_t n) {
    return _mm_cmpgt_epi32(_mm_set1_epi32((int)MX_MIN(n, VL)), _mm_setr_epi32(0, 1, 2, 3));
}
MX_INLINE vd vd_load_first(const float *x, int64_t n) { return _mm256_cvtps_pd(_mm_maskload_ps(x, first_doubles(n))); }
MX_INLINE void vd_store_first(float *y, vd x, int64_t n) { _mm_maskstore_ps(y, first_doubles(n), _mm256_cvtpd_ps(x)); }

MX_INLINE double vd_join(const vd sum[VD_CHAINS]) {
    vd four = _mm256_add_pd(_mm256_add_pd(sum[0], sum[1]), _mm256_add_pd(sum[2], sum[3]));
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(half) + _mm_cvtsd_f64(_mm_unpackhi_pd(half, half));
}
MX_INLINE double vd_sum(vd x) {
    double four[4];
    _mm256_storeu_pd(four, x);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

/* ---- sums across the lanes of four pairs of vectors -------------------------------------------------------------- */

#define VS 4
typedef __m128 vs;
MX_INLINE void vs_store(float *y, vs x) { _mm_storeu_ps(y, x); }
MX_INLINE float vs_first(vs x) { return _mm_cvtss_f32(x); }

/* Lane i of each half: the sum of that half of x[i]. */
MX_INLINE vf half_sums(const vf x[VS]) {
    vf a = _mm256_add_ps(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
    vf b = _mm256_add_ps(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
    vd c = _mm256_castps_pd(a), d = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(c, d)), _mm256_castpd_ps(_mm256_unpackhi_pd(c, d)));
}
MX_INLINE vs vf_sums(const vf x[2][VS]) {
    vf a = half_sums(x[0]), b = half_sums(x[1]);
    return _mm_add_ps(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)),
                      _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1)));
}
#endif
