/* convert/ggml.c - the single file that whisper.cpp loads.
 *
 * Little endian, nothing aligned: a magic number, eleven sizes, the mel filter bank, the tokens' bytes in the order of
 * their ids, then the tensors until the file ends. A tensor is rank, length of its name, type, sizes from the innermost
 * out, name, elements. */
#include <string.h>

#include "convert/internal.h"
#include "feature/feature.h"

#define MAGIC 0x67676d6cu /* "ggml" read as a number */

enum { GGML_F32 = 0, GGML_F16 = 1 };

/* The file's type: of its matrices, in numbers of their own; 2000 is the version of the blocks' layout. */
static int file_type(const mx_target *t) {
    static const struct {
        const char *name;
        int type;
    } rows[] = {{"f32", 0},     {"f16", 1},     {"q4_0", 2002}, {"q4_1", 2003}, {"q8_0", 2007}, {"q5_0", 2008},
                {"q5_1", 2009}, {"q2_K", 2010}, {"q3_K", 2011}, {"q4_K", 2012}, {"q5_K", 2013}, {"q6_K", 2014}};
    for (size_t i = 0; i < MX_COUNT(rows); i++)
        if (strcmp(rows[i].name, t->name) == 0)
            return rows[i].type;
    return -1;
}

static mxw_status put_sizes(mx_conversion *c, mx_save *save) {
    const mxw_dims *d = c->dims;
    const int64_t head[] = {MAGIC,           d->n_vocab,       d->n_audio_ctx, d->n_audio_state,
                            d->n_audio_head, d->n_audio_layer, d->n_text_ctx,  d->n_text_state,
                            d->n_text_head,  d->n_text_layer,  d->n_mels,      file_type(&c->matrices)};
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(head) && status >= 0; i++)
        status = mx_put(save, (uint64_t)head[i], 4);
    return status;
}

static mxw_status put_filters(mx_conversion *c, mx_save *save) {
    mxw_status status;
    size_t n = (size_t)c->dims->n_mels * MX_MEL_BINS;
    float *filters = mx_alloc_array(n, sizeof(*filters));
    if (!filters)
        return MXW_E_MEMORY;
    MX_TRY(mx_mel_filters(c->dims->n_mels, filters));
    MX_TRY(mx_put(save, (uint64_t)c->dims->n_mels, 4));
    MX_TRY(mx_put(save, MX_MEL_BINS, 4));
    MX_TRY(mx_save_write(save, filters, n * sizeof(*filters)));
out:
    mx_free(filters);
    return status;
}

static mxw_status put_tokens(mx_conversion *c, mx_save *save) {
    const int32_t n_tokens = mx_text_specials(c->text)->eot;
    mxw_status status = mx_put(save, (uint64_t)n_tokens, 4);
    for (int32_t id = 0; id < n_tokens && status >= 0; id++) {
        size_t n = 0;
        const char *bytes = mx_text_token_bytes(c->text, id, &n);
        status = mx_put(save, n, 4);
        if (status >= 0 && n)
            status = mx_save_write(save, bytes, n);
    }
    return status;
}

/* What whisper.cpp's loader expects of each name: vectors and positions in f32, kernels in f16 beside anything but
 * f32. */
static mx_target type_of(const mx_conversion *c, const mx_tensor *view, const char *name) {
    if (mx_is_matrix(view, name))
        return c->matrices;
    return mx_plain(view->rank < 3 || (!c->matrices.blocks && c->matrices.dtype == MXW_F32) ? MXW_F32 : MXW_F16);
}

static mxw_status put_head(mx_save *save, const mx_tensor *view, const char *name, const mx_target *t) {
    mxw_status status;
    size_t name_n = strlen(name);
    int column = strcmp(name, "encoder.conv1.bias") == 0 || strcmp(name, "encoder.conv2.bias") == 0;
    MX_TRY(mx_put(save, (uint64_t)(view->rank + column), 4));
    MX_TRY(mx_put(save, name_n, 4));
    MX_TRY(mx_put(save, t->blocks ? t->blocks->id : t->dtype == MXW_F16 ? GGML_F16 : GGML_F32, 4));
    if (column) /* stored as [n, 1], to be added to [n, frames] */
        MX_TRY(mx_put(save, 1, 4));
    for (int i = view->rank - 1; i >= 0; i--)
        MX_TRY(mx_put(save, (uint64_t)view->dims[i], 4));
    MX_TRY(mx_save_write(save, name, name_n));
out:
    return status;
}

static mxw_status put_tensor(mx_conversion *c, mx_save *save, int64_t i) {
    mxw_tensor_info info;
    mx_tensor view;
    mx_values values = {0};
    mxw_status status;
    MX_TRY(mx_weights_tensor(c->w, i, &info, &view));
    const mx_target t = type_of(c, &view, info.name);
    MX_TRY(mx_values_read(c, i, &t, &values));
    MX_TRY(put_head(save, &view, info.name, &t));
    MX_TRY(mx_save_write(save, values.data, values.n));
out:
    mx_values_free(&values);
    return status;
}

mxw_status mx_write_ggml(mx_conversion *c) {
    mx_save *save = NULL;
    mxw_status status;
    MX_TRY(mx_save_open(c->path, &save));
    MX_TRY(put_sizes(c, save));
    MX_TRY(put_filters(c, save));
    MX_TRY(put_tokens(c, save));
    for (int64_t i = 0; i < mx_weights_count(c->w); i++)
        MX_TRY(put_tensor(c, save, i));
    status = mx_save_commit(save);
    save = NULL;
out:
    mx_save_abort(save);
    return status;
}
