/* exec/run.c - a run of a program for one session: binds inputs and states, executes, returns outputs. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/program.h"

#include <stdio.h>
#include <string.h>

mxw_status mx_run_open(const mx_program *program, mx_state *state, mx_run **out) {
    const mx_graph *g = program->graph;
    mx_run *run = mx_alloc_zero(1, sizeof(*run));
    *out = NULL;
    if (!run)
        return MXW_E_MEMORY;
    run->program = program;
    run->state = state;
    run->values = mx_alloc_zero(g->n_values, sizeof(*run->values));
    run->buffer = mx_alloc_zero(g->n_values, sizeof(*run->buffer));
    run->usual = mx_alloc_zero(g->n_values, sizeof(*run->usual));
    run->origin = mx_alloc_zero(g->n_values, sizeof(*run->origin));
    run->bindings = mx_alloc_zero(g->n_values, sizeof(*run->bindings));
    run->sizes = mx_alloc_zero(g->n_sizes, sizeof(*run->sizes));
    run->given = mx_alloc_zero(g->n_sizes, sizeof(*run->given));
    run->host = mx_alloc_zero(g->n_outputs + 1, sizeof(*run->host));
    if (!run->values || !run->buffer || !run->usual || !run->origin || !run->bindings || !run->sizes || !run->given ||
        !run->host || (program->plan && mx_compiled_open(run) < 0)) {
        mx_run_close(run);
        return MXW_E_MEMORY;
    }
    for (size_t i = 0; i < g->n_values; i++)
        run->usual[i] = -1;
    for (size_t i = 0; i < g->n_sizes; i++)
        run->given[i] = -1;
    *out = run;
    return MXW_OK;
}

void mx_run_close(mx_run *run) {
    if (!run)
        return;
    const mx_device *device = run->program->device;
    for (size_t i = 0; run->bindings && i < run->program->graph->n_values; i++) {
        mx_free(run->bindings[i].packed);
        mx_device_give(device, run->bindings[i].block);
    }
    for (size_t i = 0; i < run->n_buffers; i++)
        mx_device_give(device, run->buffers[i].data);
    mx_device_give(device, run->scratch);
    mx_compiled_close(run);
    mx_free(run->buffers);
    for (size_t i = 0; run->host && i <= run->program->graph->n_outputs; i++)
        mx_free(run->host[i].data);
    mx_free(run->host);
    mx_free(run->values);
    mx_free(run->buffer);
    mx_free(run->usual);
    mx_free(run->origin);
    mx_free(run->bindings);
    mx_free(run->sizes);
    mx_free(run->given);
    mx_free(run);
}

void mx_run_tap(mx_run *run, mx_tap_fn tap, void *context) {
    run->tap = tap;
    run->tap_context = context;
}

/* ---- binding ----------------------------------------------------------------------------------------------------- */

static mxw_status find_input(const mx_run *run, const char *name, mx_value *value) {
    *value = mx_graph_find_leaf(run->program->graph, MX_INPUT, name);
    if (*value < 0)
        return mx_fail(MXW_E_NOT_FOUND, "graph %s has no input %s", run->program->graph->name, name);
    return MXW_OK;
}

static mxw_status check_dims(const char *name, const mx_tensor *tensor) {
    mx_type type = {.dtype = tensor->dtype, .rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++) {
        type.dims[i] = tensor->dims[i];
        if (type.dims[i] < 0)
            return mx_fail(MXW_E_ARGUMENT, "input %s: size %d is %lld: expected 0 or more", name, i,
                           (long long)type.dims[i]);
    }
    if (mx_type_count(&type) < 0)
        return mx_fail(MXW_E_ARGUMENT, "input %s is too large: expected at most 2^44 elements", name);
    return MXW_OK;
}

mxw_status mx_run_input(mx_run *run, const char *name, const mx_tensor *tensor) {
    mx_value value;
    mxw_status status = find_input(run, name, &value);
    if (status < 0)
        return status;
    const mx_graph *g = run->program->graph;
    const mx_type *type = &g->values[value].type;
    if (tensor->dtype != type->dtype || tensor->rank != type->rank) {
        char got[128], want[160];
        mx_size_names names = mx_graph_size_names(g);
        snprintf(got, sizeof(got), "%s of %d axes", mx_dtype_name(tensor->dtype), tensor->rank);
        if (tensor->rank >= 0 && tensor->rank <= MX_MAX_RANK)
            mx_tensor_describe(tensor, got, sizeof(got));
        return mx_fail(MXW_E_ARGUMENT, "input %s is %s: expected %s", name, got,
                       mx_type_text(type, &names, want, sizeof(want)));
    }
    status = check_dims(name, tensor);
    if (status < 0)
        return status;
    mx_binding *b = &run->bindings[value];
    b->tensor = *tensor;
    b->from = NULL;
    b->bound = 1;
    b->held = b->sent = 0;
    return MXW_OK;
}

mxw_status mx_run_hold(mx_run *run, const char *name, const mx_tensor *tensor) {
    mxw_status status = mx_run_input(run, name, tensor);
    if (status >= 0)
        run->bindings[mx_graph_find_leaf(run->program->graph, MX_INPUT, name)].held = 1;
    return status;
}

mxw_status mx_run_pipe(mx_run *run, const char *input, mx_run *from, const char *output) {
    mx_value value;
    mxw_status status = find_input(run, input, &value);
    if (status < 0)
        return status;
    int index = mx_graph_find_output(from->program->graph, output);
    if (index < 0)
        return mx_fail(MXW_E_NOT_FOUND, "graph %s has no output %s", from->program->graph->name, output);
    if (from->program->device != run->program->device)
        return mx_fail(MXW_E_ARGUMENT, "input %s on %s cannot take output %s on %s: expected one device", input,
                       mx_exec_device(run->program), output, mx_exec_device(from->program));
    run->bindings[value].from = from;
    run->bindings[value].output = index;
    run->bindings[value].bound = 1;
    run->bindings[value].held = 0;
    return MXW_OK;
}

mxw_status mx_run_size(mx_run *run, const char *name, int64_t size) {
    const mx_graph *g = run->program->graph;
    for (size_t i = 0; i < g->n_sizes; i++) {
        if (strcmp(g->sizes[i].name, name) != 0)
            continue;
        if (size < 0 || size > g->sizes[i].max)
            return mx_fail(MXW_E_ARGUMENT, "size %s is %lld: expected 0 to %lld", name, (long long)size,
                           (long long)g->sizes[i].max);
        run->given[i] = size;
        return MXW_OK;
    }
    return mx_fail(MXW_E_NOT_FOUND, "graph %s has no open size %s", g->name, name);
}

/* Sets the open sizes that a leaf's actual dims carry; refuses what contradicts the graph or another leaf. */
static mxw_status bind_dims(mx_run *run, const char *kind, const mx_value_info *info, const mx_tensor *actual) {
    const mx_graph *g = run->program->graph;
    for (int i = 0; i < info->type.rank; i++) {
        int64_t want = info->type.dims[i], got = actual->dims[i];
        if (want < 0) {
            size_t index = MX_DIM_INDEX(want);
            if (got < 0 || got > g->sizes[index].max)
                return mx_fail(MXW_E_ARGUMENT, "%s %s: size %s is %lld: expected 0 to %lld", kind, info->name,
                               g->sizes[index].name, (long long)got, (long long)g->sizes[index].max);
            if (run->sizes[index] < 0)
                run->sizes[index] = got;
            else if (run->sizes[index] != got)
                return mx_fail(MXW_E_ARGUMENT, "%s %s: size %s is %lld: expected %lld as elsewhere in this run", kind,
                               info->name, g->sizes[index].name, (long long)got, (long long)run->sizes[index]);
        } else if (want != got) {
            return mx_fail(MXW_E_ARGUMENT, "%s %s: size %d is %lld: expected %lld", kind, info->name, i,
                           (long long)got, (long long)want);
        }
    }
    return MXW_OK;
}

mxw_status mx_run_dense_input(mx_run *run, mx_value value, const void **bytes) {
    mx_binding *b = &run->bindings[value];
    const mx_tensor *t = &b->tensor;
    size_t n = mx_tensor_bytes(t), align = MX_MIN(mx_dtype_bytes(t->dtype), 8);
    *bytes = t->data;
    if (mx_tensor_contiguous(t) && (uintptr_t)t->data % align == 0)
        return MXW_OK;
    if (b->packed_bytes < n) {
        mx_free(b->packed);
        b->packed_bytes = 0;
        b->packed = mx_alloc(n);
        if (!b->packed)
            return MXW_E_MEMORY;
        b->packed_bytes = n;
    }
    if (n)
        mx_tensor_pack(t, b->packed);
    *bytes = b->packed;
    return MXW_OK;
}

/* Bytes that do not change: uploaded once after they were bound, to memory that no other value takes. */
static mxw_status upload_held(mx_run *run, mx_value value, size_t bytes) {
    const mx_device *device = run->program->device;
    mx_binding *b = &run->bindings[value];
    mxw_status status = MXW_OK;
    if (!b->sent) {
        status = mx_run_grow_block(device, &b->block, &b->block_bytes, MX_MAX(bytes, 1), "a value");
        if (status >= 0)
            status = device->upload(device, b->block, run->origin[value], bytes);
        b->sent = status >= 0;
    }
    run->values[value].data = b->block;
    return status;
}

/* The caller's view if it can be used in place; else a dense copy, or uploaded. Once for each execute. */
mxw_status mx_run_upload_input(mx_run *run, mx_value value) {
    const mx_device *device = run->program->device;
    mx_binding *b = &run->bindings[value];
    size_t bytes = mx_tensor_bytes(&b->tensor);
    const void *host;
    if (run->buffer[value] >= 0)
        return MXW_OK;
    mxw_status status = mx_run_dense_input(run, value, &host);
    if (status < 0)
        return status;
    run->values[value] = mx_tensor_of_const(b->tensor.dtype, b->tensor.rank, b->tensor.dims, host);
    if (device->host_memory) {
        if (!host)   /* no elements; a null address would mean that the input was left out */
            run->values[value].data = b;
        return MXW_OK;
    }
    run->origin[value] = host;
    if (b->held)
        return upload_held(run, value, bytes);
    status = mx_run_take_buffer(run, value, bytes, &run->values[value].data);
    return status < 0 ? status : device->upload(device, run->values[value].data, host, bytes);
}

static mxw_status bind_input(mx_run *run, mx_value value) {
    const mx_value_info *info = &run->program->graph->values[value];
    mx_binding *b = &run->bindings[value];
    if (!b->bound)
        return mx_fail(MXW_E_MISSING, "input %s is not bound", info->name);
    if (!b->from) {
        if (!b->tensor.data && mx_tensor_bytes(&b->tensor))
            return mx_fail(MXW_E_ARGUMENT, "input %s has no data", info->name);
        run->values[value] = mx_tensor_of(b->tensor.dtype, b->tensor.rank, b->tensor.dims, NULL);
        return bind_dims(run, "input", info, &b->tensor);
    }
    if (!b->from->done)
        return mx_fail(MXW_E_STATE, "input %s comes from graph %s, which has not run", info->name,
                       b->from->program->graph->name);
    const mx_tensor *t = &b->from->values[b->from->program->graph->outputs[b->output].value];
    if (t->dtype != info->type.dtype || t->rank != info->type.rank)
        return mx_fail(MXW_E_ARGUMENT, "input %s: output %s of graph %s has another dtype or rank", info->name,
                       b->from->program->graph->outputs[b->output].name, b->from->program->graph->name);
    run->values[value] = *t;
    return bind_dims(run, "input", info, t);
}

static mxw_status bind_state(mx_run *run, mx_value value) {
    const mx_value_info *info = &run->program->graph->values[value];
    const mx_tensor *found = mx_state_find(run->state, info->name);
    if (!found)
        return mx_fail(MXW_E_MISSING, "state %s is not there: expected the session to have it", info->name);
    mxw_dtype kept = mx_program_state_dtype(run->program, value);
    if (found->dtype != kept)
        return mx_fail(MXW_E_ARGUMENT, "state %s is kept as %s: this graph reads %s", info->name,
                       mx_dtype_name(found->dtype), mx_dtype_name(kept));
    if (found->rank != info->type.rank)
        return mx_fail(MXW_E_ARGUMENT, "state %s has %d axes: expected %d", info->name, found->rank, info->type.rank);
    run->values[value] = *found;
    return bind_dims(run, "state", info, found);
}

/* Sets every leaf's type and, except for inputs that the caller bound, its address. */
static mxw_status bind_leaves(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status = MXW_OK;
    memcpy(run->sizes, run->given, g->n_sizes * sizeof(*run->sizes));
    for (size_t i = 1; i < g->n_values && status >= 0; i++) {
        const mx_value_info *info = &g->values[i];
        if (info->kind == MX_INPUT)
            status = bind_input(run, (mx_value)i);
        else if (info->kind == MX_STATE)
            status = bind_state(run, (mx_value)i);
        else if (info->kind != MX_RESULT)
            run->values[i] = mx_tensor_of(info->type.dtype, info->type.rank, info->type.dims, run->program->leaves[i]);
        if (info->kind == MX_CONSTANT)
            run->origin[i] = info->data;
    }
    return status;
}

static mxw_status upload_inputs(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status = MXW_OK;
    for (size_t i = 1; i < g->n_values && status >= 0; i++)
        if (g->values[i].kind == MX_INPUT && !run->bindings[i].from)
            status = mx_run_upload_input(run, (mx_value)i);
    return status;
}

/* An output that is an input must not point into the caller's memory, or another run's, once execute has returned. It
 * is copied before the first op: memory that cannot be had then leaves the states as they were, so that the run can be
 * repeated. */
static mxw_status keep_outputs(mx_run *run) {
    const mx_graph *g = run->program->graph;
    for (size_t i = 0; i < g->n_outputs; i++) {
        mx_value value = g->outputs[i].value;
        if (g->values[value].kind != MX_INPUT || run->buffer[value] >= 0)
            continue;
        mx_tensor *t = &run->values[value];
        void *from = t->data;
        size_t bytes = mx_tensor_bytes(t);
        mxw_status status = mx_run_take_buffer(run, value, bytes, &t->data);
        if (status >= 0)
            status = mx_run_copy(run, t->data, from, bytes);
        if (status < 0)
            return status;
    }
    return MXW_OK;
}

mxw_status mx_run_execute(mx_run *run) {
    const mx_graph *g = run->program->graph;
    mxw_status status;
    int launched = 0;
    int64_t start = mx_now_ns();
    run->done = run->launched = run->fetched = 0;
    for (size_t i = 0; i < run->n_buffers; i++)
        run->buffers[i].uses = 0;
    for (size_t i = 0; i < g->n_values; i++) {
        run->buffer[i] = -1;
        run->origin[i] = NULL;
    }
    MX_TRY(bind_leaves(run));
    if (run->program->plan) {
        MX_TRY(mx_compiled_specialize(run));
        MX_TRY(mx_graph_capture_execute(run, &launched));
    }
    if (!launched) {
        MX_TRY(upload_inputs(run));
        MX_TRY(keep_outputs(run));
        MX_TRY(mx_run_nodes(run));
        if (run->program->plan && mx_exec_captures(run->program))
            mx_log_timed(MXW_LOG_DEBUG, "exec", mx_since_ms(start), "graph %s launched node by node", g->name);
    }
    run->done = 1;
    return MXW_OK;
out:
    return mx_fail_in(status, "graph %s", g->name);
}

mxw_status mx_run_output(mx_run *run, const char *name, mx_tensor *out) {
    const mx_graph *g = run->program->graph;
    int index = mx_graph_find_output(g, name);
    if (index < 0)
        return mx_fail(MXW_E_NOT_FOUND, "graph %s has no output %s", g->name, name);
    if (!run->done)
        return mx_fail(MXW_E_STATE, "graph %s has not run: no output %s yet", g->name, name);
    const void *data;
    mxw_status status = mx_graph_capture_output(run, (size_t)index, &data);
    if (status < 0)
        return status;
    if (data) {
        const mx_tensor *t = &run->values[g->outputs[index].value];
        *out = mx_tensor_of_const(t->dtype, t->rank, t->dims, data);
        return MXW_OK;
    }
    return mx_run_to_host(run, g->outputs[index].value, (size_t)index, out);
}
