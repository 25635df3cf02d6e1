/* model/force.c - the decoder over known tokens: the probability of each, and the scores of the alignment heads. Word
 * times and the log probabilities of a transcript are computed from these. */
#include <stdio.h>

#include "model/decoder_blocks.h"

/* The heads of block i, as a constant of the graph; 0 if it has no alignment heads. */
static mx_value heads_of(mx_graph *g, const mx_alignment *alignment, int i) {
    int32_t heads[MX_MAX_ALIGNED];
    int64_t n = 0;
    char name[MX_NAME_BYTES];
    for (size_t j = 0; j < alignment->n; j++)
        if (alignment->heads[j][0] == i && n < MX_MAX_ALIGNED)
            heads[n++] = alignment->heads[j][1];
    if (!n)
        return 0;
    mx_tensor t = mx_tensor_of(MXW_I32, 1, &n, heads);
    snprintf(name, sizeof(name), "decoder.blocks.%d.cross_attn.alignment_heads", i);
    return mx_graph_constant(g, name, &t);
}

/* Scores of the heads of one block for align_rows; 0: none. */
static mx_value scores_of(mx_graph *g, mx_value query, int i, const mxw_dims *dims, const mx_alignment *alignment,
                          mx_value align_rows, mx_value align_slots) {
    mx_value heads = heads_of(g, alignment, i);
    if (!heads)
        return 0;
    return mx_graph_attention_scores(g, mx_graph_gather(g, query, align_rows),
                                     mx_decoder_cross_state(g, dims, i, "k"), heads, align_slots, dims->n_text_head,
                                     mx_block_scale(dims->n_text_state, dims->n_text_head));
}

mxw_status mx_model_force(const mxw_dims *dims, const mx_alignment *alignment, mx_graph **out) {
    mxw_status status;
    mx_graph *g = NULL;
    mx_decoder_rows rows;
    mx_value parts[MX_MAX_INPUTS], picked;
    int n_parts = 0;
    MX_TRY(mx_graph_create("force", &g));
    mx_value x = mx_decoder_begin(g, dims, &rows);
    int64_t aligned = mx_graph_size(g, "aligned", 65536);
    mx_value align_rows = mx_graph_input(g, "align_rows", MXW_I32, 1, &aligned);
    mx_value align_slots = mx_graph_input(g, "align_slots", MXW_I32, 1, &aligned);
    for (int i = 0; i < dims->n_text_layer; i++) {
        mx_value query;
        x = mx_decoder_block(g, x, i, &rows, &query);
        mx_value scores = scores_of(g, query, i, dims, alignment, align_rows, align_slots);
        status = scores && n_parts == MX_MAX_INPUTS
                     ? mx_fail(MXW_E_UNSUPPORTED, "alignment heads in more than %d layers", MX_MAX_INPUTS) : MXW_OK;
        if (status < 0)
            goto out;
        if (scores)
            parts[n_parts++] = scores;
    }
    MX_TRY(mx_graph_output(g, "scores", n_parts == 1 ? parts[0] : mx_graph_concat(g, parts, n_parts, 1)));
    MX_TRY(mx_decoder_candidates(g, x, &rows, &picked));
    int64_t picks = mx_graph_size(g, "picks", 65536);
    mx_value wanted = mx_graph_input(g, "wanted", MXW_I32, 1, &picks);
    mx_value products = mx_graph_mul(g, picked, mx_graph_gather(g, rows.embedding, wanted));
    MX_TRY(mx_graph_output(g, "logits", mx_graph_reduce(g, products, MXW_REDUCE_SUM, 1)));
    MX_TRY(mx_graph_status(g));
    *out = g;
    return MXW_OK;
out:
    mx_graph_destroy(g);
    return status;
}
