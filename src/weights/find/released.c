/* weights/find/released.c - the released models, from sizes.def. */
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
#include "weights/find/sizes.def"
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

/* ---- where they are published -------------------------------------------------------------------- */

enum {
    HUGGING_FACE = MX_BY_HUGGING_FACE,
    FASTER_WHISPER = MX_BY_FASTER_WHISPER,
    TRANSCRIBE_CPP = MX_BY_TRANSCRIBE_CPP,
    MLX = MX_BY_MLX,
};

static const struct {
    const char *name;
    int who;
    const char *repository;
} repositories[] = {
#define MX_PT(name, sha256)
#define MX_REPO(name, who, repository) {name, who, repository},
#include "weights/find/published.def"
#undef MX_PT
#undef MX_REPO
};

const char *mx_released_repository(const mx_released *r, mx_publisher by, int which) {
    for (size_t i = 0; i < MX_COUNT(repositories); i++)
        if (repositories[i].who == (int)by && strcmp(repositories[i].name, r->name) == 0 && which-- == 0)
            return repositories[i].repository;
    return NULL;
}

const char *mx_released_sha256(const mx_released *r) {
    static const struct {
        const char *name, *sha256;
    } files[] = {
#define MX_PT(name, sha256) {name, sha256},
#define MX_REPO(name, who, repository)
#include "weights/find/published.def"
#undef MX_PT
#undef MX_REPO
    };
    for (size_t i = 0; i < MX_COUNT(files); i++)
        if (strcmp(files[i].name, r->name) == 0)
            return files[i].sha256;
    return NULL;
}

/* ---- the model that a path names ------------------------------------------------------------------- */

/* The part of a path that can name its model: without .pt, or of ggml-NAME.bin, or of NAME-F16.gguf, or the folder of a
 * model.bin or model.safetensors, or the folder above the snapshot in a hub cache. */
static void naming_part(const char *path, const char **part, size_t *n) {
    static const char *const leaves[] = {".pt", "/model.bin", "/model.safetensors", "/model.safetensors.index.json",
                                         ".bin", ".gguf"};
    const char *end = path + strlen(path);
    for (size_t i = 0; i < MX_COUNT(leaves); i++) {
        size_t m = strlen(leaves[i]);
        if ((size_t)(end - path) > m && strcmp(end - m, leaves[i]) == 0) {
            end -= m;
            break;
        }
    }
    int ggml = strcmp(end, ".bin") == 0, gguf = strcmp(end, ".gguf") == 0;
    const char *snapshots = ggml || gguf ? NULL : strstr(path, "/snapshots/");
    if (snapshots && snapshots < end && !memchr(snapshots + 11, '/', (size_t)(end - snapshots) - 11))
        end = snapshots;
    *part = end;
    while (*part > path && (*part)[-1] != '/')
        (*part)--;
    if (ggml && strncmp(*part, "ggml-", 5) == 0)
        *part += 5;
    for (const char *dash = end; gguf && dash > *part; dash--)   /* the type: -F16, -Q5_K_M */
        if (*dash == '-') {
            end = strchr("BFQ", dash[1]) ? dash : end;
            break;
        }
    *n = (size_t)(end - *part);
}

/* The model's name, or a repository of it: as OWNER/NAME in two folders, OWNER--NAME, or NAME alone. */
static int path_names(const char *path, const mx_released *r) {
    const char *part;
    size_t n;
    naming_part(path, &part, &n);
    size_t name_n = strlen(r->name);   /* or "large-v1-q5_0" */
    if (n >= name_n && memcmp(part, r->name, name_n) == 0 && (n == name_n || strncmp(part + name_n, "-q", 2) == 0))
        return 1;
    for (size_t i = 0; i < MX_COUNT(repositories); i++) {
        if (strcmp(repositories[i].name, r->name) != 0)
            continue;
        const char *leaf = strchr(repositories[i].repository, '/') + 1;
        size_t leaf_n = strlen(leaf);
        if (n >= leaf_n && memcmp(part + n - leaf_n, leaf, leaf_n) == 0 &&
            (n == leaf_n || (n > leaf_n + 2 && memcmp(part + n - leaf_n - 2, "--", 2) == 0)))
            return 1;
    }
    return 0;
}

const mx_released *mx_released_match(const mxw_dims *dims, const char *path) {
    const mx_released *found = NULL;
    for (size_t i = 0; i < MX_COUNT(released); i++) {
        if (memcmp(&released[i].dims, dims, sizeof(*dims)) != 0)
            continue;
        if (path_names(path, &released[i]))
            return &released[i];
        found = &released[i];
    }
    return found;
}
