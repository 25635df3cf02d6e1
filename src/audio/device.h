/* audio/device.h - internal to audio/: microphones, through the modules ffmpeg and avdevice. */
#ifndef MX_AUDIO_DEVICE_H
#define MX_AUDIO_DEVICE_H
#include "audio/audio.h"
#include "audio/ffmpeg_module.h"

/* Opens source->device; read, info and close are those of *table. E_NOT_FOUND: there is none. */
mxw_status mx_device_open(const mx_audio_source *source, const mx_ffmpeg_table **table, mx_ffmpeg **out);
#endif
