/* modules/cuda/memory.c - opening a GPU, its memory, uploads and downloads.
 * In: calls from any thread. Out: work in the GPU's stream, in the order of the calls.
 * Invariants: a block goes back to the driver when it is freed, so memory is what models and sessions hold and no
 * more; exec keeps its own buffers, so that nothing is allocated once a run is warm. */
#include <string.h>

#include "base/clock.h"
#include "modules/cuda/cuda.h"

#define RING_BYTES (4 * MX_CUDA_STAGED_MAX)   /* inputs of some tens of decoder steps, or of several windows */
#define MEBI (1024.0 * 1024.0)
#define KEPT_BYTES ((size_t)128 << 20)    /* left to the driver: kernels, loaded on first use, and captured graphs */
#define LARGE_BYTES ((size_t)1 << 20)     /* smaller blocks may use those, too */

static mxw_status open_gpu(mx_cuda *gpu) {
    mxw_status status = MXW_OK;
    if (!gpu->stream)
        status = mx_cuda_check(gpu, cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking), "opening a stream");
    if (status >= 0 && !gpu->ring)
        status = mx_cuda_check(gpu, cudaHostAlloc((void **)&gpu->ring, RING_BYTES, cudaHostAllocDefault),
                               "pinned host memory");
    if (status >= 0 && !gpu->arrivals) {
        size_t bytes = MX_CUDA_ARRIVALS * sizeof(*gpu->arrivals);
        status = mx_cuda_check(gpu, cudaMalloc((void **)&gpu->arrivals, bytes), "counters");
        if (status >= 0)
            status = mx_cuda_check(gpu, cudaMemsetAsync(gpu->arrivals, 0, bytes, gpu->stream), "counters");
        mx_cuda_probe(gpu);
    }
    if (status >= 0 && !gpu->flagged_at) {
        status = mx_cuda_check(gpu, cudaMalloc(&gpu->flagged_at, MX_CUDA_FLAGGED_BYTES), "values between blocks");
        if (status >= 0)
            status = mx_cuda_check(gpu, cudaMemsetAsync(gpu->flagged_at, 0, MX_CUDA_FLAGGED_BYTES, gpu->stream),
                                   "values between blocks");
    }
    if (status < 0)
        cudaGetLastError();
    __atomic_store_n(&gpu->opened, status >= 0, __ATOMIC_RELEASE);
    return status;
}

mxw_status mx_cuda_enter(mx_cuda *gpu) {
    int64_t start = mx_now_ns();
    mxw_status status = mx_cuda_check(gpu, cudaSetDevice(gpu->index), "choosing the GPU");
    if (status < 0 || __atomic_load_n(&gpu->opened, __ATOMIC_ACQUIRE))   /* a launch takes no lock */
        return status;
    mx_cuda_log_timed(start, "context made");   /* a sink may wait for another thread, so not under the lock */
    start = mx_now_ns();
    pthread_mutex_lock(&gpu->lock);
    int first = !gpu->opened;
    if (first)
        status = open_gpu(gpu);
    pthread_mutex_unlock(&gpu->lock);
    if (first && status >= 0)
        mx_cuda_log_timed(start, "stream and staging memory made");
    return status;
}

/* Two threads may both set the attribute: that does no harm. */
void mx_cuda_allow_shared(const mx_cuda *gpu, const void *kernel, int bytes, int *allowed) {
    if (bytes <= __atomic_load_n(&allowed[gpu->index], __ATOMIC_RELAXED))
        return;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
        __atomic_store_n(&allowed[gpu->index], bytes, __ATOMIC_RELAXED);
}

/* A GPU that is full to the last byte can run nothing more: the last ones are for small blocks. */
static cudaError_t take(size_t bytes, void **block) {
    size_t left = 0, all = 0;
    if (bytes >= LARGE_BYTES && cudaMemGetInfo(&left, &all) == cudaSuccess && left < bytes + KEPT_BYTES)
        return cudaErrorMemoryAllocation;
    return cudaMalloc(block, bytes ? bytes : 1);
}

void *mx_cuda_alloc(const mx_device *device, size_t bytes) {
    mx_cuda *gpu = mx_cuda_of(device);
    void *block = NULL;
    size_t left = 0, all = 0;
    if (mx_cuda_enter(gpu) < 0)
        return NULL;
    cudaError_t error = take(bytes, &block);
    if (error == cudaSuccess)
        return block;
    cudaGetLastError();   /* a refusal is no fault: the caller may try a smaller block */
    if (error == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &all) == cudaSuccess)
        mx_cuda_host->fail(MXW_E_MEMORY, "%s: not enough memory: %.1f MiB asked, %.1f of %.1f MiB free, of which %.1f "
                           "are for kernels", gpu->id, (double)bytes / MEBI, (double)left / MEBI, (double)all / MEBI,
                           (double)KEPT_BYTES / MEBI);
    else
        mx_cuda_check(gpu, error, "memory");
    return NULL;
}

/* Kernels in flight may still read the block. */
void mx_cuda_free(const mx_device *device, void *block) {
    mx_cuda *gpu = mx_cuda_of(device);
    if (!block || cudaSetDevice(gpu->index) != cudaSuccess)
        return;
    cudaStreamSynchronize(gpu->stream);
    cudaFree(block);
    cudaGetLastError();
}

/* The lock is held. Room in the ring, which starts over once everything in it has arrived. */
static cudaError_t take_ring(mx_cuda *gpu, const void *from, size_t bytes, char **at) {
    cudaError_t error = cudaSuccess;
    if (gpu->ring_at + bytes > RING_BYTES) {
        error = cudaStreamSynchronize(gpu->stream);
        gpu->ring_at = 0;
    }
    *at = gpu->ring + gpu->ring_at;
    if (error == cudaSuccess) {
        memcpy(*at, from, bytes);
        gpu->ring_at += (bytes + 63) / 64 * 64;
    }
    return error;
}

/* The landing block mirrors the ring: bytes land where they lie in it, so one is free when the other is. */
static cudaError_t take_landing(mx_cuda *gpu) {
    return gpu->landing ? cudaSuccess : cudaMalloc((void **)&gpu->landing, RING_BYTES);
}

/* Brings a file's pages into memory before the lock is held, which steps of other sessions may want meanwhile. */
static void touch_pages(const volatile char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096)
        (void)from[at];
    if (bytes)
        (void)from[bytes - 1];
}

const void *mx_cuda_stage(mx_cuda *gpu, const void *from, size_t bytes) {
    char *at = NULL;
    if (bytes > MX_CUDA_STAGED_MAX || mx_cuda_enter(gpu) < 0)
        return NULL;
    touch_pages(from, bytes);
    pthread_mutex_lock(&gpu->lock);
    cudaError_t error = take_landing(gpu);
    if (error == cudaSuccess)
        error = take_ring(gpu, from, bytes, &at);
    char *landed = error == cudaSuccess ? gpu->landing + (at - gpu->ring) : NULL;
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(landed, at, bytes, cudaMemcpyHostToDevice, gpu->stream);
    if (error == cudaSuccess)
        return landed;
    cudaGetLastError();
    pthread_mutex_unlock(&gpu->lock);
    return NULL;
}

void mx_cuda_staged(mx_cuda *gpu) { pthread_mutex_unlock(&gpu->lock); }

/* Small uploads go through pinned memory, so that the caller need not wait; the ring starts over once everything in it
 * has arrived. Large uploads are waited for. */
mxw_status mx_cuda_upload(const mx_device *device, void *to, const void *from, size_t bytes) {
    mx_cuda *gpu = mx_cuda_of(device);
    cudaError_t error = cudaSuccess;
    mxw_status status = bytes ? mx_cuda_enter(gpu) : MXW_OK;
    if (status < 0 || bytes == 0)
        return status;
    if (bytes > MX_CUDA_STAGED_MAX) {
        error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->stream);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(gpu->stream);
        return mx_cuda_check(gpu, error, "upload");
    }
    char *at;
    pthread_mutex_lock(&gpu->lock);
    error = take_ring(gpu, from, bytes, &at);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(to, at, bytes, cudaMemcpyHostToDevice, gpu->stream);
    pthread_mutex_unlock(&gpu->lock);
    return mx_cuda_check(gpu, error, "upload");
}

mxw_status mx_cuda_download(const mx_device *device, void *to, const void *from, size_t bytes) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = bytes ? mx_cuda_enter(gpu) : MXW_OK;
    if (status < 0 || bytes == 0)
        return status;
    cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, gpu->stream);
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(gpu->stream);
    return mx_cuda_check(gpu, error, "download");
}

mxw_status mx_cuda_clear(const mx_device *device, void *to, size_t bytes) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = bytes ? mx_cuda_enter(gpu) : MXW_OK;
    if (status < 0 || bytes == 0)
        return status;
    return mx_cuda_check(gpu, cudaMemsetAsync(to, 0, bytes, gpu->stream), "clearing memory");
}

uint64_t mx_cuda_memory_free(const mx_device *device) {
    size_t left = 0, all = 0;
    if (mx_cuda_enter(mx_cuda_of(device)) < 0 || cudaMemGetInfo(&left, &all) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return left;
}
