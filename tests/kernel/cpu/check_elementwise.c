/* check_elementwise.c - the kernels of op/elementwise.def against its float64 expressions: floats of every sign and
 * exponent, within the bound that the table states; in place; the same bits in every implementation. What special
 * values give is spelled out in tests/graph/test_ops_elementwise.c. */
#include "kcheck.h"

#include <math.h>

typedef void (*unary_fn)(float *y, const float *x, int64_t n, float p);
typedef double (*exact_fn)(double x, double p);

/* Bit patterns that are STRIDE apart, so every exponent and both signs, with odd low bits; NaNs among them. */
#define STRIDE 20011u
#define PIECE 1021

static void fill(float *x, int64_t n, uint32_t first) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = first + (uint32_t)i * STRIDE;
        memcpy(&x[i], &bits, sizeof(bits));
    }
}

/* NaN for NaN, the same infinity and the same sign of zero, else within the bound; a result within the bound of what
 * rounds to infinity may be infinite. Every NaN is then made the same one: which one comes out depends on the
 * processor. */
static void compare(float *y, const float *x, int64_t n, exact_fn exact, double p, double units) {
    for (int64_t i = 0; i < n; i++) {
        double want = exact((double)x[i], p), bound = units > 0 ? units * EPS * fabs(want) + 0x1p-149 : 0;
        if (isinf(y[i]) && fabs(want) + bound >= 0x1p128 - 0x1p103)
            want = copysign((double)INFINITY, want);
        near((double)y[i], want, isinf(want) ? 0 : bound);
        if (y[i] == 0 && want == 0)
            near(signbit(y[i]) ? -1 : 1, signbit(want) ? -1 : 1, 0);
        if (isnan(y[i]))
            y[i] = NAN;
    }
}

static void check(unary_fn run, exact_fn exact, float p, double units) {
    float *x = take(PIECE * sizeof(float), 4), *y = take(PIECE * sizeof(float), 8);
    for (uint64_t first = 0; first <= UINT32_MAX; first += (uint64_t)PIECE * STRIDE) {
        int64_t left = (int64_t)((UINT32_MAX - first) / STRIDE) + 1, n = MX_MIN(left, PIECE);
        fill(x, n, (uint32_t)first);
        run(y, x, n, p);
        compare(y, x, n, exact, (double)p, units);
        record(y, (size_t)n * sizeof(float));
    }
    NOTHING_OFF();
    done();
}

/* Short pieces at odd addresses: nothing outside is written, and an element's bits do not depend on its place. */
static void check_lengths(unary_fn run, float p) {
    for (int64_t n = 0; n <= 67; n++) {
        float *x = floats(n, 3, 4), *y = take((size_t)n * sizeof(float), 12), *alone = take(sizeof(float), 4);
        run(y, x, n, p);
        int same = 1;
        for (int64_t i = 0; i < n; i++) {
            run(alone, x + i, 1, p);
            same &= memcmp(alone, y + i, sizeof(float)) == 0 || (isnan(*alone) && isnan(y[i]));
        }
        CHECK(same);
        run(x, x, n, p);   /* in place */
        for (int64_t i = 0; i < n; i++)
            same &= memcmp(&x[i], &y[i], sizeof(float)) == 0 || (isnan(x[i]) && isnan(y[i]));
        CHECK(same);
        done();
    }
}

static void check_all(unary_fn run, exact_fn exact, int has_parameter, double units) {
    static const float parameters[] = {0.01f, 1.5f, 0, -0.25f, 3e38f};
    for (size_t i = 0; i < (has_parameter ? MX_COUNT(parameters) : 1); i++) {
        check(run, exact, parameters[i], units);
        check_lengths(run, parameters[i]);
    }
}

#define TEST(name, has_parameter, units, exact_expression)                                                             \
    static double exact_##name(double x, double p) { return (void)p, exact_expression; }                               \
    static void test_##name(void) { check_all(K->unary_##name, exact_##name, has_parameter, units); }
#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, cpu_expression, exact_expression, ...)                         \
    TEST(name, 0, cpu_units, (exact_expression))
#define MX_ELEMENTWISE_WITH(id, name, parameter, cpu_units, cuda_units, cpu_expression, exact_expression, ...)         \
    TEST(name, 1, cpu_units, (exact_expression))
#include "op/elementwise.def"

/* Exact: every implementation gives the baseline's bits. */
const kcheck_test kcheck_elementwise[] = {
#define MX_ELEMENTWISE(id, name, ...) {"unary_" #name, test_##name, 1},
#include "op/elementwise.def"
    {NULL, NULL, 0},
};
