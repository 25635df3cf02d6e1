/* pipeline/runner.h - a session's seats on the three programs: mel to features, features to a slot, rows to candidates.
 * Between tensors and decode/: the only place that knows both. Sized at open; nothing allocated after. */
#ifndef MX_RUNNER_H
#define MX_RUNNER_H
#include "decode/decode.h"
#include "pipeline/recognizer.h"

typedef struct mx_runner {
    const mx_recognizer *recognizer;
    mx_state *state;
    mx_run *runs[MX_PART_COUNT];
    const mx_decode_plan *plan;
    int32_t *columns;        /* [5][max_rows]: token, position, sequence, cell, slot */
    int max_rows;
} mx_runner;

mxw_status mx_runner_open(mx_runner *runner, const mx_recognizer *r, const mx_decode_plan *plan);
void mx_runner_close(mx_runner *runner);
/* mel f32 [2 n_audio_ctx][n_mels] -> features, and from them the cross keys and values of slot 0. */
mxw_status mx_runner_encode(mx_runner *runner, const float *mel);
/* The features of the last encode, [n_audio_ctx][n_audio_state]; valid until the next. */
mxw_status mx_runner_features(mx_runner *runner, const float **features);
void mx_runner_tap(mx_runner *runner, mx_tap_fn tap, void *context);
/* Runs one step against slot 0; the candidates are valid until the next step. */
mxw_status mx_runner_step(mx_runner *runner, const mx_decode_step *step, int k, mx_candidates *out);
#endif
