/* weights/released.c - the released models, from sizes.def. */
#include <string.h>

#include "weights/weights.h"

#define N_AUDIO_CTX 1500
#define N_TEXT_CTX 448

static const mx_released released[] = {
#define MX_SIZE(name_, alias_, mels, vocab, state, heads_, audio_layers, text_layers, ...)                             \
    {.name = name_,                                                                                                    \
     .alias = alias_,                                                                                                  \
     .dims = {.n_mels = mels, .n_audio_ctx = N_AUDIO_CTX, .n_audio_state = state, .n_audio_head = heads_,              \
              .n_audio_layer = audio_layers, .n_vocab = vocab, .n_text_ctx = N_TEXT_CTX, .n_text_state = state,        \
              .n_text_head = heads_, .n_text_layer = text_layers},                                                     \
     .heads = (const int32_t[][2]){__VA_ARGS__}},
#include "weights/sizes.def"
#undef MX_SIZE
};

const mx_released *mx_released_get(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(released) ? &released[index] : NULL;
}

const mx_released *mx_released_find(const char *name) {
    for (size_t i = 0; i < MX_COUNT(released); i++)
        if (strcmp(released[i].name, name) == 0 || (released[i].alias && strcmp(released[i].alias, name) == 0))
            return &released[i];
    return NULL;
}

/* The last part of the path without .pt, or its folder's name for a model.bin. */
static int path_says(const char *path, const char *name) {
    size_t n = strlen(path), name_n = strlen(name);
    const char *end = path + n;
    if (n > 3 && strcmp(end - 3, ".pt") == 0)
        end -= 3;
    else if (n > 10 && strcmp(end - 10, "/model.bin") == 0)
        end -= 10;
    return (size_t)(end - path) >= name_n && memcmp(end - name_n, name, name_n) == 0 &&
           (end - name_n == path || end[-(ptrdiff_t)name_n - 1] == '/');
}

const mx_released *mx_released_match(const mxw_dims *dims, const char *path) {
    const mx_released *found = NULL;
    for (size_t i = 0; i < MX_COUNT(released); i++) {
        if (memcmp(&released[i].dims, dims, sizeof(*dims)) != 0)
            continue;
        if (path_says(path, released[i].name))
            return &released[i];
        found = &released[i];
    }
    return found;
}
