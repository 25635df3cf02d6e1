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

/* Which positions a graph computes, and which it takes from an earlier run or keeps for a later one. */
typedef struct part {
    int64_t n_ctx;     /* all positions, 0 to n_ctx - 1, ... */
    int64_t n;         /* ... of which the first n are computed */
    int64_t kept_from; /* keys and values from here on are outputs; n_ctx: none are */
} part;

/* The keys, or values, of all positions: those that are computed, then those that are given. */
static mx_value all_positions(mx_graph *g, mx_value x, const part *of, int layer, const char *what, int64_t n) {
    char name[MX_NAME_BYTES];
    snprintf(name, sizeof(name), "rest.%s.%d", what, layer);
    if (of->n < of->n_ctx) {
        mx_value both[] = {x, mx_graph_input(g, name, MXW_F32, 3, (int64_t[]){1, of->n_ctx - of->n, n})};
        return mx_graph_concat(g, both, 2, 1);
    }
    if (of->kept_from < of->n_ctx)
        mx_graph_output(g, name, mx_graph_slice(g, x, 1, of->kept_from, of->n_ctx, 1));
    return x;
}

/* x + out(attention(q, k, v)) of norm(x): every position attends to every other. */
static mx_value self_attention(mx_graph *g, mx_value x, const part *of, int layer, int64_t n, int heads) {
    char p[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "encoder.blocks.%d", layer);
    mx_value h = mx_block_norm(g, x, mx_block_name(p, "attn_ln"), n);
    mx_value q = mx_block_linear(g, h, mx_block_name(p, "attn.query"), n, n, 1);
    mx_value k = mx_block_linear(g, h, mx_block_name(p, "attn.key"), n, n, 0);
    mx_value v = mx_block_linear(g, h, mx_block_name(p, "attn.value"), n, n, 1);
    mx_graph_name(g, q, mx_block_name(p, "attn.q"));
    mx_graph_name(g, k, mx_block_name(p, "attn.k"));
    mx_graph_name(g, v, mx_block_name(p, "attn.v"));
    k = all_positions(g, k, of, layer, "k", n);
    v = all_positions(g, v, of, layer, "v", n);
    h = mx_graph_attention(g, q, k, v, heads, mx_block_scale(n, heads), 0);
    mx_graph_name(g, h, mx_block_name(p, "attn.heads"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "attn.out"), n, n, 1), mx_block_name(p, "attn"));
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "attn.residual"));
}

/* Two more frames of log-mel than are needed: the last position sees what follows it. */
static mx_value part_positions(mx_graph *g, const mxw_dims *dims, const part *of, mx_value *x) {
    int64_t n = dims->n_audio_state;
    mx_value positions = mx_graph_weight(g, "encoder.positional_embedding", 2, (int64_t[]){dims->n_audio_ctx, n});
    if (of->n == of->n_ctx)
        return positions;
    *x = mx_graph_slice(g, *x, 1, 0, of->n, 1);
    return mx_graph_slice(g, positions, 0, 0, of->n, 1);
}

static mxw_status build(const char *name, const mxw_dims *dims, const part *of, int64_t max_windows, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    int64_t n = dims->n_audio_state, n_mel = 2 * (of->n < of->n_ctx ? of->n + 1 : of->n);
    MX_TRY(mx_graph_create(name, &g));

    int64_t windows = max_windows > 1 ? mx_graph_size(g, "windows", max_windows) : 1;
    mx_value x = mx_graph_input(g, "mel", MXW_F32, 3, (int64_t[]){windows, n_mel, dims->n_mels});
    x = stem(g, x, 1, n, dims->n_mels, 1);
    x = stem(g, x, 2, n, n, 2);
    mx_value positions = part_positions(g, dims, of, &x);
    x = mx_graph_name(g, mx_graph_add(g, x, positions), "encoder.positions");

    for (int i = 0; i < dims->n_audio_layer; i++) {
        char p[MX_NAME_BYTES];
        snprintf(p, sizeof(p), "encoder.blocks.%d", i);
        x = self_attention(g, x, of, i, n, dims->n_audio_head);
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

mxw_status mx_model_encoder(const mxw_dims *dims, mx_graph **out) {
    const part all = {dims->n_audio_ctx, dims->n_audio_ctx, dims->n_audio_ctx};
    return build("encoder", dims, &all, 4096, out);
}

mxw_status mx_model_encoder_part(const mxw_dims *dims, int64_t n, int64_t kept_from, mx_graph **out) {
    const part some = {dims->n_audio_ctx, n, kept_from};
    return build("encoder_part", dims, &some, 1, out);
}
