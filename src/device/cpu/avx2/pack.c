/* device/cpu/avx2/pack.c - halves to floats, and the transposition that packs a weight, for AVX2 and F16C. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <string.h>

void MX_FAST(widen_f16)(float *y, const void *x, int64_t n) {
    const char *from = x;
    for (; n >= 8; n -= 8, from += 16, y += 8)
        _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)));
    for (; n > 0; n--, from += 2, y++) {
        uint16_t half;
        memcpy(&half, from, 2);
        *y = _cvtsh_ss(half);
    }
}

/* ---- transposition ----------------------------------------------------------------------------------------------- */

/* Eight columns of eight elements: y[p][j] = x[j][p]. */
static inline void transpose_16(uint16_t *y, const uint16_t *x, int64_t ld) {
    __m128i r[8], s[8];
    for (int j = 0; j < 8; j++)
        r[j] = _mm_loadu_si128((const void *)((const char *)x + j * ld * 2));
    for (int j = 0; j < 8; j += 2) {
        s[j] = _mm_unpacklo_epi16(r[j], r[j + 1]);       /* elements 0 to 3 of two columns */
        s[j + 1] = _mm_unpackhi_epi16(r[j], r[j + 1]);   /* 4 to 7 */
    }
    for (int j = 0; j < 8; j += 4)
        for (int h = 0; h < 2; h++) {
            r[j + 2 * h] = _mm_unpacklo_epi32(s[j + h], s[j + h + 2]);       /* two elements of four columns */
            r[j + 2 * h + 1] = _mm_unpackhi_epi32(s[j + h], s[j + h + 2]);
        }
    for (int p = 0; p < 4; p++) {
        _mm_storeu_si128((void *)(y + 2 * p * MX_PANEL), _mm_unpacklo_epi64(r[p], r[p + 4]));
        _mm_storeu_si128((void *)(y + (2 * p + 1) * MX_PANEL), _mm_unpackhi_epi64(r[p], r[p + 4]));
    }
}

static inline void transpose_32(float *y, const float *x, int64_t ld) {
    __m256 r[8], s[8];
    for (int j = 0; j < 8; j++)
        r[j] = _mm256_loadu_ps((const float *)(const void *)((const char *)x + j * ld * 4));
    for (int j = 0; j < 8; j += 2) {
        s[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
        s[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
    }
    for (int j = 0; j < 8; j += 4) {
        r[j] = _mm256_shuffle_ps(s[j], s[j + 2], 0x44);
        r[j + 1] = _mm256_shuffle_ps(s[j], s[j + 2], 0xee);
        r[j + 2] = _mm256_shuffle_ps(s[j + 1], s[j + 3], 0x44);
        r[j + 3] = _mm256_shuffle_ps(s[j + 1], s[j + 3], 0xee);
    }
    for (int p = 0; p < 4; p++) {
        _mm256_storeu_ps(y + p * MX_PANEL, _mm256_permute2f128_ps(r[p], r[p + 4], 0x20));
        _mm256_storeu_ps(y + (p + 4) * MX_PANEL, _mm256_permute2f128_ps(r[p], r[p + 4], 0x31));
    }
}

/* What is left of a panel whose columns or rows are not a multiple of eight. */
static void rest(char *y, const char *x, int64_t ld, int64_t columns, int64_t first, int64_t k, size_t bytes) {
    for (int64_t p = first; p < k; p++) {
        char *row = y + (size_t)(p * MX_PANEL) * bytes;
        for (int64_t j = 0; j < columns; j++)
            memcpy(row + (size_t)j * bytes, x + (size_t)(j * ld + p) * bytes, bytes);
        memset(row + (size_t)columns * bytes, 0, (size_t)(MX_PANEL - columns) * bytes);
    }
}

void MX_FAST(pack_panel_16)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    int64_t p = 0;
    for (; p + 8 <= k && columns == MX_PANEL; p += 8)
        for (int64_t j = 0; j < MX_PANEL; j += 8)
            transpose_16((uint16_t *)y + p * MX_PANEL + j, (const void *)((const char *)x + (j * ld + p) * 2), ld);
    rest(y, x, ld, columns, p, k, 2);
}

void MX_FAST(pack_panel_32)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    int64_t p = 0;
    for (; p + 8 <= k && columns == MX_PANEL; p += 8)
        for (int64_t j = 0; j < MX_PANEL; j += 8)
            transpose_32((float *)y + p * MX_PANEL + j, (const void *)((const char *)x + (j * ld + p) * 4), ld);
    rest(y, x, ld, columns, p, k, 4);
}
