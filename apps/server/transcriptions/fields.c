/* server/transcriptions/fields.c - see fields.h. */
#include "transcriptions/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transcriptions/chunking.h"

typedef struct reader {
    const server_host *host;
    transcription_request *request;
    form_problem *problem;
    chunking_strategy chunking;
    const char *response_format, *temperature;
    int has_granularities, has_increment;
} reader;

/* ---- values --------------------------------------------------------------------------------------------- */

static int refuse(reader *r, const char *name, const char *why) {
    form_refuse(r->problem, 400, name, "invalid_value", "%s: %s", name, why);
    return 0;
}

/* An option of the command line. */
static int set_option(reader *r, const char *field, const char *option, const char *value) {
    char why[400] = "";
    int set = r->host->request_set(r->request->options, option, value, why, sizeof(why));
    if (set > 0)
        return 1;
    if (!set)
        return refuse(r, field, why);
    form_refuse(r->problem, 400, field, "unknown_field", "unknown field '%.100s'", field);
    return 0;
}

static int read_switch(reader *r, const char *name, const char *value, int *target) {
    if (!strcmp(value, "true") || !strcmp(value, "True") || !strcmp(value, "1"))
        *target = 1;
    else if (!strcmp(value, "false") || !strcmp(value, "False") || !strcmp(value, "0") || !strcmp(value, "null"))
        *target = 0;
    else
        return refuse(r, name, "is not true or false");
    return 1;
}

/* ---- OpenAI's fields: each stores, or refuses ----------------------------------------------------------- */

static int take_model(reader *r, const char *name, const char *value) {
    (void)name;
    r->request->model = value;
    return 1;
}

static int take_prompt(reader *r, const char *name, const char *value) {
    return set_option(r, name, "initial-prompt", value);
}

static int take_language(reader *r, const char *name, const char *value) {
    return set_option(r, name, "language", value);
}

static int take_languages(reader *r, const char *name, const char *value) {
    char *list = r->request->languages;
    size_t used = strlen(list), room = sizeof(r->request->languages);
    if (used + strlen(value) + 2 > room)
        return refuse(r, name, "too many of them");
    snprintf(list + used, room - used, "%s%s", used ? "," : "", value);
    return set_option(r, name, "languages", list);
}

static int take_format(reader *r, const char *name, const char *value) {
    (void)name;
    r->response_format = value;
    return 1;
}

static int take_temperature(reader *r, const char *name, const char *value) {
    r->temperature = value;
    if (!set_option(r, name, "temperature", value))
        return 0;
    return strtod(value, NULL) <= 1 ? 1 : refuse(r, name, "is not a number from 0 to 1");
}

static int take_stream(reader *r, const char *name, const char *value) {
    return read_switch(r, name, value, &r->request->stream);
}

static int take_events(reader *r, const char *name, const char *value) {
    r->request->all_events = !strcmp(value, "all");
    return r->request->all_events || !strcmp(value, "openai") ? 1 : refuse(r, name, "is not openai or all");
}

static int take_include(reader *r, const char *name, const char *value) {
    r->request->logprobs |= !strcmp(value, "logprobs");
    return !strcmp(value, "logprobs") ? 1 : refuse(r, name, "only logprobs can be included");
}

static int take_granularity(reader *r, const char *name, const char *value) {
    r->has_granularities = 1;
    if (!strcmp(value, "word"))
        r->request->words = 1;
    else if (!strcmp(value, "segment"))
        r->request->segments = 1;
    else
        return refuse(r, name, "is not word or segment");
    return 1;
}

static int refuse_diarization(reader *r, const char *name, const char *value) {
    (void)value;
    form_refuse(r->problem, 400, name, "unsupported_field", "%s: speakers are not told apart by this server", name);
    return 0;
}

static int refuse_keywords(reader *r, const char *name, const char *value) {
    (void)value;
    form_refuse(r->problem, 400, name, "unsupported_field", "%s: not supported; put the words into prompt", name);
    return 0;
}

static int take_increment(reader *r, const char *name, const char *value) {
    r->has_increment = 1;
    return set_option(r, name, name, value);
}

static const struct {
    const char *name;
    int (*take)(reader *r, const char *name, const char *value);
} openai_fields[] = {
    {"model", take_model},
    {"prompt", take_prompt},
    {"language", take_language},
    {"languages", take_languages},
    {"response_format", take_format},
    {"temperature", take_temperature},
    {"stream", take_stream},
    {"stream_events", take_events},
    {"include", take_include},
    {"timestamp_granularities", take_granularity},
    {"known_speaker_names", refuse_diarization},
    {"known_speaker_references", refuse_diarization},
    {"keywords", refuse_keywords},
    {"temperature_increment_on_fallback", take_increment},
};

static int take_one(reader *r, const form_field *field) {
    if (chunking_is_field(field->name))
        return chunking_take(&r->chunking, field->name, field->value, r->problem);
    for (size_t i = 0; i < sizeof(openai_fields) / sizeof(*openai_fields); i++)
        if (!strcmp(openai_fields[i].name, field->name)) /* clients send empty texts for what was not chosen */
            return field->n ? openai_fields[i].take(r, field->name, field->value) : 1;
    return set_option(r, field->name, field->name, field->value);
}

/* ---- all of them together ------------------------------------------------------------------------------- */

static int same_format(const char *ours, const char *asked) {
    for (; *ours && *asked; ours++, asked++)
        if (*ours != (*asked == '_' ? '-' : *asked))
            return 0;
    return *ours == *asked;
}

static int read_format(reader *r) {
    transcription_request *q = r->request;
    const char *asked = r->response_format ? r->response_format : "json";
    q->kind = !strcmp(asked, "json") ? ANSWER_JSON : !strcmp(asked, "text") ? ANSWER_TEXT
            : !strcmp(asked, "verbose_json") ? ANSWER_VERBOSE : ANSWER_WRITTEN;
    for (int i = 0; q->kind == ANSWER_WRITTEN && mxw_format_name(i); i++)
        if (same_format(mxw_format_name(i), asked))
            q->format = mxw_format_name(i);
    if (!strcmp(asked, "diarized_json"))
        return refuse_diarization(r, "response_format", asked);
    if (q->kind == ANSWER_WRITTEN && !q->format)
        return refuse(r, "response_format",
                      "is not json, text, srt, verbose_json, vtt, or one of tsv, csv, lrc, ass, jsonl and json-full");
    if (q->stream && q->kind == ANSWER_WRITTEN)
        return refuse(r, "response_format", "a stream is made of JSON events; it goes with json, text or verbose_json");
    return 1;
}

static int read_details(reader *r) {
    transcription_request *q = r->request;
    if (q->all_events && !q->stream)
        return refuse(r, "stream_events", "needs stream=true");
    if (r->has_granularities && q->kind != ANSWER_VERBOSE && !q->stream)
        return refuse(r, "timestamp_granularities", "needs response_format=verbose_json");
    if (q->logprobs && q->kind != ANSWER_JSON)
        return refuse(r, "include", "logprobs need response_format=json");
    if (!r->has_granularities)
        q->segments = 1;
    if (q->words && !set_option(r, "timestamp_granularities", "word-timestamps", "True"))
        return 0;
    /* At 0 a window that decodes badly is tried again at higher temperatures; one that was chosen is kept to. */
    int chosen = r->temperature && strtod(r->temperature, NULL) > 0;
    return !chosen || r->has_increment ||
           set_option(r, "temperature", "temperature-increment-on-fallback", "none");
}

static int set_number(reader *r, const char *option, double value) {
    char text[40];
    snprintf(text, sizeof(text), "%.15g", value);
    return set_option(r, "chunking_strategy", option, text);
}

static int read_chunking(reader *r) {
    const chunking_strategy *c = &r->chunking;
    if (!chunking_check(c, r->problem))
        return 0;
    if (!c->is_auto && !c->is_server_vad)
        return 1;
    if (!set_option(r, "chunking_strategy", "vad", "True"))
        return 0;
    if (!c->is_server_vad)
        return 1;
    return set_number(r, "vad-threshold", c->threshold != MXW_NONE ? c->threshold : 0.5) &&
           set_number(r, "vad-pad-ms", c->prefix_padding_ms != MXW_NONE ? c->prefix_padding_ms : 300) &&
           set_number(r, "vad-min-silence-ms", c->silence_duration_ms != MXW_NONE ? c->silence_duration_ms : 200);
}

static int read_all(reader *r, const upload_form *form) {
    for (int i = 0; i < form->n_fields; i++)
        if (!take_one(r, &form->fields[i]))
            return 0;
    if (!read_format(r) || !read_details(r) || !read_chunking(r))
        return 0;
    const char *name;
    char why[400];
    if (!r->host->request_check(r->request->options, &name, why, sizeof(why)))
        return refuse(r, name, why);
    if (!form->has_file || !form->file.size) {
        form_refuse(r->problem, 400, "file", form->has_file ? "invalid_value" : "missing_field",
                    form->has_file ? "file: is empty" : "file: is missing; send the recording in the field file");
        return 0;
    }
    return 1;
}

int fields_read(const server_host *host, mxw_task task, const upload_form *form, transcription_request *request,
                form_problem *problem) {
    *request = (transcription_request){.task = task, .options = calloc(1, host->request_size)};
    if (!request->options) {
        form_refuse(problem, 507, NULL, "out_of_memory", "out of memory");
        return 0;
    }
    host->request_default(request->options);
    reader r = {.host = host, .request = request, .problem = problem};
    chunking_init(&r.chunking);
    return read_all(&r, form);
}

void transcription_request_free(transcription_request *request) {
    free(request->options);
    request->options = NULL;
}
