/* pipeline/inspect.c - one window seen from end to end, for lab/: mel, encoder, cross, tokens, and the decoder forced
 * over them. What holds: the window goes the way that a transcription's would, through the same programs and caches. */
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

typedef struct seen {
    mx_session *session;
    mx_inspection *inspection;
    const mx_decode_step *step;
} seen;

static void look(mx_step_runner *runner, const mx_inspection *i) {
    mx_step_runner_tap(runner, i ? i->tap : NULL, i ? i->context : NULL);
    mx_step_runner_watch(runner, i ? i->watch : NULL, i ? i->context : NULL);
}

static mxw_status encode_seen(void *context, mx_step_runner *runner, int slot) {
    const seen *s = context;
    look(runner, s->inspection);
    mxw_status status = mx_step_runner_encode(runner, &(mx_request){.slot = slot, .mel = s->session->window}, 1);
    look(runner, NULL);
    return status;
}

static mxw_status step_seen(void *context, mx_step_runner *runner, int slot) {
    const seen *s = context;
    mx_request request = {.slot = slot, .step = s->step, .k = MX_FORCE_CANDIDATES};
    int padded = runner->padded;
    runner->padded = 0;   /* the rows that are seen are those of the step */
    look(runner, s->inspection);
    mxw_status status = mx_step_runner_step(runner, &request, 1, NULL, NULL);
    look(runner, NULL);
    runner->padded = padded;
    return status;
}

static int next_step(void *decoding, mx_decode_step *step, int *k) {
    *k = mx_decoding_candidates(decoding);
    return mx_decoding_step(decoding, step);
}

static void take_step(void *decoding, const mx_candidates *candidates) { mx_decoding_take(decoding, candidates); }

/* The window's own tokens: what the session would decode at its first temperature, without a prompt. */
static mxw_status decode_window(mx_session *s, mx_inspection *i) {
    mxw_status status;
    mx_decode_result result;
    MX_TRY(mx_decoding_start(s->decoding, s->language, NULL, 0, s->temperatures[0], 0));
    MX_TRY(mx_slot_decode(s->slot, &(mx_steps){next_step, take_step, s->decoding}));
    MX_TRY(mx_decoding_result(s->decoding, &result));
    s->carried.n = 0;   /* scratch that outlives the next start */
    MX_TRY(mx_tokens_add(&s->carried, result.tokens, result.n_tokens));
    i->tokens = s->carried.items;
    i->n_tokens = s->carried.n;
out:
    return status;
}

mxw_status mx_session_inspect(mx_session *s, mx_inspection *i) {
    mxw_status status;
    mx_decode_step step;
    seen all = {s, i, &step};
    const mxw_dims *dims = &s->recognizer->checkpoint.dims;
    int64_t left = mx_mel_frames(s->mel) - i->seek, shape[] = {MX_MEL_WINDOW, dims->n_mels};
    if (!s->finished)
        return mx_fail(MXW_E_STATE, "a window is looked into once the recording is finished");
    if (i->seek < 0 || left <= 0)
        return mx_fail(MXW_E_ARGUMENT, "seek: the recording has no frame %lld", (long long)i->seek);
    if (!s->language)
        MX_TRY(mx_session_detect_language(s));
    MX_TRY(mx_session_mel_window(s, i->seek, MX_MIN(left, MX_MEL_WINDOW), 0, s->window));
    if (i->tap) {
        mx_tensor mel = mx_tensor_of(MXW_F32, 2, shape, s->window);
        i->tap(i->context, "mel", &mel);
    }
    MX_TRY(mx_slot_exclusive(s->slot, encode_seen, &all));
    i->tokens = i->forced;
    i->n_tokens = i->n_forced;
    if (!i->forced)
        MX_TRY(decode_window(s, i));
    MX_TRY(mx_decoding_force(s->decoding, s->language, NULL, 0, i->tokens, i->n_tokens, &step));
    MX_TRY(mx_slot_exclusive(s->slot, step_seen, &all));
    if (s->options.word_timestamps && i->tap)
        MX_TRY(mx_session_see_words(s, MX_MIN(left, MX_MEL_WINDOW), i));
    i->language = s->language;
out:
    return status;
}
