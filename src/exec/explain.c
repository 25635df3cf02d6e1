/* exec/explain.c - prints a plan at given sizes, human-readable: passes, compiled graph, kernels, memory. */
#include "base/mem.h"
#include "exec/program.h"

static void print_kernels(const mx_run *run, mx_str *out) {
    const mx_graph *g = run->program->graph;
    const mx_plan *plan = run->program->plan;
    for (size_t n = 0; n < g->n_nodes; n++) {
        mx_value value = g->nodes[n].outputs[0];
        const mx_placement *place = &plan->placements[value];
        mx_str_print(out, "  %%%d %s: ", (int)value, mx_op_name(g->nodes[n].op));
        if (place->home == MX_HOME_NONE)
            mx_str_text(out, "made at load\n");
        else if (place->home == MX_HOME_VIEW)
            mx_str_print(out, "a view of %%%d\n", (int)place->of);
        else if (place->home == MX_HOME_STATE)
            mx_str_print(out, "%s, into the state\n", plan->device->kernel(plan->device, &run->instance->calls[n]));
        else
            mx_str_print(out, "%s, %zu bytes at %zu\n", plan->device->kernel(plan->device, &run->instance->calls[n]),
                         run->instance->bytes[value], run->instance->offsets[value]);
    }
}

/* Results of the source graph at these sizes, each with memory of its own. */
static mxw_status bytes_without_plan(const mx_run *run, mx_graph *source, size_t *total) {
    mx_run plain = *run;
    mx_program program = *run->program;
    mxw_status status = MXW_OK;
    program.graph = source;
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
        status = mx_run_resolve_sizes(&plain, node, &attrs);
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
    MX_TRY(mx_run_assume_sizes(run, sizes));
    MX_TRY(mx_compiled_specialize(run));
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
                 run->instance->arena_bytes, without);
    status = mx_str_status(out);
out:
    mx_run_close(run);
    return status;
}
