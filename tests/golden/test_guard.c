/* tests/golden/test_guard.c - the guard against invented text, end to end: what tiny.en makes of silence, noise, hum
 * and clicks is there without it, marked by it, and gone with DROP; speech of the packages loses no word, however quiet
 * it is and whatever is around it. Sounds are made here from whole numbers. */
#include <stdlib.h>
#include <string.h>

#include "kit/check.h"
#include "kit/golden.h"

#define SECONDS 12
#define N_SOUND (SECONDS * MXW_SAMPLE_RATE)

static int32_t noise_at(uint64_t i) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return (int32_t)(x >> 51) - 4096;
}

static int32_t silence_at(uint64_t i) {
    (void)i;
    return 0;
}

static int32_t quiet_at(uint64_t i) { return noise_at(i) / 512; }
static int32_t hum_at(uint64_t i) { return (i / 160 % 2 ? -900 : 900) + (i / 53 % 2 ? -300 : 300) + noise_at(i) / 100; }
static int32_t clicks_at(uint64_t i) { return i % 9600 < 40 ? 6 * noise_at(i) / (1 + (int32_t)(i % 9600)) : 0; }

static int32_t tune_at(uint64_t i) {
    static const uint64_t half_periods[] = {31, 27, 24, 20, 18, 24, 27, 36};
    uint64_t half = half_periods[i / 6000 % 8];
    return (i / half % 2 ? -3000 : 3000) + (i / (3 * half) % 2 ? -1500 : 1500);
}

static const struct {
    const char *name;
    int32_t (*at)(uint64_t i);
} sounds[] = {{"silence", silence_at}, {"noise", noise_at}, {"quiet noise", quiet_at}, {"hum", hum_at},
              {"clicks", clicks_at}, {"tune", tune_at}};

static mxw_session *run(mxw_model *model, mxw_guard guard, int vad, int words, const float *samples, size_t n) {
    mxw_session *session = NULL;
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_status status;
    mxw_session_options_default(&options);
    options.guard = guard;
    options.vad = vad;
    options.word_timestamps = words;
    status = mxw_session_open(model, &options, &session);
    CHECK_EQ_INT(status, MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, n), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    CHECK_EQ_INT(status, MXW_END);
    return session;
}

/* Returns how many sounds have text without the guard: there is something to guard against. */
static int check_sound(mxw_model *model, const char *name, const float *samples, int words) {
    mxw_session *off = run(model, MXW_GUARD_OFF, 0, words, samples, N_SOUND);
    mxw_session *mark = run(model, MXW_GUARD_MARK, 0, words, samples, N_SOUND);
    mxw_session *drop = run(model, MXW_GUARD_DROP, 0, words, samples, N_SOUND);
    const mxw_result *plain = mxw_session_result(off), *marked = mxw_session_result(mark);
    const mxw_result *dropped = mxw_session_result(drop);
    printf("    %s: '%s', %lld words suspected\n", name, plain->text, (long long)marked->n_words_suspected);
    CHECK_STR(marked->text, plain->text);
    CHECK_STR(dropped->text, "");
    CHECK_EQ_INT(dropped->n_words_suspected, marked->n_words_suspected);
    CHECK(plain->n_words_suspected == 0 && (plain->text[0] == 0) == (marked->n_words_suspected == 0));
    for (size_t i = 0; i < marked->n_segments; i++) {
        const mxw_segment *segment = mxw_result_segment(marked, i);
        CHECK(segment->text[0] == 0 || (segment->reasons != 0 && segment->suspicion >= 0.5 && segment->suspicion <= 1));
        for (size_t w = 0; w < segment->n_words; w++)
            CHECK(mxw_segment_word(segment, w)->reasons != 0);
    }
    int text = plain->text[0] != 0;
    mxw_session_close(off);
    mxw_session_close(mark);
    mxw_session_close(drop);
    return text;
}

static void check_sounds(mxw_model *model) {
    float *samples = malloc(N_SOUND * sizeof(*samples));
    int with_text = 0;
    for (size_t k = 0; samples && k < sizeof(sounds) / sizeof(sounds[0]); k++) {
        for (size_t i = 0; i < N_SOUND; i++)
            samples[i] = (float)sounds[k].at(i) / 32768;
        with_text += check_sound(model, sounds[k].name, samples, k % 2 == 0);
    }
    CHECK(with_text >= 2);
    free(samples);
}

/* Speech loses no word, and no word of it is suspected. */
static void check_speech(mxw_model *model, const char *what, const float *samples, size_t n, int vad, int words) {
    mxw_session *off = run(model, MXW_GUARD_OFF, vad, words, samples, n);
    mxw_session *drop = run(model, MXW_GUARD_DROP, vad, words, samples, n);
    CHECK(mxw_session_result(off)->text[0] != 0);
    if (!CHECK_STR(mxw_session_result(drop)->text, mxw_session_result(off)->text))
        printf("    %s\n", what);
    CHECK_EQ_INT(mxw_session_result(drop)->n_words_suspected, 0);
    mxw_session_close(off);
    mxw_session_close(drop);
}

static int check_clip(mxw_model *model, const char *name) {
    char path[4096], clip_name[256];
    golden_clip clip;
    snprintf(clip_name, sizeof(clip_name), "package:%s", name);
    if (!golden_clip_path(clip_name, path, sizeof(path)) || golden_clip_read(path, &clip) != 0) {
        printf("    %s is not here\n", name);
        return 0;
    }
    check_speech(model, name, clip.samples, clip.n, 0, 0);
    check_speech(model, name, clip.samples, clip.n, 1, 1);
    for (size_t i = 0; i < clip.n; i++)
        clip.samples[i] *= 0.0178f;   /* -35 dB */
    check_speech(model, name, clip.samples, clip.n, 0, 1);
    golden_clip_free(&clip);
    return 1;
}

/* Text over the noise before and after speech goes, the speech stays. */
static void check_between(mxw_model *model) {
    char path[4096];
    golden_clip clip;
    if (!golden_clip_path("package:pocketsphinx-librivox-0870", path, sizeof(path)) ||
        golden_clip_read(path, &clip) != 0)
        return;
    size_t around = 35 * MXW_SAMPLE_RATE, n = 2 * around + clip.n;
    float *samples = calloc(n, sizeof(*samples));
    for (size_t i = 0; samples && i < n; i++)
        samples[i] = (float)quiet_at(i) / 32768;
    for (size_t i = 0; samples && i < clip.n; i++)
        samples[around + i] += clip.samples[i];
    mxw_session *alone = run(model, MXW_GUARD_OFF, 0, 0, clip.samples, clip.n);
    mxw_session *drop = run(model, MXW_GUARD_DROP, 1, 1, samples, n);
    CHECK_STR(mxw_session_result(drop)->text, mxw_session_result(alone)->text);
    mxw_session_close(drop);
    drop = run(model, MXW_GUARD_DROP, 0, 0, samples, n);
    const mxw_result *result = mxw_session_result(drop);
    for (size_t i = 0; i < result->n_segments; i++) {
        const mxw_segment *segment = mxw_result_segment(result, i);
        if (!CHECK(segment->end > 34 && segment->start < 36 + (double)clip.n / MXW_SAMPLE_RATE))
            printf("    %.2f to %.2f: %s\n", segment->start, segment->end, segment->text);
    }
    CHECK(result->n_segments > 0);
    mxw_session_close(alone);
    mxw_session_close(drop);
    golden_clip_free(&clip);
    free(samples);
}

int main(int argc, char **argv) {
    static const char *const clips[] = {"pocketsphinx-librivox-0870", "pocketsphinx-librivox-0880",
                                        "pocketsphinx-goforward", "pocketsphinx-numbers", "beckett"};
    golden_take_engine(&argc, argv);
    if (!mxw_vad_location(NULL, NULL)) {
        printf("SKIP: golden-guard: silero-vad is not in %s\n", mxw_model_dir(NULL));
        return GOLDEN_SKIP;
    }
    mxw_model *model = golden_model("golden-guard", "tiny.en");
    int n = 0;
    check_sounds(model);
    for (size_t i = 0; i < sizeof(clips) / sizeof(clips[0]); i++)
        n += check_clip(model, clips[i]);
    CHECK(n > 0);
    check_between(model);
    mxw_model_close(model);
    return check_done();
}
