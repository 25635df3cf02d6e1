/* bounds.c - see bounds.h. Errors move as their values do: an op that moves elements is run on the errors, a product is
 * run on the absolute values, which gives the size of the sums that were rounded. */
#include "bounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"

#define EPS 5.9604644775390625e-8   /* half a unit in the last place of 1.0f */
#define FLOOR 1e-35                 /* where numbers have fewer digits */

/* ---- tensors of errors ------------------------------------------------------------------------------------------- */

static mx_tensor filled(const mx_tensor *like, float value) {
    mx_tensor wide = *like;
    wide.dtype = MXW_F32;
    wide.data = calloc((size_t)mx_tensor_count(like) + 1, sizeof(float));
    wide = mx_tensor_of(MXW_F32, like->rank, like->dims, wide.data);
    for (int64_t i = 0; i < mx_tensor_count(&wide); i++)
        ((float *)wide.data)[i] = value;
    return wide;
}

/* |x| as f32. */
static mx_tensor absolute(const mx_tensor *x) {
    mx_tensor t = filled(x, 0);
    float *a = t.data;
    mx_tensor_to_f32(x, a);
    for (int64_t i = 0; i < mx_tensor_count(&t); i++)
        a[i] = fabsf(a[i]);
    return t;
}

static mx_tensor error_of(const bound *b, const mx_tensor *value) {
    return b->error.data ? plain_copy(&b->error) : filled(value, 0);
}

/* Of sizes and errors; what is no number is larger than any. */
static double larger(double a, double b) { return isnan(a) || isnan(b) ? INFINITY : fmax(a, b); }

static double largest(const mx_tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < mx_tensor_count(t); i++)
        most = larger(most, (double)((float *)t->data)[i]);
    return most;
}

/* What a node is given and what it made, with errors. */
typedef struct step {
    const mx_node *node;
    const mx_attrs *attrs;
    mx_tensor in[MX_MAX_INPUTS];         /* values */
    const bound *bound[MX_MAX_INPUTS];
    const mx_tensor *out;                /* the output that the errors are of, and ... */
    int output;                          /* ... which one it is: 0 but for lstm */
} step;

static int is_exact(const step *s) {
    for (int i = 0; i < s->node->n_inputs; i++)
        if (s->in[i].data && (s->bound[i]->unknown || s->bound[i]->error.data))
            return 0;
    return 1;
}

/* The op on other tensors than its own; sums of what comes out. */
static void run_on(const step *s, const mx_tensor *inputs, mx_tensor *error, double factor) {
    mx_tensor out[MX_MAX_OUTPUTS];
    if (plain_run(s->node->op, s->attrs, inputs, s->node->n_inputs, out) < 0) {
        printf("bounds: %s\n", mx_error());
        abort();
    }
    for (int64_t i = 0; i < mx_tensor_count(error); i++)
        ((float *)error->data)[i] += (float)(factor * (double)((float *)out[0].data)[i]);
    for (int i = 0; i < s->node->n_outputs; i++)
        free(out[i].data);
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

/* Elements go elsewhere, and so do their errors. Indices are exact, or we would not be here. */
static void moved(const step *s, mx_tensor *error) {
    mx_tensor inputs[MX_MAX_INPUTS];
    int n = s->node->op == MX_OP_GATHER ? 1 : s->node->op == MX_OP_STATE_WRITE ? 2 : s->node->n_inputs;
    for (int i = 0; i < s->node->n_inputs; i++)
        inputs[i] = i < n ? error_of(s->bound[i], &s->in[i]) : s->in[i];
    run_on(s, inputs, error, 1);
    for (int i = 0; i < n; i++)
        free(inputs[i].data);
}

/* Sums of `terms` products, from two inputs and a bias. */
static void product(const step *s, int64_t terms, mx_tensor *error) {
    mx_tensor size[3] = {{0}}, err[3] = {{0}}, both;
    int n = s->node->n_inputs;
    for (int i = 0; i < n; i++)
        if (s->in[i].data) {
            size[i] = absolute(&s->in[i]);
            err[i] = error_of(s->bound[i], &s->in[i]);
        }
    run_on(s, size, error, (double)(terms + 4) * 2 * EPS);
    both = plain_copy(&size[1]);
    for (int64_t i = 0; i < mx_tensor_count(&both); i++)
        ((float *)both.data)[i] += ((float *)err[1].data)[i];
    run_on(s, (mx_tensor[]){err[0], both, err[2]}, error, 1);
    mx_tensor none = n > 2 && size[2].data ? filled(&size[2], 0) : (mx_tensor){0};
    run_on(s, (mx_tensor[]){size[0], err[1], none}, error, 1);
    free(both.data);
    free(none.data);
    for (int i = 0; i < n; i++) {
        free(size[i].data);
        free(err[i].data);
    }
}

static int64_t terms_of(const step *s) {
    const mx_tensor *w = &s->in[1];
    switch (s->node->op) {
    case MX_OP_LINEAR: return w->dims[1];
    case MX_OP_MATMUL: return w->dims[w->rank - 2];
    case MX_OP_CONV1D: return w->dims[1] * w->dims[2];
    default: return w->dims[0] * w->dims[1] * w->dims[2];   /* conv2d: [r, s, in, out] */
    }
}

/* Element by element with broadcasting: operands and their errors spread to the sizes of the result. */
static void arithmetic(const step *s, mx_tensor *error) {
    mx_tensor spread[4];
    mx_tensor zeros = filled(s->out, 0);
    for (int i = 0; i < 2; i++) {
        mx_tensor a = absolute(&s->in[i]), e = error_of(s->bound[i], &s->in[i]), out[MX_MAX_OUTPUTS];
        plain_run(MX_OP_ADD, &(mx_attrs){0}, (mx_tensor[]){zeros, a}, 2, out);
        spread[i] = out[0];
        plain_run(MX_OP_ADD, &(mx_attrs){0}, (mx_tensor[]){zeros, e}, 2, out);
        spread[2 + i] = out[0];
        free(a.data);
        free(e.data);
    }
    for (int64_t i = 0; i < mx_tensor_count(error); i++) {
        double a = (double)((float *)spread[0].data)[i], b = (double)((float *)spread[1].data)[i];
        double ea = (double)((float *)spread[2].data)[i], eb = (double)((float *)spread[3].data)[i], e = ea + eb;
        double out = fabs((double)((const float *)s->out->data)[i]);
        if (s->node->op == MX_OP_MUL)
            e = a * eb + b * ea + ea * eb;
        if (s->node->op == MX_OP_DIV)
            e = b > 2 * eb ? (ea + out * eb) / (b - eb) : eb == 0 && ea == 0 ? 0 : INFINITY;
        ((float *)error->data)[i] = (float)(e > 0 ? e + 2 * EPS * out + FLOOR : e);
    }
    for (int i = 0; i < 4; i++)
        free(spread[i].data);
    free(zeros.data);
}

static void gelu(const step *s, mx_tensor *error) {
    mx_tensor x = absolute(&s->in[0]), e = error_of(s->bound[0], &s->in[0]);
    for (int64_t i = 0; i < mx_tensor_count(error); i++)   /* its slope is at most 1.13 */
        ((float *)error->data)[i] = 1.15f * ((float *)e.data)[i] + (float)(20 * EPS) * ((float *)x.data)[i] +
                                    (float)FLOOR;
    free(x.data);
    free(e.data);
}

static double elementwise64(mx_op op, double x, double p) {
    switch (op) {
#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, cpu_expression, exact_expression, ...)                         \
    case MX_OP_##id: return exact_expression;
#include "op/elementwise.def"
    default: return NAN;
    }
}

static double elementwise_units(mx_op op) {
    switch (op) {
#define MX_ELEMENTWISE(id, name, cpu_units, ...) case MX_OP_##id: return cpu_units;
#include "op/elementwise.def"
    default: return NAN;
    }
}

/* How far the function moves when its input moves by e either way. A function that turns around in between has its
 * largest difference at an end, if it is convex or concave there: a little more is allowed for those that are not. */
static void elementwise(const step *s, mx_tensor *error) {
    mx_tensor e = error_of(s->bound[0], &s->in[0]);
    double p = (double)(float)s->attrs->parameter, units = elementwise_units(s->node->op);
    for (int64_t i = 0; i < mx_tensor_count(error); i++) {
        double x = (double)((const float *)s->in[0].data)[i], off = (double)((float *)e.data)[i];
        double y = elementwise64(s->node->op, x, p), moved_by = 0;
        for (int side = -1; side <= 1 && off > 0; side += 2)
            moved_by = larger(moved_by, fabs(elementwise64(s->node->op, x + side * off, p) - y));
        double sum = 1.1 * moved_by + 2 * units * EPS * (fabs(y) + moved_by) + FLOOR;
        ((float *)error->data)[i] = isinf(off) ? INFINITY : off > 0 ? (float)sum : 0;
    }
    free(e.data);
}

/* A row of length n: mean and spread move with the largest error of the row. */
static void norm_row(const float *x, const float *e, const float *gamma, const float *e_gamma, const float *beta,
                     const float *e_beta, int64_t n, double eps, float *error) {
    double mean = 0, most = 0, off = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        mean += (double)x[i] / (double)n;
        most = larger(most, fabs((double)x[i]));
        off = larger(off, (double)e[i]);
    }
    for (int64_t i = 0; i < n; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    double spread = sqrt(square + eps);
    off += 2 * (double)(n + 8) * EPS * most;
    for (int64_t i = 0; i < n; i++) {
        double hat = fabs((double)x[i] - mean) / spread, g = fabs((double)gamma[i]);
        double e_hat = spread > 4 * off ? ((double)e[i] + off + 2 * hat * off) / (spread - 2 * off) : INFINITY;
        error[i] = (float)(g * e_hat + (hat + e_hat) * (double)e_gamma[i] + (double)e_beta[i] +
                           16 * EPS * (g * hat + fabs((double)beta[i])) + FLOOR);
    }
}

static void layer_norm(const step *s, mx_tensor *error) {
    mx_tensor e[3];
    int64_t n = s->in[0].dims[s->in[0].rank - 1];
    for (int i = 0; i < 3; i++)
        e[i] = error_of(s->bound[i], &s->in[i]);
    for (int64_t r = 0; n && r < mx_tensor_count(error) / n; r++)
        norm_row((float *)s->in[0].data + r * n, (float *)e[0].data + r * n, s->in[1].data, e[1].data, s->in[2].data,
                 e[2].data, n, s->attrs->eps, (float *)error->data + r * n);
    for (int i = 0; i < 3; i++)
        free(e[i].data);
}

static void softmax(const step *s, mx_tensor *error) {
    mx_tensor e = error_of(s->bound[0], &s->in[0]);
    const float *x = s->in[0].data, *y = s->out->data;
    int64_t n = s->in[0].dims[s->in[0].rank - 1];
    for (int64_t i = 0; i < mx_tensor_count(error); i++) {
        double most = 0, off = 0;
        for (int64_t j = i / n * n; j < i / n * n + n; j++) {
            most = larger(most, fabs((double)x[j]));
            off = larger(off, (double)((float *)e.data)[j]);
        }
        double factor = expm1(2 * off + 8 * EPS * most) + (double)(n + 80) * 2 * EPS;
        ((float *)error->data)[i] = (float)((double)y[i] * factor + FLOOR);
    }
    free(e.data);
}

/* One bound for all: scores as wrong as the largest can be, then a mean of values. */
static void attention(const step *s, mx_tensor *error) {
    double size[3], err[3];
    int64_t width = s->in[0].dims[s->in[0].rank - 1] / s->attrs->heads;
    int64_t keys = mx_tensor_count(&s->in[1]) / MX_MAX(s->in[1].dims[s->in[1].rank - 1], 1);
    for (int i = 0; i < 3; i++) {
        mx_tensor a = absolute(&s->in[i]), e = error_of(s->bound[i], &s->in[i]);
        size[i] = largest(&a);
        err[i] = largest(&e);
        free(a.data);
        free(e.data);
    }
    double score = fabs(s->attrs->scale) * (double)width * size[0] * size[1];
    double off = fabs(s->attrs->scale) * (double)width * (err[0] * size[1] + (size[0] + err[0]) * err[1]);
    off += (double)(width + 12) * 2 * EPS * score;
    double e = size[2] * 2 * (expm1(2 * off) + (double)(keys + 80) * 2 * EPS) + err[2] + FLOOR;
    for (int64_t i = 0; i < mx_tensor_count(error); i++)
        ((float *)error->data)[i] = (float)e;
}

/* A number and how far it may be off. */
typedef struct number {
    double value, off;
} number;

static number element_of(const step *s, int input, int64_t i) {
    const bound *b = s->bound[input];
    if (!s->in[input].data)
        return (number){0, 0};
    return (number){(double)((float *)s->in[input].data)[i],
                    b->error.data ? (double)((float *)b->error.data)[i] : 0};
}

static number times(number a, number b) {
    double size = fabs(a.value * b.value);
    return (number){a.value * b.value, fabs(a.value) * b.off + fabs(b.value) * a.off + a.off * b.off + 2 * EPS * size};
}

static number plus(number a, number b) {
    return (number){a.value + b.value, a.off + b.off + 2 * EPS * fabs(a.value + b.value)};
}

/* The slope is at most `slope`, the function stays within `width`. */
static number through(double value, number z, double slope, double width) {
    return (number){value, fmin(slope * z.off, width) + 16 * EPS * fabs(value)};
}
static number sigmoid(number z) { return through(1 / (1 + exp(-z.value)), z, 0.25, 1); }
static number tangent(number z) { return through(tanh(z.value), z, 1, 2); }

/* Row `row` of 4 hidden of a direction's gates; x from element `x` on. */
static number gate_of(const step *s, int64_t dir, int64_t row, int64_t x, const number *h) {
    int64_t in = s->in[1].dims[2], hidden = s->in[2].dims[2], at = dir * 4 * hidden + row;
    number sum = plus(element_of(s, 3, at), element_of(s, 4, at));
    double size = fabs(sum.value);
    for (int64_t i = 0; i < in + hidden; i++) {
        number p = i < in ? times(element_of(s, 0, x + i), element_of(s, 1, at * in + i))
                          : times(h[i - in], element_of(s, 2, at * hidden + i - in));
        sum.value += p.value;
        sum.off += p.off;
        size += fabs(p.value);
    }
    sum.off += (double)(in + hidden + 6) * 2 * EPS * size;
    return sum;
}

/* One sequence: the errors of its outputs, each in its place of `error`, which is of output s->output. */
static void lstm_sequence(const step *s, int64_t dir, int64_t entry, number *h, number *c, number *next, float *error) {
    int64_t t = s->in[0].dims[0], n = s->in[0].dims[1], in = s->in[0].dims[2], hidden = s->in[2].dims[2];
    int64_t dirs = s->in[2].dims[0], state = (dir * n + entry) * hidden;
    int reverse = dir == 1 || s->attrs->kind == MXW_LSTM_REVERSE;
    for (int64_t j = 0; j < hidden; j++) {
        h[j] = element_of(s, 5, state + j);
        c[j] = element_of(s, 6, state + j);
    }
    for (int64_t k = 0; k < t; k++) {
        int64_t row = (reverse ? t - 1 - k : k) * n + entry;
        for (int64_t j = 0; j < hidden; j++) {
            number g[4];
            for (int64_t i = 0; i < 4; i++)
                g[i] = gate_of(s, dir, i * hidden + j, row * in, h);
            c[j] = plus(times(sigmoid(g[1]), c[j]), times(sigmoid(g[0]), tangent(g[2])));
            next[j] = times(sigmoid(g[3]), tangent(c[j]));
            if (s->output == 0)
                error[(row * dirs + dir) * hidden + j] = (float)(next[j].off + FLOOR);
        }
        memcpy(h, next, (size_t)hidden * sizeof(*h));
    }
    for (int64_t j = 0; j < hidden && s->output > 0; j++)
        error[state + j] = (float)((s->output == 1 ? h[j] : c[j]).off + FLOOR);
}

static void lstm(const step *s, mx_tensor *error) {
    size_t hidden = (size_t)s->in[2].dims[2];
    number *all = calloc(3 * hidden + 1, sizeof(*all));
    for (int64_t i = 0; i < s->in[2].dims[0] * s->in[0].dims[1]; i++)
        lstm_sequence(s, i / s->in[0].dims[1], i % s->in[0].dims[1], all, all + hidden, all + 2 * hidden, error->data);
    free(all);
}

static void reduce(const step *s, mx_tensor *error) {
    mx_tensor a = absolute(&s->in[0]), e = error_of(s->bound[0], &s->in[0]);
    int64_t n = s->in[0].dims[s->attrs->axis];
    int sums = s->attrs->kind == MXW_REDUCE_SUM || s->attrs->kind == MXW_REDUCE_MEAN;
    step as = *s;
    mx_attrs attrs = *s->attrs;
    if (attrs.kind == MXW_REDUCE_MIN)   /* the error of the least is at most the largest of all */
        attrs.kind = MXW_REDUCE_MAX;
    as.attrs = &attrs;
    run_on(&as, &e, error, 1);
    if (sums)
        run_on(&as, &a, error, (double)(n + 4) * 2 * EPS);
    free(a.data);
    free(e.data);
}

static void cast(const step *s, mx_tensor *error) {
    mx_tensor a = absolute(&s->in[0]), e = error_of(s->bound[0], &s->in[0]);
    mxw_dtype to = s->attrs->dtype;
    double unit = to == MXW_F16 ? 1.0 / 1024 : to == MXW_BF16 ? 1.0 / 128 : to == MXW_F64 ? 0 : 2 * EPS;
    for (int64_t i = 0; i < mx_tensor_count(error); i++) {
        double size = (double)((float *)a.data)[i], off = (double)((float *)e.data)[i];
        double sum = off > 0 ? off + unit * (size + off) + (to == MXW_F16 ? 1e-7 : FLOOR) : 0;
        ((float *)error->data)[i] = (float)(to == MXW_F16 && size + off > 65000 && off > 0 ? INFINITY : sum);
    }
    free(a.data);
    free(e.data);
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

/* 1: the op itself rounds in its own way, so that exact inputs do not make it exact. */
static int is_rounding(const step *s) {
    switch (s->node->op) {
    case MX_OP_MATMUL:
    case MX_OP_LINEAR:
    case MX_OP_CONV1D:
    case MX_OP_CONV2D:
    case MX_OP_LAYER_NORM:
    case MX_OP_GELU:
    case MX_OP_SOFTMAX:
    case MX_OP_LSTM:
    case MX_OP_ATTENTION:
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW: return 1;
    case MX_OP_REDUCE:
        return s->in[0].dtype == MXW_F32 && s->attrs->kind != MXW_REDUCE_MAX && s->attrs->kind != MXW_REDUCE_MIN;
    default: return 0;
    }
}

/* 1: with something inexact, no result can be compared. */
static int is_jumping(const step *s) {
    if (s->node->op == MX_OP_CAST)
        return !mx_dtype_is_float(s->attrs->dtype);
    return s->node->op == MX_OP_ARGMAX || s->node->op == MX_OP_TOP_K || s->node->op == MX_OP_SELECT;
}

static void error_of_node(const step *s, mx_tensor *error) {
    switch (s->node->op) {
    case MX_OP_MATMUL:
    case MX_OP_LINEAR:
    case MX_OP_CONV1D:
    case MX_OP_CONV2D: product(s, terms_of(s), error); break;
    case MX_OP_LAYER_NORM: layer_norm(s, error); break;
    case MX_OP_GELU: gelu(s, error); break;
    case MX_OP_SOFTMAX: softmax(s, error); break;
    case MX_OP_LSTM: lstm(s, error); break;
    case MX_OP_ATTENTION:
    case MX_OP_ATTENTION_CACHED:
    case MX_OP_ATTENTION_WINDOW: attention(s, error); break;
    case MX_OP_REDUCE: reduce(s, error); break;
    case MX_OP_CAST: cast(s, error); break;
    case MX_OP_ADD:
    case MX_OP_SUB:
    case MX_OP_MUL:
    case MX_OP_DIV: arithmetic(s, error); break;
#define MX_ELEMENTWISE(id, name, ...) case MX_OP_##id: elementwise(s, error); break;
#include "op/elementwise.def"
    default: moved(s, error); break;
    }
}

static int has_unknown(const step *s) {
    for (int i = 0; i < s->node->n_inputs; i++)
        if (s->in[i].data && s->bound[i]->unknown)
            return 1;
    return 0;
}

/* The inputs that a device checks against a range: from this one on. */
static int first_index(mx_op op) {
    return op == MX_OP_GATHER || op == MX_OP_SELECT ? 1 : op == MX_OP_STATE_WRITE ? 2
           : op == MX_OP_ATTENTION_CACHED || op == MX_OP_ATTENTION_WINDOW ? 3 : MX_MAX_INPUTS;
}

static void release(bound *b) {
    free(b->error.data);
    *b = (bound){0};
}

/* select chooses by chance, and adds up exponentials: only the plainest rules give ids that are the same everywhere. */
static int select_is_exact(const step *s) {
    const mx_rule *rules = s->in[1].data;
    for (int64_t i = 0; i < s->in[1].dims[0]; i++)
        if (rules[i].temperature > 0 || rules[i].flags)
            return 0;
    return 1;
}

static bound bound_of_node(const step *s) {
    bound b = {0};
    int exact = is_exact(s);
    if (s->node->op == MX_OP_SELECT)
        b.unknown = !exact || s->output > 0 || !select_is_exact(s);
    else
        b.unknown = has_unknown(s) || (!exact && is_jumping(s));
    if (b.unknown || (exact && !is_rounding(s)) || !mx_dtype_is_float(s->out->dtype))
        return b;
    b.error = filled(s->out, 0);
    error_of_node(s, &b.error);
    float *error = b.error.data;
    for (int64_t i = 0; i < mx_tensor_count(&b.error); i++)
        error[i] = isnan(error[i]) ? INFINITY : error[i];
    return b;
}

static void run_node(bounds *b, size_t n, const mx_tensor *values, const mx_attrs *attrs) {
    const mx_node *node = &b->graph->nodes[n];
    step s = {.node = node, .attrs = attrs};
    for (int i = 0; i < node->n_inputs; i++) {
        mx_value v = node->inputs[i], leaf = v ? b->graph->values[v].state : 0;
        s.in[i] = leaf ? b->memory[leaf] : v ? values[v] : (mx_tensor){0};
        s.bound[i] = leaf ? &b->states[leaf] : &b->values[v];
        b->may_fail |= v && i >= first_index(node->op) && s.bound[i]->unknown;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        s.out = &values[node->outputs[i]];
        s.output = i;
        bound made = bound_of_node(&s);
        release(&b->values[node->outputs[i]]);
        b->values[node->outputs[i]] = made;
    }
    mx_value leaf = b->graph->values[node->outputs[0]].state;
    if (leaf) {
        bound *now = &b->values[node->outputs[0]];
        release(&b->states[leaf]);
        b->states[leaf].unknown = now->unknown;
        if (now->error.data)
            b->states[leaf].error = plain_copy(&now->error);
        free(b->memory[leaf].data);
        b->memory[leaf] = plain_copy(&values[node->outputs[0]]);
    }
}

mxw_status bounds_run(bounds *b, const mx_tensor *values, const mx_attrs *attrs) {
    b->may_fail = 0;
    for (size_t n = 0; n < b->graph->n_nodes; n++)
        run_node(b, n, values, &attrs[n]);
    return MXW_OK;
}

void bounds_open(const mx_graph *g, bounds *b) {
    *b = (bounds){.graph = g};
    b->values = calloc(g->n_values, sizeof(*b->values));
    b->states = calloc(g->n_values, sizeof(*b->states));
    b->memory = calloc(g->n_values, sizeof(*b->memory));
    if (!b->values || !b->states || !b->memory)
        abort();
}

void bounds_state(bounds *b, mx_value state, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(MXW_F32, rank, dims, NULL);
    b->memory[state] = filled(&t, 0);
}

void bounds_close(bounds *b) {
    for (size_t v = 0; b->graph && v < b->graph->n_values; v++) {
        release(&b->values[v]);
        release(&b->states[v]);
        free(b->memory[v].data);
    }
    free(b->values);
    free(b->states);
    free(b->memory);
    *b = (bounds){0};
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static int same_element(const mx_tensor *a, const mx_tensor *b, int64_t i) {
    size_t n = mx_dtype_bytes(a->dtype);
    if (memcmp((const char *)a->data + (size_t)i * n, (const char *)b->data + (size_t)i * n, n) == 0)
        return 1;
    if (!mx_dtype_is_float(a->dtype))
        return 0;
    float x, y;
    mx_tensor one = {.dtype = a->dtype, .data = (char *)a->data + (size_t)i * n}, other = one;
    other.data = (char *)b->data + (size_t)i * n;
    mx_tensor_to_f32(&one, &x);
    mx_tensor_to_f32(&other, &y);
    return isnan(x) && isnan(y);   /* which NaN it is depends on the order of operands */
}

int bounds_hold(const bound *b, const mx_tensor *want, const mx_tensor *got, int64_t *element) {
    *element = -1;
    if (want->dtype != got->dtype || want->rank != got->rank ||
        memcmp(want->dims, got->dims, (size_t)want->rank * sizeof(*want->dims)) != 0 || !mx_tensor_contiguous(got))
        return 0;
    if (b && b->unknown)
        return 1;
    size_t n = mx_dtype_bytes(want->dtype);
    for (int64_t i = 0; i < mx_tensor_count(want); i++) {
        *element = i;
        if (same_element(want, got, i))
            continue;
        if (!b || !b->error.data)
            return 0;
        float x, y, e = ((const float *)b->error.data)[i];
        mx_tensor one = {.dtype = want->dtype, .data = (char *)want->data + (size_t)i * n}, other = one;
        other.data = (char *)got->data + (size_t)i * n;
        mx_tensor_to_f32(&one, &x);
        mx_tensor_to_f32(&other, &y);
        if (isfinite(e) && isfinite(x) && !(fabs((double)x - (double)y) <= 1.02 * (double)e))
            return 0;
    }
    return 1;
}
