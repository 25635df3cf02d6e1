/* model/model.h - public header of model/: Whisper's graphs, and nothing else.
 *
 * Four graphs: the encoder (log-mel to features), the cross keys and values (features to a window's slot of the
 * session's state), the decoder step (rows of tokens to candidates), and the decoder forced on known tokens (for word
 * times). The step also exists in two halves, for rules that the host applies to logits. No device, no dtype, no fast
 * path here.
 * Weights are leaves under openai-whisper's names. Values that a tap may want are named.
 *
 * Open sizes: windows, rows, sequences, picks, candidates, cells (rows of the self-attention cache), slots (windows
 * whose cross keys and values are kept), sets (rows of the suppression table), aligned (rows whose scores are
 * wanted). */
#ifndef MX_MODEL_H
#define MX_MODEL_H
#include "graph/graph.h"

/* encoder: in "mel" f32 [windows, 2 n_audio_ctx, n_mels] (time major); out "features" f32 [windows, n_audio_ctx, d]. */
mxw_status mx_model_encoder(const mxw_dims *dims, mx_graph **out);

/* The encoder of one window whose end is padding, for a live stream that hears it again and again. n = n_audio_ctx: all
 * positions are computed, and the keys and values of those from kept_from on are outputs, "rest.k.N" and "rest.v.N" f32
 * [1, n_audio_ctx - kept_from, d]. n < n_audio_ctx: only the first n are computed, and keys and values of the others
 * are inputs of that name: the padding's, which hardly change with what comes before it. Then "mel" is
 * [1, 2 n + 2, n_mels] and "features" [1, n, d]. */
mxw_status mx_model_encoder_part(const mxw_dims *dims, int64_t n, int64_t kept_from, mx_graph **out);

/* cross: in "features" f32 [windows, n_audio_ctx, d], "slot" i32 [windows]; writes states
 * "decoder.blocks.N.cross_attn.k" and ".v" f32 [slots, n_audio_ctx, d], which are also its outputs. */
mxw_status mx_model_cross(const mxw_dims *dims, mx_graph **out);

/* decoder: one step over rows of tokens, each row one token of one sequence.
 *   in  "token", "position", "sequence", "cell", "slot"  i32 [rows]   (cell: where this row's key and value go)
 *       "cells" i32 [sequences, n_text_ctx]   position -> cell, for each sequence
 *       "pick"  i32 [picks]                   rows whose logits are wanted
 *       "rules" i32 [picks, MX_RULE_WORDS], "suppress" u8 [sets, n_vocab]
 *   states "decoder.blocks.N.attn.k"/".v" f32 [cells, d] (written), ".cross_attn.k"/".v" (read)
 *   out "ids" i32 [picks, candidates], "logprobs" f32 [picks, candidates], "stats" f32 [picks, MX_SELECT_STATS] */
mxw_status mx_model_decoder(const mxw_dims *dims, mx_graph **out);

/* logits: the decoder's step without its rules: out "logits" f32 [picks, n_vocab]. */
mxw_status mx_model_logits(const mxw_dims *dims, mx_graph **out);
/* choice: the rest of it: in "logits", "rules", "suppress"; out "ids", "logprobs", "stats". */
mxw_status mx_model_choice(const mxw_dims *dims, mx_graph **out);

/* The alignment heads, those of the cross attention that follow time: {layer, head}. */
typedef struct mx_alignment {
    const int32_t (*heads)[2];
    size_t n;
} mx_alignment;
#define MX_MAX_ALIGNED 256   /* in one layer */

/* force: the decoder over known tokens. The inputs and outputs of the decoder, and
 *   in  "wanted" i32 [picks]                  the token whose logit is wanted of each pick
 *       "align_rows", "align_slots" i32 [aligned]   rows whose scores are wanted, and the slot each attends to
 *   out "logits" f32 [picks]                  of the wanted tokens, before any rule
 *       "scores" f32 [aligned, heads, n_audio_ctx]   of the alignment heads by layer, before the softmax */
mxw_status mx_model_force(const mxw_dims *dims, const mx_alignment *alignment, mx_graph **out);

#define MX_LAYER_NORM_EPS 1e-5
#endif
