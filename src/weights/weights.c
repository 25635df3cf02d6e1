/* weights/weights.c - opens a checkpoint, resolves every tensor of the architecture, finds tensors by name. Nothing is
 * substituted for a missing or misshapen tensor: opening fails and names the first one. */
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sha256.h"
#include "weights/format/cursor.h"
#include "weights/store.h"

static const mx_format *const formats[] = {&mx_format_npz, &mx_format_pt,          &mx_format_ggml, &mx_format_gguf,
                                           &mx_format_ct2, &mx_format_safetensors, &mx_format_index};

/* ---- the file's tensors --------------------------------------------------------------------------- */

mxw_status mx_raw_add(mx_weights *w, const char *name, size_t name_n, const mx_tensor *view, mx_raw **out) {
    mxw_status status = mx_grow(&w->raws, &w->raws_capacity, w->n_raws + 1, sizeof(*w->raws));
    if (status < 0)
        return status;
    char *copy = mx_arena_alloc(&w->arena, name_n + 1);   /* zeroed, so it is terminated */
    if (!copy)
        return MXW_E_MEMORY;
    memcpy(copy, name, name_n);
    mx_raw *raw = &w->raws[w->n_raws++];
    *raw = (mx_raw){.name = copy, .view = *view};
    *out = raw;
    return MXW_OK;
}

static int compare_raws(const void *a, const void *b) {
    return strcmp(((const mx_raw *)a)->name, ((const mx_raw *)b)->name);
}

mxw_status mx_raws_sort(mx_weights *w) {
    if (w->n_raws)
        qsort(w->raws, w->n_raws, sizeof(*w->raws), compare_raws);
    for (size_t i = 1; i < w->n_raws; i++)
        if (strcmp(w->raws[i - 1].name, w->raws[i].name) == 0)
            return mx_fail(MXW_E_FORMAT, "tensor %s appears twice",
                           mx_show(w->raws[i].name, strlen(w->raws[i].name)).text);
    return MXW_OK;
}

mx_raw *mx_raw_find(const mx_weights *w, const char *name) {
    mx_raw key = {.name = name};
    return w->n_raws ? bsearch(&key, w->raws, w->n_raws, sizeof(key), compare_raws) : NULL;
}

mxw_status mx_raw_part(const mx_raw *raw, const mx_tensor_source *source, mx_tensor *view) {
    *view = raw->view;
    if (source->parts == 1)
        return MXW_OK;
    if (view->rank < 1 || view->dims[0] % source->parts)
        return mx_fail(MXW_E_FORMAT, "tensor %s does not split into %d parts", raw->name, source->parts);
    view->dims[0] /= source->parts;
    int64_t rows = view->dims[0] * source->part;
    if (view->layout == MX_LAYOUT_QUANTIZED)
        view->offset = rows * view->strides[0];
    if (view->data)
        view->data = (char *)view->data + rows * view->strides[0] * (int64_t)mx_dtype_bytes(view->dtype);
    return MXW_OK;
}

mxw_status mx_raw_quantize(mx_weights *w, mx_raw *raw, int rank, const int64_t *dims, const mx_quantized *q) {
    mx_quantized *copy = mx_arena_alloc(&w->arena, sizeof(*copy));
    if (!copy)
        return MXW_E_MEMORY;
    *copy = *q;
    raw->view = mx_tensor_of(MXW_F32, rank, dims, NULL);
    raw->view.layout = MX_LAYOUT_QUANTIZED;
    raw->view.quantized = copy;
    raw->mapped = 0;
    raw->quantized = copy;
    raw->stored = q->type;
    raw->stored_bytes = mx_quantized_bytes(q);
    return MXW_OK;
}

/* ---- the architecture's tensors ------------------------------------------------------------------- */

mxw_status mx_shape_check(const char *name, const mx_tensor *got, int rank, const int64_t *dims) {
    mx_tensor wanted = mx_tensor_of(got->dtype, rank, dims, NULL);
    char expected[96], found[96];
    if (got->rank == rank && memcmp(got->dims, dims, (size_t)rank * sizeof(int64_t)) == 0 &&
        mx_dtype_is_float(got->dtype))
        return MXW_OK;
    mx_tensor_describe(got, found, sizeof(found));
    if (!mx_dtype_is_float(got->dtype))
        return mx_fail(MXW_E_FORMAT, "tensor %s is %s, not a float type", name, found);
    mx_tensor_describe(&wanted, expected, sizeof(expected));
    return mx_fail(MXW_E_FORMAT, "tensor %s is %s, expected %s", name, found, expected);
}

static mxw_status resolve(mx_weights *w, int64_t index, mx_canonical *named) {
    mx_arch_tensor want = mx_arch_get(&w->dims, index);
    char name[160];
    mx_tensor_source source;
    mx_arch_name(want.pattern, want.layer, name, sizeof(name));
    w->naming->source(want.pattern, want.layer, &source);
    mx_raw *raw = mx_raw_find(w, source.name);
    if (!raw && strcmp(source.name, name) != 0)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing (%s in the file's own names)", name, source.name);
    if (!raw)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing", name);
    named->raw = raw;
    named->part = source.part;
    named->parts = source.parts;
    raw->used = 1;
    mxw_status status = mx_raw_part(raw, &source, &named->view);
    if (status == MXW_OK)
        status = mx_shape_check(name, &named->view, want.rank, want.dims);
    if (status < 0)
        return status;
    named->name = mx_arena_strdup(&w->arena, name);
    w->n_encoder += want.encoder;
    w->n_parameters += mx_tensor_count(&named->view);
    return named->name ? MXW_OK : MXW_E_MEMORY;
}

static int compare_named(const void *a, const void *b) {
    const mx_canonical *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

mxw_status mx_resolve_all(mx_weights *w, int64_t n, mxw_status (*one)(mx_weights *w, int64_t i, mx_canonical *named)) {
    w->tensors = mx_arena_alloc(&w->arena, (size_t)n * sizeof(*w->tensors));
    w->by_name = mx_arena_alloc(&w->arena, (size_t)n * sizeof(*w->by_name));
    if (!w->tensors || !w->by_name)
        return MXW_E_MEMORY;
    for (int64_t i = 0; i < n; i++) {
        mxw_status status = one(w, i, &w->tensors[i]);
        if (status < 0)
            return status;
        w->by_name[i] = &w->tensors[i];
    }
    w->n_tensors = n;
    qsort(w->by_name, (size_t)n, sizeof(*w->by_name), compare_named);
    return MXW_OK;
}

static void report_extras(const mx_weights *w) {
    for (size_t i = 0; i < w->n_raws; i++)
        if (!w->raws[i].used)
            mx_log(w->raws[i].view.rank ? MXW_LOG_WARN : MXW_LOG_DEBUG, "weights", "%s: %s is not used", w->path,
                   mx_show(w->raws[i].name, strlen(w->raws[i].name)).text);
}

/* ---- which released model it is ------------------------------------------------------------------- */

static mxw_status last_half_heads(mx_weights *w) {
    int32_t first = w->dims.n_text_layer / 2, n_head = w->dims.n_text_head;
    w->n_heads = (size_t)(w->dims.n_text_layer - first) * (size_t)n_head;
    int32_t(*heads)[2] = mx_arena_alloc(&w->arena, w->n_heads * sizeof(*heads));
    if (!heads)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < w->n_heads; i++) {
        heads[i][0] = first + (int32_t)(i / (size_t)n_head);
        heads[i][1] = (int32_t)(i % (size_t)n_head);
    }
    w->heads = (const int32_t(*)[2])heads;
    return MXW_OK;
}

void mx_weights_lack(mx_weights *w, const char *piece, const char *instead) {
    if (w->n_missing < MX_COUNT(w->missing))
        w->missing[w->n_missing++] = (mx_missing){piece, instead};
}

static mxw_status stand_in_heads(mx_weights *w, const mx_released *r) {
    char instead[96];
    if (!r || r->heads[0][0] < 0) {
        mx_weights_lack(w, "alignment heads", "all heads of the last half of the decoder's layers");
        return last_half_heads(w);
    }
    snprintf(instead, sizeof(instead), "those of %s, which has these dimensions", r->name);
    const char *text = mx_arena_strdup(&w->arena, instead);
    if (!text)
        return MXW_E_MEMORY;
    mx_weights_lack(w, "alignment heads", text);
    w->heads = r->heads;
    while (w->heads[w->n_heads][0] >= 0)
        w->n_heads++;
    return MXW_OK;
}

/* Vocabularies and merges beside the weights are only looked for: the library has its own. */
static mxw_status look_beside(mx_weights *w) {
    static const struct {
        const char *leaf;
        int merges;
    } files[] = {{"vocab.json", 0}, {"vocabulary.json", 0}, {"vocabulary.txt", 0}, {"merges.txt", 1},
                 {"tokenizer.json", 1}};
    const char *slash = strrchr(w->path, '/');
    mx_str path = {0};
    for (size_t i = 0; w->naming->folder && w->map.data && i < MX_COUNT(files); i++) {
        mx_str_clear(&path);
        mx_str_add(&path, w->path, slash ? (size_t)(slash - w->path) + 1 : 0);
        mx_str_text(&path, files[i].leaf);
        if (mx_str_status(&path) < 0)
            break;
        if (!mx_file_exists(mx_str_get(&path)))
            continue;
        w->has_merges |= files[i].merges;
        w->has_vocabulary |= !files[i].merges || strcmp(files[i].leaf, "tokenizer.json") == 0;
    }
    mxw_status status = mx_str_status(&path);
    mx_str_free(&path);
    return status;
}

/* The released model with these dimensions, and what stands in for what the checkpoint lacks. */
static mxw_status identify(mx_weights *w) {
    const mx_released *r = mx_released_match(&w->dims, w->path);
    w->size_name = r ? r->name : "custom";
    mxw_status status = w->n_heads ? MXW_OK : stand_in_heads(w, r);
    if (status == MXW_OK)
        status = look_beside(w);
    if (!w->has_vocabulary)
        mx_weights_lack(w, "vocabulary", "that of the library");
    if (!w->has_merges)
        mx_weights_lack(w, "merges", "those of the library");
    return status;
}

/* ---- opening -------------------------------------------------------------------------------------- */

static const mx_format *format_of(const uint8_t *bytes, size_t n) {
    for (size_t i = 0; i < MX_COUNT(formats); i++)
        if (formats[i]->probe(bytes, n))
            return formats[i];
    return NULL;
}

/* An index is known by its name only: any JSON begins like one. */
int mx_is_checkpoint(const uint8_t *bytes, size_t n) {
    const mx_format *format = format_of(bytes, n);
    return format && format != &mx_format_index;
}

static const char *label_of(const mx_weights *w) {
    if (w->naming == &mx_names_mlx)
        return w->format == &mx_format_npz ? "MLX npz" : "MLX safetensors";
    if (w->format == &mx_format_pt && w->naming != &mx_names_openai)
        return "PyTorch pytorch_model.bin";
    return w->format->label;
}

static mxw_status read_all(mx_weights *w) {
    mxw_status status;
    w->format = format_of(w->bytes, w->n_bytes);
    if (w->n_bytes == 0)
        return mx_fail(MXW_E_FORMAT, "the file is empty");
    if (!w->format)
        return mx_fail(MXW_E_FORMAT, "not a Whisper checkpoint (neither an OpenAI .pt nor a CTranslate2 model.bin nor "
                                      "Hugging Face safetensors nor ggml nor GGUF nor .npz)");
    MX_TRY(w->format->read(w, w->bytes, w->n_bytes));
    MX_TRY(mx_raws_sort(w));
    MX_TRY(mx_silero_refuse(w));
    w->naming = w->format->fixed ? w->format->naming : mx_naming_find(w, w->format->naming);
    w->label = label_of(w);
    if (w->naming->settle)
        MX_TRY(w->naming->settle(w));
    MX_TRY(mx_dims_derive(w));
    MX_TRY(mx_dims_check(&w->dims));
    MX_TRY(mx_resolve_all(w, mx_arch_count(&w->dims), resolve));
    if (w->naming->check)
        MX_TRY(w->naming->check(w));
out:
    return status;
}

static mxw_status finish(mx_weights *w, mxw_status status, mx_weights **out) {
    if (status == MXW_OK)
        status = identify(w);
    if (status < 0) {
        mx_fail_in(status, "%s", w->path ? w->path : "?");
        mx_weights_close(w);
        return status;
    }
    report_extras(w);
    *out = w;
    return MXW_OK;
}

mxw_status mx_weights_open_bytes(const uint8_t *bytes, size_t n, mx_weights **out) {
    *out = NULL;
    mx_weights *w = mx_alloc_zero(1, sizeof(*w));
    if (!w)
        return MXW_E_MEMORY;
    w->path = "memory";
    w->bytes = bytes;
    w->n_bytes = n;
    return finish(w, read_all(w), out);
}

static mxw_status open_path(mx_weights *w, const char *path) {
    mxw_status status;
    w->path = mx_arena_strdup(&w->arena, path);
    if (!w->path)
        return MXW_E_MEMORY;
    MX_TRY(mx_map_open(path, &w->map));
    w->bytes = w->map.data;
    w->n_bytes = w->map.n;
    status = read_all(w);
out:
    return status;
}

mxw_status mx_weights_open(const char *name_or_path, const char *model_dir, mx_weights **out) {
    int64_t start = mx_now_ns();
    mx_str path = {0};
    *out = NULL;
    mxw_status status = mx_model_locate(name_or_path, model_dir, &path);
    mx_weights *w = status == MXW_OK ? mx_alloc_zero(1, sizeof(*w)) : NULL;
    if (status == MXW_OK && !w)
        status = MXW_E_MEMORY;
    if (w)
        status = finish(w, open_path(w, mx_str_get(&path)), out);
    if (status == MXW_OK)
        mx_log_timed(MXW_LOG_INFO, "weights", mx_since_ms(start), "%s: %s, %s, %lld tensors, %lld parameters", w->path,
                     w->label, w->size_name, (long long)w->n_tensors, (long long)w->n_parameters);
    mx_str_free(&path);
    return status;
}

mxw_status mx_weights_check(const mx_weights *w) {
    const char *changed = mx_map_changed(&w->map) ? w->path : NULL;
    for (size_t i = 0; i < w->n_shards && !changed; i++)
        changed = mx_map_changed(&w->shards[i]) ? w->shard_paths[i] : NULL;
    if (!changed)
        return MXW_OK;
    return mx_fail(MXW_E_STATE, "%s: its size or time of modification changed while it was open: open it again, and "
                                "replace a file by renaming another over it", changed);
}

void mx_weights_prefetch(const mx_weights *w) {
    mx_map_prefetch(&w->map);
    for (size_t i = 0; i < w->n_shards; i++)
        mx_map_prefetch(&w->shards[i]);
}

void mx_weights_forget(const mx_weights *w) {
    mx_map_forget(&w->map);
    for (size_t i = 0; i < w->n_shards; i++)
        mx_map_forget(&w->shards[i]);
}

void mx_weights_close(mx_weights *w) {
    if (!w)
        return;
    mx_map_close(&w->map);
    for (size_t i = 0; i < w->n_shards; i++)
        mx_map_close(&w->shards[i]);
    mx_npz_close(&w->npz);
    mx_free(w->raws);
    mx_arena_free(&w->arena);
    mx_free(w);
}

/* ---- lookup --------------------------------------------------------------------------------------- */

void mx_weights_info(const mx_weights *w, mxw_checkpoint_info *info) {
    /* As openai-whisper counts them: ids past the English vocabulary are languages. */
    int multilingual = w->dims.n_vocab >= 51865;
    *info = (mxw_checkpoint_info){
        .struct_size = sizeof(*info),
        .path = w->path,
        .format = w->label,
        .size_name = w->size_name,
        .dims = &w->dims,
        .multilingual = multilingual,
        .n_languages = multilingual ? MX_MIN(w->dims.n_vocab - 51766, 100) : 0,
        .n_tensors = w->n_tensors,
        .n_encoder_tensors = w->n_encoder,
        .n_decoder_tensors = w->n_tensors - w->n_encoder,
        .n_parameters = w->n_parameters,
        .file_bytes = w->n_bytes,
    };
    for (size_t i = 0; i < w->n_shards; i++)
        info->file_bytes += w->shards[i].n;
}

int64_t mx_weights_count(const mx_weights *w) { return w->n_tensors; }

mxw_status mx_weights_tensor(const mx_weights *w, int64_t i, mxw_tensor_info *info, mx_tensor *view) {
    if (i < 0 || i >= w->n_tensors)
        return mx_fail(MXW_E_ARGUMENT, "%s: tensor %lld of %lld", w->path, (long long)i, (long long)w->n_tensors);
    const mx_canonical *t = &w->tensors[i];
    if (view)
        *view = t->view;
    if (info) {
        *info = (mxw_tensor_info){.name = t->name, .file_name = t->raw->name, .dtype = t->view.dtype,
                                  .rank = t->view.rank, .bytes = mx_tensor_bytes(&t->view), .mapped = t->raw->mapped};
        memcpy(info->dims, t->view.dims, sizeof(info->dims));
        info->stored = t->raw->stored ? t->raw->stored : mx_dtype_name(t->view.dtype);
        info->stored_bytes = info->bytes;
        if (t->raw->quantized)   /* of a fused tensor, this part's share */
            info->stored_bytes = t->raw->stored_bytes / (uint64_t)t->parts;
    }
    return MXW_OK;
}

const char *mx_weights_missing(const mx_weights *w, int i, const char **instead) {
    if (i < 0 || (size_t)i >= w->n_missing)
        return NULL;
    *instead = w->missing[i].instead;
    return w->missing[i].piece;
}

static const mx_canonical *by_name(const mx_weights *w, const char *name) {
    mx_canonical key = {.name = name};
    const mx_canonical *pointer = &key;
    const mx_canonical **found =
        bsearch(&pointer, w->by_name, (size_t)w->n_tensors, sizeof(*w->by_name), compare_named);
    return found ? *found : NULL;
}

static mxw_status missing(const mx_weights *w, const char *name) {
    return mx_fail(MXW_E_MISSING, "%s: tensor %s is missing", w->path, mx_show(name, strlen(name)).text);
}

int64_t mx_weights_index(const mx_weights *w, const char *name) {
    const mx_canonical *t = by_name(w, name);
    if (t)
        return t - w->tensors;
    for (int64_t i = 0; i < w->n_tensors; i++)
        if (strcmp(w->tensors[i].raw->name, name) == 0)
            return i;
    return missing(w, name);
}

mxw_status mx_weights_find(const mx_weights *w, const char *name, mx_tensor *out) {
    const mx_canonical *t = by_name(w, name);
    const mx_raw *raw = t ? NULL : mx_raw_find(w, name);
    const mx_tensor *view = t ? &t->view : raw ? &raw->view : NULL;
    if (!view || (!view->data && view->layout != MX_LAYOUT_QUANTIZED))
        return missing(w, name);
    *out = *view;
    return MXW_OK;
}

const mx_quantized *mx_weights_quantized(const mx_weights *w, int64_t i, int64_t *row) {
    const mx_canonical *t = &w->tensors[i];
    const mx_quantized *q = t->raw->quantized;
    *row = q ? q->rows / t->parts * t->part : 0;
    return q;
}

mxw_status mx_weights_read_f32(const mx_weights *w, int64_t i, float *out) {
    mx_tensor view;
    mxw_status status = mx_weights_tensor(w, i, NULL, &view);
    return status < 0 ? status : mx_tensor_to_f32(&view, out);
}

mxw_status mx_weights_crc32(const mx_weights *w, int64_t i, uint32_t *crc) {
    mx_tensor t;
    mxw_status status = mx_weights_tensor(w, i, NULL, &t);
    if (status < 0)
        return status;
    size_t bytes = mx_tensor_bytes(&t);
    int dense = t.data && mx_tensor_contiguous(&t);
    void *copy = dense ? NULL : mx_alloc(bytes);
    if (!copy && !dense)
        return MXW_E_MEMORY;
    if (copy && !t.data)
        status = mx_weights_read_f32(w, i, copy);
    else if (copy)
        mx_tensor_pack(&t, copy);
    *crc = (uint32_t)crc32_z(0, copy ? copy : t.data, bytes);
    mx_free(copy);
    return status;
}

void mx_weights_sha256(const mx_weights *w, char text[65]) {
    mx_sha256 sum;
    mx_sha256_start(&sum);
    if (!w->n_shards)
        mx_sha256_add(&sum, w->bytes, w->n_bytes);
    for (size_t i = 0; i < w->n_shards; i++)
        mx_sha256_add(&sum, w->shards[i].data, w->shards[i].n);
    mx_sha256_hex(&sum, text);
}

const char *mx_weights_folder(const mx_weights *w, size_t *n) {
    const char *slash = strrchr(w->path, '/');
    *n = slash ? (size_t)(slash - w->path) + 1 : 0;
    return w->naming->folder && w->map.data ? w->path : NULL;
}

const int32_t (*mx_weights_alignment_heads(const mx_weights *w, size_t *n))[2] {
    *n = w->n_heads;
    return w->heads;
}
