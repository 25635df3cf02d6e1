/* pipeline/speech/speech.h - where in a session's recording somebody speaks: the regions, and the probability of each
 * chunk of 32 ms. Samples go in beside the log-mel; windows begin and end, and are cut, by what is known here.
 *
 * Invariant: no answer depends on how the samples were split into calls, only on whether it can be given yet. Memory
 * grows by 4 bytes a chunk, 450 KB an hour. Frames are those of feature/: 10 ms. */
#ifndef MX_SPEECH_H
#define MX_SPEECH_H
#include <pthread.h>

#include "max_whisper/vad.h"

#define MX_SPEECH_CHUNK 512   /* samples */

/* Finds speech in a stream of samples: Silero's network, or a test's own. The functions are those of vad/vad.h;
 * feed_some may be NULL. */
typedef struct mx_detector {
    void *context;
    mxw_status (*feed)(void *context, const float *samples, size_t n);
    mxw_status (*finish)(void *context);
    mxw_status (*probabilities)(void *context, float *probabilities, size_t n, size_t *got);
    mxw_status (*next)(void *context, mxw_vad_region *region);
    int (*ahead)(const void *context, mxw_vad_region *region);
    void (*close)(void *context);
    mxw_status (*feed_some)(void *context, const float *samples, size_t n);
    const char *sha256;   /* of its weights; lives as long as the recognizer; NULL: it has none */
} mx_detector;

typedef mxw_status (*mx_detector_fn)(void *context, const mxw_vad_options *options, mx_detector *out);

typedef struct mx_speech mx_speech;

/* Takes the detector over, also if it fails. Of the options only threshold, neg_threshold and pad_ms matter here. */
mxw_status mx_speech_open(const mx_detector *detector, const mxw_vad_options *options, mx_speech **out);
void mx_speech_close(mx_speech *speech);   /* NULL is fine */
mxw_status mx_speech_feed(mx_speech *speech, const float *samples, size_t n);
mxw_status mx_speech_finish(mx_speech *speech);

/* From now on samples are heard on a thread of their own: feed copies them, finish does not wait. The caller holds the
 * lock in every other call but close; a detector that fails is reported by a later call. If no thread can be started,
 * nothing changes. */
void mx_speech_start(mx_speech *speech, pthread_mutex_t *lock);
/* Whether there are samples, or their end, that were not heard yet. */
int mx_speech_pending(const mx_speech *speech);
/* Waits until more was heard, at most for a moment. */
mxw_status mx_speech_wait(mx_speech *speech);
double mx_speech_thread_ms(const mx_speech *speech);   /* that its thread worked */

typedef enum mx_region_state {
    MX_REGION_UNKNOWN,   /* it has not begun, or there is none: no frame before start is in it */
    MX_REGION_BEGUN,     /* it begins at start and reaches at least to end */
    MX_REGION_KNOWN
} mx_region_state;

typedef struct mx_span {
    int64_t start, end;
} mx_span;

/* Region i in mel frames, padded, in order; all frames of it are content of the recording. */
mx_region_state mx_speech_region(const mx_speech *speech, size_t i, mx_span *frames);
size_t mx_speech_n_regions(const mx_speech *speech);                    /* known ones */
mx_span mx_speech_region_samples(const mx_speech *speech, size_t i);    /* of a known one */

/* The first frame at or after `from`, less the padding, at which there is speech; `to` if there is none before it. */
int64_t mx_speech_next(const mx_speech *speech, int64_t from, int64_t to);
/* The frame after the last speech in [from, to); `from` if there is none. */
int64_t mx_speech_last(const mx_speech *speech, int64_t from, int64_t to);
/* How many frames of [from, to) are speech. */
int64_t mx_speech_amount(const mx_speech *speech, int64_t from, int64_t to);
/* The best frame of [from, to] to cut at: the middle of the longest pause, whose frames are returned in *pause; if
 * there is no pause, the middle of the chunk that is least likely speech, and *pause is 0. */
int64_t mx_speech_cut(const mx_speech *speech, int64_t from, int64_t to, int64_t *pause);
/* Mean and maximum of the probability of speech in a time span, in seconds from the first sample; each chunk counts by
 * its overlap. Both 0 if no chunk of it is known. */
void mx_speech_probability(const mx_speech *speech, double from_s, double to_s, double *mean, double *max);
/* Those of all chunks that are known; valid until the next feed. */
const float *mx_speech_probabilities(const mx_speech *speech, size_t *n);
#endif
