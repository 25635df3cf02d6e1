/* tensor/copy.c - a view's elements in row-major order: as they are, or widened exactly to f32.
 *
 * Checkpoints are read through here, so two cases are made quick: dense runs, where the compiler can use vectors, and
 * matrices that lie transposed in the file (most of a .pt's), which are copied tile by tile so that both sides stay in
 * the cache. Every load goes through memcpy because mapped files do not align. */
#include <string.h>

#include "tensor/quantized.h"

#define TILE 32

/* mx_f16_to_f32 without branches: the exponent is moved by a multiplication, which also makes subnormals normal. */
static inline float widen_half(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16, bits;
    float scaled;
    memcpy(&scaled, &magnitude, 4);
    scaled *= 0x1p112f;
    memcpy(&bits, &scaled, 4);
    uint32_t special = 0x7f800000 | magnitude | (magnitude > 0x0f800000 ? 0x400000 : 0);
    bits = sign | (magnitude >= 0x0f800000 ? special : bits);
    memcpy(&scaled, &bits, 4);
    return scaled;
}

#define WIDEN(type, expression)                                                                                        \
    do {                                                                                                               \
        const char *p = from;                                                                                          \
        for (int64_t i = 0; i < n; i++, p += step) {                                                                   \
            type x;                                                                                                    \
            memcpy(&x, p, sizeof(x));                                                                                  \
            out[i] = expression;                                                                                       \
        }                                                                                                              \
    } while (0)

/* n elements `step` bytes apart. */
static void widen_run(mxw_dtype dtype, const void *from, int64_t step, int64_t n, float *restrict out) {
    switch (dtype) {
    case MXW_F32: WIDEN(float, x); break;
    case MXW_F16: WIDEN(uint16_t, widen_half(x)); break;
    case MXW_BF16: WIDEN(uint16_t, mx_bf16_to_f32(x)); break;
    case MXW_I32: WIDEN(int32_t, (float)x); break;
    case MXW_I8: WIDEN(int8_t, (float)x); break;
    case MXW_U8: WIDEN(uint8_t, (float)x); break;
    case MXW_I64: WIDEN(int64_t, (float)x); break;
    case MXW_F64: WIDEN(double, (float)x); break;
    case MXW_F8: WIDEN(uint8_t, mx_f8_to_f32(x)); break;
    }
}

/* The same for elements that lie one after another: a step that the compiler knows. */
static void widen_dense(mxw_dtype dtype, const void *from, int64_t n, float *restrict out) {
    const unsigned char *bytes = from;
    if (dtype == MXW_F32) {
        memcpy(out, from, (size_t)n * sizeof(*out));
    } else if (dtype == MXW_F16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t half;
            memcpy(&half, bytes + 2 * i, 2);
            out[i] = widen_half(half);
        }
    } else {
        widen_run(dtype, from, (int64_t)mx_dtype_bytes(dtype), n, out);
    }
}

#define GATHER(type)                                                                                                   \
    do {                                                                                                               \
        for (int64_t i = 0; i < n; i++, p += step, to += sizeof(type))                                                 \
            memcpy(to, p, sizeof(type));                                                                               \
    } while (0)

static void pack_run(size_t bytes, const void *from, int64_t step, int64_t n, char *restrict to) {
    const char *p = from;
    switch (bytes) {
    case 1: GATHER(uint8_t); break;
    case 2: GATHER(uint16_t); break;
    case 4: GATHER(uint32_t); break;
    case 8: GATHER(uint64_t); break;
    }
}

static void copy_run(const mx_tensor *t, int to_f32, const void *from, int64_t stride, int64_t n, void *to) {
    size_t bytes = mx_dtype_bytes(t->dtype);
    if (n == 0)   /* then there may be no addresses */
        return;
    if (to_f32 && stride == 1)
        widen_dense(t->dtype, from, n, to);
    else if (to_f32)
        widen_run(t->dtype, from, stride * (int64_t)bytes, n, to);
    else if (stride == 1)
        memcpy(to, from, (size_t)n * bytes);
    else
        pack_run(bytes, from, stride * (int64_t)bytes, n, to);
}

/* Runs along the last axis, in row-major order. */
static void copy_rows(const mx_tensor *t, int to_f32, char *to) {
    size_t bytes = mx_dtype_bytes(t->dtype);
    int last = t->rank - 1;
    int64_t index[MX_MAX_RANK] = {0};
    int64_t n = t->rank ? t->dims[last] : 1, stride = t->rank ? t->strides[last] : 1;
    int64_t runs = n ? mx_tensor_count(t) / n : 0;
    for (int64_t r = 0; r < runs; r++) {
        int64_t offset = 0;
        for (int i = 0; i < last; i++)
            offset += index[i] * t->strides[i];
        copy_run(t, to_f32, (const char *)t->data + offset * (int64_t)bytes, stride, n, to);
        to += (size_t)n * (to_f32 ? sizeof(float) : bytes);
        for (int i = last - 1; i >= 0 && ++index[i] == t->dims[i]; i--)
            index[i] = 0;
    }
}

#define TRANSPOSE(type)                                                                                                \
    do {                                                                                                               \
        for (int64_t r = 0; r < rows; r++, to += ld * (int64_t)sizeof(type))                                           \
            for (int64_t c = 0; c < columns; c++)                                                                      \
                memcpy(to + c * (int64_t)sizeof(type), tile + (c * TILE + r) * (int64_t)sizeof(type), sizeof(type));   \
    } while (0)

/* tile [columns][TILE] to rows with a stride of ld elements. */
static void transpose_tile(size_t bytes, const char *restrict tile, int64_t rows, int64_t columns, char *restrict to,
                      int64_t ld) {
    switch (bytes) {
    case 1: TRANSPOSE(uint8_t); break;
    case 2: TRANSPOSE(uint16_t); break;
    case 4: TRANSPOSE(uint32_t); break;
    case 8: TRANSPOSE(uint64_t); break;
    }
}

/* A matrix whose columns are dense: a tile of columns is copied as runs, then transposed. */
static void copy_tiles(const mx_tensor *t, int to_f32, char *to) {
    _Alignas(64) char tile[TILE * TILE * sizeof(double)];
    size_t from_bytes = mx_dtype_bytes(t->dtype), bytes = to_f32 ? sizeof(float) : from_bytes;
    int64_t n_rows = t->dims[0], n_columns = t->dims[1];
    for (int64_t r = 0; r < n_rows; r += TILE)
        for (int64_t c = 0; c < n_columns; c += TILE) {
            int64_t rows = MX_MIN(TILE, n_rows - r), columns = MX_MIN(TILE, n_columns - c);
            for (int64_t i = 0; i < columns; i++) {
                const char *from = (const char *)t->data + (r + (c + i) * t->strides[1]) * (int64_t)from_bytes;
                copy_run(t, to_f32, from, 1, rows, tile + (size_t)i * TILE * bytes);
            }
            transpose_tile(bytes, tile, rows, columns, to + (size_t)(r * n_columns + c) * bytes, n_columns);
        }
}

static void copy_elements(const mx_tensor *t, int to_f32, void *out) {
    if (t->rank == 2 && t->strides[0] == 1 && t->strides[1] != 1)
        copy_tiles(t, to_f32, out);
    else if (mx_tensor_contiguous(t))
        copy_run(t, to_f32, t->data, 1, mx_tensor_count(t), out);
    else
        copy_rows(t, to_f32, out);
}

mxw_status mx_tensor_to_f32(const mx_tensor *t, float *out) {
    if (t->layout == MX_LAYOUT_QUANTIZED) {
        mx_quantized_widen_view(t, out);
        return MXW_OK;
    }
    if (mx_dtype_bytes(t->dtype) == 0)
        return mx_fail(MXW_E_INTERNAL, "unknown element type %d", (int)t->dtype);
    copy_elements(t, 1, out);
    return MXW_OK;
}

void mx_tensor_pack(const mx_tensor *t, void *out) { copy_elements(t, 0, out); }
