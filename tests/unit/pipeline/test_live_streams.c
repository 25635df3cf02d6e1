/* test_live_streams.c - eight live streams at once on one model with three places, each on a thread of its own and by a
 * virtual clock of its own: the events of each, times included, are those that it has alone. Every stream is of another
 * kind: policies, guards, beams, packets, languages that are asked for; sources that stall, break and jump in time; an
 * utterance that is flushed; one that is closed in the middle of a word. For the thread sanitizer, too. */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/live_kit.h"
#include "kit/pipeline_kit.h"

#include <pthread.h>

#include "base/mem.h"
#include "pipeline/recognizer.h"

#define RATE MXW_SAMPLE_RATE
#define STREAMS 8
#define PLACES 3

static mxw_model *model;
static const live_turn talk[] = {{1.8, 0.7}, {3.1, 0.3}, {0.5, 0.9}};

typedef enum trouble { NONE, STALL, BREAK, JUMP, FLUSH, LEAVE } trouble;

typedef struct stream {
    mxw_live_policy policy;
    mxw_guard guard;
    int beam_size;
    size_t packet;
    trouble trouble;       /* after 1.3 s and after 4.1 s, both times in the middle of speech */
    double pass_s;
    const char *languages;

    uint64_t seed;
    live_log log;
    int64_t n_passes;
    mxw_status status;
    pthread_t thread;
} stream;

static const stream kinds[STREAMS] = {
    {MXW_LIVE_AGREEMENT, MXW_GUARD_OFF, 0, 1600, NONE, 0.04, NULL},
    {MXW_LIVE_ALIGNATT, MXW_GUARD_OFF, 0, 320, STALL, 0.1, NULL},
    {MXW_LIVE_AGREEMENT, MXW_GUARD_MARK, 2, 1600, BREAK, 0.02, "de,en"},
    {MXW_LIVE_AGREEMENT, MXW_GUARD_DROP, 0, 4800, NONE, 0.6, NULL},
    {MXW_LIVE_ALIGNATT, MXW_GUARD_OFF, 3, 777, JUMP, 0.04, NULL},
    {MXW_LIVE_AGREEMENT, MXW_GUARD_OFF, 0, 1600, FLUSH, 0.01, "uk"},
    {MXW_LIVE_AGREEMENT, MXW_GUARD_MARK, 0, 1600, LEAVE, 0.05, NULL},
    {MXW_LIVE_ALIGNATT, MXW_GUARD_DROP, 0, 16000, STALL, 0.3, NULL},
};

static mxw_status make_trouble(mxw_live *live, live_clock *clock, stream *s) {
    mxw_status status = MXW_OK;
    switch (s->trouble) {
    case NONE:
    case LEAVE: return MXW_OK;
    case STALL:
        for (int i = 0; i < 3 && status >= 0; i++) {
            clock->now_s += 20;
            status = mxw_live_feed(live, NULL, 0);
            status = status < 0 ? status : live_take(live, &s->log);
        }
        return status;
    case BREAK: return mxw_live_gap(live, 3);
    case JUMP: return mxw_live_gap(live, 7200);
    case FLUSH: return mxw_live_flush(live);
    }
    return MXW_OK;
}

static mxw_status listen(mxw_live *live, live_clock *clock, stream *s) {
    static const double stops[] = {1.3, 4.1, 0};
    live_script script = {talk, MX_COUNT(talk), 0, s->seed};
    int64_t all = live_script_samples(&script), at = 0;
    for (size_t i = 0; i < MX_COUNT(stops); i++) {
        live_source source = {live_script_sound, &script, stops[i] > 0 ? (int64_t)(stops[i] * RATE) : all, s->packet};
        mxw_status status = live_feed(live, clock, &source, at, &s->log);
        at = source.n;
        if (status >= 0 && stops[i] > 0)
            status = make_trouble(live, clock, s);
        if (status < 0 || (s->trouble == LEAVE && i == 1))
            return status;
    }
    mxw_status status = mxw_live_finish(live);
    return status < 0 ? status : live_take(live, &s->log);
}

static void *run(void *argument) {
    stream *s = argument;
    mxw_session_options decoding = kit_short_options(6);
    mxw_live_options options;
    live_clock clock = {.pass_s = s->pass_s, .per_s = 0.01};
    mxw_live *live = NULL;
    decoding.no_speech_threshold = decoding.logprob_threshold = decoding.compression_ratio_threshold = MXW_NONE;
    decoding.guard = s->guard;
    decoding.beam_size = s->beam_size;
    decoding.languages = s->languages;
    mxw_live_options_default(&options);
    options.decoding = &decoding;
    options.policy = s->policy;
    options.keep_result = 1;
    live_clock_use(&clock, &options);
    s->log = (live_log){.keeps = 1};
    s->status = mxw_live_open(model, &options, &live);
    if (s->status >= 0)
        s->status = listen(live, &clock, s);
    s->n_passes = clock.n_passes;
    mxw_live_close(live);
    return NULL;
}

static void check_stream(const stream *alone, const stream *together, int i) {
    static const int64_t gaps[] = {[BREAK] = 2, [JUMP] = 2, [LEAVE] = 0};
    int whole = alone->trouble != LEAVE;
    CHECK_EQ_INT(alone->status, whole ? MXW_END : MXW_OK);
    CHECK_EQ_INT(together->status, alone->status);
    if (!CHECK(!together->log.broken[0] && !alone->log.broken[0]))
        printf("    stream %d: %s%s\n", i, alone->log.broken, together->log.broken);
    CHECK_STR(mx_str_get(&together->log.lines), mx_str_get(&alone->log.lines));
    CHECK_EQ_INT(together->n_passes, alone->n_passes);
    CHECK_EQ_INT(alone->log.counts[MXW_LIVE_GAP], gaps[alone->trouble]);
    CHECK_EQ_INT(alone->log.counts[MXW_LIVE_END], whole);
    CHECK(alone->n_passes >= 3 && alone->log.counts[MXW_LIVE_SPEECH_STARTED] >= 2);
    if (alone->guard != MXW_GUARD_DROP)   /* random words are dropped */
        CHECK(alone->log.counts[MXW_LIVE_FINAL] >= 2 && alone->log.finals.n > 20);
    /* an utterance in which something is missing ends there: two more than the pauses make */
    if (alone->trouble == BREAK || alone->trouble == JUMP || alone->trouble == FLUSH)
        CHECK_EQ_INT(alone->log.counts[MXW_LIVE_SPEECH_STOPPED], 4);
    else if (whole)
        CHECK_EQ_INT(alone->log.counts[MXW_LIVE_SPEECH_STOPPED], 2);
}

static void test_together(void) {
    static stream alone[STREAMS], together[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        alone[i] = kinds[i];
        alone[i].seed = (uint64_t)(3 * i + 1);
        together[i] = alone[i];
        run(&alone[i]);
    }
    for (int i = 0; i < STREAMS; i++)
        CHECK_EQ_INT(pthread_create(&together[i].thread, NULL, run, &together[i]), 0);
    for (int i = 0; i < STREAMS; i++)
        pthread_join(together[i].thread, NULL);
    for (int i = 0; i < STREAMS; i++) {
        check_stream(&alone[i], &together[i], i);
        for (int k = 0; k < i; k++)   /* different streams, or the comparison would prove nothing */
            CHECK(strcmp(mx_str_get(&alone[i].log.lines), mx_str_get(&alone[k].log.lines)) != 0);
    }
    for (int i = 0; i < STREAMS; i++) {
        live_log_free(&alone[i].log);
        live_log_free(&together[i].log);
    }
}

int main(void) {
    char folder[4096], path[4200];
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("live-streams", "max cpu");
    snprintf(path, sizeof(path), "%s/multilingual.pt", folder);
    gen_options o = {.dims = kit_dims(51865, 16, 2, 1), .seed = 24, .dtype = MXW_F16};
    mxw_model_options options = kit_model_options(path, 2);
    options.batch = PLACES;
    if (CHECK(gen_pt(path, &o) == 0) && CHECK_EQ_INT(mxw_model_open(&options, &model), MXW_OK)) {
        model->open_detector = fake_detector_open;
        test_together();
    }
    mxw_model_close(model);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
