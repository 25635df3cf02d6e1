/* model/decoder_blocks.h - the decoder over rows of tokens; shared by its step and its forced form. */
#ifndef MX_DECODER_BLOCKS_H
#define MX_DECODER_BLOCKS_H
#include "model/blocks.h"

/* Per row: its sequence, its position, its cache cell, and the slot whose window it attends to. */
typedef struct mx_decoder_rows {
    const mxw_dims *dims;
    mx_value sequence, position, cell, slot, cells;
    mx_value embedding;   /* of the vocabulary */
    int64_t n_cells;      /* the open size */
} mx_decoder_rows;

/* Declares the inputs "token", "position", "sequence", "cell", "slot" and "cells"; the rows' embedding. */
mx_value mx_decoder_begin(mx_graph *g, const mxw_dims *dims, mx_decoder_rows *rows);
/* Block i. *query, unless NULL, gets the query of its cross attention, [rows, d]. */
mx_value mx_decoder_block(mx_graph *g, mx_value x, int i, const mx_decoder_rows *rows, mx_value *query);
/* Declares "pick". */
mx_value mx_decoder_pick(mx_graph *g);
/* Declares "rules" and "suppress". */
typedef struct mx_choice_inputs {
    mx_value rules, suppress;
} mx_choice_inputs;
mx_choice_inputs mx_decoder_choice_inputs(mx_graph *g, const mxw_dims *dims);
/* Hidden rows to logits: only picked rows are multiplied by the vocabulary. *picked, unless NULL, gets the picked rows
 * after the last norm. */
mx_value mx_decoder_logits(mx_graph *g, mx_value x, mx_value pick, const mx_decoder_rows *rows, mx_value *picked);
/* Logits to candidates: the outputs "ids", "logprobs" and "stats". */
mxw_status mx_decoder_choice(mx_graph *g, mx_value logits, mx_choice_inputs in, const mxw_dims *dims);
/* All of that: hidden rows to candidates. */
mxw_status mx_decoder_candidates(mx_graph *g, mx_value x, const mx_decoder_rows *rows, mx_value *picked);
/* The cross keys ("k") or values ("v") of block i, of every slot. */
mx_value mx_decoder_cross_state(mx_graph *g, const mxw_dims *dims, int i, const char *suffix);
#endif
