/* device/cpu/move.c - ops that move elements: permute, slice, concat, gather, the write into a state. */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/cpu/gemm/codes.h"

#define PIECE_BYTES 65536

/* ---- strided copies ---------------------------------------------------------------------------------------------- */

typedef struct strided {
    const mx_call *call;
    const mx_kernels *kernels;
    const char *from;
    int64_t strides[MX_MAX_RANK];   /* of the input along the result's axes, in elements */
    int64_t per_piece;              /* of the result's first axis */
} strided;

static void run_strided(void *context, int64_t piece, int slot) {
    const strided *s = context;
    const mx_tensor *out = &s->call->outputs[0];
    size_t bytes = mx_dtype_bytes(out->dtype);
    int64_t dims[MX_MAX_RANK], first = piece * s->per_piece;
    memcpy(dims, out->dims, sizeof(dims));
    dims[0] = MX_MIN(s->per_piece, out->dims[0] - first);
    s->kernels->copy((char *)out->data + first * out->strides[0] * (int64_t)bytes,
                     s->from + first * s->strides[0] * (int64_t)bytes, out->rank, dims, s->strides, bytes);
}

static mxw_status copy_strided(strided *s) {
    const mx_tensor *out = &s->call->outputs[0];
    int64_t count = mx_tensor_count(out);
    if (count == 0)
        return MXW_OK;
    if (out->rank == 0) {
        memcpy(out->data, s->from, mx_dtype_bytes(out->dtype));
        return MXW_OK;
    }
    int64_t each_bytes = count / out->dims[0] * (int64_t)mx_dtype_bytes(out->dtype);
    s->per_piece = MX_MAX(1, PIECE_BYTES / each_bytes);
    mx_cpu_for(s->call, (out->dims[0] - 1) / s->per_piece + 1, run_strided, s);
    return MXW_OK;
}

mxw_status mx_cpu_permute(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0];
    strided s = {.call = call, .kernels = kernels, .from = x->data};
    for (int i = 0; i < x->rank; i++)
        s.strides[i] = x->strides[call->attrs->axes[i]];
    return copy_strided(&s);
}

mxw_status mx_cpu_transpose(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0];
    strided s = {.call = call, .kernels = kernels, .from = x->data};
    memcpy(s.strides, x->strides, sizeof(s.strides));
    s.strides[x->rank - 2] = x->strides[x->rank - 1];
    s.strides[x->rank - 1] = x->strides[x->rank - 2];
    return copy_strided(&s);
}

mxw_status mx_cpu_reshape(const mx_call *call, const mx_kernels *kernels) {
    size_t bytes = mx_tensor_bytes(&call->inputs[0]);
    if (bytes)
        memcpy(call->outputs[0].data, call->inputs[0].data, bytes);
    return MXW_OK;
}

mxw_status mx_cpu_slice(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0];
    const mx_attrs *a = call->attrs;
    int64_t first, last;
    strided s = {.call = call, .kernels = kernels, .from = x->data};
    if (mx_tensor_count(&call->outputs[0]) == 0)
        return MXW_OK;
    mx_slice_range(x->dims[a->axis], a->start, a->stop, &first, &last);
    memcpy(s.strides, x->strides, sizeof(s.strides));
    s.strides[a->axis] = call->outputs[0].dims[a->axis] > 1 ? x->strides[a->axis] * a->step : 1;
    s.from += first * x->strides[a->axis] * (int64_t)mx_dtype_bytes(x->dtype);
    return copy_strided(&s);
}

mxw_status mx_cpu_concat(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *out = &call->outputs[0];
    int64_t outer = 1;
    for (int i = 0; i < call->attrs->axis; i++)
        outer *= out->dims[i];
    if (mx_tensor_count(out) == 0)
        return MXW_OK;
    size_t out_run = mx_tensor_bytes(out) / (size_t)outer, at = 0;
    for (int i = 0; i < call->n_inputs; i++) {
        size_t run = mx_tensor_bytes(&call->inputs[i]) / (size_t)outer;
        for (int64_t r = 0; r < outer && run; r++)
            memcpy((char *)out->data + (size_t)r * out_run + at, (const char *)call->inputs[i].data + (size_t)r * run,
                   run);
        at += run;
    }
    return MXW_OK;
}

/* ---- rows by index ----------------------------------------------------------------------------------------------- */

static size_t row_bytes(const mx_tensor *x) {
    int64_t n = 1;
    for (int i = 1; i < x->rank; i++)
        n *= x->dims[i];
    return (size_t)n * mx_dtype_bytes(x->dtype);
}

mxw_status mx_cpu_gather(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *table = &call->inputs[0], *index = &call->inputs[1];
    mxw_status status = mx_cpu_check_index(call, "index", index, table->dims[0]);
    size_t bytes = row_bytes(table);
    int64_t n = mx_tensor_count(index);
    for (int64_t i = 0; i < n && status >= 0 && bytes; i++)
        memcpy((char *)call->outputs[0].data + (size_t)i * bytes,
               (const char *)table->data + (size_t)((const int32_t *)index->data)[i] * bytes, bytes);
    return status;
}

static mxw_status gather_codes(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *table = &call->inputs[0], *index = &call->inputs[1];
    const mx_codes *w = table->data;
    mxw_status status = mx_cpu_check_index(call, "index", index, table->dims[0]);
    for (int64_t i = 0; i < mx_tensor_count(index) && status >= 0; i++)
        mx_codes_row(w, ((const int32_t *)index->data)[i], (float *)call->outputs[0].data + i * w->k);
    return status;
}

/* A table may keep its own element type, or its codes: its rows are widened. */
mxw_status mx_cpu_fast_gather(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *table = &call->inputs[0], *index = &call->inputs[1];
    mxw_dtype to = call->outputs[0].dtype, from = table->dtype;
    if (mx_codes_is(table))
        return gather_codes(call, kernels);
    if (from == to)
        return mx_cpu_gather(call, kernels);
    mxw_status status = mx_cpu_check_index(call, "index", index, table->dims[0]);
    size_t bytes = row_bytes(table);
    int64_t count = mx_tensor_count(index), n = (int64_t)(bytes / mx_dtype_bytes(from));
    for (int64_t i = 0; i < count && status >= 0 && bytes; i++) {
        const void *row = (const char *)table->data + (size_t)((const int32_t *)index->data)[i] * bytes;
        float *y = (float *)call->outputs[0].data + i * n;
        if (from == MXW_F16)
            kernels->widen_f16(y, row, n);
        else
            kernels->cast(y, to, row, from, n);
    }
    return status;
}

/* In order: when an index comes twice, the last write stays. */
mxw_status mx_cpu_state_write(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *state = &call->inputs[0], *x = &call->inputs[1], *index = &call->inputs[2];
    mxw_status status = mx_cpu_check_index(call, "index", index, state->dims[0]);
    size_t bytes = row_bytes(state);
    int64_t n = mx_tensor_count(index);
    for (int64_t i = 0; i < n && status >= 0 && bytes; i++)
        memcpy((char *)state->data + (size_t)((const int32_t *)index->data)[i] * bytes,
               (const char *)x->data + (size_t)i * bytes, bytes);
    return status;
}

/* ---- compiled calls ---------------------------------------------------------------------------------------------- */

/* One entry of a state: rows that are adjacent there and may be strided in x. */
typedef struct entry {
    char *to;
    const char *from;
    const mx_kernels *narrows;     /* x is f32 and the state f16; else NULL */
    size_t bytes;                  /* of a row */
    int64_t step, n, per_piece;    /* bytes from row to row of x; rows, of an entry and of a piece */
} entry;

static void run_entry(void *context, int64_t piece, int slot) {
    const entry *e = context;
    for (int64_t r = piece * e->per_piece; r < MX_MIN(e->n, (piece + 1) * e->per_piece); r++)
        if (e->narrows)
            e->narrows->narrow_f16(e->to + (size_t)r * e->bytes, (const void *)(e->from + r * e->step),
                                   (int64_t)e->bytes / 2);
        else
            memcpy(e->to + (size_t)r * e->bytes, e->from + r * e->step, e->bytes);
}

/* Entries one after the other, as above; the rows of one in pieces. */
mxw_status mx_cpu_fast_state_write(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *state = &call->inputs[0], *x = &call->inputs[1], *index = &call->inputs[2];
    mxw_status status = mx_cpu_check_index(call, "index", index, state->dims[0]);
    size_t whole = row_bytes(state), element = mx_dtype_bytes(state->dtype);
    int last = x->rank - 1;
    entry e = {.bytes = last ? (size_t)x->dims[last] * element : element,
               .narrows = state->dtype == MXW_F16 && x->dtype == MXW_F32 ? kernels : NULL};
    if (status < 0 || !whole)
        return status;
    e.n = (int64_t)(whole / e.bytes);
    e.step = (last ? x->strides[last - 1] : x->strides[0]) * (int64_t)mx_dtype_bytes(x->dtype);
    e.per_piece = MX_MAX(1, (int64_t)(PIECE_BYTES / e.bytes));
    for (int64_t i = 0; i < mx_tensor_count(index); i++) {
        e.to = (char *)state->data + (size_t)((const int32_t *)index->data)[i] * whole;
        e.from = (const char *)x->data + i * e.n * e.step;
        mx_cpu_for(call, (e.n - 1) / e.per_piece + 1, run_entry, &e);
    }
    return MXW_OK;
}
