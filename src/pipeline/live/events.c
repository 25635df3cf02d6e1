/* pipeline/live/events.c - events that wait to be fetched, each with its own copy of its words. */
#include <string.h>

#include "base/base.h"
#include "pipeline/live/live.h"

struct mx_event {
    mx_event *next;
    mx_arena memory;
    mxw_live_event event;
};

static void free_event(mx_event *e) {
    if (!e)
        return;
    mx_arena_free(&e->memory);
    mx_free(e);
}

static int is_kept(const mx_event_words *from, size_t i) {
    return !from->drops || from->h->words[i].suspicion < MX_GUARD_SUSPECTED;
}

static mxw_status copy_words(mx_event *e, const mx_event_words *from) {
    mxw_status status;
    mx_str text = {0};
    mxw_word *words = mx_arena_alloc(&e->memory, MX_MAX(from->end - from->first, 1) * sizeof(*words));
    size_t n = 0;
    double sum = 0;
    status = words ? MXW_OK : MXW_E_MEMORY;
    for (size_t i = from->first; i < from->end && status >= 0; i++) {
        const mx_live_word *word = &from->h->words[i];
        if (!is_kept(from, i))
            continue;
        char *copy = mx_arena_alloc(&e->memory, word->end - word->begin + 1);
        if (!copy) {
            status = MXW_E_MEMORY;
            break;
        }
        memcpy(copy, mx_str_get(&from->h->text) + word->begin, word->end - word->begin);
        mx_str_text(&text, copy);
        double start = MX_MAX(from->offset_s + word->start_s, from->not_before_s);
        words[n++] = (mxw_word){start, MX_MAX(from->offset_s + word->end_s, start), copy, word->probability,
                                word->suspicion, word->reasons};
        sum += word->probability;
    }
    if (status >= 0)
        status = mx_str_status(&text);
    if (status >= 0 && !(e->event.text = mx_arena_strdup(&e->memory, mx_str_get(&text))))
        status = MXW_E_MEMORY;
    mx_str_free(&text);
    if (status < 0)
        return status;
    e->event.words = mx_word_array(words);
    e->event.n_words = n;
    e->event.probability = n ? sum / (double)n : 0;
    if (n) {
        e->event.start = words[0].start;
        e->event.end = words[n - 1].end;
    }
    return MXW_OK;
}

mxw_status mx_events_add(mx_events *events, const mxw_live_event *event, const mx_event_words *words) {
    mx_event *e = mx_alloc_zero(1, sizeof(*e));
    if (!e)
        return MXW_E_MEMORY;
    e->event = *event;
    e->event.text = "";
    mxw_status status = words->h ? copy_words(e, words) : MXW_OK;
    if (status < 0) {
        free_event(e);
        return status;
    }
    if (events->last && events->last->event.kind == MXW_LIVE_PARTIAL && event->kind == MXW_LIVE_PARTIAL) {
        mx_event old = *events->last;
        events->last->memory = e->memory;
        events->last->event = e->event;
        e->memory = old.memory;
        free_event(e);
        return MXW_OK;
    }
    if (events->last)
        events->last->next = e;
    else
        events->first = e;
    events->last = e;
    return MXW_OK;
}

const mxw_live_event *mx_events_take(mx_events *events) {
    if (!events->first)
        return NULL;
    free_event(events->given);
    events->given = events->first;
    events->first = events->given->next;
    if (!events->first)
        events->last = NULL;
    return &events->given->event;
}

const mxw_live_event *mx_events_last(const mx_events *events) { return events->last ? &events->last->event : NULL; }

void mx_events_free(mx_events *events) {
    while (events->first) {
        mx_event *next = events->first->next;
        free_event(events->first);
        events->first = next;
    }
    free_event(events->given);
    *events = (mx_events){0};
}
