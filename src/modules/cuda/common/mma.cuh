/* modules/cuda/common/mma.cuh - tensor cores: f16 operands, f32 accumulation, and f32 values as two f16 terms.
 *
 * A value x is hi + lo 2^-11: hi is the f16 nearest to x, lo the one nearest to the remainder, times 2^11 so that it
 * does not underflow: 22 bits of x. Activations are scaled by 1/16, so that 2^20 is still a finite hi. Attention over
 * whole windows keeps both terms unscaled (split_f16_unscaled).
 * Invariants: one step of a GEMM is mma_m16n8k16 on one lane's operands; an element of the result depends on its own
 * row and column only, wherever in a tile they lie. Before sm_80 a step is two of half the depth. */
#ifndef MX_CUDA_COMMON_MMA_CUH
#define MX_CUDA_COMMON_MMA_CUH
#include <cuda_fp16.h>

#include "modules/cuda/common/block.cuh"

namespace mx {

constexpr float LO_SCALE = 2048.0f;   /* 2^11 */
constexpr float LO_UNSCALE = 1.0f / LO_SCALE;
constexpr float X_SCALE = 1.0f / 16;
constexpr float X_UNSCALE = 16.0f;

/* c += a b. a: 16 rows x 16 of k; b: 16 of k x 8 columns. Lane 4 g + t holds
 *   a.x row g, a.y row g + 8, of k 2t and 2t + 1; a.z, a.w the same of k + 8;
 *   b0 of k 2t and 2t + 1, b1 of k + 8, both of column g;
 *   c[0], c[1] row g, columns 2t and 2t + 1; c[2], c[3] row g + 8. */
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const uint4 &a, uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.x), "r"(a.y), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.z), "r"(a.w), "r"(b1));
#endif
}

__device__ __forceinline__ uint32_t pack_half2(float a, float b) {
    __half2 h = __floats2half2_rn(a, b);
    return *reinterpret_cast<uint32_t *>(&h);
}

/* Splits two values into a pair of hi and a pair of lo. */
__device__ __forceinline__ void split_f16(float a, float b, uint32_t &hi, uint32_t &lo) {
    __half2 h = __floats2half2_rn(a, b);
    float2 back = __half22float2(h);
    hi = *reinterpret_cast<uint32_t *>(&h);
    lo = pack_half2(__fmul_rn(__fsub_rn(a, back.x), LO_SCALE), __fmul_rn(__fsub_rn(b, back.y), LO_SCALE));
}

/* The same with lo unscaled, so that all products share one accumulator, or hi alone: 22 bits of x from 1/2 up, 2^-25
 * below, since the smallest step of f16 is 2^-24. x up to 65504, as wherever f16 alone is enough. */
template <int terms> __device__ __forceinline__ void split_f16_unscaled(float a, float b, uint32_t &hi, uint32_t &lo) {
    __half2 h = __floats2half2_rn(a, b);
    float2 back = __half22float2(h);
    hi = *reinterpret_cast<uint32_t *>(&h);
    if (terms == 2)
        lo = pack_half2(__fsub_rn(a, back.x), __fsub_rn(b, back.y));
}

__device__ __forceinline__ float4 scale_x(const float4 &v) {
    return make_float4(__fmul_rn(v.x, X_SCALE), __fmul_rn(v.y, X_SCALE), __fmul_rn(v.z, X_SCALE),
                       __fmul_rn(v.w, X_SCALE));
}

}   /* namespace mx */
#endif
