/* check_plain.c - the kernels of plain ops against a float64 reference written here. */
#include "kcheck.h"

#include <float.h>
#include <math.h>

static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 64, 100, 384, 1501};

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void test_gemm(void) {
    static const int64_t sizes[][3] = {{1, 1, 1},     {1, 5, 3}, {8, 128, 384}, {8, 16, 33}, {7, 13, 19},
                                       {125, 64, 70}, {3, 2, 0}, {33, 17, 65},  {2, 100, 1}, {8, 80, 1536}};
    for (size_t s = 0; s < MX_COUNT(sizes); s++)
        for (int transposed = 0; transposed < 2; transposed++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], gap = (int64_t)(s % 3);
            int64_t lda = k + gap, ldb = (transposed ? k : n) + gap, ldc = n + gap;
            float *a = floats(m * lda + 1, 1, 4), *b = floats((transposed ? n : k) * ldb + 1, 1, 8);
            float *c = take((size_t)(m * ldc - gap) * sizeof(float), 4);
            for (int64_t i = 0; i < m * ldc - gap; i++)
                c[i] = 7;
            K->gemm(m, n, k, a, MX_MAX(lda, 1), b, MX_MAX(ldb, 1), transposed, c, ldc);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < ldc && (i < m - 1 || j < n); j++) {
                    double sum = j < n ? 0 : 7, size = 0;
                    for (int64_t p = 0; p < k && j < n; p++) {
                        double term = (double)a[i * lda + p] * (double)(transposed ? b[j * ldb + p] : b[p * ldb + j]);
                        sum += term;
                        size += fabs(term);
                    }
                    near((double)c[i * ldc + j], sum, (double)(k + 2) * EPS * size);
                }
            record(c, (size_t)(m * ldc - gap) * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

static void test_attn_row(void) {
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 9}, {4, 16, 16}, {150, 64, 130}, {7, 17, 40}, {1500, 64, 64}};
    for (size_t s = 0; s < MX_COUNT(sizes); s++)
        for (int indexed = 0; indexed < 2; indexed++) {
            int64_t n = sizes[s][0], width = sizes[s][1], ld = sizes[s][2] > width ? sizes[s][2] : width;
            float *q = floats(width, 2, 4), *k = floats(n * ld, 2, 12), *v = floats(n * ld, 2, 4);
            float *y = take((size_t)width * sizeof(float), 4), *scores = take((size_t)n * sizeof(float), 8);
            int32_t *cells = take((size_t)n * sizeof(int32_t), 4);
            double top = -INFINITY, sum = 0, *p = take((size_t)n * sizeof(double), 0);
            for (int64_t j = 0; j < n; j++)
                cells[j] = (int32_t)(word() % (uint32_t)n);
            K->attn_row(y, q, k, v, indexed ? cells : NULL, n, ld, width, 0.3f, scores);
            for (int64_t j = 0; j < n; j++) {
                p[j] = 0;
                for (int64_t i = 0; i < width; i++)
                    p[j] += (double)q[i] * (double)k[(indexed ? cells[j] : j) * ld + i] * (double)0.3f;
                top = fmax(top, p[j]);
            }
            for (int64_t j = 0; j < n; j++)
                sum += p[j] = exp(p[j] - top);
            for (int64_t i = 0; i < width; i++) {
                double want = 0;
                for (int64_t j = 0; j < n; j++)
                    want += p[j] / sum * (double)v[(indexed ? cells[j] : j) * ld + i];
                near((double)y[i], want, 3e-6);
            }
            record(y, (size_t)width * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

static void test_attn_scores(void) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},     {3, 5, 9, 7},   {4, 16, 16, 5}, {9, 64, 130, 33},
                                       {70, 17, 40, 16}, {3, 64, 64, 20}, {2, 80, 90, 17}};
    for (size_t test = 0; test < 2 * MX_COUNT(sizes); test++) {
        size_t s = test / 2;
        int64_t n = sizes[s][0], width = sizes[s][1], ld = sizes[s][2] > width ? sizes[s][2] : width;
        int64_t keys = sizes[s][3];
        float *q = floats(n * ld, 2, 4), *k = floats(keys * ld, 2, 12);
        float *y = take((size_t)(n * (keys + 1)) * sizeof(float), 4);
        float *scratch = take((size_t)(MX_SUM_LANES * width) * sizeof(float), 8);
        int32_t *rows = take((size_t)n * sizeof(int32_t), 4);
        memset(y, 0, (size_t)(n * (keys + 1)) * sizeof(float));
        for (int64_t i = 0; i < n; i++)
            rows[i] = (int32_t)(n - 1 - i);
        const void *kept = test % 2 ? as_halves(k, keys * ld) : k;
        K->attn_scores(y, keys + 1, q, ld, rows, n, kept, test % 2 ? MXW_F16 : MXW_F32, ld, keys, width, 0.3f,
                       scratch);
        for (int64_t r = 0; r < n; r++)
            for (int64_t j = 0; j <= keys; j++) {
                double want = 0;
                for (int64_t i = 0; i < width && j < keys; i++)
                    want += (double)q[r * ld + i] * (double)k[j * ld + i] * (double)0.3f;
                near((double)y[r * (keys + 1) + j], want, 3e-5);
            }
        record(y, (size_t)(n * (keys + 1)) * sizeof(float));
        NOTHING_OFF();
        done();
    }
}

/* ---- element by element ------------------------------------------------------------------------------------------ */

typedef void (*binary_f32)(float *, const float *, int, const float *, int, int64_t);
typedef void (*binary_i32)(int32_t *, const int32_t *, int, const int32_t *, int, int64_t);

static double compute(char op, double a, double b) {
    return op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
}

static void each_f32(binary_f32 run, char op) {
    for (size_t l = 0; l < MX_COUNT(lengths); l++)
        for (int steps = 0; steps < 4; steps++) {
            int64_t n = lengths[l];
            int sa = steps & 1, sb = steps >> 1;
            float *a = floats(n + 1, 5, 4), *b = floats(n + 1, 5, 8), *y = take((size_t)n * sizeof(float), 12);
            a[0] = 1e-40f;   /* subnormal */
            b[n / 2] = 3e38f;
            run(y, a, sa, b, sb, n);
            for (int64_t i = 0; i < n; i++) {
                double want = compute(op, (double)a[i * sa], (double)b[i * sb]);
                near((double)y[i], (double)(float)want, 0);
            }
            record(y, (size_t)n * sizeof(float));
            run(a, a, sa, b, sb, sa ? n : MX_MIN(n, 1));   /* in place */
            for (int64_t i = 0; i < (sa ? n : MX_MIN(n, 1)); i++)
                near((double)a[i], (double)y[i], 0);
            NOTHING_OFF();
            done();
        }
}

static void each_i32(binary_i32 run, char op) {
    for (size_t l = 0; l < MX_COUNT(lengths); l++)
        for (int steps = 0; steps < 4; steps++) {
            int64_t n = lengths[l];
            int32_t *a = take((size_t)(n + 1) * 4, 4), *b = take((size_t)(n + 1) * 4, 8), *y = take((size_t)n * 4, 4);
            for (int64_t i = 0; i <= n; i++) {
                a[i] = (int32_t)(word() << 1 ^ word());
                b[i] = (int32_t)(word() << 1 ^ word());
            }
            run(y, a, steps & 1, b, steps >> 1, n);
            for (int64_t i = 0; i < n; i++) {
                uint32_t u = (uint32_t)a[i * (steps & 1)], v = (uint32_t)b[i * (steps >> 1)];
                near(y[i], (int32_t)(op == '+' ? u + v : op == '-' ? u - v : u * v), 0);
            }
            record(y, (size_t)n * 4);
            NOTHING_OFF();
            done();
        }
}

static void test_add_f32(void) { each_f32(K->add_f32, '+'); }
static void test_sub_f32(void) { each_f32(K->sub_f32, '-'); }
static void test_mul_f32(void) { each_f32(K->mul_f32, '*'); }
static void test_div_f32(void) { each_f32(K->div_f32, '/'); }
static void test_add_i32(void) { each_i32(K->add_i32, '+'); }
static void test_sub_i32(void) { each_i32(K->sub_i32, '-'); }
static void test_mul_i32(void) { each_i32(K->mul_i32, '*'); }

static void test_add_rows(void) {
    for (size_t l = 0; l < MX_COUNT(lengths); l++) {
        int64_t n = lengths[l], rows = 3, ld = n + 2;
        float *x = floats(n, 1, 4), *y = floats(rows * ld, 1, 8), *old = floats(rows * ld, 0, 0);
        memcpy(old, y, (size_t)(rows * ld) * sizeof(float));
        K->add_rows(y, ld, x, rows, n);
        for (int64_t i = 0; i < rows * ld; i++)
            near((double)y[i], i % ld < n ? (double)(float)(old[i] + x[i % ld]) : (double)old[i], 0);
        record(y, (size_t)(rows * ld) * sizeof(float));
        NOTHING_OFF();
        done();
    }
}

typedef void (*norm_fn)(float *, const float *, const float *, const float *, int64_t, int64_t, double);

static void each_norm(norm_fn run) {
    for (size_t l = 1; l < MX_COUNT(lengths); l++)
        for (int shifted = 0; shifted < 2; shifted++) {
            int64_t n = lengths[l], rows = 5;
            float *x = floats(rows * n, 2, 4), *g = floats(n, 2, 8), *b = floats(n, 2, 4);
            float *y = take((size_t)(rows * n) * sizeof(float), 12);
            for (int64_t i = 0; i < rows * n && shifted; i++)
                x[i] += 1000;
            run(y, x, g, b, rows, n, 1e-5);
            for (int64_t r = 0; r < rows; r++) {
                double mean = 0, variance = 0;
                for (int64_t i = 0; i < n; i++)
                    mean += (double)x[r * n + i] / (double)n;
                for (int64_t i = 0; i < n; i++)
                    variance += pow((double)x[r * n + i] - mean, 2) / (double)n;
                for (int64_t i = 0; i < n; i++) {
                    double want = ((double)x[r * n + i] - mean) / sqrt(variance + 1e-5) * (double)g[i] + (double)b[i];
                    near((double)y[r * n + i], want, 2 * EPS * fabs(want) + 1e-9);
                }
            }
            record(y, (size_t)(rows * n) * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

static void test_layer_norm(void) { each_norm(K->layer_norm); }
static void test_same_layer_norm(void) { each_norm(K->same_layer_norm); }

static void each_activation(void (*run)(float *, const float *, int64_t), double (*want)(double), double units) {
    for (size_t l = 0; l < MX_COUNT(lengths); l++) {
        int64_t n = lengths[l];
        float *x = floats(n + 6, l % 2 ? 12 : 0.1, 4), *y = take((size_t)(n + 6) * sizeof(float), 8);
        memcpy(x + n, (float[]){0, 1e-40f, 1e20f, -1e20f, FLT_MAX, NAN}, 24);
        run(y, x, n + 6);
        for (int64_t i = 0; i < n + 6; i++)
            near((double)y[i], want((double)x[i]), units * EPS * fabs((double)x[i]) + 1e-44);
        record(y, (size_t)(n + 5) * sizeof(float));   /* which NaN it is does not matter */
        run(x, x, n + 6);
        CHECK(memcmp(x, y, (size_t)(n + 5) * sizeof(float)) == 0);
        NOTHING_OFF();
        done();
    }
}

static double gelu_erf64(double x) { return isinf(x * x) && x < 0 ? 0 : 0.5 * x * erfc(-x / sqrt(2.0)); }
static double gelu_tanh64(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static void test_gelu_erf(void) { each_activation(K->gelu_erf, gelu_erf64, 4); }
static void test_gelu_tanh(void) { each_activation(K->gelu_tanh, gelu_tanh64, 6); }
static void test_same_gelu_erf(void) { each_activation(K->same_gelu_erf, gelu_erf64, 4); }
static void test_same_gelu_tanh(void) { each_activation(K->same_gelu_tanh, gelu_tanh64, 6); }

static void test_softmax(void) {
    static const float scales[] = {1.0f, 0.125f, -0.5f, 0.0f};
    for (size_t l = 1; l < MX_COUNT(lengths); l++)
        for (size_t s = 0; s < MX_COUNT(scales); s++) {
            int64_t n = lengths[l], rows = 3, ld = n + 3;
            float *x = floats(rows * ld, 30, 4), *y = floats(rows * ld, 0, 8);
            K->softmax(y, x, rows, n, ld, scales[s]);
            for (int64_t r = 0; r < rows; r++) {
                double sum = 0, top = -INFINITY;
                for (int64_t i = 0; i < n; i++)
                    top = fmax(top, (double)x[r * ld + i] * (double)scales[s]);
                for (int64_t i = 0; i < n; i++)
                    sum += exp((double)x[r * ld + i] * (double)scales[s] - top);
                for (int64_t i = 0; i < ld; i++) {
                    double want = i < n ? exp((double)x[r * ld + i] * (double)scales[s] - top) / sum : 0;
                    near((double)y[r * ld + i], want, 70 * EPS * want + 2e-45);
                }
            }
            record(y, (size_t)(rows * ld) * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

/* ---- moves ------------------------------------------------------------------------------------------------------- */

static double read_as(const void *x, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_F32: return (double)((const float *)x)[i];
    case MXW_F16: return (double)mx_f16_to_f32(((const uint16_t *)x)[i]);
    case MXW_BF16: return (double)mx_bf16_to_f32(((const uint16_t *)x)[i]);
    case MXW_I32: return ((const int32_t *)x)[i];
    case MXW_I8: return ((const int8_t *)x)[i];
    case MXW_U8: return ((const uint8_t *)x)[i];
    case MXW_I64: return (double)((const int64_t *)x)[i];
    default: return ((const double *)x)[i];
    }
}

/* Small whole numbers go through every pair of types and back unchanged. */
static void test_cast(void) {
    for (int from = MXW_F32; from <= MXW_F64; from++)
        for (int to = MXW_F32; to <= MXW_F64; to++)
            for (size_t l = 0; l < MX_COUNT(lengths); l++) {
                int64_t n = lengths[l];
                float *x = floats(n, 1, 4);
                void *a = take((size_t)n * mx_dtype_bytes((mxw_dtype)from), 8);
                void *b = take((size_t)n * mx_dtype_bytes((mxw_dtype)to), 8);
                for (int64_t i = 0; i < n; i++)
                    x[i] = (float)(word() % 128);
                K->cast(a, (mxw_dtype)from, x, MXW_F32, n);
                K->cast(b, (mxw_dtype)to, a, (mxw_dtype)from, n);
                for (int64_t i = 0; i < n; i++)
                    near(read_as(b, (mxw_dtype)to, i), (double)x[i], 0);
                record(b, (size_t)n * mx_dtype_bytes((mxw_dtype)to));
                NOTHING_OFF();
                done();
            }
}

static void test_copy(void) {
    static const size_t widths[] = {1, 2, 4, 8};
    static const int64_t cases[][2][3] = {{{3, 5, 7}, {1, 21, 3}},    /* dims and strides; of x [5][7][3] */
                                          {{3, 7, 5}, {35, 1, 7}},    /* the last two axes exchanged, of [3][5][7] */
                                          {{3, 5, 7}, {35, 1, 5}},    /* of [3][7][5] */
                                          {{5, 21, 1}, {21, 1, 105}}};
    for (size_t w = 0; w < MX_COUNT(widths) * MX_COUNT(cases); w++) {
        size_t bytes = widths[w / MX_COUNT(cases)];
        const int64_t *dims = cases[w % MX_COUNT(cases)][0], *strides = cases[w % MX_COUNT(cases)][1];
        unsigned char *x = take(105 * bytes, 4), *y = take(105 * bytes, 12);
        for (size_t i = 0; i < 105 * bytes; i++)
            x[i] = (unsigned char)word();
        K->copy(y, x, 3, dims, strides, bytes);
        int same = 1;
        for (int64_t i = 0; i < 105; i++) {
            int64_t from = i / (dims[1] * dims[2]) * strides[0] + i / dims[2] % dims[1] * strides[1] +
                           i % dims[2] * strides[2];
            same &= memcmp(y + i * (int64_t)bytes, x + from * (int64_t)bytes, bytes) == 0;
        }
        CHECK(same);
        K->copy(y, x, 0, NULL, NULL, bytes);
        CHECK(memcmp(y, x, bytes) == 0);
        K->copy(y, x, 2, (int64_t[]){2, 0}, (int64_t[]){1, 1}, bytes);
        record(y, 105 * bytes);
        done();
    }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static void each_reduce(int is_float) {
    for (size_t l = 0; l < MX_COUNT(lengths); l++)
        for (int kind = MXW_REDUCE_SUM; kind <= MXW_REDUCE_MIN; kind++)
            for (int64_t inner = 1; inner < 6; inner += 4) {
                int64_t n = lengths[l];
                if ((n == 0 && kind != MXW_REDUCE_SUM) || (!is_float && kind == MXW_REDUCE_MEAN))
                    continue;
                float *x = floats(n * inner, 1000, 4), *y = take((size_t)inner * sizeof(float), 8);
                int32_t *xi = (int32_t *)(void *)x, *yi = (int32_t *)(void *)y;
                for (int64_t i = 0; i < n * inner && !is_float; i++)
                    xi[i] = (int32_t)(word() % 2001) - 1000;
                if (is_float)
                    K->reduce_f32(y, x, (mxw_reduce_kind)kind, n, inner);
                else
                    K->reduce_i32(yi, xi, (mxw_reduce_kind)kind, n, inner);
                for (int64_t i = 0; i < inner; i++) {
                    double want = kind == MXW_REDUCE_MAX ? -INFINITY : kind == MXW_REDUCE_MIN ? INFINITY : 0, size = 0;
                    for (int64_t j = 0; j < n; j++) {
                        double v = is_float ? (double)x[j * inner + i] : xi[j * inner + i];
                        size += fabs(v);
                        want = kind == MXW_REDUCE_MAX   ? fmax(want, v)
                               : kind == MXW_REDUCE_MIN ? fmin(want, v)
                                                        : want + v;
                    }
                    want = kind == MXW_REDUCE_MEAN ? want / (double)n : want;
                    near(is_float ? (double)y[i] : yi[i], want, is_float ? EPS * fabs(want) + 1e-12 * size : 0);
                }
                record(y, (size_t)inner * sizeof(float));
                NOTHING_OFF();
                done();
            }
}

static void test_reduce_f32(void) { each_reduce(1); }
static void test_reduce_i32(void) { each_reduce(0); }

/* How many elements come before id: larger, or as large with a lower index; NaN behind all numbers. */
static int64_t place_of(const float *x, int64_t n, int64_t id) {
    int64_t place = 0;
    for (int64_t i = 0; i < n; i++) {
        int before = isnan(x[i]) ? isnan(x[id]) && i < id : isnan(x[id]) || x[i] > x[id] || (x[i] == x[id] && i < id);
        place += before;
    }
    return place;
}

static void test_argmax(void) {
    for (size_t l = 1; l < MX_COUNT(lengths); l++)
        for (int odd = 0; odd < 3; odd++) {
            int64_t n = lengths[l];
            float *x = floats(n, 3, 4);
            int32_t *y = take(sizeof(*y), 4);
            for (int64_t i = 0; i < n && odd; i++)
                x[i] = odd == 2 || word() % 3 == 0 ? NAN : (float)(word() % 4);
            K->argmax(y, x, n);
            CHECK_EQ_INT(place_of(x, n, *y), 0);
            record(y, sizeof(*y));
            done();
        }
}

static void test_top_k(void) {
    for (size_t l = 1; l < MX_COUNT(lengths); l++)
        for (int odd = 0; odd < 2; odd++) {
            int64_t n = lengths[l], k = n < 5 ? n : 5 + n / 3;
            k = MX_MIN(k, n);
            float *x = floats(n, 3, 4), *values = take((size_t)k * sizeof(float), 8);
            int32_t *ids = take((size_t)k * sizeof(int32_t), 4);
            for (int64_t i = 0; i < n && odd; i++)
                x[i] = word() % 5 == 0 ? NAN : (float)(word() % 4);
            K->top_k(values, ids, x, n, k);
            for (int64_t i = 0; i < k; i++) {
                near((double)place_of(x, n, ids[i]), (double)i, 0);
                near((double)values[i], (double)x[ids[i]], 0);
            }
            record(ids, (size_t)k * sizeof(int32_t));
            NOTHING_OFF();
            done();
        }
}

/* Rules are tested in tests/graph/test_select.c; here: the plain case at every length, and the bits. */
static void test_select(void) {
    for (size_t l = 1; l < MX_COUNT(lengths); l++)
        for (int warm = 0; warm < 2; warm++) {
            int64_t n = lengths[l], k = 4;
            float *x = floats(n, 5, 4), *left = take((size_t)n * sizeof(float), 8);
            float *log_probs = take((size_t)k * sizeof(float), 4), *stats = take(MX_SELECT_STATS * sizeof(float), 4);
            int32_t *ids = take((size_t)k * sizeof(int32_t), 4);
            uint8_t *suppress = take((size_t)n, 1);
            memset(suppress, 0, (size_t)n);
            mx_rule rule = {.ts_begin = (int32_t)n, .ts_max = -1, .no_speech = 0, .temperature = warm ? 0.8f : 0,
                            .key = {3, 4}, .counter = {(uint32_t)l, 0}};
            K->select(ids, log_probs, stats, x, &rule, suppress, n, k, left);
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                sum += exp((double)x[i]);
            near((double)stats[MX_SELECT_LOG_SUM], log(sum), 1e-6 * (1 + fabs(log(sum))));
            near((double)stats[MX_SELECT_NO_SPEECH], exp((double)x[0]) / sum, 1e-6);
            for (int64_t i = 0; i < MX_MIN(k, n); i++) {
                near((double)log_probs[i], (double)x[ids[i]] - log(sum), 2e-6 * (1 + fabs(log(sum))));
                if (!warm)
                    near((double)place_of(x, n, ids[i]), (double)i, 0);
            }
            for (int64_t i = n; i < k; i++)
                near(ids[i], -1, 0);
            record(ids, (size_t)k * sizeof(int32_t));
            record(log_probs, (size_t)k * sizeof(float));
            NOTHING_OFF();
            done();
        }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Exact: what has one right answer, or an order that is fixed. */
const kcheck_test kcheck_plain[] = {
    {"gemm", test_gemm, 0},
    {"attn_row", test_attn_row, 0},
    {"attn_scores", test_attn_scores, 1},
    {"add_f32", test_add_f32, 1},
    {"sub_f32", test_sub_f32, 1},
    {"mul_f32", test_mul_f32, 1},
    {"div_f32", test_div_f32, 1},
    {"add_i32", test_add_i32, 1},
    {"sub_i32", test_sub_i32, 1},
    {"mul_i32", test_mul_i32, 1},
    {"add_rows", test_add_rows, 1},
    {"layer_norm", test_layer_norm, 0},
    {"gelu_erf", test_gelu_erf, 0},
    {"gelu_tanh", test_gelu_tanh, 0},
    {"same_layer_norm", test_same_layer_norm, 1},
    {"same_gelu_erf", test_same_gelu_erf, 1},
    {"same_gelu_tanh", test_same_gelu_tanh, 1},
    {"softmax", test_softmax, 0},
    {"cast", test_cast, 1},
    {"copy", test_copy, 1},
    {"reduce_f32", test_reduce_f32, 0},
    {"reduce_i32", test_reduce_i32, 1},
    {"argmax", test_argmax, 1},
    {"top_k", test_top_k, 1},
    {"select", test_select, 0},
    {NULL, NULL, 0},
};
