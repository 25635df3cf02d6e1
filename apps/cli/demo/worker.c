/* cli/demo/worker.c - one engine of `demo`: transcribes in a process of its own and tells how it goes, line by line.
 *
 * A line is a word and its values, separated by tabs:
 *   model DEVICE THREADS LOAD_MS     the model is open
 *   at DONE_S STAGE_MS... PEAK_KIB   how far it is, ten times a second
 *   text TEXT                        a segment
 *   done TOTAL_MS AUDIO_S STAGE_MS... PEAK_KIB GPU_BYTES
 *   failed REASON
 * Invariants: a text or reason has no tab or line end in it, so that every line is one message. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/peak_rss.h"
#include "demo/demo.h"

const char *const demo_stage_names[DEMO_STAGES] = {"mel", "encode", "cross", "prompt", "step"};

/* ---- telling -------------------------------------------------------------------------------------------- */

typedef struct worker {
    FILE *to;                /* a line is written under its lock */
    mxw_model *model;
    const char *device;
    uint64_t free_before;
    double done_s;           /* of the recording, under the lock of `to` */
    atomic_int over;
} worker;

static void tell_text(FILE *to, const char *word, const char *text) {
    flockfile(to);
    fprintf(to, "%s\t", word);
    for (; *text; text++)
        fputc(*text == '\t' || *text == '\n' || *text == '\r' ? ' ' : *text, to);
    fputc('\n', to);
    fflush(to);
    funlockfile(to);
}

static void tell_stages(const worker *w, double mel_ms) {
    static const mxw_stage stages[] = {MXW_STAGE_ENCODE, MXW_STAGE_CROSS, MXW_STAGE_PROMPT, MXW_STAGE_STEP};
    fprintf(w->to, "\t%.3f", mel_ms);
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        mxw_stage_counters counters = {.struct_size = sizeof(counters)};
        mxw_model_get_counters(w->model, stages[i], &counters);
        fprintf(w->to, "\t%.3f", counters.ms);
    }
}

static uint64_t free_on(const char *device) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; device && strcmp(device, "cpu") && i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0 && !strcmp(info.id, device))
            return info.memory_free_bytes;
    return 0;
}

static void on_progress(void *user, const mxw_progress *progress) {
    worker *w = user;
    flockfile(w->to);
    w->done_s = strcmp(progress->stage, "text") ? 0 : progress->done_s;
    funlockfile(w->to);
}

/* Ten times a second, beside the work: a window takes seconds, and its steps can be watched. */
static void *watch(void *user) {
    worker *w = user;
    while (!atomic_load(&w->over)) {
        flockfile(w->to);
        fprintf(w->to, "at\t%.3f", w->done_s);
        tell_stages(w, 0);
        fprintf(w->to, "\t%" PRId64 "\n", memory_peak_kib());
        fflush(w->to);
        funlockfile(w->to);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return NULL;
}

static void on_segment(void *user, const mxw_segment *segment) {
    worker *w = user;
    tell_text(w->to, "text", segment->text);
}

/* ---- working -------------------------------------------------------------------------------------------- */

static mxw_status open_worker(worker *w, const demo_options *o, int engine) {
    model_choice choice = {.model = o->model, .model_dir = o->model_dir, .engine = engine, .threads = o->threads,
                           .device = engine == MXW_ENGINE_MAX ? o->device : "auto"};
    mxw_model_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count() && !w->free_before; i++) {   /* before anything of ours is there */
        mxw_device_info device = {.struct_size = sizeof(device)};
        if (mxw_device_get(i, &device) >= 0 && strcmp(device.id, "cpu") && device.usable)
            w->free_before = device.memory_free_bytes;
    }
    mxw_status status = model_open(&choice, NULL, &w->model);
    if (status < 0)
        return status;
    status = mxw_model_get_info(w->model, &info);
    if (status < 0)
        return status;
    w->device = info.device;
    fprintf(w->to, "model\t%s\t%d\t%.3f\n", info.device, info.threads, info.load_ms + info.compile_ms);
    fflush(w->to);
    return status;
}

static mxw_status transcribe(worker *w, const demo_options *o, const char *path) {
    mxw_audio_options audio_options;
    mxw_session_options options;
    mxw_audio *audio = NULL;
    mxw_session *session = NULL;
    const mxw_segment *segment;
    mxw_audio_options_default(&audio_options);
    audio_options.path = path;
    mxw_session_options_default(&options);
    options.language = o->language && strcmp(o->language, "auto") ? o->language : NULL;
    options.beam_size = (int)o->beam_size;
    options.temperature_increment = MXW_NONE; /* what is drawn by chance is no text to match */
    options.user = w;
    options.on_progress = on_progress;
    options.on_segment = on_segment;
    mxw_status status = mxw_audio_open(&audio_options, &audio);
    if (status >= 0)
        status = mxw_session_open(w->model, &options, &session);
    if (status >= 0)
        status = mxw_session_feed_audio(session, audio);
    if (status >= 0)
        status = mxw_session_finish(session);
    while (status == MXW_OK)
        status = mxw_session_next(session, &segment);
    const mxw_result *result = status < 0 ? NULL : mxw_session_result(session);
    if (result) {
        uint64_t left = free_on(w->device);
        flockfile(w->to);
        fprintf(w->to, "done\t%.3f\t%.3f", result->times->total_ms, result->duration_s);
        tell_stages(w, result->times->mel_ms);
        fprintf(w->to, "\t%" PRId64 "\t%" PRIu64 "\n", memory_peak_kib(),
                left && w->free_before > left ? w->free_before - left : 0);
        fflush(w->to);
        funlockfile(w->to);
    }
    mxw_session_close(session);
    mxw_audio_close(audio);
    return status < 0 ? status : result ? MXW_OK : MXW_E_MEMORY;
}

static void no_log(void *user, const mxw_log_message *message) {}

void demo_work(const demo_options *options, const char *path, int engine, int input, int output) {
    worker w = {.to = fdopen(output, "w")};
    char go;
    ssize_t got;
    while ((got = read(input, &go, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1 || !w.to) /* never asked: the page was left before its turn */
        _exit(EXIT_OK);
    mxw_log_set(MXW_LOG_ERROR, no_log, NULL);   /* the screen is not ours */
    mxw_status status = open_worker(&w, options, engine);
    if (status >= 0) {
        pthread_t watcher;
        int watched = pthread_create(&watcher, NULL, watch, &w) == 0;
        status = transcribe(&w, options, path);
        atomic_store(&w.over, 1);
        if (watched)
            pthread_join(watcher, NULL);
    }
    if (status < 0)
        tell_text(w.to, "failed", mxw_last_error()[0] ? mxw_last_error() : mxw_status_text(status));
    mxw_model_close(w.model);
    fclose(w.to);
    _exit(status < 0 ? EXIT_FAILED : EXIT_OK);
}

/* ---- hearing -------------------------------------------------------------------------------------------- */

/* The next value of a line, or NULL. */
static char *next(char **line) {
    char *value = *line;
    if (value) {
        *line = strchr(value, '\t');
        if (*line)
            *(*line)++ = 0;
    }
    return value;
}

static double number(char **line) {
    const char *value = next(line);
    return value ? strtod(value, NULL) : 0;
}

static void hear_stages(demo_panel *p, char **line) {
    for (int i = 0; i < DEMO_STAGES; i++)
        p->stage_ms[i] = number(line);
}

static void hear_text(demo_panel *p, const char *text) {
    size_t n = strlen(text);
    char *grown = realloc(p->text, p->n_text + n + 1);
    if (!grown)
        return;
    p->text = grown;
    memcpy(p->text + p->n_text, text, n + 1);
    p->n_text += n;
}

int demo_hear(demo *d, demo_panel *p, char *line) {
    const char *word = next(&line);
    if (!strcmp(word, "text") && line) {
        hear_text(p, line);
    } else if (!strcmp(word, "model")) {
        const char *device = next(&line);
        snprintf(p->device, sizeof(p->device), "%s", device ? device : "");
        p->threads = (int)number(&line);
        p->load_s = number(&line) / 1e3;
        p->state = DEMO_RUNNING;
    } else if (!strcmp(word, "at")) {
        if (p->state != DEMO_RUNNING)   /* said while the last line was being written */
            return 1;
        p->done_s = number(&line);
        hear_stages(p, &line);
        p->peak_kib = (int64_t)number(&line);
    } else if (!strcmp(word, "done")) {
        p->total_s = p->elapsed_s = number(&line) / 1e3;
        d->audio_s = p->done_s = number(&line);
        hear_stages(p, &line);
        p->peak_kib = (int64_t)number(&line);
        p->gpu_bytes = (uint64_t)number(&line);
        p->state = DEMO_DONE;
    } else if (!strcmp(word, "failed")) {
        snprintf(p->message, sizeof(p->message), "%s", line ? line : "");
        p->state = DEMO_FAILED;
    } else {
        return 0;
    }
    return 1;
}
