/* op/infer_shape.c - inference of ops that move, convert or combine elements. */
#include "op/infer.h"

#include <string.h>

/* ---- broadcast ----------------------------------------------------------------------------------------------- */

/* The size that two broadcast against each other give; 0 returned if they do not fit. */
static int broadcast_dim(int64_t a, int64_t b, int64_t *out) {
    if (a == 1 || b == 1) {
        *out = a == 1 ? b : a;
        return 1;
    }
    return mx_infer_same(a, b, out);
}

/* Broadcasts the first ranks - skip axes of two inputs into out, aligned at the right. */
static mxw_status broadcast(mx_infer *f, int skip, mx_type *out) {
    const mx_type *a = f->in[0], *b = f->in[1];
    out->rank = MX_MAX(a->rank, b->rank);
    for (int i = 0; i < out->rank - skip; i++) {
        int ia = i - (out->rank - a->rank), ib = i - (out->rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
        if (!broadcast_dim(da, db, &out->dims[i]))
            return mx_infer_bad(f, "%s and %s do not broadcast: expected equal sizes or 1 on each axis, got %s and %s",
                                mx_infer_shape(f, a), mx_infer_shape(f, b), mx_infer_dim(f, da), mx_infer_dim(f, db));
    }
    return MXW_OK;
}

static mxw_status arithmetic(mx_infer *f) {
    const mx_type *a = f->in[0], *b = f->in[1];
    if (a->dtype != b->dtype)
        return mx_infer_bad(f, "dtypes differ: %s and %s: expected the same, cast one first", mx_infer_type(f, a),
                            mx_infer_type(f, b));
    if (a->dtype != MXW_F32 && (a->dtype != MXW_I32 || f->op == MX_OP_DIV))
        return mx_infer_bad(f, "operands are %s: expected f32%s", mx_dtype_name(a->dtype),
                            f->op == MX_OP_DIV ? "" : " or i32");
    return broadcast(f, 0, mx_infer_out(f, 0));
}

mxw_status mx_infer_ADD(mx_infer *f) { return arithmetic(f); }
mxw_status mx_infer_SUB(mx_infer *f) { return arithmetic(f); }
mxw_status mx_infer_MUL(mx_infer *f) { return arithmetic(f); }
mxw_status mx_infer_DIV(mx_infer *f) { return arithmetic(f); }

mxw_status mx_infer_MATMUL(mx_infer *f) {
    const mx_type *a = f->in[0], *b = f->in[1];
    mxw_status status;
    int64_t inner;
    MX_TRY(mx_infer_want_dtype(f, 0, "a", MXW_F32));
    MX_TRY(mx_infer_want_dtype(f, 1, "b", MXW_F32));
    if (a->rank < 2 || b->rank < 2)
        return mx_infer_bad(f, "operands are %s and %s: expected [.., m, k] and [.., k, n]", mx_infer_shape(f, a),
                            mx_infer_shape(f, b));
    if (!mx_infer_same(a->dims[a->rank - 1], b->dims[b->rank - 2], &inner))
        return mx_infer_bad(f, "b %s does not fit a %s: expected b [.., %s, n]", mx_infer_shape(f, b),
                            mx_infer_shape(f, a), mx_infer_dim(f, a->dims[a->rank - 1]));
    mx_type *out = mx_infer_out(f, 0);
    MX_TRY(broadcast(f, 2, out));
    out->dims[out->rank - 2] = a->dims[a->rank - 2];
    out->dims[out->rank - 1] = b->dims[b->rank - 1];
out:
    return status;
}

/* ---- axes ------------------------------------------------------------------------------------------------------ */

mxw_status mx_infer_TRANSPOSE(mx_infer *f) {
    const mx_type *x = f->in[0];
    if (x->rank < 2)
        return mx_infer_bad(f, "x is %s: expected at least two axes", mx_infer_type(f, x));
    mx_type *out = mx_infer_out(f, x->rank);
    memcpy(out->dims, x->dims, sizeof(out->dims));
    out->dims[x->rank - 2] = x->dims[x->rank - 1];
    out->dims[x->rank - 1] = x->dims[x->rank - 2];
    return MXW_OK;
}

mxw_status mx_infer_PERMUTE(mx_infer *f) {
    const mx_type *x = f->in[0];
    mx_type *out = mx_infer_out(f, x->rank);
    unsigned seen = 0;
    for (int i = 0; i < x->rank; i++) {
        int axis = f->attrs->axes[i];
        if (axis < 0 || axis >= x->rank || seen & 1u << axis)
            return mx_infer_bad(f, "axes[%d] is %d for x %s: expected each of 0..%d once", i, axis,
                                mx_infer_shape(f, x), x->rank - 1);
        seen |= 1u << axis;
        out->dims[i] = x->dims[axis];
    }
    return MXW_OK;
}

static mxw_status want_axis(mx_infer *f) {
    const mx_type *x = f->in[0];
    if (f->attrs->axis >= 0 && f->attrs->axis < x->rank)
        return MXW_OK;
    return mx_infer_bad(f, "axis %d of %s: expected %d to %d", f->attrs->axis, mx_infer_shape(f, x), -x->rank,
                        x->rank - 1);
}

mxw_status mx_infer_SLICE(mx_infer *f) {
    const mx_type *x = f->in[0];
    const mx_attrs *a = f->attrs;
    mxw_status status = want_axis(f);
    if (status < 0)
        return status;
    if (a->step < 1)
        return mx_infer_bad(f, "step is %lld: expected at least 1", (long long)a->step);
    mx_type *out = mx_infer_out(f, x->rank);
    memcpy(out->dims, x->dims, sizeof(out->dims));
    int64_t n = x->dims[a->axis], first, last;
    if (n < 0) {
        int whole = a->start == 0 && a->stop == INT64_MAX && a->step == 1;
        out->dims[a->axis] = whole ? n : MX_DIM_ANY;
        return MXW_OK;
    }
    mx_slice_range(n, a->start, a->stop, &first, &last);
    out->dims[a->axis] = last == first ? 0 : (last - first - 1) / a->step + 1;
    return MXW_OK;
}

mxw_status mx_infer_CONCAT(mx_infer *f) {
    const mx_type *x = f->in[0];
    mxw_status status = want_axis(f);
    if (status < 0)
        return status;
    mx_type *out = mx_infer_out(f, x->rank);
    memcpy(out->dims, x->dims, sizeof(out->dims));
    for (int i = 1; i < f->n_inputs; i++) {
        const mx_type *y = f->in[i];
        int fits = y->dtype == x->dtype && y->rank == x->rank;
        for (int d = 0; d < x->rank && fits; d++)
            if (d != f->attrs->axis)
                fits = mx_infer_same(out->dims[d], y->dims[d], &out->dims[d]);
        if (!fits)
            return mx_infer_bad(f, "input %d is %s: expected the dtype and sizes of input 0, %s, but on axis %d", i,
                                mx_infer_type(f, y), mx_infer_type(f, x), f->attrs->axis);
        int64_t *sum = &out->dims[f->attrs->axis], more = y->dims[f->attrs->axis];
        if (more == 0 || *sum == 0)
            *sum = more == 0 ? *sum : more;
        else if (*sum < 0 || more < 0)
            *sum = MX_DIM_ANY;
        else if (*sum > MX_MAX_ELEMENTS)
            return mx_infer_bad(f, "the result is too large on axis %d", f->attrs->axis);
        else
            *sum += more;
    }
    return MXW_OK;
}

mxw_status mx_infer_GATHER(mx_infer *f) {
    const mx_type *table = f->in[0], *index = f->in[1];
    mxw_status status = mx_infer_want_dtype(f, 1, "index", MXW_I32);
    if (status < 0)
        return status;
    if (table->rank < 1)
        return mx_infer_bad(f, "table is %s: expected at least one axis", mx_infer_type(f, table));
    int rank = index->rank + table->rank - 1;
    if (rank > MX_MAX_RANK)
        return mx_infer_bad(f, "index %s into table %s: expected a result of at most %d axes", mx_infer_shape(f, index),
                            mx_infer_shape(f, table), MX_MAX_RANK);
    mx_type *out = mx_infer_out(f, rank);
    memcpy(out->dims, index->dims, (size_t)index->rank * sizeof(int64_t));
    memcpy(out->dims + index->rank, table->dims + 1, (size_t)(table->rank - 1) * sizeof(int64_t));
    return MXW_OK;
}

mxw_status mx_infer_CAST(mx_infer *f) {
    if (!mx_dtype_in_graphs(f->attrs->dtype))
        return mx_infer_bad(f, "dtype %d is unknown", (int)f->attrs->dtype);
    f->out[0] = *f->in[0];
    f->out[0].dtype = f->attrs->dtype;
    return MXW_OK;
}

/* ---- reductions ------------------------------------------------------------------------------------------------ */

static void drop_axis(const mx_type *x, int axis, mx_type *out) {
    for (int i = 0, to = 0; i < x->rank; i++)
        if (i != axis)
            out->dims[to++] = x->dims[i];
}

mxw_status mx_infer_REDUCE(mx_infer *f) {
    const mx_type *x = f->in[0];
    mxw_status status = want_axis(f);
    int kind = f->attrs->kind;
    if (status < 0)
        return status;
    if (kind < MXW_REDUCE_SUM || kind > MXW_REDUCE_MIN)
        return mx_infer_bad(f, "kind is %d: expected sum, mean, max or min", kind);
    if (x->dtype != MXW_F32 && (x->dtype != MXW_I32 || kind == MXW_REDUCE_MEAN))
        return mx_infer_bad(f, "x is %s: expected f32%s", mx_infer_type(f, x),
                            kind == MXW_REDUCE_MEAN ? "" : " or i32");
    if (x->dims[f->attrs->axis] == 0 && kind != MXW_REDUCE_SUM)
        return mx_infer_bad(f, "axis %d of %s is empty: expected at least one element", f->attrs->axis,
                            mx_infer_shape(f, x));
    drop_axis(x, f->attrs->axis, mx_infer_out(f, x->rank - 1));
    return MXW_OK;
}

mxw_status mx_infer_ARGMAX(mx_infer *f) {
    const mx_type *x = f->in[0];
    mxw_status status = mx_infer_want_dtype(f, 0, "x", MXW_F32);
    if (status < 0)
        return status;
    if (x->rank < 1 || x->dims[x->rank - 1] == 0)
        return mx_infer_bad(f, "x is %s: expected a last axis of at least one element", mx_infer_type(f, x));
    mx_type *out = mx_infer_out(f, x->rank - 1);
    out->dtype = MXW_I32;
    memcpy(out->dims, x->dims, (size_t)(x->rank - 1) * sizeof(int64_t));
    return MXW_OK;
}

mxw_status mx_infer_TOP_K(mx_infer *f) {
    const mx_type *x = f->in[0];
    int64_t k = f->attrs->k;
    mxw_status status = mx_infer_want_dtype(f, 0, "x", MXW_F32);
    if (status < 0)
        return status;
    int64_t n = x->rank ? x->dims[x->rank - 1] : 0;
    if (x->rank < 1 || k == 0 || k == MX_DIM_INFER || (k >= 0 && n >= 0 && k > n))
        return mx_infer_bad(f, "k is %s for x %s: expected 1 to the size of the last axis", mx_infer_dim(f, k),
                            mx_infer_type(f, x));
    mx_type *out = mx_infer_out(f, x->rank);
    memcpy(out->dims, x->dims, sizeof(out->dims));
    out->dims[x->rank - 1] = k;
    f->out[1] = *out;
    f->out[1].dtype = MXW_I32;
    return MXW_OK;
}

/* ---- reshape --------------------------------------------------------------------------------------------------- */

/* A product of sizes: the numbers multiplied out, the open ones kept as a list. */
typedef struct product {
    int64_t number;
    int64_t open[MX_MAX_RANK];
    int n_open;
    int unknown;   /* holds a size known only when run */
} product;

static int multiply(product *p, int64_t dim) {
    if (dim == MX_DIM_ANY)
        p->unknown = 1;
    else if (dim < 0)
        p->open[p->n_open++] = dim;
    else if (dim && p->number > MX_MAX_ELEMENTS / dim)
        return 0;
    else
        p->number *= dim;
    return 1;
}

/* Removes from both what both have. */
static void cancel(product *a, product *b) {
    for (int i = 0; i < a->n_open; i++)
        for (int j = 0; j < b->n_open; j++)
            if (a->open[i] == b->open[j]) {
                a->open[i--] = a->open[--a->n_open];
                b->open[j] = b->open[--b->n_open];
                break;
            }
}

/* The size that MX_DIM_INFER stands for: have / want; 0 returned if it cannot be. */
static int infer_size(const product *have, const product *want, int64_t *size) {
    *size = MX_DIM_ANY;
    if (have->unknown || want->unknown || want->n_open || have->n_open > 1)
        return 1;
    if (have->n_open) {
        if (have->number == want->number)
            *size = have->open[0];
        return 1;
    }
    if (want->number == 0 || have->number % want->number)
        return 0;
    *size = have->number / want->number;
    return 1;
}

mxw_status mx_infer_RESHAPE(mx_infer *f) {
    const mx_type *x = f->in[0];
    const mx_attrs *a = f->attrs;
    if (a->rank < 0 || a->rank > MX_MAX_RANK)
        return mx_infer_bad(f, "%d axes: expected 0 to %d", a->rank, MX_MAX_RANK);
    mx_type *out = mx_infer_out(f, a->rank);
    memcpy(out->dims, a->dims, sizeof(out->dims));
    product have = {.number = 1}, want = {.number = 1};
    int hole = -1, fits = 1;
    for (int i = 0; i < x->rank; i++)
        fits &= multiply(&have, x->dims[i]);
    for (int i = 0; i < a->rank; i++) {
        if (a->dims[i] != MX_DIM_INFER)
            fits &= multiply(&want, a->dims[i]);
        else if (hole >= 0)
            return mx_infer_bad(f, "sizes %d and %d are both left to be inferred: expected one", hole, i);
        else
            hole = i;
    }
    cancel(&have, &want);
    if (hole >= 0)
        fits = fits && infer_size(&have, &want, &out->dims[hole]);
    else if (!have.unknown && !want.unknown)
        fits = fits && have.number == want.number && have.n_open == 0 && want.n_open == 0;
    if (fits)
        return MXW_OK;
    return mx_infer_bad(f, "%s cannot become %s: expected as many elements", mx_infer_shape(f, x),
                        mx_infer_shape(f, out));
}
