/* exec/state.c - a session's memory on a device: named tensors, zero at first, changed only by state_write. */
#include "base/mem.h"
#include "exec/program.h"

#include <string.h>

mxw_status mx_state_open(const mx_program *program, mx_state **out) {
    mx_state *state = *out = mx_alloc_zero(1, sizeof(*state));
    if (!state)
        return MXW_E_MEMORY;
    state->program = program;
    state->device = program->device;
    return MXW_OK;
}

mxw_dtype mx_program_state_dtype(const mx_program *program, mx_value value) {
    return program->plan ? program->plan->placements[value].dtype : program->graph->values[value].type.dtype;
}

const mx_tensor *mx_state_find(const mx_state *state, const char *name) {
    for (size_t i = 0; state && i < state->n; i++)
        if (strcmp(state->entries[i].name, name) == 0)
            return &state->entries[i].tensor;
    return NULL;
}

static mxw_status check_new(const mx_state *state, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_type type = {.dtype = dtype, .rank = rank};
    if (!mx_dtype_in_graphs(dtype) || rank < 0 || rank > MX_MAX_RANK)
        return mx_fail(MXW_E_ARGUMENT, "state %s: dtype %d of %d axes: expected a known dtype and 0 to %d axes", name,
                       (int)dtype, rank, MX_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return mx_fail(MXW_E_ARGUMENT, "state %s: size %d is %lld: expected 0 or more", name, i,
                           (long long)dims[i]);
        type.dims[i] = dims[i];
    }
    if (mx_type_count(&type) < 0)
        return mx_fail(MXW_E_MEMORY, "state %s: too large", name);
    if (mx_state_find(state, name))
        return mx_fail(MXW_E_ARGUMENT, "state %s: added twice", name);
    return MXW_OK;
}

mxw_status mx_state_add(mx_state *state, const char *name, mxw_dtype dtype, int rank, const int64_t *dims) {
    mxw_status status;
    mx_state_entry entry = {0};
    MX_TRY(check_new(state, name, dtype, rank, dims));
    MX_TRY(mx_grow(&state->entries, &state->room, state->n + 1, sizeof(*state->entries)));
    mx_value value = mx_graph_find_leaf(state->program->graph, MX_STATE, name);
    if (value >= 0 && state->program->graph->values[value].type.dtype == dtype)
        dtype = mx_program_state_dtype(state->program, value);
    entry.tensor = mx_tensor_of(dtype, rank, dims, NULL);
    size_t bytes = mx_tensor_bytes(&entry.tensor);
    entry.name = mx_strdup(name);
    status = entry.name ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_device_take(state->device, MX_MAX(bytes, 1), &entry.tensor.data, "%s", name));
    MX_TRY(state->device->clear(state->device, entry.tensor.data, bytes));
    state->entries[state->n++] = entry;
    return MXW_OK;
out:
    mx_free(entry.name);
    mx_device_give(state->device, entry.tensor.data);
    return status;
}

void mx_state_close(mx_state *state) {
    if (!state)
        return;
    for (size_t i = 0; i < state->n; i++) {
        mx_free(state->entries[i].name);
        mx_device_give(state->device, state->entries[i].tensor.data);
    }
    mx_free(state->entries);
    mx_free(state);
}
