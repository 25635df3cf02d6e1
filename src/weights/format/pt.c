/* weights/format/pt.c - OpenAI's .pt and Hugging Face's pytorch_model.bin: a ZIP of one pickle (data.pkl) and one
 * entry per storage (data/KEY), written by torch.save; or a TorchScript module (.jit), which has code besides, and is
 * not run. Tensors become views of the storages, with PyTorch's offsets and strides, each checked against its
 * storage. */
#include <zlib.h>

#include "weights/format/cursor.h"
#include "weights/format/pickle.h"
#include "weights/store.h"
#include "weights/format/zip.h"

typedef struct reader {
    mx_weights *w;
    mx_arena arena;        /* the directory and the pickle's values: freed once the tensors are views */
    mx_zip zip;
    const char *prefix;    /* "archive/": the path before data.pkl */
    size_t prefix_n;
    mx_str name;           /* scratch */
} reader;

static mxw_status entry_bytes(reader *r, const char *name, size_t n, const uint8_t **data, uint64_t *size) {
    mx_str_clear(&r->name);
    mx_str_add(&r->name, r->prefix, r->prefix_n);
    mx_str_add(&r->name, name, n);
    if (mx_str_status(&r->name) < 0)
        return mx_str_status(&r->name);
    const mx_zip_entry *e = mx_zip_find(&r->zip, r->name.data, r->name.n);
    if (!e)
        return mx_fail(MXW_E_MISSING, "zip: entry %s is missing", mx_show(r->name.data, r->name.n).text);
    *size = e->size;
    return mx_zip_data(&r->zip, e, data);
}

/* data.pkl, in the folder that torch.save named after the file. */
static mxw_status find_pickle(reader *r, const uint8_t **data, uint64_t *size) {
    static const char leaf[] = "data.pkl";
    const size_t leaf_n = sizeof(leaf) - 1;
    const mx_zip_entry *found = NULL;
    for (size_t i = 0; i < r->zip.n_entries; i++) {
        const mx_zip_entry *e = &r->zip.entries[i];
        if (e->name_n < leaf_n || memcmp(e->name + e->name_n - leaf_n, leaf, leaf_n) != 0)
            continue;
        size_t prefix_n = e->name_n - leaf_n;
        if (prefix_n && (e->name[prefix_n - 1] != '/' || memchr(e->name, '/', prefix_n - 1)))
            continue;
        if (found)
            return mx_fail(MXW_E_FORMAT, "zip: more than one data.pkl");
        found = e;
    }
    if (!found)
        return mx_fail(MXW_E_FORMAT, "a zip file without data.pkl: not made by torch.save");
    r->prefix = found->name;
    r->prefix_n = found->name_n - leaf_n;
    *size = found->size;
    mxw_status status = mx_zip_data(&r->zip, found, data);
    if (status == MXW_OK && crc32_z(0, *data, (size_t)*size) != found->crc)
        return mx_fail(MXW_E_FORMAT, "data.pkl is damaged: its checksum differs");
    return status;
}

static mxw_status check_byte_order(reader *r) {
    static const char leaf[] = "byteorder";
    const uint8_t *data = NULL;
    uint64_t n = 0;
    mxw_status status = entry_bytes(r, leaf, sizeof(leaf) - 1, &data, &n);
    if (status == MXW_E_MISSING)   /* older files do not have it; all of them are little-endian */
        return MXW_OK;
    if (status == MXW_OK && (n != 6 || memcmp(data, "little", 6) != 0))
        return mx_fail(MXW_E_UNSUPPORTED, "byte order '%s'; only little-endian files are read",
                       mx_show(data, (size_t)n).text);
    return status;
}

/* The bytes of a storage: data/KEY, of exactly the size that its type and count require. */
static mxw_status storage_bytes(reader *r, const mx_pickle *storage, const char *tensor, const uint8_t **data) {
    const mx_pickle *key = storage->storage.key;
    char name[64];
    if (key->text.n > 40)
        return mx_fail(MXW_E_FORMAT, "tensor %s: storage key %s", tensor, mx_show(key->text.data, key->text.n).text);
    int n = snprintf(name, sizeof(name), "data/%.*s", (int)key->text.n, key->text.data);
    uint64_t size = 0, need;
    mxw_status status = entry_bytes(r, name, (size_t)n, data, &size);
    if (status < 0)
        return mx_fail_in(status, "tensor %s", tensor);
    if (__builtin_mul_overflow((uint64_t)storage->storage.n, mx_dtype_bytes(storage->storage.dtype), &need) ||
        need != size)
        return mx_fail(MXW_E_FORMAT, "tensor %s: storage %s holds %llu bytes, not %lld elements of %s", tensor,
                       mx_show(name, (size_t)n).text, (unsigned long long)size, (long long)storage->storage.n,
                       mx_dtype_name(storage->storage.dtype));
    return MXW_OK;
}

/* The last element must be inside the storage, and no element may be repeated (a stride of 0 would let a small file
 * claim any size). */
static int inside_storage(const mx_pickle_tensor *t) {
    int64_t last = t->offset, count = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t step;
        if (t->dims[i] == 0 || __builtin_mul_overflow(t->dims[i] - 1, t->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last) || __builtin_mul_overflow(count, t->dims[i], &count))
            return 0;
    }
    return last < t->storage->storage.n && count <= t->storage->storage.n;
}

static mxw_status add_tensor(reader *r, const char *key, size_t key_n, const mx_pickle_tensor *t) {
    mx_shown name = mx_show(key, key_n);
    if (memchr(key, 0, key_n))
        return mx_fail(MXW_E_FORMAT, "a tensor's name has a zero byte: %s", name.text);
    if (!inside_storage(t))
        return mx_fail(MXW_E_FORMAT, "tensor %s reaches past its storage", name.text);
    const uint8_t *data;
    mxw_status status = storage_bytes(r, t->storage, name.text, &data);
    if (status < 0)
        return status;
    mxw_dtype dtype = t->storage->storage.dtype;
    mx_tensor view = mx_tensor_of_const(dtype, t->rank, t->dims, data + (size_t)t->offset * mx_dtype_bytes(dtype));
    memcpy(view.strides, t->strides, sizeof(view.strides));
    mx_raw *raw;
    status = mx_raw_add(r->w, key, key_n, &view, &raw);
    if (status == MXW_OK)
        raw->mapped = 1;
    return status;
}

static mxw_status read_dims(const mx_pickle *dict, mxw_dims *dims) {
    const struct {
        const char *name;
        int32_t *to;
    } fields[] = {
        {"n_mels", &dims->n_mels},           {"n_audio_ctx", &dims->n_audio_ctx},
        {"n_audio_state", &dims->n_audio_state}, {"n_audio_head", &dims->n_audio_head},
        {"n_audio_layer", &dims->n_audio_layer}, {"n_vocab", &dims->n_vocab},
        {"n_text_ctx", &dims->n_text_ctx},   {"n_text_state", &dims->n_text_state},
        {"n_text_head", &dims->n_text_head}, {"n_text_layer", &dims->n_text_layer},
    };
    for (size_t i = 0; i < MX_COUNT(fields); i++) {
        const mx_pickle *v = mx_pickle_get(dict, fields[i].name);
        if (!v || v->kind != MX_PICKLE_INT || v->number < 1 || v->number > INT32_MAX)
            return mx_fail(MXW_E_FORMAT, "dims: %s is not a positive number", fields[i].name);
        *fields[i].to = (int32_t)v->number;
    }
    return MXW_OK;
}

/* {"dims": {...}, "model_state_dict": {...}}, or only the state dict (its dimensions are then derived from the
 * shapes). */
static mxw_status read_state(reader *r, const mx_pickle *root) {
    if (root->kind != MX_PICKLE_DICT)
        return mx_fail(MXW_E_FORMAT, "not a state dict");
    const mx_pickle *dims = mx_pickle_get(root, "dims"), *state = mx_pickle_get(root, "model_state_dict");
    if (!state)
        state = root;
    if (state->kind != MX_PICKLE_DICT)
        return mx_fail(MXW_E_FORMAT, "model_state_dict is not a dict");
    mxw_status status = dims ? read_dims(dims, &r->w->dims) : MXW_OK;
    for (size_t i = 0; status == MXW_OK && i + 1 < state->list.n; i += 2) {
        const mx_pickle *key = state->list.items[i], *value = state->list.items[i + 1];
        if (key->kind == MX_PICKLE_TEXT && value->kind == MX_PICKLE_TENSOR)
            status = add_tensor(r, key->text.data, key->text.n, value->tensor);
    }
    return status;
}

static int has_elements(const mx_pickle_tensor *t) {
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] == 0)
            return 0;
    return 1;
}

/* The tensors of a TorchScript module and of the modules in it, named by their attributes: "encoder.0.weight". An
 * object may hold itself, or the same one a thousand times: depth and number of visits are bounded. */
static mxw_status read_module(reader *r, const mx_pickle *object, mx_str *path, int depth, int *visits) {
    enum { MAX_DEPTH = 32, MAX_VISITS = 1 << 16 };
    mxw_status status = MXW_OK;
    size_t n_path = path->n;
    for (size_t i = 0; status == MXW_OK && i + 1 < object->list.n; i += 2) {
        const mx_pickle *key = object->list.items[i], *value = object->list.items[i + 1];
        if (depth >= MAX_DEPTH || ++*visits > MAX_VISITS)
            return mx_fail(MXW_E_FORMAT, "a module of more than %d levels or %d attributes", MAX_DEPTH, MAX_VISITS);
        if (key->kind != MX_PICKLE_TEXT || key->text.n > 200)
            continue;
        mx_str_text(path, n_path ? "." : "");
        mx_str_add(path, key->text.data, key->text.n);
        status = mx_str_status(path);
        if (status == MXW_OK && value->kind == MX_PICKLE_DICT && value->object)
            status = read_module(r, value, path, depth + 1, visits);
        else if (status == MXW_OK && value->kind == MX_PICKLE_TENSOR && has_elements(value->tensor))
            status = add_tensor(r, mx_str_get(path), path->n, value->tensor);
        mx_str_cut(path, n_path);
    }
    return status;
}

static mxw_status read_pt(mx_weights *w, const uint8_t *bytes, size_t n_bytes) {
    reader r = {.w = w};
    const uint8_t *data = NULL;
    uint64_t n = 0;
    const mx_pickle *root = NULL;
    mx_str path = {0};
    int visits = 0;
    mxw_status status;
    MX_TRY(mx_zip_read(bytes, n_bytes, &r.arena, &r.zip));
    MX_TRY(find_pickle(&r, &data, &n));
    MX_TRY(check_byte_order(&r));
    MX_TRY(mx_pickle_load(data, (size_t)n, &r.arena, &root));
    MX_TRY(root->object ? read_module(&r, root, &path, 0, &visits) : read_state(&r, root));
out:
    mx_str_free(&path);
    mx_str_free(&r.name);
    mx_arena_free(&r.arena);
    return status;
}

const mx_format mx_format_pt = {
    .label = "OpenAI .pt",
    .naming = &mx_names_openai,
    .probe = mx_zip_probe,
    .read = read_pt,
};
