/* tensor/tensor.h - the door of tensor/: dtype, shape, and a strided view of bytes it does not own. */
#ifndef MX_TENSOR_H
#define MX_TENSOR_H
#include "base/status.h"

#define MX_MAX_RANK MXW_MAX_RANK

/* A view: element (i0, i1, ...) lies at data + sum(i * stride) * element bytes. Strides count elements. A view may be
 * unaligned (f16 at an odd address in a mapped file): read elements through mx_tensor_to_f32 or memcpy. */
typedef struct mx_tensor {
    mxw_dtype dtype;
    int rank;
    int64_t dims[MX_MAX_RANK];
    int64_t strides[MX_MAX_RANK];
    void *data;
} mx_tensor;

size_t mx_dtype_bytes(mxw_dtype dtype);
const char *mx_dtype_name(mxw_dtype dtype);                     /* "f16" */
int mx_dtype_is_float(mxw_dtype dtype);

/* Row-major view of data. */
mx_tensor mx_tensor_of(mxw_dtype dtype, int rank, const int64_t *dims, void *data);
int64_t mx_tensor_count(const mx_tensor *t);                    /* elements; 1 for rank 0 */
size_t mx_tensor_bytes(const mx_tensor *t);                     /* elements times element bytes */
int mx_tensor_contiguous(const mx_tensor *t);                   /* row major without gaps */
/* "f16 [384, 80, 3]" into out. */
void mx_tensor_describe(const mx_tensor *t, char *out, size_t n);

/* Elements in row-major order, widened exactly to f32 (f32, f16, bf16, i8, u8, i32 rounded to nearest; f64 rounded). */
mxw_status mx_tensor_to_f32(const mx_tensor *t, float *out);
/* Elements in row-major order, bytes as they are. */
void mx_tensor_pack(const mx_tensor *t, void *out);

/* Halves, bit for bit; to f16 and bf16 rounds to nearest even, overflow to infinity, NaN kept quiet. */
float mx_f16_to_f32(uint16_t half);
uint16_t mx_f32_to_f16(float value);
float mx_bf16_to_f32(uint16_t half);
uint16_t mx_f32_to_bf16(float value);
#endif
