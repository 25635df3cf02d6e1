/* test_plan.c - a plan and what runs it: taps and names, constants in their forms and shared, views, layouts that
 * follow the sizes, traces, what `graph dump` says, failures in one line, failing memory. */
#include "kit.h"

static mx_value gelu(mx_value x) { return mx_graph_gelu(G, x, MXW_GELU_ERF); }
static mx_value matrix(int64_t n_out, int64_t n_in) { return weight(FLOATS(1, n_out, n_in)); }
static mx_value vector(int64_t n) { return weight(FLOATS(1, n)); }

static const mx_weight_source source = {kit_find_weight, NULL};

static mx_program *load_as(way w) {
    mx_program *program;
    mx_program_options options = {.engine = w.engine, .device = w.device, .weights = &source,
                                  .keep_names = w.keep_names};
    if (!CHECK(mx_exec_load(G, &options, &program) == MXW_OK)) {
        printf("    %s\n", mx_error());
        exit(1);
    }
    return program;
}

static mx_program *load(const char *device, int keep_names) {
    return load_as((way){MXW_ENGINE_MAX, device, keep_names});
}

static mx_run *open_run(mx_program *program, mx_state *memory) {
    mx_run *run;
    CHECK(mx_run_open(program, memory, &run) == MXW_OK);
    for (int i = 0; i < n_leaves; i++)
        if (leaves[i].kind == MX_INPUT)
            CHECK(mx_run_input(run, leaves[i].name, &leaves[i].tensor) == MXW_OK);
    return run;
}

/* ---- taps -------------------------------------------------------------------------------------------------------- */

static struct seen {
    char name[24];
    uint64_t hash;
} taps[2][32];
static int n_taps[2];

static void see(void *context, const char *name, const mx_tensor *value) {
    int which = *(int *)context;
    uint64_t hash = (uint64_t)value->dtype;
    CHECK(mx_tensor_contiguous(value));
    for (int i = 0; i < value->rank; i++)
        hash = hash * 31 + (uint64_t)value->dims[i];
    for (size_t i = 0; i < mx_tensor_bytes(value); i++)
        hash = (hash ^ ((const uint8_t *)value->data)[i]) * 1099511628211u;
    struct seen *seen = &taps[which][n_taps[which]++];
    snprintf(seen->name, sizeof(seen->name), "%s", name);
    seen->hash = hash;
}

static void tap_all(way w, int which) {
    mx_program *program = load_as(w);
    mx_state *memory;
    n_taps[which] = 0;
    CHECK(mx_state_open(program, &memory) == MXW_OK);
    for (int i = 0; i < n_leaves; i++)
        if (leaves[i].kind == MX_STATE)
            CHECK(mx_state_add(memory, leaves[i].name, MXW_F32, leaves[i].tensor.rank, leaves[i].tensor.dims) ==
                  MXW_OK);
    mx_run *run = open_run(program, memory);
    mx_run_tap(run, see, &which);
    if (!CHECK(mx_run_execute(run) == MXW_OK))
        printf("    %s\n", mx_error());
    mx_run_close(run);
    mx_state_close(memory);
    mx_exec_unload(program);
}

static const struct seen *find_tap(int which, const char *name) {
    for (int i = 0; i < n_taps[which]; i++)
        if (strcmp(taps[which][i].name, name) == 0)
            return &taps[which][i];
    return NULL;
}

/* What taps see of G compiled is what they see of it eager: all of it with keep_names, else what is left. */
static void check_taps_at(int line) {
    static const char *const devices[] = {"pattern", "pattern-near", "fake"};
    tap_all((way){MXW_ENGINE_CPU, "cpu", 0}, 0);
    for (size_t d = 0; d < MX_COUNT(devices); d++)
        for (int keep = 0; keep < 2; keep++) {
            tap_all((way){MXW_ENGINE_MAX, devices[d], keep}, 1);
            int good = keep ? n_taps[1] == n_taps[0] : n_taps[1] <= n_taps[0];
            for (int i = 0; i < n_taps[1] && good; i++) {
                const struct seen *want = find_tap(0, taps[1][i].name);
                good = want && want->hash == taps[1][i].hash;
                if (!good)
                    printf("    tap %s\n", taps[1][i].name);
            }
            if (!check_that(good, __FILE__, line, "taps see the same"))
                printf("    %s, keep_names %d: %d taps, %d eager\n", devices[d], keep, n_taps[1], n_taps[0]);
        }
}
#define check_taps() check_taps_at(__LINE__)

static void test_taps(void) {
    fresh();   /* every part of a fused op, rows that lie apart, a norm within */
    mx_value x = mx_graph_name(G, given(FLOATS(1, 2, 5, 8)), "second name of an input");
    mx_value h = mx_graph_name(G, mx_graph_layer_norm(G, x, vector(8), vector(8), 1e-5), "norm");
    mx_value q = mx_graph_name(G, mx_graph_linear(G, h, matrix(8, 8), vector(8)), "q");
    mx_value k = mx_graph_name(G, mx_graph_linear(G, h, matrix(8, 8), 0), "k");
    mx_value v = mx_graph_linear(G, h, matrix(8, 8), vector(8));
    h = mx_graph_name(G, mx_graph_attention(G, q, k, v, 2, 0.5, 1), "heads");
    h = mx_graph_name(G, gelu(mx_graph_name(G, mx_graph_linear(G, h, matrix(8, 8), 0), "linear")), "gelu");
    out(mx_graph_name(G, mx_graph_add(G, h, x), "residual"));
    check_compiled();
    check_taps();
    tap_all((way){MXW_ENGINE_MAX, "pattern", 0}, 1);
    CHECK(find_tap(1, "q") && find_tap(1, "k") && find_tap(1, "residual") && !find_tap(1, "norm"));

    fresh();   /* names of what becomes a constant or a copy; a stack; a state's parts; nobody reads it */
    mx_value c = constant(FLOATS(1, 2, 6)), s = state(2, DIMS(3, 4));
    mx_value w = mx_graph_concat(G, (mx_value[]){matrix(3, 6), matrix(4, 6)}, 2, 0);
    mx_graph_name(G, gelu(c), "folded");
    mx_graph_name(G, mx_graph_reshape(G, matrix(2, 2), 2, DIMS(2, 2)), "copy of a weight");
    mx_graph_name(G, mx_graph_transpose(G, mx_graph_transpose(G, c)), "copy of a constant");
    x = given(FLOATS(1, 2, 6));
    mx_graph_name(G, mx_graph_cast(G, x, MXW_F32), "copy of an input");
    out(mx_graph_linear(G, x, mx_graph_name(G, w, "stack"), 0));
    mx_graph_name(G, mx_graph_transpose(G, s), "before");
    s = mx_graph_state_write(G, s, given(FLOATS(1, 2, 4)), given(INTS(3, 2)));
    mx_graph_name(G, s, "written");
    mx_graph_name(G, mx_graph_slice(G, mx_graph_softmax(G, x), 1, 1, 3, 1), "part");
    check_compiled();
    check_taps();
    CHECK(find_tap(0, "folded") && find_tap(0, "stack") && find_tap(0, "copy of a weight"));

    fresh();   /* a name that becomes free is not given to the output of that name */
    x = given(FLOATS(1, 2, 6));
    mx_graph_name(G, gelu(mx_graph_name(G, mx_graph_linear(G, x, matrix(3, 6), 0), "out0")), "gelu");
    out(mx_graph_softmax(G, x));
    out(gelu(mx_graph_linear(G, x, matrix(3, 6), 0)));
    check_compiled();
    check_taps();
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static size_t constants_of(const char *device, mx_form form, size_t *in_place) {
    mx_plan *plan;
    size_t n = 0;
    const mx_device *found;
    *in_place = 0;
    CHECK(mx_device_find(device, &found) == MXW_OK);
    CHECK(mx_compile(G, &(mx_compile_options){found, 0}, &plan) == MXW_OK);
    CHECK(mx_plan_load(plan, &source, NULL, NULL) == MXW_OK);
    for (size_t i = 0; i < plan->n_constants; i++)
        if (plan->constants[i].form == form) {
            n++;
            *in_place += plan->constants[i].block == NULL;
        }
    mx_plan_free(plan);
    return n;
}

static void test_constants(void) {
    size_t in_place;
    fresh();   /* a weight read five times: packed once for each op that packs it, plain once, as it lies once */
    mx_value w = weight(F16S(5, 8)), x = given(FLOATS(1, 2, 8)), at = given(INTS(5, 4));
    out(mx_graph_linear(G, x, w, 0));
    out(mx_graph_linear(G, given(FLOATS(1, 3, 8)), w, vector(5)));
    out(mx_graph_matmul(G, given(FLOATS(1, 2, 5)), w));
    out(mx_graph_sub(G, w, given(FLOATS(1, 5, 8))));
    out(mx_graph_mul(G, w, given(FLOATS(1, 5, 8))));
    out(mx_graph_gather(G, w, at));
    CHECK_EQ_INT(constants_of("pattern", MX_FORM_PACKED, &in_place), 2);
    CHECK_EQ_INT(constants_of("pattern", MX_FORM_RAW, &in_place), 2);   /* and the bias */
    CHECK_EQ_INT(constants_of("pattern", MX_FORM_F32, &in_place), 1);
    CHECK_EQ_INT(constants_of("pattern-near", MX_FORM_RAW, &in_place), 2);
    CHECK_EQ_INT(in_place, 2);
    CHECK_EQ_INT(constants_of("fake", MX_FORM_F32, &in_place), 2);
    pattern_seen = (pattern_counts){0};
    check_compiled();
    CHECK(pattern_seen.packed && pattern_seen.raw);

    fresh();   /* views that cannot be used where they lie: apart, of another type, at an odd address */
    char *odd = block(41);
    mx_tensor t = FLOATS(1, 10);
    memcpy(odd + 1, t.data, 40);
    x = given(FLOATS(1, 10));
    out(mx_graph_sub(G, x, weight(mx_tensor_of(MXW_F32, 1, DIMS(10), odd + 1))));
    out(mx_graph_sub(G, given(FLOATS(1, 2, 5)), weight(apart(FLOATS(1, 2, 5)))));
    out(mx_graph_sub(G, x, weight(BF16S(10))));
    out(mx_graph_gather(G, weight(apart(F16S(5, 3))), at = given(INTS(5, 4))));
    out(mx_graph_gather(G, mx_graph_concat(G, (mx_value[]){weight(F16S(5, 3)), weight(BF16S(2, 3))}, 2, 0), at));
    constants_of("pattern-near", MX_FORM_F32, &in_place);
    CHECK_EQ_INT(in_place, 0);
    check_compiled();

    fresh();   /* raw ones can be used wherever they lie: an embedding is too large to be kept twice */
    at = given(INTS(5, 4));
    mx_tensor table = F16S(5, 3), wide_table = FLOATS(1, 5, 3);
    char *odd_half = block(31), *odd_float = block(61);
    memcpy(odd_half + 1, table.data, 30);
    memcpy(odd_float + 1, wide_table.data, 60);
    out(mx_graph_gather(G, weight(mx_tensor_of(MXW_F16, 2, DIMS(5, 3), odd_half + 1)), at));
    out(mx_graph_gather(G, weight(mx_tensor_of(MXW_F32, 2, DIMS(5, 3), odd_float + 1)), at));
    CHECK_EQ_INT(constants_of("pattern-near", MX_FORM_RAW, &in_place), 2);
    CHECK_EQ_INT(in_place, 2);
    CHECK_EQ_INT(constants_of("pattern", MX_FORM_RAW, &in_place), 2);
    CHECK_EQ_INT(in_place, 0);
    check_compiled();
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

static void check_refused(mxw_engine engine, const char *device, mxw_precision precision, const char *line) {
    mx_program *program;
    mx_program_options options = {.engine = engine, .device = device, .weights = &source,
                                  .precision = precision};
    CHECK(mx_exec_load(G, &options, &program) == MXW_E_UNSUPPORTED && !program);
    if (!CHECK(strstr(mx_error(), line)))
        printf("    %s\n", mx_error());
}

/* The precision of a program reaches the packing of its weights and its calls: the pattern device refuses a weight that
 * was packed for another. Programs share what is packed alike, and only that. */
static void test_precision(void) {
    mx_program *programs[3];
    float first[2 * 5];
    fresh();
    mx_value x = given(FLOATS(1, 2, 8));
    out(mx_graph_linear(G, x, weight(F16S(5, 8)), 0));
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = "pattern", .weights = &source};
    for (int i = 0; i < 3; i++) {
        options.precision = i ? MXW_PRECISION_F16 : MXW_PRECISION_EXACT;
        options.like = i ? programs[i - 1] : NULL;
        pattern_seen = (pattern_counts){0};
        CHECK(mx_exec_load(G, &options, &programs[i]) == MXW_OK);
        CHECK_EQ_INT(pattern_seen.made, i < 2);
        mx_run *run = open_run(programs[i], NULL);
        CHECK(mx_run_input(run, leaves[0].name, &leaves[0].tensor) == MXW_OK && mx_run_execute(run) == MXW_OK);
        mx_tensor y;
        if (CHECK(mx_run_output(run, "out0", &y) == MXW_OK && mx_tensor_bytes(&y) == sizeof(first)) && i == 0)
            memcpy(first, y.data, sizeof(first));
        CHECK(memcmp(first, y.data, sizeof(first)) == 0);
        mx_run_close(run);
    }
    for (int i = 2; i >= 0; i--)
        mx_exec_unload(programs[i]);
    check_refused(MXW_ENGINE_MAX, "cpu", MXW_PRECISION_F16, "precision f16 is not supported by device cpu");
    check_refused(MXW_ENGINE_MAX, "fake", MXW_PRECISION_F16, "precision f16 is not supported by device fake");
    check_refused(MXW_ENGINE_CPU, "cpu", MXW_PRECISION_F16, "precision f16 is not supported by engine cpu");
    check_refused(MXW_ENGINE_GPU, "pattern", MXW_PRECISION_F16, "precision f16 is not supported by engine gpu");
    check_refused(MXW_ENGINE_CPU, "cpu", MXW_PRECISION_INT8,
                  "precision int8 is not supported by engine cpu: expected engine max");
    check_refused(MXW_ENGINE_MAX, "pattern", MXW_PRECISION_INT8,
                  "precision int8 is not supported by device pattern: expected device cpu or a GPU of compute "
                  "capability 9.0");
    check_refused(MXW_ENGINE_MAX, "cpu", MXW_PRECISION_F8,
                  "precision f8 is not supported by device cpu: expected a GPU of compute capability 9.0");
    check_refused(MXW_ENGINE_GPU, "pattern", MXW_PRECISION_F8,
                  "precision f8 is not supported by engine gpu: expected engine max");
}

/* ---- rows of an entry -------------------------------------------------------------------------------------------- */

static mx_program *load_like(const mx_program *like) {
    mx_program *program;
    pattern_seen = (pattern_counts){0};
    CHECK(mx_exec_load(G, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = "pattern", .weights = &source,
                                                .like = like},
                       &program) == MXW_OK);
    return program;
}

/* A product of x, f32 [dims], of which those below 0 are open. */
static void build_product(int rank, const int64_t *dims) {
    int64_t sizes[MX_MAX_RANK];
    fresh();
    for (int i = 0; i < rank; i++)
        sizes[i] = dims[i] < 0 ? mx_graph_size(G, "n", 64) : dims[i];
    mx_value x = mx_graph_input(G, "x", MXW_F32, rank, sizes);
    out(mx_graph_linear(G, x, matrix(5, 8), 0));
}

/* They follow from the graph's sizes, never from those of a run. A weight is shared whatever they are. */
static void test_entry_rows(void) {
    static const struct {
        int rank;
        int64_t dims[MX_MAX_RANK], rows;
    } cases[] = {{1, {8}, 1},           {2, {-1, 8}, 1},        {2, {7, 8}, 1},        {3, {-1, 3, 8}, 3},
                 {3, {4, 3, 8}, 3},     {3, {-1, -1, 8}, 1},    {3, {-1, 0, 8}, 1},    {4, {-1, 2, 3, 8}, 6},
                 {4, {-1, -1, 3, 8}, 3}, {4, {3, 2, -1, 8}, 2}};
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        build_product(cases[i].rank, cases[i].dims);
        mx_exec_unload(load_like(NULL));
        CHECK_EQ_INT(pattern_seen.made, 1);
        CHECK_EQ_INT(pattern_seen.entry_rows, cases[i].rows);
    }

    fresh();   /* of a convolution: its positions */
    out(mx_graph_conv1d(G, mx_graph_input(G, "x", MXW_F32, 3, DIMS(mx_graph_size(G, "n", 64), 9, 4)),
                        weight(FLOATS(1, 5, 4, 3)), 0, 2, 1));
    mx_exec_unload(load_like(NULL));
    CHECK_EQ_INT(pattern_seen.entry_rows, 9);

    for (int same = 0; same < 2; same++) {
        fresh();   /* within a program */
        mx_value w = matrix(5, 8), n = mx_graph_size(G, "n", 64);
        out(mx_graph_linear(G, mx_graph_input(G, "x", MXW_F32, 3, DIMS(n, 3, 8)), w, 0));
        out(mx_graph_linear(G, mx_graph_input(G, "y", MXW_F32, 3, DIMS(n, same ? 3 : 1, 8)), w, 0));
        mx_exec_unload(load_like(NULL));
        CHECK_EQ_INT(pattern_seen.made, 1);

        build_product(3, DIMS(-1, 3, 8));   /* between programs */
        mx_program *first = load_like(NULL);
        if (same)
            build_product(4, DIMS(-1, 1, 3, 8));
        else
            build_product(2, DIMS(-1, 8));
        mx_exec_unload(load_like(first));
        CHECK_EQ_INT(pattern_seen.made, 0);
        mx_exec_unload(first);
    }
}

/* ---- views ------------------------------------------------------------------------------------------------------- */

static void test_views(void) {
    fresh();   /* parts of bytes begin anywhere: they are copied, since a device may want four at once */
    mx_value x = mx_graph_cast(G, given(FLOATS(1, 7)), MXW_U8), y = mx_graph_cast(G, given(FLOATS(1, 7, 3)), MXW_F16);
    out(mx_graph_cast(G, mx_graph_slice(G, x, 0, 1, 6, 1), MXW_F32));
    out(mx_graph_cast(G, mx_graph_slice(G, y, 0, 1, 6, 1), MXW_F32));
    check_compiled();

    fresh();   /* parts of parts, of both axes, read by what takes rows apart and by what does not */
    x = mx_graph_softmax(G, given(FLOATS(1, 6, 9)));
    mx_value part = mx_graph_slice(G, x, 1, 2, 8, 1), rows = mx_graph_slice(G, part, 0, 1, 5, 1);
    out(mx_graph_softmax(G, rows));
    out(mx_graph_transpose(G, mx_graph_slice(G, rows, 1, 1, 4, 1)));
    out(mx_graph_reshape(G, mx_graph_slice(G, x, 1, 0, 3, 1), 1, DIMS(-1)));
    out(mx_graph_softmax(G, mx_graph_slice(G, x, 1, 3, 3, 1)));
    out(mx_graph_softmax(G, mx_graph_slice(G, x, 1, -4, INT64_MAX, 1)));
    out(mx_graph_softmax(G, mx_graph_slice(G, x, 1, 0, 8, 2)));
    check_compiled();

    fresh();   /* what follows from open sizes is cut where the run says; a part is an output; another outlives it */
    int64_t n = mx_graph_size(G, "n", 9);
    x = mx_graph_softmax(G, given_as(FLOATS(1, 5, 4), DIMS(n, 4)));
    out(mx_graph_slice(G, x, 0, -2, INT64_MAX, 1));
    part = mx_graph_slice(G, x, 0, 1, 4, 1);
    mx_value other = gelu(given(FLOATS(1, 5, 4)));
    out(mx_graph_add(G, gelu(gelu(other)), given(FLOATS(1, 5, 4))));
    out(mx_graph_reduce(G, part, MXW_REDUCE_MAX, 0));
    check_compiled();

    fresh();   /* of an input, a weight, a state: no memory of the plan, so they are copied */
    mx_value s = state(2, DIMS(4, 3));
    mx_value before = mx_graph_slice(G, s, 0, 1, 3, 1);
    mx_graph_state_write(G, s, given(FLOATS(1, 2, 3)), given(INTS(4, 2)));
    out(before);
    out(mx_graph_slice(G, given(FLOATS(1, 4, 3)), 0, 1, 3, 1));
    out(mx_graph_reshape(G, weight(F16S(4, 3)), 1, DIMS(-1)));
    check_compiled();
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static mx_value build_open(void) {
    int64_t n = mx_graph_size(G, "n", 64);
    mx_value x = given_as(FLOATS(1, 3, 8), DIMS(n, 8)), h = mx_graph_layer_norm(G, x, vector(8), vector(8), 1e-5);
    h = gelu(mx_graph_linear(G, h, matrix(16, 8), vector(16)));
    h = mx_graph_add(G, mx_graph_linear(G, h, matrix(8, 16), 0), x);
    return mx_graph_concat(G, (mx_value[]){h, mx_graph_softmax(G, h)}, 2, 0);
}

/* Sizes up and down and the same again: the bits of a run that never saw another size; nothing allocated when they
 * stay, inputs elsewhere each time. */
static void test_layouts(void) {
    static const int64_t counts[] = {3, 3, 40, 1, 0, 64, 3, 3};
    fresh();
    out(build_open());
    mx_program *compiled = load("pattern-near", 0), *eager = load_as((way){MXW_ENGINE_CPU, "cpu", 0});
    mx_run *run = open_run(compiled, NULL), *plain = open_run(eager, NULL);
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mx_tensor x = FLOATS(1, counts[i], 8), got, want;
        CHECK(mx_run_input(run, leaves[0].name, &x) == MXW_OK && mx_run_input(plain, leaves[0].name, &x) == MXW_OK);
        CHECK(mx_run_execute(plain) == MXW_OK);
        int same = i && counts[i] == counts[i - 1];
        if (same)
            mx_mem_fail_after(0);
        CHECK(mx_run_execute(run) == MXW_OK);
        mx_mem_fail_after(-1);
        CHECK(mx_run_output(run, "out0", &got) == MXW_OK && mx_run_output(plain, "out0", &want) == MXW_OK);
        CHECK(got.dims[0] == 2 * counts[i] && same_bits(&got, &want));
    }
    mx_run_close(run);
    mx_run_close(plain);
    mx_exec_unload(compiled);
    mx_exec_unload(eager);
}

/* A run that failed is as good as new; a pipe from one compiled run into another; a session's memory moved. */
static void test_failures(void) {
    fresh();
    mx_value w = weight(F16S(5, 8)), at = given(INTS(5, 4));
    out(mx_graph_linear(G, mx_graph_name(G, mx_graph_gather(G, w, at), "rows"), matrix(3, 8), 0));
    mx_program *program = load("pattern", 0);
    mx_run *run = open_run(program, NULL);
    mx_tensor t, bad = mx_tensor_of(MXW_I32, 1, DIMS(4), (int32_t[]){0, 5, 1, 2});
    CHECK(mx_run_execute(run) == MXW_OK);
    CHECK(mx_run_input(run, leaves[1].name, &bad) == MXW_OK && mx_run_execute(run) == MXW_E_ARGUMENT);
    if (!CHECK(strstr(mx_error(), "graph test: %") && strstr(mx_error(), " rows: gather: index[1] is 5")))
        printf("    %s\n", mx_error());
    CHECK(mx_run_output(run, "out0", &t) == MXW_E_STATE);
    CHECK(mx_run_input(run, leaves[1].name, &leaves[1].tensor) == MXW_OK && mx_run_execute(run) == MXW_OK);
    CHECK(mx_run_output(run, "out0", &t) == MXW_OK);
    mx_run_close(run);
    mx_exec_unload(program);

    mx_weight_source none = {kit_find_weight, NULL};   /* a weight that is not there, or of another shape */
    fresh();
    out(gelu(mx_graph_linear(G, given(FLOATS(1, 2, 8)), mx_graph_weight(G, "missing", 2, DIMS(4, 8)), 0)));
    CHECK(mx_exec_load(G, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = "pattern", .weights = &none},
                       &program) == MXW_E_MISSING && strstr(mx_error(), "tensor missing is not there"));
    fresh();
    mx_tensor wrong = FLOATS(1, 4, 9);
    mx_value x = given(FLOATS(1, 2, 8));
    out(gelu(mx_graph_linear(G, x, mx_graph_weight(G, add_leaf(MX_WEIGHT, &wrong), 2, DIMS(4, 8)), 0)));
    CHECK(mx_exec_load(G, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = "pattern", .weights = &none},
                       &program) == MXW_E_FORMAT && strstr(mx_error(), "weight w1 is f32 [4, 9]: expected f32 [4, 8]"));
}

static void test_pipes(void) {
    fresh();
    mx_value x = given(FLOATS(1, 6, 4));
    out(mx_graph_slice(G, mx_graph_softmax(G, x), 0, 1, 5, 1));
    mx_program *first = load("pattern", 0);
    mx_run *from = open_run(first, NULL);
    mx_graph *g;
    CHECK(mx_graph_create("second", &g) == MXW_OK);
    mx_value y = mx_graph_input(g, "y", MXW_F32, 2, DIMS(4, 4));
    mx_graph_output(g, "sum", mx_graph_add(g, y, y));
    mx_graph_output(g, "itself", y);
    mx_program *second;
    mx_run *to;
    CHECK(mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_MAX, .device = "pattern"}, &second) == MXW_OK);
    CHECK(mx_run_open(second, NULL, &to) == MXW_OK && mx_run_pipe(to, "y", from, "out0") == MXW_OK);
    CHECK(mx_run_execute(from) == MXW_OK && mx_run_execute(to) == MXW_OK);
    mx_tensor want, sum, itself;
    CHECK(mx_run_output(from, "out0", &want) == MXW_OK && mx_run_output(to, "sum", &sum) == MXW_OK);
    CHECK(mx_run_output(to, "itself", &itself) == MXW_OK && same_bits(&want, &itself));
    CHECK_ELEMENTS(16, f32(&sum, i), 2 * (double)f32(&want, i), 0);
    mx_run_close(to);
    mx_run_close(from);
    mx_exec_unload(second);
    mx_exec_unload(first);
    mx_graph_destroy(g);
}

/* ---- traces, explanations ---------------------------------------------------------------------------------------- */

static char events[256];
static double flops;

static void traced(void *context, const mxw_trace_event *event) {
    size_t at = strlen(events);
    CHECK_STR(event->graph, "test");
    CHECK(event->duration_ns >= 0 && (event->bytes > 0 || strcmp(event->op, "run") == 0));
    CHECK_STR(event->device, "pattern");
    flops += event->flops;
    snprintf(events + at, sizeof(events) - at, "%s/%s%s%s ", event->op, event->kernel, event->name ? "/" : "",
             event->name ? event->name : "");
}

static void test_trace(void) {
    fresh();   /* one event for each call: views and what was made at load make none */
    mx_value x = given(FLOATS(1, 2, 5, 8));
    mx_value q = mx_graph_linear(G, x, matrix(8, 8), vector(8)), k = mx_graph_linear(G, x, matrix(8, 8), 0);
    out(mx_graph_attention(G, q, k, x, 2, 0.5, 0));
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = "pattern", .weights = &source, .trace = traced};
    mx_program *program;
    CHECK(mx_exec_load(G, &options, &program) == MXW_OK);
    mx_run *run = open_run(program, NULL);
    CHECK(mx_run_execute(run) == MXW_OK);
    CHECK_STR(events, "fused_linear/pattern attention/plain/out0 run/compiled ");
    CHECK(flops == 2.0 * 2 * 5 * 8 * 16 + 4.0 * 2 * 5 * 5 * 8);
    mx_run_close(run);
    mx_exec_unload(program);
}

static void test_explain(void) {
    mx_str text = {0};
    fresh();
    out(build_open());
    mx_program *program = load("pattern", 0);
    CHECK(mx_exec_explain(program, "n=5", &text) == MXW_OK);
    static const char *const lines[] = {
        "compiled for pattern: 7 nodes, canonical 7, fold 7, common 7, dead 7, promote 7, gelu 6, residual 5, stack 5, "
        "norm 4, select 4\n",
        " = fused_linear(%", ", gelu erf, eps=1e-05)\n", "plan at n=5\n", "fused_linear: pattern, 320 bytes at ",
        "concat: plain, 320 bytes at ", "constant inputs: 2 f32, 1 raw, 2 packed, 0 of them used where they lie\n",
        " bytes in one arena; 1600 bytes without the plan\n"};
    for (size_t i = 0; i < MX_COUNT(lines); i++)
        if (!CHECK(strstr(text.data, lines[i])))
            printf("    no \"%s\" in:\n%s", lines[i], text.data);
    mx_str_free(&text);
    static const struct {
        const char *sizes, *says;
    } wrong[] = {{"n=65", "size n is 65: expected 0 to 64"}, {"n=-1", "size n"}, {"n=", "size n"}, {"n=3x", "size n"},
                 {"m=3", "no open size m"}, {"n=99999999999999999999", "size n"}, {"n", "n"}};
    for (size_t i = 0; i < MX_COUNT(wrong); i++) {
        CHECK(mx_exec_explain(program, wrong[i].sizes, &text) == MXW_E_ARGUMENT);
        if (!CHECK(strstr(mx_error(), wrong[i].says)))
            printf("    %s\n", mx_error());
        mx_str_free(&text);
    }
    CHECK(mx_exec_explain(program, NULL, &text) == MXW_OK && strstr(text.data, "plan at every open size 1\n"));
    mx_str_free(&text);
    mx_exec_unload(program);
    program = load_as((way){MXW_ENGINE_CPU, "cpu", 0});   /* nothing to say of an eager one */
    CHECK(mx_exec_explain(program, "n=5", &text) == MXW_OK && text.n == 0);
    mx_str_free(&text);
    mx_exec_unload(program);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

static mx_device unsteady;
static int n_answers;

/* More room than was asked for at first. */
static mx_packing unsteady_packing(const mx_device *device, const mx_weight_use *use) {
    mx_packing packing = pattern_near_device()->packing(device, use);
    packing.bytes += n_answers++ ? 4 : 0;
    return packing;
}

/* A weight is not packed into a block that was made for another form of it. */
static void test_unsteady_packing(void) {
    mx_program_options options = {.engine = MXW_ENGINE_MAX, .device = "unsteady", .weights = &source};
    mx_program *program = NULL;
    fresh();
    out(mx_graph_linear(G, given(FLOATS(1, 3, 4)), weight(FLOATS(1, 5, 4)), 0));
    CHECK_EQ_INT(mx_exec_load(G, &options, &program), MXW_E_INTERNAL);
    CHECK(strstr(mx_error(), "linear: the device would pack the weight at input 1 in another layout now"));
    CHECK(program == NULL && n_answers == 2);
}

int main(void) {
    kit_open();
    unsteady = *pattern_near_device();
    unsteady.info.id = "unsteady";
    unsteady.packing = unsteady_packing;
    mx_device_add(&unsteady);
    test_unsteady_packing();
    test_taps();
    test_constants();
    test_precision();
    test_entry_rows();
    test_views();
    test_layouts();
    test_failures();
    test_pipes();
    test_trace();
    test_explain();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
