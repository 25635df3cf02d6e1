/* model/encoder.c - two convolutions, positional embedding, pre-norm blocks, a final norm. */
#include <stdio.h>

#include "model/blocks.h"

/* A stem layer: convolution of width 3, then GELU. */
static mx_value stem(mx_graph *g, mx_value x, int index, int64_t n_out, int64_t n_in, int stride) {
    char p[MX_NAME_BYTES], name[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "encoder.conv%d", index);
    mx_value weight = mx_graph_weight(g, mx_block_name(p, "weight"), 3, (int64_t[]){n_out, n_in, 3});
    mx_value bias = mx_block_vector(g, p, "bias", n_out);
    x = mx_graph_name(g, mx_graph_conv1d(g, x, weight, bias, stride, 1), p);
    snprintf(name, sizeof(name), "encoder.gelu%d", index);
    return mx_graph_name(g, mx_graph_gelu(g, x, MXW_GELU_ERF), name);
}

/* x + out(attention(q, k, v)) of norm(x): every position attends to every other. */
static mx_value self_attention(mx_graph *g, mx_value x, const char *p, int64_t n, int heads) {
    mx_value h = mx_block_norm(g, x, mx_block_name(p, "attn_ln"), n);
    mx_value q = mx_block_linear(g, h, mx_block_name(p, "attn.query"), n, n, 1);
    mx_value k = mx_block_linear(g, h, mx_block_name(p, "attn.key"), n, n, 0);
    mx_value v = mx_block_linear(g, h, mx_block_name(p, "attn.value"), n, n, 1);
    mx_graph_name(g, q, mx_block_name(p, "attn.q"));
    mx_graph_name(g, k, mx_block_name(p, "attn.k"));
    mx_graph_name(g, v, mx_block_name(p, "attn.v"));
    h = mx_graph_attention(g, q, k, v, heads, mx_block_scale(n, heads), 0);
    mx_graph_name(g, h, mx_block_name(p, "attn.heads"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "attn.out"), n, n, 1), mx_block_name(p, "attn"));
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "attn.residual"));
}

mxw_status mx_model_encoder(const mxw_dims *dims, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    int64_t n = dims->n_audio_state;
    MX_TRY(mx_graph_create("encoder", &g));

    int64_t windows = mx_graph_size(g, "windows", 4096);
    mx_value x = mx_graph_input(g, "mel", MXW_F32, 3, (int64_t[]){windows, 2 * dims->n_audio_ctx, dims->n_mels});
    x = stem(g, x, 1, n, dims->n_mels, 1);
    x = stem(g, x, 2, n, n, 2);
    mx_value positions =
        mx_graph_weight(g, "encoder.positional_embedding", 2, (int64_t[]){dims->n_audio_ctx, n});
    x = mx_graph_name(g, mx_graph_add(g, x, positions), "encoder.positions");

    for (int i = 0; i < dims->n_audio_layer; i++) {
        char p[MX_NAME_BYTES];
        snprintf(p, sizeof(p), "encoder.blocks.%d", i);
        x = self_attention(g, x, p, n, dims->n_audio_head);
        x = mx_block_mlp(g, x, p, n);
    }
    x = mx_block_norm(g, x, "encoder.ln_post", n);
    MX_TRY(mx_graph_output(g, "features", x));
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}
