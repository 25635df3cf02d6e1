/* tensor/tensor.c - element types, views, halves. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes, is_float;
} dtypes[] = {
    [MXW_F32] = {"f32", 4, 1}, [MXW_F16] = {"f16", 2, 1}, [MXW_BF16] = {"bf16", 2, 1}, [MXW_I32] = {"i32", 4, 0},
    [MXW_I8] = {"i8", 1, 0},   [MXW_U8] = {"u8", 1, 0},   [MXW_I64] = {"i64", 8, 0},   [MXW_F64] = {"f64", 8, 1},
    [MXW_F8] = {"f8", 1, 1},
};

size_t mx_dtype_bytes(mxw_dtype dtype) { return (size_t)dtype < MX_COUNT(dtypes) ? dtypes[dtype].bytes : 0; }

const char *mx_dtype_name(mxw_dtype dtype) { return (size_t)dtype < MX_COUNT(dtypes) ? dtypes[dtype].name : "?"; }

int mx_dtype_in_graphs(mxw_dtype dtype) { return mx_dtype_bytes(dtype) && dtype != MXW_F8; }

int mx_dtype_is_float(mxw_dtype dtype) { return (size_t)dtype < MX_COUNT(dtypes) && dtypes[dtype].is_float; }

mx_tensor mx_tensor_of(mxw_dtype dtype, int rank, const int64_t *dims, void *data) {
    mx_tensor t = {.dtype = dtype, .rank = rank, .data = data};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        t.dims[i] = dims[i];
        t.strides[i] = stride;
        if (__builtin_mul_overflow(stride, dims[i], &stride))   /* an open size (op.h): there are no strides yet */
            stride = 0;
    }
    return t;
}

/* Views are read-only or not by where they are used: mx_tensor has one type for both. */
mx_tensor mx_tensor_of_const(mxw_dtype dtype, int rank, const int64_t *dims, const void *data) {
    union {
        const void *read;
        void *write;
    } address = {.read = data};
    return mx_tensor_of(dtype, rank, dims, address.write);
}

int64_t mx_tensor_count(const mx_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

size_t mx_tensor_bytes(const mx_tensor *t) { return (size_t)mx_tensor_count(t) * mx_dtype_bytes(t->dtype); }

int mx_tensor_contiguous(const mx_tensor *t) {
    int64_t stride = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] != 1 && t->strides[i] != stride)
            return 0;
        stride *= t->dims[i];
    }
    return 1;
}

void mx_tensor_describe(const mx_tensor *t, char *out, size_t n) {
    size_t at = 0;
    int wrote = snprintf(out, n, "%s [", mx_dtype_name(t->dtype));
    at += wrote > 0 ? (size_t)wrote : 0;
    for (int i = 0; i < t->rank && at < n; i++) {
        wrote = snprintf(out + at, n - at, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    if (at < n)
        snprintf(out + at, n - at, "]");
}

float mx_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (half >> 10) & 31;
    uint32_t mantissa = half & 1023;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
    } else if (exponent) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else if (mantissa) {
        int shift = __builtin_clz(mantissa) - 21;   /* brings the leading one to bit 10 */
        bits = sign | (uint32_t)(113 - shift) << 23 | (mantissa << shift & 1023) << 13;
    } else {
        bits = sign;
    }
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

uint16_t mx_f32_to_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7e00 | (uint16_t)(magnitude >> 13 & 0x3ff);
    if (magnitude >= 0x477ff000)   /* rounds to 65536 or more */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) {  /* subnormal half: the unit is 2^-24 */
        if (magnitude < 0x33000000)
            return sign;
        int shift = 126 - (int)(magnitude >> 23);
        uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
        uint32_t half = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
        half += rest > middle || (rest == middle && (half & 1));
        return sign | (uint16_t)half;
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000;
    return sign | (uint16_t)(rounded >> 13);
}

float mx_bf16_to_f32(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

uint16_t mx_f32_to_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint8_t mx_f32_to_f8(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7f;
    if (magnitude >= 0x43e00000)   /* 448 or more */
        return sign | 0x7e;
    if (magnitude < 0x3c800000) {  /* subnormal: the unit is 2^-9 */
        if (magnitude < 0x3a800000)
            return sign;
        int shift = 141 - (int)(magnitude >> 23);
        uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
        uint32_t code = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), middle = 1u << (shift - 1);
        code += rest > middle || (rest == middle && (code & 1));
        return sign | (uint8_t)code;
    }
    uint32_t rounded = magnitude + 0x7ffff + (magnitude >> 20 & 1) - 0x3c000000;
    return sign | (uint8_t)(rounded >> 20);
}
