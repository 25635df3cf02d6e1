/* max_whisper/vad.h - speech detection: where in a stream of samples somebody speaks.
 *
 * Silero's network gives every chunk of 32 ms the probability that it is speech; a state machine with Silero's own
 * parameters turns probabilities into regions. Feed, finish, next: a file and a live stream are the same loop, and give
 * the same regions. It runs on the CPU. An mxw_vad belongs to one thread at a time.
 */
#ifndef MXW_VAD_H
#define MXW_VAD_H

#include "audio.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxw_vad mxw_vad;

#define MXW_VAD_MODEL "silero-vad"   /* the name of the weights in the model folder */

/* Names and defaults are those of get_speech_timestamps in silero-vad 6. Where "none" is allowed: MXW_NONE. */
typedef struct mxw_vad_options {
    size_t struct_size;
    const char *model;           /* NULL: MXW_VAD_MODEL; a name, a file (.jit, .safetensors) or a folder with one */
    const char *model_dir;       /* NULL: mxw_model_dir() */
    int sample_rate;             /* 16000; or 8000, which only the .jit has weights for */
    double threshold;            /* 0.5: speech begins at this probability, ... */
    double neg_threshold;        /* none: threshold - 0.15, at least 0.01; ... and ends below this one */
    double min_speech_ms;        /* 250: shorter speech is dropped */
    double max_speech_s;         /* none; longer speech is cut */
    double min_silence_ms;       /* 100: a shorter pause does not end a region */
    double pad_ms;               /* 30: added on both sides of a region */
    double min_silence_at_max_speech_ms;   /* 98: a pause longer than this is where speech of max_speech_s is cut ... */
    int cut_at_longest_pause;    /* 1; ... at the longest one; 0: at the last one, as Silero did before version 6 */
} mxw_vad_options;

typedef struct mxw_vad_region {
    size_t struct_size;          /* sizeof(mxw_vad_region) */
    int64_t first, end;          /* samples: from first up to, but not including, end */
    double start_s, end_s;       /* the same in seconds */
} mxw_vad_region;

/* The file that mxw_vad_open would take for this model (NULL: MXW_VAD_MODEL) and folder (NULL: mxw_model_dir()); NULL
 * if it is not there. Valid until the thread's next call. */
MXW_API const char *mxw_vad_location(const char *model, const char *model_dir);

MXW_API void mxw_vad_options_default(mxw_vad_options *options, size_t struct_size);
#define mxw_vad_options_default(options) mxw_vad_options_default(options, sizeof(*(options)))
/* options may be NULL: the defaults. E_NOT_FOUND: no weights; the line says how to get them. */
MXW_API mxw_status mxw_vad_open(const mxw_vad_options *options, mxw_vad **out);
MXW_API void mxw_vad_close(mxw_vad *vad);
/* Any number of mono samples in [-1, 1] at the rate of the options; they must be finite. */
MXW_API mxw_status mxw_vad_feed(mxw_vad *vad, const float *samples, size_t n);
/* A whole recording, at 16 kHz. */
MXW_API mxw_status mxw_vad_feed_audio(mxw_vad *vad, mxw_audio *audio);
/* No more samples; the last chunk is filled up with zeros. */
MXW_API mxw_status mxw_vad_finish(mxw_vad *vad);
/* The next region, in order: OK; END after the last one; MORE when samples must be fed (or finish called) first. */
MXW_API mxw_status mxw_vad_next(mxw_vad *vad, mxw_vad_region *region);
/* The probabilities that are known and were not read yet, up to n of them, one for each chunk; *got may be 0. Those
 * that nobody reads are dropped when more than an hour of them is waiting. */
MXW_API mxw_status mxw_vad_probabilities(mxw_vad *vad, float *probabilities, size_t n, size_t *got);
/* Samples in a chunk: 512 at 16 kHz, 256 at 8. */
MXW_API int mxw_vad_chunk(const mxw_vad *vad);
/* As if newly opened: a new recording. */
MXW_API void mxw_vad_reset(mxw_vad *vad);

#ifdef __cplusplus
}
#endif
#endif
