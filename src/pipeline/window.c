/* pipeline/window.c - one window at a time, over a session that has no recording: its slot, plan and decoding.
 *
 * Invariant: what is computed is what a transcription computes for the same log-mel, tokens and language. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

struct mxw_window {
    mx_session *session;
    const char *given;           /* language of the options, or NULL */
    int encoded;
};

mxw_status mx_window_open(mx_recognizer *r, const mxw_session_options *options, mx_one_window **out) {
    mxw_session_options full = *options;
    full.word_timestamps = 1;    /* room for known tokens */
    mx_one_window *w = mx_alloc_zero(1, sizeof(*w));
    mxw_status status = w ? mx_session_open(r, &full, &w->session) : MXW_E_MEMORY;
    if (status < 0) {
        mx_free(w);
        return status;
    }
    w->given = w->session->language;
    *out = w;
    return MXW_OK;
}

void mx_window_close(mx_one_window *w) {
    if (w)
        mx_session_close(w->session);
    mx_free(w);
}

mxw_status mx_window_encode(mx_one_window *w, const float *mel, size_t n_frames, float *features) {
    mx_session *s = w->session;
    size_t n_mels = (size_t)s->recognizer->checkpoint.dims->n_mels;
    memset(s->window.mel, 0, MX_MEL_WINDOW * n_mels * sizeof(*s->window.mel));
    for (size_t i = 0; i < n_mels; i++)
        for (size_t t = 0; t < n_frames; t++)
            s->window.mel[t * n_mels + i] = mel[i * n_frames + t];
    w->encoded = 0;
    mxw_status status = features ? mx_session_encode(s, s->window.mel, features, NULL, NULL)
                                 : mx_slot_encode(s->slot, s->window.mel);
    w->encoded = status >= 0;
    return status;
}

mxw_status mx_window_set_features(mx_one_window *w, const float *features) {
    mxw_status status = mx_session_take_features(w->session, features);
    w->encoded = status >= 0;
    return status;
}

static mxw_status need_features(const mx_one_window *w) {
    return w->encoded ? MXW_OK : mx_fail(MXW_E_STATE, "window: encode it, or give it features, first");
}

mxw_status mx_window_languages(mx_one_window *w, float *probabilities, size_t n) {
    mxw_status status;
    mx_session *s = w->session;
    const mx_text *text = s->recognizer->text;
    int k = s->recognizer->checkpoint.n_languages;
    const int32_t pick = 0;
    mx_decode_row row = {s->plan->special.sot, 0, 0, 0};
    mx_rule rule = mx_decode_language_rule(s->plan);
    float stats[MX_SELECT_STATS];
    MX_TRY(need_features(w));
    if (k == 0)
        return mx_fail(MXW_E_UNSUPPORTED, "languages: %s is an English-only model",
                       s->recognizer->checkpoint.size_name);
    int32_t *cells = mx_alloc_zero((size_t)s->plan->options.n_text_ctx, sizeof(*cells));
    int32_t *ids = mx_alloc_array((size_t)k, sizeof(*ids));
    float *logprobs = mx_alloc_array((size_t)k, sizeof(*logprobs));
    mx_decode_step step = {&row, 1, cells, 1, &pick, &rule, 1};
    status = cells && ids && logprobs ? mx_slot_step(s->slot, &step, k, ids, logprobs, stats) : MXW_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        probabilities[i] = 0;
    for (int j = 0; status >= 0 && j < k && ids[j] >= 0; j++) {
        const char *code = mx_text_language_of(text, ids[j]);
        for (size_t i = 0; code && i < n && mx_language_code((int)i); i++)
            if (strcmp(mx_language_code((int)i), code) == 0)
                probabilities[i] = (float)exp((double)logprobs[j]);
    }
    mx_free(cells);
    mx_free(ids);
    mx_free(logprobs);
out:
    return status;
}

/* The session's language for the next request; *probability is negative if it was given. */
static mxw_status set_language(mx_one_window *w, const char *asked, double *probability) {
    mx_session *s = w->session;
    mxw_session_options options = s->options;
    *probability = -1;
    if (asked) {
        options.language = asked;
        return mx_session_check_language(&s->recognizer->checkpoint, s->recognizer->text, &options, &s->language);
    }
    s->language = w->given;
    if (s->language)
        return MXW_OK;
    mxw_status status = mx_session_ask_language(s);
    *probability = s->result.language_probability;
    return status;
}

static mxw_status check_text(const mx_one_window *w, const char *what, const int32_t *tokens, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= w->session->plan->special.eot)
            return mx_fail(MXW_E_ARGUMENT, "%s: number %zu, %d, is not a token of text", what, i, (int)tokens[i]);
    return MXW_OK;
}

mxw_status mx_window_decode(mx_one_window *w, const mxw_window_request *request, mxw_window_text *text) {
    mxw_status status;
    mx_session *s = w->session;
    mx_decode_result r;
    double probability;
    MX_TRY(need_features(w));
    MX_TRY(set_language(w, request->language, &probability));
    MX_TRY(mx_decoding_start(s->decoding, s->language, request->prompt, request->n_prompt, request->temperature,
                             request->number));
    if (request->n_begin) {
        MX_TRY(check_text(w, "begin", request->begin, request->n_begin));
        MX_TRY(mx_decoding_continue(s->decoding, request->begin, request->n_begin, 0));
    }
    MX_TRY(mx_session_run_decoding(s, &r));
    *text = (mxw_window_text){.language = s->language, .language_probability = probability, .tokens = r.tokens,
                              .n_tokens = r.n_tokens, .text = r.text, .avg_logprob = r.avg_logprob,
                              .no_speech_prob = r.no_speech_prob, .temperature = r.temperature,
                              .compression_ratio = r.compression_ratio, .ended = r.ended};
out:
    return status;
}

mxw_status mx_window_align(mx_one_window *w, const char *language, const int32_t *tokens, size_t n, size_t n_frames,
                           int32_t *times, double *probabilities) {
    mxw_status status;
    double ignored;
    MX_TRY(need_features(w));
    MX_TRY(check_text(w, "tokens", tokens, n));
    MX_TRY(set_language(w, language, &ignored));
    MX_TRY(mx_session_align_encoded(w->session, (int64_t)n_frames, tokens, n, times, probabilities));
out:
    return status;
}
