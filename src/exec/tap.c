/* exec/tap.c - every named value of a run can be seen. */
#include "exec/program.h"

#include "base/mem.h"

mxw_status mx_run_to_host(mx_run *run, const mx_tensor *tensor, size_t block, mx_tensor *out) {
    const mx_device *device = run->program->device;
    size_t bytes = mx_tensor_bytes(tensor);
    *out = *tensor;
    if (device->host_memory)
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
    out->data = host->data;
    return device->download(device, out->data, tensor->data, bytes);
}

mxw_status mx_tap_value(mx_run *run, mx_value value) {
    const mx_graph *g = run->program->graph;
    mx_tensor seen;
    int fetched = 0;
    for (size_t i = 0; i < g->n_names; i++) {
        if (g->names[i].value != value)
            continue;
        mxw_status status = fetched ? MXW_OK : mx_run_to_host(run, &run->values[value], g->n_outputs, &seen);
        if (status < 0)
            return status;
        fetched = 1;
        run->tap(run->tap_context, g->names[i].name, &seen);
    }
    return MXW_OK;
}
