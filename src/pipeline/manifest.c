/* pipeline/manifest.c - the model and options of a run as JSON: enough to reproduce it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "output/output.h"
#include "pipeline/session.h"

/* SHA-256 of the weights that were opened, computed on first use: their path may lead to another file by now. One that
 * was written to meanwhile has none. */
static mxw_status make_sha256(mx_recognizer *r) {
    mxw_status status = mx_weights_check(r->weights);
    pthread_mutex_lock(&r->lock);
    if (status == MXW_OK && !r->sha256[0]) {
        char text[sizeof(r->sha256)];
        mx_weights_sha256(r->weights, text);
        mx_weights_forget(r->weights);
        status = mx_weights_check(r->weights);
        if (status == MXW_OK)
            memcpy(r->sha256, text, sizeof(text));
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void add_text(mx_str *out, const char *key, const char *value) {
    mx_output_json_key(out, key);
    if (value)
        mx_output_json_string(out, value);
    else
        mx_str_text(out, "null");
}

static void add_number(mx_str *out, const char *key, double value) {
    mx_output_json_key(out, key);
    if (value == MXW_NONE || !isfinite(value))
        mx_str_text(out, "null");
    else
        mx_output_json_number(out, value);
}

static void add_whole(mx_str *out, const char *key, int64_t value) {
    mx_output_json_key(out, key);
    mx_str_print(out, "%" PRId64, value);
}

static void add_flag(mx_str *out, const char *key, int value) {
    mx_output_json_key(out, key);
    mx_str_text(out, value ? "true" : "false");
}

static void add_model(mx_str *out, const mx_recognizer *r) {
    static const char *const engines[] = {"cpu", "gpu", "max"}, *const precisions[] = {"exact", "f16", "int8", "f8"};
    mxw_model_info info;
    mx_recognizer_info(r, &info);
    add_text(out, "engine", engines[info.engine]);
    add_text(out, "device", info.device);
    add_whole(out, "threads", info.threads);
    if (info.precision != MXW_PRECISION_EXACT)
        add_text(out, "precision", precisions[info.precision]);
    mx_output_json_key(out, "model");
    mx_str_text(out, "{\"name\": ");
    mx_output_json_string(out, info.checkpoint->size_name);
    add_text(out, "path", info.checkpoint->path);
    add_text(out, "format", info.checkpoint->format);
    add_whole(out, "bytes", (int64_t)info.checkpoint->file_bytes);
    add_text(out, "sha256", r->sha256);
    mx_str_text(out, "}");
}

/* What is off is left out. */
static void add_speech_options(mx_str *out, const mx_session *s) {
    const mxw_session_options *o = &s->options;
    static const char *const guards[] = {"off", "mark", "drop"};
    if (o->vad || o->guard || o->languages) {
        add_flag(out, "vad", o->vad);
        add_text(out, "vad_model", o->vad_model);
        add_text(out, "vad_model_sha256", s->detector_sha256);
        add_number(out, "vad_threshold", o->vad_threshold);
        add_number(out, "vad_min_silence_ms", o->vad_min_silence_ms);
        add_number(out, "vad_min_speech_ms", o->vad_min_speech_ms);
        add_number(out, "vad_max_speech_s", o->vad_max_speech_s);
        add_number(out, "vad_pad_ms", o->vad_pad_ms);
        add_whole(out, "parallel", o->parallel);
        add_text(out, "guard", guards[o->guard]);
        add_text(out, "languages", o->languages);
    }
}

static void add_options(mx_str *out, const mx_session *s) {
    const mxw_session_options *o = &s->options;
    mx_output_json_key(out, "options");
    mx_str_print(out, "{\"task\": \"%s\"", o->task == MXW_TRANSLATE ? "translate" : "transcribe");
    add_text(out, "language", o->language);
    add_number(out, "temperature", o->temperature);
    add_number(out, "temperature_increment", o->temperature_increment);
    if (o->temperatures)
        add_text(out, "temperatures", o->temperatures);
    add_whole(out, "best_of", o->best_of);
    add_whole(out, "beam_size", o->beam_size);
    add_number(out, "patience", o->patience);
    add_number(out, "length_penalty", o->length_penalty);
    if (o->repetition_penalty != 1)
        add_number(out, "repetition_penalty", o->repetition_penalty);
    if (o->no_repeat_ngram_size)
        add_whole(out, "no_repeat_ngram_size", o->no_repeat_ngram_size);
    add_text(out, "suppress_tokens", o->suppress_tokens);
    add_flag(out, "suppress_blank", o->suppress_blank);
    add_text(out, "initial_prompt", o->initial_prompt);
    add_flag(out, "carry_initial_prompt", o->carry_initial_prompt);
    add_text(out, "prefix", o->prefix);
    add_flag(out, "condition_on_previous_text", o->condition_on_previous_text);
    add_number(out, "compression_ratio_threshold", o->compression_ratio_threshold);
    add_number(out, "logprob_threshold", o->logprob_threshold);
    add_number(out, "no_speech_threshold", o->no_speech_threshold);
    add_whole(out, "sample_len", o->sample_len);
    add_flag(out, "without_timestamps", o->without_timestamps);
    add_number(out, "max_initial_timestamp", o->max_initial_timestamp);
    add_text(out, "clip_timestamps", o->clip_timestamps);
    mx_str_print(out, ", \"seed\": %" PRIu64, o->seed);
    add_text(out, "mel_reference", o->mel_reference == MXW_MEL_RUNNING ? "running" : "file");
    add_flag(out, "word_timestamps", o->word_timestamps);
    add_text(out, "prepend_punctuations", o->prepend_punctuations);
    add_text(out, "append_punctuations", o->append_punctuations);
    add_number(out, "hallucination_silence_threshold", o->hallucination_silence_threshold);
    add_whole(out, "token_details", o->token_details);
    add_number(out, "start_s", o->start_s);
    add_speech_options(out, s);
    mx_str_text(out, "}");
}

mxw_status mx_session_manifest(mx_session *s, const char **json) {
    mxw_status status = make_sha256(s->recognizer);
    if (status < 0)
        return status;
    mx_str_clear(&s->manifest);
    mx_str_text(&s->manifest, "{\"program\": \"max-whisper\"");
    add_text(&s->manifest, "version", MXW_VERSION);
    add_model(&s->manifest, s->recognizer);
    add_options(&s->manifest, s);
    mx_str_text(&s->manifest, "}");
    *json = mx_str_get(&s->manifest);
    return mx_str_status(&s->manifest);
}
