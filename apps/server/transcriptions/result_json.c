/* server/transcriptions/result_json.c - see result_json.h. */
#include "transcriptions/result_json.h"

#include <math.h>
#include <string.h>

json_t *result_text(const char *text, size_t n) {
    while (n && (*text == ' ' || *text == '\n'))
        text++, n--;
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\n'))
        n--;
    return json_stringn(text, n);
}

static json_t *whole_text(const mxw_result *result) {
    return result_text(result->text ? result->text : "", result->text ? strlen(result->text) : 0);
}

/* Times have milliseconds at most; other numbers are given as they are. */
static json_t *seconds(double value) { return json_real(round(value * 1000) / 1000); }

static json_t *usage(const mxw_result *result) {
    return json_pack("{s:s, s:I}", "type", "duration", "seconds", (json_int_t)ceil(result->duration_s));
}

static const char *language_name(const char *code) {
    for (int i = 0; code && mxw_language_code(i); i++)
        if (!strcmp(mxw_language_code(i), code))
            return mxw_language_name(i);
    return "";
}

/* ---- parts ---------------------------------------------------------------------------------------------- */

/* What the guard found, where it marks. */
static void add_suspicion(json_t *object, double suspicion, uint32_t reasons) {
    json_t *names = json_array();
    for (int bit = 0; mxw_suspicion_reason(bit); bit++)
        if (reasons & 1u << bit)
            json_array_append_new(names, json_string(mxw_suspicion_reason(bit)));
    json_object_set_new(object, "suspicion", json_real(suspicion));
    json_object_set_new(object, "suspicion_reasons", names);
}

/* Top-level words have what OpenAI's have; those of our own stream more. */
static json_t *word_of(const mxw_word *word, int of_stream) {
    json_t *object = json_object();
    json_object_set_new(object, "word", result_text(word->word, strlen(word->word)));
    json_object_set_new(object, "start", seconds(word->start));
    json_object_set_new(object, "end", seconds(word->end));
    if (of_stream)
        json_object_set_new(object, "probability", json_real(word->probability));
    if (of_stream && word->reasons)
        add_suspicion(object, word->suspicion, word->reasons);
    return object;
}

json_t *result_segment(const mxw_segment *s, int with_words) {
    json_t *object = json_object(), *tokens = json_array();
    for (size_t i = 0; i < s->n_tokens; i++)
        json_array_append_new(tokens, json_integer(s->tokens[i]));
    json_object_set_new(object, "id", json_integer(s->id));
    json_object_set_new(object, "seek", json_integer(s->seek));
    json_object_set_new(object, "start", seconds(s->start));
    json_object_set_new(object, "end", seconds(s->end));
    json_object_set_new(object, "text", json_string(s->text));
    json_object_set_new(object, "tokens", tokens);
    json_object_set_new(object, "temperature", json_real(s->temperature));
    json_object_set_new(object, "avg_logprob", json_real(s->avg_logprob));
    json_object_set_new(object, "compression_ratio", json_real(s->compression_ratio));
    json_object_set_new(object, "no_speech_prob", json_real(s->no_speech_prob));
    if (s->language_probability >= 0 && s->language)
        json_object_set_new(object, "language", json_string(s->language));
    if (s->reasons)
        add_suspicion(object, s->suspicion, s->reasons);
    if (!with_words)
        return object;
    json_t *words = json_array();
    for (size_t i = 0; i < s->n_words; i++)
        json_array_append_new(words, word_of(mxw_segment_word(s, i), 1));
    json_object_set_new(object, "words", words);
    return object;
}

/* The bytes of a token that ends within a character are not known. */
static json_t *bytes_of(const char *text) {
    if (strstr(text, "\xef\xbf\xbd"))
        return json_null();
    json_t *array = json_array();
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        json_array_append_new(array, json_integer(*p));
    return array;
}

void result_logprobs(const mxw_segment *s, json_t *array) {
    for (size_t i = 0; i < s->n_tokens; i++) {
        const mxw_token *token = mxw_segment_token(s, i);
        if (!token || !token->text || !strncmp(token->text, "<|", 2))
            continue;
        json_t *object = json_object();
        json_object_set_new(object, "token", json_string(token->text));
        json_object_set_new(object, "logprob", json_real(token->logprob));
        json_object_set_new(object, "bytes", bytes_of(token->text));
        json_array_append_new(array, object);
    }
}

/* ---- whole results -------------------------------------------------------------------------------------- */

/* Each once, in the order in which they are first heard. */
static json_t *languages_of(const mxw_result *result) {
    json_t *array = json_array();
    const char *last = NULL;
    for (size_t i = 0; i < result->n_segments; i++) {
        const char *code = mxw_result_segment(result, i)->language;
        int seen = !code || (last && !strcmp(code, last));
        size_t index;
        json_t *value;
        json_array_foreach(array, index, value)
            seen |= code && !strcmp(json_string_value(json_object_get(value, "code")), code);
        if (!seen)
            json_array_append_new(array, json_pack("{s:s}", "code", code));
        last = code;
    }
    return array;
}

json_t *result_plain(const mxw_result *result, const transcription_request *request) {
    json_t *object = json_object();
    json_object_set_new(object, "text", whole_text(result));
    if (request->logprobs) {
        json_t *array = json_array();
        for (size_t i = 0; i < result->n_segments; i++)
            result_logprobs(mxw_result_segment(result, i), array);
        json_object_set_new(object, "logprobs", array);
    }
    if (*request->languages)
        json_object_set_new(object, "languages", languages_of(result));
    json_object_set_new(object, "usage", usage(result));
    return object;
}

static json_t *all_words(const mxw_result *result) {
    json_t *array = json_array();
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(result, i);
        for (size_t j = 0; j < s->n_words; j++)
            json_array_append_new(array, word_of(mxw_segment_word(s, j), 0));
    }
    return array;
}

json_t *result_verbose(const mxw_result *result, const transcription_request *request) {
    json_t *object = json_object();
    int translate = request->task == MXW_TRANSLATE;
    json_object_set_new(object, "task", json_string(translate ? "translate" : "transcribe"));
    json_object_set_new(object, "language", json_string(translate ? "english" : language_name(result->language)));
    json_object_set_new(object, "duration", seconds(result->duration_s));
    json_object_set_new(object, "text", whole_text(result));
    if (request->segments) {
        json_t *array = json_array();
        for (size_t i = 0; i < result->n_segments; i++)
            json_array_append_new(array, result_segment(mxw_result_segment(result, i), 0));
        json_object_set_new(object, "segments", array);
    }
    if (request->words)
        json_object_set_new(object, "words", all_words(result));
    if (*request->languages)
        json_object_set_new(object, "languages", languages_of(result));
    json_object_set_new(object, "usage", usage(result));
    return object;
}

/* Of the sound: the positions of the encoder, 50 a second. */
json_t *result_token_usage(const mxw_result *result) {
    json_int_t in = (json_int_t)ceil(result->duration_s * 50), out = 0;
    for (size_t i = 0; i < result->n_segments; i++)
        out += (json_int_t)mxw_result_segment(result, i)->n_tokens;
    return json_pack("{s:s, s:I, s:I, s:I, s:{s:i, s:I}}", "type", "tokens", "input_tokens", in, "output_tokens", out,
                     "total_tokens", in + out, "input_token_details", "text_tokens", 0, "audio_tokens", in);
}
