/* model/decoder_blocks.c - the decoder's blocks over rows of tokens, each row one token of one sequence. */
#include "model/decoder_blocks.h"

#include <stdio.h>

/* Graphs share a state by declaring it with the same name and shape. */
mx_value mx_decoder_cross_state(mx_graph *g, const mxw_dims *dims, int i, const char *suffix) {
    char p[MX_NAME_BYTES];
    int64_t slots = mx_graph_size(g, "slots", 4096);
    int64_t shape[] = {slots, dims->n_audio_ctx, dims->n_text_state};
    snprintf(p, sizeof(p), "decoder.blocks.%d.cross_attn", i);
    return mx_graph_state(g, mx_block_name(p, suffix), MXW_F32, 3, shape);
}

mx_value mx_decoder_begin(mx_graph *g, const mxw_dims *dims, mx_decoder_rows *rows) {
    int64_t n = dims->n_text_state;
    int64_t n_rows = mx_graph_size(g, "rows", 65536);
    int64_t sequences = mx_graph_size(g, "sequences", 65536);
    rows->dims = dims;
    rows->n_cells = mx_graph_size(g, "cells", (int64_t)1 << 24);
    mx_value token = mx_graph_input(g, "token", MXW_I32, 1, &n_rows);
    rows->position = mx_graph_input(g, "position", MXW_I32, 1, &n_rows);
    rows->sequence = mx_graph_input(g, "sequence", MXW_I32, 1, &n_rows);
    rows->cell = mx_graph_input(g, "cell", MXW_I32, 1, &n_rows);
    rows->slot = mx_graph_input(g, "slot", MXW_I32, 1, &n_rows);
    rows->cells = mx_graph_input(g, "cells", MXW_I32, 2, (int64_t[]){sequences, dims->n_text_ctx});

    rows->embedding = mx_graph_weight(g, "decoder.token_embedding.weight", 2, (int64_t[]){dims->n_vocab, n});
    mx_value positions = mx_graph_weight(g, "decoder.positional_embedding", 2, (int64_t[]){dims->n_text_ctx, n});
    mx_value x = mx_graph_add(g, mx_graph_gather(g, rows->embedding, token),
                              mx_graph_gather(g, positions, rows->position));
    return mx_graph_name(g, x, "decoder.embedding");
}

/* x + out(attention over the row's own past). The row's own key and value are written to the cache first. */
static mx_value self_attention(mx_graph *g, mx_value x, const char *block, const mx_decoder_rows *at) {
    const mxw_dims *dims = at->dims;
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
static mx_value cross_attention(mx_graph *g, mx_value x, int i, const char *block, const mx_decoder_rows *at,
                                mx_value *query) {
    const mxw_dims *dims = at->dims;
    int64_t n = dims->n_text_state;
    char p[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "%s", mx_block_name(block, "cross_attn"));
    mx_value h = mx_block_norm(g, x, mx_block_name(block, "cross_attn_ln"), n);
    mx_value q = mx_block_linear(g, h, mx_block_name(p, "query"), n, n, 1);
    mx_graph_name(g, q, mx_block_name(p, "q"));
    if (query)
        *query = q;
    h = mx_graph_attention_window(g, q, mx_decoder_cross_state(g, dims, i, "k"),
                                  mx_decoder_cross_state(g, dims, i, "v"), at->slot, dims->n_text_head,
                                  mx_block_scale(n, dims->n_text_head));
    mx_graph_name(g, h, mx_block_name(p, "heads"));
    h = mx_graph_name(g, mx_block_linear(g, h, mx_block_name(p, "out"), n, n, 1), p);
    return mx_graph_name(g, mx_graph_add(g, x, h), mx_block_name(p, "residual"));
}

mx_value mx_decoder_block(mx_graph *g, mx_value x, int i, const mx_decoder_rows *rows, mx_value *query) {
    char p[MX_NAME_BYTES];
    snprintf(p, sizeof(p), "decoder.blocks.%d", i);
    x = self_attention(g, x, p, rows);
    x = cross_attention(g, x, i, p, rows, query);
    return mx_block_mlp(g, x, p, rows->dims->n_text_state);
}

mx_value mx_decoder_logits(mx_graph *g, mx_value x, mx_value pick, const mx_decoder_rows *rows, mx_value *picked) {
    x = mx_block_norm(g, mx_graph_gather(g, x, pick), "decoder.ln", rows->dims->n_text_state);
    if (picked)
        *picked = x;
    return mx_graph_name(g, mx_graph_linear(g, x, rows->embedding, 0), "decoder.logits");
}

mx_value mx_decoder_pick(mx_graph *g) {
    int64_t picks = mx_graph_size(g, "picks", 65536);
    return mx_graph_input(g, "pick", MXW_I32, 1, &picks);
}

mx_choice_inputs mx_decoder_choice_inputs(mx_graph *g, const mxw_dims *dims) {
    int64_t picks = mx_graph_size(g, "picks", 65536), sets = mx_graph_size(g, "sets", 1024);
    mx_value rules = mx_graph_input(g, "rules", MXW_I32, 2, (int64_t[]){picks, MX_RULE_WORDS});
    mx_value suppress = mx_graph_input(g, "suppress", MXW_U8, 2, (int64_t[]){sets, dims->n_vocab});
    return (mx_choice_inputs){rules, suppress};
}

mxw_status mx_decoder_choice(mx_graph *g, mx_value logits, mx_choice_inputs in, const mxw_dims *dims) {
    mxw_status status;
    mx_value out[3];
    MX_TRY(mx_graph_select(g, logits, in.rules, in.suppress, mx_graph_size(g, "candidates", dims->n_vocab), out));
    MX_TRY(mx_graph_output(g, "ids", out[0]));
    MX_TRY(mx_graph_output(g, "logprobs", out[1]));
    MX_TRY(mx_graph_output(g, "stats", out[2]));
    status = MXW_OK;
out:
    return status;
}

mxw_status mx_decoder_candidates(mx_graph *g, mx_value x, const mx_decoder_rows *rows, mx_value *picked) {
    mx_value pick = mx_decoder_pick(g);
    mx_choice_inputs in = mx_decoder_choice_inputs(g, rows->dims);
    return mx_decoder_choice(g, mx_decoder_logits(g, x, pick, rows, picked), in, rows->dims);
}
