/* realtime/config.c - see the header. Members are read by tables: a name, and a function that takes its value. */
#include "realtime/config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "max_whisper.h"
#include "realtime/audio/resample.h"

/* What `include` may ask for. Our own: text that may still change, and words with their times. */
static const struct include {
    const char *name;
    size_t flag; /* offset of an int in rt_config */
} includes[] = {
    {"item.input_audio_transcription.logprobs", offsetof(rt_config, logprobs)},
    {"max_whisper.partials", offsetof(rt_config, partials)},
    {"max_whisper.words", offsetof(rt_config, words)},
};
enum { N_INCLUDES = sizeof(includes) / sizeof(*includes) };

static int *include_flag(rt_config *config, int i) { return (int *)((char *)config + includes[i].flag); }

static const char *const format_names[] = {"audio/pcm", "audio/pcmu", "audio/pcma"};
static const char *const beta_formats[] = {"pcm16", "g711_ulaw", "g711_alaw"};
static const char *const tasks[] = {"transcribe", "translate"};
static const char *const delays[] = {"minimal", "low", "medium", "high", "xhigh"};
static const char *const eagernesses[] = {"low", "medium", "high", "auto"};
static const char *const turn_names[] = {"", "server_vad", "semantic_vad"};

/* What a member is read with: where we are, for messages, and what is changed. */
typedef struct reader {
    rt_config *config;
    rt_problem *problem;
    rt_has_model has_model;
    void *user;
} reader;

typedef struct member {
    const char *name;
    int (*take)(reader *r, const char *path, json_t *value);
} member;

void rt_config_default(rt_config *config) {
    *config = (rt_config){.format = SOUND_PCM, .rate = 24000, .transcribes = 1, .delay = RT_UNSET,
                          .turns = RT_SERVER_VAD, .threshold = 0.5, .prefix_ms = 300, .silence_ms = 500,
                          .eagerness = RT_EAGER_AUTO};
}

/* ---- kinds of values --------------------------------------------------------------------------------------------- */

static int wrong(reader *r, const char *path, const char *wanted) {
    return rt_problem_set(r->problem, "invalid_value", path, "%s: must be %s", path, wanted);
}

static int ignore(reader *r, const char *path, json_t *value) { return 1; }

static int take_flag(reader *r, const char *path, json_t *value) {
    return json_is_boolean(value) || json_is_null(value) || wrong(r, path, "true or false");
}

/* Each member of an object by its line of the table. */
static int take_object(reader *r, const char *path, json_t *object, const member *members, size_t n) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return wrong(r, path, "an object");
    json_object_foreach(object, key, value) {
        char inner[160];
        size_t i = 0;
        snprintf(inner, sizeof(inner), "%s.%s", path, key);
        while (i < n && strcmp(members[i].name, key) != 0)
            i++;
        if (i == n)
            return rt_problem_set(r->problem, "unknown_parameter", inner, "Unknown parameter: '%s'.", inner);
        if (!members[i].take(r, inner, value))
            return 0;
    }
    return 1;
}

#define TAKE_OBJECT(r, path, object, members) \
    take_object(r, path, object, members, sizeof(members) / sizeof(*(members)))

static int take_text(reader *r, const char *path, json_t *value, char *out, size_t size) {
    if (!json_is_null(value) && !json_is_string(value))
        return wrong(r, path, "a string");
    const char *text = json_is_null(value) ? "" : json_string_value(value);
    if (strlen(text) >= size)
        return rt_problem_set(r->problem, "string_above_max_length", path, "%s: is longer than %zu bytes", path,
                              size - 1);
    memcpy(out, text, strlen(text) + 1);
    return 1;
}

static int take_choice(reader *r, const char *path, json_t *value, const char *const *names, int n, int *out) {
    const char *text = json_string_value(value);
    char list[200] = "one of";
    for (int i = 0; i < n; i++) {
        if (text && !strcmp(text, names[i])) {
            *out = i;
            return 1;
        }
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s %s", i ? "," : "", names[i]);
    }
    return wrong(r, path, list);
}

static int take_number(reader *r, const char *path, json_t *value, double least, double most, double *out) {
    char wanted[80];
    if (json_is_number(value) && json_number_value(value) >= least && json_number_value(value) <= most) {
        *out = json_number_value(value);
        return 1;
    }
    snprintf(wanted, sizeof(wanted), "a number from %g to %g", least, most);
    return wrong(r, path, wanted);
}

static int take_ms(reader *r, const char *path, json_t *value, int least, int most, int *out) {
    double number = 0;
    if (!take_number(r, path, value, least, most, &number))
        return 0;
    *out = (int)number;
    return 1;
}

/* ---- format ------------------------------------------------------------------------------------------------------ */

static void set_format(rt_config *c, sound_format format) {
    if (c->format != format)
        c->rate = format == SOUND_PCM ? 24000 : 8000;
    c->format = format;
}

static int take_format_type(reader *r, const char *path, json_t *value) {
    int format;
    if (!take_choice(r, path, value, format_names, 3, &format))
        return 0;
    set_format(r->config, (sound_format)format);
    return 1;
}

/* Read after the type, wherever it stands. */
static int take_rate(reader *r, const char *path, json_t *value) {
    json_int_t rate = json_integer_value(value);
    if (r->config->format != SOUND_PCM && rate != 8000)
        return wrong(r, path, "8000 with G.711");
    if (rate < RESAMPLE_LEAST || rate > RESAMPLE_MOST || rate % RESAMPLE_STEP != 0)
        return wrong(r, path, "a multiple of 25 from 8000 to 48000");
    r->config->rate = (int)rate;
    return 1;
}

static int take_format(reader *r, const char *path, json_t *value) {
    static const member members[] = {{"type", take_format_type}, {"rate", ignore}};
    if (json_is_null(value)) {
        set_format(r->config, SOUND_PCM);
        r->config->rate = 24000;
        return 1;
    }
    if (!TAKE_OBJECT(r, path, value, members))
        return 0;
    json_t *rate = json_object_get(value, "rate");
    char inner[160];
    snprintf(inner, sizeof(inner), "%s.rate", path);
    return !rate || json_is_null(rate) || take_rate(r, inner, rate);
}

static int take_beta_format(reader *r, const char *path, json_t *value) {
    int format = SOUND_PCM;
    if (!json_is_null(value) && !take_choice(r, path, value, beta_formats, 3, &format))
        return 0;
    set_format(r->config, (sound_format)format);
    return 1;
}

/* ---- transcription ----------------------------------------------------------------------------------------------- */

static int take_model(reader *r, const char *path, json_t *value) {
    if (!take_text(r, path, value, r->config->model, sizeof(r->config->model)))
        return 0;
    if (*r->config->model && !r->has_model(r->user, r->config->model))
        return rt_problem_set(r->problem, "model_not_found", path, "%s: there is no model '%s' on this server", path,
                              r->config->model);
    return 1;
}

static int add_language(reader *r, const char *path, json_t *value, char *out, size_t size) {
    const char *name = json_string_value(value), *code = name ? mxw_language_find(name) : NULL;
    size_t n = strlen(out);
    if (!code)
        return rt_problem_set(r->problem, "invalid_value", path, "%s: %s%s%s", path, name ? "'" : "must be ",
                              name ? name : "a language", name ? "' is no language that Whisper knows" : "");
    snprintf(out + n, size - n, "%s%s", n ? "," : "", code);
    return 1;
}

static int take_language(reader *r, const char *path, json_t *value) {
    r->config->language[0] = 0;
    if (json_is_null(value) || (json_is_string(value) && !*json_string_value(value)))
        return 1;
    return add_language(r, path, value, r->config->language, sizeof(r->config->language));
}

static int take_languages(reader *r, const char *path, json_t *value) {
    size_t i;
    json_t *item;
    r->config->languages[0] = 0;
    if (json_is_null(value))
        return 1;
    if (!json_is_array(value) || json_array_size(value) == 0 || json_array_size(value) > 100)
        return wrong(r, path, "a list of 1 to 100 languages");
    json_array_foreach(value, i, item)
        if (!add_language(r, path, item, r->config->languages, sizeof(r->config->languages)))
            return 0;
    return 1;
}

static int take_prompt(reader *r, const char *path, json_t *value) {
    return take_text(r, path, value, r->config->prompt, sizeof(r->config->prompt));
}

static int take_keywords(reader *r, const char *path, json_t *value) {
    if (json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0))
        return 1;
    return rt_problem_set(r->problem, "unsupported_parameter", path, "%s: is not supported; name them in prompt", path);
}

static int take_delay(reader *r, const char *path, json_t *value) {
    int delay = RT_UNSET;
    if (!json_is_null(value) && !take_choice(r, path, value, delays, 5, &delay))
        return 0;
    r->config->delay = (rt_delay)delay;
    return 1;
}

/* Our own: OpenAI's sessions do not translate. */
static int take_task(reader *r, const char *path, json_t *value) {
    r->config->translates = 0;
    return json_is_null(value) || take_choice(r, path, value, tasks, 2, &r->config->translates);
}

static int take_transcription(reader *r, const char *path, json_t *value) {
    static const member members[] = {{"model", take_model},         {"language", take_language},
                                     {"languages", take_languages}, {"prompt", take_prompt},
                                     {"keywords", take_keywords},   {"delay", take_delay},
                                     {"task", take_task}};
    rt_config *c = r->config;
    c->transcribes = !json_is_null(value);
    if (!c->transcribes) {
        c->language[0] = c->languages[0] = c->prompt[0] = 0;
        c->delay = RT_UNSET;
        c->translates = 0;
        return 1;
    }
    if (!TAKE_OBJECT(r, path, value, members))
        return 0;
    if (*c->language && *c->languages) {
        if (json_object_get(value, "language") && json_object_get(value, "languages"))
            return rt_problem_set(r->problem, "invalid_value", path, "%s: language and languages exclude each other",
                                  path);
        (json_object_get(value, "language") ? c->languages : c->language)[0] = 0;   /* the newer one counts */
    }
    return 1;
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

static int take_threshold(reader *r, const char *path, json_t *value) {
    return take_number(r, path, value, 0.01, 1, &r->config->threshold);
}

static int take_prefix(reader *r, const char *path, json_t *value) {
    return take_ms(r, path, value, 0, 5000, &r->config->prefix_ms);
}

static int take_silence(reader *r, const char *path, json_t *value) {
    return take_ms(r, path, value, 100, 10000, &r->config->silence_ms);
}

static int take_idle(reader *r, const char *path, json_t *value) {
    r->config->idle_ms = 0;
    return json_is_null(value) || take_ms(r, path, value, 5000, 30000, &r->config->idle_ms);
}

static int take_eagerness(reader *r, const char *path, json_t *value) {
    int eagerness = RT_EAGER_AUTO;
    if (!json_is_null(value) && !take_choice(r, path, value, eagernesses, 4, &eagerness))
        return 0;
    r->config->eagerness = (rt_eagerness)eagerness;
    return 1;
}

/* The type first: it says which members there are, and a new one starts with its defaults. */
static int take_turn_type(reader *r, const char *path, json_t *object) {
    char inner[160];
    rt_config fresh, *c = r->config;
    json_t *type = json_object_get(object, "type");
    int turns = c->turns;
    snprintf(inner, sizeof(inner), "%s.type", path);
    if (!type && c->turns == RT_MANUAL)
        return rt_problem_set(r->problem, "missing_required_parameter", inner, "Missing required parameter: '%s'.",
                              inner);
    if (type && !take_choice(r, inner, type, turn_names + 1, 2, &turns))
        return 0;
    turns += type != NULL;
    if (turns != (int)c->turns) {
        rt_config_default(&fresh);
        c->threshold = fresh.threshold;
        c->prefix_ms = fresh.prefix_ms;
        c->silence_ms = fresh.silence_ms;
        c->idle_ms = fresh.idle_ms;
        c->eagerness = fresh.eagerness;
    }
    c->turns = (rt_turns)turns;
    return 1;
}

static int take_turns(reader *r, const char *path, json_t *value) {
    static const member server_vad[] = {{"type", ignore},
                                        {"threshold", take_threshold},
                                        {"prefix_padding_ms", take_prefix},
                                        {"silence_duration_ms", take_silence},
                                        {"idle_timeout_ms", take_idle},
                                        {"create_response", take_flag},
                                        {"interrupt_response", take_flag}};
    static const member semantic_vad[] = {{"type", ignore},
                                          {"eagerness", take_eagerness},
                                          {"create_response", take_flag},
                                          {"interrupt_response", take_flag}};
    if (json_is_null(value)) {
        r->config->turns = RT_MANUAL;
        return 1;
    }
    if (!json_is_object(value))
        return wrong(r, path, "null or an object");
    if (!take_turn_type(r, path, value))
        return 0;
    return r->config->turns == RT_SERVER_VAD ? TAKE_OBJECT(r, path, value, server_vad)
                                             : TAKE_OBJECT(r, path, value, semantic_vad);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Whisper hears noise as it is: a valid wish is accepted, and the session says that there is none. */
static int take_noise_type(reader *r, const char *path, json_t *value) {
    static const char *const types[] = {"near_field", "far_field"};
    int type;
    return take_choice(r, path, value, types, 2, &type);
}

static int take_strength(reader *r, const char *path, json_t *value) {
    return json_is_number(value) || json_is_null(value) || wrong(r, path, "a number");
}

static int take_noise(reader *r, const char *path, json_t *value) {
    static const member members[] = {{"type", take_noise_type}, {"strength", take_strength}};
    char inner[160];
    if (json_is_null(value))
        return 1;
    if (!json_is_object(value))
        return wrong(r, path, "null or an object");
    snprintf(inner, sizeof(inner), "%s.type", path);
    if (!json_object_get(value, "type"))
        return rt_problem_set(r->problem, "missing_required_parameter", inner, "Missing required parameter: '%s'.",
                              inner);
    return TAKE_OBJECT(r, path, value, members);
}

static int take_include(reader *r, const char *path, json_t *value) {
    size_t i;
    json_t *item;
    for (int k = 0; k < N_INCLUDES; k++)
        *include_flag(r->config, k) = 0;
    if (json_is_null(value))
        return 1;
    if (!json_is_array(value))
        return wrong(r, path, "a list");
    json_array_foreach(value, i, item) {
        int k = 0;
        while (k < N_INCLUDES && (!json_is_string(item) || strcmp(json_string_value(item), includes[k].name) != 0))
            k++;
        if (k == N_INCLUDES)
            return wrong(r, path, "a list of \"item.input_audio_transcription.logprobs\", \"max_whisper.partials\", "
                                  "\"max_whisper.words\"");
        *include_flag(r->config, k) = 1;
    }
    return 1;
}

static int take_type(reader *r, const char *path, json_t *value) {
    if (json_is_string(value) && !strcmp(json_string_value(value), "transcription"))
        return 1;
    return wrong(r, path, "\"transcription\": this server transcribes, and has no other sessions");
}

static int take_input(reader *r, const char *path, json_t *value) {
    static const member members[] = {{"format", take_format},
                                     {"transcription", take_transcription},
                                     {"noise_reduction", take_noise},
                                     {"turn_detection", take_turns}};
    return TAKE_OBJECT(r, path, value, members);
}

static int take_audio(reader *r, const char *path, json_t *value) {
    static const member members[] = {{"input", take_input}};
    return TAKE_OBJECT(r, path, value, members);
}

int rt_config_update(rt_config *config, json_t *session, rt_dialect dialect, rt_has_model has_model, void *user,
                     rt_problem *problem) {
    static const member ga[] = {{"type", take_type}, {"audio", take_audio}, {"include", take_include}};
    static const member beta[] = {{"type", take_type},
                                  {"input_audio_format", take_beta_format},
                                  {"input_audio_transcription", take_transcription},
                                  {"turn_detection", take_turns},
                                  {"input_audio_noise_reduction", take_noise},
                                  {"include", take_include},
                                  {"modalities", ignore},   /* text alone, always */
                                  {"client_secret", ignore}};
    rt_config changed = *config;
    reader r = {&changed, problem, has_model, user};
    int ok = dialect == RT_GA ? TAKE_OBJECT(&r, "session", session, ga) : TAKE_OBJECT(&r, "session", session, beta);
    if (ok)
        *config = changed;
    return ok;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static json_t *text_or_null(const char *text) { return *text ? json_string(text) : json_null(); }

static json_t *languages_json(const char *list) {
    json_t *array = json_array();
    while (array && *list) {
        size_t n = strcspn(list, ",");
        json_array_append_new(array, json_stringn(list, n));
        list += n + (list[n] == ',');
    }
    return array;
}

static json_t *transcription_json(const rt_config *c, const char *default_model) {
    if (!c->transcribes)
        return json_null();
    json_t *object = json_pack("{s:s, s:o, s:o}", "model", *c->model ? c->model : default_model, "language",
                               text_or_null(c->language), "prompt", text_or_null(c->prompt));
    if (*c->languages)
        json_object_set_new(object, "languages", languages_json(c->languages));
    if (c->delay != RT_UNSET)
        json_object_set_new(object, "delay", json_string(delays[c->delay]));
    if (c->translates)
        json_object_set_new(object, "task", json_string(tasks[1]));
    return object;
}

static json_t *turns_json(const rt_config *c) {
    if (c->turns == RT_MANUAL)
        return json_null();
    if (c->turns == RT_SEMANTIC_VAD)
        return json_pack("{s:s, s:s}", "type", "semantic_vad", "eagerness", eagernesses[c->eagerness]);
    return json_pack("{s:s, s:f, s:i, s:i, s:o}", "type", "server_vad", "threshold", c->threshold, "prefix_padding_ms",
                     c->prefix_ms, "silence_duration_ms", c->silence_ms, "idle_timeout_ms",
                     c->idle_ms ? json_integer(c->idle_ms) : json_null());
}

static json_t *format_json(const rt_config *c) {
    return c->format == SOUND_PCM ? json_pack("{s:s, s:i}", "type", format_names[c->format], "rate", c->rate)
                                  : json_pack("{s:s}", "type", format_names[c->format]);
}

static json_t *include_json(const rt_config *c) {
    json_t *names = json_array();
    rt_config config = *c;
    for (int k = 0; k < N_INCLUDES; k++)
        if (*include_flag(&config, k))
            json_array_append_new(names, json_string(includes[k].name));
    if (json_array_size(names) > 0)
        return names;
    json_decref(names);
    return json_null();
}

json_t *rt_config_json(const rt_config *c, rt_dialect dialect, const char *id, int64_t expires_at,
                       const char *default_model) {
    json_t *object = json_object(), *include = include_json(c);
    json_object_set_new(object, "type", json_string("transcription"));
    if (id)
        json_object_set_new(object, "id", json_string(id));
    json_object_set_new(object, "object", json_string("realtime.transcription_session"));
    json_object_set_new(object, "expires_at", expires_at ? json_integer(expires_at) : json_null());
    if (dialect == RT_GA) {
        json_t *input = json_pack("{s:o, s:o, s:n, s:o}", "format", format_json(c), "transcription",
                                  transcription_json(c, default_model), "noise_reduction", "turn_detection",
                                  turns_json(c));
        json_object_set_new(object, "audio", json_pack("{s:o}", "input", input));
    } else {
        json_object_set_new(object, "input_audio_format", json_string(beta_formats[c->format]));
        json_object_set_new(object, "input_audio_transcription", transcription_json(c, default_model));
        json_object_set_new(object, "turn_detection", turns_json(c));
        json_object_set_new(object, "input_audio_noise_reduction", json_null());
    }
    json_object_set_new(object, "include", include);
    return object;
}
