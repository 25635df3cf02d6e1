/* test_live_hours.c - live streams that go on for hours, and streams that end anywhere, on a small generated model in
 * virtual time. Hours: neither memory nor delay grows. Ends: whatever the last sample is, what was spoken up to it has
 * been heard by the model before the stream ends.
 *
 * usage: test_live_hours HOURS ENDS */
#include "kit/check.h"
#include "kit/fake_detector.h"
#include "kit/live_kit.h"
#include "kit/pipeline_kit.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "exec/program.h"
#include "pipeline/recognizer.h"

#define RATE MXW_SAMPLE_RATE
#define MOST_GROWTH (512 << 10)   /* bytes: what runs of the model keep comes and goes by half of that */

static mxw_model *model;

static mxw_session_options decoding(void) {
    mxw_session_options o = kit_short_options(4);
    o.no_speech_threshold = o.logprob_threshold = o.compression_ratio_threshold = MXW_NONE;
    return o;
}

/* ---- hours ------------------------------------------------------------------------------------------------------- */

/* Talk, an answer, a long speech, a minute of silence: 3 minutes, again and again. */
static const live_turn day[] = {{4, 0.8}, {0.9, 1.5}, {45, 1}, {2, 0.3}, {12, 7}, {30, 60}, {0.4, 15}};

static void test_hours(double hours) {
    mxw_session_options o = decoding();
    mxw_live_options options;
    live_clock clock = {.pass_s = 0.04, .per_s = 0.01};
    live_log log = {0};
    live_script script = {day, MX_COUNT(day), 1, 7};
    live_source source = {live_script_sound, &script, 0, 1600, .on_time = 1};
    mxw_live *live = NULL;
    int64_t at = 0, blocks = 0, bytes = 0;
    double delay_s = 0;
    mxw_live_options_default(&options);
    options.decoding = &o;
    options.step_ms = 1400;
    live_clock_use(&clock, &options);
    if (!CHECK_EQ_INT(mxw_live_open(model, &options, &live), MXW_OK))
        return;
    for (int minute = 6; minute <= (int)(60 * hours); minute += 6) {
        source.n = (int64_t)minute * 60 * RATE;
        CHECK_EQ_INT(live_feed(live, &clock, &source, at, &log), MXW_MORE);
        at = source.n;
        if (minute == 12) {
            blocks = mx_mem_live();
            bytes = mx_mem_bytes();
            delay_s = log.stop_delay_s;
        }
        if (!CHECK(minute <= 12 || log.stop_delay_s <= delay_s + 0.1))
            printf("    %.2f s after %d min, %.2f after 12\n", log.stop_delay_s, minute, delay_s);
        if (!CHECK(minute <= 12 || mx_mem_live() <= blocks + 2 * MX_INSTANCES))
            printf("    %lld blocks after %d min, %lld after 12\n", (long long)mx_mem_live(), minute,
                   (long long)blocks);
        if (!CHECK(minute <= 12 || mx_mem_bytes() <= bytes + MOST_GROWTH))
            printf("    %lld bytes after %d min, %lld after 12\n", (long long)mx_mem_bytes(), minute,
                   (long long)bytes);
    }
    CHECK_EQ_INT(mxw_live_finish(live), MXW_OK);
    CHECK_EQ_INT(live_take(live, &log), MXW_END);
    if (!CHECK(log.broken[0] == 0))
        printf("    %s\n", log.broken);
    CHECK(log.counts[MXW_LIVE_SPEECH_STOPPED] >= (int64_t)(hours * 100) && log.stop_delay_s < 1.2);
    CHECK_EQ_INT(log.counts[MXW_LIVE_SLOWER], 0);
    printf("    %.2f h: %lld utterances, %lld passes, at most %.2f s from the end of speech to the end of its text\n",
           hours, (long long)log.counts[MXW_LIVE_SPEECH_STOPPED], (long long)clock.n_passes, log.stop_delay_s);
    mxw_live_close(live);
    live_log_free(&log);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static const live_turn talk[] = {{1.3, 0.25}, {0.7, 0.9}, {2.2, 0.12}, {0.3, 0.6}, {1, 1}};

/* Seconds of speech just before sample n; 0: in a pause. */
static double speaking_s(int64_t n) {
    double at = 0, end = (double)n / RATE;
    for (size_t i = 0; i < MX_COUNT(talk); i++) {
        if (end <= at + talk[i].speech_s)
            return end - at;
        at += talk[i].speech_s + talk[i].silence_s;
        if (end <= at)
            return 0;
    }
    return 0;
}

/* Returns whether somebody spoke at the end. */
static int test_end(int64_t n, size_t packet, mxw_live_policy policy) {
    mxw_session_options o = decoding();
    mxw_live_options options;
    live_clock clock = {.pass_s = 0.04, .per_s = 0.01};
    live_log log = {.keeps = 1};
    live_script script = {talk, MX_COUNT(talk), 0, 5};
    live_source source = {live_script_sound, &script, n, packet};
    double spoken = speaking_s(n);
    mxw_live_options_default(&options);
    options.decoding = &o;
    options.policy = policy;
    options.keep_result = 1;
    live_clock_use(&clock, &options);
    CHECK_EQ_INT(live_replay(model, &options, &clock, &source, &log), MXW_END);
    CHECK_EQ_INT(log.counts[MXW_LIVE_SPEECH_STARTED], log.counts[MXW_LIVE_SPEECH_STOPPED]);
    if (!CHECK(log.broken[0] == 0 && log.counts[MXW_LIVE_END] == 1))
        printf("    end at sample %lld: %s\n", (long long)n, log.broken);
    /* The detector hears chunks of 32 ms, so the last one may still be undecided. */
    if (spoken > 0.064 && !CHECK(clock.heard_s == clock.fed_s))
        printf("    end at sample %lld: heard up to %.3f s of %.3f\n", (long long)n, clock.heard_s, clock.fed_s);
    live_log_free(&log);
    return spoken > 0.064;
}

static void test_ends(int ends) {
    live_script script = {talk, MX_COUNT(talk), 0, 5};
    int64_t length = live_script_samples(&script);
    uint64_t random = 19;
    int spoken = 0;
    for (int i = 0; i < ends; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t n = 1 + (int64_t)((random >> 20) % (uint64_t)length);
        spoken += test_end(n, i % 3 == 0 ? 320 : 1600, i % 2 ? MXW_LIVE_ALIGNATT : MXW_LIVE_AGREEMENT);
    }
    CHECK(spoken > ends / 4 && spoken < ends);
}

int main(int argc, char **argv) {
    char folder[4096], path[4200];
    if (argc != 3 || gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    kit_on("live-hours", "max cpu");
    snprintf(path, sizeof(path), "%s/english.pt", folder);
    gen_options o = {.dims = kit_dims(51864, 16, 2, 1), .seed = 24, .dtype = MXW_F16};
    if (CHECK(gen_pt(path, &o) == 0) && CHECK_EQ_INT(kit_open(path, 1, &model), MXW_OK)) {
        model->open_detector = fake_detector_open;
        test_hours(atof(argv[1]));
        test_ends(atoi(argv[2]));
    }
    mxw_model_close(model);
    CHECK_EQ_INT(mx_mem_live(), 0);
    gen_remove(folder);
    return check_done();
}
