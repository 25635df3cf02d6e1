/* audio/audio.h - public header of audio/: any file, pipe, memory or stream in, 16 kHz mono samples out.
 *
 * Invariant: the samples are those of `ffmpeg -i X -f s16le -ac 1 -acodec pcm_s16le -ar 16000 -` divided by 32768,
 * bit for bit (same FFmpeg libraries); of one track, with `-map 0:a:N`; of one channel, with `-af "pan=mono|c0=cN"`,
 * where the command counts from 0. WAV is read without the FFmpeg module too; a WAV that is not 16 kHz 16-bit, or is to
 * be mixed, is then converted here; the result is good but not bit-equal, which is logged as a warning.
 * Reading is in blocks, so memory does not grow with the file. */
#ifndef MX_AUDIO_H
#define MX_AUDIO_H
#include "base/status.h"

typedef struct mx_audio mx_audio;

/* Bytes of the caller: memory, or callbacks as in mxw_audio_options. All zero: none. */
typedef struct mx_audio_bytes {
    const void *data;
    size_t size;
    int64_t (*read)(void *user, void *bytes, size_t n);
    int64_t (*seek)(void *user, int64_t offset, int whence);
    void *user;
} mx_audio_bytes;

typedef struct mx_audio_source {
    const char *path;   /* a file, or "-" for standard input; NULL: see bytes */
    int channel;        /* 0: downmix of all; 1, 2, ...: only that one */
    int track;          /* 0: the one that ffmpeg selects; 1, 2, ...: of the audio streams */
    mx_audio_bytes bytes;   /* memory or callbacks of the caller, if path is NULL */
    const char *name;   /* for messages, if path is NULL */
    const char *device; /* instead of path and bytes, as in mxw_audio_options */
    int device_rate;
    int live;           /* small packets, no delay by threads of a decoder */
    int (*should_abort)(void *user);
    void *abort_user;
} mx_audio_source;

/* E_NOT_FOUND: no such file. E_IO: cannot be read, or is a folder. E_FORMAT: empty, damaged, or not an audio
 * format. E_MISSING: no audio stream, or not that track or channel. E_UNSUPPORTED: an unknown codec or layout, or the
 * FFmpeg module is needed but not installed. The error line names the path. */
mxw_status mx_audio_open(const mx_audio_source *source, mx_audio **out);
void mx_audio_close(mx_audio *audio);   /* NULL is fine */

/* Up to n samples (often fewer: those of a pipe as they arrive), multiples of 1/32768 in [-1, 1); *got is 0 only at
 * the end. Of a truncated or damaged file the readable samples are returned, with a warning in the log; E_FORMAT if
 * there are none. */
mxw_status mx_audio_read(mx_audio *audio, float *samples, size_t n, size_t *got);

/* As mxw_audio_list_devices. */
mxw_status mx_audio_list_devices(void (*found)(void *user, const char *device, const char *description, int is_default),
                                 void *user);

/* Strings live as long as the audio. */
void mx_audio_info(const mx_audio *audio, mxw_audio_info *info);
#endif
