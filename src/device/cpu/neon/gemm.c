/* device/cpu/neon/gemm.c - GEMM micro-kernels, for 64-bit ARM: tiles of many rows, and few rows.
 *
 * A tile is 8 rows by a panel, eight columns at a time: 16 accumulators, two registers of the panel, four elements of
 * each of the eight rows.
 * Invariant: every element is one chain of fused multiply-adds over k in order, as in ref/gemm_tile.c. */
#include "device/cpu/kernels.h"

#include <arm_neon.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 8
#define STRIP 8        /* columns of a tile at a time */
#define PREFETCH 512   /* prefetch distance in a panel, bytes */

void MX_FAST(gemm_blocks)(mx_gemm_blocks *out) {
    *out = (mx_gemm_blocks){.tile_rows = TILE_ROWS, .tile_panels = 1, .row_block = 128, .k_block = 256,
                            .column_block = 512};
}

/* ---- the micro-kernel of a tile ---------------------------------------------------------------------------------- */

INLINE void store(const mx_gemm_tile *t, float32x4_t c[TILE_ROWS][2], int64_t column, const int rows) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            int64_t at = column + h * 4;
            if (t->bias)
                c[r][h] = vaddq_f32(c[r][h], vld1q_f32(t->bias + at));
            if (t->residual)
                c[r][h] = vaddq_f32(c[r][h], vld1q_f32(t->residual + r * t->ld_residual + at));
            vst1q_f32(t->y + r * t->ldy + at, c[r][h]);
        }
}

/* One step of k: lane `lane` of each row's four elements. */
#define STEP(lane)                                                                                                     \
    do {                                                                                                               \
        float32x4_t b0 = vld1q_f32(b + (lane) * MX_PANEL), b1 = vld1q_f32(b + (lane) * MX_PANEL + 4);                  \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {                                                       \
            sum[r][0] = vfmaq_laneq_f32(sum[r][0], b0, x[r], lane);                                                    \
            sum[r][1] = vfmaq_laneq_f32(sum[r][1], b1, x[r], lane);                                                    \
        }                                                                                                              \
    } while (0)

/* Columns [column, column + STRIP) of the panel. */
INLINE void strip(const mx_gemm_tile *t, int64_t column, const char *prefetch, const int rows) {
    const float *a = t->a, *b = t->b + column;
    int64_t k = t->k, chunk = t->a_rows * MX_CHUNK;
    float32x4_t sum[TILE_ROWS][2], x[TILE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            sum[r][h] = t->start ? vld1q_f32(t->start + r * MX_PANEL + column + h * 4) : vdupq_n_f32(0);
    for (; k >= MX_CHUNK; k -= MX_CHUNK, a += chunk, prefetch += t->prefetch_stride)
        for (int q = 0; q < MX_CHUNK; q += 4, b += 4 * MX_PANEL) {
            if (t->prefetch)
                __builtin_prefetch(prefetch + q * 16, 0, 2);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                x[r] = vld1q_f32(a + r * MX_CHUNK + q);
            STEP(0);
            STEP(1);
            STEP(2);
            STEP(3);
        }
    for (int64_t p = 0; p < k; p++, b += MX_PANEL) {
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            x[r] = vld1q_dup_f32(a + r * MX_CHUNK + p);
        STEP(0);
    }
    store(t, sum, column, rows);
}

void MX_FAST(gemm_tile)(const mx_gemm_tile *t) {
    const char *prefetch = t->prefetch;
    for (int64_t column = 0; column < MX_PANEL; column += STRIP) {
        switch (t->rows) {
#define ROWS(n)                                                                                                        \
    case n: strip(t, column, prefetch, n); break;
            ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
#undef ROWS
        }
        if (prefetch)
            prefetch += 256;   /* each strip prefetches its quarter of a kilobyte */
    }
}

/* ---- few rows: skinny GEMM --------------------------------------------------------------------------------------- */

INLINE float32x4_t load_four(const char *b, const int is_f16, const int quad) {
    if (!is_f16)
        return vld1q_f32((const float *)(const void *)b + quad * 4);
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)b + quad * 4)));
}

/* `rows` rows by `quads` times four columns, from a panel of k rows. */
INLINE void few(float *y, int64_t ld, const float *a, int64_t a_rows, const char *b, int64_t k, const int is_f16,
                const int rows, const int quads) {
    const size_t bytes = is_f16 ? MX_PANEL * 2 : MX_PANEL * 4;
    float32x4_t sum[TILE_ROWS][8];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int q = 0; q < quads; q++)
            sum[r][q] = vdupq_n_f32(0);
    for (; k > 0; k -= MX_CHUNK, a += a_rows * MX_CHUNK) {
        int64_t n = k < MX_CHUNK ? k : MX_CHUNK;
        for (int64_t p = 0; p < n; p++, b += bytes) {
            __builtin_prefetch(b + PREFETCH);
#pragma GCC unroll 8
            for (int q = 0; q < quads; q++) {
                float32x4_t x = load_four(b, is_f16, q);
#pragma GCC unroll 8
                for (int r = 0; r < rows; r++)
                    sum[r][q] = vfmaq_n_f32(sum[r][q], x, a[r * MX_CHUNK + p]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int q = 0; q < quads; q++)
            vst1q_f32(y + r * ld + q * 4, sum[r][q]);
}

/* A group of at most TILE_ROWS rows: 16 accumulators, as many columns at a time as that leaves. */
INLINE void group(float *y, int64_t ld, const float *a, int64_t a_rows, int64_t rows, const char *b, int64_t k,
                  const int is_f16) {
    const int64_t bytes = is_f16 ? 2 : 4;
    for (int64_t column = 0; column < MX_PANEL;) {
        const char *from = b + column * bytes;
        switch (rows) {
#define FEW(n, quads)                                                                                                  \
    case n:                                                                                                            \
        few(y + column, ld, a, a_rows, from, k, is_f16, n, quads);                                                     \
        column += (quads) * 4;                                                                                         \
        break;
            FEW(1, 8) FEW(2, 8) FEW(3, 4) FEW(4, 4) FEW(5, 2) FEW(6, 2) FEW(7, 2) FEW(8, 2)
#undef FEW
        default: return;
        }
    }
}

INLINE void all_panels(float *y, int64_t ld, const float *a, int64_t rows, const char *b, int64_t k, int64_t n_panels,
                       const int is_f16) {
    const size_t panel_bytes = (size_t)k * (is_f16 ? MX_PANEL * 2 : MX_PANEL * 4);
    int64_t groups = (rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t panel = 0; panel < n_panels; panel++, b += panel_bytes)
        for (int64_t g = 0; g < groups; g++) {
            int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
            group(y + first * ld + panel * MX_PANEL, ld, a + first * MX_CHUNK, rows, count, b, k, is_f16);
        }
}

void MX_FAST(gemm_rows)(float *y, int64_t ld, const float *a, int64_t rows, const void *panels, mxw_dtype dtype,
                        int64_t k, int64_t n_panels) {
    if (dtype == MXW_F16)
        all_panels(y, ld, a, rows, panels, k, n_panels, 1);
    else
        all_panels(y, ld, a, rows, panels, k, n_panels, 0);
}
