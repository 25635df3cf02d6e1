/* device/cpu/gemm/gemm_ops.c - the ops of compiled calls that are GEMMs: linear, matmul, conv1d, and their fused
 * forms. Each describes its rows, columns and results; gemm.c multiplies. */
#include "device/cpu/gemm/codes.h"
#include "device/cpu/gemm/w8a8.h"

static const mx_tensor *input(const mx_call *call, int i) { return i < call->n_inputs ? &call->inputs[i] : NULL; }
static const float *data_of(const mx_tensor *t) { return t ? t->data : NULL; }

/* Elements from row to row: rows of an input may be strided, and all its leading axes continue from there. */
static int64_t row_stride(const mx_tensor *t) { return t->rank > 1 ? t->strides[t->rank - 2] : t->dims[t->rank - 1]; }

static int64_t rows_of(const mx_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i < t->rank - 1; i++)
        rows *= t->dims[i];
    return rows;
}

static void set_weight(mx_gemm *p, const mx_tensor *weight, int transposed) {
    p->packed = mx_packed_of(weight);
    p->in_8_bits = mx_w8a8_is(weight);
    p->w8a8 = p->in_8_bits ? weight->data : NULL;
    p->in_codes = mx_codes_is(weight);
    p->codes = p->in_codes ? weight->data : NULL;
    p->b = weight->layout == MX_LAYOUT_PACKED ? NULL : weight->data;
    p->b_transposed = transposed;
}

static void set_residual(mx_gemm *p, const mx_tensor *residual) {
    if (!residual || !residual->data)
        return;
    p->residual = residual->data;
    p->residual_rows = rows_of(residual);
    p->ld_residual = row_stride(residual);
}

/* ---- linear ------------------------------------------------------------------------------------------------------ */

static mx_gemm linear_of(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
    mx_gemm p = {.call = call, .m = rows_of(x), .n = weight->dims[0], .k = weight->dims[1], .entries = 1};
    p.x = x->data;
    p.ldx = row_stride(x);
    p.ldb = p.k;
    p.y = call->outputs[0].data;
    p.bias = data_of(input(call, 2));
    set_weight(&p, weight, 1);
    if (call->op == MX_OP_FUSED_LINEAR) {
        p.act = call->attrs->act;
        p.may_norm = call->n_inputs > 4;
        p.gamma = data_of(input(call, 4));
        p.beta = data_of(input(call, 5));
        p.eps = call->attrs->eps;
        set_residual(&p, input(call, 3));
    }
    return p;
}

/* The table that the call will run with: its blocking decides what scratch it needs. */
static const mx_kernels *kernels_of(const mx_call *call) {
    return call->precision == MXW_PRECISION_INT8 ? mx_cpu_int8_kernels() : mx_cpu_fast_kernels();
}

mx_cpu_scratch mx_cpu_fast_linear_scratch(const mx_call *call) {
    mx_gemm p = linear_of(call);
    return mx_gemm_scratch(&p, kernels_of(call));
}

mxw_status mx_cpu_fast_linear(const mx_call *call, const mx_kernels *kernels) {
    mx_gemm p = linear_of(call);
    mx_gemm_run(&p, kernels);
    return MXW_OK;
}

/* ---- matmul ------------------------------------------------------------------------------------------------------ */

static int64_t leading_stride(const mx_tensor *t, const mx_tensor *out, int i) {
    int axis = i - (out->rank - t->rank);
    return axis < 0 || t->dims[axis] == 1 ? 0 : t->strides[axis];
}

static mx_gemm matmul_of(const mx_call *call) {
    const mx_tensor *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->outputs[0];
    mx_gemm p = {.call = call, .n = b->dims[b->rank - 1], .k = a->dims[a->rank - 1], .entries = 1};
    p.x = a->data;
    p.ldx = row_stride(a);
    p.ldb = p.n;
    p.y = out->data;
    set_weight(&p, b, 0);
    if (b->rank == 2) {   /* one b for all rows */
        p.m = rows_of(a);
        return p;
    }
    p.m = a->dims[a->rank - 2];
    p.n_entry_dims = out->rank - 2;
    for (int i = 0; i < out->rank - 2; i++) {
        p.entries *= p.entry_dims[i] = out->dims[i];
        p.a_strides[i] = leading_stride(a, out, i);
        p.b_strides[i] = leading_stride(b, out, i);
    }
    return p;
}

mx_cpu_scratch mx_cpu_fast_matmul_scratch(const mx_call *call) {
    mx_gemm p = matmul_of(call);
    return mx_gemm_scratch(&p, kernels_of(call));
}

mxw_status mx_cpu_fast_matmul(const mx_call *call, const mx_kernels *kernels) {
    mx_gemm p = matmul_of(call);
    mx_gemm_run(&p, kernels);
    return MXW_OK;
}

/* ---- conv1d ------------------------------------------------------------------------------------------------------ */

static mx_gemm conv1d_of(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    mx_gemm p = {.call = call, .m = rows_of(out), .n = weight->dims[0], .k = weight->dims[1] * weight->dims[2],
                    .entries = 1, .taps = weight->dims[2], .channels = weight->dims[1],
                    .stride = call->attrs->stride[0], .pad = call->attrs->pad[0],
                    .dilation = call->attrs->dilation, .positions = x->dims[1], .out_positions = out->dims[1]};
    p.x = x->data;
    p.ldb = p.k;
    p.y = out->data;
    p.bias = data_of(input(call, 2));
    set_weight(&p, weight, 1);
    if (call->op == MX_OP_FUSED_CONV1D) {
        p.act = call->attrs->act;
        set_residual(&p, input(call, 3));
    }
    return p;
}

/* Shared by all slots: a weight that did not come packed, as [out][taps][in]. */
static size_t plain_weight_bytes(const mx_call *call) {
    const mx_tensor *weight = &call->inputs[1];
    return weight->layout == MX_LAYOUT_PACKED ? 0 : MX_CPU_ALIGN(mx_tensor_bytes(weight));
}

mx_cpu_scratch mx_cpu_fast_conv1d_scratch(const mx_call *call) {
    mx_gemm p = conv1d_of(call);
    mx_cpu_scratch scratch = mx_gemm_scratch(&p, kernels_of(call));
    scratch.shared += plain_weight_bytes(call);
    return scratch;
}

mxw_status mx_cpu_fast_conv1d(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *weight = &call->inputs[1];
    mx_gemm p = conv1d_of(call);
    mx_call rest = *call;
    if (!p.packed) {
        kernels->copy(call->scratch, weight->data, 3, (int64_t[]){weight->dims[0], p.taps, p.channels},
                      (int64_t[]){p.k, 1, p.taps}, sizeof(float));
        p.b = call->scratch;
        rest.scratch = (char *)call->scratch + plain_weight_bytes(call);
        p.call = &rest;
    }
    mx_gemm_run(&p, kernels);
    return MXW_OK;
}

const char *mx_cpu_gemm_kernel(const mx_call *call) {
    mx_gemm p = call->op == MX_OP_MATMUL                                        ? matmul_of(call)
                   : call->op == MX_OP_CONV1D || call->op == MX_OP_FUSED_CONV1D ? conv1d_of(call)
                                                                                   : linear_of(call);
    return mx_gemm_name(&p);
}
