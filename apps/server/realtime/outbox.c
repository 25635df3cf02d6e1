/* realtime/outbox.c - events as text. */
#include <stdlib.h>
#include <string.h>

#include "realtime/session.h"

/* SplitMix64. */
static uint64_t next_random(rt_session *s) {
    uint64_t x = s->random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void rt_new_id(rt_session *s, const char *prefix, char *id) {
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    size_t n = strlen(prefix);
    memcpy(id, prefix, n);
    for (int i = 0; i < 20; i++)
        id[n++] = letters[next_random(s) % 62];
    id[n] = 0;
}

void rt_send(rt_session *s, const char *type, json_t *fields) {
    char id[RT_ID_SIZE];
    rt_new_id(s, "event_", id);
    json_t *event = json_pack("{s:s, s:s}", "type", type, "event_id", id);
    char *text = NULL;
    if (event && fields && json_object_update(event, fields) == 0)
        text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text)
        s->options.send(s->options.user, text, strlen(text));
    else
        s->is_broken = 1;
    free(text);
    json_decref(event);
    json_decref(fields);
}

json_t *rt_problem_json(const rt_problem *p) {
    return json_pack("{s:s, s:s?, s:s, s:s?}", "type", p->type, "code", p->code, "message", p->message, "param",
                     *p->param ? p->param : NULL);
}

void rt_send_error(rt_session *s, const rt_problem *problem, const char *event_id) {
    json_t *error = rt_problem_json(problem);
    json_object_set_new(error, "event_id", event_id ? json_string(event_id) : json_null());
    rt_send(s, "error", json_pack("{s:o}", "error", error));
}

void rt_send_session(rt_session *s, const char *type, rt_dialect dialect) {
    rt_send(s, type, json_pack("{s:o}", "session",
                               rt_config_json(&s->config, dialect, s->id, s->options.expires_at,
                                              s->options.default_model)));
}
