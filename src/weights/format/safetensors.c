/* weights/format/safetensors.c - Hugging Face's safetensors: a length, a JSON header with the offsets of each tensor,
 * bytes. Tensors become views of the mapped file, under any names.
 * Invariants of a file that was read: every tensor is inside the file and has as many bytes as its shape requires;
 * tensors neither overlap nor leave gaps. */
#include <stdlib.h>
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/format/json.h"
#include "weights/store.h"

#define MAX_HEADER_BYTES (100u << 20)   /* as in the reference implementation */
#define METADATA "__metadata__"

static const struct type {
    const char *name;
    mxw_dtype dtype;
    const char *stored;    /* where ours is not the file's, but has its bytes */
} types[] = {
    {"F32", MXW_F32, NULL}, {"F16", MXW_F16, NULL}, {"BF16", MXW_BF16, NULL},   {"F64", MXW_F64, NULL},
    {"I64", MXW_I64, NULL}, {"I32", MXW_I32, NULL}, {"U32", MXW_I32, MX_U32},   {"I8", MXW_I8, NULL},
    {"U8", MXW_U8, NULL},   {"BOOL", MXW_U8, NULL}, {"F8_E4M3", MXW_U8, MX_F8},
};

/* A tensor's bytes, counted from the end of the header. */
typedef struct span {
    uint64_t begin, end;
    const char *name;
} span;

static mx_shown shown(const char *name) { return mx_show(name, strlen(name)); }

/* ---- one entry of the header ------------------------------------------------------------------------ */

static mxw_status read_type(const char *name, const json_t *entry, const struct type **type) {
    const json_t *text = json_object_get(entry, "dtype");
    if (!json_is_string(text))
        return mx_fail(MXW_E_FORMAT, "tensor %s has no dtype", shown(name).text);
    for (size_t i = 0; i < MX_COUNT(types); i++)
        if (strcmp(types[i].name, json_string_value(text)) == 0) {
            *type = &types[i];
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
    const struct type *type = NULL;
    mx_tensor view;
    uint64_t bytes = 0;
    mx_raw *raw;
    mxw_status status;
    if (!json_is_object(entry))
        return mx_fail(MXW_E_FORMAT, "tensor %s: its entry is not an object", shown(name).text);
    MX_TRY(read_type(name, entry, &type));
    MX_TRY(read_shape(name, entry, type->dtype, &view, &bytes));
    MX_TRY(read_span(name, entry, bytes, n_data, s));
    view = mx_tensor_of_const(type->dtype, view.rank, view.dims, data + s->begin);
    MX_TRY(mx_raw_add(w, name, strlen(name), &view, &raw));
    raw->mapped = 1;
    raw->stored = type->stored;
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

static mxw_status read_safetensors(mx_weights *w, const uint8_t *bytes, size_t n) {
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

static int probe(const uint8_t *bytes, size_t n) {
    return n > 8 && bytes[8] == '{' && mx_little(bytes, 8) < (uint64_t)1 << 40;
}

const mx_format mx_format_safetensors = {
    .label = "Hugging Face safetensors",
    .naming = &mx_names_hf_bare,
    .probe = probe,
    .read = read_safetensors,
};
