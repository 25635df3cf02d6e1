/* compile/place.c - the home and lifetime of each value, and its offset in the arena. */
#include "compile/rewrite.h"

#include <limits.h>
#include <string.h>

static int is_output(const mx_graph *g, mx_value value) {
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == value)
            return 1;
    return 0;
}

static int is_named(const mx_graph *g, mx_value value) {
    return mx_graph_value_name(g, value) != NULL;
}

static int is_leaf_constant(const mx_graph *g, mx_value value) {
    return g->values[value].kind == MX_WEIGHT || g->values[value].kind == MX_CONSTANT;
}

int mx_plan_is_constant(const mx_graph *g, mx_value value, int keep_names) {
    if (value == 0 || is_leaf_constant(g, value))
        return value != 0;
    if (g->values[value].kind != MX_RESULT)
        return 0;
    const mx_node *node = &g->nodes[g->values[value].node];
    if (node->op != MX_OP_CONCAT || node->attrs.axis != 0 || g->values[value].type.dtype != MXW_F32 ||
        is_output(g, value) || (keep_names && is_named(g, value)))
        return 0;
    for (int i = 0; i < node->n_inputs; i++)
        if (!is_leaf_constant(g, node->inputs[i]))
            return 0;
    return 1;
}

/* A reshape or a slice may itself be a view, which keeps its input's strides. */
int mx_plan_accepts_strided(const mx_device *device, mx_op op, int input) {
    return op != MX_OP_RESHAPE && op != MX_OP_SLICE && device->strided(device, op, input);
}

/* Every reader accepts strided rows, and the value is not needed dense outside of the plan. */
static int may_be_strided(const mx_plan *plan, mx_value value, int keep_names) {
    const mx_graph *g = plan->graph;
    if (is_output(g, value) || (keep_names && is_named(g, value)))
        return 0;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            if (g->nodes[n].inputs[i] == value && !mx_plan_accepts_strided(plan->device, g->nodes[n].op, i))
                return 0;
    return 1;
}

/* A reshape, or a slice of the first or the last axis, of something in the arena is a view of it; except where it might
 * begin at an odd byte, which devices need not support. */
static int is_view(const mx_plan *plan, const mx_node *node, int keep_names) {
    const mx_graph *g = plan->graph;
    const mx_placement *of = &plan->placements[node->inputs[0]];
    if (of->home != MX_HOME_ARENA && of->home != MX_HOME_VIEW)
        return 0;
    if (node->op == MX_OP_RESHAPE)
        return 1;
    if (node->op != MX_OP_SLICE || node->attrs.step != 1 || mx_dtype_bytes(g->values[node->inputs[0]].type.dtype) < 4)
        return 0;
    int last_axis = node->attrs.axis == g->values[node->inputs[0]].type.rank - 1;
    return node->attrs.axis == 0 || (last_axis && may_be_strided(plan, node->outputs[0], keep_names));
}

static mxw_dtype wider(mxw_dtype a, mxw_dtype b) { return mx_dtype_bytes(a) < mx_dtype_bytes(b) ? b : a; }

/* What a state is kept as: as narrow as all ops on it, before and after writes, take it. */
static mxw_dtype dtype_of_state(const mx_plan *plan, mx_value state) {
    const mx_graph *g = plan->graph;
    const mx_device *device = plan->device;
    mxw_dtype own = g->values[state].type.dtype, kept = own;
    int n = 0;
    if (own != MXW_F32 || !device->state_dtype)
        return own;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int input = 0; input < g->nodes[i].n_inputs; input++) {
            if (g->values[g->nodes[i].inputs[input]].state != state)
                continue;
            mxw_dtype narrowest = device->state_dtype(device, plan->precision, g->nodes[i].op, input);
            kept = n++ ? wider(kept, narrowest) : narrowest;
        }
    return kept;
}

static mx_placement home_of(const mx_plan *plan, mx_value value, int keep_names) {
    const mx_graph *g = plan->graph;
    const mx_value_info *info = &g->values[value];
    mx_placement place = {.of = value, .home = MX_HOME_ARENA, .first = info->node, .last = info->node};
    if (info->state) {
        place.home = MX_HOME_STATE;
        place.dtype = dtype_of_state(plan, info->state);
    } else if (info->kind != MX_RESULT) {
        place.home = MX_HOME_LEAF;
    } else if (mx_plan_is_constant(g, value, keep_names)) {
        place.home = MX_HOME_NONE;
    } else if (is_view(plan, &g->nodes[info->node], keep_names)) {
        place.home = MX_HOME_VIEW;
        place.of = plan->placements[g->nodes[info->node].inputs[0]].of;
    }
    return place;
}

/* Whether the device would have an op read this input as narrower than the graph's f32. */
static int may_be_narrow(const mx_plan *plan, const mx_node *node, int input) {
    mx_value value = node->inputs[input];
    return value && plan->graph->values[value].type.dtype == MXW_F32 &&
           plan->device->state_dtype(plan->device, plan->precision, node->op, input) != MXW_F32;
}

/* The widest of an op's inputs that may be narrow: f32 where one is no state. */
static mxw_dtype widest_input(const mx_plan *plan, const mx_node *node) {
    mxw_dtype widest = MXW_F8;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_value state = plan->graph->values[node->inputs[i]].state;
        if (may_be_narrow(plan, node, i))
            widest = wider(widest, state ? plan->placements[state].dtype : MXW_F32);
    }
    return widest;
}

/* An op reads all that may be narrow as one type: beside an input that is wider (no state, or one that another op reads
 * as wider) the others are so, too, and so are states that are read beside those. */
static void widen_mixed_states(mx_plan *plan) {
    const mx_graph *g = plan->graph;
    for (int changed = plan->device->state_dtype != NULL; changed;) {
        changed = 0;
        for (size_t n = 0; n < g->n_nodes; n++) {
            mxw_dtype widest = widest_input(plan, &g->nodes[n]);
            for (int i = 0; i < g->nodes[n].n_inputs; i++) {
                mx_value state = g->values[g->nodes[n].inputs[i]].state;
                if (!state || !may_be_narrow(plan, &g->nodes[n], i) || plan->placements[state].dtype == widest)
                    continue;
                plan->placements[state].dtype = widest;
                changed = 1;
            }
        }
    }
    for (size_t i = 1; i < g->n_values; i++)
        if (g->values[i].state)
            plan->placements[i].dtype = plan->placements[g->values[i].state].dtype;
}

static void extend(mx_plan *plan, mx_value value, int32_t node) {
    mx_placement *root = &plan->placements[plan->placements[value].of];
    root->last = MX_MAX(root->last, node);
}

/* Neither it nor a view of it is an output or has a name that is kept. */
static int is_inner(const mx_plan *plan, mx_value value, int keep_names) {
    const mx_graph *g = plan->graph;
    if (plan->placements[value].home != MX_HOME_ARENA)
        return 0;
    for (size_t i = 1; i < g->n_values; i++)
        if (plan->placements[i].of == value && (is_output(g, (mx_value)i) || (keep_names && is_named(g, (mx_value)i))))
            return 0;
    return 1;
}

mxw_status mx_plan_find_homes(mx_plan *plan, int keep_names) {
    const mx_graph *g = plan->graph;
    plan->keep_names = keep_names;
    plan->placements = mx_arena_alloc(&plan->memory, g->n_values * sizeof(*plan->placements));
    if (!plan->placements)
        return MXW_E_MEMORY;
    for (size_t i = 1; i < g->n_values; i++)
        plan->placements[i] = home_of(plan, (mx_value)i, keep_names);
    widen_mixed_states(plan);
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            extend(plan, g->nodes[n].inputs[i], (int32_t)n);
    for (size_t i = 0; i < g->n_outputs; i++)
        extend(plan, g->outputs[i].value, INT32_MAX);
    for (size_t i = 1; i < g->n_values; i++)
        plan->placements[i].inner = is_inner(plan, (mx_value)i, keep_names);
    return MXW_OK;
}

/* ---- offsets ----------------------------------------------------------------------------------------------------- */

/* 256: what libraries of matrix products on a GPU take for granted at most, so that none looks at a batch's place. */
#define ALIGN(bytes) (((bytes) + 255) / 256 * 256)

static int lifetimes_overlap(const mx_placement *a, const mx_placement *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which `need` bytes overlap no value of order[0 .. n) that is live at the same time: each that
 * overlaps moves the offset up, in rounds, until none does. */
static size_t lowest(const mx_plan *plan, mx_value value, size_t need, const mx_value *order, size_t n,
                     const size_t *bytes, const size_t *offsets) {
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        mx_value other = order[i];
        size_t end = offsets[other] + ALIGN(bytes[other]);
        if (lifetimes_overlap(&plan->placements[value], &plan->placements[other]) && at < end &&
            offsets[other] < at + need) {
            at = end;
            i = 0;
        } else {
            i++;
        }
    }
    return at;
}

/* Largest first: small values then fill the gaps that large ones leave. */
void mx_plan_place(const mx_plan *plan, const size_t *bytes, mx_value *order, size_t *offsets, size_t *total) {
    const mx_graph *g = plan->graph;
    size_t n = 0;
    *total = 0;
    for (size_t v = 1; v < g->n_values; v++) {
        if (plan->placements[v].home != MX_HOME_ARENA)
            continue;
        size_t i = n++;
        for (; i > 0 && bytes[order[i - 1]] < bytes[v]; i--)
            order[i] = order[i - 1];
        order[i] = (mx_value)v;
    }
    for (size_t i = 0; i < n; i++) {
        mx_value value = order[i];
        size_t need = ALIGN(bytes[value]);
        offsets[value] = lowest(plan, value, need, order, i, bytes, offsets);
        *total = MX_MAX(*total, offsets[value] + need);
    }
}
