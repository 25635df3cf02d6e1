/* audio/device.c - which input device of FFmpeg a name stands for, and how it is asked for sound.
 *
 * PulseAudio converts to any rate and number of channels, so it is asked for one channel. An ALSA device may have two
 * only; conversion to 16 kHz is the FFmpeg module's, as for files. */
#include "audio/device.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static mxw_status get_modules(const mx_ffmpeg_table **table, const mx_avdevice_table **devices) {
    const void *found;
    mxw_status status = mx_module_get("ffmpeg", &found);
    if (status >= 0) {
        *table = found;
        status = mx_module_get("avdevice", &found);
        *devices = found;
    }
    return status < 0 ? mx_fail_in(MXW_E_UNSUPPORTED, "microphones need FFmpeg with libavdevice") : MXW_OK;
}

/* kind "alsa", path "hw:1"; named as the user did. */
static mxw_status open_kind(const mx_audio_source *source, const mx_ffmpeg_table *table, const char *kind,
                            const char *path, mx_ffmpeg **out) {
    mx_ffmpeg_input input = {.name = source->device, .path = path, .channel = source->channel, .track = source->track,
                             .device = kind, .device_rate = source->device_rate, .live = 1,
                             .should_abort = source->should_abort, .abort_user = source->abort_user};
    int alsa = !strcmp(kind, "alsa"), chosen = source->channel > 1;   /* a channel that only more than one have */
    input.device_channels = chosen ? source->channel : alsa || !strcmp(kind, "pulse");
    mxw_status status = table->open(&input, out);
    if (status == MXW_E_UNSUPPORTED && alsa && !chosen) {
        input.device_channels = 2;
        status = table->open(&input, out);
    }
    return status;
}

/* PulseAudio, which PipeWire speaks too, knows which of several microphones is meant; ALSA is everywhere else. */
static mxw_status open_default(const mx_audio_source *source, const mx_ffmpeg_table *table, mx_ffmpeg **out) {
    char why[512];
    mxw_status status = open_kind(source, table, "pulse", "default", out);
    if (status >= 0 || status == MXW_E_ABORTED || status == MXW_E_MEMORY)
        return status;
    snprintf(why, sizeof(why), "%s", mx_error());
    status = open_kind(source, table, "alsa", "default", out);
    if (status >= 0 || status == MXW_E_ABORTED || status == MXW_E_MEMORY)
        return status;
    const char *pulse = strncmp(why, "default: ", 9) ? why : why + 9, *alsa = mx_error();
    char both[1024];
    snprintf(both, sizeof(both), "no microphone can be opened (pulse: %s; alsa: %s)", pulse,
             strncmp(alsa, "default: ", 9) ? alsa : alsa + 9);
    return mx_fail(status, "%s", both);
}

mxw_status mx_device_open(const mx_audio_source *source, const mx_ffmpeg_table **table, mx_ffmpeg **out) {
    const mx_avdevice_table *devices = NULL;
    char kind[32];
    mxw_status status = get_modules(table, &devices);
    if (status < 0)
        return status;
    if (!strcmp(source->device, "default"))
        return open_default(source, *table, out);
    size_t n = strcspn(source->device, ":");
    if (n == 0 || n >= sizeof(kind))
        return mx_fail(MXW_E_ARGUMENT, "device: '%.80s' is not default, pulse, alsa, or one of these with :NAME",
                       source->device);
    memcpy(kind, source->device, n);
    kind[n] = 0;
    const char *path = source->device[n] ? source->device + n + 1 : "default";
    return open_kind(source, *table, kind, path, out);
}

mxw_status mx_audio_list_devices(void (*found)(void *user, const char *device, const char *description, int is_default),
                                 void *user) {
    const mx_ffmpeg_table *table;
    const mx_avdevice_table *devices = NULL;
    mxw_status status = get_modules(&table, &devices);
    if (status >= 0)
        devices->list(found, user);
    return status;
}
