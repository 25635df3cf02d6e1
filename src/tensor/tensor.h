/* tensor/tensor.h - public header of tensor/: dtype, shape, and a strided view of bytes it does not own. */
#ifndef MX_TENSOR_H
#define MX_TENSOR_H
#include "base/status.h"

#define MX_MAX_RANK MXW_MAX_RANK

/* How the elements of a tensor lie in memory. All but DENSE and QUANTIZED are private to a device: what a call of the
 * device wrote in such a layout, only calls of that device can read. */
typedef enum mx_layout {
    MX_LAYOUT_DENSE,     /* elements of the dtype at their strides */
    MX_LAYOUT_OPERAND,   /* activations as the MMA operand of a GEMM */
    MX_LAYOUT_IM2COL,    /* activations as the operand rows of the next convolution's GEMM */
    MX_LAYOUT_QKV,       /* queries, keys and values of one fused projection as attention's operands */
    MX_LAYOUT_PACKED,    /* a constant as device->pack() made it */
    MX_LAYOUT_QUANTIZED  /* a weight whose file has codes for it (tensor/quantized.h): f32, without data */
} mx_layout;

/* Describes a PACKED tensor on the host, so that a device need not look into its memory. */
typedef struct mx_packing {
    size_t bytes;      /* of the block */
    int32_t format;    /* which of the device's packed formats; its own numbers */
    size_t elsewhere;  /* bytes that calls read besides: codes in a file */
} mx_packing;

/* A view: element (i0, i1, ...) lies at data + sum(i * stride) * element bytes. Strides count elements. A view may be
 * unaligned (f16 at an odd address in a mapped file): read elements through mx_tensor_to_f32 or memcpy.
 * In another layout than DENSE, dtype, dims and strides are those of the same value if it were DENSE. */
typedef struct mx_tensor {
    mxw_dtype dtype;
    int rank;
    int64_t dims[MX_MAX_RANK];
    int64_t strides[MX_MAX_RANK];
    void *data;
    mx_layout layout;
    mx_packing packing;   /* of a PACKED tensor */
    /* Elements from the beginning of the value that this is a view of. In a DENSE view, data has moved by them; in
     * another layout, data is the address of the whole value. */
    int64_t offset;
    const struct mx_quantized *quantized;   /* of a QUANTIZED tensor: the whole value, whose rows outlive the view */
} mx_tensor;

size_t mx_dtype_bytes(mxw_dtype dtype);
const char *mx_dtype_name(mxw_dtype dtype);                     /* "f16" */
int mx_dtype_is_float(mxw_dtype dtype);
int mx_dtype_in_graphs(mxw_dtype dtype);   /* known, and not f8, which only devices have: for states */

/* Row-major view of data; of data that is only read. */
mx_tensor mx_tensor_of(mxw_dtype dtype, int rank, const int64_t *dims, void *data);
mx_tensor mx_tensor_of_const(mxw_dtype dtype, int rank, const int64_t *dims, const void *data);
int64_t mx_tensor_count(const mx_tensor *t);                    /* elements; 1 for rank 0 */
size_t mx_tensor_bytes(const mx_tensor *t);                     /* elements times element bytes */
int mx_tensor_contiguous(const mx_tensor *t);                   /* row major without gaps */
/* "f16 [384, 80, 3]" into out. */
void mx_tensor_describe(const mx_tensor *t, char *out, size_t n);

/* Elements in row-major order, widened exactly to f32 (f32, f16, bf16, f8, i8, u8, i32 rounded to nearest; f64
 * rounded). A QUANTIZED tensor is widened as its format says. */
mxw_status mx_tensor_to_f32(const mx_tensor *t, float *out);
/* Elements in row-major order, bytes as they are. */
void mx_tensor_pack(const mx_tensor *t, void *out);

/* Halves, bit for bit; to f16 and bf16 rounds to nearest even, overflow to infinity, NaN kept quiet. */
float mx_f16_to_f32(uint16_t half);
uint16_t mx_f32_to_f16(float value);
float mx_bf16_to_f32(uint16_t half);
uint16_t mx_f32_to_bf16(float value);
/* e4m3, bit for bit; to it rounds to nearest even, what is beyond the largest, 448, and infinity to that; NaN stays. */
float mx_f8_to_f32(uint8_t code);
uint8_t mx_f32_to_f8(float value);
#endif
