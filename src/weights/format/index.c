/* weights/format/index.c - model.safetensors.index.json, pytorch_model.bin.index.json: the files of a checkpoint that
 * is in several, each tensor with its file. The files must lie in the index's own folder; what they are is told by
 * their content. */
#include <stdlib.h>
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/format/json.h"
#include "weights/store.h"

#define MAX_INDEX_BYTES (16u << 20)
#define MAX_SHARDS 1000

static mx_shown shown(const char *name) { return mx_show(name, strlen(name)); }

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A plain file name: nothing that leads out of the index's folder. */
static int plain_name(const json_t *value) {
    const char *name = json_string_value(value);
    return name && *name && *name != '.' && strlen(name) == json_string_length(value) && strlen(name) < 256 &&
           !strchr(name, '/');
}

/* Sorts the names, drops duplicates, and copies the rest to the arena. */
static mxw_status keep_names(const char **names, size_t n, mx_arena *arena, mx_shard_list *list) {
    qsort(names, n, sizeof(*names), compare_names);
    list->names = mx_arena_alloc(arena, n * sizeof(*names));
    if (!list->names)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (i && strcmp(names[i - 1], names[i]) == 0)
            continue;
        if (list->n == MAX_SHARDS)
            return mx_fail(MXW_E_FORMAT, "weight_map names more than %d files", MAX_SHARDS);
        list->names[list->n] = mx_arena_strdup(arena, names[i]);
        if (!list->names[list->n++])
            return MXW_E_MEMORY;
    }
    return MXW_OK;
}

mxw_status mx_shards_parse(const uint8_t *bytes, size_t n, mx_arena *arena, mx_shard_list *list) {
    json_t *root = NULL, *map, *value;
    const char *tensor, **names = NULL;
    size_t count = 0;
    mxw_status status;
    *list = (mx_shard_list){0};
    MX_TRY(mx_json_load_object(bytes, n, MAX_INDEX_BYTES, JSON_REJECT_DUPLICATES, &root));
    map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        MX_TRY(mx_fail(MXW_E_FORMAT, "no weight_map: neither a checkpoint nor the index of one"));
    names = mx_alloc_array(json_object_size(map), sizeof(*names));
    if (!names)
        MX_TRY(MXW_E_MEMORY);
    json_object_foreach(map, tensor, value) {
        if (!plain_name(value))
            MX_TRY(mx_fail(MXW_E_FORMAT, "weight_map: %s is in no file of this folder", shown(tensor).text));
        names[count++] = json_string_value(value);
    }
    MX_TRY(keep_names(names, count, arena, list));
out:
    mx_free(names);
    json_decref(root);
    return status;
}

static mxw_status read_shard(mx_weights *w, const char *name) {
    mx_str path = {0};
    mx_map *map = &w->shards[w->n_shards];
    mxw_status status = mx_open_beside(w, name, &path, map);
    if (status == MXW_OK) {
        const char *kept = w->shard_paths[w->n_shards++] = mx_arena_strdup(&w->arena, mx_str_get(&path));
        const mx_format *format = mx_format_pt.probe(map->data, map->n) ? &mx_format_pt : &mx_format_safetensors;
        w->format = format;
        status = kept ? format->read(w, map->data, map->n) : MXW_E_MEMORY;
        if (status < 0)
            mx_fail_in(status, "%s", shown(name).text);
    }
    mx_str_free(&path);
    return status;
}

static mxw_status read_index(mx_weights *w, const uint8_t *bytes, size_t n) {
    mx_shard_list list;
    mxw_status status = mx_shards_parse(bytes, n, &w->arena, &list);
    if (status < 0)
        return status;
    if (!w->map.data)
        return mx_fail(MXW_E_UNSUPPORTED, "an index in memory has no files beside it");
    w->shards = mx_arena_alloc(&w->arena, list.n * sizeof(*w->shards));
    w->shard_paths = mx_arena_alloc(&w->arena, list.n * sizeof(*w->shard_paths));
    if (!w->shards || !w->shard_paths)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < list.n && status == MXW_OK; i++)
        status = read_shard(w, list.names[i]);
    return status;
}

static int probe_index(const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && (bytes[i] == ' ' || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t'))
        i++;
    return i < n && bytes[i] == '{';
}

const mx_format mx_format_index = {
    .label = "Hugging Face index",
    .naming = &mx_names_hf_bare,
    .probe = probe_index,
    .read = read_index,
};
