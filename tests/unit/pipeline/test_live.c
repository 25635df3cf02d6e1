/* test_live.c - live streams on a small generated model, with a detector of the test's own and a virtual clock: the
 * order of events and the rules of each (live_kit.c), for every policy; the same events again and for any split of the
 * samples; flush, gaps, pauses, a source that stalls; speech that never pauses, ten minutes fed at once, a machine that
 * is too slow, now and then or always.
 *
 * usage: test_live [short]    short: without the long streams, for the sanitizers */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/live_kit.h"
#include "kit/pipeline_kit.h"

#include <math.h>

#include "base/mem.h"
#include "exec/program.h"
#include "pipeline/recognizer.h"

#define RATE MXW_SAMPLE_RATE

static mxw_model *english, *multilingual;

static mxw_model *open_model(const char *folder, const char *leaf, int n_vocab) {
    char path[4200];
    mxw_model *model = NULL;
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    gen_options o = {.dims = kit_dims(n_vocab, 16, 2, 1), .seed = 24, .dtype = MXW_F16};
    if (gen_pt(path, &o) != 0 || kit_open(path, 2, &model) < 0)
        printf("    %s: %s\n", leaf, mxw_last_error());
    if (model)
        model->open_detector = fake_detector_open;
    return model;
}

/* A stream's options and everything that they point to, with a machine of usual speed. */
typedef struct setup {
    mxw_session_options decoding;
    mxw_live_options options;
    live_clock clock;
    live_log log;
} setup;

static void begin(setup *s) {
    *s = (setup){.decoding = kit_short_options(10), .clock = {.pass_s = 0.04, .per_s = 0.01}, .log = {.keeps = 1}};
    /* random weights: every window may be called silent, or doubtful */
    s->decoding.no_speech_threshold = s->decoding.logprob_threshold = MXW_NONE;
    s->decoding.compression_ratio_threshold = MXW_NONE;
    mxw_live_options_default(&s->options);
    s->options.decoding = &s->decoding;
    s->options.keep_result = 1;
    live_clock_use(&s->clock, &s->options);
}

static int is_fine(const setup *s, const char *what) {
    int ok = CHECK(s->log.broken[0] == 0);
    if (!ok)
        printf("    %s: %s\n", what, s->log.broken);
    return ok;
}

/* A whole stream; the log is the caller's to free. */
static void run(setup *s, mxw_model *model, const live_turn *turns, size_t n, size_t packet, const char *what) {
    live_script script = {turns, n, 0, 5};
    live_source source = {live_script_sound, &script, live_script_samples(&script), packet};
    if (!CHECK_EQ_INT(live_replay(model, &s->options, &s->clock, &source, &s->log), MXW_END))
        printf("    %s: %s\n", what, mxw_last_error());
    is_fine(s, what);
    CHECK_EQ_INT(s->log.counts[MXW_LIVE_SPEECH_STARTED], s->log.counts[MXW_LIVE_SPEECH_STOPPED]);
    CHECK_EQ_INT(s->log.counts[MXW_LIVE_END], 1);
}

static int64_t count(const setup *s, mxw_live_event_kind kind) { return s->log.counts[kind]; }

/* Feeds [*at, until) of the script. */
static void feed(mxw_live *live, setup *s, live_script *script, int64_t *at, double until_s) {
    live_source source = {live_script_sound, script, llrint(until_s * RATE), 1600};
    CHECK_EQ_INT(live_feed(live, &s->clock, &source, *at, &s->log), MXW_MORE);
    *at = source.n;
}

static mxw_live *open_stream(setup *s, mxw_model *model) {
    mxw_live *live = NULL;
    if (!CHECK_EQ_INT(mxw_live_open(model, &s->options, &live), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return live;
}

/* Finishes it too, and checks what it said. */
static void close_stream(mxw_live *live, setup *s, const char *what) {
    CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
    CHECK_EQ_INT(live_take(live, &s->log), MXW_END);
    CHECK_EQ_INT(live_take(live, &s->log), MXW_END);
    CHECK_EQ_INT(count(s, MXW_LIVE_END), 1);
    is_fine(s, what);
    if (s->options.keep_result)
        CHECK_STR(mxw_live_result(live)->text, mx_str_get(&s->log.finals));
    mxw_live_close(live);
    live_log_free(&s->log);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static const live_turn talk[] = {{3, 1}, {13, 2}, {1, 0.3}, {2.1, 0}};

/* Every kind of stream: policies, guards, margins, searches, text before it; with as few tokens as there can be. */
static void test_grammar(int quick) {
    static const struct {
        const char *name;
        mxw_live_policy policy;
        mxw_guard guard;
        double margin_ms, cut_s, step_ms;
        int beam_size, sample_len, condition;
        double pad_ms;
    } cases[] = {{"agreement", MXW_LIVE_AGREEMENT, MXW_GUARD_OFF, 1000, 12, 250, 0, 10, 1, 400},
                 {"alignatt", MXW_LIVE_ALIGNATT, MXW_GUARD_OFF, 1000, 12, 500, 0, 10, 1, 400},
                 {"mark", MXW_LIVE_AGREEMENT, MXW_GUARD_MARK, 500, 5, 1000, 2, 10, 1, 400},
                 {"drop", MXW_LIVE_ALIGNATT, MXW_GUARD_DROP, 500, 5, 1000, 0, 10, 1, 400},
                 {"no margin, no pad", MXW_LIVE_ALIGNATT, MXW_GUARD_OFF, 0, 2, 330, 0, 20, 0, 0},
                 {"a token a pass", MXW_LIVE_AGREEMENT, MXW_GUARD_OFF, 0, 4, 500, 0, 1, 1, 400},
                 {"many tokens", MXW_LIVE_ALIGNATT, MXW_GUARD_OFF, 0, 25, 1000, 0, 224, 1, 400}};
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        setup s;
        if (quick && i > 4)
            continue;
        begin(&s);
        s.options.policy = cases[i].policy;
        s.options.margin_ms = cases[i].margin_ms;
        s.options.cut_s = cases[i].cut_s;
        s.options.step_ms = cases[i].step_ms;
        s.decoding.guard = cases[i].guard;
        s.decoding.beam_size = cases[i].beam_size;
        s.decoding.sample_len = cases[i].sample_len;
        s.decoding.condition_on_previous_text = cases[i].condition;
        s.decoding.initial_prompt = i % 2 ? "A talk about nothing." : NULL;
        s.decoding.vad_pad_ms = cases[i].pad_ms;
        run(&s, english, talk, MX_COUNT(talk), 1600, cases[i].name);
        CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), 3);
        CHECK(count(&s, MXW_LIVE_SLOWER) == 0 && count(&s, MXW_LIVE_GAP) == 0);
        if (cases[i].guard != MXW_GUARD_DROP)   /* random words are dropped */
            CHECK(count(&s, MXW_LIVE_FINAL) >= 5 && s.log.finals.n > 50);
        if (i == 0)
            CHECK(count(&s, MXW_LIVE_PARTIAL) >= 30);
        live_log_free(&s.log);
    }
}

/* Languages: asked for at the beginning, then the stream's; given; or one of several for each utterance. */
static void test_languages(void) {
    for (int i = 0; i < 3; i++) {
        setup s;
        const mxw_live_event *e;
        int64_t at = 0, n = 0;
        live_script script = {talk, 1, 0, 3};
        begin(&s);
        s.options.step_ms = 1000;
        s.decoding.language = i == 1 ? "de" : NULL;
        s.decoding.languages = i == 2 ? "de,uk" : NULL;
        mxw_live *live = open_stream(&s, multilingual);
        static float samples[4 * RATE];
        live_script_sound(&script, at, MX_COUNT(samples), samples);
        CHECK_EQ_INT(mxw_live_feed(live, samples, MX_COUNT(samples)), MXW_OK);
        CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
        for (; mxw_live_next(live, &e) == MXW_OK; n++) {
            if (e->kind != MXW_LIVE_FINAL)
                continue;
            CHECK(e->language && (i != 1 || !strcmp(e->language, "de")));
            CHECK(i != 2 || !strcmp(e->language, "de") || !strcmp(e->language, "uk"));
            CHECK(i == 1 ? e->language_probability < 0 : e->language_probability > 0 && e->language_probability <= 1);
        }
        CHECK(n >= 4);
        mxw_live_close(live);
        live_log_free(&s.log);
    }
}

/* ---- what it depends on ------------------------------------------------------------------------------------------ */

/* Promised: events follow from the samples, from where in them mxw_live_next was called, and from the clock. So they
 * are the same in every replay and for every split into calls of feed, and where speech begins and ends is the same for
 * every size of packets. Text is not: a pass hears what was fed when it began. */
static void test_determinism(void) {
    static const size_t pieces[] = {1600, 1600, 1, 77, 511};
    live_script script = {talk, 1, 0, 9};
    mx_str first = {0};
    for (size_t i = 0; i < MX_COUNT(pieces); i++) {
        setup s;
        float samples[1600];
        begin(&s);
        mxw_live *live = open_stream(&s, english);
        for (int64_t at = 0; at < 4 * RATE; at += 1600) {
            live_script_sound(&script, at, 1600, samples);
            for (size_t k = 0; k < 1600; k += pieces[i])
                CHECK_EQ_INT(mxw_live_feed(live, samples + k, MX_MIN(pieces[i], 1600 - k)), MXW_OK);
            CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
        }
        if (i == 0)
            mx_str_text(&first, mx_str_get(&s.log.lines));
        CHECK_STR(mx_str_get(&s.log.lines), mx_str_get(&first));
        close_stream(live, &s, "determinism");
    }
    CHECK(first.n > 500 && strstr(mx_str_get(&first), "\nfinal 0") != NULL);
    mx_str_free(&first);
}

static void keep_bounds(const char *lines, mx_str *out) {
    for (const char *line = lines; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, "speech_", 7) == 0)
            mx_str_add(out, line, (size_t)(strstr(line, " heard") - line));
}

static void test_packets(void) {
    static const size_t packets[] = {1600, 320, 1, 7777, 16000};
    static const live_turn turns[] = {{1.5, 1}, {1.3, 2}};
    mx_str first = {0};
    for (size_t i = 0; i < MX_COUNT(packets); i++) {
        setup s;
        mx_str bounds = {0};
        begin(&s);
        s.options.step_ms = 5000;
        run(&s, english, turns, 2, packets[i], "packets");
        keep_bounds(mx_str_get(&s.log.lines), i == 0 ? &first : &bounds);
        if (i > 0)
            CHECK_STR(mx_str_get(&bounds), mx_str_get(&first));
        mx_str_free(&bounds);
        live_log_free(&s.log);
    }
    CHECK(strstr(mx_str_get(&first), "speech_stopped 1 2.5") != NULL);
    mx_str_free(&first);
}

/* ---- flush, gaps, pauses ----------------------------------------------------------------------------------------- */

static void test_flush(void) {
    static const live_turn turns[] = {{6, 2}};
    live_script script = {turns, 1, 0, 2};
    setup s;
    int64_t at = 0;
    begin(&s);
    mxw_live *live = open_stream(&s, english);
    CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);   /* nothing to flush */
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK_EQ_INT(s.log.lines.n, 0);
    for (int i = 0; i < 3; i++) {   /* at 1.507 s, in the middle of a chunk, 3.01 and 4.52 s */
        feed(live, &s, &script, &at, 1.507 * (i + 1));
        CHECK(s.log.inside);
        CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);
        CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);
        CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
        CHECK(!s.log.inside && count(&s, MXW_LIVE_SPEECH_STOPPED) == i + 1);
        CHECK(count(&s, MXW_LIVE_FINAL) >= i + 1);
        CHECK(fabs(s.log.started_s - (double)at / RATE) < 1e-9);   /* where its speech ended */
    }
    feed(live, &s, &script, &at, 6.3);
    CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);   /* a pause has begun, but was too short so far */
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), 4);
    CHECK(s.log.started_s > 5.9 && s.log.started_s < 6.1);
    feed(live, &s, &script, &at, 8);
    close_stream(live, &s, "flush");
}

static void test_gap(void) {
    static const live_turn turns[] = {{2, 1}, {2, 1}, {2, 1}};
    live_script script = {turns, 3, 0, 2};
    setup s;
    int64_t at = 0;
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    begin(&s);
    mxw_live *live = open_stream(&s, english);
    feed(live, &s, &script, &at, 1.503);   /* somebody speaks: that utterance ends */
    CHECK_EQ_INT(mxw_live_gap(live, 100), MXW_OK);
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK(!s.log.inside && count(&s, MXW_LIVE_SPEECH_STOPPED) == 1 && count(&s, MXW_LIVE_GAP) == 1);
    CHECK(strstr(mx_str_get(&s.log.lines), "\ngap 1 1.50 101.50 ") != NULL);
    feed(live, &s, &script, &at, 3.01);   /* half a second of speech more; its first words are after the gap */
    CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), 2);
    CHECK_EQ_INT(mxw_live_gap(live, 10), MXW_OK);   /* nobody speaks; speech comes so soon that it would be padded */
    feed(live, &s, &script, &at, 5.9);
    CHECK(strstr(mx_str_get(&s.log.lines), "\nspeech_started 2 113.01 ") != NULL);
    CHECK_EQ_INT(mxw_live_gap(live, 0), MXW_OK);
    CHECK_EQ_INT(mxw_live_gap(live, 5), MXW_OK);
    feed(live, &s, &script, &at, 9);
    CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
    CHECK(stats.n_utterances == 4 && fabs(stats.fed_s - 9) < 1e-9 && stats.speech_s > 5.5 && stats.speech_s < 6.5);
    CHECK(fabs(s.log.heard_s - 124) < 1.1);
    close_stream(live, &s, "gap");
}

/* The end of speech is told before the last words are looked for, at a pause, a flush and the end; and how long nobody
 * has spoken is known. */
static void test_announced_end(void) {
    static const live_turn turns[] = {{2, 1}, {2, 0.3}, {1, 0}};
    live_script script = {turns, 3, 0, 2};
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    setup s;
    int64_t at = 0;
    begin(&s);
    s.options.announce_end = s.log.announces_end = 1;
    mxw_live *live = open_stream(&s, english);
    feed(live, &s, &script, &at, 2.4);
    CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
    CHECK(s.log.inside && stats.silence_s > 0.3 && stats.silence_s < 0.45);
    feed(live, &s, &script, &at, 3);
    CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
    CHECK(!s.log.inside && stats.silence_s == 0);
    const char *ended = strstr(mx_str_get(&s.log.lines), "\nspeech_ended 0 ");
    CHECK(ended && strstr(ended, "\nspeech_stopped 0 ") && strstr(ended, "\nfinal 0 "));
    feed(live, &s, &script, &at, 4);
    CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_ENDED), 2);
    feed(live, &s, &script, &at, 6.3);
    close_stream(live, &s, "announced end");
}

/* Audio before the speech can be chosen apart from what follows it: that it is heard shows in what the model says. */
static void test_start_pad(void) {
    static const live_turn turns[] = {{0, 1}, {2, 1}};
    static const double pads[] = {MXW_NONE, 400, 0, 900};
    mx_str first = {0};
    for (size_t i = 0; i < MX_COUNT(pads); i++) {
        setup s;
        begin(&s);
        s.options.start_pad_ms = pads[i];
        run(&s, english, turns, 2, 1600, "start pad");
        if (i == 0)
            mx_str_text(&first, mx_str_get(&s.log.lines));
        CHECK_EQ_INT(strcmp(mx_str_get(&s.log.lines), mx_str_get(&first)) == 0, i < 2);
        live_log_free(&s.log);
    }
    mx_str_free(&first);
}

/* A pause ends an utterance from 0.5 s on; however long it is, the model has nothing to do in it. */
static void test_pauses(void) {
    static const double pauses[] = {0.1, 0.2, 0.3, 0.44, 0.56, 0.8, 1.5, 5, 60};
    int64_t passes = 0;
    for (size_t i = 0; i < MX_COUNT(pauses); i++) {
        const live_turn turns[] = {{1.6, pauses[i]}, {1.6, 0.3}};   /* not broken off, which may need a pass more */
        setup s;
        begin(&s);
        run(&s, english, turns, 2, 800, "pauses");
        CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), pauses[i] < 0.5 ? 1 : 2);
        CHECK(s.log.stop_delay_s < 0.8);
        if (pauses[i] == 1.5)
            passes = s.clock.n_passes;
        else if (pauses[i] > 1.5)
            CHECK_EQ_INT(s.clock.n_passes, passes);
        live_log_free(&s.log);
    }
    CHECK(passes > 4);
}

/* Nothing is heard twice, and nothing ends, while nothing comes. */
static void test_stall(void) {
    static const live_turn turns[] = {{3, 1}};
    live_script script = {turns, 1, 0, 2};
    setup s;
    int64_t at = 0;
    begin(&s);
    mxw_live *live = open_stream(&s, english);
    feed(live, &s, &script, &at, 1.7);
    int64_t passes = s.clock.n_passes;
    size_t n = s.log.lines.n;
    for (int i = 0; i < 10; i++) {
        s.clock.now_s += 60;
        CHECK_EQ_INT(mxw_live_feed(live, NULL, 0), MXW_OK);
        CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    }
    CHECK(s.clock.n_passes == passes && s.log.lines.n == n && s.log.inside);
    feed(live, &s, &script, &at, 4);
    CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), 1);
    close_stream(live, &s, "stall");
}

/* Speech that is doubtful for longer than samples are kept, and then certain. */
static void test_doubtful(void) {
    static float p[4000];
    fake_detector_options fake = {.probabilities = p, .n = MX_COUNT(p)};
    static const live_turn turns[] = {{80, 1}};
    setup s;
    for (size_t i = 0; i < MX_COUNT(p); i++)
        p[i] = i == 5 ? 0.6f : i < 2400 ? 0.4f : i < 2450 ? 0.9f : 0.1f;
    begin(&s);
    english->detector_context = &fake;
    run(&s, english, turns, 1, 1600, "doubtful");
    CHECK_EQ_INT(count(&s, MXW_LIVE_SPEECH_STOPPED), 1);
    CHECK(count(&s, MXW_LIVE_FINAL) > 0);
    CHECK(!strstr(mx_str_get(&s.log.lines), "speech_started 0 0.1"));   /* that is no longer there */
    live_log_free(&s.log);
    english->detector_context = NULL;
}

/* ---- much -------------------------------------------------------------------------------------------------------- */

/* 95 s without a pause: text becomes final all the time, in the memory of a window. (Besides, there is what runs of the
 * model keep for a few numbers of tokens; test_live_hours.c has a stream that is long enough for a close look.) */
static void test_long_utterance(mxw_live_policy policy, double margin_ms) {
    static const live_turn turns[] = {{95, 1}};
    live_script script = {turns, 1, 0, 4};
    setup s;
    int64_t at = 0, blocks = 0;
    begin(&s);
    s.options.keep_result = 0;
    s.options.policy = policy;
    s.options.margin_ms = margin_ms;
    s.options.step_ms = 2000;
    mxw_live *live = open_stream(&s, english);
    for (int second = 5; second <= 95; second += 5) {
        int64_t finals = count(&s, MXW_LIVE_FINAL);
        feed(live, &s, &script, &at, second);
        if (margin_ms < 2000 && second % 30 == 0)
            CHECK(s.log.final_end_s > second - 30 && (second == 30 || finals > 0));
        if (second == 35)
            blocks = mx_mem_live();
        if (!CHECK(second <= 35 || mx_mem_live() <= blocks + 2 * MX_INSTANCES))
            printf("    %lld blocks after %d s, %lld after 35\n", (long long)mx_mem_live(), second, (long long)blocks);
    }
    CHECK(s.log.inside && count(&s, MXW_LIVE_FINAL) >= 3);   /* without agreement: as often as a window is full */
    CHECK(mxw_live_result(live) == NULL);
    close_stream(live, &s, "long utterance");
}

/* Ten minutes in one call: heard window by window, in the memory of one minute. */
static void test_huge_feed(void) {
    static const live_turn turns[] = {{70, 0.8}, {4, 1}, {20, 0.2}, {9, 12}, {1, 0.6}};
    live_script script = {turns, MX_COUNT(turns), 1, 4};
    size_t n = 600 * RATE;
    setup s;
    float *samples = mx_alloc_array(n, sizeof(*samples));
    if (!CHECK(samples != NULL))
        return;
    live_script_sound(&script, 0, n, samples);
    begin(&s);
    s.decoding.sample_len = 6;
    mxw_live *live = open_stream(&s, english);
    CHECK_EQ_INT(mxw_live_feed(live, samples, n), MXW_OK);
    mx_free(samples);
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK(count(&s, MXW_LIVE_SPEECH_STOPPED) >= 19 && count(&s, MXW_LIVE_FINAL) >= 19);
    close_stream(live, &s, "huge feed");
}

/* Many short utterances at once: more than may wait. */
static void test_many_utterances(void) {
    static const live_turn turns[] = {{0.16, 0.6}};
    live_script script = {turns, 1, 1, 4};
    size_t n = 100 * RATE;
    setup s;
    float *samples = mx_alloc_array(n, sizeof(*samples));
    if (!CHECK(samples != NULL))
        return;
    live_script_sound(&script, 0, n, samples);
    begin(&s);
    s.decoding.sample_len = 4;
    mxw_live *live = open_stream(&s, english);
    CHECK_EQ_INT(mxw_live_feed(live, samples, n), MXW_OK);
    mx_free(samples);
    CHECK_EQ_INT(live_take(live, &s.log), MXW_MORE);
    CHECK(count(&s, MXW_LIVE_SPEECH_STOPPED) >= 130);
    close_stream(live, &s, "many utterances");
}

/* A pass takes longer than a step: text comes less often, which is said, and what is spoken is heard in time. Nothing
 * may be heard later than 3 s after it was spoken, or, if two passes take longer than that, than they do. */
static void test_slow(void) {
    static const double costs[] = {0.2, 0.6, 1.4, 2, 5};
    static const live_turn turns[] = {{40, 1}};
    for (size_t i = 0; i < MX_COUNT(costs); i++) {
        setup s;
        begin(&s);
        s.clock.pass_s = costs[i];
        s.clock.per_s = 0;
        run(&s, english, turns, 1, 320, "slow");
        double most = MX_MAX(3, 2 * costs[i]) + 0.05;
        if (!CHECK(s.clock.oldest_s <= most && s.log.stop_delay_s <= MX_MAX(1, 3 * costs[i]) + 0.55))
            printf("    a pass of %.1f s: heard after %.2f s, stopped after %.2f s\n", costs[i], s.clock.oldest_s,
                   s.log.stop_delay_s);
        CHECK_EQ_INT(count(&s, MXW_LIVE_SLOWER), costs[i] > 0.25);
        CHECK(s.log.step_s <= MX_MAX(3, costs[i]) + 0.01);
        CHECK(s.clock.n_passes <= 41 / costs[i] + 3);
        live_log_free(&s.log);
    }
}

/* A machine that was busy for a while says so each time, and not for its first pass alone, however long that takes. */
static void test_busy_again(void) {
    static const live_turn turns[] = {{100, 1}};
    static const double costs[] = {3, 0.04, 0.3, 0.04, 0.3, 0.04};
    static const double until_s[] = {0.65, 10, 35, 60, 85, 100};
    static const int64_t told[] = {0, 0, 1, 1, 2, 2};
    live_script script = {turns, 1, 0, 4};
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    setup s;
    int64_t at = 0;
    begin(&s);
    s.clock.per_s = 0;
    s.options.step_ms = 250;   /* that it has caught up shows in a step which a slow pass would make longer */
    mxw_live *live = open_stream(&s, english);
    for (size_t i = 0; i < MX_COUNT(costs); i++) {
        s.clock.pass_s = costs[i];
        feed(live, &s, &script, &at, until_s[i]);
        if (i == 0)
            CHECK_EQ_INT(s.clock.n_passes, 1);
        CHECK_EQ_INT(count(&s, MXW_LIVE_SLOWER), told[i]);
        CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
        if (costs[i] < 0.1)
            CHECK(stats.step_s < 0.3);
    }
    close_stream(live, &s, "busy again");
}

/* A step that was asked for is no sign of a slow machine, and is kept; one that the machine needs is. */
static void test_long_steps(void) {
    static const live_turn turns[] = {{41, 1}};
    static const struct {
        double step_ms, pass_s, least_s, most_s;
        int64_t told;
    } cases[] = {{1600, 0, 1.6, 1.6, 0},  {1600, 0.3, 1.79, 1.81, 1}, {5000, 0, 5, 5, 0},
                 {5000, 1, 5, 5, 0},      {10000, 0.1, 10, 10, 0},    {5000, 7, 6.99, 7.01, 1}};
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        live_script script = {turns, 1, 0, 4};
        mxw_live_stats stats = {.struct_size = sizeof(stats)};
        setup s;
        int64_t at = 0;
        begin(&s);
        s.clock.per_s = 0;
        s.clock.pass_s = cases[i].pass_s;
        s.options.step_ms = cases[i].step_ms;
        mxw_live *live = open_stream(&s, english);
        feed(live, &s, &script, &at, 41);
        CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
        CHECK_EQ_INT(count(&s, MXW_LIVE_SLOWER), cases[i].told);
        if (!CHECK(stats.step_s >= cases[i].least_s && stats.step_s <= cases[i].most_s &&
                   s.clock.n_passes <= 41 / cases[i].least_s + 2))
            printf("    step_ms %g, a pass of %g s: a step of %g s, %lld passes\n", cases[i].step_ms, cases[i].pass_s,
                   stats.step_s, (long long)s.clock.n_passes);
        close_stream(live, &s, "long steps");
    }
}

int main(int argc, char **argv) {
    char folder[4096];
    int quick = argc > 1 && strcmp(argv[1], "short") == 0;
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("live", "max cpu");
    english = open_model(folder, "english.pt", 51864);
    multilingual = open_model(folder, "multilingual.pt", 51865);
    if (CHECK(english && multilingual)) {
        test_grammar(quick);
        test_languages();
        test_determinism();
        test_packets();
        test_flush();
        test_gap();
        test_announced_end();
        test_start_pad();
        test_pauses();
        test_stall();
        test_doubtful();
        if (!quick) {
            test_long_utterance(MXW_LIVE_AGREEMENT, 1000);
            test_long_utterance(MXW_LIVE_ALIGNATT, 1000);
            test_long_utterance(MXW_LIVE_AGREEMENT, 10000);
            test_huge_feed();
            test_many_utterances();
            test_slow();
            test_busy_again();
            test_long_steps();
        }
    }
    mxw_model_close(english);
    mxw_model_close(multilingual);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
