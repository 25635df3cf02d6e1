/* exec/work.c - the work of a call for traces: floating-point operations of its GEMMs, bytes that it has to move.
 * Invariants: of caches and tables only the rows that are read count, if the host knows which. */
#include "exec/program.h"

#include "base/base.h"

static double count(const mx_tensor *t) { return (double)mx_tensor_count(t); }

/* Indices of an input, if the host can read them. */
static const int32_t *indices(const mx_program *p, const mx_call *call, int input) {
    if (call->host && call->host[input])
        return call->host[input];
    return p->device->host_memory ? call->inputs[input].data : NULL;
}

/* Positions that all rows of attention_cached together attend to. */
static double cached_keys(const mx_program *p, const mx_call *call) {
    const int32_t *position = indices(p, call, 4);
    int64_t rows = call->inputs[0].dims[0];
    double keys = 0;
    for (int64_t i = 0; i < rows; i++)
        keys += position ? position[i] + 1 : (double)call->inputs[1].dims[0] / (double)rows;
    return keys;
}

/* How many windows the rows of attention_window attend to. */
static double attended_windows(const mx_program *p, const mx_call *call, int input) {
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
    case MX_OP_LSTM:   /* both products of a gate, for each of four, at each step of each sequence */
        return 8 * (last + (double)in[2].dims[2]) * count(out);
    case MX_OP_FUSED_SELECT: return 2 * count(&in[0]) * (double)in[1].dims[0];
    case MX_OP_ATTENTION: return 4 * last * attended(call);
    case MX_OP_ATTENTION_CACHED: return 4 * last * cached_keys(p, call);
    case MX_OP_ATTENTION_WINDOW: return 4 * count(&in[0]) * (double)in[1].dims[1];
    case MX_OP_ATTENTION_SCORES: return 2 * count(out) * last / (double)MX_MAX(call->attrs->heads, 1);
    default: return 0;
    }
}

/* An activation in a device layout counts as f16, or two of them where the precision is exact; what passes between
 * GEMMs of f8 is half of that. */
static double value_bytes(const mx_program *p, const mx_tensor *t) {
    if (t->layout == MX_LAYOUT_PACKED)
        return (double)(t->packing.bytes + t->packing.elsewhere);
    if (t->layout != MX_LAYOUT_DENSE)
        return count(t) * (p->precision == MXW_PRECISION_EXACT ? 4 : 2);
    return (double)mx_tensor_bytes(t);
}

static double bytes_of(const mx_program *p, const mx_call *call) {
    const mx_tensor *in = call->inputs, *out = call->outputs;
    double d = in[0].rank ? (double)in[0].dims[in[0].rank - 1] : 1, bytes = 0;
    double key = call->n_inputs > 1 ? d * (double)mx_dtype_bytes(in[1].dtype) : 0;   /* of attention: a row of keys */
    for (int i = 0; i < call->n_outputs; i++)
        bytes += value_bytes(p, &out[i]);
    switch (call->op) {
    case MX_OP_GATHER: return 2 * bytes + (double)mx_tensor_bytes(&in[1]);
    case MX_OP_SLICE: return 2 * bytes;
    case MX_OP_STATE_WRITE: return 2 * (double)mx_tensor_bytes(&in[1]) + (double)mx_tensor_bytes(&in[2]);
    case MX_OP_ATTENTION_CACHED: return 2 * bytes + 2 * key * cached_keys(p, call);
    case MX_OP_ATTENTION_WINDOW:
        return 2 * bytes + 2 * key * (double)in[1].dims[1] * attended_windows(p, call, 3);
    case MX_OP_ATTENTION_SCORES:
        return bytes + (double)mx_tensor_bytes(&in[0]) + key * (double)in[1].dims[1] * attended_windows(p, call, 3);
    default: break;
    }
    for (int i = 0; i < call->n_inputs; i++)
        bytes += in[i].data ? value_bytes(p, &in[i]) : 0;
    return bytes;
}

void mx_run_work(const mx_program *p, const mx_call *call, mxw_trace_event *event) {
    event->flops = flops_of(p, call);
    event->bytes = (uint64_t)bytes_of(p, call);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Whether a node that runs reads `value`, or `constant` of a plan, as a whole: gather reads only rows. */
static int is_read(const mx_program *p, mx_value value, int32_t constant) {
    const mx_graph *g = p->graph;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const mx_node *node = &g->nodes[n];
        if (p->plan && !mx_compiled_runs(p->plan, node))
            continue;
        for (int i = node->op == MX_OP_GATHER; i < node->n_inputs; i++)
            if (p->plan ? p->plan->inputs[n][i] == constant : node->inputs[i] == value)
                return 1;
    }
    return 0;
}

size_t mx_program_weight_bytes(const mx_program *p) {
    size_t bytes = 0;
    for (size_t i = 0; p->plan && i < p->plan->n_constants; i++)
        if (is_read(p, 0, (int32_t)i))
            bytes += (size_t)value_bytes(p, &p->plan->constants[i].tensor);
    for (size_t i = 1; !p->plan && i < p->graph->n_values; i++) {
        const mx_value_info *info = &p->graph->values[i];
        if (info->kind == MX_WEIGHT && is_read(p, (mx_value)i, -1))
            bytes += (size_t)mx_type_count(&info->type) * mx_dtype_bytes(info->type.dtype);
    }
    return bytes;
}
