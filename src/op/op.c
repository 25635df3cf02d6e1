/* op/op.c - the table of ops, and what inference has in common: input counts, messages, the size of the result. */
#include "op/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "op/infer.h"

static const struct {
    const char *name;
    int least, most, outputs;
    mx_infer_fn infer;
} ops[] = {
#define MX_OP(id, name, least, most, outputs) {name, least, most, outputs, mx_infer_##id},
#include "op/ops.def"
#undef MX_OP
};

const char *mx_op_name(mx_op op) { return (size_t)op < MX_COUNT(ops) ? ops[op].name : "?"; }
int mx_op_least_inputs(mx_op op) { return (size_t)op < MX_COUNT(ops) ? ops[op].least : 0; }
int mx_op_most_inputs(mx_op op) { return (size_t)op < MX_COUNT(ops) ? ops[op].most : 0; }
int mx_op_outputs(mx_op op) { return (size_t)op < MX_COUNT(ops) ? ops[op].outputs : 0; }

static const char *dim_text(int64_t dim, const mx_size_names *names, char out[32]) {
    if (dim == MX_DIM_ANY)
        return "?";
    if (dim < 0 && names) {
        const char *name = names->name(names->context, dim);
        return name ? name : "?";
    }
    snprintf(out, 32, "%lld", (long long)dim);
    return out;
}

static const char *shape_text(const mx_type *type, const mx_size_names *names, char *out, size_t n, size_t at) {
    char number[32];
    for (int i = 0; i <= type->rank && at < n; i++) {
        const char *piece = i < type->rank ? dim_text(type->dims[i], names, number) : "]";
        const char *before = i == 0 ? "[" : i < type->rank ? ", " : "";
        int wrote = snprintf(out + at, n - at, "%s%s", before, piece);
        at += wrote > 0 ? (size_t)wrote : 0;
    }
    return out;
}

const char *mx_type_text(const mx_type *type, const mx_size_names *names, char *out, size_t n) {
    int wrote = snprintf(out, n, "%s ", mx_dtype_name(type->dtype));
    return shape_text(type, names, out, n, wrote > 0 ? (size_t)wrote : 0);
}

int64_t mx_type_count(const mx_type *type) {
    int64_t count = 1;   /* of the sizes that are not 0: strides are products of them whether or not there is a 0 */
    int empty = 0;
    for (int i = 0; i < type->rank; i++) {
        if (type->dims[i] == 0)
            empty = 1;
        else if (type->dims[i] > MX_MAX_ELEMENTS / count)
            return -1;
        else
            count *= type->dims[i];
    }
    return empty ? 0 : count;
}

void mx_slice_range(int64_t n, int64_t start, int64_t stop, int64_t *first, int64_t *last) {
    if (start < 0)
        start = start < -n ? 0 : start + n;
    if (stop < 0)
        stop = stop < -n ? 0 : stop + n;
    *first = MX_MIN(start, n);
    *last = MX_MAX(*first, MX_MIN(stop, n));
}

mxw_status mx_infer_bad(mx_infer *f, const char *format, ...) {
    char line[448];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof(line), format, list);
    va_end(list);
    return mx_fail(MXW_E_ARGUMENT, "%s: %s", mx_op_name(f->op), line);
}

static char *next_text(mx_infer *f) { return f->text[f->n_text++ % (int)MX_COUNT(f->text)]; }

const char *mx_infer_type(mx_infer *f, const mx_type *type) {
    return mx_type_text(type, f->names, next_text(f), sizeof(f->text[0]));
}

const char *mx_infer_shape(mx_infer *f, const mx_type *type) {
    return shape_text(type, f->names, next_text(f), sizeof(f->text[0]), 0);
}

const char *mx_infer_dim(mx_infer *f, int64_t dim) {
    char number[32];
    char *out = next_text(f);
    snprintf(out, sizeof(f->text[0]), "%s", dim_text(dim, f->names, number));
    return out;
}

mxw_status mx_infer_want_dtype(mx_infer *f, int input, const char *what, mxw_dtype dtype) {
    const mx_type *x = f->in[input];
    if (x->dtype == dtype)
        return MXW_OK;
    return mx_infer_bad(f, "%s is %s: expected %s%s", what, mx_infer_type(f, x), mx_dtype_name(dtype),
                        mx_dtype_is_float(dtype) && mx_dtype_is_float(x->dtype) ? ", cast it first" : "");
}

mxw_status mx_infer_want_rank(mx_infer *f, int input, const char *what, const char *shape, int rank) {
    const mx_type *x = f->in[input];
    if (x->rank == rank)
        return MXW_OK;
    return mx_infer_bad(f, "%s is %s: expected %s", what, mx_infer_type(f, x), shape);
}

int mx_infer_same(int64_t a, int64_t b, int64_t *agreed) {
    *agreed = a == MX_DIM_ANY ? b : a;
    return a == b || a == MX_DIM_ANY || b == MX_DIM_ANY;
}

mx_type *mx_infer_out(mx_infer *f, int rank) {
    f->out[0] = (mx_type){.dtype = f->in[0]->dtype, .rank = rank};
    return f->out;
}

/* Open sizes count as one: their bounds are checked when they are bound. */
static mxw_status check_size(mx_infer *f, const mx_type *out) {
    mx_type known = *out;
    for (int i = 0; i < known.rank; i++)
        if (known.dims[i] < 0)
            known.dims[i] = 1;
    if (mx_type_count(&known) < 0)
        return mx_infer_bad(f, "the result %s is too large: expected at most 2^44 elements", mx_infer_type(f, out));
    return MXW_OK;
}

mxw_status mx_op_infer(mx_op op, const mx_attrs *attrs, int n_inputs, const mx_type *const *inputs, mx_type *outputs,
                       const mx_size_names *names) {
    mx_infer f = {.op = op, .attrs = attrs, .n_inputs = n_inputs, .in = inputs, .out = outputs, .names = names};
    if ((size_t)op >= MX_COUNT(ops))
        return mx_fail(MXW_E_INTERNAL, "no op has the number %d", (int)op);
    if (n_inputs < ops[op].least || n_inputs > ops[op].most)
        return mx_infer_bad(&f, "%d inputs: expected %d to %d", n_inputs, ops[op].least, ops[op].most);
    for (int i = 0; i < n_inputs; i++)
        if (!inputs[i] && (i < ops[op].least || op == MX_OP_CONCAT))
            return mx_infer_bad(&f, "input %d is missing", i);
    mxw_status status = ops[op].infer(&f);
    for (int i = 0; i < ops[op].outputs && status >= 0; i++)
        status = check_size(&f, &outputs[i]);
    return status;
}
