/* lab/exact.c - checks every op of a window of engine cpu against float64, some or all outputs of each call.
 * Invariants: an op that is not checked is listed as such; the choice of sampled outputs depends on sizes only. */
#include "lab/exact.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "lab/lab.h"
#include "pipeline/inspect.h"

#define SAMPLES 4096

typedef struct block {
    const mx_exact_op *op;
    const mx_call *call;
    int64_t first, step, n;   /* outputs first, first + step, ...: n of them */
    double abs, relative, ulp, of_bound;
    int64_t checked;
} block;

static double ulp_of(double x) {
    int exponent;
    frexp(fmax(fabs(x), 0x1p-126), &exponent);
    return ldexp(1, exponent - 24);
}

static void check_block(block *b, double *scratch) {
    const mx_tensor *out = &b->call->outputs[b->op->output];
    for (int64_t i = 0; i < b->n; i++) {
        int64_t at = b->first + i * b->step;
        mx_exact e = b->op->at(b->call, at, scratch);
        double got = ((const float *)out->data)[at];
        if (isnan(e.value))
            continue;
        if (isinf(e.value) && got == e.value) {
            b->checked++;
            continue;
        }
        double error = fabs(got - e.value), share = error == 0 ? 0 : e.bound > 0 ? error / e.bound : INFINITY;
        if (!isfinite(got))
            share = error = INFINITY;
        b->checked++;
        b->abs = fmax(b->abs, error);
        b->of_bound = fmax(b->of_bound, share);
        if (e.value != 0)
            b->relative = fmax(b->relative, error / fabs(e.value));
        b->ulp = fmax(b->ulp, error / ulp_of(e.value));
    }
}

/* ---- pieces for the pool ----------------------------------------------------------------------------------------- */

enum { PIECES = 32 };

typedef struct share {
    block blocks[PIECES];
    double *scratch;          /* [PIECES][n_scratch] */
    int64_t n_scratch;
} share;

static void check_piece(void *context, int64_t i) {
    share *s = context;
    double *scratch = s->scratch + i * s->n_scratch;
    scratch[s->n_scratch - 1] = -1;   /* nothing cached yet */
    check_block(&s->blocks[i], scratch);
}

static void merge(mxw_op_check *row, char *worst, const share *s, const char *name, const char *graph) {
    for (int i = 0; i < PIECES; i++) {
        const block *b = &s->blocks[i];
        row->checked += b->checked;
        row->max_abs = fmax(row->max_abs, b->abs);
        row->max_relative = fmax(row->max_relative, b->relative);
        row->max_ulp = fmax(row->max_ulp, b->ulp);
        if (b->checked && b->of_bound >= row->of_bound) {
            row->of_bound = b->of_bound;
            snprintf(worst, 96, "%s", name ? name : graph);
        }
    }
}

static mxw_op_check *row_of(mx_op_checks *c, const mx_call *call, const mx_exact_op *op) {
    const char *name = mx_op_name(call->op);
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->rows[i].op, name) == 0)
            return &c->rows[i];
    mxw_op_check *row = &c->rows[c->n];
    *row = (mxw_op_check){.op = name, .bound = op ? op->bound : "not checked", .worst = c->worst[c->n]};
    c->n++;
    return row;
}

/* Of a state, only the rows written by this call are checked. */
static void range_of(const mx_call *call, const mx_exact_op *op, int64_t *first, int64_t *n) {
    const mx_tensor *out = &call->outputs[op->output];
    *first = 0;
    *n = mx_tensor_count(out);
    if (call->op != MX_OP_STATE_WRITE || !*n)
        return;
    const mx_tensor *index = &call->inputs[2];
    int64_t row = *n / out->dims[0], least = out->dims[0], most = -1;
    for (int64_t i = 0; i < index->dims[0]; i++) {
        int64_t at = ((const int32_t *)index->data)[i];
        least = MX_MIN(least, at), most = MX_MAX(most, at);
    }
    *first = most < 0 ? 0 : least * row;
    *n = most < 0 ? 0 : (most - least + 1) * row;
}

static void watch(void *context, const char *graph, const char *name, const mx_call *call) {
    mx_op_checks *c = context;
    const mx_exact_op *op = mx_exact_find(call->op);
    share s = {0};
    int64_t first, n;
    if (c->status < 0 || (op && call->outputs[op->output].dtype != MXW_F32))
        return;
    mxw_op_check *row = row_of(c, call, op);
    row->calls++;
    if (!op)
        return;
    range_of(call, op, &first, &n);
    row->outputs += n;
    int64_t wanted = c->all ? n : MX_MIN(n, SAMPLES), step = MX_MAX(n / MX_MAX(wanted, 1), 1);
    step -= step > 1 && step % 2 == 0;   /* odd, so that every column is sampled */
    int64_t count = n ? (n - 1) / step + 1 : 0;
    s.n_scratch = MX_MAX(op->scratch(call), 1);
    s.scratch = mx_alloc_array((size_t)s.n_scratch * PIECES, sizeof(*s.scratch));
    if (!s.scratch) {
        c->status = MXW_E_MEMORY;
        return;
    }
    for (int64_t i = 0, at = 0; i < PIECES; i++) {
        int64_t share_n = count / PIECES + (i < count % PIECES);
        s.blocks[i] = (block){.op = op, .call = call, .first = first + at * step, .step = step, .n = share_n};
        at += share_n;
    }
    mx_pool_for(call->pool, PIECES, check_piece, &s);
    merge(row, c->worst[row - c->rows], &s, name, graph);
    mx_free(s.scratch);
}

mxw_status mx_op_checks_open(mx_recognizer *r, const float *samples, size_t n, int all, mx_op_checks **out) {
    mxw_status status;
    mxw_model_info info;
    mxw_session_options options;
    mx_session *session = NULL;
    mx_op_checks *c = mx_alloc_zero(1, sizeof(*c));
    mx_inspection inspection = {.watch = watch, .context = c};
    if (!c)
        return MXW_E_MEMORY;
    c->all = all;
    mx_recognizer_info(r, &info);
    if (info.engine != MXW_ENGINE_CPU) {
        status = mx_fail(MXW_E_ARGUMENT, "ops are checked against float64 on engine cpu");
        goto out;
    }
    mxw_session_options_default(&options);
    MX_TRY(mx_session_open(r, &options, &session));
    MX_TRY(mx_session_feed(session, samples, n));
    MX_TRY(mx_session_finish(session));
    MX_TRY(mx_session_inspect(session, &inspection));
    MX_TRY(c->status);
    *out = c;
    c = NULL;
out:
    mx_session_close(session);
    mx_op_checks_close(c);
    return status;
}

void mx_op_checks_close(mx_op_checks *c) { mx_free(c); }
