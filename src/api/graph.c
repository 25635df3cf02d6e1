/* api/graph.c - the public graph API, over graph/ and exec/. */
#include "api/api.h"
#include "base/base.h"
#include "exec/exec.h"
#include "graph/build.h"
#include "graph/graph.h"

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

mxw_status mxw_graph_create(const char *name, mxw_graph **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_graph_create(name, out);
}

void mxw_graph_destroy(mxw_graph *graph) { mx_graph_destroy(graph); }

mxw_status mxw_graph_status(const mxw_graph *graph) {
    MX_NEED(graph, MXW_E_ARGUMENT);
    return mx_graph_status(graph);
}

const char *mxw_graph_error(const mxw_graph *graph) { return graph ? mx_graph_error(graph) : "graph is NULL"; }

mxw_status mxw_graph_print(mxw_graph *graph, const char **text) {
    MX_NEED(graph, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    mx_str_clear(&graph->text);
    mxw_status status = mx_graph_print(graph, &graph->text);
    *text = mx_str_get(&graph->text);
    return status;
}

int64_t mxw_graph_size(mxw_graph *graph, const char *name, int64_t max) {
    MX_NEED(graph, 0);
    return mx_graph_size(graph, name, max);
}

mxw_value mxw_graph_input(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    MX_NEED(graph, 0);
    return mx_graph_input(graph, name, dtype, rank, dims);
}

/* Tensor i of an array whose elements have the size that the caller's header says; copied over zeros. */
static mxw_status take_tensor(const mxw_tensor *array, int i, mxw_tensor *tensor) {
    *tensor = (mxw_tensor){0};
    const size_t size = array->struct_size;
    return mx_take_options(tensor, sizeof(*tensor), (const char *)array + (size_t)i * size, size, "mxw_tensor");
}

/* Row-major strides, but only of sizes that are possible; others go on as they are, for the graph or run to refuse. */
static mx_tensor view_of(const mxw_tensor *tensor) {
    mx_tensor view = {.dtype = tensor->dtype, .rank = tensor->rank, .data = tensor->data};
    mx_type type = {.dtype = tensor->dtype, .rank = tensor->rank};
    int possible = tensor->rank >= 0 && tensor->rank <= MX_MAX_RANK;
    memcpy(view.dims, tensor->dims, sizeof(view.dims));
    memcpy(type.dims, tensor->dims, sizeof(type.dims));
    for (int i = 0; possible && i < tensor->rank; i++)
        possible = tensor->dims[i] >= 0;
    if (possible && mx_type_count(&type) >= 0)
        view = mx_tensor_of(tensor->dtype, tensor->rank, tensor->dims, tensor->data);
    return view;
}

mxw_value mxw_graph_constant(mxw_graph *graph, const char *name, const mxw_tensor *tensor) {
    mxw_tensor full;
    MX_NEED(graph, 0);
    if (!tensor)
        return mx_graph_constant(graph, name, NULL);
    if (take_tensor(tensor, 0, &full) < 0)
        return mx_graph_refuse(graph, "constant %s: %s", name ? name : "", mx_error());
    mx_tensor view = view_of(&full);
    return mx_graph_constant(graph, name, &view);
}

mxw_value mxw_graph_state(mxw_graph *graph, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    MX_NEED(graph, 0);
    return mx_graph_state(graph, name, dtype, rank, dims);
}

mxw_status mxw_graph_output(mxw_graph *graph, const char *name, mxw_value value) {
    MX_NEED(graph, MXW_E_ARGUMENT);
    return mx_graph_output(graph, name, value);
}

/* The builders check everything but the graph itself. */
#define BUILDER(name, parameters, arguments)                                                                           \
    mxw_value mxw_graph_##name parameters {                                                                            \
        MX_NEED(g, 0);                                                                                                 \
        return mx_graph_##name arguments;                                                                              \
    }

BUILDER(matmul, (mxw_graph * g, mxw_value a, mxw_value b), (g, a, b))
BUILDER(linear, (mxw_graph * g, mxw_value x, mxw_value weight, mxw_value bias), (g, x, weight, bias))
BUILDER(transpose, (mxw_graph * g, mxw_value x), (g, x))
BUILDER(permute, (mxw_graph * g, mxw_value x, const int *axes), (g, x, axes))
BUILDER(reshape, (mxw_graph * g, mxw_value x, int rank, const int64_t *dims), (g, x, rank, dims))
BUILDER(add, (mxw_graph * g, mxw_value a, mxw_value b), (g, a, b))
BUILDER(sub, (mxw_graph * g, mxw_value a, mxw_value b), (g, a, b))
BUILDER(mul, (mxw_graph * g, mxw_value a, mxw_value b), (g, a, b))
BUILDER(div, (mxw_graph * g, mxw_value a, mxw_value b), (g, a, b))
BUILDER(layer_norm, (mxw_graph * g, mxw_value x, mxw_value gamma, mxw_value beta, double eps), (g, x, gamma, beta, eps))
BUILDER(gelu, (mxw_graph * g, mxw_value x, mxw_gelu_kind kind), (g, x, kind))
BUILDER(softmax, (mxw_graph * g, mxw_value x), (g, x))
BUILDER(slice, (mxw_graph * g, mxw_value x, int axis, int64_t start, int64_t stop, int64_t step),
        (g, x, axis, start, stop, step))
BUILDER(concat, (mxw_graph * g, const mxw_value *values, int n, int axis), (g, values, n, axis))
BUILDER(gather, (mxw_graph * g, mxw_value table, mxw_value index), (g, table, index))
BUILDER(cast, (mxw_graph * g, mxw_value x, mxw_dtype dtype), (g, x, dtype))
BUILDER(reduce, (mxw_graph * g, mxw_value x, mxw_reduce_kind kind, int axis), (g, x, kind, axis))
BUILDER(argmax, (mxw_graph * g, mxw_value x), (g, x))
BUILDER(conv1d, (mxw_graph * g, mxw_value x, mxw_value weight, mxw_value bias, int stride, int pad),
        (g, x, weight, bias, stride, pad))
BUILDER(conv1d_dilated,
        (mxw_graph * g, mxw_value x, mxw_value weight, mxw_value bias, int stride, int pad, int dilation),
        (g, x, weight, bias, stride, pad, dilation))
BUILDER(conv2d,
        (mxw_graph * g, mxw_value x, mxw_value weight, mxw_value bias, const int stride[2], const int pad[2]),
        (g, x, weight, bias, stride, pad))
BUILDER(attention, (mxw_graph * g, mxw_value q, mxw_value k, mxw_value v, int heads, double scale, int causal),
        (g, q, k, v, heads, scale, causal))
BUILDER(attention_cached,
        (mxw_graph * g, mxw_value q, mxw_value k, mxw_value v, mxw_value seq, mxw_value pos, mxw_value cells, int heads,
         double scale),
        (g, q, k, v, seq, pos, cells, heads, scale))
BUILDER(attention_window,
        (mxw_graph * g, mxw_value q, mxw_value k, mxw_value v, mxw_value window, int heads, double scale),
        (g, q, k, v, window, heads, scale))
BUILDER(attention_scores,
        (mxw_graph * g, mxw_value q, mxw_value k, mxw_value head, mxw_value window, int heads, double scale),
        (g, q, k, head, window, heads, scale))
BUILDER(state_write, (mxw_graph * g, mxw_value state, mxw_value x, mxw_value index), (g, state, x, index))

#define MX_ELEMENTWISE(id, name, ...) BUILDER(name, (mxw_graph * g, mxw_value x), (g, x))
#define MX_ELEMENTWISE_WITH(id, name, parameter, ...)                                                                  \
    BUILDER(name, (mxw_graph * g, mxw_value x, double parameter), (g, x, parameter))
#include "op/elementwise.def"

mxw_status mxw_graph_top_k(mxw_graph *g, mxw_value x, int64_t k, mxw_value out[2]) {
    MX_NEED(g, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_graph_top_k(g, x, k, out);
}

mxw_status mxw_graph_lstm(mxw_graph *g, mxw_value x, mxw_value weight_ih, mxw_value weight_hh, mxw_value bias_ih,
                          mxw_value bias_hh, mxw_value h0, mxw_value c0, mxw_lstm_direction direction,
                          mxw_value out[3]) {
    MX_NEED(g, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    return mx_graph_lstm(g, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, direction, out);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

struct mxw_program {
    mx_pool *pool;
    mx_program *program;
    mx_state *state;
    mx_run *run;
    const mx_graph *graph;
};

void (mxw_program_options_default)(mxw_program_options *options, size_t struct_size) {
    const mxw_program_options full = {.engine = MXW_ENGINE_MAX, .device = "auto"};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status read_options(const mxw_program_options *options, mxw_program_options *read) {
    mxw_status status = MXW_OK;
    mxw_program_options_default(read);
    if (options)
        status = mx_take_options(read, sizeof(*read), options, options->struct_size, "mxw_program_options");
    if (status >= 0 && read->threads < 0)
        status = mx_fail(MXW_E_ARGUMENT, "mxw_program_options: threads is %d: expected 0 or more", read->threads);
    if (status >= 0 && (read->precision < MXW_PRECISION_EXACT || read->precision > MXW_PRECISION_F8))
        status = mx_fail(MXW_E_ARGUMENT, "mxw_program_options: precision is %d: expected exact, f16, int8 or f8",
                         (int)read->precision);
    return status;
}

static mxw_status add_states(mxw_program *p) {
    for (size_t i = 1; i < p->graph->n_values; i++) {
        const mx_value_info *info = &p->graph->values[i];
        if (info->kind != MX_STATE)
            continue;
        for (int d = 0; d < info->type.rank; d++)
            if (info->type.dims[d] < 0)
                return mx_fail(MXW_E_ARGUMENT, "state %s: size %d is open: expected a number", info->name, d);
        mxw_status status = mx_state_add(p->state, info->name, info->type.dtype, info->type.rank, info->type.dims);
        if (status < 0)
            return status;
    }
    return MXW_OK;
}

mxw_status mxw_program_compile(const mxw_graph *graph, const mxw_program_options *options, mxw_program **out) {
    mxw_status status;
    mxw_program_options read;
    mxw_program *p = NULL;
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    MX_NEED(graph, MXW_E_ARGUMENT);
    MX_TRY(read_options(options, &read));
    p = mx_alloc_zero(1, sizeof(*p));
    if (!p)
        return MXW_E_MEMORY;
    p->graph = graph;
    MX_TRY(mx_pool_open(read.threads, &p->pool));
    mx_program_options load = {.engine = read.engine, .device = read.device, .pool = p->pool,
                               .precision = read.precision};
    MX_TRY(mx_exec_load(graph, &load, &p->program));
    MX_TRY(mx_state_open(p->program, &p->state));
    MX_TRY(add_states(p));
    MX_TRY(mx_run_open(p->program, p->state, &p->run));
    *out = p;
    return MXW_OK;
out:
    mxw_program_destroy(p);
    return status;
}

void mxw_program_destroy(mxw_program *program) {
    if (!program)
        return;
    mx_run_close(program->run);
    mx_state_close(program->state);
    mx_exec_unload(program->program);
    mx_pool_close(program->pool);
    mx_free(program);
}

static mxw_status bind_inputs(mxw_program *p, const mxw_tensor *inputs, int n_inputs) {
    int n = 0;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < p->graph->n_values && status >= 0; i++) {
        const mx_value_info *info = &p->graph->values[i];
        if (info->kind != MX_INPUT || n++ >= n_inputs)
            continue;
        mxw_tensor full;
        status = take_tensor(inputs, n - 1, &full);
        if (status < 0)
            return status;
        mx_tensor view = view_of(&full);
        status = mx_run_input(p->run, info->name, &view);
    }
    if (status >= 0 && n != n_inputs)
        return mx_fail(MXW_E_ARGUMENT, "graph %s takes %d inputs, not %d", p->graph->name, n, n_inputs);
    return status;
}

/* To element i of an array whose elements have the size that the caller's header says. */
static mxw_status give_tensor(const mx_tensor *t, mxw_tensor *array, size_t i) {
    mxw_tensor full = {.dtype = t->dtype, .rank = t->rank, .data = t->data};
    const size_t size = array->struct_size;
    memcpy(full.dims, t->dims, sizeof(t->dims));
    if (i > 0)
        memcpy((char *)array + i * size, &size, sizeof(size));
    return mx_give((char *)array + i * size, size, &full, sizeof(full), "mxw_tensor");
}

mxw_status mxw_program_execute(mxw_program *program, const mxw_tensor *inputs, int n_inputs, mxw_tensor *outputs,
                               int n_outputs) {
    MX_NEED(program, MXW_E_ARGUMENT);
    if ((n_inputs && !inputs) || (n_outputs && !outputs) || n_inputs < 0)
        return mx_fail(MXW_E_ARGUMENT, "mxw_program_execute: inputs or outputs are NULL");
    const mx_graph *g = program->graph;
    if ((size_t)n_outputs != g->n_outputs)
        return mx_fail(MXW_E_ARGUMENT, "graph %s gives %zu outputs, not %d", g->name, g->n_outputs, n_outputs);
    mxw_status status = bind_inputs(program, inputs, n_inputs);
    if (status >= 0)
        status = mx_run_execute(program->run);
    for (size_t i = 0; i < g->n_outputs && status >= 0; i++) {
        mx_tensor t;
        status = mx_run_output(program->run, g->outputs[i].name, &t);
        if (status < 0)
            break;
        status = give_tensor(&t, outputs, i);
    }
    return status;
}
