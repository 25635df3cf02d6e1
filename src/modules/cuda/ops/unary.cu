/* modules/cuda/ops/unary.cu - the elementwise functions of op/elementwise.def: one kernel, instantiated for each by the
 * CUDA expression of its line. A thread computes elements that are a grid apart; none depends on another. */
#include "modules/cuda/common/block.cuh"

namespace mx::ops {

namespace {

template <mx_op OP> __device__ __forceinline__ float unary(float x, float p);

#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, cpu_expression, exact_expression, cuda_expression, ...)        \
    template <> __device__ __forceinline__ float unary<MX_OP_##id>(float x, float p) { return cuda_expression; }
#include "op/elementwise.def"

template <mx_op OP> __global__ void unary_kernel(float *y, const float *x, float p, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = unary<OP>(x[i], p);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_unary(mx_cuda *gpu, const mx_call *call) {
    int64_t n = mx_cuda_count(&call->inputs[0]);
    float *y = (float *)call->outputs[0].data, p = (float)call->attrs->parameter;
    const float *x = (const float *)call->inputs[0].data;
    if (n == 0)
        return MXW_OK;
    switch (call->op) {
#define MX_ELEMENTWISE(id, name, ...)                                                                                  \
    case MX_OP_##id:                                                                                                   \
        unary_kernel<MX_OP_##id><<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(y, x, p, n);                 \
        break;
#include "op/elementwise.def"
    default: return mx_cuda_host->fail(MXW_E_INTERNAL, "%s is no elementwise function", mx_cuda_op_name(call->op));
    }
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
