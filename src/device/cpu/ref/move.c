/* device/cpu/ref/move.c - elements from one place or type to another. */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>

/* One run along the last axis. */
static void copy_run(char *y, const char *x, int64_t n, int64_t stride, size_t bytes) {
    if (stride == 1) {
        memcpy(y, x, (size_t)n * bytes);
    } else if (bytes == 4) {
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * 4, x + i * stride * 4, 4);
    } else {
        for (int64_t i = 0; i < n; i++)
            memcpy(y + i * (int64_t)bytes, x + i * stride * (int64_t)bytes, bytes);
    }
}

/* A matrix of 4-byte elements whose rows lie side by side in x: long loops over them, however short its rows are. */
static void copy_transposed(char *y, const char *x, int64_t rows, int64_t n, int64_t stride) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(y + (i * n + j) * 4, x + (j * stride + i) * 4, 4);
}

void MX_REF(copy)(void *y, const void *x, int rank, const int64_t *dims, const int64_t *strides, size_t bytes) {
    int64_t index[MX_MAX_RANK] = {0}, runs = 1;
    int last = rank - 1;
    int64_t n = rank ? dims[last] : 1, stride = rank ? strides[last] : 1, rows = 1;
    if (last > 0 && bytes == 4 && stride != 1 && strides[last - 1] == 1 && dims[last - 1] > n)
        rows = dims[--last];
    for (int i = 0; i < last; i++)
        runs *= dims[i];
    if (n == 0)
        return;
    char *to = y;
    for (int64_t r = 0; r < runs; r++, to += (size_t)(rows * n) * bytes) {
        int64_t offset = 0;
        for (int i = 0; i < last; i++)
            offset += index[i] * strides[i];
        const char *from = (const char *)x + offset * (int64_t)bytes;
        if (rows > 1)
            copy_transposed(to, from, rows, n, stride);
        else
            copy_run(to, from, n, stride, bytes);
        for (int i = last - 1; i >= 0 && ++index[i] == dims[i]; i--)
            index[i] = 0;
    }
}

/* Integers are widened to i64 and floats to f64, both exactly; then narrowed once. */
static int64_t load_int(const void *x, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_I8: return ((const int8_t *)x)[i];
    case MXW_U8: return ((const uint8_t *)x)[i];
    case MXW_I32: return ((const int32_t *)x)[i];
    default: return ((const int64_t *)x)[i];
    }
}

/* At any address: weights that are used in place lie as the file has them. */
static uint16_t load_half(const void *x, int64_t i) {
    uint16_t half;
    memcpy(&half, (const char *)x + i * 2, sizeof(half));
    return half;
}

static double load_float(const void *x, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_F16: return (double)mx_f16_to_f32(load_half(x, i));
    case MXW_BF16: return (double)mx_bf16_to_f32(load_half(x, i));
    case MXW_F32: return (double)((const float *)x)[i];
    default: return ((const double *)x)[i];
    }
}

static void store_int(void *y, mxw_dtype dtype, int64_t i, int64_t v) {
    switch (dtype) {
    case MXW_I8: ((int8_t *)y)[i] = (int8_t)MX_MAX(MX_MIN(v, INT8_MAX), INT8_MIN); break;
    case MXW_U8: ((uint8_t *)y)[i] = (uint8_t)MX_MAX(MX_MIN(v, UINT8_MAX), 0); break;
    case MXW_I32: ((int32_t *)y)[i] = (int32_t)MX_MAX(MX_MIN(v, INT32_MAX), INT32_MIN); break;
    default: ((int64_t *)y)[i] = v; break;
    }
}

/* A double to f32 such that rounding it again to a half gives what rounding the double would: to odd. */
static float to_f32_odd(double v) {
    float f = (float)v;
    if ((double)f == v || isnan(v) || isinf(f))
        return f;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (!(bits & 1)) {   /* inexact and even: step to the odd neighbour on the other side of v */
        bits += fabs((double)f) > fabs(v) ? (uint32_t)-1 : 1;
        memcpy(&f, &bits, 4);
    }
    return f;
}

static void store_float(void *y, mxw_dtype dtype, int64_t i, double v) {
    switch (dtype) {
    case MXW_F16: ((uint16_t *)y)[i] = mx_f32_to_f16(to_f32_odd(v)); break;
    case MXW_BF16: ((uint16_t *)y)[i] = mx_f32_to_bf16(to_f32_odd(v)); break;
    case MXW_F32: ((float *)y)[i] = (float)v; break;
    default: ((double *)y)[i] = v; break;
    }
}

static int64_t truncate(double v) {
    if (isnan(v))
        return 0;
    if (v >= 9223372036854775808.0)
        return INT64_MAX;
    return v < -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

void MX_REF(cast)(void *y, mxw_dtype to, const void *x, mxw_dtype from, int64_t n) {
    int float_in = mx_dtype_is_float(from), float_out = mx_dtype_is_float(to);
    if (to == from) {
        memcpy(y, x, (size_t)n * mx_dtype_bytes(to));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (from == MXW_I64 && to == MXW_F32)
            ((float *)y)[i] = (float)((const int64_t *)x)[i];
        else if (float_in && float_out)
            store_float(y, to, i, load_float(x, from, i));
        else if (float_in)
            store_int(y, to, i, truncate(load_float(x, from, i)));
        else if (float_out)
            store_float(y, to, i, (double)load_int(x, from, i));
        else
            store_int(y, to, i, load_int(x, from, i));
    }
}
