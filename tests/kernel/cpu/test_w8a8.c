/* test_w8a8.c - products in 8 bits through the device's table: weights packed by it, from floats or from the codes of a
 * file, against numbers, scales and sums that are computed here in another way, to the bit; norm, activation and a
 * repeated residual against the ops one after the other, to the bit, too. Then the same with 1, 2, 3 and 8 threads, for
 * rows alone or among others, and while signals interrupt.
 * Argument: how many random shapes, where 150 would take too long. */
#include <signal.h>
#include <sys/time.h>

#include "calls.h"

#include "tensor/quantized.h"

enum { BIAS = 1, RESIDUAL = 2, REPEATED = 4, NORM = 8, APART = 16, TWO = 32, CODES = 64, DIVIDE = 128, MIXED = 256 };

/* ---- what it has to be ------------------------------------------------------------------------------------------- */

static const float *row_of(const mx_tensor *x, int64_t r) {
    return (const float *)x->data + r * (x->rank > 1 ? x->strides[x->rank - 2] : 0);
}

/* Row r of x from its smallest number to its largest in 256 steps, 0 being one of them; returns their size. */
static float ranged(const mx_tensor *x, int64_t r, int32_t *p) {
    int64_t k = x->dims[x->rank - 1];
    const float *row = row_of(x, r);
    float high = 0, low = 0;
    for (int64_t i = 0; i < k; i++) {
        high = fmaxf(high, row[i]);
        low = fminf(low, row[i]);
    }
    float scale = high / 255 - low / 255;
    for (int64_t i = 0; i < k; i++)
        p[i] = scale > 0 ? (int32_t)nearbyintf(row[i] * (1 / scale)) : 0;
    for (int64_t i = 0; i < k && scale > 0; i++)
        p[i] = MX_MIN(p[i], 255 + (int32_t)nearbyintf(low * (1 / scale)));
    return scale;
}

/* Row r of a weight in 8 bits; returns its scale. Rows that the weight has in codes are taken as they are. */
static float quantized(const mx_tensor *x, int64_t r, int32_t *q) {
    int64_t k = x->dims[x->rank - 1];
    const mx_quantized *codes = x->quantized;
    if (codes && r < codes->rows) {
        for (int64_t i = 0; i < k; i++)
            q[i] = (int8_t)codes->data[r * k + i];
        return codes->divide ? 1 / at(&codes->scales, r) : at(&codes->scales, r);
    }
    const float *row = row_of(x, r);
    float top = 0;
    for (int64_t i = 0; i < k; i++)
        top = fmaxf(top, fabsf(row[i]));
    for (int64_t i = 0; i < k; i++)
        q[i] = top > 0 ? (int32_t)nearbyintf(row[i] * (127 / top)) : 0;
    return top / 127;
}

/* x [m][k] times weight [n][k], with bias and residual of n columns, whose rows repeat. */
static void wanted(const mx_tensor *x, const mx_tensor *weight, const mx_tensor *bias, const mx_tensor *residual,
                   mx_tensor *y) {
    int64_t n = weight->dims[0], k = weight->dims[1], m = mx_tensor_count(y) / n;
    int32_t *p = take((size_t)k * sizeof(*p)), *q = take((size_t)(n * k) * sizeof(*q));
    float *scales = take((size_t)n * sizeof(float));
    for (int64_t j = 0; j < n; j++)
        scales[j] = quantized(weight, j, q + j * k);
    for (int64_t r = 0; r < m; r++) {
        float scale = ranged(x, r, p);
        for (int64_t j = 0; j < n; j++) {
            int64_t sum = 0;
            for (int64_t i = 0; i < k; i++)
                sum += (int64_t)p[i] * q[j * k + i];
            float v = (float)sum * (scales[j] * scale);
            v = bias->data ? v + at(bias, j) : v;
            if (residual->data)
                v += at(residual, r % residual->dims[0] * n + j);
            ((float *)y->data)[r * n + j] = v;
        }
    }
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static mx_tensor packed_of(const mx_tensor *sources, int n_sources, const mx_tensor *whole) {
    mx_weight_use use = {.op = MX_OP_FUSED_LINEAR, .attrs = &(mx_attrs){0}, .input = 1, .sources = sources,
                         .n_sources = n_sources, .precision = MXW_PRECISION_INT8};
    mx_tensor packed = *whole;
    for (int i = 0; i < n_sources; i++)
        CHECK(sources[i].layout != MX_LAYOUT_QUANTIZED || cpu->takes_quantized(cpu, &use));
    CHECK_EQ_INT(cpu->form(cpu, &use), MX_FORM_PACKED);
    packed.layout = MX_LAYOUT_PACKED;
    packed.packing = cpu->packing(cpu, &use);
    CHECK(packed.packing.bytes < mx_tensor_bytes(whole) / 4 + 64 + 32 * (size_t)(whole->dims[1] + 3) + 8 * 32 +
                                     8 * (size_t)whole->dims[0] + 4 * (size_t)whole->dims[0]);
    packed.data = take(packed.packing.bytes);
    CHECK_EQ_INT(cpu->pack(cpu, &use, packed.data, pool), MXW_OK);
    return packed;
}

/* A call of one op, compiled, in int8. */
static mx_tensor done_by(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n, const mx_tensor *shape) {
    mx_tensor y = like(shape);
    CHECK_EQ_INT(run(op, attrs, inputs, n, &y, 1, pool), MXW_OK);
    return y;
}

/* Codes of n rows, -128 often among them; half of their scales are negative, or all are positive and divide. */
static mx_quantized random_codes(int64_t n, int64_t k, int divide) {
    mx_quantized q = {.kind = MX_QUANTIZED_INT8, .type = "int8", .divide = divide, .rows = n, .columns = k,
                      .row_bytes = (size_t)k, .scales = RANDOM(0.01f, n)};
    uint8_t *data = take((size_t)(n * k));
    for (int64_t i = 0; i < n * k; i++)
        data[i] = (uint8_t)(below(9) ? word() : 128);
    for (int64_t j = 0; j < n && divide; j++)
        ((float *)q.scales.data)[j] = 50 + fabsf(random_float());
    q.data = data;
    return q;
}

/* Rows first .. first + n of codes. */
static mx_tensor codes_of(const mx_quantized *q, int64_t first, int64_t n) {
    mx_tensor t = mx_tensor_of(MXW_F32, 2, DIMS(n, q->columns), NULL);
    t.layout = MX_LAYOUT_QUANTIZED;
    t.quantized = q;
    t.offset = first * q->columns;
    return t;
}

static void one_linear(int64_t m, int64_t n, int64_t k, int with, int act) {
    mx_attrs attrs = {.act = act, .eps = 1e-5};
    mx_tensor none = {0}, x = RANDOM(2, m, k), weight = RANDOM(1, n, k), y = BLANK(MXW_F32, m, n);
    mx_tensor bias = with & BIAS ? RANDOM(1, n) : none;
    int64_t rows = with & REPEATED && m % 3 == 0 ? m / 3 : m;
    mx_tensor residual = with & RESIDUAL ? RANDOM(1, rows, n) : none;
    mx_tensor gamma = with & NORM ? RANDOM(1, k) : none, beta = with & NORM ? RANDOM(1, k) : none;
    const int two = (with & TWO || with & MIXED) && n > 1;
    mx_quantized codes = random_codes(with & MIXED && two ? n / 2 : n, k, with & DIVIDE);
    mx_tensor parts[2] = {part_of(&weight, 0, n / 2), part_of(&weight, n / 2, n - n / 2)};
    if (with & CODES) {
        weight.quantized = &codes;
        parts[0] = codes_of(&codes, 0, two ? n / 2 : n);
        parts[1] = two && !(with & MIXED) ? codes_of(&codes, n / 2, n - n / 2) : parts[1];
    }
    mx_tensor packed = two ? packed_of(parts, 2, &weight) : packed_of(with & CODES ? parts : &weight, 1, &weight);
    mx_tensor given = with & APART ? apart(&x, 5) : x;
    mx_tensor inputs[] = {given, packed, bias, residual, gamma, beta};
    mx_tensor got = done_by(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &y), want = like(&y);
    mx_tensor rest = with & NORM ? done_by(MX_OP_LAYER_NORM, &attrs, (mx_tensor[]){x, gamma, beta}, 3, &x) : x;
    if (act == MX_ACT_NONE) {
        wanted(&rest, &weight, &bias, &residual, &want);
    } else {
        mx_attrs kind = {.kind = act == MX_ACT_GELU_ERF ? MXW_GELU_ERF : MXW_GELU_TANH};
        wanted(&rest, &weight, &bias, &none, &want);
        want = done_by(MX_OP_GELU, &kind, &want, 1, &want);
        for (int64_t i = 0; residual.data && i < m * n; i++)
            ((float *)want.data)[i] += at(&residual, i % (rows * n));
    }
    if (!CHECK(same_bits(&got, &want)))
        near(&got, &want, 0, "fused_linear in int8");
    any_threads(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &got);
    if (rows == m && m > 0) {   /* the last row alone */
        mx_tensor alone = BLANK(MXW_F32, 1, n);
        inputs[0] = part_of(&given, m - 1, 1);
        if (residual.data)
            inputs[3] = part_of(&residual, m - 1, 1);
        CHECK_EQ_INT(run(MX_OP_FUSED_LINEAR, &attrs, inputs, 6, &alone, 1, pool), MXW_OK);
        CHECK(memcmp(alone.data, (float *)got.data + (m - 1) * n, (size_t)n * sizeof(float)) == 0);
    }
    done();
}

static void test_linear(int n_shapes) {
    for (int i = 0; i < n_shapes; i++)
        one_linear(1 + below(i % 4 ? 40 : 150), 1 + below(140), 1 + below(i % 3 ? 70 : 400), (int)below(64),
                   (int)below(3));
    for (int i = 0; i < n_shapes; i++)
        one_linear(1 + below(40), 1 + below(140), 1 + below(i % 3 ? 70 : 400), CODES | (int)below(512), (int)below(3));
    one_linear(1, 1, 1, 0, MX_ACT_NONE);
    one_linear(28, 96, 384, BIAS | NORM, MX_ACT_GELU_ERF);   /* the most that counts as few, and one more */
    one_linear(29, 96, 384, BIAS | NORM | RESIDUAL, MX_ACT_NONE);
    one_linear(5, 128, 384, BIAS | RESIDUAL, MX_ACT_NONE);
    one_linear(0, 32, 16, BIAS, MX_ACT_NONE);
}

/* What has no scale for each row, or is not codes of 8 bits, is not taken as it is. */
static void test_takes(void) {
    mx_quantized q = random_codes(8, 64, 0);
    mx_tensor codes = codes_of(&q, 0, 8);
    mx_weight_use use = {.op = MX_OP_LINEAR, .attrs = &(mx_attrs){0}, .input = 1, .sources = &codes, .n_sources = 1,
                         .precision = MXW_PRECISION_INT8};
    CHECK(cpu->takes_quantized(cpu, &use));
    use.precision = MXW_PRECISION_EXACT;
    CHECK(!cpu->takes_quantized(cpu, &use));
    use.precision = MXW_PRECISION_INT8;
    q.kind = MX_QUANTIZED_F8;
    CHECK(!cpu->takes_quantized(cpu, &use));
    q.kind = MX_QUANTIZED_INT16;
    CHECK(!cpu->takes_quantized(cpu, &use));
    q.kind = MX_QUANTIZED_BLOCKS;
    q.blocks = mx_block_type_find("q8_0");
    CHECK(!cpu->takes_quantized(cpu, &use));
    done();
}

/* What is not finite stays visible, in the rows that have it and in no other. */
static void test_not_finite(void) {
    mx_tensor w = RANDOM(1, 33, 20), x = RANDOM(1, 40, 20), y = BLANK(MXW_F32, 40, 33);
    ((float *)x.data)[3 * 20 + 5] = NAN;
    ((float *)x.data)[7 * 20] = INFINITY;
    mx_tensor inputs[] = {x, packed_of(&w, 1, &w)};
    CHECK_EQ_INT(run(MX_OP_LINEAR, &(mx_attrs){0}, inputs, 2, &y, 1, pool), MXW_OK);
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < 40 * 33; i++)
        n_wrong += isfinite(at(&y, i)) == (i / 33 == 3 || i / 33 == 7);
    CHECK_EQ_INT(n_wrong, 0);
    done();
}

static volatile sig_atomic_t n_signals;
static void on_signal(int number) { n_signals++; }

/* What a unit holds of a product survives signals. */
static void test_signals(void) {
    mx_tensor w = RANDOM(1, 384, 384), x = RANDOM(1, 300, 384), y = BLANK(MXW_F32, 300, 384);
    mx_tensor inputs[] = {x, packed_of(&w, 1, &w)}, want = done_by(MX_OP_LINEAR, &(mx_attrs){0}, inputs, 2, &y);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    int64_t n_other = 0;
    CHECK(sigaction(SIGALRM, &action, &before) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 20000 && n_signals < 100; i++) {
        CHECK_EQ_INT(run(MX_OP_LINEAR, &(mx_attrs){0}, inputs, 2, &y, 1, pool), MXW_OK);
        n_other += !same_bits(&y, &want);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && sigaction(SIGALRM, &before, NULL) == 0);
    CHECK(n_signals >= 100);
    CHECK_EQ_INT(n_other, 0);
    done();
}

int main(int argc, char **argv) {
    need_isa();
    precision = MXW_PRECISION_INT8;
    if (mx_device_find("cpu", &cpu) < 0 || mx_pool_open(3, &pool) < 0)
        return 1;
    CHECK(cpu->supports_precision(cpu, MXW_PRECISION_INT8));
    test_linear(argc > 1 ? atoi(argv[1]) : 150);
    test_takes();
    test_not_finite();
    test_signals();
    mx_pool_close(pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
