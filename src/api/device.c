/* api/device.c - the public functions of devices, over device/. */
#include <stdatomic.h>

#include "api/api.h"
#include "base/base.h"
#include "device/device.h"

int mxw_device_count(void) { return mx_device_count(); }

int mxw_accelerator_count(void) {
    int count = 0;
    for (int i = 0; i < mx_device_count(); i++) {
        const mx_device *device = mx_device_at(i);
        count += device && device->info.usable && !mx_device_is_cpu(device);
    }
    return count;
}

mxw_status mxw_device_get(int index, mxw_device_info *info) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;   /* that the limit cannot be parsed: once is enough */
    MX_NEED(info, MXW_E_ARGUMENT);
    const mx_device *device = index < 0 ? NULL : mx_device_at(index);
    if (!device)
        return mx_fail(MXW_E_NOT_FOUND, "device %d: there are %d", index, mx_device_count());
    mxw_device_info full = device->info;
    if (mx_device_memory(device, &full.memory_limit_bytes, &full.memory_free_bytes) < 0 &&
        !atomic_flag_test_and_set(&warned))
        mx_log(MXW_LOG_WARN, "memory", "%s", mx_error());
    return MX_GIVE(info, &full);
}

mxw_status mxw_device_measure(const char *id, int threads, mxw_device_peak *peak) {
    mxw_device_peak full = {.struct_size = sizeof(full)};
    const mx_device *device;
    mx_pool *pool = NULL;
    MX_NEED(id, MXW_E_ARGUMENT);
    MX_NEED(peak, MXW_E_ARGUMENT);
    if (threads < 0 || threads > 1024)
        return mx_fail(MXW_E_ARGUMENT, "threads: %d is not from 0 to 1024", threads);
    mxw_status status = mx_device_find(id, &device);
    if (status < 0)
        return status;
    if (!device->measure)
        return mx_fail(MXW_E_UNSUPPORTED, "device %s: its peak cannot be measured", device->info.id);
    status = mx_pool_open(threads, &pool);
    if (status >= 0)
        status = device->measure(device, pool, &full);
    mx_pool_close(pool);
    return status < 0 ? status : MX_GIVE(peak, &full);
}
