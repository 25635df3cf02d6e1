/* lab/features.c - named tensors of a run with their statistics; saved to and loaded from .npz.
 * Invariant: values are kept unchanged (f32, i32, u8) and round-trip bit for bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "lab/lab.h"
#include "weights/format/npz.h"

#define NOTE_PREFIX "note."

static void measure(mx_stage *stage) {
    const mx_tensor *t = &stage->tensor;
    mxw_feature *info = &stage->info;
    int64_t n = mx_tensor_count(t), finite = 0;
    double sum = 0, squares = 0;
    *info = (mxw_feature){.name = stage->name, .min = INFINITY, .max = -INFINITY};
    stage->shown = (mxw_tensor){.struct_size = sizeof(mxw_tensor), .dtype = t->dtype, .rank = t->rank, .data = t->data};
    memcpy(stage->shown.dims, t->dims, sizeof(stage->shown.dims));
    for (int pass = 0; pass < 2; pass++) {
        double spread = 0;
        for (int64_t i = 0; i < n; i++) {
            double x = t->dtype == MXW_F32 ? ((const float *)t->data)[i]
                     : t->dtype == MXW_I32 ? ((const int32_t *)t->data)[i] : ((const uint8_t *)t->data)[i];
            if (!isfinite(x))
                continue;
            if (pass) {
                spread += (x - info->mean) * (x - info->mean);
                continue;
            }
            finite++;
            sum += x;
            squares += x * x;
            info->min = fmin(info->min, x);
            info->max = fmax(info->max, x);
        }
        if (!pass)
            info->mean = finite ? sum / (double)finite : 0;
        else
            info->std = finite ? sqrt(spread / (double)finite) : 0;
    }
    info->l2 = sqrt(squares);
    info->n_not_finite = n - finite;
    if (!finite)
        info->min = info->max = 0;
}

const mx_stage *mx_features_find(const mx_features *f, const char *name) {
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->stages[i].name, name) == 0)
            return &f->stages[i];
    return NULL;
}

mxw_status mx_features_add(mx_features *f, const char *name, const mx_tensor *value) {
    if (mx_features_find(f, name))
        return MXW_OK;
    mxw_status status = mx_grow(&f->stages, &f->room, f->n + 1, sizeof(*f->stages));
    if (status < 0)
        return status;
    mxw_dtype dtype = value->dtype == MXW_I32 || value->dtype == MXW_U8 ? value->dtype : MXW_F32;
    mx_stage *stage = &f->stages[f->n];
    stage->name = mx_arena_strdup(&f->arena, name);
    void *data = mx_arena_alloc(&f->arena, (size_t)mx_tensor_count(value) * mx_dtype_bytes(dtype));
    if (!stage->name || !data)
        return MXW_E_MEMORY;
    if (dtype == MXW_F32)
        status = mx_tensor_to_f32(value, data);
    else
        mx_tensor_pack(value, data);
    if (status < 0)
        return mx_fail_in(status, "%s", name);
    stage->tensor = mx_tensor_of(dtype, value->rank, value->dims, data);
    measure(stage);
    f->n++;
    return MXW_OK;
}

mxw_status mx_features_set_note(mx_features *f, const char *key, const char *text) {
    if (!text || f->n_notes == MX_COUNT(f->notes))
        return MXW_OK;
    mx_note note = {mx_arena_strdup(&f->arena, key), mx_arena_strdup(&f->arena, text)};
    if (!note.key || !note.text)
        return MXW_E_MEMORY;
    f->notes[f->n_notes++] = note;
    return MXW_OK;
}

const char *mx_features_get_note(const mx_features *f, const char *key) {
    for (size_t i = 0; i < f->n_notes; i++)
        if (strcmp(f->notes[i].key, key) == 0)
            return f->notes[i].text;
    return NULL;
}

void mx_features_close(mx_features *f) {
    if (!f)
        return;
    mx_arena_free(&f->arena);
    mx_free(f->stages);
    mx_free(f);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

mxw_status mx_features_save(const mx_features *f, const char *path) {
    mxw_status status;
    mx_npz_writer *w = NULL;
    MX_TRY(mx_npz_create(path, &w));
    for (size_t i = 0; i < f->n; i++)
        MX_TRY(mx_npz_add(w, f->stages[i].name, &f->stages[i].tensor));
    for (size_t i = 0; i < f->n_notes; i++) {
        char name[64];
        int64_t n = (int64_t)strlen(f->notes[i].text);
        mx_tensor t = mx_tensor_of_const(MXW_U8, 1, &n, f->notes[i].text);
        snprintf(name, sizeof(name), NOTE_PREFIX "%s", f->notes[i].key);
        MX_TRY(mx_npz_add(w, name, &t));
    }
    mx_npz_writer *whole = w;
    w = NULL;
    status = mx_npz_commit(whole);
out:
    mx_npz_abort(w);
    return status;
}

/* A note as one line of text; '?' for what is not printable. */
static mxw_status read_note(mx_features *f, const char *key, const mx_tensor *t) {
    int64_t n = mx_tensor_count(t);
    if (t->dtype != MXW_U8 || n > 1 << 20)
        return mx_fail(MXW_E_FORMAT, "array " NOTE_PREFIX "%s: expected bytes of text", key);
    char *text = mx_arena_alloc(&f->arena, (size_t)n + 1);
    if (!text)
        return MXW_E_MEMORY;
    mx_tensor_pack(t, text);
    for (int64_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            text[i] = '?';
    return mx_features_set_note(f, key, text);
}

static mxw_status take_arrays(const mx_npz *npz, mx_features **out) {
    mxw_status status = MXW_OK;
    mx_features *f = mx_alloc_zero(1, sizeof(*f));
    if (!f)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < npz->n && status >= 0; i++) {
        const mx_npz_array *a = &npz->arrays[i];
        size_t prefix = strlen(NOTE_PREFIX);
        if (strncmp(a->name, NOTE_PREFIX, prefix) == 0 && f->n_notes < MX_COUNT(f->notes))
            status = read_note(f, a->name + prefix, &a->tensor);
        else
            status = mx_features_add(f, a->name, &a->tensor);
    }
    if (status >= 0 && f->n == 0)
        status = mx_fail(MXW_E_FORMAT, "it has no numeric array");
    if (status < 0)
        mx_features_close(f);
    else
        *out = f;
    return status;
}

mxw_status mx_features_read(const uint8_t *bytes, size_t n, mx_features **out) {
    mx_npz npz;
    mxw_status status = mx_npz_open_bytes(bytes, n, &npz);
    if (status < 0)
        return status;
    status = take_arrays(&npz, out);
    mx_npz_close(&npz);
    return status;
}

mxw_status mx_features_open(const char *path, mx_features **out) {
    mx_npz npz;
    mxw_status status = mx_npz_open(path, &npz);
    if (status < 0)
        return status;
    status = take_arrays(&npz, out);
    mx_npz_close(&npz);
    return status < 0 ? mx_fail_in(status, "%s", path) : status;
}
