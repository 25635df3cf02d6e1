/* exec/compiled.c - runs a plan: its calls are built once for each set of sizes (an instance) and reused while these
 * sizes stay or come again. All instances share one arena.
 * Invariants: an execute whose sizes have an instance infers nothing, places nothing and allocates nothing. */
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

mxw_status mx_compiled_open(mx_run *run) {
    size_t n = run->program->graph->n_values;
    run->order = mx_alloc_zero(n, sizeof(*run->order));
    return run->order ? MXW_OK : MXW_E_MEMORY;
}

static void instance_free(mx_run *run, mx_instance *inst) {
    if (!inst)
        return;
    mx_graph_capture_drop(run, inst);
    mx_arena_free(&inst->memory);
    mx_free(inst);
}

void mx_compiled_close(mx_run *run) {
    const mx_device *device = run->program->device;
    for (int i = 0; i < run->n_instances; i++)
        instance_free(run, run->instances[i]);
    if (run->program->plan)
        mx_device_give(device, run->arena);
    mx_free(run->order);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void *table(mx_instance *inst, size_t n, size_t each) {
    return mx_arena_alloc(&inst->memory, MX_MAX(n, 1) * each);
}

static int alloc_tables(mx_instance *inst, const mx_graph *g) {
    inst->sizes = table(inst, g->n_sizes, sizeof(*inst->sizes));
    inst->values = table(inst, g->n_values, sizeof(*inst->values));
    inst->calls = table(inst, g->n_nodes, sizeof(*inst->calls));
    inst->attrs = table(inst, g->n_nodes, sizeof(*inst->attrs));
    inst->inputs = table(inst, g->n_nodes, sizeof(*inst->inputs));
    inst->outputs = table(inst, g->n_nodes, sizeof(*inst->outputs));
    inst->host = table(inst, g->n_nodes, sizeof(*inst->host));
    inst->bytes = table(inst, g->n_values, sizeof(*inst->bytes));
    inst->offsets = table(inst, g->n_values, sizeof(*inst->offsets));
    inst->in_at = table(inst, g->n_values, sizeof(*inst->in_at));
    inst->out_at = table(inst, g->n_values, sizeof(*inst->out_at));
    inst->leaves = table(inst, g->n_values, sizeof(*inst->leaves));
    inst->checked = table(inst, g->n_nodes, sizeof(*inst->checked));
    int whole = inst->sizes && inst->values && inst->calls && inst->attrs && inst->inputs && inst->outputs &&
                inst->host && inst->bytes && inst->offsets && inst->in_at && inst->out_at && inst->leaves &&
                inst->checked;
    for (size_t i = 0; whole && i < g->n_nodes; i++) {
        const mx_node *node = &g->nodes[i];
        inst->inputs[i] = table(inst, (size_t)node->n_inputs, sizeof(**inst->inputs));
        inst->outputs[i] = table(inst, (size_t)node->n_outputs, sizeof(**inst->outputs));
        inst->host[i] = table(inst, (size_t)node->n_inputs, sizeof(**inst->host));
        whole = inst->inputs[i] && inst->outputs[i] && inst->host[i];
    }
    return whole;
}

/* A new instance; or, when the run has its maximum, the least recently used one. */
static mxw_status take_instance(mx_run *run, mx_instance **out) {
    mx_instance *oldest = run->instances[0];
    for (int i = 0; i < run->n_instances; i++) {
        if (!run->instances[i]->valid) {
            oldest = run->instances[i];
            break;
        }
        oldest = run->instances[i]->used < oldest->used ? run->instances[i] : oldest;
    }
    if (oldest && (!oldest->valid || run->n_instances == MX_INSTANCES)) {
        mx_graph_capture_drop(run, oldest);
        *out = oldest;
        return MXW_OK;
    }
    mx_instance *inst = mx_alloc_zero(1, sizeof(*inst));
    if (!inst || !alloc_tables(inst, run->program->graph)) {
        instance_free(run, inst);
        return MXW_E_MEMORY;
    }
    *out = run->instances[run->n_instances++] = inst;
    return MXW_OK;
}

/* ---- instances --------------------------------------------------------------------------------------------------- */

int mx_compiled_runs(const mx_plan *plan, const mx_node *node) {
    mx_home home = plan->placements[node->outputs[0]].home;
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

/* Sets the types of the node's outputs in run->values, without data. Packed and raw weights, and states that the device
 * keeps narrower, are inferred with the dtype that the graph gives them, f32. */
static mxw_status infer_node(mx_run *run, size_t index) {
    const mx_node *node = &run->program->graph->nodes[index];
    const mx_placement *placements = run->program->plan->placements;
    mx_type types[MX_MAX_INPUTS], results[MX_MAX_OUTPUTS];
    const mx_type *in[MX_MAX_INPUTS];
    mxw_status status = mx_run_resolve_sizes(run, node, &run->instance->attrs[index]);
    if (status < 0)
        return status;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_tensor t = input_tensor(run, index, i);
        types[i] = (mx_type){.dtype = t.dtype, .rank = t.rank};
        if (run->program->plan->inputs[index][i] >= 0 || placements[node->inputs[i]].home == MX_HOME_STATE)
            types[i].dtype = run->program->graph->values[node->inputs[i]].type.dtype;
        memcpy(types[i].dims, t.dims, sizeof(types[i].dims));
        in[i] = node->inputs[i] ? &types[i] : NULL;
    }
    status = mx_op_infer(node->op, &run->instance->attrs[index], node->n_inputs, in, results, NULL);
    for (int i = 0; i < node->n_outputs && status >= 0; i++) {
        const mx_placement *place = &placements[node->outputs[i]];
        run->values[node->outputs[i]] = mx_tensor_of(place->home == MX_HOME_STATE ? place->dtype : results[i].dtype,
                                                     results[i].rank, results[i].dims, NULL);
    }
    return status;
}

/* Values folded at load still have sizes that later nodes are inferred from. */
static void set_folded(mx_run *run, const mx_node *node) {
    const mx_type *type = &run->program->graph->values[node->outputs[0]].type;
    run->values[node->outputs[0]] = mx_tensor_of(type->dtype, type->rank, type->dims, NULL);
}

static mxw_status infer_all(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const mx_node *node = &g->nodes[n];
        if (plan->placements[node->outputs[0]].home == MX_HOME_NONE) {
            set_folded(run, node);
            continue;
        }
        mxw_status status = infer_node(run, n);
        if (status < 0)
            return mx_run_fail_at(run, node, status);
        for (int i = 0; i < node->n_outputs; i++)
            run->instance->bytes[node->outputs[i]] = MX_MAX(mx_tensor_bytes(&run->values[node->outputs[i]]), 1);
    }
    return MXW_OK;
}

/* A reshape shares all of its input's bytes; a slice begins somewhere in them and keeps their strides. */
static void set_view(mx_run *run, size_t index) {
    const mx_node *node = &run->program->graph->nodes[index];
    const mx_tensor *of = &run->values[node->inputs[0]];
    mx_tensor *t = &run->values[node->outputs[0]];
    int64_t first, last;
    t->data = of->data;
    t->offset = of->offset;
    if (node->op != MX_OP_SLICE)
        return;
    int axis = node->attrs.axis;
    mx_slice_range(of->dims[axis], node->attrs.start, node->attrs.stop, &first, &last);
    memcpy(t->strides, of->strides, sizeof(t->strides));
    t->offset += first * of->strides[axis];
    if (t->data && t->layout == MX_LAYOUT_DENSE)
        t->data = (char *)of->data + (size_t)(first * of->strides[axis]) * mx_dtype_bytes(of->dtype);
}

/* Sets the address of every result, now that the arena has one; states and inputs are set at each execute. */
static void set_addresses(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    const mx_instance *inst = run->instance;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_outputs; i++) {
            mx_value value = g->nodes[n].outputs[i];
            if (plan->placements[value].home == MX_HOME_VIEW)
                set_view(run, n);
            else if (plan->placements[value].home == MX_HOME_ARENA)
                run->values[value].data = inst->capture && inst->out_at[value] != MX_NOT_STAGED
                                              ? (char *)inst->capture->out + inst->out_at[value]
                                              : (char *)run->arena + inst->offsets[value];
        }
}

static void set_call(mx_run *run, size_t n) {
    mx_instance *inst = run->instance;
    const mx_node *node = &run->program->graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++)
        inst->inputs[n][i] = input_tensor(run, n, i);
    for (int i = 0; i < node->n_outputs; i++)
        inst->outputs[n][i] = run->values[node->outputs[i]];
    inst->calls[n] = (mx_call){.op = node->op, .attrs = &inst->attrs[n], .n_inputs = node->n_inputs,
                            .n_outputs = node->n_outputs, .inputs = inst->inputs[n], .outputs = inst->outputs[n],
                            .host = inst->host[n], .pool = run->program->pool, .scratch = run->scratch, .compiled = 1,
                            .precision = run->program->precision};
}

/* Whether all inputs of a node but constants are views of one value: a part in a device layout cannot be read without
 * the others. */
static int reads_alone(const mx_run *run, size_t node, mx_value value) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (int i = 0; i < g->nodes[node].n_inputs; i++) {
        mx_value input = g->nodes[node].inputs[i];
        if (input && plan->inputs[node][i] < 0 && plan->placements[input].of != value)
            return 0;
    }
    return 1;
}

/* A layout of the device's own that the producer of an inner result can write and all consumers of it, or of views of
 * it, can read: its bytes; 0 if there is none. */
static size_t find_output_layout(const mx_run *run, size_t producer, mx_layout *layout) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    const mx_device *device = run->program->device;
    const mx_instance *inst = run->instance;
    mx_value value = g->nodes[producer].outputs[0];
    size_t bytes = 0;
    for (size_t n = producer + 1; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs && mx_compiled_runs(plan, &g->nodes[n]); i++) {
            mx_value input = g->nodes[n].inputs[i];
            if (input == 0 || plan->placements[input].of != value)
                continue;
            int whole = mx_tensor_count(&inst->inputs[n][i]) == mx_tensor_count(&inst->outputs[producer][0]);
            if (!whole && !reads_alone(run, n, value))
                return 0;
            mx_layout wanted = MX_LAYOUT_DENSE;
            size_t need = device->output_layout_bytes(device, &inst->calls[producer], &inst->calls[n], i, &wanted);
            if (need == 0 || (bytes && (need != bytes || wanted != *layout)))
                return 0;
            bytes = need;
            *layout = wanted;
        }
    return bytes;
}

/* Results that only calls read get a layout of the device's own, unless a tap or a watcher needs to read them. */
static void choose_layouts(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    if (run->instance->observable || !run->program->device->output_layout_bytes)
        return;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (plan->placements[g->nodes[n].outputs[0]].home == MX_HOME_VIEW)
            set_view(run, n);
        else if (mx_compiled_runs(plan, &g->nodes[n]))
            set_call(run, n);
    for (size_t n = 0; n < g->n_nodes; n++) {
        mx_value value = g->nodes[n].outputs[0];
        mx_layout layout = MX_LAYOUT_DENSE;
        size_t bytes = 0;
        if (mx_compiled_runs(plan, &g->nodes[n]))
            set_call(run, n);   /* its inputs may have a layout by now */
        if (plan->placements[value].inner && mx_compiled_runs(plan, &g->nodes[n]))
            bytes = find_output_layout(run, n, &layout);
        if (bytes == 0)
            continue;
        for (size_t i = 1; i < g->n_values; i++)
            if (plan->placements[i].of == value)
                run->values[i].layout = layout;
        run->instance->bytes[value] = bytes;
    }
}

void mx_compiled_address(mx_run *run) {
    const mx_graph *g = run->program->graph;
    set_addresses(run);
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n]))
            set_call(run, n);
}

/* The addresses in every instance but the current one are no longer valid. */
static void invalidate_others(mx_run *run) {
    for (int i = 0; i < run->n_instances; i++)
        if (run->instances[i] != run->instance) {
            mx_graph_capture_drop(run, run->instances[i]);
            run->instances[i]->valid = 0;
        }
}

/* Grows the arena and the scratch block to what the instance needs. */
static mxw_status make_room(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_device *device = run->program->device;
    size_t scratch = 0, need = MX_MAX(run->instance->arena_bytes, 1);
    if (need > run->arena_room)
        invalidate_others(run);
    mxw_status status = mx_run_grow_block(device, &run->arena, &run->arena_room, need, "values");
    if (status < 0)
        return status;
    mx_compiled_address(run);
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n]))
            scratch = MX_MAX(scratch, device->scratch_bytes(device, &run->instance->calls[n]));
    if (scratch > run->scratch_bytes)
        invalidate_others(run);
    status = mx_run_grow_block(device, &run->scratch, &run->scratch_bytes, scratch, "scratch");
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++)
        run->instance->calls[n].scratch = run->scratch;
    return status;
}

static int is_observed(const mx_run *run) { return run->tap || run->watch; }

static mxw_status make_instance(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status;
    MX_TRY(take_instance(run, &run->instance));
    mx_instance *inst = run->instance;
    inst->valid = inst->seen = inst->uncapturable = 0;
    inst->observable = is_observed(run);
    MX_TRY(infer_all(run));
    choose_layouts(run);
    mx_plan_place(run->program->plan, inst->bytes, run->order, inst->offsets, &inst->arena_bytes);
    MX_TRY(make_room(run));
    memcpy(inst->sizes, run->sizes, g->n_sizes * sizeof(*inst->sizes));
    memcpy(inst->values, run->values, g->n_values * sizeof(*inst->values));
    inst->valid = 1;
out:
    return status;
}

static int fits(const mx_run *run, const mx_instance *inst) {
    return inst && inst->valid && inst->observable == is_observed(run) &&
           memcmp(inst->sizes, run->sizes, run->program->graph->n_sizes * sizeof(*inst->sizes)) == 0;
}

mxw_status mx_compiled_specialize(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_instance *found = fits(run, run->instance) ? run->instance : NULL;
    mxw_status status = MXW_OK;
    for (int i = 0; i < run->n_instances && !found; i++)
        found = fits(run, run->instances[i]) ? run->instances[i] : NULL;
    if (!found) {
        status = make_instance(run);
    } else if (found != run->instance) {
        run->instance = found;
        for (size_t i = 1; i < g->n_values; i++)
            if (g->values[i].kind == MX_RESULT)
                run->values[i] = found->values[i];
    }
    if (status >= 0)
        run->instance->used = ++run->clock;
    return status;
}

/* ---- execute ----------------------------------------------------------------------------------------------------- */

void mx_compiled_refresh(mx_run *run, size_t n) {
    const mx_node *node = &run->program->graph->nodes[n];
    const mx_plan *plan = run->program->plan;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_home home = plan->placements[node->inputs[i]].home;
        if (node->inputs[i] && plan->inputs[n][i] < 0 && (home == MX_HOME_LEAF || home == MX_HOME_STATE))
            run->instance->inputs[n][i].data = run->values[node->inputs[i]].data;
        int packed = plan->inputs[n][i] >= 0 && plan->constants[plan->inputs[n][i]].form == MX_FORM_PACKED;
        run->instance->host[n][i] = packed ? NULL : run->origin[node->inputs[i]];
    }
    if (node->op == MX_OP_STATE_WRITE) {
        run->values[node->outputs[0]] = run->values[node->inputs[0]];
        run->instance->outputs[n][0].data = run->values[node->inputs[0]].data;
    }
}

mxw_status mx_compiled_execute(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_instance *inst = run->instance;
    mxw_status status = MXW_OK;
    for (size_t i = 1; run->tap && i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT)
            status = mx_tap_value(run, (mx_value)i);
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++) {
        const mx_node *node = &g->nodes[n];
        if (mx_compiled_runs(run->program->plan, node)) {
            mx_compiled_refresh(run, n);
            status = mx_run_call(run, node, &inst->calls[n]);
            if (status < 0)
                return mx_run_fail_at(run, node, status);
        }
        if (run->program->plan->placements[node->outputs[0]].home == MX_HOME_NONE)
            continue;
        for (int i = 0; run->tap && i < node->n_outputs && status >= 0; i++)
            status = mx_tap_value(run, node->outputs[i]);
    }
    return status;
}
