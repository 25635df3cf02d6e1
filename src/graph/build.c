/* graph/build.c - one builder per op: sets its attributes and inputs, then appends the node, which checks it. */
#include "graph/build.h"

#include <string.h>

static mx_value append1(mx_graph *g, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n_inputs) {
    mx_value out[MX_MAX_OUTPUTS];
    return mx_graph_append(g, op, attrs, inputs, n_inputs, out);
}

static mx_value unary(mx_graph *g, mx_op op, mx_value x, const mx_attrs *attrs) { return append1(g, op, attrs, &x, 1); }

static mx_value binary(mx_graph *g, mx_op op, mx_value a, mx_value b) {
    return append1(g, op, &(mx_attrs){0}, (mx_value[]){a, b}, 2);
}

/* A negative axis counts from the end. */
static int plain_axis(const mx_graph *g, mx_value x, int axis) {
    int known = x > 0 && (size_t)x < g->n_values;
    return axis < 0 && known ? axis + g->values[x].type.rank : axis;
}

/* A size given as an attribute: a number, or an open size of this graph. */
static int check_size(mx_graph *g, mx_op op, const char *what, int64_t size, int may_infer) {
    mx_size_names names = mx_graph_size_names(g);
    if (size >= 0 || (may_infer && size == MX_DIM_INFER) || names.name(g, size))
        return 1;
    mx_graph_refuse(g, "%s: %s is %lld: expected 0 or more, or an open size of this graph", mx_op_name(op), what,
                    (long long)size);
    return 0;
}

mx_value mx_graph_matmul(mx_graph *g, mx_value a, mx_value b) { return binary(g, MX_OP_MATMUL, a, b); }
mx_value mx_graph_add(mx_graph *g, mx_value a, mx_value b) { return binary(g, MX_OP_ADD, a, b); }
mx_value mx_graph_sub(mx_graph *g, mx_value a, mx_value b) { return binary(g, MX_OP_SUB, a, b); }
mx_value mx_graph_mul(mx_graph *g, mx_value a, mx_value b) { return binary(g, MX_OP_MUL, a, b); }
mx_value mx_graph_div(mx_graph *g, mx_value a, mx_value b) { return binary(g, MX_OP_DIV, a, b); }
mx_value mx_graph_gather(mx_graph *g, mx_value table, mx_value index) { return binary(g, MX_OP_GATHER, table, index); }

mx_value mx_graph_linear(mx_graph *g, mx_value x, mx_value weight, mx_value bias) {
    return append1(g, MX_OP_LINEAR, &(mx_attrs){0}, (mx_value[]){x, weight, bias}, 3);
}

mx_value mx_graph_transpose(mx_graph *g, mx_value x) { return unary(g, MX_OP_TRANSPOSE, x, &(mx_attrs){0}); }
mx_value mx_graph_softmax(mx_graph *g, mx_value x) { return unary(g, MX_OP_SOFTMAX, x, &(mx_attrs){0}); }
mx_value mx_graph_argmax(mx_graph *g, mx_value x) { return unary(g, MX_OP_ARGMAX, x, &(mx_attrs){0}); }
mx_value mx_graph_cast(mx_graph *g, mx_value x, mxw_dtype dtype) {
    return unary(g, MX_OP_CAST, x, &(mx_attrs){.dtype = dtype});
}
mx_value mx_graph_gelu(mx_graph *g, mx_value x, mxw_gelu_kind kind) {
    return unary(g, MX_OP_GELU, x, &(mx_attrs){.kind = (int)kind});
}
#define MX_ELEMENTWISE(id, name, ...)                                                                                  \
    mx_value mx_graph_##name(mx_graph *g, mx_value x) { return unary(g, MX_OP_##id, x, &(mx_attrs){0}); }
#define MX_ELEMENTWISE_WITH(id, name, parameter_name, ...)                                                             \
    mx_value mx_graph_##name(mx_graph *g, mx_value x, double parameter_name) {                                         \
        return unary(g, MX_OP_##id, x, &(mx_attrs){.parameter = parameter_name});                                      \
    }
#include "op/elementwise.def"

mx_value mx_graph_reduce(mx_graph *g, mx_value x, mxw_reduce_kind kind, int axis) {
    return unary(g, MX_OP_REDUCE, x, &(mx_attrs){.kind = (int)kind, .axis = plain_axis(g, x, axis)});
}

mx_value mx_graph_permute(mx_graph *g, mx_value x, const int *axes) {
    mx_attrs attrs = {0};
    if (g->status < 0 || x <= 0 || (size_t)x >= g->n_values)
        return unary(g, MX_OP_PERMUTE, x, &attrs);
    int rank = g->values[x].type.rank;
    if (rank && !axes)
        return mx_graph_refuse(g, "permute: no axes: expected %d", rank);
    for (int i = 0; i < rank; i++)
        attrs.axes[i] = plain_axis(g, x, axes[i]);
    return unary(g, MX_OP_PERMUTE, x, &attrs);
}

mx_value mx_graph_reshape(mx_graph *g, mx_value x, int rank, const int64_t *dims) {
    mx_attrs attrs = {.rank = rank};
    if (g->status < 0)
        return 0;
    if (rank < 0 || rank > MX_MAX_RANK || (rank && !dims))
        return mx_graph_refuse(g, "reshape: %d axes: expected 0 to %d", rank, MX_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (!check_size(g, MX_OP_RESHAPE, "a size", dims[i], 1))
            return 0;
        attrs.dims[i] = dims[i];
    }
    return unary(g, MX_OP_RESHAPE, x, &attrs);
}

mx_value mx_graph_layer_norm(mx_graph *g, mx_value x, mx_value gamma, mx_value beta, double eps) {
    return append1(g, MX_OP_LAYER_NORM, &(mx_attrs){.eps = eps}, (mx_value[]){x, gamma, beta}, 3);
}

mx_value mx_graph_slice(mx_graph *g, mx_value x, int axis, int64_t start, int64_t stop, int64_t step) {
    return unary(g, MX_OP_SLICE, x,
                 &(mx_attrs){.axis = plain_axis(g, x, axis), .start = start, .stop = stop, .step = step});
}

mx_value mx_graph_concat(mx_graph *g, const mx_value *values, int n, int axis) {
    if (g->status < 0)
        return 0;
    if (n < 1 || n > MX_MAX_INPUTS || !values)
        return mx_graph_refuse(g, "concat: %d inputs: expected 1 to %d", n, MX_MAX_INPUTS);
    return append1(g, MX_OP_CONCAT, &(mx_attrs){.axis = plain_axis(g, values[0], axis)}, values, n);
}

mxw_status mx_graph_top_k(mx_graph *g, mx_value x, int64_t k, mx_value out[2]) {
    memset(out, 0, 2 * sizeof(*out));
    if (g->status >= 0 && check_size(g, MX_OP_TOP_K, "k", k, 0))
        mx_graph_append(g, MX_OP_TOP_K, &(mx_attrs){.k = k}, &x, 1, out);
    return g->status;
}

mx_value mx_graph_conv1d(mx_graph *g, mx_value x, mx_value weight, mx_value bias, int stride, int pad) {
    return mx_graph_conv1d_dilated(g, x, weight, bias, stride, pad, 1);
}

mx_value mx_graph_conv1d_dilated(mx_graph *g, mx_value x, mx_value weight, mx_value bias, int stride, int pad,
                                 int dilation) {
    mx_attrs attrs = {.stride = {stride, 1}, .pad = {pad, 0}, .dilation = dilation};
    return append1(g, MX_OP_CONV1D, &attrs, (mx_value[]){x, weight, bias}, 3);
}

mx_value mx_graph_conv2d(mx_graph *g, mx_value x, mx_value weight, mx_value bias, const int stride[2],
                         const int pad[2]) {
    mx_attrs attrs = {.stride = {1, 1}};
    if (stride)
        memcpy(attrs.stride, stride, sizeof(attrs.stride));
    if (pad)
        memcpy(attrs.pad, pad, sizeof(attrs.pad));
    return append1(g, MX_OP_CONV2D, &attrs, (mx_value[]){x, weight, bias}, 3);
}

mxw_status mx_graph_lstm(mx_graph *g, mx_value x, mx_value weight_ih, mx_value weight_hh, mx_value bias_ih,
                         mx_value bias_hh, mx_value h0, mx_value c0, mxw_lstm_direction direction, mx_value out[3]) {
    mx_value inputs[] = {x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0};
    memset(out, 0, 3 * sizeof(*out));
    mx_graph_append(g, MX_OP_LSTM, &(mx_attrs){.kind = (int)direction}, inputs, 7, out);
    return g->status;
}

mx_value mx_graph_attention(mx_graph *g, mx_value q, mx_value k, mx_value v, int heads, double scale, int causal) {
    mx_attrs attrs = {.heads = heads, .scale = scale, .causal = causal != 0};
    return append1(g, MX_OP_ATTENTION, &attrs, (mx_value[]){q, k, v}, 3);
}

mx_value mx_graph_attention_cached(mx_graph *g, mx_value q, mx_value k, mx_value v, mx_value seq, mx_value pos,
                                   mx_value cells, int heads, double scale) {
    mx_attrs attrs = {.heads = heads, .scale = scale};
    return append1(g, MX_OP_ATTENTION_CACHED, &attrs, (mx_value[]){q, k, v, seq, pos, cells}, 6);
}

mx_value mx_graph_attention_window(mx_graph *g, mx_value q, mx_value k, mx_value v, mx_value window, int heads,
                                   double scale) {
    mx_attrs attrs = {.heads = heads, .scale = scale};
    return append1(g, MX_OP_ATTENTION_WINDOW, &attrs, (mx_value[]){q, k, v, window}, 4);
}

mx_value mx_graph_attention_scores(mx_graph *g, mx_value q, mx_value k, mx_value head, mx_value window, int heads,
                                   double scale) {
    mx_attrs attrs = {.heads = heads, .scale = scale};
    return append1(g, MX_OP_ATTENTION_SCORES, &attrs, (mx_value[]){q, k, head, window}, 4);
}

static int is_value(const mx_graph *g, mx_value v) { return v > 0 && (size_t)v < g->n_values; }

mx_value mx_graph_state_write(mx_graph *g, mx_value state, mx_value x, mx_value index) {
    if (g->status >= 0 && is_value(g, state)) {
        mx_value leaf = g->values[state].state;
        if (!leaf)
            return mx_graph_refuse(g, "state_write: %%%d is no state: expected a state, or one after a write",
                                   (int)state);
        if (is_value(g, x) && g->values[x].state == leaf)
            return mx_graph_refuse(g, "state_write: %%%d is the state itself: expected another value", (int)x);
    }
    return append1(g, MX_OP_STATE_WRITE, &(mx_attrs){0}, (mx_value[]){state, x, index}, 3);
}

mxw_status mx_graph_select(mx_graph *g, mx_value logits, mx_value rules, mx_value suppress, int64_t k,
                           mx_value out[3]) {
    memset(out, 0, 3 * sizeof(*out));
    if (g->status >= 0 && check_size(g, MX_OP_SELECT, "k", k, 0))
        mx_graph_append(g, MX_OP_SELECT, &(mx_attrs){.k = k}, (mx_value[]){logits, rules, suppress}, 3, out);
    return g->status;
}
