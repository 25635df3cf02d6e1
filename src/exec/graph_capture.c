/* exec/graph_capture.c - an execute as one launch, on a device that can capture calls (device.h).
 *
 * The second execute with the same sizes captures the calls of their plan instance. From then on an execute checks the
 * indices on the host, copies the small inputs into the staging block of the captured graph, and launches it. Small
 * outputs come back in another block. Large inputs, and held ones, are uploaded separately, to fixed addresses.
 * Invariants: a captured graph is launched only while every address in it is still valid; when one moves, the calls are
 * captured again. If the device refuses a capture, the instance runs node by node. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

#define ALIGN 256                       /* of every value in the staging blocks */
#define LARGEST ((size_t)768 << 10)     /* bytes of a value that is staged */

static const mx_device_capture *capture_of(const mx_run *run) { return run->program->device->capture; }

void mx_graph_capture_drop(mx_run *run, mx_instance *inst) {
    if (inst->capture)
        capture_of(run)->close(run->program->device, inst->capture);
    inst->capture = NULL;
}

/* ---- what can be captured ---------------------------------------------------------------------------------------- */

static int is_constant(const mx_run *run, size_t node, int input) {
    return run->program->plan->inputs[node][input] >= 0;
}

/* Indices are checked before the launch, so they have to be in host memory by then. */
static int index_is_known(const mx_run *run, size_t node, int input) {
    const mx_graph *g = run->program->graph;
    mx_value value = g->nodes[node].inputs[input];
    if (value == 0 || is_constant(run, node, input) || run->values[value].dtype != MXW_I32)
        return 1;
    return g->values[value].kind == MX_INPUT && !run->bindings[value].from;
}

static int can_capture(const mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t i = 0; i < g->n_outputs; i++)
        if (g->values[g->outputs[i].value].kind == MX_INPUT)
            return 0;
    for (size_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].n_inputs && mx_compiled_runs(run->program->plan, &g->nodes[n]); i++)
            if (!index_is_known(run, n, i))
                return 0;
    return 1;
}

/* The input block is for what the caller binds again for each execute. */
static int is_staged_in(const mx_run *run, mx_value value) {
    const mx_binding *b = &run->bindings[value];
    return run->program->graph->values[value].kind == MX_INPUT && !b->from && !b->held &&
           mx_tensor_bytes(&run->values[value]) <= LARGEST;
}

static int is_staged_out(const mx_run *run, mx_value value) {
    return run->program->plan->placements[value].home == MX_HOME_ARENA &&
           mx_tensor_bytes(&run->values[value]) <= LARGEST;
}

static size_t append(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void place_staged(mx_run *run, size_t *in_bytes, size_t *out_bytes) {
    const mx_graph *g = run->program->graph;
    mx_instance *inst = run->instance;
    *in_bytes = *out_bytes = 0;
    for (size_t i = 0; i < g->n_values; i++) {
        inst->out_at[i] = MX_NOT_STAGED;
        inst->in_at[i] = MX_NOT_STAGED;
        if (i && is_staged_in(run, (mx_value)i))
            inst->in_at[i] = append(in_bytes, mx_tensor_bytes(&run->values[i]));
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        mx_value value = g->outputs[i].value;
        if (inst->out_at[value] == MX_NOT_STAGED && is_staged_out(run, value))
            inst->out_at[value] = append(out_bytes, mx_tensor_bytes(&run->values[value]));
    }
}

/* Whether two nodes check the same indices against the same limits: one check is enough. */
static int is_same_check(const mx_run *run, size_t a, size_t b) {
    const mx_node *x = &run->program->graph->nodes[a], *y = &run->program->graph->nodes[b];
    if (x->op != y->op || x->n_inputs != y->n_inputs)
        return 0;
    for (int i = 0; i < x->n_inputs; i++) {
        const mx_tensor *s = &run->instance->inputs[a][i], *t = &run->instance->inputs[b][i];
        if (s->dtype != t->dtype || s->rank != t->rank || memcmp(s->dims, t->dims, sizeof(s->dims)) != 0 ||
            (s->dtype == MXW_I32 && x->inputs[i] != y->inputs[i]))
            return 0;
    }
    return 1;
}

static void choose_checks(mx_run *run) {
    const mx_graph *g = run->program->graph;
    uint8_t *checked = run->instance->checked;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const mx_node *node = &g->nodes[n];
        checked[n] = 0;
        for (int i = 0; i < node->n_inputs && mx_compiled_runs(run->program->plan, node); i++)
            checked[n] |= node->inputs[i] && run->instance->inputs[n][i].dtype == MXW_I32;
        for (size_t m = 0; m < n && checked[n]; m++)
            checked[n] = !(checked[m] && is_same_check(run, m, n));
    }
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Uploads the inputs that are not staged, which sets their addresses. */
static mxw_status upload_unstaged(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT && !run->bindings[i].from && !is_staged_in(run, (mx_value)i))
            status = mx_run_upload_input(run, (mx_value)i);
    return status;
}

static int is_unstaged_leaf(const mx_run *run, size_t value) {
    mx_kind kind = run->program->graph->values[value].kind;
    return kind == MX_STATE || (kind == MX_INPUT && run->instance->in_at[value] == MX_NOT_STAGED);
}

/* Whether every address is what it was when the calls were captured. */
static int same_addresses(const mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_instance *inst = run->instance;
    for (size_t i = 1; i < g->n_values; i++)
        if ((inst->in_at[i] != MX_NOT_STAGED) != is_staged_in(run, (mx_value)i) ||
            (is_unstaged_leaf(run, i) && run->values[i].data != inst->leaves[i]))
            return 0;
    return 1;
}

/* A state has the same address before and after it was written. */
static void update_states(mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == MX_OP_STATE_WRITE)
            run->values[g->nodes[n].outputs[0]] = run->values[g->nodes[n].inputs[0]];
}

/* ---- capture ----------------------------------------------------------------------------------------------------- */

static mxw_status capture_calls(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_instance *inst = run->instance;
    size_t count = 0;
    const mx_call **calls = mx_alloc_zero(g->n_nodes, sizeof(*calls));
    if (!calls)
        return MXW_E_MEMORY;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n])) {
            mx_compiled_refresh(run, n);
            calls[count++] = &inst->calls[n];
        }
    mxw_status status = capture_of(run)->capture(run->program->device, inst->capture, calls, count);
    mx_free(calls);
    return status;
}

static mxw_status capture(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_instance *inst = run->instance;
    size_t in_bytes, out_bytes;
    mxw_status status;
    place_staged(run, &in_bytes, &out_bytes);
    MX_TRY(capture_of(run)->open(run->program->device, in_bytes, out_bytes, &inst->capture));
    for (size_t i = 1; i < g->n_values; i++) {
        if (inst->in_at[i] != MX_NOT_STAGED)
            run->values[i].data = (char *)inst->capture->in + inst->in_at[i];
        inst->leaves[i] = run->values[i].data;
    }
    mx_compiled_address(run);
    choose_checks(run);
    MX_TRY(capture_calls(run));
    memcpy(inst->values, run->values, g->n_values * sizeof(*inst->values));
out:
    return status;
}

/* The instance goes on running node by node. */
static void give_up(mx_run *run) {
    mx_instance *inst = run->instance;
    mx_log(MXW_LOG_INFO, "exec", "graph %s runs node by node: %s", run->program->graph->name, mx_error());
    mx_graph_capture_drop(run, inst);
    inst->uncapturable = 1;
    mx_compiled_address(run);
    memcpy(inst->values, run->values, run->program->graph->n_values * sizeof(*inst->values));
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static mxw_status check_indices(mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t n = 0; n < g->n_nodes; n++) {
        if (!run->instance->checked[n])
            continue;
        mx_compiled_refresh(run, n);
        mxw_status status = capture_of(run)->check(run->program->device, &run->instance->calls[n]);
        if (status < 0)
            return mx_run_fail_at(run, &g->nodes[n], status);
    }
    return MXW_OK;
}

static mxw_status find_staged(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_instance *inst = run->instance;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < g->n_values && status >= 0; i++) {
        if (inst->in_at[i] == MX_NOT_STAGED)
            continue;
        run->values[i].data = (char *)inst->capture->in + inst->in_at[i];
        status = mx_run_dense_input(run, (mx_value)i, &run->origin[i]);
    }
    return status;
}

static void copy_staged(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_instance *inst = run->instance;
    for (size_t i = 1; i < g->n_values; i++)
        if (inst->in_at[i] != MX_NOT_STAGED && mx_tensor_bytes(&run->values[i]))
            memcpy((char *)inst->capture->in_host + inst->in_at[i], run->origin[i], mx_tensor_bytes(&run->values[i]));
}

mxw_status mx_graph_capture_execute(mx_run *run, int *done) {
    const mx_device *device = run->program->device;
    mx_instance *inst = run->instance;
    mxw_status status;
    *done = 0;
    if (!device->capture || run->tap || run->watch || run->program->trace || inst->uncapturable)
        return MXW_OK;
    if (!inst->seen) {
        inst->seen = 1;
        return MXW_OK;
    }
    MX_TRY(upload_unstaged(run));
    if (inst->capture && !same_addresses(run))
        mx_graph_capture_drop(run, inst);
    if (!inst->capture) {
        inst->uncapturable = !can_capture(run);
        if (inst->uncapturable)
            return MXW_OK;
        int64_t start = mx_now_ns();
        if (capture(run) < 0) {
            give_up(run);
            return MXW_OK;
        }
        mx_log_timed(MXW_LOG_DEBUG, "exec", mx_since_ms(start), "graph %s captured", run->program->graph->name);
    }
    MX_TRY(find_staged(run));
    MX_TRY(check_indices(run));
    MX_TRY(device->capture->wait(device, inst->capture));
    copy_staged(run);
    MX_TRY(device->capture->launch(device, inst->capture));
    update_states(run);
    run->launched = *done = 1;
out:
    return status;
}

int mx_run_done(const mx_run *run) {
    return !run->launched || run->fetched ||
           capture_of(run)->done(run->program->device, run->instance->capture);
}

mxw_status mx_graph_capture_output(mx_run *run, size_t i, const void **data) {
    mx_instance *inst = run->instance;
    mx_value value = run->program->graph->outputs[i].value;
    *data = NULL;
    if (!run->launched || inst->out_at[value] == MX_NOT_STAGED)
        return MXW_OK;
    if (!run->fetched) {
        mxw_status status = capture_of(run)->wait(run->program->device, inst->capture);
        if (status < 0)
            return status;
        run->fetched = 1;
    }
    *data = (const char *)inst->capture->out_host + inst->out_at[value];
    return MXW_OK;
}
