/* weights/names/dims.c - derives dimensions from the shapes of the tensors, for files that do not state them. */
#include <stdlib.h>
#include <string.h>

#include "weights/store.h"

/* Head size of every Whisper model: only used if the file does not state the number of heads. */
#define HEAD_SIZE 64

/* Size `axis` of a tensor outside of the layers, if *to is not known yet. */
static mxw_status from_shape(mx_weights *w, const char *name, int axis, int32_t *to) {
    mx_tensor_source source;
    if (*to)
        return MXW_OK;
    w->naming->source(name, 0, &source);
    const mx_raw *raw = mx_raw_find(w, source.name);
    if (!raw)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing", source.name);
    if (axis >= raw->view.rank || raw->view.dims[axis] < 1 || raw->view.dims[axis] > INT32_MAX)
        return mx_fail(MXW_E_FORMAT, "tensor %s has %d axes", source.name, raw->view.rank);
    *to = (int32_t)raw->view.dims[axis];
    return MXW_OK;
}

/* One more than the highest layer in any name of the file, so that a missing tensor is still detected. */
static mxw_status from_layers(mx_weights *w, const char *prefix, int32_t *to) {
    size_t n = strlen(prefix);
    if (*to)
        return MXW_OK;
    for (size_t i = 0; i < w->n_raws; i++) {
        if (strncmp(w->raws[i].name, prefix, n) != 0)
            continue;
        const char *digits = w->raws[i].name + n;
        char *end;
        long layer = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
        if (layer >= *to && layer < 1 << 20)
            *to = (int32_t)layer + 1;
    }
    return *to ? MXW_OK : mx_fail(MXW_E_MISSING, "tensor %s0 is missing: no layers", prefix);
}

mxw_status mx_dims_derive(mx_weights *w) {
    mxw_dims *d = &w->dims;
    mxw_status status;
    MX_TRY(from_shape(w, "encoder.conv1.weight", 0, &d->n_audio_state));
    MX_TRY(from_shape(w, "encoder.conv1.weight", 1, &d->n_mels));
    MX_TRY(from_shape(w, "encoder.positional_embedding", 0, &d->n_audio_ctx));
    MX_TRY(from_shape(w, "decoder.token_embedding.weight", 0, &d->n_vocab));
    MX_TRY(from_shape(w, "decoder.token_embedding.weight", 1, &d->n_text_state));
    MX_TRY(from_shape(w, "decoder.positional_embedding", 0, &d->n_text_ctx));
    MX_TRY(from_layers(w, w->naming->encoder_layer, &d->n_audio_layer));
    MX_TRY(from_layers(w, w->naming->decoder_layer, &d->n_text_layer));
    if (!d->n_audio_head)
        d->n_audio_head = MX_MAX(1, d->n_audio_state / HEAD_SIZE);
    if (!d->n_text_head)
        d->n_text_head = MX_MAX(1, d->n_text_state / HEAD_SIZE);
out:
    return status;
}
