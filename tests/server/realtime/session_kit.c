/* session_kit.c - see the header. */
#include "session_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "realtime/audio/base64.h"

static int number_of(kit_session *k, const char *id) {
    for (int i = 0; i < k->n_items; i++)
        if (!strcmp(k->items[i], id))
            return i + 1;
    if (k->n_items < 64)
        snprintf(k->items[k->n_items++], sizeof(k->items[0]), "%s", id);
    return k->n_items;
}

static void add(kit_session *k, const char *text) {
    size_t n = strlen(k->lines);
    snprintf(k->lines + n, sizeof(k->lines) - n, "%s", text);
}

static void add_item(kit_session *k, const char *what, json_t *id) {
    char text[80];
    if (!id)
        return;
    if (json_is_null(id))
        snprintf(text, sizeof(text), " %snull", what);
    else
        snprintf(text, sizeof(text), " %s#%d", what, number_of(k, json_string_value(id)));
    add(k, text);
}

static void add_fields(kit_session *k, json_t *event) {
    static const char *const numbers[] = {"audio_start_ms", "audio_end_ms"};
    static const char *const texts[] = {"delta", "transcript"};
    char text[600];
    for (int i = 0; i < 2; i++)
        if (json_object_get(event, numbers[i])) {
            snprintf(text, sizeof(text), " %lld", (long long)json_integer_value(json_object_get(event, numbers[i])));
            add(k, text);
        }
    for (int i = 0; i < 2; i++)
        if (json_object_get(event, texts[i])) {
            snprintf(text, sizeof(text), " '%.500s'", json_string_value(json_object_get(event, texts[i])));
            add(k, text);
        }
    json_t *code = json_object_get(json_object_get(event, "error"), "code");
    if (code) {
        snprintf(text, sizeof(text), " %s", json_string_value(code));
        add(k, text);
    }
}

static void take(void *user, const char *text, size_t n) {
    kit_session *k = user;
    json_t *event = json_loadb(text, n, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    static const char *const prefixes[] = {"input_audio_buffer.", "conversation.item.input_audio_transcription.",
                                           "conversation."};
    if (!event || !type || !json_string_value(json_object_get(event, "event_id"))) {
        add(k, "(not an event)\n");
        json_decref(event);
        return;
    }
    for (int i = 0; i < 3; i++)
        if (!strncmp(type, prefixes[i], strlen(prefixes[i]))) {
            type += strlen(prefixes[i]);
            break;
        }
    add(k, type);
    add_item(k, "", json_object_get(event, "item_id"));
    add_item(k, "", json_object_get(json_object_get(event, "item"), "id"));
    add_item(k, "after ", json_object_get(event, "previous_item_id"));
    add_fields(k, event);
    add(k, "\n");
    json_array_append_new(k->events, event);
}

void kit_open(kit_session *k, rt_dialect dialect, const rt_config *config) {
    *k = (kit_session){.events = json_array(), .rate = 24000};
    k->engine = fake_engine_table(&k->fake);
    k->session = rt_session_open(&(rt_session_options){.engine = &k->engine, .dialect = dialect, .config = config,
                                                       .default_model = "tiny", .seed = 7, .user = k, .send = take});
    rt_session_begin(k->session);
}

int kit_close(kit_session *k) {
    rt_session_close(k->session);
    json_decref(k->events);
    return k->fake.n_open == 0;
}

void kit_send(kit_session *k, const char *message) {
    char text[4096];
    snprintf(text, sizeof(text), "%s", message);
    for (char *c = text; *c; c++)
        if (*c == '\'')
            *c = '"';
    rt_session_take(k->session, text, strlen(text));
    rt_session_work(k->session);
}

static void make_sound(kit_session *k, double seconds, double loud) {
    int n_all = (int)lrint(seconds * k->rate);
    for (int at = 0; at < n_all; at += k->rate / 10) {
        int n = n_all - at < k->rate / 10 ? n_all - at : k->rate / 10;
        uint8_t bytes[2 * 4800];
        char message[4 * 4800 + 200] = "{\"type\":\"input_audio_buffer.append\",\"audio\":\"";
        for (int i = 0; i < n; i++) {
            int16_t sample = (int16_t)lrint(32000 * loud * sin(k->phase += 2 * 3.14159265358979 * 200 / k->rate));
            if (loud > 0 && abs(sample) < 4000)
                sample = 4000;   /* loud throughout */
            bytes[2 * i] = (uint8_t)(sample & 0xff);
            bytes[2 * i + 1] = (uint8_t)((uint16_t)sample >> 8);
        }
        base64_encode(bytes, 2 * (size_t)n, message + strlen(message));
        strcat(message, "\"}");
        rt_session_take(k->session, message, strlen(message));
        rt_session_work(k->session);
    }
}

void kit_speak(kit_session *k, double seconds) { make_sound(k, seconds, 0.5); }
void kit_be_silent(kit_session *k, double seconds) { make_sound(k, seconds, 0); }

const char *kit_lines(kit_session *k) {
    static char lines[1 << 16];
    memcpy(lines, k->lines, sizeof(lines));
    k->lines[0] = 0;
    return lines;
}

json_t *kit_last(const kit_session *k) { return json_array_get(k->events, json_array_size(k->events) - 1); }

const char *kit_get(const kit_session *k, const char *path) {
    static char text[4096];
    json_t *at = kit_last(k);
    char part[200];
    while (at && *path) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof(part), "%.*s", (int)n, path);
        at = json_is_array(at) ? json_array_get(at, (size_t)atoi(part)) : json_object_get(at, part);
        path += n + (path[n] == '.');
    }
    char *dumped = at ? json_dumps(at, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
    if (json_is_string(at))
        snprintf(text, sizeof(text), "%s", json_string_value(at));
    else
        snprintf(text, sizeof(text), "%s", dumped ? dumped : "");
    free(dumped);
    return text;
}
