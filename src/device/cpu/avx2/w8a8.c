/* device/cpu/avx2/w8a8.c - products in 8 bits, for AVX2. Compiled twice: with VNNI and without.
 *
 * With VNNI a tile is 6 rows by a panel, sixteen columns at a time: 12 accumulators of eight columns. Its instruction
 * multiplies unsigned by signed bytes, so numbers of rows are stored plus 128, and the sums begin at -128 times those
 * of the columns. Without, the instruction for bytes saturates in 16 bits, so a panel's bytes are widened as they are
 * loaded, numbers of rows are stored in 16 bits, and products of pairs are added in 32: eight columns at a time, of
 * four of them in each accumulator the sums of their first and their second pairs, joined at the end. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <string.h>

#include "device/cpu/ref/int8.h"

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 6
#define LINE (MX_PANEL * 4)   /* bytes of a four of k */

#ifdef __AVXVNNI__
#define OFFSET 128
typedef uint8_t number;       /* of a row */
#define STRIP 16              /* columns of a tile at a time */
#else
#define OFFSET 0
typedef int16_t number;
#define STRIP 8
#endif

void MX_FAST(w8a8_blocks)(mx_w8a8_blocks *out) {
    *out = (mx_w8a8_blocks){.tile_rows = TILE_ROWS, .tile_panels = 1, .row_block = 126, .bytes = sizeof(number),
                            .offset = OFFSET, .adjacent = 1};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

INLINE mx_int8_range range_of(const float *x, int64_t k) {
    __m256i mosts = _mm256_setzero_si256(), leasts = _mm256_setzero_si256();
    int32_t bits[8], most = 0;
    uint32_t least = 0;
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
        __m256i v = _mm256_loadu_si256((const void *)(x + i));
        mosts = _mm256_max_epi32(mosts, v);
        leasts = _mm256_max_epu32(leasts, v);
    }
    _mm256_storeu_si256((void *)bits, mosts);
    for (int l = 0; l < 8; l++)
        most = MX_MAX(most, bits[l]);
    _mm256_storeu_si256((void *)bits, leasts);
    for (int l = 0; l < 8; l++)
        least = MX_MAX(least, (uint32_t)bits[l]);
    for (; i < k; i++) {
        memcpy(bits, x + i, sizeof(float));
        most = MX_MAX(most, bits[0]);
        least = MX_MAX(least, (uint32_t)bits[0]);
    }
    return mx_int8_range_of(most, least);
}

/* Eight numbers; one that is too large for 8 bits becomes 127. */
INLINE void store_numbers(number to[8], __m256i p) {
    __m128i pairs = _mm_packs_epi32(_mm256_castsi256_si128(p), _mm256_extracti128_si256(p, 1));
#if OFFSET
    _mm_storel_epi64((void *)to, _mm_xor_si128(_mm_packs_epi16(pairs, pairs), _mm_set1_epi8(-OFFSET)));
#else
    _mm_storeu_si128((void *)to, _mm_min_epi16(pairs, _mm_set1_epi16(127)));
#endif
}

void MX_FAST(w8a8_row)(void *y, int64_t stride, float *scale, int32_t *shift, const float *x, int64_t k) {
    const mx_int8_range range = range_of(x, k);
    float last[8] = {0};
    char *to = y;
    *scale = range.scale;
    *shift = range.shift;
    for (int64_t i = 0; i < k; i += 8) {
        number stored[8];
        if (i + 8 > k) {
            memcpy(last, x + i, (size_t)(k - i) * sizeof(float));
            x = last - i;
        }
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(range.step));
        __m256i p = _mm256_sub_epi32(_mm256_cvtps_epi32(v), _mm256_set1_epi32(range.shift));
        store_numbers(stored, range.step > 0 ? p : _mm256_setzero_si256());
        for (int64_t four = 0; four < 8 && i + four < k; four += 4, to += stride)
            memcpy(to, stored + four, 4 * sizeof(number));
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Two registers of a row's sums, added to in place by hand: compilers copy every sum back. */
#if OFFSET
INLINE __m256i four_of(const number *a) {
    int32_t four;
    memcpy(&four, a, sizeof(four));
    return _mm256_set1_epi32(four);
}

INLINE __m256i load(const int8_t *b, int half) { return _mm256_loadu_si256((const void *)(b + 32 * half)); }

INLINE void add_products(__m256i *sum, __m256i w, __m256i v) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(v), "x"(w));
}

INLINE void begin(const mx_w8a8_tile *t, int64_t at, __m256i sum[2]) {
    for (int h = 0; h < 2; h++) {
        __m256i from = _mm256_slli_epi32(_mm256_loadu_si256((const void *)(t->sums + at + 8 * h)), 7);
        sum[h] = _mm256_sub_epi32(_mm256_setzero_si256(), from);
    }
}
#else
INLINE __m256i four_of(const number *a) {
    int64_t four;
    memcpy(&four, a, sizeof(four));
    return _mm256_set1_epi64x(four);
}

INLINE __m256i load(const int8_t *b, int half) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(b + 16 * half)));
}

INLINE void add_products(__m256i *sum, __m256i w, __m256i v) {
    __m256i products = _mm256_madd_epi16(w, v);
    __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(products));
}

INLINE void begin(const mx_w8a8_tile *t, int64_t at, __m256i sum[2]) {
    (void)t;
    (void)at;
    sum[0] = sum[1] = _mm256_setzero_si256();
}
#endif

/* Eight columns from `at` on. */
INLINE void store_eight(const mx_w8a8_tile *t, __m256i sum, int64_t r, int64_t at) {
    __m256i shift = _mm256_set1_epi32(t->row_shifts[r]);
    sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(shift, _mm256_loadu_si256((const void *)(t->sums + at))));
    __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(t->scales + at), _mm256_set1_ps(t->row_scales[r]));
    __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scale);
    if (t->bias)
        v = _mm256_add_ps(v, _mm256_loadu_ps(t->bias + at));
    if (t->residual)
        v = _mm256_add_ps(v, _mm256_loadu_ps(t->residual + r * t->ld_residual + at));
    _mm256_storeu_ps(t->y + r * t->ldy + at, v);
}

INLINE void store(const mx_w8a8_tile *t, const __m256i sum[2], int64_t r, int64_t at) {
#if OFFSET
    store_eight(t, sum[0], r, at);
    store_eight(t, sum[1], r, at + 8);
#else
    store_eight(t, _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[0], sum[1]), 0xd8), r, at);
#endif
}

/* Columns [at, at + STRIP) of the panel; each strip prefetches its share of what comes. */
INLINE void strip(const mx_w8a8_tile *t, int64_t at, const int rows) {
    const number *a = t->a;
    const int8_t *b = t->b + at * 4;
    const char *prefetch = (const char *)t->b + (t->streams ? (t->quads + at * t->quads / MX_PANEL) * LINE : 0);
    const int64_t prefetch_step = t->streams ? LINE * STRIP / MX_PANEL : 0;
    __m256i sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        begin(t, at, sum[r]);
    for (int64_t q = 0; q < t->quads; q++, a += t->a_rows * 4, b += LINE, prefetch += prefetch_step) {
        _mm_prefetch(prefetch, _MM_HINT_T1);
        __m256i x0 = load(b, 0), x1 = load(b, 1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256i v = four_of(a + r * 4);
            add_products(&sum[r][0], x0, v);
            add_products(&sum[r][1], x1, v);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        store(t, sum[r], r, at);
}

void MX_FAST(w8a8_tile)(const mx_w8a8_tile *t) {
    for (int64_t at = 0; at < MX_PANEL; at += STRIP)
        switch (t->rows) {
#define ROWS(n)                                                                                                        \
    case n: strip(t, at, n); break;
            ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
        }
}
