/* weights/format/ggml.c - exports the single file that whisper.cpp loads, atomically.
 *
 * Little endian, nothing aligned: a magic number, eleven sizes, the mel filter bank, the tokens' bytes in the order of
 * their ids, then the tensors until the file ends. A tensor is rank, length of its name, type, sizes from the innermost
 * out, name, elements. Invariants: f32 values are the checkpoint's own, f16 ones are those rounded to nearest; a value
 * that f16 cannot hold is an error that names the tensor. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "weights/store.h"

#define MAGIC 0x67676d6cu   /* "ggml" read as a number */

enum ggml_type { GGML_F32 = 0, GGML_F16 = 1 };

static mxw_status put_whole(mx_save *save, int64_t value) {
    unsigned char b[4];
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)((uint64_t)value >> (8 * i));
    return mx_save_write(save, b, sizeof(b));
}

static mxw_status put_sizes(mx_save *save, const mxw_dims *d, enum ggml_type type) {
    const int64_t head[] = {MAGIC,           d->n_vocab,    d->n_audio_ctx,  d->n_audio_state,
                            d->n_audio_head, d->n_audio_layer, d->n_text_ctx, d->n_text_state,
                            d->n_text_head,  d->n_text_layer,  d->n_mels,     type};
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(head) && status >= 0; i++)
        status = put_whole(save, head[i]);
    return status;
}

static mxw_status put_filters(mx_save *save, const mx_ggml_extras *extras, int n_mels) {
    mxw_status status = put_whole(save, n_mels);
    if (status >= 0)
        status = put_whole(save, extras->n_bins);
    if (status >= 0)
        status = mx_save_write(save, extras->filters, (size_t)n_mels * (size_t)extras->n_bins * sizeof(float));
    return status;
}

static mxw_status put_tokens(mx_save *save, const mx_ggml_extras *extras) {
    mxw_status status = put_whole(save, extras->n_tokens);
    for (int32_t id = 0; id < extras->n_tokens && status >= 0; id++) {
        size_t n = 0;
        const char *bytes = extras->token(extras->context, id, &n);
        status = put_whole(save, (int64_t)n);
        if (status >= 0 && n)
            status = mx_save_write(save, bytes, n);
    }
    return status;
}

/* Vectors and positions stay f32 beside f16 matrices: that is what whisper.cpp's loader expects of each name. */
static enum ggml_type type_of(const mx_canonical *t, enum ggml_type matrices) {
    const char *end = strrchr(t->name, '.');
    int positions = end && strcmp(end, ".positional_embedding") == 0;
    return t->view.rank < 2 || positions ? GGML_F32 : matrices;
}

static mxw_status put_head(mx_save *save, const mx_canonical *t, enum ggml_type type) {
    mxw_status status;
    size_t name_n = strlen(t->name);
    int column = strcmp(t->name, "encoder.conv1.bias") == 0 || strcmp(t->name, "encoder.conv2.bias") == 0;
    MX_TRY(put_whole(save, t->view.rank + column));
    MX_TRY(put_whole(save, (int64_t)name_n));
    MX_TRY(put_whole(save, type));
    if (column)   /* stored as [n, 1], to be added to [n, frames] */
        MX_TRY(put_whole(save, 1));
    for (int i = t->view.rank - 1; i >= 0; i--)
        MX_TRY(put_whole(save, t->view.dims[i]));
    MX_TRY(mx_save_write(save, t->name, name_n));
out:
    return status;
}

/* In place: n floats become n halves at the front. */
static mxw_status narrow(const char *name, float *values, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half = mx_f32_to_f16(values[i]);
        if (isfinite(values[i]) && !isfinite(mx_f16_to_f32(half)))
            return mx_fail(MXW_E_UNSUPPORTED, "tensor %s: %g is too large for f16; export as f32", name,
                           (double)values[i]);
        memcpy((char *)values + i * sizeof(half), &half, sizeof(half));
    }
    return MXW_OK;
}

static mxw_status put_tensor(mx_save *save, const mx_canonical *t, enum ggml_type matrices) {
    mxw_status status;
    enum ggml_type type = type_of(t, matrices);
    size_t n = (size_t)mx_tensor_count(&t->view);
    float *values = mx_alloc_array(n, sizeof(*values));
    if (!values)
        return MXW_E_MEMORY;
    MX_TRY(mx_tensor_to_f32(&t->view, values));
    if (type == GGML_F16)
        MX_TRY(narrow(t->name, values, n));
    MX_TRY(put_head(save, t, type));
    MX_TRY(mx_save_write(save, values, n * (type == GGML_F16 ? sizeof(uint16_t) : sizeof(float))));
out:
    mx_free(values);
    return status;
}

mxw_status mx_weights_export_ggml(const mx_weights *w, const mx_ggml_extras *extras, mxw_dtype matrices,
                                  const char *path) {
    mx_save *save = NULL;
    mxw_status status;
    enum ggml_type type = matrices == MXW_F16 ? GGML_F16 : GGML_F32;
    MX_TRY(mx_save_open(path, &save));
    MX_TRY(put_sizes(save, &w->dims, type));
    MX_TRY(put_filters(save, extras, w->dims.n_mels));
    MX_TRY(put_tokens(save, extras));
    for (int64_t i = 0; i < w->n_tensors; i++)
        MX_TRY(put_tensor(save, &w->tensors[i], type));
    status = mx_save_commit(save);
    save = NULL;
out:
    mx_save_abort(save);
    return status;
}
