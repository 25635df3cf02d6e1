/* test_ops_nn.c - products, convolutions and attention against a float64 reference written here, on odd shapes: one
 * row, tails of every tile, empty axes, broadcasts. */
#include "kit/harness.h"

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* sum of a[i] b[i] in f64, and what its rounding may be worth in f32. */
static double dot64(const float *a, int64_t sa, const float *b, int64_t sb, int64_t n, double *bound_) {
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double term = (double)a[i * sa] * (double)b[i * sb];
        sum += term;
        size += fabs(term);
    }
    *bound_ = (double)(n + 2) * EPS * size;
    return sum;
}

static void linear(int rank, const int64_t *dims, int64_t out, int with_bias) {
    int64_t k = dims[rank - 1], rows = 1;
    begin();
    mx_tensor x = floats(1, rank, dims), w = FLOATS(1, out, k), b = FLOATS(1, out);
    mx_tensor y = result(mx_graph_linear(G, in(x), in(w), with_bias ? in(b) : 0));
    for (int i = 0; i < rank - 1; i++)
        rows *= dims[i];
    CHECK_EQ_INT(mx_tensor_count(&y), rows * out);
    double bound_ = 0;
    CHECK_ELEMENTS(rows * out, f32(&y, i),
                   dot64((float *)x.data + i / out * k, 1, (float *)w.data + i % out * k, 1, k, &bound_) +
                       (with_bias ? (double)f32(&b, i % out) : 0),
                   bound_ + 4 * EPS * (fabs(want_) + 1));
}

static void test_linear(void) {
    static const int64_t rows[] = {0, 1, 2, 7, 8, 9, 16, 61, 70};
    for (size_t i = 0; i < MX_COUNT(rows); i++) {
        linear(2, DIMS(rows[i], 5), 3, 1);
        linear(2, DIMS(rows[i], 130), 131, i % 2 == 0);
    }
    linear(1, DIMS(33), 17, 1);
    linear(2, DIMS(5, 0), 3, 1);
    linear(2, DIMS(5, 3), 0, 0);
    linear(2, DIMS(3, 384), 1000, 0);
    linear(3, DIMS(2, 1, 9), 4, 1);
    linear(3, DIMS(3, 126, 37), 70, 1);
    linear(3, DIMS(1, 250, 20), 2049, 0);
    linear(3, DIMS(0, 4, 5), 6, 1);
    linear(4, DIMS(2, 3, 5, 7), 11, 1);
}

static void matmul(int ra, const int64_t *da, int rb, const int64_t *db) {
    begin();
    mx_tensor a = floats(1, ra, da), b = floats(1, rb, db);
    mx_tensor y = result(mx_graph_matmul(G, in(a), in(b)));
    int64_t m = da[ra - 2], k = da[ra - 1], n = db[rb - 1];
    double bound_ = 0;
    CHECK_ELEMENTS(mx_tensor_count(&y), f32(&y, i),
                   dot64((float *)a.data + broadcast_offset(&a, &y, i / (m * n), 2) + i / n % m * k, 1,
                         (float *)b.data + broadcast_offset(&b, &y, i / (m * n), 2) + i % n, n, k, &bound_),
                   bound_);
}

static void test_matmul(void) {
    matmul(2, DIMS(3, 4), 2, DIMS(4, 5));
    matmul(2, DIMS(1, 1), 2, DIMS(1, 1));
    matmul(2, DIMS(17, 300), 2, DIMS(300, 150));
    matmul(2, DIMS(5, 0), 2, DIMS(0, 3));
    matmul(3, DIMS(4, 3, 7), 3, DIMS(4, 7, 2));
    matmul(3, DIMS(1, 130, 7), 3, DIMS(3, 7, 5));
    matmul(4, DIMS(2, 1, 3, 4), 3, DIMS(5, 4, 6));
    matmul(2, DIMS(3, 4), 4, DIMS(2, 3, 4, 2));
    matmul(3, DIMS(2, 0, 4), 3, DIMS(2, 4, 6));
}

static void conv1d(int64_t n, int64_t t, int64_t c_in, int64_t c_out, int64_t k, int stride, int pad, int dilation,
                   int with_bias) {
    begin();
    mx_tensor x = FLOATS(1, n, t, c_in), w = FLOATS(1, c_out, c_in, k), b = FLOATS(1, c_out);
    mx_value x_ = in(x), w_ = in(w), b_ = with_bias ? in(b) : 0;
    mx_tensor y = result(dilation == 1 ? mx_graph_conv1d(G, x_, w_, b_, stride, pad)
                                       : mx_graph_conv1d_dilated(G, x_, w_, b_, stride, pad, dilation));
    int64_t t_out = (t + 2 * pad - (k - 1) * dilation - 1) / stride + 1;
    CHECK_DIMS(y, n, t_out, c_out);
    int64_t bad = -1;
    for (int64_t i = 0; i < n * t_out * c_out && bad < 0; i++) {
        int64_t o = i % c_out, at = i / c_out % t_out, entry = i / c_out / t_out;
        double sum = with_bias ? (double)f32(&b, o) : 0, size = fabs(sum);
        for (int64_t tap = 0; tap < k; tap++)
            for (int64_t c = 0; c < c_in; c++) {
                int64_t from = at * stride - pad + tap * dilation;
                if (from < 0 || from >= t)
                    continue;
                double term =
                    (double)f32(&x, (entry * t + from) * c_in + c) * (double)f32(&w, (o * c_in + c) * k + tap);
                sum += term;
                size += fabs(term);
            }
        if (!near((double)f32(&y, i), sum, (double)(k * c_in + 2) * EPS * size))
            bad = i;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_conv1d(void) {
    conv1d(1, 1, 1, 1, 1, 1, 0, 1, 0);
    conv1d(2, 7, 3, 5, 3, 1, 1, 1, 1);
    conv1d(2, 8, 3, 5, 3, 2, 1, 1, 1);
    conv1d(1, 9, 4, 2, 5, 3, 4, 1, 0);
    conv1d(1, 3, 4, 2, 7, 1, 2, 1, 1);
    conv1d(2, 260, 6, 9, 3, 2, 1, 1, 1);
    conv1d(1, 300, 5, 3, 4, 1, 0, 1, 1);
    conv1d(1, 2, 2, 2, 1, 4, 3, 1, 1);
    conv1d(0, 5, 2, 3, 3, 1, 1, 1, 1);
    conv1d(2, 9, 3, 5, 3, 1, 2, 2, 1);
    conv1d(2, 12, 4, 7, 3, 2, 0, 5, 0);
    conv1d(1, 3, 2, 4, 5, 1, 9, 3, 1);    /* taps that are never inside */
    conv1d(3, 270, 6, 9, 3, 3, 4, 4, 1);
    conv1d(1, 4, 5, 2, 1, 1, 0, 7, 1);    /* one tap: no distance */
    conv1d(0, 5, 2, 3, 2, 1, 1, 3, 1);
}

static void conv2d(const int64_t *dx, const int64_t *dw, const int *stride, const int *pad, int with_bias) {
    begin();
    mx_tensor x = floats(1, 4, dx), w = floats(1, 4, dw), b = FLOATS(1, dw[3]);
    mx_tensor y = result(mx_graph_conv2d(G, in(x), in(w), with_bias ? in(b) : 0, stride, pad));
    int64_t oh = (dx[1] + 2 * pad[0] - dw[0]) / stride[0] + 1, ow = (dx[2] + 2 * pad[1] - dw[1]) / stride[1] + 1;
    CHECK_DIMS(y, dx[0], oh, ow, dw[3]);
    int64_t bad = -1;
    for (int64_t i = 0; i < mx_tensor_count(&y) && bad < 0; i++) {
        int64_t o = i % dw[3], c_at = i / dw[3] % ow, r_at = i / dw[3] / ow % oh, entry = i / dw[3] / ow / oh;
        double sum = with_bias ? (double)f32(&b, o) : 0, size = fabs(sum);
        for (int64_t r = 0; r < dw[0]; r++)
            for (int64_t s = 0; s < dw[1]; s++)
                for (int64_t c = 0; c < dw[2]; c++) {
                    int64_t row = r_at * stride[0] - pad[0] + r, column = c_at * stride[1] - pad[1] + s;
                    if (row < 0 || row >= dx[1] || column < 0 || column >= dx[2])
                        continue;
                    double term = (double)f32(&x, ((entry * dx[1] + row) * dx[2] + column) * dx[3] + c) *
                                  (double)f32(&w, ((r * dw[1] + s) * dw[2] + c) * dw[3] + o);
                    sum += term;
                    size += fabs(term);
                }
        if (!near((double)f32(&y, i), sum, (double)(dw[0] * dw[1] * dw[2] + 2) * EPS * size))
            bad = i;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_conv2d(void) {
    conv2d(DIMS(1, 1, 1, 1), DIMS(1, 1, 1, 1), (int[]){1, 1}, (int[]){0, 0}, 0);
    conv2d(DIMS(2, 5, 7, 3), DIMS(3, 3, 3, 4), (int[]){1, 1}, (int[]){1, 1}, 1);
    conv2d(DIMS(1, 6, 9, 2), DIMS(2, 5, 2, 3), (int[]){2, 3}, (int[]){0, 2}, 1);
    conv2d(DIMS(1, 13, 14, 2), DIMS(3, 1, 2, 5), (int[]){1, 1}, (int[]){3, 0}, 0);
    conv2d(DIMS(1, 2, 2, 1), DIMS(4, 4, 1, 2), (int[]){1, 2}, (int[]){2, 3}, 1);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* One query of one head over keys that `row_of` names; y [width] in f64. */
static void attend64(const float *q, const float *k, const float *v, const int64_t *rows, int64_t n, int64_t ld,
                     int64_t width, double scale, double *y) {
    double top = -INFINITY, sum = 0;
    double *p = block((size_t)n * sizeof(double));
    memset(y, 0, (size_t)width * sizeof(*y));
    for (int64_t j = 0; j < n; j++) {
        double s = 0;
        for (int64_t i = 0; i < width; i++)
            s += (double)q[i] * (double)k[rows[j] * ld + i];
        p[j] = s * scale;
        top = fmax(top, p[j]);
    }
    for (int64_t j = 0; j < n; j++)
        sum += p[j] = exp(p[j] - top);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < width; i++)
            y[i] += p[j] / sum * (double)v[rows[j] * ld + i];
    free(blocks[--n_blocks]);
}

static void attention(int64_t n, int64_t t, int64_t s, int heads, int64_t width, int causal) {
    int64_t d = heads * width, bad = -1;
    begin();
    mx_tensor q = FLOATS(2, n, t, d), k = FLOATS(2, n, s, d), v = FLOATS(2, n, s, d);
    double scale = 1 / sqrt((double)width);
    mx_tensor y = result(mx_graph_attention(G, in(q), in(k), in(v), heads, scale, causal));
    CHECK_DIMS(y, n, t, d);
    int64_t *rows = block((size_t)s * sizeof(*rows));
    double *want = block((size_t)width * sizeof(*want));
    for (int64_t j = 0; j < s; j++)
        rows[j] = j;
    for (int64_t i = 0; i < n * t * heads; i++) {
        int64_t head = i % heads, at = i / heads % t, entry = i / heads / t, keys = causal ? at + s - t + 1 : s;
        int64_t offset = (entry * t + at) * d + head * width, to_keys = entry * s * d + head * width;
        attend64((float *)q.data + offset, (float *)k.data + to_keys, (float *)v.data + to_keys, rows, keys, d, width,
                 scale, want);
        for (int64_t w = 0; w < width; w++)
            if (!near((double)f32(&y, offset + w), want[w], 2e-6))
                bad = offset + w;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_attention(void) {
    attention(1, 1, 1, 1, 1, 0);
    attention(2, 5, 7, 3, 4, 0);
    attention(1, 130, 140, 2, 64, 0);
    attention(2, 9, 9, 2, 5, 1);
    attention(1, 3, 8, 1, 16, 1);
    attention(1, 127, 127, 1, 3, 1);
    attention(1, 0, 3, 2, 4, 0);
    attention(0, 4, 3, 2, 4, 0);
}

static void attention_rows(int64_t rows, int64_t keys, int heads, int64_t width, int cached) {
    int64_t d = heads * width, n_seq = 3, ctx = 11, bad = -1;
    begin();
    mx_tensor q = FLOATS(2, rows, d), seq = INTS(n_seq, rows), pos = INTS(ctx, rows), cells = INTS(keys, n_seq, ctx);
    mx_tensor k = cached ? FLOATS(2, keys, d) : FLOATS(2, n_seq, keys, d);
    mx_tensor v = cached ? FLOATS(2, keys, d) : FLOATS(2, n_seq, keys, d);
    double scale = 1 / sqrt((double)width);
    mx_value a = in(q), b = in(k), c = in(v), s = in(seq);
    mx_tensor y = result(cached ? mx_graph_attention_cached(G, a, b, c, s, in(pos), in(cells), heads, scale)
                                : mx_graph_attention_window(G, a, b, c, s, heads, scale));
    int64_t *list = block((size_t)(keys + ctx) * sizeof(*list));
    double *want = block((size_t)width * sizeof(*want));
    for (int64_t i = 0; i < rows * heads; i++) {
        int64_t row = i / heads, shift = i % heads * width, n = cached ? i32(&pos, row) + 1 : keys;
        for (int64_t j = 0; j < n; j++)
            list[j] = cached ? i32(&cells, i32(&seq, row) * ctx + j) : i32(&seq, row) * keys + j;
        attend64((float *)q.data + row * d + shift, (float *)k.data + shift, (float *)v.data + shift, list, n, d, width,
                 scale, want);
        for (int64_t w = 0; w < width; w++)
            if (!near((double)f32(&y, row * d + shift + w), want[w], 2e-6))
                bad = row * d + shift + w;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_attention_rows(void) {
    for (int cached = 0; cached < 2; cached++) {
        attention_rows(1, 1, 1, 1, cached);
        attention_rows(5, 37, 3, 5, cached);
        attention_rows(9, 150, 2, 64, cached);
        attention_rows(4, 8, 1, 17, cached);
        attention_rows(0, 8, 2, 4, cached);
    }
}

static void attention_scores(int64_t rows, int64_t keys, int heads, int64_t width, int64_t n) {
    int64_t d = heads * width, windows = 3, bad = -1;
    begin();
    mx_tensor q = FLOATS(2, rows, d), k = FLOATS(2, windows, keys, d), head = INTS(heads, n);
    mx_tensor window = INTS(windows, rows);
    double scale = 1 / sqrt((double)width);
    mx_value a = in(q), b = in(k), c = in(head);
    mx_tensor y = result(mx_graph_attention_scores(G, a, b, c, in(window), heads, scale));
    CHECK_DIMS(y, rows, n, keys);
    for (int64_t i = 0; i < rows * n * keys; i++) {
        int64_t j = i % keys, at = i / keys % n, row = i / keys / n, shift = i32(&head, at) * width;
        double want = 0;
        for (int64_t w = 0; w < width; w++)
            want += (double)f32(&q, row * d + shift + w) *
                    (double)f32(&k, (i32(&window, row) * keys + j) * d + shift + w);
        if (!near((double)f32(&y, i), want * scale, 4e-6))
            bad = i;
    }
    CHECK_EQ_INT(bad, -1);
}

static void test_attention_scores(void) {
    attention_scores(1, 1, 1, 1, 1);
    attention_scores(5, 37, 3, 5, 2);
    attention_scores(9, 150, 2, 64, 4);
    attention_scores(140, 33, 6, 17, 1);
    attention_scores(0, 8, 2, 4, 2);
    attention_scores(4, 8, 2, 4, 0);
}

int main(int argc, char **argv) {
    harness_open("graph-ops-nn", argc, argv);
    mx_pool_open(2, &harness_pool);
    test_linear();
    test_matmul();
    test_conv1d();
    test_conv2d();
    test_attention();
    test_attention_rows();
    test_attention_scores();
    end();
    mx_pool_close(harness_pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
