/* device/cpu/fast_ops.c - compiled calls on the CPU: which ops have kernels of their own, which inputs may be strided.
 * An op that is not in the table runs as in the eager engine, on the kernels of the best instruction set. */
#include "device/cpu/cpu.h"

const mx_cpu_op mx_cpu_fast_ops[MX_OP_COUNT] = {
    [MX_OP_MATMUL] = {mx_cpu_fast_matmul_scratch, mx_cpu_fast_matmul},
    [MX_OP_LINEAR] = {mx_cpu_fast_linear_scratch, mx_cpu_fast_linear},
    [MX_OP_CONV1D] = {mx_cpu_fast_conv1d_scratch, mx_cpu_fast_conv1d},
    [MX_OP_GATHER] = {NULL, mx_cpu_fast_gather},
    [MX_OP_FUSED_LINEAR] = {mx_cpu_fast_linear_scratch, mx_cpu_fast_linear},
    [MX_OP_FUSED_CONV1D] = {mx_cpu_fast_conv1d_scratch, mx_cpu_fast_conv1d},
    [MX_OP_ATTENTION] = {mx_cpu_fast_attention_scratch, mx_cpu_fast_attention},
    [MX_OP_ATTENTION_WINDOW] = {mx_cpu_fast_attention_window_scratch, mx_cpu_fast_attention_window},
    [MX_OP_ATTENTION_CACHED] = {mx_cpu_fast_attention_cached_scratch, mx_cpu_fast_attention_cached},
    [MX_OP_STATE_WRITE] = {NULL, mx_cpu_fast_state_write},
    [MX_OP_SELECT] = {mx_cpu_fast_select_scratch, mx_cpu_fast_select},
    [MX_OP_FUSED_SELECT] = {mx_cpu_fast_select_scratch, mx_cpu_fast_select},
};

int mx_cpu_strided(const mx_device *device, mx_op op, int input) {
    switch (op) {
    case MX_OP_LINEAR: return input == 0;
    case MX_OP_FUSED_LINEAR: return input == 0 || input == 3;
    case MX_OP_ATTENTION: return input < 3;
    case MX_OP_ATTENTION_WINDOW:
    case MX_OP_ATTENTION_CACHED: return input == 0;
    case MX_OP_STATE_WRITE: return input == 1;
    case MX_OP_SELECT:
    case MX_OP_FUSED_SELECT: return input == 0;
    default: return 0;
    }
}

const char *mx_cpu_kernel(const mx_device *device, const mx_call *call) {
    switch (call->op) {
    case MX_OP_MATMUL:
    case MX_OP_LINEAR:
    case MX_OP_CONV1D:
    case MX_OP_FUSED_LINEAR:
    case MX_OP_FUSED_CONV1D: return mx_cpu_gemm_kernel(call);
    case MX_OP_ATTENTION:
    case MX_OP_ATTENTION_WINDOW:
    case MX_OP_ATTENTION_CACHED: return mx_cpu_attention_kernel(call);
    case MX_OP_LSTM:
        return call->inputs[2].layout == MX_LAYOUT_PACKED ? "lstm, packed weights" : "lstm, plain weights";
    case MX_OP_SELECT:
    case MX_OP_FUSED_SELECT: return mx_cpu_select_kernel(call);
    default: return "plain";
    }
}
