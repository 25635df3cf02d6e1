/* model/blocks.c - linear, norm and the feed-forward half of a block, under openai-whisper's weight names. */
#include "model/blocks.h"

#include <math.h>
#include <stdio.h>

const char *mx_block_name(const char *prefix, const char *suffix) {
    static _Thread_local char names[4][MX_NAME_BYTES];
    static _Thread_local unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, MX_NAME_BYTES, "%s.%s", prefix, suffix);
    return name;
}

mx_value mx_block_vector(mx_graph *g, const char *p, const char *suffix, int64_t n) {
    return mx_graph_weight(g, mx_block_name(p, suffix), 1, &n);
}

mx_value mx_block_linear(mx_graph *g, mx_value x, const char *p, int64_t n_out, int64_t n_in, int with_bias) {
    mx_value weight = mx_graph_weight(g, mx_block_name(p, "weight"), 2, (int64_t[]){n_out, n_in});
    mx_value bias = with_bias ? mx_block_vector(g, p, "bias", n_out) : 0;
    return mx_graph_linear(g, x, weight, bias);
}

mx_value mx_block_norm(mx_graph *g, mx_value x, const char *p, int64_t n) {
    mx_value gamma = mx_block_vector(g, p, "weight", n);
    mx_value beta = mx_block_vector(g, p, "bias", n);
    return mx_graph_name(g, mx_graph_layer_norm(g, x, gamma, beta, MX_LAYER_NORM_EPS), p);
}

mx_value mx_block_mlp(mx_graph *g, mx_value x, const char *p, int64_t n) {
    mx_value h = mx_block_norm(g, x, mx_block_name(p, "mlp_ln"), n);
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "mlp.0"), 4 * n, n, 1), mx_block_name(p, "mlp.fc1"));
    h = mx_graph_name(g, mx_graph_gelu(g, h, MXW_GELU_ERF), mx_block_name(p, "mlp.gelu"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "mlp.2"), n, 4 * n, 1), mx_block_name(p, "mlp"));
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "mlp.residual"));
}

double mx_block_scale(int64_t n, int64_t heads) { return 1.0 / sqrt((double)(n / heads)); }
