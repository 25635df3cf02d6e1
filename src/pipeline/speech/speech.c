/* pipeline/speech/speech.c - keeps what a detector says about a recording, and answers questions about pauses. */
#include "pipeline/speech/speech.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "feature/feature.h"

#define READ_CHUNKS 512
#define MAX_QUEUE ((size_t)32 << 20)   /* samples that wait for the thread, at most: 128 MiB */
#define HEAR_AT_ONCE ((size_t)1 << 20) /* samples: enough for a detector that uses several threads */
#define WAIT_NS 20000000

/* Samples that are heard at once. */
typedef struct block {
    struct block *next;
    size_t n;
    float samples[HEAR_AT_ONCE];
} block;

typedef struct mx_queue {
    block *first, *last;
    block *spare;                 /* blocks that were heard, to be filled again */
    size_t n;                     /* samples */
} mx_queue;

struct mx_speech {
    mx_detector detector;
    float threshold, neg_threshold;
    int64_t pad;                  /* frames */
    int finished;
    float *chunks;                /* [n_chunks]: probabilities */
    size_t n_chunks, room_chunks;
    mx_span *regions;             /* [n_regions]: samples */
    size_t n_regions, room_regions;
    mx_region_state ahead;        /* of the region after those, ... */
    mx_span next;                 /* ... and what is known of it: samples */

    pthread_mutex_t *lock;        /* of all this, if a thread hears; else NULL */
    pthread_cond_t changed;
    pthread_t thread;
    mx_queue queue;               /* samples that it did not take yet */
    int ending, stopping;         /* no more samples; nobody wants to know */
    uint64_t n_heard;             /* how often it heard something */
    double thread_ms;
    mxw_status status;            /* its failure, ... */
    char line[512];               /* ... and the error line */
};

static void stop_thread(mx_speech *s);

static void free_blocks(block *b) {
    for (block *next; b; b = next) {
        next = b->next;
        mx_free(b);
    }
}

mxw_status mx_speech_open(const mx_detector *detector, const mxw_vad_options *options, mx_speech **out) {
    mx_speech *s = mx_alloc_zero(1, sizeof(*s));
    if (!s) {
        detector->close(detector->context);
        return MXW_E_MEMORY;
    }
    double neg = options->neg_threshold == MXW_NONE ? fmax(options->threshold - 0.15, 0.01) : options->neg_threshold;
    s->detector = *detector;
    s->threshold = (float)options->threshold;
    s->neg_threshold = (float)neg;
    s->pad = (int64_t)nearbyint(options->pad_ms * MX_MEL_RATE / 1000);
    *out = s;
    return MXW_OK;
}

void mx_speech_close(mx_speech *s) {
    if (!s)
        return;
    stop_thread(s);
    free_blocks(s->queue.first);
    free_blocks(s->queue.spare);
    s->detector.close(s->detector.context);
    mx_free(s->chunks);
    mx_free(s->regions);
    mx_free(s);
}

/* ---- what the detector knows ------------------------------------------------------------------------------------- */

static mxw_status read_chunks(mx_speech *s) {
    mxw_status status;
    size_t got;
    do {
        MX_TRY(mx_grow(&s->chunks, &s->room_chunks, s->n_chunks + READ_CHUNKS, sizeof(*s->chunks)));
        MX_TRY(s->detector.probabilities(s->detector.context, s->chunks + s->n_chunks, READ_CHUNKS, &got));
        s->n_chunks += got;
    } while (got == READ_CHUNKS);
out:
    return status;
}

static mxw_status read_regions(mx_speech *s) {
    mxw_status status;
    mxw_vad_region region = {.struct_size = sizeof(region)};
    while ((status = s->detector.next(s->detector.context, &region)) == MXW_OK) {
        status = mx_grow(&s->regions, &s->room_regions, s->n_regions + 1, sizeof(*s->regions));
        if (status < 0)
            return status;
        s->regions[s->n_regions++] = (mx_span){region.first, region.end};
    }
    if (status < 0)
        return status;
    s->ahead = s->detector.ahead(s->detector.context, &region) ? MX_REGION_BEGUN : MX_REGION_UNKNOWN;
    s->next = (mx_span){region.first, region.end};
    return MXW_OK;
}

static mxw_status read_all(mx_speech *s) {
    mxw_status status = read_chunks(s);
    return status < 0 ? status : read_regions(s);
}

/* ---- a thread that hears ----------------------------------------------------------------------------------------- */

/* The first block of the queue; NULL: it is empty. */
static block *take_block(mx_queue *q) {
    block *b = q->first;
    if (b) {
        q->first = b->next;
        q->last = q->first ? q->last : NULL;
        q->n -= b->n;
    }
    return b;
}

/* One block of the queue, or its end. The lock is held, but not while the detector works. */
static void hear(mx_speech *s) {
    block *b = take_block(&s->queue);
    int more = s->queue.first || s->ending;   /* the next call follows at once */
    mxw_status (*feed)(void *, const float *, size_t) = more && s->detector.feed_some ? s->detector.feed_some
                                                                                       : s->detector.feed;
    pthread_mutex_unlock(s->lock);
    int64_t start = mx_now_ns();
    mxw_status status = b ? feed(s->detector.context, b->samples, b->n) : s->detector.finish(s->detector.context);
    double ms = mx_since_ms(start);
    pthread_mutex_lock(s->lock);
    s->thread_ms += ms;
    if (b) {
        b->next = s->queue.spare;
        s->queue.spare = b;
    }
    if (status >= 0)
        status = read_all(s);
    s->finished = status >= 0 && !b;
    s->status = status;
    if (status < 0)
        snprintf(s->line, sizeof(s->line), "%s", mx_error());
}

static void *run_thread(void *context) {
    mx_speech *s = context;
    pthread_mutex_lock(s->lock);
    while (!s->stopping && !s->finished && s->status >= 0) {
        if (!s->queue.first && !s->ending) {
            pthread_cond_wait(&s->changed, s->lock);
            continue;
        }
        hear(s);
        s->n_heard++;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(s->lock);
    return NULL;
}

void mx_speech_start(mx_speech *s, pthread_mutex_t *lock) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->lock = lock;
    if (pthread_create(&s->thread, NULL, run_thread, s) != 0) {
        pthread_cond_destroy(&s->changed);
        s->lock = NULL;
    }
}

static void stop_thread(mx_speech *s) {
    if (!s->lock)
        return;
    pthread_mutex_lock(s->lock);
    s->stopping = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
}

static mxw_status thread_status(const mx_speech *s) {
    return s->status < 0 ? mx_fail(s->status, "%s", s->line) : MXW_OK;
}

/* The last block, if there is room in it, or one more. */
static block *block_to_fill(mx_queue *q) {
    if (q->last && q->last->n < HEAR_AT_ONCE)
        return q->last;
    block *b = q->spare ? q->spare : mx_alloc(sizeof(*b));
    if (!b)
        return NULL;
    q->spare = q->spare ? b->next : NULL;
    b->next = NULL;
    b->n = 0;
    *(q->last ? &q->last->next : &q->first) = b;
    return q->last = b;
}

/* Waits while the queue is full. */
static mxw_status queue_samples(mx_speech *s, const float *samples, size_t n) {
    mx_queue *q = &s->queue;
    while (s->status >= 0 && q->n > 0 && q->n + n > MAX_QUEUE)
        pthread_cond_wait(&s->changed, s->lock);
    mxw_status status = thread_status(s);
    for (size_t count; n && status >= 0; samples += count, n -= count) {
        block *b = block_to_fill(q);
        if (!b)
            return MXW_E_MEMORY;
        count = MX_MIN(n, HEAR_AT_ONCE - b->n);
        memcpy(b->samples + b->n, samples, count * sizeof(*samples));
        b->n += count;
        q->n += count;
    }
    pthread_cond_broadcast(&s->changed);
    return status;
}

int mx_speech_pending(const mx_speech *s) { return s->lock && !s->finished; }

mxw_status mx_speech_wait(mx_speech *s) {
    int64_t until = mx_now_ns() + WAIT_NS;
    struct timespec t = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
    uint64_t before = s->n_heard;
    while (mx_speech_pending(s) && s->status >= 0 && s->n_heard == before)
        if (pthread_cond_timedwait(&s->changed, s->lock, &t) != 0)
            break;
    return thread_status(s);
}

double mx_speech_thread_ms(const mx_speech *s) { return s->thread_ms; }

/* ---- feeding ----------------------------------------------------------------------------------------------------- */

/* In parts, so that the detector never has more probabilities waiting than it keeps. */
mxw_status mx_speech_feed(mx_speech *s, const float *samples, size_t n) {
    const size_t most = (size_t)READ_CHUNKS * MX_SPEECH_CHUNK;
    mxw_status status = MXW_OK;
    if (s->lock)
        return queue_samples(s, samples, n);
    for (size_t at = 0, count; at < n && status >= 0; at += count) {
        count = MX_MIN(most, n - at);
        status = s->detector.feed(s->detector.context, samples + at, count);
        if (status >= 0)
            status = read_all(s);
    }
    return status;
}

mxw_status mx_speech_finish(mx_speech *s) {
    if (s->lock) {
        s->ending = 1;
        pthread_cond_broadcast(&s->changed);
        return thread_status(s);
    }
    mxw_status status = s->detector.finish(s->detector.context);
    if (status >= 0)
        status = read_all(s);
    s->finished = status >= 0;
    return status;
}

mx_region_state mx_speech_region(const mx_speech *s, size_t i, mx_span *frames) {
    int known = i < s->n_regions;
    mx_span samples = known ? s->regions[i] : s->next;
    *frames = (mx_span){samples.start / MX_MEL_HOP, samples.end / MX_MEL_HOP};
    if (known)
        return MX_REGION_KNOWN;
    if (s->finished) {
        *frames = (mx_span){INT64_MAX, INT64_MAX};
        return MX_REGION_UNKNOWN;
    }
    return i == s->n_regions ? s->ahead : MX_REGION_UNKNOWN;
}

size_t mx_speech_n_regions(const mx_speech *s) { return s->n_regions; }

mx_span mx_speech_region_samples(const mx_speech *s, size_t i) { return s->regions[i]; }

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* The chunk that frame is in, at most the number of known ones. */
static size_t chunk_of(const mx_speech *s, int64_t frame) {
    int64_t chunk = MX_MAX(frame, 0) > INT64_MAX / MX_MEL_HOP ? INT64_MAX : frame * MX_MEL_HOP / MX_SPEECH_CHUNK;
    return (size_t)MX_MIN(MX_MAX(chunk, 0), (int64_t)s->n_chunks);
}

/* The first chunk that begins at or after frame; likewise. */
static size_t chunk_from(const mx_speech *s, int64_t frame) {
    size_t chunk = chunk_of(s, frame);
    return chunk < s->n_chunks && (int64_t)chunk * MX_SPEECH_CHUNK < frame * MX_MEL_HOP ? chunk + 1 : chunk;
}

static int64_t frame_of(size_t chunk) { return (int64_t)chunk * MX_SPEECH_CHUNK / MX_MEL_HOP; }

int64_t mx_speech_next(const mx_speech *s, int64_t from, int64_t to) {
    for (size_t i = chunk_of(s, from); i < s->n_chunks && frame_of(i) < to; i++)
        if (s->chunks[i] >= s->threshold)
            return MX_MIN(MX_MAX(from, frame_of(i) - s->pad), to);
    return to;
}

int64_t mx_speech_last(const mx_speech *s, int64_t from, int64_t to) {
    for (size_t i = chunk_from(s, to), first = chunk_of(s, from); i-- > first;)
        if (s->chunks[i] >= s->threshold)
            return MX_MAX(MX_MIN(frame_of(i + 1), to), from);
    return from;
}

int64_t mx_speech_amount(const mx_speech *s, int64_t from, int64_t to) {
    int64_t samples = 0;
    for (size_t i = chunk_of(s, from), last = chunk_from(s, to); i < last; i++) {
        int64_t start = (int64_t)i * MX_SPEECH_CHUNK, end = start + MX_SPEECH_CHUNK;
        if (s->chunks[i] >= s->threshold)
            samples += MX_MAX(MX_MIN(end, to * MX_MEL_HOP) - MX_MAX(start, from * MX_MEL_HOP), 0);
    }
    return samples / MX_MEL_HOP;
}

/* Of equal ones the last, so that windows are long. */
int64_t mx_speech_cut(const mx_speech *s, int64_t from, int64_t to, int64_t *pause) {
    size_t first = chunk_from(s, from), end = chunk_of(s, to), begin = 0, length = 0, least = first;
    *pause = 0;
    if (first >= end)
        return to;
    for (size_t i = first, run = 0; i < end; i++) {
        run = s->chunks[i] < s->neg_threshold ? run + 1 : 0;
        if (run > 0 && run >= length) {
            begin = i + 1 - run;
            length = run;
        }
        least = s->chunks[i] <= s->chunks[least] ? i : least;
    }
    *pause = frame_of(length);
    size_t twice = length ? 2 * begin + length : 2 * least + 1;   /* half chunks before the cut */
    return MX_MAX(MX_MIN((int64_t)twice * (MX_SPEECH_CHUNK / 2) / MX_MEL_HOP, to), from);
}

void mx_speech_probability(const mx_speech *s, double from_s, double to_s, double *mean, double *max) {
    const double chunk_s = (double)MX_SPEECH_CHUNK / MXW_SAMPLE_RATE;
    double sum = 0, weight = 0;
    *max = 0;
    if (!(to_s > from_s))   /* a moment: the chunk that it is in */
        to_s = from_s + chunk_s / 1000;
    for (size_t i = (size_t)(fmax(from_s, 0) / chunk_s); i < s->n_chunks && (double)i * chunk_s < to_s; i++) {
        double overlap = fmin(to_s, (double)(i + 1) * chunk_s) - fmax(from_s, (double)i * chunk_s);
        if (overlap <= 0)
            continue;
        sum += overlap * (double)s->chunks[i];
        weight += overlap;
        *max = fmax(*max, (double)s->chunks[i]);
    }
    *mean = weight > 0 ? sum / weight : 0;
}

const float *mx_speech_probabilities(const mx_speech *s, size_t *n) {
    *n = s->n_chunks;
    return s->chunks;
}
