/* device/cpu/avx512/gemm.c - tiles of large products and few rows, for AVX-512.
 *
 * A tile is 14 rows by a panel: 28 accumulators, two registers of the panel, one element of a row spread at a time.
 * What holds: every element is one chain of fused multiply-adds over k in order, as in ref/tile.c. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 14
#define FEW_ROWS 8        /* of a group in gemm_rows */
#define AHEAD 1024        /* bytes of a panel that are asked for before they are used */

void MX_FAST(gemm_blocks)(mx_gemm_blocks *out) {
    *out = (mx_gemm_blocks){.tile_rows = TILE_ROWS, .row_block = 252, .k_block = 256, .column_block = 512};
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

INLINE void ask(const char *ahead) {
    _mm_prefetch(ahead, _MM_HINT_T1);
    _mm_prefetch(ahead + 64, _MM_HINT_T1);
    _mm_prefetch(ahead + 128, _MM_HINT_T1);
    _mm_prefetch(ahead + 192, _MM_HINT_T1);
}

INLINE void step(__m512 c[TILE_ROWS][2], const float *a, const float *b, const int rows) {
    __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + 16);
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        __m512 x = _mm512_set1_ps(a[r * MX_CHUNK]);
        c[r][0] = _mm512_fmadd_ps(x, b0, c[r][0]);
        c[r][1] = _mm512_fmadd_ps(x, b1, c[r][1]);
    }
}

INLINE void store(const mx_tile *t, __m512 c[TILE_ROWS][2], const int rows) {
    if (t->bias) {
        __m512 b0 = _mm512_loadu_ps(t->bias), b1 = _mm512_loadu_ps(t->bias + 16);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            c[r][0] = _mm512_add_ps(c[r][0], b0);
            c[r][1] = _mm512_add_ps(c[r][1], b1);
        }
    }
    if (t->residual)
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            c[r][0] = _mm512_add_ps(c[r][0], _mm512_loadu_ps(t->residual + r * t->ld_residual));
            c[r][1] = _mm512_add_ps(c[r][1], _mm512_loadu_ps(t->residual + r * t->ld_residual + 16));
        }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(t->y + r * t->ldy, c[r][0]);
        _mm512_storeu_ps(t->y + r * t->ldy + 16, c[r][1]);
    }
}

INLINE void tile(const mx_tile *t, const char *ahead, int64_t ahead_stride, const int rows) {
    const float *a = t->a, *b = t->b;
    int64_t k = t->k, chunk = t->a_rows * MX_CHUNK;
    __m512 sum[TILE_ROWS][2];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < 2; h++)
            sum[r][h] = t->start ? _mm512_loadu_ps(t->start + r * MX_PANEL + h * 16) : _mm512_setzero_ps();
    for (; k >= MX_CHUNK; k -= MX_CHUNK, a += chunk, ahead += ahead_stride)
        for (int q = 0; q < MX_CHUNK; q += 4, b += 4 * MX_PANEL) {
            ask(ahead + q * 64);
            step(sum, a + q, b, rows);
            step(sum, a + q + 1, b + MX_PANEL, rows);
            step(sum, a + q + 2, b + 2 * MX_PANEL, rows);
            step(sum, a + q + 3, b + 3 * MX_PANEL, rows);
        }
    for (int64_t p = 0; p < k; p++)
        step(sum, a + p, b + p * MX_PANEL, rows);
    store(t, sum, rows);
}

void MX_FAST(gemm_tile)(const mx_tile *t) {
    const char *ahead = t->ahead ? t->ahead : (const char *)t->b;   /* what is there anyway */
    int64_t stride = t->ahead ? t->ahead_stride : 0;
    switch (t->rows) {
#define ROWS(n)                                                                                                        \
    case n: tile(t, ahead, stride, n); break;
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13)
        ROWS(14)
#undef ROWS
    }
}

/* ---- few rows ---------------------------------------------------------------------------------------------------- */

INLINE __m512 load_half(const char *b, const int is_f16, const int half) {
    return is_f16 ? _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(b + half * 32)))
                  : _mm512_loadu_ps((const float *)(const void *)b + half * 16);
}

/* `rows` rows by `panels` panels that lie panel_bytes apart. */
INLINE void few(float *y, int64_t ld, const float *a, int64_t a_rows, const char *b, size_t panel_bytes, int64_t k,
                const int is_f16, const int rows, const int panels) {
    const size_t bytes = is_f16 ? MX_PANEL * 2 : MX_PANEL * 4;
    __m512 sum[FEW_ROWS][8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int h = 0; h < 2 * panels; h++)
            sum[r][h] = _mm512_setzero_ps();
    for (; k > 0; k -= MX_CHUNK, a += a_rows * MX_CHUNK) {
        int64_t n = k < MX_CHUNK ? k : MX_CHUNK;
        for (int64_t q = 0; q < n; q++, b += bytes) {
#pragma GCC unroll 8
            for (int h = 0; h < 2 * panels; h++) {
                const char *row = b + (size_t)(h / 2) * panel_bytes;
                if (h % 2 == 0)
                    _mm_prefetch(row + AHEAD, _MM_HINT_T0);
                __m512 x = load_half(row, is_f16, h % 2);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++)
                    sum[r][h] = _mm512_fmadd_ps(_mm512_set1_ps(a[r * MX_CHUNK + q]), x, sum[r][h]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int h = 0; h < 2 * panels; h++)
            _mm512_storeu_ps(y + r * ld + h * 16, sum[r][h]);
}

/* A group of at most FEW_ROWS rows; the fewer there are, the more panels side by side, so that chains overlap. */
INLINE int64_t group(float *y, int64_t ld, const float *a, int64_t a_rows, int64_t rows, const char *b, int64_t k,
                     int64_t n_panels, const int is_f16) {
    const size_t panel_bytes = (size_t)k * (is_f16 ? MX_PANEL * 2 : MX_PANEL * 4);
    switch (rows * 8 + (n_panels >= 4 && rows == 1 ? 4 : n_panels >= 2 && rows <= 6 ? 2 : 1)) {
#define FEW(n, p)                                                                                                      \
    case n * 8 + p: few(y, ld, a, a_rows, b, panel_bytes, k, is_f16, n, p); return p;
        FEW(1, 4) FEW(1, 2) FEW(1, 1) FEW(2, 2) FEW(2, 1) FEW(3, 2) FEW(3, 1) FEW(4, 2) FEW(4, 1) FEW(5, 2) FEW(5, 1)
        FEW(6, 2) FEW(6, 1) FEW(7, 1) FEW(8, 1)
#undef FEW
    }
    return 1;
}

INLINE void all_panels(float *y, int64_t ld, const float *a, int64_t rows, const char *b, int64_t k, int64_t n_panels,
                       const int is_f16) {
    const size_t panel_bytes = (size_t)k * (is_f16 ? MX_PANEL * 2 : MX_PANEL * 4);
    int64_t groups = (rows + FEW_ROWS - 1) / FEW_ROWS, done = 1;
    for (int64_t panel = 0; panel < n_panels; panel += done)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
            int64_t most = groups > 1 ? 1 : n_panels - panel;
            done = group(y + first * ld + panel * MX_PANEL, ld, a + first * MX_CHUNK, rows, count,
                         b + (size_t)panel * panel_bytes, k, most, is_f16);
        }
}

void MX_FAST(gemm_rows)(float *y, int64_t ld, const float *a, int64_t rows, const void *panels, mxw_dtype dtype,
                        int64_t k, int64_t n_panels) {
    if (dtype == MXW_F16)
        all_panels(y, ld, a, rows, panels, k, n_panels, 1);
    else
        all_panels(y, ld, a, rows, panels, k, n_panels, 0);
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

void MX_FAST(lay_row)(float *y, const float *x, int64_t k, int64_t stride) {
    for (; k >= MX_CHUNK; k -= MX_CHUNK, x += MX_CHUNK, y += stride)
        _mm512_storeu_ps(y, _mm512_loadu_ps(x));
    if (k > 0)
        _mm512_storeu_ps(y, _mm512_maskz_loadu_ps((__mmask16)((1u << k) - 1), x));
}

void MX_FAST(widen_f16)(float *y, const void *x, int64_t n) {
    const char *from = x;
    for (; n >= 16; n -= 16, from += 32, y += 16)
        _mm512_storeu_ps(y, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)));
    if (n > 0) {
        __mmask16 mask = (__mmask16)((1u << n) - 1);
        _mm512_mask_storeu_ps(y, mask, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from)));
    }
}
