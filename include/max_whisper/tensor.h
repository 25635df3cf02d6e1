/* max_whisper/tensor.h - element types and tensors, as checkpoints, graphs and the lab share them. */
#ifndef MXW_TENSOR_H
#define MXW_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxw_dtype {
    MXW_F32 = 0,
    MXW_F16 = 1,
    MXW_BF16 = 2,
    MXW_I32 = 3,
    MXW_I8 = 4,
    MXW_U8 = 5,
    MXW_I64 = 6,
    MXW_F64 = 7,
    MXW_F8 = 8   /* e4m3: a device may keep a state in it; no tensor that comes in or goes out has it */
} mxw_dtype;

#define MXW_MAX_RANK 6

/* A dense tensor in host memory. In an array of tensors the first element's struct_size holds for all of them. */
typedef struct mxw_tensor {
    size_t struct_size;      /* sizeof(mxw_tensor) */
    mxw_dtype dtype;
    int rank;
    int64_t dims[MXW_MAX_RANK];
    void *data;              /* row-major */
} mxw_tensor;

#ifdef __cplusplus
}
#endif
#endif
