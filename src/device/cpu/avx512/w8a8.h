/* device/cpu/avx512/w8a8.h - what the products in 8 bits of AVX-512 and of AMX have in common: the range of a row, and
 * what is done with a sum. */
#ifndef MX_AVX512_W8A8_H
#define MX_AVX512_W8A8_H
#include <immintrin.h>
#include <string.h>

#include "device/cpu/kernels.h"
#include "device/cpu/ref/int8.h"

#define INLINE static inline __attribute__((always_inline))

/* A mask of the first n lanes. */
INLINE __mmask16 w8a8_first(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1); }

INLINE mx_int8_range w8a8_range(const float *x, int64_t k) {
    __m512i most = _mm512_setzero_si512(), least = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 16) {
        __m512i bits = _mm512_maskz_loadu_epi32(w8a8_first(k - i), x + i);
        most = _mm512_max_epi32(most, bits);
        least = _mm512_max_epu32(least, bits);
    }
    return mx_int8_range_of(_mm512_reduce_max_epi32(most), _mm512_reduce_max_epu32(least));
}

/* Sixteen numbers of a row from x on, of which `mask` are there, as integers that may be one too large for 8 bits. */
INLINE __m512i w8a8_numbers(const float *x, __mmask16 mask, mx_int8_range range) {
    __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x), _mm512_set1_ps(range.step));
    __m512i p = _mm512_sub_epi32(_mm512_cvtps_epi32(v), _mm512_set1_epi32(range.shift));
    return range.step > 0 ? p : _mm512_setzero_si512();
}

/* Sixteen columns from `at` on: with the row's shift, times the scales of column and row, and what comes after. */
INLINE void w8a8_store(const mx_w8a8_tile *t, __m512i sum, int64_t r, int64_t at) {
    __m512i shift = _mm512_set1_epi32(t->row_shifts[r]);
    sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(shift, _mm512_loadu_si512(t->sums + at)));
    __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(t->scales + at), _mm512_set1_ps(t->row_scales[r]));
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
    if (t->bias)
        v = _mm512_add_ps(v, _mm512_loadu_ps(t->bias + at));
    if (t->residual)
        v = _mm512_add_ps(v, _mm512_loadu_ps(t->residual + r * t->ld_residual + at));
    _mm512_storeu_ps(t->y + r * t->ldy + at, v);
}
#endif
