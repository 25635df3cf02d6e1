/* model/decoder.c - the cross keys and values of a window, and the decoder step over rows of tokens. */
#include <stdio.h>

#include "model/blocks.h"

/* Each named state lives in the session; both graphs below speak of it by the same name and shape. */
static mx_value cross_state(mx_graph *g, const mxw_dims *dims, const char *p, const char *suffix) {
    int64_t slots = mx_graph_size(g, "slots", 4096);
    int64_t shape[] = {slots, dims->n_audio_ctx, dims->n_text_state};
    return mx_graph_state(g, mx_block_name(p, suffix), MXW_F32, 3, shape);
}

mxw_status mx_model_cross(const mxw_dims *dims, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    int64_t n = dims->n_text_state;
    MX_TRY(mx_graph_create("cross", &g));

    int64_t windows = mx_graph_size(g, "windows", 4096);
    mx_value features =
        mx_graph_input(g, "features", MXW_F32, 3, (int64_t[]){windows, dims->n_audio_ctx, dims->n_audio_state});
    mx_value slot = mx_graph_input(g, "slot", MXW_I32, 1, &windows);
    for (int i = 0; i < dims->n_text_layer; i++) {
        char p[MX_NAME_BYTES], name[MX_NAME_BYTES];
        snprintf(p, sizeof(p), "decoder.blocks.%d.cross_attn", i);
        mx_value k = mx_block_linear(g, features, mx_block_name(p, "key"), n, dims->n_audio_state, 0);
        mx_value v = mx_block_linear(g, features, mx_block_name(p, "value"), n, dims->n_audio_state, 1);
        k = mx_graph_state_write(g, cross_state(g, dims, p, "k"), k, slot);
        v = mx_graph_state_write(g, cross_state(g, dims, p, "v"), v, slot);
        snprintf(name, sizeof(name), "%s", mx_block_name(p, "k"));
        MX_TRY(mx_graph_output(g, name, k));
        snprintf(name, sizeof(name), "%s", mx_block_name(p, "v"));
        MX_TRY(mx_graph_output(g, name, v));
    }
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}

/* The inputs that place each row: which sequence, where in it, where its cache row goes, which window it hears. */
typedef struct placing {
    mx_value sequence, position, cell, slot, cells;
    int64_t n_cells;   /* the open size */
} placing;

/* x + out(attention over the row's own past). The row's key and value enter the cache first. */
static mx_value self_attention(mx_graph *g, mx_value x, const char *block, const mxw_dims *dims, const placing *at) {
    int64_t n = dims->n_text_state, shape[] = {at->n_cells, n};
    char p[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "%s", mx_block_name(block, "attn"));
    mx_value h = mx_block_norm(g, x, mx_block_name(block, "attn_ln"), n);
    mx_value q = mx_block_linear(g, h, mx_block_name(p, "query"), n, n, 1);
    mx_value k = mx_block_linear(g, h, mx_block_name(p, "key"), n, n, 0);
    mx_value v = mx_block_linear(g, h, mx_block_name(p, "value"), n, n, 1);
    mx_graph_name(g, q, mx_block_name(p, "q"));
    k = mx_graph_state_write(g, mx_graph_state(g, mx_block_name(p, "k"), MXW_F32, 2, shape), k, at->cell);
    v = mx_graph_state_write(g, mx_graph_state(g, mx_block_name(p, "v"), MXW_F32, 2, shape), v, at->cell);
    h = mx_graph_attention_cached(g, q, k, v, at->sequence, at->position, at->cells, dims->n_text_head,
                                  mx_block_scale(n, dims->n_text_head));
    mx_graph_name(g, h, mx_block_name(p, "heads"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "out"), n, n, 1), p);
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "residual"));
}

/* x + out(attention over the keys and values of the row's window). */
static mx_value cross_attention(mx_graph *g, mx_value x, const char *block, const mxw_dims *dims, const placing *at) {
    int64_t n = dims->n_text_state;
    char p[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "%s", mx_block_name(block, "cross_attn"));
    mx_value h = mx_block_norm(g, x, mx_block_name(block, "cross_attn_ln"), n);
    mx_value q = mx_block_linear(g, h, mx_block_name(p, "query"), n, n, 1);
    mx_graph_name(g, q, mx_block_name(p, "q"));
    h = mx_graph_attention_window(g, q, cross_state(g, dims, p, "k"), cross_state(g, dims, p, "v"), at->slot,
                                  dims->n_text_head, mx_block_scale(n, dims->n_text_head));
    mx_graph_name(g, h, mx_block_name(p, "heads"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "out"), n, n, 1), p);
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "residual"));
}

/* Hidden rows to candidates: only the picked rows meet the vocabulary. */
static mxw_status candidates(mx_graph *g, mx_value x, mx_value embedding, const mxw_dims *dims) {
    mxw_status status;
    mx_value out[3];
    int64_t picks = mx_graph_size(g, "picks", 65536);
    int64_t sets = mx_graph_size(g, "sets", 1024);
    mx_value pick = mx_graph_input(g, "pick", MXW_I32, 1, &picks);
    mx_value rules = mx_graph_input(g, "rules", MXW_I32, 2, (int64_t[]){picks, MX_RULE_WORDS});
    mx_value suppress = mx_graph_input(g, "suppress", MXW_U8, 2, (int64_t[]){sets, dims->n_vocab});
    x = mx_block_norm(g, mx_graph_gather(g, x, pick), "decoder.ln", dims->n_text_state);
    mx_value logits = mx_graph_name(g, mx_graph_linear(g, x, embedding, 0), "decoder.logits");
    MX_TRY(mx_graph_select(g, logits, rules, suppress, mx_graph_size(g, "candidates", dims->n_vocab), out));
    MX_TRY(mx_graph_output(g, "ids", out[0]));
    MX_TRY(mx_graph_output(g, "logprobs", out[1]));
    MX_TRY(mx_graph_output(g, "stats", out[2]));
    status = MXW_OK;
out:
    return status;
}

mxw_status mx_model_decoder(const mxw_dims *dims, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    int64_t n = dims->n_text_state;
    placing at;
    MX_TRY(mx_graph_create("decoder", &g));

    int64_t rows = mx_graph_size(g, "rows", 65536);
    int64_t sequences = mx_graph_size(g, "sequences", 65536);
    at.n_cells = mx_graph_size(g, "cells", (int64_t)1 << 24);
    mx_value token = mx_graph_input(g, "token", MXW_I32, 1, &rows);
    at.position = mx_graph_input(g, "position", MXW_I32, 1, &rows);
    at.sequence = mx_graph_input(g, "sequence", MXW_I32, 1, &rows);
    at.cell = mx_graph_input(g, "cell", MXW_I32, 1, &rows);
    at.slot = mx_graph_input(g, "slot", MXW_I32, 1, &rows);
    at.cells = mx_graph_input(g, "cells", MXW_I32, 2, (int64_t[]){sequences, dims->n_text_ctx});

    mx_value embedding = mx_graph_weight(g, "decoder.token_embedding.weight", 2, (int64_t[]){dims->n_vocab, n});
    mx_value positions = mx_graph_weight(g, "decoder.positional_embedding", 2, (int64_t[]){dims->n_text_ctx, n});
    mx_value x = mx_graph_add(g, mx_graph_gather(g, embedding, token), mx_graph_gather(g, positions, at.position));
    mx_graph_name(g, x, "decoder.embedding");
    for (int i = 0; i < dims->n_text_layer; i++) {
        char p[MX_NAME_BYTES];
        snprintf(p, sizeof(p), "decoder.blocks.%d", i);
        x = self_attention(g, x, p, dims, &at);
        x = cross_attention(g, x, p, dims, &at);
        x = mx_block_mlp(g, x, p, n);
    }
    MX_TRY(candidates(g, x, embedding, dims));
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}
