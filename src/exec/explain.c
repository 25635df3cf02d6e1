/* exec/explain.c - a plan at sizes that nobody has bound: its memory taken ahead; and shown to people, with its passes,
 * kernels and memory. */
#include "base/mem.h"
#include "exec/program.h"

#include <stdlib.h>
#include <string.h>

/* One "name=number" of the question; *at goes behind it and its comma. */
static mxw_status read_size(mx_run *run, const char **at) {
    const mx_graph *g = run->program->graph;
    size_t n = strcspn(*at, "=,"), index = 0;
    while (index < g->n_sizes && (strlen(g->sizes[index].name) != n || memcmp(g->sizes[index].name, *at, n) != 0))
        index++;
    if (index == g->n_sizes)
        return mx_fail(MXW_E_ARGUMENT, "graph %s has no open size %.*s", g->name, (int)n, *at);
    const char *text = *at + n + ((*at)[n] == '=');
    char *end;
    long long number = strtoll(text, &end, 10);
    if (end == text || (*end && *end != ',') || number < 0 || number > g->sizes[index].max)
        return mx_fail(MXW_E_ARGUMENT, "size %s is %.*s: expected 0 to %lld", g->sizes[index].name,
                       (int)strcspn(text, ","), text, (long long)g->sizes[index].max);
    run->sizes[index] = number;
    *at = *end ? end + 1 : end;
    return MXW_OK;
}

/* Leaves with the sizes of the question and no data: enough to lay a plan out. */
static mxw_status assume(mx_run *run, const char *sizes) {
    const mx_graph *g = run->program->graph;
    for (size_t i = 0; i < g->n_sizes; i++)
        run->sizes[i] = 1;
    while (sizes && *sizes) {
        mxw_status status = read_size(run, &sizes);
        if (status < 0)
            return status;
    }
    for (size_t i = 1; i < g->n_values; i++) {
        mx_type t = g->values[i].type;
        if (g->values[i].kind == MX_RESULT)
            continue;
        for (int d = 0; d < t.rank; d++)
            t.dims[d] = t.dims[d] < 0 ? run->sizes[MX_DIM_INDEX(t.dims[d])] : t.dims[d];
        run->values[i] = mx_tensor_of(t.dtype, t.rank, t.dims, NULL);
    }
    return MXW_OK;
}

/* Of every input that the caller will bring, each in a buffer of its own. */
static mxw_status reserve_inputs(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_device *device = run->program->device;
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < run->n_buffers; i++)
        run->buffers[i].uses = 0;
    for (size_t i = 1; i < g->n_values && status >= 0 && !device->host_memory; i++) {
        mx_binding *b = &run->bindings[i];
        size_t bytes = mx_tensor_bytes(&run->values[i]);
        if (g->values[i].kind != MX_INPUT || b->from)
            continue;
        if (b->held)
            status = mx_run_room(device, &b->block, &b->block_bytes, bytes, g->values[i].name);
        else
            status = mx_run_take(run, (mx_value)i, bytes, &run->values[i].data);
    }
    return status;
}

mxw_status mx_run_reserve(mx_run *run, const char *sizes) {
    if (!run->program->plan)
        return MXW_OK;
    mxw_status status = assume(run, sizes);
    if (status >= 0)
        status = mx_compiled_lay_out(run);
    if (status >= 0)
        status = reserve_inputs(run);
    return status < 0 ? mx_fail_in(status, "graph %s", run->program->graph->name) : status;
}

static void print_kernels(const mx_run *run, mx_str *out) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (size_t n = 0; n < g->n_nodes; n++) {
        mx_value value = g->nodes[n].outputs[0];
        const mx_place *place = &plan->places[value];
        mx_str_print(out, "  %%%d %s: ", (int)value, mx_op_name(g->nodes[n].op));
        if (place->home == MX_HOME_NONE)
            mx_str_text(out, "made at load\n");
        else if (place->home == MX_HOME_VIEW)
            mx_str_print(out, "a view of %%%d\n", (int)place->of);
        else if (place->home == MX_HOME_STATE)
            mx_str_print(out, "%s, into the state\n", plan->device->kernel(plan->device, &run->layout->calls[n]));
        else
            mx_str_print(out, "%s, %zu bytes at %zu\n", plan->device->kernel(plan->device, &run->layout->calls[n]),
                         run->layout->bytes[value], run->layout->offsets[value]);
    }
}

/* Results of the source graph at these sizes, each with memory of its own. */
static mxw_status bytes_without_plan(const mx_run *run, const mx_graph *source, size_t *total) {
    mx_run plain = *run;
    mx_program program = *run->program;
    mxw_status status = MXW_OK;
    program.graph = (mx_graph *)(uintptr_t)source;
    plain.program = &program;
    mx_type *types = mx_alloc_zero(source->n_values, sizeof(*types));
    *total = 0;
    if (!types)
        return MXW_E_MEMORY;
    for (size_t i = 1; i < source->n_values; i++) {
        types[i] = source->values[i].type;
        for (int d = 0; d < types[i].rank; d++)
            if (types[i].dims[d] < 0 && types[i].dims[d] != MX_DIM_ANY)
                types[i].dims[d] = run->sizes[MX_DIM_INDEX(types[i].dims[d])];
    }
    for (size_t n = 0; n < source->n_nodes && status >= 0; n++) {
        const mx_node *node = &source->nodes[n];
        const mx_type *in[MX_MAX_INPUTS];
        mx_type results[MX_MAX_OUTPUTS];
        mx_attrs attrs;
        for (int i = 0; i < node->n_inputs; i++)
            in[i] = node->inputs[i] ? &types[node->inputs[i]] : NULL;
        status = mx_run_settle(&plain, node, &attrs);
        if (status >= 0)
            status = mx_op_infer(node->op, &attrs, node->n_inputs, in, results, NULL);
        for (int i = 0; i < node->n_outputs && status >= 0; i++) {
            types[node->outputs[i]] = results[i];
            if (!source->values[node->outputs[i]].state)
                *total += (size_t)mx_type_count(&results[i]) * mx_dtype_bytes(results[i].dtype);
        }
    }
    mx_free(types);
    return status;
}

static void print_constants(const mx_plan *plan, mx_str *out) {
    static const char *const forms[] = {[MX_FORM_F32] = "f32", [MX_FORM_RAW] = "raw", [MX_FORM_PACKED] = "packed"};
    size_t counts[3] = {0}, in_place = 0;
    for (size_t i = 0; i < plan->n_constants; i++) {
        counts[plan->constants[i].form]++;
        in_place += plan->constants[i].block == NULL;
    }
    mx_str_text(out, "constant inputs:");
    for (int f = 0; f < 3; f++)
        mx_str_print(out, " %zu %s,", counts[f], forms[f]);
    mx_str_print(out, " %zu of them used where they lie\n", in_place);
}

mxw_status mx_exec_explain(const mx_program *program, const char *sizes, mx_str *out) {
    mxw_status status;
    mx_run *run = NULL;
    size_t without;
    if (!program->plan)
        return MXW_OK;
    MX_TRY(mx_run_open(program, NULL, &run));
    MX_TRY(assume(run, sizes));
    MX_TRY(mx_compiled_lay_out(run));
    MX_TRY(bytes_without_plan(run, program->source, &without));
    mx_str_print(out, "compiled for %s: %zu nodes", program->device->info.id, program->source->n_nodes);
    for (size_t i = 0; i < program->plan->n_notes; i++)
        mx_str_print(out, ", %s %zu", program->plan->notes[i].pass, program->plan->notes[i].n_nodes);
    mx_str_text(out, "\n");
    MX_TRY(mx_graph_print(program->graph, out));
    mx_str_print(out, "plan at %s\n", sizes && *sizes ? sizes : "every open size 1");
    print_kernels(run, out);
    print_constants(program->plan, out);
    mx_str_print(out, "memory of results: %zu bytes in one arena; %zu bytes without the plan\n",
                 run->layout->arena_bytes, without);
    status = mx_str_status(out);
out:
    mx_run_close(run);
    return status;
}
