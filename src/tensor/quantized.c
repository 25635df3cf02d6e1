/* tensor/quantized.c - widens quantized tensors row by row; see the header. */
#include "tensor/quantized.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* An element of a row-major float tensor of the file, possibly unaligned. */
static float element(const mx_tensor *t, int64_t i) {
    const char *at = (const char *)t->data + i * (int64_t)mx_dtype_bytes(t->dtype);
    uint16_t half;
    float x = 0;
    double d;
    switch (t->dtype) {
    case MXW_F16: memcpy(&half, at, 2); return mx_f16_to_f32(half);
    case MXW_BF16: memcpy(&half, at, 2); return mx_bf16_to_f32(half);
    case MXW_F32: memcpy(&x, at, 4); return x;
    case MXW_F64: memcpy(&d, at, 8); return (float)d;
    case MXW_I32: case MXW_I8: case MXW_U8: case MXW_I64: break;
    }
    return x;
}

float mx_f8_to_f32(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    float value = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    if (exponent == 15 && mantissa == 7)
        value = NAN;
    return code & 128 ? -value : value;
}

float mx_quantized_scale(const mx_quantized *q, int64_t row) {
    return element(&q->scales, mx_tensor_count(&q->scales) == 1 ? 0 : row);
}

static float row_scale(const mx_quantized *q, int64_t row) {
    const float scale = mx_quantized_scale(q, row);
    return q->divide ? 1.0f / scale : scale;
}

static void widen_scaled(const mx_quantized *q, int64_t row, float *out) {
    const uint8_t *codes = q->data + (size_t)row * q->row_bytes;
    const float scale = row_scale(q, row);
    for (int64_t i = 0; i < q->columns; i++) {
        float code;
        if (q->kind == MX_QUANTIZED_INT8)
            code = (float)(int8_t)codes[i];
        else if (q->kind == MX_QUANTIZED_F8)
            code = mx_f8_to_f32(codes[i]);
        else
            code = (float)(int16_t)(uint16_t)(codes[2 * i] | codes[2 * i + 1] << 8);
        out[i] = code * scale;
    }
}

/* As MLX computes: the product and then the sum are rounded to the scales' type. */
static float rounded(mxw_dtype dtype, float x) {
    if (dtype == MXW_F16)
        return mx_f16_to_f32(mx_f32_to_f16(x));
    return dtype == MXW_BF16 ? mx_bf16_to_f32(mx_f32_to_bf16(x)) : x;
}

/* Codes lie one after another from the lowest bit of the first word on, over the ends of bytes and words. */
static unsigned group_code(const uint8_t *codes, int bits, int64_t i) {
    int64_t at = i * bits;
    unsigned pair = codes[at / 8];
    if (at % 8 + bits > 8)
        pair |= (unsigned)codes[at / 8 + 1] << 8;
    return pair >> (at % 8) & ((1u << bits) - 1);
}

static void widen_groups(const mx_quantized *q, int64_t row, float *out) {
    const uint8_t *codes = q->data + (size_t)row * q->row_bytes;
    const mxw_dtype dtype = q->scales.dtype;
    for (int64_t g = 0; g < q->columns / q->group; g++) {
        const int64_t at = row * (q->columns / q->group) + g;
        const float scale = element(&q->scales, at), bias = element(&q->biases, at);
        for (int64_t i = g * q->group; i < (g + 1) * q->group; i++) {
            const float product = rounded(dtype, scale * (float)group_code(codes, q->bits, i));
            out[i] = rounded(dtype, product + bias);
        }
    }
}

void mx_quantized_widen(const mx_quantized *q, int64_t row, float *out) {
    if (q->kind == MX_QUANTIZED_BLOCKS)
        mx_blocks_widen(q->blocks, q->data + (size_t)row * q->row_bytes, q->columns, out);
    else if (q->kind == MX_QUANTIZED_GROUPS)
        widen_groups(q, row, out);
    else
        widen_scaled(q, row, out);
}

void mx_quantized_widen_view(const mx_tensor *t, float *out) {
    const mx_quantized *q = t->quantized;
    int64_t first = t->offset / q->columns, rows = mx_tensor_count(t) / q->columns;
    for (int64_t row = 0; row < rows; row++)
        mx_quantized_widen(q, first + row, out + row * q->columns);
}

static size_t bytes_of(const mx_tensor *t) { return t->data ? mx_tensor_bytes(t) : 0; }

uint64_t mx_quantized_bytes(const mx_quantized *q) {
    return (uint64_t)q->rows * q->row_bytes + bytes_of(&q->scales) + bytes_of(&q->biases);
}

static int same_bytes(const mx_tensor *a, const mx_tensor *b) {
    return a->dtype == b->dtype && bytes_of(a) == bytes_of(b) &&
           (bytes_of(a) == 0 || memcmp(a->data, b->data, bytes_of(a)) == 0);
}

int mx_quantized_same(const mx_quantized *a, const mx_quantized *b) {
    return a == b || (a->kind == b->kind && a->blocks == b->blocks && a->divide == b->divide && a->bits == b->bits &&
                      a->group == b->group && a->rows == b->rows && a->columns == b->columns &&
                      memcmp(a->data, b->data, (size_t)a->rows * a->row_bytes) == 0 &&
                      same_bytes(&a->scales, &b->scales) && same_bytes(&a->biases, &b->biases));
}

mxw_status mx_quantized_check(const mx_quantized *q, const char *name) {
    int64_t n = mx_tensor_count(&q->scales), width = q->kind == MX_QUANTIZED_GROUPS ? q->columns / q->group : 1;
    for (int64_t i = 0; i < n; i++) {
        float s = element(&q->scales, i);
        if (q->divide && (!(s > 0) || !isfinite(s) || !isfinite(1.0f / s)))
            return mx_fail(MXW_E_FORMAT, "tensor %s: the scale of row %lld is not a positive number", name,
                           (long long)i);
        if (!isfinite(s) || (q->biases.data && !isfinite(element(&q->biases, i))))
            return mx_fail(MXW_E_FORMAT, "tensor %s: a scale or bias of row %lld is not a number", name,
                           (long long)(i / width));
    }
    return MXW_OK;
}
