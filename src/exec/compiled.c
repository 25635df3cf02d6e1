/* exec/compiled.c - a plan, replayed: calls made once for the sizes of a run and made again while the sizes stay, or
 * when they come again. All sizes share one arena.
 * What holds: an execute with the sizes of the one before infers nothing, places nothing and allocates nothing. */
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

mxw_status mx_compiled_open(mx_run *run) {
    size_t n = run->program->graph->n_values;
    run->order = mx_alloc_zero(n, sizeof(*run->order));
    return run->order ? MXW_OK : MXW_E_MEMORY;
}

static void layout_free(mx_run *run, mx_layout *l) {
    if (!l)
        return;
    mx_replay_forget(run, l);
    mx_arena_free(&l->memory);
    mx_free(l);
}

void mx_compiled_close(mx_run *run) {
    const mx_device *device = run->program->device;
    for (int i = 0; i < run->n_layouts; i++)
        layout_free(run, run->layouts[i]);
    if (run->program->plan)
        mx_device_give(device, run->arena);
    mx_free(run->order);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void *table(mx_layout *l, size_t n, size_t each) { return mx_arena_alloc(&l->memory, MX_MAX(n, 1) * each); }

static int alloc_tables(mx_layout *l, const mx_graph *g) {
    l->sizes = table(l, g->n_sizes, sizeof(*l->sizes));
    l->values = table(l, g->n_values, sizeof(*l->values));
    l->calls = table(l, g->n_nodes, sizeof(*l->calls));
    l->attrs = table(l, g->n_nodes, sizeof(*l->attrs));
    l->inputs = table(l, g->n_nodes, sizeof(*l->inputs));
    l->outputs = table(l, g->n_nodes, sizeof(*l->outputs));
    l->host = table(l, g->n_nodes, sizeof(*l->host));
    l->bytes = table(l, g->n_values, sizeof(*l->bytes));
    l->offsets = table(l, g->n_values, sizeof(*l->offsets));
    l->in_at = table(l, g->n_values, sizeof(*l->in_at));
    l->out_at = table(l, g->n_values, sizeof(*l->out_at));
    l->leaves = table(l, g->n_values, sizeof(*l->leaves));
    l->checked = table(l, g->n_nodes, sizeof(*l->checked));
    int whole = l->sizes && l->values && l->calls && l->attrs && l->inputs && l->outputs && l->host && l->bytes &&
                l->offsets && l->in_at && l->out_at && l->leaves && l->checked;
    for (size_t i = 0; whole && i < g->n_nodes; i++) {
        const mx_node *node = &g->nodes[i];
        l->inputs[i] = table(l, (size_t)node->n_inputs, sizeof(**l->inputs));
        l->outputs[i] = table(l, (size_t)node->n_outputs, sizeof(**l->outputs));
        l->host[i] = table(l, (size_t)node->n_inputs, sizeof(**l->host));
        whole = l->inputs[i] && l->outputs[i] && l->host[i];
    }
    return whole;
}

/* One more; or, of too many, the one that was not used for longest. */
static mxw_status take_layout(mx_run *run, mx_layout **out) {
    mx_layout *oldest = run->layouts[0];
    for (int i = 0; i < run->n_layouts; i++) {
        if (!run->layouts[i]->valid) {
            oldest = run->layouts[i];
            break;
        }
        oldest = run->layouts[i]->used < oldest->used ? run->layouts[i] : oldest;
    }
    if (oldest && (!oldest->valid || run->n_layouts == MX_LAYOUTS)) {
        mx_replay_forget(run, oldest);
        *out = oldest;
        return MXW_OK;
    }
    mx_layout *l = mx_alloc_zero(1, sizeof(*l));
    if (!l || !alloc_tables(l, run->program->graph)) {
        layout_free(run, l);
        return MXW_E_MEMORY;
    }
    *out = run->layouts[run->n_layouts++] = l;
    return MXW_OK;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

int mx_compiled_runs(const mx_plan *plan, const mx_node *node) {
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
    mxw_status status = mx_run_settle(run, node, &run->layout->attrs[index]);
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
    status = mx_op_infer(node->op, &run->layout->attrs[index], node->n_inputs, in, results, NULL);
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
            run->layout->bytes[node->outputs[i]] = MX_MAX(mx_tensor_bytes(&run->values[node->outputs[i]]), 1);
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
    /* of what has no address yet, how far into it: hand_over() tells the device */
    t->data = (void *)((uintptr_t)of->data + (size_t)(first * of->strides[axis]) * mx_dtype_bytes(of->dtype));
}

/* Where every result lies, now that the arena has an address; states and inputs are set at each execute. */
static void set_addresses(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    const mx_layout *l = run->layout;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_outputs; i++) {
            mx_value value = g->nodes[n].outputs[i];
            if (plan->places[value].home == MX_HOME_VIEW)
                set_view(run, n);
            else if (plan->places[value].home == MX_HOME_ARENA)
                run->values[value].data = l->recording && l->out_at[value] != MX_APART
                                              ? (char *)l->recording->out + l->out_at[value]
                                              : (char *)run->arena + l->offsets[value];
        }
}

static void set_call(mx_run *run, size_t n) {
    mx_layout *l = run->layout;
    const mx_node *node = &run->program->graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++)
        l->inputs[n][i] = input_tensor(run, n, i);
    for (int i = 0; i < node->n_outputs; i++)
        l->outputs[n][i] = run->values[node->outputs[i]];
    l->calls[n] = (mx_call){.op = node->op, .attrs = &l->attrs[n], .n_inputs = node->n_inputs,
                            .n_outputs = node->n_outputs, .inputs = l->inputs[n], .outputs = l->outputs[n],
                            .host = l->host[n], .pool = run->program->pool, .scratch = run->scratch, .compiled = 1,
                            .precision = run->program->precision};
}

/* Whether all that a node computes with is of one value: a part that is handed over needs the others beside it. */
static int reads_alone(const mx_run *run, size_t node, mx_value value) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (int i = 0; i < g->nodes[node].n_inputs; i++) {
        mx_value input = g->nodes[node].inputs[i];
        if (input && plan->inputs[node][i] < 0 && plan->places[input].of != value)
            return 0;
    }
    return 1;
}

/* What all readers of an inner result, or of views of it, take in a form of the device's own: its bytes; 0 if they do
 * not. */
static size_t handed_bytes(const mx_run *run, size_t maker) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    const mx_device *device = run->program->device;
    const mx_layout *l = run->layout;
    mx_value value = g->nodes[maker].outputs[0];
    size_t bytes = 0;
    for (size_t n = maker + 1; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs && mx_compiled_runs(plan, &g->nodes[n]); i++) {
            mx_value input = g->nodes[n].inputs[i];
            if (input == 0 || plan->places[input].of != value)
                continue;
            int whole = mx_tensor_count(&l->inputs[n][i]) == mx_tensor_count(&l->outputs[maker][0]);
            if (!whole && !reads_alone(run, n, value))
                return 0;
            size_t need = device->handed_bytes(device, &l->calls[maker], &l->calls[n], i);
            if (need == 0 || (bytes && need != bytes))
                return 0;
            bytes = need;
        }
    return bytes;
}

/* Results that calls leave to each other in forms of the device's own, unless someone looks at them. */
static void hand_over(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    if (run->layout->open || !run->program->device->handed_bytes)
        return;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (plan->places[g->nodes[n].outputs[0]].home == MX_HOME_VIEW)
            set_view(run, n);
        else if (mx_compiled_runs(plan, &g->nodes[n]))
            set_call(run, n);
    for (size_t n = 0; n < g->n_nodes; n++) {
        mx_value value = g->nodes[n].outputs[0];
        size_t bytes = plan->places[value].inner && mx_compiled_runs(plan, &g->nodes[n]) ? handed_bytes(run, n) : 0;
        if (bytes == 0)
            continue;
        for (size_t i = 1; i < g->n_values; i++)
            if (plan->places[i].of == value)
                run->values[i].dtype = MXW_U8;
        run->layout->bytes[value] = bytes;
    }
}

void mx_compiled_address(mx_run *run) {
    const mx_graph *g = run->program->graph;
    set_addresses(run);
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n]))
            set_call(run, n);
}

/* The addresses of every layout but this one are no more. */
static void forget_others(mx_run *run) {
    for (int i = 0; i < run->n_layouts; i++)
        if (run->layouts[i] != run->layout) {
            mx_replay_forget(run, run->layouts[i]);
            run->layouts[i]->valid = 0;
        }
}

/* Room for the layout in the arena, and for the scratch of its calls. */
static mxw_status make_room(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_device *device = run->program->device;
    size_t scratch = 0, need = MX_MAX(run->layout->arena_bytes, 1);
    if (need > run->arena_room)
        forget_others(run);
    mxw_status status = mx_run_room(device, &run->arena, &run->arena_room, need, "values");
    if (status < 0)
        return status;
    mx_compiled_address(run);
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n]))
            scratch = MX_MAX(scratch, device->scratch_bytes(device, &run->layout->calls[n]));
    if (scratch > run->scratch_bytes)
        forget_others(run);
    status = mx_run_room(device, &run->scratch, &run->scratch_bytes, scratch, "scratch");
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++)
        run->layout->calls[n].scratch = run->scratch;
    return status;
}

static int is_looked_at(const mx_run *run) { return run->tap || run->watch; }

static mxw_status make_layout(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status;
    MX_TRY(take_layout(run, &run->layout));
    mx_layout *l = run->layout;
    l->valid = l->times = l->unfit = 0;
    l->open = is_looked_at(run);
    MX_TRY(infer_all(run));
    hand_over(run);
    mx_plan_place(run->program->plan, l->bytes, run->order, l->offsets, &l->arena_bytes);
    MX_TRY(make_room(run));
    memcpy(l->sizes, run->sizes, g->n_sizes * sizeof(*l->sizes));
    memcpy(l->values, run->values, g->n_values * sizeof(*l->values));
    l->valid = 1;
out:
    return status;
}

static int fits(const mx_run *run, const mx_layout *l) {
    return l && l->valid && l->open == is_looked_at(run) &&
           memcmp(l->sizes, run->sizes, run->program->graph->n_sizes * sizeof(*l->sizes)) == 0;
}

mxw_status mx_compiled_lay_out(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *found = fits(run, run->layout) ? run->layout : NULL;
    mxw_status status = MXW_OK;
    for (int i = 0; i < run->n_layouts && !found; i++)
        found = fits(run, run->layouts[i]) ? run->layouts[i] : NULL;
    if (!found) {
        status = make_layout(run);
    } else if (found != run->layout) {
        run->layout = found;
        for (size_t i = 1; i < g->n_values; i++)
            if (g->values[i].kind == MX_RESULT)
                run->values[i] = found->values[i];
    }
    if (status >= 0)
        run->layout->used = ++run->clock;
    return status;
}

/* ---- execute ----------------------------------------------------------------------------------------------------- */

void mx_compiled_refresh(mx_run *run, size_t n) {
    const mx_node *node = &run->program->graph->nodes[n];
    const mx_plan *plan = run->program->plan;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_home home = plan->places[node->inputs[i]].home;
        if (node->inputs[i] && plan->inputs[n][i] < 0 && (home == MX_HOME_LEAF || home == MX_HOME_STATE))
            run->layout->inputs[n][i].data = run->values[node->inputs[i]].data;
        int packed = plan->inputs[n][i] >= 0 && plan->constants[plan->inputs[n][i]].form == MX_FORM_PACKED;
        run->layout->host[n][i] = packed ? NULL : run->origin[node->inputs[i]];
    }
    if (node->op == MX_OP_STATE_WRITE) {
        run->values[node->outputs[0]] = run->values[node->inputs[0]];
        run->layout->outputs[n][0].data = run->values[node->inputs[0]].data;
    }
}

mxw_status mx_compiled_execute(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = run->layout;
    mxw_status status = MXW_OK;
    for (size_t i = 1; run->tap && i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT)
            status = mx_tap_value(run, (mx_value)i);
    for (size_t n = 0; n < g->n_nodes && status >= 0; n++) {
        const mx_node *node = &g->nodes[n];
        if (mx_compiled_runs(run->program->plan, node)) {
            mx_compiled_refresh(run, n);
            status = mx_run_call(run, node, &l->calls[n]);
            if (status < 0)
                return mx_run_fail_at(run, node, status);
        }
        if (run->program->plan->places[node->outputs[0]].home == MX_HOME_NONE)
            continue;
        for (int i = 0; run->tap && i < node->n_outputs && status >= 0; i++)
            status = mx_tap_value(run, node->outputs[i]);
    }
    return status;
}
