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
    case MXW_I32: case MXW_I8: case MXW_U8: case MXW_I64: case MXW_F8: break;
    }
    return x;
}

/* The codes of e4m3: eight subnormals, then eight of each exponent, of which the last one is no number. */
#define EIGHT(unit) 8 * (unit), 9 * (unit), 10 * (unit), 11 * (unit), 12 * (unit), 13 * (unit), 14 * (unit), 15 * (unit)
#define F8_HALF(s)                                                                                                     \
    0 * (s), 0x1p-9f * (s), 0x2p-9f * (s), 0x3p-9f * (s), 0x4p-9f * (s), 0x5p-9f * (s), 0x6p-9f * (s), 0x7p-9f * (s),  \
    EIGHT(0x1p-9f * (s)), EIGHT(0x1p-8f * (s)), EIGHT(0x1p-7f * (s)), EIGHT(0x1p-6f * (s)), EIGHT(0x1p-5f * (s)),      \
    EIGHT(0x1p-4f * (s)), EIGHT(0x1p-3f * (s)), EIGHT(0x1p-2f * (s)), EIGHT(0x1p-1f * (s)), EIGHT(0x1p0f * (s)),       \
    EIGHT(0x1p1f * (s)), EIGHT(0x1p2f * (s)), EIGHT(0x1p3f * (s)), EIGHT(0x1p4f * (s)),                                \
    256 * (s), 288 * (s), 320 * (s), 352 * (s), 384 * (s), 416 * (s), 448 * (s), (s) < 0 ? -NAN : NAN
static const float f8[256] = {F8_HALF(1.0f), F8_HALF(-1.0f)};

float mx_f8_to_f32(uint8_t code) { return f8[code]; }

float mx_quantized_scale(const mx_quantized *q, int64_t row) {
    return element(&q->scales, mx_tensor_count(&q->scales) == 1 ? 0 : row);
}

float mx_quantized_factor(const mx_quantized *q, int64_t row) {
    const float scale = mx_quantized_scale(q, row);
    return q->divide ? 1.0f / scale : scale;
}

static void widen_scaled(const mx_quantized *q, int64_t row, float *out) {
    const uint8_t *codes = q->data + (size_t)row * q->row_bytes;
    const float scale = mx_quantized_factor(q, row);
    if (q->kind == MX_QUANTIZED_INT8)
        for (int64_t i = 0; i < q->columns; i++)
            out[i] = (float)(int8_t)codes[i] * scale;
    else if (q->kind == MX_QUANTIZED_F8)
        for (int64_t i = 0; i < q->columns; i++)
            out[i] = f8[codes[i]] * scale;
    else
        for (int64_t i = 0; i < q->columns; i++)
            out[i] = (float)(int16_t)(uint16_t)(codes[2 * i] | codes[2 * i + 1] << 8) * scale;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* The nearest f16, ties to even, without branches, so that the compiler can use vectors; x is a number. */
static inline float to_f16(float x) {
    int32_t bits, magnitude, small_bits;
    memcpy(&bits, &x, 4);
    magnitude = bits & 0x7fffffff;
    float small;
    memcpy(&small, &magnitude, 4);
    small = small + 0.5f - 0.5f;   /* f16's subnormals have the steps of f32 from 0.5 on */
    memcpy(&small_bits, &small, 4);
    int32_t rounded = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fff;
    rounded = rounded >= 0x47800000 ? 0x7f800000 : rounded;
    const int32_t is_small = -(magnitude < 0x38800000);
    bits = (bits & INT32_MIN) | (small_bits & is_small) | (rounded & ~is_small);
    memcpy(&x, &bits, 4);
    return x;
}

static inline float to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

/* Codes of one group become values. As MLX computes: the product and then the sum are rounded to the scales' type. */
static void widen_codes(mxw_dtype dtype, float scale, float bias, int64_t n, float *x) {
    if (dtype == MXW_F16)
        for (int64_t i = 0; i < n; i++)
            x[i] = to_f16(to_f16(scale * x[i]) + bias);
    else if (dtype == MXW_BF16)
        for (int64_t i = 0; i < n; i++)
            x[i] = to_bf16(to_bf16(scale * x[i]) + bias);
    else
        for (int64_t i = 0; i < n; i++)
            x[i] = scale * x[i] + bias;
}

/* Codes lie one after another from the lowest bit of the first word on, over the ends of words; a row is whole ones. */
typedef struct code_reader {
    const uint8_t *next;   /* word */
    uint64_t held;
    int n_held;            /* bits */
} code_reader;

static inline unsigned next_code(code_reader *r, int bits) {
    if (r->n_held < bits) {
        const uint32_t word = r->next[0] | (uint32_t)r->next[1] << 8 | (uint32_t)r->next[2] << 16 |
                              (uint32_t)r->next[3] << 24;
        r->held |= (uint64_t)word << r->n_held;
        r->n_held += 32;
        r->next += 4;
    }
    const unsigned code = (unsigned)r->held & ((1u << bits) - 1);
    r->held >>= bits;
    r->n_held -= bits;
    return code;
}

#define LISTED_BITS 4   /* up to so many a group's few values are listed first */

static void widen_groups(const mx_quantized *q, int64_t row, float *out) {
    code_reader codes = {.next = q->data + (size_t)row * q->row_bytes};
    const int64_t n_groups = q->columns / q->group;
    const int bits = q->bits, n_listed = bits <= LISTED_BITS ? 1 << bits : 0;
    for (int64_t g = 0; g < n_groups; g++, out += q->group) {
        const float scale = element(&q->scales, row * n_groups + g), bias = element(&q->biases, row * n_groups + g);
        float values[1 << LISTED_BITS];
        for (int i = 0; i < n_listed; i++)
            values[i] = (float)i;
        widen_codes(q->scales.dtype, scale, bias, n_listed, values);
        for (int64_t i = 0; n_listed && i < q->group; i++)
            out[i] = values[next_code(&codes, bits)];
        for (int64_t i = 0; !n_listed && i < q->group; i++)
            out[i] = (float)next_code(&codes, bits);
        if (!n_listed)
            widen_codes(q->scales.dtype, scale, bias, q->group, out);
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
