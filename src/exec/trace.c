/* exec/trace.c - every op of a run timed, for who asked when the program was loaded. */
#include "exec/program.h"

#include <stdatomic.h>

#include "base/clock.h"

static const char *name_of(const mx_graph *g, mx_value value) {
    for (size_t i = 0; i < g->n_names; i++)
        if (g->names[i].value == value)
            return g->names[i].name;
    return NULL;
}

static int thread_number(void) {
    static atomic_int next;
    static _Thread_local int number = -1;
    if (number < 0)
        number = atomic_fetch_add(&next, 1);
    return number;
}

static mxw_trace_event begin(const mx_program *p) {
    return (mxw_trace_event){.graph = p->graph->name, .device = p->device->info.id, .thread = thread_number(),
                             .start_ns = mx_now_ns()};
}

/* What a watcher sees is there: a device of its own is waited for by the watcher's own downloads. */
static mxw_status run_watched(mx_run *run, const mx_node *node, const mx_call *call) {
    const mx_program *p = run->program;
    mxw_status status = p->device->run_op(p->device, call);
    if (status >= 0 && run->watch)
        run->watch(run->watch_context, p->graph->name, name_of(p->graph, node->outputs[0]), call);
    return status;
}

/* A device of its own works behind the host: its time is up when a few bytes of the result can be had. */
static mxw_status wait_for(const mx_device *device, const mx_tensor *result) {
    char bytes[4];
    size_t n = mx_tensor_bytes(result);
    if (device->host_memory || n == 0)
        return MXW_OK;
    return device->download(device, bytes, result->data, n < sizeof(bytes) ? n : sizeof(bytes));
}

mxw_status mx_run_call(mx_run *run, const mx_node *node, const mx_call *call) {
    const mx_program *p = run->program;
    char shape[128];
    if (!p->trace)
        return run_watched(run, node, call);
    mxw_trace_event event = begin(p);
    mxw_status status = run_watched(run, node, call);
    if (status >= 0)
        status = wait_for(p->device, &call->outputs[0]);
    event.duration_ns = mx_now_ns() - event.start_ns;
    event.op = mx_op_name(node->op);
    event.name = name_of(p->graph, node->outputs[0]);
    event.kernel = call->compiled ? p->device->kernel(p->device, call) : "plain";
    mx_tensor_describe(&call->outputs[0], shape, sizeof(shape));
    event.shape = shape;
    mx_run_work(p, call, &event);
    p->trace(p->trace_context, &event);
    return status;
}

void mx_run_watch(mx_run *run, mx_watch_fn watch, void *context) {
    run->watch = watch;
    run->watch_context = context;
}

mxw_status mx_run_nodes(mx_run *run) {
    const mx_program *p = run->program;
    mxw_trace_event event = begin(p);
    mxw_status status = p->plan ? mx_compiled_execute(run) : mx_eager_execute(run);
    if (!p->trace)
        return status;
    event.duration_ns = mx_now_ns() - event.start_ns;
    event.op = "run";
    event.kernel = p->plan ? "compiled" : "eager";
    event.shape = "";
    p->trace(p->trace_context, &event);
    return status;
}
