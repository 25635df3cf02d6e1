/* api/session.c - the public functions of sessions, over pipeline/. */
#include "api/api.h"
#include "base/base.h"
#include "pipeline/pipeline.h"

void (mxw_session_options_default)(mxw_session_options *options, size_t struct_size) {
    const mxw_session_options full = {.temperature_increment = 0.2,
                                      .best_of = 5,
                                      .beam_size = 5,
                                      .patience = MXW_NONE,
                                      .length_penalty = MXW_NONE,
                                      .suppress_tokens = "-1",
                                      .suppress_blank = 1,
                                      .condition_on_previous_text = 1,
                                      .compression_ratio_threshold = 2.4,
                                      .logprob_threshold = -1.0,
                                      .no_speech_threshold = 0.6,
                                      .max_initial_timestamp = 1.0,
                                      .clip_timestamps = "0",
                                      .prepend_punctuations = MXW_PREPEND_PUNCTUATIONS,
                                      .append_punctuations = MXW_APPEND_PUNCTUATIONS,
                                      .hallucination_silence_threshold = MXW_NONE,
                                      .vad_threshold = 0.5,
                                      .vad_min_silence_ms = 2000,
                                      .vad_max_speech_s = MXW_NONE,
                                      .vad_pad_ms = 400,
                                      .repetition_penalty = 1};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status check_ranges(const mxw_session_options *o) {
    const mx_range ranges[] = {
        {"temperature", o->temperature, 0, 100, 0},
        {"temperature_increment", o->temperature_increment, 0.001, 100, 1},
        {"best_of", o->best_of, 0, 256, 0},
        {"beam_size", o->beam_size, 0, 256, 0},
        {"patience", o->patience, 0, 100, 1},
        {"length_penalty", o->length_penalty, 0, 1, 1},
        {"sample_len", o->sample_len, 0, 448, 0},
        {"max_initial_timestamp", o->max_initial_timestamp, 0, 30, 1},
        {"compression_ratio_threshold", o->compression_ratio_threshold, -1e9, 1e9, 1},
        {"logprob_threshold", o->logprob_threshold, -1e9, 1e9, 1},
        {"no_speech_threshold", o->no_speech_threshold, -1e9, 1e9, 1},
        {"hallucination_silence_threshold", o->hallucination_silence_threshold, 0, 1e9, 1},
        {"token_details", o->token_details, 0, 32, 0},
        {"start_s", o->start_s, 0, 1e9, 0},
        {"task", o->task, MXW_TRANSCRIBE, MXW_TRANSLATE, 0},
        {"mel_reference", o->mel_reference, MXW_MEL_FILE, MXW_MEL_RUNNING, 0},
        {"vad", o->vad, 0, 1, 0},
        {"vad_threshold", o->vad_threshold, 0.01, 1, 0},
        {"vad_min_silence_ms", o->vad_min_silence_ms, 0, 1e6, 0},
        {"vad_min_speech_ms", o->vad_min_speech_ms, 0, 1e6, 0},
        {"vad_max_speech_s", o->vad_max_speech_s, 0.1, 1e6, 1},
        {"vad_pad_ms", o->vad_pad_ms, 0, 1e5, 0},
        {"parallel", o->parallel, 0, 256, 0},
        {"guard", o->guard, MXW_GUARD_OFF, MXW_GUARD_DROP, 0},
        {"repetition_penalty", o->repetition_penalty, 0.01, 100, 0},
        {"no_repeat_ngram_size", o->no_repeat_ngram_size, 0, 448, 0},
    };
    mxw_status status = mx_check_ranges(ranges, MX_COUNT(ranges));
    if (status < 0)
        return status;
    if (o->on_window && o->mel_reference != MXW_MEL_FILE)
        return mx_fail(MXW_E_ARGUMENT, "on_window: needs mel_reference file");
    if (o->parallel && !o->vad)
        return mx_fail(MXW_E_ARGUMENT, "parallel: needs vad, which finds the pauses to cut at");
    if (o->languages && o->language)
        return mx_fail(MXW_E_ARGUMENT, "languages: not together with language");
    if (o->languages && o->mel_reference != MXW_MEL_FILE)
        return mx_fail(MXW_E_ARGUMENT,
                       "languages: not with mel_reference running: the whole recording must be known first");
    for (const char *p = o->speaker; p && *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127 || !strncmp(p, "-->", 3))
            return mx_fail(MXW_E_ARGUMENT, "speaker: a control character or an arrow in it would break subtitles");
    return MXW_OK;
}

mxw_status mx_take_session_options(const mxw_session_options *options, mxw_session_options *full) {
    mxw_status status = MXW_OK;
    mxw_session_options_default(full);
    if (options)
        status = mx_take_options(full, sizeof(*full), options, options->struct_size, "mxw_session_options");
    return status < 0 ? status : check_ranges(full);
}

mxw_status mxw_model_reserve(mxw_model *model, const mxw_session_options *options, int batch) {
    mxw_session_options full;
    MX_NEED(model, MXW_E_ARGUMENT);
    mxw_status status = mx_check_batch(batch);
    if (status >= 0)
        status = mx_take_session_options(options, &full);
    return status < 0 ? status : mx_recognizer_reserve(model, &full, batch);
}

mxw_status mxw_session_open(mxw_model *model, const mxw_session_options *options, mxw_session **out) {
    mxw_session_options full;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_status status = mx_take_session_options(options, &full);
    return status < 0 ? status : mx_session_open(model, &full, out);
}

void mxw_session_close(mxw_session *session) { mx_session_close(session); }

mxw_status mxw_session_feed(mxw_session *session, const float *samples, size_t n) {
    MX_NEED(session, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    mxw_status status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_session_feed(session, samples, n);
}

mxw_status mxw_session_feed_audio(mxw_session *session, mxw_audio *audio) {
    MX_NEED(session, MXW_E_ARGUMENT);
    MX_NEED(audio, MXW_E_ARGUMENT);
    return mx_session_feed_audio(session, (mx_audio *)audio);
}

mxw_status mxw_session_finish(mxw_session *session) {
    MX_NEED(session, MXW_E_ARGUMENT);
    return mx_session_finish(session);
}

mxw_status mxw_session_next(mxw_session *session, const mxw_segment **segment) {
    MX_NEED(session, MXW_E_ARGUMENT);
    MX_NEED(segment, MXW_E_ARGUMENT);
    return mx_session_next(session, segment);
}

mxw_status mxw_session_detect_languages(mxw_session *session) {
    MX_NEED(session, MXW_E_ARGUMENT);
    return mx_session_detect_languages(session);
}

mxw_status mxw_session_resume(mxw_session *session, const void *record, size_t n) {
    MX_NEED(session, MXW_E_ARGUMENT);
    MX_NEED(record, MXW_E_ARGUMENT);
    return mx_session_resume(session, record, n);
}

const mxw_result *mxw_session_result(mxw_session *session) {
    MX_NEED(session, NULL);
    return mx_session_result(session);
}

mxw_status mxw_session_manifest(mxw_session *session, const char **json) {
    MX_NEED(session, MXW_E_ARGUMENT);
    MX_NEED(json, MXW_E_ARGUMENT);
    return mx_session_manifest(session, json);
}
