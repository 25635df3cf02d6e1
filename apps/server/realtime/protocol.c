/* realtime/protocol.c - a client's messages, one function each. */
#include "realtime/protocol.h"

#include <stdlib.h>
#include <string.h>

#include "realtime/audio/base64.h"
#include "realtime/session.h"

#define LEAST_COMMIT_S 0.1
#define MOST_EVENT_ID 512

typedef struct message {
    json_t *object;
    const char *type, *event_id;
} message;

rt_session *rt_session_open(const rt_session_options *options) {
    rt_session *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->options = *options;
    s->dialect = options->dialect;
    s->random = options->seed;
    if (options->config)
        s->config = *options->config;
    else
        rt_config_default(&s->config);
    rt_new_id(s, "sess_", s->id);
    return s;
}

void rt_session_close(rt_session *s) {
    if (!s)
        return;
    rt_drop_stream(s);
    sound_close(s->sound);
    free(s);
}

void rt_session_begin(rt_session *s) {
    rt_send_session(s, s->dialect == RT_GA ? "session.created" : "transcription_session.created", s->dialect);
}

static void refuse(rt_session *s, const message *m, const rt_problem *problem) {
    rt_send_error(s, problem, m->event_id);
}

/* ---- audio ------------------------------------------------------------------------------------------------------- */

static int hear(void *user, const float *samples, size_t n) {
    rt_session *s = user;
    rt_hear(s, samples, n);
    return s->is_broken;
}

static void feed(rt_session *s, const uint8_t *bytes, size_t n) {
    if (!s->sound && !(s->sound = sound_open(s->config.format, s->config.rate))) {
        s->is_broken = 1;
        return;
    }
    if (s->ears == RT_MISSES_REST)
        s->ears = RT_HEARS;
    s->appended_s += (double)n / (s->config.format == SOUND_PCM ? 2 : 1) / s->config.rate;
    sound_feed(s->sound, bytes, n, hear, s);
}

/* What a filter kept back is heard; what comes next is a stream of its own. */
static void end_sound(rt_session *s) {
    if (s->sound)
        sound_finish(s->sound, hear, s);
    sound_close(s->sound);
    s->sound = NULL;
}

static void on_append(rt_session *s, const message *m) {
    rt_problem problem;
    json_t *audio = json_object_get(m->object, "audio");
    size_t n = json_string_length(audio);
    if (!audio || !json_is_string(audio)) {
        rt_problem_set(&problem, audio ? "invalid_type" : "missing_required_parameter", "audio",
                       audio ? "audio: must be a string of base64" : "Missing required parameter: 'audio'.");
        refuse(s, m, &problem);
        return;
    }
    if (n / 4 * 3 > RT_AUDIO_MOST + 2) {
        rt_problem_set(&problem, "string_above_max_length", "audio", "audio: more than 15 MiB in one message");
        refuse(s, m, &problem);
        return;
    }
    uint8_t *bytes = malloc(n / 4 * 3 + 1);
    int64_t got = bytes ? base64_decode(json_string_value(audio), n, bytes) : 0;
    if (!bytes)
        s->is_broken = 1;
    else if (got < 0)
        rt_problem_set(&problem, "invalid_value", "audio", "audio: is not base64 (the standard alphabet, padded)");
    else
        feed(s, bytes, (size_t)got);
    if (got < 0)
        refuse(s, m, &problem);
    free(bytes);
}

static void on_commit(rt_session *s, const message *m) {
    rt_problem problem;
    double buffered_s = s->appended_s - s->buffer_s;
    end_sound(s);
    rt_drain(s);
    if (buffered_s >= LEAST_COMMIT_S - 1e-9 || s->is_speaking) {
        rt_commit(s);
        return;
    }
    rt_problem_set(&problem, "input_audio_buffer_commit_empty", NULL,
                   "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, but "
                   "buffer only has %.2fms of audio.", (buffered_s > 0 ? buffered_s : 0) * 1000);
    refuse(s, m, &problem);
}

static void on_clear(rt_session *s, const message *m) {
    rt_drop_stream(s);
    sound_close(s->sound);
    s->sound = NULL;
    s->ears = RT_HEARS;
    s->is_lost = 0;
    s->fed = (int64_t)(s->appended_s * MXW_SAMPLE_RATE);
    s->buffer_s = s->appended_s;
    s->idle_since_s = s->appended_s;
    rt_send(s, "input_audio_buffer.cleared", json_object());
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static int is_same_stream(const rt_config *a, const rt_config *b) {
    return !strcmp(a->model, b->model) && !strcmp(a->language, b->language) && !strcmp(a->languages, b->languages) &&
           !strcmp(a->prompt, b->prompt) && a->delay == b->delay && a->turns == b->turns &&
           a->threshold == b->threshold && a->prefix_ms == b->prefix_ms && a->silence_ms == b->silence_ms &&
           a->eagerness == b->eagerness && a->transcribes == b->transcribes &&
           a->translates == b->translates;
}

/* What was said until now is ended under the old configuration; the next audio is heard under the new one. */
static void apply(rt_session *s, const rt_config *changed) {
    int is_same_sound = s->config.format == changed->format && s->config.rate == changed->rate;
    if (!is_same_sound)
        end_sound(s);
    if (!is_same_stream(&s->config, changed)) {
        rt_end_stream(s);
        s->ears = RT_HEARS;
    }
    if (changed->turns != RT_MANUAL && s->config.turns == RT_MANUAL) {
        rt_turn_forget(s);   /* of a buffer that nobody committed */
        s->buffer_s = s->appended_s;
        s->idle_since_s = s->appended_s;
    }
    s->config = *changed;
}

static void update(rt_session *s, const message *m, rt_dialect dialect, const char *answer) {
    rt_problem problem;
    rt_config changed = s->config;
    json_t *session = json_object_get(m->object, "session");
    const rt_engine *engine = s->options.engine;
    if (!session) {
        rt_problem_set(&problem, "missing_required_parameter", "session", "Missing required parameter: 'session'.");
        refuse(s, m, &problem);
    } else if (!rt_config_update(&changed, session, dialect, engine->has_model, engine->context, &problem)) {
        refuse(s, m, &problem);
    } else {
        apply(s, &changed);
        rt_send_session(s, answer, dialect);
    }
}

static void on_update(rt_session *s, const message *m) { update(s, m, s->dialect, "session.updated"); }

/* Who says it that way is a client of the beta. */
static void on_beta_update(rt_session *s, const message *m) {
    s->dialect = RT_BETA;
    update(s, m, RT_BETA, "transcription_session.updated");
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void on_unsupported(rt_session *s, const message *m) {
    rt_problem problem;
    rt_problem_set(&problem, "unsupported_event", "type", "%s: a transcription session has no such event", m->type);
    refuse(s, m, &problem);
}

static const struct {
    const char *type;
    void (*take)(rt_session *s, const message *m);
} events[] = {
    {"input_audio_buffer.append", on_append},
    {"input_audio_buffer.commit", on_commit},
    {"input_audio_buffer.clear", on_clear},
    {"session.update", on_update},
    {"transcription_session.update", on_beta_update},
    {"response.create", on_unsupported},
    {"response.cancel", on_unsupported},
    {"conversation.item.create", on_unsupported},
    {"conversation.item.delete", on_unsupported},
    {"conversation.item.retrieve", on_unsupported},
    {"conversation.item.truncate", on_unsupported},
    {"output_audio_buffer.clear", on_unsupported},
};

static void dispatch(rt_session *s, const message *m) {
    rt_problem problem;
    for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
        if (!strcmp(events[i].type, m->type)) {
            events[i].take(s, m);
            return;
        }
    rt_problem_set(&problem, "invalid_value", "type", "type: '%.100s' is no event of this protocol", m->type);
    refuse(s, m, &problem);
}

void rt_session_take(rt_session *s, const char *text, size_t n) {
    json_error_t error;
    rt_problem problem;
    message m = {.object = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error)};
    if (s->is_broken) {
        json_decref(m.object);
        return;
    }
    m.type = json_string_value(json_object_get(m.object, "type"));
    m.event_id = json_string_value(json_object_get(m.object, "event_id"));
    if (m.event_id && strlen(m.event_id) > MOST_EVENT_ID)
        m.event_id = NULL;
    if (!m.object)
        rt_problem_set(&problem, "invalid_json", NULL, "the message is not JSON: %s", error.text);
    else if (!m.type)
        rt_problem_set(&problem, "missing_required_parameter", "type", "Missing required parameter: 'type'.");
    if (m.type)
        dispatch(s, &m);
    else
        refuse(s, &m, &problem);
    json_decref(m.object);
}

void rt_session_work(rt_session *s) {
    rt_drain(s);
    rt_check_sentence(s);
    rt_check_idle(s);
}

void rt_session_finish(rt_session *s) {
    end_sound(s);
    rt_drain(s);
    rt_end_stream(s);
}

void rt_session_tell(rt_session *s, const rt_problem *problem) { rt_send_error(s, problem, NULL); }

int rt_session_is_broken(const rt_session *s) { return s->is_broken; }

double rt_session_audio_s(const rt_session *s) { return s->appended_s; }
