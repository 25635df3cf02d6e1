/* modules/cuda/gemm/operand.cuh - activations as tensor core operands (one or two f16 terms), and one k step of a sum.
 * Shared, so that all kernels agree bit for bit. */
#ifndef MX_CUDA_GEMM_OPERAND_CUH
#define MX_CUDA_GEMM_OPERAND_CUH
#include "modules/cuda/gemm/norm.cuh"

namespace mx::gemm {

/* Four elements of a row as the two f16 pairs of an operand, for each term. */
template <int terms>
__device__ __forceinline__ void operand_pairs(const float4 &v, uint32_t (&first)[terms], uint32_t (&second)[terms]) {
    float a = __fmul_rn(v.x, X_SCALE), b = __fmul_rn(v.y, X_SCALE);
    float c = __fmul_rn(v.z, X_SCALE), d = __fmul_rn(v.w, X_SCALE);
    if (terms == 2) {
        split_f16(a, b, first[0], first[terms - 1]);
        split_f16(c, d, second[0], second[terms - 1]);
    } else {
        first[0] = pack_half2(a, b);
        second[0] = pack_half2(c, d);
    }
}

/* A lane's 16x16 A operand, from its four elements of row g and its four of row g + 8. */
template <int terms>
__device__ __forceinline__ void make_operand(const float4 &low, const float4 &high, uint4 (&a)[terms]) {
    uint32_t x[terms], y[terms], z[terms], w[terms];
    operand_pairs<terms>(low, x, z);
    operand_pairs<terms>(high, y, w);
#pragma unroll
    for (int i = 0; i < terms; i++)
        a[i] = make_uint4(x[i], y[i], z[i], w[i]);
}

/* The same for at most 8 rows, from four elements already scaled by X_SCALE: the second term takes the place of row
 * g + 8, so that one mma multiplies both terms. */
template <int terms> __device__ __forceinline__ uint4 make_operand8(const float4 &v) {
    uint4 o = make_uint4(0, 0, 0, 0);
    if (terms == 2) {
        split_f16(v.x, v.y, o.x, o.y);
        split_f16(v.z, v.w, o.z, o.w);
    } else {
        o.x = pack_half2(v.x, v.y);
        o.z = pack_half2(v.z, v.w);
    }
    return o;
}

/* One k step of 16 of an element's sum: x in x_terms, the weight in w_terms. */
template <int x_terms, int w_terms>
__device__ __forceinline__ void mma_step(float (&hi)[4], float (&lo)[4], const uint4 (&a)[x_terms],
                                         const uint32_t (&b0)[w_terms], const uint32_t (&b1)[w_terms]) {
    mma_m16n8k16(hi, a[0], b0[0], b1[0]);
    if (x_terms == 2)
        mma_m16n8k16(lo, a[x_terms - 1], b0[0], b1[0]);
    if (w_terms == 2)
        mma_m16n8k16(lo, a[0], b0[w_terms - 1], b1[w_terms - 1]);
}

template <int x_terms> __device__ __forceinline__ float slice_sum(float hi, float lo) {
    return x_terms == 2 ? __fmaf_rn(lo, LO_UNSCALE, hi) : hi;
}

}   /* namespace mx::gemm */
#endif
