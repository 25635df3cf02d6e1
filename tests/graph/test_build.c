/* test_build.c - building: every kind of mistake is refused with op, expected and got; the text form; open sizes. */
#include "graph/graph.h"

#include <limits.h>
#include <math.h>

#include "kit/check.h"

typedef mx_value (*build_fn)(mx_graph *g);

static mx_value in(mx_graph *g, const char *name, mxw_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                   int64_t d) {
    return mx_graph_input(g, name, dtype, rank, (int64_t[]){a, b, c, d});
}

#define F(name, rank, ...) in(g, name, MXW_F32, rank, __VA_ARGS__)
#define I(name, rank, ...) in(g, name, MXW_I32, rank, __VA_ARGS__)
#define MISTAKE(id, expression)                                                                                        \
    static mx_value id(mx_graph *g) { return expression; }

static mx_value top_k(mx_graph *g, mx_value x, int64_t k) {
    mx_value out[2];
    mx_graph_top_k(g, x, k, out);
    return out[0];
}

/* x, weights, bias_ih and c0 of these sizes; none where a rank is 0. */
static mx_value lstm_of(mx_graph *g, mxw_lstm_direction direction, mx_value x, mx_value ih, mx_value hh, mx_value bias,
                        mx_value c0) {
    mx_value out[3];
    mx_graph_lstm(g, x, ih, hh, bias, 0, 0, c0, direction, out);
    return out[0];
}

static mx_value select_of(mx_graph *g, mx_value logits, mx_value rules, mx_value suppress, int64_t k) {
    mx_value out[3];
    mx_graph_select(g, logits, rules, suppress, k, out);
    return out[0];
}

MISTAKE(matmul_inner, mx_graph_matmul(g, F("a", 2, 3, 4, 0, 0), F("b", 2, 5, 6, 0, 0)))
MISTAKE(matmul_rank, mx_graph_matmul(g, F("a", 1, 3, 0, 0, 0), F("b", 2, 3, 6, 0, 0)))
MISTAKE(matmul_batch, mx_graph_matmul(g, F("a", 3, 2, 3, 4, 0), F("b", 3, 5, 4, 6, 0)))
MISTAKE(matmul_dtype, mx_graph_matmul(g, I("a", 2, 3, 4, 0, 0), F("b", 2, 4, 6, 0, 0)))
MISTAKE(linear_weight, mx_graph_linear(g, F("x", 2, 7, 384, 0, 0), F("w", 2, 384, 80, 0, 0), 0))
MISTAKE(linear_bias, mx_graph_linear(g, F("x", 2, 7, 80, 0, 0), F("w", 2, 384, 80, 0, 0), F("b", 1, 80, 0, 0, 0)))
MISTAKE(linear_none, mx_graph_linear(g, F("x", 2, 7, 80, 0, 0), 0, 0))
MISTAKE(linear_half, mx_graph_linear(g, mx_graph_cast(g, F("x", 1, 4, 0, 0, 0), MXW_F16), F("w", 2, 4, 4, 0, 0), 0))
MISTAKE(transpose_rank, mx_graph_transpose(g, F("x", 1, 3, 0, 0, 0)))
MISTAKE(permute_twice, mx_graph_permute(g, F("x", 3, 2, 3, 4, 0), (int[]){0, 2, 2}))
MISTAKE(reshape_count, mx_graph_reshape(g, F("x", 2, 3, 4, 0, 0), 2, (int64_t[]){5, 2}))
MISTAKE(reshape_two, mx_graph_reshape(g, F("x", 2, 3, 4, 0, 0), 2, (int64_t[]){-1, -1}))
MISTAKE(reshape_rank, mx_graph_reshape(g, F("x", 2, 3, 4, 0, 0), 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 12}))
MISTAKE(reshape_size, mx_graph_reshape(g, F("x", 2, 3, 4, 0, 0), 2, (int64_t[]){-7, 4}))
MISTAKE(reshape_hole, mx_graph_reshape(g, F("x", 2, 3, 4, 0, 0), 2, (int64_t[]){-1, 5}))
MISTAKE(add_broadcast, mx_graph_add(g, F("a", 2, 3, 4, 0, 0), F("b", 1, 3, 0, 0, 0)))
MISTAKE(add_dtype, mx_graph_add(g, F("a", 1, 3, 0, 0, 0), I("b", 1, 3, 0, 0, 0)))
MISTAKE(add_open, mx_graph_add(g, F("a", 1, mx_graph_size(g, "rows", 9), 0, 0, 0), F("b", 1, 4, 0, 0, 0)))
MISTAKE(div_i32, mx_graph_div(g, I("a", 1, 3, 0, 0, 0), I("b", 1, 3, 0, 0, 0)))
MISTAKE(add_f16, mx_graph_add(g, in(g, "a", MXW_F16, 1, 3, 0, 0, 0), in(g, "b", MXW_F16, 1, 3, 0, 0, 0)))
MISTAKE(norm_gamma, mx_graph_layer_norm(g, F("x", 2, 3, 4, 0, 0), F("g", 1, 3, 0, 0, 0), F("b", 1, 4, 0, 0, 0), 1e-5))
MISTAKE(norm_eps, mx_graph_layer_norm(g, F("x", 2, 3, 4, 0, 0), F("g", 1, 4, 0, 0, 0), F("b", 1, 4, 0, 0, 0), -1))
MISTAKE(gelu_kind, mx_graph_gelu(g, F("x", 1, 3, 0, 0, 0), (mxw_gelu_kind)7))
MISTAKE(gelu_dtype, mx_graph_gelu(g, I("x", 1, 3, 0, 0, 0), MXW_GELU_ERF))
MISTAKE(relu_dtype, mx_graph_relu(g, I("x", 1, 3, 0, 0, 0)))
MISTAKE(exp_half, mx_graph_exp(g, in(g, "x", MXW_F16, 1, 3, 0, 0, 0)))
MISTAKE(leaky_slope, mx_graph_leaky_relu(g, F("x", 1, 3, 0, 0, 0), NAN))
MISTAKE(leaky_range, mx_graph_leaky_relu(g, F("x", 1, 3, 0, 0, 0), 1e39))
MISTAKE(softmax_rank, mx_graph_softmax(g, F("x", 0, 0, 0, 0, 0)))
MISTAKE(slice_axis, mx_graph_slice(g, F("x", 2, 3, 4, 0, 0), 2, 0, 1, 1))
MISTAKE(slice_step, mx_graph_slice(g, F("x", 2, 3, 4, 0, 0), 1, 0, 1, 0))
MISTAKE(concat_sizes, mx_graph_concat(g, (mx_value[]){F("a", 2, 3, 4, 0, 0), F("b", 2, 3, 5, 0, 0)}, 2, 0))
MISTAKE(concat_none, mx_graph_concat(g, NULL, 0, 0))
MISTAKE(gather_index, mx_graph_gather(g, F("t", 2, 3, 4, 0, 0), F("i", 1, 2, 0, 0, 0)))
MISTAKE(gather_rank, mx_graph_gather(g, F("t", 4, 3, 4, 1, 1), I("i", 4, 1, 1, 1, 1)))
MISTAKE(cast_f8, mx_graph_cast(g, F("x", 1, 2, 0, 0, 0), MXW_F8))
MISTAKE(state_f8, mx_graph_state(g, "s", MXW_F8, 1, (int64_t[]){2}))
MISTAKE(cast_unknown, mx_graph_cast(g, F("x", 1, 2, 0, 0, 0), (mxw_dtype)99))
MISTAKE(reduce_kind, mx_graph_reduce(g, F("x", 1, 2, 0, 0, 0), (mxw_reduce_kind)9, 0))
MISTAKE(reduce_axis, mx_graph_reduce(g, F("x", 1, 2, 0, 0, 0), MXW_REDUCE_SUM, -2))
MISTAKE(reduce_mean, mx_graph_reduce(g, I("x", 1, 2, 0, 0, 0), MXW_REDUCE_MEAN, 0))
MISTAKE(reduce_empty, mx_graph_reduce(g, F("x", 1, 0, 0, 0, 0), MXW_REDUCE_MAX, 0))
MISTAKE(argmax_empty, mx_graph_argmax(g, F("x", 2, 2, 0, 0, 0)))
MISTAKE(top_k_large, top_k(g, F("x", 1, 2, 0, 0, 0), 3))
MISTAKE(top_k_zero, top_k(g, F("x", 1, 2, 0, 0, 0), 0))
MISTAKE(top_k_open, top_k(g, F("x", 1, 2, 0, 0, 0), -9))
MISTAKE(conv_in, mx_graph_conv1d(g, F("x", 3, 1, 9, 80, 0), F("w", 3, 384, 81, 3, 0), 0, 1, 1))
MISTAKE(conv_short, mx_graph_conv1d(g, F("x", 3, 1, 2, 8, 0), F("w", 3, 4, 8, 5, 0), 0, 1, 1))
MISTAKE(conv_stride, mx_graph_conv1d(g, F("x", 3, 1, 9, 8, 0), F("w", 3, 4, 8, 3, 0), 0, 0, 1))
MISTAKE(conv_dilation, mx_graph_conv1d_dilated(g, F("x", 3, 1, 9, 8, 0), F("w", 3, 4, 8, 3, 0), 0, 1, 1, 0))
MISTAKE(conv_span, mx_graph_conv1d_dilated(g, F("x", 3, 1, 9, 8, 0), F("w", 3, 4, 8, 4, 0), 0, 1, 1, 4))
MISTAKE(conv_wide, mx_graph_conv1d_dilated(g, F("x", 3, 0, 1, 1, 0), F("w", 3, 0, 1, 1LL << 43, 0), 0, 1, 1, INT_MAX))
MISTAKE(conv_rank, mx_graph_conv1d(g, F("x", 2, 9, 8, 0, 0), F("w", 3, 4, 8, 3, 0), 0, 1, 1))
MISTAKE(conv2_in, mx_graph_conv2d(g, F("x", 4, 1, 9, 9, 3), F("w", 4, 3, 3, 4, 8), 0, (int[]){1, 1}, (int[]){0, 0}))
MISTAKE(conv2_bias,
        mx_graph_conv2d(g, F("x", 4, 1, 9, 9, 3), F("w", 4, 3, 3, 3, 8), F("b", 1, 3, 0, 0, 0), NULL, NULL))
#define X(...) F("x", 3, __VA_ARGS__, 0)
#define IH(...) F("ih", 3, __VA_ARGS__, 0)
#define HH(...) F("hh", 3, __VA_ARGS__, 0)
MISTAKE(lstm_direction, lstm_of(g, (mxw_lstm_direction)3, X(5, 2, 7), IH(1, 12, 7), HH(1, 12, 3), 0, 0))
MISTAKE(lstm_rank, lstm_of(g, MXW_LSTM_FORWARD, F("x", 2, 5, 7, 0, 0), IH(1, 12, 7), HH(1, 12, 3), 0, 0))
MISTAKE(lstm_dtype, lstm_of(g, MXW_LSTM_FORWARD, I("x", 3, 5, 2, 7, 0), IH(1, 12, 7), HH(1, 12, 3), 0, 0))
MISTAKE(lstm_gates, lstm_of(g, MXW_LSTM_REVERSE, X(5, 2, 7), IH(1, 12, 7), HH(1, 9, 3), 0, 0))
MISTAKE(lstm_dirs, lstm_of(g, MXW_LSTM_BOTH, X(5, 2, 7), IH(1, 12, 7), HH(1, 12, 3), 0, 0))
MISTAKE(lstm_in, lstm_of(g, MXW_LSTM_FORWARD, X(5, 2, 7), IH(1, 12, 8), HH(1, 12, 3), 0, 0))
MISTAKE(lstm_bias, lstm_of(g, MXW_LSTM_FORWARD, X(5, 2, 7), IH(1, 12, 7), HH(1, 12, 3), F("b", 1, 12, 0, 0, 0), 0))
MISTAKE(lstm_state, lstm_of(g, MXW_LSTM_BOTH, X(5, mx_graph_size(g, "n", 9), 7), IH(2, 12, 7), HH(2, 12, 3), 0,
                            F("c", 3, 2, 1, 3, 0)))
MISTAKE(lstm_none, lstm_of(g, MXW_LSTM_FORWARD, X(5, 2, 7), 0, HH(1, 12, 3), 0, 0))
MISTAKE(attention_heads,
        mx_graph_attention(g, F("q", 3, 1, 5, 8, 0), F("k", 3, 1, 5, 8, 0), F("v", 3, 1, 5, 8, 0), 3, 1, 0))
MISTAKE(attention_width,
        mx_graph_attention(g, F("q", 3, 1, 5, 8, 0), F("k", 3, 1, 5, 6, 0), F("v", 3, 1, 5, 8, 0), 2, 1, 0))
MISTAKE(attention_v,
        mx_graph_attention(g, F("q", 3, 1, 5, 8, 0), F("k", 3, 1, 5, 8, 0), F("v", 3, 1, 4, 8, 0), 2, 1, 0))
MISTAKE(attention_causal,
        mx_graph_attention(g, F("q", 3, 1, 5, 8, 0), F("k", 3, 1, 4, 8, 0), F("v", 3, 1, 4, 8, 0), 2, 1, 1))
MISTAKE(cached_pos, mx_graph_attention_cached(g, F("q", 2, 5, 8, 0, 0), F("k", 2, 9, 8, 0, 0), F("v", 2, 9, 8, 0, 0),
                                              I("s", 1, 5, 0, 0, 0), I("p", 1, 4, 0, 0, 0), I("c", 2, 2, 7, 0, 0), 2,
                                              1))
MISTAKE(cached_cells, mx_graph_attention_cached(g, F("q", 2, 5, 8, 0, 0), F("k", 2, 9, 8, 0, 0), F("v", 2, 9, 8, 0, 0),
                                              I("s", 1, 5, 0, 0, 0), I("p", 1, 5, 0, 0, 0), I("c", 1, 7, 0, 0, 0), 2,
                                              1))
MISTAKE(window_index, mx_graph_attention_window(g, F("q", 2, 5, 8, 0, 0), F("k", 3, 2, 9, 8, 0), F("v", 3, 2, 9, 8, 0),
                                                F("w", 1, 5, 0, 0, 0), 2, 1))
MISTAKE(scores_head, mx_graph_attention_scores(g, F("q", 2, 5, 8, 0, 0), F("k", 3, 2, 9, 8, 0), F("h", 1, 2, 0, 0, 0),
                                               I("w", 1, 5, 0, 0, 0), 2, 1))
MISTAKE(scores_width, mx_graph_attention_scores(g, F("q", 2, 5, 8, 0, 0), F("k", 3, 2, 9, 6, 0), I("h", 1, 2, 0, 0, 0),
                                                I("w", 1, 5, 0, 0, 0), 2, 1))
MISTAKE(write_no_state, mx_graph_state_write(g, F("s", 2, 5, 8, 0, 0), F("x", 2, 1, 8, 0, 0), I("i", 1, 1, 0, 0, 0)))
MISTAKE(write_itself, mx_graph_state_write(g, mx_graph_state(g, "s", MXW_F32, 2, (int64_t[]){5, 8}),
                                           mx_graph_state(g, "s", MXW_F32, 2, (int64_t[]){5, 8}),
                                           I("i", 1, 5, 0, 0, 0)))
MISTAKE(write_width, mx_graph_state_write(g, mx_graph_state(g, "s", MXW_F32, 2, (int64_t[]){5, 8}),
                                          F("x", 2, 1, 7, 0, 0), I("i", 1, 1, 0, 0, 0)))
MISTAKE(write_index, mx_graph_state_write(g, mx_graph_state(g, "s", MXW_F32, 2, (int64_t[]){5, 8}),
                                          F("x", 2, 3, 8, 0, 0), I("i", 1, 2, 0, 0, 0)))
MISTAKE(state_other, mx_graph_state(g, "s", MXW_F32, 1, (int64_t[]){3}) *
                         mx_graph_state(g, "s", MXW_F32, 1, (int64_t[]){4}))
MISTAKE(size_other, (mx_value)(mx_graph_size(g, "n", 4) * mx_graph_size(g, "n", 5)))
MISTAKE(weight_open, mx_graph_weight(g, "w", 1, (int64_t[]){mx_graph_size(g, "n", 4)}))
MISTAKE(select_rules,
        select_of(g, F("l", 2, 2, 9, 0, 0), I("r", 2, 2, 11, 0, 0), in(g, "s", MXW_U8, 2, 1, 9, 0, 0), 3))
MISTAKE(select_suppress,
        select_of(g, F("l", 2, 2, 9, 0, 0), I("r", 2, 2, 12, 0, 0), in(g, "s", MXW_U8, 2, 1, 8, 0, 0), 3))
MISTAKE(input_twice, F("a", 1, 3, 0, 0, 0) + F("a", 1, 3, 0, 0, 0))
MISTAKE(input_rank, mx_graph_input(g, "a", MXW_F32, 7, (int64_t[]){1, 1, 1, 1, 1, 1, 1}))
MISTAKE(input_negative, F("a", 1, -3, 0, 0, 0))
MISTAKE(input_huge, F("a", 4, INT64_MAX, INT64_MAX, 5, 5))
MISTAKE(input_unnamed, F("", 1, 3, 0, 0, 0))
MISTAKE(name_twice, mx_graph_name(g, mx_graph_name(g, F("a", 1, 3, 0, 0, 0), "b"), "b"))
MISTAKE(foreign_value, mx_graph_gelu(g, 77, MXW_GELU_ERF))
MISTAKE(constant_no_data, mx_graph_constant(g, "c", &(mx_tensor){.dtype = MXW_F32, .rank = 1, .dims = {3}}))
MISTAKE(constant_rank, mx_graph_constant(g, "c", &(mx_tensor){.dtype = MXW_F32, .rank = 900, .dims = {3}}))
MISTAKE(huge_result, mx_graph_matmul(g, F("a", 2, (int64_t)1 << 40, 1, 0, 0), F("b", 2, 1, (int64_t)1 << 40, 0, 0)))
MISTAKE(size_zero, (mx_value)mx_graph_size(g, "n", 0))

static const struct {
    const char *name;
    build_fn build;
    const char *says[3];
} mistakes[] = {
#define ROW(id, ...) {#id, id, {__VA_ARGS__}},
    ROW(matmul_inner, "matmul: ", "b [5, 6] does not fit a [3, 4]", "expected b [.., 4, n]")
    ROW(matmul_rank, "matmul: ", "[3] and [3, 6]", "expected [.., m, k]")
    ROW(matmul_batch, "matmul: ", "[2, 3, 4] and [5, 4, 6]", "got 2 and 5")
    ROW(matmul_dtype, "matmul: ", "a is i32 [3, 4]", "expected f32")
    ROW(linear_weight, "linear: weight [384, 80] does not fit x [7, 384]: expected weight [out, 384]")
    ROW(linear_bias, "linear: ", "bias is f32 [80]", "expected f32 [384]")
    ROW(linear_none, "linear: input 1 is 0: expected a value")
    ROW(linear_half, "linear: ", "x is f16 [4]", "expected f32, cast it first")
    ROW(transpose_rank, "transpose: ", "f32 [3]", "expected at least two axes")
    ROW(permute_twice, "permute: ", "axes[2] is 2", "expected each of 0..2 once")
    ROW(reshape_count, "reshape: ", "[3, 4] cannot become [5, 2]", "expected as many")
    ROW(reshape_two, "reshape: ", "sizes 0 and 1", "expected one")
    ROW(reshape_rank, "reshape: ", "9 axes", "expected 0 to 6")
    ROW(reshape_size, "reshape: ", "-7", "expected 0 or more")
    ROW(reshape_hole, "reshape: ", "[3, 4] cannot become", "expected as many")
    ROW(add_broadcast, "add: ", "[3, 4] and [3] do not broadcast", "got 4 and 3")
    ROW(add_dtype, "add: ", "f32 [3] and i32 [3]", "expected the same")
    ROW(add_open, "add: ", "[rows] and [4]", "got rows and 4")
    ROW(div_i32, "div: ", "i32", "expected f32")
    ROW(add_f16, "add: ", "f16", "expected f32 or i32")
    ROW(norm_gamma, "layer_norm: ", "gamma [3] does not fit x [3, 4]", "expected [4]")
    ROW(norm_eps, "layer_norm: ", "eps is -1", "expected 0 or more")
    ROW(gelu_kind, "gelu: ", "kind is 7", "expected erf or tanh")
    ROW(gelu_dtype, "gelu: ", "i32 [3]", "expected f32")
    ROW(relu_dtype, "relu: ", "i32 [3]", "expected f32")
    ROW(exp_half, "exp: ", "f16 [3]", "expected f32, cast it first")
    ROW(leaky_slope, "leaky_relu: ", "slope is nan", "expected a finite number")
    ROW(leaky_range, "leaky_relu: ", "slope is 1e+39", "expected a finite number")
    ROW(softmax_rank, "softmax: ", "f32 []", "expected at least one axis")
    ROW(slice_axis, "slice: ", "axis 2 of [3, 4]", "expected -2 to 1")
    ROW(slice_step, "slice: ", "step is 0", "expected at least 1")
    ROW(concat_sizes, "concat: ", "input 1 is f32 [3, 5]", "f32 [3, 4]")
    ROW(concat_none, "concat: ", "0 inputs", "expected 1 to")
    ROW(gather_index, "gather: ", "index is f32 [2]", "expected i32")
    ROW(gather_rank, "gather: ", "index [1, 1, 1, 1] into table [3, 4, 1, 1]", "at most 6 axes")
    ROW(cast_unknown, "cast: ", "dtype 99")
    ROW(cast_f8, "cast: ", "dtype 8 is unknown")
    ROW(state_f8, "state s: dtype 8 is unknown")
    ROW(reduce_kind, "reduce: ", "kind is 9", "expected sum, mean, max or min")
    ROW(reduce_axis, "reduce: ", "axis -1 of [2]", "expected -1 to 0")
    ROW(reduce_mean, "reduce: ", "i32 [2]", "expected f32")
    ROW(reduce_empty, "reduce: ", "axis 0 of [0] is empty", "expected at least one")
    ROW(argmax_empty, "argmax: ", "f32 [2, 0]", "expected a last axis")
    ROW(top_k_large, "top_k: ", "k is 3 for x f32 [2]", "expected 1 to")
    ROW(top_k_zero, "top_k: ", "k is 0", "expected 1 to")
    ROW(top_k_open, "top_k: ", "k is -9", "expected 0 or more, or an open size")
    ROW(conv_in, "conv1d: ", "weight [384, 81, 3] does not fit x [1, 9, 80]", "expected weight [out, 80, k]")
    ROW(conv_short, "conv1d: ", "a kernel of 5 over length 2 with pad 1", "expected 1 to 4")
    ROW(conv_stride, "conv1d: ", "stride 0", "expected stride 1 or more")
    ROW(conv_dilation, "conv1d: ", "dilation is 0", "expected 1 or more")
    ROW(conv_span, "conv1d: ", "a kernel of 4, taps 4 apart, over length 9 with pad 1", "expected 1 to 3")
    ROW(conv_wide, "conv1d: ", "taps 2147483647 apart", "expected 1 to 1")
    ROW(conv_rank, "conv1d: ", "x is f32 [9, 8]", "expected [n, t, in]")
    ROW(conv2_in, "conv2d: ", "weight [3, 3, 4, 8] does not fit x [1, 9, 9, 3]",
        "expected weight [height, width, 3, out]")
    ROW(conv2_bias, "conv2d: ", "bias is f32 [3]", "expected f32 [8]")
    ROW(lstm_direction, "lstm: direction is 3: expected forward, reverse or both")
    ROW(lstm_rank, "lstm: ", "x is f32 [5, 7]", "expected [t, n, in]")
    ROW(lstm_dtype, "lstm: ", "x is i32 [5, 2, 7]", "expected f32")
    ROW(lstm_gates, "lstm: weight_hh is f32 [1, 9, 3]: expected f32 [1, 12, 3]")
    ROW(lstm_dirs, "lstm: weight_hh is f32 [1, 12, 3]: expected f32 [2, 12, 3]")
    ROW(lstm_in, "lstm: weight_ih is f32 [1, 12, 8]: expected f32 [1, 12, 7]")
    ROW(lstm_bias, "lstm: bias_ih is f32 [12]: expected f32 [1, 12]")
    ROW(lstm_state, "lstm: c0 is f32 [2, 1, 3]: expected f32 [2, n, 3]")
    ROW(lstm_none, "lstm: input 1 is 0: expected a value")
    ROW(attention_heads, "attention: ", "3 heads over a width of 8", "expected a divisor")
    ROW(attention_width, "attention: ", "k [1, 5, 6] does not fit q [1, 5, 8]", "expected a width of 8")
    ROW(attention_v, "attention: ", "v [1, 4, 8] does not fit k [1, 5, 8]", "expected the same")
    ROW(attention_causal, "attention: ", "k [1, 4, 8]", "expected at least as many keys")
    ROW(cached_pos, "attention_cached: ", "pos is i32 [4]", "expected i32 [5]")
    ROW(cached_cells, "attention_cached: ", "cells is i32 [7]", "expected [sequences, ctx]")
    ROW(window_index, "attention_window: ", "window is f32 [5]", "expected i32 [5]")
    ROW(scores_head, "attention_scores: ", "head is f32 [2]", "expected i32 [n]")
    ROW(scores_width, "attention_scores: ", "k [2, 9, 6] does not fit q [5, 8]", "expected a width of 8")
    ROW(write_no_state, "state_write: ", "is no state", "expected a state")
    ROW(write_itself, "state_write: ", "is the state itself", "expected another value")
    ROW(write_width, "state_write: ", "x f32 [1, 7] does not fit state f32 [5, 8]", "expected")
    ROW(write_index, "state_write: ", "index is i32 [2]", "expected i32 [3]")
    ROW(state_other, "state s: ", "the name is taken by %1", "expected another")
    ROW(size_other, "size n: at most 5", "expected 4")
    ROW(weight_open, "weight w: ", "size 0 is open", "expected a number")
    ROW(select_rules, "select: ", "rules are i32 [2, 11]", "expected i32 [2, 12]")
    ROW(select_suppress, "select: ", "suppress is u8 [1, 8]", "expected u8 [sets, 9]")
    ROW(input_twice, "input a: ", "the name is taken", "expected another")
    ROW(input_rank, "input a: ", "7 axes", "expected 0 to 6")
    ROW(input_negative, "input a: ", "size 0 is -3", "expected 0 or more")
    ROW(input_huge, "input a: ", "too large", "expected at most")
    ROW(input_unnamed, "input: expected a name")
    ROW(name_twice, "name b: ", "already given to %1", "expected another")
    ROW(foreign_value, "gelu: input 0 is 77", "expected a value of the graph")
    ROW(constant_no_data, "constant c: expected data")
    ROW(constant_rank, "constant c: 900 axes", "expected 0 to 6")
    ROW(huge_result, "matmul: ", "too large", "expected at most")
    ROW(size_zero, "size n: at most 0", "expected 1 to")
#undef ROW
};

static void test_mistakes(void) {
    for (size_t i = 0; i < MX_COUNT(mistakes); i++) {
        mx_graph *g;
        CHECK(mx_graph_create("t", &g) == MXW_OK);
        mx_value got = mistakes[i].build(g);
        int ok = got == 0 || strcmp(mistakes[i].name, "input_twice") == 0;
        ok = ok && mx_graph_status(g) == MXW_E_ARGUMENT;
        for (int j = 0; j < 3 && mistakes[i].says[j]; j++)
            ok = ok && strstr(mx_graph_error(g), mistakes[i].says[j]) != NULL;
        if (!CHECK(ok))
            printf("    %s says: %s\n", mistakes[i].name, mx_graph_error(g));
        /* what follows gives none, and the first mistake stays the one that is told */
        char first[512];
        snprintf(first, sizeof(first), "%s", mx_graph_error(g));
        CHECK_EQ_INT(mx_graph_gelu(g, got, MXW_GELU_ERF), 0);
        CHECK(mx_graph_output(g, "o", got) == MXW_E_ARGUMENT);
        CHECK_STR(mx_graph_error(g), first);
        mx_graph_destroy(g);
    }
}

static void test_print(void) {
    mx_graph *g;
    mx_str text = {0};
    mx_value best[2], chosen[3], states[3];
    CHECK(mx_graph_create("demo", &g) == MXW_OK);
    int64_t rows = mx_graph_size(g, "rows", 8), k = mx_graph_size(g, "k", 4);
    mx_value x = mx_graph_input(g, "x", MXW_F32, 3, (int64_t[]){rows, 6, 4});
    mx_value w = mx_graph_weight(g, "w", 2, (int64_t[]){8, 4});
    CHECK_EQ_INT(mx_graph_weight(g, "w", 2, (int64_t[]){8, 4}), w);
    mx_value y = mx_graph_name(g, mx_graph_linear(g, x, w, 0), "block.q");
    mx_graph_name(g, y, "block.again");
    mx_value s = mx_graph_slice(g, y, 0, 1, INT64_MAX, 2);
    mx_value r = mx_graph_reshape(g, y, 3, (int64_t[]){rows, -1, 16});
    mx_graph_reshape(g, y, 2, (int64_t[]){-1, 8});
    mx_graph_attention(g, y, y, y, 2, 0.125, 1);
    mx_graph_top_k(g, y, k, best);
    mx_value flat = mx_graph_reduce(g, y, MXW_REDUCE_MEAN, 1);
    mx_value rules = mx_graph_input(g, "rules", MXW_I32, 2, (int64_t[]){rows, MX_RULE_WORDS});
    mx_value none = mx_graph_constant(
        g, "suppress", &(mx_tensor){.dtype = MXW_U8, .rank = 2,
                                   .dims = {1, 8}, .strides = {8, 1}, .data = (char[8]){0}});
    mx_graph_select(g, flat, rules, none, 3, chosen);
    mx_graph_conv1d(g, x, mx_graph_weight(g, "c", 3, (int64_t[]){5, 4, 3}), 0, 1, 1);
    mx_graph_conv1d_dilated(g, x, mx_graph_weight(g, "c", 3, (int64_t[]){5, 4, 3}), 0, 1, 2, 2);
    mx_value both = mx_graph_weight(g, "both", 3, (int64_t[]){2, 16, 4});
    mx_graph_lstm(g, x, both, both, 0, 0, 0, 0, MXW_LSTM_BOTH, states);
    mx_graph_output(g, "out", s);
    mx_graph_output(g, "ids", chosen[0]);
    CHECK(mx_graph_status(g) == MXW_OK);
    CHECK_EQ_INT(g->values[r].type.dims[1], 3);
    CHECK(mx_graph_print(g, &text) == MXW_OK);
    CHECK_STR(mx_str_get(&text),
              "graph demo\n"
              "  size rows <= 8\n"
              "  size k <= 4\n"
              "  %1 f32 [rows, 6, 4] = input x\n"
              "  %2 f32 [8, 4] = weight w\n"
              "  %3 f32 [rows, 6, 8] = linear(%1, %2, none)  # block.q, block.again\n"
              "  %4 f32 [?, 6, 8] = slice(%3, axis=0, 1::2)  # out\n"
              "  %5 f32 [rows, 3, 16] = reshape(%3, [rows, -1, 16])\n"
              "  %6 f32 [?, 8] = reshape(%3, [-1, 8])\n"
              "  %7 f32 [rows, 6, 8] = attention(%3, %3, %3, heads=2, scale=0.125, causal)\n"
              "  %8 f32 [rows, 6, k], %9 i32 [rows, 6, k] = top_k(%3, k=k)\n"
              "  %10 f32 [rows, 8] = reduce(%3, mean, axis=1)\n"
              "  %11 i32 [rows, 12] = input rules\n"
              "  %12 u8 [1, 8] = constant suppress\n"
              "  %13 i32 [rows, 3], %14 f32 [rows, 3], %15 f32 [rows, 2] = select(%10, %11, %12, k=3)  # ids\n"
              "  %16 f32 [5, 4, 3] = weight c\n"
              "  %17 f32 [rows, 6, 5] = conv1d(%1, %16, none, stride=1, pad=1)\n"
              "  %18 f32 [rows, 6, 5] = conv1d(%1, %16, none, stride=1, pad=2, dilation=2)\n"
              "  %19 f32 [2, 16, 4] = weight both\n"
              "  %20 f32 [rows, 6, 8], %21 f32 [2, 6, 4], %22 f32 [2, 6, 4] = "
              "lstm(%1, %19, %19, none, none, none, none, both)\n"
              "  output out = %4\n"
              "  output ids = %13\n");
    mx_str_free(&text);
    mx_graph_destroy(g);
}

/* Every allocation made to fail in turn: no crash, no leak, the graph says why. */
static void test_memory(void) {
    int64_t before = mx_mem_live();
    for (int64_t n = 0; n < 64; n++) {
        mx_graph *g;
        mx_mem_fail_after(n);
        mxw_status status = mx_graph_create("m", &g);
        if (status >= 0) {
            mx_value x = mx_graph_input(g, "x", MXW_F32, 2, (int64_t[]){3, 4});
            for (int i = 0; i < 40; i++)
                x = mx_graph_name(g, mx_graph_add(g, x, x), (char[]){'a', (char)('0' + i), 0});
            mx_graph_output(g, "y", x);
            status = mx_graph_status(g);
        }
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        mx_mem_fail_after(-1);
        mx_graph_destroy(g);
    }
    CHECK_EQ_INT(mx_mem_live(), before);
}

int main(void) {
    test_mistakes();
    test_print();
    test_memory();
    return check_done();
}
