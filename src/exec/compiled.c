/* exec/compiled.c - a plan, replayed: calls made once for the sizes of a run and made again while the sizes stay.
 * What holds: an execute with the sizes of the one before infers nothing, places nothing and allocates nothing. */
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

mxw_status mx_compiled_open(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = &run->layout;
    size_t n = MX_MAX(g->n_nodes, 1);
    l->sizes = mx_arena_alloc(&l->memory, MX_MAX(g->n_sizes, 1) * sizeof(*l->sizes));
    l->calls = mx_arena_alloc(&l->memory, n * sizeof(*l->calls));
    l->attrs = mx_arena_alloc(&l->memory, n * sizeof(*l->attrs));
    l->inputs = mx_arena_alloc(&l->memory, n * sizeof(*l->inputs));
    l->outputs = mx_arena_alloc(&l->memory, n * sizeof(*l->outputs));
    l->host = mx_arena_alloc(&l->memory, n * sizeof(*l->host));
    l->bytes = mx_arena_alloc(&l->memory, g->n_values * sizeof(*l->bytes));
    l->offsets = mx_arena_alloc(&l->memory, g->n_values * sizeof(*l->offsets));
    l->order = mx_arena_alloc(&l->memory, g->n_values * sizeof(*l->order));
    int whole = l->sizes && l->calls && l->attrs && l->inputs && l->outputs && l->host && l->bytes &&
                l->offsets && l->order;
    for (size_t i = 0; whole && i < g->n_nodes; i++) {
        const mx_node *node = &g->nodes[i];
        l->inputs[i] = mx_arena_alloc(&l->memory, (size_t)node->n_inputs * sizeof(**l->inputs));
        l->outputs[i] = mx_arena_alloc(&l->memory, (size_t)node->n_outputs * sizeof(**l->outputs));
        l->host[i] = mx_arena_alloc(&l->memory, (size_t)node->n_inputs * sizeof(**l->host));
        whole = l->inputs[i] && l->outputs[i] && l->host[i];
    }
    return whole ? MXW_OK : MXW_E_MEMORY;
}

void mx_compiled_close(mx_run *run) {
    const mx_device *device = run->program->device;
    if (run->program->plan)
        device->free(device, run->layout.arena);
    mx_arena_free(&run->layout.memory);
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static int is_executed(const mx_plan *plan, const mx_node *node) {
    mx_home home = plan->places[node->outputs[0]].home;
    return home != MX_HOME_NONE && home != MX_HOME_VIEW;
}

/* Input i of a node as it is known before the arena has an address. */
static mx_tensor input_tensor(const mx_run *run, size_t node, int i) {
    const mx_plan *plan = run->program->plan;
    mx_value value = run->program->graph->nodes[node].inputs[i];
    if (value == 0)
        return (mx_tensor){0};
    int32_t constant = plan->inputs[node][i];
    return constant >= 0 ? plan->constants[constant].tensor : run->values[value];
}

/* Sizes of the node's outputs into run->values, data not yet known. Packed and raw weights are inferred as what the
 * graph says they are, f32. */
static mxw_status infer_node(mx_run *run, size_t index) {
    const mx_node *node = &run->program->graph->nodes[index];
    mx_type types[MX_MAX_INPUTS], results[MX_MAX_OUTPUTS];
    const mx_type *in[MX_MAX_INPUTS];
    mxw_status status = mx_run_settle(run, node, &run->layout.attrs[index]);
    if (status < 0)
        return status;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_tensor t = input_tensor(run, index, i);
        types[i] = (mx_type){.dtype = t.dtype, .rank = t.rank};
        if (run->program->plan->inputs[index][i] >= 0)
            types[i].dtype = run->program->graph->values[node->inputs[i]].type.dtype;
        memcpy(types[i].dims, t.dims, sizeof(types[i].dims));
        in[i] = node->inputs[i] ? &types[i] : NULL;
    }
    status = mx_op_infer(node->op, &run->layout.attrs[index], node->n_inputs, in, results, NULL);
    for (int i = 0; i < node->n_outputs && status >= 0; i++)
        run->values[node->outputs[i]] = mx_tensor_of(results[i].dtype, results[i].rank, results[i].dims, NULL);
    return status;
}

/* Values made at load still have sizes that a node after them may be inferred from. */
static void settle_stack(mx_run *run, const mx_node *node) {
    const mx_type *type = &run->program->graph->values[node->outputs[0]].type;
    run->values[node->outputs[0]] = mx_tensor_of(type->dtype, type->rank, type->dims, NULL);
}

static mxw_status infer_all(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const mx_node *node = &g->nodes[n];
        if (plan->places[node->outputs[0]].home == MX_HOME_NONE) {
            settle_stack(run, node);
            continue;
        }
        mxw_status status = infer_node(run, n);
        if (status < 0)
            return mx_run_fail_at(run, node, status);
        for (int i = 0; i < node->n_outputs; i++)
            run->layout.bytes[node->outputs[i]] = MX_MAX(mx_tensor_bytes(&run->values[node->outputs[i]]), 1);
    }
    return MXW_OK;
}

/* A reshape shares all of its input's bytes, a slice begins somewhere in them and keeps their strides. */
static void set_view(mx_run *run, size_t index) {
    const mx_node *node = &run->program->graph->nodes[index];
    const mx_tensor *of = &run->values[node->inputs[0]];
    mx_tensor *t = &run->values[node->outputs[0]];
    int64_t first, last;
    t->data = of->data;
    if (node->op != MX_OP_SLICE)
        return;
    int axis = node->attrs.axis;
    mx_slice_range(of->dims[axis], node->attrs.start, node->attrs.stop, &first, &last);
    memcpy(t->strides, of->strides, sizeof(t->strides));
    t->data = (char *)of->data + (size_t)(first * of->strides[axis]) * mx_dtype_bytes(of->dtype);
}

/* Where every result lies, now that the arena has an address; states and inputs are set at each execute. */
static void set_addresses(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_outputs; i++) {
            mx_value value = g->nodes[n].outputs[i];
            if (plan->places[value].home == MX_HOME_ARENA)
                run->values[value].data = (char *)run->layout.arena + run->layout.offsets[value];
            else if (plan->places[value].home == MX_HOME_VIEW)
                set_view(run, n);
        }
}

static void set_call(mx_run *run, size_t n) {
    mx_layout *l = &run->layout;
    const mx_node *node = &run->program->graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++)
        l->inputs[n][i] = input_tensor(run, n, i);
    for (int i = 0; i < node->n_outputs; i++)
        l->outputs[n][i] = run->values[node->outputs[i]];
    l->calls[n] = (mx_call){.op = node->op, .attrs = &l->attrs[n], .n_inputs = node->n_inputs,
                            .n_outputs = node->n_outputs, .inputs = l->inputs[n], .outputs = l->outputs[n],
                            .host = l->host[n], .pool = run->program->pool, .compiled = 1};
}

mxw_status mx_compiled_lay_out(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_device *device = run->program->device;
    mx_layout *l = &run->layout;
    size_t scratch = 0;
    mxw_status status;
    l->valid = 0;
    MX_TRY(infer_all(run));
    mx_plan_place(run->program->plan, l->bytes, l->order, l->offsets, &l->arena_bytes);
    MX_TRY(mx_run_room(device, &l->arena, &l->arena_room, MX_MAX(l->arena_bytes, 1)));
    set_addresses(run);
    for (size_t n = 0; n < g->n_nodes; n++) {
        if (!is_executed(run->program->plan, &g->nodes[n]))
            continue;
        set_call(run, n);
        scratch = MX_MAX(scratch, device->scratch_bytes(device, &l->calls[n]));
    }
    MX_TRY(mx_run_room(device, &run->scratch, &run->scratch_bytes, scratch));
    for (size_t n = 0; n < g->n_nodes; n++)
        l->calls[n].scratch = run->scratch;
    memcpy(l->sizes, run->sizes, g->n_sizes * sizeof(*l->sizes));
    l->valid = 1;
out:
    return status;
}

/* ---- execute ----------------------------------------------------------------------------------------------------- */

/* Inputs and states may lie elsewhere than last time. */
static void refresh(mx_run *run, size_t n) {
    const mx_node *node = &run->program->graph->nodes[n];
    const mx_plan *plan = run->program->plan;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_home home = plan->places[node->inputs[i]].home;
        if (node->inputs[i] && plan->inputs[n][i] < 0 && (home == MX_HOME_LEAF || home == MX_HOME_STATE))
            run->layout.inputs[n][i].data = run->values[node->inputs[i]].data;
        int packed = plan->inputs[n][i] >= 0 && plan->constants[plan->inputs[n][i]].form == MX_FORM_PACKED;
        run->layout.host[n][i] = packed ? NULL : run->origin[node->inputs[i]];
    }
    if (node->op == MX_OP_STATE_WRITE) {
        run->values[node->outputs[0]] = run->values[node->inputs[0]];
        run->layout.outputs[n][0].data = run->values[node->inputs[0]].data;
    }
}

mxw_status mx_compiled_execute(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = &run->layout;
    mxw_status status = MXW_OK;
    if (!l->valid || memcmp(l->sizes, run->sizes, g->n_sizes * sizeof(*l->sizes)) != 0)
        MX_TRY(mx_compiled_lay_out(run));
    for (size_t i = 1; run->tap && i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT)
            status = mx_tap_value(run, (mx_value)i);
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++) {
        const mx_node *node = &g->nodes[n];
        if (is_executed(run->program->plan, node)) {
            refresh(run, n);
            status = mx_run_call(run, node, &l->calls[n]);
            if (status < 0)
                return mx_run_fail_at(run, node, status);
        }
        if (run->program->plan->places[node->outputs[0]].home == MX_HOME_NONE)
            continue;
        for (int i = 0; run->tap && i < node->n_outputs && status >= 0; i++)
            status = mx_tap_value(run, node->outputs[i]);
    }
out:
    return status;
}
