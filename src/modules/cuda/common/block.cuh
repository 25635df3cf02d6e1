/* modules/cuda/common/block.cuh - what kernels share: grid sizes, launches with PDL and clusters, reductions over a
 * warp or block.
 * Invariants: every thread gets the same reduced value; its bits follow from the threads' values alone. */
#ifndef MX_CUDA_COMMON_BLOCK_CUH
#define MX_CUDA_COMMON_BLOCK_CUH
#include <cuda_runtime.h>
#include <math_constants.h>

#include "modules/cuda/cuda.h"

namespace mx {

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 256;   /* threads of a block, unless stated otherwise */
constexpr int BLOCK_WARPS = BLOCK_SIZE / WARP_SIZE;

/* Blocks for n work items, `each` per block; kernels use grid-stride loops. */
static inline unsigned grid_for(int64_t n, int64_t each) {
    int64_t blocks = (n + each - 1) / each;
    return (unsigned)MX_MIN(blocks, (int64_t)1 << 20);
}

/* Programmatic dependent launch (PDL): a kernel starts while the one before it is still running, and waits. Every
 * thread of a kernel that launch_kernel starts calls pdl_wait() before it touches anything that another kernel writes,
 * or writes anything that another reads; constants may be read earlier. */
__device__ __forceinline__ void pdl_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

/* `cluster`: thread blocks that are scheduled together and can access each other's shared memory. */
template <typename... Params, typename... Args>
static inline void launch_cluster_kernel(const mx_cuda *gpu, void (*kernel)(Params...), int cluster, dim3 grid,
                                         dim3 block, size_t shared, Args... args) {
    cudaLaunchAttribute attrs[2] = {};
    cudaLaunchConfig_t config = {};
    if (gpu->has_pdl) {
        attrs[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attrs[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attrs[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attrs[config.numAttrs].val.clusterDim.x = (unsigned)cluster;
        attrs[config.numAttrs].val.clusterDim.y = attrs[config.numAttrs].val.clusterDim.z = 1;
        config.numAttrs++;
    }
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = gpu->stream;
    config.attrs = attrs;
    cudaLaunchKernelEx(&config, kernel, Params(args)...);
}

template <typename... Params, typename... Args>
static inline void launch_kernel(const mx_cuda *gpu, void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                                 Args... args) {
    launch_cluster_kernel(gpu, kernel, 1, grid, block, shared, args...);
}

__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

struct op_sum {
    template <typename T> __device__ T operator()(T a, T b) const { return a + b; }
};
/* NaN loses, as in a comparison. */
struct op_max {
    __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};
struct op_min {
    __device__ float operator()(float a, float b) const { return b < a ? b : a; }
};

template <typename T, typename Join> __device__ T warp_reduce(T value, Join join) {
    for (int half = WARP_SIZE / 2; half > 0; half /= 2)
        value = join(value, __shfl_xor_sync(0xffffffffu, value, half));
    return value;
}

/* All BLOCK_SIZE threads must call this; `shared` holds BLOCK_WARPS values and may be reused at once. */
template <typename T, typename Join> __device__ T block_reduce(T value, Join join, T *shared) {
    value = warp_reduce(value, join);
    __syncthreads();
    if (threadIdx.x % WARP_SIZE == 0)
        shared[threadIdx.x / WARP_SIZE] = value;
    __syncthreads();
    value = shared[0];
    for (int warp = 1; warp < BLOCK_WARPS; warp++)
        value = join(value, shared[warp]);
    return value;
}

}   /* namespace mx */
#endif
