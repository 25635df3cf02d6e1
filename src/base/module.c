/* base/module.c - finds, opens and caches modules. */
#include "base/module.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#define MAX_MODULES 8
#define PATH_BYTES 4096

typedef struct loaded {
    char name[32];
    const void *table;
} loaded;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static loaded modules[MAX_MODULES];
static int n_modules;

static const mx_host host = {mx_fail, mx_log, mx_alloc, mx_free, mx_log_timed};

static mxw_status module_path(const char *name, char path[PATH_BYTES]) {
    const char *dir = getenv("MXW_MODULE_DIR");
    Dl_info info;
    int n;
    if (dir && *dir) {
        n = snprintf(path, PATH_BYTES, "%s/%s.so", dir, name);
    } else if (dladdr((void *)(uintptr_t)mx_module_get, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        int length = slash ? (int)(slash - info.dli_fname) : 1;
        n = snprintf(path, PATH_BYTES, "%.*s/max-whisper-modules/%s.so", length, slash ? info.dli_fname : ".", name);
    } else {
        return mx_fail(MXW_E_NOT_FOUND, "module %s: cannot determine the library's folder", name);
    }
    if (n < 0 || n >= PATH_BYTES)
        return mx_fail(MXW_E_NOT_FOUND, "module %s: path too long", name);
    if (!mx_file_exists(path))
        return mx_fail(MXW_E_NOT_FOUND, "module %s is not installed (%s)", name, path);
    return MXW_OK;
}

static mxw_status load(const char *name, const void **table) {
    char path[PATH_BYTES];
    int64_t start = mx_now_ns();
    mxw_status status = module_path(name, path);
    if (status < 0)
        return status;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return mx_fail(MXW_E_UNSUPPORTED, "module %s: %s", name, dlerror());
    void *symbol = dlsym(handle, MX_MODULE_ENTRY);
    mx_module_open_fn entry;
    memcpy(&entry, &symbol, sizeof(entry));
    *table = entry ? entry(&host, MX_MODULE_ABI) : NULL;
    if (!*table) {
        dlclose(handle);
        return mx_fail(MXW_E_UNSUPPORTED, "module %s: %s was built for another version", name, path);
    }
    mx_log_timed(MXW_LOG_DEBUG, "module", mx_since_ms(start), "%s opened from %s", name, path);
    return MXW_OK;
}

mxw_status mx_module_get(const char *name, const void **table) {
    mxw_status status = MXW_OK;
    *table = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_modules && i < MAX_MODULES; i++)
        if (strcmp(modules[i].name, name) == 0)
            *table = modules[i].table;
    if (!*table && n_modules == MAX_MODULES)
        status = mx_fail(MXW_E_INTERNAL, "module %s: too many modules", name);
    else if (!*table) {
        status = load(name, table);
        if (status >= 0) {
            snprintf(modules[n_modules].name, sizeof(modules[0].name), "%s", name);
            modules[n_modules++].table = *table;
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}
