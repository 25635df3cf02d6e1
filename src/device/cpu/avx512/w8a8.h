/* device/cpu/avx512/w8a8.h - what the products in 8 bits of AVX-512 and of AMX have in common: the scale of a row, and
 * what is done with a sum. */
#ifndef MX_AVX512_W8A8_H
#define MX_AVX512_W8A8_H
#include <immintrin.h>
#include <string.h>

#include "device/cpu/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* A mask of the first n lanes. */
INLINE __mmask16 w8a8_first(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1); }

INLINE float w8a8_largest(const float *x, int64_t k) {
    const __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 16) {
        __m512i bits = _mm512_maskz_loadu_epi32(w8a8_first(k - i), x + i);
        most = _mm512_max_epu32(most, _mm512_and_epi32(bits, size));
    }
    uint32_t bits = _mm512_reduce_max_epu32(most);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Sixteen columns from `at` on: times the scales of column and row, and what comes after. */
INLINE void w8a8_store(const mx_w8a8_tile *t, __m512i sum, int64_t r, int64_t at) {
    __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(t->scales + at), _mm512_set1_ps(t->row_scales[r]));
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale);
    if (t->bias)
        v = _mm512_add_ps(v, _mm512_loadu_ps(t->bias + at));
    if (t->residual)
        v = _mm512_add_ps(v, _mm512_loadu_ps(t->residual + r * t->ld_residual + at));
    _mm512_storeu_ps(t->y + r * t->ldy + at, v);
}
#endif
