/* audio/resample.h - internal to audio/: any rate to 16 kHz by a Kaiser-windowed sinc, for WAV files without FFmpeg.
 * Output sample k is at time k / 16000; n input samples give ceil(n * 16000 / rate) of them, whatever the
 * block sizes. */
#ifndef MX_RESAMPLE_H
#define MX_RESAMPLE_H
#include "base/status.h"

typedef struct mx_resample mx_resample;

mxw_status mx_resample_open(int rate, mx_resample **out);
void mx_resample_close(mx_resample *resample);   /* NULL is fine */
/* Takes all n samples. */
mxw_status mx_resample_feed(mx_resample *resample, const double *samples, size_t n);
void mx_resample_finish(mx_resample *resample);   /* no more input: the rest can be read */
/* Up to n samples of what is ready. */
size_t mx_resample_read(mx_resample *resample, double *samples, size_t n);
#endif
