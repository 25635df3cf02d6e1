/* Any bytes as the messages of a client of /v1/realtime, one a line, on an engine without a model. Invariants:
 * every answer is a JSON object with type and event_id; the deltas of an item are its transcript, and an item that was
 * committed is completed or has failed at most once; nothing is left behind. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_engine.h"
#include "realtime/protocol.h"

#define must(truth) ((truth) ? (void)0 : (fprintf(stderr, "must: %s\n", #truth), abort()))
#define MOST_ITEMS 4096

typedef struct item {
    char id[40];
    char said[1 << 14];
    int committed, ended;
} item;

typedef struct listener {
    item *items;
    int n;
} listener;

static item *item_of(listener *l, json_t *event) {
    const char *id = json_string_value(json_object_get(event, "item_id"));
    must(id && strlen(id) < sizeof(l->items->id));
    for (int i = l->n - 1; i >= 0; i--)
        if (!strcmp(l->items[i].id, id))
            return &l->items[i];
    if (l->n == MOST_ITEMS)
        l->n = 0;
    item *added = &l->items[l->n++];
    memset(added, 0, sizeof(*added));
    snprintf(added->id, sizeof(added->id), "%s", id);
    return added;
}

static void take(void *user, const char *text, size_t n) {
    listener *l = user;
    json_t *event = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    must(type && json_is_string(json_object_get(event, "event_id")));
    if (json_object_get(event, "delta")) {
        item *i = item_of(l, event);
        must(!i->ended);
        strncat(i->said, json_string_value(json_object_get(event, "delta")), sizeof(i->said) - strlen(i->said) - 1);
    } else if (strstr(type, ".committed")) {
        item *i = item_of(l, event);
        must(!i->committed);
        i->committed = 1;
    } else if (strstr(type, "transcription.completed")) {
        item *i = item_of(l, event);
        const char *transcript = json_string_value(json_object_get(event, "transcript"));
        must(i->committed && !i->ended && transcript);
        must(!strncmp(transcript, i->said, strlen(i->said)) && json_object_get(event, "usage"));
        must(strlen(transcript) == strlen(i->said) || strlen(i->said) == sizeof(i->said) - 1);
        i->ended = 1;
    } else if (strstr(type, "transcription.failed")) {
        item *i = item_of(l, event);
        must(i->committed && !i->ended);
        i->ended = 1;
    }
    json_decref(event);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static item items[MOST_ITEMS];
    listener l = {items, 0};
    fake_engine fake = {0};
    const char *text = (const char *)data, *end = text + n;
    if (n == 0)
        return 0;
    fake.fail_next = *data == '1' ? MXW_E_DEVICE : MXW_OK;   /* the first byte: an engine that fails, the old dialect */
    fake.fail_open = *data == '2' ? MXW_E_ARGUMENT : MXW_OK;
    rt_engine engine = fake_engine_table(&fake);
    rt_session *s = rt_session_open(&(rt_session_options){.engine = &engine,
                                                          .dialect = *data == '3' ? RT_BETA : RT_GA,
                                                          .default_model = "tiny", .seed = 1, .user = &l,
                                                          .send = take});
    must(s);
    rt_session_begin(s);
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop ? stop : end) - text);
        rt_session_take(s, text, length);
        rt_session_work(s);
        must(!rt_session_is_broken(s));
        text += length + 1;
    }
    rt_session_finish(s);
    rt_session_close(s);
    must(fake.n_open == 0);
    return 0;
}
