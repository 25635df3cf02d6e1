/* test_passes.c - the passes that hold for any graph: what each leaves, what it must leave alone, and that no bit of an
 * output changes. */
#include "kit.h"

static mx_value permute(mx_value x, int a, int b, int c) { return mx_graph_permute(G, x, (int[]){a, b, c}); }
static mx_value reshape(mx_value x, int64_t a, int64_t b) { return mx_graph_reshape(G, x, 2, DIMS(a, b)); }
static mx_value flat(mx_value x) { return mx_graph_reshape(G, x, 1, DIMS(-1)); }

/* ---- canonical --------------------------------------------------------------------------------------------------- */

static void test_permutes(void) {
    fresh();   /* transpose is a permute, two that undo each other are none */
    out(mx_graph_transpose(G, mx_graph_transpose(G, given(FLOATS(1, 2, 3, 4)))));
    CHECK_STR(after("canonical"), "");
    check_compiled();

    fresh();   /* three in a row are one */
    out(permute(permute(mx_graph_transpose(G, given(FLOATS(1, 2, 3, 4))), 1, 2, 0), 0, 2, 1));
    CHECK_STR(after("canonical"), "permute");
    check_compiled();

    fresh();   /* one between that someone reads stays; the last still begins at the first's input */
    mx_value first = permute(given(FLOATS(1, 2, 3, 4)), 1, 2, 0);
    out(permute(first, 2, 1, 0));
    out(first);
    CHECK_STR(after("canonical"), "permute permute");
    check_compiled();

    fresh();   /* rank 2, open sizes, nothing to move */
    int64_t n = mx_graph_size(G, "n", 9);
    out(mx_graph_permute(G, given_as(FLOATS(1, 3, 4), DIMS(n, 4)), (int[]){0, 1}));
    CHECK_STR(after("canonical"), "");
    check_compiled();

    fresh();   /* empty */
    out(permute(permute(given(FLOATS(1, 2, 0, 4)), 1, 2, 0), 1, 2, 0));
    CHECK_STR(after("canonical"), "permute");
    check_compiled();
}

/* A state's bytes change under a value that reads it: what was read before a write is not what is read after. */
static void test_read_before_write(void) {
    mx_tensor rows = FLOATS(1, 2, 3), at = INTS(2, 2);
    begin();
    for (int kind = 0; kind < 4; kind++) {
        fresh();
        rows = FLOATS(1, 2, 3), at = INTS(2, 2);
        mx_value s = state(2, DIMS(2, 3)), before;
        if (kind == 0)
            before = mx_graph_transpose(G, s);
        else if (kind == 1)
            before = reshape(s, 3, 2);
        else if (kind == 2)
            before = mx_graph_slice(G, s, 0, 0, INT64_MAX, 1);
        else
            before = mx_graph_permute(G, s, (int[]){0, 1});
        mx_value written = mx_graph_state_write(G, s, given(rows), given(at));
        if (kind == 0)
            out(mx_graph_transpose(G, before));
        else if (kind == 1)
            out(reshape(before, 2, 3));
        else
            out(before);
        out(mx_graph_reduce(G, written, MXW_REDUCE_SUM, 0));
        after("canonical");
        check_compiled();
    }
}

static void test_reshapes(void) {
    fresh();   /* the last of a row is enough */
    out(reshape(flat(reshape(given(FLOATS(1, 4, 6)), 3, 8)), 2, 12));
    CHECK_STR(after("canonical"), "reshape");
    check_compiled();

    fresh();   /* back where it began: none */
    out(reshape(reshape(given(FLOATS(1, 4, 6)), 3, 8), 4, 6));
    CHECK_STR(after("canonical"), "");
    check_compiled();

    fresh();   /* one that infers what can be written out */
    out(mx_graph_reshape(G, reshape(given(FLOATS(1, 4, 6)), 3, 8), 2, DIMS(2, -1)));
    CHECK_STR(after("canonical"), "reshape");
    check_compiled();

    fresh();   /* one that infers what only a run knows: both stay */
    int64_t m = mx_graph_size(G, "m", 9);
    out(mx_graph_reshape(G, mx_graph_reshape(G, given_as(FLOATS(1, 4, 6), DIMS(m, 6)), 2, DIMS(-1, 8)), 2,
                         DIMS(-1, 4)));
    CHECK_STR(after("canonical"), "reshape reshape");
    check_compiled();

    fresh();   /* open sizes that meet only when run: [a, b] is [c, 2] when 2 by 3 is 3 by 2 */
    int64_t a = mx_graph_size(G, "a", 9), b = mx_graph_size(G, "b", 9), c = mx_graph_size(G, "c", 9);
    mx_value x = given_as(FLOATS(1, 2, 3), DIMS(a, b)), y = given_as(FLOATS(1, 3), DIMS(c));
    out(mx_graph_add(G, reshape(flat(x), c, 2), mx_graph_reshape(G, y, 2, DIMS(c, 1))));
    after("canonical");
    check_compiled();

    fresh();   /* an open size that stays itself */
    int64_t n = mx_graph_size(G, "n", 9);
    out(mx_graph_reshape(G, mx_graph_reshape(G, given_as(FLOATS(1, 3, 4), DIMS(n, 4)), 3, DIMS(n, 2, 2)), 2,
                         DIMS(n, 4)));
    CHECK_STR(after("canonical"), "");
    check_compiled();
}

static void test_copies(void) {
    fresh();
    mx_value x = given(FLOATS(1, 5, 4));
    out(mx_graph_cast(G, x, MXW_F32));
    out(mx_graph_concat(G, &x, 1, 1));
    out(mx_graph_slice(G, x, 0, 0, INT64_MAX, 1));
    out(mx_graph_slice(G, x, 1, 0, 4, 1));
    out(reshape(x, 5, 4));
    CHECK_STR(after("canonical"), "");
    check_compiled();

    fresh();   /* what looks like a copy and is none */
    x = given(FLOATS(1, 5, 4));
    out(mx_graph_cast(G, x, MXW_F16));
    out(mx_graph_slice(G, x, 0, 0, 5, 2));
    out(mx_graph_slice(G, x, 0, -4, INT64_MAX, 1));
    out(mx_graph_slice(G, x, 1, 0, 3, 1));
    out(mx_graph_concat(G, (mx_value[]){x, x}, 2, 0));
    CHECK_STR(after("canonical"), "cast slice slice slice concat");
    check_compiled();

    fresh();   /* open: the whole of it is a copy, "up to 4" is not */
    int64_t n = mx_graph_size(G, "n", 9);
    x = given_as(FLOATS(1, 5, 4), DIMS(n, 4));
    out(mx_graph_slice(G, x, 0, 0, INT64_MAX, 1));
    out(mx_graph_slice(G, x, 0, 0, 4, 1));
    CHECK_STR(after("canonical"), "slice");
    check_compiled();

    fresh();   /* a weight, a constant and an input as outputs under other names */
    out(reshape(weight(F16S(2, 3)), 2, 3));
    out(mx_graph_cast(G, constant(FLOATS(1, 7)), MXW_F32));
    out(mx_graph_slice(G, given(FLOATS(1, 3)), 0, 0, 3, 1));
    CHECK_STR(after("canonical"), "");
    check_compiled();
}

static void test_constants_last(void) {
    fresh();
    mx_value x = given(FLOATS(1, 2, 3)), w = weight(FLOATS(1, 3)), c = constant(FLOATS(1, 2, 3));
    out(mx_graph_add(G, w, x));
    out(mx_graph_mul(G, c, x));
    out(mx_graph_sub(G, c, x));
    out(mx_graph_div(G, w, x));
    out(mx_graph_add(G, w, c));
    mx_arena memory = {0};
    mx_graph *g = after_passes("canonical", &(mx_compile_options){pattern_device(), 0}, &memory);
    CHECK_STR(ops_of(g), "add mul sub div add");
    for (int i = 0; i < 4; i++)   /* add and mul turned round, sub and div not */
        CHECK_EQ_INT(g->values[g->nodes[i].inputs[0]].kind == MX_INPUT, i < 2);
    mx_graph_destroy(g);
    mx_arena_free(&memory);
    after("canonical");
    check_compiled();
}

/* ---- fold -------------------------------------------------------------------------------------------------------- */

static void test_fold(void) {
    fresh();   /* a chain of constants is a constant, with the bits that a run would give */
    mx_value c = constant(FLOATS(1, 3, 4)), best[2];
    c = mx_graph_softmax(G, mx_graph_gelu(G, mx_graph_matmul(G, c, mx_graph_transpose(G, c)), MXW_GELU_ERF));
    mx_graph_top_k(G, c, 2, best);
    out(mx_graph_add(G, given(FLOATS(1, 3, 2)), best[0]));
    out(best[1]);
    CHECK_STR(after("fold"), "add");
    check_compiled();

    fresh();   /* a weight is none: it is known only at load */
    out(mx_graph_add(G, constant(FLOATS(1, 3)), weight(FLOATS(1, 3))));
    out(mx_graph_reshape(G, weight(FLOATS(1, 4)), 2, DIMS(2, 2)));
    CHECK_STR(after("fold"), "add reshape");
    check_compiled();

    fresh();   /* nor is what an open size decides */
    int64_t n = mx_graph_size(G, "n", 9);
    out(given_as(FLOATS(1, 6), DIMS(n)));
    out(mx_graph_reshape(G, constant(FLOATS(1, 2, 3)), 1, DIMS(-1)));
    mx_graph_top_k(G, constant(FLOATS(1, 9)), n, best);
    out(best[1]);
    CHECK_STR(after("fold"), "top_k");
    check_compiled();

    fresh();   /* empty ones, of no rank, of other types */
    out(mx_graph_concat(G, (mx_value[]){constant(FLOATS(1, 0, 3)), constant(FLOATS(1, 2, 3))}, 2, 0));
    out(mx_graph_slice(G, constant(FLOATS(1, 4)), 0, 3, 1, 1));
    out(mx_graph_reduce(G, constant(INTS(9, 5)), MXW_REDUCE_SUM, 0));
    out(mx_graph_cast(G, constant(FLOATS(1, 5)), MXW_U8));
    CHECK_STR(after("fold"), "");
    check_compiled();

    fresh();   /* an index out of range is left for the run to say */
    out(mx_graph_gather(G, constant(FLOATS(1, 3, 2)), constant(mx_tensor_of(MXW_I32, 1, DIMS(1), (int32_t[]){3}))));
    mx_arena memory = {0};
    mx_str bytes = {0};
    mx_graph *g = after_passes("fold", &(mx_compile_options){pattern_device(), 0}, &memory);
    CHECK_STR(ops_of(g), "gather");
    CHECK(run_way(G, (way){MXW_ENGINE_MAX, "pattern", 0}, &bytes) == MXW_E_ARGUMENT);
    CHECK(strstr(mx_error(), "gather: index[0] is 3: expected 0 to 2"));
    mx_graph_destroy(g);
    mx_arena_free(&memory);
    mx_str_free(&bytes);
}

/* Every function of op/elementwise.def folds, with the bits of a run; and two alike become one. */
static void test_elementwise(void) {
    fresh();
    mx_value c = constant(FLOATS(2, 3, 5)), x = given(FLOATS(1, 3, 5));
#define MX_ELEMENTWISE(id, name, ...) out(mx_graph_##name(G, c));
#define MX_ELEMENTWISE_WITH(id, name, parameter, ...) out(mx_graph_##name(G, c, 0.1));
#include "op/elementwise.def"
    out(mx_graph_add(G, x, mx_graph_exp(G, c)));
    CHECK_STR(after("fold"), "add");
    check_compiled();

    fresh();
    x = given(FLOATS(1, 2, 6));
    out(mx_graph_add(G, mx_graph_tanh(G, x), mx_graph_tanh(G, x)));
    out(mx_graph_sigmoid(G, x));
    out(mx_graph_add(G, mx_graph_leaky_relu(G, x, 0.1), mx_graph_leaky_relu(G, x, 0.1)));
    out(mx_graph_leaky_relu(G, x, 0.2));
    CHECK_STR(after("common"), "tanh add sigmoid leaky_relu add leaky_relu");
    check_compiled();
}

/* ---- common, dead ------------------------------------------------------------------------------------------------ */

static void test_common(void) {
    fresh();
    mx_value x = given(FLOATS(1, 2, 6)), y = given(FLOATS(1, 2, 6));
    out(mx_graph_mul(G, mx_graph_gelu(G, mx_graph_add(G, x, y), MXW_GELU_ERF),
                     mx_graph_gelu(G, mx_graph_add(G, x, y), MXW_GELU_ERF)));
    CHECK_STR(after("common"), "add gelu mul");
    check_compiled();

    fresh();   /* other inputs, other order, other attributes: others */
    x = given(FLOATS(1, 2, 6)), y = given(FLOATS(1, 2, 6));
    out(mx_graph_sub(G, x, y));
    out(mx_graph_sub(G, y, x));
    out(mx_graph_gelu(G, x, MXW_GELU_ERF));
    out(mx_graph_gelu(G, x, MXW_GELU_TANH));
    out(mx_graph_slice(G, x, 1, 0, 3, 1));
    out(mx_graph_slice(G, x, 1, 3, 6, 1));
    CHECK_STR(after("common"), "sub sub gelu gelu slice slice");
    check_compiled();

    fresh();   /* both of two outputs; an output twice */
    mx_value a[2], b[2];
    x = given(FLOATS(1, 2, 6));
    mx_graph_top_k(G, x, 3, a);
    mx_graph_top_k(G, x, 3, b);
    out(a[0]);
    out(b[0]);
    out(mx_graph_cast(G, b[1], MXW_F32));
    CHECK_STR(after("common"), "top_k cast");
    check_compiled();

    fresh();   /* a state read twice, with a write between */
    mx_value s = state(2, DIMS(2, 3));
    out(mx_graph_reduce(G, s, MXW_REDUCE_SUM, 0));
    mx_graph_state_write(G, s, given(FLOATS(1, 1, 3)), given(INTS(2, 1)));
    out(mx_graph_reduce(G, s, MXW_REDUCE_SUM, 0));
    CHECK_STR(after("common"), "reduce state_write reduce");
    check_compiled();
}

static void test_dead(void) {
    fresh();
    mx_value x = given(FLOATS(1, 2, 6)), best[2];
    mx_graph_gelu(G, mx_graph_add(G, x, x), MXW_GELU_ERF);
    mx_graph_top_k(G, x, 3, best);
    out(mx_graph_softmax(G, best[0]));
    given(FLOATS(1, 4));   /* an input that nobody reads is still there: callers bind it */
    CHECK_STR(after("dead"), "top_k softmax");
    check_compiled();

    fresh();   /* a write to a state is for the next run; nothing else is needed */
    mx_value s = state(2, DIMS(3, 2));
    mx_graph_state_write(G, s, mx_graph_gelu(G, given(FLOATS(1, 1, 2)), MXW_GELU_ERF), given(INTS(2, 1)));
    mx_graph_reduce(G, s, MXW_REDUCE_SUM, 0);
    CHECK_STR(after("dead"), "gelu state_write");
    out(mx_graph_reduce(G, s, MXW_REDUCE_SUM, 1));
    check_compiled();

    fresh();   /* no output, no node */
    mx_graph_add(G, given(FLOATS(1, 2)), given(FLOATS(1, 2)));
    CHECK_STR(after("dead"), "");
    check_compiled();
}

/* With keep_names a named value is needed. */
static void test_names(void) {
    fresh();
    mx_value x = given(FLOATS(1, 2, 6));
    mx_value sum = mx_graph_name(G, mx_graph_add(G, x, x), "sum");
    mx_graph_name(G, mx_graph_gelu(G, sum, MXW_GELU_ERF), "nobody reads it");
    out(mx_graph_softmax(G, x));
    CHECK_STR(after("dead"), "softmax");
    CHECK_STR(after_keeping("dead"), "add gelu softmax");
    check_compiled();
}

/* A pass says which it is when there is none of that name; the table can be listed. */
static void test_table(void) {
    mx_graph *g;
    mx_arena memory = {0};
    int n = 0;
    fresh();
    out(given(FLOATS(1, 2)));
    CHECK(mx_compile_pass("fuse", G, &(mx_compile_options){pattern_device(), 0}, &memory, &g) == MXW_E_ARGUMENT);
    CHECK(!g && strstr(mx_error(), "no pass is called fuse"));
    while (mx_compile_pass_name(n))
        n++;
    CHECK(n > 5 && !mx_compile_pass_name(-1));
    mx_arena_free(&memory);
}

int main(void) {
    kit_open();
    test_permutes();
    test_read_before_write();
    test_reshapes();
    test_copies();
    test_constants_last();
    test_fold();
    test_elementwise();
    test_common();
    test_dead();
    test_names();
    test_table();
    end();
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
