/* audio/ffmpeg_module.h - the interface between audio/ and the two modules of modules/ffmpeg: their function tables.
 * They report failures through the host's fail, with the name of the input in the line. */
#ifndef MX_FFMPEG_MODULE_H
#define MX_FFMPEG_MODULE_H
#include "base/module.h"

typedef struct mx_ffmpeg mx_ffmpeg;

typedef struct mx_ffmpeg_input {
    const char *name;   /* for messages */
    const char *path;   /* a file to open, or NULL: the bytes come through the functions below */
    void *user;
    /* Bytes read, 0 at the end, negative on failure. */
    int (*read)(void *user, uint8_t *bytes, int n);
    /* From the start; the new offset or a negative number; NULL: cannot seek. */
    int64_t (*seek)(void *user, int64_t offset);
    int64_t size;       /* in bytes, if it can seek */
    int channel;        /* as in mx_audio_source */
    int track;
    const char *device; /* NULL, or the name of an input device ("pulse") that avdevice has registered; path is what it
                         * opens ("default") */
    int device_rate, device_channels;   /* 0: not asked for */
    int live;
    int (*should_abort)(void *user);    /* or NULL */
    void *abort_user;
} mx_ffmpeg_input;

typedef struct mx_ffmpeg_table {
    mxw_status (*open)(const mx_ffmpeg_input *input, mx_ffmpeg **out);
    /* 16 kHz mono; *got 0 at the end. */
    mxw_status (*read)(mx_ffmpeg *file, int16_t *samples, size_t n, size_t *got);
    void (*info)(const mx_ffmpeg *file, mxw_audio_info *info);   /* all but the path */
    void (*close)(mx_ffmpeg *file);
} mx_ffmpeg_table;

/* The module avdevice, which brings many libraries along and is opened only for a device: from then on the ffmpeg
 * module can open input devices. */
typedef struct mx_avdevice_table {
    void (*list)(void (*found)(void *user, const char *device, const char *description, int is_default), void *user);
} mx_avdevice_table;
#endif
