/* graph/graph.c - the graph itself: leaves, names, open sizes, and how a node is appended.
 * Invariants: values and nodes are only ever added; a name is unique; the first mistake is kept and every later call
 * returns 0. */
#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "graph/build.h"

mxw_status mx_graph_create(const char *name, mx_graph **out) {
    *out = NULL;
    mx_graph *g = mx_alloc_zero(1, sizeof(*g));
    if (!g)
        return MXW_E_MEMORY;
    g->name = mx_arena_strdup(&g->arena, name ? name : "graph");
    atomic_store(&g->holders, 1);
    if (!g->name || mx_grow(&g->values, &g->room_values, 64, sizeof(*g->values)) < 0) {
        mx_graph_destroy(g);
        return MXW_E_MEMORY;
    }
    g->n_values = 1;
    memset(&g->values[0], 0, sizeof(g->values[0]));
    *out = g;
    return MXW_OK;
}

/* Programs read a graph; only the count of its references changes. */
mx_graph *mx_graph_hold(const mx_graph *g) {
    mx_graph *held = (mx_graph *)(uintptr_t)g;
    atomic_fetch_add(&held->holders, 1);
    return held;
}

void mx_graph_destroy(mx_graph *g) {
    if (!g || atomic_fetch_sub(&g->holders, 1) > 1)
        return;
    mx_free(g->values);
    mx_free(g->nodes);
    mx_free(g->sizes);
    mx_free(g->names);
    mx_free(g->outputs);
    mx_str_free(&g->text);
    mx_arena_free(&g->arena);
    mx_free(g);
}

mxw_status mx_graph_status(const mx_graph *g) { return g->status; }
const char *mx_graph_error(const mx_graph *g) { return g->error; }

mx_value mx_graph_refuse(mx_graph *g, const char *format, ...) {
    if (g->status >= 0) {
        va_list list;
        va_start(list, format);
        vsnprintf(g->error, sizeof(g->error), format, list);
        va_end(list);
        g->status = mx_fail(MXW_E_ARGUMENT, "graph %s: %s", g->name, g->error);
    }
    return 0;
}

mx_value mx_graph_refuse_status(mx_graph *g, mxw_status status) {
    if (g->status >= 0) {
        g->status = status;
        snprintf(g->error, sizeof(g->error), "%s", mx_error());
        mx_fail_in(status, "graph %s", g->name);
    }
    return 0;
}

int mx_graph_ready(mx_graph *g) {
    if (g->status >= 0 && atomic_load(&g->holders) > 1)
        mx_graph_refuse(g, "a program was made of it: expected no more values");
    return g->status >= 0;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

static const mx_named *find_named(const mx_named *list, size_t n, const char *name) {
    uint32_t hash = hash_of(name);
    for (size_t i = 0; i < n; i++)
        if (list[i].hash == hash && strcmp(list[i].name, name) == 0)
            return &list[i];
    return NULL;
}

static mxw_status add_named(mx_graph *g, mx_named **list, size_t *n, size_t *room, const char *name, mx_value value) {
    mxw_status status = mx_grow(list, room, *n + 1, sizeof(**list));
    if (status < 0)
        return status;
    const char *copy = mx_arena_strdup(&g->arena, name);
    if (!copy)
        return MXW_E_MEMORY;
    (*list)[(*n)++] = (mx_named){copy, value, hash_of(name)};
    return MXW_OK;
}

/* Adds a name that taps see. */
static int give_name(mx_graph *g, const char *name, mx_value value) {
    const mx_named *other = find_named(g->names, g->n_names, name);
    if (other) {
        mx_graph_refuse(g, "name %s: already given to %%%d: expected another", name, (int)other->value);
        return 0;
    }
    mxw_status status = add_named(g, &g->names, &g->n_names, &g->room_names, name, value);
    if (status < 0)
        mx_graph_refuse_status(g, status);
    return status >= 0;
}

static int is_value(const mx_graph *g, mx_value value) { return value > 0 && (size_t)value < g->n_values; }

mx_value mx_graph_name(mx_graph *g, mx_value value, const char *name) {
    if (!mx_graph_ready(g) || value == 0)
        return 0;
    if (!is_value(g, value))
        return mx_graph_refuse(g, "name: %d is no value of the graph", (int)value);
    if (!name || !*name)
        return mx_graph_refuse(g, "name of %%%d: expected a text", (int)value);
    return give_name(g, name, value) ? value : 0;
}

mxw_status mx_graph_output(mx_graph *g, const char *name, mx_value value) {
    mxw_status status;
    int named = 0;
    if (!mx_graph_ready(g))
        return g->status;
    if (!name || !*name)
        mx_graph_refuse(g, "output: expected a name");
    else if (!is_value(g, value))
        mx_graph_refuse(g, "output %s: %d is no value of the graph", name, (int)value);
    else if (find_named(g->outputs, g->n_outputs, name))
        mx_graph_refuse(g, "output %s: declared twice: expected each name once", name);
    if (g->status < 0)
        return g->status;
    status = add_named(g, &g->outputs, &g->n_outputs, &g->room_outputs, name, value);
    if (status < 0)
        mx_graph_refuse_status(g, status);
    for (size_t i = 0; i < g->n_names && !named; i++)
        named = g->names[i].value == value;
    if (!named && g->status >= 0 && !find_named(g->names, g->n_names, name))
        give_name(g, name, value);
    return g->status;
}

mx_value mx_graph_find_leaf(const mx_graph *g, mx_kind kind, const char *name) {
    const mx_named *found = find_named(g->names, g->n_names, name);
    return found && g->values[found->value].kind == kind ? found->value : -1;
}

int mx_graph_find_output(const mx_graph *g, const char *name) {
    const mx_named *found = find_named(g->outputs, g->n_outputs, name);
    return found ? (int)(found - g->outputs) : -1;
}

const char *mx_graph_value_name(const mx_graph *g, mx_value value) {
    for (size_t i = 0; i < g->n_names; i++)
        if (g->names[i].value == value)
            return g->names[i].name;
    return NULL;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static const char *size_name(const void *context, int64_t dim) {
    const mx_graph *g = context;
    return dim <= -2 && dim != MX_DIM_ANY && MX_DIM_INDEX(dim) < g->n_sizes ? g->sizes[MX_DIM_INDEX(dim)].name : NULL;
}

mx_size_names mx_graph_size_names(const mx_graph *g) { return (mx_size_names){size_name, g}; }

int64_t mx_graph_size(mx_graph *g, const char *name, int64_t max) {
    if (!mx_graph_ready(g))
        return 0;
    if (!name || !*name)
        return mx_graph_refuse(g, "size: expected a name");
    if (max < 1 || max > MX_MAX_ELEMENTS)
        return mx_graph_refuse(g, "size %s: at most %lld: expected 1 to 2^44", name, (long long)max);
    for (size_t i = 0; i < g->n_sizes; i++)
        if (strcmp(g->sizes[i].name, name) == 0) {
            if (g->sizes[i].max == max)
                return MX_DIM_OPEN(i);
            return mx_graph_refuse(g, "size %s: at most %lld: expected %lld as before", name, (long long)max,
                                   (long long)g->sizes[i].max);
        }
    mxw_status status = mx_grow(&g->sizes, &g->room_sizes, g->n_sizes + 1, sizeof(*g->sizes));
    const char *copy = status < 0 ? NULL : mx_arena_strdup(&g->arena, name);
    if (!copy)
        return mx_graph_refuse_status(g, MXW_E_MEMORY);
    g->sizes[g->n_sizes++] = (mx_size){copy, max};
    return MX_DIM_OPEN(g->n_sizes - 1);
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

static const char *const kind_names[] = {"", "input", "constant", "weight", "state", "result"};

static int check_type(mx_graph *g, const char *what, const char *name, mxw_dtype dtype, int rank, const int64_t *dims,
                      mx_type *type) {
    if (!mx_dtype_in_graphs(dtype))
        return mx_graph_refuse(g, "%s %s: dtype %d is unknown", what, name, (int)dtype);
    if (rank < 0 || rank > MX_MAX_RANK || (rank && !dims))
        return mx_graph_refuse(g, "%s %s: %d axes: expected 0 to %d", what, name, rank, MX_MAX_RANK);
    *type = (mx_type){.dtype = dtype, .rank = rank};
    mx_type known = *type;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0 && !size_name(g, dims[i]))
            return mx_graph_refuse(g, "%s %s: size %d is %lld: expected 0 or more, or an open size of this graph", what,
                                   name, i, (long long)dims[i]);
        type->dims[i] = dims[i];
        known.dims[i] = dims[i] < 0 ? 1 : dims[i];
    }
    if (mx_type_count(&known) < 0)
        return mx_graph_refuse(g, "%s %s: too large: expected at most 2^44 elements", what, name);
    return 1;
}

static mx_value add_value(mx_graph *g, const mx_value_info *info) {
    if (g->n_values >= INT32_MAX || mx_grow(&g->values, &g->room_values, g->n_values + 1, sizeof(*g->values)) < 0)
        return mx_graph_refuse_status(g, MXW_E_MEMORY);
    g->values[g->n_values] = *info;
    return (mx_value)g->n_values++;
}

static mx_value add_leaf(mx_graph *g, mx_kind kind, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    const char *what = kind_names[kind];
    mx_value_info info = {.kind = kind};
    if (!mx_graph_ready(g))
        return 0;
    if (!name || !*name)
        return mx_graph_refuse(g, "%s: expected a name", what);
    if (!check_type(g, what, name, dtype, rank, dims, &info.type))
        return 0;
    if (kind == MX_WEIGHT)
        for (int i = 0; i < rank; i++)
            if (dims[i] < 0)
                return mx_graph_refuse(g, "%s %s: size %d is open: expected a number", what, name, i);
    const mx_named *other = find_named(g->names, g->n_names, name);
    if (other)
        return mx_graph_refuse(g, "%s %s: the name is taken by %%%d: expected another", what, name, (int)other->value);
    mx_value value = add_value(g, &info);
    if (!value || !give_name(g, name, value))
        return 0;
    g->values[value].name = g->names[g->n_names - 1].name;
    g->values[value].state = kind == MX_STATE ? value : 0;
    return value;
}

mx_value mx_graph_input(mx_graph *g, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    return add_leaf(g, MX_INPUT, name, dtype, rank, dims);
}

/* A leaf of the same name and type is the same value. */
static mx_value same_leaf(mx_graph *g, mx_kind kind, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    const mx_named *same = name && g->status >= 0 ? find_named(g->names, g->n_names, name) : NULL;
    if (same && rank >= 0 && rank <= MX_MAX_RANK && dims) {
        const mx_value_info *info = &g->values[same->value];
        if (info->kind == kind && info->type.dtype == dtype && info->type.rank == rank &&
            memcmp(info->type.dims, dims, (size_t)rank * sizeof(*dims)) == 0)
            return same->value;
    }
    return add_leaf(g, kind, name, dtype, rank, dims);
}

mx_value mx_graph_state(mx_graph *g, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    return same_leaf(g, MX_STATE, name, dtype, rank, dims);
}

mx_value mx_graph_weight(mx_graph *g, const char *name, int rank, const int64_t *dims) {
    return same_leaf(g, MX_WEIGHT, name, MXW_F32, rank, dims);
}

static mx_value add_constant(mx_graph *g, const char *name, const mx_tensor *tensor, int copied) {
    mx_value_info info = {.kind = MX_CONSTANT};
    const char *shown = name && *name ? name : "(unnamed)";
    if (!mx_graph_ready(g))
        return 0;
    if (!tensor)
        return mx_graph_refuse(g, "constant %s: expected data", shown);
    if (!check_type(g, "constant", shown, tensor->dtype, tensor->rank, tensor->dims, &info.type))
        return 0;
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dims[i] < 0)
            return mx_graph_refuse(g, "constant %s: size %d is open: expected a number", shown, i);
    if (!tensor->data && mx_tensor_count(tensor) > 0)
        return mx_graph_refuse(g, "constant %s: expected data", shown);
    info.data = tensor->data;
    if (copied) {
        void *data = mx_arena_alloc(&g->arena, MX_MAX(mx_tensor_bytes(tensor), 1));
        if (!data)
            return mx_graph_refuse_status(g, MXW_E_MEMORY);
        mx_tensor_pack(tensor, data);
        info.data = data;
    }
    mx_value value = add_value(g, &info);
    if (value && name && *name) {
        if (!give_name(g, name, value))
            return 0;
        g->values[value].name = g->names[g->n_names - 1].name;
    }
    return value;
}

mx_value mx_graph_constant(mx_graph *g, const char *name, const mx_tensor *tensor) {
    return add_constant(g, name, tensor, 1);
}

mx_value mx_graph_borrow(mx_graph *g, const char *name, const mx_tensor *tensor) {
    return add_constant(g, name, tensor, 0);
}

mxw_status mx_graph_resolve(const mx_graph *g, mx_value weight, const mx_weight_source *source, mx_tensor *out) {
    const mx_value_info *info = &g->values[weight];
    char got[128], want[128];
    *out = (mx_tensor){0};
    if (!source)
        return mx_fail(MXW_E_MISSING, "weight %s: the program was given no weights", info->name);
    mxw_status status = source->find(source->context, info->name, out);
    if (status < 0)
        return status;
    int fits = out->rank == info->type.rank;
    for (int i = 0; i < info->type.rank && fits; i++)
        fits = out->dims[i] == info->type.dims[i];
    if (fits && (mx_dtype_is_float(out->dtype) || out->dtype == MXW_I8))
        return MXW_OK;
    mx_tensor_describe(out, got, sizeof(got));
    return mx_fail(MXW_E_FORMAT, "weight %s is %s: expected %s", info->name, got,
                   mx_type_text(&info->type, NULL, want, sizeof(want)));
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static mx_node *add_node(mx_graph *g, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n_inputs) {
    if (mx_grow(&g->nodes, &g->room_nodes, g->n_nodes + 1, sizeof(*g->nodes)) < 0)
        return NULL;
    mx_node *node = &g->nodes[g->n_nodes];
    *node = (mx_node){.op = op, .attrs = *attrs, .n_inputs = n_inputs, .n_outputs = mx_op_outputs(op)};
    node->inputs = mx_arena_alloc(&g->arena, (size_t)n_inputs * sizeof(*inputs));
    if (!node->inputs)
        return NULL;
    memcpy(node->inputs, inputs, (size_t)n_inputs * sizeof(*inputs));
    g->n_nodes++;
    return node;
}

mx_value mx_graph_append(mx_graph *g, mx_op op, const mx_attrs *attrs, const mx_value *inputs, int n_inputs,
                         mx_value *outputs) {
    const mx_type *types[MX_MAX_INPUTS];
    mx_type results[MX_MAX_OUTPUTS];
    memset(outputs, 0, (size_t)mx_op_outputs(op) * sizeof(*outputs));
    if (!mx_graph_ready(g))
        return 0;
    if (n_inputs < 1 || n_inputs > MX_MAX_INPUTS)
        return mx_graph_refuse(g, "%s: %d inputs: expected 1 to %d", mx_op_name(op), n_inputs, MX_MAX_INPUTS);
    for (int i = 0; i < n_inputs; i++) {
        int optional = op != MX_OP_CONCAT && i >= mx_op_least_inputs(op);
        if (!is_value(g, inputs[i]) && !(inputs[i] == 0 && optional))
            return mx_graph_refuse(g, "%s: input %d is %d: expected a value of the graph", mx_op_name(op), i,
                                   (int)inputs[i]);
        types[i] = inputs[i] ? &g->values[inputs[i]].type : NULL;
    }
    mx_size_names names = mx_graph_size_names(g);
    mxw_status status = mx_op_infer(op, attrs, n_inputs, types, results, &names);
    if (status < 0)
        return mx_graph_refuse_status(g, status);
    mx_node *node = add_node(g, op, attrs, inputs, n_inputs);
    if (!node)
        return mx_graph_refuse_status(g, MXW_E_MEMORY);
    for (int i = 0; i < node->n_outputs; i++) {
        mx_value_info info = {.kind = MX_RESULT, .type = results[i], .node = (int32_t)(g->n_nodes - 1), .output = i};
        info.state = op == MX_OP_STATE_WRITE ? g->values[inputs[0]].state : 0;
        outputs[i] = node->outputs[i] = add_value(g, &info);
        if (!outputs[i])
            return 0;
    }
    return outputs[0];
}
