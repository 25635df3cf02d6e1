/* api/vad.c - the public functions of speech detection, over weights/ and vad/. */
#include <stdio.h>

#include "api/api.h"
#include "audio/audio.h"
#include "base/str.h"
#include "vad/vad.h"
#include "weights/weights.h"

const char *mxw_vad_location(const char *model, const char *model_dir) {
    static _Thread_local char found[4096];
    mx_str path = {0};
    int there = mx_silero_locate(model, model_dir, &path) == MXW_OK && path.n < sizeof(found);
    if (there)
        snprintf(found, sizeof(found), "%s", mx_str_get(&path));
    mx_str_free(&path);
    return there ? found : NULL;
}

void (mxw_vad_options_default)(mxw_vad_options *options, size_t struct_size) {
    const mxw_vad_options full = {
        .sample_rate = 16000,
        .threshold = 0.5,
        .neg_threshold = MXW_NONE,
        .min_speech_ms = 250,
        .max_speech_s = MXW_NONE,
        .min_silence_ms = 100,
        .pad_ms = 30,
        .min_silence_at_max_speech_ms = 98,
        .cut_at_longest_pause = 1,
    };
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status check(const mxw_vad_options *o) {
    const mx_range ranges[] = {
        {"threshold", o->threshold, 0.01, 1, 0},
        {"neg_threshold", o->neg_threshold, 0, 1, 1},
        {"min_speech_ms", o->min_speech_ms, 0, 1e6, 0},
        {"max_speech_s", o->max_speech_s, 0.1, 1e6, 1},
        {"min_silence_ms", o->min_silence_ms, 0, 1e6, 0},
        {"pad_ms", o->pad_ms, 0, 1e5, 0},
        {"min_silence_at_max_speech_ms", o->min_silence_at_max_speech_ms, 0, 1e6, 0},
        {"cut_at_longest_pause", o->cut_at_longest_pause, 0, 1, 0},
    };
    if (o->sample_rate != 16000 && o->sample_rate != 8000)
        return mx_fail(MXW_E_ARGUMENT, "sample_rate: %d is neither 16000 nor 8000", o->sample_rate);
    return mx_check_ranges(ranges, MX_COUNT(ranges));
}

mxw_status mxw_vad_open(const mxw_vad_options *options, mxw_vad **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    mxw_vad_options full;
    mxw_status status = MXW_OK;
    *out = NULL;
    mxw_vad_options_default(&full);
    if (options)
        status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_vad_options");
    if (status == MXW_OK)
        status = check(&full);
    return status < 0 ? status : mx_vad_open(NULL, &full, out);
}

void mxw_vad_close(mxw_vad *vad) { mx_vad_close(vad); }

mxw_status mxw_vad_feed(mxw_vad *vad, const float *samples, size_t n) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    mxw_status status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_vad_feed(vad, samples, n);
}

mxw_status mxw_vad_feed_audio(mxw_vad *vad, mxw_audio *audio) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    MX_NEED(audio, MXW_E_ARGUMENT);
    if (mx_vad_rate(vad) != 16000)
        return mx_fail(MXW_E_ARGUMENT, "sample_rate: audio has 16000 samples a second, speech detection was opened for "
                       "%d", mx_vad_rate(vad));
    return mx_vad_feed_audio(vad, (mx_audio *)audio);
}

mxw_status mxw_vad_finish(mxw_vad *vad) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    return mx_vad_finish(vad);
}

mxw_status mxw_vad_next(mxw_vad *vad, mxw_vad_region *region) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    MX_NEED(region, MXW_E_ARGUMENT);
    mxw_vad_region full = {0};
    mxw_status given = MX_GIVE(region, &full);   /* a struct that cannot take it must not cost a region */
    if (given < 0)
        return given;
    mxw_status status = mx_vad_next(vad, &full);
    return status == MXW_OK ? MX_GIVE(region, &full) : status;
}

mxw_status mxw_vad_probabilities(mxw_vad *vad, float *probabilities, size_t n, size_t *got) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    MX_NEED(got, MXW_E_ARGUMENT);
    *got = 0;
    if (n)
        MX_NEED(probabilities, MXW_E_ARGUMENT);
    return mx_vad_probabilities(vad, probabilities, n, got);
}

int mxw_vad_chunk(const mxw_vad *vad) {
    MX_NEED(vad, MXW_E_ARGUMENT);
    return mx_vad_chunk(vad);
}

void mxw_vad_reset(mxw_vad *vad) {
    if (vad)
        mx_vad_reset(vad);
}
