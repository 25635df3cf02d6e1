/* modules/cuda/cublas.c - f32 GEMM by cuBLAS, whose library is opened at run time.
 * In: matrices of one shape. Out: c, by the algorithm that cuBLAS chooses for that shape, in f32: TF32 and emulation
 * are off, nothing is accumulated atomically.
 * Invariants: a missing library is a reason in one line, not a module that cannot be opened; equal calls give equal
 * bits, so one call per entry gives bits that do not depend on the batch. */
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "modules/cuda/cuda.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBRARY "libcublas.so." TEXT(CUBLAS_VER_MAJOR)
#define WORKSPACE_BYTES ((size_t)32 << 20)   /* its default on the largest GPUs */

/* The functions that are called, under the names that the library exports. */
#define FUNCTIONS(X)                                                                                                   \
    X(cublasCreate_v2)                                                                                                 \
    X(cublasDestroy_v2)                                                                                                \
    X(cublasSetStream_v2)                                                                                              \
    X(cublasSetMathMode)                                                                                               \
    X(cublasSetWorkspace_v2)                                                                                           \
    X(cublasGetProperty)                                                                                               \
    X(cublasGetStatusString)                                                                                           \
    X(cublasSgemm_v2_64)                                                                                               \
    X(cublasSgemmStridedBatched_64)

static struct {
#define X(name) __typeof__(name) *name;
    FUNCTIONS(X)
#undef X
} blas;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why_not[256];
static int found;

/* By name, in the loader's paths; else where a toolkit installs it. */
static void *open_library(void) {
    static const char *const homes[] = {"CUDA_HOME", "CUDA_PATH"};
    char path[4096];
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(why_not, sizeof(why_not), "cuBLAS cannot be opened: %.200s", dlerror());
    for (size_t i = 0; i < MX_COUNT(homes) && !handle; i++) {
        const char *home = getenv(homes[i]);
        snprintf(path, sizeof(path), "%s/lib64/" LIBRARY, home ? home : "/usr/local/cuda");
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!handle) {
        snprintf(path, sizeof(path), "/usr/local/cuda/lib64/" LIBRARY);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

static void open_blas(void) {
    int64_t start = mx_now_ns();
    void *handle = open_library(), *symbol;
    mx_cuda_log_timed(start, "cuBLAS opened");
    if (!handle)
        return;
    const char *missing = NULL;
#define X(name)                                                                                                        \
    symbol = dlsym(handle, #name);                                                                                     \
    memcpy(&blas.name, &symbol, sizeof(symbol));                                                                       \
    missing = symbol ? missing : #name;
    FUNCTIONS(X)
#undef X
    found = !missing;
    if (missing)
        snprintf(why_not, sizeof(why_not), "cuBLAS has no function %s: expected version " TEXT(CUBLAS_VER_MAJOR),
                 missing);
}

int mx_cuda_blas_found(const char **why) {
    pthread_once(&once, open_blas);
    *why = why_not;
    return found;
}

void mx_cuda_blas_version(char *text, size_t n) {
    int major = 0, minor = 0, patch = 0;
    text[0] = 0;
    if (found && blas.cublasGetProperty(MAJOR_VERSION, &major) == CUBLAS_STATUS_SUCCESS &&
        blas.cublasGetProperty(MINOR_VERSION, &minor) == CUBLAS_STATUS_SUCCESS &&
        blas.cublasGetProperty(PATCH_LEVEL, &patch) == CUBLAS_STATUS_SUCCESS)
        snprintf(text, n, "%d.%d.%d", major, minor, patch);
}

static mxw_status check(const mx_cuda *gpu, const mx_call *call, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS)
        return MXW_OK;
    return mx_cuda_host->fail(status == CUBLAS_STATUS_ALLOC_FAILED ? MXW_E_MEMORY : MXW_E_DEVICE, "%s: %s: cuBLAS: %s",
                              gpu->id, mx_cuda_op_name(call->op), blas.cublasGetStatusString(status));
}

/* The lock is held. The handle is kept, with a workspace of a fixed size, so that the choice of algorithms never
 * changes. */
static mxw_status open_handle(mx_cuda *gpu, const mx_call *call) {
    cublasHandle_t handle = NULL;
    void *workspace = NULL;
    mxw_status status = check(gpu, call, blas.cublasCreate_v2(&handle));
    if (status >= 0)
        status = mx_cuda_check(gpu, cudaMalloc(&workspace, WORKSPACE_BYTES), "workspace of cuBLAS");
    if (status >= 0)
        status = check(gpu, call, blas.cublasSetStream_v2(handle, gpu->stream));
    if (status >= 0)
        status = check(gpu, call, blas.cublasSetWorkspace_v2(handle, workspace, WORKSPACE_BYTES));
    if (status >= 0)
        status = check(gpu, call, blas.cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH));
    if (status >= 0) {
        gpu->blas = handle;
        return status;
    }
    cudaGetLastError();
    cudaFree(workspace);
    if (handle)
        blas.cublasDestroy_v2(handle);
    return status;
}

mxw_status mx_cuda_blas_open(mx_cuda *gpu) {
    static const mx_call any = {.op = MX_OP_MATMUL};
    mxw_status status = MXW_OK;
    pthread_mutex_lock(&gpu->lock);
    if (!gpu->blas)
        status = open_handle(gpu, &any);
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* cuBLAS is column-major: it computes our row-major c as c^T = b^T a^T. */
mxw_status mx_cuda_sgemm_cublas(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p) {
    static const float one = 1, zero = 0;
    cublasOperation_t of_b = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const char *why;
    mxw_status status = MXW_OK;
    if (!mx_cuda_blas_found(&why))
        return mx_cuda_host->fail(MXW_E_DEVICE, "%s: %s", gpu->id, why);
    pthread_mutex_lock(&gpu->lock);
    if (!gpu->blas)
        status = open_handle(gpu, call);
    if (status >= 0 && p->entries == 1)
        status = check(gpu, call, blas.cublasSgemm_v2_64(gpu->blas, of_b, CUBLAS_OP_N, p->n, p->m, p->k, &one, p->b,
                                                         p->ldb, p->a, p->lda, &zero, p->c, p->ldc));
    else if (status >= 0)
        status = check(gpu, call,
                       blas.cublasSgemmStridedBatched_64(gpu->blas, of_b, CUBLAS_OP_N, p->n, p->m, p->k, &one, p->b,
                                                         p->ldb, p->b_step, p->a, p->lda, p->a_step, &zero, p->c,
                                                         p->ldc, p->c_step, p->entries));
    pthread_mutex_unlock(&gpu->lock);
    return status;
}
