/* modules/cuda/peak/peak.cu - what a GPU does at most, measured: bytes read from memory, f32 multiply-adds in registers
 * and f16 products with f32 sums on tensor cores. The roofs of the roofline.
 *
 * Each figure is that of the fastest of some launches: other work on the GPU only ever takes away. */
#include "modules/cuda/common/mma.cuh"
#include "modules/cuda/peak/peak.cuh"

namespace mx::peak {

namespace {

constexpr size_t READ_BYTES = (size_t)1 << 30;   /* far more than any L2 cache */
constexpr int ROUNDS = 8;
constexpr int BLOCKS_PER_SM = 8;
constexpr int CHAINS = 16;                       /* independent multiply-adds of a thread: more than their latency */
constexpr int FMA_STEPS = 4096;
constexpr int TILES = 8;                         /* independent accumulator tiles of a warp */
constexpr int MMA_STEPS = 2048;
constexpr double MMA_FLOPS = 2.0 * 16 * 8 * 16;  /* of one mma_m16n8k16 */

/* The value is one that no data gives in practice, but the compiler cannot know. */
__device__ void keep(float *sink, float sum) {
    if (sum == -123456.0f)
        *sink = sum;
}

__global__ void __launch_bounds__(BLOCK_SIZE) read_kernel(const uint4 *x, int64_t n, float *sink) {
    int64_t step = (int64_t)gridDim.x * blockDim.x, i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t sum = 0;
    for (; i + 3 * step < n; i += 4 * step) {
        uint4 a = __ldcs(x + i), b = __ldcs(x + i + step), c = __ldcs(x + i + 2 * step), d = __ldcs(x + i + 3 * step);
        sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    keep(sink, __uint_as_float(sum));
}

__global__ void __launch_bounds__(BLOCK_SIZE) fma_kernel(float x, float *sink) {
    float c[CHAINS], sum = 0;
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        c[j] = (float)(threadIdx.x + j);
#pragma unroll 4
    for (int i = 0; i < FMA_STEPS; i++)
#pragma unroll
        for (int j = 0; j < CHAINS; j++)
            asm volatile("fma.rn.f32 %0, %1, %0, %1;" : "+f"(c[j]) : "f"(x));
#pragma unroll
    for (int j = 0; j < CHAINS; j++)
        sum += c[j];
    keep(sink, sum);
}

/* Operands of small values: zeros would draw less power than data does, and let the clock run faster. */
__global__ void __launch_bounds__(BLOCK_SIZE) mma_kernel(float *sink) {
    float c[TILES][4] = {}, sum = 0;
    uint32_t seed = 0x2c002c00u | (threadIdx.x * 2654435761u & 0x03ff03ffu);
    uint4 a = make_uint4(seed, seed ^ 1, seed ^ 2, seed ^ 3);
#pragma unroll 2
    for (int i = 0; i < MMA_STEPS; i++)
#pragma unroll
        for (int j = 0; j < TILES; j++)
            mma_m16n8k16(c[j], a, seed ^ 4, seed ^ 5);
#pragma unroll
    for (int j = 0; j < TILES; j++)
        sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
    keep(sink, sum);
}

/* Units (bytes, flops) a second of the fastest launch; launch() returns the units of one. */
template <typename Launch> mxw_status best_rate(mx_cuda *gpu, Launch launch, double *rate) {
    cudaEvent_t begin = NULL, end = NULL;
    cudaError_t error = cudaEventCreate(&begin);
    if (error == cudaSuccess)
        error = cudaEventCreate(&end);
    *rate = 0;
    for (int i = 0; i < ROUNDS && error == cudaSuccess; i++) {
        float ms = 0;
        cudaEventRecord(begin, gpu->stream);
        double units = launch();
        error = cudaGetLastError();
        cudaEventRecord(end, gpu->stream);
        if (error == cudaSuccess)
            error = cudaEventSynchronize(end);
        if (error == cudaSuccess)
            error = cudaEventElapsedTime(&ms, begin, end);
        if (error == cudaSuccess && ms > 0)
            *rate = MX_MAX(*rate, 1e3 * units / ms);
    }
    if (end)
        cudaEventDestroy(end);
    if (begin)
        cudaEventDestroy(begin);
    return mx_cuda_check(gpu, error, "measuring its peak");
}

mxw_status measure_memory(mx_cuda *gpu, float *sink, double *rate) {
    uint64_t left = mx_cuda_memory_free(&gpu->device);
    size_t bytes = left && left / 4 < READ_BYTES ? (size_t)(left / 4) / 4096 * 4096 : READ_BYTES;
    void *block = mx_cuda_alloc(&gpu->device, bytes);
    if (!block)
        return MXW_E_MEMORY;
    mxw_status status = mx_cuda_clear(&gpu->device, block, bytes);
    unsigned blocks = (unsigned)(gpu->device.info.cores * BLOCKS_PER_SM);
    int64_t n = (int64_t)(bytes / sizeof(uint4)), turn = (int64_t)blocks * BLOCK_SIZE * 4;
    if (status >= 0)
        status = best_rate(gpu, [&] {
            read_kernel<<<blocks, BLOCK_SIZE, 0, gpu->stream>>>((const uint4 *)block, n / turn * turn, sink);
            return (double)(n / turn * turn) * sizeof(uint4);
        }, rate);
    mx_cuda_free(&gpu->device, block);
    return status;
}

}   /* namespace */

extern "C" mxw_status mx_cuda_measure(const mx_device *device, mx_pool *pool, mxw_device_peak *peak) {
    mx_cuda *gpu = mx_cuda_of(device);
    unsigned blocks = (unsigned)(gpu->device.info.cores * BLOCKS_PER_SM);
    double bytes = 0, fma = 0, tensor = 0;
    float *sink = (float *)mx_cuda_alloc(device, sizeof(*sink));   /* enters the GPU */
    if (!sink)
        return MXW_E_MEMORY;
    mxw_status status = measure_memory(gpu, sink, &bytes);
    if (status >= 0)
        status = best_rate(gpu, [&] {
            fma_kernel<<<blocks, BLOCK_SIZE, 0, gpu->stream>>>(0.5f, sink);
            return 2.0 * blocks * BLOCK_SIZE * CHAINS * FMA_STEPS;
        }, &fma);
    if (status >= 0 && gpu->has_wgmma)
        status = best_rate(gpu, [&] { return run_wgmma(gpu, sink); }, &tensor);
    else if (status >= 0)
        status = best_rate(gpu, [&] {
            mma_kernel<<<blocks, BLOCK_SIZE, 0, gpu->stream>>>(sink);
            return MMA_FLOPS * blocks * BLOCK_WARPS * TILES * MMA_STEPS;
        }, &tensor);
    mx_cuda_free(device, sink);
    if (status >= 0) {
        peak->read_gbs = bytes / 1e9;
        peak->gflops = fma / 1e9;
        peak->tensor_gflops = tensor / 1e9;
    }
    return status;
}

}   /* namespace mx::peak */
