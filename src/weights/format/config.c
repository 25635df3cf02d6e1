/* weights/format/config.c - JSON, and the files beside a model.bin: config.json (alignment heads), the vocabulary (its
 * size). config.json's lang_ids are not read: published ones are wrong for .en models; ids follow from the
 * vocabulary. */
#include <string.h>

#include "base/log.h"
#include "weights/format/cursor.h"
#include "weights/format/json.h"
#include "weights/store.h"

#define MAX_HEADS 4096
#define MAX_TWICE_BYTES (512u << 10)
#define MAX_VOCABULARY_BYTES (64u << 20)

static mxw_status no_memory(void) { return mx_fail(MXW_E_MEMORY, "out of memory (JSON)"); }

/* jansson's lexer ignores a failed allocation and goes on without the character that did not fit, so "not JSON" may
 * mean that. A second read then gives a different result. */
mxw_status mx_json_load(const uint8_t *bytes, size_t n, size_t flags, json_t **root) {
    json_error_t error;
    *root = json_loadb((const char *)bytes, n, JSON_ALLOW_NUL | flags, &error);
    if (*root)
        return MXW_OK;
    if (!error.text[0] || json_error_code(&error) == json_error_out_of_memory)
        return no_memory();   /* jansson reports most of these without a text */
    json_error_t again;
    json_t *other = json_loadb((const char *)bytes, n, JSON_ALLOW_NUL | flags, &again);
    int same = !other && error.position == again.position && strcmp(error.text, again.text) == 0;
    json_decref(other);
    if (!same)
        return no_memory();
    return mx_fail(MXW_E_FORMAT, "line %d: not JSON (%s)", error.line, mx_show(error.text, strlen(error.text)).text);
}

/* For the same reason settings and headers are parsed twice: a number may have lost a digit. Vocabularies are larger
 * than the limit and are only counted. */
static mxw_status read_twice(const uint8_t *bytes, size_t n, size_t flags, json_t **root) {
    json_t *other = NULL;
    mxw_status status = mx_json_load(bytes, n, flags, root);
    if (status < 0 || n > MAX_TWICE_BYTES)
        return status;
    status = mx_json_load(bytes, n, flags, &other);
    if (status == MXW_OK && !json_equal(*root, other))
        status = no_memory();
    json_decref(other);
    if (status < 0) {
        json_decref(*root);
        *root = NULL;
    }
    return status;
}

mxw_status mx_json_load_object(const uint8_t *bytes, size_t n, size_t max, size_t flags, json_t **root) {
    *root = NULL;
    if (n > max)
        return mx_fail(MXW_E_FORMAT, "%zu bytes are too many", n);
    mxw_status status = read_twice(bytes, n, flags, root);
    if (status < 0 || json_is_object(*root))
        return status;
    json_decref(*root);
    *root = NULL;
    return mx_fail(MXW_E_FORMAT, "not a JSON object");
}

static int in_range(const json_t *number, int32_t limit) {
    return json_is_integer(number) && json_integer_value(number) >= 0 && json_integer_value(number) < limit;
}

mxw_status mx_heads_take(mx_weights *w, size_t n, const int32_t (*heads)[2]) {
    int foreign = 0;
    for (size_t i = 0; i < n; i++) {
        if (heads[i][0] < 0 || heads[i][1] < 0 || heads[i][1] >= w->dims.n_text_head)
            return mx_fail(MXW_E_FORMAT, "alignment_heads: item %zu is not a [layer, head] of this model", i);
        foreign |= heads[i][0] >= w->dims.n_text_layer;
    }
    if (foreign) {   /* distilled models were published with their teacher's list, which has more layers */
        mx_log(MXW_LOG_WARN, "weights", "%s: alignment_heads is that of a model with more layers; it is not used",
               w->path);
        return MXW_OK;
    }
    w->heads = heads;
    w->n_heads = n;
    return MXW_OK;
}

static mxw_status read_heads(const json_t *list, mx_weights *w) {
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > MAX_HEADS)
        return mx_fail(MXW_E_FORMAT, "alignment_heads is not a list of [layer, head]");
    int32_t(*heads)[2] = mx_arena_alloc(&w->arena, n * sizeof(*heads));
    if (!heads)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        const json_t *layer = json_array_get(pair, 0), *head = json_array_get(pair, 1);
        int sound = json_array_size(pair) == 2 && in_range(layer, INT32_MAX) && in_range(head, INT32_MAX);
        heads[i][0] = sound ? (int32_t)json_integer_value(layer) : -1;
        heads[i][1] = sound ? (int32_t)json_integer_value(head) : -1;
    }
    return mx_heads_take(w, n, (const int32_t(*)[2])heads);
}

mxw_status mx_config_parse(const uint8_t *bytes, size_t n, mx_weights *w) {
    json_t *root = NULL;
    mxw_status status = mx_json_load_object(bytes, n, MX_CONFIG_BYTES, 0, &root);
    const json_t *heads = json_object_get(root, "alignment_heads");
    if (status == MXW_OK && heads && !json_is_null(heads))
        status = read_heads(heads, w);
    json_decref(root);
    return status;
}

static mxw_status count_json(const uint8_t *bytes, size_t n, int64_t *count) {
    json_t *root = NULL;
    mxw_status status = mx_json_load(bytes, n, 0, &root);
    *count = (int64_t)json_array_size(root);
    for (int64_t i = 0; status == MXW_OK && i < *count; i++)
        if (!json_is_string(json_array_get(root, (size_t)i)))
            status = mx_fail(MXW_E_FORMAT, "item %lld is not a string", (long long)i);
    if (status == MXW_OK && !json_is_array(root))
        status = mx_fail(MXW_E_FORMAT, "not a list of tokens");
    json_decref(root);
    return status;
}

/* One token per line; the last line may lack its line break. */
static int64_t count_lines(const uint8_t *bytes, size_t n) {
    int64_t lines = n && bytes[n - 1] != '\n';
    for (size_t i = 0; i < n; i++)
        lines += bytes[i] == '\n';
    return lines;
}

mxw_status mx_vocabulary_count(const uint8_t *bytes, size_t n, int json, int64_t *count) {
    if (n > MAX_VOCABULARY_BYTES)
        return mx_fail(MXW_E_FORMAT, "%zu bytes are too many", n);
    if (json)
        return count_json(bytes, n, count);
    *count = count_lines(bytes, n);
    return MXW_OK;
}

mxw_status mx_open_beside(const mx_weights *w, const char *leaf, mx_str *path, mx_map *map) {
    const char *slash = strrchr(w->path, '/');
    mx_str_clear(path);
    mx_str_add(path, w->path, slash ? (size_t)(slash - w->path) + 1 : 0);
    mx_str_text(path, leaf);
    return mx_str_status(path) < 0 ? mx_str_status(path) : mx_map_open(mx_str_get(path), map);
}

mxw_status mx_with_beside(mx_weights *w, const char *leaf, void *user,
                          mxw_status (*use)(mx_weights *w, void *user, const mx_map *map)) {
    mx_str path = {0};
    mx_map map = {0};
    if (!w->map.data)
        return MXW_OK;
    mxw_status status = mx_open_beside(w, leaf, &path, &map);
    if (status == MXW_E_NOT_FOUND) {
        mx_log(MXW_LOG_DEBUG, "weights", "%s: not there", mx_str_get(&path));
        status = MXW_OK;
    } else if (status == MXW_OK) {
        status = use(w, user, &map);
        if (status < 0)
            mx_fail_in(status, "%s", leaf);
        mx_map_close(&map);
    }
    mx_str_free(&path);
    return status;
}

static mxw_status use_config(mx_weights *w, void *user, const mx_map *map) {
    (void)user;
    return mx_config_parse(map->data, map->n, w);
}

/* json: an int, whether it is a list, not lines. */
static mxw_status use_vocabulary(mx_weights *w, void *json, const mx_map *map) {
    int64_t count = 0;
    mxw_status status = mx_vocabulary_count(map->data, map->n, *(const int *)json, &count);
    if (status == MXW_OK && count != w->dims.n_vocab)
        return mx_fail(MXW_E_FORMAT, "%lld tokens, but the embedding has %d rows", (long long)count,
                       (int)w->dims.n_vocab);
    return status;
}

mxw_status mx_config_load(mx_weights *w) {
    int json = 1, lines = 0;
    mxw_status status;
    MX_TRY(mx_with_beside(w, "config.json", NULL, use_config));
    MX_TRY(mx_with_beside(w, "vocabulary.json", &json, use_vocabulary));
    MX_TRY(mx_with_beside(w, "vocabulary.txt", &lines, use_vocabulary));
out:
    return status;
}
