/* model/decoder.c - the cross keys and values of a window, and the decoder step over rows of tokens. */
#include <stdio.h>

#include "model/decoder_blocks.h"

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
        k = mx_graph_state_write(g, mx_decoder_cross_state(g, dims, i, "k"), k, slot);
        v = mx_graph_state_write(g, mx_decoder_cross_state(g, dims, i, "v"), v, slot);
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

/* The decoder's step up to candidates, or only up to logits. */
static mxw_status build_step(const mxw_dims *dims, const char *name, int only_logits, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    mx_decoder_rows rows;
    MX_TRY(mx_graph_create(name, &g));
    mx_value x = mx_decoder_begin(g, dims, &rows);
    for (int i = 0; i < dims->n_text_layer; i++)
        x = mx_decoder_block(g, x, i, &rows, NULL);
    if (only_logits)
        MX_TRY(mx_graph_output(g, "logits", mx_decoder_logits(g, x, mx_decoder_pick(g), &rows, NULL)));
    else
        MX_TRY(mx_decoder_candidates(g, x, &rows, NULL));
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}

mxw_status mx_model_decoder(const mxw_dims *dims, mx_graph **out) { return build_step(dims, "decoder", 0, out); }

mxw_status mx_model_logits(const mxw_dims *dims, mx_graph **out) { return build_step(dims, "logits", 1, out); }

mxw_status mx_model_choice(const mxw_dims *dims, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    MX_TRY(mx_graph_create("choice", &g));
    int64_t picks = mx_graph_size(g, "picks", 65536);
    mx_value logits = mx_graph_input(g, "logits", MXW_F32, 2, (int64_t[]){picks, dims->n_vocab});
    MX_TRY(mx_decoder_choice(g, logits, mx_decoder_choice_inputs(g, dims), dims));
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}
