/* check_gemm.c - the kernels of compiled products (device/cpu/gemm/gemm.c) against float64, and bit for bit against
 * each other: every element is one chain of fused multiply-adds, whatever the tile. */
#include "kcheck.h"

#include <math.h>

static const int64_t depths[] = {0, 1, 2, 15, 16, 17, 33, 64, 100, 384};
static const double scales[][2] = {{1, 1}, {1e-20, 1e-20}, {1e15, 1e15}, {1e-40, 3}};

static int64_t chunked(int64_t k) { return (k + MX_CHUNK - 1) / MX_CHUNK * MX_CHUNK; }

static void test_gemm_blocks(void) {
    mx_gemm_blocks b = {0};
    K->gemm_blocks(&b);
    CHECK(b.tile_panels > 0 && b.tile_panels <= MX_TILE_PANELS);
    CHECK(b.tile_rows > 0 && b.row_block >= b.tile_rows && b.column_block >= MX_PANEL);
    CHECK(b.k_block > 0 && b.k_block % MX_CHUNK == 0);
    record("", 1);
}

/* Elements of a product of x [rows][k] and b [k][n] against float64. */
static void compare(const float *c, int64_t ldc, const float *x, const float *b, int64_t ldb, int64_t rows, int64_t k,
                    int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < k; p++) {
                double term = (double)x[r * k + p] * (double)b[p * ldb + j];
                sum += term;
                size += fabs(term);
            }
            near((double)c[r * ldc + j], sum, (double)(k + 2) * (EPS * size + 1e-45));
        }
}

typedef struct tile_data {
    float *a, *b, *c, *sums, *y;   /* c [rows][n]: the sums alone; y, rows ld apart: with all that comes after them */
    const float *bias, *residual;  /* rows of the residual ld apart */
    int64_t ld;
} tile_data;

/* The tile's rows times all panels, as many of them at a time as the implementation takes. With a stop, the chains are
 * broken off there and resumed; then once more from the finished sums, with all that comes after them. */
static void run_tile(mx_gemm_tile t, int64_t first, int64_t k, int64_t stop, int64_t panels, const tile_data *d) {
    mx_gemm_blocks blocks;
    K->gemm_blocks(&blocks);
    for (int64_t panel = 0; panel < panels; panel += t.panels) {
        int64_t column = panel * MX_PANEL;
        t.panels = MX_MIN(blocks.tile_panels, panels - panel);
        t.a = d->a;
        t.b = d->b + panel * k * MX_PANEL;
        t.b_stride = k * MX_PANEL;
        t.k = stop;
        t.start = t.bias = t.residual = NULL;
        t.y = d->sums;
        t.ldy = t.panels * MX_PANEL;
        K->gemm_tile(&t);
        t.a += stop * t.a_rows;
        t.b += stop * MX_PANEL;
        t.k = k - stop;
        t.start = t.y;
        if (stop < k)
            K->gemm_tile(&t);
        for (int64_t r = 0; r < t.rows; r++)
            memcpy(d->c + (first + r) * panels * MX_PANEL + column, t.y + r * t.ldy, (size_t)t.ldy * sizeof(float));
        t.k = 0;
        t.bias = d->bias ? d->bias + column : NULL;
        t.residual = d->residual ? d->residual + first * d->ld + column : NULL;
        t.ld_residual = d->ld;
        t.y = d->y + first * d->ld + column;
        t.ldy = d->ld;
        K->gemm_tile(&t);
    }
}

/* rows by k by panels, in tiles of the implementation's own height. */
static void one_tile(int64_t rows, int64_t k, int64_t stop, const double scale[2]) {
    mx_gemm_blocks blocks;
    K->gemm_blocks(&blocks);
    int64_t tile = blocks.tile_rows, panels = 1 + rows % 4, n = panels * MX_PANEL, ld = n + 3;
    float *x = floats(rows * k, scale[0], 4), *b = floats(k * n, scale[1], 12), *flat = floats(k * n, 0, 4);
    float *bias = floats(n, 1, 4), *residual = floats(rows * ld, 1, 4);
    tile_data d = {.a = take((size_t)(tile * chunked(k)) * sizeof(float), 4), .b = b, .ld = ld,
                   .c = take((size_t)(rows * n) * sizeof(float), 4), .y = floats(rows * ld, 0, 8),
                   .sums = take((size_t)(tile * MX_TILE_PANELS * MX_PANEL) * sizeof(float), 4),
                   .bias = rows % 3 ? bias : NULL, .residual = rows % 2 ? residual : NULL};
    for (int64_t first = 0; first < rows; first += tile) {
        mx_gemm_tile t = {.rows = MX_MIN(tile, rows - first), .a_rows = tile, .prefetch = rows % 2 ? x : NULL,
                     .prefetch_stride = 1024};
        for (int64_t r = 0; r < t.rows; r++)
            K->pack_row(d.a + r * MX_CHUNK, x + (first + r) * k, k, tile * MX_CHUNK);
        run_tile(t, first, k, stop, panels, &d);
    }
    for (int64_t i = 0; i < k * n; i++)
        flat[i / MX_PANEL % MX_MAX(k, 1) * n + i / MX_MAX(k * MX_PANEL, 1) * MX_PANEL + i % MX_PANEL] = b[i];
    compare(d.c, n, x, flat, n, rows, k, n);
    for (int64_t i = 0; i < rows * ld; i++) {
        int64_t r = i / ld, j = i % ld;
        float want = j < n ? d.c[r * n + j] : 0;
        if (j < n && d.bias)
            want += bias[j];
        if (j < n && d.residual)
            want += residual[i];
        near((double)d.y[i], (double)want, 0);
    }
    record(d.c, (size_t)(rows * n) * sizeof(float));
    record(d.y, (size_t)(rows * ld) * sizeof(float));
    NOTHING_OFF();
    done();
}

static void test_gemm_tile(void) {
    for (int64_t rows = 1; rows <= 17; rows++)
        for (size_t d = 0; d < MX_COUNT(depths); d++) {
            one_tile(rows, depths[d], depths[d], scales[(size_t)rows % MX_COUNT(scales)]);
            if (depths[d] > 16)
                one_tile(rows, depths[d], depths[d] / 2 / MX_CHUNK * MX_CHUNK, scales[0]);
        }
}

/* Panels [panel][k][MX_PANEL] of random weights in the given type, and the same as [k][n] floats. */
static void *make_panels(mxw_dtype dtype, int64_t k, int64_t n_panels, double scale, float **plain) {
    int64_t n = n_panels * MX_PANEL;
    char *panels = take((size_t)(k * n) * mx_dtype_bytes(dtype), 16);
    *plain = take((size_t)(k * n) * sizeof(float), 0);
    for (int64_t i = 0; i < k * n; i++) {
        int64_t panel = i / (k * MX_PANEL), p = i / MX_PANEL % k, j = panel * MX_PANEL + i % MX_PANEL;
        float value = (float)uniform(-scale, scale);
        uint16_t half = mx_f32_to_f16(value);
        if (dtype == MXW_F16)
            value = mx_f16_to_f32(half);
        memcpy(panels + i * (int64_t)mx_dtype_bytes(dtype), dtype == MXW_F16 ? (void *)&half : (void *)&value,
               mx_dtype_bytes(dtype));
        (*plain)[p * n + j] = value;
    }
    return panels;
}

static void one_rows(int64_t rows, int64_t k, int64_t n_panels, mxw_dtype dtype, double x_scale, double scale) {
    int64_t ld = n_panels * MX_PANEL + 3;
    float *b, *x = floats(rows * k, x_scale, 4), *a = take((size_t)(rows * chunked(k)) * sizeof(float), 4);
    void *panels = make_panels(dtype, k, n_panels, scale, &b);
    float *y = take((size_t)(rows * ld - 3) * sizeof(float), 8);
    for (int64_t i = 0; i < rows * ld - 3; i++)
        y[i] = 7;
    for (int64_t r = 0; r < rows; r++)
        K->pack_row(a + r * MX_CHUNK, x + r * k, k, rows * MX_CHUNK);
    K->gemm_rows(y, ld, a, rows, panels, dtype, k, n_panels);
    compare(y, ld, x, b, ld - 3, rows, k, ld - 3);
    for (int64_t r = 0; r < rows - 1; r++)
        for (int64_t j = ld - 3; j < ld; j++)
            near((double)y[r * ld + j], 7, 0);
    record(y, (size_t)(rows * ld - 3) * sizeof(float));
    NOTHING_OFF();
    done();
}

static void test_gemm_rows(void) {
    static const int64_t some[] = {1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 16, 17, 40};
    for (size_t r = 0; r < MX_COUNT(some); r++)
        for (size_t d = 0; d < MX_COUNT(depths); d++) {
            int64_t n_panels = 1 + (int64_t)((r + d) % 5);
            one_rows(some[r], depths[d], n_panels, MXW_F16, 1, d % 2 ? 1 : 1e-6);
            one_rows(some[r], depths[d], n_panels, MXW_F32, scales[d % 4][0], scales[d % 4][1]);
        }
}

/* One row, as gemm_rows has it. */
static void test_gemm_row(void) {
    for (size_t d = 0; d < MX_COUNT(depths); d++)
        for (int64_t n_panels = 0; n_panels < 11; n_panels++) {
            int64_t k = depths[d], n = n_panels * MX_PANEL;
            float *a = floats(k, 1, 4), *b = floats(n * k, 2, 8), *y = take((size_t)n * sizeof(float), 4);
            float *rows = take((size_t)n * sizeof(float), 4), *packed = floats(chunked(k), 0, 0);
            K->gemm_row(y, a, b, k, n_panels);
            K->pack_row(packed, a, k, MX_CHUNK);
            K->gemm_rows(rows, n, packed, 1, b, MXW_F32, k, n_panels);
            CHECK(memcmp(y, rows, (size_t)n * sizeof(float)) == 0);
            record(y, (size_t)n * sizeof(float));
            done();
        }
}

static void test_gemm_store(void) {
    static const int64_t widths[] = {1, 7, 16, 31, 32, 33, 96, 100};
    for (size_t w = 0; w < MX_COUNT(widths); w++)
        for (int with = 0; with < 4; with++)
            for (int64_t rows = 1; rows < 8; rows += 3) {
                int64_t n = widths[w], ldc = n + (int64_t)w % 2, ldy = n + 5, ldr = n + 2;
                float *c = floats(rows * ldc, 3, 4), *bias = floats(n, 2, 4), *residual = floats(rows * ldr, 5, 8);
                float *y = floats(rows * ldy, 0, 12);
                K->gemm_store(y, ldy, c, ldc, with & 1 ? bias : NULL, with & 2 ? residual : NULL, ldr, rows, n);
                for (int64_t i = 0; i < rows * ldy; i++) {
                    int64_t r = i / ldy, j = i % ldy;
                    float want = j < n ? c[r * ldc + j] : 0;
                    if (with & 1 && j < n)
                        want += bias[j];
                    if (with & 2 && j < n)
                        want += residual[r * ldr + j];
                    near((double)y[i], (double)want, 0);
                }
                record(y, (size_t)(rows * ldy) * sizeof(float));
                NOTHING_OFF();
                done();
            }
}

static void test_pack_row(void) {
    for (size_t d = 0; d < MX_COUNT(depths); d++)
        for (int64_t rows = 1; rows < 16; rows += 7) {
            int64_t k = depths[d], chunks = chunked(k) / MX_CHUNK;
            float *x = floats(k, 1, 4), *y = floats(chunks * rows * MX_CHUNK, 0, 4);
            K->pack_row(y + (rows - 1) * MX_CHUNK, x, k, rows * MX_CHUNK);
            for (int64_t i = 0; i < chunks * rows * MX_CHUNK; i++) {
                int64_t row = i / MX_CHUNK % rows, p = i / MX_CHUNK / rows * MX_CHUNK + i % MX_CHUNK;
                near((double)y[i], row == rows - 1 && p < k ? (double)x[p] : 0, 0);
            }
            record(y, (size_t)(chunks * rows * MX_CHUNK) * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

/* All halves there are, at an odd address too; NaN stays NaN. */
static void test_widen_f16(void) {
    for (int64_t n = 0; n < 70; n++)
        for (size_t odd = 0; odd < 2; odd++) {
            char *x = take((size_t)n * 2, 4 + odd);
            float *y = take((size_t)n * sizeof(float), 4);
            for (int64_t i = 0; i < n; i++)
                memcpy(x + i * 2, &(uint16_t){(uint16_t)word()}, 2);
            K->widen_f16(y, x, n);
            for (int64_t i = 0; i < n; i++) {
                uint16_t half;
                memcpy(&half, x + i * 2, 2);
                near((double)y[i], (double)mx_f16_to_f32(half), 0);
            }
            NOTHING_OFF();
            done();
        }
    uint16_t *all = take(65536 * 2, 0);
    float *y = take(65536 * sizeof(float), 0);
    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    K->widen_f16(y, all, 65536);
    for (int i = 0; i < 65536; i++)
        near((double)y[i], (double)mx_f16_to_f32((uint16_t)i), 0);
    record(y, 65536 * sizeof(float));
    NOTHING_OFF();
    done();
}

/* Every half, what lies around the middle between it and the next, and random bits; at an odd address, too. */
static void test_narrow_f16(void) {
    enum { N = 3 * 65536 + 1000 };
    for (size_t odd = 0; odd < 2; odd++)
        for (int64_t n = N; n > 0; n = n > 40 ? 40 : n - 1) {
            float *x = take((size_t)n * sizeof(float), 4);
            unsigned char *y = take((size_t)n * 2, 2 + odd);
            int wrong = 0;
            for (int64_t i = 0; i < n; i++) {
                uint32_t bits = word() << 1 ^ word();
                if (i < 3 * 65536) {
                    float half = mx_f16_to_f32((uint16_t)(i / 3));
                    memcpy(&bits, &half, sizeof(bits));
                    bits += (bits & 0x7fffffff) < 0x7f800000 ? 0xfff + (uint32_t)(i % 3) : 0;
                }
                memcpy(&x[i], &bits, sizeof(bits));
            }
            K->narrow_f16(y, x, n);
            for (int64_t i = 0; i < n; i++) {
                uint16_t half;
                memcpy(&half, y + i * 2, 2);
                wrong += half != mx_f32_to_f16(x[i]);
            }
            CHECK_EQ_INT(wrong, 0);
            record(y, (size_t)n * 2);
            NOTHING_OFF();
            done();
        }
}

static void each_pack(void (*pack)(void *, const void *, int64_t, int64_t, int64_t), size_t bytes) {
    for (size_t d = 0; d < MX_COUNT(depths); d++)
        for (int64_t columns = 1; columns <= MX_PANEL; columns += columns == 1 ? 6 : columns == 7 ? 25 : 1) {
            int64_t k = depths[d], ld = k + (int64_t)d % 3;
            unsigned char *x = take((size_t)(columns * ld) * bytes, 5), *y = take((size_t)(k * MX_PANEL) * bytes, 16);
            for (int64_t i = 0; i < columns * ld * (int64_t)bytes; i++)
                x[i] = (unsigned char)word();
            pack(y, x, ld, columns, k);
            int same = 1;
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < MX_PANEL; j++)
                    same &= memcmp(y + (p * MX_PANEL + j) * (int64_t)bytes,
                                   j < columns ? x + (j * ld + p) * (int64_t)bytes : (const unsigned char[4]){0},
                                   bytes) == 0;
            CHECK(same);
            record(y, (size_t)(k * MX_PANEL) * bytes);
            done();
        }
}

static void test_pack_panel_16(void) { each_pack(K->pack_panel_16, 2); }
static void test_pack_panel_32(void) { each_pack(K->pack_panel_32, 4); }

/* Every type of 32, at an odd address, against tensor/blocks.h. */
static void test_blocks_panel(void) {
    static const char *const types[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0"};
    for (int64_t n = 0; n < 5 * 3 * 4; n++) {
        const mx_block_type *type = mx_block_type_find(types[n % 5]);
        int64_t k = 32 * (1 + n / 5 % 3), columns = (int64_t[]){MX_PANEL, 1, 17, 31}[n / 15];
        size_t row_bytes = (size_t)((k / 32 + 1) * type->bytes);
        uint8_t *x = take((size_t)columns * row_bytes, 1);
        float *y = take((size_t)(k * MX_PANEL) * sizeof(float), 16), row[96];
        for (size_t i = 0; i < (size_t)columns * row_bytes; i++)
            x[i] = (uint8_t)word();
        for (int64_t b = 0; b < columns * (k / 32 + 1); b++) {   /* finite scales and minima */
            x[b * type->bytes + 1] &= 0xbf;
            x[b * type->bytes + 3] &= type->name[3] == '1' ? 0xbf : 0xff;
        }
        K->blocks_panel(y, x, type, row_bytes, columns, k);
        int same = 1;
        for (int64_t j = 0; j < MX_PANEL; j++) {
            memset(row, 0, sizeof(row));
            if (j < columns)
                mx_blocks_widen(type, x + (size_t)j * row_bytes, k, row);
            for (int64_t p = 0; p < k; p++)
                same &= memcmp(&y[p * MX_PANEL + j], &row[p], sizeof(float)) == 0;
        }
        CHECK(same);
        record(y, (size_t)(k * MX_PANEL) * sizeof(float));
        done();
    }
}

const kcheck_test kcheck_gemm[] = {
    {"gemm_blocks", test_gemm_blocks, 0},
    {"gemm_tile", test_gemm_tile, 1},
    {"gemm_rows", test_gemm_rows, 1},
    {"gemm_row", test_gemm_row, 1},
    {"gemm_store", test_gemm_store, 1},
    {"pack_row", test_pack_row, 1},
    {"widen_f16", test_widen_f16, 1},
    {"narrow_f16", test_narrow_f16, 1},
    {"blocks_panel", test_blocks_panel, 1},
    {"pack_panel_16", test_pack_panel_16, 1},
    {"pack_panel_32", test_pack_panel_32, 1},
    {NULL, NULL, 0},
};
