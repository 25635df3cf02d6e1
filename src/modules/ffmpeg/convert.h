/* modules/ffmpeg/convert.h - inside the module: decoded frames of any kind to 16 kHz mono 16-bit samples in one
 * libswresample context, as the ffmpeg command's filter graph does it. */
#ifndef MX_FFMPEG_CONVERT_H
#define MX_FFMPEG_CONVERT_H
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libswresample/swresample.h>

typedef struct convert {
    SwrContext *swr;
    int format, sample_rate;      /* of the frames that swr takes */
    AVChannelLayout layout;
    int channel;                  /* 0: all mixed; 1, 2, ...: that one; set before the first frame */
    uint8_t *one;                 /* the chosen channel of a frame that has them interleaved */
    unsigned one_bytes;
    int16_t *samples;             /* converted, not yet taken: [taken, n) */
    size_t n, taken, capacity;
} convert;

#define CONVERT_NO_CHANNEL AVERROR(EDOM)   /* a frame lacks the chosen channel */

/* All return 0 or a negative AVERROR. Zero-initialise first. */
int convert_frame(convert *c, const AVFrame *frame);
int convert_finish(convert *c);   /* what the resampler still holds */
size_t convert_take(convert *c, int16_t *samples, size_t n);
void convert_free(convert *c);
#endif
