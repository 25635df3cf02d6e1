/* modules/ffmpeg/device.c - the module avdevice: FFmpeg's input devices made known to libavformat, which the ffmpeg
 * module shares, and a list of microphones.
 *
 * A module of its own, because libavdevice brings the libraries of screens and cameras along. Invariant: what ALSA has
 * to say goes to the host's log, not to standard error. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <libavdevice/avdevice.h>

#include "audio/ffmpeg_module.h"

static const mx_host *host;

static void log_alsa(const char *file, int line, const char *function, int error, const char *format, ...) {
    char text[512];
    va_list args;
    (void)file;
    (void)line;
    (void)error;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    host->log(MXW_LOG_DEBUG, "alsa", "%s: %s", function, text);
}

/* libasound is there if libavdevice wanted it, and is not linked for this one function. */
static void silence_alsa(void) {
    void *library = dlopen("libasound.so.2", RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "snd_lib_error_set_handler") : NULL;
    int (*set_handler)(void (*handler)(const char *, int, const char *, int, const char *, ...));
    if (!symbol)
        return;
    memcpy(&set_handler, &symbol, sizeof(set_handler));
    set_handler(log_alsa);
}

typedef void (*found_fn)(void *user, const char *device, const char *description, int is_default);

static void list_kind(const char *kind, found_fn found, void *user) {
    const AVInputFormat *format = av_find_input_format(kind);
    AVDeviceInfoList *list = NULL;
    char name[512];
    if (format && avdevice_list_input_sources(format, NULL, NULL, &list) >= 0)
        for (int i = 0; i < list->nb_devices; i++) {
            const AVDeviceInfo *device = list->devices[i];
            snprintf(name, sizeof(name), "%s:%s", kind, device->device_name);
            found(user, name, device->device_description ? device->device_description : "", i == list->default_device);
        }
    avdevice_free_list_devices(&list);
}

static void list_devices(found_fn found, void *user) {
    list_kind("pulse", found, user);
    list_kind("alsa", found, user);
}

static const mx_avdevice_table table = {list_devices};

const void *mx_module_open(const mx_host *services, uint32_t abi);

__attribute__((visibility("default"))) const void *mx_module_open(const mx_host *services, uint32_t abi) {
    if (abi != MX_MODULE_ABI)
        return NULL;
    host = services;
    avdevice_register_all();
    silence_alsa();
    return &table;
}
