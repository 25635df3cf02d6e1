/* device/memory.c - allocates device memory for a named purpose, within a limit if there is one.
 * In: $MXW_DEVICE_MEMORY, the bytes that may be allocated on each device, however many it has. Out: blocks; on failure
 * a line with the purpose, the bytes asked for and the bytes free.
 * Invariants: without a limit nothing is counted here and every call goes straight to the device. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/device.h"

#define VARIABLE "MXW_DEVICE_MEMORY"
#define MEBI (1024.0 * 1024.0)

typedef struct block {
    const mx_device *device;
    void *data;
    size_t bytes;
} block;

static struct {
    pthread_mutex_t lock;
    block *blocks;           /* taken under a limit */
    size_t n, room;
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Bytes, or with K, M or G behind them 2^10, 2^20 or 2^30 as many; *limit is UINT64_MAX without the variable. Read each
 * time: memory is taken rarely, and a program may set it between two models. */
static mxw_status read_limit(uint64_t *limit) {
    static const char units[] = "KMG";
    const char *text = getenv(VARIABLE);
    char *end;
    *limit = UINT64_MAX;
    if (!text || !*text)
        return MXW_OK;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end && end > text ? strchr(units, *end) : NULL;
    int shift = unit ? (int)(unit - units + 1) * 10 : 0;
    if (text[0] < '0' || text[0] > '9' || errno || end[unit != NULL] || number > UINT64_MAX >> shift)
        return mx_fail(MXW_E_ARGUMENT, VARIABLE ": '%.60s' is not a number of bytes; K, M or G may follow it", text);
    *limit = (uint64_t)number << shift;
    return MXW_OK;
}

static uint64_t taken_on(const mx_device *device) {
    uint64_t taken = 0;
    for (size_t i = 0; i < ledger.n; i++)
        taken += ledger.blocks[i].device == device ? ledger.blocks[i].bytes : 0;
    return taken;
}

/* With the lock held. */
static void *take_within(const mx_device *device, size_t bytes, uint64_t limit) {
    uint64_t taken = taken_on(device), left = limit > taken ? limit - taken : 0;
    if (bytes > left) {
        mx_fail(MXW_E_MEMORY, "%s: not enough memory: %.1f MiB asked, %.1f of %.1f MiB free (" VARIABLE ")",
                device->info.id, (double)bytes / MEBI, (double)left / MEBI, (double)limit / MEBI);
        return NULL;
    }
    if (mx_grow(&ledger.blocks, &ledger.room, ledger.n + 1, sizeof(*ledger.blocks)) < 0)
        return NULL;
    void *data = device->alloc(device, bytes);
    if (data)
        ledger.blocks[ledger.n++] = (block){device, data, bytes};
    return data;
}

/* With the lock held: once nothing is left, neither is the ledger. */
static void strike_out(const mx_device *device, const void *data) {
    size_t i = 0;
    while (i < ledger.n && (ledger.blocks[i].data != data || ledger.blocks[i].device != device))
        i++;
    if (i < ledger.n)
        ledger.blocks[i] = ledger.blocks[--ledger.n];
    if (ledger.n == 0) {
        mx_free(ledger.blocks);
        ledger.blocks = NULL;
        ledger.room = 0;
    }
}

mxw_status mx_device_take(const mx_device *device, size_t bytes, void **out, const char *what, ...) {
    char name[192];
    uint64_t limit;
    va_list args;
    *out = NULL;
    mxw_status status = read_limit(&limit);
    if (status < 0)
        return status;
    if (limit == UINT64_MAX) {
        *out = device->alloc(device, bytes);
    } else {
        pthread_mutex_lock(&ledger.lock);
        *out = take_within(device, bytes, limit);
        pthread_mutex_unlock(&ledger.lock);
    }
    if (*out)
        return MXW_OK;
    va_start(args, what);
    vsnprintf(name, sizeof(name), what, args);
    va_end(args);
    return mx_fail_in(MXW_E_MEMORY, "%s", name);
}

void mx_device_give(const mx_device *device, void *data) {
    if (!data)
        return;
    pthread_mutex_lock(&ledger.lock);
    strike_out(device, data);
    pthread_mutex_unlock(&ledger.lock);
    device->free(device, data);
}

mxw_status mx_device_memory(const mx_device *device, uint64_t *limit, uint64_t *left) {
    *left = device->info.usable && device->memory_free ? device->memory_free(device) : 0;
    mxw_status status = read_limit(limit);   /* last: its line is the one that is left */
    if (status < 0 || *limit == UINT64_MAX) {
        *limit = 0;
        return status;
    }
    pthread_mutex_lock(&ledger.lock);
    uint64_t taken = taken_on(device), within = *limit > taken ? *limit - taken : 0;
    pthread_mutex_unlock(&ledger.lock);
    *left = *left ? MX_MIN(*left, within) : within;
    return MXW_OK;
}
