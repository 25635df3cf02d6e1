/* convert/ct2.c - a folder for CTranslate2 and faster-whisper: model.bin (docs/formats.md has the layout) and what lies
 * beside it. Entries are sorted by name. Queries, keys and values of one attention are one tensor, the key's part of
 * its bias zeros; int8 matrices are followed by the scales of their rows. */
#include <stdlib.h>
#include <string.h>

#include "convert/internal.h"

#define VERSION 6
#define SPEC "WhisperSpec"
#define REVISION 3
#define MAX_PARTS 3
#define EMBEDDING "decoder/embeddings/weight"
#define PROJECTION "decoder/projection/weight"

enum kind { TENSOR, SCALES, SETTING };
enum { TYPE_F32 = 0, TYPE_I8 = 1, TYPE_I16 = 2, TYPE_F16 = 4, TYPE_BF16 = 5 };

typedef struct record {
    char name[160];
    enum kind kind;
    int64_t parts[MAX_PARTS]; /* tensors of the checkpoint, -1: zeros */
    int n_parts;
    int value, value_bytes; /* SETTING */
} record;

typedef struct writer {
    mx_conversion *c;
    mx_save *save;
    record *records;
    size_t n;
    float *scales; /* of the last int8 tensor */
    size_t n_scales;
} writer;

static mxw_status put_text(mx_save *save, const char *text) {
    mxw_status status = mx_put(save, strlen(text) + 1, 2);
    return status < 0 ? status : mx_save_write(save, text, strlen(text) + 1);
}

/* ---- the list of entries --------------------------------------------------------------------------------- */

static record *find_record(writer *w, const char *name) {
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->records[i].name, name) == 0)
            return &w->records[i];
    record *r = &w->records[w->n++];
    *r = (record){.parts = {-1, -1, -1}};
    memcpy(r->name, name, strlen(name) + 1);
    return r;
}

/* Kernels that are int8 in the checkpoint, as CTranslate2's converters write them since 4.2, stay that. */
static mx_target type_of(const mx_conversion *c, int64_t i, const mx_tensor *view, const char *name) {
    int64_t row;
    const mx_quantized *q = mx_weights_quantized(c->w, i, &row);
    const int kernel = view->rank == 3 && c->matrices.int8 && q && q->kind == MX_QUANTIZED_INT8;
    return kernel || mx_is_matrix(view, name) ? c->matrices : c->rest;
}

static mxw_status list_tensors(writer *w) {
    for (int64_t i = 0; i < mx_weights_count(w->c->w); i++) {
        const mx_arch_tensor arch = mx_arch_get(w->c->dims, i);
        mx_tensor_source source;
        mxw_tensor_info info;
        mx_tensor view;
        mxw_status status = mx_weights_tensor(w->c->w, i, &info, &view);
        if (status < 0)
            return status;
        mx_names_ct2.source(arch.pattern, arch.layer, &source);
        record *r = find_record(w, source.name);
        r->n_parts = source.parts;
        r->parts[source.part] = i;
        if (type_of(w->c, i, &view, info.name).int8) {
            char scales[176];
            snprintf(scales, sizeof(scales), "%s_scale", source.name);
            find_record(w, scales)->kind = SCALES;
        }
    }
    return MXW_OK;
}

/* What CTranslate2's own files of this version state. */
static void list_settings(writer *w) {
    const struct {
        const char *name;
        int value, bytes;
    } rows[] = {
        {"decoder/activation", 3, 1},
        {"decoder/alibi", 0, 1},
        {"decoder/alignment_heads", 1, 2},
        {"decoder/alignment_layer", -1, 2},
        {"decoder/num_heads", w->c->dims->n_text_head, 2},
        {"decoder/pre_norm", 1, 1},
        {"decoder/scale_embeddings", 0, 1},
        {"decoder/start_from_zero_embedding", 0, 1},
        {"encoder/num_heads", w->c->dims->n_audio_head, 2},
    };
    for (size_t i = 0; i < MX_COUNT(rows); i++) {
        record *r = find_record(w, rows[i].name);
        r->kind = SETTING;
        r->value = rows[i].value;
        r->value_bytes = rows[i].bytes;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const record *)a)->name, ((const record *)b)->name);
}

/* ---- entries --------------------------------------------------------------------------------------------- */

static mxw_status put_setting(writer *w, const record *r) {
    mxw_status status;
    MX_TRY(mx_put(w->save, 0, 1)); /* no axes */
    MX_TRY(mx_put(w->save, r->value_bytes == 1 ? TYPE_I8 : TYPE_I16, 1));
    MX_TRY(mx_put(w->save, (uint64_t)r->value_bytes, 4));
    MX_TRY(mx_put(w->save, (uint64_t)(int64_t)r->value, r->value_bytes));
out:
    return status;
}

static mxw_status put_scales(writer *w) {
    mxw_status status;
    MX_TRY(mx_put(w->save, 1, 1));
    MX_TRY(mx_put(w->save, w->n_scales, 4));
    MX_TRY(mx_put(w->save, TYPE_F32, 1));
    MX_TRY(mx_put(w->save, w->n_scales * sizeof(float), 4));
    MX_TRY(mx_save_write(w->save, w->scales, w->n_scales * sizeof(float)));
out:
    return status;
}

static mxw_status put_zeros(mx_save *save, uint64_t n) {
    mxw_status status = MXW_OK;
    for (uint64_t i = 0; i < n && status == MXW_OK; i++)
        status = mx_put(save, 0, 1);
    return status;
}

/* One part of a tensor; its scales are kept. */
static mxw_status put_part(writer *w, int64_t i, const mx_target *t, int64_t rows) {
    mx_values values = {0};
    mxw_status status;
    MX_TRY(mx_values_read(w->c, i, t, &values));
    MX_TRY(mx_save_write(w->save, values.data, values.n));
    if (values.scales) {
        float *all = mx_realloc(w->scales, (w->n_scales + (size_t)rows) * sizeof(*all));
        if (!all)
            MX_TRY(MXW_E_MEMORY);
        w->scales = all;
        memcpy(all + w->n_scales, values.scales, (size_t)rows * sizeof(*all));
        w->n_scales += (size_t)rows;
    }
out:
    mx_values_free(&values);
    return status;
}

static mxw_status put_tensor(writer *w, const record *r) {
    mxw_tensor_info info;
    mx_tensor view;
    mxw_status status;
    int64_t any = r->parts[0] >= 0 ? r->parts[0] : r->parts[r->n_parts - 1];
    MX_TRY(mx_weights_tensor(w->c->w, any, &info, &view));
    const mx_target t = type_of(w->c, any, &view, info.name);
    const uint64_t bytes = mx_target_bytes(&t, &view) * (uint64_t)r->n_parts;
    if (bytes > UINT32_MAX)
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s is too large for CTranslate2", info.name);
    MX_TRY(mx_put(w->save, (uint64_t)view.rank, 1));
    for (int i = 0; i < view.rank; i++)
        MX_TRY(mx_put(w->save, (uint64_t)(view.dims[i] * (i ? 1 : r->n_parts)), 4));
    MX_TRY(mx_put(w->save,
                  t.int8               ? TYPE_I8
                  : t.dtype == MXW_F32 ? TYPE_F32
                  : t.dtype == MXW_F16 ? TYPE_F16
                                       : TYPE_BF16,
                  1));
    MX_TRY(mx_put(w->save, bytes, 4));
    w->n_scales = 0;
    for (int p = 0; p < r->n_parts; p++)
        MX_TRY(r->parts[p] < 0 ? put_zeros(w->save, mx_target_bytes(&t, &view))
                               : put_part(w, r->parts[p], &t, view.dims[0]));
out:
    return status;
}

static mxw_status put_record(writer *w, const record *r) {
    mxw_status status = put_text(w->save, r->name);
    if (status < 0)
        return status;
    return r->kind == TENSOR ? put_tensor(w, r) : r->kind == SCALES ? put_scales(w) : put_setting(w, r);
}

static mxw_status put_aliases(writer *w) {
    const int quantized = w->c->matrices.int8;
    mxw_status status;
    MX_TRY(mx_put(w->save, quantized ? 2 : 1, 4));
    MX_TRY(put_text(w->save, PROJECTION));
    MX_TRY(put_text(w->save, EMBEDDING));
    if (quantized) {
        MX_TRY(put_text(w->save, PROJECTION "_scale"));
        MX_TRY(put_text(w->save, EMBEDDING "_scale"));
    }
out:
    return status;
}

static mxw_status put_model(writer *w) {
    mxw_status status;
    w->records = mx_alloc_zero((size_t)(2 * mx_weights_count(w->c->w) + 16), sizeof(*w->records));
    if (!w->records)
        return MXW_E_MEMORY;
    MX_TRY(list_tensors(w));
    list_settings(w);
    qsort(w->records, w->n, sizeof(*w->records), by_name);
    MX_TRY(mx_put(w->save, VERSION, 4));
    MX_TRY(put_text(w->save, SPEC));
    MX_TRY(mx_put(w->save, REVISION, 4));
    MX_TRY(mx_put(w->save, w->n, 4));
    for (size_t i = 0; i < w->n; i++)
        MX_TRY(put_record(w, &w->records[i]));
    MX_TRY(put_aliases(w));
out:
    return status;
}

mxw_status mx_write_ct2(mx_conversion *c, const char *folder) {
    writer w = {.c = c};
    mx_str path = {0};
    mxw_status status;
    mx_str_print(&path, "%s/model.bin", folder);
    MX_TRY(mx_str_status(&path));
    MX_TRY(mx_save_open(mx_str_get(&path), &w.save));
    MX_TRY(put_model(&w));
    status = mx_save_commit(w.save);
    w.save = NULL;
    if (status == MXW_OK)
        status = mx_write_ct2_beside(c, folder);
out:
    mx_save_abort(w.save);
    mx_free(w.records);
    mx_free(w.scales);
    mx_str_free(&path);
    return status;
}
