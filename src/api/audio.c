/* api/audio.c - the public functions of audio, over audio/. */
#include "api/api.h"
#include "audio/audio.h"

void (mxw_audio_options_default)(mxw_audio_options *options, size_t struct_size) {
    const mxw_audio_options full = {0};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status check_source(const mxw_audio_options *o) {
    if ((o->path != NULL) + (o->data != NULL) + (o->read != NULL) + (o->device != NULL) > 1)
        return mx_fail(MXW_E_ARGUMENT, "mxw_audio_options: more than one of path, data, read and device is given");
    if (o->device && !*o->device)
        return mx_fail(MXW_E_ARGUMENT, "device: is empty");
    if (o->device_rate < 0 || (o->device_rate && !o->device))
        return mx_fail(MXW_E_ARGUMENT, "device_rate: %s", o->device ? "is negative" : "needs device");
    if ((!o->path || !*o->path) && !o->data && !o->read && !o->device)
        return mx_fail(MXW_E_ARGUMENT, "path: no file was given");
    if (o->seek && !o->read)
        return mx_fail(MXW_E_ARGUMENT, "seek: needs read");
    return o->size > INT64_MAX ? mx_fail(MXW_E_ARGUMENT, "size: %zu is too large", o->size) : MXW_OK;
}

mxw_status mxw_audio_open(const mxw_audio_options *options, mxw_audio **out) {
    mxw_audio_options full;
    mx_audio *audio = NULL;
    MX_NEED(options, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_audio_options_default(&full);
    mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_audio_options");
    if (status < 0)
        return status;
    status = check_source(&full);
    if (status < 0)
        return status;
    if (full.channel < 0)
        return mx_fail(MXW_E_ARGUMENT, "channel: %d is neither 0 (all, mixed) nor one of 1, 2, ...", full.channel);
    if (full.track < 0)
        return mx_fail(MXW_E_ARGUMENT, "track: %d is neither 0 (the default one) nor one of 1, 2, ...", full.track);
    mx_audio_source source = {.path = full.path, .channel = full.channel, .track = full.track,
                              .bytes = {full.data, full.size, full.read, full.seek, full.user},
                              .name = full.name ? full.name : full.data ? "audio in memory" : "audio stream",
                              .device = full.device, .device_rate = full.device_rate, .live = full.live,
                              .should_abort = full.should_abort, .abort_user = full.user};
    status = mx_audio_open(&source, &audio);
    *out = (mxw_audio *)audio;
    return status;
}

void mxw_audio_close(mxw_audio *audio) { mx_audio_close((mx_audio *)audio); }

mxw_status mxw_audio_get_info(const mxw_audio *audio, mxw_audio_info *info) {
    MX_NEED(audio, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mxw_audio_info full;
    mx_audio_info((const mx_audio *)audio, &full);
    return MX_GIVE(info, &full);
}

mxw_status mxw_audio_read(mxw_audio *audio, float *samples, size_t n, size_t *got) {
    MX_NEED(audio, MXW_E_ARGUMENT);
    MX_NEED(got, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    return mx_audio_read((mx_audio *)audio, samples, n, got);
}

mxw_status mxw_audio_list_devices(void (*found)(void *user, const char *device, const char *description,
                                                int is_default),
                                  void *user) {
    MX_NEED(found, MXW_E_ARGUMENT);
    return mx_audio_list_devices(found, user);
}
