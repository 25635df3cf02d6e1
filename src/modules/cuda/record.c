/* modules/cuda/record.c - calls captured as a CUDA graph and launched as one.
 *
 * In: calls of a compiled run. Out: a graph of their kernels, with a copy from pinned memory before them and one to it
 * behind them; few results the kernels write there themselves. A step of a decoder is then one launch.
 * What holds: the GPU's own stream is never captured, so other threads go on using it; calls are captured on a twin of
 * the GPU, which differs in nothing but the stream. Nothing is launched while capturing and no data is looked at: the
 * indices are checked by whoever replays. */
#include <string.h>

#include "modules/cuda/cuda.h"

#define LOOKS 4096   /* at what a kernel says, between two at whether it failed */

typedef struct recording {
    mx_capture shared;
    size_t in_bytes, out_bytes;
    cudaGraphExec_t graph;
    cudaEvent_t over;        /* of the last replay */
    void *kept;              /* MX_CUDA_KEPT bytes (mx_cuda_keep) */
    mx_cuda_says says;       /* n is 0: the event alone tells */
    int launched;
} recording;

/* The twin, made when first needed and kept, as the GPU itself is; with the lock of recording held. */
static mxw_status open_twin(mx_cuda *gpu) {
    static mx_cuda twins[MX_CUDA_MOST];
    mx_cuda *twin = &twins[gpu->index];
    if (gpu->twin)
        return MXW_OK;
    memcpy(twin, gpu, sizeof(*twin));
    pthread_mutex_init(&twin->lock, NULL);
    twin->blas = NULL;
    mxw_status status = mx_cuda_check(
        gpu, cudaStreamCreateWithFlags(&twin->stream, cudaStreamNonBlocking), "opening a stream to record");
    if (status < 0) {
        cudaGetLastError();
        pthread_mutex_destroy(&twin->lock);
        return status;
    }
    gpu->twin = twin;
    return MXW_OK;
}

static void recording_close(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    recording *r = (recording *)shared;
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

static mxw_status recording_open(const mx_device *device, size_t in_bytes, size_t out_bytes, mx_capture **out) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = mx_cuda_enter(gpu);
    recording *r = status < 0 ? NULL : mx_cuda_host->alloc(sizeof(*r));
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
    if (error == cudaSuccess && out_bytes <= MX_CUDA_DIRECT)
        r->shared.out = r->shared.out_host;
    else if (error == cudaSuccess)
        error = cudaMalloc(&r->shared.out, out_bytes);
    if (error == cudaSuccess)
        error = cudaMalloc(&r->kept, MX_CUDA_KEPT);
    if (error != cudaSuccess) {
        status = mx_cuda_check(gpu, error, "memory of a recording");
        recording_close(device, &r->shared);
        return status;
    }
    *out = &r->shared;
    return MXW_OK;
}

/* What the calls launch, into the twin's stream. */
static mxw_status launch_calls(mx_cuda *twin, const recording *r, const mx_call *const *calls, size_t n) {
    mxw_status status = mx_cuda_carry(twin, r->shared.in, r->shared.in_host, r->in_bytes, cudaMemcpyHostToDevice);
    for (size_t i = 0; i < n && status >= 0;) {
        size_t taken = mx_cuda_run_together(twin, calls + i, n - i, &status);
        if (taken == 0)
            status = mx_cuda_ops[calls[i]->op].run(twin, calls[i]);
        i += taken ? taken : 1;
    }
    if (status >= 0 && r->shared.out != r->shared.out_host)
        status = mx_cuda_carry(twin, r->shared.out_host, r->shared.out, r->out_bytes, cudaMemcpyDeviceToHost);
    return status;
}

mxw_status mx_cuda_keep(mx_cuda *twin, const void *from, size_t bytes, const void **to) {
    size_t room = (bytes + 255) / 256 * 256;
    *to = twin->kept;
    mxw_status status = mx_cuda_check(
        twin, cudaMemcpyAsync(twin->kept, from, bytes, cudaMemcpyHostToDevice, twin->copies), "recording");
    twin->kept += MX_MIN(room, twin->kept_left);
    twin->kept_left -= MX_MIN(room, twin->kept_left);
    return status;
}

static mxw_status capture(mx_cuda *gpu, recording *r, const mx_call *const *calls, size_t n) {
    mx_cuda *twin = gpu->twin;
    cudaGraph_t graph = NULL;
    twin->copies = gpu->stream;
    twin->kept = r->kept;
    twin->kept_left = MX_CUDA_KEPT;
    twin->out = r->shared.out == r->shared.out_host ? r->shared.out : NULL;
    twin->out_bytes = r->out_bytes;
    twin->says.n = 0;
    mxw_status status = mx_cuda_check(gpu, cudaStreamBeginCapture(twin->stream, cudaStreamCaptureModeRelaxed),
                                      "recording");
    if (status < 0)
        return status;
    status = launch_calls(twin, r, calls, n);
    r->says = twin->says;
    cudaError_t ended = cudaStreamEndCapture(twin->stream, &graph);
    if (status >= 0)
        status = mx_cuda_check(gpu, ended, "end of recording");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphInstantiate(&r->graph, graph, 0), "recorded calls");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphUpload(r->graph, gpu->stream), "recorded calls");
    if (graph)
        cudaGraphDestroy(graph);
    if (status < 0)
        cudaGetLastError();
    return status;
}

static mxw_status recording_record(const mx_device *device, mx_capture *shared, const mx_call *const *calls,
                                   size_t n) {
    mx_cuda *gpu = mx_cuda_of(device);
    mxw_status status = mx_cuda_enter(gpu);
    if (status < 0)
        return status;
    pthread_mutex_lock(&gpu->recording);
    status = open_twin(gpu);
    if (status >= 0 && gpu->blas)
        status = mx_cuda_blas_open(gpu->twin);   /* before, since it allocates */
    if (status >= 0)
        status = capture(gpu, (recording *)shared, calls, n);
    pthread_mutex_unlock(&gpu->recording);
    return status;
}

static void unsay(const mx_cuda_says *says) {
    for (int i = 0; i < says->n; i++)
        for (int j = 0; j < says->words[i]; j++)
            says->at[i][j] = MX_CUDA_UNSAID;
}

static int is_said(const mx_cuda_says *says) {
    int unsaid = says->n == 0;
    for (int i = says->n - 1; i >= 0 && !unsaid; i--)
        for (int j = says->words[i] - 1; j >= 0 && !unsaid; j--)
            unsaid = __atomic_load_n(&says->at[i][j], __ATOMIC_ACQUIRE) == MX_CUDA_UNSAID;
    return !unsaid;
}

static mxw_status recording_replay(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    recording *r = (recording *)shared;
    mxw_status status = mx_cuda_enter(gpu);
    unsay(&r->says);
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaGraphLaunch(r->graph, gpu->stream), "replay");
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaEventRecord(r->over, gpu->stream), "replay");
    r->launched = status >= 0;
    return status;
}

static mxw_status recording_wait(const mx_device *device, mx_capture *shared) {
    mx_cuda *gpu = mx_cuda_of(device);
    recording *r = (recording *)shared;
    if (!r->launched)
        return MXW_OK;
    mxw_status status = mx_cuda_enter(gpu);
    for (unsigned looks = 1; r->says.n && status >= 0; looks++) {
        if (is_said(&r->says))
            return MXW_OK;
        if (looks % LOOKS == 0 && cudaEventQuery(r->over) != cudaErrorNotReady)
            break;
    }
    return status < 0 ? status : mx_cuda_check(gpu, cudaEventSynchronize(r->over), "replay");
}

/* An error is for wait() to tell. */
static int recording_over(const mx_device *device, const mx_capture *shared) {
    const recording *r = (const recording *)shared;
    return !r->launched || is_said(&r->says) || cudaEventQuery(r->over) != cudaErrorNotReady;
}

static mxw_status recording_check(const mx_device *device, const mx_call *call) {
    return mx_cuda_check_call(mx_cuda_of(device), call);
}

const mx_device_capture mx_cuda_replay = {recording_open,   recording_record, recording_replay,
                                         recording_wait, recording_close,  recording_check, recording_over};
