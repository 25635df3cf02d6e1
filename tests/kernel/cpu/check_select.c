/* check_select.c - select_range against a plain reading of op/select.h: which ids are left, the best of them, the
 * largest and the sum, text and timestamps apart. Of same_select_range the sums' bits count, too. */
#include "kcheck.h"

#include <float.h>
#include <math.h>

enum { MOST = 2100 };
typedef struct range {
    int64_t first, n, k;
    const float *x;
    const uint8_t *suppress;
    mx_rule rule;
} range;

static float plain(float x) { return isnan(x) ? -INFINITY : fminf(x, FLT_MAX); }

/* Side 0: text; 1: timestamps. */
static int is_left(const range *f, int64_t i, int side) {
    int64_t id = f->first + i;
    int stamp = id >= f->rule.ts_begin;
    return stamp == side && !f->suppress[i] && id >= f->rule.min_id &&
           (!stamp || (id >= f->rule.ts_min && id <= f->rule.ts_max)) && plain(f->x[i]) > -INFINITY;
}

static void check_sum(const mx_select_side *got, const double *left, int64_t n) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, left[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(left[i] - top);
    near((double)got->top, top, 0);
    near(got->sum, n ? sum : 0, 2e-7 * sum);
}

static void check_side(const range *f, int side, const mx_select_side *got, const float *values, const int32_t *ids) {
    static double left[MOST];
    int64_t n = 0;
    for (int64_t i = 0; i < f->n; i++)
        if (is_left(f, i, side))
            left[n++] = (double)plain(f->x[i]);
    check_sum(got, left, n);
    near(got->n, (double)MX_MIN(n, f->k), 0);
    for (int32_t c = 0; c < got->n; c++) {
        int64_t place = 0;   /* how many come before it */
        for (int64_t i = 0; i < f->n; i++)
            place += is_left(f, i, side) && (plain(f->x[i]) > values[c] ||
                                             (plain(f->x[i]) == values[c] && f->first + i < ids[c]));
        near((double)place, c, 0);
        near((double)values[c], (double)plain(f->x[ids[c] - f->first]), 0);
    }
}

static void one_range(range f, int kind, int same) {
    float *x = floats(f.n, 9, 4), *values = take((size_t)(2 * f.k) * sizeof(float), 4);
    float *left = take((size_t)f.n * sizeof(float), 4);
    int32_t *ids = take((size_t)(2 * f.k) * sizeof(int32_t), 4);
    uint8_t *suppress = take((size_t)f.n, 1);
    mx_select_part *part = take(sizeof(*part), 0);
    for (int64_t i = 0; i < f.n; i++) {
        suppress[i] = (uint8_t)(kind == 3 || word() % 7 == 0 ? 1 + word() % 255 : 0);
        if (kind == 1)
            x[i] = (float)(word() % 3);
        if (kind == 2 && word() % 3 == 0)
            x[i] = word() % 2 ? NAN : word() % 2 ? INFINITY : -INFINITY;
    }
    f.x = x;
    f.suppress = suppress;
    (same ? K->same_select_range : K->select_range)(part, values, ids, x, &f.rule, suppress, f.first, f.n, f.k, left);
    for (int side = 0; side < 2; side++) {
        check_side(&f, side, &part->side[side], values + side * f.k, ids + side * f.k);
        record(values + side * f.k, (size_t)part->side[side].n * sizeof(float));
        record(ids + side * f.k, (size_t)part->side[side].n * sizeof(int32_t));
        if (same)
            record(&part->side[side].sum, sizeof(double));
    }
    if (f.rule.no_speech >= 0) {
        static double raw[MOST];
        int64_t n = 0, id = f.rule.no_speech - f.first;
        for (int64_t i = 0; i < f.n; i++)
            if (plain(x[i]) > -INFINITY)
                raw[n++] = (double)plain(x[i]);
        check_sum(&part->raw, raw, n);
        if (same)
            record(&part->raw.sum, sizeof(double));
        if (id >= 0 && id < f.n)
            near((double)part->no_speech, (double)plain(x[id]), 0);
    }
    NOTHING_OFF();
    done();
}

static void each_range(int same) {
    static const int64_t sizes[] = {1, 7, 8, 9, 15, 16, 17, 33, 100, 2048};
    for (size_t s = 0; s < MX_COUNT(sizes); s++)
        for (int i = 0; i < 24; i++) {
            int32_t n = (int32_t)sizes[s], first = i % 3 * 4096;
            range f = {.first = first, .n = n, .k = i % 4 == 0 ? MX_TOPK : 1 + i % 7};
            f.rule = (mx_rule){.ts_begin = i % 2 ? 1 << 20 : first + (int32_t)(word() % (uint32_t)(n + 3)) - 1,
                               .ts_max = 1 << 20, .no_speech = i % 5 ? -1 : first + (int32_t)(word() % (uint32_t)n)};
            if (i % 6 == 2)
                f.rule.min_id = first + (int32_t)(word() % (uint32_t)(n + 1));
            if (i % 4 == 2) {
                f.rule.ts_min = f.rule.ts_begin + (int32_t)(word() % 9);
                f.rule.ts_max = f.rule.ts_min + (int32_t)(word() % 40) - 2;
            }
            one_range(f, i % 4, same);
        }
}

static void test_select_range(void) { each_range(0); }
static void test_same_select_range(void) { each_range(1); }

const kcheck_test kcheck_select[] = {
    {"select_range", test_select_range, 1},
    {"same_select_range", test_same_select_range, 1},
    {NULL, NULL, 0},
};
