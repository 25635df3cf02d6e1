/* test_graph_capture.c - compiled runs on a device that launches captured graphs: the bits of a launch are those of the
 * same program run node by node, whatever changes from one execute to the next (data, sizes, addresses), also with
 * values between calls in a layout of the device's own. */
#include "small_model.h"

static int is_fake(void) { return strcmp(device_name, "fake") == 0; }

static const mx_program_options *compiled(void) {
    static mx_program_options options;
    options = *there(harness_pool, &weights);
    options.engine = MXW_ENGINE_MAX;
    return &options;
}

static void see_nothing(void *context, const char *name, const mx_tensor *value) {}

/* Two runs of one program with a state each: one may launch captured graphs; the other has a tap, so it runs node by
 * node. */
typedef struct pair {
    mx_graph *graph;
    mx_program *program;
    model sides[2];
} pair;

static pair open_pair(mx_graph *g, int64_t cells) {
    pair p = {.graph = g};
    if (!CHECK(mx_exec_load(g, compiled(), &p.program) == MXW_OK))
        exit(1);
    for (int i = 0; i < 2; i++) {
        model *m = &p.sides[i];
        if (cells) {
            CHECK(mx_state_open(p.program, &m->state) == MXW_OK);
            CHECK(mx_state_add(m->state, "k", MXW_F32, 2, DIMS(cells, D)) == MXW_OK);
            CHECK(mx_state_add(m->state, "v", MXW_F32, 2, DIMS(cells, D)) == MXW_OK);
        }
        CHECK(mx_run_open(p.program, m->state, &m->run) == MXW_OK);
    }
    mx_run_tap(p.sides[1].run, see_nothing, NULL);
    return p;
}

static void close_pair(pair *p) {
    for (int i = 0; i < 2; i++) {
        mx_run_close(p->sides[i].run);
        mx_state_close(p->sides[i].state);
    }
    mx_exec_unload(p->program);
    mx_graph_destroy(p->graph);
}

static void check_same(pair *p) {
    static const char *const names[] = {"logits", "ids", "log_probs"};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        mx_tensor a, b;
        if (!CHECK(mx_run_output(p->sides[0].run, names[i], &a) == MXW_OK &&
                   mx_run_output(p->sides[1].run, names[i], &b) == MXW_OK))
            return;
        CHECK(mx_tensor_bytes(&a) == mx_tensor_bytes(&b) && a.dims[0] == b.dims[0]);
        CHECK(memcmp(a.data, b.data, mx_tensor_bytes(&a)) == 0);
    }
}

static void step_both(pair *p, rows *r, const mx_tensor *features, int64_t first, int64_t n) {
    for (int i = 0; i < 2; i++) {
        bind_rows(&p->sides[i], r, features, first, n);
        CHECK(mx_run_execute(p->sides[i].run) == MXW_OK);
    }
    check_same(p);
}

/* Steps of one size: data changes, the calls do not. */
static void test_steps(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    pair p = open_pair(build_decoder(), ROWS);
    fake_counts before = fake_captures();
    for (int i = 0; i < STEPS; i++)
        step_both(&p, &r, &features, i * SEQ, SEQ);
    if (is_fake()) {
        CHECK_EQ_INT(fake_captures().captured - before.captured, 1);
        CHECK_EQ_INT(fake_captures().launched - before.launched, STEPS - 1);
    }
    close_pair(&p);
    CHECK_EQ_INT(fake_captures().open, 0);
}

/* Alternating sizes keep their captured graphs; more sizes than a run keeps still come out right. */
static void test_sizes(void) {
    static rows r;
    static const int64_t turns[] = {5, 3, 1, 5, 3, 1, 5, 3, 1, 35, 35, 5, 3, 1, 5, 3, 1, 0, 0, 5};
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    pair p = open_pair(build_decoder(), ROWS);
    fake_counts before = fake_captures();
    for (size_t i = 0; i < 9; i++)
        step_both(&p, &r, &features, 0, turns[i]);
    if (is_fake()) {
        CHECK_EQ_INT(fake_captures().captured - before.captured, 3);
        CHECK_EQ_INT(fake_captures().launched - before.launched, 6);
    }
    for (size_t i = 9; i < MX_COUNT(turns); i++)   /* the largest moves the memory of all others */
        step_both(&p, &r, &features, 0, turns[i]);
    for (int round = 0; round < 3; round++)
        for (int64_t n = 1; n <= 30; n++)
            step_both(&p, &r, &features, 0, n);
    close_pair(&p);
    CHECK_EQ_INT(fake_captures().open, 0);
}

/* Indices are checked before a launch too; the run is as good as new afterwards. */
static void test_bad_index(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    pair p = open_pair(build_decoder(), ROWS);
    for (int i = 0; i < 3; i++)
        step_both(&p, &r, &features, i * SEQ, SEQ);
    for (int i = 0; i < 2; i++) {
        int32_t wrong[SEQ] = {0, 0, VOCAB, 0, 0}, cell[SEQ] = {0, 0, 0, -3, 0};
        mx_tensor t = mx_tensor_of(MXW_I32, 1, DIMS(SEQ), i ? cell : wrong);
        bind_rows(&p.sides[0], &r, &features, 0, SEQ);
        CHECK(mx_run_input(p.sides[0].run, i ? "cell" : "token", &t) == MXW_OK);
        CHECK(mx_run_execute(p.sides[0].run) == MXW_E_ARGUMENT);
        if (!CHECK(strstr(mx_error(), i ? "state_write: index[3] is -3" : "gather: index[2] is 333")))
            printf("    %s\n", mx_error());
        mx_tensor none;
        CHECK(mx_run_output(p.sides[0].run, "logits", &none) == MXW_E_STATE);
    }
    for (int i = 3; i < 5; i++)
        step_both(&p, &r, &features, i * SEQ, SEQ);
    close_pair(&p);
}

/* Held bytes are sent once; bound again, with other bytes or more of them, they are sent again. */
static void test_held(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor kept[] = {FLOATS(1, 2, T, D), FLOATS(1, 2, T, D), FLOATS(1, 5, T, D), FLOATS(1, 2, T, D)};
    pair p = open_pair(build_decoder(), ROWS);
    for (size_t turn = 0; turn < MX_COUNT(kept); turn++) {
        bind_rows(&p.sides[0], &r, &kept[turn], 0, SEQ);
        CHECK(mx_run_hold(p.sides[0].run, "features", &kept[turn]) == MXW_OK);
        for (int i = 0; i < 4; i++) {
            bind_rows(&p.sides[1], &r, &kept[turn], 0, SEQ);
            CHECK(mx_run_execute(p.sides[0].run) == MXW_OK && mx_run_execute(p.sides[1].run) == MXW_OK);
            check_same(&p);
        }
    }
    step_both(&p, &r, &kept[1], 0, SEQ);   /* and as an ordinary input again */
    step_both(&p, &r, &kept[0], 0, SEQ);
    close_pair(&p);
}

/* Inputs that come from another run: what it gave last, wherever that lies. */
static void test_pipe(void) {
    static rows r;
    begin();
    fill_rows(&r);
    pair p = open_pair(build_decoder(), ROWS), e = open_pair(build_encoder(), 0);
    for (int i = 0; i < 2; i++) {
        mx_tensor unused = FLOATS(1, 2, T, D);
        bind_rows(&p.sides[i], &r, &unused, 0, SEQ);
        CHECK(mx_run_pipe(p.sides[i].run, "features", e.sides[i].run, "features") == MXW_OK);
    }
    static const int64_t windows[] = {2, 2, 2, 4, 2, 4, 4, 8, 8, 2, 2};
    for (size_t turn = 0; turn < MX_COUNT(windows); turn++) {
        mx_tensor x = FLOATS(1, windows[turn], T, D);
        for (int i = 0; i < 2; i++) {
            CHECK(mx_run_input(e.sides[i].run, "x", &x) == MXW_OK);
            CHECK(mx_run_execute(e.sides[i].run) == MXW_OK);
            CHECK(mx_run_execute(p.sides[i].run) == MXW_OK);
        }
        check_same(&p);
    }
    close_pair(&p);
    close_pair(&e);
}

/* A device that refuses runs node by node, and is not asked again for these sizes. */
static void test_refusal(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    pair p = open_pair(build_decoder(), ROWS);
    fake_counts before = fake_captures();
    fake_refuse_capture(1);
    for (int i = 0; i < 3; i++)
        step_both(&p, &r, &features, i * SEQ, SEQ);
    fake_refuse_capture(0);
    for (int i = 3; i < 5; i++)
        step_both(&p, &r, &features, i * SEQ, SEQ);
    if (is_fake())
        CHECK_EQ_INT(fake_captures().captured, before.captured);
    close_pair(&p);
    CHECK_EQ_INT(fake_captures().open, 0);
}

/* Every allocation of the execute that captures made to fail in turn: the results stay. */
static void test_memory(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    int64_t n = 0;
    for (int failed = 1; failed && n < 1000; n++) {
        pair p = open_pair(build_decoder(), ROWS);
        step_both(&p, &r, &features, 0, SEQ);
        bind_rows(&p.sides[0], &r, &features, SEQ, SEQ);
        mx_mem_fail_after(n);
        mxw_status status = mx_run_execute(p.sides[0].run);
        failed = mx_mem_count() > n;
        mx_mem_fail_after(-1);
        if (CHECK(status == MXW_OK)) {
            bind_rows(&p.sides[1], &r, &features, SEQ, SEQ);
            CHECK(mx_run_execute(p.sides[1].run) == MXW_OK);
            check_same(&p);
            step_both(&p, &r, &features, 2 * SEQ, SEQ);
        }
        close_pair(&p);
    }
    CHECK(n > 3);
    CHECK_EQ_INT(fake_captures().open, 0);
}

/* ---- layouts of the device's own --------------------------------------------------------------------------------- */

static void see_hidden(void *context, const char *name, const mx_tensor *value) {
    if (strcmp(name, "hidden") == 0 && CHECK(value->dtype == MXW_F32 && value->layout == MX_LAYOUT_DENSE) &&
        CHECK_EQ_INT(mx_tensor_count(value), 3 * 24))
        memcpy(context, value->data, mx_tensor_bytes(value));
}

static mx_graph *build_two_linears(void) {
    mx_graph *g = NULL;
    CHECK(mx_graph_create("two linears", &g) == MXW_OK);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 2, DIMS(3, 16)), a = mx_graph_input(g, "a", MXW_F32, 2, DIMS(24, 16));
    mx_value b = mx_graph_input(g, "b", MXW_F32, 2, DIMS(8, 24));
    mx_value hidden = mx_graph_gelu(g, mx_graph_linear(g, x, a, 0), MXW_GELU_ERF);
    mx_graph_output(g, "y", mx_graph_linear(g, mx_graph_name(g, hidden, "hidden"), b, 0));
    CHECK(mx_graph_status(g) == MXW_OK);
    return g;
}

/* Two runs of a graph, both with inputs x, a and b. */
static mx_program *open_two(const mx_graph *g, const mx_tensor *in, mx_run **runs) {
    static const char *const names[] = {"x", "a", "b"};
    mx_program *program;
    if (!CHECK(mx_exec_load(g, compiled(), &program) == MXW_OK))
        exit(1);
    for (int i = 0; i < 2; i++) {
        CHECK(mx_run_open(program, NULL, &runs[i]) == MXW_OK);
        for (int j = 0; j < 3; j++)
            CHECK(mx_run_input(runs[i], names[j], &in[j]) == MXW_OK);
    }
    return program;
}

/* Between two linears a value has a form of the device's own, unless a tap sees it; the results are the same. */
static void test_output_layouts(void) {
    float hidden[3 * 24] = {0};
    begin();
    mx_tensor in[] = {FLOATS(1, 3, 16), FLOATS(1, 24, 16), FLOATS(1, 8, 24)}, plain, laid_out;
    mx_graph *g = build_two_linears();
    mx_run *runs[2];
    mx_program *program = open_two(g, in, runs);
    mx_run_tap(runs[1], see_hidden, hidden);
    for (int i = 0; i < 4; i++) {
        int before = fake_output_layouts();
        CHECK(mx_run_execute(runs[0]) == MXW_OK && mx_run_output(runs[0], "y", &laid_out) == MXW_OK);
        if (is_fake())
            CHECK_EQ_INT(fake_output_layouts() - before, 1);
        before = fake_output_layouts();
        CHECK(mx_run_execute(runs[1]) == MXW_OK && mx_run_output(runs[1], "y", &plain) == MXW_OK);
        CHECK_EQ_INT(fake_output_layouts(), before);
        CHECK(hidden[0] != 0 && fabsf(hidden[0]) < 100);
        CHECK(memcmp(plain.data, laid_out.data, mx_tensor_bytes(&plain)) == 0);
    }
    mx_run_tap(runs[1], NULL, NULL);   /* the same run, no longer looked at */
    int before = fake_output_layouts();
    CHECK(mx_run_execute(runs[1]) == MXW_OK && mx_run_output(runs[1], "y", &plain) == MXW_OK);
    if (is_fake())
        CHECK_EQ_INT(fake_output_layouts() - before, 1);
    CHECK(memcmp(plain.data, laid_out.data, mx_tensor_bytes(&plain)) == 0);
    for (int i = 0; i < 2; i++)
        mx_run_close(runs[i]);
    mx_exec_unload(program);
    mx_graph_destroy(g);
}

/* Queries, keys and values of one linear, or queries of one and the others of another. */
static mx_graph *build_parts(int makers) {
    mx_graph *g = NULL;
    mx_value parts[3];
    CHECK(mx_graph_create("parts", &g) == MXW_OK);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 3, DIMS(2, 5, 16));
    mx_value a = mx_graph_input(g, "a", MXW_F32, 2, DIMS(48, 16));
    mx_value b = mx_graph_input(g, "b", MXW_F32, 2, DIMS(48, 16));
    mx_value one = mx_graph_linear(g, x, a, 0), other = makers == 1 ? one : mx_graph_linear(g, x, b, 0);
    for (int i = 0; i < 3; i++)
        parts[i] = mx_graph_slice(g, i ? other : one, 2, i * 16, i * 16 + 16, 1);
    mx_graph_output(g, "y", mx_graph_attention(g, parts[0], parts[1], parts[2], 2, 0.35, 0));
    CHECK(mx_graph_status(g) == MXW_OK);
    return g;
}

static void ignore(void *context, const char *name, const mx_tensor *value) {
    (void)context;
    (void)name;
    (void)value;
}

/* Parts of a value have a layout of the device's own only if all inputs they are read with are parts of that value. */
static void test_parts(void) {
    for (int makers = 1; makers <= 2; makers++) {
        begin();
        mx_tensor in[] = {FLOATS(1, 2, 5, 16), FLOATS(1, 48, 16), FLOATS(1, 48, 16)}, plain, laid_out;
        mx_graph *g = build_parts(makers);
        mx_run *runs[2];
        mx_program *program = open_two(g, in, runs);
        mx_run_tap(runs[1], ignore, NULL);
        int before = fake_output_layouts();
        CHECK(mx_run_execute(runs[0]) == MXW_OK && mx_run_output(runs[0], "y", &laid_out) == MXW_OK);
        if (is_fake())
            CHECK_EQ_INT(fake_output_layouts() - before, makers == 1);
        CHECK(mx_run_execute(runs[1]) == MXW_OK && mx_run_output(runs[1], "y", &plain) == MXW_OK);
        CHECK(memcmp(plain.data, laid_out.data, mx_tensor_bytes(&plain)) == 0);
        CHECK(((const float *)plain.data)[0] != 0);
        for (int i = 0; i < 2; i++)
            mx_run_close(runs[i]);
        mx_exec_unload(program);
        mx_graph_destroy(g);
    }
}

int main(int argc, char **argv) {
    harness_open("graph-capture", argc, argv);
    test_steps();
    test_sizes();
    test_bad_index();
    test_held();
    test_pipe();
    test_refusal();
    test_output_layouts();
    test_parts();
    if (is_fake())
        test_memory();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
