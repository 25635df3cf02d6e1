/* server/models/names.c - see names.h. */
#include "models/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int names_is_openai(const char *name) {
    static const char *const known[] = {"whisper-1", "gpt-transcribe", "gpt-live-transcribe", "gpt-realtime-whisper",
                                        "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-4o-transcribe-diarize"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        size_t n = strlen(known[i]);
        if (!strncmp(name, known[i], n) && (!name[n] || (name[n] == '-' && name[n + 1] == '2'))) /* a dated one */
            return 1;
    }
    return 0;
}

static const char *without_prefix(const char *name) {
    static const char *const prefixes[] = {"faster-whisper-", "faster-distil-whisper-", "whisper-"};
    const char *slash = strrchr(name, '/');
    name = slash ? slash + 1 : name;
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return name + strlen(prefixes[i]);
    return name;
}

int names_match(const char *id, const char *name) {
    return !strcmp(id, name) || !strcmp(without_prefix(id), without_prefix(name));
}

void names_id_of(const char *model, char *id, size_t size) {
    static const char *const endings[] = {".pt", ".bin", ".safetensors", ".gguf"};
    struct stat info;
    size_t n = strlen(model);
    while (n > 1 && model[n - 1] == '/')
        n--;
    snprintf(id, size, "%.*s", (int)n, model);
    if (!strchr(model, '/') || stat(model, &info))
        return;
    const char *slash = strrchr(id, '/');
    if (slash)
        memmove(id, slash + 1, strlen(slash + 1) + 1);
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t length = strlen(id), ending = strlen(endings[i]);
        if (length > ending && !strcmp(id + length - ending, endings[i]))
            id[length - ending] = 0;
    }
}
