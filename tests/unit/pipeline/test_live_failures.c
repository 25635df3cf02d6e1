/* test_live_failures.c - live streams that cannot go on, calls that are refused: each bad option with its line, calls
 * in the wrong order, streams without speech, a detector that fails, every allocation of a short stream made to fail
 * in turn: always an error line, never a crash, never a leak, never a stream that goes on as if nothing had been.
 *
 * usage: test_live_failures [full]    one allocation in five; full: every one */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/live_kit.h"
#include "kit/pipeline_kit.h"

#include <math.h>

#include "base/mem.h"
#include "pipeline/recognizer.h"

#define RATE MXW_SAMPLE_RATE

static mxw_model *model;
static float speech[2 * RATE];   /* 1.2 s of it, then silence */

static mxw_session_options decoding(void) {
    mxw_session_options o = kit_short_options(4);
    o.no_speech_threshold = o.logprob_threshold = o.compression_ratio_threshold = MXW_NONE;
    return o;
}

static mxw_live *open_stream(const mxw_live_options *options) {
    mxw_live *live = NULL;
    if (!CHECK_EQ_INT(mxw_live_open(model, options, &live), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return live;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void refuse(const mxw_live_options *options, const char *line) {
    mxw_live *live = (mxw_live *)&live;
    CHECK_EQ_INT(mxw_live_open(model, options, &live), MXW_E_ARGUMENT);
    CHECK(live == NULL);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL))
        printf("    '%s' has no '%s'\n", mxw_last_error(), line);
}

static void test_options(void) {
    mxw_live_options good;
    mxw_live_options_default(&good);
    CHECK_EQ_INT(good.struct_size, sizeof(good));
    CHECK(good.policy == MXW_LIVE_AGREEMENT && good.pause_ms == 500 && !good.decoding && !good.now);
    const struct {
        size_t offset;
        double low, high;
        const char *name;
    } numbers[] = {{offsetof(mxw_live_options, pause_ms), 100, 10000, "pause_ms"},
                   {offsetof(mxw_live_options, step_ms), 20, 10000, "step_ms"},
                   {offsetof(mxw_live_options, margin_ms), 0, 10000, "margin_ms"},
                   {offsetof(mxw_live_options, cut_s), 2, 25, "cut_s"}};
    for (size_t i = 0; i < MX_COUNT(numbers); i++) {
        const double bad[] = {numbers[i].low - 0.001, numbers[i].high + 0.001, (double)NAN, (double)INFINITY};
        for (size_t k = 0; k < MX_COUNT(bad); k++) {
            mxw_live_options o = good;
            *(double *)(void *)((char *)&o + numbers[i].offset) = bad[k];
            refuse(&o, numbers[i].name);
        }
        for (int k = 0; k < 2; k++) {
            mxw_live_options o = good;
            *(double *)(void *)((char *)&o + numbers[i].offset) = k ? numbers[i].high : numbers[i].low;
            mxw_live_close(open_stream(&o));
        }
    }
    mxw_live_options o = good;
    o.policy = (mxw_live_policy)2;
    refuse(&o, "policy");
    o = good;
    o.keep_result = 2;
    refuse(&o, "keep_result");
    o = good;
    o.struct_size = 0;
    refuse(&o, "mxw_live_options");
}

static void on_window(void *user, const void *record, size_t n) {
    (void)user;
    (void)record;
    (void)n;
}

static void on_progress(void *user, const mxw_progress *progress) {
    (void)user;
    (void)progress;
}

static void on_segment(void *user, const mxw_segment *segment) {
    (void)user;
    (void)segment;
}

/* What has no meaning in a stream, or no sense. */
static void test_decoding_options(void) {
    static const char *const names[] = {"clip_timestamps", "parallel", "on_window", "token_details", "prefix",
                                        "carry_initial_prompt", "hallucination_silence_threshold", "start_s",
                                        "vad_pad_ms", "temperature", "beam_size", "language", "on_progress",
                                        "on_segment", "mel_reference", "max_initial_timestamp", "vad_min_silence_ms",
                                        "vad_min_speech_ms", "vad_max_speech_s", "vad_threshold"};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        mxw_session_options d = decoding();
        mxw_live_options o;
        mxw_live_options_default(&o);
        o.decoding = &d;
        switch (i) {
        case 0: d.clip_timestamps = "1,2"; break;
        case 1: d.vad = 1, d.parallel = 2; break;
        case 2: d.on_window = on_window; break;
        case 3: d.token_details = 1; break;
        case 4: d.prefix = "So"; break;
        case 5: d.initial_prompt = "So", d.carry_initial_prompt = 1; break;
        case 6: d.word_timestamps = 1, d.hallucination_silence_threshold = 2; break;
        case 7: d.start_s = 1; break;
        case 8: d.vad_pad_ms = 5001; break;
        case 9: d.temperature = -1; break;
        case 10: d.beam_size = -1; break;
        case 11: d.language = "xx"; break;
        case 12: d.on_progress = on_progress; break;
        case 13: d.on_segment = on_segment; break;
        case 14: d.mel_reference = MXW_MEL_RUNNING; break;
        case 15: d.max_initial_timestamp = 0; break;
        case 16: d.vad_min_silence_ms = 300; break;
        case 17: d.vad_min_speech_ms = 300; break;
        case 18: d.vad_max_speech_s = 10; break;
        default: d.vad_threshold = 2; break;
        }
        refuse(&o, names[i]);
    }
    mxw_session_options d = decoding();   /* what a stream does anyway may be asked for */
    mxw_live_options o;
    mxw_live_options_default(&o);
    o.decoding = &d;
    d.vad = d.word_timestamps = d.without_timestamps = 1;
    d.vad_pad_ms = 5000;
    d.clip_timestamps = "0";
    mxw_live_close(open_stream(&o));
    mxw_live_close(open_stream(NULL));
    mxw_live_decoding_default(&d);
    CHECK(d.guard == MXW_GUARD_DROP && d.temperature_increment == MXW_NONE && !d.condition_on_previous_text);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void test_arguments(void) {
    const mxw_live_event *e;
    mxw_live *live = NULL;
    mxw_live_stats stats = {.struct_size = 0};
    float bad[] = {0, NAN};
    CHECK_EQ_INT(mxw_live_open(NULL, NULL, &live), MXW_E_ARGUMENT);
    live = open_stream(NULL);
    CHECK_EQ_INT(mxw_live_open(model, NULL, NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_feed(NULL, bad, 1), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_feed(live, NULL, 1), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_feed(live, bad, 2), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_next(live, NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_next(NULL, &e), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_flush(NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_finish(NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_gap(live, -0.5), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_gap(live, (double)NAN), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_gap(NULL, 1), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_E_ARGUMENT);
    CHECK(mxw_live_result(NULL) == NULL && mxw_live_result(live) == NULL && mxw_live_event_word(NULL, 0) == NULL);
    /* none of that ends the stream */
    CHECK_EQ_INT(mxw_live_feed(live, bad, 1), MXW_OK);
    CHECK_EQ_INT(mxw_live_next(live, &e), MXW_MORE);
    mxw_live_close(live);
    mxw_live_close(NULL);
}

/* Without samples, without a single chunk, and without speech: the end, and nothing else. */
static void test_nothing(void) {
    static const float zeros[40 * RATE];
    static const size_t counts[] = {0, 1, 100, MX_COUNT(zeros)};
    for (size_t i = 0; i < MX_COUNT(counts); i++) {
        mxw_live_options o;
        live_clock clock = {.pass_s = 1};
        live_log log = {.keeps = 1};
        mxw_live_stats stats = {.struct_size = sizeof(stats)};
        mxw_live_options_default(&o);
        o.keep_result = 1;
        live_clock_use(&clock, &o);
        mxw_live *live = open_stream(&o);
        CHECK_EQ_INT(mxw_live_feed(live, zeros, counts[i]), MXW_OK);
        CHECK_EQ_INT(live_take(live, &log), MXW_MORE);
        CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
        CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
        CHECK_EQ_INT(live_take(live, &log), MXW_END);
        CHECK_EQ_INT(live_take(live, &log), MXW_END);
        CHECK(strncmp(mx_str_get(&log.lines), "end 0 ", 6) == 0 && !strchr(mx_str_get(&log.lines), '\n')[1]);
        CHECK_STR(log.broken, "");
        CHECK_EQ_INT(clock.n_passes, 0);
        CHECK_EQ_INT(mxw_live_feed(live, zeros, 1), MXW_E_STATE);
        CHECK(strstr(mxw_last_error(), "finish") != NULL);
        CHECK_EQ_INT(mxw_live_gap(live, 1), MXW_E_STATE);
        CHECK_EQ_INT(mxw_live_flush(live), MXW_OK);
        CHECK_EQ_INT(live_take(live, &log), MXW_END);
        CHECK_STR(mxw_live_result(live)->text, "");
        CHECK(mxw_live_result(live)->n_segments == 0);
        CHECK_EQ_INT(mxw_live_get_stats(live, &stats), MXW_OK);
        CHECK(fabs(stats.fed_s - (double)counts[i] / RATE) < 1e-9 && stats.n_utterances == 0 && stats.level == 0);
        mxw_live_close(live);
        live_log_free(&log);
    }
}

/* Speech so short that the pause would have made it nothing still counts at the end. */
static void test_last_chunk(void) {
    mxw_session_options d = decoding();
    mxw_live_options o;
    live_clock clock = {.pass_s = 0.1};
    live_log log = {.keeps = 1};
    static float samples[RATE + 600];
    memcpy(samples + RATE, speech, 600 * sizeof(float));
    mxw_live_options_default(&o);
    o.decoding = &d;
    live_clock_use(&clock, &o);
    mxw_live *live = open_stream(&o);
    CHECK_EQ_INT(mxw_live_feed(live, samples, MX_COUNT(samples)), MXW_OK);
    CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
    CHECK_EQ_INT(live_take(live, &log), MXW_END);
    CHECK_EQ_INT(log.counts[MXW_LIVE_SPEECH_STOPPED], 1);
    CHECK_EQ_INT(clock.n_passes, 1);
    CHECK(log.counts[MXW_LIVE_FINAL] == 1);
    CHECK_STR(log.broken, "");
    mxw_live_close(live);
    live_log_free(&log);
}

/* ---- what fails inside ------------------------------------------------------------------------------------------- */

/* A stream that failed gives what was ready before that: so many finals. Then it says so at every call, with the same
 * line. */
static void check_dead(mxw_live *live, const char *line, int64_t n_finals) {
    const mxw_live_event *e = NULL;
    live_log log = {.keeps = 1};
    CHECK_EQ_INT(live_take(live, &log), MXW_E_INTERNAL);
    CHECK_STR(log.broken, "");
    CHECK(!log.ended && log.counts[MXW_LIVE_FINAL] == n_finals);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ_INT(mxw_live_next(live, &e), MXW_E_INTERNAL);
        CHECK(e == NULL && strstr(mxw_last_error(), line) != NULL);
        CHECK_EQ_INT(mxw_live_feed(live, speech, 10), MXW_E_INTERNAL);
        CHECK_EQ_INT(mxw_live_flush(live), MXW_E_INTERNAL);
        CHECK_EQ_INT(mxw_live_gap(live, 1), MXW_E_INTERNAL);
        CHECK_EQ_INT(mxw_live_finish(live), MXW_E_INTERNAL);
        CHECK(strstr(mxw_last_error(), line) != NULL);
    }
    mxw_live_close(live);
    live_log_free(&log);
}

static void test_detector(void) {
    mxw_session_options d = decoding();
    mxw_live_options o;
    mxw_live *live = NULL;
    fake_detector_options fake = {.fail_open = 1};
    mxw_live_options_default(&o);
    o.decoding = &d;
    o.keep_result = 1;
    model->detector_context = &fake;
    CHECK_EQ_INT(mxw_live_open(model, &o, &live), MXW_E_NOT_FOUND);
    CHECK(live == NULL);
    fake = (fake_detector_options){.fail_after = RATE};
    live = open_stream(&o);
    CHECK_EQ_INT(mxw_live_feed(live, speech, MX_COUNT(speech)), MXW_E_INTERNAL);
    check_dead(live, "failed at sample 16000", 0);
    fake = (fake_detector_options){.fail_after = 2 * RATE};
    live = open_stream(&o);
    CHECK_EQ_INT(mxw_live_feed(live, speech, MX_COUNT(speech)), MXW_OK);
    CHECK_EQ_INT(mxw_live_gap(live, 1), MXW_OK);   /* the model hears what was fed: its text waits */
    CHECK_EQ_INT(mxw_live_feed(live, speech, MX_COUNT(speech)), MXW_E_INTERNAL);
    check_dead(live, "failed at sample 32000", 1);
    fake = (fake_detector_options){.fail_finish = 1};
    live = open_stream(&o);
    CHECK_EQ_INT(mxw_live_feed(live, speech, MX_COUNT(speech)), MXW_OK);
    CHECK_EQ_INT(mxw_live_finish(live), MXW_E_INTERNAL);
    check_dead(live, "failed at the end", 0);
    model->detector_context = NULL;
}

static int never(void *user) { return ++*(int *)user > 2; }

static void test_abort(void) {
    int asked = 0;
    const mxw_live_event *e;
    mxw_status status;
    mxw_session_options d = decoding();
    mxw_live_options o;
    mxw_live_options_default(&o);
    o.decoding = &d;
    d.user = &asked;
    d.should_abort = never;
    mxw_live *live = open_stream(&o);
    CHECK_EQ_INT(mxw_live_feed(live, speech, MX_COUNT(speech)), MXW_OK);
    while ((status = mxw_live_next(live, &e)) == MXW_OK)
        ;
    CHECK_EQ_INT(status, MXW_E_ABORTED);
    mxw_live_close(live);
}

/* From open to the last event, with all that allocates: guard, beams, a result. */
static char kept[4096];   /* the finals' text */

static mxw_status run_short(void) {
    mxw_status status;
    mxw_live *live = NULL;
    const mxw_live_event *e;
    mxw_session_options d = decoding();
    mxw_live_options o;
    live_clock clock = {.pass_s = 0.1};
    mxw_live_options_default(&o);
    d.guard = MXW_GUARD_MARK;
    d.beam_size = 2;
    d.initial_prompt = "short";
    d.speaker = "A";
    o.decoding = &d;
    o.keep_result = 1;
    o.step_ms = 400;
    o.margin_ms = 100;
    live_clock_use(&clock, &o);
    kept[0] = 0;
    MX_TRY(mxw_live_open(model, &o, &live));
    for (size_t at = 0; at < MX_COUNT(speech); at += 3200) {
        MX_TRY(mxw_live_feed(live, speech + at, 3200));
        while ((status = mxw_live_next(live, &e)) == MXW_OK)
            if (e->kind == MXW_LIVE_FINAL && strlen(kept) + strlen(e->text) < sizeof(kept))
                strcat(kept, e->text);
        MX_TRY(status);
    }
    MX_TRY(mxw_live_gap(live, 3));
    MX_TRY(mxw_live_finish(live));
    while ((status = mxw_live_next(live, &e)) == MXW_OK)
        ;
    MX_TRY(status);
    const mxw_result *result = mxw_live_result(live);
    if (!result || strcmp(result->text, kept) != 0)
        status = mx_fail(MXW_E_INTERNAL, "the result is '%s', the finals '%s'", result ? result->text : "none", kept);
out:
    mxw_live_close(live);
    return status;
}

static void test_memory(int64_t stride) {
    static char want[sizeof(kept)];
    if (!CHECK_EQ_INT(run_short(), MXW_END))   /* opens what is opened once per process */
        printf("    %s\n", mxw_last_error());
    memcpy(want, kept, sizeof(want));
    CHECK(strlen(want) > 10);
    int64_t live = mx_mem_live();
    mx_mem_fail_after(-1);
    CHECK_EQ_INT(run_short(), MXW_END);
    int64_t total = mx_mem_count();
    CHECK(total > 100);
    CHECK_EQ_INT(mx_mem_live(), live);
    for (int64_t n = 0; n < total; n += stride) {
        mx_fail(MXW_OK, "%s", "");
        mx_mem_fail_after(n);
        mxw_status status = run_short();
        int64_t made = mx_mem_count(), left = mx_mem_live() - live;
        mx_mem_fail_after(-1);
        if (!CHECK(made > n && left <= 0 && status == MXW_E_MEMORY && strstr(mxw_last_error(), "memory")))
            printf("    allocation %lld: %s, %lld blocks left, \"%s\"\n", (long long)n, mxw_status_name(status),
                   (long long)left, mxw_last_error());
    }
    CHECK_EQ_INT(run_short(), MXW_END);
    CHECK_STR(kept, want);
    printf("%lld allocations, every %lld made to fail\n", (long long)total, (long long)stride);
}

int main(int argc, char **argv) {
    char folder[4096], path[4200];
    static const live_turn turns[] = {{1.2, 0.8}};
    live_script script = {turns, 1, 0, 5};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("live-failures", "max cpu");
    live_script_sound(&script, 0, MX_COUNT(speech), speech);
    snprintf(path, sizeof(path), "%s/small.pt", folder);
    gen_options o = {.dims = kit_dims(51864, 16, 2, 1), .seed = 24, .dtype = MXW_F16};
    if (CHECK(gen_pt(path, &o) == 0) && CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK)) {
        model->open_detector = fake_detector_open;
        test_options();
        test_decoding_options();
        test_arguments();
        test_nothing();
        test_last_chunk();
        test_detector();
        test_abort();
        test_memory(argc > 1 && strcmp(argv[1], "full") == 0 ? 1 : 5);
        mxw_model_close(model);
    }
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
