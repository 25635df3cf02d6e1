/* modules/cuda/gemm/describe.c - the fused GEMM ops: a call as a gemm_desc, the scratch that it needs, and in which
 * layout one call leaves its output to the next. select.cu runs them. */
#include "modules/cuda/cuda.h"

#define ALIGN(bytes) (((bytes) + 255) / 256 * 256)

static const mx_tensor *input(const mx_call *call, int i) {
    return i < call->n_inputs && call->inputs[i].data ? &call->inputs[i] : NULL;
}

/* Elements from row to row; leading axes are contiguous in rows. */
static int64_t row_stride(const mx_tensor *t) { return t->rank > 1 ? t->strides[t->rank - 2] : t->dims[t->rank - 1]; }

static int64_t rows_of(const mx_tensor *t) {
    int64_t rows = 1;
    for (int i = 0; i < t->rank - 1; i++)
        rows *= t->dims[i];
    return rows;
}

/* The layout that a GEMM can write: for the next convolution, for attention, or for a GEMM. */
static mx_layout output_layout_of(const mx_call *call) {
    return call->op == MX_OP_FUSED_CONV1D       ? MX_LAYOUT_IM2COL
           : call->attrs->act == MX_ACT_NONE ? MX_LAYOUT_QKV
                                             : MX_LAYOUT_OPERAND;
}

/* A convolution whose taps are apart has no rows in x: they are written out first, and multiplied as plain ones. */
static int is_dilated(const mx_call *call) { return call->op == MX_OP_FUSED_CONV1D && call->attrs->dilation > 1; }

static gemm_desc describe(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    const mx_tensor *residual = input(call, 3);
    gemm_desc p = {.m = rows_of(out), .n = weight->dims[0], .k = weight->dims[1], .x = x->data,
                       .ldx = row_stride(x), .act = call->attrs->act, .precision = gemm_precision_of(call->precision),
                       .y = out->data, .ldy = weight->dims[0], .scratch = call->scratch};
    /* the rows of IM2COL are the operand itself */
    p.x_layout = x->layout == MX_LAYOUT_DENSE ? MX_LAYOUT_DENSE : MX_LAYOUT_OPERAND;
    p.y_layout = out->layout;
    p.entry_rows = out->rank > 1 ? out->dims[out->rank - 2] : 1;
    p.bias = mx_cuda_input(call, 2);
    if (residual) {
        p.residual = residual->data;
        p.residual_rows = rows_of(residual);
        p.ld_residual = row_stride(residual);
    }
    if (is_dilated(call)) {
        p.k *= weight->dims[2];
        p.x = NULL;   /* scratch; as aligned as this */
        p.ldx = p.k;
    } else if (call->op == MX_OP_FUSED_CONV1D) {
        p.k *= weight->dims[2];
        p.positions = x->dims[1];
        p.out_positions = out->dims[1];
        p.channels = x->dims[2];
        p.stride = call->attrs->stride[0];
        p.pad = call->attrs->pad[0];
    } else {
        p.gamma = mx_cuda_input(call, 4);
        p.beta = mx_cuda_input(call, 5);
        p.eps = call->attrs->eps;
    }
    return p;
}

static size_t scratch_of(mx_cuda *gpu, const gemm_desc *p) {
    return mx_cuda_enter(gpu) < 0 ? 0 : ALIGN(mx_cuda_gemm_scratch(gpu, p));
}

/* A weight that is not packed is packed on the way, into scratch after that of the GEMM. The rows of a dilated
 * convolution come last. */
static size_t rows_at(mx_cuda *gpu, const mx_call *call, const gemm_desc *p) {
    size_t bytes = scratch_of(gpu, p);
    return call->inputs[1].layout == MX_LAYOUT_PACKED ? bytes : bytes + ALIGN(mx_cuda_weight_bytes(p->n, p->k, 2));
}

size_t mx_cuda_gemm_op_scratch(mx_cuda *gpu, const mx_call *call) {
    gemm_desc p;
    if (!mx_cuda_gemm_describe(call, &p))
        p.weight.terms = 2;
    return rows_at(gpu, call, &p) + (is_dilated(call) ? (size_t)(p.m * p.k) * sizeof(float) : 0);
}

int mx_cuda_gemm_describe(const mx_call *call, gemm_desc *p) {
    *p = describe(call);
    if (call->inputs[1].layout != MX_LAYOUT_PACKED)
        return 0;
    p->weight = mx_cuda_weight_of(&call->inputs[1]);
    return 1;
}

static mxw_status run(mx_cuda *gpu, const mx_call *call, int64_t taps) {
    const mx_tensor *weight = &call->inputs[1];
    gemm_desc p = describe(call);
    mxw_status status = MXW_OK;
    if (p.m == 0 || p.n == 0)
        return MXW_OK;
    if (weight->layout == MX_LAYOUT_PACKED) {
        p.weight = mx_cuda_weight_of(weight);
    } else {
        p.weight = (mx_cuda_weight){NULL, p.n, p.k, 2, 1, MX_CUDA_F16};
        p.weight.bytes = (char *)call->scratch + scratch_of(gpu, &p);
        status = mx_cuda_pack_plain(gpu, call, &p.weight, weight->data, taps);
    }
    if (is_dilated(call) && status >= 0) {
        float *rows = (float *)((char *)call->scratch + rows_at(gpu, call, &p));
        p.x = rows;
        status = mx_cuda_conv1d_rows(gpu, call, rows);
    }
    return status < 0 ? status : mx_cuda_gemm_run(gpu, call, &p);
}

mxw_status mx_cuda_fused_linear(mx_cuda *gpu, const mx_call *call) { return run(gpu, call, 1); }

mxw_status mx_cuda_fused_conv1d(mx_cuda *gpu, const mx_call *call) {
    return run(gpu, call, call->inputs[1].dims[2]);
}

/* Whether the second convolution reads the IM2COL of the first, entry by entry. */
static int follows_conv(const gemm_desc *from, const gemm_desc *to) {
    return from->y_layout == MX_LAYOUT_IM2COL && from->out_positions % 2 == 0 && from->out_positions >= 8 &&
           to->stride == 2 && to->pad == 1 && to->k == 3 * from->n && to->positions == from->out_positions &&
           to->channels == from->n;
}

/* Bytes of what a call leaves to a GEMM: rows as operands, where there are many; else 0. */
static size_t bytes_for_gemm(mx_cuda *gpu, const mx_call *producer, const gemm_desc *from, gemm_desc *to) {
    const mx_tensor *y = &producer->outputs[0];
    int attention = producer->op == MX_OP_ATTENTION;
    if (to->gamma || to->k % 64)
        return 0;
    if (producer->op == MX_OP_FUSED_CONV1D
            ? !follows_conv(from, to)
            : to->positions != 0 || to->k != y->dims[y->rank - 1] ||
                  (!attention && from->y_layout != MX_LAYOUT_OPERAND))
        return 0;
    if (attention ? !mx_cuda_flash_takes(producer) : !mx_cuda_gemm_writes_layout(gpu, from))
        return 0;
    /* S8 reads f16, E4M3 what a producer of this precision writes: 8 bits. Whether it does must not depend on the
     * number of rows. */
    if (attention ? producer->precision == MXW_PRECISION_F8 && to->weight.element != MX_CUDA_E4M3
                  : from->weight.element != to->weight.element)
        return 0;
    to->x_layout = MX_LAYOUT_OPERAND;
    return mx_cuda_gemm_reads_operand(gpu, to) ? gemm_operand_bytes(to) : 0;
}

/* Bytes of what a stacked projection leaves to attention: queries, keys and values side by side in its rows. */
static size_t bytes_for_attention(mx_cuda *gpu, const mx_call *producer, const gemm_desc *from, const mx_call *consumer,
                                  int input) {
    const mx_tensor *x = &consumer->inputs[input], *q = &consumer->inputs[0], *k = &consumer->inputs[1];
    int64_t heads = consumer->attrs->heads, third = heads * 64;
    if (producer->op != MX_OP_FUSED_LINEAR || from->y_layout != MX_LAYOUT_QKV ||
        !mx_cuda_flash_reads_qkv(gpu, consumer) || input > 2 || from->n != 3 * third || x->rank != 3 ||
        x->strides[1] != from->n || x->offset != input * third || q->dims[1] != k->dims[1] ||
        x->dims[1] != from->entry_rows || x->dims[1] % 4 || x->dims[1] < 8 || x->dims[0] * x->dims[1] != from->m ||
        !mx_cuda_gemm_writes_layout(gpu, from))
        return 0;
    return gemm_qkv_bytes(x->dims[0], x->dims[1], heads, producer->precision);
}

size_t mx_cuda_output_layout_bytes(const mx_device *device, const mx_call *producer, const mx_call *consumer, int input,
                                   mx_layout *layout) {
    mx_cuda *gpu = mx_cuda_of(device);
    gemm_desc from = {0}, to;
    int product = producer->op == MX_OP_FUSED_LINEAR || producer->op == MX_OP_FUSED_CONV1D;
    mx_op next = producer->op == MX_OP_FUSED_CONV1D ? MX_OP_FUSED_CONV1D : MX_OP_FUSED_LINEAR;
    if ((!product && producer->op != MX_OP_ATTENTION) || producer->precision != consumer->precision ||
        mx_cuda_enter(gpu) < 0 || (product && !mx_cuda_gemm_describe(producer, &from)) ||
        (product && producer->n_inputs > 3 && producer->inputs[3].rank > 0))
        return 0;
    from.y_layout = *layout = producer->op == MX_OP_ATTENTION ? MX_LAYOUT_OPERAND : output_layout_of(producer);
    if (consumer->op == MX_OP_ATTENTION)
        return bytes_for_attention(gpu, producer, &from, consumer, input);
    if (consumer->op != next || input != 0 || !mx_cuda_gemm_describe(consumer, &to) ||
        mx_cuda_count(&consumer->inputs[0]) != mx_cuda_count(&producer->outputs[0]))
        return 0;
    return bytes_for_gemm(gpu, producer, &from, &to);
}

const char *mx_cuda_gemm_op_label(mx_cuda *gpu, const mx_call *call) {
    gemm_desc p;
    if (!mx_cuda_gemm_describe(call, &p))
        p.weight.terms = 2;
    return mx_cuda_gemm_label(gpu, &p, GEMM_THEN_NOTHING);
}
