/* modules/cuda/module.c - the module's entry point: which GPUs there are, and the function table of a device.
 * Invariants: nothing here needs a driver; where there is none, or a GPU cannot be used, one line has the reason.
 * Listing creates no context on a GPU: that happens with the first allocation or op. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "modules/cuda/cuda.h"

#define LEAST_CAPABILITY 75   /* of the PTX, which the driver compiles for newer GPUs */

const mx_host *mx_cuda_host;

static mx_cuda gpus[MX_CUDA_MAX_GPUS];
static int n_gpus;
static char why_none[256];

const mx_cuda_op mx_cuda_ops[MX_OP_COUNT] = {
    [MX_OP_MATMUL] = {NULL, mx_cuda_matmul},
    [MX_OP_LINEAR] = {NULL, mx_cuda_linear},
    [MX_OP_TRANSPOSE] = {NULL, mx_cuda_transpose},
    [MX_OP_PERMUTE] = {NULL, mx_cuda_permute},
    [MX_OP_RESHAPE] = {NULL, mx_cuda_reshape},
    [MX_OP_ADD] = {NULL, mx_cuda_binary},
    [MX_OP_SUB] = {NULL, mx_cuda_binary},
    [MX_OP_MUL] = {NULL, mx_cuda_binary},
    [MX_OP_DIV] = {NULL, mx_cuda_binary},
    [MX_OP_LAYER_NORM] = {NULL, mx_cuda_layer_norm},
    [MX_OP_GELU] = {NULL, mx_cuda_gelu},
    [MX_OP_SOFTMAX] = {NULL, mx_cuda_softmax},
    [MX_OP_SLICE] = {NULL, mx_cuda_slice},
    [MX_OP_CONCAT] = {NULL, mx_cuda_concat},
    [MX_OP_GATHER] = {NULL, mx_cuda_gather, mx_cuda_check_gather},
    [MX_OP_CAST] = {NULL, mx_cuda_cast},
    [MX_OP_REDUCE] = {NULL, mx_cuda_reduce},
    [MX_OP_ARGMAX] = {NULL, mx_cuda_argmax},
    [MX_OP_TOP_K] = {NULL, mx_cuda_top_k},
    [MX_OP_CONV1D] = {mx_cuda_conv_scratch, mx_cuda_conv},
    [MX_OP_CONV2D] = {mx_cuda_conv_scratch, mx_cuda_conv},
    [MX_OP_LSTM] = {mx_cuda_lstm_scratch, mx_cuda_lstm},
    [MX_OP_ATTENTION] = {mx_cuda_attention_scratch, mx_cuda_attention},
    [MX_OP_ATTENTION_CACHED] = {mx_cuda_attention_rows_scratch, mx_cuda_attention_cached, mx_cuda_check_cached},
    [MX_OP_ATTENTION_WINDOW] = {mx_cuda_attention_rows_scratch, mx_cuda_attention_window, mx_cuda_check_window},
    [MX_OP_ATTENTION_SCORES] = {NULL, mx_cuda_attention_scores, mx_cuda_check_scores},
    [MX_OP_STATE_WRITE] = {NULL, mx_cuda_state_write, mx_cuda_check_write},
    [MX_OP_SELECT] = {mx_cuda_select_scratch, mx_cuda_select, mx_cuda_check_rules},
#define MX_ELEMENTWISE(id, name, ...) [MX_OP_##id] = {NULL, mx_cuda_unary},
#include "op/elementwise.def"
    [MX_OP_FUSED_LINEAR] = {mx_cuda_gemm_op_scratch, mx_cuda_fused_linear},
    [MX_OP_FUSED_CONV1D] = {mx_cuda_gemm_op_scratch, mx_cuda_fused_conv1d},
    [MX_OP_FUSED_SELECT] = {mx_cuda_fused_select_scratch, mx_cuda_fused_select, mx_cuda_check_rules},
};

static const char *const op_names[MX_OP_COUNT] = {
#define MX_OP(id, name, least, most, outputs) [MX_OP_##id] = name,
#include "op/ops.def"
#undef MX_OP
};

const char *mx_cuda_op_name(mx_op op) { return (size_t)op < MX_OP_COUNT ? op_names[op] : "?"; }

mx_cuda *mx_cuda_of(const mx_device *device) { return (mx_cuda *)(uintptr_t)device; }

void mx_cuda_log_timed(int64_t start_ns, const char *what) {
    mx_cuda_host->log_timed(MXW_LOG_DEBUG, "cuda", mx_since_ms(start_ns), "%s", what);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

mxw_status mx_cuda_check(const mx_cuda *gpu, cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return MXW_OK;
    mxw_status status = error == cudaErrorMemoryAllocation ? MXW_E_MEMORY : MXW_E_DEVICE;
    return mx_cuda_host->fail(status, "%s: %s: %s", gpu->id, what, cudaGetErrorString(error));
}

mxw_status mx_cuda_launched(const mx_cuda *gpu, const mx_call *call) {
    return mx_cuda_check(gpu, cudaGetLastError(), mx_cuda_op_name(call->op));
}

/* ---- the function table of a device ------------------------------------------------------------------------------ */

static int supports(const mx_device *device, mx_op op) { return op >= 0 && op < MX_OP_COUNT && mx_cuda_ops[op].run; }

static int supports_precision(const mx_device *device, mxw_precision precision) {
    switch (precision) {
    case MXW_PRECISION_EXACT:
    case MXW_PRECISION_F16: return 1;
    case MXW_PRECISION_INT8:
    case MXW_PRECISION_F8: return mx_cuda_of(device)->has_wgmma;
    }
    return 0;
}

/* The caches of the decoder: half the bytes of a step, and half the memory; in F8 the keys and values of windows, most
 * of both, are half of that. */
static mxw_dtype state_dtype(const mx_device *device, mxw_precision precision, mx_op op, int input) {
    mxw_dtype of_f8 = MXW_F32;
    switch (op) {
    case MX_OP_ATTENTION_CACHED: of_f8 = input == 1 || input == 2 ? MXW_F16 : MXW_F32; break;
    case MX_OP_ATTENTION_WINDOW: of_f8 = input == 1 || input == 2 ? MXW_F8 : MXW_F32; break;
    case MX_OP_ATTENTION_SCORES: of_f8 = input == 1 ? MXW_F8 : MXW_F32; break;
    case MX_OP_STATE_WRITE: of_f8 = input == 0 ? MXW_F8 : MXW_F32; break;
    default: break;
    }
    if (of_f8 == MXW_F32 || precision == MXW_PRECISION_EXACT || !mx_cuda_decode_attention_f16_fits(mx_cuda_of(device)))
        return MXW_F32;
    return precision == MXW_PRECISION_F8 ? of_f8 : MXW_F16;
}

static int strided(const mx_device *device, mx_op op, int input) {
    switch (op) {
    case MX_OP_FUSED_LINEAR: return input == 0 || input == 3;
    case MX_OP_ATTENTION: return input < 3;
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW:
    case MX_OP_FUSED_SELECT: return input == 0;
    case MX_OP_STATE_WRITE: return input == 1;
    default: return 0;
    }
}

static const char *decode_label(const mx_call *call) {
    if (!mx_cuda_decode_attention_takes(call))
        return "plain";
    if (call->op == MX_OP_ATTENTION_WINDOW)
        return call->inputs[1].dtype == MXW_F8    ? "decode_cross_f8"
               : call->inputs[1].dtype == MXW_F16 ? "decode_cross_f16"
                                                  : "decode_cross";
    return call->inputs[1].dtype == MXW_F16 ? "decode_paged_f16" : "decode_paged";
}

/* The kernel that a call runs outside of captured graphs, in which neighbours may be fused. */
static const char *kernel(const mx_device *device, const mx_call *call) {
    mx_cuda *gpu = mx_cuda_of(device);
    if (mx_cuda_enter(gpu) < 0)
        return "none";
    switch (call->op) {
    case MX_OP_FUSED_LINEAR:
    case MX_OP_FUSED_CONV1D: return mx_cuda_gemm_op_label(gpu, call);
    case MX_OP_ATTENTION: return mx_cuda_flash_label(gpu, call);
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW: return decode_label(call);
    case MX_OP_LAYER_NORM: return mx_cuda_fast_norm_takes(call) ? "norm, a warp per row" : "plain";
    case MX_OP_GATHER: return mx_cuda_fast_gather_takes(call) ? "gather_rows" : "plain";
    case MX_OP_STATE_WRITE: return mx_cuda_fast_write_takes(call) ? "write_rows" : "plain";
    case MX_OP_FUSED_SELECT: return mx_cuda_fused_select_label(gpu, call);
    default: return "plain";
    }
}

static size_t scratch_bytes(const mx_device *device, const mx_call *call) {
    return supports(device, call->op) && mx_cuda_ops[call->op].scratch
               ? mx_cuda_ops[call->op].scratch(mx_cuda_of(device), call)
               : 0;
}

mxw_status mx_cuda_check_call(mx_cuda *gpu, const mx_call *call) {
    return mx_cuda_ops[call->op].check ? mx_cuda_ops[call->op].check(gpu, call) : MXW_OK;
}

static mxw_status run_op(const mx_device *device, const mx_call *call) {
    mx_cuda *gpu = mx_cuda_of(device);
    if (!supports(device, call->op))
        return mx_cuda_host->fail(MXW_E_UNSUPPORTED, "%s does not run %s", gpu->id, mx_cuda_op_name(call->op));
    mxw_status status = mx_cuda_enter(gpu);
    if (status >= 0)
        status = mx_cuda_check_call(gpu, call);
    return status < 0 ? status : mx_cuda_ops[call->op].run(gpu, call);
}

static mxw_status open_device(const mx_device *device) { return mx_cuda_enter(mx_cuda_of(device)); }

/* cuBLAS is opened here or by the first GEMM that needs it: compiled programs do without, and it takes long. */
static mxw_status check_eager(const mx_device *device) {
    mx_cuda *gpu = mx_cuda_of(device);
    const char *why;
    char version[32];
    if (!mx_cuda_blas_found(&why))
        return mx_cuda_host->fail(MXW_E_DEVICE, "device %s: %s", gpu->id, why);
    mx_cuda_blas_version(version, sizeof(version));
    pthread_mutex_lock(&gpu->lock);
    size_t n = strlen(gpu->features);
    if (!strstr(gpu->features, "cuBLAS"))
        snprintf(gpu->features + n, sizeof(gpu->features) - n, ", cuBLAS %s", version);
    pthread_mutex_unlock(&gpu->lock);
    return MXW_OK;
}

static const mx_device table = {
    .alloc = mx_cuda_alloc,
    .free = mx_cuda_free,
    .upload = mx_cuda_upload,
    .download = mx_cuda_download,
    .clear = mx_cuda_clear,
    .memory_free = mx_cuda_memory_free,
    .supports = supports,
    .supports_precision = supports_precision,
    .state_dtype = state_dtype,
    .strided = strided,
    .form = mx_cuda_weight_form,
    .packing = mx_cuda_packing,
    .pack = mx_cuda_pack,
    .kernel = kernel,
    .scratch_bytes = scratch_bytes,
    .output_layout_bytes = mx_cuda_output_layout_bytes,
    .run_op = run_op,
    .measure = mx_cuda_measure,
    .open = open_device,
    .check_eager = check_eager,
    .upload_f32 = mx_cuda_upload_f32,
    .capture = &mx_cuda_capture,
};

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* CUDA writes 13.0 as 13000. */
#define MAJOR(version) ((version) / 1000)
#define MINOR(version) ((version) % 1000 / 10)

static void judge(mx_cuda *gpu, int capability, int driver) {
    if (capability < LEAST_CAPABILITY)
        snprintf(gpu->reason, sizeof(gpu->reason), "compute capability %d.%d is too old: expected %d.%d or newer",
                 capability / 10, capability % 10, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10);
    else {
        gpu->device.info.usable = 1;
        snprintf(gpu->reason, sizeof(gpu->reason), "driver supports CUDA %d.%d", MAJOR(driver), MINOR(driver));
    }
}

static void describe(mx_cuda *gpu, int index, int driver, int runtime) {
    struct cudaDeviceProp p;
    pthread_mutex_init(&gpu->lock, NULL);
    pthread_mutex_init(&gpu->capture_lock, NULL);
    gpu->device = table;
    gpu->index = index;
    snprintf(gpu->id, sizeof(gpu->id), "cuda:%d", index);
    gpu->device.info = (mxw_device_info){.id = gpu->id, .kind = "cuda", .description = gpu->description,
                                         .features = gpu->features, .reason = gpu->reason};
    cudaError_t error = cudaGetDeviceProperties(&p, index);
    if (error != cudaSuccess) {
        cudaGetLastError();
        snprintf(gpu->description, sizeof(gpu->description), "GPU %d", index);
        snprintf(gpu->reason, sizeof(gpu->reason), "%s", cudaGetErrorString(error));
        return;
    }
    snprintf(gpu->description, sizeof(gpu->description), "%.100s", p.name);
    gpu->device.info.memory_bytes = p.totalGlobalMem;
    gpu->device.info.cores = p.multiProcessorCount;
    gpu->shared_bytes = (int)p.sharedMemPerBlockOptin;
    judge(gpu, p.major * 10 + p.minor, driver);
    snprintf(gpu->features, sizeof(gpu->features), "sm_%d%d, driver CUDA %d.%d, runtime CUDA %d.%d", p.major, p.minor,
             MAJOR(driver), MINOR(driver), MAJOR(runtime), MINOR(runtime));
}

static void look(void) {
    int driver = 0, runtime = 0;
    int64_t start = mx_now_ns();
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaError_t error = cudaGetDeviceCount(&n_gpus);
    cudaGetLastError();   /* clears the error */
    mx_cuda_log_timed(start, "driver started");
    if (error == cudaSuccess && n_gpus > 0) {
        n_gpus = MX_MIN(n_gpus, MX_CUDA_MAX_GPUS);
        start = mx_now_ns();
        for (int i = 0; i < n_gpus; i++)
            describe(&gpus[i], i, driver, runtime);
        mx_cuda_log_timed(start, "GPUs described");
        return;
    }
    n_gpus = 0;
    if (driver == 0)
        snprintf(why_none, sizeof(why_none), "no NVIDIA driver is installed (libcuda.so.1)");
    else if (error == cudaErrorInsufficientDriver)
        snprintf(why_none, sizeof(why_none), "the NVIDIA driver is too old: it supports CUDA %d.%d, expected %d.%d",
                 MAJOR(driver), MINOR(driver), MAJOR(runtime), MINOR(runtime));
    else if (error == cudaSuccess || error == cudaErrorNoDevice)
        snprintf(why_none, sizeof(why_none), "the NVIDIA driver shows no GPU");
    else
        snprintf(why_none, sizeof(why_none), "the NVIDIA driver does not answer: %s", cudaGetErrorString(error));
}

static pthread_once_t looked = PTHREAD_ONCE_INIT;

static int count(void) {
    pthread_once(&looked, look);
    return n_gpus;
}

static const mx_device *get(int index) { return index >= 0 && index < count() ? &gpus[index].device : NULL; }

static const char *tell_why_none(void) { return count() == 0 ? why_none : ""; }

static const mx_device_module module = {count, get, tell_why_none};

/* Exported: the module's one entry point (base/module.h). */
__attribute__((visibility("default"))) const void *mx_module_open(const mx_host *host, uint32_t abi);

const void *mx_module_open(const mx_host *host, uint32_t abi) {
    if (abi != MX_MODULE_ABI)
        return NULL;
    mx_cuda_host = host;
    return &module;
}
