/* exec/replay.c - an execute as one piece of work, on a device that can repeat recorded calls (device.h).
 *
 * The second execute with some sizes records the calls of their layout; from then on an execute looks at the indices,
 * puts the small inputs into the recording's way in, and replays. Small outputs come back with it. Large inputs, and
 * those that are held, go by copies of their own, to addresses that stay.
 * What holds: a recording is used only while every address in it is what it was; when one moves, it is made anew. A
 * device that refuses to record runs node by node. */
#include "base/log.h"
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

#define ALIGN 256                       /* of every value in the blocks */
#define LARGEST ((size_t)768 << 10)     /* bytes of a value that goes with the recording */

static const mx_device_replay *replay_of(const mx_run *run) { return run->program->device->replay; }

void mx_replay_forget(mx_run *run, mx_layout *layout) {
    if (layout->recording)
        replay_of(run)->close(run->program->device, layout->recording);
    layout->recording = NULL;
}

/* ---- what can be recorded ---------------------------------------------------------------------------------------- */

static int is_constant(const mx_run *run, size_t node, int input) {
    return run->program->plan->inputs[node][input] >= 0;
}

/* An index is looked at before the replay, so it has to be in host memory by then. */
static int index_is_known(const mx_run *run, size_t node, int input) {
    const mx_graph *g = run->program->graph;
    mx_value value = g->nodes[node].inputs[input];
    if (value == 0 || is_constant(run, node, input) || run->values[value].dtype != MXW_I32)
        return 1;
    return g->values[value].kind == MX_INPUT && !run->bindings[value].from;
}

static int can_record(const mx_run *run) {
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

/* The way in is for what the caller brings anew each time. */
static int goes_in(const mx_run *run, mx_value value) {
    const mx_binding *b = &run->bindings[value];
    return run->program->graph->values[value].kind == MX_INPUT && !b->from && !b->held &&
           mx_tensor_bytes(&run->values[value]) <= LARGEST;
}

static int goes_out(const mx_run *run, mx_value value) {
    return run->program->plan->places[value].home == MX_HOME_ARENA &&
           mx_tensor_bytes(&run->values[value]) <= LARGEST;
}

static size_t place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static void place_ways(mx_run *run, size_t *in_bytes, size_t *out_bytes) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = run->layout;
    *in_bytes = *out_bytes = 0;
    for (size_t i = 0; i < g->n_values; i++) {
        l->out_at[i] = MX_APART;
        l->in_at[i] = i && goes_in(run, (mx_value)i) ? place(in_bytes, mx_tensor_bytes(&run->values[i])) : MX_APART;
    }
    for (size_t i = 0; i < g->n_outputs; i++) {
        mx_value value = g->outputs[i].value;
        if (l->out_at[value] == MX_APART && goes_out(run, value))
            l->out_at[value] = place(out_bytes, mx_tensor_bytes(&run->values[value]));
    }
}

/* Whether two nodes look at the same indices for the same limits: one look is enough. */
static int looks_alike(const mx_run *run, size_t a, size_t b) {
    const mx_node *x = &run->program->graph->nodes[a], *y = &run->program->graph->nodes[b];
    if (x->op != y->op || x->n_inputs != y->n_inputs)
        return 0;
    for (int i = 0; i < x->n_inputs; i++) {
        const mx_tensor *s = &run->layout->inputs[a][i], *t = &run->layout->inputs[b][i];
        if (s->dtype != t->dtype || s->rank != t->rank || memcmp(s->dims, t->dims, sizeof(s->dims)) != 0 ||
            (s->dtype == MXW_I32 && x->inputs[i] != y->inputs[i]))
            return 0;
    }
    return 1;
}

static void choose_checks(mx_run *run) {
    const mx_graph *g = run->program->graph;
    uint8_t *checked = run->layout->checked;
    for (size_t n = 0; n < g->n_nodes; n++) {
        const mx_node *node = &g->nodes[n];
        checked[n] = 0;
        for (int i = 0; i < node->n_inputs && mx_compiled_runs(run->program->plan, node); i++)
            checked[n] |= node->inputs[i] && run->layout->inputs[n][i].dtype == MXW_I32;
        for (size_t m = 0; m < n && checked[n]; m++)
            checked[n] = !(checked[m] && looks_alike(run, m, n));
    }
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Leaves that lie elsewhere than in the way in: brought, and where. */
static mxw_status bring_others(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT && !run->bindings[i].from && !goes_in(run, (mx_value)i))
            status = mx_run_bring(run, (mx_value)i);
    return status;
}

static int lies_elsewhere(const mx_run *run, size_t value) {
    mx_kind kind = run->program->graph->values[value].kind;
    return kind == MX_STATE || (kind == MX_INPUT && run->layout->in_at[value] == MX_APART);
}

/* Whether everything lies where it did when the calls were recorded. */
static int same_addresses(const mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_layout *l = run->layout;
    for (size_t i = 1; i < g->n_values; i++)
        if ((l->in_at[i] != MX_APART) != goes_in(run, (mx_value)i) ||
            (lies_elsewhere(run, i) && run->values[i].data != l->leaves[i]))
            return 0;
    return 1;
}

/* A state that was written lies where it did. */
static void follow_states(mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (g->nodes[n].op == MX_OP_STATE_WRITE)
            run->values[g->nodes[n].outputs[0]] = run->values[g->nodes[n].inputs[0]];
}

/* ---- record ------------------------------------------------------------------------------------------------------ */

static mxw_status record_calls(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = run->layout;
    size_t count = 0;
    const mx_call **calls = mx_alloc_zero(g->n_nodes, sizeof(*calls));
    if (!calls)
        return MXW_E_MEMORY;
    for (size_t n = 0; n < g->n_nodes; n++)
        if (mx_compiled_runs(run->program->plan, &g->nodes[n])) {
            mx_compiled_refresh(run, n);
            calls[count++] = &l->calls[n];
        }
    mxw_status status = replay_of(run)->record(run->program->device, l->recording, calls, count);
    mx_free(calls);
    return status;
}

static mxw_status record(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mx_layout *l = run->layout;
    size_t in_bytes, out_bytes;
    mxw_status status;
    place_ways(run, &in_bytes, &out_bytes);
    MX_TRY(replay_of(run)->open(run->program->device, in_bytes, out_bytes, &l->recording));
    for (size_t i = 1; i < g->n_values; i++) {
        if (l->in_at[i] != MX_APART)
            run->values[i].data = (char *)l->recording->in + l->in_at[i];
        l->leaves[i] = run->values[i].data;
    }
    mx_compiled_address(run);
    choose_checks(run);
    MX_TRY(record_calls(run));
    memcpy(l->values, run->values, g->n_values * sizeof(*l->values));
out:
    return status;
}

/* It will be run node by node, as it was. */
static void give_up(mx_run *run) {
    mx_layout *l = run->layout;
    mx_log(MXW_LOG_INFO, "exec", "graph %s runs node by node: %s", run->program->graph->name, mx_error());
    mx_replay_forget(run, l);
    l->unfit = 1;
    mx_compiled_address(run);
    memcpy(l->values, run->values, run->program->graph->n_values * sizeof(*l->values));
}

/* ---- replay ------------------------------------------------------------------------------------------------------ */

static mxw_status check_indices(mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t n = 0; n < g->n_nodes; n++) {
        if (!run->layout->checked[n])
            continue;
        mx_compiled_refresh(run, n);
        mxw_status status = replay_of(run)->check(run->program->device, &run->layout->calls[n]);
        if (status < 0)
            return mx_run_fail_at(run, &g->nodes[n], status);
    }
    return MXW_OK;
}

static mxw_status find_inputs(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_layout *l = run->layout;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < g->n_values && status >= 0; i++) {
        if (l->in_at[i] == MX_APART)
            continue;
        run->values[i].data = (char *)l->recording->in + l->in_at[i];
        status = mx_run_dense(run, (mx_value)i, &run->origin[i]);
    }
    return status;
}

static void fill_way_in(mx_run *run) {
    const mx_graph *g = run->program->graph;
    const mx_layout *l = run->layout;
    for (size_t i = 1; i < g->n_values; i++)
        if (l->in_at[i] != MX_APART && mx_tensor_bytes(&run->values[i]))
            memcpy((char *)l->recording->in_host + l->in_at[i], run->origin[i], mx_tensor_bytes(&run->values[i]));
}

mxw_status mx_replay_execute(mx_run *run, int *done) {
    const mx_device *device = run->program->device;
    mx_layout *l = run->layout;
    mxw_status status;
    *done = 0;
    if (!device->replay || run->tap || run->watch || run->program->trace || l->unfit)
        return MXW_OK;
    if (l->times == 0) {
        l->times = 1;
        return MXW_OK;
    }
    MX_TRY(bring_others(run));
    if (l->recording && !same_addresses(run))
        mx_replay_forget(run, l);
    if (!l->recording) {
        l->unfit = !can_record(run);
        if (l->unfit)
            return MXW_OK;
        if (record(run) < 0) {
            give_up(run);
            return MXW_OK;
        }
    }
    MX_TRY(find_inputs(run));
    MX_TRY(check_indices(run));
    MX_TRY(device->replay->wait(device, l->recording));
    fill_way_in(run);
    MX_TRY(device->replay->replay(device, l->recording));
    follow_states(run);
    run->replayed = *done = 1;
out:
    return status;
}

int mx_run_over(const mx_run *run) {
    return !run->replayed || run->fetched ||
           replay_of(run)->over(run->program->device, run->layout->recording);
}

mxw_status mx_replay_output(mx_run *run, size_t i, const void **data) {
    mx_layout *l = run->layout;
    mx_value value = run->program->graph->outputs[i].value;
    *data = NULL;
    if (!run->replayed || l->out_at[value] == MX_APART)
        return MXW_OK;
    if (!run->fetched) {
        mxw_status status = replay_of(run)->wait(run->program->device, l->recording);
        if (status < 0)
            return status;
        run->fetched = 1;
    }
    *data = (const char *)l->recording->out_host + l->out_at[value];
    return MXW_OK;
}
