/* tests/golden/test_silence.c - recordings without speech: what openai-whisper makes of them, word for word, and no
 * more. The recordings are those of tests/golden/make/silence.py, made here again from whole numbers. Model tiny.en. */
#include <math.h>

#include "kit/check.h"
#include "kit/golden.h"

#define TOLERANCE 1e-3

static int32_t silence_at(uint64_t i) {
    (void)i;
    return 0;
}

static int32_t noise_at(uint64_t i) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x ^= x >> 32;
    return (int32_t)(x >> 51) - 4096;
}

static int32_t tune_at(uint64_t i) {
    static const uint64_t half_periods[] = {31, 27, 24, 20, 18, 24, 27, 36};
    uint64_t half = half_periods[i / 6000 % 8];
    return (i / half % 2 ? -3000 : 3000) + (i / (3 * half) % 2 ? -1500 : 1500);
}

static const struct {
    const char *name;
    int32_t (*at)(uint64_t i);
} makers[] = {{"silence", silence_at}, {"noise", noise_at}, {"tune", tune_at}};

static float *make(const char *name, size_t n) {
    float *samples = malloc(n * sizeof(*samples));
    int found = 0;
    for (size_t m = 0; samples && m < sizeof(makers) / sizeof(makers[0]); m++)
        if (strcmp(makers[m].name, name) == 0) {
            for (size_t i = 0; i < n; i++)
                samples[i] = (float)makers[m].at(i) / 32768;
            found = 1;
        }
    CHECK(samples && found);
    return samples;
}

static void check_segment(const mxw_segment *got, const json_t *want) {
    size_t n;
    int32_t *tokens = golden_tokens(want, "tokens", &n);
    CHECK_EQ_INT(got->seek, golden_integer(want, "seek"));
    CHECK(got->start == golden_number(want, "start") && got->end == golden_number(want, "end"));
    CHECK_STR(got->text, golden_string(want, "text"));
    CHECK(got->n_tokens == n && memcmp(got->tokens, tokens, n * sizeof(*tokens)) == 0);
    CHECK(fabs(got->avg_logprob - golden_number(want, "avg_logprob")) < TOLERANCE);
    CHECK(fabs(got->no_speech_prob - golden_number(want, "no_speech_prob")) < TOLERANCE);
    free(tokens);
}

static void check_row(mxw_model *model, const json_t *row) {
    size_t n = (size_t)golden_integer(row, "seconds") * MXW_SAMPLE_RATE;
    float *samples = make(golden_string(row, "name"), n);
    mxw_session *session = NULL;
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_status status;
    mxw_session_options_default(&options);
    options.beam_size = (int)golden_integer(row, "beam_size");
    options.temperature_increment = MXW_NONE;
    CHECK_EQ_INT(mxw_session_open(model, &options, &session), MXW_OK);
    CHECK_EQ_INT(mxw_session_feed(session, samples, n), MXW_OK);
    CHECK_EQ_INT(mxw_session_finish(session), MXW_OK);
    while ((status = mxw_session_next(session, &segment)) == MXW_OK)
        ;
    CHECK_EQ_INT(status, MXW_END);
    const mxw_result *result = mxw_session_result(session);
    const json_t *wanted = golden_array(row, "segments");
    if (CHECK(result != NULL)) {
        CHECK_STR(result->text, golden_string(row, "text"));
        if (CHECK_EQ_INT(result->n_segments, json_array_size(wanted)))
            for (size_t i = 0; i < result->n_segments; i++)
                check_segment(mxw_result_segment(result, i), json_array_get(wanted, i));
    }
    mxw_session_close(session);
    free(samples);
}

int main(int argc, char **argv) {
    golden_take_engine(&argc, argv);
    char *text = golden_text("silence.json");
    json_t *rows = text ? json_loads(text, 0, NULL) : NULL, *row;
    size_t i;
    if (!CHECK(json_array_size(rows) == 6))
        return check_done();
    mxw_model *model = golden_model("golden-silence", "tiny.en");
    json_array_foreach(rows, i, row) check_row(model, row);
    mxw_model_close(model);
    json_decref(rows);
    free(text);
    return check_done();
}
