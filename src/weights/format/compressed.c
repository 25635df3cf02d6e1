/* weights/format/compressed.c - the quantized weights of compressed-tensors in a Hugging Face checkpoint: X.weight in
 * int8 or f8 (e4m3) with X.weight_scale, one for each row or for all; a value is code times scale. How activations were
 * to be quantized (X.input_scale) is of no matter here. Codes of 4 bits, and those with zero points, are refused. */
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/store.h"

#define WEIGHT ".weight"

static int ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* The tensor beside X.weight that has this suffix for ".weight". */
static mx_raw *beside(const mx_weights *w, const char *weight, const char *suffix) {
    char name[256];
    size_t n = strlen(weight) - (sizeof(WEIGHT) - 1);
    if (n + strlen(suffix) >= sizeof(name))
        return NULL;
    memcpy(name, weight, n);
    strcpy(name + n, suffix);
    mx_raw *raw = mx_raw_find(w, name);
    if (raw)
        raw->used = 1;
    return raw;
}

static int all_zero_bytes(const mx_raw *raw) {
    const uint8_t *bytes = raw->view.data;
    for (size_t i = 0; bytes && i < mx_tensor_bytes(&raw->view); i++)
        if (bytes[i])
            return 0;
    return 1;
}

/* In a pytorch_model.bin a tensor may have any strides; codes, scales and zero points are read without them. */
static mxw_status check_dense(const mx_raw *raw) {
    if (!raw || mx_tensor_contiguous(&raw->view))
        return MXW_OK;
    return mx_fail(MXW_E_UNSUPPORTED, "tensor %s does not lie row by row in its file, as quantized ones have to",
                   mx_show(raw->name, strlen(raw->name)).text);
}

static mxw_status quantize(mx_weights *w, mx_raw *raw) {
    mx_shown shown = mx_show(raw->name, strlen(raw->name));
    const mx_raw *scale = beside(w, raw->name, ".weight_scale"), *zero = beside(w, raw->name, ".weight_zero_point");
    const int64_t rows = raw->view.dims[0], columns = raw->view.dims[1];
    const int64_t n = scale ? mx_tensor_count(&scale->view) : 0;
    mxw_status status;
    beside(w, raw->name, ".input_scale");
    if (!scale)
        return mx_fail(MXW_E_MISSING, "tensor %s_scale is missing", shown.text);
    if (!mx_dtype_is_float(scale->view.dtype) || scale->quantized || (n != 1 && n != rows))
        return mx_fail(MXW_E_FORMAT, "tensor %s_scale is not one number a row", shown.text);
    MX_TRY(check_dense(raw));
    MX_TRY(check_dense(scale));
    MX_TRY(check_dense(zero));
    if (zero && !all_zero_bytes(zero))
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s has zero points, which are not read", shown.text);
    const int f8 = raw->stored != NULL;
    const mx_quantized q = {
        .kind = f8 ? MX_QUANTIZED_F8 : MX_QUANTIZED_INT8,
        .type = f8 ? MX_F8 : "int8",
        .rows = rows,
        .columns = columns,
        .data = raw->view.data,
        .row_bytes = (size_t)columns,
        .scales = scale->view,
    };
    MX_TRY(mx_quantized_check(&q, shown.text));
    MX_TRY(mx_raw_quantize(w, raw, 2, raw->view.dims, &q));
out:
    return status;
}

mxw_status mx_compressed_settle(mx_weights *w) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < w->n_raws && status == MXW_OK; i++) {
        mx_raw *raw = &w->raws[i];
        int f8 = raw->stored && strcmp(raw->stored, MX_F8) == 0;
        if (ends_in(raw->name, ".weight_packed"))
            return mx_fail(MXW_E_UNSUPPORTED, "tensor %s: codes of 4 bits of compressed-tensors are not read",
                           mx_show(raw->name, strlen(raw->name)).text);
        if ((f8 || raw->view.dtype == MXW_I8) && raw->view.rank == 2 && !raw->quantized && ends_in(raw->name, WEIGHT))
            status = quantize(w, raw);
    }
    return status;
}
