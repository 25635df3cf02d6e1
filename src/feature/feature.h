/* feature/feature.h - public header of feature/: 16 kHz samples in, windows of Whisper's log-mel out.
 *
 * Frames are computed as samples are fed and stored unclamped, because the clamp needs the maximum of the whole file:
 * in memory for short recordings, in an unlinked temporary file ($TMPDIR, else /tmp) for long ones, so that memory
 * stays bounded. A window can then be cut and clamped at any position.
 *
 * Invariant: frame t is that of openai-whisper's log_mel_spectrogram(audio, padding=480000) - n_fft 400, hop 160,
 * periodic Hann, reflected start, last STFT frame dropped - and never depends on how the samples were split into
 * calls. The content is floor(n_samples / 160) frames; 3000 frames of (almost) silence follow it. */
#ifndef MX_FEATURE_H
#define MX_FEATURE_H
#include "base/pool.h"

#define MX_MEL_HOP 160        /* samples from one frame to the next */
#define MX_MEL_FFT 400        /* samples of a frame's transform, centred on it */
#define MX_MEL_BINS 201       /* of its spectrum */
#define MX_MEL_WINDOW 3000    /* frames in a window: 30 s */
#define MX_MEL_RATE (MXW_SAMPLE_RATE / MX_MEL_HOP)   /* frames per second */

/* Computed as openai-whisper does, so that times are equal to the last bit. */
static inline double mx_mel_frames_to_s(int64_t frames) { return (double)(frames * MX_MEL_HOP) / MXW_SAMPLE_RATE; }

typedef struct mx_mel mx_mel;

/* n_mels: 80 or 128. FILE: windows exist once finished. RUNNING: a window exists as soon as its frames do, and is
 * clamped against the maximum of all frames up to its own end. */
mxw_status mx_mel_open(int n_mels, mxw_mel_reference reference, mx_mel **out);
/* The same with another limit on the memory for frames before they go to the temporary file. */
mxw_status mx_mel_open_limited(int n_mels, mxw_mel_reference reference, size_t memory_bytes, mx_mel **out);
/* Computes frames on all threads of the pool, with the same bits. To be called before the first samples; the pool must
 * outlive mel. */
mxw_status mx_mel_share(mx_mel *mel, mx_pool *pool);
void mx_mel_close(mx_mel *mel);   /* NULL is fine */
/* The loudest value of all frames so far (log10), and a way to say that the recording has been as loud before. */
float mx_mel_maximum(const mx_mel *mel);
void mx_mel_raise_maximum(mx_mel *mel, float maximum);

mxw_status mx_mel_feed(mx_mel *mel, const float *samples, size_t n);
mxw_status mx_mel_finish(mx_mel *mel);
int mx_mel_finished(const mx_mel *mel);

/* Content frames known so far: a frame needs the 200 samples after its centre, or the end. Final once finished. */
int64_t mx_mel_frames(const mx_mel *mel);
double mx_mel_seconds(const mx_mel *mel);   /* of the samples fed */

/* What a window of 3000 frames has after its first n_frames, which are content. */
typedef enum mx_mel_rest {
    MX_MEL_ZEROS,     /* 0.0: what a decoded window has in the reference */
    MX_MEL_CONTENT,   /* the content that follows, and after the recording silence: what language detection sees;
                       * n_frames is ignored */
    MX_MEL_SILENCE    /* as if the recording ended there */
} mx_mel_rest;

/* The window at seek; n_frames at most 3000, inside the content. E_STATE if frames are not known yet. */
mxw_status mx_mel_window(mx_mel *mel, int64_t seek, int64_t n_frames, mx_mel_rest rest,
                         float *out /* [3000][n_mels] */);

/* All of it at once: samples, then zeros, [n_mels][(n + padding) / MX_MEL_HOP], both ends reflected, the clamp that of
 * these frames; openai-whisper's log_mel_spectrogram(samples, n_mels, padding). */
mxw_status mx_log_mel(const float *samples, size_t n, size_t padding, int n_mels, float *out);

/* The mel filter bank; n_mels 80 or 128, E_UNSUPPORTED otherwise. */
mxw_status mx_mel_filters(int n_mels, float *out /* [n_mels][MX_MEL_BINS] */);
#endif
