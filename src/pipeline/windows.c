/* pipeline/windows.c - the loop over 30-second windows: which mel to decode next, with what prompt, at what
 * temperature; and where the next window begins. The steps and their order are those of openai-whisper's transcribe();
 * see docs/decoding.md. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

mxw_status mx_session_mel_window(mx_session *s, int64_t seek, int64_t n_frames, mx_mel_rest rest, float *out) {
    const mx_fault_hooks *hooks = &s->recognizer->hooks;
    mx_session_lock(s);
    mxw_status status = mx_mel_window(s->mel, seek, n_frames, rest, out);
    mx_session_unlock(s);
    if (status >= 0 && hooks->mel)
        hooks->mel(hooks->context, MX_MEL_WINDOW, s->recognizer->checkpoint.dims->n_mels, out);
    return status;
}

static mxw_status take_features(void *context, mx_step_runner *runner, int slot) {
    const float *const *features = context;
    return mx_step_runner_encode(runner, &(mx_request){.slot = slot, .features = *features}, 1);
}

mxw_status mx_session_take_features(mx_session *s, const float *features) {
    return mx_slot_exclusive(s->slot, take_features, &features);
}

mxw_status mx_session_encode_window(mx_session *s, int64_t seek, int64_t n_frames, mx_mel_rest rest) {
    mxw_status status;
    int64_t start = mx_now_ns();
    MX_TRY(mx_session_mel_window(s, seek, n_frames, rest, s->window.mel));
    s->times.mel_ms += mx_since_ms(start);
    start = mx_now_ns();
    if (!s->times.first_encode_ns)
        s->times.first_encode_ns = start;
    if (s->features && s->result.n_windows == 0)
        MX_TRY(mx_session_take_features(s, s->features));
    else
        MX_TRY(mx_slot_encode(s->slot, s->window.mel));
    s->times.encode_ms += mx_since_ms(start);
out:
    return status;
}

/* The most probable language after start-of-transcript, on 30 seconds, padded with silence. */
mxw_status mx_session_detect_language(mx_session *s, int64_t seek) {
    mxw_status status = mx_session_encode_window(s, seek, 0, MX_MEL_CONTENT);
    return status < 0 ? status : mx_session_ask_language(s);
}

mxw_status mx_session_ask_language(mx_session *s) {
    mxw_status status;
    const mx_text_special *special = &s->plan->special;
    int32_t *cells = mx_alloc_zero((size_t)s->plan->options.n_text_ctx, sizeof(*cells));
    const int32_t pick = 0;
    mx_decode_row row = {special->sot, 0, 0, 0};
    mx_rule rule = mx_decode_language_rule(s->plan);
    mx_decode_step step = {&row, 1, cells, 1, &pick, &rule, 1};
    int32_t id;
    float logprob, stats[MX_SELECT_STATS];
    if (!cells)
        return MXW_E_MEMORY;
    int64_t start = mx_now_ns();
    MX_TRY(mx_slot_step(s->slot, &step, 1, &id, &logprob, stats));
    s->times.decode_ms += mx_since_ms(start);
    s->language = mx_text_language_of(s->recognizer->text, id);
    s->result.language_probability = exp(logprob);
    if (!s->language) {
        status = mx_fail(MXW_E_INTERNAL, "language: detection failed");
        goto out;
    }
    mx_log(MXW_LOG_INFO, "decode", "language %s, probability %.3f", s->language, s->result.language_probability);
out:
    mx_free(cells);
    return status;
}

/* The prompt: the text so far. */
static mxw_status prompt_tokens(mx_session *s, const int32_t **prompt, size_t *n) {
    if (!s->options.carry_initial_prompt) {
        *prompt = s->at.tokens.items + s->at.prompt_reset_since;
        *n = s->at.tokens.n - s->at.prompt_reset_since;
        return MXW_OK;
    }
    size_t ignored = MX_MAX(s->at.n_initial_prompt, s->at.prompt_reset_since);
    size_t rest = s->at.tokens.n - ignored;
    int64_t room = s->plan->options.n_text_ctx / 2 - 1 - (int64_t)s->at.n_initial_prompt;
    size_t skip = mx_tail_start(rest, room);
    s->at.carried.n = 0;
    mxw_status status = mx_tokens_add(&s->at.carried, s->at.tokens.items, s->at.n_initial_prompt);
    if (status >= 0)
        status = mx_tokens_add(&s->at.carried, s->at.tokens.items + ignored + skip, rest - skip);
    *prompt = s->at.carried.items;
    *n = s->at.carried.n;
    return status;
}

static int next_step(void *decoding, mx_decode_step *step, int *k) {
    *k = mx_decoding_candidates(decoding);
    return mx_decoding_step(decoding, step);
}

static void take_step(void *decoding, const mx_candidates *candidates) { mx_decoding_take(decoding, candidates); }

mxw_status mx_session_run_decoding(mx_session *s, mx_decode_result *result) {
    mxw_status status;
    MX_TRY(mx_slot_decode(s->slot, &(mx_steps){next_step, take_step, s->decoding}));
    MX_TRY(mx_session_stop_if_asked(s));
    MX_TRY(mx_decoding_result(s->decoding, result));
out:
    return status;
}

static mxw_status decode_once(mx_session *s, const int32_t *prompt, size_t n_prompt, int attempt,
                              mx_decode_result *result) {
    mxw_status status;
    uint64_t number = s->first_window + (uint64_t)s->result.n_windows;
    uint64_t window = number * (uint64_t)MX_MAX(s->n_temperatures, 1) + (uint64_t)attempt;
    MX_TRY(mx_decoding_start(s->decoding, s->language, prompt, n_prompt, s->temperatures[attempt], window));
    MX_TRY(mx_session_run_decoding(s, result));
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
            s->result.n_temperature_fallbacks += i == 0;
            mx_log(MXW_LOG_INFO, "decode", "window at %.2f s: decoded again at temperature %.1f (average log "
                   "probability %.3f, compression ratio %.2f)", mx_mel_frames_to_s(s->at.seek),
                   s->temperatures[i + 1], result->avg_logprob, result->compression_ratio);
        }
    }
    s->times.decode_ms += mx_since_ms(start);
out:
    return status;
}

static mxw_status add_window(mx_session *s, const mx_decode_result *result, const mx_choice *choice) {
    mxw_status status;
    mx_cut cut = {.n_frames = choice->n_frames, .closed = choice->closed, .ended = result->ended};
    s->window.tokens.n = 0;
    MX_TRY(mx_tokens_add(&s->window.tokens, result->tokens, result->n_tokens));
    MX_TRY(mx_session_cut_window(s, &cut));
    if (s->options.token_details) {
        const int32_t *prompt;
        size_t n_prompt;
        MX_TRY(prompt_tokens(s, &prompt, &n_prompt));
        MX_TRY(mx_session_read_details(s, prompt, n_prompt));
    }
    if (s->options.word_timestamps || s->options.guard)
        MX_TRY(mx_session_align_words(s, &cut));
    if (s->options.word_timestamps)
        MX_TRY(mx_session_time_words(s, &cut));
    if (s->options.vad)
        mx_session_go_on(s, &cut);
    if (s->options.guard && !cut.dropped)
        MX_TRY(mx_session_guard(s, &cut, result));
    for (size_t i = 0; i < s->window.n_pieces && !cut.dropped; i++)
        MX_TRY(mx_session_add_segment(s, &s->window.pieces[i], result));
    /* Without the timestamp rules a pair may be at the very start of the window; the reference would then loop. */
    s->at.seek = cut.seek > s->at.seek ? cut.seek : s->at.seek + cut.n_frames;
    if (!cut.dropped && (!s->options.condition_on_previous_text || result->temperature > 0.5))
        s->at.prompt_reset_since = s->at.tokens.n;
out:
    return status;
}

/* Moves to the clip that has frames left at seek; 0 when there is none. */
static int find_clip(mx_session *s, int64_t *end) {
    for (; s->at.clip < s->at.n_clips; s->at.clip++) {
        const mx_clip *clip = &s->at.clips[s->at.clip];
        s->at.seek = MX_MAX(s->at.seek, clip->start);
        *end = clip->end;
        if (s->finished)
            *end = MX_MIN(*end, mx_mel_frames(s->mel));
        if (s->at.seek < *end)
            return 1;
        if (s->at.clip + 1 < s->at.n_clips)
            s->at.seek = s->at.clips[s->at.clip + 1].start;
    }
    return 0;
}

int mx_session_has_frames(const mx_session *s, int64_t end) {
    return s->finished || (s->options.mel_reference == MXW_MEL_RUNNING && mx_mel_frames(s->mel) >= end);
}

static mxw_status choose_plain(mx_session *s, mx_choice *choice) {
    int64_t end;
    if (!find_clip(s, &end))
        return MXW_END;
    *choice = (mx_choice){.n_frames = MX_MIN(MX_MEL_WINDOW, end - s->at.seek)};
    return mx_session_has_frames(s, s->at.seek + choice->n_frames) ? MXW_OK : MXW_MORE;
}

mxw_status mx_session_choose(mx_session *s, mx_choice *choice) {
    mxw_status status;
    int waited = 0;
    do {
        mx_session_lock(s);
        status = s->options.vad ? mx_session_choose_speech(s, choice) : choose_plain(s, choice);
        mx_session_unlock(s);
        if (status == MXW_MORE)
            waited = mx_session_await_speech(s);
    } while (status == MXW_MORE && waited > 0);
    if (waited < 0)
        return (mxw_status)waited;
    if (status == MXW_OK)
        mx_session_enter_language(s);
    return status;
}

void mx_session_report(mx_session *s) {
    int64_t frames = mx_mel_frames(s->mel);
    mxw_progress progress = {"text", mx_mel_frames_to_s(MX_MIN(s->at.seek, frames)),
                             s->finished ? mx_mel_frames_to_s(frames) : -1, mx_since_ms(s->opened_ns) / 1e3};
    if (s->options.on_progress)
        s->options.on_progress(s->options.user, &progress);
}

mxw_status mx_session_decode_window(mx_session *s, const mx_choice *choice) {
    mxw_status status;
    mx_decode_result result;
    MX_TRY(mx_session_encode_window(s, s->at.seek, choice->n_frames, s->options.vad ? MX_MEL_SILENCE : MX_MEL_ZEROS));
    MX_TRY(decode_with_fallback(s, &result));
    if (s->options.vad && mx_session_lost_text(s, choice, &result)) {
        s->at.prompt_reset_since = s->at.tokens.n;
        MX_TRY(decode_with_fallback(s, &result));
    }
    if (mx_is_silence(&result, &s->thresholds))
        s->at.seek += choice->n_frames;
    else
        MX_TRY(add_window(s, &result, choice));
    s->result.n_windows++;
out:
    return status;
}

/* Until the first clip is known: OK, END if there is none, or MORE. */
static mxw_status find_speech(mx_session *s) {
    mxw_status status;
    int waited = 1;
    do {
        mx_session_lock(s);
        status = mx_session_plan_clips(s);
        mx_session_unlock(s);
        if (status >= 0 && s->at.n_clips == 0 && !s->at.all_known)
            waited = mx_session_await_speech(s);
    } while (status >= 0 && s->at.n_clips == 0 && !s->at.all_known && waited > 0);
    if (status < 0 || waited < 0)
        return MX_MIN(status, (mxw_status)waited);
    return s->at.n_clips > 0 ? MXW_OK : s->at.all_known ? MXW_END : MXW_MORE;
}

mxw_status mx_session_find_language(mx_session *s) {
    int64_t seek = 0;
    if (s->languages.n)
        return s->finished ? mx_session_decide_languages(s) : MXW_MORE;
    if (s->language)
        return MXW_OK;
    if (s->options.vad) {
        mxw_status status = find_speech(s);
        if (status != MXW_OK)
            return status;
        seek = s->at.clips[0].start;
    }
    return mx_session_has_frames(s, seek + MX_MEL_WINDOW) ? mx_session_detect_language(s, seek) : MXW_MORE;
}

static mxw_status advance(mx_session *s) {
    mxw_status status;
    mx_choice choice;
    size_t n_before = s->segments.n;
    const mx_fault_hooks *hooks = &s->recognizer->hooks;
    status = mx_session_find_language(s);
    if (status != MXW_OK)
        return status;
    if (s->lanes)
        return mx_lanes_advance(s);
    while (s->segments.n == n_before) {
        if (hooks->max_windows && s->result.n_windows >= hooks->max_windows)
            return MXW_END;
        status = mx_session_choose(s, &choice);
        if (status != MXW_OK)
            return status;
        MX_TRY(mx_session_decode_window(s, &choice));
        MX_TRY(mx_session_give_record(s, n_before));
        mx_session_report(s);
    }
    status = MXW_OK;
out:
    return status;
}

/* With vad the end may come before the recording's: the rest is not wanted, or silence. But it is heard, so that the
 * result has all regions. */
mxw_status mx_session_advance(mx_session *s) {
    mxw_status status = advance(s);
    int waited = 1;
    if (status != MXW_END || !s->options.vad)
        return status;
    while (waited > 0)
        waited = mx_session_await_speech(s);
    if (waited < 0)
        return (mxw_status)waited;
    if (s->at.seek < mx_mel_frames(s->mel)) {
        s->at.seek = mx_mel_frames(s->mel);
        mx_session_report(s);
    }
    return MXW_END;
}
