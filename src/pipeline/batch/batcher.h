/* pipeline/batch/batcher.h - sessions that share a device: requests that arrive together become one run.
 *
 * Every session is attached to a slot. With a batch of 1 the slot is the only one of a private batcher. Otherwise the
 * sessions of a model share one batcher with that many slots; a session that finds no free slot, or needs a larger one,
 * gets a private batcher and runs by itself.
 *
 * Leader/follower batching: the first thread to wait becomes the leader and runs the requests of all slots until its
 * own is done; then it wakes the next waiter. One run at a time, in this order: exclusive requests, windows to encode
 * (up to the encoder's width), known tokens, then one decoder step for every slot that is decoding. A batch is formed
 * from what is waiting: it never waits to fill up, no thread has to wake up between two steps, and all threads of the
 * pool work on one run. An asynchronous device gets a few windows to encode queued behind a running step, so that it
 * stays busy while the host processes the candidates.
 *
 * Invariants: results do not depend on what else is in the batch. A run that fails for several slots is repeated for
 * each of them alone, so that only the faulty request fails. Nothing is allocated after open. A session's callbacks are
 * called on its own thread only; mx_steps callbacks may be called on any thread that is in here, one at a time. Some
 * weights are read from the model's file while they are used: a request fails if it was written to since it was opened,
 * so that no result is of two files. */
#ifndef MX_BATCHER_H
#define MX_BATCHER_H
#include "pipeline/batch/step_runner.h"

typedef struct mx_batcher mx_batcher;
typedef struct mx_slot mx_slot;

/* One step after the other, until next returns 0. */
typedef struct mx_steps {
    int (*next)(void *context, mx_decode_step *step, int *k);
    void (*take)(void *context, const mx_candidates *candidates);
    void *context;
} mx_steps;

/* Polled between steps and, periodically, while waiting: a failure ends the request. */
typedef mxw_status (*mx_stop_fn)(void *context);

/* plan must outlive the slot; forces: known tokens will be run, too; stop may be NULL. */
mxw_status mx_slot_attach(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                          mx_slot **out);
/* The same without stop; *out is NULL if the shared batcher has no free slot that is large enough. */
mxw_status mx_slot_attach_shared(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_slot **out);
/* As mx_slot_attach, but if all slots of the shared batcher are taken it waits for one: for those who give it back
 * soon. */
mxw_status mx_slot_borrow(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                          mx_slot **out);
int mx_slot_is_shared(const mx_slot *slot);   /* it belongs to the shared batcher */
void mx_slot_set_stop(mx_slot *slot, mx_stop_fn stop, void *context);   /* while no request is under way */
void mx_slot_detach(mx_slot *slot);   /* NULL is fine */
/* Replaces the shared batcher by one with n_slots slots; E_STATE while any session is attached to it. If memory does
 * not suffice, nothing is kept and the batch size stays as it was. */
mxw_status mx_batcher_reserve(mx_recognizer *r, const mx_slot_size *size, int n_slots);
/* For tests, while no session runs: from so many requests on (2 or more; 0: as many as pay off) the pool's threads
 * apply the rules of decoding. */
void mx_batcher_spread(int from);
/* Closes the recognizer's shared batcher; no session may be attached. */
void mx_batcher_close(mx_batcher *batcher);

/* Mel f32 [2 n_audio_ctx][n_mels] to the slot's cross keys and values. */
mxw_status mx_slot_encode(mx_slot *slot, const float *mel);
/* All steps, against the window that the slot encoded last. */
mxw_status mx_slot_decode(mx_slot *slot, const mx_steps *steps);
/* One step; ids and logprobs hold [n_picks][k], stats [n_picks][MX_SELECT_STATS]. */
mxw_status mx_slot_step(mx_slot *slot, const mx_decode_step *step, int k, int32_t *ids, float *logprobs, float *stats);
/* Known tokens, against the window that the slot encoded last: take is called once; its argument is valid during the
 * call only. */
typedef struct mx_force {
    mx_decode_step step;
    const int32_t *wanted;     /* [n_picks]: the token whose logit is wanted */
    int k;                     /* candidates per pick */
    int wants_scores;          /* the alignment heads' scores of the rows are wanted */
    void (*take)(void *context, const mx_forced *forced);
    void *context;
} mx_force;
mxw_status mx_slot_force(mx_slot *slot, const mx_force *force);
/* Calls fn with exclusive use of the step runner. */
typedef mxw_status (*mx_exclusive_fn)(void *context, mx_step_runner *runner, int slot);
mxw_status mx_slot_exclusive(mx_slot *slot, mx_exclusive_fn fn, void *context);

/* How well it batches: requests (windows and steps of all slots), and the runs that they took. */
typedef struct mx_batcher_counts {
    int64_t windows, encoder_runs;
    int64_t windows_overlapped;   /* of the windows: encoded while a step ran */
    int64_t steps, decoder_runs;
    int64_t forced, force_runs;
    int64_t split_runs;           /* of several requests: they failed together, so that each was run alone */
    int waiting;                  /* slots that wait right now */
} mx_batcher_counts;
mx_batcher_counts mx_slot_counts(mx_slot *slot);   /* of the batcher that the slot belongs to */
#endif
