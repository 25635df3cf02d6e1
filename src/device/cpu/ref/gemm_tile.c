/* device/cpu/ref/gemm_tile.c - the GEMM micro-kernels of compiled calls as plain loops, and packing.
 * Invariant: each element of a result is one chain of fused multiply-adds over k in order, from 0. */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>

#define BLOCK 32  /* elements of a block */
#define GROUP 8   /* rows that share a widened row of a panel */

void MX_REF(gemm_blocks)(mx_gemm_blocks *out) {
    *out = (mx_gemm_blocks){.tile_rows = 8, .tile_panels = 1, .row_block = 128, .k_block = 256, .column_block = 512};
}

static void add_products(float sum[MX_PANEL], float a, const float *b) {
    for (int64_t j = 0; j < MX_PANEL; j++)
        sum[j] = fmaf(a, b[j], sum[j]);
}

static float at(const float *a, int64_t a_rows, int64_t row, int64_t p) {
    return a[(p / MX_CHUNK * a_rows + row) * MX_CHUNK + p % MX_CHUNK];
}

static void store_row(float *restrict y, const float *restrict c, const float *restrict bias,
                      const float *restrict residual, int64_t n) {
    if (bias && residual)
        for (int64_t j = 0; j < n; j++)
            y[j] = c[j] + bias[j] + residual[j];
    else if (bias)
        for (int64_t j = 0; j < n; j++)
            y[j] = c[j] + bias[j];
    else if (residual)
        for (int64_t j = 0; j < n; j++)
            y[j] = c[j] + residual[j];
    else
        memcpy(y, c, (size_t)n * sizeof(float));
}

void MX_REF(gemm_tile)(const mx_gemm_tile *t) {
    int64_t columns = t->panels * MX_PANEL;
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t panel = 0; panel < t->panels; panel++) {
            int64_t at_column = panel * MX_PANEL;
            const float *residual = t->residual ? t->residual + r * t->ld_residual + at_column : NULL;
            float sum[MX_PANEL] = {0};
            if (t->start)
                memcpy(sum, t->start + r * columns + at_column, sizeof(sum));
            for (int64_t p = 0; p < t->k; p++)
                add_products(sum, at(t->a, t->a_rows, r, p), t->b + panel * t->b_stride + p * MX_PANEL);
            store_row(t->y + r * t->ldy + at_column, sum, t->bias ? t->bias + at_column : NULL, residual, MX_PANEL);
        }
}

static void widen(float *y, const void *x, mxw_dtype dtype, int64_t n) {
    if (dtype == MXW_F16)
        MX_REF(widen_f16)(y, x, n);
    else
        memcpy(y, x, (size_t)n * sizeof(float));
}

void MX_REF(gemm_rows)(float *y, int64_t ld, const float *a, int64_t rows, const void *panels, mxw_dtype dtype,
                       int64_t k, int64_t n_panels) {
    const char *b = panels;
    size_t bytes = mx_dtype_bytes(dtype) * MX_PANEL;
    for (int64_t panel = 0; panel < n_panels; panel++, b += (size_t)k * bytes)
        for (int64_t first = 0; first < rows; first += GROUP) {
            int64_t group = MX_MIN(GROUP, rows - first);
            float sum[GROUP][MX_PANEL] = {{0}}, wide[MX_PANEL];
            for (int64_t p = 0; p < k; p++) {
                widen(wide, b + (size_t)p * bytes, dtype, MX_PANEL);
                for (int64_t r = 0; r < group; r++)
                    add_products(sum[r], at(a, rows, first + r, p), wide);
            }
            for (int64_t r = 0; r < group; r++)
                memcpy(y + (first + r) * ld + panel * MX_PANEL, sum[r], sizeof(sum[r]));
        }
}

/* ---- epilogue ---------------------------------------------------------------------------------------------------- */

void MX_REF(gemm_store)(float *y, int64_t ldy, const float *c, int64_t ldc, const float *bias, const float *residual,
                        int64_t ldr, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++) {
        const float *from = residual ? residual + r * ldr : NULL;
        if (columns == MX_PANEL)
            store_row(y + r * ldy, c + r * ldc, bias, from, MX_PANEL);
        else
            store_row(y + r * ldy, c + r * ldc, bias, from, columns);
    }
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

void MX_REF(pack_row)(float *y, const float *x, int64_t k, int64_t stride) {
    for (; k >= MX_CHUNK; k -= MX_CHUNK, x += MX_CHUNK, y += stride)
        memcpy(y, x, MX_CHUNK * sizeof(float));
    if (k > 0) {
        memcpy(y, x, (size_t)k * sizeof(float));
        memset(y + k, 0, (size_t)(MX_CHUNK - k) * sizeof(float));
    }
}

void MX_REF(narrow_f16)(void *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = mx_f32_to_f16(x[i]);
        memcpy((char *)y + 2 * i, &half, 2);
    }
}

void MX_REF(widen_f16)(float *y, const void *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)x + i * 2, 2);
        y[i] = mx_f16_to_f32(half);
    }
}

void MX_REF(blocks_panel)(float *y, const void *x, const mx_block_type *type, size_t row_bytes, int64_t columns,
                          int64_t k) {
    float row[BLOCK];
    memset(y, 0, (size_t)(k * MX_PANEL) * sizeof(*y));
    for (int64_t j = 0; j < columns; j++)
        for (int64_t p = 0; p < k; p += BLOCK) {
            mx_blocks_widen(type, (const char *)x + (size_t)j * row_bytes + p / BLOCK * type->bytes, BLOCK, row);
            for (int i = 0; i < BLOCK; i++)
                y[(p + i) * MX_PANEL + j] = row[i];
        }
}

static void pack_panel(char *y, const char *x, int64_t ld, int64_t columns, int64_t k, size_t bytes) {
    for (int64_t p = 0; p < k; p++, y += MX_PANEL * bytes) {
        for (int64_t j = 0; j < columns; j++)
            memcpy(y + (size_t)j * bytes, x + (size_t)(j * ld + p) * bytes, bytes);
        memset(y + (size_t)columns * bytes, 0, (size_t)(MX_PANEL - columns) * bytes);
    }
}

void MX_REF(pack_panel_16)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    pack_panel(y, x, ld, columns, k, 2);
}

void MX_REF(pack_panel_32)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    pack_panel(y, x, ld, columns, k, 4);
}
