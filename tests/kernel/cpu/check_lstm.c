/* check_lstm.c - the cell of an LSTM against float64: whole rows of every length, then its two functions at floats of
 * every sign and exponent, within the bounds that ref/math.h states. The same bits in every implementation. */
#include "kcheck.h"

#include <math.h>

#define SIGMOID_UNITS 3
#define TANH_UNITS 4

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* The sum of two parts of a gate is rounded once; a function's slope and its own units come on top. */
static double gate_error(double value, double slope, double z, double units) {
    return slope * EPS * fabs(z) + units * EPS * fabs(value);
}

static void check_element(float h, float c, double before, const double z[4]) {
    double i = sigmoid(z[0]), f = sigmoid(z[1]), g = tanh(z[2]), o = sigmoid(z[3]), want = f * before + i * g;
    double error = fabs(before) * gate_error(f, 0.25, z[1], SIGMOID_UNITS) +
                   fabs(g) * gate_error(i, 0.25, z[0], SIGMOID_UNITS) +
                   fabs(i) * gate_error(g, 1, z[2], TANH_UNITS) + 2 * EPS * (fabs(want) + fabs(i * g));
    near((double)c, want, error);
    error += TANH_UNITS * EPS * fabs(tanh(want));
    near((double)h, o * tanh(want), error + gate_error(o, 0.25, z[3], SIGMOID_UNITS) + EPS);
}

static void check_rows(int64_t rows, int64_t hidden, int64_t gap, double scale) {
    int64_t ldh = hidden + gap, ldx = 4 * hidden + gap, ldz = 4 * hidden + 2 * gap;
    float *x = floats(rows * ldx, scale, 4), *z = floats(rows * ldz, scale, 8), *before = floats(rows * hidden, 2, 4);
    float *c = take((size_t)(rows * hidden) * sizeof(float), 12), *h = floats(rows * ldh, 1, 4);
    float *gaps = take((size_t)(rows * ldh) * sizeof(float), 0);
    memcpy(c, before, (size_t)(rows * hidden) * sizeof(float));
    memcpy(gaps, h, (size_t)(rows * ldh) * sizeof(float));
    K->lstm_cell(h, ldh, c, x, ldx, z, ldz, rows, hidden);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < hidden; j++) {
            double gates[4];
            for (int64_t g = 0; g < 4; g++)
                gates[g] = (double)x[r * ldx + g * hidden + j] + (double)z[r * ldz + g * hidden + j];
            check_element(h[r * ldh + j], c[r * hidden + j], (double)before[r * hidden + j], gates);
        }
        CHECK(memcmp(h + r * ldh + hidden, gaps + r * ldh + hidden, (size_t)gap * sizeof(float)) == 0);
        record(h + r * ldh, (size_t)hidden * sizeof(float));
    }
    record(c, (size_t)(rows * hidden) * sizeof(float));
    NOTHING_OFF();
    done();
}

/* ---- its functions ----------------------------------------------------------------------------------------------- */

#define STRIDE 20011u
#define PIECE 509

static int64_t fill(float *x, uint64_t first) {
    int64_t left = (int64_t)((UINT32_MAX - first) / STRIDE) + 1, n = MX_MIN(left, PIECE);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)first + (uint32_t)i * STRIDE;
        memcpy(&x[i], &bits, sizeof(bits));
    }
    return n;
}

/* Which NaN comes out depends on the processor. */
static void record_numbers(float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(y[i]))
            y[i] = NAN;
    record(y, (size_t)n * sizeof(float));
}

/* With the other gates open (1) and the old state forgotten, c is a function of one gate: 0 sigmoid(i), 2 tanh(g). */
static void check_function(int gate, double (*exact)(double), double units, double floor_) {
    float *z = take(4 * PIECE * sizeof(float), 4), *x = take(4 * PIECE * sizeof(float), 4);
    float *c = take(PIECE * sizeof(float), 4), *h = take(PIECE * sizeof(float), 4);
    memset(z, 0, 4 * PIECE * sizeof(float));
    for (uint64_t first = 0; first <= UINT32_MAX; first += (uint64_t)PIECE * STRIDE) {
        int64_t n = fill(h, first);
        for (int64_t i = 0; i < 4 * n; i++)
            x[i] = i / n == 1 ? -INFINITY : INFINITY;
        memcpy(x + gate * n, h, (size_t)n * sizeof(float));
        memset(c, 0, (size_t)n * sizeof(float));
        K->lstm_cell(h, n, c, x, 4 * n, z, 4 * n, 1, n);
        for (int64_t i = 0; i < n; i++) {
            double want = exact((double)x[gate * n + i]);
            near((double)c[i], want, units * EPS * fabs(want) + floor_);
            near((double)h[i], tanh((double)c[i]), TANH_UNITS * EPS * fabs(tanh((double)c[i])) + 0x1p-149);
        }
        record_numbers(c, n);
        record_numbers(h, n);
    }
    NOTHING_OFF();
    done();
}

static void test_lstm_cell(void) {
    for (int64_t hidden = 0; hidden <= 67; hidden++)
        check_rows(1 + hidden % 3, hidden, hidden % 5, hidden % 2 ? 1 : 8);
    check_rows(0, 5, 1, 1);
    check_rows(2, 128, 0, 3);
    check_function(0, sigmoid, SIGMOID_UNITS, 0x1p-126);
    check_function(2, tanh, TANH_UNITS, 0x1p-149);
}

const kcheck_test kcheck_lstm[] = {
    {"lstm_cell", test_lstm_cell, 1},
    {NULL, NULL, 0},
};
