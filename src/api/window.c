/* api/window.c - the public functions of single windows and of log-mel, over pipeline/ and feature/. */
#include "api/api.h"
#include "base/base.h"
#include "feature/feature.h"
#include "max_whisper/window.h"
#include "pipeline/pipeline.h"

mxw_status mxw_log_mel(const float *samples, size_t n, size_t padding, int n_mels, float *mel, size_t n_frames) {
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    if (n_frames)
        MX_NEED(mel, MXW_E_ARGUMENT);
    if (n > SIZE_MAX / 2 || padding > SIZE_MAX / 2 || n_frames != (n + padding) / MXW_MEL_HOP)
        return mx_fail(MXW_E_ARGUMENT, "n_frames: %zu samples and %zu zeros are not %zu frames", n, padding, n_frames);
    mxw_status status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_log_mel(samples, n, padding, n_mels, mel);
}

mxw_status mxw_mel_filters(int n_mels, float *filters) {
    MX_NEED(filters, MXW_E_ARGUMENT);
    return mx_mel_filters(n_mels, filters);
}

static mxw_status check_window_options(const mxw_session_options *o) {
    const char *wrong = o->vad ? "vad" : o->parallel ? "parallel" : o->guard ? "guard" : o->languages ? "languages"
                      : o->on_window ? "on_window"
                      : o->clip_timestamps && strcmp(o->clip_timestamps, "0") != 0 ? "clip_timestamps" : NULL;
    return wrong ? mx_fail(MXW_E_ARGUMENT, "%s: is about a whole recording, not about a window", wrong) : MXW_OK;
}

mxw_status mxw_window_open(mxw_model *model, const mxw_session_options *options, mxw_window **out) {
    mxw_session_options full;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_status status = mx_take_session_options(options, &full);
    if (status >= 0)
        status = check_window_options(&full);
    return status < 0 ? status : mx_window_open(model, &full, out);
}

void mxw_window_close(mxw_window *window) { mx_window_close(window); }

mxw_status mxw_window_encode(mxw_window *window, const float *mel, size_t n_frames, float *features) {
    MX_NEED(window, MXW_E_ARGUMENT);
    MX_NEED(mel, MXW_E_ARGUMENT);
    if (n_frames < 1 || n_frames > MXW_WINDOW_FRAMES)
        return mx_fail(MXW_E_ARGUMENT, "n_frames: %zu is not from 1 to %d", n_frames, MXW_WINDOW_FRAMES);
    return mx_window_encode(window, mel, n_frames, features);
}

mxw_status mxw_window_set_features(mxw_window *window, const float *features) {
    MX_NEED(window, MXW_E_ARGUMENT);
    MX_NEED(features, MXW_E_ARGUMENT);
    return mx_window_set_features(window, features);
}

mxw_status mxw_window_languages(mxw_window *window, float *probabilities, size_t n) {
    MX_NEED(window, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(probabilities, MXW_E_ARGUMENT);
    return mx_window_languages(window, probabilities, n);
}

mxw_status mxw_window_decode(mxw_window *window, const mxw_window_request *request, mxw_window_text *text) {
    mxw_window_request full = {.struct_size = sizeof(full)};
    mxw_window_text made;
    mxw_status status = MXW_OK;
    MX_NEED(window, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    if (request)
        status = mx_take_options(&full, sizeof(full), request, request->struct_size, "mxw_window_request");
    if (status < 0)
        return status;
    if (full.n_prompt)
        MX_NEED(full.prompt, MXW_E_ARGUMENT);
    if (full.n_begin)
        MX_NEED(full.begin, MXW_E_ARGUMENT);
    status = mx_check_ranges(&(mx_range){"temperature", full.temperature, 0, 100, 0}, 1);
    if (status >= 0)
        status = mx_window_decode(window, &full, &made);
    return status < 0 ? status : MX_GIVE(text, &made);
}

mxw_status mxw_window_align(mxw_window *window, const char *language, const int32_t *tokens, size_t n, size_t n_frames,
                            int32_t *times, double *probabilities) {
    MX_NEED(window, MXW_E_ARGUMENT);
    MX_NEED(tokens, MXW_E_ARGUMENT);
    MX_NEED(times, MXW_E_ARGUMENT);
    MX_NEED(probabilities, MXW_E_ARGUMENT);
    if (n < 1 || n_frames < 2 || n_frames > MXW_WINDOW_FRAMES)
        return mx_fail(MXW_E_ARGUMENT, "align: %zu tokens in %zu frames", n, n_frames);
    return mx_window_align(window, language, tokens, n, n_frames, times, probabilities);
}
