/* pipeline/session.c - the life of a session: options in, samples in, segments out. */
#include "pipeline/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define READ_SAMPLES 65536
#define FEED_SAMPLES ((size_t)1 << 20)
#define MAX_TEMPERATURES 1024

mxw_status mx_tokens_add(mx_tokens *tokens, const int32_t *items, size_t n) {
    mxw_status status = mx_grow(&tokens->items, &tokens->capacity, tokens->n + n + 1, sizeof(*items));
    if (status < 0)
        return status;
    if (n)
        memcpy(tokens->items + tokens->n, items, n * sizeof(*items));
    tokens->n += n;
    return MXW_OK;
}

mxw_status mx_session_check_language(const mxw_checkpoint_info *model, const mx_text *text,
                                     const mxw_session_options *options, const char **language) {
    const char *asked = options->language;
    const char *code = asked ? mx_language_find(asked) : NULL;
    int translate = options->task == MXW_TRANSLATE;
    if (asked && !code)
        return mx_fail(MXW_E_ARGUMENT, "language: '%s' is not a language that Whisper supports", asked);
    if (!model->multilingual) {
        if (code && strcmp(code, "en") != 0)
            return mx_fail(MXW_E_ARGUMENT, "language: %s is an English-only model and cannot transcribe '%s'",
                           model->size_name, asked);
        if (translate)
            return mx_fail(MXW_E_ARGUMENT, "task: %s is an English-only model and cannot translate", model->size_name);
        code = "en";
    }
    if (translate && strcmp(model->size_name, mx_released_find("turbo")->name) == 0)
        return mx_fail(MXW_E_ARGUMENT, "task: %s was not trained to translate; use another multilingual model",
                       model->size_name);
    if (code && model->multilingual && mx_text_language_token(text, code) < 0)
        return mx_fail(MXW_E_ARGUMENT, "language: this model does not support '%s'", asked);
    *language = code;
    return MXW_OK;
}

/* "start,end,start,end,..." in seconds of the recording; the last end may be left out. */
static mxw_status parse_clips(mx_session *s) {
    const char *text = s->options.clip_timestamps && *s->options.clip_timestamps ? s->options.clip_timestamps : "0";
    size_t n = 1;
    for (const char *p = text; *p; p++)
        n += *p == ',';
    mx_clip *clips = mx_arena_alloc(&s->memory, (n + 1) / 2 * sizeof(*clips));
    if (!clips)
        return MXW_E_MEMORY;
    const char *at = text;
    for (size_t i = 0; i < n; i++) {
        char *end;
        double seconds = mx_parse_double(at, &end);
        if (end == at || (*end && *end != ',') || !(seconds >= 0 && seconds <= 1e9))
            return mx_fail(MXW_E_ARGUMENT, "clip_timestamps: '%s' is not start,end,... in seconds", text);
        int64_t frame = (int64_t)nearbyint(fmax(seconds - s->options.start_s, 0) * MX_MEL_RATE);
        mx_clip *clip = &clips[i / 2];
        if (i % 2 == 0)
            *clip = (mx_clip){.start = frame, .end = INT64_MAX, .language_probability = -1};
        else
            clip->end = frame;
        at = *end ? end + 1 : end;
    }
    s->at.plan = (mx_clip_plan){.wanted = clips, .n_wanted = (int)((n + 1) / 2)};
    if (!s->options.vad) {
        s->at.clips = clips;
        s->at.n_clips = s->at.plan.n_wanted;
        s->at.seek = clips[0].start;
    }
    return MXW_OK;
}

static mxw_status encode_initial_prompt(mx_session *s) {
    int32_t *tokens = NULL;
    size_t n = 0;
    if (!s->options.initial_prompt)
        return mx_tokens_add(&s->at.tokens, NULL, 0);   /* room, so that there is an address */
    mxw_status status = mx_encode_prompt(s->recognizer->text, "initial_prompt", s->options.initial_prompt, &tokens, &n);
    if (status >= 0)
        status = mx_tokens_add(&s->at.tokens, tokens, n);
    if (status >= 0)
        s->at.n_initial_prompt = n;
    mx_free(tokens);
    return status;
}

static mxw_status copy_strings(mx_session *s) {
    const char **strings[] = {&s->options.language, &s->options.suppress_tokens, &s->options.initial_prompt,
                              &s->options.prefix, &s->options.clip_timestamps, &s->options.speaker,
                              &s->options.prepend_punctuations, &s->options.append_punctuations, &s->options.vad_model,
                              &s->options.languages, &s->options.temperatures};
    for (size_t i = 0; i < MX_COUNT(strings); i++)
        if (*strings[i] && !(*strings[i] = mx_arena_strdup(&s->memory, *strings[i])))
            return MXW_E_MEMORY;
    return MXW_OK;
}

static mxw_status open_plan(mx_recognizer *r, const mxw_session_options *o, const mx_languages *languages,
                            mx_decode_plan **plan) {
    const mxw_dims *dims = r->checkpoint.dims;
    int several = languages && languages->n > 1;   /* a single one is not detected */
    mx_decode_options decode = {.n_text_ctx = dims->n_text_ctx,
                                .n_audio_ctx = dims->n_audio_ctx,
                                .task = o->task,
                                .beam_size = o->beam_size,
                                .best_of = o->best_of,
                                .patience = o->patience,
                                .length_penalty = o->length_penalty,
                                .sample_len = o->sample_len,
                                .suppress_tokens = o->suppress_tokens ? o->suppress_tokens : "-1",
                                .suppress_blank = o->suppress_blank,
                                .prefix = o->prefix,
                                .without_timestamps = o->without_timestamps,
                                .max_initial_timestamp = o->max_initial_timestamp,
                                .seed = o->seed,
                                .languages = several ? languages->codes : NULL,
                                .n_languages = several ? languages->n : 0,
                                .break_loops = o->guard != MXW_GUARD_OFF,
                                .repetition_penalty = o->repetition_penalty,
                                .no_repeat_ngram_size = o->no_repeat_ngram_size};
    if (2 * dims->n_audio_ctx != MX_MEL_WINDOW)
        return mx_fail(MXW_E_UNSUPPORTED, "model: an audio context of %d is not 30 seconds", dims->n_audio_ctx);
    mxw_status status = mx_decode_plan_open(&decode, r->text, plan);
    return status >= 0 && (*plan)->has_repetition ? mx_recognizer_load_halves(r) : status;
}

int mx_session_forces(const mxw_session_options *o) { return o->word_timestamps || o->token_details || o->guard; }

mxw_status mx_recognizer_reserve(mx_recognizer *r, const mxw_session_options *options, int batch) {
    mx_decode_plan *plan = NULL;
    mxw_status status = open_plan(r, options, NULL, &plan);
    if (status >= 0) {
        mx_slot_size size = mx_slot_size_of(plan, mx_session_forces(options));
        status = mx_batcher_reserve(r, &size, batch);
    }
    mx_decode_plan_close(plan);
    return status;
}

static mxw_status open_decoding(mx_session *s, int attached) {
    mxw_status status;
    const mxw_session_options *o = &s->options;
    const mxw_dims *dims = s->recognizer->checkpoint.dims;
    MX_TRY(open_plan(s->recognizer, o, &s->languages, &s->plan));
    s->thresholds = (mx_thresholds){o->compression_ratio_threshold, o->logprob_threshold, o->no_speech_threshold};
    s->temperatures = mx_arena_alloc(&s->memory, MAX_TEMPERATURES * sizeof(*s->temperatures));
    s->window.mel = mx_arena_alloc(&s->memory, (size_t)MX_MEL_WINDOW * (size_t)dims->n_mels * sizeof(*s->window.mel));
    status = s->temperatures && s->window.mel ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    s->n_temperatures = MAX_TEMPERATURES;
    if (o->temperatures)
        MX_TRY(mx_temperatures_listed(o->temperatures, s->temperatures, &s->n_temperatures));
    else
        mx_temperatures(o->temperature, o->temperature_increment, s->temperatures, &s->n_temperatures);
    MX_TRY(mx_decoding_open(s->plan, &s->decoding));
    if (attached)
        MX_TRY(mx_slot_attach(s->recognizer, s->plan, mx_session_forces(o),
                              o->should_abort ? mx_session_stop_if_asked : NULL, s, &s->slot));
    MX_TRY(mx_mel_open(dims->n_mels, o->mel_reference, &s->mel));
    if (mx_session_has_threads(s))
        MX_TRY(mx_mel_share(s->mel, s->recognizer->pool));
    if (o->vad || o->guard || o->languages)
        MX_TRY(mx_session_open_speech(s));
    if (o->parallel)
        MX_TRY(mx_lanes_open(s));
out:
    return status;
}

static mxw_status open_session(mx_recognizer *r, const mxw_session_options *options, int attached, mx_session **out) {
    mxw_status status;
    mx_session *s = mx_alloc_zero(1, sizeof(*s));
    if (!s)
        return MXW_E_MEMORY;
    s->recognizer = r;
    s->options = *options;
    s->result.language_probability = -1;
    s->result.times = &s->times;
    if (!s->options.prepend_punctuations)
        s->options.prepend_punctuations = "";
    if (!s->options.append_punctuations)
        s->options.append_punctuations = "";
    if (s->options.word_timestamps && s->options.task == MXW_TRANSLATE)
        mx_log(MXW_LOG_WARN, "words", "word times of a translation may be inaccurate");
    MX_TRY(mx_weights_check(r->weights));
    MX_TRY(copy_strings(s));
    MX_TRY(mx_session_check_language(&r->checkpoint, r->text, &s->options, &s->language));
    MX_TRY(mx_languages_read(&r->checkpoint, r->text, s->options.languages, &s->languages));
    MX_TRY(parse_clips(s));
    MX_TRY(encode_initial_prompt(s));
    MX_TRY(open_decoding(s, attached));
    if (s->options.on_window)
        MX_TRY(mx_fingerprint_start(s));
    s->opened_ns = mx_now_ns();
    *out = s;
    return MXW_OK;
out:
    mx_session_close(s);
    return status;
}

mxw_status mx_session_open(mx_recognizer *r, const mxw_session_options *options, mx_session **out) {
    return open_session(r, options, 1, out);
}

mxw_status mx_session_open_detached(mx_recognizer *r, const mxw_session_options *options, mx_session **out) {
    return open_session(r, options, 0, out);
}

mxw_status mx_session_attach(mx_session *s) {
    const mxw_session_options *o = &s->options;
    return s->slot ? MXW_OK : mx_slot_borrow(s->recognizer, s->plan, mx_session_forces(o),
                                             o->should_abort ? mx_session_stop_if_asked : NULL, s, &s->slot);
}

void mx_session_release(mx_session *s) {
    if (s->slot && mx_slot_is_shared(s->slot)) {
        mx_slot_detach(s->slot);
        s->slot = NULL;
    }
}

void mx_session_close(mx_session *s) {
    if (!s)
        return;
    mx_lanes_close(s->lanes);
    mx_speech_close(s->speech);
    mx_session_unshare(s);
    mx_speech_close(s->levelled);
    mx_level_close(s->level);
    mx_mel_close(s->mel);
    mx_slot_detach(s->slot);
    mx_decoding_close(s->decoding);
    mx_decode_plan_close(s->plan);
    mx_free(s->at.tokens.items);
    mx_free(s->at.carried.items);
    mx_free(s->window.tokens.items);
    mx_free(s->window.text.items);
    mx_free(s->window.pieces);
    mx_free(s->window.timed);
    mx_free(s->window.evidence);
    mx_free(s->window.judged);
    mx_words_free(&s->window.words);
    mx_free(s->segments.items);
    mx_free(s->regions);
    if (s->at.room_clips)
        mx_free(s->at.clips);
    mx_str_free(&s->text);
    mx_str_free(&s->manifest);
    mx_arena_free(&s->memory);
    mx_free(s);
}

mxw_status mx_session_fail(mx_session *s, mxw_status status) {
    s->failure.status = status;
    snprintf(s->failure.line, sizeof(s->failure.line), "%s", mx_error());
    return status;
}

static mxw_status failed_before(const mx_session *s) { return mx_fail(s->failure.status, "%s", s->failure.line); }

mxw_status mx_session_stop_if_asked(void *session) {
    mx_session *s = session;
    if (s->options.should_abort && s->options.should_abort(s->options.user))
        return mx_session_fail(s, mx_fail(MXW_E_ABORTED, "stopped on request"));
    return MXW_OK;
}

void mx_session_set_features(mx_session *s, const float *features) { s->features = features; }

static mxw_status feed_speech(mx_session *s, const float *samples, size_t n) {
    int64_t start = mx_now_ns();
    mx_session_lock(s);
    mxw_status status = mx_speech_feed(s->speech, samples, n);
    if (status >= 0 && s->level)
        status = mx_level_feed(s->level, samples, n, s->levelled);
    mx_session_unlock(s);
    s->vad_ms += mx_since_ms(start);
    return status;
}

/* Nobody reads the log-mel of a whole file before it is finished. */
static mxw_status feed_mel(mx_session *s, const float *samples, size_t n) {
    int64_t start = mx_now_ns();
    int read_meanwhile = s->options.mel_reference == MXW_MEL_RUNNING;
    if (read_meanwhile)
        mx_session_lock(s);
    mxw_status status = mx_mel_feed(s->mel, samples, n);
    if (read_meanwhile)
        mx_session_unlock(s);
    s->times.mel_ms += mx_since_ms(start);
    return status;
}

/* In parts, so that speech and log-mel can be computed at the same time. */
mxw_status mx_session_feed(mx_session *s, const float *samples, size_t n) {
    mxw_status status = MXW_OK;
    if (s->failure.status < 0)
        return failed_before(s);
    if (s->finished)
        return mx_fail(MXW_E_STATE, "feed after finish");
    if (s->options.on_window)
        mx_fingerprint_add(&s->fingerprint, samples, n);
    for (size_t at = 0, count; at < n && status >= 0; at += count) {
        count = MX_MIN(n - at, FEED_SAMPLES);
        if (s->speech)
            status = feed_speech(s, samples + at, count);
        if (status >= 0)
            status = feed_mel(s, samples + at, count);
    }
    return status < 0 ? mx_session_fail(s, status) : status;
}

static void report_audio(mx_session *s, double total_s) {
    mxw_progress progress = {"audio", mx_mel_seconds(s->mel), total_s, mx_since_ms(s->opened_ns) / 1e3};
    if (s->options.on_progress)
        s->options.on_progress(s->options.user, &progress);
}

mxw_status mx_session_feed_audio(mx_session *s, mx_audio *audio) {
    mxw_status status;
    mxw_audio_info info;
    size_t got;
    float *samples = mx_alloc_array(READ_SAMPLES, sizeof(*samples));
    if (!samples)
        return MXW_E_MEMORY;
    mx_audio_info(audio, &info);
    int64_t begin = mx_now_ns();
    do {
        int64_t start = mx_now_ns();
        MX_TRY(mx_audio_read(audio, samples, READ_SAMPLES, &got));
        s->times.audio_ms += mx_since_ms(start);
        MX_TRY(mx_session_feed(s, samples, got));
        report_audio(s, info.duration_s);
        MX_TRY(mx_session_stop_if_asked(s));
    } while (got > 0);
    mx_log_timed(MXW_LOG_DEBUG, "session", mx_since_ms(begin), "audio read, features made");
out:
    mx_free(samples);
    return status;
}

mxw_status mx_session_finish(mx_session *s) {
    if (s->failure.status < 0)
        return failed_before(s);
    if (s->finished)
        return MXW_OK;
    int64_t start = mx_now_ns();
    mx_session_lock(s);
    mxw_status status = mx_mel_finish(s->mel);
    s->times.mel_ms += mx_since_ms(start);
    if (status >= 0 && s->speech) {
        start = mx_now_ns();
        status = mx_speech_finish(s->speech);
        if (status >= 0 && s->level)
            status = mx_level_finish(s->level, s->levelled);
        if (status >= 0 && s->level)
            status = mx_speech_finish(s->levelled);
        s->vad_ms += mx_since_ms(start);
    }
    mx_session_unlock(s);
    s->finished = 1;
    return status < 0 ? mx_session_fail(s, status) : status;
}

mxw_status mx_session_next(mx_session *s, const mxw_segment **segment) {
    *segment = NULL;
    if (s->failure.status < 0)
        return failed_before(s);
    if (s->segments.n_given == s->segments.n) {
        mxw_status status = mx_session_advance(s);
        if (status < 0)
            mx_session_fail(s, status);
        s->times.total_ms = mx_since_ms(s->opened_ns);
        if (status != MXW_OK)
            return status;
    }
    *segment = &s->segments.items[s->segments.n_given++];
    return MXW_OK;
}

mxw_status mx_session_detect_languages(mx_session *s) {
    if (s->failure.status < 0)
        return failed_before(s);
    if (!s->languages.n)
        return mx_fail(MXW_E_STATE, "detect_languages: the session was opened without languages");
    if (!s->finished)
        return mx_fail(MXW_E_STATE, "detect_languages before finish");
    mxw_status status = mx_session_decide_languages(s);
    s->times.total_ms = mx_since_ms(s->opened_ns);
    return status < 0 ? mx_session_fail(s, status) : status;
}

const mxw_result *mx_session_result(mx_session *s) {
    const mx_text *text = s->recognizer->text;
    size_t n = s->at.tokens.n - s->at.n_initial_prompt;   /* 0 also if there are no tokens at all */
    mx_str_clear(&s->text);
    mxw_status status = mx_text_decode(text, n ? s->at.tokens.items + s->at.n_initial_prompt : NULL, n, &s->text);
    if (status < 0 || mx_str_status(&s->text) < 0 || mx_session_set_regions(s) < 0)
        return NULL;
    s->result.text = mx_str_get(&s->text);
    s->result.language = s->languages.n ? s->languages.most : s->language;
    s->result.segments = mx_segment_array(s->segments.items);
    s->result.n_segments = s->segments.n;
    s->result.duration_s = mx_mel_seconds(s->mel);
    s->times.load_ms = s->recognizer->load_ms;
    s->times.compile_ms = s->recognizer->compile_ms;
    return &s->result;
}
