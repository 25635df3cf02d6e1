/* device/cpu/avx2/gemm.c - GEMM micro-kernels, for AVX2, FMA and F16C: tiles of many rows, and few rows.
 *
 * A tile is 6 rows by a panel, half a panel at a time: 12 accumulators, two registers of the panel, one or two
 * broadcast elements of rows. Invariant: every element is one chain of fused multiply-adds over k in order, as in
 * ref/gemm_tile.c. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 6
#define HALF (MX_PANEL / 2)
#define PREFETCH 4096   /* prefetch distance in a panel, bytes */

void MX_FAST(gemm_blocks)(mx_gemm_blocks *out) {
    *out = (mx_gemm_blocks){.tile_rows = TILE_ROWS, .tile_panels = 1, .row_block = 126, .k_block = 256,
                            .column_block = 512};
}

/* ---- the micro-kernel of a tile ---------------------------------------------------------------------------------- */

INLINE void step(__m256 c[TILE_ROWS][2], const float *a, const float *b, const int rows) {
    __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        __m256 x = _mm256_broadcast_ss(a + r * MX_CHUNK);
        c[r][0] = _mm256_fmadd_ps(x, b0, c[r][0]);
        c[r][1] = _mm256_fmadd_ps(x, b1, c[r][1]);
    }
}

INLINE void store(const mx_gemm_tile *t, __m256 c[TILE_ROWS][2], int half, const int rows) {
    if (t->bias) {
        __m256 b0 = _mm256_loadu_ps(t->bias + half), b1 = _mm256_loadu_ps(t->bias + half + 8);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            c[r][0] = _mm256_add_ps(c[r][0], b0);
            c[r][1] = _mm256_add_ps(c[r][1], b1);
        }
    }
    if (t->residual)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            c[r][0] = _mm256_add_ps(c[r][0], _mm256_loadu_ps(t->residual + r * t->ld_residual + half));
            c[r][1] = _mm256_add_ps(c[r][1], _mm256_loadu_ps(t->residual + r * t->ld_residual + half + 8));
        }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_ps(t->y + r * t->ldy + half, c[r][0]);
        _mm256_storeu_ps(t->y + r * t->ldy + half + 8, c[r][1]);
    }
}

/* Columns [half, half + HALF) of the panel. */
INLINE void half_tile(const mx_gemm_tile *t, int half, const char *prefetch, int64_t prefetch_stride, const int rows) {
    const float *a = t->a, *b = t->b + half;
    int64_t k = t->k, chunk = t->a_rows * MX_CHUNK;
    __m256 sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++)
            sum[r][h] = t->start ? _mm256_loadu_ps(t->start + r * MX_PANEL + half + h * 8) : _mm256_setzero_ps();
    for (; k >= MX_CHUNK; k -= MX_CHUNK, a += chunk, prefetch += prefetch_stride)
        for (int q = 0; q < MX_CHUNK; q += 4, b += 4 * MX_PANEL) {
            _mm_prefetch(prefetch + q * 32, _MM_HINT_T1);
            _mm_prefetch(prefetch + q * 32 + 64, _MM_HINT_T1);
            step(sum, a + q, b, rows);
            step(sum, a + q + 1, b + MX_PANEL, rows);
            step(sum, a + q + 2, b + 2 * MX_PANEL, rows);
            step(sum, a + q + 3, b + 3 * MX_PANEL, rows);
        }
    for (int64_t p = 0; p < k; p++)
        step(sum, a + p, b + p * MX_PANEL, rows);
    store(t, sum, half, rows);
}

void MX_FAST(gemm_tile)(const mx_gemm_tile *t) {
    const char *prefetch = t->prefetch ? t->prefetch : (const char *)t->b;   /* NULL: what is cached anyway */
    int64_t stride = t->prefetch ? t->prefetch_stride : 0;
    for (int h = 0; h < MX_PANEL; h += HALF, prefetch += 512)   /* each half prefetches its half of a kilobyte */
        switch (t->rows) {
#define ROWS(n)                                                                                                        \
    case n: half_tile(t, h, prefetch, stride, n); break;
            ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
        }
}

/* ---- few rows: skinny GEMM --------------------------------------------------------------------------------------- */

INLINE __m256 load_eight(const char *b, const int is_f16, const int eighth) {
    return is_f16 ? _mm256_cvtph_ps(_mm_loadu_si128((const void *)(b + eighth * 16)))
                  : _mm256_loadu_ps((const float *)(const void *)b + eighth * 8);
}

/* One step of k. Sixteen registers: with three rows their elements stay in registers, with six the columns do. */
INLINE void few_step(__m256 sum[TILE_ROWS][4], const float *a, const char *b, const int is_f16, const int rows,
                     const int eights) {
    if (eights == 4) {
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++) {
            __m256 x = load_eight(b, is_f16, e);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++)
                sum[r][e] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + r * MX_CHUNK), x, sum[r][e]);
        }
    } else {
        __m256 x0 = load_eight(b, is_f16, 0), x1 = load_eight(b, is_f16, 1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m256 v = _mm256_broadcast_ss(a + r * MX_CHUNK);
            sum[r][0] = _mm256_fmadd_ps(v, x0, sum[r][0]);
            sum[r][1] = _mm256_fmadd_ps(v, x1, sum[r][1]);
        }
    }
}

/* Of one step of k, PREFETCH bytes ahead. */
INLINE void prefetch_step(const char *b, const int is_f16) {
    _mm_prefetch(b + PREFETCH, _MM_HINT_T0);
    if (!is_f16)
        _mm_prefetch(b + PREFETCH + 64, _MM_HINT_T0);
}

/* `rows` rows by `eights` times eight columns over k of a panel; `more`: continues from the sums in y. */
INLINE void few(float *y, int64_t ld, const float *a, int64_t a_rows, const char *b, int64_t k, int more,
                const int prefetches, const int is_f16, const int rows, const int eights) {
    const int64_t bytes = is_f16 ? MX_PANEL * 2 : MX_PANEL * 4;
    __m256 sum[TILE_ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < eights; e++)
            sum[r][e] = more ? _mm256_loadu_ps(y + r * ld + e * 8) : _mm256_setzero_ps();
    for (; k >= MX_CHUNK; k -= MX_CHUNK, a += a_rows * MX_CHUNK, b += MX_CHUNK * bytes)
#pragma GCC unroll 2
        for (int64_t q = 0; q < MX_CHUNK; q++) {
            if (prefetches)
                prefetch_step(b + q * bytes, is_f16);
            few_step(sum, a + q, b + q * bytes, is_f16, rows, eights);
        }
    for (int64_t q = 0; q < k; q++)
        few_step(sum, a + q, b + q * bytes, is_f16, rows, eights);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < eights; e++)
            _mm256_storeu_ps(y + r * ld + e * 8, sum[r][e]);
}

/* A group of at most TILE_ROWS rows: three rows by a whole panel, six by half of one and then the other. */
INLINE void group(float *y, int64_t ld, const float *a, int64_t a_rows, int64_t rows, const char *b, int64_t k,
                  int more, const int prefetches, const int is_f16) {
    const size_t half = HALF * (is_f16 ? 2 : 4);
    switch (rows) {
#define WHOLE(n)                                                                                                       \
    case n: few(y, ld, a, a_rows, b, k, more, prefetches, is_f16, n, 4); break;
#define HALVES(n)                                                                                                      \
    case n:                                                                                                            \
        few(y, ld, a, a_rows, b, k, more, prefetches, is_f16, n, 2);                                                   \
        few(y + HALF, ld, a, a_rows, b + half, k, more, 0, is_f16, n, 2);                                              \
        break;
        WHOLE(1) WHOLE(2) WHOLE(3) HALVES(4) HALVES(5) HALVES(6)
#undef WHOLE
#undef HALVES
    }
}

/* A panel that is read several times is read in chunks of k, so that the prefetch of the next ones never stops; the
 * sums wait in y. */
INLINE void all_panels(float *y, int64_t ld, const float *a, int64_t rows, const char *b, int64_t k, int64_t n_panels,
                       const int is_f16) {
    const int64_t bytes = is_f16 ? MX_PANEL * 2 : MX_PANEL * 4, groups = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t at_once = rows <= 3 ? k : MX_CHUNK;
    for (int64_t panel = 0; panel < n_panels; panel++, y += MX_PANEL, b += k * bytes) {
        int64_t k0 = 0;
        do {
            int64_t n = k - k0 < at_once ? k - k0 : at_once;
            group(y, ld, a + k0 * rows, rows, rows / groups, b + k0 * bytes, n, k0 > 0, 1, is_f16);
            for (int64_t g = 1; g < groups; g++) {
                int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
                group(y + first * ld, ld, a + k0 * rows + first * MX_CHUNK, rows, count, b + k0 * bytes, n, k0 > 0, 0,
                      is_f16);
            }
            k0 += n;
        } while (k0 < k);
    }
}

void MX_FAST(gemm_rows)(float *y, int64_t ld, const float *a, int64_t rows, const void *panels, mxw_dtype dtype,
                        int64_t k, int64_t n_panels) {
    if (dtype == MXW_F16)
        all_panels(y, ld, a, rows, panels, k, n_panels, 1);
    else
        all_panels(y, ld, a, rows, panels, k, n_panels, 0);
}
