/* cli/info/devices.c - `devices`: what a computation can run on here, and why or why not. */
#include <inttypes.h>
#include <stdio.h>

#include "common/cli.h"
#include "common/json_writer.h"
#include "common/log.h"
#include "common/stdout.h"
#include "info/devices.h"

typedef struct devices_options {
    common_options common;
    int json;
} devices_options;

static const option_row rows[] = {
    JSON_ROW(devices_options, json),
    COMMON_ROWS,
    {.name = NULL},
};

static const char *or_unknown(const char *text) { return text && text[0] ? text : "unknown"; }

#define GIBI (1024.0 * 1024 * 1024)

void print_device(const mxw_device_info *d) {
    out_print("%-8s %s%s\n", or_unknown(d->id), or_unknown(d->description), d->usable ? "" : " (not usable)");
    out_print("         cores %d, memory %.1f GiB", d->cores, (double)d->memory_bytes / GIBI);
    if (d->memory_free_bytes)
        out_print(", %.1f GiB free", (double)d->memory_free_bytes / GIBI);
    if (d->memory_limit_bytes)
        out_print(", limited to %.1f GiB (MXW_DEVICE_MEMORY)", (double)d->memory_limit_bytes / GIBI);
    out_print("\n");
    if (d->features && d->features[0])
        out_print("         features %s\n", d->features);
    if (d->reason && d->reason[0])
        out_print("         %s\n", d->reason);
}

void write_device(json_writer *json, const mxw_device_info *d) {
    json_begin(json, NULL);
    json_text(json, "id", d->id);
    json_text(json, "kind", d->kind);
    json_text(json, "description", d->description);
    json_text(json, "features", d->features);
    json_whole(json, "memory_bytes", (int64_t)d->memory_bytes);
    if (d->memory_free_bytes)
        json_whole(json, "memory_free_bytes", (int64_t)d->memory_free_bytes);
    if (d->memory_limit_bytes)
        json_whole(json, "memory_limit_bytes", (int64_t)d->memory_limit_bytes);
    json_whole(json, "cores", d->cores);
    json_bool(json, "usable", d->usable);
    json_text(json, "reason", d->reason);
    json_end(json);
}

static int run(const void *chosen, char **words, int n_words) {
    const devices_options *options = chosen;
    (void)words;
    (void)n_words;
    json_writer json;
    json_start(&json, stdout, 1);
    if (options->json) {
        json_begin(&json, NULL);
        json_whole(&json, "accelerator_count", mxw_accelerator_count());
        json_list(&json, "devices");
    }
    int n = mxw_device_count();
    for (int i = 0; i < n; i++) {
        mxw_device_info info = {.struct_size = sizeof(info)};
        mxw_status status = mxw_device_get(i, &info);
        if (status < 0) {
            log_failure("devices", status);
            return EXIT_FAILED;
        }
        if (options->json)
            write_device(&json, &info);
        else
            print_device(&info);
    }
    if (options->json) {
        json_end(&json);
        json_end(&json);
    } else {
        out_print("%d device%s, %d of them accelerator%s\n", n, n == 1 ? "" : "s", mxw_accelerator_count(),
                  mxw_accelerator_count() == 1 ? "" : "s");
    }
    return EXIT_OK;
}

const command command_devices = {
    .arguments = "",
    .summary = "List CPUs and GPUs, and whether they can be used.",
    .options = rows,
    .options_size = sizeof(devices_options),
    .run = run,
};
