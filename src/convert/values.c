/* convert/values.c - one tensor of a checkpoint in the type of a file. What has that type already is copied bit for
 * bit; everything else goes through f32. A value that the type cannot hold is an error that names the tensor. */
#include <float.h>
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

/* A row as CTranslate2's converter rounds it; codes may begin where the values do. Where 127 / largest would be
 * infinite, the scale is the largest number that there is. */
static mxw_status round_row(const char *name, const float *values, int64_t n, const mx_target *t, int8_t *codes,
                            float *scale) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = MX_MAX(largest, fabsf(values[i]));
    const float step = 127.0f / (largest == 0 ? 127.0f : MX_MAX(largest, 127.0f / FLT_MAX)), inverse = 1.0f / step;
    if (!isfinite(127 * inverse))
        return fail_value(name, largest, t);
    *scale = t->divide ? step : inverse;
    for (int64_t i = 0; i < n; i++)
        codes[i] = (int8_t)rintf(values[i] * step);
    return MXW_OK;
}

static mxw_status add_scales(int64_t rows, mx_values *out) {
    out->scales = mx_alloc_array((size_t)rows, sizeof(*out->scales));
    return out->scales ? MXW_OK : MXW_E_MEMORY;
}

/* In place. */
static mxw_status round_rows(const char *name, const mx_tensor *view, const mx_target *t, mx_values *out) {
    const int64_t rows = view->dims[0], columns = mx_tensor_count(view) / rows;
    const float *values = out->data;
    int8_t *codes = out->data;
    mxw_status status = add_scales(rows, out);
    for (int64_t r = 0; r < rows && status >= 0; r++)
        status = round_row(name, values + r * columns, columns, t, codes + r * columns, &out->scales[r]);
    return status;
}

/* In place, block by block. Halves of a block may be too small for the scale that its values need. */
static mxw_status round_blocks(const char *name, float *values, int64_t n, const mx_target *t) {
    enum { MOST = 32 }; /* elements of a type that can be written */
    const int elements = t->blocks->elements;
    char *to = (char *)values;
    if (elements > MOST)
        return mx_fail(MXW_E_INTERNAL, "%s: blocks of %d numbers cannot be written", name, elements);
    for (int64_t i = 0; i < n; i += elements, to += t->blocks->bytes) {
        uint8_t packed[MOST * sizeof(float)];
        float back[MOST];
        mx_blocks_pack(t->blocks, values + i, elements, packed);
        mx_blocks_widen(t->blocks, packed, elements, back);
        float largest = 0;
        int fits = 1;
        for (int e = 0; e < elements; e++) {
            fits = fits && isfinite(back[e]);
            largest = fabsf(values[i + e]) > fabsf(largest) ? values[i + e] : largest;
        }
        if (!fits)
            return fail_value(name, largest, t);
        memcpy(to, packed, (size_t)t->blocks->bytes);
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
        return round_rows(name, view, t, out);
    if (t->blocks && (view->dims[view->rank - 1] % t->blocks->elements || !t->blocks->pack))
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s: rows of %lld cannot be written as %s", name,
                       (long long)view->dims[view->rank - 1], t->name);
    if (t->blocks)
        return round_blocks(name, out->data, (int64_t)n, t);
    return t->dtype == MXW_F32 ? MXW_OK : narrow(name, out->data, n, t);
}

/* Whether a file of this target may have a scale; one that divides is inverted when it is read. */
static int is_usable(const mx_target *t, float scale) {
    return isfinite(scale) && (!t->divide || (scale > 0 && isfinite(1.0f / scale)));
}

/* Rows of codes with their scales, which are inverted where one format divides and the other multiplies. A row whose
 * scale the target cannot have (0 or negative, where it divides) is rounded again. */
static mxw_status copy_rows(const char *name, const mx_quantized *q, int64_t row, int64_t rows, const mx_target *t,
                            mx_values *out) {
    int8_t *codes = out->data;
    float *values = mx_alloc_array((size_t)q->columns, sizeof(*values));
    mxw_status status = values ? add_scales(rows, out) : MXW_E_MEMORY;
    for (int64_t r = 0; r < rows && status >= 0; r++, codes += q->columns) {
        const float scale = mx_quantized_scale(q, row + r), wanted = q->divide == t->divide ? scale : 1.0f / scale;
        if (is_usable(t, wanted)) {
            memcpy(codes, q->data + (size_t)(row + r) * q->row_bytes, (size_t)q->columns);
            out->scales[r] = wanted;
        } else {
            mx_quantized_widen(q, row + r, values);
            status = check_finite(name, values, (size_t)q->columns, t);
            if (status >= 0)
                status = round_row(name, values, q->columns, t, codes, &out->scales[r]);
        }
    }
    mx_free(values);
    return status;
}

/* What the file has in this type already. */
static mxw_status copy_quantized(const char *name, const mx_quantized *q, int64_t row, const mx_tensor *view,
                                 const mx_target *t, mx_values *out, int *copied) {
    const int blocks = t->blocks && q->blocks == t->blocks, rows = t->int8 && q->kind == MX_QUANTIZED_INT8;
    *copied = blocks || rows;
    if (blocks)
        memcpy(out->data, q->data + (size_t)row * q->row_bytes, out->n);
    return rows ? copy_rows(name, q, row, mx_tensor_count(view) / q->columns, t, out) : MXW_OK;
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
        MX_TRY(copy_quantized(info.name, q, row, &view, t, out, &copied));
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
