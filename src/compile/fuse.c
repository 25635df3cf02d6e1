/* compile/fuse.c - fusion, one rule per pass: two consecutive ops become one that the device supports.
 *
 * Each rule looks at one node and its producer. It applies only if the value between them has no other reader, and if
 * the producer reads no state: the fused op takes the place of the second node, and a state might have been written in
 * between.
 * The absorbed node stays behind without a reader; the pass for dead nodes removes it. */
#include "compile/rewrite.h"

#include <string.h>

enum { X, WEIGHT, BIAS, RESIDUAL, GAMMA, BETA, N_LINEAR };   /* inputs of fused_linear; fused_conv1d has four */

static int is_fused(const mx_node *node) {
    return node && (node->op == MX_OP_FUSED_LINEAR || node->op == MX_OP_FUSED_CONV1D);
}

static mx_value input_of(const mx_node *node, int i) { return i < node->n_inputs ? node->inputs[i] : 0; }

static int reads_state(const mx_graph *g, const mx_node *node) {
    for (int i = 0; i < node->n_inputs; i++)
        if (g->values[node->inputs[i]].state)
            return 1;
    return 0;
}

/* The fused node of `to` that makes value v of `from`, if v has no other reader and the node may move down to here. */
static const mx_node *absorbable(mx_rewrite *rw, mx_value v) {
    const mx_node *maker = rw->uses[v] == 1 ? mx_rewrite_maker(rw, mx_rewrite_get(rw, v)) : NULL;
    return is_fused(maker) && !reads_state(rw->to, maker) ? maker : NULL;
}

/* Appends a fused node with all its inputs. */
static mx_value append_fused(mx_rewrite *rw, mx_op op, const mx_attrs *attrs, const mx_value *inputs) {
    mx_value out[MX_MAX_OUTPUTS];
    return mx_graph_append(rw->to, op, attrs, inputs, op == MX_OP_FUSED_CONV1D ? RESIDUAL + 1 : N_LINEAR, out);
}

static void spell_out(const mx_node *node, mx_value *inputs) {
    for (int i = 0; i < N_LINEAR; i++)
        inputs[i] = input_of(node, i);
}

/* linear, conv1d with a weight that never changes -> their fused forms, with nothing fused into them yet. */
mxw_status mx_pass_promote(mx_rewrite *rw, const mx_node *node) {
    mx_op fused = node->op == MX_OP_LINEAR ? MX_OP_FUSED_LINEAR : MX_OP_FUSED_CONV1D;
    if ((node->op != MX_OP_LINEAR && node->op != MX_OP_CONV1D) || !rw->device->supports(rw->device, fused) ||
        !mx_plan_is_constant(rw->from, node->inputs[WEIGHT], rw->keep_names))
        return mx_rewrite_copy(rw, node);
    mx_value inputs[N_LINEAR] = {0};
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = mx_rewrite_get(rw, node->inputs[i]);
    mx_rewrite_map(rw, node->outputs[0], append_fused(rw, fused, &node->attrs, inputs));
    return rw->to->status;
}

/* gelu(fused) -> fused with gelu */
mxw_status mx_pass_fuse_gelu(mx_rewrite *rw, const mx_node *node) {
    const mx_node *maker = node->op == MX_OP_GELU ? absorbable(rw, node->inputs[0]) : NULL;
    if (!maker || maker->attrs.act != MX_ACT_NONE || input_of(maker, RESIDUAL))
        return mx_rewrite_copy(rw, node);
    mx_value inputs[N_LINEAR];
    mx_attrs attrs = maker->attrs;
    attrs.act = node->attrs.kind == MXW_GELU_ERF ? MX_ACT_GELU_ERF : MX_ACT_GELU_TANH;
    spell_out(maker, inputs);
    mx_rewrite_map(rw, node->outputs[0], append_fused(rw, maker->op, &attrs, inputs));
    return rw->to->status;
}

/* Whether `residual` is added to the result as it is: its sizes are the last ones of the result. */
static int fits_residual(const mx_type *out, const mx_type *residual) {
    if (residual->rank < 1 || residual->rank > out->rank || residual->dtype != MXW_F32)
        return 0;
    for (int i = 1; i <= residual->rank; i++) {
        int64_t a = residual->dims[residual->rank - i], b = out->dims[out->rank - i];
        if (a != b || a == MX_DIM_ANY)
            return 0;
    }
    return 1;
}

/* add(fused, r), add(r, fused) -> fused with residual r */
mxw_status mx_pass_fuse_residual(mx_rewrite *rw, const mx_node *node) {
    for (int side = 0; node->op == MX_OP_ADD && side < 2; side++) {
        mx_value of = node->inputs[side], other = node->inputs[!side];
        const mx_node *maker = absorbable(rw, of);
        if (!maker || input_of(maker, RESIDUAL) || other == of || rw->from->values[other].state ||
            !mx_type_same(&rw->from->values[of].type, &rw->from->values[node->outputs[0]].type) ||
            !fits_residual(&rw->from->values[of].type, &rw->from->values[other].type))
            continue;
        mx_value inputs[N_LINEAR];
        spell_out(maker, inputs);
        mx_attrs attrs = maker->attrs;
        mx_op op = maker->op;
        inputs[RESIDUAL] = mx_rewrite_get(rw, other);
        mx_rewrite_map(rw, node->outputs[0], append_fused(rw, op, &attrs, inputs));
        return rw->to->status;
    }
    return mx_rewrite_copy(rw, node);
}

/* ---- several linears of one x ------------------------------------------------------------------------------------ */

/* Parts of one GEMM: q, k and v, or two layers' keys and values. All of them live until the last is read: with the 32
 * layers of a large decoder in one GEMM they took half a gigabyte. */
#define MAX_STACK 4

/* A linear with nothing fused into it but a bias, with a weight of its own, whose readers accept strided rows. */
static int can_stack(const mx_rewrite *rw, const mx_node *node) {
    const mx_graph *g = rw->from;
    if (node->op != MX_OP_FUSED_LINEAR || node->attrs.act != MX_ACT_NONE || input_of(node, RESIDUAL) ||
        input_of(node, GAMMA) || g->values[node->inputs[X]].state)
        return 0;
    mx_kind kind = g->values[node->inputs[WEIGHT]].kind;
    if ((kind != MX_WEIGHT && kind != MX_CONSTANT) || g->values[node->inputs[WEIGHT]].type.dims[0] == 0)
        return 0;
    if (input_of(node, BIAS) && g->values[node->inputs[BIAS]].kind != MX_WEIGHT &&
        g->values[node->inputs[BIAS]].kind != MX_CONSTANT)
        return 0;
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->outputs[i].value == node->outputs[0])
            return 0;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs; i++)
            if (g->nodes[n].inputs[i] == node->outputs[0] && !mx_plan_accepts_strided(rw->device, g->nodes[n].op, i))
                return 0;
    return 1;
}

static mx_value zeros(mx_rewrite *rw, int64_t n) {
    mx_tensor t = mx_tensor_of(MXW_F32, 1, &n, NULL);
    t.data = mx_arena_alloc(rw->memory, MX_MAX((size_t)n, 1) * sizeof(float));
    return t.data ? mx_graph_borrow(rw->to, NULL, &t) : mx_graph_refuse_status(rw->to, MXW_E_MEMORY);
}

/* One linear over the stacked weights, and a slice of it for each. */
static mxw_status append_stack(mx_rewrite *rw, const mx_node *const *nodes, int n) {
    mx_value weights[MAX_STACK], biases[MAX_STACK], inputs[N_LINEAR] = {0};
    int with_bias = 0;
    for (int i = 0; i < n; i++)
        with_bias |= input_of(nodes[i], BIAS) != 0;
    for (int i = 0; i < n; i++) {
        weights[i] = mx_rewrite_get(rw, nodes[i]->inputs[WEIGHT]);
        biases[i] = mx_rewrite_get(rw, input_of(nodes[i], BIAS));
        if (with_bias && !biases[i])
            biases[i] = zeros(rw, rw->from->values[nodes[i]->inputs[WEIGHT]].type.dims[0]);
    }
    inputs[X] = mx_rewrite_get(rw, nodes[0]->inputs[X]);
    inputs[WEIGHT] = mx_graph_concat(rw->to, weights, n, 0);
    inputs[BIAS] = with_bias ? mx_graph_concat(rw->to, biases, n, 0) : 0;
    mx_value all = append_fused(rw, MX_OP_FUSED_LINEAR, &nodes[0]->attrs, inputs);
    int64_t start = 0;
    for (int i = 0; i < n; i++) {
        int64_t width = rw->from->values[nodes[i]->inputs[WEIGHT]].type.dims[0];
        mx_rewrite_map(rw, nodes[i]->outputs[0], mx_graph_slice(rw->to, all, -1, start, start + width, 1));
        start += width;
    }
    return rw->to->status;
}

/* Both weights are as wide as x, which may be known only at run time: so they are compared with each other. */
static int same_width(const mx_graph *g, const mx_node *a, const mx_node *b) {
    return g->values[a->inputs[WEIGHT]].type.dims[1] == g->values[b->inputs[WEIGHT]].type.dims[1];
}

/* linear(x, a), linear(x, b), .. -> slices of linear(x, [a; b; ..]) */
mxw_status mx_pass_stack(mx_rewrite *rw, const mx_node *node) {
    const mx_graph *g = rw->from;
    const mx_node *nodes[MAX_STACK];
    int n = 0;
    if (rw->map[node->outputs[0]])   /* already part of a stack */
        return MXW_OK;
    if (!can_stack(rw, node))
        return mx_rewrite_copy(rw, node);
    for (const mx_node *other = node; other < g->nodes + g->n_nodes && n < MAX_STACK; other++)
        if (other->op == MX_OP_FUSED_LINEAR && other->inputs[X] == node->inputs[X] && same_width(g, node, other) &&
            can_stack(rw, other))
            nodes[n++] = other;
    return n > 1 ? append_stack(rw, nodes, n) : mx_rewrite_copy(rw, node);
}

/* ---- norm, select ------------------------------------------------------------------------------------------------ */

static int takes_norm(const mx_node *node) { return node->op == MX_OP_FUSED_LINEAR && !input_of(node, GAMMA); }

/* Every reader of v is a linear that can absorb a norm. */
static int only_linears_read(const mx_rewrite *rw, mx_value v) {
    const mx_graph *g = rw->from;
    int32_t n = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        n += takes_norm(&g->nodes[i]) && g->nodes[i].inputs[X] == v;
    return n == rw->uses[v];
}

/* fused_linear(layer_norm(x)) -> fused_linear with gamma, beta */
mxw_status mx_pass_fuse_norm(mx_rewrite *rw, const mx_node *node) {
    if (!takes_norm(node) || !only_linears_read(rw, node->inputs[X]))
        return mx_rewrite_copy(rw, node);
    const mx_node *maker = mx_rewrite_maker(rw, mx_rewrite_get(rw, node->inputs[X]));
    if (!maker || maker->op != MX_OP_LAYER_NORM || rw->to->values[maker->inputs[0]].state ||
        !mx_plan_is_constant(rw->to, maker->inputs[1], 0) || !mx_plan_is_constant(rw->to, maker->inputs[2], 0))
        return mx_rewrite_copy(rw, node);
    mx_value inputs[N_LINEAR] = {[X] = maker->inputs[0], [GAMMA] = maker->inputs[1], [BETA] = maker->inputs[2]};
    mx_attrs attrs = node->attrs;
    attrs.eps = maker->attrs.eps;
    for (int i = WEIGHT; i <= RESIDUAL; i++)
        inputs[i] = mx_rewrite_get(rw, input_of(node, i));
    mx_rewrite_map(rw, node->outputs[0], append_fused(rw, node->op, &attrs, inputs));
    return rw->to->status;
}

/* select(fused_linear(x, vocabulary)) -> fused_select */
mxw_status mx_pass_fuse_select(mx_rewrite *rw, const mx_node *node) {
    const mx_node *maker = NULL;
    if (node->op == MX_OP_SELECT && rw->device->supports(rw->device, MX_OP_FUSED_SELECT))
        maker = absorbable(rw, node->inputs[0]);
    if (!maker || maker->op != MX_OP_FUSED_LINEAR || maker->attrs.act != MX_ACT_NONE || input_of(maker, BIAS) ||
        input_of(maker, RESIDUAL))
        return mx_rewrite_copy(rw, node);
    mx_attrs attrs = node->attrs;
    attrs.eps = maker->attrs.eps;
    mx_value out[MX_MAX_OUTPUTS], inputs[] = {maker->inputs[X],     maker->inputs[WEIGHT],   0, 0,
                                              input_of(maker, GAMMA), input_of(maker, BETA)};
    inputs[2] = mx_rewrite_get(rw, node->inputs[1]);
    inputs[3] = mx_rewrite_get(rw, node->inputs[2]);
    mx_graph_append(rw->to, MX_OP_FUSED_SELECT, &attrs, inputs, 6, out);
    for (int i = 0; i < node->n_outputs; i++)
        mx_rewrite_map(rw, node->outputs[i], out[i]);
    return rw->to->status;
}
