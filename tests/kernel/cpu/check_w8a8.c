/* check_w8a8.c - the kernels of products in 8 bits (device/cpu/gemm/w8a8.c): numbers and scales against f64, sums
 * against plain ones in 64 bits, the largest that 8 bits can make among them, and bit for bit against each other. */
#include "kcheck.h"

#include <float.h>
#include <math.h>

#include "device/cpu/gemm/w8a8.h"

static const int64_t depths[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 64, 100, 257, 384, 1500};

static mx_w8a8_blocks blocks(void) {
    mx_w8a8_blocks b = {0};
    K->w8a8_blocks(&b);
    return b;
}

static void test_w8a8_blocks(void) {
    mx_w8a8_blocks b = blocks();
    CHECK(b.tile_rows > 0 && b.tile_panels > 0 && b.tile_panels <= MX_TILE_PANELS && b.row_block >= b.tile_rows);
    CHECK((b.bytes == 1 || b.bytes == 2) && (b.offset == 0 || b.offset == 128) && b.adjacent > 0);
    record("", 1);
}

/* Set up and given back, again and again; what that does shows in w8a8_tile. */
static void test_w8a8_begin(void) {
    for (int64_t rows = 1; rows <= blocks().row_block; rows++) {
        K->w8a8_begin(rows);
        K->w8a8_end();
    }
    record("", 1);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* Where number i of a row is whose lines are `stride` bytes apart. */
static int64_t place_of(int64_t stride, int64_t i) {
    mx_w8a8_blocks b = blocks();
    return i / (4 * b.adjacent) * stride + i % (4 * b.adjacent) * b.bytes;
}

static int64_t line_bytes(void) { return 4 * blocks().adjacent * blocks().bytes; }
static int64_t lines_of(int64_t k) { return (k + 4 * blocks().adjacent - 1) / (4 * blocks().adjacent); }

static int32_t number_at(const void *row, int64_t stride, int64_t i) {
    mx_w8a8_blocks b = blocks();
    const char *at = (const char *)row + place_of(stride, i);
    int16_t wide;
    memcpy(&wide, at, sizeof(wide));
    return (b.bytes == 2 ? wide : b.offset ? *(const uint8_t *)at : *(const int8_t *)at) - b.offset;
}

static void put_number(void *row, int64_t stride, int64_t i, int32_t q) {
    mx_w8a8_blocks b = blocks();
    char *at = (char *)row + place_of(stride, i);
    int16_t wide = (int16_t)q;
    if (b.bytes == 2)
        memcpy(at, &wide, sizeof(wide));
    else
        *(uint8_t *)at = (uint8_t)(q + b.offset);
}

/* signs: 1 or -1: all numbers have that one. */
static void one_row(int64_t k, double size, int signs) {
    int64_t stride = line_bytes();
    float *x = floats(k, size, 4), *scale = take(sizeof(float), 4);
    int32_t *shift = take(sizeof(int32_t), 4);
    void *y = take((size_t)(lines_of(k) * stride), 2);
    double high = 0, low = 0;
    for (int64_t i = 0; i < k; i++) {
        x[i] = signs > 0 ? fabsf(x[i]) : signs < 0 ? -fabsf(x[i]) : x[i];
        high = fmax(high, (double)x[i]);
        low = fmin(low, (double)x[i]);
    }
    int is_nothing = high - low < 255 / (double)FLT_MAX;   /* the inverse of its scale would not be finite */
    K->w8a8_row(y, stride, scale, shift, x, k);
    for (int64_t i = 0; i < k && is_nothing; i++)
        x[i] = 0;
    high = is_nothing ? 0 : high;
    low = is_nothing ? 0 : low;
    for (int64_t i = 0; i < k; i++) {
        int32_t p = number_at(y, stride, i);
        CHECK(p >= -128 && p <= 127);
        near((p + *shift) * (double)*scale, (double)x[i], 0.50006 * (double)*scale);
        record(&p, sizeof(p));
    }
    near((double)*scale * 255, high - low, 4 * EPS * (high - low));
    CHECK(high == low ? *shift == 0 : *shift == 128 + (int32_t)lrint(low / (double)*scale) ||
                                      fabs(low / (double)*scale - floor(low / (double)*scale) - 0.5) < 1e-4);
    record(scale, sizeof(*scale));
    record(shift, sizeof(*shift));
    NOTHING_OFF();
    done();
}

/* Ties go to the even number; what is not finite shows in the scale, what is next to nothing becomes nothing. */
static void odd_rows(void) {
    static const float x[6] = {255, 0.5f, 1.5f, 2.5f, 0, 254.5f};
    static const int32_t want[6] = {255, 0, 2, 2, 0, 254};
    float scale = 0;
    int32_t shift = 0;
    char y[64];
    int64_t stride = line_bytes();
    for (int sign = -1; sign <= 1; sign += 2) {
        float signed_x[6];
        for (int64_t i = 0; i < 6; i++)
            signed_x[i] = (float)sign * x[i];
        K->w8a8_row(y, stride, &scale, &shift, signed_x, 6);
        CHECK(scale == 1);
        CHECK_EQ_INT(shift, sign > 0 ? 128 : -127);
        for (int64_t i = 0; i < 6; i++)
            CHECK_EQ_INT(number_at(y, stride, i) + shift, sign * want[i]);
    }
    for (int kind = 0; kind < 3; kind++) {
        float odd[5] = {1, -2, kind == 0 ? NAN : kind == 1 ? -INFINITY : 1, 3, 4};
        for (int64_t i = 0; i < 5 && kind == 2; i++)
            odd[i] *= 1e-44f;
        K->w8a8_row(y, stride, &scale, &shift, odd, 5);
        CHECK(kind == 2 ? scale == 0 : !isfinite(scale));
        CHECK_EQ_INT(shift, 0);
        for (int64_t i = 0; i < 5; i++)
            CHECK_EQ_INT(number_at(y, stride, i), 0);
    }
}

static void test_w8a8_row(void) {
    static const double sizes[] = {0, 2e-36, 1e-6, 1, 1e30, 1.7e38};   /* of 2e-36 the scale is subnormal */
    for (size_t d = 0; d < MX_COUNT(depths); d++)
        for (size_t i = 0; i < MX_COUNT(sizes); i++)
            for (int signs = -1; signs <= 1; signs++)
                one_row(depths[d], sizes[i], signs);
    odd_rows();
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

typedef struct product {
    int64_t rows, k, panels;
    int8_t *q, *w;   /* [rows][k], [panels * MX_PANEL][k] */
    void *a;
    int8_t *b;
    int32_t *sums;
} product;

/* Numbers at random, or as large as they can be, with signs that make sums as large as they can be, with the shifts of
 * their rows or without. */
enum { SHIFTED = 1, ALTERNATING = 2 };

static int8_t number_of_row(int64_t r, int64_t i, int extreme) {
    return (int8_t)(extreme == SHIFTED       ? (r % 2 ? -128 : 127)
                    : extreme == ALTERNATING ? (i % 2 ? 127 : -128)
                                             : (int32_t)(word() % 256) - 128);
}

static int8_t number_of_column(int64_t j, int64_t i, int extreme) {
    return (int8_t)(extreme == SHIFTED       ? -128
                    : extreme == ALTERNATING ? ((i + j) % 2 ? 127 : -128)
                                             : (int32_t)(word() % 256) - 128);
}

static void fill(product *p, int extreme) {
    int64_t quads = (p->k + 3) / 4, n = p->panels * MX_PANEL, tile = blocks().tile_rows;
    int64_t line = line_bytes(), lines = lines_of(p->k);
    p->q = take((size_t)(p->rows * p->k), 1);
    p->w = take((size_t)(n * p->k), 1);
    p->a = take((size_t)(lines * tile * line), 0);
    p->b = take((size_t)(n * quads * 4), 0);
    p->sums = take((size_t)n * sizeof(int32_t), 0);
    memset(p->b, 0, (size_t)(n * quads * 4));
    memset(p->sums, 0, (size_t)n * sizeof(int32_t));
    for (int64_t r = 0; r < tile; r++)
        for (int64_t i = 0; i < lines * 4 * blocks().adjacent; i++)
            put_number((char *)p->a + r * line, tile * line, i, 0);
    for (int64_t i = 0; i < p->rows * p->k; i++) {
        p->q[i] = number_of_row(i / p->k, i % p->k, extreme);
        put_number((char *)p->a + i / p->k * line, tile * line, i % p->k, p->q[i]);
    }
    for (int64_t i = 0; i < n * p->k; i++) {
        int64_t j = i / p->k, at = i % p->k;
        p->w[i] = number_of_column(j, at, extreme);
        p->b[((j / MX_PANEL * quads + at / 4) * MX_PANEL + j % MX_PANEL) * 4 + at % 4] = p->w[i];
        p->sums[j] += p->w[i];
    }
}

static float want_of(const product *p, const mx_w8a8_tile *t, int64_t r, int64_t j) {
    int64_t sum = 0;
    for (int64_t i = 0; i < p->k; i++)
        sum += (int64_t)(p->q[r * p->k + i] + t->row_shifts[r]) * p->w[j * p->k + i];
    float y = (float)sum * (t->scales[j] * t->row_scales[r]);
    y = t->bias ? y + t->bias[j] : y;
    return t->residual ? y + t->residual[r * t->ld_residual + j] : y;
}

static void one_tile(int64_t rows, int64_t k, int64_t panels, int with, int extreme) {
    product p = {.rows = rows, .k = k, .panels = panels};
    int64_t n = panels * MX_PANEL, ld = n + 5;
    int32_t *shifts = take((size_t)rows * sizeof(int32_t), 4);
    for (int64_t r = 0; r < rows; r++)
        shifts[r] = extreme ? (r % 2 ? -127 : 128) : (int32_t)(word() % 256) - 127;
    fill(&p, extreme);
    mx_w8a8_tile t = {.rows = rows, .quads = (k + 3) / 4, .panels = panels, .a = p.a, .a_rows = blocks().tile_rows,
                      .row_scales = floats(rows, 1, 4), .row_shifts = shifts, .b = p.b,
                      .scales = floats(n, 0.01, 4), .sums = p.sums, .ld_residual = ld, .ldy = ld, .streams = with & 4};
    t.bias = with & 1 ? floats(n, 1, 4) : NULL;
    t.residual = with & 2 ? floats(rows * ld, 1, 4) : NULL;
    t.y = take((size_t)(rows * ld - 5) * sizeof(float), 4);
    for (int64_t i = 0; i < rows * ld - 5; i++)
        t.y[i] = 7;
    K->w8a8_begin(rows);
    K->w8a8_tile(&t);
    K->w8a8_end();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++)
            near((double)t.y[r * ld + j], (double)want_of(&p, &t, r, j), 0);
    for (int64_t r = 0; r + 1 < rows; r++)
        for (int64_t j = n; j < ld; j++)
            near((double)t.y[r * ld + j], 7, 0);
    NOTHING_OFF();
    done();
}

/* Tiles differ in size, so each is checked to the bit against integers of 64 bits rather than recorded. */
static void test_w8a8_tile(void) {
    mx_w8a8_blocks b = blocks();
    for (int64_t rows = 1; rows <= b.tile_rows; rows++)
        for (size_t d = 0; d < MX_COUNT(depths); d++)
            for (int64_t panels = 1; panels <= b.tile_panels; panels++)
                one_tile(rows, depths[d], panels, (int)((size_t)rows + d) % 8, 0);
    for (int extreme = SHIFTED; extreme <= ALTERNATING; extreme++) {
        one_tile(b.tile_rows, 5120, b.tile_panels, 3, extreme);
        one_tile(2, MX_W8A8_MOST_K, b.tile_panels, 3, extreme);
    }
    record("", 1);
}

const kcheck_test kcheck_w8a8[] = {
    {"w8a8_blocks", test_w8a8_blocks, 0},
    {"w8a8_begin", test_w8a8_begin, 1},
    {"w8a8_end", test_w8a8_begin, 1},
    {"w8a8_row", test_w8a8_row, 1},
    {"w8a8_tile", test_w8a8_tile, 1},
    {NULL, NULL, 0},
};
