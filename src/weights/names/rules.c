/* weights/names/rules.c - checks that tensors which other formats have and Whisper lacks do not change the result. */
#include <string.h>

#include "weights/store.h"

static int all_zero(const mx_tensor *t) {
    size_t size = mx_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < mx_tensor_count(t); i++) {
        mx_tensor one = {.dtype = t->dtype, .data = (char *)t->data + i * t->strides[0] * (int64_t)size};
        float value = 1;
        if (mx_tensor_to_f32(&one, &value) < 0 || value != 0)
            return 0;
    }
    return 1;
}

mxw_status mx_rule_zero_bias(mx_raw *raw, const mx_tensor_source *source) {
    mx_tensor view;
    mxw_status status = mx_raw_part(raw, source, &view);
    if (status < 0)
        return status;
    raw->used = 1;
    if (view.rank != 1 || raw->quantized || !all_zero(&view))
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s has a bias for the key; Whisper's attention has none",
                       source->name);
    return MXW_OK;
}

/* Two matrices, element by element, with the strides that they have in their file. */
static int same_matrix(const mx_tensor *a, const mx_tensor *b) {
    const size_t size = mx_dtype_bytes(a->dtype);
    if (a->dtype != b->dtype || a->rank != 2 || b->rank != 2 || a->dims[0] != b->dims[0] || a->dims[1] != b->dims[1])
        return 0;
    if (a->data == b->data && a->strides[0] == b->strides[0] && a->strides[1] == b->strides[1])
        return 1;
    if (mx_tensor_contiguous(a) && mx_tensor_contiguous(b))
        return memcmp(a->data, b->data, mx_tensor_bytes(a)) == 0;
    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t j = 0; j < a->dims[1]; j++) {
            const char *x = (const char *)a->data + (i * a->strides[0] + j * a->strides[1]) * (int64_t)size;
            const char *y = (const char *)b->data + (i * b->strides[0] + j * b->strides[1]) * (int64_t)size;
            if (memcmp(x, y, size) != 0)
                return 0;
        }
    return 1;
}

mxw_status mx_rule_tied(const mx_weights *w, const char *embedding_name, const char *projection_name) {
    const mx_raw *embedding = mx_raw_find(w, embedding_name);
    mx_raw *projection = mx_raw_find(w, projection_name);
    if (!projection || !embedding)
        return MXW_OK;
    projection->used = 1;
    const int same = projection->quantized && embedding->quantized
                         ? mx_quantized_same(projection->quantized, embedding->quantized)
                         : !projection->quantized && !embedding->quantized &&
                               same_matrix(&projection->view, &embedding->view);
    if (!same)
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s differs from %s; Whisper's output matrix is its embedding",
                       projection->name, embedding->name);
    return MXW_OK;
}
