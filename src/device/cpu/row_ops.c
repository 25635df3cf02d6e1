/* device/cpu/row_ops.c - ops whose elements or rows are independent: arithmetic with broadcast, norms, activations,
 * reductions, select. Pieces are cut for balance only: no result crosses a row. */
#include "device/cpu/cpu.h"

#include <string.h>

#define PIECE 16384   /* elements: some microseconds of work, so that scheduling it costs little */

typedef struct rows {
    const mx_call *call;
    const mx_kernels *kernels;
    int64_t n_rows, n;         /* rows, and elements of each */
    int64_t per_piece;         /* rows */
    mx_cpu_scratch scratch;
} rows;

static rows begin(const mx_call *call, const mx_kernels *kernels, int64_t n_rows, int64_t n) {
    int64_t per_piece = n ? MX_MAX(1, PIECE / n) : PIECE;
    return (rows){.call = call, .kernels = kernels, .n_rows = n_rows, .n = n, .per_piece = per_piece};
}

/* Rows of the last axis. */
static rows begin_last(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0];
    int64_t n = x->rank ? x->dims[x->rank - 1] : 1;
    return begin(call, kernels, n ? mx_tensor_count(x) / n : 0, n);
}

static void each(rows *r, mx_cpu_fn fn) {
    if (r->n_rows)
        mx_cpu_for(r->call, (r->n_rows - 1) / r->per_piece + 1, fn, r);
}

static int64_t first_of(const rows *r, int64_t piece) { return piece * r->per_piece; }
static int64_t count_of(const rows *r, int64_t piece) { return MX_MIN(r->per_piece, r->n_rows - first_of(r, piece)); }

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

typedef struct binary {
    rows rows;
    int rank;                                            /* axes left after merging; the last is the inner one */
    int64_t dims[MX_MAX_RANK + 1], a[MX_MAX_RANK + 1], b[MX_MAX_RANK + 1];   /* sizes, strides of the operands */
} binary;

static int64_t broadcast_stride(const mx_tensor *x, const mx_tensor *out, int i) {
    int axis = i - (out->rank - x->rank);
    return axis < 0 || x->dims[axis] == 1 ? 0 : x->strides[axis];
}

/* Leaves out axes of one, and joins neighbours that both operands step through evenly. */
static void merge_axes(binary *f, const mx_tensor *a, const mx_tensor *b, const mx_tensor *out) {
    for (int i = 0; i < out->rank; i++) {
        int64_t n = out->dims[i], a_stride = broadcast_stride(a, out, i), b_stride = broadcast_stride(b, out, i);
        int last = f->rank - 1;
        if (n == 1)
            continue;
        if (f->rank && f->a[last] == a_stride * n && f->b[last] == b_stride * n) {
            f->dims[last] *= n;
            f->a[last] = a_stride;
            f->b[last] = b_stride;
        } else {
            f->dims[f->rank] = n;
            f->a[f->rank] = a_stride;
            f->b[f->rank++] = b_stride;
        }
    }
    if (f->rank == 0) {
        f->dims[0] = 1;
        f->rank = 1;
    }
}

static void apply(const binary *f, int64_t to, int64_t a, int64_t b, int64_t n) {
    const mx_call *call = f->rows.call;
    const mx_kernels *k = f->rows.kernels;
    int last = f->rank - 1, a_step = (int)f->a[last], b_step = (int)f->b[last];
    if (call->inputs[0].dtype == MXW_F32) {
        const float *x = (const float *)call->inputs[0].data + a, *y = (const float *)call->inputs[1].data + b;
        void (*run)(float *, const float *, int, const float *, int, int64_t) =
            call->op == MX_OP_ADD ? k->add_f32 : call->op == MX_OP_SUB ? k->sub_f32
                                             : call->op == MX_OP_MUL   ? k->mul_f32
                                                                       : k->div_f32;
        run((float *)call->outputs[0].data + to, x, a_step, y, b_step, n);
    } else {
        const int32_t *x = (const int32_t *)call->inputs[0].data + a, *y = (const int32_t *)call->inputs[1].data + b;
        void (*run)(int32_t *, const int32_t *, int, const int32_t *, int, int64_t) =
            call->op == MX_OP_ADD ? k->add_i32 : call->op == MX_OP_SUB ? k->sub_i32 : k->mul_i32;
        run((int32_t *)call->outputs[0].data + to, x, a_step, y, b_step, n);
    }
}

/* A piece is a range of the result's inner runs, or of the one run there is. */
static void run_binary(void *context, int64_t piece, int slot) {
    const binary *f = context;
    int last = f->rank - 1;
    int64_t inner = f->dims[last], first = first_of(&f->rows, piece), count = count_of(&f->rows, piece);
    if (last == 0) {
        apply(f, first, first * f->a[0], first * f->b[0], count);
        return;
    }
    for (int64_t r = first; r < first + count; r++) {
        int64_t rest = r, a = 0, b = 0;
        for (int i = last - 1; i >= 0; i--) {
            int64_t at = rest % f->dims[i];
            rest /= f->dims[i];
            a += at * f->a[i];
            b += at * f->b[i];
        }
        apply(f, r * inner, a, b, inner);
    }
}

mxw_status mx_cpu_binary(const mx_call *call, const mx_kernels *kernels) {
    binary f = {0};
    int64_t count = mx_tensor_count(&call->outputs[0]);
    if (count == 0)
        return MXW_OK;
    merge_axes(&f, &call->inputs[0], &call->inputs[1], &call->outputs[0]);
    int64_t inner = f.dims[f.rank - 1];
    f.rows = f.rank == 1 ? begin(call, kernels, inner, 1) : begin(call, kernels, count / inner, inner);
    each(&f.rows, run_binary);
    return MXW_OK;
}

/* ---- norms, activations, casts ----------------------------------------------------------------------------------- */

static void run_layer_norm(void *context, int64_t piece, int slot) {
    const rows *r = context;
    int64_t at = first_of(r, piece) * r->n;
    const mx_tensor *in = r->call->inputs;
    r->kernels->layer_norm((float *)r->call->outputs[0].data + at, (const float *)in[0].data + at, in[1].data,
                           in[2].data, count_of(r, piece), r->n, r->call->attrs->eps);
}

mxw_status mx_cpu_layer_norm(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin_last(call, kernels);
    each(&r, run_layer_norm);
    return MXW_OK;
}

static void run_softmax(void *context, int64_t piece, int slot) {
    const rows *r = context;
    int64_t at = first_of(r, piece) * r->n;
    r->kernels->softmax((float *)r->call->outputs[0].data + at, (const float *)r->call->inputs[0].data + at,
                        count_of(r, piece), r->n, r->n, 1.0f);
}

mxw_status mx_cpu_softmax(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin_last(call, kernels);
    each(&r, run_softmax);
    return MXW_OK;
}

static void run_gelu(void *context, int64_t piece, int slot) {
    const rows *r = context;
    int64_t at = first_of(r, piece);
    (r->call->attrs->kind == MXW_GELU_ERF ? r->kernels->gelu_erf : r->kernels->gelu_tanh)(
        (float *)r->call->outputs[0].data + at, (const float *)r->call->inputs[0].data + at, count_of(r, piece));
}

mxw_status mx_cpu_gelu(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin(call, kernels, mx_tensor_count(&call->inputs[0]), 1);
    each(&r, run_gelu);
    return MXW_OK;
}

typedef void (*unary_fn)(float *y, const float *x, int64_t n, float p);

static unary_fn unary_of(const mx_kernels *kernels, mx_op op) {
    switch (op) {
#define MX_ELEMENTWISE(id, name, ...) case MX_OP_##id: return kernels->unary_##name;
#include "op/elementwise.def"
    default: return NULL;
    }
}

static void run_elementwise(void *context, int64_t piece, int slot) {
    const rows *r = context;
    int64_t at = first_of(r, piece);
    unary_of(r->kernels, r->call->op)((float *)r->call->outputs[0].data + at,
                                      (const float *)r->call->inputs[0].data + at, count_of(r, piece),
                                      (float)r->call->attrs->parameter);
}

mxw_status mx_cpu_elementwise(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin(call, kernels, mx_tensor_count(&call->inputs[0]), 1);
    each(&r, run_elementwise);
    return MXW_OK;
}

static void run_cast(void *context, int64_t piece, int slot) {
    const rows *r = context;
    const mx_tensor *x = &r->call->inputs[0], *y = &r->call->outputs[0];
    int64_t at = first_of(r, piece);
    r->kernels->cast((char *)y->data + at * (int64_t)mx_dtype_bytes(y->dtype), y->dtype,
                     (const char *)x->data + at * (int64_t)mx_dtype_bytes(x->dtype), x->dtype, count_of(r, piece));
}

mxw_status mx_cpu_cast(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin(call, kernels, mx_tensor_count(&call->inputs[0]), 1);
    each(&r, run_cast);
    return MXW_OK;
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

typedef struct reduction {
    rows rows;      /* one row: everything before the axis */
    int64_t n, inner;
} reduction;

static void run_reduce(void *context, int64_t piece, int slot) {
    const reduction *f = context;
    const mx_call *call = f->rows.call;
    mxw_reduce_kind kind = (mxw_reduce_kind)call->attrs->kind;
    int64_t first = first_of(&f->rows, piece), end = first + count_of(&f->rows, piece);
    for (int64_t r = first; r < end; r++) {
        int64_t from = r * f->n * f->inner, to = r * f->inner;
        if (call->inputs[0].dtype == MXW_F32)
            f->rows.kernels->reduce_f32((float *)call->outputs[0].data + to, (const float *)call->inputs[0].data + from,
                                        kind, f->n, f->inner);
        else
            f->rows.kernels->reduce_i32((int32_t *)call->outputs[0].data + to,
                                        (const int32_t *)call->inputs[0].data + from, kind, f->n, f->inner);
    }
}

mxw_status mx_cpu_reduce(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0];
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < x->rank; i++) {
        outer *= i < call->attrs->axis ? x->dims[i] : 1;
        inner *= i > call->attrs->axis ? x->dims[i] : 1;
    }
    reduction f = {begin(call, kernels, outer, x->dims[call->attrs->axis] * inner), x->dims[call->attrs->axis], inner};
    each(&f.rows, run_reduce);
    return MXW_OK;
}

static void run_argmax(void *context, int64_t piece, int slot) {
    const rows *r = context;
    int64_t first = first_of(r, piece), end = first + count_of(r, piece);
    for (int64_t i = first; i < end; i++)
        r->kernels->argmax((int32_t *)r->call->outputs[0].data + i, (const float *)r->call->inputs[0].data + i * r->n,
                           r->n);
}

mxw_status mx_cpu_argmax(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin_last(call, kernels);
    each(&r, run_argmax);
    return MXW_OK;
}

static void run_top_k(void *context, int64_t piece, int slot) {
    const rows *r = context;
    const mx_tensor *out = r->call->outputs;
    int64_t first = first_of(r, piece), end = first + count_of(r, piece), k = out[0].dims[out[0].rank - 1];
    for (int64_t i = first; i < end; i++)
        r->kernels->top_k((float *)out[0].data + i * k, (int32_t *)out[1].data + i * k,
                          (const float *)r->call->inputs[0].data + i * r->n, r->n, k);
}

mxw_status mx_cpu_top_k(const mx_call *call, const mx_kernels *kernels) {
    rows r = begin_last(call, kernels);
    each(&r, run_top_k);
    return MXW_OK;
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

mx_cpu_scratch mx_cpu_select_scratch(const mx_call *call) {
    return (mx_cpu_scratch){.slot = (size_t)call->inputs[0].dims[1] * sizeof(float)};
}

static void run_select(void *context, int64_t piece, int slot) {
    const rows *r = context;
    const mx_tensor *in = r->call->inputs, *out = r->call->outputs;
    int64_t k = out[0].dims[1];
    mx_rule rule;
    memcpy(&rule, (const int32_t *)in[1].data + piece * MX_RULE_WORDS, sizeof(rule));
    r->kernels->select((int32_t *)out[0].data + piece * k, (float *)out[1].data + piece * k,
                       (float *)out[2].data + piece * MX_SELECT_STATS, (const float *)in[0].data + piece * r->n, &rule,
                       (const uint8_t *)in[2].data + rule.set * r->n, r->n, k, mx_cpu_slot(r->call, r->scratch, slot));
}

mxw_status mx_cpu_check_rules(const mx_call *call, const mx_tensor *rules, const mx_tensor *suppress) {
    int64_t sets = suppress->dims[0], vocab = suppress->dims[1];
    for (int64_t i = 0; i < rules->dims[0]; i++) {
        mx_rule rule;
        memcpy(&rule, (const int32_t *)rules->data + i * MX_RULE_WORDS, sizeof(rule));
        if (rule.set < 0 || rule.set >= sets)
            return mx_fail(MXW_E_ARGUMENT, "select: rules[%lld] has set %d: expected 0 to %lld", (long long)i,
                           (int)rule.set, (long long)sets - 1);
        if (rule.no_speech >= vocab)
            return mx_fail(MXW_E_ARGUMENT, "select: rules[%lld] has no_speech %d: expected below %lld", (long long)i,
                           (int)rule.no_speech, (long long)vocab);
    }
    return MXW_OK;
}

mxw_status mx_cpu_select(const mx_call *call, const mx_kernels *kernels) {
    int64_t n = call->inputs[0].dims[1], n_rows = call->inputs[0].dims[0];
    rows r = {.call = call, .kernels = kernels, .n_rows = n_rows, .n = n, .per_piece = 1};
    r.scratch = mx_cpu_select_scratch(call);
    mxw_status status = mx_cpu_check_rules(call, &call->inputs[1], &call->inputs[2]);
    if (status >= 0)
        each(&r, run_select);
    return status;
}
