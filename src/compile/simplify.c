/* compile/simplify.c - passes for any graph: canonical form, constant folding, common values, dead nodes. */
#include "compile/rewrite.h"

#include <string.h>

/* ---- canonical form ---------------------------------------------------------------------------------------------- */

static int is_state(const mx_rewrite *rw, mx_value to) { return rw->to->values[to].state != 0; }

/* Whether x may replace the node's result: a state's bytes change, so a copy of it must stay a copy; and a tap sees no
 * weight or constant, so a name that is kept must not move to one. */
static int may_stand_for(const mx_rewrite *rw, const mx_node *node, mx_value x) {
    mx_kind kind = rw->to->values[x].kind;
    return !is_state(rw, x) && !((kind == MX_WEIGHT || kind == MX_CONSTANT) && mx_rewrite_keeps(rw, node->outputs[0]));
}

static int is_identity(const int *axes, int rank) {
    for (int i = 0; i < rank; i++)
        if (axes[i] != i)
            return 0;
    return 1;
}

/* transpose is a permute; consecutive permutes are one; an identity is dropped. A read of a state stays where it is:
 * the state may be written before the second permute. */
static mxw_status canonical_permute(mx_rewrite *rw, const mx_node *node) {
    mx_value x = mx_rewrite_get(rw, node->inputs[0]), out[MX_MAX_OUTPUTS];
    int rank = rw->to->values[x].type.rank;
    mx_attrs attrs = {0};
    if (rw->to->status < 0)
        return rw->to->status;
    for (int i = 0; i < rank; i++)
        attrs.axes[i] = node->op == MX_OP_PERMUTE ? node->attrs.axes[i] : i;
    if (node->op == MX_OP_TRANSPOSE) {
        attrs.axes[rank - 1] = rank - 2;
        attrs.axes[rank - 2] = rank - 1;
    }
    const mx_node *before = mx_rewrite_maker(rw, x);
    if (before && before->op == MX_OP_PERMUTE && !is_state(rw, before->inputs[0])) {
        for (int i = 0; i < rank; i++)
            attrs.axes[i] = before->attrs.axes[attrs.axes[i]];
        x = before->inputs[0];
    }
    if (is_identity(attrs.axes, rank) && may_stand_for(rw, node, x)) {
        mx_rewrite_map(rw, node->outputs[0], x);
        return MXW_OK;
    }
    mx_rewrite_map(rw, node->outputs[0], mx_graph_append(rw->to, MX_OP_PERMUTE, &attrs, &x, 1, out));
    return rw->to->status;
}

static int is_copy(const mx_rewrite *rw, const mx_node *node, mx_value x) {
    const mx_type *in = &rw->to->values[x].type, *out = &rw->from->values[node->outputs[0]].type;
    if (!may_stand_for(rw, node, x) || !mx_type_same(in, out))
        return 0;
    switch (node->op) {
    case MX_OP_CAST: return 1;
    case MX_OP_CONCAT: return node->n_inputs == 1;
    case MX_OP_SLICE: return node->attrs.step == 1 && node->attrs.start == 0;
    default: return 0;
    }
}

/* The value that a reshape can start from: of consecutive reshapes the last is enough, unless it infers a size from the
 * one before, or depends on a size known only at run time; a state is read where it was. */
static mx_value root_of_reshape(const mx_rewrite *rw, const mx_attrs *attrs, mx_value x) {
    for (int i = 0; i < attrs->rank; i++)
        if (attrs->dims[i] == MX_DIM_INFER)
            return x;
    for (;;) {
        const mx_type *type = &rw->to->values[x].type;
        const mx_node *before = mx_rewrite_maker(rw, x);
        if (!before || before->op != MX_OP_RESHAPE || is_state(rw, before->inputs[0]))
            return x;
        for (int i = 0; i < type->rank; i++)
            if (type->dims[i] == MX_DIM_ANY)
                return x;
        x = before->inputs[0];
    }
}

/* Inferred sizes are written out; consecutive reshapes are one; an identity is dropped. */
static mxw_status canonical_reshape(mx_rewrite *rw, const mx_node *node) {
    const mx_type *type = &rw->from->values[node->outputs[0]].type;
    mx_value out[MX_MAX_OUTPUTS];
    mx_attrs attrs = node->attrs;
    for (int i = 0; i < attrs.rank; i++)
        if (attrs.dims[i] == MX_DIM_INFER && type->dims[i] != MX_DIM_ANY)
            attrs.dims[i] = type->dims[i];
    mx_value x = mx_rewrite_get(rw, node->inputs[0]);
    if (rw->to->status < 0)
        return rw->to->status;
    x = root_of_reshape(rw, &attrs, x);
    if (mx_type_same(&rw->to->values[x].type, type) && may_stand_for(rw, node, x))
        mx_rewrite_map(rw, node->outputs[0], x);
    else
        mx_rewrite_map(rw, node->outputs[0], mx_graph_append(rw->to, MX_OP_RESHAPE, &attrs, &x, 1, out));
    return rw->to->status;
}

/* A commutative op has its constant last, so that later rules look in one place. */
static int constants_first(const mx_rewrite *rw, const mx_node *node) {
    if (node->op != MX_OP_ADD && node->op != MX_OP_MUL)
        return 0;
    mx_kind a = rw->from->values[node->inputs[0]].kind, b = rw->from->values[node->inputs[1]].kind;
    return (a == MX_CONSTANT || a == MX_WEIGHT) && b != MX_CONSTANT && b != MX_WEIGHT;
}

mxw_status mx_pass_canonical(mx_rewrite *rw, const mx_node *node) {
    mx_value out[MX_MAX_OUTPUTS];
    if (node->op == MX_OP_TRANSPOSE || node->op == MX_OP_PERMUTE)
        return canonical_permute(rw, node);
    if (node->op == MX_OP_RESHAPE)
        return canonical_reshape(rw, node);
    mx_value x = mx_rewrite_get(rw, node->inputs[0]);
    if (is_copy(rw, node, x)) {
        mx_rewrite_map(rw, node->outputs[0], x);
        return rw->to->status;
    }
    if (constants_first(rw, node)) {
        mx_value swapped[] = {mx_rewrite_get(rw, node->inputs[1]), x};
        mx_rewrite_map(rw, node->outputs[0], mx_graph_append(rw->to, node->op, &node->attrs, swapped, 2, out));
        return rw->to->status;
    }
    return mx_rewrite_copy(rw, node);
}

/* ---- constant folding -------------------------------------------------------------------------------------------- */

#define MAX_FOLDED ((int64_t)1 << 24)   /* elements of a result: more would only trade time at start for memory */

static int can_fold(const mx_rewrite *rw, const mx_node *node) {
    if ((int)node->op >= (int)MX_OP_PLAIN_COUNT || node->op == MX_OP_STATE_WRITE || node->op == MX_OP_SELECT)
        return 0;
    for (int i = 0; i < node->n_inputs; i++) {
        mx_value x = node->inputs[i] ? rw->map[node->inputs[i]] : 0;
        mx_kind kind = x ? rw->to->values[x].kind : rw->from->values[node->inputs[i]].kind;
        if (node->inputs[i] && kind != MX_CONSTANT)
            return 0;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const mx_type *t = &rw->from->values[node->outputs[i]].type;
        if (mx_rewrite_keeps(rw, node->outputs[i]))   /* a tap sees no constant */
            return 0;
        for (int d = 0; d < t->rank; d++)
            if (t->dims[d] < 0)
                return 0;
        if (mx_type_count(t) < 0 || mx_type_count(t) > MAX_FOLDED)
            return 0;
    }
    return 1;
}

/* Runs the node on the host with plain kernels. Results are in the compilation's memory. */
static mxw_status evaluate(mx_rewrite *rw, const mx_node *node, mx_tensor *outputs) {
    const mx_device *host = mx_device_at(0);
    mx_tensor inputs[MX_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        mx_value x = mx_rewrite_get(rw, node->inputs[i]);   /* first: it may move the values */
        const mx_value_info *info = &rw->to->values[x];
        inputs[i] = (mx_tensor){0};
        if (node->inputs[i])
            inputs[i] = mx_tensor_of_const(info->type.dtype, info->type.rank, info->type.dims, info->data);
    }
    if (rw->to->status < 0)
        return rw->to->status;
    for (int i = 0; i < node->n_outputs; i++) {
        const mx_type *t = &rw->from->values[node->outputs[i]].type;
        outputs[i] = mx_tensor_of(t->dtype, t->rank, t->dims, NULL);
        outputs[i].data = mx_arena_alloc(rw->memory, MX_MAX(mx_tensor_bytes(&outputs[i]), 1));
        if (!outputs[i].data)
            return MXW_E_MEMORY;
    }
    mx_call call = {.op = node->op, .attrs = &node->attrs, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs,
                    .inputs = inputs, .outputs = outputs};
    size_t scratch = host->scratch_bytes(host, &call);
    call.scratch = scratch ? mx_alloc(scratch) : NULL;
    mxw_status status = scratch && !call.scratch ? MXW_E_MEMORY : host->run_op(host, &call);
    mx_free(call.scratch);
    return status;
}

mxw_status mx_pass_fold(mx_rewrite *rw, const mx_node *node) {
    mx_tensor outputs[MX_MAX_OUTPUTS];
    if (!can_fold(rw, node))
        return mx_rewrite_copy(rw, node);
    mxw_status status = evaluate(rw, node, outputs);
    if (status == MXW_E_MEMORY)
        return status;
    if (status < 0)   /* an index out of range: the run will report it */
        return mx_rewrite_copy(rw, node);
    for (int i = 0; i < node->n_outputs; i++)
        mx_rewrite_map(rw, node->outputs[i], mx_graph_borrow(rw->to, NULL, &outputs[i]));
    return rw->to->status;
}

/* ---- common values ----------------------------------------------------------------------------------------------- */

static int reads_state(const mx_graph *g, const mx_node *node) {
    for (int i = 0; i < node->n_inputs; i++)
        if (g->values[node->inputs[i]].state)
            return 1;
    return 0;
}

mxw_status mx_pass_common(mx_rewrite *rw, const mx_node *node) {
    mx_value inputs[MX_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = mx_rewrite_get(rw, node->inputs[i]);
    if (rw->to->status < 0 || reads_state(rw->from, node))
        return mx_rewrite_copy(rw, node);
    for (size_t n = rw->to->n_nodes; n-- > 0;) {
        const mx_node *other = &rw->to->nodes[n];
        if (other->op != node->op || other->n_inputs != node->n_inputs ||
            memcmp(other->inputs, inputs, (size_t)node->n_inputs * sizeof(*inputs)) != 0 ||
            memcmp(&other->attrs, &node->attrs, sizeof(node->attrs)) != 0)
            continue;
        for (int i = 0; i < node->n_outputs; i++)
            mx_rewrite_map(rw, node->outputs[i], other->outputs[i]);
        return MXW_OK;
    }
    return mx_rewrite_copy(rw, node);
}

/* ---- dead nodes -------------------------------------------------------------------------------------------------- */

/* At the first node: removes the dead readers from uses[], last node first, so that it counts live readers only. */
static void bury(mx_rewrite *rw) {
    const mx_graph *g = rw->from;
    for (size_t n = g->n_nodes; n-- > 0;) {
        const mx_node *node = &g->nodes[n];
        int live = node->op == MX_OP_STATE_WRITE;
        for (int i = 0; i < node->n_outputs; i++)
            live |= rw->uses[node->outputs[i]] > 0;
        for (int i = 0; !live && i < node->n_inputs; i++)
            rw->uses[node->inputs[i]]--;
    }
}

mxw_status mx_pass_dead(mx_rewrite *rw, const mx_node *node) {
    int live = node->op == MX_OP_STATE_WRITE;
    if (node == rw->from->nodes)
        bury(rw);
    for (int i = 0; i < node->n_outputs; i++)
        live |= rw->uses[node->outputs[i]] > 0;
    return live ? mx_rewrite_copy(rw, node) : MXW_OK;
}
