/* exec/reserve.c - takes the device memory of a compiled run ahead of time, at its largest sizes; gives back the pages
 * of a run that rests. */
#include "base/mem.h"
#include "exec/program.h"

/* A buffer for every input that the caller will bind. */
static mxw_status reserve_inputs(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_device *device = run->program->device;
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < run->n_buffers; i++)
        run->buffers[i].uses = 0;
    for (size_t i = 1; i < g->n_values && status >= 0 && !device->host_memory; i++) {
        mx_binding *b = &run->bindings[i];
        size_t bytes = mx_tensor_bytes(&run->values[i]);
        if (g->values[i].kind != MX_INPUT || b->from)
            continue;
        if (b->held)
            status = mx_run_grow_block(device, &b->block, &b->block_bytes, bytes, g->values[i].name);
        else
            status = mx_run_take_buffer(run, (mx_value)i, bytes, &run->values[i].data);
    }
    return status;
}

mxw_status mx_run_reserve(mx_run *run, const char *sizes) {
    if (!run->program->plan)
        return MXW_OK;
    mxw_status status = mx_run_assume_sizes(run, sizes);
    if (status >= 0)
        status = mx_compiled_specialize(run);
    if (status >= 0)
        status = reserve_inputs(run);
    return status < 0 ? mx_fail_in(status, "graph %s", run->program->graph->name) : status;
}

void mx_run_forget(mx_run *run) {
    if (!run->program->device->host_memory)
        return;
    mx_mem_forget(run->arena, run->arena_room);
    mx_mem_forget(run->scratch, run->scratch_bytes);
    for (size_t i = 0; i < run->n_buffers; i++)
        mx_mem_forget(run->buffers[i].data, run->buffers[i].bytes);
    run->done = 0;
}
