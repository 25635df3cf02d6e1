/* pipeline/batch/step_runner.h - runs the model's programs for the slots of a batcher: mel to features, features to a
 * slot's cross keys and values, token rows to candidates, known tokens to what word times are computed from.
 *
 * The only place that knows both tensors and decode/. A slot is one session's share of the caches: one entry of the
 * cross keys and values, and a range of self-attention cells. Steps of several slots can be one run of the decoder,
 * windows of several slots one run of the encoder.
 *
 * Invariants: sized at open, nothing allocated afterwards except by the eager executor. A slot's results are the same
 * bits whatever else is in the run. A failed run leaves nothing behind that repeating it would not overwrite. One
 * thread at a time. */
#ifndef MX_STEP_RUNNER_H
#define MX_STEP_RUNNER_H
#include "decode/decode.h"
#include "pipeline/recognizer.h"

/* The largest request that one slot makes. */
typedef struct mx_slot_size {
    int n_rows, n_sequences, n_picks;   /* of one step */
    int n_cells;                        /* of one window */
    int forces;                         /* known tokens are run, too: their memory is reserved at open */
    int repetition;                     /* steps have rules about repetition, too */
} mx_slot_size;

mx_slot_size mx_slot_size_of(const mx_decode_plan *plan, int forces);

/* One slot's results of a forced run; valid until the next. */
typedef struct mx_forced {
    mx_candidates candidates;           /* as of a step */
    const float *logits;                /* [n_picks]: of the wanted tokens */
    const float *scores;                /* [n_rows][n_heads][n_keys]: of the alignment heads; NULL if not wanted */
    int n_rows, n_heads, n_keys;
} mx_forced;

/* One slot's part of a run. */
typedef struct mx_request {
    int slot;
    const float *mel;                   /* encode: f32 [2 n_audio_ctx][n_mels] ... */
    const float *features;              /* ... or, for a single request, its features: [n_audio_ctx][n_audio_state] */
    const mx_decode_step *step;         /* step: its rows ... */
    int k;                              /* ... and how many candidates per pick it needs */
    mx_candidates candidates;           /* out: k or more, valid until the next step */
    const int32_t *wanted;              /* force: a step as well, the token that is wanted of each pick ... */
    int wants_scores;                   /* ... and whether the alignment scores of its rows are */
    mx_forced forced;                   /* out */
} mx_request;

typedef struct mx_step_runner {
    const mx_recognizer *recognizer;
    mx_slot_size size;
    int n_slots;
    int width;               /* windows in one run of the encoder, at most */
    int split_devices;       /* the encoder is on another device than the rest */
    int max_rows, max_sequences, max_picks;   /* in one run of the decoder, without padding */
    int padded;              /* 1: sizes are rounded up, so that they recur and captured graphs can be launched */
    mx_state *state;
    mx_run *runs[MX_PART_COUNT];
    mx_run *halves[MX_HALF_COUNT];   /* NULL: no slot's steps have rules about repetition */
    float *logits;           /* [rounded room for picks of steps][n_vocab], between the halves */
    float *mels;             /* [width][2 n_audio_ctx][n_mels]; NULL for a width of 1 */
    int32_t *window_slots;   /* [width] */
    int32_t *columns;        /* [5][max_rows]: token, position, sequence, cell, slot */
    int32_t *cells;          /* [max_sequences][n_text_ctx] */
    int32_t *picks;          /* [max_picks] */
    mx_rule *rules;          /* [max_picks] */
    int32_t *wanted;         /* [max_picks] */
    int32_t *align_rows, *align_slots;   /* [max_rows] */
    uint8_t *suppress;       /* [n_slots tables][MX_SET_COUNT][n_vocab]; slots with equal tables share one */
    int n_tables[3];         /* tables that the decoder, its forced form and the choice hold; 0: they changed since */
    int *table_uses;         /* [n_slots tables]: slots that share it */
    int *table_of;           /* [n_slots]: the slot's table, -1: no session is attached */
} mx_step_runner;

mxw_status mx_step_runner_open(mx_step_runner *runner, const mx_recognizer *r, const mx_slot_size *size, int n_slots,
                               int width);
void mx_step_runner_close(mx_step_runner *runner);
/* Copies the suppression sets of the session that uses the slot from now on. */
void mx_step_runner_attach(mx_step_runner *runner, int slot, const mx_decode_plan *plan);
void mx_step_runner_detach(mx_step_runner *runner, int slot);
/* Each request's mel to features, and from them the cross keys and values of its slot; n is at most the width. */
mxw_status mx_step_runner_encode(mx_step_runner *runner, const mx_request *requests, int n);
/* The features of the first request of the last encode, [n_audio_ctx][n_audio_state]; valid until the next. */
mxw_status mx_step_runner_features(mx_step_runner *runner, const float **features);
void mx_step_runner_tap(mx_step_runner *runner, mx_tap_fn tap, void *context);
void mx_step_runner_watch(mx_step_runner *runner, mx_watch_fn watch, void *context);
/* How many of the requests, from the first on, fit in one run: at least one. */
int mx_step_runner_room(const mx_step_runner *runner, const mx_request *requests, int n);
/* One step of each request's slot, as one run; those with rules about repetition come last, and are a run of their own.
 * While the device works, meanwhile (NULL: nothing) is called at least once: it may encode for other slots, which is
 * queued behind this step and before every later one. */
typedef void (*mx_meanwhile_fn)(void *context);
mxw_status mx_step_runner_step(mx_step_runner *runner, mx_request *requests, int n, mx_meanwhile_fn meanwhile,
                               void *context);
/* Known tokens of each request's slot, as one run; overwrites the slot's cells. */
mxw_status mx_step_runner_force(mx_step_runner *runner, mx_request *requests, int n);
#endif
