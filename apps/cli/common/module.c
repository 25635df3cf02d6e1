/* cli/common/module.c - see module.h. */
#include "common/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "max_whisper.h"

static int module_path(const char *name, char *path, size_t size) {
    const char *folder = getenv("MXW_MODULE_DIR");
    Dl_info info;
    int n;
    if (folder && *folder) {
        n = snprintf(path, size, "%s/%s.so", folder, name);
    } else if (dladdr((void *)(uintptr_t)mxw_version, &info) && info.dli_fname && strrchr(info.dli_fname, '/')) {
        int length = (int)(strrchr(info.dli_fname, '/') - info.dli_fname);
        n = snprintf(path, size, "%.*s/max-whisper-modules/%s.so", length, info.dli_fname, name);
    } else {
        n = snprintf(path, size, "./max-whisper-modules/%s.so", name);
    }
    return n > 0 && (size_t)n < size;
}

void *module_entry(const char *name, const char *entry, char *why, size_t size) {
    char path[PATH_MAX];
    if (!module_path(name, path, sizeof(path)) || access(path, R_OK)) {
        snprintf(why, size, "the %s module is not installed (%s)", name, path);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = handle ? dlsym(handle, entry) : NULL;
    if (!symbol)
        snprintf(why, size, "the %s module cannot be opened: %s", name, dlerror());
    return symbol;
}
