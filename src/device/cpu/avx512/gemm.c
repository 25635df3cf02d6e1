/* device/cpu/avx512/gemm.c - GEMM micro-kernels, for AVX-512: tiles of many rows, and few rows.
 *
 * A tile is 6 rows by two panels: 24 accumulators, four registers of the panels, one broadcast element of a row at a
 * time. (A tile of 14 rows by one panel has as many multiply-adds to a load of the panel, but twice the broadcasts, and
 * reaches 93 % of the processor's peak where this one reaches 99 %.) Invariant: every element is one chain of fused
 * multiply-adds over k in order, as in ref/gemm_tile.c. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 6
#define FEW_ROWS 14       /* of a group in gemm_rows */
#define PREFETCH 4096   /* prefetch distance in a panel, bytes */

void MX_FAST(gemm_blocks)(mx_gemm_blocks *out) {
    *out = (mx_gemm_blocks){.tile_rows = TILE_ROWS, .tile_panels = 2, .row_block = 252, .k_block = 512,
                            .column_block = 512};
}

/* ---- the micro-kernel of a tile ---------------------------------------------------------------------------------- */

INLINE void step(__m512 c[TILE_ROWS][4], const float *a, const float *b, const float *b2, const int rows,
                 const int panels) {
    __asm__ volatile("" ::: "memory");   /* keeps the loads of the next step out of this one's registers */
    __m512 x[4] = {_mm512_loadu_ps(b), _mm512_loadu_ps(b + 16)};
    if (panels == 2) {
        x[2] = _mm512_loadu_ps(b2);
        x[3] = _mm512_loadu_ps(b2 + 16);
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        __m512 v = _mm512_set1_ps(a[r * MX_CHUNK]);
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++)
            c[r][h] = _mm512_fmadd_ps(v, x[h], c[r][h]);
    }
}

INLINE void store(const mx_gemm_tile *t, __m512 c[TILE_ROWS][4], const int rows, const int panels) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++) {
            if (t->bias)
                c[r][h] = _mm512_add_ps(c[r][h], _mm512_loadu_ps(t->bias + h * 16));
            if (t->residual)
                c[r][h] = _mm512_add_ps(c[r][h], _mm512_loadu_ps(t->residual + r * t->ld_residual + h * 16));
            _mm512_storeu_ps(t->y + r * t->ldy + h * 16, c[r][h]);
        }
}

INLINE void tile(const mx_gemm_tile *t, const char *prefetch, int64_t prefetch_stride, const int rows,
                 const int panels) {
    const float *a = t->a, *b = t->b, *b2 = t->b + t->b_stride;
    int64_t k = t->k, chunk = t->a_rows * MX_CHUNK;
    __m512 sum[TILE_ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int h = 0; h < 2 * panels; h++)
            sum[r][h] = t->start ? _mm512_loadu_ps(t->start + r * panels * MX_PANEL + h * 16) : _mm512_setzero_ps();
    for (; k >= MX_CHUNK; k -= MX_CHUNK, a += chunk, prefetch += prefetch_stride)
        for (int q = 0; q < MX_CHUNK; q += 4, b += 4 * MX_PANEL, b2 += 4 * MX_PANEL)
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) {
                _mm_prefetch(prefetch + (q + i) * 64, _MM_HINT_T1);
                step(sum, a + q + i, b + i * MX_PANEL, b2 + i * MX_PANEL, rows, panels);
            }
    for (int64_t p = 0; p < k; p++)
        step(sum, a + p, b + p * MX_PANEL, b2 + p * MX_PANEL, rows, panels);
    store(t, sum, rows, panels);
}

void MX_FAST(gemm_tile)(const mx_gemm_tile *t) {
    const char *prefetch = t->prefetch ? t->prefetch : (const char *)t->b;   /* NULL: what is cached anyway */
    int64_t stride = t->prefetch ? t->prefetch_stride : 0;
    switch (t->rows * 4 + t->panels) {
#define ROWS(n)                                                                                                        \
    case n * 4 + 1: tile(t, prefetch, stride, n, 1); break;                                                            \
    case n * 4 + 2: tile(t, prefetch, stride, n, 2); break;
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#undef ROWS
    }
}

/* ---- few rows: skinny GEMM --------------------------------------------------------------------------------------- */

INLINE __m512 load_half(const char *b, const int is_f16, const int half) {
    return is_f16 ? _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(b + half * 32)))
                  : _mm512_loadu_ps((const float *)(const void *)b + half * 16);
}

/* One step of k: `rows` rows by `panels` panels, panel_bytes from one to the next. With many rows the columns stay
 * in registers, with few their elements do. */
INLINE void few_step(__m512 sum[FEW_ROWS][8], const float *a, const char *b, size_t panel_bytes, const int is_f16,
                     const int rows, const int panels) {
    if (panels == 1) {
        _mm_prefetch(b + PREFETCH, _MM_HINT_T0);
        __m512 x0 = load_half(b, is_f16, 0), x1 = load_half(b, is_f16, 1);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            __m512 v = _mm512_set1_ps(a[r * MX_CHUNK]);
            sum[r][0] = _mm512_fmadd_ps(v, x0, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(v, x1, sum[r][1]);
        }
        return;
    }
#pragma GCC unroll 8
    for (int h = 0; h < 2 * panels; h++) {
        const char *row = b + (size_t)(h / 2) * panel_bytes;
        if (h % 2 == 0)
            _mm_prefetch(row + PREFETCH, _MM_HINT_T0);
        __m512 x = load_half(row, is_f16, h % 2);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++)
            sum[r][h] = _mm512_fmadd_ps(_mm512_set1_ps(a[r * MX_CHUNK]), x, sum[r][h]);
    }
}

INLINE void few(float *y, int64_t ld, const float *a, int64_t a_rows, const char *b, size_t panel_bytes, int64_t k,
                const int is_f16, const int rows, const int panels) {
    const size_t bytes = is_f16 ? MX_PANEL * 2 : MX_PANEL * 4;
    __m512 sum[FEW_ROWS][8];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int h = 0; h < 2 * panels; h++)
            sum[r][h] = _mm512_setzero_ps();
    for (; k > 0; k -= MX_CHUNK, a += a_rows * MX_CHUNK) {
        int64_t n = k < MX_CHUNK ? k : MX_CHUNK;
        for (int64_t q = 0; q < n; q++, b += bytes)
            few_step(sum, a + q, b, panel_bytes, is_f16, rows, panels);
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int h = 0; h < 2 * panels; h++)
            _mm512_storeu_ps(y + r * ld + h * 16, sum[r][h]);
}

/* A group of at most FEW_ROWS rows; the fewer there are, the more panels side by side, so that chains overlap. Returns
 * the panels done. */
INLINE int64_t group(float *y, int64_t ld, const float *a, int64_t a_rows, int64_t rows, const char *b, int64_t k,
                     int64_t n_panels, const int is_f16) {
    const size_t panel_bytes = (size_t)k * (is_f16 ? MX_PANEL * 2 : MX_PANEL * 4);
    switch (rows * 8 + (n_panels >= 4 && rows == 1 ? 4 : n_panels >= 2 && rows <= 6 ? 2 : 1)) {
#define FEW(n, p)                                                                                                      \
    case n * 8 + p: few(y, ld, a, a_rows, b, panel_bytes, k, is_f16, n, p); return p;
        FEW(1, 4) FEW(1, 2) FEW(1, 1) FEW(2, 2) FEW(2, 1) FEW(3, 2) FEW(3, 1) FEW(4, 2) FEW(4, 1) FEW(5, 2) FEW(5, 1)
        FEW(6, 2) FEW(6, 1) FEW(7, 1) FEW(8, 1) FEW(9, 1) FEW(10, 1) FEW(11, 1) FEW(12, 1) FEW(13, 1) FEW(14, 1)
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

/* ---- packing ----------------------------------------------------------------------------------------------------- */

void MX_FAST(pack_row)(float *y, const float *x, int64_t k, int64_t stride) {
    for (; k >= MX_CHUNK; k -= MX_CHUNK, x += MX_CHUNK, y += stride)
        _mm512_storeu_ps(y, _mm512_loadu_ps(x));
    if (k > 0)
        _mm512_storeu_ps(y, _mm512_maskz_loadu_ps((__mmask16)((1u << k) - 1), x));
}
