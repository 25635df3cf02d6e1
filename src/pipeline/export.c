/* pipeline/export.c - a whisper.cpp file needs more than weights: the filter bank of feature/ and the tokens of text/.
 * This folder sees both. */
#include "base/base.h"
#include "feature/feature.h"
#include "pipeline/pipeline.h"

static const char *token_bytes(void *context, int32_t id, size_t *n) { return mx_text_token_bytes(context, id, n); }

mxw_status mx_export_ggml(const mx_weights *w, mxw_dtype matrices, const char *path) {
    mxw_status status;
    mxw_checkpoint_info info;
    mx_text *text = NULL;
    float *filters = NULL;
    mx_weights_info(w, &info);
    MX_TRY(mx_text_open(info.dims->n_vocab, &text));
    filters = mx_alloc_array((size_t)info.dims->n_mels * MX_MEL_BINS, sizeof(*filters));
    status = filters ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_mel_filters(info.dims->n_mels, filters));
    mx_ggml_extras extras = {.filters = filters,
                             .n_bins = MX_MEL_BINS,
                             .n_tokens = mx_text_specials(text)->eot,
                             .token = token_bytes,
                             .context = text};
    MX_TRY(mx_weights_export_ggml(w, &extras, matrices, path));
out:
    mx_free(filters);
    mx_text_close(text);
    return status;
}
