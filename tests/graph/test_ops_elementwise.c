/* test_ops_elementwise.c - every function of op/elementwise.def on the device under test, eager and compiled: against
 * the float64 oracle of lab/ within the bound that the table states for the device, at the special values that are
 * spelled out here, and on odd shapes. A function that is added to the table is tested without a line here. */
#include "kit/harness.h"

#include "lab/exact.h"

typedef struct function {
    mx_op op;
    const char *name;
    mx_value (*plain)(mx_graph *g, mx_value x);
    mx_value (*with)(mx_graph *g, mx_value x, double p);   /* one that has a parameter */
    double cpu_units, cuda_units;
} function;

static const function functions[] = {
#define MX_ELEMENTWISE(id, name, cpu, cuda, ...) {MX_OP_##id, #name, mx_graph_##name, NULL, cpu, cuda},
#define MX_ELEMENTWISE_WITH(id, name, parameter, cpu, cuda, ...)                                                       \
    {MX_OP_##id, #name, NULL, mx_graph_##name, cpu, cuda},
#include "op/elementwise.def"
};

static const double parameters[] = {0.01, 0.1, 1.5, -0.25, 0};   /* 0.1 is no f32 */

static mx_value build(const function *f, mx_value x, double p) { return f->with ? f->with(G, x, p) : f->plain(G, x); }

static double units_of(const function *f) {
    return strncmp(device_name, "cuda", 4) == 0 ? f->cuda_units : f->cpu_units;
}

/* The graph of the last result(), compiled: its output. */
static mx_tensor compiled(mx_tensor x) {
    mx_program *program = NULL;
    mx_run *run = NULL;
    mx_tensor y = {0};
    mx_program_options options = *there(harness_pool, NULL);
    options.engine = MXW_ENGINE_MAX;
    mxw_status status = mx_exec_load(G, &options, &program);
    if (status >= 0)
        status = mx_run_open(program, NULL, &run);
    if (status >= 0)
        status = mx_run_input(run, "in0", &x);
    if (status >= 0)
        status = mx_run_execute(run);
    if (status >= 0)
        status = mx_run_output(run, "out0", &y);
    if (CHECK(status >= 0))
        y = copy_of(&y);
    else
        printf("    failed: %s\n", mx_error());
    mx_run_close(run);
    mx_exec_unload(program);
    return y;
}

/* ---- the whole range --------------------------------------------------------------------------------------------- */

/* Every sign and exponent, and many values where functions bend. */
static mx_tensor wide_range(void) {
    enum { PATTERNS = 41011, MIDDLE = 20000 };
    mx_tensor x = FLOATS(14, PATTERNS + MIDDLE);
    float *v = x.data;
    for (uint32_t i = 0; i < PATTERNS; i++) {
        uint32_t bits = i * 104729u;
        memcpy(&v[i], &bits, sizeof(bits));
    }
    for (int i = 0; i < MIDDLE / 4; i++) {
        v[PATTERNS + i] = (float)uniform(-0.01, 0.01);
        v[PATTERNS + MIDDLE / 4 + i] = (float)uniform(0.9, 1.1);
        v[PATTERNS + MIDDLE / 2 + i] = (float)uniform(-110, 95);
    }
    return x;
}

/* NaN for NaN, the same infinity, the same sign of a zero, else within the bound. */
static int agrees(float got, double want, double units) {
    double bound_ = units > 0 ? units * EPS * fabs(want) + 0x1p-149 : 0;
    if (isnan(want))
        return isnan(got);
    if (isinf(got) && fabs(want) + bound_ >= 0x1p128 - 0x1p103)
        return !signbit(got) == !signbit(want);
    if (isinf(want) || isinf(got))
        return 0;
    return fabs((double)got - want) <= bound_ && (want != 0 || got != 0 || !signbit(got) == !signbit(want));
}

static void test_range(const function *f, double p) {
    begin();
    mx_tensor x = wide_range(), y = result(build(f, in(x), p));
    const mx_exact_op *oracle = mx_exact_find(f->op);
    if (!CHECK(oracle != NULL) || !y.data)
        return;
    mx_attrs attrs = {.parameter = p};
    mx_call call = {.op = f->op, .attrs = &attrs, .n_inputs = 1, .n_outputs = 1, .inputs = &x, .outputs = &y};
    int64_t off = -1, over = -1;
    for (int64_t i = 0; i < mx_tensor_count(&x); i++) {
        mx_exact exact = oracle->at(&call, i, NULL);
        if (off < 0 && !agrees(f32(&y, i), exact.value, units_of(f)))
            off = i;
        if (isfinite(exact.value) && isfinite(f32(&y, i)) && !near((double)f32(&y, i), exact.value, exact.bound))
            over = i;   /* lab/ has a bound for every device */
    }
    if (!CHECK(off < 0))
        printf("    %s(%.9g), parameter %g: got %.9g, want %.9g within %g u\n", f->name, (double)f32(&x, off), p,
               (double)f32(&y, off), oracle->at(&call, off, NULL).value, units_of(f));
    CHECK_EQ_INT(over, -1);
    mx_tensor fast = compiled(x);
    if (!CHECK(fast.data && same_bits(&fast, &y)))
        printf("    %s: compiled it differs\n", f->name);
}

/* ---- special values ---------------------------------------------------------------------------------------------- */

typedef struct special {
    mx_op op;
    float x, y;
} special;

static const special specials[] = {
    {MX_OP_RELU, -0.0f, 0.0f}, {MX_OP_RELU, -INFINITY, 0.0f}, {MX_OP_RELU, INFINITY, INFINITY},
    {MX_OP_LEAKY_RELU, -4, -1}, {MX_OP_LEAKY_RELU, 4, 4}, {MX_OP_LEAKY_RELU, -0.0f, -0.0f},
    {MX_OP_LEAKY_RELU, -INFINITY, -INFINITY}, {MX_OP_LEAKY_RELU, INFINITY, INFINITY},
    {MX_OP_SIGMOID, 0, 0.5f}, {MX_OP_SIGMOID, -0.0f, 0.5f}, {MX_OP_SIGMOID, INFINITY, 1},
    {MX_OP_SIGMOID, -INFINITY, 0.0f}, {MX_OP_SIGMOID, -120, 0.0f}, {MX_OP_SIGMOID, 40, 1},
    {MX_OP_TANH, -0.0f, -0.0f}, {MX_OP_TANH, INFINITY, 1}, {MX_OP_TANH, -INFINITY, -1}, {MX_OP_TANH, 1e-40f, 1e-40f},
    {MX_OP_SILU, 0, 0.0f}, {MX_OP_SILU, -0.0f, -0.0f}, {MX_OP_SILU, INFINITY, INFINITY}, {MX_OP_SILU, -INFINITY, NAN},
    {MX_OP_SILU, -3e38f, -0.0f},
    {MX_OP_EXP, 0, 1}, {MX_OP_EXP, -0.0f, 1}, {MX_OP_EXP, INFINITY, INFINITY}, {MX_OP_EXP, -INFINITY, 0.0f},
    {MX_OP_EXP, 89, INFINITY}, {MX_OP_EXP, -104, 0.0f},
    {MX_OP_LOG, 1, 0.0f}, {MX_OP_LOG, 0, -INFINITY}, {MX_OP_LOG, -0.0f, -INFINITY}, {MX_OP_LOG, -1, NAN},
    {MX_OP_LOG, -1e-45f, NAN}, {MX_OP_LOG, INFINITY, INFINITY}, {MX_OP_LOG, -INFINITY, NAN},
    {MX_OP_SQRT, 0, 0.0f}, {MX_OP_SQRT, -0.0f, -0.0f}, {MX_OP_SQRT, 4, 2}, {MX_OP_SQRT, -1, NAN},
    {MX_OP_SQRT, -1e-45f, NAN}, {MX_OP_SQRT, INFINITY, INFINITY}, {MX_OP_SQRT, -INFINITY, NAN},
    {MX_OP_ABS, -0.0f, 0.0f}, {MX_OP_ABS, -INFINITY, INFINITY}, {MX_OP_ABS, -3, 3},
    {MX_OP_NEG, 0, -0.0f}, {MX_OP_NEG, -0.0f, 0.0f}, {MX_OP_NEG, INFINITY, -INFINITY}, {MX_OP_NEG, -3, 3},
};

static int same_float(float a, float b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0; }

static void test_specials(const function *f) {
    begin();
    mx_tensor x = FLOATS(1, MX_COUNT(specials) + 1);
    for (size_t i = 0; i < MX_COUNT(specials); i++)
        ((float *)x.data)[i] = specials[i].op == f->op ? specials[i].x : 1;
    ((float *)x.data)[MX_COUNT(specials)] = NAN;
    mx_tensor y = result(build(f, in(x), 0.25)), fast = compiled(x);
    if (!y.data || !fast.data)
        return;
    for (size_t i = 0; i < MX_COUNT(specials); i++)
        if (specials[i].op == f->op && !CHECK(same_float(f32(&y, (int64_t)i), specials[i].y) &&
                                              same_float(f32(&fast, (int64_t)i), specials[i].y)))
            printf("    %s(%g) is %g, compiled %g: expected %g\n", f->name, (double)specials[i].x,
                   (double)f32(&y, (int64_t)i), (double)f32(&fast, (int64_t)i), (double)specials[i].y);
    CHECK(isnan(f32(&y, MX_COUNT(specials))) && isnan(f32(&fast, MX_COUNT(specials))));
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* The bits of an element depend neither on the shape nor on where it lies. */
static void shape(const function *f, int rank, const int64_t *dims) {
    begin();
    mx_tensor x = floats(4, rank, dims), y = result(build(f, in(x), 0.1)), fast = compiled(x);
    if (!CHECK(y.data && has_dims(&y, rank, dims)) || !CHECK(fast.data && has_dims(&fast, rank, dims)))
        return;
    CHECK(same_bits(&y, &fast));
    int64_t n = mx_tensor_count(&x), at = n ? n - 1 : 0;
    float last = n ? f32(&x, at) : 0, want = n ? f32(&y, at) : 0;
    if (n == 0)
        return;
    begin();
    mx_tensor one = FLOATS(1, 1);
    memcpy(one.data, &last, sizeof(last));
    y = result(build(f, in(one), 0.1));
    CHECK(y.data && same_float(f32(&y, 0), want));
}

static void test_shapes(const function *f) {
    shape(f, 0, NULL);
    shape(f, 1, DIMS(1));
    shape(f, 1, DIMS(0));
    shape(f, 2, DIMS(3, 0));
    shape(f, 3, DIMS(2, 3, 7));
    shape(f, 6, DIMS(2, 1, 3, 2, 2, 5));
    shape(f, 1, DIMS(16384));
    shape(f, 2, DIMS(5, 9973));
}

/* One after the other, an open size between two runs, and the text form. */
static void test_chain(void) {
    begin();
    mx_tensor x = FLOATS(2, 257);
    mx_value v = in(x), chain = mx_graph_leaky_relu(G, mx_graph_tanh(G, mx_graph_neg(G, v)), 0.5);
    chain = mx_graph_log(G, mx_graph_sigmoid(G, mx_graph_sqrt(G, mx_graph_abs(G, chain))));
    mx_tensor y = result(chain);
    CHECK_ELEMENTS(257, f32(&y, i),
                   -log1p(exp(-sqrt(fabs(tanh(-(double)f32(&x, i)) * (f32(&x, i) > 0 ? 0.5 : 1))))),
                   16 * EPS * fabs(want_));
    mx_tensor fast = compiled(x);
    CHECK(same_bits(&fast, &y));
    mx_str text = {0};
    CHECK(mx_graph_print(G, &text) == MXW_OK);
    CHECK(strstr(mx_str_get(&text), " = leaky_relu(%3, slope=0.5)\n") != NULL);
    CHECK(strstr(mx_str_get(&text), " = tanh(%2)\n") != NULL);
    mx_str_free(&text);
}

int main(int argc, char **argv) {
    harness_open("graph-ops-elementwise", argc, argv);
    mx_pool_open(2, &harness_pool);
    for (size_t i = 0; i < MX_COUNT(functions); i++) {
        for (size_t p = 0; p < (functions[i].with ? MX_COUNT(parameters) : 1); p++)
            test_range(&functions[i], parameters[p]);
        test_specials(&functions[i]);
        test_shapes(&functions[i]);
    }
    test_chain();
    end();
    mx_pool_close(harness_pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
