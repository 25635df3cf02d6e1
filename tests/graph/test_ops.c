/* test_ops.c - every op of op/ops.def against a float64 reference written here, on odd shapes: broadcasts, empty axes,
 * one row, tails of every tile. An op that no test names is reported and fails. */
#include "kit/harness.h"

static int tested[MX_OP_COUNT];
#define OP(id) (tested[MX_OP_##id] = 1)

/* ---- element by element ------------------------------------------------------------------------------------------ */

static double arithmetic(mx_op op, double a, double b) {
    return op == MX_OP_ADD ? a + b : op == MX_OP_SUB ? a - b : op == MX_OP_MUL ? a * b : a / b;
}

static mx_value build_arithmetic(mx_op op, mx_value a, mx_value b) {
    return op == MX_OP_ADD ? mx_graph_add(G, a, b) : op == MX_OP_SUB ? mx_graph_sub(G, a, b)
                                                 : op == MX_OP_MUL   ? mx_graph_mul(G, a, b)
                                                                     : mx_graph_div(G, a, b);
}

static void binary(int ra, const int64_t *da, int rb, const int64_t *db) {
    for (mx_op op = MX_OP_ADD; op <= MX_OP_DIV; op++) {
        begin();
        mx_tensor a = floats(9, ra, da), b = floats(9, rb, db);
        mx_tensor y = result(build_arithmetic(op, in(a), in(b)));
        CHECK_ELEMENTS(mx_tensor_count(&y), f32(&y, i),
                       arithmetic(op, (double)f32(&a, broadcast_offset(&a, &y, i, 0)),
                                  (double)f32(&b, broadcast_offset(&b, &y, i, 0))),
                       2 * EPS * fabs(want_));
        if (op == MX_OP_DIV)
            continue;
        begin();
        a = ints(100, ra, da), b = ints(100, rb, db);
        y = result(build_arithmetic(op, in(a), in(b)));
        CHECK_ELEMENTS(mx_tensor_count(&y), (double)i32(&y, i),
                       arithmetic(op, (double)i32(&a, broadcast_offset(&a, &y, i, 0)),
                                  (double)i32(&b, broadcast_offset(&b, &y, i, 0))),
                       0);
    }
}

static void test_binary(void) {
    OP(ADD), OP(SUB), OP(MUL), OP(DIV);
    binary(2, DIMS(3, 5), 2, DIMS(3, 5));
    binary(2, DIMS(3, 5), 1, DIMS(5));
    binary(1, DIMS(5), 2, DIMS(3, 5));
    binary(2, DIMS(3, 1), 2, DIMS(1, 5));
    binary(3, DIMS(2, 3, 5), 2, DIMS(3, 1));
    binary(3, DIMS(2, 1, 5), 3, DIMS(2, 3, 5));
    binary(4, DIMS(2, 3, 1, 5), 3, DIMS(3, 4, 1));
    binary(0, DIMS(0), 3, DIMS(2, 3, 4));
    binary(3, DIMS(2, 3, 4), 0, DIMS(0));
    binary(0, DIMS(0), 0, DIMS(0));
    binary(2, DIMS(0, 5), 1, DIMS(5));
    binary(2, DIMS(0, 5), 2, DIMS(1, 5));
    binary(1, DIMS(40000), 1, DIMS(1));
    binary(1, DIMS(1), 1, DIMS(40000));
    binary(3, DIMS(200, 1, 150), 3, DIMS(200, 3, 1));
    begin();   /* integers wrap */
    mx_tensor a = INTS(1, 2);
    ((int32_t *)a.data)[0] = INT32_MAX;
    ((int32_t *)a.data)[1] = INT32_MIN;
    mx_tensor y = result(mx_graph_mul(G, in(a), in(a)));
    CHECK_EQ_INT(i32(&y, 0), 1);
    CHECK_EQ_INT(i32(&y, 1), 0);
}

static void layer_norm(int64_t rows, int64_t n, double scale, double shift) {
    begin();
    mx_tensor x = FLOATS(scale, rows, n), gamma = FLOATS(2, n), beta = FLOATS(2, n);
    for (int64_t i = 0; i < rows * n; i++)
        ((float *)x.data)[i] += (float)shift;
    mx_tensor y = result(mx_graph_layer_norm(G, in(x), in(gamma), in(beta), 1e-5));
    CHECK_DIMS(y, rows, n);
    int64_t bad = -1;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += (double)f32(&x, r * n + i) / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow((double)f32(&x, r * n + i) - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            double want = ((double)f32(&x, r * n + i) - mean) / sqrt(variance + 1e-5) * (double)f32(&gamma, i) +
                          (double)f32(&beta, i);
            if (!near((double)f32(&y, r * n + i), want, 4 * EPS * (fabs(want) + 1)))
                bad = r * n + i;
        }
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_layer_norm(void) {
    OP(LAYER_NORM);
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 384, 1001};
    for (size_t i = 0; i < MX_COUNT(sizes); i++) {
        layer_norm(1, sizes[i], 1, 0);
        layer_norm(45, sizes[i], 3, 100);
    }
    layer_norm(0, 5, 1, 0);
}

static void test_gelu(void) {
    OP(GELU);
    begin();
    mx_tensor x = FLOATS(14, 40001);
    float *v = x.data;
    v[0] = 0, v[1] = -0.0f, v[2] = INFINITY, v[3] = 1e30f, v[4] = -1e30f, v[5] = 1e-40f, v[6] = NAN;
    for (int64_t i = 7; i < 2000; i++)
        v[i] = (float)uniform(-0.01, 0.01);
    mx_tensor y = result(mx_graph_gelu(G, in(x), MXW_GELU_ERF));
    CHECK(isnan(f32(&y, 6)));
    CHECK(f32(&y, 2) == INFINITY);
    v[6] = ((float *)y.data)[6] = 0, v[2] = ((float *)y.data)[2] = 0;
    CHECK_ELEMENTS(40001, f32(&y, i), 0.5 * (double)v[i] * erfc(-(double)v[i] / sqrt(2.0)),
                   4 * EPS * fabs((double)v[i]) + 1e-44);
    begin();
    mx_tensor z = FLOATS(14, 20001);
    v = z.data;
    v[0] = 0, v[1] = 1e30f, v[2] = -1e30f;
    y = result(mx_graph_gelu(G, in(z), MXW_GELU_TANH));
    CHECK_ELEMENTS(20001, f32(&y, i),
                   0.5 * (double)v[i] * (1 + tanh(sqrt(2 / M_PI) * ((double)v[i] + 0.044715 * pow((double)v[i], 3)))),
                   6 * EPS * fabs((double)v[i]) + 1e-44);
}

static void softmax(int rank, const int64_t *dims, double scale) {
    begin();
    mx_tensor x = floats(scale, rank, dims);
    mx_tensor y = result(mx_graph_softmax(G, in(x)));
    int64_t n = dims[rank - 1], rows = n ? mx_tensor_count(&x) / n : 0, bad = -1;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0, top = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            top = fmax(top, (double)f32(&x, r * n + i));
        for (int64_t i = 0; i < n; i++)
            sum += exp((double)f32(&x, r * n + i) - top);
        for (int64_t i = 0; i < n; i++) {
            double want = exp((double)f32(&x, r * n + i) - top) / sum;
            if (!near((double)f32(&y, r * n + i), want, (6 + 2 * scale) * EPS * want + 2e-45))
                bad = r * n + i;
        }
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_softmax(void) {
    OP(SOFTMAX);
    softmax(1, DIMS(1), 1);
    softmax(1, DIMS(7), 80);
    softmax(2, DIMS(5, 1500), 20);
    softmax(3, DIMS(2, 3, 17), 3);
    softmax(2, DIMS(3, 0), 3);
    softmax(2, DIMS(0, 3), 3);
    begin();   /* huge values stay finite; -inf has no share */
    mx_tensor x = FLOATS(1, 4);
    memcpy(x.data, (float[]){3e38f, 3e38f, -INFINITY, -3e38f}, 16);
    mx_tensor y = result(mx_graph_softmax(G, in(x)));
    CHECK(f32(&y, 0) == 0.5f && f32(&y, 1) == 0.5f && f32(&y, 2) == 0 && f32(&y, 3) == 0);
}

static double cast_reference(double v, mxw_dtype to) {
    static const double low[] = {[MXW_I32] = INT32_MIN, [MXW_I8] = -128, [MXW_U8] = 0, [MXW_I64] = -0x1p63};
    static const double high[] = {[MXW_I32] = INT32_MAX, [MXW_I8] = 127, [MXW_U8] = 255, [MXW_I64] = 0x1p63};
    if (mx_dtype_is_float(to))
        return v;
    return isnan(v) ? 0 : fmin(fmax(trunc(v), low[to]), high[to]);
}

static void test_cast(void) {
    OP(CAST);
    static const float values[] = {0, 1, -1, 1.5f, -1.5f, 0.1f, 127.9f, 128, -129, 255.5f, 256, 65504, 3e9f, -3e9f,
                                   5.9604645e-8f, 1e-3f, 2.0009765f};
    static const mxw_dtype all[] = {MXW_F32, MXW_F16, MXW_BF16, MXW_I32, MXW_I8, MXW_U8, MXW_I64, MXW_F64};
    for (size_t f = 0; f < MX_COUNT(all); f++)
        for (size_t t = 0; t < MX_COUNT(all); t++) {
            begin();
            mx_tensor x = blank(MXW_F32, 1, DIMS(MX_COUNT(values)));
            memcpy(x.data, values, sizeof(values));
            mx_value from = mx_graph_cast(G, in(x), all[f]);
            mx_value to = mx_graph_cast(G, from, all[t]);
            mx_value v[2] = {mx_graph_cast(G, from, MXW_F64), mx_graph_cast(G, to, MXW_F64)};
            mx_tensor out[2];
            if (!CHECK(results(v, 2, out)))
                continue;
            /* a half keeps 11 bits, a bfloat 8; integers and wider floats keep all that these values have */
            double relative = all[t] == MXW_F16 ? 0x1p-11 : all[t] == MXW_BF16 ? 0x1p-8 : all[t] == MXW_F32 ? EPS : 0;
            double least = all[t] == MXW_F16 ? 0x1p-25 : 0;
            CHECK_ELEMENTS((int64_t)MX_COUNT(values), ((double *)out[1].data)[i],
                           all[t] == MXW_F16 && fabs(((double *)out[0].data)[i]) >= 65520
                               ? copysign(INFINITY, ((double *)out[0].data)[i])
                               : cast_reference(((double *)out[0].data)[i], all[t]),
                           relative * fabs(want_) + least);
        }
    begin();
    mx_tensor x = FLOATS(1, 2);
    memcpy(x.data, (float[]){NAN, -INFINITY}, 8);
    mx_tensor y = result(mx_graph_cast(G, in(x), MXW_I32));
    CHECK(i32(&y, 0) == 0 && i32(&y, 1) == INT32_MIN);
    begin();   /* a double just above the middle of two halves rounds up, though its f32 is the middle */
    mx_tensor d = blank(MXW_F64, 1, DIMS(2));
    memcpy(d.data, (double[]){1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-11 + 0x1p-40)}, 16);
    y = result(mx_graph_cast(G, in(d), MXW_F16));
    CHECK(((uint16_t *)y.data)[0] == 0x3c01 && ((uint16_t *)y.data)[1] == 0xbc01);
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

static void permute(int rank, const int64_t *dims, const int *axes) {
    begin();
    mx_tensor x = ints(1000000, rank, dims);
    mx_tensor y = result(mx_graph_permute(G, in(x), axes));
    mx_tensor view = x;
    for (int i = 0; i < rank; i++) {
        view.dims[i] = x.dims[axes[i]];
        view.strides[i] = x.strides[axes[i]];
    }
    mx_tensor want = copy_of(&view);
    CHECK(has_dims(&y, rank, view.dims) && same_bits(&y, &want));
}

static void test_permute(void) {
    OP(PERMUTE), OP(TRANSPOSE), OP(RESHAPE);
    permute(1, DIMS(5), (int[]){0});
    permute(2, DIMS(300, 130), (int[]){1, 0});
    permute(3, DIMS(3, 80, 301), (int[]){0, 2, 1});
    permute(4, DIMS(2, 3, 4, 5), (int[]){3, 1, 0, 2});
    permute(6, DIMS(2, 1, 3, 2, 2, 2), (int[]){5, 4, 3, 2, 1, 0});
    permute(3, DIMS(2, 0, 3), (int[]){2, 1, 0});
    begin();
    mx_tensor x = FLOATS(1, 2, 3, 7);
    mx_value v[2] = {mx_graph_transpose(G, in(x)), 0};
    v[1] = mx_graph_transpose(G, v[0]);
    mx_tensor out[2];
    CHECK(results(v, 2, out) && same_bits(&out[1], &x));
    CHECK_DIMS(out[0], 2, 7, 3);
    CHECK(f32(&out[0], 1) == f32(&x, 7));
    begin();   /* through buffers and of an input; elements keep their order */
    x = FLOATS(1, 4, 6);
    mx_value a = in(x), b = mx_graph_add(G, a, a);
    mx_value r[2] = {mx_graph_reshape(G, a, 3, DIMS(2, -1, 3)), mx_graph_reshape(G, b, 1, DIMS(24))};
    CHECK(results(r, 2, out) && same_bits(&out[0], &x));
    CHECK_DIMS(out[0], 2, 4, 3);
    CHECK_ELEMENTS(24, f32(&out[1], i), 2 * (double)f32(&x, i), 0);
}

static void slice(int rank, const int64_t *dims, int axis, int64_t start, int64_t stop, int64_t step, int64_t first,
                  int64_t count) {
    begin();
    mx_tensor x = ints(1000000, rank, dims);
    mx_tensor y = result(mx_graph_slice(G, in(x), axis, start, stop, step));
    mx_tensor view = x;
    axis = axis < 0 ? axis + rank : axis;
    view.dims[axis] = count;
    view.strides[axis] *= count > 1 ? step : 1;
    view.data = (int32_t *)x.data + (count ? first * x.strides[axis] : 0);
    mx_tensor want = copy_of(&view);
    CHECK(has_dims(&y, rank, view.dims) && same_bits(&y, &want));
}

static void test_slice(void) {
    OP(SLICE);
    slice(1, DIMS(10), 0, 2, 7, 1, 2, 5);
    slice(1, DIMS(10), 0, 0, INT64_MAX, 3, 0, 4);
    slice(1, DIMS(10), 0, -3, INT64_MAX, 1, 7, 3);
    slice(1, DIMS(10), 0, -30, -8, 1, 0, 2);
    slice(1, DIMS(10), 0, 8, 3, 1, 0, 0);
    slice(1, DIMS(10), 0, 99, 100, 1, 0, 0);
    slice(3, DIMS(3, 11, 5), 1, 1, 10, 4, 1, 3);
    slice(3, DIMS(3, 11, 5), -1, 4, 5, 9, 4, 1);
    slice(3, DIMS(3, 11, 5), 0, 1, 3, 1, 1, 2);
    slice(2, DIMS(0, 4), 1, 1, 3, 1, 1, 2);
    slice(1, DIMS(7), 0, 3, 7, INT64_MAX, 3, 1);
}

static void test_concat(void) {
    OP(CONCAT);
    for (int axis = 0; axis < 3; axis++) {
        begin();
        int64_t da[] = {2, 3, 4}, db[] = {2, 3, 4}, dc[] = {2, 3, 4};
        db[axis] = 5;
        dc[axis] = 0;
        mx_tensor a = floats(1, 3, da), b = floats(1, 3, db), c = floats(1, 3, dc);
        mx_tensor y = result(mx_graph_concat(G, (mx_value[]){in(a), in(c), in(b), in(a)}, 4, axis));
        int64_t n = da[axis], bad = -1, index[3];
        CHECK_EQ_INT(y.dims[axis], 2 * n + 5);
        for (int64_t i = 0; i < mx_tensor_count(&y); i++) {
            int64_t rest = i;
            for (int d = 2; d >= 0; d--) {
                index[d] = rest % y.dims[d];
                rest /= y.dims[d];
            }
            const mx_tensor *from = index[axis] >= n && index[axis] < n + 5 ? &b : &a;
            index[axis] -= index[axis] < n ? 0 : index[axis] < n + 5 ? n : n + 5;
            if (f32(&y, i) != f32(from, index[0] * from->strides[0] + index[1] * from->strides[1] + index[2]))
                bad = i;
        }
        CHECK_EQ_INT(bad, -1);
    }
    begin();
    mx_tensor bytes = blank(MXW_U8, 1, DIMS(3));
    memcpy(bytes.data, "abc", 3);
    mx_tensor y = result(mx_graph_concat(G, (mx_value[]){in(bytes), in(bytes)}, 2, -1));
    CHECK(memcmp(y.data, "abcabc", 6) == 0);
}

static void test_gather(void) {
    OP(GATHER);
    begin();
    mx_tensor table = FLOATS(1, 50, 3, 2), index = INTS(50, 4, 5);
    mx_tensor y = result(mx_graph_gather(G, in(table), in(index)));
    CHECK_DIMS(y, 4, 5, 3, 2);
    CHECK_ELEMENTS(120, f32(&y, i), (double)f32(&table, i32(&index, i / 6) * 6 + i % 6), 0);
    begin();
    mx_tensor none = INTS(1, 0), row = FLOATS(1, 9);
    y = result(mx_graph_gather(G, in(row), in(none)));
    CHECK_DIMS(y, 0);
    begin();
    mx_tensor one = ints(1, 0, NULL);
    row = FLOATS(1, 9);
    ((int32_t *)one.data)[0] = 8;
    y = result(mx_graph_gather(G, in(row), in(one)));
    CHECK(y.rank == 0 && f32(&y, 0) == f32(&row, 8));
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static double reduce_reference(const mx_tensor *x, mxw_reduce_kind kind, int axis, int64_t i, double *size) {
    int64_t inner = 1, n = x->dims[axis];
    for (int d = axis + 1; d < x->rank; d++)
        inner *= x->dims[d];
    double result_ = kind == MXW_REDUCE_MAX ? -INFINITY : kind == MXW_REDUCE_MIN ? INFINITY : 0;
    *size = 0;
    for (int64_t j = 0; j < n; j++) {
        int64_t at = (i / inner * n + j) * inner + i % inner;
        double v = x->dtype == MXW_F32 ? (double)f32(x, at) : (double)i32(x, at);
        *size += fabs(v);
        result_ = kind == MXW_REDUCE_MAX ? fmax(result_, v) : kind == MXW_REDUCE_MIN ? fmin(result_, v) : result_ + v;
    }
    return kind == MXW_REDUCE_MEAN ? result_ / (double)n : result_;
}

static void reduce(int rank, const int64_t *dims, int axis) {
    for (int kind = MXW_REDUCE_SUM; kind <= MXW_REDUCE_MIN; kind++) {
        double size = 0;
        if (dims[axis] == 0 && kind != MXW_REDUCE_SUM)
            continue;
        begin();
        mx_tensor x = floats(5, rank, dims);
        mx_tensor y = result(mx_graph_reduce(G, in(x), (mxw_reduce_kind)kind, axis - (kind % 2 ? rank : 0)));
        CHECK_EQ_INT(y.rank, rank - 1);
        CHECK_ELEMENTS(mx_tensor_count(&y), f32(&y, i), reduce_reference(&x, (mxw_reduce_kind)kind, axis, i, &size),
                       2 * EPS * fabs(want_) + 1e-12 * size);
        if (kind == MXW_REDUCE_MEAN)
            continue;
        begin();
        x = ints(1000, rank, dims);
        y = result(mx_graph_reduce(G, in(x), (mxw_reduce_kind)kind, axis));
        CHECK_ELEMENTS(mx_tensor_count(&y), (double)i32(&y, i),
                       reduce_reference(&x, (mxw_reduce_kind)kind, axis, i, &size), 0);
    }
}

static void test_reduce(void) {
    OP(REDUCE);
    reduce(1, DIMS(1), 0);
    reduce(1, DIMS(1003), 0);
    reduce(3, DIMS(4, 17, 6), 0);
    reduce(3, DIMS(4, 17, 6), 1);
    reduce(3, DIMS(4, 17, 6), 2);
    reduce(2, DIMS(3, 0), 1);
    reduce(2, DIMS(0, 3), 1);
}

static int before(const float *x, int32_t a, int32_t b) {
    if (isnan(x[a]) || isnan(x[b]))
        return isnan(x[a]) && isnan(x[b]) ? a < b : !isnan(x[a]);
    return x[a] != x[b] ? x[a] > x[b] : a < b;
}

static void top_k(int64_t rows, int64_t n, int64_t k, int ties) {
    begin();
    mx_tensor x = FLOATS(1, rows, n), out[3];
    for (int64_t i = 0; i < rows * n && ties; i++)
        ((float *)x.data)[i] = below(12) ? (float)below(5) : NAN;
    mx_value v[3], a = in(x);
    CHECK(mx_graph_top_k(G, a, k, v) == MXW_OK);
    v[2] = mx_graph_argmax(G, a);
    if (!CHECK(results(v, 3, out)))
        return;
    CHECK_DIMS(out[0], rows, k);
    int64_t bad = -1;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (float *)x.data + r * n;
        for (int64_t j = 0; j < k; j++) {   /* candidate j has exactly j elements before it */
            int32_t id = i32(&out[1], r * k + j);
            int64_t rank_ = 0;
            for (int64_t i = 0; i < n; i++)
                rank_ += before(row, (int32_t)i, id);
            if (id < 0 || id >= n || rank_ != j || memcmp(&row[id], (float *)out[0].data + r * k + j, 4) != 0)
                bad = r * k + j;
        }
        if (i32(&out[2], r) != i32(&out[1], r * k))
            bad = r;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_top_k(void) {
    OP(TOP_K), OP(ARGMAX);
    static const int64_t sizes[][2] = {{1, 1}, {2, 1}, {7, 7}, {100, 5}, {1000, 64}, {51, 50}};
    for (size_t i = 0; i < MX_COUNT(sizes); i++)
        for (int ties = 0; ties < 2; ties++)
            top_k(3, sizes[i][0], sizes[i][1], ties);
    top_k(0, 4, 2, 0);
}

static void test_all_named(void) {
    OP(LINEAR), OP(MATMUL), OP(CONV1D), OP(CONV2D), OP(ATTENTION), OP(ATTENTION_CACHED), OP(ATTENTION_WINDOW);
    OP(ATTENTION_SCORES), OP(SELECT), OP(LSTM);   /* test_ops_nn.c above, test_select.c, test_lstm.c, test_run.c */
    OP(STATE_WRITE);
#define MX_ELEMENTWISE(id, name, ...) OP(id);   /* test_ops_elementwise.c */
#include "op/elementwise.def"
    for (int i = 0; i < MX_OP_PLAIN_COUNT; i++)
        if (!CHECK(tested[i]))
            printf("    op %s has no test\n", mx_op_name((mx_op)i));
}

int main(int argc, char **argv) {
    harness_open("graph-ops", argc, argv);
    mx_pool_open(2, &harness_pool);
    test_binary();
    test_layer_norm();
    test_gelu();
    test_softmax();
    test_cast();
    test_permute();
    test_slice();
    test_concat();
    test_gather();
    test_reduce();
    test_top_k();
    test_all_named();
    end();
    mx_pool_close(harness_pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
