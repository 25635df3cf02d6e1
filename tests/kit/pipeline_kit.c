/* pipeline_kit.c - see the header. */
#include "kit/pipeline_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/fake_device.h"
#include "base/mem.h"

mxw_dims kit_dims(int n_vocab, int n_state, int heads, int layers) {
    return (mxw_dims){.n_mels = 80, .n_audio_ctx = 1500, .n_audio_state = n_state, .n_audio_head = heads,
                      .n_audio_layer = layers, .n_vocab = n_vocab, .n_text_ctx = 448, .n_text_state = n_state,
                      .n_text_head = heads, .n_text_layer = layers};
}

static float noise_at(uint64_t seed, size_t i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + i;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (float)((x ^ x >> 31) >> 40) * 0x1p-23f - 1.0f;
}

void kit_samples(uint64_t seed, size_t first, size_t n, float *out) {
    for (size_t i = 0; i < n; i++) {
        double t = (double)(first + i) / MXW_SAMPLE_RATE;
        double loud = fmax(0, sin(6.3 * t + (double)(seed % 7))) * fmax(0, sin(1.1 * t + 0.5));
        double phase = 2 * 3.14159265358979 * (140 * t + 8 * sin(2.7 * t));
        double buzz = sin(phase) + 0.6 * sin(2 * phase) + 0.4 * sin(5 * phase) + 0.2 * sin(11 * phase);
        out[i] = (float)rint((0.25 * loud * buzz + 0.01 * noise_at(seed, first + i)) * 32768) / 32768;
    }
}

static void put(FILE *file, uint32_t x, int bytes) {
    for (int i = 0; i < bytes; i++)
        fputc((int)(x >> (8 * i) & 255), file);
}

int kit_wav(const char *path, uint64_t seed, size_t n, uint32_t rate) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return printf("generate %s: cannot be opened\n", path);
    fputs("RIFF", file), put(file, 36 + 2 * (uint32_t)n, 4), fputs("WAVEfmt ", file), put(file, 16, 4);
    put(file, 1, 2), put(file, 1, 2), put(file, rate, 4), put(file, 2 * rate, 4);
    put(file, 2, 2), put(file, 16, 2), fputs("data", file), put(file, 2 * (uint32_t)n, 4);
    for (size_t i = 0; i < n; i++) {
        float x;
        kit_samples(seed, i, 1, &x);
        put(file, (uint32_t)(int32_t)(x * 32768), 2);
    }
    return fclose(file) != 0 && printf("generate %s: cannot be written\n", path);
}

static const char *device_name = "cpu";
static mxw_engine engine = MXW_ENGINE_CPU;

void kit_on(const char *test, const char *where) {
    const mx_device *found;
    int compiled = strncmp(where, "max ", 4) == 0;
    device_name = where + (compiled ? 4 : 0);
    engine = compiled ? MXW_ENGINE_MAX : strcmp(where, "cpu") == 0 ? MXW_ENGINE_CPU : MXW_ENGINE_GPU;
    if (strcmp(device_name, "fake") == 0)
        mx_device_add(fake_device());
    if (mx_device_find(device_name, &found) < 0) {
        printf("SKIP: %s %s: %s\n", test, where, mxw_last_error());
        exit(77);
    }
}

mxw_model_options kit_model_options(const char *path, int threads) {
    mxw_model_options options;
    mxw_model_options_default(&options);
    options.model = path;
    options.threads = threads;
    options.device = device_name;
    options.engine = engine;
    return options;
}

mxw_status kit_open(const char *path, int threads, mxw_model **out) {
    mxw_model_options options = kit_model_options(path, threads);
    return mxw_model_open(&options, out);
}

mxw_session_options kit_short_options(int sample_len) {
    mxw_session_options options;
    mxw_session_options_default(&options);
    options.beam_size = 0;
    options.temperature_increment = MXW_NONE;
    options.sample_len = sample_len;
    return options;
}

mxw_status kit_run(mxw_session *session, const float *samples, size_t n, size_t piece) {
    mxw_status status = MXW_OK;
    const mxw_segment *segment;
    for (size_t at = 0, count; at < n && status >= 0; at += count) {
        count = piece ? MX_MIN(piece, n - at) : n;
        status = mxw_session_feed(session, samples + at, count);
    }
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status == MXW_OK)
        status = mxw_session_next(session, &segment);
    return status;
}

static int append(void *user, const void *bytes, size_t n) {
    mx_str_add(user, bytes, n);
    return mx_str_status(user) < 0;
}

mxw_status kit_write(mxw_session *session, const char *format, mx_str *out) {
    const mxw_result *result = mxw_session_result(session);
    if (!result)
        return MXW_E_MEMORY;
    mxw_status status = mxw_result_write(result, format, NULL, append, out);
    return mx_str_status(out) < 0 ? mx_fail(mx_str_status(out), "out of memory (the test's own)") : status;
}

mxw_status kit_transcribe(mxw_model *model, const mxw_session_options *options, const float *samples, size_t n,
                          mx_str *json) {
    mxw_session *session = NULL;
    mxw_status status = mxw_session_open(model, options, &session);
    if (status >= 0)
        status = kit_run(session, samples, n, 0);
    if (status >= 0)
        status = kit_write(session, "json", json);
    mxw_session_close(session);
    return status;
}
