/* compile/compile.c - runs the passes in order, then finds a home for every value. */
#include "compile/compile.h"
#include "compile/rewrite.h"

#include <string.h>

static const struct {
    const char *name;
    mx_pass_fn fn;
} passes[] = {
    {"canonical", mx_pass_canonical},   /* one way to write each thing */
    {"fold", mx_pass_fold},             /* what only constants feed is a constant */
    {"common", mx_pass_common},         /* what is computed twice is computed once */
    {"dead", mx_pass_dead},             /* unread values are not computed; also run after each of the others */
    {"promote", mx_pass_promote},       /* linear, conv1d -> the ops that others are fused into */
    {"gelu", mx_pass_fuse_gelu},
    {"residual", mx_pass_fuse_residual},
    {"stack", mx_pass_stack},           /* query, key and value as one GEMM */
    {"norm", mx_pass_fuse_norm},        /* after stack: a norm read by three GEMMs is then read by one */
    {"select", mx_pass_fuse_select},
};

const char *mx_compile_pass_name(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(passes) ? passes[index].name : NULL;
}

mxw_status mx_compile_pass(const char *pass, const mx_graph *source, const mx_compile_options *options,
                           mx_arena *memory, mx_graph **out) {
    *out = NULL;
    for (size_t i = 0; i < MX_COUNT(passes); i++) {
        mx_graph *all;
        if (strcmp(passes[i].name, pass) != 0)
            continue;
        mxw_status status = mx_rewrite_run(source, options, memory, passes[i].fn, &all);
        if (status < 0)
            return mx_fail_in(status, "pass %s", pass);
        status = mx_rewrite_run(all, options, memory, mx_pass_dead, out);
        mx_graph_destroy(all);
        return status;
    }
    return mx_fail(MXW_E_ARGUMENT, "no pass is called %s", pass);
}

static mxw_status note(mx_plan *plan, const char *pass) {
    mxw_status status = mx_grow(&plan->notes, &plan->room_notes, plan->n_notes + 1, sizeof(*plan->notes));
    if (status >= 0)
        plan->notes[plan->n_notes++] = (mx_pass_note){pass, plan->graph->n_nodes};
    return status;
}

static mxw_status run_passes(mx_plan *plan, const mx_graph *source, const mx_compile_options *options) {
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(passes) && status >= 0; i++) {
        mx_graph *next;
        status = mx_compile_pass(passes[i].name, plan->graph ? plan->graph : source, options, &plan->memory, &next);
        if (status < 0)
            break;
        mx_graph_destroy(plan->graph);
        plan->graph = next;
        status = note(plan, passes[i].name);
    }
    return status;
}

mxw_status mx_compile(const mx_graph *source, const mx_compile_options *options, mx_plan **out) {
    mxw_status status;
    *out = NULL;
    mx_plan *plan = mx_alloc_zero(1, sizeof(*plan));
    if (!plan)
        return MXW_E_MEMORY;
    plan->device = options->device;
    plan->precision = options->precision;
    MX_TRY(run_passes(plan, source, options));
    MX_TRY(mx_plan_find_homes(plan, options->keep_names));
    *out = plan;
    return MXW_OK;
out:
    mx_plan_free(plan);
    return mx_fail_in(status, "compiling graph %s", source->name);
}

void mx_plan_free(mx_plan *plan) {
    if (!plan)
        return;
    mx_device_give(plan->device, plan->block);
    mx_free(plan->constants);
    mx_free(plan->notes);
    mx_graph_destroy(plan->graph);
    mx_arena_free(&plan->memory);
    mx_free(plan);
}
