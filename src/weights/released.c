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
