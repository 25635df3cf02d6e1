/* pipeline/live/pass.c - the model hears a clip of at most 30 seconds: log-mel, encoder, decoder, words with times, the
 * guard. The clip is treated as a recording of its own, except that its log-mel is clamped by the loudest sound before
 * it, too. Its text is decoded without timestamps and may go on from words that are known. */
#include <string.h>

#include "base/base.h"
#include "pipeline/live/live.h"

void mx_hypothesis_clear(mx_hypothesis *h) {
    mx_str_clear(&h->text);
    h->tokens.n = h->n_words = h->next = 0;
    h->audio_s = 0;
}

void mx_hypothesis_free(mx_hypothesis *h) {
    mx_str_free(&h->text);
    mx_free(h->tokens.items);
    mx_free(h->words);
}

int mx_live_word_equal(const mx_hypothesis *a, size_t i, const mx_hypothesis *b, size_t j) {
    size_t n = a->words[i].end - a->words[i].begin;
    return n == b->words[j].end - b->words[j].begin &&
           memcmp(mx_str_get(&a->text) + a->words[i].begin, mx_str_get(&b->text) + b->words[j].begin, n) == 0;
}

mxw_status mx_pass_open(mx_recognizer *r, const mxw_session_options *options, mx_session **out) {
    mxw_session_options o = *options;
    mxw_status status;
    mx_session *s = NULL;
    o.without_timestamps = 1;
    o.word_timestamps = 1;      /* so that the slot can force known tokens */
    o.vad = 0;                  /* the stream's own listener did that */
    o.guard = o.guard ? MXW_GUARD_MARK : MXW_GUARD_OFF;
    o.mel_reference = MXW_MEL_FILE;
    o.on_progress = NULL;
    o.on_segment = NULL;
    o.initial_prompt = NULL;    /* it is in the stream's context */
    MX_TRY(mx_session_open_detached(r, &o, &s));
    s->window.attended = mx_arena_alloc(&s->memory, (size_t)s->plan->options.sample_len * sizeof(*s->window.attended));
    status = s->window.attended ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    *out = s;
    return MXW_OK;
out:
    mx_session_close(s);
    return status;
}

static void forget(mx_session *s) {
    mx_speech_close(s->speech);
    mx_speech_close(s->levelled);
    mx_level_close(s->level);
    mx_mel_close(s->mel);
    s->speech = s->levelled = NULL;
    s->level = NULL;
    s->mel = NULL;
    s->finished = 0;
    s->at.seek = 0;
}

/* The clip as a recording of its own: its log-mel, and for the guard its speech. */
static mxw_status take_clip(mx_session *s, const mx_pass *pass) {
    mxw_status status;
    const float *samples = pass->samples;
    size_t n = pass->n;
    forget(s);
    MX_TRY(mx_mel_open(s->recognizer->checkpoint.dims->n_mels, MXW_MEL_FILE, &s->mel));
    if (mx_session_has_threads(s))
        MX_TRY(mx_mel_share(s->mel, s->recognizer->pool));
    MX_TRY(mx_mel_feed(s->mel, samples, n));
    MX_TRY(mx_mel_finish(s->mel));
    mx_mel_raise_maximum(s->mel, *pass->loudest);
    *pass->loudest = mx_mel_maximum(s->mel);
    if (s->options.guard) {
        MX_TRY(mx_session_open_levelled(s));
        MX_TRY(mx_level_feed(s->level, samples, n, s->levelled));
        MX_TRY(mx_level_finish(s->level, s->levelled));
        MX_TRY(mx_speech_finish(s->levelled));
    }
    s->finished = 1;
out:
    return status;
}

static int next_step(void *decoding, mx_decode_step *step, int *k) {
    *k = mx_decoding_candidates(decoding);
    return mx_decoding_step(decoding, step);
}

static void take_step(void *decoding, const mx_candidates *candidates) { mx_decoding_take(decoding, candidates); }

/* At rising temperatures, unless the pass is a quick one. */
static mxw_status decode(mx_session *s, const mx_pass *pass, mx_decode_result *result) {
    mxw_status status = MXW_OK;
    int n = pass->greedy ? 1 : s->n_temperatures;
    for (int i = 0; i < n; i++) {
        MX_TRY(mx_decoding_start(s->decoding, s->language, pass->context->items, pass->context->n, s->temperatures[i],
                                 (uint64_t)i));
        MX_TRY(mx_decoding_continue(s->decoding, pass->known->items, pass->known->n, pass->greedy));
        MX_TRY(mx_slot_decode(s->slot, &(mx_steps){next_step, take_step, s->decoding}));
        MX_TRY(mx_session_stop_if_asked(s));
        MX_TRY(mx_decoding_result(s->decoding, result));
        if (!mx_needs_fallback(result, &s->thresholds))
            break;
    }
out:
    return status;
}

/* The whole text of the clip, known words included, as one piece. */
static mxw_status set_piece(mx_session *s, const mx_pass *pass, const mx_decode_result *result, int64_t n_frames) {
    mxw_status status;
    mx_window *w = &s->window;
    size_t room = (size_t)s->plan->options.sample_len, n = MX_MIN(result->n_tokens, room - pass->known->n);
    w->tokens.n = 0;
    MX_TRY(mx_tokens_add(&w->tokens, pass->known->items, pass->known->n));
    MX_TRY(mx_tokens_add(&w->tokens, result->tokens, n));
    MX_TRY(mx_grow(&w->pieces, &w->room_pieces, 1, sizeof(*w->pieces)));
    w->n_pieces = 1;
    w->pieces[0] = (mx_piece){.end = mx_mel_frames_to_s(n_frames), .tokens = w->tokens.items, .n_tokens = w->tokens.n};
out:
    return status;
}

/* Bytes of the text of the first n tokens. */
static mxw_status text_length(const mx_session *s, const int32_t *tokens, size_t n, size_t *length) {
    mx_str text = {0};
    mxw_status status = n ? mx_text_decode(s->recognizer->text, tokens, n, &text) : MXW_OK;
    if (status >= 0)
        status = mx_str_status(&text);
    *length = text.n;
    mx_str_free(&text);
    return status;
}

/* The known tokens may end inside a word, which punctuation has joined since: only the rest of that is new. */
static void split_known(mx_live_word *word, size_t n_known, size_t known_length) {
    if (word->first_token >= n_known || word->first_token + word->n_tokens <= n_known)
        return;
    word->n_tokens -= n_known - word->first_token;
    word->first_token = n_known;
    word->begin = MX_MIN(MX_MAX(word->begin, known_length), word->end);
    word->start_s = word->end_s;
}

static mxw_status copy_words(const mx_session *s, size_t n_known, mx_hypothesis *out) {
    mxw_status status;
    const mx_window *w = &s->window;
    size_t token = 0, judged = 0, known_length;
    MX_TRY(text_length(s, w->tokens.items, n_known, &known_length));
    MX_TRY(mx_tokens_add(&out->tokens, w->text.items, w->text.n));
    MX_TRY(mx_grow(&out->words, &out->room_words, w->words.n + 1, sizeof(*out->words)));
    mx_str_add(&out->text, mx_str_get(&w->words.text), w->words.text.n);
    MX_TRY(mx_str_status(&out->text));
    for (size_t i = 0; i < w->words.n; i++) {
        const mx_word *from = &w->words.items[i];
        mx_live_word *word = &out->words[out->n_words];
        *word = (mx_live_word){.begin = from->begin, .end = from->end, .first_token = token,
                               .n_tokens = from->n_tokens, .start_s = from->start_s, .end_s = from->end_s,
                               .probability = from->probability};
        for (size_t t = token; t < token + from->n_tokens; t++)
            word->attended_s = MX_MAX(word->attended_s, (double)w->attended[t] / MX_WORD_FRAMES_PER_S);
        token += from->n_tokens;
        if (from->begin == from->end)
            continue;
        split_known(word, n_known, known_length);
        if (s->options.guard && judged < w->n_judged && w->judged[judged].index == i) {
            word->suspicion = w->judged[judged].suspicion;
            word->reasons = w->judged[judged++].reasons;
        }
        out->next += word->first_token < n_known;
        out->n_words++;
    }
out:
    return status;
}

/* Text that the decoder itself has no faith in: silence, as in a file. */
static int is_nothing(const mx_session *s, const mx_pass *pass, const mx_decode_result *result) {
    return pass->known->n == 0 && mx_is_silence(result, &s->thresholds);
}

static mxw_status take_features(void *context, mx_step_runner *runner, int slot) {
    const float *const *features = context;
    return mx_step_runner_encode(runner, &(mx_request){.slot = slot, .features = *features}, 1);
}

static mxw_status encode(mx_session *s, const mx_pass *pass, int64_t n_frames) {
    mxw_status status;
    const float *features;
    if (!pass->encoder)
        return mx_session_encode_window(s, 0, n_frames, MX_MEL_SILENCE);
    MX_TRY(mx_session_mel_window(s, 0, n_frames, MX_MEL_SILENCE, s->window.mel));
    MX_TRY(mx_live_encoder_run(pass->encoder, s->window.mel, n_frames, !pass->greedy, &features));
    MX_TRY(mx_slot_exclusive(s->slot, take_features, &features));
out:
    return status;
}

static mxw_status hear(mx_session *s, const mx_pass *pass, mx_cut *cut, mx_decode_result *result) {
    mxw_status status;
    MX_TRY(encode(s, pass, cut->n_frames));
    if (pass->ask_language)
        MX_TRY(mx_session_ask_language(s));
    MX_TRY(decode(s, pass, result));
    s->window.n_pieces = 0;
    if (is_nothing(s, pass, result))
        return MXW_OK;
    MX_TRY(set_piece(s, pass, result, cut->n_frames));
    MX_TRY(mx_session_align_words(s, cut));
out:
    return status;
}

mxw_status mx_pass_run(mx_session *s, const mx_pass *pass, mx_hypothesis *out) {
    mxw_status status;
    mx_decode_result result;
    mx_hypothesis_clear(out);
    out->audio_s = (double)pass->n / MXW_SAMPLE_RATE;
    MX_TRY(take_clip(s, pass));
    mx_cut cut = {.n_frames = MX_MIN(mx_mel_frames(s->mel), MX_MEL_WINDOW)};
    if (cut.n_frames < 2)
        return MXW_OK;
    MX_TRY(mx_session_attach(s));
    status = hear(s, pass, &cut, &result);
    mx_session_release(s);
    if (status < 0 || s->window.n_pieces == 0)
        return status;
    s->at.tokens.n = 0;
    MX_TRY(mx_tokens_add(&s->at.tokens, pass->context->items, pass->context->n));
    if (s->options.guard)
        MX_TRY(mx_session_guard(s, &cut, &result));
    MX_TRY(copy_words(s, pass->known->n, out));
out:
    return status;
}
