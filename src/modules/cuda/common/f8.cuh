/* modules/cuda/common/f8.cuh - 8-bit floats, e4m3: what the encoder multiplies with precision f8, and what keys and
 * values of windows are kept as.
 * Invariants: an e4m3 is an f16 and an f32 exactly; what is rounded to e4m3 is rounded once, to nearest even, at most
 * 448 and at least -448; a NaN stays one. */
#ifndef MX_CUDA_COMMON_F8_CUH
#define MX_CUDA_COMMON_F8_CUH
#include <cuda_fp8.h>

#include "modules/cuda/common/block.cuh"

namespace mx {

/* The two e4m3 in the low 16 bits as two f16. */
__device__ __forceinline__ uint32_t f8_to_half2(uint32_t pair) {
    __half2_raw h = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)pair, __NV_E4M3);
    return (uint32_t)h.x | (uint32_t)h.y << 16;
}

/* Four values as e4m3, the first in the lowest byte. */
__device__ __forceinline__ uint32_t pack_f8(float a, float b, float c, float d) {
    uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
    uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
}

}   /* namespace mx */
#endif
