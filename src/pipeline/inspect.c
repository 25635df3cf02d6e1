/* pipeline/inspect.c - one window end to end, for lab/: mel, encoder, cross, tokens, and the decoder forced over them;
 * and single stages of it, for tests. */
#include "pipeline/inspect.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

typedef struct seen {
    mx_session *session;
    mx_inspection *inspection;
    const mx_decode_step *step;
} seen;

static void observe(mx_step_runner *runner, const mx_inspection *i) {
    mx_step_runner_tap(runner, i ? i->tap : NULL, i ? i->context : NULL);
    mx_step_runner_watch(runner, i ? i->watch : NULL, i ? i->context : NULL);
}

static mxw_status encode_seen(void *context, mx_step_runner *runner, int slot) {
    const seen *s = context;
    observe(runner, s->inspection);
    mxw_status status = mx_step_runner_encode(runner, &(mx_request){.slot = slot, .mel = s->session->window.mel}, 1);
    observe(runner, NULL);
    return status;
}

static mxw_status step_seen(void *context, mx_step_runner *runner, int slot) {
    const seen *s = context;
    mx_request request = {.slot = slot, .step = s->step, .k = MX_FORCE_CANDIDATES};
    int padded = runner->padded;
    runner->padded = 0;   /* show the rows of the step, without padding */
    observe(runner, s->inspection);
    mxw_status status = mx_step_runner_step(runner, &request, 1, NULL, NULL);
    observe(runner, NULL);
    runner->padded = padded;
    return status;
}

/* The window's own tokens: as the session would decode it at its first temperature, without a prompt. */
static mxw_status decode_window(mx_session *s, mx_inspection *i) {
    mxw_status status;
    mx_decode_result result;
    MX_TRY(mx_decoding_start(s->decoding, s->language, NULL, 0, s->temperatures[0], 0));
    MX_TRY(mx_session_run_decoding(s, &result));
    s->at.carried.n = 0;   /* scratch that outlives the next start */
    MX_TRY(mx_tokens_add(&s->at.carried, result.tokens, result.n_tokens));
    i->tokens = s->at.carried.items;
    i->n_tokens = s->at.carried.n;
out:
    return status;
}

mxw_status mx_session_inspect(mx_session *s, mx_inspection *i) {
    mxw_status status;
    mx_decode_step step;
    seen all = {s, i, &step};
    const mxw_dims *dims = s->recognizer->checkpoint.dims;
    int64_t left = mx_mel_frames(s->mel) - i->seek, shape[] = {MX_MEL_WINDOW, dims->n_mels};
    if (!s->finished)
        return mx_fail(MXW_E_STATE, "inspect before finish");
    if (i->seek < 0 || left <= 0)
        return mx_fail(MXW_E_ARGUMENT, "seek: the recording has no frame %lld", (long long)i->seek);
    if (!s->language)
        MX_TRY(mx_session_detect_language(s, 0));
    MX_TRY(mx_session_mel_window(s, i->seek, MX_MIN(left, MX_MEL_WINDOW), MX_MEL_ZEROS, s->window.mel));
    if (i->tap) {
        mx_tensor mel = mx_tensor_of(MXW_F32, 2, shape, s->window.mel);
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
        MX_TRY(mx_session_inspect_words(s, MX_MIN(left, MX_MEL_WINDOW), i));
    i->language = s->language;
out:
    return status;
}

/* ---- single stages ----------------------------------------------------------------------------------------------- */

mxw_status mx_session_mel(mx_session *s, int64_t seek, int64_t n_frames, float *out) {
    return mx_session_mel_window(s, seek, n_frames, MX_MEL_ZEROS, out);
}

/* An encode with a tap. */
typedef struct encode_context {
    const float *mel;
    float *out;
    mx_tap_fn tap;
    void *tap_context;
} encode_context;

static mxw_status encode_tapped(void *context, mx_step_runner *runner, int slot) {
    const encode_context *v = context;
    const mxw_dims *dims = runner->recognizer->checkpoint.dims;
    const float *features;
    mx_step_runner_tap(runner, v->tap, v->tap_context);
    mxw_status status = mx_step_runner_encode(runner, &(mx_request){.slot = slot, .mel = v->mel}, 1);
    mx_step_runner_tap(runner, NULL, NULL);
    if (status >= 0)
        status = mx_step_runner_features(runner, &features);
    if (status >= 0)
        memcpy(v->out, features, (size_t)dims->n_audio_ctx * (size_t)dims->n_audio_state * sizeof(*v->out));
    return status;
}

mxw_status mx_session_encode(mx_session *s, const float *mel, float *out, mx_tap_fn tap, void *tap_context) {
    return mx_slot_exclusive(s->slot, encode_tapped, &(encode_context){mel, out, tap, tap_context});
}

/* The log probability of each token among its pick's candidates. */
static void read_forced(const mx_session *s, const int32_t *tokens, size_t n_tokens, const int32_t *ids,
                        const float *candidates, int n_picks, float *logprobs) {
    for (size_t i = 0; i <= n_tokens; i++) {
        int32_t wanted = i < n_tokens ? tokens[i] : s->plan->special.eot;
        logprobs[i] = NAN;
        for (size_t j = i * MX_FORCE_CANDIDATES; i < (size_t)n_picks && j < (i + 1) * MX_FORCE_CANDIDATES; j++)
            if (ids[j] == wanted)
                logprobs[i] = candidates[j];
    }
}

mxw_status mx_session_force(mx_session *s, int64_t seek, int64_t n_frames, const int32_t *prompt, size_t n_prompt,
                            const int32_t *tokens, size_t n_tokens, float *logprobs, float *no_speech_prob) {
    mxw_status status;
    mx_decode_step step;
    size_t n_picks = (size_t)mx_slot_size_of(s->plan, 0).n_picks;
    int32_t *ids = mx_alloc_array(n_picks * MX_FORCE_CANDIDATES, sizeof(*ids));
    float *candidates = mx_alloc_array(n_picks * MX_FORCE_CANDIDATES, sizeof(*candidates));
    float *stats = mx_alloc_array(n_picks * MX_SELECT_STATS, sizeof(*stats));
    status = MXW_E_MEMORY;
    if (!ids || !candidates || !stats)
        goto out;
    MX_TRY(mx_session_encode_window(s, seek, n_frames, MX_MEL_ZEROS));
    MX_TRY(mx_decoding_start(s->decoding, s->language, prompt, n_prompt, 0, 0));
    mx_decoding_step(s->decoding, &step);
    MX_TRY(mx_slot_step(s->slot, &step, 1, ids, candidates, stats));
    *no_speech_prob = stats[MX_SELECT_NO_SPEECH];
    MX_TRY(mx_decoding_force(s->decoding, s->language, prompt, n_prompt, tokens, n_tokens, &step));
    MX_TRY(mx_slot_step(s->slot, &step, MX_FORCE_CANDIDATES, ids, candidates, stats));
    read_forced(s, tokens, n_tokens, ids, candidates, step.n_picks, logprobs);
out:
    mx_free(ids);
    mx_free(candidates);
    mx_free(stats);
    return status;
}
