/* exec/tap.c - shows the named values of a run to its tap, in host memory. */
#include "exec/program.h"

#include "base/mem.h"

/* Downloads strided rows one by one; the leading axes follow without gaps. */
static mxw_status download_rows(const mx_device *device, const mx_tensor *from, char *to) {
    size_t element = mx_dtype_bytes(from->dtype), row = (size_t)from->dims[from->rank - 1] * element;
    size_t apart = (size_t)from->strides[from->rank - 2] * element;
    size_t rows = row ? mx_tensor_bytes(from) / row : 0;
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < rows && status >= 0; i++)
        status = device->download(device, to + i * row, (const char *)from->data + i * apart, row);
    return status;
}

/* A state that the device keeps narrower, widened. */
static mxw_status widen(const mx_device *device, const mx_tensor *from, float *to) {
    size_t bytes = mx_tensor_bytes(from);
    mx_tensor kept = *from;
    if (device->host_memory)
        return mx_tensor_to_f32(from, to);
    kept.data = mx_alloc(MX_MAX(bytes, 1));
    mxw_status status = kept.data ? device->download(device, kept.data, from->data, bytes) : MXW_E_MEMORY;
    if (status >= 0)
        status = mx_tensor_to_f32(&kept, to);
    mx_free(kept.data);
    return status;
}

mxw_status mx_run_to_host(mx_run *run, mx_value value, size_t block, mx_tensor *out) {
    const mx_device *device = run->program->device;
    const mx_graph *g = run->program->graph;
    const mx_tensor *tensor = &run->values[value];
    mxw_dtype dtype = g->values[value].type.dtype;
    size_t bytes = (size_t)mx_tensor_count(tensor) * mx_dtype_bytes(dtype);
    *out = *tensor;
    int dense = mx_tensor_contiguous(tensor), same = tensor->dtype == dtype;
    if (!same && dtype != MXW_F32)
        return mx_fail(MXW_E_INTERNAL, "%s is %s on the device, %s in the graph: only f32 is widened to",
                       mx_graph_value_name(g, value), mx_dtype_name(tensor->dtype), mx_dtype_name(dtype));
    if (device->host_memory && dense && same)
        return MXW_OK;
    mx_buffer *host = &run->host[block];
    if (bytes > host->bytes) {
        mx_free(host->data);
        host->bytes = 0;
        host->data = mx_alloc(bytes);
        if (!host->data)
            return MXW_E_MEMORY;
        host->bytes = bytes;
    }
    *out = mx_tensor_of(dtype, tensor->rank, tensor->dims, host->data);
    if (!same)
        return widen(device, tensor, out->data);
    if (dense)
        return device->download(device, out->data, tensor->data, bytes);
    if (device->host_memory) {
        mx_tensor_pack(tensor, out->data);
        return MXW_OK;
    }
    return download_rows(device, tensor, out->data);
}

mxw_status mx_tap_value(mx_run *run, mx_value value) {
    const mx_graph *g = run->program->graph;
    mx_tensor seen;
    int fetched = 0;
    for (size_t i = 0; i < g->n_names; i++) {
        if (g->names[i].value != value)
            continue;
        mxw_status status = fetched ? MXW_OK : mx_run_to_host(run, value, g->n_outputs, &seen);
        if (status < 0)
            return status;
        fetched = 1;
        run->tap(run->tap_context, g->names[i].name, &seen);
    }
    return MXW_OK;
}
