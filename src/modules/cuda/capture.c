/* modules/cuda/capture.c - calls captured as a CUDA graph and launched as one.
 *
 * In: calls of a compiled run. Out: a graph of their kernels, with a copy from pinned memory before them and one to it
 * after them; few results are written there by the kernels themselves. A decoder step is then one launch. Invariants:
 * the GPU's own stream is never captured, so other threads go on using it; calls are captured on a capture context, a
 * copy of the GPU with a stream of its own. Nothing runs while capturing and no data is read: the indices are checked
 * by the caller of launch. */
#include <string.h>

#include "modules/cuda/cuda.h"

#define POLLS 4096   /* of the host flags, between two checks of whether the graph failed */

typedef struct captured_graph {
    mx_capture shared;
    size_t in_bytes, out_bytes;
    cudaGraphExec_t graph;
    cudaEvent_t over;        /* of the last launch */
    void *kept;              /* MX_CUDA_KEPT_BYTES bytes (mx_cuda_keep) */
    mx_cuda_host_flags host_flags;       /* n is 0: only the event signals completion */
    int launched;
} captured_graph;

/* Creates the capture context on first use; it is kept, as the GPU itself is. capture_lock is held. */
static mxw_status open_capture_ctx(mx_cuda *gpu) {
    static mx_cuda capture_contexts[MX_CUDA_MAX_GPUS];
    mx_cuda *capture_ctx = &capture_contexts[gpu->index];
    if (gpu->capture_ctx)
        return MXW_OK;
    memcpy(capture_ctx, gpu, sizeof(*capture_ctx));
    pthread_mutex_init(&capture_ctx->lock, NULL);
    capture_ctx->blas = NULL;
    mxw_status status = mx_cuda_check(gpu, cudaStreamCreateWithFlags(&capture_ctx->stream, cudaStreamNonBlocking),
                                      "opening a stream for graph capture");
    if (status < 0) {
        cudaGetLastError();
        pthread_mutex_destroy(&capture_ctx->lock);
        return status;
    }
    gpu->capture_ctx = capture_ctx;
    return MXW_OK;
}

static void capture_close(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    captured_graph *r = (captured_graph *)shared;
    if (!r || cudaSetDevice(gpu->index) != cudaSuccess)
        return;
    if (r->launched)
        cudaEventSynchronize(r->over);
    if (r->graph)
        cudaGraphExecDestroy(r->graph);
    if (r->over)
        cudaEventDestroy(r->over);
    cudaFreeHost(r->shared.in_host);
    cudaFreeHost(r->shared.out_host);
    cudaFree(r->shared.in);
    if (r->shared.out != r->shared.out_host)
        cudaFree(r->shared.out);
    cudaFree(r->kept);
    cudaGetLastError();
    mx_cuda_host->free(r);
}

static mxw_status capture_open(const mx_device *device, size_t in_bytes, size_t out_bytes, mx_capture **out) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = mx_cuda_enter(gpu);
    captured_graph *r = status < 0 ? NULL : mx_cuda_host->alloc(sizeof(*r));
    *out = NULL;
    if (!r)
        return status < 0 ? status : MXW_E_MEMORY;
    memset(r, 0, sizeof(*r));
    r->in_bytes = in_bytes;
    r->out_bytes = out_bytes;
    cudaError_t error = cudaEventCreateWithFlags(&r->over, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = cudaHostAlloc(&r->shared.in_host, MX_MAX(in_bytes, 1), cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaHostAlloc(&r->shared.out_host, MX_MAX(out_bytes, 1), cudaHostAllocDefault);
    if (error == cudaSuccess)
        error = cudaMalloc(&r->shared.in, MX_MAX(in_bytes, 1));
    if (error == cudaSuccess && out_bytes <= MX_CUDA_DIRECT_MAX)
        r->shared.out = r->shared.out_host;
    else if (error == cudaSuccess)
        error = cudaMalloc(&r->shared.out, out_bytes);
    if (error == cudaSuccess)
        error = cudaMalloc(&r->kept, MX_CUDA_KEPT_BYTES);
    if (error != cudaSuccess) {
        status = mx_cuda_check(gpu, error, "memory of a captured graph");
        capture_close(device, &r->shared);
        return status;
    }
    *out = &r->shared;
    return MXW_OK;
}

/* Launches the calls into the capture context's stream. */
static mxw_status launch_calls(mx_cuda *capture_ctx, const captured_graph *r, const mx_call *const *calls, size_t n) {
    mxw_status status =
        mx_cuda_copy_small(capture_ctx, r->shared.in, r->shared.in_host, r->in_bytes, cudaMemcpyHostToDevice);
    for (size_t i = 0; i < n && status >= 0;) {
        size_t taken = mx_cuda_run_together(capture_ctx, calls + i, n - i, &status);
        if (taken == 0)
            status = mx_cuda_ops[calls[i]->op].run(capture_ctx, calls[i]);
        i += taken ? taken : 1;
    }
    if (status >= 0 && r->shared.out != r->shared.out_host)
        status =
            mx_cuda_copy_small(capture_ctx, r->shared.out_host, r->shared.out, r->out_bytes, cudaMemcpyDeviceToHost);
    return status;
}

mxw_status mx_cuda_keep(mx_cuda *capture_ctx, const void *from, size_t bytes, const void **to) {
    size_t room = (bytes + 255) / 256 * 256;
    *to = capture_ctx->kept;
    mxw_status status = mx_cuda_check(
        capture_ctx, cudaMemcpyAsync(capture_ctx->kept, from, bytes, cudaMemcpyHostToDevice, capture_ctx->copies),
        "graph capture");
    capture_ctx->kept += MX_MIN(room, capture_ctx->kept_left);
    capture_ctx->kept_left -= MX_MIN(room, capture_ctx->kept_left);
    return status;
}

static mxw_status capture(mx_cuda *gpu, captured_graph *r, const mx_call *const *calls, size_t n) {
    mx_cuda *capture_ctx = gpu->capture_ctx;
    cudaGraph_t graph = NULL;
    capture_ctx->copies = gpu->stream;
    capture_ctx->kept = r->kept;
    capture_ctx->kept_left = MX_CUDA_KEPT_BYTES;
    capture_ctx->out = r->shared.out == r->shared.out_host ? r->shared.out : NULL;
    capture_ctx->out_bytes = r->out_bytes;
    capture_ctx->host_flags.n = 0;
    mxw_status status =
        mx_cuda_check(gpu, cudaStreamBeginCapture(capture_ctx->stream, cudaStreamCaptureModeRelaxed), "graph capture");
    if (status < 0)
        return status;
    status = launch_calls(capture_ctx, r, calls, n);
    r->host_flags = capture_ctx->host_flags;
    cudaError_t ended = cudaStreamEndCapture(capture_ctx->stream, &graph);
    if (status >= 0)
        status = mx_cuda_check(gpu, ended, "end of graph capture");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphInstantiate(&r->graph, graph, 0), "instantiating a captured graph");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphUpload(r->graph, gpu->stream), "instantiating a captured graph");
    if (graph)
        cudaGraphDestroy(graph);
    if (status < 0)
        cudaGetLastError();
    return status;
}

static mxw_status capture_calls(const mx_device *device, mx_capture *shared, const mx_call *const *calls, size_t n) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = mx_cuda_enter(gpu);
    if (status < 0)
        return status;
    pthread_mutex_lock(&gpu->capture_lock);
    status = open_capture_ctx(gpu);
    if (status >= 0 && gpu->blas)
        status = mx_cuda_blas_open(gpu->capture_ctx);   /* before, since it allocates */
    if (status >= 0)
        status = capture(gpu, (captured_graph *)shared, calls, n);
    pthread_mutex_unlock(&gpu->capture_lock);
    return status;
}

static void reset_flags(const mx_cuda_host_flags *host_flags) {
    for (int i = 0; i < host_flags->n; i++)
        for (int j = 0; j < host_flags->words[i]; j++)
            host_flags->at[i][j] = MX_CUDA_NOT_WRITTEN;
}

static int flags_written(const mx_cuda_host_flags *host_flags) {
    int missing = host_flags->n == 0;
    for (int i = host_flags->n - 1; i >= 0 && !missing; i--)
        for (int j = host_flags->words[i] - 1; j >= 0 && !missing; j--)
            missing = __atomic_load_n(&host_flags->at[i][j], __ATOMIC_ACQUIRE) == MX_CUDA_NOT_WRITTEN;
    return !missing;
}

static mxw_status capture_launch(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    captured_graph *r = (captured_graph *)shared;
    mxw_status status = mx_cuda_enter(gpu);
    reset_flags(&r->host_flags);
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphLaunch(r->graph, gpu->stream), "launching a captured graph");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaEventRecord(r->over, gpu->stream), "launching a captured graph");
    r->launched = status >= 0;
    return status;
}

static mxw_status capture_wait(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    captured_graph *r = (captured_graph *)shared;
    if (!r->launched)
        return MXW_OK;
    mxw_status status = mx_cuda_enter(gpu);
    for (unsigned looks = 1; r->host_flags.n && status >= 0; looks++) {
        if (flags_written(&r->host_flags))
            return MXW_OK;
        if (looks % POLLS == 0 && cudaEventQuery(r->over) != cudaErrorNotReady)
            break;
    }
    return status < 0 ? status : mx_cuda_check(gpu, cudaEventSynchronize(r->over), "launching a captured graph");
}

/* wait() reports errors. */
static int capture_done(const mx_device *device, const mx_capture *shared) {
    const captured_graph *r = (const captured_graph *)shared;
    return !r->launched || flags_written(&r->host_flags) || cudaEventQuery(r->over) != cudaErrorNotReady;
}

static mxw_status capture_check(const mx_device *device, const mx_call *call) {
    return mx_cuda_check_call(mx_cuda_of(device), call);
}

const mx_device_capture mx_cuda_capture = {capture_open,   capture_calls, capture_launch,
                                         capture_wait, capture_close,  capture_check, capture_done};
