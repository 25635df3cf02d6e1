/* exec/trace.c - times ops and runs for the callback given when the program was loaded.
 * Invariants: on a device with its own queue an op's time ends when its result can be read, not when it is enqueued. */
#include "exec/program.h"

#include <stdatomic.h>

#include "base/clock.h"

static int thread_number(void) {
    static atomic_int next;
    static _Thread_local int number = -1;
    if (number < 0)
        number = atomic_fetch_add(&next, 1);
    return number;
}

mxw_trace_event mx_trace_begin(const mx_program *p) {
    return (mxw_trace_event){.graph = p->graph->name, .device = p->device->info.id, .thread = thread_number(),
                             .start_ns = mx_now_ns()};
}

/* A device with its own queue works behind the host: an op is done when a few bytes of its result can be downloaded. */
static mxw_status wait_for(const mx_device *device, const mx_tensor *result) {
    char bytes[4];
    size_t n = mx_tensor_bytes(result);
    if (device->host_memory || n == 0)
        return MXW_OK;
    return device->download(device, bytes, result->data, n < sizeof(bytes) ? n : sizeof(bytes));
}

mxw_status mx_trace_call(const mx_program *p, const mx_node *node, const mx_call *call, mxw_status status,
                         mxw_trace_event *event) {
    char shape[128];
    if (status >= 0)
        status = wait_for(p->device, &call->outputs[0]);
    event->duration_ns = mx_now_ns() - event->start_ns;
    event->op = mx_op_name(node->op);
    event->name = mx_graph_value_name(p->graph, node->outputs[0]);
    event->kernel = call->compiled ? p->device->kernel(p->device, call) : "plain";
    mx_tensor_describe(&call->outputs[0], shape, sizeof(shape));
    event->shape = shape;
    mx_run_work(p, call, event);
    p->trace(p->trace_context, event);
    return status;
}

void mx_trace_run(const mx_program *p, mxw_trace_event *event) {
    event->duration_ns = mx_now_ns() - event->start_ns;
    event->op = "run";
    event->kernel = p->plan ? "compiled" : "eager";
    event->shape = "";
    p->trace(p->trace_context, event);
}
