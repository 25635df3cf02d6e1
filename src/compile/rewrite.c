/* compile/rewrite.c - writes a new graph from an old one: copies leaves, names and outputs, runs a pass on nodes. */
#include "compile/rewrite.h"

#include <string.h>

int mx_type_same(const mx_type *a, const mx_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank)
        return 0;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] || a->dims[i] == MX_DIM_ANY)
            return 0;
    return 1;
}

static mxw_status count_uses(mx_rewrite *rw) {
    const mx_graph *g = rw->from;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            rw->uses[g->nodes[n].inputs[i]]++;
    for (size_t i = 0; i < g->n_outputs; i++)
        rw->uses[g->outputs[i].value]++;
    for (size_t i = 0; rw->keep_names && i < g->n_names; i++)
        rw->uses[g->names[i].value]++;
    return MXW_OK;
}

/* Open sizes keep their numbers; inputs and states are copied even if no node reads them: callers bind them. */
static mxw_status carry_leaves(mx_rewrite *rw) {
    const mx_graph *g = rw->from;
    for (size_t i = 0; i < g->n_sizes; i++)
        mx_graph_size(rw->to, g->sizes[i].name, g->sizes[i].max);
    for (size_t i = 1; i < g->n_values; i++) {
        const mx_value_info *info = &g->values[i];
        const mx_type *t = &info->type;
        if (info->kind == MX_INPUT)
            rw->map[i] = mx_graph_input(rw->to, info->name, t->dtype, t->rank, t->dims);
        else if (info->kind == MX_STATE)
            rw->map[i] = mx_graph_state(rw->to, info->name, t->dtype, t->rank, t->dims);
    }
    return rw->to->status;
}

mx_value mx_rewrite_get(mx_rewrite *rw, mx_value value) {
    const mx_value_info *info = &rw->from->values[value];
    if (value == 0 || rw->map[value])
        return rw->map[value];
    if (info->kind == MX_WEIGHT) {
        rw->map[value] = mx_graph_weight(rw->to, info->name, info->type.rank, info->type.dims);
    } else if (info->kind == MX_CONSTANT) {
        mx_tensor t = mx_tensor_of_const(info->type.dtype, info->type.rank, info->type.dims, info->data);
        rw->map[value] = mx_graph_borrow(rw->to, info->name, &t);
    }
    return rw->map[value];
}

void mx_rewrite_map(mx_rewrite *rw, mx_value value, mx_value stands_for_it) { rw->map[value] = stands_for_it; }

mxw_status mx_rewrite_copy(mx_rewrite *rw, const mx_node *node) {
    mx_value inputs[MX_MAX_INPUTS], outputs[MX_MAX_OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = mx_rewrite_get(rw, node->inputs[i]);
    mx_graph_append(rw->to, node->op, &node->attrs, inputs, node->n_inputs, outputs);
    for (int i = 0; i < node->n_outputs; i++)
        rw->map[node->outputs[i]] = outputs[i];
    return rw->to->status;
}

int mx_rewrite_keeps(const mx_rewrite *rw, mx_value value) {
    return rw->keep_names && mx_graph_value_name(rw->from, value) != NULL;
}

const mx_node *mx_rewrite_maker(const mx_rewrite *rw, mx_value value) {
    const mx_value_info *info = &rw->to->values[value];
    return value && info->kind == MX_RESULT ? &rw->to->nodes[info->node] : NULL;
}

/* Names are kept, except those of values that no longer exist. A leaf already has its own. An output without a name
 * gets none, even if that of another value has become free: a tap would see it under the wrong name. */
static mxw_status carry_names(mx_rewrite *rw) {
    const mx_graph *g = rw->from;
    for (size_t i = 0; i < g->n_names; i++) {
        const char *leaf = g->values[g->names[i].value].name;
        if (rw->map[g->names[i].value] && !(leaf && strcmp(leaf, g->names[i].name) == 0))
            mx_graph_name(rw->to, rw->map[g->names[i].value], g->names[i].name);
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        mx_value value = mx_rewrite_get(rw, g->outputs[i].value);
        size_t n_names = rw->to->n_names;
        mx_graph_output(rw->to, g->outputs[i].name, value);
        rw->to->n_names = n_names;
    }
    return rw->to->status;
}

/* The outputs are those of the source: same names, dtypes and ranks, and no size that contradicts. */
static mxw_status check_outputs(const mx_rewrite *rw) {
    const mx_graph *a = rw->from, *b = rw->to;
    if (a->n_outputs != b->n_outputs)
        return mx_fail(MXW_E_INTERNAL, "%zu outputs became %zu", a->n_outputs, b->n_outputs);
    for (size_t i = 0; i < a->n_outputs; i++) {
        const mx_type *was = &a->values[a->outputs[i].value].type, *is = &b->values[b->outputs[i].value].type;
        int same = was->dtype == is->dtype && was->rank == is->rank;
        for (int d = 0; same && d < was->rank; d++)
            same = was->dims[d] == is->dims[d] || was->dims[d] == MX_DIM_ANY || is->dims[d] == MX_DIM_ANY;
        if (!same)
            return mx_fail(MXW_E_INTERNAL, "output %s became another type", a->outputs[i].name);
    }
    return MXW_OK;
}

mxw_status mx_rewrite_run(const mx_graph *from, const mx_compile_options *options, mx_arena *memory, mx_pass_fn fn,
                          mx_graph **out) {
    mxw_status status;
    mx_rewrite rw = {.from = from, .device = options->device, .keep_names = options->keep_names, .memory = memory};
    *out = NULL;
    rw.map = mx_alloc_zero(from->n_values, sizeof(*rw.map));
    rw.uses = mx_alloc_zero(from->n_values, sizeof(*rw.uses));
    status = rw.map && rw.uses ? mx_graph_create(from->name, &rw.to) : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    count_uses(&rw);
    MX_TRY(carry_leaves(&rw));
    for (size_t n = 0; n < from->n_nodes; n++)
        MX_TRY(fn(&rw, &from->nodes[n]));
    MX_TRY(carry_names(&rw));
    MX_TRY(check_outputs(&rw));
    *out = rw.to;
    rw.to = NULL;
out:
    mx_graph_destroy(rw.to);
    mx_free(rw.map);
    mx_free(rw.uses);
    return status;
}
