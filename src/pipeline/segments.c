/* pipeline/segments.c - cuts a window's tokens into pieces at their timestamps, and turns pieces into segments. The
 * steps and their order are those of openai-whisper's transcribe(); see docs/decoding.md. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"
#include "pipeline/session.h"

#define FRAMES_PER_TIMESTAMP 2    /* a timestamp token counts 20 ms */

/* As the reference computes it, so that times are equal to the last bit. */
static double timestamp_to_s(int64_t position) {
    return (double)position * (FRAMES_PER_TIMESTAMP * MX_MEL_HOP / (double)MXW_SAMPLE_RATE);
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

static mxw_status add_piece(mx_session *s, double start, double end, const int32_t *tokens, size_t n) {
    mx_window *w = &s->window;
    mxw_status status = mx_grow(&w->pieces, &w->room_pieces, w->n_pieces + 1, sizeof(*w->pieces));
    if (status >= 0)
        w->pieces[w->n_pieces++] = (mx_piece){.start = start, .end = end, .tokens = tokens, .n_tokens = n};
    return status;
}

/* Where speech between two frames ends; `to` if there is none. */
static int64_t speech_end(const mx_session *s, int64_t from, int64_t to) {
    mx_session_lock(s);
    int64_t end = mx_speech_last(s->speech, from, to);
    mx_session_unlock(s);
    return end > from ? end : to;
}

/* In a closed window, text after the last pair is complete: no sentence is cut by the window's edge, and nothing has to
 * be decoded again. It lasts as long as there is speech. */
static mxw_status keep_rest(mx_session *s, mx_cut *cut, size_t first) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window.tokens.items;
    size_t n = s->window.tokens.n, n_text = 0;
    for (size_t i = first; i < n; i++)
        n_text += tokens[i] < s->plan->special.eot;
    if (n_text == 0)
        return MXW_OK;
    int64_t start = s->at.seek + MX_MAX(tokens[first] - begin, 0) * FRAMES_PER_TIMESTAMP;
    if (start >= s->at.seek + cut->n_frames)
        return MXW_OK;
    cut->lone_end = 1;
    cut->seek = s->at.seek + cut->n_frames;
    return add_piece(s, mx_mel_frames_to_s(start), mx_mel_frames_to_s(speech_end(s, start, cut->seek)), tokens + first,
                     n - first);
}

/* With vad a window may be short: what it says lies inside it. */
static void keep_inside(mx_session *s, const mx_cut *cut) {
    double end = mx_mel_frames_to_s(s->at.seek + cut->n_frames);
    for (size_t i = 0; i < s->window.n_pieces && s->options.vad; i++) {
        s->window.pieces[i].start = MX_MIN(s->window.pieces[i].start, end);
        s->window.pieces[i].end = MX_MIN(s->window.pieces[i].end, end);
    }
}

/* Cuts between each pair of adjacent timestamps. The window is done up to its last pair, or all of it if the text ends
 * with a single timestamp. */
static mxw_status cut_pairs(mx_session *s, mx_cut *cut) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window.tokens.items;
    size_t last = 0, n = s->window.tokens.n;
    double offset = mx_mel_frames_to_s(s->at.seek);
    for (size_t i = 1; i <= n; i++) {
        int here = i < n ? tokens[i - 1] >= begin && tokens[i] >= begin : cut->lone_end;
        if (!here)
            continue;
        double start = offset + timestamp_to_s(tokens[last] - begin);
        double end = offset + timestamp_to_s(tokens[i - 1] - begin);
        mxw_status status = add_piece(s, start, end, tokens + last, i - last);
        if (status < 0)
            return status;
        last = i;
    }
    if (!cut->lone_end)
        cut->seek = s->at.seek + (int64_t)(tokens[last - 1] - begin) * FRAMES_PER_TIMESTAMP;
    return cut->closed && cut->ended && !cut->lone_end ? keep_rest(s, cut, last) : MXW_OK;
}

/* No pair: the window is one piece, up to its last timestamp if it has one. */
static mxw_status cut_whole(mx_session *s, const mx_cut *cut) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window.tokens.items;
    size_t n = s->window.tokens.n;
    int64_t n_frames = cut->closed ? speech_end(s, s->at.seek, s->at.seek + cut->n_frames) - s->at.seek : cut->n_frames;
    double offset = mx_mel_frames_to_s(s->at.seek), duration = mx_mel_frames_to_s(n_frames);
    for (size_t i = n; i-- > 0;)
        if (tokens[i] >= begin) {
            if (tokens[i] != begin)
                duration = timestamp_to_s(tokens[i] - begin);
            break;
        }
    return add_piece(s, offset, offset + duration, tokens, n);
}

mxw_status mx_session_cut_window(mx_session *s, mx_cut *cut) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window.tokens.items;
    size_t n = s->window.tokens.n;
    int pairs = 0;
    s->window.n_pieces = 0;
    cut->seek = s->at.seek + cut->n_frames;
    cut->lone_end = n >= 2 && tokens[n - 1] >= begin && tokens[n - 2] < begin;
    for (size_t i = 1; i < n; i++)
        pairs += tokens[i - 1] >= begin && tokens[i] >= begin;
    mxw_status status = pairs > 0 ? cut_pairs(s, cut) : cut_whole(s, cut);
    keep_inside(s, cut);
    return status;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

double mx_session_on_clock(const mx_session *s, double seconds) {
    double start = s->options.start_s;
    return start == 0 ? seconds : nearbyint((seconds + start) * 1000) / 1000;
}

/* The words of a piece, in the session's memory. */
static mxw_status copy_words(mx_session *s, const mx_piece *piece, const mxw_word **out) {
    mxw_word *words = mx_arena_alloc(&s->memory, MX_MAX(piece->n_words, 1) * sizeof(*words));
    if (!words)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < piece->n_words; i++) {
        const mx_timed_word *word = &s->window.timed[piece->first_word + i];
        size_t n = word->end - word->begin;
        char *text = mx_arena_alloc(&s->memory, n + 1);
        if (!text)
            return MXW_E_MEMORY;
        memcpy(text, mx_str_get(&s->window.words.text) + word->begin, n);
        words[i] = (mxw_word){.start = mx_session_on_clock(s, word->start),
                              .end = mx_session_on_clock(s, word->end_s),
                              .word = text,
                              .probability = word->probability};
        if (i < piece->n_judged) {
            words[i].suspicion = s->window.judged[piece->first_judged + i].suspicion;
            words[i].reasons = s->window.judged[piece->first_judged + i].reasons;
        }
    }
    *out = words;
    return MXW_OK;
}

/* The details of the piece's tokens, which are a part of the window's. */
static void set_details(const mx_session *s, const mx_piece *piece, mxw_segment *segment) {
    size_t first = (size_t)(piece->tokens - s->window.tokens.items);
    segment->n_alternatives = (size_t)s->options.token_details;
    segment->details = mx_token_array(s->window.details + first);
    segment->alternatives = mx_token_array(s->window.alternatives + first * segment->n_alternatives);
}

mxw_status mx_session_add_segment(mx_session *s, const mx_piece *piece, const mx_decode_result *result) {
    mxw_status status;
    mx_str text = {0};
    const mxw_word *words = NULL;
    size_t n = piece->n_tokens, n_text = 0;
    const mx_clip *clip = &s->at.clips[s->at.clip];
    int32_t *kept = mx_arena_alloc(&s->memory, MX_MAX(n, 1) * sizeof(*kept));
    if (!kept)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < n; i++)
        if (piece->tokens[i] < s->plan->special.eot)
            kept[n_text++] = piece->tokens[i];
    MX_TRY(mx_text_decode(s->recognizer->text, kept, n_text, &text));
    MX_TRY(mx_str_status(&text));
    size_t length = text.n;
    mx_utf8_strip(mx_str_get(&text), &length);
    int blank = piece->start == piece->end || length == 0;
    if (blank)
        mx_str_clear(&text);
    else
        memcpy(kept, piece->tokens, n * sizeof(*kept));
    const char *copy = mx_arena_strdup(&s->memory, mx_str_get(&text));
    status = copy ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    if (s->options.word_timestamps)
        MX_TRY(copy_words(s, piece, &words));
    MX_TRY(mx_grow(&s->segments.items, &s->segments.capacity, s->segments.n + 1, sizeof(*s->segments.items)));
    if (!blank)
        MX_TRY(mx_tokens_add(&s->at.tokens, kept, n));
    s->segments.items[s->segments.n] = (mxw_segment){.id = (int64_t)s->segments.n,
                                               .seek = s->at.seek,
                                               .start = mx_session_on_clock(s, piece->start),
                                               .end = mx_session_on_clock(s, piece->end),
                                               .text = copy,
                                               .tokens = kept,
                                               .n_tokens = blank ? 0 : n,
                                               .temperature = result->temperature,
                                               .avg_logprob = result->avg_logprob,
                                               .compression_ratio = result->compression_ratio,
                                               .no_speech_prob = result->no_speech_prob,
                                               .channel = s->options.channel,
                                               .speaker = s->options.speaker,
                                               .words = mx_word_array(words),
                                               .n_words = blank ? 0 : piece->n_words,
                                               .language = s->language,
                                               .language_probability = clip->language_probability};
    if (s->options.guard && !blank)
        mx_session_suspect(s, piece, &s->segments.items[s->segments.n].suspicion,
                           &s->segments.items[s->segments.n].reasons);
    if (s->options.token_details)
        set_details(s, piece, &s->segments.items[s->segments.n]);
    s->segments.n++;
    if (s->options.on_segment)
        s->options.on_segment(s->options.user, &s->segments.items[s->segments.n - 1]);
out:
    mx_str_free(&text);
    return status;
}
