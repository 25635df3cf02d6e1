/* device/device.c - lists the devices and finds one by name. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/module.h"
#include "device/cpu/cpu.h"

#define MAX_ADDED 4
static const mx_device *added[MAX_ADDED];
static int n_added;

void mx_device_add(const mx_device *device) {
    if (n_added < MAX_ADDED)
        added[n_added++] = device;
}

/* The module of accelerators; NULL with the error set if it is not installed. */
static const mx_device_module *accelerators(void) {
    const void *table;
    return mx_module_get("cuda", &table) < 0 ? NULL : table;
}

int mx_device_count(void) {
    const mx_device_module *module = accelerators();
    return 1 + n_added + (module ? module->count() : 0);
}

const mx_device *mx_device_at(int index) {
    if (index == 0)
        return mx_cpu_device();
    if (index > 0 && index <= n_added)
        return added[index - 1];
    const mx_device_module *module = accelerators();
    index -= 1 + n_added;
    return module && index >= 0 && index < module->count() ? module->get(index) : NULL;
}

const char *mx_precision_name(mxw_precision precision) {
    static const char *const names[] = {[MXW_PRECISION_EXACT] = "exact", [MXW_PRECISION_F16] = "f16",
                                        [MXW_PRECISION_INT8] = "int8", [MXW_PRECISION_F8] = "f8"};
    return (size_t)precision < MX_COUNT(names) ? names[precision] : "?";
}

int mx_device_is_cpu(const mx_device *device) { return device == mx_cpu_device(); }

static mxw_status find_cuda(const char *id, const mx_device **out) {
    char *end = NULL;
    long number = 0;
    if (id[4] == ':')
        number = strtol(id + 5, &end, 10);
    if ((id[4] != 0 && id[4] != ':') || (end && (end == id + 5 || *end)) || number < 0 || number > 1024)
        return mx_fail(MXW_E_ARGUMENT, "device %s: expected auto, cpu, cuda or cuda:N", id);
    const mx_device_module *module = accelerators();
    if (!module)
        return mx_fail_in(MXW_E_DEVICE, "device %s", id);
    int count = module->count();
    if (count == 0)
        return mx_fail(MXW_E_DEVICE, "device %s: %s", id, module->why_none());
    for (int i = 0; !end && i < count; i++)   /* the first usable one; if none is, the reason of the first */
        if (module->get(i)->info.usable) {
            number = i;
            break;
        }
    const mx_device *device = number < count ? module->get((int)number) : NULL;
    if (!device)
        return mx_fail(MXW_E_DEVICE, "device %s: there %s %d CUDA device%s, counted from 0", id,
                       count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    if (!device->info.usable)
        return mx_fail(MXW_E_DEVICE, "device %s: %s", id, device->info.reason);
    *out = device;
    return MXW_OK;
}

static mxw_status find_cpu(const mx_device **out) {
    mxw_status status = mx_cpu_check();
    *out = status < 0 ? NULL : mx_cpu_device();
    return status;
}

mxw_status mx_device_find(const char *id, const mx_device **out) {
    *out = NULL;
    if (!id || strcmp(id, "auto") == 0) {
        for (int i = 1; i < mx_device_count(); i++) {
            const mx_device *device = mx_device_at(i);
            if (device && device->info.usable && !*out)
                *out = device;
        }
        return *out ? MXW_OK : find_cpu(out);
    }
    if (strcmp(id, "cpu") == 0)
        return find_cpu(out);
    for (int i = 0; i < n_added && !*out; i++)
        if (strcmp(id, added[i]->info.id) == 0)
            *out = added[i];
    if (*out)
        return MXW_OK;
    if (strncmp(id, "cuda", 4) == 0)
        return find_cuda(id, out);
    return mx_fail(MXW_E_ARGUMENT, "device %s: expected auto, cpu, cuda or cuda:N", id);
}
