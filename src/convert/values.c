/* convert/values.c - one tensor of a checkpoint in the type of a file. What has that type already is copied bit for
 * bit; everything else goes through f32. A value that the type cannot hold is an error that names the tensor. */
#include <math.h>
#include <string.h>

#include "convert/internal.h"

mx_target mx_plain(mxw_dtype dtype) { return (mx_target){.name = mx_dtype_name(dtype), .dtype = dtype}; }

uint64_t mx_target_bytes(const mx_target *t, const mx_tensor *view) {
    uint64_t n = (uint64_t)mx_tensor_count(view);
    if (t->blocks)
        return n / (uint64_t)t->blocks->elements * (uint64_t)t->blocks->bytes;
    return t->int8 ? n : n * mx_dtype_bytes(t->dtype);
}

mx_target mx_target_of(const mx_conversion *c, int64_t i, const mx_target *wanted) {
    int64_t row;
    const mx_quantized *q = mx_weights_quantized(c->w, i, &row);
    mx_tensor view;
    if (!c->automatic || !wanted->blocks || mx_weights_tensor(c->w, i, NULL, &view) < 0)
        return *wanted;
    if (q && q->blocks)
        return (mx_target){.name = q->type, .blocks = q->blocks};
    return q ? *wanted : mx_plain(view.dtype == MXW_F16 || view.dtype == MXW_BF16 ? view.dtype : MXW_F32);
}

static mxw_status fail_value(const char *name, float value, const mx_target *t) {
    return mx_fail(MXW_E_UNSUPPORTED, "tensor %s: %g does not fit into %s", name, (double)value, t->name);
}

/* In place: n floats become halves at the front. */
static mxw_status narrow(const char *name, float *values, size_t n, const mx_target *t) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half = t->dtype == MXW_F16 ? mx_f32_to_f16(values[i]) : mx_f32_to_bf16(values[i]);
        float back = t->dtype == MXW_F16 ? mx_f16_to_f32(half) : mx_bf16_to_f32(half);
        if (isfinite(values[i]) && !isfinite(back))
            return fail_value(name, values[i], t);
        memcpy((char *)values + i * sizeof(half), &half, sizeof(half));
    }
    return MXW_OK;
}

/* Scales and codes of rows, as CTranslate2's converter computes them; codes in place. */
static mxw_status round_rows(float *values, int64_t rows, int64_t columns, mx_values *out) {
    out->scales = mx_alloc_array((size_t)rows, sizeof(*out->scales));
    if (!out->scales)
        return MXW_E_MEMORY;
    int8_t *codes = out->data;
    for (int64_t r = 0; r < rows; r++) {
        float largest = 0;
        for (int64_t i = 0; i < columns; i++)
            largest = MX_MAX(largest, fabsf(values[r * columns + i]));
        const float scale = 127.0f / (largest == 0 ? 127.0f : largest);
        out->scales[r] = scale;
        for (int64_t i = 0; i < columns; i++)
            codes[r * columns + i] = (int8_t)rintf(values[r * columns + i] * scale);
    }
    return MXW_OK;
}

static mxw_status check_finite(const char *name, const float *values, size_t n, const mx_target *t) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return fail_value(name, values[i], t);
    return MXW_OK;
}

static mxw_status from_f32(const char *name, const mx_tensor *view, const mx_target *t, mx_values *out) {
    size_t n = (size_t)mx_tensor_count(view);
    if (t->blocks || t->int8) {
        mxw_status status = check_finite(name, out->data, n, t);
        if (status < 0)
            return status;
    }
    if (t->int8)
        return round_rows(out->data, view->dims[0], (int64_t)n / view->dims[0], out);
    if (t->blocks && (view->dims[view->rank - 1] % t->blocks->elements || !t->blocks->pack))
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s: rows of %lld cannot be written as %s", name,
                       (long long)view->dims[view->rank - 1], t->name);
    if (t->blocks)
        mx_blocks_pack(t->blocks, out->data, (int64_t)n, out->data);
    return t->blocks || t->dtype == MXW_F32 ? MXW_OK : narrow(name, out->data, n, t);
}

/* Codes and scales as the file has them, if they are of this type. */
static mxw_status copy_quantized(const mx_quantized *q, int64_t row, const mx_tensor *view, const mx_target *t,
                                 mx_values *out, int *copied) {
    const int64_t rows = mx_tensor_count(view) / q->columns;
    *copied = (t->blocks && q->blocks == t->blocks) || (t->int8 && q->kind == MX_QUANTIZED_INT8);
    if (!*copied)
        return MXW_OK;
    memcpy(out->data, q->data + (size_t)row * q->row_bytes, out->n);
    if (!t->int8)
        return MXW_OK;
    out->multiply = !q->divide;
    out->scales = mx_alloc_array((size_t)rows, sizeof(*out->scales));
    if (!out->scales)
        return MXW_E_MEMORY;
    for (int64_t r = 0; r < rows; r++)
        out->scales[r] = mx_quantized_scale(q, row + r);
    return MXW_OK;
}

void mx_values_turn(mx_values *values, int64_t rows, int multiply) {
    for (int64_t r = 0; values->scales && values->multiply != multiply && r < rows; r++)
        values->scales[r] = 1.0f / values->scales[r];
    values->multiply = multiply;
}

static mxw_status report(mx_conversion *c, const char *name, uint64_t n) {
    c->done += n;
    mx_weights_forget(c->w); /* pages of the file that were read */
    if (c->options->progress && c->options->progress(c->options->user, name, c->done, c->total))
        return mx_fail(MXW_E_ABORTED, "%s: stopped", c->path);
    return MXW_OK;
}

mxw_status mx_values_read(mx_conversion *c, int64_t i, const mx_target *t, mx_values *out) {
    mxw_tensor_info info;
    mx_tensor view;
    int64_t row = 0;
    int copied = 0;
    mxw_status status;
    *out = (mx_values){0};
    MX_TRY(mx_weights_tensor(c->w, i, &info, &view));
    out->n = (size_t)mx_target_bytes(t, &view);
    out->data = mx_alloc_array((size_t)mx_tensor_count(&view), sizeof(float));
    if (!out->data)
        return MXW_E_MEMORY;
    const mx_quantized *q = mx_weights_quantized(c->w, i, &row);
    if (q)
        MX_TRY(copy_quantized(q, row, &view, t, out, &copied));
    if (!q && !t->blocks && !t->int8 && view.dtype == t->dtype) {
        mx_tensor_pack(&view, out->data);
    } else if (!copied) {
        MX_TRY(mx_weights_read_f32(c->w, i, out->data));
        MX_TRY(from_f32(info.name, &view, t, out));
    }
    MX_TRY(mx_weights_check(c->w));   /* or the new file may be of two */
    MX_TRY(report(c, info.name, (uint64_t)mx_tensor_count(&view)));
out:
    if (status < 0)
        mx_values_free(out);
    return status;
}

void mx_values_free(mx_values *values) {
    mx_free(values->data);
    mx_free(values->scales);
    *values = (mx_values){0};
}

/* ---- fields of files -------------------------------------------------------------------------------------- */

mxw_status mx_put(mx_save *save, uint64_t value, int bytes) {
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(value >> (8 * i));
    return mx_save_write(save, b, (size_t)bytes);
}

void mx_add(mx_str *s, uint64_t value, int bytes) {
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(value >> (8 * i));
    mx_str_add(s, b, (size_t)bytes);
}
