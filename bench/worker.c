/* bench/worker.c - max-whisper as one of the engines that bench/peers.py times: a process that keeps its model open.
 *
 * In: arguments MODEL ENGINE THREADS PRECISION, then a line for each run on standard input: the path of a recording.
 * Out, one JSON object a line: first "ready" with what was opened and how long that took, then the text, time and
 * memory of each run, or "error". Invariants: a run is timed from samples in memory to the last segment, as the other
 * engines are; options are those of the comparison: English, beam 5, temperature 0 without fallback, everything else by
 * default. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_writer.h"
#include "max_whisper.h"

typedef struct samples {
    float *data;
    size_t n, capacity;
} samples;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The most memory that this process ever held, in KiB. */
static int64_t peak_kib(void) {
    char line[256];
    long long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && kib < 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "VmHWM: %lld", &kib) != 1)
            kib = -1;
    if (file)
        fclose(file);
    return kib;
}

static int say_failure(const char *subject, mxw_status status) {
    json_writer json;
    char line[8192];
    const char *reason = mxw_last_error()[0] ? mxw_last_error() : mxw_status_text(status);
    int named = strstr(reason, subject) != NULL;
    snprintf(line, sizeof(line), "%s%s%s", named ? "" : subject, named ? "" : ": ", reason);
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "error", line);
    json_end(&json);
    fflush(stdout);
    return 1;
}

static mxw_status read_samples(const char *path, samples *s) {
    mxw_audio_options options;
    mxw_audio *audio = NULL;
    size_t got = 1;
    mxw_audio_options_default(&options);
    options.path = path;
    mxw_status status = mxw_audio_open(&options, &audio);
    for (s->n = 0; status >= 0 && got; s->n += got) {
        if (s->n + MXW_SAMPLE_RATE > s->capacity) {
            s->capacity = 2 * s->capacity + 60 * MXW_SAMPLE_RATE;
            s->data = realloc(s->data, s->capacity * sizeof(float));
            if (!s->data)
                return MXW_E_MEMORY;
        }
        status = mxw_audio_read(audio, s->data + s->n, MXW_SAMPLE_RATE, &got);
    }
    mxw_audio_close(audio);
    return status;
}

static mxw_status transcribe(mxw_model *model, const samples *s, mxw_session **session) {
    mxw_session_options options;
    const mxw_segment *segment;
    mxw_session_options_default(&options);
    options.language = "en";
    options.temperature_increment = MXW_NONE;
    mxw_status status = mxw_session_open(model, &options, session);
    if (status >= 0)
        status = mxw_session_feed(*session, s->data, s->n);
    if (status >= 0)
        status = mxw_session_finish(*session);
    while (status == MXW_OK)
        status = mxw_session_next(*session, &segment);
    return status;
}

static void say_result(const mxw_result *result, double seconds) {
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_number(&json, "seconds", seconds, 6);
    json_text(&json, "text", result->text);
    json_whole(&json, "peak_kib", peak_kib());
    json_begin(&json, "stages_ms");
    json_number(&json, "mel", result->times->mel_ms, 3);
    json_number(&json, "encode", result->times->encode_ms, 3);
    json_number(&json, "decode", result->times->decode_ms, 3);
    json_end(&json);
    json_end(&json);
    fflush(stdout);
}

static int run_line(mxw_model *model, const char *path, samples *s) {
    mxw_session *session = NULL;
    mxw_status status = read_samples(path, s);
    if (status < 0)
        return say_failure(path, status);
    double start = now_s();
    status = transcribe(model, s, &session);
    double seconds = now_s() - start;
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result)
        say_result(result, seconds);
    else
        say_failure(path, status);
    mxw_session_close(session);
    return 0;
}

static int open_model(char **argv, mxw_model **model) {
    static const char *const names[] = {[MXW_ENGINE_CPU] = "cpu", [MXW_ENGINE_GPU] = "gpu", [MXW_ENGINE_MAX] = "max"};
    static const char *const precisions[] = {
        [MXW_PRECISION_EXACT] = "exact", [MXW_PRECISION_F16] = "f16", [MXW_PRECISION_INT8] = "int8",
        [MXW_PRECISION_F8] = "f8"};
    mxw_model_options options;
    mxw_model_options_default(&options);
    options.model = argv[1];
    options.threads = atoi(argv[3]);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strcmp(names[i], argv[2]))
            options.engine = (mxw_engine)i;
    for (size_t i = 0; i < sizeof(precisions) / sizeof(*precisions); i++)
        if (!strcmp(precisions[i], argv[4]))
            options.precision = (mxw_precision)i;
    mxw_status status = mxw_model_open(&options, model);
    return status < 0 ? say_failure(argv[1], status) : 0;
}

static void say_ready(const mxw_model *model) {
    mxw_model_info info = {.struct_size = sizeof(info)};
    json_writer json;
    if (mxw_model_get_info(model, &info) < 0)
        return;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_bool(&json, "ready", 1);
    json_number(&json, "load_s", (info.load_ms + info.compile_ms) / 1000, 6);
    json_text(&json, "version", mxw_version());
    json_text(&json, "detail", info.device);
    json_end(&json);
    fflush(stdout);
}

int main(int argc, char **argv) {
    mxw_model *model = NULL;
    samples s = {0};
    char path[4096];
    if (argc != 5) {
        fprintf(stderr, "usage: bench-worker MODEL cpu|gpu|max THREADS exact|f16|int8|f8 < paths\n");
        return 2;
    }
    if (open_model(argv, &model))
        return 1;
    say_ready(model);
    while (fgets(path, sizeof(path), stdin)) {
        path[strcspn(path, "\n")] = 0;
        run_line(model, path, &s);
    }
    free(s.data);
    mxw_model_close(model);
    return 0;
}
