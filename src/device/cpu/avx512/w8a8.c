/* device/cpu/avx512/w8a8.c - products in 8 bits, for AVX-512. Compiled twice: with VNNI and without.
 *
 * With VNNI a tile is 6 rows by two panels: 24 accumulators, four registers of the panels, one broadcast four of a row.
 * Its instruction multiplies unsigned by signed bytes, so numbers of rows are stored plus 128, and the sums begin at
 * -128 times those of the columns. Without, a tile is 6 rows by one panel: a panel's bytes are widened to 16 bits as
 * they are loaded, products of pairs are added, and the two pairs of a column are joined at the end.
 * A weight that is read once is prefetched into the second-level cache, line for line, by as many panels as a tile has:
 * what is next. */
#include "device/cpu/avx512/w8a8.h"

#define TILE_ROWS 6
#define LINE (MX_PANEL * 4)   /* bytes of a four of k */

#ifdef __AVX512VNNI__
#define OFFSET 128
#define NUMBER 1              /* bytes of a row's number */
#define TILE_PANELS 2
#else
#define OFFSET 0
#define NUMBER 2
#define TILE_PANELS 1
#endif

void MX_FAST(w8a8_blocks)(mx_w8a8_blocks *out) {
    *out = (mx_w8a8_blocks){.tile_rows = TILE_ROWS, .tile_panels = TILE_PANELS, .row_block = 252, .bytes = NUMBER,
                            .offset = OFFSET, .adjacent = 1};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

void MX_FAST(w8a8_row)(void *y, int64_t stride, float *scale, int32_t *shift, const float *x, int64_t k) {
    const mx_int8_range range = w8a8_range(x, k);
    char *to = y, stored[16 * NUMBER];
    *scale = range.scale;
    *shift = range.shift;
    for (int64_t i = 0; i < k; i += 16) {
        __m512i p = w8a8_numbers(x + i, w8a8_first(k - i), range);
#ifdef __AVX512VNNI__
        _mm_storeu_si128((void *)stored, _mm_xor_si128(_mm512_cvtsepi32_epi8(p), _mm_set1_epi8(-OFFSET)));
#else
        _mm256_storeu_si256((void *)stored, _mm512_cvtepi32_epi16(_mm512_min_epi32(p, _mm512_set1_epi32(127))));
#endif
        for (int64_t four = 0; four < 16 && i + four < k; four += 4, to += stride)
            memcpy(to, stored + four * NUMBER, 4 * NUMBER);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

#ifdef __AVX512VNNI__
INLINE __m512i four_of(const uint8_t *a) {
    int32_t four;
    memcpy(&four, a, sizeof(four));
    return _mm512_set1_epi32(four);
}

/* Added in place by hand: compilers copy every sum back. */
INLINE void add_products(__m512i *sum, __m512i v, __m512i w) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(v), "v"(w));
}

INLINE void step(__m512i c[TILE_ROWS][4], const uint8_t *a, const int8_t *b, const int8_t *b2, const int rows,
                 const int panels) {
    __asm__ volatile("" ::: "memory");   /* keeps the loads of the next step out of this one's registers */
    __m512i x[4] = {_mm512_loadu_si512(b), _mm512_loadu_si512(b + 64)};
    if (panels == 2) {
        x[2] = _mm512_loadu_si512(b2);
        x[3] = _mm512_loadu_si512(b2 + 64);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        __m512i v = four_of(a + r * 4);
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++)
            add_products(&c[r][h], v, x[h]);
    }
}

INLINE void tile(const mx_w8a8_tile *t, const int rows, const int panels) {
    const uint8_t *a = t->a;
    const int64_t a_step = t->a_rows * 4, ahead = t->streams ? panels * t->quads * LINE : 0;
    const int8_t *b = t->b, *b2 = t->b + t->quads * LINE;
    __m512i sum[TILE_ROWS][4];
#pragma GCC unroll 4
    for (int h = 0; h < 2 * panels; h++) {
        __m512i from = _mm512_slli_epi32(_mm512_loadu_si512(t->sums + h * 16), 7);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            sum[r][h] = _mm512_sub_epi32(_mm512_setzero_si512(), from);
    }
    for (int64_t q = t->quads; q > 0; q--, a += a_step, b += LINE, b2 += LINE) {
        _mm_prefetch(b + ahead, _MM_HINT_T1);
        _mm_prefetch(b + ahead + 64, _MM_HINT_T1);
        if (panels == 2) {
            _mm_prefetch(b2 + ahead, _MM_HINT_T1);
            _mm_prefetch(b2 + ahead + 64, _MM_HINT_T1);
        }
        step(sum, a, b, b2, rows, panels);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++)
            w8a8_store(t, sum[r][h], r, h * 16);
}
#else
INLINE __m512i four_of(const int16_t *a) {
    int64_t four;
    memcpy(&four, a, sizeof(four));
    return _mm512_set1_epi64(four);
}

/* Added in place by hand: compilers copy every sum back. */
INLINE void add_products(__m512i *sum, __m512i w, __m512i v) {
    __m512i products = _mm512_madd_epi16(w, v);
    __asm__("vpaddd %1, %0, %0" : "+v"(*sum) : "v"(products));
}

/* Eight columns are a register: of each the sums of its first and its second pairs. */
INLINE void step(__m512i c[TILE_ROWS][4], const int16_t *a, const int8_t *b, const int rows) {
    __asm__ volatile("" ::: "memory");
    __m512i x[4];
#pragma GCC unroll 4
    for (int h = 0; h < 4; h++)
        x[h] = _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(b + h * 32)));
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        __m512i v = four_of(a + r * 4);
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++)
            add_products(&c[r][h], x[h], v);
    }
}

/* The pairs of sixteen columns joined. */
INLINE __m512i joined(__m512i low, __m512i high) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high));
}

INLINE void tile(const mx_w8a8_tile *t, const int rows) {
    const int16_t *a = t->a;
    const int8_t *b = t->b;
    const int64_t a_step = t->a_rows * 4, ahead = t->streams ? t->quads * LINE : 0;
    __m512i sum[TILE_ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++)
            sum[r][h] = _mm512_setzero_si512();
    for (int64_t q = t->quads; q > 0; q--, a += a_step, b += LINE) {
        _mm_prefetch(b + ahead, _MM_HINT_T1);
        _mm_prefetch(b + ahead + 64, _MM_HINT_T1);
        step(sum, a, b, rows);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++)
            w8a8_store(t, joined(sum[r][2 * h], sum[r][2 * h + 1]), r, h * 16);
}
#endif

void MX_FAST(w8a8_tile)(const mx_w8a8_tile *t) {
    switch (t->rows * 4 + t->panels) {
#if TILE_PANELS == 2
#define ROWS(n)                                                                                                        \
    case n * 4 + 1: tile(t, n, 1); break;                                                                              \
    case n * 4 + 2: tile(t, n, 2); break;
#else
#define ROWS(n)                                                                                                        \
    case n * 4 + 1: tile(t, n); break;
#endif
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
    }
}
