/* plain.c - see plain.h. */
#include "plain.h"

#include <stdlib.h>
#include <string.h>

static void *room(size_t bytes) {
    void *block = aligned_alloc(64, (MX_MAX(bytes, 1) + 63) / 64 * 64);
    if (!block)
        abort();
    return block;
}

mx_tensor plain_copy(const mx_tensor *t) {
    mx_tensor copy = mx_tensor_of(t->dtype, t->rank, t->dims, room(mx_tensor_bytes(t)));
    mx_tensor_pack(t, copy.data);
    return copy;
}

mxw_status plain_run(mx_op op, const mx_attrs *attrs, const mx_tensor *inputs, int n_inputs, mx_tensor *outputs) {
    const mx_device *cpu = mx_device_at(0);
    mx_type types[MX_MAX_INPUTS], results[MX_MAX_OUTPUTS];
    const mx_type *in[MX_MAX_INPUTS];
    for (int i = 0; i < n_inputs; i++) {
        types[i] = (mx_type){.dtype = inputs[i].dtype, .rank = inputs[i].rank};
        memcpy(types[i].dims, inputs[i].dims, sizeof(types[i].dims));
        in[i] = inputs[i].data ? &types[i] : NULL;
    }
    mxw_status status = mx_op_infer(op, attrs, n_inputs, in, results, NULL);
    if (status < 0)
        return status;
    for (int i = 0; i < mx_op_outputs(op); i++) {
        outputs[i] = mx_tensor_of(results[i].dtype, results[i].rank, results[i].dims, NULL);
        outputs[i].data = room(mx_tensor_bytes(&outputs[i]));
    }
    mx_tensor used[MX_MAX_INPUTS];
    memcpy(used, inputs, (size_t)n_inputs * sizeof(*used));
    if (op == MX_OP_STATE_WRITE) {   /* the result lies where the state does: here, in a copy of it */
        memcpy(outputs[0].data, inputs[0].data, mx_tensor_bytes(&outputs[0]));
        used[0].data = outputs[0].data;
    }
    mx_call call = {.op = op, .attrs = attrs, .n_inputs = n_inputs, .n_outputs = mx_op_outputs(op), .inputs = used,
                    .outputs = outputs};
    call.scratch = room(cpu->scratch_bytes(cpu, &call));
    status = cpu->run_op(cpu, &call);
    free(call.scratch);
    for (int i = 0; i < mx_op_outputs(op) && status < 0; i++)
        free(outputs[i].data);
    return status;
}
