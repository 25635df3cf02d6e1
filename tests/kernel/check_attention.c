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
    float *scratch = take((size_t)mx_attention_floats(t.width) * sizeof(float), 0);
    double *want = malloc((size_t)t.width * sizeof(double)), score = (double)t.width * t.size * t.size * 0.3;
    memcpy(old, y, (size_t)(t.queries * ldy) * sizeof(float));
    K->attention_tile(y, ldy, q, ldq, t.queries, k, ldk, v, ldv, t.keys, t.width, 0.3f, visible, scratch);
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
        float *scratch = take((size_t)mx_attention_floats(W) * sizeof(float), 0);
        int n_nan = 0;
        x[where][where ? 66 * W + 3 : 20 * W + 3] = NAN;
        K->attention_tile(y, W, x[0], W, Q, x[1], W, x[2], W, S, W, 1.0f, S, scratch);
        for (int64_t i = 0; i < Q * W; i++)
            n_nan += isnan(y[i]);
        CHECK_EQ_INT(n_nan, where == 0 ? W : where == 1 ? Q * W : Q);
        if (where == 0)
            CHECK(isnan(y[20 * W]) && isnan(y[21 * W - 1]));
        done();
    }
}

static void test_attention_tile(void) {
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

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const kcheck_test kcheck_attention[] = {
    {"attention_tile", test_attention_tile, 1},
    {NULL, NULL, 0},
};
