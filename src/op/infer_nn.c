/* op/infer_nn.c - inference of the layers of a network: linear, norms, convolutions, attention, caches, select. */
#include "op/infer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mxw_status want_bias(mx_infer *f, int64_t out_size) {
    const mx_type *bias = f->n_inputs > 2 ? f->in[2] : NULL;
    int64_t agreed;
    if (!bias)
        return MXW_OK;
    if (bias->dtype != MXW_F32 || bias->rank != 1 || !mx_infer_same(bias->dims[0], out_size, &agreed))
        return mx_infer_bad(f, "bias is %s: expected f32 [%s]", mx_infer_type(f, bias), mx_infer_dim(f, out_size));
    return MXW_OK;
}

mxw_status mx_infer_LINEAR(mx_infer *f) {
    const mx_type *x = f->in[0], *weight = f->in[1];
    mxw_status status;
    int64_t agreed;
    MX_TRY(mx_infer_want_dtype(f, 0, "x", MXW_F32));
    MX_TRY(mx_infer_want_dtype(f, 1, "weight", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 1, "weight", "[out, in]", 2));
    if (x->rank < 1)
        return mx_infer_bad(f, "x is %s: expected [.., in]", mx_infer_type(f, x));
    int64_t in_size = x->dims[x->rank - 1];
    if (!mx_infer_same(in_size, weight->dims[1], &agreed))
        return mx_infer_bad(f, "weight %s does not fit x %s: expected weight [out, %s]", mx_infer_shape(f, weight),
                            mx_infer_shape(f, x), mx_infer_dim(f, in_size));
    MX_TRY(want_bias(f, weight->dims[0]));
    mx_type *out = mx_infer_out(f, x->rank);
    memcpy(out->dims, x->dims, sizeof(out->dims));
    out->dims[x->rank - 1] = weight->dims[0];
out:
    return status;
}

mxw_status mx_infer_LAYER_NORM(mx_infer *f) {
    static const char *const what[] = {"x", "gamma", "beta"};
    const mx_type *x = f->in[0];
    int64_t agreed;
    for (int i = 0; i < 3; i++) {
        mxw_status status = mx_infer_want_dtype(f, i, what[i], MXW_F32);
        if (status < 0)
            return status;
    }
    if (x->rank < 1)
        return mx_infer_bad(f, "x is %s: expected at least one axis", mx_infer_type(f, x));
    for (int i = 1; i < 3; i++)
        if (f->in[i]->rank != 1 || !mx_infer_same(f->in[i]->dims[0], x->dims[x->rank - 1], &agreed))
            return mx_infer_bad(f, "%s %s does not fit x %s: expected [%s]", what[i], mx_infer_shape(f, f->in[i]),
                                mx_infer_shape(f, x), mx_infer_dim(f, x->dims[x->rank - 1]));
    if (!(f->attrs->eps >= 0) || !isfinite(f->attrs->eps))
        return mx_infer_bad(f, "eps is %g: expected 0 or more", f->attrs->eps);
    f->out[0] = *x;
    return MXW_OK;
}

mxw_status mx_infer_GELU(mx_infer *f) {
    mxw_status status = mx_infer_want_dtype(f, 0, "x", MXW_F32);
    if (status < 0)
        return status;
    if (f->attrs->kind != MXW_GELU_ERF && f->attrs->kind != MXW_GELU_TANH)
        return mx_infer_bad(f, "kind is %d: expected erf or tanh", f->attrs->kind);
    f->out[0] = *f->in[0];
    return MXW_OK;
}

mxw_status mx_infer_SOFTMAX(mx_infer *f) {
    mxw_status status = mx_infer_want_dtype(f, 0, "x", MXW_F32);
    if (status < 0)
        return status;
    if (f->in[0]->rank < 1)
        return mx_infer_bad(f, "x is %s: expected at least one axis", mx_infer_type(f, f->in[0]));
    f->out[0] = *f->in[0];
    return MXW_OK;
}

/* ---- convolution ------------------------------------------------------------------------------------------------ */

/* The length after a convolution along one axis, its taps `dilation` apart; an open length stays itself where the
 * convolution keeps it. */
static mxw_status conv_length(mx_infer *f, const char *axis, int64_t n, int64_t kernel, int which, int64_t dilation,
                              int64_t *out) {
    int64_t stride = f->attrs->stride[which], pad = f->attrs->pad[which];
    char apart[48] = "";
    if (stride < 1 || pad < 0)
        return mx_infer_bad(f, "stride %lld and pad %lld: expected stride 1 or more and pad 0 or more",
                            (long long)stride, (long long)pad);
    if (dilation < 1)
        return mx_infer_bad(f, "dilation is %lld: expected 1 or more", (long long)dilation);
    int huge = kernel - 1 > MX_MAX_ELEMENTS / dilation;
    int64_t span = huge ? MX_MAX_ELEMENTS : (kernel - 1) * dilation + 1;
    if (n < 0 || kernel < 0) {
        *out = stride == 1 && kernel >= 0 && 2 * pad == span - 1 ? n : MX_DIM_ANY;
        return MXW_OK;
    }
    if (dilation > 1)
        snprintf(apart, sizeof(apart), ", taps %lld apart,", (long long)dilation);
    if (kernel < 1 || huge || n + 2 * pad < span)
        return mx_infer_bad(f, "a kernel of %lld%s over %s %lld with pad %lld: expected 1 to %lld", (long long)kernel,
                            apart, axis, (long long)n, (long long)pad,
                            (long long)((n + 2 * pad + dilation - 1) / dilation));
    *out = (n + 2 * pad - span) / stride + 1;
    return MXW_OK;
}

mxw_status mx_infer_CONV1D(mx_infer *f) {
    const mx_type *x = f->in[0], *weight = f->in[1];
    mxw_status status;
    int64_t agreed, length;
    MX_TRY(mx_infer_want_dtype(f, 0, "x", MXW_F32));
    MX_TRY(mx_infer_want_dtype(f, 1, "weight", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 0, "x", "[n, t, in]", 3));
    MX_TRY(mx_infer_want_rank(f, 1, "weight", "[out, in, k]", 3));
    if (!mx_infer_same(x->dims[2], weight->dims[1], &agreed))
        return mx_infer_bad(f, "weight %s does not fit x %s: expected weight [out, %s, k]", mx_infer_shape(f, weight),
                            mx_infer_shape(f, x), mx_infer_dim(f, x->dims[2]));
    MX_TRY(want_bias(f, weight->dims[0]));
    MX_TRY(conv_length(f, "length", x->dims[1], weight->dims[2], 0, f->attrs->dilation, &length));
    f->out[0] = (mx_type){.dtype = MXW_F32, .rank = 3, .dims = {x->dims[0], length, weight->dims[0]}};
out:
    return status;
}

mxw_status mx_infer_CONV2D(mx_infer *f) {
    const mx_type *x = f->in[0], *weight = f->in[1];
    mxw_status status;
    int64_t agreed, height, width;
    MX_TRY(mx_infer_want_dtype(f, 0, "x", MXW_F32));
    MX_TRY(mx_infer_want_dtype(f, 1, "weight", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 0, "x", "[n, height, width, in]", 4));
    MX_TRY(mx_infer_want_rank(f, 1, "weight", "[height, width, in, out]", 4));
    if (!mx_infer_same(x->dims[3], weight->dims[2], &agreed))
        return mx_infer_bad(f, "weight %s does not fit x %s: expected weight [height, width, %s, out]",
                            mx_infer_shape(f, weight), mx_infer_shape(f, x), mx_infer_dim(f, x->dims[3]));
    MX_TRY(want_bias(f, weight->dims[3]));
    MX_TRY(conv_length(f, "height", x->dims[1], weight->dims[0], 0, 1, &height));
    MX_TRY(conv_length(f, "width", x->dims[2], weight->dims[1], 1, 1, &width));
    f->out[0] = (mx_type){.dtype = MXW_F32, .rank = 4, .dims = {x->dims[0], height, width, weight->dims[3]}};
out:
    return status;
}

/* ---- lstm -------------------------------------------------------------------------------------------------------- */

/* Input `input`, if it is there, is f32 of these three sizes. */
static mxw_status want_sizes(mx_infer *f, int input, const char *what, int rank, int64_t a, int64_t b, int64_t c) {
    const mx_type *t = input < f->n_inputs ? f->in[input] : NULL;
    mx_type want = {.dtype = MXW_F32, .rank = rank, .dims = {a, b, c}};
    int64_t agreed;
    if (!t)
        return MXW_OK;
    int fits = t->dtype == MXW_F32 && t->rank == rank;
    for (int i = 0; i < rank && fits; i++)
        fits = mx_infer_same(t->dims[i], want.dims[i], &agreed);
    return fits ? MXW_OK : mx_infer_bad(f, "%s is %s: expected %s", what, mx_infer_type(f, t), mx_infer_type(f, &want));
}

mxw_status mx_infer_LSTM(mx_infer *f) {
    const mx_type *x = f->in[0], *weight = f->in[2];
    mxw_status status;
    int direction = f->attrs->kind;
    if (direction != MXW_LSTM_FORWARD && direction != MXW_LSTM_REVERSE && direction != MXW_LSTM_BOTH)
        return mx_infer_bad(f, "direction is %d: expected forward, reverse or both", direction);
    MX_TRY(mx_infer_want_dtype(f, 0, "x", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 0, "x", "[t, n, in]", 3));
    MX_TRY(mx_infer_want_dtype(f, 2, "weight_hh", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 2, "weight_hh", "[dirs, 4 hidden, hidden]", 3));
    int64_t dirs = direction == MXW_LSTM_BOTH ? 2 : 1, n = x->dims[1], hidden = weight->dims[2];
    int64_t gates = hidden >= 0 && hidden <= MX_MAX_ELEMENTS ? 4 * hidden : MX_DIM_ANY;
    MX_TRY(want_sizes(f, 2, "weight_hh", 3, dirs, gates, hidden));
    MX_TRY(want_sizes(f, 1, "weight_ih", 3, dirs, gates, x->dims[2]));
    MX_TRY(want_sizes(f, 3, "bias_ih", 2, dirs, gates, 0));
    MX_TRY(want_sizes(f, 4, "bias_hh", 2, dirs, gates, 0));
    MX_TRY(want_sizes(f, 5, "h0", 3, dirs, n, hidden));
    MX_TRY(want_sizes(f, 6, "c0", 3, dirs, n, hidden));
    int64_t wide = dirs == 1 ? hidden : gates >= 0 ? 2 * hidden : MX_DIM_ANY;
    f->out[0] = (mx_type){.dtype = MXW_F32, .rank = 3, .dims = {x->dims[0], n, wide}};
    f->out[1] = f->out[2] = (mx_type){.dtype = MXW_F32, .rank = 3, .dims = {dirs, n, hidden}};
out:
    return status;
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static mxw_status want_heads(mx_infer *f, int64_t d) {
    int heads = f->attrs->heads;
    if (heads < 1 || (d >= 0 && (d < heads || d % heads)))
        return mx_infer_bad(f, "%d heads over a width of %s: expected a divisor of it", heads, mx_infer_dim(f, d));
    if (!isfinite(f->attrs->scale))
        return mx_infer_bad(f, "scale is %g: expected a number", f->attrs->scale);
    return MXW_OK;
}

/* q, k and v are f32 of these ranks and of one width. */
static mxw_status want_qkv(mx_infer *f, int q_rank, const char *q_shape, int kv_rank, const char *kv_shape) {
    static const char *const what[] = {"q", "k", "v"};
    mxw_status status;
    int64_t width = MX_DIM_ANY;
    for (int i = 0; i < 3; i++) {
        MX_TRY(mx_infer_want_dtype(f, i, what[i], MXW_F32));
        MX_TRY(mx_infer_want_rank(f, i, what[i], i ? kv_shape : q_shape, i ? kv_rank : q_rank));
        if (!mx_infer_same(width, f->in[i]->dims[f->in[i]->rank - 1], &width))
            return mx_infer_bad(f, "%s %s does not fit q %s: expected a width of %s", what[i],
                                mx_infer_shape(f, f->in[i]), mx_infer_shape(f, f->in[0]), mx_infer_dim(f, width));
    }
    for (int i = 0; i < kv_rank; i++)
        if (!mx_infer_same(f->in[1]->dims[i], f->in[2]->dims[i], &width))
            return mx_infer_bad(f, "v %s does not fit k %s: expected the same sizes", mx_infer_shape(f, f->in[2]),
                                mx_infer_shape(f, f->in[1]));
    MX_TRY(want_heads(f, f->in[0]->dims[q_rank - 1]));
    f->out[0] = *f->in[0];
out:
    return status;
}

mxw_status mx_infer_ATTENTION(mx_infer *f) {
    const mx_type *q = f->in[0], *k = f->in[1];
    mxw_status status;
    int64_t agreed;
    MX_TRY(want_qkv(f, 3, "[n, t, d]", 3, "[n, s, d]"));
    if (!mx_infer_same(q->dims[0], k->dims[0], &agreed))
        return mx_infer_bad(f, "k %s does not fit q %s: expected %s entries", mx_infer_shape(f, k),
                            mx_infer_shape(f, q), mx_infer_dim(f, q->dims[0]));
    if (k->dims[1] == 0 || (f->attrs->causal && q->dims[1] >= 0 && k->dims[1] >= 0 && k->dims[1] < q->dims[1]))
        return mx_infer_bad(f, "k %s leaves queries of q %s without a key: expected %s", mx_infer_shape(f, k),
                            mx_infer_shape(f, q), f->attrs->causal ? "at least as many keys" : "at least one");
out:
    return status;
}

/* An i32 vector with one entry for each row of q. */
static mxw_status want_row_index(mx_infer *f, int input, const char *what) {
    const mx_type *x = f->in[input];
    int64_t rows = f->in[0]->dims[0], agreed;
    if (x->dtype != MXW_I32 || x->rank != 1 || !mx_infer_same(x->dims[0], rows, &agreed))
        return mx_infer_bad(f, "%s is %s: expected i32 [%s]", what, mx_infer_type(f, x), mx_infer_dim(f, rows));
    return MXW_OK;
}

mxw_status mx_infer_ATTENTION_CACHED(mx_infer *f) {
    mxw_status status;
    MX_TRY(want_qkv(f, 2, "[rows, d]", 2, "[cells, d]"));
    MX_TRY(want_row_index(f, 3, "seq"));
    MX_TRY(want_row_index(f, 4, "pos"));
    MX_TRY(mx_infer_want_dtype(f, 5, "cells", MXW_I32));
    MX_TRY(mx_infer_want_rank(f, 5, "cells", "[sequences, ctx]", 2));
out:
    return status;
}

mxw_status mx_infer_ATTENTION_WINDOW(mx_infer *f) {
    mxw_status status;
    MX_TRY(want_qkv(f, 2, "[rows, d]", 3, "[windows, t, d]"));
    MX_TRY(want_row_index(f, 3, "window"));
    if (f->in[1]->dims[1] == 0)
        return mx_infer_bad(f, "k is %s: expected at least one key", mx_infer_type(f, f->in[1]));
out:
    return status;
}

mxw_status mx_infer_ATTENTION_SCORES(mx_infer *f) {
    const mx_type *q = f->in[0], *k = f->in[1], *head = f->in[2];
    mxw_status status;
    int64_t width;
    MX_TRY(mx_infer_want_dtype(f, 0, "q", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 0, "q", "[rows, d]", 2));
    MX_TRY(mx_infer_want_dtype(f, 1, "k", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 1, "k", "[windows, t, d]", 3));
    if (!mx_infer_same(q->dims[1], k->dims[2], &width))
        return mx_infer_bad(f, "k %s does not fit q %s: expected a width of %s", mx_infer_shape(f, k),
                            mx_infer_shape(f, q), mx_infer_dim(f, q->dims[1]));
    MX_TRY(want_heads(f, q->dims[1]));
    if (head->dtype != MXW_I32 || head->rank != 1)
        return mx_infer_bad(f, "head is %s: expected i32 [n]", mx_infer_type(f, head));
    MX_TRY(want_row_index(f, 3, "window"));
    f->out[0] = (mx_type){.dtype = MXW_F32, .rank = 3, .dims = {q->dims[0], head->dims[0], k->dims[1]}};
out:
    return status;
}

/* ---- state, select ----------------------------------------------------------------------------------------------- */

mxw_status mx_infer_STATE_WRITE(mx_infer *f) {
    const mx_type *state = f->in[0], *x = f->in[1], *index = f->in[2];
    int64_t agreed;
    if (state->rank < 1)
        return mx_infer_bad(f, "state is %s: expected at least one axis", mx_infer_type(f, state));
    int fits = x->dtype == state->dtype && x->rank == state->rank;
    for (int i = 1; i < state->rank && fits; i++)
        fits = mx_infer_same(x->dims[i], state->dims[i], &agreed);
    if (!fits)
        return mx_infer_bad(f, "x %s does not fit state %s: expected the same dtype and sizes after axis 0",
                            mx_infer_type(f, x), mx_infer_type(f, state));
    if (index->dtype != MXW_I32 || index->rank != 1 || !mx_infer_same(index->dims[0], x->dims[0], &agreed))
        return mx_infer_bad(f, "index is %s: expected i32 [%s]", mx_infer_type(f, index), mx_infer_dim(f, x->dims[0]));
    f->out[0] = *state;
    return MXW_OK;
}

mxw_status mx_infer_SELECT(mx_infer *f) {
    const mx_type *logits = f->in[0], *rules = f->in[1], *suppress = f->in[2];
    mxw_status status;
    int64_t agreed, k = f->attrs->k;
    MX_TRY(mx_infer_want_dtype(f, 0, "logits", MXW_F32));
    MX_TRY(mx_infer_want_rank(f, 0, "logits", "[rows, vocab]", 2));
    int64_t rows = logits->dims[0], vocab = logits->dims[1];
    if (rules->dtype != MXW_I32 || rules->rank != 2 || !mx_infer_same(rules->dims[0], rows, &agreed) ||
        !mx_infer_same(rules->dims[1], MX_RULE_WORDS, &agreed))
        return mx_infer_bad(f, "rules are %s: expected i32 [%s, %d]", mx_infer_type(f, rules), mx_infer_dim(f, rows),
                            MX_RULE_WORDS);
    if (suppress->dtype != MXW_U8 || suppress->rank != 2 || !mx_infer_same(suppress->dims[1], vocab, &agreed))
        return mx_infer_bad(f, "suppress is %s: expected u8 [sets, %s]", mx_infer_type(f, suppress),
                            mx_infer_dim(f, vocab));
    if (k == 0 || k == MX_DIM_INFER)
        return mx_infer_bad(f, "k is %lld: expected 1 or more", (long long)k);
    f->out[0] = (mx_type){.dtype = MXW_I32, .rank = 2, .dims = {rows, k}};
    f->out[1] = (mx_type){.dtype = MXW_F32, .rank = 2, .dims = {rows, k}};
    f->out[2] = (mx_type){.dtype = MXW_F32, .rank = 2, .dims = {rows, MX_SELECT_STATS}};
out:
    return status;
}
