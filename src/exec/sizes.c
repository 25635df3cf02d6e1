/* exec/sizes.c - the open sizes of a graph as numbers of one run: resolved in a node's attributes, or assumed from text
 * before anything is bound. */
#include "exec/program.h"

#include <stdlib.h>
#include <string.h>

/* An open size of the graph becomes its number in this run; fails if nothing has set it. */
static mxw_status resolve(const mx_run *run, int64_t *dim) {
    if (*dim >= MX_DIM_INFER)
        return MXW_OK;
    size_t index = MX_DIM_INDEX(*dim);
    if (run->sizes[index] < 0)
        return mx_fail(MXW_E_MISSING, "size %s is not known: no input carries it and none was given",
                       run->program->graph->sizes[index].name);
    *dim = run->sizes[index];
    return MXW_OK;
}

mxw_status mx_run_resolve_sizes(const mx_run *run, const mx_node *node, mx_attrs *attrs) {
    mxw_status status;
    *attrs = node->attrs;
    for (int i = 0; i < attrs->rank; i++)
        MX_TRY(resolve(run, &attrs->dims[i]));
    status = resolve(run, &attrs->k);
out:
    return status;
}

/* Parses one "name=number"; *at moves behind it and its comma. */
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

mxw_status mx_run_assume_sizes(mx_run *run, const char *sizes) {
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
        if (g->values[i].kind == MX_STATE)
            t.dtype = mx_program_state_dtype(run->program, (mx_value)i);
        run->values[i] = mx_tensor_of(t.dtype, t.rank, t.dims, NULL);
    }
    return MXW_OK;
}
