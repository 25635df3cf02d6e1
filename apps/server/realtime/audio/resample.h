/* realtime/audio/resample.h - samples at another rate → 16 kHz, in pieces of any size, with the same result.
 *
 * Output k is the input's value at k / 16000 s, band-limited by a windowed sinc. Its place between two input samples is
 * a fraction of whole numbers, so nothing drifts however long the stream is. What comes out lags by half a filter.
 */
#ifndef REALTIME_AUDIO_RESAMPLE_H
#define REALTIME_AUDIO_RESAMPLE_H

#include <stddef.h>

#define RESAMPLE_TO 16000
#define RESAMPLE_LEAST 8000
#define RESAMPLE_MOST 48000
#define RESAMPLE_REST 128
#define RESAMPLE_STEP 25         /* rates are multiples of it: 11025, 22050 and 44100 are */

typedef struct resampler resampler;

/* NULL: memory runs out. */
resampler *resampler_open(int rate);
void resampler_close(resampler *r);
/* Samples that n more give at most. */
size_t resampler_most(const resampler *r, size_t n);
/* How many were written. */
size_t resampler_feed(resampler *r, const float *in, size_t n, float *out);
/* The rest, as if silence followed: at most RESAMPLE_REST; the stream is over. */
size_t resampler_finish(resampler *r, float *out);

#endif
