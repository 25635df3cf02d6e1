/* graph/print.c - the text form of a graph, which tests and bug reports quote:
 *
 *   graph encoder
 *     size windows <= 8
 *     %1 f32 [windows, 3000, 80] = input mel
 *     %7 f32 [windows, 1500, 384] = linear(%5, %6, %3)  # encoder.blocks.0.attn.q
 *     output audio = %40
 */
#include "graph/graph.h"

#include <string.h>

static const char *const kind_names[] = {
    [MX_INPUT] = "input", [MX_CONSTANT] = "constant", [MX_WEIGHT] = "weight", [MX_STATE] = "state"};
static const char *const gelu_names[] = {[MXW_GELU_ERF] = "erf", [MXW_GELU_TANH] = "tanh"};
static const char *const reduce_names[] = {
    [MXW_REDUCE_SUM] = "sum", [MXW_REDUCE_MEAN] = "mean", [MXW_REDUCE_MAX] = "max", [MXW_REDUCE_MIN] = "min"};

static const char *const lstm_names[] = {
    [MXW_LSTM_FORWARD] = "forward", [MXW_LSTM_REVERSE] = "reverse", [MXW_LSTM_BOTH] = "both"};

static const char *const act_names[] = {
    [MX_ACT_NONE] = "", [MX_ACT_GELU_ERF] = ", gelu erf", [MX_ACT_GELU_TANH] = ", gelu tanh"};

static void print_dim(const mx_graph *g, int64_t dim, mx_str *out) {
    mx_size_names names = mx_graph_size_names(g);
    if (dim <= -2)
        mx_str_text(out, names.name(g, dim) ? names.name(g, dim) : "?");
    else
        mx_str_print(out, "%lld", (long long)dim);
}

static void print_number(const char *name, double value, mx_str *out) {
    char text[32];
    mx_format_double(value, text);
    mx_str_print(out, ", %s=%s", name, text);
}

/* A dilation of 1 goes without saying. */
static void print_conv1d(const mx_attrs *a, mx_str *out) {
    mx_str_print(out, ", stride=%d, pad=%d", a->stride[0], a->pad[0]);
    if (a->dilation != 1)
        mx_str_print(out, ", dilation=%d", a->dilation);
}

static void print_attrs(const mx_graph *g, const mx_node *node, mx_str *out) {
    const mx_attrs *a = &node->attrs;
    switch (node->op) {
    case MX_OP_PERMUTE:
        mx_str_text(out, ", axes=[");
        for (int i = 0; i < g->values[node->inputs[0]].type.rank; i++)
            mx_str_print(out, "%s%d", i ? ", " : "", a->axes[i]);
        mx_str_text(out, "]");
        break;
    case MX_OP_RESHAPE:
        mx_str_text(out, ", [");
        for (int i = 0; i < a->rank; i++) {
            mx_str_text(out, i ? ", " : "");
            print_dim(g, a->dims[i], out);
        }
        mx_str_text(out, "]");
        break;
    case MX_OP_SLICE:
        mx_str_print(out, ", axis=%d, %lld:", a->axis, (long long)a->start);
        if (a->stop != INT64_MAX)
            mx_str_print(out, "%lld", (long long)a->stop);
        if (a->step != 1)
            mx_str_print(out, ":%lld", (long long)a->step);
        break;
    case MX_OP_CONCAT: mx_str_print(out, ", axis=%d", a->axis); break;
    case MX_OP_REDUCE: mx_str_print(out, ", %s, axis=%d", reduce_names[a->kind], a->axis); break;
    case MX_OP_GELU: mx_str_print(out, ", %s", gelu_names[a->kind]); break;
    case MX_OP_LAYER_NORM: print_number("eps", a->eps, out); break;
    case MX_OP_CONV1D: print_conv1d(a, out); break;
    case MX_OP_CONV2D:
        mx_str_print(out, ", stride=[%d, %d], pad=[%d, %d]", a->stride[0], a->stride[1], a->pad[0], a->pad[1]);
        break;
    case MX_OP_LSTM: mx_str_print(out, ", %s", lstm_names[a->kind]); break;
    case MX_OP_ATTENTION:
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW:
    case MX_OP_ATTENTION_SCORES:
        mx_str_print(out, ", heads=%d", a->heads);
        print_number("scale", a->scale, out);
        mx_str_text(out, a->causal ? ", causal" : "");
        break;
    case MX_OP_FUSED_LINEAR:
        mx_str_text(out, act_names[a->act]);
        if (node->n_inputs > 4 && node->inputs[4])
            print_number("eps", a->eps, out);
        break;
    case MX_OP_FUSED_CONV1D:
        print_conv1d(a, out);
        mx_str_text(out, act_names[a->act]);
        break;
    case MX_OP_FUSED_SELECT:
        if (node->n_inputs > 4 && node->inputs[4])
            print_number("eps", a->eps, out);
        /* fall through */
    case MX_OP_TOP_K:
    case MX_OP_SELECT:
        mx_str_text(out, ", k=");
        print_dim(g, a->k, out);
        break;
#define MX_ELEMENTWISE(id, name, ...) case MX_OP_##id: break;
#define MX_ELEMENTWISE_WITH(id, name, parameter_name, ...)                                                             \
    case MX_OP_##id: print_number(#parameter_name, a->parameter, out); break;
#include "op/elementwise.def"
    default: break;
    }
}

static void print_type(const mx_graph *g, mx_value value, mx_str *out) {
    char text[256];
    mx_size_names names = mx_graph_size_names(g);
    mx_str_print(out, "%%%d %s", (int)value, mx_type_text(&g->values[value].type, &names, text, sizeof(text)));
}

/* The names of the values first .. last, after the line that defines them. */
static void print_names(const mx_graph *g, mx_value first, mx_value last, const char *but, mx_str *out) {
    const char *before = "  # ";
    for (size_t i = 0; i < g->n_names; i++)
        if (g->names[i].value >= first && g->names[i].value <= last && g->names[i].name != but) {
            mx_str_print(out, "%s%s", before, g->names[i].name);
            before = ", ";
        }
    mx_str_text(out, "\n");
}

static void print_leaf(const mx_graph *g, mx_value value, mx_str *out) {
    const mx_value_info *info = &g->values[value];
    mx_str_text(out, "  ");
    print_type(g, value, out);
    mx_str_print(out, " = %s", kind_names[info->kind]);
    if (info->name)
        mx_str_print(out, " %s", info->name);
    print_names(g, value, value, info->name, out);
}

static void print_node(const mx_graph *g, const mx_node *node, mx_str *out) {
    for (int i = 0; i < node->n_outputs; i++) {
        mx_str_text(out, i ? ", " : "  ");
        print_type(g, node->outputs[i], out);
    }
    mx_str_print(out, " = %s(", mx_op_name(node->op));
    for (int i = 0; i < node->n_inputs; i++) {
        mx_str_text(out, i ? ", " : "");
        if (node->inputs[i])
            mx_str_print(out, "%%%d", (int)node->inputs[i]);
        else
            mx_str_text(out, "none");
    }
    print_attrs(g, node, out);
    mx_str_text(out, ")");
    print_names(g, node->outputs[0], node->outputs[node->n_outputs - 1], NULL, out);
}

mxw_status mx_graph_print(const mx_graph *g, mx_str *out) {
    mx_str_print(out, "graph %s\n", g->name);
    for (size_t i = 0; i < g->n_sizes; i++)
        mx_str_print(out, "  size %s <= %lld\n", g->sizes[i].name, (long long)g->sizes[i].max);
    for (size_t i = 1; i < g->n_values; i++) {
        const mx_value_info *info = &g->values[i];
        if (info->kind != MX_RESULT)
            print_leaf(g, (mx_value)i, out);
        else if (info->output == 0)
            print_node(g, &g->nodes[info->node], out);
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        mx_str_print(out, "  output %s = %%%d\n", g->outputs[i].name, (int)g->outputs[i].value);
    if (g->status < 0)
        mx_str_print(out, "  refused: %s\n", g->error);
    return mx_str_status(out);
}
