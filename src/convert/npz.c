/* convert/npz.c - one .npz for numpy: every tensor under its canonical name, "dims.NAME" as scalars, "alignment_heads"
 * as pairs of layer and head. Types that numpy lacks (bf16, quantized ones) are f32. */
#include <string.h>

#include "convert/internal.h"
#include "weights/format/npz.h"

static mxw_status add_tensor(mx_conversion *c, mx_npz_writer *w, int64_t i) {
    mxw_tensor_info info;
    mx_tensor view;
    mx_values values = {0};
    mxw_status status;
    MX_TRY(mx_weights_tensor(c->w, i, &info, &view));
    const mx_target own = mx_plain(view.dtype == MXW_BF16 ? MXW_F32 : view.dtype);
    const mx_target *t = c->automatic ? &own : &c->matrices;
    MX_TRY(mx_values_read(c, i, t, &values));
    mx_tensor dense = mx_tensor_of(t->dtype, view.rank, view.dims, values.data);
    MX_TRY(mx_npz_add(w, info.name, &dense));
out:
    mx_values_free(&values);
    return status;
}

static mxw_status add_config(mx_conversion *c, mx_npz_writer *w) {
    const mxw_dims *d = c->dims;
    const struct {
        const char *name;
        int32_t value;
    } fields[] = {
        {"dims.n_mels", d->n_mels},
        {"dims.n_audio_ctx", d->n_audio_ctx},
        {"dims.n_audio_state", d->n_audio_state},
        {"dims.n_audio_head", d->n_audio_head},
        {"dims.n_audio_layer", d->n_audio_layer},
        {"dims.n_vocab", d->n_vocab},
        {"dims.n_text_ctx", d->n_text_ctx},
        {"dims.n_text_state", d->n_text_state},
        {"dims.n_text_head", d->n_text_head},
        {"dims.n_text_layer", d->n_text_layer},
    };
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(fields) && status == MXW_OK; i++) {
        int32_t value = fields[i].value;
        mx_tensor scalar = mx_tensor_of(MXW_I32, 0, NULL, &value);
        status = mx_npz_add(w, fields[i].name, &scalar);
    }
    if (status < 0)
        return status;
    size_t n;
    const int32_t(*heads)[2] = mx_weights_alignment_heads(c->w, &n);
    mx_tensor pairs = mx_tensor_of_const(MXW_I32, 2, (int64_t[]){(int64_t)n, 2}, heads);
    return mx_npz_add(w, "alignment_heads", &pairs);
}

mxw_status mx_write_npz(mx_conversion *c) {
    mx_npz_writer *w = NULL, *whole;
    mxw_status status;
    MX_TRY(mx_npz_create(c->path, &w));
    for (int64_t i = 0; i < mx_weights_count(c->w); i++)
        MX_TRY(add_tensor(c, w, i));
    MX_TRY(add_config(c, w));
    whole = w;
    w = NULL;
    status = mx_npz_commit(whole);
out:
    mx_npz_abort(w);
    return status;
}
