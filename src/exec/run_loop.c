/* exec/run_loop.c - runs the nodes of a bound run in order, and reports each call to the watcher and the trace. */
#include "exec/program.h"

void mx_run_watch(mx_run *run, mx_watch_fn watch, void *context) {
    run->watch = watch;
    run->watch_context = context;
}

/* A watcher that wants the results of a device with its own queue downloads them, which waits for the op. */
static mxw_status run_watched(mx_run *run, const mx_node *node, const mx_call *call) {
    const mx_program *p = run->program;
    mxw_status status = p->device->run_op(p->device, call);
    if (status >= 0 && run->watch)
        run->watch(run->watch_context, p->graph->name, mx_graph_value_name(p->graph, node->outputs[0]), call);
    return status;
}

mxw_status mx_run_call(mx_run *run, const mx_node *node, const mx_call *call) {
    const mx_program *p = run->program;
    if (!p->trace)
        return run_watched(run, node, call);
    mxw_trace_event event = mx_trace_begin(p);
    mxw_status status = run_watched(run, node, call);
    return mx_trace_call(p, node, call, status, &event);
}

mxw_status mx_run_nodes(mx_run *run) {
    const mx_program *p = run->program;
    mxw_trace_event event = mx_trace_begin(p);
    mxw_status status = p->plan ? mx_compiled_execute(run) : mx_eager_execute(run);
    if (p->trace)
        mx_trace_run(p, &event);
    return status;
}

mxw_status mx_run_fail_at(const mx_run *run, const mx_node *node, mxw_status status) {
    const char *name = mx_graph_value_name(run->program->graph, node->outputs[0]);
    if (name)
        return mx_fail_in(status, "%%%d %s", (int)node->outputs[0], name);
    return mx_fail_in(status, "%%%d", (int)node->outputs[0]);
}
