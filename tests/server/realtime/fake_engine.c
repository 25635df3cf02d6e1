/* fake_engine.c - see the header. */
#include "fake_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_EVENTS 4096

typedef struct stream {
    fake_engine *engine;
    double pause_s;
    int64_t fed;
    int64_t start, quiet;        /* of the utterance, -1: none; silence in it since, -1: somebody speaks */
    int64_t utterance;
    int n_words;
    int finished, ended;
    mxw_live_event events[MOST_EVENTS];
    char texts[MOST_EVENTS][24];
    mxw_word words[MOST_EVENTS];
    int first, n;
} stream;

static void add(stream *s, mxw_live_event_kind kind, double start, double end, const char *text) {
    if (s->n == MOST_EVENTS) {   /* nobody takes them: the oldest are gone */
        s->n = 0;
        s->first = 0;
    }
    int i = s->n++;
    snprintf(s->texts[i], sizeof(s->texts[i]), "%s", text);
    s->words[i] = (mxw_word){.start = start, .end = end, .word = s->texts[i], .probability = 0.5};
    s->events[i] = (mxw_live_event){.kind = kind, .utterance = s->utterance, .start = start, .end = end,
                                    .text = s->texts[i], .n_words = *text != 0, .language = "en",
                                    .words = (const mxw_word_array *)(const void *)&s->words[i],
                                    .heard_s = (double)s->fed / MXW_SAMPLE_RATE};
}

static double seconds(int64_t samples) { return (double)samples / MXW_SAMPLE_RATE; }

static void end_utterance(stream *s) {
    double start = seconds(s->start), end = seconds(s->quiet >= 0 ? s->quiet : s->fed);
    if (s->start < 0)
        return;
    add(s, MXW_LIVE_SPEECH_ENDED, start, end, "");
    add(s, MXW_LIVE_FINAL, start, end, " end.");
    add(s, MXW_LIVE_SPEECH_STOPPED, start, end, "");
    s->utterance++;
    s->n_words = 0;
    s->start = s->quiet = -1;
}

static void hear(stream *s, float sample) {
    char text[24];
    int loud = fabsf(sample) > 0.05f;
    s->fed++;
    if (loud && s->start < 0) {
        s->start = s->fed - 1;
        add(s, MXW_LIVE_SPEECH_STARTED, seconds(s->start), seconds(s->start), "");
    }
    if (s->start < 0)
        return;
    if (loud)
        s->quiet = -1;
    else if (s->quiet < 0) {
        s->quiet = s->fed - 1;
        add(s, MXW_LIVE_PARTIAL, 0, 0, s->engine->quiet_word_s > 0 ? " and..." : " so.");
    }
    if ((s->fed - s->start) / MXW_SAMPLE_RATE > s->n_words && s->quiet < 0) {
        snprintf(text, sizeof(text), " word%d", s->n_words++);
        add(s, MXW_LIVE_FINAL, seconds(s->start), seconds(s->fed), text);
    }
    if (s->quiet >= 0 && seconds(s->fed - s->quiet) >= s->pause_s)
        end_utterance(s);
}

static mxw_status open_stream(void *context, const rt_stream_options *options, void **out) {
    fake_engine *engine = context;
    engine->n_opened++;
    engine->opened = *options;
    snprintf(engine->model, sizeof(engine->model), "%s", options->model);
    snprintf(engine->language, sizeof(engine->language), "%s", options->language ? options->language : "");
    snprintf(engine->prompt, sizeof(engine->prompt), "%s", options->prompt ? options->prompt : "");
    if (engine->fail_open < 0)
        return engine->fail_open;
    stream *s = calloc(1, sizeof(*s));
    if (!s)
        return MXW_E_MEMORY;
    engine->n_open++;
    *s = (stream){.engine = engine, .pause_s = options->pause_ms / 1000, .start = -1, .quiet = -1};
    *out = s;
    return MXW_OK;
}

static void close_stream(void *user) {
    ((stream *)user)->engine->n_open--;
    free(user);
}

static mxw_status feed(void *user, const float *samples, size_t n) {
    stream *s = user;
    for (size_t i = 0; i < n; i++)
        hear(s, samples[i]);
    return s->engine->fail_feed;
}

static mxw_status flush(void *user) {
    end_utterance(user);
    return MXW_OK;
}

static mxw_status finish(void *user) {
    end_utterance(user);
    ((stream *)user)->finished = 1;
    return MXW_OK;
}

static mxw_status next(void *user, const mxw_live_event **event) {
    stream *s = user;
    if (s->engine->fail_next < 0)
        return s->engine->fail_next;
    if (s->first == s->n) {
        s->first = s->n = 0;
        return s->finished ? MXW_END : MXW_MORE;
    }
    *event = &s->events[s->first++];
    return MXW_OK;
}

static double silence_s(void *user) {
    const stream *s = user;
    return s->quiet < 0 ? 0 : seconds(s->fed - s->quiet);
}

static int has_model(void *context, const char *name) { return strcmp(name, "no-such-model") != 0; }

rt_engine fake_engine_table(fake_engine *fake) {
    return (rt_engine){fake, open_stream, close_stream, feed, flush, finish, next, silence_s, has_model};
}
