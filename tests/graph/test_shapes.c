/* test_shapes.c - ops at the shapes of released models: the device under test against the CPU, and windows and rows
 * alone against the same in a batch, to the bit. Bounds are far under what TF32 or a half would give. */
#include "kit/harness.h"

typedef mx_value (*build_fn)(mx_graph *g, const mx_value *in);

/* Builds and runs on a device; the outputs out0, out1, .. copied. */
static int run_on(const char *device, build_fn build, const mx_tensor *inputs, int n, int n_out, mx_tensor *out) {
    const char *kept = device_name;
    mx_graph *g;
    mx_program *program = NULL;
    mx_run *run = NULL;
    mx_value values[MAX_IN];
    char name[16];
    device_name = device;
    mxw_status status = mx_graph_create("shapes", &g);
    for (int i = 0; i < n && status >= 0; i++) {
        snprintf(name, sizeof(name), "in%d", i);
        values[i] = mx_graph_input(g, name, inputs[i].dtype, inputs[i].rank, inputs[i].dims);
    }
    if (status >= 0 && build(g, values))
        status = mx_exec_load(g, there(harness_pool, NULL), &program);
    if (status >= 0)
        status = program ? mx_run_open(program, NULL, &run) : mx_graph_status(g);
    for (int i = 0; i < n && status >= 0; i++) {
        snprintf(name, sizeof(name), "in%d", i);
        status = mx_run_input(run, name, &inputs[i]);
    }
    if (status >= 0)
        status = mx_run_execute(run);
    for (int i = 0; i < n_out && status >= 0; i++) {
        mx_tensor t;
        snprintf(name, sizeof(name), "out%d", i);
        status = mx_run_output(run, name, &t);
        if (status >= 0)
            out[i] = copy_of(&t);
    }
    if (status < 0)
        printf("    failed on %s: %s\n", device, mx_error());
    mx_run_close(run);
    mx_exec_unload(program);
    mx_graph_destroy(g);
    device_name = kept;
    return status >= 0;
}

/* `count` entries of the first axis, from `first` on. */
static mx_tensor part_of(const mx_tensor *t, int64_t first, int64_t count) {
    mx_tensor part = *t;
    part.dims[0] = count;
    part.data = (char *)t->data + (size_t)(first * t->strides[0]) * mx_dtype_bytes(t->dtype);
    return part;
}

static double worst_difference(const mx_tensor *a, const mx_tensor *b) {
    double worst = 0;
    for (int64_t i = 0; i < mx_tensor_count(a); i++) {
        double d = fabs((double)f32(a, i) - (double)f32(b, i));
        worst = d <= worst ? worst : d;   /* a NaN stays */
    }
    return worst;
}

/* The whole on the device near the CPU's; every part of the first `batched` inputs' first axis with the bits it has in
 * the whole. `parts` lists counts of entries; 0 ends it. */
static void compare(const char *what, build_fn build, mx_tensor *inputs, int n, int batched, const int64_t *parts,
                    double bound_) {
    mx_tensor cpu, here, part[MAX_IN], alone;
    if (!CHECK(run_on("cpu", build, inputs, n, 1, &cpu)) || !CHECK(run_on(device_name, build, inputs, n, 1, &here)))
        return;
    double worst = worst_difference(&cpu, &here);
    if (!CHECK(worst <= bound_))
        printf("    %s: %.3g from the CPU's: expected at most %.3g\n", what, worst, bound_);
    int differ = 0;
    for (; *parts; parts++)
        for (int64_t first = 0; first + *parts <= inputs[0].dims[0]; first += *parts) {
            for (int i = 0; i < n; i++)
                part[i] = i < batched ? part_of(&inputs[i], first, *parts) : inputs[i];
            if (!CHECK(run_on(device_name, build, part, n, 1, &alone)))
                return;
            mx_tensor of_whole = part_of(&here, first, *parts);
            differ += !same_bits(&alone, &of_whole);
        }
    if (!CHECK(differ == 0))
        printf("    %s: %d parts differ from the whole\n", what, differ);
}

static mx_value give(mx_graph *g, mx_value y) {
    mx_graph_output(g, "out0", y);
    return y;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static mx_value linear(mx_graph *g, const mx_value *in) { return give(g, mx_graph_linear(g, in[0], in[1], in[2])); }
static mx_value conv1(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_conv1d(g, in[0], in[1], in[2], 1, 1));
}
static mx_value conv2(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_conv1d(g, in[0], in[1], in[2], 2, 1));
}
static mx_value attend(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_attention(g, in[0], in[1], in[2], 6, 0.125, 0));
}
static mx_value attend_causal(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_attention(g, in[0], in[1], in[2], 6, 0.125, 1));
}
static mx_value norm(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_layer_norm(g, in[0], in[1], in[2], 1e-5));
}
static mx_value gelu(mx_graph *g, const mx_value *in) { return give(g, mx_graph_gelu(g, in[0], MXW_GELU_ERF)); }
static mx_value softmax(mx_graph *g, const mx_value *in) { return give(g, mx_graph_softmax(g, in[0])); }
static mx_value product(mx_graph *g, const mx_value *in) { return give(g, mx_graph_matmul(g, in[0], in[1])); }

static void test_windows(void) {
    static const int64_t one[] = {1, 2, 0};
    begin();
    mx_tensor x = FLOATS(1, 3, 1500, 384), w = FLOATS(1, 768, 384), b = FLOATS(1, 768);
    compare("linear", linear, (mx_tensor[]){x, w, b}, 3, 1, one, 2 * 384 * EPS);
    mx_tensor odd = FLOATS(1, 3, 77, 100), w_odd = FLOATS(1, 51, 100), b_odd = FLOATS(1, 51);
    compare("linear of an odd shape", linear, (mx_tensor[]){odd, w_odd, b_odd}, 3, 1, one, 2 * 100 * EPS);
    compare("norm", norm, (mx_tensor[]){x, FLOATS(1, 384), FLOATS(1, 384)}, 3, 1, one, 8 * EPS);
    compare("gelu", gelu, &x, 1, 1, one, 4 * EPS);
    begin();
    mx_tensor mel = FLOATS(1, 2, 3000, 80), k1 = FLOATS(1, 384, 80, 3), b1 = FLOATS(1, 384);
    compare("conv1", conv1, (mx_tensor[]){mel, k1, b1}, 3, 1, one, 2 * 240 * EPS);
    begin();
    mx_tensor h = FLOATS(1, 2, 1000, 384), k2 = FLOATS(1, 256, 384, 3), b2 = FLOATS(1, 256);
    compare("conv2", conv2, (mx_tensor[]){h, k2, b2}, 3, 1, one, 2 * 1152 * EPS);
    begin();
    mx_tensor a = FLOATS(1, 4, 64, 128), m = FLOATS(1, 4, 128, 192);
    compare("matmul", product, (mx_tensor[]){a, m}, 2, 2, one, 2 * 128 * EPS);
}

static void test_window_attention(void) {
    static const int64_t one[] = {1, 0};
    begin();
    mx_tensor q = FLOATS(2, 2, 1500, 384), k = FLOATS(2, 2, 1500, 384), v = FLOATS(2, 2, 1500, 384);
    compare("attention", attend, (mx_tensor[]){q, k, v}, 3, 3, one, 4e-6);
    begin();
    mx_tensor qc = FLOATS(2, 2, 300, 384), kc = FLOATS(2, 2, 448, 384), vc = FLOATS(2, 2, 448, 384);
    compare("causal attention", attend_causal, (mx_tensor[]){qc, kc, vc}, 3, 3, one, 4e-6);
    begin();
    mx_tensor s = FLOATS(20, 60, 1500);
    compare("softmax", softmax, &s, 1, 1, (int64_t[]){7, 0}, 50 * EPS);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static mx_value vocabulary(mx_graph *g, const mx_value *in) { return give(g, mx_graph_linear(g, in[0], in[1], 0)); }
static mx_value window(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_attention_window(g, in[0], in[2], in[3], in[1], 6, 0.125));
}
static mx_value cached(mx_graph *g, const mx_value *in) {
    return give(g, mx_graph_attention_cached(g, in[0], in[3], in[4], in[1], in[2], in[5], 6, 0.125));
}

static void test_rows(void) {
    static const int64_t some[] = {1, 2, 5, 8, 0}, few[] = {1, 5, 0};
    begin();
    mx_tensor x = FLOATS(1, 17, 384), w = FLOATS(1, 5000, 384);
    compare("rows", vocabulary, (mx_tensor[]){x, w}, 2, 1, some, 2 * 384 * EPS);
    mx_tensor wide = FLOATS(1, 9, 2048), down = FLOATS(1, 512, 2048);
    compare("wide rows", vocabulary, (mx_tensor[]){wide, down}, 2, 1, few, 2 * 2048 * EPS);
    mx_tensor m = FLOATS(1, 384, 300);
    compare("rows of a matmul", product, (mx_tensor[]){x, m}, 2, 1, some, 2 * 384 * EPS);
    begin();
    mx_tensor q = FLOATS(2, 11, 384), of = INTS(3, 11), k = FLOATS(2, 3, 1500, 384), v = FLOATS(2, 3, 1500, 384);
    compare("rows over a window", window, (mx_tensor[]){q, of, k, v}, 4, 2, few, 4e-6);
    begin();
    mx_tensor qc = FLOATS(2, 23, 384), seq = INTS(5, 23), pos = INTS(448, 23), cells = INTS(2000, 5, 448);
    mx_tensor kc = FLOATS(2, 2000, 384), vc = FLOATS(2, 2000, 384);
    compare("rows over a cache", cached, (mx_tensor[]){qc, seq, pos, kc, vc, cells}, 6, 3, few, 4e-6);
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

static mx_value select_six(mx_graph *g, const mx_value *in) {
    static const char *const names[] = {"out0", "out1", "out2"};
    mx_value out[3];
    if (mx_graph_select(g, in[0], in[1], in[2], 6, out) < 0)
        return 0;
    for (int i = 0; i < 3; i++)
        mx_graph_output(g, names[i], out[i]);
    return out[0];
}

/* The same ids as the CPU's, drawn ones too, and the same as in a smaller batch. */
static void test_select(void) {
    enum { ROWS = 12, VOCAB = 51864, STAMPS = 50363 };
    begin();
    mx_tensor logits = FLOATS(12, ROWS, VOCAB), rules = INTS(1, ROWS, MX_RULE_WORDS), cpu[3], here[3], part[3];
    mx_tensor suppress = blank(MXW_U8, 2, DIMS(2, VOCAB));
    memset(suppress.data, 0, 2 * VOCAB);
    for (int i = 0; i < VOCAB; i += 7)
        ((uint8_t *)suppress.data)[VOCAB + i] = 1;
    mx_rule *rule = rules.data;
    for (int r = 0; r < ROWS; r++)
        rule[r] = (mx_rule){.set = r % 2, .min_id = r % 5 == 0 ? 50256 : 0, .ts_begin = STAMPS, .ts_min = STAMPS + 3,
                            .ts_max = STAMPS + 900, .flags = r % 3 ? MX_RULE_TIMESTAMP_SUM : 0,
                            .no_speech = r % 4 ? 50361 : -1, .temperature = r % 2 ? 0.2f * (float)r : 0,
                            .key = {5, 6}, .counter = {(uint32_t)r, 1}};
    mx_tensor in[] = {logits, rules, suppress};
    if (!CHECK(run_on("cpu", select_six, in, 3, 3, cpu)) || !CHECK(run_on(device_name, select_six, in, 3, 3, here)))
        return;
    CHECK(same_bits(&cpu[0], &here[0]));
    CHECK(worst_difference(&cpu[1], &here[1]) < 1e-5 && worst_difference(&cpu[2], &here[2]) < 1e-5);
    for (int64_t first = 0; first < ROWS; first += 3) {
        mx_tensor few[] = {part_of(&logits, first, 3), part_of(&rules, first, 3), suppress};
        if (!CHECK(run_on(device_name, select_six, few, 3, 3, part)))
            return;
        for (int i = 0; i < 3; i++) {
            mx_tensor of_whole = part_of(&here[i], first, 3);
            CHECK(same_bits(&part[i], &of_whole));
        }
    }
}

int main(int argc, char **argv) {
    harness_open("graph-shapes", argc, argv);
    mx_pool_open(2, &harness_pool);
    test_windows();
    test_window_attention();
    test_rows();
    test_select();
    end();
    mx_pool_close(harness_pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
