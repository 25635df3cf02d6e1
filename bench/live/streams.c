/* bench/live/streams.c - replays recordings as live streams, for bench/live.py: every event, with when it was ready.
 *
 * In: arguments MODEL [NAME=VALUE...], then a path a line on standard input. streams=N plays that many at a time, each
 * on a thread. Samples come in packets of packet=MS, by one of these clocks:
 *   clock=real   as a microphone would give them
 *   clock=skip   the same, but waiting is skipped: time passes only while the model works; one stream only
 *   clock=COST   virtual: a pass takes COST seconds, whatever it really takes; the events are the same every time
 * Out: a JSON object a line for each event, and at the end of a recording one with "stats" (or "error").
 * Others: policy, step, margin, pause, cut, beam, context, guard, language, device, precision, threads, batch. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/json_writer.h"
#include "max_whisper.h"

#define RATE MXW_SAMPLE_RATE
#define MAX_STREAMS 4096

typedef struct settings {
    mxw_model_options model;
    mxw_session_options decoding;
    mxw_live_options live;
    int streams, packet;
    char clock[32];
} settings;

typedef struct stream {
    const settings *set;
    mxw_model *model;
    int number;
    double skipped_s, virtual_s;   /* of the clock */
    pthread_t thread;
} stream;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* of standard input and output */

static double clock_s(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int is_virtual(const settings *set) { return set->clock[0] >= '0' && set->clock[0] <= '9'; }

static double now(void *user) {
    const stream *s = user;
    return is_virtual(s->set) ? s->virtual_s : s->skipped_s + clock_s(CLOCK_MONOTONIC);
}

static void computed(void *user, double audio_s) {
    stream *s = user;
    (void)audio_s;
    if (is_virtual(s->set))
        s->virtual_s += atof(s->set->clock);
}

static void wait_until(stream *s, double when) {
    double left = when - now(s);
    if (left <= 0)
        return;
    if (is_virtual(s->set)) {
        s->virtual_s = when;
    } else if (strcmp(s->set->clock, "skip") == 0) {
        s->skipped_s += left;
    } else {
        struct timespec t = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&t, NULL);
    }
}

static void say_event(const stream *s, const char *path, const mxw_live_event *e) {
    static const char *const kinds[] = {"speech_started", "partial", "final", "speech_stopped", "slower", "gap", "end"};
    json_writer json;
    pthread_mutex_lock(&lock);
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "path", path);
    json_whole(&json, "stream", s->number);
    json_text(&json, "kind", kinds[e->kind]);
    json_whole(&json, "utterance", e->utterance);
    json_number(&json, "start", e->start, 3);
    json_number(&json, "end", e->end, 3);
    json_number(&json, "heard", e->heard_s, 3);
    json_number(&json, "ready", e->ready_s, 4);
    json_number(&json, "step", e->step_s, 3);
    json_text(&json, "text", e->text);
    json_list(&json, "words");
    for (size_t i = 0; i < e->n_words; i++) {
        const mxw_word *word = mxw_live_event_word(e, i);
        json_list(&json, NULL);
        json_number(&json, NULL, word->start, 2);
        json_number(&json, NULL, word->end, 2);
        json_text(&json, NULL, word->word);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
    pthread_mutex_unlock(&lock);
}

static void say_stats(const stream *s, const char *path, const mxw_live *live, double cpu_s) {
    json_writer json;
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    mxw_live_get_stats(live, &stats);
    pthread_mutex_lock(&lock);
    json_start(&json, stdout, 0);
    json_begin(&json, NULL);
    json_text(&json, "path", path);
    json_whole(&json, "stream", s->number);
    json_begin(&json, "stats");
    json_number(&json, "fed_s", stats.fed_s, 3);
    json_number(&json, "speech_s", stats.speech_s, 3);
    json_whole(&json, "utterances", stats.n_utterances);
    json_whole(&json, "passes", stats.n_passes);
    json_whole(&json, "words", stats.n_words);
    json_whole(&json, "dropped", stats.n_words_dropped);
    json_number(&json, "compute_s", stats.compute_s, 4);
    json_number(&json, "step_s", stats.step_s, 3);
    json_number(&json, "cpu_s", cpu_s, 4);
    json_end(&json);
    json_end(&json);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
}

static mxw_status give_events(const stream *s, const char *path, mxw_live *live) {
    const mxw_live_event *event;
    mxw_status status;
    while ((status = mxw_live_next(live, &event)) == MXW_OK)
        say_event(s, path, event);
    return status;
}

/* A packet is there when its last sample is. */
static mxw_status play(stream *s, const char *path, mxw_live *live, const float *samples, size_t n) {
    size_t packet = (size_t)s->set->packet * RATE / 1000, fed = 0;
    double start = now(s);
    mxw_status status = MXW_OK;
    while (fed < n && status >= 0) {
        size_t arrived = (size_t)((now(s) - start) * RATE) / packet * packet;
        arrived = arrived > n ? n : arrived;
        if (arrived <= fed && fed + packet <= n) {
            wait_until(s, start + (double)(fed + packet) / RATE);
            arrived = fed + packet;
        } else if (arrived <= fed) {
            wait_until(s, start + (double)n / RATE);
            arrived = n;
        }
        status = mxw_live_feed(live, samples + fed, arrived - fed);
        fed = arrived;
        if (status >= 0)
            status = give_events(s, path, live);
    }
    if (status >= 0)
        status = mxw_live_finish(live);
    return status < 0 ? status : give_events(s, path, live);
}

static mxw_status read_all(const char *path, float **samples, size_t *n) {
    mxw_audio_options options;
    mxw_audio *audio;
    size_t got = 1;
    mxw_audio_options_default(&options);
    options.path = path;
    mxw_status status = mxw_audio_open(&options, &audio);
    *samples = NULL;
    *n = 0;
    while (status >= 0 && got > 0) {
        *samples = realloc(*samples, (*n + RATE) * sizeof(**samples));
        status = mxw_audio_read(audio, *samples + *n, RATE, &got);
        *n += status >= 0 ? got : 0;
    }
    mxw_audio_close(audio);
    return status;
}

static void run_one(stream *s, const char *path) {
    mxw_live_options options = s->set->live;
    mxw_live *live = NULL;
    float *samples = NULL;
    size_t n = 0;
    options.decoding = &s->set->decoding;
    options.user = s;
    options.now = now;
    options.computed = computed;
    mxw_status status = read_all(path, &samples, &n);
    if (status >= 0)
        status = mxw_live_open(s->model, &options, &live);
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    if (status >= 0)
        status = play(s, path, live, samples, n);
    if (status >= 0)
        say_stats(s, path, live, clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    else
        fprintf(stderr, "%s: %s\n", path, mxw_last_error());
    mxw_live_close(live);
    free(samples);
}

/* Streams begin at different times, as people do. */
static void *run(void *context) {
    stream *s = context;
    char line[4096];
    if (s->set->streams > 1)
        wait_until(s, now(s) + 3.0 * s->number / s->set->streams);
    for (;;) {
        pthread_mutex_lock(&lock);
        char *got = fgets(line, sizeof(line), stdin);
        pthread_mutex_unlock(&lock);
        if (!got)
            return NULL;
        line[strcspn(line, "\n")] = 0;
        run_one(s, line);
    }
}

static int set(settings *s, const char *name, const char *value) {
    double number = atof(value);
    if (!strcmp(name, "streams") && number >= 1 && number <= MAX_STREAMS)
        s->streams = (int)number;
    else if (!strcmp(name, "packet") && number >= 1)
        s->packet = (int)number;
    else if (!strcmp(name, "clock"))
        snprintf(s->clock, sizeof(s->clock), "%s", value);
    else if (!strcmp(name, "policy"))
        s->live.policy = strcmp(value, "alignatt") == 0 ? MXW_LIVE_ALIGNATT : MXW_LIVE_AGREEMENT;
    else if (!strcmp(name, "step"))
        s->live.step_ms = number;
    else if (!strcmp(name, "margin"))
        s->live.margin_ms = number;
    else if (!strcmp(name, "pause"))
        s->live.pause_ms = number;
    else if (!strcmp(name, "cut"))
        s->live.cut_s = number;
    else if (!strcmp(name, "beam"))
        s->decoding.beam_size = (int)number;
    else if (!strcmp(name, "context"))
        s->decoding.condition_on_previous_text = (int)number;
    else if (!strcmp(name, "guard"))
        s->decoding.guard = number > 0 ? MXW_GUARD_DROP : MXW_GUARD_OFF;
    else if (!strcmp(name, "language"))
        s->decoding.language = value;
    else if (!strcmp(name, "device"))
        s->model.device = value;
    else if (!strcmp(name, "precision"))
        s->model.precision = strcmp(value, "f16") == 0    ? MXW_PRECISION_F16
                             : strcmp(value, "int8") == 0 ? MXW_PRECISION_INT8
                             : strcmp(value, "f8") == 0   ? MXW_PRECISION_F8
                                                          : MXW_PRECISION_EXACT;
    else if (!strcmp(name, "threads"))
        s->model.threads = (int)number;
    else if (!strcmp(name, "batch"))
        s->model.batch = (int)number;
    else
        return 0;
    return 1;
}

int main(int argc, char **argv) {
    static stream streams[MAX_STREAMS];
    settings s = {.streams = 1, .packet = 100, .clock = "real"};
    mxw_model *model;
    mxw_model_options_default(&s.model);
    mxw_live_options_default(&s.live);
    mxw_live_decoding_default(&s.decoding);
    for (int i = 2; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (equals)
            *equals = 0;
        if (!equals || !set(&s, argv[i], equals + 1))
            argc = 0;
    }
    if (argc < 2 || (s.streams > 1 && strcmp(s.clock, "real") != 0)) {
        fprintf(stderr, "usage: bench-live-streams MODEL [NAME=VALUE...] < paths\n");
        return 2;
    }
    s.model.model = argv[1];
    if (mxw_model_open(&s.model, &model) < 0) {
        fprintf(stderr, "%s\n", mxw_last_error());
        return 1;
    }
    for (int i = 0; i < s.streams; i++) {
        streams[i] = (stream){.set = &s, .model = model, .number = i};
        pthread_create(&streams[i].thread, NULL, run, &streams[i]);
    }
    for (int i = 0; i < s.streams; i++)
        pthread_join(streams[i].thread, NULL);
    mxw_model_close(model);
    return 0;
}
