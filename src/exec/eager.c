/* exec/eager.c - runs a graph node by node in the order they were appended: the baseline and the oracle.
 * Invariants: every node is inferred again with the sizes of this run before it runs, so a device never sees a call
 * whose shapes do not fit; a buffer is released after its last reader; once warm, a run allocates nothing. */
#include "exec/program.h"

#include <string.h>

static void release(mx_run *run, mx_value value) {
    int32_t buffer = run->buffer[value];
    if (buffer >= 0 && run->buffers[buffer].uses > 0)
        run->buffers[buffer].uses--;
    run->buffer[value] = -1;
}

static void release_after(mx_run *run, const mx_node *node, int32_t index) {
    const int32_t *last_use = run->program->last_use;
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] && last_use[node->inputs[i]] == index)
            release(run, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        if (last_use[node->outputs[i]] == index)
            release(run, node->outputs[i]);
}

/* Where the outputs go: into buffers of their own; or in place, for a reshape of a buffer and a write to a state.
 * *in_place: there is nothing to run. */
static mxw_status place_outputs(mx_run *run, const mx_node *node, const mx_type *types, int *in_place) {
    mxw_status status = MXW_OK;
    *in_place = 0;
    for (int i = 0; i < node->n_outputs && status >= 0; i++) {
        mx_value value = node->outputs[i], first = node->inputs[0];
        mx_tensor *t = &run->values[value];
        *t = mx_tensor_of(types[i].dtype, types[i].rank, types[i].dims, NULL);
        if (node->op == MX_OP_STATE_WRITE) {
            t->data = run->values[first].data;
        } else if (node->op == MX_OP_RESHAPE && run->buffer[first] >= 0) {
            t->data = run->values[first].data;
            run->buffer[value] = run->buffer[first];
            run->buffers[run->buffer[first]].uses++;
            run->origin[value] = run->origin[first];
            *in_place = 1;
        } else {
            status = mx_run_take_buffer(run, value, mx_tensor_bytes(t), &t->data);
        }
    }
    return status;
}

static mxw_status run_node(mx_run *run, const mx_node *node) {
    const mx_device *device = run->program->device;
    mx_tensor inputs[MX_MAX_INPUTS], outputs[MX_MAX_OUTPUTS];
    const void *host[MX_MAX_INPUTS];
    mx_type types[MX_MAX_INPUTS], results[MX_MAX_OUTPUTS];
    const mx_type *in[MX_MAX_INPUTS];
    mx_attrs attrs;
    mxw_status status;
    int in_place;
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = node->inputs[i] ? run->values[node->inputs[i]] : (mx_tensor){0};
        types[i] = (mx_type){.dtype = inputs[i].dtype, .rank = inputs[i].rank};
        memcpy(types[i].dims, inputs[i].dims, sizeof(types[i].dims));
        in[i] = node->inputs[i] ? &types[i] : NULL;
        host[i] = node->inputs[i] ? run->origin[node->inputs[i]] : NULL;
    }
    MX_TRY(mx_run_resolve_sizes(run, node, &attrs));
    MX_TRY(mx_op_infer(node->op, &attrs, node->n_inputs, in, results, NULL));
    MX_TRY(place_outputs(run, node, results, &in_place));
    if (in_place)
        return MXW_OK;
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = run->values[node->outputs[i]];
    mx_call call = {.op = node->op, .attrs = &attrs, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs,
                    .inputs = inputs, .outputs = outputs, .host = host, .pool = run->program->pool};
    MX_TRY(mx_run_grow_block(device, &run->scratch, &run->scratch_bytes, device->scratch_bytes(device, &call),
                       "scratch"));
    call.scratch = run->scratch;
    status = mx_run_call(run, node, &call);
out:
    return status;
}

mxw_status mx_eager_execute(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status = MXW_OK;
    for (size_t i = 1; run->tap && i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT)
            status = mx_tap_value(run, (mx_value)i);
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++) {
        const mx_node *node = &g->nodes[n];
        status = run_node(run, node);
        if (status < 0)
            return mx_run_fail_at(run, node, status);
        for (int i = 0; run->tap && i < node->n_outputs && status >= 0; i++)
            status = mx_tap_value(run, node->outputs[i]);
        release_after(run, node, (int32_t)n);
    }
    return status;
}
