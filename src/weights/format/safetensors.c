/* weights/format/safetensors.c - Hugging Face's safetensors: a length, a JSON header with the offsets of each tensor,
 * bytes. One file, or several that model.safetensors.index.json lists. Tensors become views of the mapped files.
 * Invariants of a file that was read: every tensor is inside the file and has as many bytes as its shape requires;
 * tensors neither overlap nor leave gaps. */
#include <stdlib.h>
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/format/json.h"
#include "weights/store.h"

#define MAX_HEADER_BYTES (100u << 20)   /* as in the reference implementation */
#define MAX_INDEX_BYTES (16u << 20)
#define MAX_SHARDS 1000
#define METADATA "__metadata__"

static const struct {
    const char *name;
    mxw_dtype dtype;
} types[] = {
    {"F32", MXW_F32}, {"F16", MXW_F16}, {"BF16", MXW_BF16}, {"F64", MXW_F64},
    {"I64", MXW_I64}, {"I32", MXW_I32}, {"I8", MXW_I8}, {"U8", MXW_U8}, {"BOOL", MXW_U8},
};

/* A tensor's bytes, counted from the end of the header. */
typedef struct span {
    uint64_t begin, end;
    const char *name;
} span;

static mx_shown shown(const char *name) { return mx_show(name, strlen(name)); }

/* ---- one entry of the header ------------------------------------------------------------------------ */

static mxw_status read_type(const char *name, const json_t *entry, mxw_dtype *dtype) {
    const json_t *text = json_object_get(entry, "dtype");
    if (!json_is_string(text))
        return mx_fail(MXW_E_FORMAT, "tensor %s has no dtype", shown(name).text);
    for (size_t i = 0; i < MX_COUNT(types); i++)
        if (strcmp(types[i].name, json_string_value(text)) == 0) {
            *dtype = types[i].dtype;
            return MXW_OK;
        }
    return mx_fail(MXW_E_UNSUPPORTED, "tensor %s is of type %s, which is not read", shown(name).text,
                   mx_show(json_string_value(text), json_string_length(text)).text);
}

static mxw_status read_shape(const char *name, const json_t *entry, mxw_dtype dtype, mx_tensor *view, uint64_t *bytes) {
    const json_t *shape = json_object_get(entry, "shape");
    size_t rank = json_array_size(shape);
    int64_t dims[MX_MAX_RANK] = {0};
    if (!json_is_array(shape) || rank > MX_MAX_RANK)
        return mx_fail(MXW_E_FORMAT, "tensor %s: its shape is not a list of at most %d sizes", shown(name).text,
                       MX_MAX_RANK);
    *bytes = mx_dtype_bytes(dtype);
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 1)
            return mx_fail(MXW_E_FORMAT, "tensor %s: size %zu is not a positive whole number", shown(name).text, i);
        dims[i] = json_integer_value(size);
        if (__builtin_mul_overflow(*bytes, (uint64_t)dims[i], bytes) || *bytes > INT64_MAX / 16)
            return mx_fail(MXW_E_FORMAT, "tensor %s is too large", shown(name).text);
    }
    *view = mx_tensor_of(dtype, (int)rank, dims, NULL);
    return MXW_OK;
}

static mxw_status read_span(const char *name, const json_t *entry, uint64_t bytes, uint64_t n_data, span *s) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return mx_fail(MXW_E_FORMAT, "tensor %s: data_offsets is not [begin, end]", shown(name).text);
    *s = (span){(uint64_t)json_integer_value(begin), (uint64_t)json_integer_value(end), name};
    if (s->end - s->begin != bytes)
        return mx_fail(MXW_E_FORMAT, "tensor %s has %llu bytes; its shape and type require %llu", shown(name).text,
                       (unsigned long long)(s->end - s->begin), (unsigned long long)bytes);
    if (s->end > n_data)
        return mx_fail(MXW_E_FORMAT, "the file is truncated: tensor %s ends at byte %llu of the data, %llu are there",
                       shown(name).text, (unsigned long long)s->end, (unsigned long long)n_data);
    return MXW_OK;
}

static mxw_status read_entry(mx_weights *w, const char *name, const json_t *entry, const uint8_t *data, uint64_t n_data,
                             span *s) {
    mxw_dtype dtype = MXW_F32;
    mx_tensor view;
    uint64_t bytes = 0;
    mx_raw *raw;
    mxw_status status;
    if (!json_is_object(entry))
        return mx_fail(MXW_E_FORMAT, "tensor %s: its entry is not an object", shown(name).text);
    MX_TRY(read_type(name, entry, &dtype));
    MX_TRY(read_shape(name, entry, dtype, &view, &bytes));
    MX_TRY(read_span(name, entry, bytes, n_data, s));
    view = mx_tensor_of_const(dtype, view.rank, view.dims, data + s->begin);
    MX_TRY(mx_raw_add(w, name, strlen(name), &view, &raw));
    raw->mapped = 1;
out:
    return status;
}

/* ---- the whole file ----------------------------------------------------------------------------------- */

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* Tensors must cover the data without gaps or overlaps. */
static mxw_status check_spans(span *spans, size_t n, uint64_t n_data) {
    uint64_t at = 0;
    if (n)
        qsort(spans, n, sizeof(*spans), compare_spans);
    for (size_t i = 0; i < n; i++) {
        if (spans[i].begin < at)
            return mx_fail(MXW_E_FORMAT, "tensor %s overlaps tensor %s", shown(spans[i].name).text,
                           shown(spans[i - 1].name).text);
        if (spans[i].begin > at)
            return mx_fail(MXW_E_FORMAT, "%llu bytes before tensor %s belong to no tensor",
                           (unsigned long long)(spans[i].begin - at), shown(spans[i].name).text);
        at = spans[i].end;
    }
    if (at != n_data)
        return mx_fail(MXW_E_FORMAT, "%llu bytes too many at the end", (unsigned long long)(n_data - at));
    return MXW_OK;
}

static mxw_status check_metadata(json_t *metadata) {
    const char *key;
    const json_t *value;
    if (!json_is_object(metadata))
        return mx_fail(MXW_E_FORMAT, METADATA " is not an object");
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return mx_fail(MXW_E_FORMAT, METADATA ": %s is not a text", shown(key).text);
    return MXW_OK;
}

static mxw_status read_entries(mx_weights *w, json_t *header, const uint8_t *data, uint64_t n_data) {
    mxw_status status = MXW_OK;
    const char *name;
    json_t *entry;
    size_t n = 0;
    span *spans = mx_alloc_array(json_object_size(header), sizeof(*spans));
    if (!spans)
        return MXW_E_MEMORY;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, METADATA) == 0)
            MX_TRY(check_metadata(entry));
        else
            MX_TRY(read_entry(w, name, entry, data, n_data, &spans[n++]));
    }
    MX_TRY(check_spans(spans, n, n_data));
out:
    mx_free(spans);
    return status;
}

mxw_status mx_safetensors_read(mx_weights *w, const uint8_t *bytes, size_t n) {
    mx_cursor c = {bytes, n, 0};
    int ok = 1;
    json_t *header = NULL;
    uint64_t header_n = mx_cursor_number(&c, 8, &ok);
    if (ok && header_n > MAX_HEADER_BYTES)
        return mx_fail(MXW_E_FORMAT, "a header of %llu bytes; %u are the most", (unsigned long long)header_n,
                       MAX_HEADER_BYTES);
    const uint8_t *text = ok ? mx_cursor_take(&c, (size_t)header_n) : NULL;
    if (!text)
        return mx_fail(MXW_E_FORMAT, "the file is truncated in its header");
    /* A duplicate name could be resolved differently by other programs. */
    mxw_status status = mx_json_load_object(text, (size_t)header_n, MAX_HEADER_BYTES, JSON_REJECT_DUPLICATES, &header);
    if (status < 0)
        return mx_fail_in(status, "header");
    status = read_entries(w, header, bytes + c.at, mx_cursor_left(&c));
    json_decref(header);
    return status;
}

/* ---- several files ------------------------------------------------------------------------------------ */

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
        w->n_shards++;
        status = mx_safetensors_read(w, map->data, map->n);
        if (status < 0)
            mx_fail_in(status, "%s", shown(name).text);
    }
    mx_str_free(&path);
    return status;
}

/* ---- the format's table ------------------------------------------------------------------------------- */

/* The names of a WhisperForConditionalGeneration begin with "model.", those of a WhisperModel do not. */
static void choose_names(mx_weights *w) {
    w->format = &mx_format_safetensors_bare;
    for (size_t i = 0; i < w->n_raws; i++)
        if (strncmp(w->raws[i].name, "model.", 6) == 0)
            w->format = &mx_format_safetensors;
}

static mxw_status read_one(mx_weights *w) {
    mxw_status status = mx_safetensors_read(w, w->bytes, w->n_bytes);
    choose_names(w);
    return status;
}

static mxw_status read_index(mx_weights *w) {
    mx_shard_list list;
    mxw_status status = mx_shards_parse(w->bytes, w->n_bytes, &w->arena, &list);
    if (status < 0)
        return status;
    if (!w->map.data)
        return mx_fail(MXW_E_UNSUPPORTED, "an index in memory has no files beside it");
    w->shards = mx_arena_alloc(&w->arena, list.n * sizeof(*w->shards));
    if (!w->shards)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < list.n && status == MXW_OK; i++)
        status = read_shard(w, list.names[i]);
    choose_names(w);
    return status;
}

static int probe_one(const uint8_t *bytes, size_t n) {
    return n > 8 && bytes[8] == '{' && mx_little(bytes, 8) < (uint64_t)1 << 40;
}

static int probe_index(const uint8_t *bytes, size_t n) {
    size_t i = 0;
    while (i < n && (bytes[i] == ' ' || bytes[i] == '\n' || bytes[i] == '\r' || bytes[i] == '\t'))
        i++;
    return i < n && bytes[i] == '{';
}

static void source_bare(const char *pattern, int layer, mx_tensor_source *source) {
    static const struct {
        const char *canonical, *name;
    } names[] = {
#define MX_HF(canonical, name) {canonical, name},
#define MX_HF_ZERO(side, name)
#include "weights/names/hf.def"
#undef MX_HF
#undef MX_HF_ZERO
    };
    *source = (mx_tensor_source){.parts = 1};
    for (size_t i = 0; i < MX_COUNT(names); i++)
        if (strcmp(names[i].canonical, pattern) == 0)
            mx_arch_name(names[i].name, layer, source->name, sizeof(source->name));
}

static void source_model(const char *pattern, int layer, mx_tensor_source *source) {
    mx_tensor_source bare;
    source_bare(pattern, layer, &bare);
    *source = (mx_tensor_source){.parts = 1};
    snprintf(source->name, sizeof(source->name), "model.%.150s", bare.name);
}

static mxw_status check_zeros(mx_weights *w, const char *prefix) {
    enum { ENCODER, DECODER };
    static const struct {
        int side;
        const char *name;
    } zeros[] = {
#define MX_HF(canonical, name)
#define MX_HF_ZERO(side, name) {side, name},
#include "weights/names/hf.def"
#undef MX_HF
#undef MX_HF_ZERO
    };
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(zeros); i++) {
        int layers = zeros[i].side == ENCODER ? w->dims.n_audio_layer : w->dims.n_text_layer;
        for (int layer = 0; layer < layers && status == MXW_OK; layer++) {
            mx_tensor_source source = {.parts = 1};
            char name[120];
            mx_arch_name(zeros[i].name, layer, name, sizeof(name));
            snprintf(source.name, sizeof(source.name), "%s%s", prefix, name);
            mx_raw *raw = mx_raw_find(w, source.name);
            status = raw ? mx_rule_zero_bias(raw, &source) : MXW_OK;
        }
    }
    return status;
}

static mxw_status check_safetensors(mx_weights *w) {
    int bare = w->format == &mx_format_safetensors_bare;
    mxw_status status;
    MX_TRY(check_zeros(w, bare ? "" : "model."));
    MX_TRY(mx_rule_tied(w, bare ? "decoder.embed_tokens.weight" : "model.decoder.embed_tokens.weight",
                        "proj_out.weight"));
    MX_TRY(mx_hf_config_check(w));
out:
    return status;
}

#define LABEL "Hugging Face safetensors"

const mx_format mx_format_safetensors = {
    .label = LABEL,
    .encoder_layer = "model.encoder.layers.",
    .decoder_layer = "model.decoder.layers.",
    .probe = probe_one,
    .read = read_one,
    .settle = mx_hf_config_load,
    .source = source_model,
    .check = check_safetensors,
};

const mx_format mx_format_safetensors_bare = {
    .label = LABEL,
    .encoder_layer = "encoder.layers.",
    .decoder_layer = "decoder.layers.",
    .probe = probe_one,
    .read = read_one,
    .settle = mx_hf_config_load,
    .source = source_bare,
    .check = check_safetensors,
};

const mx_format mx_format_safetensors_index = {
    .label = LABEL,
    .probe = probe_index,
    .read = read_index,
    .source = source_model,
};
