/* exec/work.c - what a call must compute and move, for figures: arithmetic of its products, bytes that it cannot do
 * without. What holds: of caches and tables only the rows that are looked at count, where the host can see which. */
#include "exec/program.h"

#include "base/base.h"

static double count(const mx_tensor *t) { return (double)mx_tensor_count(t); }

/* Indices of an input, if the host can read them. */
static const int32_t *indices(const mx_program *p, const mx_call *call, int input) {
    if (call->host && call->host[input])
        return call->host[input];
    return p->device->host_memory ? call->inputs[input].data : NULL;
}

/* Positions that the rows of attention_cached look at, of all of them together. */
static double cached_keys(const mx_program *p, const mx_call *call) {
    const int32_t *position = indices(p, call, 4);
    int64_t rows = call->inputs[0].dims[0];
    double keys = 0;
    for (int64_t i = 0; i < rows; i++)
        keys += position ? position[i] + 1 : (double)call->inputs[1].dims[0] / (double)rows;
    return keys;
}

/* How many windows the rows of attention_window listen to. */
static double heard_windows(const mx_program *p, const mx_call *call, int input) {
    const int32_t *window = indices(p, call, input);
    int64_t rows = call->inputs[0].dims[0];
    double n = 0;
    for (int64_t i = 0; window && i < rows; i++) {
        int seen = 0;
        for (int64_t j = 0; j < i && !seen; j++)
            seen = window[j] == window[i];
        n += !seen;
    }
    return window ? n : MX_MIN((double)rows, (double)call->inputs[1].dims[0]);
}

/* Pairs of query and key: with a mask, query i of t sees the first s - t + i + 1 keys. */
static double attended(const mx_call *call) {
    const int64_t *q = call->inputs[0].dims, *k = call->inputs[1].dims;
    double n = (double)q[0], t = (double)q[1], s = (double)k[1];
    return n * (call->attrs->causal ? t * (s - t) + t * (t + 1) / 2 : t * s);
}

static double flops_of(const mx_program *p, const mx_call *call) {
    const mx_tensor *in = call->inputs, *out = call->outputs;
    double last = in[0].rank ? (double)in[0].dims[in[0].rank - 1] : 1;
    switch (call->op) {
    case MX_OP_MATMUL:
    case MX_OP_LINEAR:
    case MX_OP_FUSED_LINEAR: return 2 * last * count(out);
    case MX_OP_CONV1D:
    case MX_OP_FUSED_CONV1D: return 2 * last * (double)in[1].dims[2] * count(out);
    case MX_OP_CONV2D: return 2 * last * (double)(in[1].dims[0] * in[1].dims[1]) * count(out);
    case MX_OP_FUSED_SELECT: return 2 * count(&in[0]) * (double)in[1].dims[0];
    case MX_OP_ATTENTION: return 4 * last * attended(call);
    case MX_OP_ATTENTION_CACHED: return 4 * last * cached_keys(p, call);
    case MX_OP_ATTENTION_WINDOW: return 4 * count(&in[0]) * (double)in[1].dims[1];
    case MX_OP_ATTENTION_SCORES: return 2 * count(out) * last / (double)MX_MAX(call->attrs->heads, 1);
    default: return 0;
    }
}

/* Of a value that calls hand to each other in a form of the device's own: as products take it, one f16 or two. */
static double value_bytes(const mx_program *p, const mx_tensor *t) {
    int handed = p->plan && t->dtype == MXW_U8 && t->data;
    return (double)mx_tensor_bytes(t) * (handed ? p->precision == MXW_PRECISION_F16 ? 2 : 4 : 1);
}

/* Of a weight that the plan packed: what its block holds, not its elements. */
static double input_bytes(const mx_program *p, const mx_tensor *t) {
    for (size_t i = 0; p->plan && t->dtype == MXW_U8 && i < p->plan->n_constants; i++)
        if (p->plan->constants[i].tensor.data == t->data && p->plan->constants[i].form == MX_FORM_PACKED)
            return (double)p->plan->constants[i].packed_bytes;
    return t->data ? value_bytes(p, t) : 0;
}

static double bytes_of(const mx_program *p, const mx_call *call) {
    const mx_tensor *in = call->inputs, *out = call->outputs;
    double d = in[0].rank ? (double)in[0].dims[in[0].rank - 1] : 1, bytes = 0;
    for (int i = 0; i < call->n_outputs; i++)
        bytes += value_bytes(p, &out[i]);
    switch (call->op) {
    case MX_OP_GATHER: return 2 * bytes + (double)mx_tensor_bytes(&in[1]);
    case MX_OP_SLICE: return 2 * bytes;
    case MX_OP_STATE_WRITE: return 2 * (double)mx_tensor_bytes(&in[1]) + (double)mx_tensor_bytes(&in[2]);
    case MX_OP_ATTENTION_CACHED: return 2 * bytes + 8 * d * cached_keys(p, call);
    case MX_OP_ATTENTION_WINDOW:
        return 2 * bytes + 8 * d * (double)in[1].dims[1] * heard_windows(p, call, 3);
    case MX_OP_ATTENTION_SCORES:
        return bytes + (double)mx_tensor_bytes(&in[0]) + 4 * d * (double)in[1].dims[1] * heard_windows(p, call, 3);
    default: break;
    }
    for (int i = 0; i < call->n_inputs; i++)
        bytes += input_bytes(p, &in[i]);
    return bytes;
}

void mx_run_work(const mx_program *p, const mx_call *call, mxw_trace_event *event) {
    event->flops = flops_of(p, call);
    event->bytes = (uint64_t)bytes_of(p, call);
}
