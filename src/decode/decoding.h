/* decode/decoding.h - internal to decode/: the state of one window, shared by the state machine and the two
 * searches. */
#ifndef MX_DECODING_H
#define MX_DECODING_H
#include "decode/decode.h"

typedef struct mx_sequence {
    int32_t *tokens;      /* sampled so far, without end of text; capacity sample_len + 1 */
    int n_tokens;
    float sum_logprob;    /* f32 as the reference sums it */
    int done;             /* end of text was sampled */
    int looped;           /* it was ended because it repeated itself, and cut after the first time */
} mx_sequence;

struct mx_decoding {
    const mx_decode_plan *plan;
    int32_t *initial;              /* [plan->n_initial_max] prompt, start sequence, prefix, text that goes on */
    int n_initial, sot_index;
    int text_index;                /* where prefix and text that goes on begin, the latter's timestamp included */
    int n_continued;               /* of the initial ones: tokens of text that goes on */
    int greedy;                    /* without the plan's beams */
    double temperature;
    uint64_t window;
    int n_sequences;               /* live: 1 before the first step's result */
    int n_steps;                   /* results taken */
    int complete;
    mx_sequence *sequences;        /* [n_group] */
    mx_sequence *other;            /* [n_group] the next generation of a beam step */
    int32_t *cells, *other_cells;  /* [n_group][n_text_ctx] */
    mx_sequence *finished;         /* [n_finished_max] beam search */
    int n_finished, n_finished_max;
    struct mx_beam_candidate *pool;   /* [n_group * (beam size + 1)] */
    mx_decode_row *rows;
    int32_t *picks;
    mx_rule *rules;
    mx_said *said;                 /* [of picks]; NULL: the plan has no rules about repetition */
    int n_first_extra;             /* 1 when the first step also picks the start-of-transcript row */
    float no_speech_prob;
    mx_str text;
};

typedef struct mx_beam_candidate {
    float score;
    int source, token, order;
} mx_beam_candidate;

/* How many sequences the window has from the first result on. */
int mx_decoding_group(const mx_decoding *d);
int mx_decoding_is_beam(const mx_decoding *d);
/* loop.c: where to cut tokens that end with the same words again and again: after the first time; n if they do not. */
int mx_loop_begin(const mx_decode_plan *plan, const int32_t *tokens, int n);
/* Ends a sequence that repeats itself, if the plan wants that; 1 if it did. */
int mx_sequence_break_loop(const mx_decode_plan *plan, mx_sequence *s);
/* continued: there is text before what was sampled, after a first timestamp if there are timestamps. */
mx_rule mx_rule_for(const mx_decode_plan *plan, const int32_t *sampled, int n, int continued);
void mx_sequence_copy(mx_sequence *to, const mx_sequence *from);

/* One step's candidates, the picks of live sequences in order. */
void mx_beam_take(mx_decoding *d, const int32_t *ids, const float *logprobs, int k);
void mx_sample_take(mx_decoding *d, const int32_t *ids, const float *logprobs, int k);
/* The sequence to return. */
const mx_sequence *mx_beam_best(mx_decoding *d);
const mx_sequence *mx_sample_best(mx_decoding *d);
const mx_sequence *mx_rank(const mx_decode_plan *plan, const mx_sequence *sequences, int n);
#endif
