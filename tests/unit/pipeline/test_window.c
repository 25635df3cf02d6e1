/* One window at a time, on a small generated model: what a window gives is what a session gives; mistakes are refused.
 * Log-mel of samples at once is that of the loop over windows. */
#include <math.h>
#include <max_whisper.h>

#include "base/base.h"
#include "feature/feature.h"
#include "kit/check.h"
#include "kit/pipeline_kit.h"

enum { N = 20 * 16000 + 77, FRAMES = N / 160, STATE = 64 };
static float samples[N];

static void test_log_mel(void) {
    mx_mel *mel;
    const size_t n_frames = (N + 480000) / 160;
    float *all = mx_alloc_array(80 * n_frames, sizeof(*all)), *window = mx_alloc_array(80 * 3000, sizeof(*window));
    CHECK_EQ_INT(mx_mel_open(80, MXW_MEL_FILE, &mel), MXW_OK);
    CHECK_EQ_INT(mx_mel_feed(mel, samples, N), MXW_OK);
    CHECK_EQ_INT(mx_mel_finish(mel), MXW_OK);
    CHECK_EQ_INT(mx_mel_window(mel, 0, 0, MX_MEL_CONTENT, window), MXW_OK);
    CHECK_EQ_INT(mxw_log_mel(samples, N, 480000, 80, all, n_frames), MXW_OK);
    int same = 1;
    for (size_t t = 0; t < 3000; t++)
        for (size_t i = 0; i < 80; i++)
            same &= all[i * n_frames + t] == window[t * 80 + i];
    CHECK(same);
    CHECK_EQ_INT(mxw_log_mel(samples, N, 0, 80, all, n_frames), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_log_mel(samples, 160, 0, 81, all, 1), MXW_E_UNSUPPORTED);
    CHECK_EQ_INT(mxw_log_mel(samples, 100, 0, 80, all, 0), MXW_OK);
    CHECK_EQ_INT(mxw_log_mel(NULL, 0, 3200, 128, all, 20), MXW_OK);
    CHECK(all[0] == (-10.0f + 4.0f) / 4.0f);
    samples[5] = NAN;
    CHECK_EQ_INT(mxw_log_mel(samples, 1600, 0, 80, all, 10), MXW_E_ARGUMENT);
    kit_samples(1, 0, N, samples);
    mx_mel_close(mel);
    mx_free(all);
    mx_free(window);
}

/* The log-mel that a session's first window has: the clamp is that of the recording with its padding. */
static float *first_window(void) {
    const size_t n_frames = (N + 480000) / 160;
    float *all = mx_alloc_array(80 * n_frames, sizeof(*all)), *mel = mx_alloc_array(80 * FRAMES, sizeof(*mel));
    CHECK_EQ_INT(mxw_log_mel(samples, N, 480000, 80, all, n_frames), MXW_OK);
    for (size_t i = 0; i < 80; i++)
        memcpy(mel + i * FRAMES, all + i * n_frames, FRAMES * sizeof(*mel));
    mx_free(all);
    return mel;
}

static void check_like_session(mxw_model *model, mxw_session_options options, const mxw_window_text *text) {
    mxw_session *session;
    size_t at = 0;
    CHECK_EQ_INT(mxw_session_open(model, &options, &session), MXW_OK);
    CHECK(kit_run(session, samples, N, 0) >= 0);
    const mxw_result *r = mxw_session_result(session);
    for (size_t i = 0; i < r->n_segments; i++) {
        const mxw_segment *s = mxw_result_segment(r, i);
        if (s->seek != 0)
            break;
        CHECK(s->avg_logprob == text->avg_logprob && s->no_speech_prob == text->no_speech_prob);
        for (size_t j = 0; j < s->n_tokens && at < text->n_tokens; j++, at++)
            CHECK_EQ_INT(s->tokens[j], text->tokens[at]);
    }
    CHECK(at > 0);
    mxw_session_close(session);
}

static float largest(const float probabilities[100]) {
    float best = 0;
    for (int i = 0; i < 100; i++)
        best = MX_MAX(best, probabilities[i]);
    return best;
}

/* Text to begin with: what follows is text, a later timestamp or the end, and is not the same as without. */
static void test_begin(mxw_window *window, const int32_t words[3], const int32_t *without, size_t n) {
    mxw_window_request request = {.struct_size = sizeof(request), .language = "en", .begin = words, .n_begin = 3};
    mxw_window_text text = {.struct_size = sizeof(text)};
    CHECK_EQ_INT(mxw_window_decode(window, &request, &text), MXW_OK);
    CHECK(text.n_tokens > 0);
    CHECK(text.tokens[0] != 50364 && text.tokens[0] != words[0]);   /* not <|0.00|> again */
    CHECK(text.n_tokens != n || memcmp(text.tokens, without, n * sizeof(*without)) != 0);
    request.begin = (const int32_t[]){50364};
    request.n_begin = 1;
    CHECK_EQ_INT(mxw_window_decode(window, &request, &text), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "begin") != NULL);
}

static void test_window(mxw_model *model) {
    const mxw_window_request english = {.struct_size = sizeof(english), .language = "en"};
    mxw_session_options options = kit_short_options(12);
    mxw_window *window;
    mxw_window_text text = {.struct_size = sizeof(text)}, again = text;
    float features[1500 * STATE], *mel = first_window(), probabilities[100];
    int32_t first[16], times[16];
    double sure[16];
    options.no_speech_threshold = MXW_NONE;
    CHECK_EQ_INT(mxw_window_open(model, &options, &window), MXW_OK);
    CHECK_EQ_INT(mxw_window_decode(window, NULL, &text), MXW_E_STATE);
    CHECK_EQ_INT(mxw_window_encode(window, mel, FRAMES, features), MXW_OK);
    CHECK_EQ_INT(mxw_window_languages(window, probabilities, 100), MXW_OK);
    double sum = 0;
    for (int i = 0; i < 100; i++)
        sum += (double)probabilities[i];
    CHECK(fabs(sum - 1) < 1e-4);
    CHECK_EQ_INT(mxw_window_decode(window, NULL, &text), MXW_OK);
    CHECK(text.language && fabs(text.language_probability - (double)largest(probabilities)) < 1e-6);
    CHECK_EQ_INT(mxw_window_decode(window, &english, &text), MXW_OK);
    CHECK_STR(text.language, "en");
    CHECK(text.n_tokens > 0 && text.n_tokens <= 16 && text.language_probability < 0);
    size_t n = MX_MIN(text.n_tokens, 16);
    memcpy(first, text.tokens, n * sizeof(*first));
    options.language = "en";   /* a session would ask for it with silence after the sound */
    check_like_session(model, options, &text);
    CHECK_EQ_INT(mxw_window_set_features(window, features), MXW_OK);
    CHECK_EQ_INT(mxw_window_decode(window, &english, &again), MXW_OK);
    CHECK(again.n_tokens == text.n_tokens && !memcmp(first, again.tokens, n * sizeof(*first)));
    const int32_t words[] = {1000, 1001, 1002};
    CHECK_EQ_INT(mxw_window_align(window, "de", words, 3, FRAMES, times, sure), MXW_OK);
    for (int i = 0; i < 3; i++)
        CHECK(times[i] >= 0 && times[i] <= times[i + 1] && times[i + 1] <= FRAMES / 2 && sure[i] > 0 && sure[i] <= 1);
    CHECK_EQ_INT(mxw_window_align(window, "de", (const int32_t[]){60000}, 1, FRAMES, times, sure), MXW_E_ARGUMENT);
    CHECK_EQ_INT(mxw_window_align(window, "xx", words, 3, FRAMES, times, sure), MXW_E_ARGUMENT);
    test_begin(window, words, first, n);
    CHECK_EQ_INT(mxw_window_encode(window, mel, 3001, NULL), MXW_E_ARGUMENT);
    mxw_window_close(window);
    mxw_window_close(NULL);
    options.vad = 1;
    CHECK_EQ_INT(mxw_window_open(model, &options, &window), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "vad") != NULL);
    mx_free(mel);
}

int main(void) {
    char path[] = "/tmp/test-window-XXXXXX";
    mxw_model *model;
    gen_options o = {.dims = kit_dims(51865, STATE, 2, 1), .dtype = MXW_F16, .seed = 3};
    kit_samples(1, 0, N, samples);
    int file = mkstemp(path);
    if (!CHECK(file >= 0) || !CHECK(gen_pt(path, &o) == 0))
        return check_done();
    test_log_mel();
    kit_on("window", "max cpu");
    if (CHECK(kit_open(path, 1, &model) == MXW_OK))
        test_window(model);
    mxw_model_close(model);
    remove(path);
    return check_done();
}
