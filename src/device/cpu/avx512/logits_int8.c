/* device/cpu/avx512/logits_int8.c - int8 logits of a few rows, for AVX-512: a line of a panel is a pair of k for 32
 * ids, two registers of 16-bit integers. Compiled twice, with VNNI and without. */
#include "device/cpu/kernels.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))
#define FEW_ROWS 12       /* of a group */

INLINE __m512i pair_of(const int16_t *x) {
    int32_t both;
    __builtin_memcpy(&both, x, sizeof(both));
    return _mm512_set1_epi32(both);
}

/* Added in place by hand: compilers copy every sum, before and after. */
INLINE void add_products(__m512i *sum, __m512i w, __m512i v) {
#ifdef __AVX512VNNI__
    __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(w), "v"(v));
#else
    __m512i products = _mm512_madd_epi16(w, v);
    __asm__("vpaddd %1, %0, %0" : "+v"(*sum) : "v"(products));
#endif
}

/* `rows` rows by `panels` panels. The next panels are prefetched meanwhile, line for line, into the second-level cache:
 * nearer, or into the first, fewer lines are on their way at once, and memory is waited for. */
INLINE void few(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, const int8_t *b, const float *scales,
                int64_t pairs, const int rows, const int panels) {
    const int64_t panel_bytes = pairs * MX_PANEL * 2;
    __m512i sum[FEW_ROWS][4];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++)
            sum[r][h] = _mm512_setzero_si512();
    for (int64_t p = 0; p < pairs; p++, b += MX_PANEL * 2, x += 2) {
        __m512i v[FEW_ROWS];
        __asm__ volatile("" ::: "memory");   /* keeps the loads of the next pair out of this one's registers */
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
            v[r] = pair_of(x + r * pairs * 2);
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++) {
            const int8_t *line = b + h / 2 * panel_bytes;
            if (h % 2 == 0)
                _mm_prefetch((const char *)line + panels * panel_bytes, _MM_HINT_T1);
            __m512i w = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(line + h % 2 * 32)));
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++)
                add_products(&sum[r][h], w, v[r]);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++) {
            __m512 scale = _mm512_mul_ps(_mm512_loadu_ps(scales + h * 16), _mm512_set1_ps(row[r].scale));
            _mm512_storeu_ps(y + r * ld + h * 16, _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r][h]), scale));
        }
}

/* A group of at most FEW_ROWS rows; returns the panels done. */
INLINE int64_t group(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows, const int8_t *b,
                     const float *scales, int64_t pairs, int64_t n_panels) {
    switch (rows * 4 + (n_panels >= 2 && rows <= 6 ? 2 : 1)) {
#define FEW(n, p)                                                                                                      \
    case n * 4 + p: few(y, ld, x, row, b, scales, pairs, n, p); return p;
        FEW(1, 2) FEW(1, 1) FEW(2, 2) FEW(2, 1) FEW(3, 2) FEW(3, 1) FEW(4, 2) FEW(4, 1) FEW(5, 2) FEW(5, 1)
        FEW(6, 2) FEW(6, 1) FEW(7, 1) FEW(8, 1) FEW(9, 1) FEW(10, 1) FEW(11, 1) FEW(12, 1)
#undef FEW
    }
    return 1;
}

void MX_FAST(int8_gemm)(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows,
                        const int8_t *panels, const float *scales, int64_t pairs, int64_t n_panels) {
    int64_t groups = (rows + FEW_ROWS - 1) / FEW_ROWS, done = 1;
    for (int64_t panel = 0; panel < n_panels; panel += done)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
            done = group(y + first * ld + panel * MX_PANEL, ld, x + first * pairs * 2, row + first, count,
                         panels + panel * pairs * MX_PANEL * 2, scales + panel * MX_PANEL, pairs,
                         groups > 1 ? 1 : n_panels - panel);
        }
}
