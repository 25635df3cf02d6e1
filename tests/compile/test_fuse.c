/* test_fuse.c - fusion, rule by rule: where it fires, what it becomes, that both sides give the same bits; and each
 * reason for which it must not. The passes before a rule are run too, so that it sees what it will see. */
#include "kit.h"

#define FIRST "canonical,fold,common,dead,promote"
#define GELU FIRST ",gelu"
#define RESIDUAL GELU ",residual"
#define STACK RESIDUAL ",stack"
#define NORM STACK ",norm"
#define ALL NORM ",select"

static mx_value gelu(mx_value x) { return mx_graph_gelu(G, x, MXW_GELU_ERF); }
static mx_value linear(mx_value x, mx_value w, mx_value b) { return mx_graph_linear(G, x, w, b); }
static mx_value add(mx_value a, mx_value b) { return mx_graph_add(G, a, b); }
static mx_value matrix(int64_t n_out, int64_t n_in) { return weight(FLOATS(1, n_out, n_in)); }
static mx_value vector(int64_t n) { return weight(FLOATS(1, n)); }
static mx_value norm(mx_value x, int64_t n) { return mx_graph_layer_norm(G, x, vector(n), vector(n), 1e-5); }

/* Writes something into a state, so that who reads it afterwards reads something else. */
static void disturb(mx_value s, int64_t width) {
    mx_graph_state_write(G, s, given(FLOATS(1, 1, width)), given(INTS(2, 1)));
}

/* ---- promote ----------------------------------------------------------------------------------------------------- */

static void test_promote(void) {
    fresh();
    mx_value x = given(FLOATS(1, 3, 4)), c = given(FLOATS(1, 2, 7, 4));
    out(linear(x, matrix(5, 4), 0));
    out(linear(x, constant(FLOATS(1, 5, 4)), vector(5)));
    out(linear(x, mx_graph_concat(G, (mx_value[]){matrix(2, 4), weight(F16S(3, 4))}, 2, 0), given(FLOATS(1, 5))));
    out(mx_graph_conv1d(G, c, weight(BF16S(6, 4, 3)), vector(6), 2, 1));
    CHECK_STR(after(FIRST), "fused_linear fused_linear concat fused_linear fused_conv1d");
    check_compiled();

    fresh();   /* weights that may be others the next time */
    x = given(FLOATS(1, 3, 4)), c = given(FLOATS(1, 2, 7, 4));
    mx_value s = state(2, DIMS(4, 4));
    out(linear(x, given(FLOATS(1, 5, 4)), 0));
    out(linear(x, s, 0));
    out(linear(x, gelu(matrix(5, 4)), 0));
    out(linear(x, mx_graph_concat(G, (mx_value[]){matrix(2, 4), given(FLOATS(1, 3, 4))}, 2, 0), 0));
    out(mx_graph_conv1d(G, c, given(FLOATS(1, 6, 4, 3)), 0, 1, 1));
    disturb(s, 4);
    CHECK_STR(after(FIRST), "linear linear gelu linear concat linear conv1d state_write");
    check_compiled();

    fresh();   /* a vector, nothing at all, no columns, no rows */
    int64_t n = mx_graph_size(G, "n", 9);
    out(linear(given(FLOATS(1, 4)), matrix(5, 4), vector(5)));
    out(linear(given_as(FLOATS(1, 0, 4), DIMS(n, 4)), matrix(5, 4), vector(5)));
    out(linear(given(FLOATS(1, 3, 0)), matrix(5, 0), vector(5)));
    out(linear(given(FLOATS(1, 3, 4)), matrix(0, 4), vector(0)));
    CHECK_STR(after(FIRST), "fused_linear fused_linear fused_linear fused_linear");
    check_compiled();
}

/* Nothing is made for a device that has no fused ops. */
static void test_no_fused_ops(void) {
    mx_arena memory = {0};
    fresh();
    mx_value x = given(FLOATS(1, 3, 4));
    out(add(gelu(linear(x, matrix(4, 4), vector(4))), x));
    mx_graph *g = after_passes(ALL, &(mx_compile_options){fake_device(), 0}, &memory);
    CHECK_STR(ops_of(g), "linear gelu add");
    mx_graph_destroy(g);
    mx_arena_free(&memory);
}

/* ---- gelu -------------------------------------------------------------------------------------------------------- */

static void test_gelu(void) {
    fresh();
    mx_value x = given(FLOATS(2, 3, 4));
    out(gelu(linear(x, matrix(5, 4), vector(5))));
    out(mx_graph_gelu(G, linear(x, weight(F16S(6, 4)), 0), MXW_GELU_TANH));
    out(gelu(mx_graph_conv1d(G, given(FLOATS(1, 2, 7, 4)), weight(FLOATS(1, 6, 4, 3)), vector(6), 2, 1)));
    CHECK_STR(after(GELU), "fused_linear fused_linear fused_conv1d");
    check_compiled();

    fresh();   /* someone else reads what lies between; it is an output; it has a name that is kept */
    x = given(FLOATS(2, 3, 4));
    mx_value h = linear(x, matrix(5, 4), 0);
    out(add(gelu(h), h));
    h = linear(x, matrix(6, 4), 0);
    out(h);
    out(gelu(h));
    h = mx_graph_name(G, linear(x, matrix(7, 4), 0), "between");
    out(gelu(h));
    CHECK_STR(after(GELU), "fused_linear gelu add fused_linear gelu fused_linear");
    CHECK_STR(after_keeping(GELU), "fused_linear gelu add fused_linear gelu fused_linear gelu");
    check_compiled();

    fresh();   /* two in a row: the second stays; one on something else */
    x = given(FLOATS(2, 3, 4));
    out(gelu(gelu(linear(x, matrix(5, 4), 0))));
    out(gelu(x));
    CHECK_STR(after(GELU), "fused_linear gelu gelu");
    check_compiled();
}

/* A product that read a state may not move behind a write to it, whichever of its inputs the state is. */
static void test_states_between(void) {
    fresh();
    mx_value s = state(2, DIMS(2, 4)), h = linear(s, matrix(5, 4), 0);
    disturb(s, 4);
    out(gelu(h));
    CHECK_STR(after(GELU), "fused_linear state_write gelu");
    check_compiled();

    fresh();
    s = state(1, DIMS(5));
    h = linear(given(FLOATS(1, 3, 4)), matrix(5, 4), s);
    mx_graph_state_write(G, s, given(FLOATS(1, 3)), given(INTS(5, 3)));
    out(gelu(h));
    after(GELU);
    check_compiled();

    fresh();
    s = state(1, DIMS(5));
    mx_value r = given(FLOATS(1, 3, 5));
    h = linear(given(FLOATS(1, 3, 4)), matrix(5, 4), s);
    mx_graph_state_write(G, s, given(FLOATS(1, 3)), given(INTS(5, 3)));
    out(add(h, r));
    after(RESIDUAL);
    check_compiled();

    fresh();   /* the residual itself */
    s = state(2, DIMS(3, 5));
    h = linear(given(FLOATS(1, 3, 4)), matrix(5, 4), 0);
    disturb(s, 5);
    out(add(h, s));
    disturb(s, 5);
    out(gelu(add(linear(given(FLOATS(1, 3, 4)), matrix(5, 4), 0), s)));
    after(RESIDUAL);
    check_compiled();

    fresh();   /* a norm of a state, and the product of it */
    s = state(2, DIMS(2, 4));
    h = norm(s, 4);
    disturb(s, 4);
    out(linear(h, matrix(5, 4), 0));
    CHECK_STR(after(NORM), "layer_norm state_write fused_linear");
    check_compiled();
}

/* ---- residual ---------------------------------------------------------------------------------------------------- */

static void test_residual(void) {
    fresh();   /* either side, full or the last axes, before or after gelu */
    int64_t n = mx_graph_size(G, "n", 9);
    mx_value x = given_as(FLOATS(1, 2, 3, 4), DIMS(n, 3, 4)), c = given_as(FLOATS(1, 2, 7, 4), DIMS(n, 7, 4));
    out(add(linear(x, matrix(4, 4), vector(4)), x));
    out(add(x, gelu(linear(x, matrix(4, 4), 0))));
    out(add(linear(x, matrix(5, 4), 0), weight(F16S(3, 5))));
    out(add(vector(5), linear(x, matrix(5, 4), 0)));
    out(add(gelu(mx_graph_conv1d(G, c, weight(FLOATS(1, 4, 4, 3)), 0, 1, 1)), c));
    out(add(gelu(mx_graph_conv1d(G, c, weight(FLOATS(1, 6, 4, 3)), vector(6), 2, 1)), weight(FLOATS(1, 4, 6))));
    CHECK_STR(after(RESIDUAL), "fused_linear fused_linear fused_linear fused_linear fused_conv1d fused_conv1d");
    check_compiled();

    fresh();   /* two that meet: the one becomes the other's residual */
    x = given(FLOATS(1, 3, 4));
    out(add(linear(x, matrix(5, 4), 0), linear(x, matrix(5, 4), vector(5))));
    CHECK_STR(after(RESIDUAL), "fused_linear fused_linear");
    check_compiled();

    fresh();   /* a second residual stays outside */
    x = given(FLOATS(1, 3, 4));
    out(add(add(linear(x, matrix(4, 4), 0), x), given(FLOATS(1, 3, 4))));
    CHECK_STR(after(RESIDUAL), "fused_linear add");
    check_compiled();

    fresh();   /* gelu of a sum is not a sum with gelu */
    x = given(FLOATS(1, 3, 4));
    out(gelu(add(linear(x, matrix(4, 4), 0), x)));
    CHECK_STR(after(RESIDUAL), "fused_linear gelu");
    check_compiled();
}

static void test_no_residual(void) {
    fresh();   /* sizes that broadcast otherwise than by whole last axes */
    mx_value x = given(FLOATS(1, 3, 4)), one = given(FLOATS(1, 1, 4));
    out(add(linear(x, matrix(5, 4), 0), given(FLOATS(1, 3, 1))));
    out(add(linear(x, matrix(5, 4), 0), given(FLOATS(1, 1, 5))));
    out(add(linear(x, matrix(5, 4), 0), given(FLOATS(1, 2, 3, 5))));
    out(add(linear(one, matrix(5, 4), 0), given(FLOATS(1, 3, 5))));
    mx_value scalar = mx_graph_reshape(G, given(FLOATS(1, 1)), 0, NULL);   /* compilers order arguments as they like */
    out(add(linear(x, matrix(5, 4), 0), scalar));
    out(add(linear(x, matrix(1, 4), 0), given(FLOATS(1, 5))));
    CHECK_STR(after(RESIDUAL), "fused_linear add fused_linear add fused_linear add fused_linear add reshape "
                               "fused_linear add fused_linear add");
    check_compiled();

    fresh();   /* itself twice; another reader; a difference */
    x = given(FLOATS(1, 3, 4));
    mx_value h = linear(x, matrix(4, 4), 0);
    out(add(h, h));
    h = linear(x, matrix(4, 4), 0);
    out(add(h, x));
    out(h);
    out(mx_graph_sub(G, linear(x, matrix(4, 4), 0), x));
    CHECK_STR(after(RESIDUAL), "fused_linear add fused_linear add fused_linear sub");
    check_compiled();

    fresh();   /* sizes that only a run knows, or that are open and not the same */
    int64_t n = mx_graph_size(G, "n", 9), m = mx_graph_size(G, "m", 9);
    x = given_as(FLOATS(1, 3, 4), DIMS(n, 4));
    mx_value longer = mx_graph_concat(G, (mx_value[]){x, x}, 2, 0), y = given_as(FLOATS(1, 6, 4), DIMS(m, 4));
    out(add(linear(longer, matrix(4, 4), 0), longer));
    out(add(linear(longer, matrix(4, 4), 0), y));
    CHECK_STR(after(RESIDUAL), "concat fused_linear add fused_linear add");
    check_compiled();
}

/* ---- stack ------------------------------------------------------------------------------------------------------- */

static mx_value attend(mx_value q, mx_value k, mx_value v) { return mx_graph_attention(G, q, k, v, 2, 0.5, 0); }

static void test_stack(void) {
    fresh();   /* query, key and value of one x: one product, three parts of it */
    int64_t n = mx_graph_size(G, "n", 9);
    mx_value x = given_as(FLOATS(1, 2, 5, 8), DIMS(n, 5, 8));
    mx_value q = linear(x, weight(F16S(8, 8)), vector(8)), k = linear(x, weight(F16S(8, 8)), 0);
    mx_value v = linear(x, weight(F16S(8, 8)), weight(F16S(8)));
    out(attend(q, k, v));
    CHECK_STR(after(STACK), "concat concat fused_linear slice slice slice attention");
    pattern_seen = (pattern_counts){0};
    check_compiled();
    CHECK(pattern_seen.strided > 0 && pattern_seen.packed > 0 && pattern_seen.ops[MX_OP_SLICE] == 0);

    fresh();   /* no biases at all; weights of several types, a view among them, constants; unlike heights */
    x = given(FLOATS(1, 2, 5, 8));
    q = linear(x, weight(apart(F16S(8, 8))), 0), k = linear(x, weight(BF16S(8, 8)), 0);
    v = linear(x, constant(FLOATS(1, 8, 8)), 0);
    out(attend(q, k, v));
    out(mx_graph_softmax(G, linear(x, weight(F16S(3, 8)), 0)));
    CHECK_STR(after(STACK), "concat fused_linear slice slice slice slice attention softmax");
    check_compiled();

    fresh();   /* no more than four parts: all of them live as long as one of them does */
    x = given(FLOATS(1, 3, 8));
    for (int i = 0; i < 6; i++)
        out(mx_graph_softmax(G, linear(x, matrix(4, 8), i % 2 ? 0 : vector(4))));
    mx_arena memory = {0};
    mx_graph *g = after_passes(STACK, &(mx_compile_options){pattern_device(), 0}, &memory);
    int products = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        products += g->nodes[i].op == MX_OP_FUSED_LINEAR;
    CHECK_EQ_INT(products, 2);
    mx_graph_destroy(g);
    mx_arena_free(&memory);
    check_compiled();

    fresh();   /* rows that go to a cache: a state_write reads them where they lie */
    x = given(FLOATS(1, 3, 8));
    mx_value at = given(INTS(4, 3)), s = state(2, DIMS(4, 8)), t = state(2, DIMS(4, 8));
    q = linear(x, matrix(8, 8), 0), k = linear(x, matrix(8, 8), 0), v = linear(x, matrix(8, 8), vector(8));
    s = mx_graph_state_write(G, s, k, at);
    t = mx_graph_state_write(G, t, v, at);
    out(mx_graph_attention_cached(G, q, s, t, given(INTS(1, 3)), given(INTS(3, 3)), given(INTS(4, 1, 3)), 2, 0.5));
    CHECK_STR(after(STACK), "concat concat fused_linear slice slice slice state_write state_write attention_cached");
    check_compiled();

    fresh();   /* a vector x: its parts lie one after the other */
    x = given(FLOATS(1, 8));
    out(add(mx_graph_softmax(G, linear(x, matrix(4, 8), 0)), mx_graph_softmax(G, linear(x, matrix(4, 8), 0))));
    CHECK_STR(after(STACK), "concat fused_linear slice slice softmax softmax add");
    check_compiled();
}

static void test_no_stack(void) {
    fresh();   /* an output, and what reads rows one after the other only */
    mx_value x = given(FLOATS(1, 3, 8));
    out(linear(x, matrix(8, 8), 0));
    out(mx_graph_transpose(G, linear(x, matrix(8, 8), 0)));
    out(mx_graph_softmax(G, linear(x, matrix(8, 8), 0)));
    CHECK_STR(after(STACK), "fused_linear fused_linear permute fused_linear softmax");
    check_compiled();

    fresh();   /* something fused into it; another x; x is a state; a bias that is an input */
    x = given(FLOATS(1, 3, 8));
    mx_value s = state(2, DIMS(3, 8));
    out(mx_graph_softmax(G, gelu(linear(x, matrix(8, 8), 0))));
    out(mx_graph_softmax(G, add(linear(x, matrix(8, 8), 0), x)));
    out(mx_graph_softmax(G, linear(given(FLOATS(1, 3, 8)), matrix(8, 8), 0)));
    out(mx_graph_softmax(G, linear(s, matrix(8, 8), 0)));
    disturb(s, 8);
    out(mx_graph_softmax(G, linear(s, matrix(8, 8), 0)));
    out(mx_graph_softmax(G, linear(x, matrix(8, 8), given(FLOATS(1, 8)))));
    out(mx_graph_softmax(G, linear(x, matrix(0, 8), 0)));
    CHECK(!strstr(after(STACK), "slice"));
    check_compiled();

    fresh();   /* two that cannot both be right: the run says so, not the compiler */
    int64_t n = mx_graph_size(G, "n", 9);
    mx_value y = mx_graph_slice(G, given_as(FLOATS(1, 2, 8), DIMS(2, n)), 1, 0, 6, 1);
    out(mx_graph_softmax(G, linear(y, matrix(4, 6), 0)));
    out(mx_graph_softmax(G, linear(y, matrix(4, 5), 0)));
    mx_arena memory = {0};
    mx_str bytes = {0};
    mx_graph_destroy(after_passes(STACK, &(mx_compile_options){pattern_device(), 0}, &memory));
    CHECK(run_way(G, (way){MXW_ENGINE_MAX, "pattern", 0}, &bytes) == MXW_E_ARGUMENT);
    CHECK(strstr(mx_error(), "does not fit x"));
    mx_arena_free(&memory);
    mx_str_free(&bytes);
}

/* ---- norm -------------------------------------------------------------------------------------------------------- */

static void test_norm(void) {
    fresh();
    mx_value x = given(FLOATS(1, 3, 8));
    out(linear(norm(x, 8), matrix(5, 8), vector(5)));
    out(add(x, gelu(linear(mx_graph_layer_norm(G, x, vector(8), constant(FLOATS(1, 8)), 0.25), matrix(8, 8), 0))));
    CHECK_STR(after(NORM), "fused_linear fused_linear");
    check_compiled();

    fresh();   /* three products of one norm: one of the stack */
    x = given(FLOATS(1, 2, 5, 8));
    mx_value h = norm(x, 8);
    out(attend(linear(h, matrix(8, 8), vector(8)), linear(h, matrix(8, 8), 0), linear(h, matrix(8, 8), vector(8))));
    CHECK_STR(after(NORM), "concat concat fused_linear slice slice slice attention");
    check_compiled();

    fresh();   /* two products that are no stack: each takes it */
    x = given(FLOATS(1, 3, 8));
    h = norm(x, 8);
    out(gelu(linear(h, matrix(5, 8), 0)));
    out(linear(h, matrix(6, 8), 0));
    CHECK_STR(after(NORM), "fused_linear fused_linear");
    check_compiled();

    fresh();   /* of a vector, of nothing */
    out(linear(norm(given(FLOATS(1, 8)), 8), matrix(5, 8), 0));
    out(linear(norm(given(FLOATS(1, 0, 8)), 8), matrix(5, 8), 0));
    CHECK_STR(after(NORM), "fused_linear fused_linear");
    check_compiled();
}

static void test_no_norm(void) {
    fresh();   /* read by something else: an output, an add, the same product's residual */
    mx_value x = given(FLOATS(1, 3, 8)), h = norm(x, 8);
    out(linear(h, matrix(5, 8), 0));
    out(h);
    h = norm(x, 8);
    out(linear(h, matrix(5, 8), 0));
    out(mx_graph_softmax(G, h));
    h = norm(x, 8);
    out(add(linear(h, matrix(8, 8), 0), h));
    CHECK_STR(after(NORM), "layer_norm fused_linear layer_norm fused_linear softmax layer_norm fused_linear");
    check_compiled();

    fresh();   /* gamma or beta that may change; a norm of a product; a convolution of a norm; a product of no weight */
    x = given(FLOATS(1, 3, 8));
    out(linear(mx_graph_layer_norm(G, x, given(FLOATS(1, 8)), vector(8), 1e-5), matrix(5, 8), 0));
    out(linear(mx_graph_layer_norm(G, x, vector(8), given(FLOATS(1, 8)), 1e-5), matrix(5, 8), 0));
    out(norm(linear(x, matrix(8, 8), 0), 8));
    out(mx_graph_conv1d(G, norm(given(FLOATS(1, 2, 4, 8)), 8), weight(FLOATS(1, 5, 8, 3)), 0, 1, 1));
    out(linear(norm(x, 8), given(FLOATS(1, 5, 8)), 0));
    CHECK_STR(after(NORM), "layer_norm fused_linear layer_norm fused_linear fused_linear layer_norm layer_norm "
                           "fused_conv1d layer_norm linear");
    check_compiled();

    fresh();   /* a kept name */
    h = mx_graph_name(G, norm(given(FLOATS(1, 3, 8)), 8), "normed");
    out(linear(h, matrix(5, 8), 0));
    CHECK_STR(after(NORM), "fused_linear");
    CHECK_STR(after_keeping(NORM), "layer_norm fused_linear");
    check_compiled();
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

enum { WORDS = 20 };

static mx_tensor rules(int64_t n) {
    mx_tensor t = blank(MXW_I32, 2, DIMS(n, MX_RULE_WORDS));
    for (int64_t i = 0; i < n; i++)
        ((mx_rule *)t.data)[i] = (mx_rule){.ts_begin = WORDS - 6, .ts_min = WORDS - 4, .ts_max = WORDS - 1,
                                           .flags = MX_RULE_TIMESTAMP_SUM, .no_speech = 3,
                                           .temperature = i % 2 ? 0.6f : 0, .counter = {(uint32_t)i, 7}};
    return t;
}

static void choose(mx_value logits, int64_t n) {
    mx_value picked[3], none = constant(mx_tensor_of(MXW_U8, 2, DIMS(1, WORDS), (uint8_t[WORDS]){[5] = 1}));
    mx_graph_select(G, logits, given(rules(n)), none, 3, picked);
    for (int i = 0; i < 3; i++)
        out(picked[i]);
}

static void test_select(void) {
    fresh();
    choose(linear(given(FLOATS(2, 4, 8)), weight(F16S(WORDS, 8)), 0), 4);
    CHECK_STR(after(ALL), "fused_select");
    check_compiled();

    fresh();   /* the last norm goes in too */
    choose(linear(norm(given(FLOATS(2, 4, 8)), 8), weight(F16S(WORDS, 8)), 0), 4);
    CHECK_STR(after(ALL), "fused_select");
    check_compiled();

    fresh();   /* no rows */
    choose(linear(given(FLOATS(2, 0, 8)), matrix(WORDS, 8), 0), 0);
    CHECK_STR(after(ALL), "fused_select");
    check_compiled();

    fresh();   /* a bias, a gelu, a residual, logits that are an output, logits that were given */
    mx_value x = given(FLOATS(2, 4, 8)), logits = linear(x, matrix(WORDS, 8), 0);
    choose(linear(x, matrix(WORDS, 8), vector(WORDS)), 4);
    choose(gelu(linear(x, matrix(WORDS, 8), 0)), 4);
    choose(add(linear(x, matrix(WORDS, 8), 0), vector(WORDS)), 4);
    choose(logits, 4);
    out(logits);
    choose(given(FLOATS(3, 4, WORDS)), 4);
    CHECK(!strstr(after(ALL), "fused_select"));
    check_compiled();
}

int main(void) {
    kit_open();
    test_promote();
    test_no_fused_ops();
    test_gelu();
    test_states_between();
    test_residual();
    test_no_residual();
    test_stack();
    test_no_stack();
    test_norm();
    test_no_norm();
    test_select();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
