/* api.c - the public handles of transcription over pipeline/. Arguments are checked here and only here. */
#include "api.h"

#include <math.h>

#include "base/base.h"
#include "lab/lab.h"
#include "output/output.h"
#include "pipeline/pipeline.h"

/* ---- models ---- */

void mxw_model_options_default(mxw_model_options *options) {
    *options = (mxw_model_options){.struct_size = sizeof(*options),
                                   .model = "tiny.en",
                                   .engine = MXW_ENGINE_MAX,
                                   .device = "auto",
                                   .batch = 1,
                                   .encode_engine = -1};
}

static mxw_status check_batch(int batch) {
    return batch < 1 || batch > 256 ? mx_fail(MXW_E_ARGUMENT, "batch: %d is not from 1 to 256", batch) : MXW_OK;
}

mxw_status mxw_model_open(const mxw_model_options *options, mxw_model **out) {
    mxw_model_options full;
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_model_options_default(&full);
    if (options) {
        mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_model_options");
        if (status < 0)
            return status;
    }
    if (!full.model || !*full.model)
        return mx_fail(MXW_E_ARGUMENT, "model: no name or path was given");
    if (full.threads < 0 || full.threads > 1024)
        return mx_fail(MXW_E_ARGUMENT, "threads: %d is not from 0 to 1024", full.threads);
    if (check_batch(full.batch) < 0)
        return MXW_E_ARGUMENT;
    if (full.engine < MXW_ENGINE_CPU || full.engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "engine: %d is not cpu, gpu or max", (int)full.engine);
    if (full.precision < MXW_PRECISION_EXACT || full.precision > MXW_PRECISION_F16)
        return mx_fail(MXW_E_ARGUMENT, "precision: %d is not exact or f16", (int)full.precision);
    if (full.encode_engine < -1 || full.encode_engine > MXW_ENGINE_MAX)
        return mx_fail(MXW_E_ARGUMENT, "encode_engine: %d is not -1, cpu, gpu or max", full.encode_engine);
    return full.inject && *full.inject ? mx_fault_open(&full, full.inject, out) : mx_recognizer_open(&full, out);
}

void mxw_model_close(mxw_model *model) { mx_recognizer_close(model); }

mxw_status mxw_model_get_info(const mxw_model *model, mxw_model_info *info) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mx_recognizer_info(model, info);
    return MXW_OK;
}

mxw_status mxw_model_get_use(const mxw_model *model, mxw_model_use *use) {
    mxw_model_use full = {.struct_size = sizeof(full)};
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(use, MXW_E_ARGUMENT);
    mx_recognizer_use(model, &full);
    return mx_give(use, use->struct_size, &full, sizeof(full), "mxw_model_use");
}

mxw_status mxw_model_graph(const mxw_model *model, const char *which, const char **text) {
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(which, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    *text = NULL;
    /* The text is kept with the model; nothing else of it changes. */
    return mx_recognizer_graph((mxw_model *)(uintptr_t)model, which, text);
}

mxw_status mxw_model_encode(const mxw_model *model, const char *text, int32_t *tokens, size_t *n) {
    int32_t *ids = NULL;
    size_t count = 0;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    mxw_status status = mx_text_encode(mx_recognizer_text(model), text, strlen(text), &ids, &count);
    if (status >= 0 && count > *n)
        status = mx_fail(MXW_E_ARGUMENT, "tokens: %zu do not fit in %zu", count, *n);
    if (status >= 0 && count)
        memcpy(tokens, ids, count * sizeof(*ids));
    if (ids)
        *n = count;
    mx_free(ids);
    return status;
}

mxw_status mxw_model_decode(const mxw_model *model, const int32_t *tokens, size_t n_tokens, char *text, size_t *n) {
    mx_str out = {0};
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(n, MXW_E_ARGUMENT);
    if (n_tokens)
        MX_NEED(tokens, MXW_E_ARGUMENT);
    if (*n)
        MX_NEED(text, MXW_E_ARGUMENT);
    const mx_text *tokenizer = mx_recognizer_text(model);
    int32_t eot = mx_text_specials(tokenizer)->eot;
    mxw_status status = MXW_OK;
    for (size_t i = 0, run; i < n_tokens && status >= 0; i = run + 1) {
        for (run = i; run < n_tokens && tokens[run] < eot; run++)
            ;
        status = mx_text_decode(tokenizer, tokens + i, run - i, &out);
    }
    if (status >= 0)
        status = mx_str_status(&out);
    if (status >= 0 && out.n + 1 > *n)
        status = mx_fail(MXW_E_ARGUMENT, "text: %zu bytes do not fit in %zu", out.n + 1, *n);
    if (status >= 0)
        memcpy(text, mx_str_get(&out), out.n + 1);
    *n = out.n + 1;
    mx_str_free(&out);
    return status;
}

const char *mxw_language_code(int index) { return mx_language_code(index); }
const char *mxw_language_name(int index) { return mx_language_name(index); }
const char *mxw_language_find(const char *code_or_name) {
    return code_or_name ? mx_language_find(code_or_name) : NULL;
}

/* ---- audio ---- */

void mxw_audio_options_default(mxw_audio_options *options) {
    *options = (mxw_audio_options){.struct_size = sizeof(*options)};
}

mxw_status mxw_audio_open(const mxw_audio_options *options, mxw_audio **out) {
    mxw_audio_options full;
    mx_audio *audio = NULL;
    MX_NEED(options, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_audio_options_default(&full);
    mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_audio_options");
    if (status < 0)
        return status;
    if (!full.path || !*full.path)
        return mx_fail(MXW_E_ARGUMENT, "path: no file was given");
    if (full.channel < 0)
        return mx_fail(MXW_E_ARGUMENT, "channel: %d is neither 0 (all, mixed) nor one of 1, 2, ...", full.channel);
    if (full.track < 0)
        return mx_fail(MXW_E_ARGUMENT, "track: %d is neither 0 (the default one) nor one of 1, 2, ...", full.track);
    mx_audio_source source = {.path = full.path, .channel = full.channel, .track = full.track};
    status = mx_audio_open(&source, &audio);
    *out = (mxw_audio *)audio;
    return status;
}

void mxw_audio_close(mxw_audio *audio) { mx_audio_close((mx_audio *)audio); }

mxw_status mxw_audio_get_info(const mxw_audio *audio, mxw_audio_info *info) {
    MX_NEED(audio, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mx_audio_info((const mx_audio *)audio, info);
    return MXW_OK;
}

mxw_status mxw_audio_read(mxw_audio *audio, float *samples, size_t n, size_t *got) {
    MX_NEED(audio, MXW_E_ARGUMENT);
    MX_NEED(got, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    return mx_audio_read((mx_audio *)audio, samples, n, got);
}

/* ---- sessions ---- */

void mxw_session_options_default(mxw_session_options *options) {
    *options = (mxw_session_options){.struct_size = sizeof(*options),
                                     .temperature_increment = 0.2,
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
                                     .hallucination_silence_threshold = MXW_NONE};
}

typedef struct range {
    const char *name;
    double value, low, high;
    int may_be_none;
} range;

static mxw_status check_all(const range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const range *r = &ranges[i];
        if (r->may_be_none && r->value == MXW_NONE)
            continue;
        if (!(r->value >= r->low && r->value <= r->high))
            return mx_fail(MXW_E_ARGUMENT, "%s: %g is not from %g to %g", r->name, r->value, r->low, r->high);
    }
    return MXW_OK;
}

static mxw_status check_ranges(const mxw_session_options *o) {
    const range ranges[] = {
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
    };
    mxw_status status = check_all(ranges, MX_COUNT(ranges));
    if (status < 0)
        return status;
    if (o->on_window && o->mel_reference != MXW_MEL_FILE)
        return mx_fail(MXW_E_ARGUMENT, "on_window: needs mel_reference file");
    for (const char *p = o->speaker; p && *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127 || !strncmp(p, "-->", 3))
            return mx_fail(MXW_E_ARGUMENT, "speaker: a control character or an arrow in it would break subtitles");
    return MXW_OK;
}

/* The features that the caller has for the first window; they must be of this model's sizes. */
static mxw_status find_features(const mxw_model *model, const mxw_features *given, const float **out) {
    mxw_model_info info;
    const mx_stage *stage = mx_features_find(given, "encoder.ln_post");
    mx_recognizer_info(model, &info);
    const mxw_dims *dims = &info.checkpoint.dims;
    if (!stage)
        return mx_fail(MXW_E_MISSING, "features: there is no encoder.ln_post in them");
    if (stage->tensor.dtype != MXW_F32 || stage->tensor.rank != 2 || stage->tensor.dims[0] != dims->n_audio_ctx ||
        stage->tensor.dims[1] != dims->n_audio_state)
        return mx_fail(MXW_E_ARGUMENT, "features: encoder.ln_post is not f32 [%d, %d], which this model takes",
                       dims->n_audio_ctx, dims->n_audio_state);
    *out = stage->tensor.data;
    return MXW_OK;
}

/* Options as the caller gave them, the rest as by default; options may be NULL. */
static mxw_status read_options(const mxw_session_options *options, mxw_session_options *full) {
    mxw_status status = MXW_OK;
    mxw_session_options_default(full);
    if (options)
        status = mx_take_options(full, sizeof(*full), options, options->struct_size, "mxw_session_options");
    return status < 0 ? status : check_ranges(full);
}

mxw_status mxw_model_reserve(mxw_model *model, const mxw_session_options *options, int batch) {
    mxw_session_options full;
    MX_NEED(model, MXW_E_ARGUMENT);
    mxw_status status = check_batch(batch);
    if (status >= 0)
        status = read_options(options, &full);
    return status < 0 ? status : mx_recognizer_reserve(model, &full, batch);
}

mxw_status mxw_session_open(mxw_model *model, const mxw_session_options *options, mxw_session **out) {
    mxw_session_options full;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_status status = read_options(options, &full);
    const float *features = NULL;
    if (status >= 0 && full.features)
        status = find_features(model, full.features, &features);
    if (status >= 0)
        status = mx_session_open(model, &full, out);
    if (status >= 0)
        mx_session_give(*out, features);
    return status;
}

void mxw_session_close(mxw_session *session) { mx_session_close(session); }

mxw_status mxw_session_feed(mxw_session *session, const float *samples, size_t n) {
    MX_NEED(session, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(samples[i]))
            return mx_fail(MXW_E_ARGUMENT, "samples: number %zu is not finite", i);
    return mx_session_feed(session, samples, n);
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

mxw_status mxw_session_replay(mxw_session *session, const void *record, size_t n) {
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

mxw_status mxw_merge_open(mxw_merge **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_merge_open(out);
}

void mxw_merge_close(mxw_merge *merge) { mx_merge_close(merge); }

mxw_status mxw_merge_add(mxw_merge *merge, int channel, const mxw_result *result) {
    MX_NEED(merge, MXW_E_ARGUMENT);
    MX_NEED(result, MXW_E_ARGUMENT);
    return mx_merge_add(merge, channel, result);
}

const mxw_result *mxw_merge_result(mxw_merge *merge) {
    MX_NEED(merge, NULL);
    return mx_merge_result(merge);
}

/* ---- output ---- */

const char *mxw_format_name(int index) { return mx_output_format(index); }

void mxw_write_options_default(mxw_write_options *options) {
    *options = (mxw_write_options){.struct_size = sizeof(*options)};
}

/* The caller's, checked, with the rest as by default. */
static mxw_status take_write_options(const mxw_write_options *options, mxw_write_options *full) {
    mxw_write_options_default(full);
    mxw_status status = options ? mx_take_options(full, sizeof(*full), options, options->struct_size,
                                                  "mxw_write_options") : MXW_OK;
    const range ranges[] = {{"max_line_width", full->max_line_width, 0, 1e6, 0},
                            {"max_line_count", full->max_line_count, 0, 1e6, 0},
                            {"max_words_per_line", full->max_words_per_line, 0, 1e6, 0}};
    return status < 0 ? status : check_all(ranges, MX_COUNT(ranges));
}

mxw_status mxw_result_write_as(const mxw_result *result, const char *format, const mxw_write_options *options,
                               mxw_write_fn fn, void *user) {
    mxw_write_options full;
    MX_NEED(result, MXW_E_ARGUMENT);
    MX_NEED(format, MXW_E_ARGUMENT);
    MX_NEED(fn, MXW_E_ARGUMENT);
    mxw_status status = take_write_options(options, &full);
    return status < 0 ? status : mx_output_write(result, format, &full, fn, user);
}

mxw_status mxw_result_save_as(const mxw_result *result, const char *format, const mxw_write_options *options,
                              const char *path) {
    mxw_write_options full;
    MX_NEED(result, MXW_E_ARGUMENT);
    MX_NEED(format, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    mxw_status status = take_write_options(options, &full);
    return status < 0 ? status : mx_output_save(result, format, &full, path);
}

mxw_status mxw_result_write(const mxw_result *result, const char *format, mxw_write_fn fn, void *user) {
    return mxw_result_write_as(result, format, NULL, fn, user);
}

mxw_status mxw_result_save(const mxw_result *result, const char *format, const char *path) {
    return mxw_result_save_as(result, format, NULL, path);
}

mxw_status mxw_segment_write(const mxw_segment *segment, mxw_write_fn fn, void *user) {
    MX_NEED(segment, MXW_E_ARGUMENT);
    MX_NEED(fn, MXW_E_ARGUMENT);
    return mx_output_segment(segment, fn, user);
}
