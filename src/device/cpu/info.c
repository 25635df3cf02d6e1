/* device/cpu/info.c - what this machine's processor is, from /proc/cpuinfo and the process's own limits. */
#include "device/cpu/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The features that kernels are chosen by. */
static const char *const interesting[] = {"sse4_2",      "avx",         "f16c",    "fma",   "avx2",   "avx_vnni",
                                          "avx512f",     "avx512bw",    "avx512vl", "avx512_vnni",
                                          "avx512_bf16", "amx_tile",    "amx_int8", "amx_bf16",
                                          "asimd",       "asimdhp",     "asimddp", "sve",   "i8mm",   "bf16"};

static char description[128] = "processor of unknown model";
static char features[256];

/* The text after "key : " if the line has that key, else NULL. */
static const char *value_of(const char *line, const char *key) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0)
        return NULL;
    const char *colon = line + n + strspn(line + n, " \t");
    return *colon == ':' ? colon + 1 + strspn(colon + 1, " \t") : NULL;
}

static int has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == 0))
            return 1;
    return 0;
}

static void keep_features(const char *list) {
    size_t at = 0;
    for (size_t i = 0; i < MX_COUNT(interesting) && at < sizeof(features); i++)
        if (has_word(list, interesting[i])) {
            int wrote = snprintf(features + at, sizeof(features) - at, "%s%s", at ? " " : "", interesting[i]);
            at += wrote > 0 ? (size_t)wrote : 0;
        }
}

static void read_cpuinfo(void) {
    char line[8192];
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file)
        return;
    while (fgets(line, sizeof(line), file) && line[0] != '\n') {   /* the first processor's paragraph */
        line[strcspn(line, "\n")] = 0;
        const char *value = value_of(line, "model name");
        if (value && *value)
            snprintf(description, sizeof(description), "%.120s", value);
        value = value_of(line, "flags");
        if (!value)
            value = value_of(line, "Features");
        if (value)
            keep_features(value);
    }
    fclose(file);
}

void mx_cpu_describe(mxw_device_info *info) {
    cpu_set_t set;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), online = sysconf(_SC_NPROCESSORS_ONLN);
    read_cpuinfo();
    *info = (mxw_device_info){.id = "cpu", .kind = "cpu", .description = description, .features = features};
    info->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    info->cores = allowed > 0 ? allowed : online > 0 ? (int)online : 1;
    info->usable = 1;
    info->reason = "always there";
}
