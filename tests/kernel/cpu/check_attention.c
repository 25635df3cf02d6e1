/* check_attention.c - the attention kernels of compiled calls against float64, and bit for bit against each other. */
#include "kcheck.h"

#include <math.h>

/* One head in float64: query i over the first `seen` keys, rows picked by cells if there are any. */
static void head64(double *y, const float *q, const float *k, int64_t ldk, const float *v, int64_t ldv,
                   const int32_t *cells, int64_t seen, int64_t width, double scale) {
    double *p = malloc((size_t)seen * sizeof(double)), top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < seen; j++) {
        p[j] = 0;
        for (int64_t c = 0; c < width; c++)
            p[j] += (double)q[c] * (double)k[(cells ? cells[j] : j) * ldk + c] * scale;
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < seen; j++)
        sum += p[j] = exp(p[j] - top);
    for (int64_t c = 0; c < width; c++) {
        y[c] = 0;
        for (int64_t j = 0; j < seen; j++)
            y[c] += p[j] / sum * (double)v[(cells ? cells[j] : j) * ldv + c];
    }
    free(p);
}

/* A sum of products has an error of some units of its largest score, and that goes into the exponent. */
static double bound_of(double score, double value) { return (40 + 8 * score) * EPS * value; }

/* ---- tiles of queries -------------------------------------------------------------------------------------------- */

typedef struct tile {
    int64_t queries, keys, width, gap;
    int causal;
    double size;     /* of the elements of q and k */
} tile;

static void one_tile(tile t) {
    int64_t ldq = t.width + t.gap, ldk = t.width + 2 * t.gap, ldv = t.width + t.gap / 2, ldy = t.width + t.gap;
    int64_t visible = t.causal ? t.keys - t.queries + 1 : t.keys;
    float *q = floats(t.queries * ldq, t.size, 4), *k = floats(t.keys * ldk, t.size, 12);
    float *v = floats(t.keys * ldv, 2, 8);
    float *y = floats(t.queries * ldy, 1, 4), *old = floats(t.queries * ldy, 0, 4);
    float *scratch = take((size_t)mx_attn_tile_floats(t.width) * sizeof(float), 0);
    double *want = malloc((size_t)t.width * sizeof(double)), score = (double)t.width * t.size * t.size * 0.3;
    memcpy(old, y, (size_t)(t.queries * ldy) * sizeof(float));
    K->attn_tile(y, ldy, q, ldq, t.queries, k, ldk, v, ldv, t.keys, t.width, 0.3f, visible, scratch);
    for (int64_t i = 0; i < t.queries; i++) {
        head64(want, q + i * ldq, k, ldk, v, ldv, NULL, MX_MIN(t.keys, visible + i), t.width, (double)0.3f);
        for (int64_t c = 0; c < ldy; c++)
            near((double)y[i * ldy + c], c < t.width ? want[c] : (double)old[i * ldy + c],
                 c < t.width ? bound_of(score, 2) : 0);
    }
    record(y, (size_t)(t.queries * ldy) * sizeof(float));
    free(want);
    NOTHING_OFF();
    done();
}

/* A NaN in a query stays in its row; one in a key or a value reaches every row that sees it. */
static void test_nan(void) {
    enum { Q = 50, S = 70, W = 16 };
    for (int where = 0; where < 3; where++) {
        float *x[3] = {floats(Q * W, 1, 4), floats(S * W, 1, 4), floats(S * W, 1, 4)}, *y = floats(Q * W, 0, 4);
        float *scratch = take((size_t)mx_attn_tile_floats(W) * sizeof(float), 0);
        int n_nan = 0;
        x[where][where ? 66 * W + 3 : 20 * W + 3] = NAN;
        K->attn_tile(y, W, x[0], W, Q, x[1], W, x[2], W, S, W, 1.0f, S, scratch);
        for (int64_t i = 0; i < Q * W; i++)
            n_nan += isnan(y[i]);
        CHECK_EQ_INT(n_nan, where == 0 ? W : where == 1 ? Q * W : Q);
        if (where == 0)
            CHECK(isnan(y[20 * W]) && isnan(y[21 * W - 1]));
        done();
    }
}

static void test_attn_tile(void) {
    static const tile tiles[] = {
        {1, 1, 1, 0, 0, 1},      {1, 1500, 64, 0, 0, 1},  {384, 64, 64, 0, 0, 1},   {50, 65, 64, 6, 0, 1},
        {33, 130, 64, 128, 0, 2}, {17, 63, 64, 2, 1, 1},  {100, 100, 64, 0, 1, 2},  {12, 200, 64, 4, 1, 1},
        {49, 7, 24, 2, 0, 1},    {5, 9, 5, 2, 0, 1},      {31, 129, 80, 0, 0, 1},   {3, 70, 33, 4, 1, 2},
        {16, 64, 128, 0, 0, 1},  {70, 300, 64, 0, 0, 30}, {20, 128, 64, 0, 0, 1e-20}, {13, 66, 1, 0, 0, 300},
    };
    for (size_t i = 0; i < MX_COUNT(tiles); i++)
        one_tile(tiles[i]);
    test_nan();
}

/* ---- rows of a decoder ------------------------------------------------------------------------------------------- */

/* half: keys and values are f16. */
static void one_range(int64_t rows, int64_t keys, int64_t heads, int64_t width, int64_t gap, double size, int half) {
    int64_t d = heads * width, ld = d + gap, stride = d + 2 * heads + gap;
    float *q = floats(rows * d, size, 4), *k = floats(keys * ld, size, 12), *v = floats(keys * ld, 2, 8);
    float *part = floats(rows * stride, 1, 4), *old = floats(rows * stride, 0, 0);
    float *scratch = take((size_t)(rows * heads * MX_ATTN_RANGE) * sizeof(float), 4);
    double *want = malloc((size_t)width * sizeof(double)), score = (double)width * size * size;
    memcpy(old, part, (size_t)(rows * stride) * sizeof(float));
    const void *kept[2] = {k, v};
    if (half)
        for (int i = 0; i < 2; i++)
            kept[i] = as_halves(i ? v : k, keys * ld);
    K->attn_partial(part, stride, q, rows, kept[0], kept[1], half ? MXW_F16 : MXW_F32, ld, keys, heads, width, scratch);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t h = 0; h < heads; h++) {
            const float *row = q + r * d + h * width, *p = part + r * stride;
            double top = -INFINITY, sum = (double)p[d + heads + h];
            head64(want, row, k + h * width, ld, v + h * width, ld, NULL, keys, width, log(2.0));
            for (int64_t c = 0; c < width; c++)
                near((double)p[h * width + c] / sum, want[c], bound_of(score, 2));
            for (int64_t j = 0; j < keys; j++) {
                double dot = 0;
                for (int64_t c = 0; c < width; c++)
                    dot += (double)row[c] * (double)k[j * ld + h * width + c];
                top = fmax(top, dot);
            }
            near((double)p[d + h], top, 10 * EPS * score);
            CHECK(sum >= 1 - 1e-6 && sum <= (double)keys + 1e-4);
        }
        for (int64_t c = d + 2 * heads; c < stride; c++)
            near((double)part[r * stride + c], (double)old[r * stride + c], 0);
    }
    record(part, (size_t)(rows * stride) * sizeof(float));
    free(want);
    NOTHING_OFF();
    done();
}

static void test_attn_partial(void) {
    for (int half = 0; half < 2; half++) {
        for (int64_t rows = 1; rows <= 9; rows++)
            one_range(rows, rows % 2 ? MX_ATTN_RANGE : 1 + (rows * 37) % MX_ATTN_RANGE, 1 + rows % 3, 64,
                      2 * (rows % 3), 1, half);
        for (int64_t keys = 1; keys <= 35; keys++)
            one_range(3, keys, 2, 64, keys % 2 * 32, keys % 5 ? 1 : 8, half);
        for (int64_t width = 1; width <= 90; width += 11)
            one_range(2, 17, 2, width, 3, 1, half);
    }
}

static void test_attn_combine(void) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {16, 6, 64}, {3, 2, 17}, {2, 20, 64}, {5, 1, 80},
                                       {12, 6, 64}, {17, 8, 64}, {40, 16, 64}, {12, 33, 64}};
    for (size_t i = 0; i < MX_COUNT(sizes); i++) {
        int64_t n = sizes[i][0], heads = sizes[i][1], width = sizes[i][2], d = heads * width;
        int64_t stride = d + 2 * heads + 5;
        float *parts = floats(n * stride, 20, 4), *y = take((size_t)d * sizeof(float), 8);
        for (int64_t p = 0; p < n; p++)   /* sums of weights are positive */
            for (int64_t h = 0; h < heads; h++)
                parts[p * stride + d + heads + h] = (float)uniform(1, 90);
        K->attn_combine(y, parts, stride, n, heads, width);
        for (int64_t c = 0; c < d; c++) {
            double top = -INFINITY, sum = 0, want = 0, size = 0;
            for (int64_t p = 0; p < n; p++)
                top = fmax(top, (double)parts[p * stride + d + c / width]);
            for (int64_t p = 0; p < n; p++) {
                double share = exp2((double)parts[p * stride + d + c / width] - top);
                sum += share * (double)parts[p * stride + d + heads + c / width];
                want += share * (double)parts[p * stride + c];
                size += share * fabs((double)parts[p * stride + c]);
            }
            near((double)y[c], want / sum, 30 * EPS * size / sum);
        }
        record(y, (size_t)d * sizeof(float));
        NOTHING_OFF();
        done();
    }
}

static void test_attn_paged(void) {
    static const int64_t widths[] = {64, 64, 64, 1, 17, 80};
    for (int64_t n = 1; n <= 450; n += n < 40 ? 1 : 97)
        for (size_t test = n < 40 ? 4 : 0; test < 2 * MX_COUNT(widths); test++) {
            size_t w = test / 2;
            int half = test % 2;
            int64_t width = widths[w], ld = width + (int64_t)w * 3, rows = n + 5, round = MX_SUM_LANES - 1;
            double size = w ? 1 : 6, *want = malloc((size_t)width * sizeof(double));
            float *q = floats(width, size, 4), *k = floats(rows * ld, size, 12), *v = floats(rows * ld, 2, 4);
            float *y = take((size_t)width * sizeof(float), 4);
            float *scratch = take((size_t)((width + round) / MX_SUM_LANES + (n + round) / MX_SUM_LANES) * 64, 8);
            int32_t *cells = take((size_t)n * sizeof(int32_t), 4);
            for (int64_t j = 0; j < n; j++)
                cells[j] = (int32_t)(word() % (uint32_t)rows);
            const void *kept[2] = {k, v};
            for (int i = 0; i < 2 && half; i++)
                kept[i] = as_halves(i ? v : k, rows * ld);
            K->attn_paged(y, q, kept[0], kept[1], half ? MXW_F16 : MXW_F32, cells, n, ld, width, 0.3f, scratch);
            head64(want, q, k, ld, v, ld, cells, n, width, (double)0.3f);
            for (int64_t c = 0; c < width; c++)
                near((double)y[c], want[c], bound_of((double)width * size * size * 0.3, 2));
            record(y, (size_t)width * sizeof(float));
            free(want);
            NOTHING_OFF();
            done();
        }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const kcheck_test kcheck_attention[] = {
    {"attn_tile", test_attn_tile, 1},
    {"attn_partial", test_attn_partial, 1},
    {"attn_combine", test_attn_combine, 1},
    {"attn_paged", test_attn_paged, 1},
    {NULL, NULL, 0},
};
