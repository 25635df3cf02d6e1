/* max_whisper/audio.h - audio decoded to what a session takes: 16 kHz mono samples.
 *
 * WAV is built in; every other container and codec needs the FFmpeg module. Audio is read in blocks, so memory does not
 * grow with the length of a recording. An mxw_audio belongs to one thread at a time.
 */
#ifndef MXW_AUDIO_H
#define MXW_AUDIO_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MXW_SAMPLE_RATE 16000

typedef struct mxw_audio mxw_audio;

/* Where the recording comes from: exactly one of path, data, read and device. */
typedef struct mxw_audio_options {
    size_t struct_size;
    const char *path;   /* a file, or "-" for standard input */
    int channel;        /* 0: all channels mixed to one; 1 (left), 2 (right), ...: that one alone */
    int track;          /* 0: the default, as ffmpeg chooses it; 1, 2, ...: of the audio tracks, in the file's order */
    const void *data;   /* a file in memory, `size` bytes of it; not copied: must stay until the audio is closed */
    size_t size;
    /* Reads up to n bytes, at least one unless at the end; returns their number, 0 at the end, negative on failure.
     * Called by mxw_audio_open and _read on their own thread; must not use the same mxw_audio. */
    int64_t (*read)(void *user, void *bytes, size_t n);
    /* NULL: the bytes of read are a stream that cannot seek. Else moves to offset, counted from the start (whence 0) or
     * from the end (whence 2), and returns the new offset from the start; negative on failure. */
    int64_t (*seek)(void *user, int64_t offset, int whence);
    void *user;         /* passed to the callbacks */
    const char *name;   /* NULL; what messages and mxw_audio_info.path call the recording, if it is not a path */
    const char *device; /* NULL; a microphone: "default" (that of PulseAudio or PipeWire, else of ALSA), or an input of
                         * FFmpeg: "pulse", "pulse:NAME", "alsa:hw:1", ... Needs the modules ffmpeg and avdevice */
    int device_rate;    /* 0: any; the rate at which the device must record */
    int live;           /* 0; 1: samples are wanted as soon as they come, as always from a device */
    /* NULL; asked while a device has nothing to give: non-zero ends the call, with E_ABORTED. */
    int (*should_abort)(void *user);
} mxw_audio_options;

typedef struct mxw_audio_info {
    size_t struct_size;      /* sizeof(mxw_audio_info) */
    const char *path;        /* or the name that was given */
    const char *container;   /* "wav", "mov,mp4,m4a,...", ... */
    const char *codec;       /* "pcm_s16le", "aac", ... */
    int sample_rate;         /* of the source */
    int channels;            /* of the source */
    double duration_s;       /* as the container states it; negative if it does not */
    int tracks;              /* audio tracks in the file */
    double start_s;          /* where the track begins on the container's clock: sound that starts late in a film */
    int read_rate;           /* of the source where it was read last: streams can change it; 0: nothing was read */
    double missing_s;        /* of a live source: seconds, in all, that its timestamps skipped before the samples read
                              * last; each read ends before such a place */
} mxw_audio_info;

MXW_API void mxw_audio_options_default(mxw_audio_options *options, size_t struct_size);
#define mxw_audio_options_default(options) mxw_audio_options_default(options, sizeof(*(options)))
MXW_API mxw_status mxw_audio_open(const mxw_audio_options *options, mxw_audio **out);
MXW_API void mxw_audio_close(mxw_audio *audio);
/* Strings live as long as the audio. */
MXW_API mxw_status mxw_audio_get_info(const mxw_audio *audio, mxw_audio_info *info);
/* Up to n samples, 16 kHz mono, multiples of 1/32768 in [-1, 1). *got is 0 only at the end. */
MXW_API mxw_status mxw_audio_read(mxw_audio *audio, float *samples, size_t n, size_t *got);
/* The microphones, and other sources of sound, that PulseAudio, PipeWire and ALSA list here, as `device` takes them;
 * is_default: the one that its system would choose. Strings are valid during the call. */
MXW_API mxw_status mxw_audio_list_devices(void (*found)(void *user, const char *device, const char *description,
                                                        int is_default),
                                          void *user);

#ifdef __cplusplus
}
#endif
#endif
