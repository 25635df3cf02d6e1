/* device/cpu/cpu.c - the CPU as a device: its function table, the table of ops, work in fixed pieces. */
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "device/cpu/gemm/pack.h"
#include "device/cpu/peak.h"

const mx_cpu_op mx_cpu_ops[MX_OP_COUNT] = {
    [MX_OP_MATMUL] = {mx_cpu_matmul_scratch, mx_cpu_matmul},
    [MX_OP_LINEAR] = {mx_cpu_linear_scratch, mx_cpu_linear},
    [MX_OP_TRANSPOSE] = {NULL, mx_cpu_transpose},
    [MX_OP_PERMUTE] = {NULL, mx_cpu_permute},
    [MX_OP_RESHAPE] = {NULL, mx_cpu_reshape},
    [MX_OP_ADD] = {NULL, mx_cpu_binary},
    [MX_OP_SUB] = {NULL, mx_cpu_binary},
    [MX_OP_MUL] = {NULL, mx_cpu_binary},
    [MX_OP_DIV] = {NULL, mx_cpu_binary},
    [MX_OP_LAYER_NORM] = {NULL, mx_cpu_layer_norm},
    [MX_OP_GELU] = {NULL, mx_cpu_gelu},
    [MX_OP_SOFTMAX] = {NULL, mx_cpu_softmax},
    [MX_OP_SLICE] = {NULL, mx_cpu_slice},
    [MX_OP_CONCAT] = {NULL, mx_cpu_concat},
    [MX_OP_GATHER] = {NULL, mx_cpu_gather},
    [MX_OP_CAST] = {NULL, mx_cpu_cast},
    [MX_OP_REDUCE] = {NULL, mx_cpu_reduce},
    [MX_OP_ARGMAX] = {NULL, mx_cpu_argmax},
    [MX_OP_TOP_K] = {NULL, mx_cpu_top_k},
    [MX_OP_CONV1D] = {mx_cpu_conv1d_scratch, mx_cpu_conv1d},
    [MX_OP_CONV2D] = {mx_cpu_conv2d_scratch, mx_cpu_conv2d},
    [MX_OP_LSTM] = {mx_cpu_lstm_scratch, mx_cpu_lstm},
    [MX_OP_ATTENTION] = {mx_cpu_attention_scratch, mx_cpu_attention},
    [MX_OP_ATTENTION_CACHED] = {mx_cpu_attention_cached_scratch, mx_cpu_attention_cached},
    [MX_OP_ATTENTION_WINDOW] = {mx_cpu_attention_window_scratch, mx_cpu_attention_window},
    [MX_OP_ATTENTION_SCORES] = {mx_cpu_attention_scores_scratch, mx_cpu_attention_scores},
    [MX_OP_STATE_WRITE] = {NULL, mx_cpu_state_write},
    [MX_OP_SELECT] = {mx_cpu_select_scratch, mx_cpu_select},
#define MX_ELEMENTWISE(id, name, ...) [MX_OP_##id] = {NULL, mx_cpu_elementwise},
#include "op/elementwise.def"
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* OpenBLAS keeps a buffer for each call in flight, a limited number of them. */
#define MAX_SLOTS 64
int mx_cpu_slots(const mx_call *call) { return MX_MIN(mx_pool_threads(call->pool), MAX_SLOTS); }

void mx_cpu_for(const mx_call *call, int64_t n, mx_cpu_fn fn, void *context) {
    mx_pool_for_slots(call->pool, n, mx_cpu_slots(call), fn, context);
}

void *mx_cpu_slot(const mx_call *call, mx_cpu_scratch scratch, int slot) {
    return (char *)call->scratch + MX_CPU_ALIGN(scratch.shared) + MX_CPU_ALIGN(scratch.slot) * (size_t)slot;
}

mxw_status mx_cpu_check_index(const mx_call *call, const char *what, const mx_tensor *index, int64_t limit) {
    const int32_t *at = index->data;
    int64_t n = mx_tensor_count(index);
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= limit)
            return mx_fail(MXW_E_ARGUMENT, "%s: %s[%lld] is %d: expected 0 to %lld", mx_op_name(call->op), what,
                           (long long)i, (int)at[i], (long long)limit - 1);
    return MXW_OK;
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

static void *cpu_alloc(const mx_device *device, size_t bytes) { return mx_alloc(bytes); }
static void cpu_free(const mx_device *device, void *block) { mx_free(block); }

static mxw_status cpu_copy(const mx_device *device, void *to, const void *from, size_t bytes) {
    if (bytes)
        memcpy(to, from, bytes);
    return MXW_OK;
}

static mxw_status cpu_clear(const mx_device *device, void *to, size_t bytes) {
    if (bytes)
        memset(to, 0, bytes);
    return MXW_OK;
}

static const mx_cpu_op *op_of(mx_op op, int compiled) {
    return compiled && mx_cpu_fast_ops[op].run ? &mx_cpu_fast_ops[op] : &mx_cpu_ops[op];
}

static int cpu_supports(const mx_device *device, mx_op op) { return (size_t)op < MX_OP_COUNT && op_of(op, 1)->run; }

static size_t cpu_scratch_bytes(const mx_device *device, const mx_call *call) {
    const mx_cpu_op *op = op_of(call->op, call->compiled);
    if (!op->scratch)
        return 0;
    mx_cpu_scratch scratch = op->scratch(call);
    return MX_CPU_ALIGN(scratch.shared) + MX_CPU_ALIGN(scratch.slot) * (size_t)mx_cpu_slots(call);
}

static int cpu_supports_precision(const mx_device *device, mxw_precision precision) {
    return precision == MXW_PRECISION_EXACT || precision == MXW_PRECISION_INT8;
}

/* In calls of 8 bits the decoder's caches are halves: half of their memory, and of what a step reads of them. */
static mxw_dtype cpu_state_dtype(const mx_device *device, mxw_precision precision, mx_op op, int input) {
    int cache = 0;
    switch (op) {
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW: cache = input == 1 || input == 2; break;
    case MX_OP_ATTENTION_SCORES: cache = input == 1; break;
    case MX_OP_STATE_WRITE: cache = input == 0; break;
    default: break;
    }
    return cache && precision == MXW_PRECISION_INT8 ? MXW_F16 : MXW_F32;
}

static mxw_status cpu_run_op(const mx_device *device, const mx_call *call) {
    const mx_cpu_op *op = op_of(call->op, call->compiled);
    if (!op->run)
        return mx_fail(MXW_E_UNSUPPORTED, "cpu does not run %s", mx_op_name(call->op));
    return op->run(call, !call->compiled                          ? mx_cpu_kernels()
                         : call->precision == MXW_PRECISION_INT8 ? mx_cpu_int8_kernels()
                                                                 : mx_cpu_fast_kernels());
}

static mx_device cpu = {
    .host_memory = 1,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .clear = cpu_clear,
    .supports = cpu_supports,
    .supports_precision = cpu_supports_precision,
    .state_dtype = cpu_state_dtype,
    .strided = mx_cpu_strided,
    .form = mx_cpu_form,
    .takes_quantized = mx_cpu_takes_quantized,
    .packing = mx_cpu_packing,
    .pack = mx_cpu_pack,
    .kernel = mx_cpu_kernel,
    .scratch_bytes = cpu_scratch_bytes,
    .run_op = cpu_run_op,
    .measure = mx_cpu_measure,
};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void describe(void) { mx_cpu_describe(&cpu.info); }

const mx_device *mx_cpu_device(void) {
    pthread_once(&once, describe);
    return &cpu;
}
