/* hub/listing.c - selects the files of a repository that make up the model, from the hub's listing (api/models,
 * blobs). */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "hub/internal.h"

#define WHOLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define MODEL_BIN "model.bin"
#define MAX_FILES 1000

/* Small files that belong to a model, if the repository has them. */
static const char *const beside[] = {"config.json", "generation_config.json", "vocab.json"};
static const char *const beside_bin[] = {"config.json", "vocabulary.json", "vocabulary.txt"};

static const char *name_of(const json_t *sibling) { return json_string_value(json_object_get(sibling, "rfilename")); }

static int has(const json_t *siblings, const char *name) {
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        const char *other = name_of(json_array_get(siblings, i));
        if (other && strcmp(other, name) == 0)
            return 1;
    }
    return 0;
}

static int is_shard(const char *name) {
    int of, n, end = 0;
    return sscanf(name, "model-%d-of-%d.safetensors%n", &n, &of, &end) == 2 && end && !name[end];
}

enum form { FORM_WHOLE, FORM_SHARDS, FORM_BIN };

static int wanted(const char *name, enum form form) {
    const char *const *small = form == FORM_BIN ? beside_bin : beside;
    for (size_t i = 0; i < MX_COUNT(beside); i++)
        if (strcmp(small[i], name) == 0)
            return 1;
    if (form == FORM_BIN)
        return strcmp(name, MODEL_BIN) == 0;
    return form == FORM_WHOLE ? strcmp(name, WHOLE) == 0 : strcmp(name, INDEX) == 0 || is_shard(name);
}

static int hexadecimal(const char *text, size_t n) {
    if (!text || strlen(text) != n)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
            return 0;
    return 1;
}

static mxw_status add_file(const json_t *sibling, mx_arena *arena, mx_hub_list *list) {
    const json_t *lfs = json_object_get(sibling, "lfs"), *size = json_object_get(lfs, "size");
    const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
    mx_hub_file *file = &list->files[list->n++];
    file->name = mx_arena_strdup(arena, name_of(sibling));
    if (!file->name)
        return MXW_E_MEMORY;
    if (json_is_object(lfs) && !hexadecimal(sha256, 64))
        return mx_fail(MXW_E_FORMAT, "the SHA-256 of %s is invalid", file->name);
    if (!json_is_integer(size))
        size = json_object_get(sibling, "size");
    if (size && (!json_is_integer(size) || json_integer_value(size) < 0 ||
                 json_integer_value(size) > (json_int_t)1 << 45))
        return mx_fail(MXW_E_FORMAT, "the size of %s is invalid", file->name);
    file->sized = size != NULL;
    file->size = (uint64_t)json_integer_value(size);
    list->bytes += file->size;
    file->sha256 = sha256 ? mx_arena_strdup(arena, sha256) : NULL;
    return sha256 && !file->sha256 ? MXW_E_MEMORY : MXW_OK;
}

static mxw_status choose(const json_t *siblings, int model_bin, mx_arena *arena, mx_hub_list *list) {
    enum form form = FORM_BIN;
    if (!model_bin && has(siblings, WHOLE))
        form = FORM_WHOLE;
    else if (!model_bin && has(siblings, INDEX))
        form = FORM_SHARDS;
    else if (!has(siblings, MODEL_BIN))
        return mx_fail(MXW_E_UNSUPPORTED, model_bin ? "the repository has no " MODEL_BIN
                                                    : "the repository has neither " WHOLE " nor " MODEL_BIN);
    for (size_t i = 0; i < json_array_size(siblings); i++) {
        const char *name = name_of(json_array_get(siblings, i));
        if (!name || !wanted(name, form))
            continue;
        mxw_status status = add_file(json_array_get(siblings, i), arena, list);
        if (status < 0)
            return status;
    }
    return MXW_OK;
}

mxw_status mx_hub_list_parse(const uint8_t *bytes, size_t n, int model_bin, mx_arena *arena, mx_hub_list *list) {
    json_error_t error;
    *list = (mx_hub_list){0};
    json_t *root = json_loadb((const char *)bytes, n, 0, &error);
    const json_t *siblings = json_object_get(root, "siblings");
    const char *commit = json_string_value(json_object_get(root, "sha"));
    mxw_status status = MXW_OK;
    if (!json_is_array(siblings) || json_array_size(siblings) > MAX_FILES)
        status = mx_fail(MXW_E_FORMAT, "the hub's response is not a file list");
    if (status == MXW_OK) {
        list->files = mx_arena_alloc(arena, (json_array_size(siblings) + 1) * sizeof(*list->files));
        status = list->files ? choose(siblings, model_bin, arena, list) : MXW_E_MEMORY;
    }
    if (status == MXW_OK && hexadecimal(commit, 40))
        snprintf(list->commit, sizeof(list->commit), "%s", commit);
    json_decref(root);
    return status;
}
