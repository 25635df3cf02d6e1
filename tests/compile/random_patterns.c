/* random_patterns.c - parts of networks on values that are there already, each with its ways to be almost right. */
#include "random_maker.h"

#include <string.h>

#include "graph/build.h"

#define OP(op, a) maker_op(m, MX_OP_##op, &(mx_attrs){0}, a, 0, 0)
#define OP2(op, a, b) binary(m, MX_OP_##op, a, b)
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static int one_in(maker *m, int n) { return rng_one_in(&m->r, n); }
static int64_t below(maker *m, int64_t n) { return rng_below(&m->r, n); }
static mx_value binary(maker *m, mx_op op, mx_value a, mx_value b) {
    return b ? maker_op(m, op, &(mx_attrs){0}, a, b, 0) : 0;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static int64_t some_size(maker *m) {
    if (m->to->n_sizes && one_in(m, 3))
        return m->to->sizes[below(m, m->to->n_sizes)];
    return one_in(m, 20) ? 0 : below(m, 5) + 1;
}

static int64_t some_width(maker *m) {
    static const int64_t widths[] = {1, 2, 3, 4, 4, 6, 8, 8, 12, 16, 33, 48};
    return widths[below(m, (int64_t)MX_COUNT(widths) - (one_in(m, 4) ? 0 : 2))];
}

static int64_t width_of(const maker *m, mx_value v) {
    const mx_type *t = maker_type(m, v);
    return v && t->rank ? t->dims[t->rank - 1] : 0;
}

/* A value that was made lately, mostly, of that rank (0: any), f32, with a last axis of a known size. */
static mx_value pick(maker *m, int rank) {
    int64_t n = (int64_t)m->g->n_values - 1;
    for (int tries = 0; tries < 40; tries++) {
        int64_t back = one_in(m, 3) ? n : MX_MIN(n, 8);
        mx_value v = (mx_value)(n - below(m, back));
        const mx_type *t = maker_type(m, v);
        if (t->dtype == MXW_F32 && t->rank >= 1 && (rank == 0 || t->rank == rank) && width_of(m, v) > 0)
            return v;
    }
    int64_t dims[] = {some_size(m), some_size(m), some_width(m)};
    rank = rank ? rank : 2;
    return rank <= 3 ? maker_input(m, MXW_F32, rank, dims + 3 - rank, RANDOM_FLOATS, 0) : 0;
}

static mx_value any_value(maker *m) { return (mx_value)(below(m, (int64_t)m->g->n_values - 1) + 1); }

static mx_value vector(maker *m, int64_t n) {
    if (one_in(m, 12))
        return maker_input(m, MXW_F32, 1, &n, RANDOM_FLOATS, 0);
    if (one_in(m, 25))
        return maker_state(m, 1, &n);
    return one_in(m, 5) ? maker_constant(m, MXW_F32, 1, &n, 0) : maker_weight(m, 1, &n);
}

static mx_value matrix(maker *m, int64_t n_out, int64_t n_in) {
    int64_t half = n_out / 2;
    if (one_in(m, 20))
        return maker_input(m, MXW_F32, 2, DIMS(n_out, n_in), RANDOM_FLOATS, 0);
    if (one_in(m, 12)) {
        mx_value parts[] = {maker_weight(m, 2, DIMS(half, n_in)), maker_weight(m, 2, DIMS(n_out - half, n_in))}, out[3];
        return maker_append(m, MX_OP_CONCAT, &(mx_attrs){.axis = 0}, parts, 2, out) ? out[0] : 0;
    }
    if (one_in(m, 25))
        return maker_op(m, MX_OP_GELU, &(mx_attrs){0}, maker_weight(m, 2, DIMS(n_out, n_in)), 0, 0);
    return one_in(m, 6) ? maker_constant(m, MXW_F32, 2, DIMS(n_out, n_in), 0)
                        : maker_weight(m, 2, DIMS(n_out, n_in));
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static mx_value gelu(maker *m, mx_value x) {
    return maker_op(m, MX_OP_GELU, &(mx_attrs){.kind = one_in(m, 4) ? MXW_GELU_TANH : MXW_GELU_ERF}, x, 0, 0);
}

/* Any function of op/elementwise.def; gelu mostly, which is what the compiler fuses. */
static mx_value activation(maker *m, mx_value x) {
    static const mx_op functions[] = {
#define MX_ELEMENTWISE(id, name, ...) MX_OP_##id,
#include "op/elementwise.def"
    };
    static const double parameters[] = {0.01, 0.25, 1, 0, -0.5};
    mx_attrs attrs = {.parameter = parameters[below(m, (int64_t)MX_COUNT(parameters))]};
    return one_in(m, 3) ? maker_op(m, functions[below(m, (int64_t)MX_COUNT(functions))], &attrs, x, 0, 0) : gelu(m, x);
}

static mx_value norm(maker *m, mx_value x) {
    int64_t n = width_of(m, x);
    return x ? maker_op(m, MX_OP_LAYER_NORM, &(mx_attrs){.eps = one_in(m, 4) ? 0.1 : 1e-5}, x, vector(m, n),
                        vector(m, n))
             : 0;
}

static mx_value linear(maker *m, mx_value x, int64_t n_out, int with_bias) {
    if (!x)
        return 0;
    mx_value w = matrix(m, n_out, width_of(m, x)), b = with_bias ? vector(m, n_out) : 0;
    return w ? maker_op(m, MX_OP_LINEAR, &(mx_attrs){0}, x, w, b) : 0;
}

/* Something to add to x: itself, a value of its sizes, of its last sizes, of one that spreads, of none. */
static mx_value addend(maker *m, mx_value x, mx_value like) {
    const mx_type *t = maker_type(m, x);
    int64_t dims[MX_MAX_RANK];
    memcpy(dims, t->dims, sizeof(dims));
    int rank = t->rank, skip = one_in(m, 3) ? (int)below(m, rank) : 0;
    switch (below(m, 8)) {
    case 0: return x;
    case 1:
        if (rank)
            dims[below(m, rank)] = 1;
        return maker_input(m, MXW_F32, rank, dims, RANDOM_FLOATS, 0);
    case 2: return maker_input(m, MXW_F32, rank - skip, dims + skip, RANDOM_FLOATS, 0);
    case 3: return width_of(m, x) > 0 ? vector(m, width_of(m, x)) : 0;
    case 4: return pick(m, 0);
    default: return like;
    }
}

static mx_value add(maker *m, mx_value x, mx_value like) {
    mx_value y = x ? addend(m, x, like) : 0;
    return y ? one_in(m, 2) ? OP2(ADD, x, y) : OP2(ADD, y, x) : 0;
}

static void mlp(maker *m) {
    mx_value x = pick(m, 0), h = one_in(m, 2) ? norm(m, x) : x;
    int64_t n = width_of(m, x);
    h = linear(m, h, one_in(m, 2) ? 2 * n : some_width(m), !one_in(m, 3));
    h = one_in(m, 4) ? h : activation(m, h);
    h = one_in(m, 2) ? linear(m, h, n, one_in(m, 2)) : h;
    if (h && !one_in(m, 4))
        add(m, h, x);
}

static void convolution(maker *m) {
    mx_value x = pick(m, 3);
    int64_t n_out = some_width(m), k = below(m, 3) + 1;
    mx_attrs attrs = {.stride = {one_in(m, 3) ? 2 : 1, 1}, .dilation = one_in(m, 3) ? 2 : 1};
    attrs.pad[0] = one_in(m, 3) ? 0 : (int)(k / 2) * attrs.dilation;
    if (!x)
        return;
    int64_t dims[] = {n_out, width_of(m, x), k};
    mx_value w = one_in(m, 8) ? maker_input(m, MXW_F32, 3, dims, RANDOM_FLOATS, 0)
                 : one_in(m, 6) ? maker_constant(m, MXW_F32, 3, dims, 0)
                                : maker_weight(m, 3, dims);
    mx_value h = w ? maker_op(m, MX_OP_CONV1D, &attrs, x, w, one_in(m, 3) ? 0 : vector(m, n_out)) : 0;
    h = one_in(m, 3) ? h : activation(m, h);
    if (h && one_in(m, 2))
        add(m, h, x);
}

/* One leaf of an lstm: mostly a weight, for two directions perhaps a stack of one for each. */
static mx_value directions(maker *m, int rank, const int64_t *dims) {
    if (one_in(m, 6))
        return maker_input(m, MXW_F32, rank, dims, RANDOM_FLOATS, 0);
    if (dims[0] == 2 && one_in(m, 2)) {
        const int64_t one[] = {1, dims[1], rank > 2 ? dims[2] : 0};
        mx_value parts[] = {maker_weight(m, rank, one), maker_weight(m, rank, one)}, out[3];
        return maker_append(m, MX_OP_CONCAT, &(mx_attrs){.axis = 0}, parts, 2, out) ? out[0] : 0;
    }
    return one_in(m, 6) ? maker_constant(m, MXW_F32, rank, dims, 0) : maker_weight(m, rank, dims);
}

/* Its outputs go on into other layers, y mostly; sometimes nobody reads one. */
static void recurrence(maker *m) {
    static const int64_t units[] = {1, 2, 3, 8, 9};
    mx_value x = pick(m, 3), out[3];
    mxw_lstm_direction direction = (mxw_lstm_direction)below(m, 3);
    int64_t dirs = direction == MXW_LSTM_BOTH ? 2 : 1, hidden = units[below(m, (int64_t)MX_COUNT(units))];
    const int64_t n = x ? maker_type(m, x)->dims[1] : MX_DIM_ANY, *state = DIMS(dirs, n, hidden);
    if (n == MX_DIM_ANY)
        return;
    mx_value inputs[] = {x, directions(m, 3, DIMS(dirs, 4 * hidden, width_of(m, x))),
                         directions(m, 3, DIMS(dirs, 4 * hidden, hidden)), 0, 0, 0, 0};
    for (int i = 3; i < 5; i++)
        inputs[i] = one_in(m, 3) ? 0 : directions(m, 2, DIMS(dirs, 4 * hidden));
    for (int i = 5; i < 7; i++)
        inputs[i] = one_in(m, 2) ? 0 : maker_input(m, MXW_F32, 3, state, RANDOM_FLOATS, 0);
    mx_attrs attrs = {.kind = (int)direction};
    if (inputs[1] && inputs[2] && maker_append(m, MX_OP_LSTM, &attrs, inputs, 7, out) && one_in(m, 2))
        linear(m, out[one_in(m, 3) ? 1 + below(m, 2) : 0], some_width(m), 1);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static mx_attrs heads_of(maker *m, int64_t n) {
    int heads = n % 4 == 0 ? 4 : n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1;
    return (mx_attrs){.heads = one_in(m, 3) ? 1 : heads, .scale = 0.5, .causal = (int)below(m, 2)};
}

/* q, k and v of x, as products of one value mostly; sometimes someone else reads one of them. */
static void project(maker *m, mx_value x, int64_t n, mx_value qkv[3]) {
    mx_value h = one_in(m, 3) ? x : norm(m, x);
    for (int i = 0; i < 3; i++) {
        qkv[i] = linear(m, h, n, i != 1);
        if (qkv[i] && one_in(m, 12))
            OP(SOFTMAX, qkv[i]);
        if (one_in(m, 15))
            qkv[i] = x;
    }
}

static void self_attention(maker *m) {
    mx_value x = pick(m, 3), qkv[3], out[3];
    int64_t n = width_of(m, x);
    if (!x)
        return;
    project(m, x, n, qkv);
    mx_attrs attrs = heads_of(m, n);
    if (maker_append(m, MX_OP_ATTENTION, &attrs, qkv, 3, out) && !one_in(m, 3))
        add(m, linear(m, out[0], n, 1), x);
}

/* Rows with a cache of their past: written, then attended to. */
static void cached_attention(maker *m) {
    mx_value x = pick(m, 2), qkv[3], out[3];
    int64_t n = width_of(m, x), cells = one_in(m, 3) ? some_size(m) : 7, sequences = some_size(m), ctx = 3;
    const int64_t rows = x ? maker_type(m, x)->dims[0] : MX_DIM_ANY;
    if (rows == MX_DIM_ANY)
        return;
    project(m, x, n, qkv);
    mx_value at = maker_input(m, MXW_I32, 1, &rows, RANDOM_INDEX, cells);
    for (int i = 1; i < 3; i++) {
        mx_value s = maker_state(m, 2, DIMS(cells, n));
        mx_value write[] = {s, qkv[i], at};
        qkv[i] = at && s && qkv[i] && maker_append(m, MX_OP_STATE_WRITE, &(mx_attrs){0}, write, 3, out) ? out[0] : s;
    }
    mx_attrs attrs = heads_of(m, n);
    mx_value inputs[] = {qkv[0], qkv[1], qkv[2], maker_input(m, MXW_I32, 1, &rows, RANDOM_INDEX, sequences),
                         maker_input(m, MXW_I32, 1, &rows, RANDOM_INDEX, ctx),
                         maker_input(m, MXW_I32, 2, DIMS(sequences, ctx), RANDOM_INDEX, cells)};
    if (maker_append(m, MX_OP_ATTENTION_CACHED, &attrs, inputs, 6, out) && !one_in(m, 3))
        add(m, linear(m, out[0], n, 1), x);
}

static void window_attention(maker *m) {
    mx_value x = pick(m, 2), out[3];
    int64_t n = width_of(m, x), windows = some_size(m), t = below(m, 4) + 1;
    const int64_t rows = x ? maker_type(m, x)->dims[0] : MX_DIM_ANY;
    mx_value features = maker_input(m, MXW_F32, 3, DIMS(windows, t, 5), RANDOM_FLOATS, 0);
    if (rows == MX_DIM_ANY || !features)
        return;
    mx_value q = linear(m, one_in(m, 2) ? norm(m, x) : x, n, 1);
    mx_value inputs[] = {q, linear(m, features, n, 0), linear(m, features, n, 1),
                         maker_input(m, MXW_I32, 1, &rows, RANDOM_INDEX, windows)};
    mx_attrs attrs = heads_of(m, n);
    if (maker_append(m, MX_OP_ATTENTION_WINDOW, &attrs, inputs, 4, out) && !one_in(m, 3))
        add(m, out[0], x);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void vocabulary(maker *m) {
    mx_value x = pick(m, 2), out[3], best[3];
    int64_t words = below(m, 30) + 12;
    const int64_t rows = x ? maker_type(m, x)->dims[0] : MX_DIM_ANY;
    if (rows == MX_DIM_ANY)
        return;
    mx_value logits = linear(m, one_in(m, 2) ? norm(m, x) : x, words, one_in(m, 6));
    mx_attrs attrs = {.k = m->to->n_sizes && one_in(m, 4) ? m->to->sizes[0] : below(m, 5) + 1};
    mx_value inputs[] = {logits, maker_input(m, MXW_I32, 2, DIMS(rows, MX_RULE_WORDS), RANDOM_RULES, words),
                         maker_constant(m, MXW_U8, 2, DIMS(2, words), 0)};
    if (one_in(m, 4))
        maker_append(m, MX_OP_TOP_K, &attrs, &logits, logits ? 1 : 0, best);
    maker_append(m, MX_OP_SELECT, &attrs, inputs, 3, out);
}

static void lookup(maker *m) {
    int64_t n = below(m, 6) + 1, width = some_width(m), count = some_size(m), limit = n;
    mx_value table = matrix(m, n, width), index;
    if (one_in(m, 4) && (table = pick(m, 2)))
        limit = MX_MAX(maker_type(m, table)->dims[0], 1);
    if (one_in(m, 3))   /* an index that the graph computes */
        index = OP(ARGMAX, pick(m, 0));
    else if (one_in(m, 4))
        index = maker_constant(m, MXW_I32, 1, DIMS(3), n);
    else
        index = maker_input(m, MXW_I32, 1, &count, RANDOM_INDEX, limit);
    mx_value rows = table && index ? OP2(GATHER, table, index) : 0;
    if (rows && one_in(m, 2))
        OP2(ADD, rows, vector(m, width_of(m, rows) > 0 ? width_of(m, rows) : 1));
}

/* ---- moves, arithmetic ------------------------------------------------------------------------------------------- */

/* Whether a size that only a run knows would have to be written down. */
static int is_open_reshape(const mx_attrs *attrs) {
    for (int i = 0; i < attrs->rank; i++)
        if (attrs->dims[i] == MX_DIM_ANY)
            return 1;
    return 0;
}

static mx_value reshape(maker *m, mx_value x) {
    const mx_type t = *maker_type(m, x);
    mx_attrs attrs = {.rank = t.rank};
    memcpy(attrs.dims, t.dims, sizeof(attrs.dims));
    int at = t.rank > 1 ? (int)below(m, t.rank - 1) : 0;
    switch (below(m, 4)) {
    case 0: return maker_op(m, MX_OP_RESHAPE, &(mx_attrs){.rank = 1, .dims = {MX_DIM_INFER}}, x, 0, 0);
    case 1:   /* two axes into one */
        if (t.rank < 2)
            return 0;
        attrs.rank--;
        attrs.dims[at] = MX_DIM_INFER;
        memmove(attrs.dims + at + 1, t.dims + at + 2, (size_t)(t.rank - at - 2) * sizeof(*t.dims));
        break;
    case 2:   /* the last into two */
        if (t.rank < 1 || t.rank == MX_MAX_RANK || t.dims[t.rank - 1] < 2 || t.dims[t.rank - 1] % 2)
            return 0;
        attrs.dims[t.rank - 1] /= 2;
        attrs.dims[attrs.rank++] = 2;
        break;
    default:   /* as it is, one size to be found */
        if (t.rank)
            attrs.dims[below(m, t.rank)] = MX_DIM_INFER;
    }
    return is_open_reshape(&attrs) ? 0 : maker_op(m, MX_OP_RESHAPE, &attrs, x, 0, 0);
}

static mx_value slice(maker *m, mx_value x) {
    int rank = maker_type(m, x)->rank;
    mx_attrs attrs = {.axis = rank ? one_in(m, 2) ? rank - 1 : (int)below(m, rank) : 0};
    attrs.start = one_in(m, 3) ? 0 : below(m, 6) - 3;
    attrs.stop = one_in(m, 3) ? INT64_MAX : below(m, 12) - 3;
    attrs.step = one_in(m, 6) ? 2 : 1;
    return maker_op(m, MX_OP_SLICE, &attrs, x, 0, 0);
}

static mx_value permute(maker *m, mx_value x) {
    mx_attrs attrs = {0};
    int rank = maker_type(m, x)->rank;
    for (int i = 0; i < rank; i++)
        attrs.axes[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        int j = (int)below(m, i + 1), axis = attrs.axes[i];
        attrs.axes[i] = attrs.axes[j];
        attrs.axes[j] = axis;
    }
    return maker_op(m, MX_OP_PERMUTE, &attrs, x, 0, 0);
}

static mx_value concat(maker *m, mx_value x) {
    int n = (int)below(m, 3) + 1, rank = maker_type(m, x)->rank;
    mx_value parts[3], out[3];
    for (int i = 0; i < n; i++)
        parts[i] = i == 0 || one_in(m, 2) ? x : pick(m, rank);
    mx_attrs attrs = {.axis = rank ? (int)below(m, rank) : 0};
    for (int i = 0; i < n; i++)
        if (!parts[i])
            return 0;
    return maker_append(m, MX_OP_CONCAT, &attrs, parts, n, out) ? out[0] : 0;
}

static mx_value move(maker *m, mx_value x) {
    static const mxw_dtype types[] = {MXW_F32, MXW_F16, MXW_BF16, MXW_I32, MXW_F64, MXW_U8};
    switch (below(m, 7)) {
    case 0: return OP(TRANSPOSE, x);
    case 1: return permute(m, x);
    case 2: return reshape(m, x);
    case 3:
    case 4: return slice(m, x);
    case 5: return concat(m, x);
    default: {
        mx_value y = maker_op(m, MX_OP_CAST, &(mx_attrs){.dtype = types[below(m, (int64_t)MX_COUNT(types))]}, x, 0, 0);
        return one_in(m, 2) && y ? maker_op(m, MX_OP_CAST, &(mx_attrs){.dtype = MXW_F32}, y, 0, 0) : y;
    }
    }
}

static void moves(maker *m) {
    mx_value x = one_in(m, 6) ? any_value(m) : pick(m, 0);
    for (int64_t n = below(m, 4) + 1; n > 0 && x; n--)
        x = move(m, x);
}

static mx_value arithmetic(maker *m, mx_value x) {
    static const mx_op ops[] = {MX_OP_ADD, MX_OP_MUL, MX_OP_SUB, MX_OP_DIV};
    mx_value y = x ? addend(m, x, pick(m, 0)) : 0;
    return y ? maker_op(m, ops[below(m, 4)], &(mx_attrs){0}, x, y, 0) : 0;
}

static void rows_of(maker *m) {
    mx_value x = pick(m, 0), out[3];
    int rank = x ? maker_type(m, x)->rank : 0;
    mx_attrs attrs = {.axis = rank ? (int)below(m, rank) : 0, .kind = (int)below(m, 4), .k = below(m, 3) + 1};
    switch (below(m, 6)) {
    case 0: OP(SOFTMAX, x); break;
    case 1: maker_op(m, MX_OP_REDUCE, &attrs, x, 0, 0); break;
    case 2: maker_append(m, MX_OP_TOP_K, &attrs, &x, x ? 1 : 0, out); break;
    case 3: norm(m, x); break;
    case 4: activation(m, x); break;
    default: arithmetic(m, x);
    }
}

static void constants(maker *m) {
    int64_t dims[] = {below(m, 3) + 1, below(m, 4) + 1};
    mx_value c = maker_constant(m, MXW_F32, 2, dims, 0);
    for (int64_t n = below(m, 3) + 1; n > 0 && c; n--)
        c = one_in(m, 2) ? move(m, c) : activation(m, c);
    if (c && one_in(m, 2))
        arithmetic(m, c);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static mx_value read_state(maker *m, mx_value s) {
    switch (below(m, 6)) {
    case 0: return linear(m, s, some_width(m), 1);
    case 1: return activation(m, s);
    case 2: return maker_op(m, MX_OP_REDUCE, &(mx_attrs){.axis = 0}, s, 0, 0);
    case 3: return norm(m, s);
    default: return move(m, s);
    }
}

/* Reads and writes of one state, and what was read is used after the write. */
static void states(maker *m) {
    int64_t n = below(m, 4) + 1, width = some_width(m), count = some_size(m);
    mx_value s = one_in(m, 2) ? maker_state(m, 2, DIMS(n, width)) : 0, before = 0, out[3];
    for (size_t v = 1; v < m->g->n_values && !s; v++)
        if (m->g->values[v].state && maker_type(m, (mx_value)v)->rank == 2 && one_in(m, 2))
            s = (mx_value)v;
    if (!s)
        return;
    n = maker_type(m, s)->dims[0], width = width_of(m, s);
    before = read_state(m, s);
    mx_value x = one_in(m, 2) ? linear(m, pick(m, 2), width, 0) : 0;
    if (x && maker_type(m, x)->dims[0] == MX_DIM_ANY)
        x = 0;
    count = x ? maker_type(m, x)->dims[0] : count;
    x = x ? x : maker_input(m, MXW_F32, 2, DIMS(count, width), RANDOM_FLOATS, 0);
    mx_value write[] = {s, x, maker_input(m, MXW_I32, 1, &count, RANDOM_INDEX, n)};
    if (x && write[2] && maker_append(m, MX_OP_STATE_WRITE, &(mx_attrs){0}, write, 3, out) && one_in(m, 2))
        s = out[0];
    if (before && !one_in(m, 3))
        before = one_in(m, 2) ? move(m, before) : activation(m, before);
    if (!one_in(m, 3))
        read_state(m, s);
}

/* ---- anything ---------------------------------------------------------------------------------------------------- */

/* A node that is there already, once more. */
static void again(maker *m) {
    mx_value out[MX_MAX_OUTPUTS], inputs[MX_MAX_INPUTS];
    if (!m->g->n_nodes)
        return;
    const mx_node node = m->g->nodes[below(m, (int64_t)m->g->n_nodes)];
    memcpy(inputs, node.inputs, (size_t)node.n_inputs * sizeof(*inputs));
    maker_append(m, node.op, &node.attrs, inputs, node.n_inputs, out);
}

static void any_op(maker *m) {
    mx_op op = (mx_op)below(m, MX_OP_PLAIN_COUNT);
    mx_value inputs[7], out[MX_MAX_OUTPUTS];
    int least = mx_op_least_inputs(op), most = MX_MIN(mx_op_most_inputs(op), 7), n = least;
    n += (int)below(m, most - least + 1);
    mx_attrs a = {.axis = (int)below(m, 3), .axes = {1, 0, 2, 3, 4, 5}, .rank = 2, .dims = {MX_DIM_INFER, 2}};
    a.start = below(m, 4) - 1, a.stop = below(m, 5), a.step = 1;
    a.dtype = (mxw_dtype)below(m, 8), a.kind = (int)below(m, 2), a.eps = 1e-3, a.k = below(m, 3) + 1;
    a.heads = 1, a.causal = (int)below(m, 2), a.scale = -0.7, a.parameter = 0.25;
    a.stride[0] = a.stride[1] = 1, a.pad[0] = (int)below(m, 2), a.pad[1] = 1;
    a.dilation = (int)below(m, 2) + 1;
    for (int tries = 0; tries < 12; tries++) {
        for (int i = 0; i < n; i++)
            inputs[i] = i && one_in(m, 3) ? inputs[0] : any_value(m);
        if (maker_append(m, op, &a, inputs, n, out))
            return;
    }
}

void maker_begin(maker *m) {
    for (int64_t n = below(m, 3) + 1; n > 0; n--) {
        int64_t dims[] = {some_size(m), some_size(m), some_width(m)};
        int rank = (int)below(m, 3) + 1;
        maker_input(m, MXW_F32, rank, dims + 3 - rank, RANDOM_FLOATS, 0);
    }
}

void maker_pattern(maker *m) {
    static void (*const patterns[])(maker *) = {
        mlp,        mlp,   mlp,    convolution, convolution, recurrence, self_attention, self_attention,
        cached_attention, cached_attention, window_attention, vocabulary, lookup, moves, moves, moves, rows_of, rows_of,
        constants, states, states, again, again, any_op, any_op, any_op};
    patterns[below(m, (int64_t)MX_COUNT(patterns))](m);
}
