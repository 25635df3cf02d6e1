/* check_logits_int8.c - the kernels of the int8 logit shortlist: quantized values and their scales against f64, sums
 * against plain ones in 64 bits, and the error bound of an int8 logit, which select relies on. */
#include "kcheck.h"

#include <math.h>

enum { MOST_K = 1300 };

/* Factors around 1, as of columns that differ in size. */
static float *factors(int64_t k) {
    float *f = take((size_t)k * sizeof(float), 4);
    for (int64_t i = 0; i < k; i++)
        f[i] = (float)exp(uniform(-2, 2));
    return f;
}

static void one_pack(int64_t k, double scale) {
    float *x = floats(k, scale, 4), *inverse = factors(k), *unit = take(sizeof(float), 0);
    int8_t *y = take((size_t)k, 1);
    K->int8_pack(y, unit, x, inverse, k);
    double top = 0;
    int largest = 0;
    for (int64_t i = 0; i < k; i++) {
        double v = (double)x[i] * (double)inverse[i];
        top = fmax(top, fabs(v));
        largest = MX_MAX(largest, abs(y[i]));
        near(y[i] * (double)*unit, v, 0.5001 * (double)*unit);
    }
    CHECK(largest == 127 || top == 0);
    near((double)*unit * 127, top, 1e-6 * top);
    record(y, (size_t)k);
    record(unit, sizeof(*unit));
    NOTHING_OFF();
    done();
}

static void test_int8_pack(void) {
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 100, 384, 512, 1280};
    for (size_t s = 0; s < MX_COUNT(sizes); s++)
        for (int i = 0; i < 4; i++)
            one_pack(sizes[s], i == 0 ? 0 : i == 1 ? 1e-4 : i == 2 ? 1 : 3e4);
    float x[3] = {1, INFINITY, 2}, factor[3] = {1, 1, 1}, unit = 0;
    int8_t y[3];
    K->int8_pack(y, &unit, x, factor, 3);
    CHECK(!isfinite(unit));   /* which tells select not to rely on it */
    x[1] = NAN;
    K->int8_pack(y, &unit, x, factor, 3);
    CHECK(!isfinite(unit));
}

/* The same numbers, from the steps. */
static void test_int8_panel(void) {
    for (int64_t k = 2; k <= 386; k += k < 8 ? 2 : 54) {
        float *x = take((size_t)(k * MX_PANEL) * sizeof(float), 4), *inverse = factors(k), *row = floats(k, 1, 4);
        float *steps = take(MX_PANEL * sizeof(float), 4), unit;
        int8_t *y = take((size_t)(k * MX_PANEL), 2), *want = take((size_t)(k * MX_PANEL), 0), *q = take((size_t)k, 0);
        for (int64_t j = 0; j < MX_PANEL; j++) {
            float top = 0;
            for (int64_t i = 0; i < k; i++) {
                row[i] = j == 5 ? 0 : (float)uniform(-1, 1);
                top = fmaxf(top, fabsf(row[i] * inverse[i]));
                x[i * MX_PANEL + j] = row[i];
            }
            steps[j] = j == 5 ? 0 : 127 / top;
            K->int8_pack(q, &unit, row, inverse, k);
            for (int64_t i = 0; i < k; i++)
                want[(i / 2 * MX_PANEL + j) * 2 + i % 2] = q[i];
        }
        x[9] = NAN;   /* what is not finite has step 0 */
        steps[9] = 0;
        for (int64_t i = 0; i < k; i++)
            want[(i / 2 * MX_PANEL + 9) * 2 + i % 2] = 0;
        K->int8_panel(y, x, inverse, steps, k);
        CHECK(memcmp(y, want, (size_t)(k * MX_PANEL)) == 0);
        record(y, (size_t)(k * MX_PANEL));
        done();
    }
}

static void one_lay(int64_t k, double scale, int32_t most) {
    float *x = floats(k, scale, 4), *column = factors(k);
    int16_t *y = take((size_t)k * sizeof(int16_t), 2);
    mx_int8_row *row = take(sizeof(*row), 0);
    K->int8_quantize(y, row, x, column, k, most);
    int largest = 0;
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        double v = (double)x[i] * (double)column[i];
        sum += fabs(v);
        largest = MX_MAX(largest, abs(y[i]));
        near(y[i] * (double)row->scale, v, 0.502 * (double)row->scale);
    }
    CHECK(largest == most || sum == 0);
    CHECK((double)row->slack >= sum / 2 + 63.5 * (double)k * (double)row->scale);
    CHECK((double)row->slack <= 1.01 * (sum / 2 + 64 * (double)k * (double)row->scale));
    record(y, (size_t)k * sizeof(*y));
    record(row, sizeof(*row));
    NOTHING_OFF();
    done();
}

static void test_int8_quantize(void) {
    static const int64_t sizes[] = {1, 2, 15, 16, 17, 100, 384, 512, 1280};
    for (size_t s = 0; s < MX_COUNT(sizes); s++)
        for (int i = 0; i < 4; i++)
            one_lay(sizes[s], i == 0 ? 0 : i == 1 ? 1e-4 : i == 2 ? 10 : 1e5, i % 2 ? 32767 : 13000);
    float x[2] = {1, NAN}, column[2] = {1, 1};
    int16_t y[2];
    mx_int8_row row;
    K->int8_quantize(y, &row, x, column, 2, 32767);
    CHECK(row.slack == INFINITY && y[0] == 0 && y[1] == 0);
}

/* The largest numbers that rows and weights have, with signs so that sums become as large as they can. */
static int32_t number(int64_t i, int32_t most, int extreme) {
    return extreme ? (i % 3 ? most : -most) : (int32_t)(word() % (uint32_t)(2 * most + 1)) - most;
}

static void one_rows(int64_t rows, int64_t pairs, int64_t n_panels, int extreme) {
    int64_t n = n_panels * MX_PANEL, ld = n + 3;
    int32_t most = (int32_t)MX_MIN(INT16_MAX, INT32_MAX / (127 * 2 * pairs));
    int16_t *x = take((size_t)(rows * pairs * 2) * sizeof(int16_t), 2);
    int8_t *panels = take((size_t)(n * pairs * 2), 16);
    float *scales = floats(n, 1, 4), *y = take((size_t)(rows * ld - 3) * sizeof(float), 8);
    mx_int8_row *row = take((size_t)rows * sizeof(*row), 8);
    for (int64_t i = 0; i < rows * pairs * 2; i++)
        x[i] = (int16_t)number(i % (pairs * 2), most, extreme);
    for (int64_t i = 0; i < n * pairs * 2; i++)
        panels[i] = (int8_t)number(i / (MX_PANEL * 2) % pairs * 2 + i % 2, 127, extreme);
    for (int64_t r = 0; r < rows; r++)
        row[r] = (mx_int8_row){.scale = (float)uniform(1e-4, 1)};
    for (int64_t i = 0; i < rows * ld - 3; i++)
        y[i] = 7;
    K->int8_gemm(y, ld, x, row, rows, panels, scales, pairs, n_panels);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            int64_t sum = 0;
            for (int64_t k = 0; k < pairs * 2; k++)
                sum += x[r * pairs * 2 + k] *
                       panels[((j / MX_PANEL * pairs + k / 2) * MX_PANEL + j % MX_PANEL) * 2 + k % 2];
            double want = (double)sum * (double)scales[j] * (double)row[r].scale;
            near((double)y[r * ld + j], want, 4 * EPS * fabs(want));
        }
    for (int64_t r = 0; r < rows - 1; r++)
        for (int64_t j = n; j < ld; j++)
            near((double)y[r * ld + j], 7, 0);
    record(y, (size_t)(rows * ld - 3) * sizeof(float));
    NOTHING_OFF();
    done();
}

static void test_int8_gemm(void) {
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16}, pairs[] = {1, 2, 7, 50, 192, 256, 640};
    for (size_t r = 0; r < MX_COUNT(rows); r++)
        for (size_t p = 0; p < MX_COUNT(pairs); p++)
            one_rows(rows[r], pairs[p], 1 + (int64_t)((r + p) % 4), (r + p) % 3 == 0);
}

/* A weight and a row in whole numbers: the product of these is as close as the row's slack says. */
static void one_bound(int64_t k, double columns) {
    static int8_t panel[MOST_K / 2 * MX_PANEL * 2];
    static int16_t numbers[MOST_K];
    float *x = floats(k, 10, 4), *w = floats(k, 0.1, 4), *column = take((size_t)k * sizeof(float), 0);
    float *inverse = take((size_t)k * sizeof(float), 0), scales[MX_PANEL] = {0}, y[MX_PANEL];
    int8_t *whole = take((size_t)k, 0);
    mx_int8_row row;
    double exact = 0;
    for (int64_t i = 0; i < k; i++) {
        column[i] = (float)exp(uniform(-columns, columns));
        inverse[i] = 1 / column[i];
        exact += (double)x[i] * (double)w[i];
    }
    int64_t pairs = (k + 1) / 2;
    memset(panel, 0, sizeof(panel));
    memset(numbers, 0, sizeof(numbers));
    K->int8_pack(whole, scales, w, inverse, k);
    K->int8_quantize(numbers, &row, x, column, k, (int32_t)MX_MIN(INT16_MAX, INT32_MAX / (127 * 2 * pairs)));
    for (int64_t i = 0; i < k; i++)
        panel[i / 2 * MX_PANEL * 2 + i % 2] = whole[i];
    K->int8_gemm(y, MX_PANEL, numbers, &row, 1, panel, scales, pairs, 1);
    near((double)y[0], exact, (double)(row.slack * scales[0]));
    NOTHING_OFF();
    done();
}

static void test_shortlist(void) {
    for (int64_t i = 0; i < 400; i++)
        one_bound(1 + word() % MOST_K, i % 3);
    for (int64_t n = 1; n < 200; n += 7) {
        float *x = floats(n, 9, 4), *scales = floats(n, 1, 8);
        uint8_t *suppress = take((size_t)n, 3);
        uint16_t *mask = take((size_t)n * sizeof(uint16_t), 2);
        float bar = (float)uniform(-5, 9), best = (float)uniform(-5, 12), slack = (float)uniform(0, 3);
        for (int64_t i = 0; i < n; i++) {
            suppress[i] = (uint8_t)(word() % 4 ? 0 : 1 + word() % 255);
            mask[i] = (uint16_t)(word() % 2 ? 0x8000 : 0);
        }
        uint16_t *before = take((size_t)n * sizeof(uint16_t), 0);
        memcpy(before, mask, (size_t)n * sizeof(*mask));
        K->shortlist(mask, 0x0020, x, scales, suppress, n, bar, best, slack);
        for (int64_t i = 0; i < n; i++) {
            int in = !suppress[i] && (x[i] + slack * scales[i] * 0.25f >= bar || x[i] + slack * scales[i] >= best);
            near(mask[i], before[i] | (in ? 0x0020 : 0), 0);
        }
        record(mask, (size_t)n * sizeof(*mask));
        NOTHING_OFF();
        done();
    }
}

const kcheck_test kcheck_logits_int8[] = {
    {"int8_pack", test_int8_pack, 1},
    {"int8_quantize", test_int8_quantize, 1},
    {"int8_panel", test_int8_panel, 1},
    {"int8_gemm", test_int8_gemm, 1},
    {"shortlist", test_shortlist, 1},
    {NULL, NULL, 0},
};
