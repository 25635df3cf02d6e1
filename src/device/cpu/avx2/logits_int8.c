/* device/cpu/avx2/logits_int8.c - int8 logits of a few rows, for AVX2. Compiled twice, with VNNI and without.
 *
 * With up to two rows a panel is read once; with up to five first one half of its ids, then the other: the second time
 * it is in the L1 cache. The next panel is prefetched at an even pace through both. */
#include "device/cpu/kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define FEW_ROWS 5        /* of a group */
#define LINE (MX_PANEL * 2)

INLINE __m256i pair_of(const int16_t *x) {
    int32_t both;
    __builtin_memcpy(&both, x, sizeof(both));
    return _mm256_set1_epi32(both);
}

/* Added in place by hand: compilers copy every sum back. */
INLINE void add_products(__m256i *sum, __m256i w, __m256i v) {
#ifdef __AVXVNNI__
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(*sum) : "x"(w), "x"(v));
#else
    __m256i products = _mm256_madd_epi16(w, v);
    __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(products));
#endif
}

/* `rows` rows by `eights` times eight ids; every `pace`-th line prefetches one of the next panel. */
INLINE void few(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, const int8_t *b, const float *scales,
                int64_t pairs, const char *prefetch, const int pace, const int rows, const int eights) {
    __m256i sum[FEW_ROWS][4];
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < eights; e++)
            sum[r][e] = _mm256_setzero_si256();
    for (int64_t p = 0; p < pairs; p++, b += LINE, x += 2, prefetch += LINE / pace) {
        _mm_prefetch(prefetch, _MM_HINT_T1);
        __m256i w[4];
#pragma GCC unroll 4
        for (int e = 0; e < eights; e++)
            w[e] = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(b + e * 16)));
#pragma GCC unroll 5
        for (int r = 0; r < rows; r++) {
            __m256i v = pair_of(x + r * pairs * 2);
#pragma GCC unroll 4
            for (int e = 0; e < eights; e++)
                add_products(&sum[r][e], w[e], v);
        }
    }
#pragma GCC unroll 5
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < eights; e++) {
            __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(scales + e * 8), _mm256_set1_ps(row[r].scale));
            _mm256_storeu_ps(y + r * ld + e * 8, _mm256_mul_ps(_mm256_cvtepi32_ps(sum[r][e]), scale));
        }
}

INLINE void group(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows, const int8_t *b,
                  const float *scales, int64_t pairs) {
    const char *prefetch = (const char *)b + pairs * LINE;   /* the next panel */
    switch (rows) {
#define WHOLE(n)                                                                                                       \
    case n: few(y, ld, x, row, b, scales, pairs, prefetch, 1, n, 4); break;
#define HALVES(n)                                                                                                      \
    case n:                                                                                                            \
        few(y, ld, x, row, b, scales, pairs, prefetch, 2, n, 2);                                                       \
        few(y + 16, ld, x, row, b + 32, scales + 16, pairs, prefetch + pairs * LINE / 2, 2, n, 2);                     \
        break;
        WHOLE(1) WHOLE(2) HALVES(3) HALVES(4) HALVES(5)
#undef WHOLE
#undef HALVES
    }
}

void MX_FAST(int8_gemm)(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows,
                        const int8_t *panels, const float *scales, int64_t pairs, int64_t n_panels) {
    int64_t groups = (rows + FEW_ROWS - 1) / FEW_ROWS;
    for (int64_t panel = 0; panel < n_panels; panel++, y += MX_PANEL, panels += pairs * LINE, scales += MX_PANEL)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
            group(y + first * ld, ld, x + first * pairs * 2, row + first, count, panels, scales, pairs);
        }
}
