/* test_run.c - running: states and caches, open sizes, pipes and taps; what is wrong with the data is told in one line;
 * failing memory. */
#include "small_model.h"

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void test_state(void) {
    mx_graph *g;
    begin();
    CHECK(mx_graph_create("cache", &g) == MXW_OK);
    int64_t n = mx_graph_size(g, "n", 8);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 2, DIMS(n, 2)), at = mx_graph_input(g, "at", MXW_I32, 1, &n);
    mx_value s = mx_graph_state(g, "s", MXW_F32, 2, DIMS(4, 2));
    mx_value before = mx_graph_reshape(g, s, 1, DIMS(8));
    mx_value after = mx_graph_state_write(g, s, x, at);
    mx_graph_output(g, "before", before);
    mx_graph_output(g, "after", after);
    mx_graph_output(g, "sum", mx_graph_reduce(g, after, MXW_REDUCE_SUM, 0));
    mx_program *program;
    mx_state *one, *two;
    mx_run *a, *b;
    CHECK(mx_exec_load(g, there(NULL, NULL), &program) == MXW_OK);
    mx_graph_destroy(g);   /* the program holds it */
    CHECK(mx_state_open(program, &one) == MXW_OK && mx_state_open(program, &two) == MXW_OK);
    CHECK(mx_state_add(one, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_OK);
    CHECK(mx_state_add(one, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_E_ARGUMENT);
    CHECK(mx_state_add(two, "s", MXW_F32, 2, DIMS(4, 2)) == MXW_OK);
    CHECK(mx_run_open(program, one, &a) == MXW_OK && mx_run_open(program, two, &b) == MXW_OK);
    mx_tensor rows_ = mx_tensor_of(MXW_F32, 2, DIMS(3, 2), (float[]){1, 2, 3, 4, 5, 6});
    mx_tensor index = mx_tensor_of(MXW_I32, 1, DIMS(3), (int32_t[]){3, 0, 3});
    mx_tensor t;
    mx_run_input(a, "x", &rows_);
    mx_run_input(a, "at", &index);
    CHECK(mx_run_execute(a) == MXW_OK);
    CHECK(mx_run_output(a, "before", &t) == MXW_OK);
    CHECK_ELEMENTS(8, f32(&t, i), 0, 0);
    CHECK(mx_run_output(a, "after", &t) == MXW_OK);   /* the later of two writes to a row stays */
    CHECK(memcmp(t.data, (float[]){3, 4, 0, 0, 0, 0, 5, 6}, 32) == 0);
    mx_tensor one_row = mx_tensor_of(MXW_F32, 2, DIMS(1, 2), (float[]){7, 8});
    mx_tensor one_index = mx_tensor_of(MXW_I32, 1, DIMS(1), (int32_t[]){1});
    mx_run_input(a, "x", &one_row);
    mx_run_input(a, "at", &one_index);
    CHECK(mx_run_execute(a) == MXW_OK);
    mx_run_output(a, "before", &t);
    CHECK(memcmp(t.data, (float[]){3, 4, 0, 0, 0, 0, 5, 6}, 32) == 0);
    mx_run_output(a, "sum", &t);
    CHECK(f32(&t, 0) == 15 && f32(&t, 1) == 18);
    mx_run_input(b, "x", &one_row);   /* another session knows nothing of it */
    mx_run_input(b, "at", &one_index);
    CHECK(mx_run_execute(b) == MXW_OK);
    mx_run_output(b, "sum", &t);
    CHECK(f32(&t, 0) == 7 && f32(&t, 1) == 8);
    mx_run_close(a);
    mx_run_close(b);
    mx_state_close(one);
    mx_state_close(two);
    mx_exec_unload(program);
}

/* ---- what is wrong with the data --------------------------------------------------------------------------------- */

static void test_index_errors(void) {
    static const struct {
        const char *input;
        int at;
        int32_t value;
        const char *says;
    } cases[] = {
        {"token", 2, VOCAB, "embedding: gather: index[2] is 333: expected 0 to 332"},
        {"token", 0, -1, "gather: index[0] is -1"},
        {"cell", 1, ROWS + 3, "state_write: index[1] is 38: expected 0 to 37"},
        {"seq", 4, SEQ, "attention_cached: seq[4] is 5: expected 0 to 4"},
        {"pos", 3, CTX, "attention_cached: pos[3] is 32: expected 0 to 31"},
        {"pos", 3, STEPS, "attention_cached: cells[3][7] is -1: expected 0 to 37"},
        {"window", 0, 2, "attention_window: window[0] is 2: expected 0 to 1"},
        {"window", 0, INT32_MIN, "attention_window: window[0] is -2147483648"},
    };
    static rows r;
    begin();
    mx_tensor features = FLOATS(1, 2, T, D);
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        model m = open_model(build_decoder(), NULL, ROWS + 3);
        int32_t changed[SEQ];
        fill_rows(&r);
        bind_rows(&m, &r, &features, 0, SEQ);
        const int32_t *from = strcmp(cases[i].input, "token") == 0  ? r.token
                              : strcmp(cases[i].input, "cell") == 0 ? r.cell
                              : strcmp(cases[i].input, "seq") == 0  ? r.seq
                              : strcmp(cases[i].input, "pos") == 0  ? r.pos
                                                                    : r.window;
        memcpy(changed, from, sizeof(changed));
        changed[cases[i].at] = cases[i].value;
        mx_tensor t = mx_tensor_of(MXW_I32, 1, DIMS(SEQ), changed);
        CHECK(mx_run_input(m.run, cases[i].input, &t) == MXW_OK);
        CHECK(mx_run_execute(m.run) == MXW_E_ARGUMENT);
        if (!CHECK(strstr(mx_error(), cases[i].says) && strstr(mx_error(), "graph decoder: %")))
            printf("    %s\n", mx_error());
        mx_tensor none;
        CHECK(mx_run_output(m.run, "logits", &none) == MXW_E_STATE);
        bind_rows(&m, &r, &features, 0, SEQ);   /* the run is as good as new */
        CHECK(mx_run_execute(m.run) == MXW_OK);
        close_model(&m);
    }
}

static void test_binding_errors(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D), t;
    model m = open_model(build_decoder(), NULL, ROWS);
#define SAYS(status, text)                                                                                             \
    if (!CHECK((status) < 0 && strstr(mx_error(), text)))                                                              \
    printf("    %s\n", mx_error())
    SAYS(mx_run_execute(m.run), "input token is not bound");
    SAYS(mx_run_input(m.run, "tokens", &features), "graph decoder has no input tokens");
    SAYS(mx_run_input(m.run, "token", &features), "input token is f32 [2, 150, 48]: expected i32 [rows]");
    SAYS(mx_run_input(m.run, "token", &(mx_tensor){.dtype = MXW_I32, .rank = 1, .dims = {-4}}), "size 0 is -4");
    SAYS(mx_run_size(m.run, "k", VOCAB + 1), "size k is 334: expected 0 to 333");
    SAYS(mx_run_size(m.run, "j", 1), "no open size j");
    SAYS(mx_run_output(m.run, "logit", &t), "no output logit");
    SAYS(mx_run_pipe(m.run, "features", m.run, "nothing"), "no output nothing");
    bind_rows(&m, &r, &features, 0, 4);
    t = mx_tensor_of(MXW_I32, 1, DIMS(3), r.token);
    mx_run_input(m.run, "pos", &t);
    SAYS(mx_run_execute(m.run), "input pos: size rows is 3: expected 4");
    bind_rows(&m, &r, &features, 0, 4);
    t = FLOATS(1, 2, T + 1, D);
    mx_run_input(m.run, "features", &t);
    SAYS(mx_run_execute(m.run), "input features: size 1 is 151: expected 150");
    t = FLOATS(1, 9, T, D);
    mx_run_input(m.run, "features", &t);
    SAYS(mx_run_execute(m.run), "size windows is 9: expected 0 to 8");
    close_model(&m);

    mx_graph *g = build_decoder();   /* no session's memory; a size that nothing gives */
    m = open_model(g, NULL, 0);
    bind_rows(&m, &r, &features, 0, 4);
    SAYS(mx_run_execute(m.run), "state k is not there");
    close_model(&m);
    begin();
    mx_value best[2];
    mx_tensor x = FLOATS(1, 4);
    mx_graph_top_k(G, in(x), mx_graph_size(G, "k", 4), best);
    mx_graph_output(G, "best", best[0]);
    mx_program *program;
    mx_run *run;
    CHECK(mx_exec_load(G, there(NULL, NULL), &program) == MXW_OK);
    CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
    mx_run_input(run, "in0", &x);
    SAYS(mx_run_execute(run), "size k is not known");
    mx_run_size(run, "k", 0);
    SAYS(mx_run_execute(run), "top_k: k is 0");
    mx_run_size(run, "k", 2);
    CHECK(mx_run_execute(run) == MXW_OK);
    CHECK_EQ_INT(mx_graph_gelu(G, 1, MXW_GELU_ERF), 0);   /* a graph that a program reads takes nothing more */
    CHECK(strstr(mx_graph_error(G), "a program was made of it"));
    mx_run_close(run);
    mx_exec_unload(program);
}

static void test_load_errors(void) {
    static const struct {
        mx_program_options options;
        mxw_status status;
        const char *says;
    } cases[] = {
        {{.engine = MXW_ENGINE_MAX}, MXW_E_MISSING, "weight conv: the program was given no weights"},
        {{.engine = MXW_ENGINE_GPU, .device = "cpu"}, MXW_E_ARGUMENT, "engine gpu runs on a CUDA device, not on cpu"},
        {{.engine = (mxw_engine)9}, MXW_E_ARGUMENT, "engine 9 is unknown"},
        {{.device = "tpu"}, MXW_E_ARGUMENT, "device tpu: expected auto, cpu, cuda or cuda:N"},
        {{.device = "cuda:x"}, MXW_E_ARGUMENT, "device cuda:x: expected"},
        {{.device = "cuda:-1"}, MXW_E_ARGUMENT, "device cuda:-1: expected"},
        {{0}, MXW_E_MISSING, "weight conv: the program was given no weights"},
    };
    mx_graph *g = build_encoder();
    mx_program *program;
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        CHECK(mx_exec_load(g, &cases[i].options, &program) == cases[i].status);
        SAYS(-1, cases[i].says);
        CHECK(!program);
    }
    const mx_device *gpu;
    if (mx_device_find("cuda", &gpu) < 0) {   /* no driver, no GPU or no module: the line goes on with which */
        SAYS(mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_GPU}, &program),
             "engine gpu needs a CUDA device: device cuda: ");
        CHECK(strlen(mx_error()) > strlen("engine gpu needs a CUDA device: device cuda: "));
        SAYS(mx_exec_load(g, &(mx_program_options){.engine = MXW_ENGINE_GPU, .device = "cuda:1"}, &program),
             "engine gpu needs a CUDA device: device cuda:1: ");
    }
    /* a tensor taken out of the checkpoint is a hard error that names it */
    static const char *const needed[] = {"conv", "bias1", "bias2", "q", "bias3", "k", "m", "bias4"};
    for (size_t i = 0; i < MX_COUNT(needed); i++) {
        mx_weight_source source = {find_weight, (void *)(uintptr_t)needed[i]};
        char line[64];
        snprintf(line, sizeof(line), "tensor %s is not in the checkpoint", needed[i]);
        SAYS(mx_exec_load(g, there(NULL, &source), &program), line);
    }
    mx_graph_destroy(g);
    begin();   /* a weight of another shape */
    mx_graph_output(G, "y", mx_graph_weight(G, "q", 2, DIMS(D, D + 1)));
    SAYS(mx_exec_load(G, there(NULL, &weights), &program),
         "weight q is f32 [48, 48]: expected f32 [48, 49]");
    begin();   /* a graph with a mistake */
    mx_graph_gelu(G, 5, MXW_GELU_ERF);
    SAYS(mx_exec_load(G, &(mx_program_options){0}, &program), "graph test: gelu: input 0 is 5");
}

/* ---- pipes, taps, views ------------------------------------------------------------------------------------------ */

static char tapped[512];
static void see(void *context, const char *name, const mx_tensor *value) {
    size_t at = strlen(tapped);
    snprintf(tapped + at, sizeof(tapped) - at, "%s[%lld] ", name, (long long)mx_tensor_count(value));
    *(double *)context += value->dtype == MXW_F32 && mx_tensor_count(value) ? (double)f32(value, 0) : 0;
}

static void test_pipe_and_tap(void) {
    static rows r;
    double sum = 0;
    begin();
    fill_rows(&r);
    mx_tensor x = FLOATS(1, 2, T, D);
    model encoder = open_model(build_encoder(), NULL, 0), decoder = open_model(build_decoder(), NULL, ROWS);
    bind_rows(&decoder, &r, &x, 0, SEQ);
    CHECK(mx_run_pipe(decoder.run, "features", encoder.run, "features") == MXW_OK);
    SAYS(mx_run_execute(decoder.run), "input features comes from graph encoder, which has not run");
    mx_run_input(encoder.run, "x", &x);
    mx_run_tap(encoder.run, see, &sum);
    CHECK(mx_run_execute(encoder.run) == MXW_OK);
    CHECK_STR(tapped, "x[14400] residual[14400] features[14400] stem[2400] ");
    CHECK(sum != 0);
    CHECK(mx_run_execute(decoder.run) == MXW_OK);
    mx_tensor piped = output_of(&decoder, "logits"), features = output_of(&encoder, "features");
    model again = open_model(build_decoder(), NULL, ROWS);
    bind_rows(&again, &r, &features, 0, SEQ);
    CHECK(mx_run_execute(again.run) == MXW_OK);
    mx_tensor given = output_of(&again, "logits");
    CHECK(same_bits(&piped, &given));
    close_model(&again);
    close_model(&decoder);
    close_model(&encoder);
}

/* Strided and unaligned views are taken as what they show; an output that is an input outlives the caller's memory. */
static void test_views(void) {
    begin();
    mx_tensor x = FLOATS(1, 6, 5), t;
    char *odd = block(6 * 5 * 4 + 1);
    mx_value a = mx_graph_input(G, "a", MXW_F32, 2, DIMS(5, 6)), b = mx_graph_input(G, "b", MXW_F32, 2, DIMS(5, 6));
    mx_graph_output(G, "sum", mx_graph_add(G, a, b));
    mx_graph_output(G, "a", a);
    mx_program *program;
    mx_run *run;
    CHECK(mx_exec_load(G, there(NULL, NULL), &program) == MXW_OK);
    CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
    mx_tensor turned = x;
    turned.dims[0] = 5, turned.dims[1] = 6, turned.strides[0] = 1, turned.strides[1] = 5;
    mx_tensor_pack(&turned, odd + 1);
    mx_tensor unaligned = mx_tensor_of(MXW_F32, 2, DIMS(5, 6), odd + 1);
    mx_run_input(run, "a", &turned);
    mx_run_input(run, "b", &unaligned);
    CHECK(mx_run_execute(run) == MXW_OK);
    mx_run_output(run, "sum", &t);
    CHECK_ELEMENTS(30, f32(&t, i), 2 * (double)f32(&x, i % 6 * 5 + i / 6), 0);
    mx_tensor plain = copy_of(&turned);
    mx_run_input(run, "a", &plain);
    CHECK(mx_run_execute(run) == MXW_OK);
    memset(plain.data, 0, 120);
    mx_run_output(run, "a", &t);
    CHECK(memcmp(t.data, odd + 1, 120) == 0);
    mx_run_close(run);
    mx_exec_unload(program);
}

/* An output that is a piped input is the run's own: it stays what it was when the other run goes on. */
static void test_piped_output(void) {
    mx_program *first, *second;
    mx_run *from, *to;
    mx_tensor t, x[2];
    begin();
    x[0] = FLOATS(1, 70), x[1] = FLOATS(1, 70);
    mx_graph_output(G, "twice", mx_graph_add(G, in(x[0]), 1));
    CHECK(mx_exec_load(G, there(NULL, NULL), &first) == MXW_OK);
    mx_graph *g;
    CHECK(mx_graph_create("second", &g) == MXW_OK);
    mx_value a = mx_graph_input(g, "a", MXW_F32, 1, DIMS(70));
    mx_graph_output(g, "itself", a);
    mx_graph_output(g, "shaped", mx_graph_reshape(g, a, 2, DIMS(7, 10)));
    CHECK(mx_exec_load(g, there(NULL, NULL), &second) == MXW_OK);
    CHECK(mx_run_open(first, NULL, &from) == MXW_OK && mx_run_open(second, NULL, &to) == MXW_OK);
    CHECK(mx_run_pipe(to, "a", from, "twice") == MXW_OK);
    for (int i = 0; i < 2; i++) {
        CHECK(mx_run_input(from, "in0", &x[i]) == MXW_OK && mx_run_execute(from) == MXW_OK);
        if (i == 0 && !CHECK(mx_run_execute(to) == MXW_OK))
            printf("    %s\n", mx_error());
    }
    CHECK(mx_run_output(to, "itself", &t) == MXW_OK);
    CHECK_ELEMENTS(70, f32(&t, i), 2 * (double)f32(&x[0], i), 0);
    CHECK(mx_run_output(to, "shaped", &t) == MXW_OK);
    CHECK_ELEMENTS(70, f32(&t, i), 2 * (double)f32(&x[0], i), 0);
    CHECK(mx_run_output(from, "twice", &t) == MXW_OK);
    CHECK_ELEMENTS(70, f32(&t, i), 2 * (double)f32(&x[1], i), 0);
    mx_run_close(from);
    mx_run_close(to);
    mx_exec_unload(first);
    mx_exec_unload(second);
    mx_graph_destroy(g);
}

/* Once warm, a run allocates nothing; sizes may change from run to run. */
static void test_warm(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    model m = open_model(build_decoder(), NULL, ROWS);
    for (int i = 0; i < 6; i++) {
        bind_rows(&m, &r, &features, i * SEQ, SEQ);
        if (i == 1)
            mx_mem_fail_after(0);
        CHECK(mx_run_execute(m.run) == MXW_OK);
    }
    mx_mem_fail_after(-1);
    static const int64_t counts[] = {1, ROWS, 3, 0, 17};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        bind_rows(&m, &r, &features, 0, counts[i]);
        CHECK(mx_run_execute(m.run) == MXW_OK);
        mx_tensor t;
        CHECK(mx_run_output(m.run, "logits", &t) == MXW_OK && t.dims[0] == counts[i]);
    }
    close_model(&m);
}

/* A run whose memory was given back has no outputs where that was host memory, and after the next execute the same. Its
 * values take several huge pages, so that something is given back. */
static void test_forgotten(void) {
    mx_graph *g;
    mx_program *program;
    mx_run *run;
    mx_tensor t;
    begin();
    enum { N = 2 << 20 };
    CHECK(mx_graph_create("large", &g) == MXW_OK);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 2, DIMS(2, N / 2));
    mx_value sum = mx_graph_softmax(g, mx_graph_add(g, x, mx_graph_softmax(g, x)));
    mx_graph_output(g, "y", sum);
    CHECK(mx_exec_load(g, there(NULL, NULL), &program) == MXW_OK);
    mx_graph_destroy(g);
    CHECK(mx_run_open(program, NULL, &run) == MXW_OK);
    mx_tensor values = FLOATS(1, 2, N / 2);
    mx_run_input(run, "x", &values);
    mx_run_forget(run);   /* before the first */
    CHECK(mx_run_execute(run) == MXW_OK && mx_run_output(run, "y", &t) == MXW_OK);
    size_t bytes = mx_tensor_bytes(&t);
    void *before = mx_alloc(bytes);
    memcpy(before, t.data, bytes);
    mx_run_forget(run);
    mxw_status status = mx_run_output(run, "y", &t);
    if (on_cpu())
        CHECK(status == MXW_E_STATE && strstr(mx_error(), "has not run"));
    else
        CHECK(status == MXW_OK && memcmp(before, t.data, bytes) == 0);
    CHECK(mx_run_execute(run) == MXW_OK && mx_run_output(run, "y", &t) == MXW_OK);
    CHECK(memcmp(before, t.data, bytes) == 0);
    mx_free(before);
    mx_run_close(run);
    mx_exec_unload(program);
}

/* Every allocation made to fail in turn: a clean failure, nothing left behind. */
static void test_memory(void) {
    static rows r;
    begin();
    fill_rows(&r);
    mx_tensor features = FLOATS(1, 2, T, D);
    int finished = 0;
    for (int64_t n = 0; n < 4000 && !finished; n++) {
        int64_t before = mx_mem_live();
        mx_graph *g = build_decoder();
        mx_program *program = NULL;
        mx_state *state = NULL;
        mx_run *run = NULL;
        mx_mem_fail_after(n);
        mxw_status status = mx_exec_load(g, there(NULL, &weights), &program);
        if (status >= 0)
            status = mx_state_open(program, &state);
        if (status >= 0)
            status = mx_state_add(state, "k", MXW_F32, 2, DIMS(ROWS, D));
        if (status >= 0)
            status = mx_state_add(state, "v", MXW_F32, 2, DIMS(ROWS, D));
        if (status >= 0)
            status = mx_run_open(program, state, &run);
        if (status >= 0) {
            model m = {g, program, state, run};
            bind_rows(&m, &r, &features, 0, SEQ);
            status = mx_run_execute(run);
        }
        finished = status >= 0;
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mx_mem_fail_after(-1);
        mx_run_close(run);
        mx_state_close(state);
        mx_exec_unload(program);
        mx_graph_destroy(g);
        CHECK_EQ_INT(mx_mem_live(), before);
    }
    CHECK(finished);
}

int main(int argc, char **argv) {
    harness_open("graph-run", argc, argv);
    test_state();
    test_index_errors();
    test_binding_errors();
    test_load_errors();
    test_pipe_and_tap();
    test_views();
    test_piped_output();
    test_warm();
    test_forgotten();
    test_memory();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
