/* cli/live/source.c - the thread that reads, and the queue. */
#include "live/source.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "live/pcm.h"

enum {
    QUEUE_SAMPLES = 30 * MXW_SAMPLE_RATE,
    BLOCK_SAMPLES = MXW_SAMPLE_RATE / 50, /* read at a time */
    ROOM_AFTER_GAP = 5 * MXW_SAMPLE_RATE, /* that much must be free before a microphone is heard again */
    MAX_MARKS = 64,                       /* in the queue */
    STOP_MS = 1500                        /* after which a reader that hangs in a device is left alone */
};

/* What is told before the sample of that number. */
typedef struct mark {
    int64_t at;
    int64_t missing; /* samples that are lost there, or 0 */
    int rate;        /* of the source from there on, or 0 */
    int slow;        /* some of them because the queue was full */
} mark;

struct sound_source {
    source_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wake[2];            /* a pipe: its end is the end of a read from standard input */
    source_state state;
    int begun, stopping;
    int reading;            /* the thread has not ended */
    double stopped_at;
    float *queue;           /* [QUEUE_SAMPLES] */
    int64_t n_put, n_taken; /* samples since source_begin */
    mark marks[MAX_MARKS];
    int n_marks;
    int rate;               /* of the source, where it was read last; 0: nothing was */
    double missing_s;       /* that it has skipped until there */
    int64_t losing;         /* samples lost of a gap that goes on; 0: none */
    int64_t n_lost;
    double level;
    char error[1024];
    unsigned char header[PCM_HEADER_BYTES];
    size_t header_left;
    int read_error;         /* errno of standard input */
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Until something changes, or that time. */
static void wait_until(sound_source *s, double when) {
    struct timespec t = {(time_t)when, (long)((when - floor(when)) * 1e9)};
    pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

/* ---- the queue ------------------------------------------------------------------------------------------ */

static void note_level(sound_source *s, const float *samples, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)samples[i] * samples[i];
    double level = sqrt(sum / (double)n), falling = s->level * pow(0.8, (double)n / BLOCK_SAMPLES);
    s->level = level > falling ? level : falling;
}

static size_t room(const sound_source *s) { return (size_t)(QUEUE_SAMPLES - (s->n_put - s->n_taken)); }

/* What is told before the next sample; if there is too much of it in the queue, a little early. */
static mark *mark_here(sound_source *s) {
    if (!s->n_marks || (s->n_marks < MAX_MARKS && s->marks[s->n_marks - 1].at != s->n_put))
        s->marks[s->n_marks++] = (mark){.at = s->n_put};
    return &s->marks[s->n_marks - 1];
}

static void mark_lost(sound_source *s) {
    if (!s->losing)
        return;
    mark *here = mark_here(s);
    here->missing += s->losing;
    here->slow = 1;
    s->losing = 0;
}

/* A microphone's block that does not fit is lost, and so are those after it until there is some room again. */
static int is_lost(sound_source *s, size_t n) {
    size_t needed = s->losing ? ROOM_AFTER_GAP : n;
    if (s->options.kind != SOURCE_DEVICE || room(s) >= needed) {
        mark_lost(s);
        return 0;
    }
    s->losing += (int64_t)n;
    s->n_lost += (int64_t)n;
    return 1;
}

static void put(sound_source *s, const float *samples, size_t n) {
    pthread_mutex_lock(&s->lock);
    if (s->begun)
        note_level(s, samples, n);
    while (s->options.kind != SOURCE_DEVICE && room(s) < n && !s->stopping)
        pthread_cond_wait(&s->changed, &s->lock);
    if (s->begun && !is_lost(s, n) && room(s) >= n)
        for (size_t i = 0; i < n; i++)
            s->queue[s->n_put++ % QUEUE_SAMPLES] = samples[i];
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* What the source itself left out, and a rate that is another than before, are told at their place. */
static void note_changes(sound_source *s, const mxw_audio *audio) {
    mxw_audio_info info = {.struct_size = sizeof(info)};
    if (mxw_audio_get_info(audio, &info) < 0)
        return;
    int64_t missing = llrint((info.missing_s - s->missing_s) * MXW_SAMPLE_RATE);
    int changed = s->rate && info.read_rate != s->rate;
    pthread_mutex_lock(&s->lock);
    if (s->begun && missing > 0 && s->losing)
        s->losing += missing;
    else if (s->begun && missing > 0)
        mark_here(s)->missing += missing;
    if (s->begun && missing > 0)
        s->n_lost += missing;
    if (s->begun && changed)
        mark_here(s)->rate = info.read_rate;
    pthread_mutex_unlock(&s->lock);
    s->missing_s = info.missing_s;
    s->rate = info.read_rate;
}

/* What was lost up to the end of the stream is a gap like others. */
static void finish(sound_source *s, source_state state, const char *error) {
    pthread_mutex_lock(&s->lock);
    mark_lost(s);
    s->state = s->stopping && s->begun ? SOURCE_ENDED : state;
    snprintf(s->error, sizeof(s->error), "%s", error);
    s->reading = 0;
    s->level = 0;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* ---- the thread ----------------------------------------------------------------------------------------- */

static int is_stopping(void *user) {
    sound_source *s = user;
    pthread_mutex_lock(&s->lock);
    int stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

/* Bytes of standard input as they come; to the library, a stop is its end. */
static int64_t read_standard(void *user, void *bytes, size_t n) {
    sound_source *s = user;
    if (s->header_left) {
        n = n < s->header_left ? n : s->header_left;
        memcpy(bytes, s->header + PCM_HEADER_BYTES - s->header_left, n);
        s->header_left -= n;
        return (int64_t)n;
    }
    for (;;) {
        struct pollfd ends[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = s->wake[0], .events = POLLIN}};
        if (poll(ends, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (ends[1].revents)
            return 0;
        ssize_t got = ends[0].revents ? read(STDIN_FILENO, bytes, n) : -1;
        if (got >= 0)
            return got;
        if (ends[0].revents && errno != EINTR && errno != EAGAIN) {
            s->read_error = errno;
            return -1;
        }
    }
}

static mxw_status open_audio(sound_source *s, mxw_audio **audio) {
    mxw_audio_options options;
    mxw_audio_options_default(&options);
    options.live = 1;
    options.user = s;
    switch (s->options.kind) {
    case SOURCE_DEVICE:
        options.device = s->options.name;
        options.device_rate = s->options.rate;
        options.should_abort = is_stopping;
        break;
    case SOURCE_PIPE:
        options.read = read_standard;
        options.name = "standard input";
        if (s->options.sample_format != PCM_AUTO) {
            pcm_header(s->options.sample_format, s->options.rate, s->options.channels, s->header);
            s->header_left = PCM_HEADER_BYTES;
        }
        break;
    case SOURCE_FILE:
        options.path = s->options.name;
        break;
    }
    return mxw_audio_open(&options, audio);
}

/* Open: a microphone is read on, so that its buffers stay fresh; the others wait. */
static void announce(sound_source *s) {
    pthread_mutex_lock(&s->lock);
    s->state = SOURCE_OPEN;
    pthread_cond_broadcast(&s->changed);
    while (s->options.kind != SOURCE_DEVICE && !s->begun && !s->stopping)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

/* As a microphone would: a block is there when its last sample is. */
static void keep_pace(sound_source *s, double begin_s, int64_t n) {
    double when = begin_s + (double)n / MXW_SAMPLE_RATE / s->options.pace;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && now_s() < when)
        wait_until(s, when);
    pthread_mutex_unlock(&s->lock);
}

static void *read_all(void *user) {
    sound_source *s = user;
    mxw_audio *audio = NULL;
    float samples[BLOCK_SAMPLES];
    size_t got = 0;
    int64_t n = 0;
    mxw_status status = open_audio(s, &audio);
    if (status >= 0)
        announce(s);
    double begin_s = now_s();
    /* A stop is the end of a read that waits for standard input: what that has got comes out. */
    while (status >= 0 && !is_stopping(s)) {
        status = mxw_audio_read(audio, samples, BLOCK_SAMPLES, &got);
        if (status < 0 || !got)
            break;
        n += (int64_t)got;
        if (s->options.kind == SOURCE_FILE && s->options.pace > 0)
            keep_pace(s, begin_s, n);
        note_changes(s, audio);
        put(s, samples, got);
    }
    char error[1024] = "";
    if (status < 0 && s->read_error)
        snprintf(error, sizeof(error), "standard input: cannot be read: %s",
                 s->read_error == EBADF ? "it is not open for reading" : strerror(s->read_error));
    else if (status < 0)
        snprintf(error, sizeof(error), "%s", mxw_last_error());
    mxw_audio_close(audio);
    finish(s, status < 0 ? SOURCE_FAILED : SOURCE_ENDED, error);
    return NULL;
}

const char *source_path(const source_options *options) {
    return options->kind == SOURCE_FILE ? options->name : options->kind == SOURCE_PIPE ? "-" : NULL;
}

/* ---- open, take, close ---------------------------------------------------------------------------------- */

static void destroy(sound_source *s) {
    for (int i = 0; i < 2; i++)
        if (s->wake[i] >= 0)
            close(s->wake[i]);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->queue);
    free(s);
}

sound_source *source_open(const source_options *options) {
    sound_source *s = calloc(1, sizeof(*s));
    if (!s) {
        log_error("out of memory: the queue of samples");
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&s->lock, NULL);
    s->options = *options;
    s->wake[0] = s->wake[1] = -1;
    s->reading = 1;
    s->queue = calloc(QUEUE_SAMPLES, sizeof(*s->queue));
    if (!s->queue || pipe(s->wake) || pthread_create(&s->thread, NULL, read_all, s)) {
        log_error("%s: no memory or no thread to read it", options->name);
        destroy(s);
        return NULL;
    }
    return s;
}

source_state source_wait(sound_source *s) {
    pthread_mutex_lock(&s->lock);
    while (s->state == SOURCE_OPENING)
        pthread_cond_wait(&s->changed, &s->lock);
    source_state state = s->state;
    pthread_mutex_unlock(&s->lock);
    return state;
}

void source_begin(sound_source *s) {
    pthread_mutex_lock(&s->lock);
    s->begun = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void source_stop(sound_source *s) {
    pthread_mutex_lock(&s->lock);
    if (!s->stopping) {
        s->stopping = 1;
        s->stopped_at = now_s();
        close(s->wake[1]); /* its other end can be read from now on */
        s->wake[1] = -1;
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Whether no more will come: the thread has ended, or hangs in a device after it was told to stop. */
static int is_over(const sound_source *s) {
    return !s->reading || (s->stopping && now_s() > s->stopped_at + STOP_MS / 1e3);
}

static size_t ready(const sound_source *s) {
    int64_t n = (s->n_marks ? s->marks[0].at : s->n_put) - s->n_taken;
    return (size_t)n;
}

source_state source_take(sound_source *s, float *samples, size_t n, int whole, int wait_ms, source_block *block) {
    double limit = now_s() + wait_ms / 1e3;
    *block = (source_block){0};
    pthread_mutex_lock(&s->lock);
    while (!is_over(s) && !s->n_marks && ready(s) < (whole ? n : 1) && now_s() < limit)
        wait_until(s, limit);
    size_t there = ready(s);
    if (s->n_marks && !there) {
        block->gap_s = (double)s->marks[0].missing / MXW_SAMPLE_RATE;
        block->rate = s->marks[0].rate;
        block->slow = s->marks[0].slow;
        memmove(s->marks, s->marks + 1, (size_t)--s->n_marks * sizeof(*s->marks));
    } else if (!whole || there >= n || is_over(s) || s->n_marks) {
        block->n = there < n ? there : n;
        for (size_t i = 0; i < block->n; i++)
            samples[i] = s->queue[s->n_taken++ % QUEUE_SAMPLES];
    }
    int rest = s->n_marks || s->n_put > s->n_taken || block->n || block->gap_s > 0 || block->rate;
    source_state state = rest || !is_over(s) ? SOURCE_OPEN : s->reading ? SOURCE_ENDED : s->state;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return state;
}

void source_look(sound_source *s, source_view *view) {
    pthread_mutex_lock(&s->lock);
    view->received_s = (double)(s->n_put + s->n_lost) / MXW_SAMPLE_RATE;
    view->waiting_s = (double)(s->n_put - s->n_taken) / MXW_SAMPLE_RATE;
    view->level = s->level;
    pthread_mutex_unlock(&s->lock);
}

const char *source_error(sound_source *s) { return s->error; }

void source_close(sound_source *s) {
    if (!s)
        return;
    source_stop(s);
    pthread_mutex_lock(&s->lock);
    while (!is_over(s))
        wait_until(s, s->stopped_at + STOP_MS / 1e3 + 0.01);
    int hangs = s->reading;
    pthread_mutex_unlock(&s->lock);
    if (hangs) { /* it still uses all of this; the process is about to end */
        pthread_detach(s->thread);
        return;
    }
    pthread_join(s->thread, NULL);
    destroy(s);
}
