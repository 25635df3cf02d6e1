/* bench/parallel_worker.c - transcribes recordings one window after the other, with speech detection, and in lanes, for
 * bench/parallel.py: a process that keeps its models open.
 *
 * In: arguments MODEL ENGINE DEVICE THREADS LANES BEAM, then a line for each run on standard input: a mode
 * (sequential, vad, parallel), a blank, the path of a recording. Out, one JSON object a line: first "ready", then what
 * each run gave and took, or "error". Invariants: a run is timed from samples in memory to the last segment; all modes
 * have the same options but vad and parallel; modes without lanes use a model that was opened for one session. */
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

static int lanes, beam;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int say_failure(const char *subject, mxw_status status) {
    json_writer json;
    char line[8192];
    const char *reason = mxw_last_error()[0] ? mxw_last_error() : mxw_status_text(status);
    snprintf(line, sizeof(line), "%s: %s", subject, reason);
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

static mxw_session_options options_of(const char *mode) {
    mxw_session_options options;
    mxw_session_options_default(&options);
    options.language = "en";
    options.beam_size = beam;
    options.vad = strcmp(mode, "sequential") != 0;
    options.parallel = strcmp(mode, "parallel") == 0 ? lanes : 0;
    return options;
}

static mxw_status transcribe(mxw_model *model, const char *mode, const samples *s, mxw_session **session) {
    mxw_session_options options = options_of(mode);
    const mxw_segment *segment;
    mxw_status status = mxw_session_open(model, &options, session);
    if (status >= 0)
        status = mxw_session_feed(*session, s->data, s->n);
    if (status >= 0)
        status = mxw_session_finish(*session);
    while (status == MXW_OK)
        status = mxw_session_next(*session, &segment);
    return status;
}

static void say_result(const char *mode, const mxw_result *result, double seconds) {
    json_writer json;
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "mode", mode);
    json_number(&json, "seconds", seconds, 6);
    json_number(&json, "vad_s", result->times->vad_ms / 1000, 6);
    json_number(&json, "duration_s", result->duration_s, 3);
    json_number(&json, "skipped_s", result->skipped_s, 3);
    json_whole(&json, "windows", result->n_windows);
    json_whole(&json, "fallbacks", result->n_temperature_fallbacks);
    json_whole(&json, "segments", (int64_t)result->n_segments);
    json_text(&json, "text", result->text);
    json_end(&json);
    fflush(stdout);
}

static void run_line(mxw_model *const models[2], char *line, samples *s) {
    mxw_session *session = NULL;
    char *path = strchr(line, ' ');
    if (!path) {
        say_failure(line, MXW_E_ARGUMENT);
        return;
    }
    *path++ = 0;
    mxw_status status = read_samples(path, s);
    double start = now_s();
    if (status >= 0)
        status = transcribe(models[strcmp(line, "parallel") == 0], line, s, &session);
    double seconds = now_s() - start;
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result)
        say_result(line, result, seconds);
    else
        say_failure(path, status);
    mxw_session_close(session);
}

/* [0] for one session at a time, [1] for the lanes; both with their memory reserved. */
static mxw_status open_models(char **argv, mxw_model *models[2]) {
    static const char *const names[] = {[MXW_ENGINE_CPU] = "cpu", [MXW_ENGINE_GPU] = "gpu", [MXW_ENGINE_MAX] = "max"};
    mxw_status status = MXW_OK;
    for (int i = 0; i < 2 && status >= 0; i++) {
        mxw_model_options options;
        mxw_session_options session = options_of(i ? "parallel" : "vad");
        mxw_model_options_default(&options);
        options.model = argv[1];
        options.device = argv[3];
        options.threads = atoi(argv[4]);
        for (int e = 0; e < 3; e++)
            if (!strcmp(names[e], argv[2]))
                options.engine = (mxw_engine)e;
        status = mxw_model_open(&options, &models[i]);
        if (status >= 0)
            status = mxw_model_reserve(models[i], &session, i ? lanes : 1);
    }
    return status;
}

int main(int argc, char **argv) {
    mxw_model *models[2] = {NULL, NULL};
    mxw_model_info info = {.struct_size = sizeof(info)};
    samples s = {0};
    char line[4200];
    if (argc != 7) {
        fprintf(stderr, "usage: bench-parallel MODEL cpu|gpu|max DEVICE THREADS LANES BEAM < lines\n");
        return 2;
    }
    lanes = atoi(argv[5]);
    beam = atoi(argv[6]);
    mxw_status status = open_models(argv, models);
    if (status < 0)
        return say_failure(argv[1], status);
    if (mxw_model_get_info(models[0], &info) >= 0)
        printf("{\"ready\": true, \"version\": \"%s\", \"device\": \"%s\", \"threads\": %d}\n", mxw_version(),
               info.device, info.threads);
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        run_line(models, line, &s);
    }
    free(s.data);
    mxw_model_close(models[0]);
    mxw_model_close(models[1]);
    return 0;
}
