/* test_realtime_live.c - the protocol over a real live stream, on a small generated model with a detector of the test's
 * own and the sound's clock: what the deltas and transcripts say is what mxw_live says of the same samples, with speech
 * detection and with commits; and many sessions on threads of their own, with one model, say the same. */
#include <math.h>
#include <pthread.h>

#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/live_kit.h"
#include "kit/pipeline_kit.h"

#include "base/base.h"
#include "pipeline/recognizer.h"
#include "realtime/audio/base64.h"
#include "realtime/live_stream.h"
#include "realtime/protocol.h"

#define BLOCK 1600
#define THREADS 4

static mxw_model *model;
static const live_turn talk[] = {{2.5, 1}, {4, 0.8}, {0.6, 0.3}, {1, 1.2}};

/* ---- a session on the sound's clock ------------------------------------------------------------------------------ */

typedef struct talker {
    rt_session *session;
    rt_engine engine;
    double now_s;
    mx_str deltas, transcripts, order;   /* all deltas; transcripts, each with |; first letters of event types */
    int n_completed;
    mxw_live *live;
} talker;

static double clock_of(void *user) { return ((const talker *)user)->now_s; }

static mxw_status open_live(void *context, const rt_stream_options *options, void **stream) {
    talker *t = context;
    mxw_status status = rt_live_open(model, options, &(rt_live_hooks){.user = t, .now = clock_of}, &t->live);
    *stream = t->live;
    return status;
}

static void close_live(void *stream) { mxw_live_close(stream); }
static mxw_status feed_live(void *stream, const float *samples, size_t n) { return mxw_live_feed(stream, samples, n); }
static mxw_status flush_live(void *stream) { return mxw_live_flush(stream); }
static mxw_status finish_live(void *stream) { return mxw_live_finish(stream); }
static mxw_status next_live(void *stream, const mxw_live_event **e) { return mxw_live_next(stream, e); }
static double silence_live(void *stream) { return rt_live_silence_s(stream); }
static int has_model(void *context, const char *name) { return 1; }

static void take(void *user, const char *text, size_t n) {
    talker *t = user;
    json_t *event = json_loadb(text, n, 0, NULL);
    const char *type = json_string_value(json_object_get(event, "type"));
    const char *last = strrchr(type, '.');
    mx_str_add(&t->order, last ? last + 1 : type, 2);
    mx_str_text(&t->order, " ");
    if (json_object_get(event, "delta"))
        mx_str_text(&t->deltas, json_string_value(json_object_get(event, "delta")));
    if (json_object_get(event, "transcript")) {
        mx_str_text(&t->transcripts, json_string_value(json_object_get(event, "transcript")));
        mx_str_text(&t->transcripts, "|");
        mx_str_text(&t->deltas, "|");
        t->n_completed++;
    }
    if (!strcmp(type, "error") || !strcmp(type + strlen(type) - 6, "failed"))
        printf("    %s\n", text);
    json_decref(event);
}

static void send_text(talker *t, const char *text) {
    rt_session_take(t->session, text, strlen(text));
    rt_session_work(t->session);
}

static void send_sound(talker *t, const float *samples, size_t n) {
    static _Thread_local uint8_t bytes[2 * BLOCK];
    static _Thread_local char message[4 * BLOCK];
    strcpy(message, "{\"type\":\"input_audio_buffer.append\",\"audio\":\"");
    for (size_t i = 0; i < n; i++) {
        int16_t sample = (int16_t)lrintf(samples[i] * 32768);
        memcpy(bytes + 2 * i, &sample, 2);
    }
    base64_encode(bytes, 2 * n, message + strlen(message));
    strcat(message, "\"}");
    t->now_s += (double)n / MXW_SAMPLE_RATE;
    send_text(t, message);
}

static void open_talker(talker *t, const char *update) {
    *t = (talker){.engine = {t, open_live, close_live, feed_live, flush_live, finish_live, next_live, silence_live,
                             has_model}};
    t->session = rt_session_open(&(rt_session_options){.engine = &t->engine, .default_model = "generated", .seed = 1,
                                                       .user = t, .send = take});
    send_text(t, update);
}

static void close_talker(talker *t) {
    rt_session_close(t->session);
    mx_str_free(&t->deltas);
    mx_str_free(&t->transcripts);
    mx_str_free(&t->order);
}

/* ---- the same without the protocol ------------------------------------------------------------------------------- */

/* What mxw_live says of the script with the same options: utterances, each with |, without the first space. */
static void expect(live_script *script, const rt_stream_options *options, mx_str *out) {
    talker t = {0};
    const mxw_live_event *e;
    float samples[BLOCK];
    mxw_status status = MXW_OK;
    int begun = 0;
    CHECK_EQ_INT(rt_live_open(model, options, &(rt_live_hooks){.user = &t, .now = clock_of}, &t.live), MXW_OK);
    for (int64_t at = 0; status >= 0 && status != MXW_END; at += BLOCK) {
        if (at < live_script_samples(script)) {
            live_script_sound(script, at, BLOCK, samples);
            t.now_s += (double)BLOCK / MXW_SAMPLE_RATE;
            mxw_live_feed(t.live, samples, BLOCK);
        } else {
            mxw_live_finish(t.live);
        }
        while ((status = mxw_live_next(t.live, &e)) == MXW_OK) {
            if (e->kind == MXW_LIVE_FINAL) {
                mx_str_text(out, e->text + (!begun && *e->text == ' '));
                begun = 1;
            } else if (e->kind == MXW_LIVE_SPEECH_STOPPED) {
                mx_str_text(out, "|");
                begun = 0;
            }
        }
    }
    mxw_live_close(t.live);
}

#define FORMAT "\"format\":{\"type\":\"audio/pcm\",\"rate\":16000}"

static void run(talker *t, live_script *script) {
    float samples[BLOCK];
    for (int64_t at = 0; at < live_script_samples(script); at += BLOCK) {
        live_script_sound(script, at, BLOCK, samples);
        send_sound(t, samples, BLOCK);
    }
}

static void test_detected(void) {
    live_script script = {talk, MX_COUNT(talk), 0, 5};
    talker t;
    mx_str want = {0};
    rt_stream_options options = {.threshold = 0.5, .start_pad_ms = 300, .pause_ms = 500, .margin_ms = 600};
    expect(&script, &options, &want);
    open_talker(&t, "{\"type\":\"session.update\",\"session\":{\"audio\":{\"input\":{" FORMAT
                    ",\"transcription\":{\"delay\":\"low\"}}}}}");
    run(&t, &script);
    rt_session_finish(t.session);
    CHECK_EQ_INT(t.n_completed, 3);
    CHECK_STR(mx_str_get(&t.transcripts), mx_str_get(&want));
    CHECK_STR(mx_str_get(&t.deltas), mx_str_get(&want));   /* the deltas of an item are its transcript */
    CHECK(want.n > 60 && strstr(mx_str_get(&t.order), "sp de ") != NULL);   /* text comes while somebody speaks */
    close_talker(&t);
    mx_str_free(&want);
}

/* One item for all utterances; its text is theirs together. */
static void test_committed(void) {
    live_script script = {talk, MX_COUNT(talk), 0, 5};
    talker t;
    mx_str want = {0}, joined = {0};
    rt_stream_options options = {.threshold = 0.5, .start_pad_ms = 400, .pause_ms = 500, .margin_ms = 1000};
    expect(&script, &options, &want);
    for (const char *c = mx_str_get(&want); *c; c++)
        mx_str_add(&joined, c[0] == '|' ? " " : c, c[0] == '|' && !c[1] ? 0 : 1);
    mx_str_text(&joined, "|");
    open_talker(&t, "{\"type\":\"session.update\",\"session\":{\"audio\":{\"input\":{" FORMAT
                    ",\"turn_detection\":null}}}}");
    run(&t, &script);
    CHECK_EQ_INT(t.n_completed, 0);
    send_text(&t, "{\"type\":\"input_audio_buffer.commit\"}");
    CHECK_EQ_INT(t.n_completed, 1);
    CHECK_STR(mx_str_get(&t.transcripts), mx_str_get(&joined));
    CHECK_STR(mx_str_get(&t.deltas), mx_str_get(&joined));
    close_talker(&t);
    mx_str_free(&want);
    mx_str_free(&joined);
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

typedef struct one_of_many {
    pthread_t thread;
    talker talker;
    live_script script;
} one_of_many;

static void *talk_away(void *user) {
    one_of_many *one = user;
    open_talker(&one->talker, "{\"type\":\"session.update\",\"session\":{\"audio\":{\"input\":{" FORMAT "}}}}");
    run(&one->talker, &one->script);
    rt_session_finish(one->talker.session);
    return NULL;
}

static void test_many(void) {
    static one_of_many all[THREADS];
    for (int i = 0; i < THREADS; i++) {
        all[i].script = (live_script){talk, 2, 0, (uint64_t)i % 2};
        CHECK_EQ_INT(pthread_create(&all[i].thread, NULL, talk_away, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_STR(mx_str_get(&all[i].talker.transcripts), mx_str_get(&all[i % 2].talker.transcripts));
        CHECK_EQ_INT(all[i].talker.n_completed, 2);
    }
    CHECK(strcmp(mx_str_get(&all[0].talker.transcripts), mx_str_get(&all[1].talker.transcripts)) != 0);
    for (int i = 0; i < THREADS; i++)
        close_talker(&all[i].talker);
}

int main(void) {
    char folder[4096], path[4200];
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    snprintf(path, sizeof(path), "%s/english.pt", folder);
    gen_options o = {.dims = kit_dims(51864, 16, 2, 1), .seed = 24, .dtype = MXW_F16};
    mxw_model_options options;
    kit_on("realtime-live", "max cpu");
    options = kit_model_options(path, 2);
    options.batch = 3;
    if (gen_pt(path, &o) == 0 && CHECK_EQ_INT(mxw_model_open(&options, &model), MXW_OK)) {
        model->open_detector = fake_detector_open;
        test_detected();
        test_committed();
        test_many();
    }
    mxw_model_close(model);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
