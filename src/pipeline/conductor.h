/* pipeline/conductor.h - sessions that share the device: what several of them ask for at once becomes one run.
 *
 * Every session has a seat. With a batch of 1 it is the only one of a conductor of its own; otherwise the sessions of a
 * model share one conductor with that many seats, and those that find no seat, or need a larger one, are given a
 * conductor of their own and run apart.
 *
 * The rule: whoever asks while nobody conducts becomes the conductor, and runs what is asked, its own and everyone
 * else's, until its own is done; then it wakes the next in waiting. One run at a time: first what must run alone, then
 * windows to encode (up to the encoder's width), then known tokens, then a step of every seat that is decoding, all in
 * one. So nobody is ever waited for, no thread has to wake between two steps, and all threads of the pool work on one
 * run. A device that works by itself is given a few windows to encode while it is at a step, right behind it: it has
 * them to do while the candidates are looked at here.
 *
 * What holds: results do not depend on who was merged with whom; a run that fails for several seats is repeated for
 * each alone, so that only the one to blame fails; nothing is allocated after open. A session's callbacks are called on
 * its own thread only; what decodes (mx_steps) may be called on any thread in here, one at a time. */
#ifndef MX_CONDUCTOR_H
#define MX_CONDUCTOR_H
#include "pipeline/runner.h"

typedef struct mx_conductor mx_conductor;
typedef struct mx_seat mx_seat;

/* One step after the other, until next says 0. */
typedef struct mx_steps {
    int (*next)(void *context, mx_decode_step *step, int *k);
    void (*take)(void *context, const mx_candidates *candidates);
    void *context;
} mx_steps;

/* Asked between steps and, every now and then, while waiting: a failure ends what was asked for. */
typedef mxw_status (*mx_stop_fn)(void *context);

/* plan outlives the seat; forces: known tokens will be run, too; stop may be NULL. */
mxw_status mx_seat_open(mx_recognizer *r, const mx_decode_plan *plan, int forces, mx_stop_fn stop, void *context,
                        mx_seat **out);
void mx_seat_close(mx_seat *seat);
/* The shared conductor with so many seats, in place of the one there is, if nobody sits there: E_STATE otherwise. When
 * memory does not suffice nothing is kept, and the batch stays what it was. */
mxw_status mx_conductor_reserve(mx_recognizer *r, const mx_seat_size *size, int n_seats);
/* Of the recognizer's own conductor, when no session is left. */
void mx_conductor_close(mx_conductor *conductor);

/* Mel f32 [2 n_audio_ctx][n_mels] to the seat's cross keys and values. */
mxw_status mx_seat_encode(mx_seat *seat, const float *mel);
/* Every step there is, against what the seat encoded last. */
mxw_status mx_seat_decode(mx_seat *seat, const mx_steps *steps);
/* One step; ids and logprobs hold [n_picks][k], stats [n_picks][MX_SELECT_STATS]. */
mxw_status mx_seat_step(mx_seat *seat, const mx_decode_step *step, int k, int32_t *ids, float *logprobs, float *stats);
/* Known tokens, against what the seat encoded last: take is called once, with what is valid during the call. */
typedef struct mx_force {
    mx_decode_step step;
    const int32_t *wanted;     /* [n_picks]: the token whose logit is wanted */
    int k;                     /* candidates per pick */
    int listens;               /* the scores of the rows are wanted */
    void (*take)(void *context, const mx_forced *forced);
    void *context;
} mx_force;
mxw_status mx_seat_force(mx_seat *seat, const mx_force *force);
/* fn with the runner to itself. */
typedef mxw_status (*mx_alone_fn)(void *context, mx_runner *runner, int seat);
mxw_status mx_seat_alone(mx_seat *seat, mx_alone_fn fn, void *context);

/* How well it merges: what was asked for (windows and steps of all seats), and the runs that it took. */
typedef struct mx_conductor_counts {
    int64_t windows, encoder_runs;
    int64_t windows_beside;    /* of the windows: encoded while a step ran */
    int64_t steps, decoder_runs;
    int64_t forced, force_runs;
    int waiting;               /* seats that wait right now */
} mx_conductor_counts;
mx_conductor_counts mx_seat_counts(mx_seat *seat);   /* of the conductor that the seat belongs to */
#endif
