/* lab/exact_ops.c - ops element by element in float64, with bounds that follow from how errors propagate.
 * The inputs are those that the f32 op had, taken as exact. Invariant: nothing here shares code with a kernel. */
#include <math.h>
#include <string.h>

#include "lab/exact.h"

#define U MX_UNIT
#define SLACK 4   /* units for the last roundings: bias, store, a table's or a polynomial's last bit */

static const float *floats(const mx_tensor *t) { return t->data; }
static const int32_t *wholes(const mx_tensor *t) { return t->data; }
static int64_t last(const mx_tensor *t) { return t->dims[t->rank - 1]; }
static int64_t none(const mx_call *call) {
    (void)call;
    return 0;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static mx_exact linear(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    int64_t out = last(&c->outputs[0]), in = last(&c->inputs[0]);
    const float *x = floats(&c->inputs[0]) + index / out * in, *w = floats(&c->inputs[1]) + index % out * in;
    double sum = 0, size = 0;
    for (int64_t i = 0; i < in; i++) {
        sum += (double)x[i] * w[i];
        size += fabs((double)x[i] * w[i]);
    }
    double bias = c->n_inputs > 2 && c->inputs[2].data ? floats(&c->inputs[2])[index % out] : 0;
    return (mx_exact){sum + bias, (double)in * U * size + SLACK * U * (fabs(sum) + fabs(bias))};
}

static mx_exact conv1d(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    const mx_tensor *x = &c->inputs[0], *w = &c->inputs[1];
    int64_t out = w->dims[0], in = w->dims[1], k = w->dims[2], frames = x->dims[1], t_out = c->outputs[0].dims[1];
    int64_t o = index % out, t = index / out % t_out, batch = index / out / t_out;
    double sum = 0, size = 0;
    for (int64_t tap = 0; tap < k; tap++) {
        int64_t at = t * c->attrs->stride[0] + tap * c->attrs->dilation - c->attrs->pad[0];
        if (at < 0 || at >= frames)
            continue;
        for (int64_t i = 0; i < in; i++) {
            double p = (double)floats(x)[(batch * frames + at) * in + i] * floats(w)[(o * in + i) * k + tap];
            sum += p;
            size += fabs(p);
        }
    }
    double bias = c->n_inputs > 2 && c->inputs[2].data ? floats(&c->inputs[2])[o] : 0;
    return (mx_exact){sum + bias, (double)(in * k) * U * size + SLACK * U * (fabs(sum) + fabs(bias))};
}

/* ---- element by element ------------------------------------------------------------------------------------------ */

static mx_exact gelu(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    double x = floats(&c->inputs[0])[index], y;
    if (c->attrs->kind == MXW_GELU_TANH)
        y = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    else
        y = 0.5 * x * erfc(-x * 0.70710678118654752);
    return (mx_exact){y, SLACK * U * fabs(x)};
}

/* What rounds to infinity is infinite. */
static mx_exact within_units(double y, double units) {
    if (fabs(y) >= 0x1p128 - 0x1p103)
        return (mx_exact){copysign(INFINITY, y), 0};
    return (mx_exact){y, units > 0 ? units * U * fabs(y) + 0x1p-149 : 0};
}

/* The float64 expressions of op/elementwise.def; the bound holds on every device. */
#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, cpu_expression, exact_expression, ...)                         \
    static mx_exact exact_##name(const mx_call *c, int64_t index, double *scratch) {                                   \
        (void)scratch;                                                                                                 \
        double x = floats(&c->inputs[0])[index], p = (float)c->attrs->parameter, y = exact_expression;                 \
        (void)p;                                                                                                       \
        return within_units(y, fmax(cpu_units, cuda_units));                                                           \
    }
#include "op/elementwise.def"

/* Element of an input that is broadcast to the output's shape. */
static double broadcast(const mx_tensor *in, const mx_tensor *out, int64_t index) {
    int64_t at = 0, stride = 1;
    for (int axis = out->rank - 1, i = in->rank - 1; axis >= 0; axis--) {
        int64_t here = index % out->dims[axis];
        index /= out->dims[axis];
        if (i < 0)
            continue;
        at += in->dims[i] == 1 ? 0 : here * stride;
        stride *= in->dims[i--];
    }
    return floats(in)[at];
}

static mx_exact add(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    double y = broadcast(&c->inputs[0], &c->outputs[0], index) + broadcast(&c->inputs[1], &c->outputs[0], index);
    return (mx_exact){y, U * fabs(y)};
}

static mx_exact gather(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    const mx_tensor *table = &c->inputs[0];
    int64_t row = 1;
    for (int i = 1; i < table->rank; i++)
        row *= table->dims[i];
    return (mx_exact){floats(table)[wholes(&c->inputs[1])[index / row] * row + index % row], 0};
}

static mx_exact layer_norm(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    int64_t n = last(&c->inputs[0]), i = index % n;
    const float *x = floats(&c->inputs[0]) + index / n * n;
    double mean = 0, size = 0, var = 0;
    for (int64_t j = 0; j < n; j++)
        mean += x[j], size += fabs((double)x[j]);
    mean /= (double)n, size /= (double)n;
    for (int64_t j = 0; j < n; j++)
        var += (x[j] - mean) * (x[j] - mean) / (double)n;
    double r = 1 / sqrt(var + c->attrs->eps), z = (x[i] - mean) * r;
    double gamma = floats(&c->inputs[1])[i], beta = floats(&c->inputs[2])[i];
    double e_mean = (double)n * U * size + U * fabs(mean);            /* the mean's own error ... */
    double e_var = ((double)n + 4) * U + 2 * e_mean * r + e_mean * r * e_mean * r;   /* ... the variance's, relative */
    double bound = fabs(gamma) * (r * e_mean + fabs(z) * (0.5 * e_var + 3 * U));
    return (mx_exact){gamma * z + beta, bound + SLACK * U * (fabs(gamma * z) + fabs(beta))};
}

/* ---- lstm -------------------------------------------------------------------------------------------------------- */

static double optional(const mx_call *c, int input, int64_t i) {
    return input < c->n_inputs && c->inputs[input].data ? floats(&c->inputs[input])[i] : 0;
}

/* Row `row` of all directions' gates before its activation; h as the op itself had it, from h [i] on. */
static mx_exact gate(const mx_call *c, int64_t row, const float *x, const float *h) {
    int64_t in = last(&c->inputs[1]), hidden = last(&c->inputs[2]);
    double bias = optional(c, 3, row) + optional(c, 4, row), sum = bias, of_x = 0, of_h = 0;
    for (int64_t i = 0; i < in; i++) {
        double p = (double)x[i] * floats(&c->inputs[1])[row * in + i];
        sum += p, of_x += fabs(p);
    }
    for (int64_t i = 0; h && i < hidden; i++) {
        double p = (double)h[i] * floats(&c->inputs[2])[row * hidden + i];
        sum += p, of_h += fabs(p);
    }
    double biases = fabs(optional(c, 3, row)) + fabs(optional(c, 4, row));
    return (mx_exact){sum, U * (((double)in + SLACK) * of_x + ((double)hidden + SLACK) * of_h + SLACK * biases)};
}

/* An activation of slope 1/4 or 1 at most; what else is rounded on the way: SLACK + 1 units of its own. */
static mx_exact squash(mx_exact z, int is_tanh) {
    double y = is_tanh ? tanh(z.value) : 1 / (1 + exp(-z.value));
    return (mx_exact){y, (is_tanh ? 1 : 0.25) * z.bound + (SLACK + 1) * U * fabs(y)};
}

static mx_exact product(mx_exact a, mx_exact b) {
    double y = a.value * b.value;
    return (mx_exact){y, fabs(a.value) * b.bound + fabs(b.value) * a.bound + a.bound * b.bound + U * fabs(y)};
}

/* Output y. Its state c is followed from the beginning, with its error; h is what the op computed a step before. */
static mx_exact lstm(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    const mx_tensor *y = &c->outputs[0];
    int64_t t = y->dims[0], n = y->dims[1], in = last(&c->inputs[0]), hidden = last(&c->inputs[2]);
    int64_t dirs = c->inputs[2].dims[0], j = index % hidden, dir = index / hidden % dirs;
    int64_t entry = index / hidden / dirs % n, time = index / hidden / dirs / n;
    int reverse = dir == 1 || c->attrs->kind == MXW_LSTM_REVERSE;
    int64_t first = reverse ? t - 1 : 0, step = reverse ? -1 : 1, state = (dir * n + entry) * hidden;
    const float *h = c->n_inputs > 5 && c->inputs[5].data ? floats(&c->inputs[5]) + state : NULL;
    mx_exact cell = {optional(c, 6, state + j), 0}, out = {0, 0};
    for (int64_t at = first; at != time + step; at += step) {
        mx_exact g[4];
        const float *x = floats(&c->inputs[0]) + (at * n + entry) * in;
        for (int64_t i = 0; i < 4; i++)
            g[i] = squash(gate(c, (dir * 4 + i) * hidden + j, x, h), i == 2);
        mx_exact kept = product(g[1], cell), added = product(g[0], g[2]);
        cell.value = kept.value + added.value;
        cell.bound = kept.bound + added.bound + U * fabs(cell.value);
        out = product(g[3], squash(cell, 1));
        h = floats(y) + ((at * n + entry) * dirs + dir) * hidden;
    }
    return out;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* softmax(q . k_j scale) v_j of one head, at one channel; key j of n is in row cell(j). A score is off by
 * e = (d + 1) u scale sum |q k|, so a probability by a factor of exp(2 max e) and the rounding of exp and the sum. */
static mx_exact attend(const float *q, const float *k, const float *v, const int32_t *cells, int64_t n, int64_t width,
                       int64_t d, double scale, int64_t channel, double *p) {
    double top = -INFINITY, sum = 0, y = 0, size = 0, e = 0;
    for (int64_t j = 0; j < n; j++) {
        const float *key = k + (cells ? cells[j] : j) * width;
        double s = 0, abs_sum = 0;
        for (int64_t i = 0; i < d; i++) {
            s += (double)q[i] * key[i];
            abs_sum += fabs((double)q[i] * key[i]);
        }
        p[j] = s * scale;
        e = fmax(e, ((double)d + 1) * U * abs_sum * fabs(scale));
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < n; j++) {
        double w = exp(p[j] - top), value = v[(cells ? cells[j] : j) * width + channel];
        sum += w;
        y += w * value;
        size += w * fabs(value);
        e = fmax(e, U * fabs(p[j] - top) * (w > 1e-12));   /* rounding the argument of exp */
    }
    double relative = 2 * e + ((double)n + 2 * SLACK) * U;
    return (mx_exact){y / sum, expm1(relative) * size / sum + U * fabs(y / sum)};
}

static mx_exact attention(const mx_call *c, int64_t index, double *scratch) {
    const mx_tensor *q = &c->inputs[0], *k = &c->inputs[1];
    int64_t width = last(q), t = q->dims[1], s = k->dims[1], d = width / c->attrs->heads;
    int64_t channel = index % width, row = index / width, batch = row / t, head = channel / d * d;
    int64_t n = c->attrs->causal ? row % t + s - t + 1 : s;
    return attend(floats(q) + row * width + head, floats(k) + batch * s * width + head,
                  floats(&c->inputs[2]) + batch * s * width + head, NULL, n, width, d, c->attrs->scale, channel - head,
                  scratch);
}

static mx_exact attention_window(const mx_call *c, int64_t index, double *scratch) {
    const mx_tensor *q = &c->inputs[0], *k = &c->inputs[1];
    int64_t width = last(q), s = k->dims[1], d = width / c->attrs->heads, channel = index % width, row = index / width;
    int64_t head = channel / d * d, from = (int64_t)wholes(&c->inputs[3])[row] * s * width + head;
    return attend(floats(q) + row * width + head, floats(k) + from, floats(&c->inputs[2]) + from, NULL, s, width, d,
                  c->attrs->scale, channel - head, scratch);
}

static mx_exact attention_cached(const mx_call *c, int64_t index, double *scratch) {
    const mx_tensor *q = &c->inputs[0];
    int64_t width = last(q), d = width / c->attrs->heads, channel = index % width, row = index / width;
    int64_t head = channel / d * d, n = wholes(&c->inputs[4])[row] + 1;
    const int32_t *cells = wholes(&c->inputs[5]) + wholes(&c->inputs[3])[row] * last(&c->inputs[5]);
    return attend(floats(q) + row * width + head, floats(&c->inputs[1]) + head, floats(&c->inputs[2]) + head, cells, n,
                  width, d, c->attrs->scale, channel - head, scratch);
}

static int64_t keys(const mx_call *c) {
    return c->op == MX_OP_ATTENTION_CACHED ? last(&c->inputs[5]) : c->inputs[1].dims[1];
}

/* ---- state and select -------------------------------------------------------------------------------------------- */

/* Rows that were written must hold their source. */
static mx_exact state_write(const mx_call *c, int64_t index, double *scratch) {
    (void)scratch;
    const mx_tensor *state = &c->outputs[0], *x = &c->inputs[1];
    int64_t row = mx_tensor_count(state) / state->dims[0], to = index / row;
    for (int64_t i = x->dims[0]; i-- > 0;)
        if (wholes(&c->inputs[2])[i] == to)
            return (mx_exact){floats(x)[i * row + index % row], 0};
    return (mx_exact){NAN, 0};   /* not written by this call */
}

/* The mask of op/select.h, except for the sum rule, which is inferred from whether there is text among the
 * candidates. */
static int is_out(const mx_call *c, const mx_rule *rule, int64_t id) {
    int64_t vocab = last(&c->inputs[0]);
    const uint8_t *suppress = (const uint8_t *)c->inputs[2].data + (int64_t)rule->set * vocab;
    return suppress[id] || id < rule->min_id || (id >= rule->ts_begin && (id < rule->ts_min || id > rule->ts_max));
}

/* log_softmax of a row: the largest logit and the logarithm of the sum beside it, kept in kept[0] and [1]. */
static void sum_row(const mx_call *c, int64_t row, double *scratch, double *kept) {
    int64_t vocab = last(&c->inputs[0]);
    const float *x = floats(&c->inputs[0]) + row * vocab;
    const mx_rule *rule = (const mx_rule *)c->inputs[1].data + row;
    double top = -INFINITY, text = -INFINITY, sum = 0, stamps = 0;
    for (int64_t i = 0; i < vocab; i++) {
        scratch[i] = is_out(c, rule, i) ? -INFINITY : x[i];
        top = fmax(top, scratch[i]);
        text = i < rule->ts_begin ? fmax(text, scratch[i]) : text;
    }
    for (int64_t i = 0; i < vocab; i++) {
        sum += exp(scratch[i] - top);
        stamps += i >= rule->ts_begin ? exp(scratch[i] - top) : 0;
    }
    if (rule->flags & MX_RULE_TIMESTAMP_SUM && stamps > 0 && log(stamps) + top > text)
        sum = stamps;
    kept[0] = top;
    kept[1] = log(sum);
    kept[2] = (double)row;
}

static mx_exact candidate(const mx_call *c, int64_t index, double *scratch) {
    int64_t vocab = last(&c->inputs[0]), row = index / last(&c->outputs[1]);
    int32_t id = wholes(&c->outputs[0])[index];
    double *kept = scratch + vocab;
    if (id < 0)
        return (mx_exact){-INFINITY, 0};
    if (kept[2] != (double)row)
        sum_row(c, row, scratch, kept);
    double top = kept[0], logit = floats(&c->inputs[0])[row * vocab + id], y = logit - top - kept[1];
    return (mx_exact){y, 64 * U * (1 + fabs(top) + fabs(logit) + fabs(y))};
}

static int64_t vocabulary(const mx_call *c) { return last(&c->inputs[0]) + 3; }

static const mx_exact_op ops[] = {
    {MX_OP_CONV1D, "n u sum|x w| + 4 u (|sum| + |bias|), n = 3 x channels", 0, conv1d, none},
    {MX_OP_LINEAR, "n u sum|x w| + 4 u (|sum| + |bias|), n = inputs", 0, linear, none},
    {MX_OP_LSTM, "(n + 4) u sum|x w| of a gate, through slopes 1/4 and 1 and 5 u; errors of c add up, h as computed", 0,
     lstm, none},
    {MX_OP_GELU, "4 u |x|", 0, gelu, none},
    {MX_OP_ADD, "u |result|", 0, add, none},
    {MX_OP_GATHER, "none: elements move", 0, gather, none},
    {MX_OP_LAYER_NORM, "errors n u of mean and variance through (x - m) / s * gamma + beta", 0, layer_norm, none},
    {MX_OP_ATTENTION, "2 (d + 1) u max score sum + (n + 8) u, of sum p|v|", 0, attention, keys},
    {MX_OP_ATTENTION_WINDOW, "2 (d + 1) u max score sum + (n + 8) u, of sum p|v|", 0, attention_window, keys},
    {MX_OP_ATTENTION_CACHED, "2 (d + 1) u max score sum + (n + 8) u, of sum p|v|", 0, attention_cached, keys},
    {MX_OP_STATE_WRITE, "none: elements move", 0, state_write, none},
#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, ...)                                                           \
    {MX_OP_##id, #cpu_units " u |result|, on CUDA " #cuda_units " u |result|", 0, exact_##name, none},
#include "op/elementwise.def"
    {MX_OP_SELECT, "64 u (1 + |largest logit| + |logit| + |result|)", 1, candidate, vocabulary},
};

const mx_exact_op *mx_exact_find(mx_op op) {
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
        if (ops[i].op == op)
            return &ops[i];
    return NULL;
}
