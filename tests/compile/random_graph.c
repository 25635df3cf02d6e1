/* random_graph.c - see random_graph.h. A maker takes values that are there, checks by inference whether an op fits, and
 * appends it only then: no attempt spoils the graph. */
#include "random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/build.h"
#include "random_maker.h"

/* ---- appending --------------------------------------------------------------------------------------------------- */

const mx_type *maker_type(const maker *m, mx_value v) { return &m->g->values[v].type; }

int maker_append(maker *m, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n, mx_value *outputs) {
    const mx_type *types[MX_MAX_INPUTS];
    mx_type out[MX_MAX_OUTPUTS];
    for (int i = 0; i < n; i++) {
        if (!inputs[i] && i < mx_op_least_inputs(op))
            return 0;
        types[i] = inputs[i] ? maker_type(m, inputs[i]) : NULL;
    }
    mx_value state = m->g->values[inputs[0]].state;
    if (op == MX_OP_STATE_WRITE && (!state || m->g->values[inputs[1]].state == state))
        return 0;
    if (m->g->n_nodes >= MAKER_NODES || mx_op_infer(op, attrs, n, types, out, NULL) < 0)
        return 0;
    for (int i = 0; i < mx_op_outputs(op); i++) {   /* small enough to run in no time, whatever the sizes */
        int64_t count = 1;
        for (int d = 0; d < out[i].rank; d++)
            count *= out[i].dims[d] < 0 ? 6 : out[i].dims[d];
        if (count > 20000)
            return 0;
    }
    return mx_graph_append(m->g, op, attrs, inputs, n, outputs) != 0;
}

mx_value maker_op(maker *m, mx_op op, const mx_attrs *attrs, mx_value a, mx_value b, mx_value c) {
    mx_value inputs[] = {a, b, c}, outputs[MX_MAX_OUTPUTS];
    int n = c ? 3 : b ? 2 : 1;
    return a && maker_append(m, op, attrs, inputs, n, outputs) ? outputs[0] : 0;
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

static void *room(maker *m, size_t bytes) {
    if (m->to->n_blocks == 2 * RANDOM_LEAVES)
        abort();
    void *block = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!block)
        abort();
    return m->to->blocks[m->to->n_blocks++] = block;
}

static const char *leaf_name(maker *m, char kind) {
    snprintf(m->name, sizeof(m->name), "%c%d", kind, m->to->n_leaves);
    return m->name;
}

static mx_value add_leaf(maker *m, mx_value value, random_kind data, int64_t limit, const mx_tensor *view) {
    if (!value || m->to->n_leaves == RANDOM_LEAVES)
        abort();
    m->to->leaves[m->to->n_leaves++] = (random_leaf){value, data, limit, view ? *view : (mx_tensor){0}};
    return value;
}

/* Whether a leaf can have such sizes: none that only a run knows. */
static int is_bindable(const int64_t *dims, int rank) {
    for (int i = 0; i < rank; i++)
        if (dims[i] == MX_DIM_ANY)
            return 0;
    return 1;
}

mx_value maker_input(maker *m, mxw_dtype dtype, int rank, const int64_t *dims, random_kind data, int64_t limit) {
    if (m->to->n_leaves >= RANDOM_LEAVES - 8 || !is_bindable(dims, rank))
        return 0;
    return add_leaf(m, mx_graph_input(m->g, leaf_name(m, 'x'), dtype, rank, dims), data, limit, NULL);
}

mx_value maker_state(maker *m, int rank, const int64_t *dims) {
    if (m->to->n_leaves >= RANDOM_LEAVES - 8 || !is_bindable(dims, rank))
        return 0;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            m->to->frozen[MX_DIM_INDEX(dims[i])] = 1;
    return add_leaf(m, mx_graph_state(m->g, leaf_name(m, 's'), MXW_F32, rank, dims), RANDOM_FLOATS, 0, NULL);
}

static void fill_floats(maker *m, mx_tensor *t, double scale) {
    for (int64_t i = 0; i < mx_tensor_count(t); i++) {
        float value = (float)rng_uniform(&m->r, -scale, scale);
        uint16_t half = t->dtype == MXW_F16 ? mx_f32_to_f16(value) : mx_f32_to_bf16(value);
        if (t->dtype == MXW_F32)
            ((float *)t->data)[i] = value;
        else
            memcpy((char *)t->data + 2 * i, &half, 2);
    }
}

/* A checkpoint's tensor: f32, f16 or bf16; sometimes rows apart, sometimes at an odd address. */
mx_value maker_weight(maker *m, int rank, const int64_t *dims) {
    static const mxw_dtype types[] = {MXW_F32, MXW_F32, MXW_F16, MXW_F16, MXW_F16, MXW_BF16};
    if (m->to->n_leaves >= RANDOM_LEAVES - 8)
        return 0;
    int64_t fan = 1;
    for (int i = 1; i < rank; i++)
        fan *= dims[i];
    mx_tensor t = mx_tensor_of(types[rng_below(&m->r, MX_COUNT(types))], rank, dims, NULL);
    t.data = room(m, mx_tensor_bytes(&t));
    fill_floats(m, &t, rank > 1 ? 2 / sqrt((double)MX_MAX(fan, 1)) : 1);
    size_t bytes = mx_dtype_bytes(t.dtype);
    int64_t last = rank ? dims[rank - 1] : 1;
    if (rank && rng_one_in(&m->r, 6)) {   /* the same rows, two elements apart */
        int64_t wide[MX_MAX_RANK];
        memcpy(wide, t.dims, sizeof(wide));
        wide[rank - 1] += 2;
        mx_tensor apart = mx_tensor_of(t.dtype, rank, wide, NULL);
        apart.data = room(m, mx_tensor_bytes(&apart));
        apart.dims[rank - 1] -= 2;
        for (int64_t i = 0; i < mx_tensor_count(&t); i++)
            memcpy((char *)apart.data + (size_t)(i / last * (last + 2) + i % last) * bytes,
                   (char *)t.data + (size_t)i * bytes, bytes);
        t = apart;
    } else if (rng_one_in(&m->r, 6)) {
        char *odd = (char *)room(m, mx_tensor_bytes(&t) + 1) + 1;
        memcpy(odd, t.data, mx_tensor_bytes(&t));
        t.data = odd;
    }
    return add_leaf(m, mx_graph_weight(m->g, leaf_name(m, 'w'), rank, dims), RANDOM_VIEW, 0, &t);
}

mx_value maker_constant(maker *m, mxw_dtype dtype, int rank, const int64_t *dims, int64_t limit) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = room(m, mx_tensor_bytes(&t));
    if (dtype == MXW_F32)
        fill_floats(m, &t, 1);
    for (int64_t i = 0; dtype == MXW_I32 && i < mx_tensor_count(&t); i++)
        ((int32_t *)t.data)[i] = (int32_t)rng_below(&m->r, limit);
    for (int64_t i = 0; dtype == MXW_U8 && i < mx_tensor_count(&t); i++)
        ((uint8_t *)t.data)[i] = rng_one_in(&m->r, 4);
    return mx_graph_constant(m->g, NULL, &t);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void add_outputs(maker *m) {
    mx_graph *g = m->g;
    int n = 0;
    char name[16];
    for (size_t v = g->n_values; v-- > 1;) {
        int last = v == g->n_values - 1, leaf = g->values[v].kind != MX_RESULT;
        if (!last && !rng_one_in(&m->r, leaf ? 40 : 5))
            continue;
        snprintf(name, sizeof(name), "out%d", n++);
        mx_graph_output(g, name, (mx_value)v);
    }
}

void random_graph_make(uint64_t seed, random_graph *out) {
    static const char *const names[] = {"a", "b", "c"};
    memset(out, 0, sizeof(*out));
    maker m = {.to = out, .r = {seed}};
    if (mx_graph_create("random", &m.g) < 0)
        abort();
    out->graph = m.g;
    out->n_sizes = (int)rng_below(&m.r, RANDOM_SIZES + 1);
    for (int i = 0; i < out->n_sizes; i++)
        out->sizes[i] = mx_graph_size(m.g, names[i], 9);
    maker_begin(&m);
    for (int i = 0, n = 2 + (int)rng_below(&m.r, 9); i < n && m.g->n_nodes < MAKER_NODES; i++)
        maker_pattern(&m);
    add_outputs(&m);
    if (mx_graph_status(m.g) < 0) {
        printf("seed %llu: %s\n", (unsigned long long)seed, mx_graph_error(m.g));
        abort();
    }
}

void random_graph_free(random_graph *r) {
    mx_graph_destroy(r->graph);
    while (r->n_blocks)
        free(r->blocks[--r->n_blocks]);
}

mxw_status random_graph_weight(void *context, const char *name, mx_tensor *out) {
    const random_graph *r = context;
    mx_value value = mx_graph_find_leaf(r->graph, MX_WEIGHT, name);
    for (int i = 0; i < r->n_leaves; i++)
        if (r->leaves[i].value == value) {
            *out = r->leaves[i].view;
            return MXW_OK;
        }
    return mx_fail(MXW_E_MISSING, "tensor %s is not there", name);
}

static mx_value copy_leaf(mx_graph *to, const mx_value_info *info) {
    const mx_type *t = &info->type;
    if (info->kind == MX_INPUT)
        return mx_graph_input(to, info->name, t->dtype, t->rank, t->dims);
    if (info->kind == MX_STATE)
        return mx_graph_state(to, info->name, t->dtype, t->rank, t->dims);
    if (info->kind == MX_WEIGHT)
        return mx_graph_weight(to, info->name, t->rank, t->dims);
    mx_tensor c = mx_tensor_of_const(t->dtype, t->rank, t->dims, info->data);
    return mx_graph_constant(to, info->name, &c);
}

mx_graph *random_graph_copy(const random_graph *r, rng *some) {
    const mx_graph *from = r->graph;
    mx_graph *to;
    int dense = some ? (int)rng_below(some, 3) : 0;
    if (mx_graph_create(from->name, &to) < 0)
        abort();
    for (size_t i = 0; i < from->n_sizes; i++)
        mx_graph_size(to, from->sizes[i].name, from->sizes[i].max);
    for (size_t v = 1; v < from->n_values; v++) {
        const mx_value_info *info = &from->values[v];
        mx_value outputs[MX_MAX_OUTPUTS];
        char name[24];
        if (info->kind != MX_RESULT) {
            copy_leaf(to, info);
        } else if (info->output == 0) {
            const mx_node *node = &from->nodes[info->node];
            mx_graph_append(to, node->op, &node->attrs, node->inputs, node->n_inputs, outputs);
        }
        snprintf(name, sizeof(name), "v%zu", v);
        if (info->kind == MX_RESULT && to->n_values > v && (!some || rng_one_in(some, 1 + 2 * dense)))
            mx_graph_name(to, (mx_value)v, name);
    }
    for (size_t i = 0; i < from->n_outputs; i++)
        mx_graph_output(to, from->outputs[i].name, from->outputs[i].value);
    if (mx_graph_status(to) < 0 || to->n_values != from->n_values)
        abort();
    return to;
}
