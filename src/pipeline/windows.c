/* pipeline/windows.c - the loop over 30-second windows: which mel to decode next, with what prompt, at what
 * temperature; how a window's tokens become segments, and where the next window begins. The steps and their order are
 * openai-whisper's transcribe(); docs/decoding.md tells them one by one. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/utf8.h"
#include "pipeline/session.h"

#define FRAMES_PER_TIMESTAMP 2    /* a timestamp token counts 20 ms */

/* As the reference computes them, so that times are equal to the last bit. */
static double frames_to_s(int64_t frames) { return (double)(frames * 160) / 16000.0; }
static double timestamp_to_s(int64_t position) { return (double)position * (FRAMES_PER_TIMESTAMP * 160 / 16000.0); }

mxw_status mx_session_mel_window(mx_session *s, int64_t seek, int64_t n_frames, int padded, float *out) {
    const mx_fault_hooks *hooks = &s->recognizer->hooks;
    mxw_status status = mx_mel_window(s->mel, seek, n_frames, padded, out);
    if (status >= 0 && hooks->mel)
        hooks->mel(hooks->context, MX_MEL_WINDOW, s->recognizer->checkpoint.dims.n_mels, out);
    return status;
}

static mxw_status take_features(void *context, mx_step_runner *runner, int slot) {
    return mx_step_runner_encode(runner, &(mx_request){.slot = slot, .features = context}, 1);
}

mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, int padded) {
    mxw_status status;
    int64_t start = mx_now_ns();
    MX_TRY(mx_session_mel_window(s, seek, n_frames, padded, s->window));
    s->result.times.mel_ms += mx_since_ms(start);
    start = mx_now_ns();
    if (!s->result.times.first_encode_ns)
        s->result.times.first_encode_ns = start;
    if (s->features && s->result.n_windows == 0)
        MX_TRY(mx_slot_exclusive(s->slot, take_features, (void *)(uintptr_t)s->features));
    else
        MX_TRY(mx_slot_encode(s->slot, s->window));
    s->result.times.encode_ms += mx_since_ms(start);
out:
    return status;
}

/* The most probable language after start-of-transcript, on the first 30 seconds with silence behind them. */
mxw_status mx_session_detect_language(mx_session *s) {
    mxw_status status;
    const mx_text_special *special = &s->plan->special;
    const int32_t *cells = mx_arena_alloc(&s->memory, (size_t)s->plan->options.n_text_ctx * sizeof(*cells));
    const int32_t pick = 0;
    mx_decode_row row = {special->sot, 0, 0, 0};
    mx_rule rule = mx_decode_language_rule(s->plan);
    mx_decode_step step = {&row, 1, cells, 1, &pick, &rule, 1};
    int32_t id;
    float logprob, stats[MX_SELECT_STATS];
    if (!cells)
        return MXW_E_MEMORY;
    MX_TRY(mx_session_encode_window(s, 0, 0, 1));
    int64_t start = mx_now_ns();
    MX_TRY(mx_slot_step(s->slot, &step, 1, &id, &logprob, stats));
    s->result.times.decode_ms += mx_since_ms(start);
    s->language = mx_text_language_of(s->recognizer->text, id);
    s->result.language_probability = exp(logprob);
    if (!s->language) {
        status = mx_fail(MXW_E_INTERNAL, "language: none could be detected");
        goto out;
    }
    mx_log(MXW_LOG_INFO, "decode", "language %s, probability %.3f", s->language, s->result.language_probability);
out:
    return status;
}

/* What the model is told of the text so far. */
static mxw_status prompt_tokens(mx_session *s, const int32_t **prompt, size_t *n) {
    if (!s->options.carry_initial_prompt) {
        *prompt = s->tokens.items + s->prompt_reset_since;
        *n = s->tokens.n - s->prompt_reset_since;
        return MXW_OK;
    }
    size_t ignored = MX_MAX(s->n_initial_prompt, s->prompt_reset_since);
    size_t rest = s->tokens.n - ignored;
    int64_t room = s->plan->options.n_text_ctx / 2 - 1 - (int64_t)s->n_initial_prompt;
    size_t skip = mx_tail_start(rest, room);
    s->carried.n = 0;
    mxw_status status = mx_tokens_add(&s->carried, s->tokens.items, s->n_initial_prompt);
    if (status >= 0)
        status = mx_tokens_add(&s->carried, s->tokens.items + ignored + skip, rest - skip);
    *prompt = s->carried.items;
    *n = s->carried.n;
    return status;
}

static int next_step(void *decoding, mx_decode_step *step, int *k) {
    *k = mx_decoding_candidates(decoding);
    return mx_decoding_step(decoding, step);
}

static void take_step(void *decoding, const mx_candidates *candidates) { mx_decoding_take(decoding, candidates); }

static mxw_status decode_once(mx_session *s, const int32_t *prompt, size_t n_prompt, int attempt,
                              mx_decode_result *result) {
    mxw_status status;
    uint64_t window = (uint64_t)s->result.n_windows * MX_MAX(s->n_temperatures, 1) + (uint64_t)attempt;
    MX_TRY(mx_decoding_start(s->decoding, s->language, prompt, n_prompt, s->temperatures[attempt], window));
    MX_TRY(mx_slot_decode(s->slot, &(mx_steps){next_step, take_step, s->decoding}));
    MX_TRY(mx_session_stop_if_asked(s));
    MX_TRY(mx_decoding_result(s->decoding, result));
out:
    return status;
}

/* The same window at rising temperatures until its text passes the thresholds. */
static mxw_status decode_with_fallback(mx_session *s, mx_decode_result *result) {
    mxw_status status;
    const int32_t *prompt;
    size_t n_prompt;
    int64_t start = mx_now_ns();
    MX_TRY(prompt_tokens(s, &prompt, &n_prompt));
    for (int i = 0; i < s->n_temperatures; i++) {
        MX_TRY(decode_once(s, prompt, n_prompt, i, result));
        if (!mx_needs_fallback(result, &s->thresholds))
            break;
        if (i + 1 < s->n_temperatures) {
            s->result.n_fallbacks_temperature += i == 0;
            mx_log(MXW_LOG_INFO, "decode", "window at %.2f s: again at temperature %.1f (average log probability %.3f, "
                   "compression ratio %.2f)", frames_to_s(s->seek), s->temperatures[i + 1], result->avg_logprob,
                   result->compression_ratio);
        }
    }
    s->result.times.decode_ms += mx_since_ms(start);
out:
    return status;
}

/* A recording that begins at 0 keeps its times to the last bit; others get whole milliseconds. */
static double on_clock(const mx_session *s, double seconds) {
    double start = s->options.start_s;
    return start == 0 ? seconds : nearbyint((seconds + start) * 1000) / 1000;
}

/* The words of a piece, in the session's memory. */
static mxw_status copy_words(mx_session *s, const mx_piece *piece, const mxw_word **out) {
    mxw_word *words = mx_arena_alloc(&s->memory, MX_MAX(piece->n_words, 1) * sizeof(*words));
    if (!words)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < piece->n_words; i++) {
        const mx_spoken *word = &s->spoken[piece->first_word + i];
        size_t n = word->end - word->begin;
        char *text = mx_arena_alloc(&s->memory, n + 1);
        if (!text)
            return MXW_E_MEMORY;
        memcpy(text, mx_str_get(&s->words.text) + word->begin, n);
        words[i] = (mxw_word){on_clock(s, word->start), on_clock(s, word->end_s), text, word->probability};
    }
    *out = words;
    return MXW_OK;
}

/* What is known of the piece's tokens: they are a part of the window's. */
static void set_details(const mx_session *s, const mx_piece *piece, mxw_segment *segment) {
    size_t first = (size_t)(piece->tokens - s->window_tokens.items);
    segment->n_alternatives = (size_t)s->options.token_details;
    segment->details = s->details + first;
    segment->alternatives = s->alternatives + first * segment->n_alternatives;
}

/* A piece becomes a segment; an instantaneous or blank one keeps its place but loses text, tokens and words. */
static mxw_status add_segment(mx_session *s, const mx_piece *piece, const mx_decode_result *result) {
    mxw_status status;
    mx_str text = {0};
    const mxw_word *words = NULL;
    size_t n = piece->n_tokens, n_text = 0;
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
    MX_TRY(mx_grow(&s->segments, &s->capacity, s->n_segments + 1, sizeof(*s->segments)));
    if (!blank)
        MX_TRY(mx_tokens_add(&s->tokens, kept, n));
    s->segments[s->n_segments] = (mxw_segment){.id = (int64_t)s->n_segments,
                                               .seek = s->seek,
                                               .start = on_clock(s, piece->start),
                                               .end = on_clock(s, piece->end),
                                               .text = copy,
                                               .tokens = kept,
                                               .n_tokens = blank ? 0 : n,
                                               .temperature = result->temperature,
                                               .avg_logprob = result->avg_logprob,
                                               .compression_ratio = result->compression_ratio,
                                               .no_speech_prob = result->no_speech_prob,
                                               .channel = s->options.channel,
                                               .speaker = s->options.speaker,
                                               .words = words,
                                               .n_words = blank ? 0 : piece->n_words};
    if (s->options.token_details)
        set_details(s, piece, &s->segments[s->n_segments]);
    s->n_segments++;
    if (s->options.on_segment)
        s->options.on_segment(s->options.user, &s->segments[s->n_segments - 1]);
out:
    mx_str_free(&text);
    return status;
}

static mxw_status add_piece(mx_session *s, double start, double end, const int32_t *tokens, size_t n) {
    mxw_status status = mx_grow(&s->pieces, &s->room_pieces, s->n_pieces + 1, sizeof(*s->pieces));
    if (status >= 0)
        s->pieces[s->n_pieces++] = (mx_piece){.start = start, .end = end, .tokens = tokens, .n_tokens = n};
    return status;
}

/* Cuts between each pair of neighbouring timestamps. The window was heard to its last pair, or all of it when a lone
 * timestamp ends the text. */
static mxw_status cut_pairs(mx_session *s, mx_cut *cut) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window_tokens.items;
    size_t last = 0, n = s->window_tokens.n;
    double offset = frames_to_s(s->seek);
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
        cut->seek = s->seek + (int64_t)(tokens[last - 1] - begin) * FRAMES_PER_TIMESTAMP;
    return MXW_OK;
}

/* No pair: the window is one piece, up to its last timestamp if it has one. */
static mxw_status cut_whole(mx_session *s, int64_t n_frames) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window_tokens.items;
    size_t n = s->window_tokens.n;
    double offset = frames_to_s(s->seek), duration = frames_to_s(n_frames);
    for (size_t i = n; i-- > 0;)
        if (tokens[i] >= begin) {
            if (tokens[i] != begin)
                duration = timestamp_to_s(tokens[i] - begin);
            break;
        }
    return add_piece(s, offset, offset + duration, tokens, n);
}

static mxw_status cut_window(mx_session *s, mx_cut *cut) {
    int32_t begin = s->plan->special.timestamp_begin;
    const int32_t *tokens = s->window_tokens.items;
    size_t n = s->window_tokens.n;
    int pairs = 0;
    s->n_pieces = 0;
    cut->seek = s->seek + cut->n_frames;
    cut->lone_end = n >= 2 && tokens[n - 1] >= begin && tokens[n - 2] < begin;
    for (size_t i = 1; i < n; i++)
        pairs += tokens[i - 1] >= begin && tokens[i] >= begin;
    return pairs > 0 ? cut_pairs(s, cut) : cut_whole(s, cut->n_frames);
}

static mxw_status add_window(mx_session *s, const mx_decode_result *result, int64_t n_frames) {
    mxw_status status;
    mx_cut cut = {.n_frames = n_frames};
    s->window_tokens.n = 0;
    MX_TRY(mx_tokens_add(&s->window_tokens, result->tokens, result->n_tokens));
    MX_TRY(cut_window(s, &cut));
    if (s->options.token_details) {
        const int32_t *prompt;
        size_t n_prompt;
        MX_TRY(prompt_tokens(s, &prompt, &n_prompt));
        MX_TRY(mx_session_read_details(s, prompt, n_prompt));
    }
    if (s->options.word_timestamps)
        MX_TRY(mx_session_time_words(s, &cut));
    for (size_t i = 0; i < s->n_pieces && !cut.dropped; i++)
        MX_TRY(add_segment(s, &s->pieces[i], result));
    /* Without the timestamp rules a pair may stand at the window's very start; the reference would never move on. */
    s->seek = cut.seek > s->seek ? cut.seek : s->seek + n_frames;
    if (!cut.dropped && (!s->options.condition_on_previous_text || result->temperature > 0.5))
        s->prompt_reset_since = s->tokens.n;
out:
    return status;
}

/* Moves to the clip that has frames left at seek; 0 when there is none. */
static int find_clip(mx_session *s, int64_t *end) {
    for (; s->clip < s->n_clips; s->clip++) {
        const mx_clip *clip = &s->clips[s->clip];
        s->seek = MX_MAX(s->seek, clip->start);
        *end = clip->end;
        if (s->finished)
            *end = MX_MIN(*end, mx_mel_frames(s->mel));
        if (s->seek < *end)
            return 1;
        if (s->clip + 1 < s->n_clips)
            s->seek = s->clips[s->clip + 1].start;
    }
    return 0;
}

/* Whether frames [0, end) are there, or all that will ever be. */
static int has_frames(const mx_session *s, int64_t end) {
    return s->finished || (s->options.mel_reference == MXW_MEL_RUNNING && mx_mel_frames(s->mel) >= end);
}

void mx_session_report(mx_session *s) {
    int64_t frames = mx_mel_frames(s->mel);
    mxw_progress progress = {"text", frames_to_s(MX_MIN(s->seek, frames)), s->finished ? frames_to_s(frames) : -1,
                             mx_since_ms(s->opened_ns) / 1e3};
    if (s->options.on_progress)
        s->options.on_progress(s->options.user, &progress);
}

mxw_status mx_session_advance(mx_session *s) {
    mxw_status status;
    mx_decode_result result;
    size_t n_before = s->n_segments;
    int64_t end;
    if (!s->language) {
        if (!has_frames(s, MX_MEL_WINDOW))
            return MXW_MORE;
        MX_TRY(mx_session_detect_language(s));
    }
    const mx_fault_hooks *hooks = &s->recognizer->hooks;
    while (s->n_segments == n_before) {
        if ((hooks->max_windows && s->result.n_windows >= hooks->max_windows) || !find_clip(s, &end))
            return MXW_END;
        int64_t n_frames = MX_MIN(MX_MEL_WINDOW, end - s->seek);
        if (!has_frames(s, s->seek + n_frames))
            return MXW_MORE;
        MX_TRY(mx_session_encode_window(s, s->seek, n_frames, 0));
        MX_TRY(decode_with_fallback(s, &result));
        if (mx_is_silence(&result, &s->thresholds))
            s->seek += n_frames;
        else
            MX_TRY(add_window(s, &result, n_frames));
        s->result.n_windows++;
        MX_TRY(mx_session_give_record(s, n_before));
        mx_session_report(s);
    }
    status = MXW_OK;
out:
    return status;
}
