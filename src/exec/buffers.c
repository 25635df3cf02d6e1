/* exec/buffers.c - device memory of a run: buffers that values take and release, kept from one execute to the next.
 * Invariants: a run that repeats itself allocates nothing from its second execute on. */
#include "base/mem.h"
#include "exec/program.h"

#define VALUE "a value"   /* what memory is taken for */

mxw_status mx_run_grow_block(const mx_device *device, void **block, size_t *room, size_t bytes, const char *what) {
    if (bytes <= *room)
        return MXW_OK;
    mx_device_give(device, *block);
    *room = 0;
    mxw_status status = mx_device_take(device, bytes, block, "%s", what);
    *room = status < 0 ? 0 : bytes;
    return status;
}

/* A free buffer that is large enough: the one the value had last, else the smallest; NULL if there is none. *largest is
 * the largest free one. */
static mx_buffer *find_free(mx_run *run, mx_value value, size_t bytes, mx_buffer **largest) {
    mx_buffer *best = NULL, *usual = run->usual[value] < 0 ? NULL : &run->buffers[run->usual[value]];
    *largest = NULL;
    if (usual && !usual->uses && usual->bytes >= bytes)
        return usual;
    for (size_t i = 0; i < run->n_buffers; i++) {
        mx_buffer *b = &run->buffers[i];
        if (b->uses)
            continue;
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
        if (!*largest || b->bytes > (*largest)->bytes)
            *largest = b;
    }
    return best;
}

/* A free buffer; else the largest free one, made larger; else a new one. So a run that grows does not keep what it has
 * outgrown. */
mxw_status mx_run_take_buffer(mx_run *run, mx_value value, size_t bytes, void **data) {
    bytes = MX_MAX(bytes, 64);
    mx_buffer *largest, *best = find_free(run, value, bytes, &largest);
    if (!best && largest) {
        mxw_status status = mx_run_grow_block(run->program->device, &largest->data, &largest->bytes, bytes, VALUE);
        if (status < 0)
            return status;
        best = largest;
    }
    if (!best) {
        mxw_status status = mx_grow(&run->buffers, &run->room_buffers, run->n_buffers + 1, sizeof(*run->buffers));
        if (status < 0)
            return status;
        mx_buffer fresh = {0};
        status = mx_run_grow_block(run->program->device, &fresh.data, &fresh.bytes, bytes, VALUE);
        if (status < 0)
            return status;
        best = &run->buffers[run->n_buffers++];
        *best = fresh;
    }
    best->uses = 1;
    run->buffer[value] = run->usual[value] = (int32_t)(best - run->buffers);
    *data = best->data;
    return MXW_OK;
}

/* On any device a copy is a reshape to the same sizes. */
mxw_status mx_run_copy(const mx_run *run, void *to, void *from, size_t bytes) {
    const mx_device *device = run->program->device;
    int64_t n = (int64_t)bytes;
    mx_tensor in = mx_tensor_of(MXW_U8, 1, &n, from), out = mx_tensor_of(MXW_U8, 1, &n, to);
    mx_attrs attrs = {.rank = 1, .dims = {n}};
    mx_call call = {.op = MX_OP_RESHAPE, .attrs = &attrs, .n_inputs = 1, .n_outputs = 1, .inputs = &in,
                    .outputs = &out, .pool = run->program->pool};
    return device->run_op(device, &call);
}
