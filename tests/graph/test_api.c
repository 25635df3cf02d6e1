/* test_api.c - the graph API as a user meets it, through the public header alone: a small classifier of images (two
 * convolutions, a pooling, a perceptron), a counter that lasts from run to run, a sequence, devices, wrong arguments.
 *
 * usage: test_api [DEVICE]    cpu (the default) or cuda[:N], with the engine that runs op by op there */
#include <max_whisper.h>

#include <math.h>

#include "kit/check.h"

enum { H = 9, W = 8, C1 = 3, C2 = 4, CLASSES = 5 };

static float k1[3 * 3 * 1 * C1], b1[C1], k2[3 * 3 * C1 * C2], w[CLASSES * C2], b[CLASSES];

static const char *device = "cpu";

/* The engine that runs op by op on the device. */
static mxw_program_options there(void) {
    mxw_program_options options;
    mxw_program_options_default(&options);
    options.device = device;
    options.engine = strcmp(device, "cpu") == 0 ? MXW_ENGINE_CPU : MXW_ENGINE_GPU;
    return options;
}

static void fill(float *x, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        x[i] = (float)((int)(seed >> 16 & 1023) - 512) / 512.0f;
    }
}

static mxw_value constant(mxw_graph *g, const char *name, float *data, int rank, int64_t a, int64_t b_, int64_t c,
                          int64_t d) {
    mxw_tensor t = {.struct_size = sizeof(t), .dtype = MXW_F32, .rank = rank, .dims = {a, b_, c, d}, .data = data};
    return mxw_graph_constant(g, name, &t);
}

static mxw_graph *build_classifier(void) {
    mxw_graph *g;
    mxw_value best[2];
    CHECK(mxw_graph_create("classifier", &g) == MXW_OK);
    int64_t images = mxw_graph_size(g, "images", 16);
    mxw_value x = mxw_graph_input(g, "image", MXW_F32, 4, (int64_t[]){images, H, W, 1});
    x = mxw_graph_conv2d(g, x, constant(g, "k1", k1, 4, 3, 3, 1, C1), constant(g, "b1", b1, 1, C1, 0, 0, 0),
                         (int[]){1, 1}, (int[]){1, 1});
    x = mxw_graph_gelu(g, x, MXW_GELU_ERF);
    x = mxw_graph_conv2d(g, x, constant(g, "k2", k2, 4, 3, 3, C1, C2), 0, (int[]){2, 2}, (int[]){1, 1});
    x = mxw_graph_reduce(g, mxw_graph_reduce(g, x, MXW_REDUCE_MEAN, 1), MXW_REDUCE_MEAN, 1);
    x = mxw_graph_linear(g, x, constant(g, "w", w, 2, CLASSES, C2, 0, 0), constant(g, "b", b, 1, CLASSES, 0, 0, 0));
    x = mxw_graph_softmax(g, x);
    CHECK(mxw_graph_output(g, "probabilities", x) == MXW_OK);
    CHECK(mxw_graph_top_k(g, x, 2, best) == MXW_OK);
    CHECK(mxw_graph_output(g, "best", best[1]) == MXW_OK);
    CHECK(mxw_graph_status(g) == MXW_OK);
    return g;
}

/* The same in double, plainly. */
static void classify64(const float *image, double *p) {
    static double a[H][W][C1];
    double pooled[C2] = {0}, sum = 0;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int o = 0; o < C1; o++) {
                double v = (double)b1[o];
                for (int r = 0; r < 3; r++)
                    for (int s = 0; s < 3; s++)
                        if (y + r >= 1 && y + r <= H && x + s >= 1 && x + s <= W)
                            v += (double)image[(y + r - 1) * W + x + s - 1] * (double)k1[(r * 3 + s) * C1 + o];
                a[y][x][o] = 0.5 * v * erfc(-v / sqrt(2.0));
            }
    int oh = (H + 2 - 3) / 2 + 1, ow = (W + 2 - 3) / 2 + 1;
    for (int y = 0; y < oh; y++)
        for (int x = 0; x < ow; x++)
            for (int o = 0; o < C2; o++)
                for (int r = 0; r < 3; r++)
                    for (int s = 0; s < 3; s++)
                        for (int c = 0; c < C1; c++) {
                            int yy = 2 * y + r - 1, xx = 2 * x + s - 1;
                            if (yy >= 0 && yy < H && xx >= 0 && xx < W)
                                pooled[o] += a[yy][xx][c] * (double)k2[((r * 3 + s) * C1 + c) * C2 + o] / (oh * ow);
                        }
    for (int i = 0; i < CLASSES; i++) {
        p[i] = (double)b[i];
        for (int c = 0; c < C2; c++)
            p[i] += pooled[c] * (double)w[i * C2 + c];
        sum += p[i] = exp(p[i]);
    }
    for (int i = 0; i < CLASSES; i++)
        p[i] /= sum;
}

static void test_classifier(void) {
    static float images[16][H * W];
    mxw_graph *g = build_classifier();
    mxw_program *program;
    mxw_program_options options = there();
    options.threads = 2;
    mxw_status status = mxw_program_compile(g, &options, &program);
    if (status == MXW_E_DEVICE) {
        printf("SKIP: graph-api %s: %s\n", device, mxw_last_error());
        mxw_graph_destroy(g);
        exit(77);
    }
    CHECK(status == MXW_OK);
    mxw_graph_destroy(g);   /* the program needs no more of it from us */
    fill(images[0], sizeof(images) / sizeof(float), 99);
    float alone[16][CLASSES];
    for (int64_t n = 1; n <= 16; n += 15) {
        for (int64_t first = 0; first < 16; first += n) {
            mxw_tensor in = {.struct_size = sizeof(in), .dtype = MXW_F32, .rank = 4, .dims = {n, H, W, 1},
                             .data = images[first]};
            mxw_tensor out[2] = {{.struct_size = sizeof(out[0])}};
            CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_OK);
            CHECK(out[0].rank == 2 && out[0].dims[0] == n && out[0].dims[1] == CLASSES && out[1].dtype == MXW_I32);
            if (n == 1)
                memcpy(alone[first], out[0].data, sizeof(alone[0]));
            else
                CHECK(memcmp(alone, out[0].data, sizeof(alone)) == 0);   /* in a batch as alone, to the bit */
            for (int64_t i = 0; i < n; i++) {
                double want[CLASSES];
                const float *got = (float *)out[0].data + i * CLASSES;
                int best = 0, near = 1;
                classify64(images[first + i], want);
                for (int c = 0; c < CLASSES; c++) {
                    best = want[c] > want[best] ? c : best;
                    near &= fabs((double)got[c] - want[c]) < 1e-6;
                }
                CHECK(near);
                CHECK_EQ_INT(((int32_t *)out[1].data)[2 * i], best);
            }
        }
    }
    mxw_tensor in = {.struct_size = sizeof(in), .dtype = MXW_F32, .rank = 4, .dims = {17, H, W, 1}, .data = images};
    mxw_tensor out[2] = {{.struct_size = sizeof(out[0])}};
    CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "size images is 17: expected 0 to 16"));
    in.dims[0] = INT64_MIN;
    CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_E_ARGUMENT);
    in.dims[0] = in.dims[1] = INT64_MAX;
    CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_E_ARGUMENT);
    in.rank = 77;
    CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_E_ARGUMENT);
    CHECK(mxw_program_execute(program, &in, 2, out, 2) == MXW_E_ARGUMENT);
    CHECK(mxw_program_execute(program, &in, 0, out, 2) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "takes 1 inputs, not 0"));
    CHECK(mxw_program_execute(program, &in, 1, out, 1) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "gives 2 outputs, not 1"));
    CHECK(mxw_program_execute(program, NULL, 1, out, 2) == MXW_E_ARGUMENT);
    CHECK(mxw_program_execute(NULL, &in, 1, out, 2) == MXW_E_ARGUMENT);
    mxw_program_destroy(program);
}

/* A cache of three rows: what one run writes the next one sees. */
static void test_state(void) {
    mxw_graph *g;
    mxw_program *program;
    CHECK(mxw_graph_create("cache", &g) == MXW_OK);
    mxw_value x = mxw_graph_input(g, "x", MXW_F32, 2, (int64_t[]){1, 2});
    mxw_value at = mxw_graph_input(g, "at", MXW_I32, 1, (int64_t[]){1});
    mxw_value cache = mxw_graph_state_write(g, mxw_graph_state(g, "rows", MXW_F32, 2, (int64_t[]){3, 2}), x, at);
    CHECK(mxw_graph_output(g, "rows", cache) == MXW_OK);
    mxw_program_options options = there();
    CHECK(mxw_program_compile(g, &options, &program) == MXW_OK);
    for (int i = 0; i < 3; i++) {
        float row[] = {(float)i + 1, (float)i + 10};
        int32_t index = 2 - i;
        mxw_tensor in[] = {{.struct_size = sizeof(in[0]), .dtype = MXW_F32, .rank = 2, .dims = {1, 2}, .data = row},
                           {.dtype = MXW_I32, .rank = 1, .dims = {1}, .data = &index}};
        mxw_tensor out = {.struct_size = sizeof(out)};
        CHECK(mxw_program_execute(program, in, 2, &out, 1) == MXW_OK);
        const float *rows = out.data;
        CHECK(rows[4] == 1 && rows[5] == 10 && rows[2] == (i > 0 ? 2 : 0) && rows[0] == (i > 1 ? 3 : 0));
        index = 3;
        CHECK(mxw_program_execute(program, in, 2, &out, 1) == MXW_E_ARGUMENT);
        CHECK(strstr(mxw_last_error(), "state_write: index[0] is 3: expected 0 to 2"));
    }
    mxw_program_destroy(program);
    mxw_graph_destroy(g);
}

/* ---- a sequence: dilated convolution, then an LSTM --------------------------------------------------------------- */

enum { TIMES = 12, IN = 3, WIDE = 4, UNITS = 2, APART = 3 };
static float conv_w[WIDE * IN * 2], w_ih[4 * UNITS * WIDE], w_hh[4 * UNITS * UNITS], bias[4 * UNITS];

static mxw_graph *build_sequence(void) {
    mxw_graph *g;
    mxw_value out[3];
    fill(conv_w, sizeof(conv_w) / sizeof(float), 5);
    fill(w_ih, sizeof(w_ih) / sizeof(float), 6);
    fill(w_hh, sizeof(w_hh) / sizeof(float), 7);
    fill(bias, sizeof(bias) / sizeof(float), 8);
    CHECK(mxw_graph_create("sequence", &g) == MXW_OK);
    mxw_value x = mxw_graph_input(g, "x", MXW_F32, 3, (int64_t[]){1, TIMES, IN});
    x = mxw_graph_conv1d_dilated(g, x, constant(g, "conv", conv_w, 3, WIDE, IN, 2, 0), 0, 1, 0, APART);
    x = mxw_graph_permute(g, x, (int[]){1, 0, 2});
    CHECK(mxw_graph_lstm(g, x, constant(g, "ih", w_ih, 3, 1, 4 * UNITS, WIDE, 0),
                         constant(g, "hh", w_hh, 3, 1, 4 * UNITS, UNITS, 0),
                         constant(g, "bias", bias, 2, 1, 4 * UNITS, 0, 0), 0, 0, 0, MXW_LSTM_REVERSE, out) == MXW_OK);
    CHECK(mxw_graph_output(g, "y", out[0]) == MXW_OK);
    CHECK(mxw_graph_output(g, "c", out[2]) == MXW_OK);
    return g;
}

/* From the last step to the first; y [TIMES - APART][UNITS]. */
static void sequence64(const float *x, double *y, double *c) {
    double h[UNITS] = {0}, wide[WIDE], gate[4][UNITS];
    for (int t = TIMES - APART - 1; t >= 0; t--) {
        for (int o = 0; o < WIDE; o++) {
            wide[o] = 0;
            for (int i = 0; i < 2 * IN; i++)
                wide[o] += (double)x[(t + i % 2 * APART) * IN + i / 2] * (double)conv_w[o * 2 * IN + i];
        }
        for (int r = 0; r < 4 * UNITS; r++) {
            double sum = (double)bias[r];
            for (int o = 0; o < WIDE; o++)
                sum += wide[o] * (double)w_ih[r * WIDE + o];
            for (int u = 0; u < UNITS; u++)
                sum += h[u] * (double)w_hh[r * UNITS + u];
            gate[r / UNITS][r % UNITS] = r / UNITS == 2 ? tanh(sum) : 1 / (1 + exp(-sum));
        }
        for (int u = 0; u < UNITS; u++) {
            c[u] = gate[1][u] * c[u] + gate[0][u] * gate[2][u];
            y[t * UNITS + u] = h[u] = gate[3][u] * tanh(c[u]);
        }
    }
}

static void test_sequence(void) {
    static float x[TIMES * IN];
    double want[(TIMES - APART) * UNITS], c[UNITS] = {0};
    mxw_graph *g = build_sequence();
    mxw_program *program;
    mxw_program_options options = there();
    mxw_value none[3];
    int off = 0;
    fill(x, TIMES * IN, 9);
    sequence64(x, want, c);
    CHECK(mxw_program_compile(g, &options, &program) == MXW_OK);
    mxw_tensor in = {.struct_size = sizeof(in), .dtype = MXW_F32, .rank = 3, .dims = {1, TIMES, IN}, .data = x};
    mxw_tensor out[2] = {{.struct_size = sizeof(out[0])}};
    if (CHECK(mxw_program_execute(program, &in, 1, out, 2) == MXW_OK)) {
        for (int i = 0; i < (TIMES - APART) * UNITS; i++)
            off += !(fabs((double)((float *)out[0].data)[i] - want[i]) < 1e-6);
        for (int i = 0; i < UNITS; i++)
            off += !(fabs((double)((float *)out[1].data)[i] - c[i]) < 1e-6);
        CHECK_EQ_INT(off, 0);
    }
    mxw_program_destroy(program);
    mxw_graph_destroy(g);
    CHECK(mxw_graph_lstm(NULL, 1, 1, 1, 0, 0, 0, 0, MXW_LSTM_FORWARD, none) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "mxw_graph_lstm: g is NULL"));
    CHECK(mxw_graph_conv1d_dilated(NULL, 1, 1, 0, 1, 0, 2) == 0);
}

static void test_devices(void) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    CHECK(mxw_device_count() >= 1);
    CHECK(mxw_accelerator_count() >= 0 && mxw_accelerator_count() < mxw_device_count());
    CHECK(mxw_device_get(0, &info) == MXW_OK);
    CHECK_STR(info.id, "cpu");
    CHECK_STR(info.kind, "cpu");
    CHECK(info.usable && info.cores >= 1 && info.memory_bytes > 0);
    CHECK(*info.description && info.features && *info.reason);
    CHECK(mxw_device_get(-1, &info) == MXW_E_NOT_FOUND);
    CHECK(mxw_device_get(mxw_device_count(), &info) == MXW_E_NOT_FOUND);
    CHECK(mxw_device_get(0, NULL) == MXW_E_ARGUMENT);
}

/* Callers that were compiled with an older or a newer header: other struct sizes, known fields in the same places. */
static void test_other_sizes(void) {
    struct newer {
        mxw_tensor known;
        double more[3];
    } in[2], out[2];
    float values[2][2] = {{1, 2}, {3, 4}};
    mxw_graph *g;
    mxw_program *program = NULL;
    mxw_device_info info = {.struct_size = offsetof(mxw_device_info, kind), .kind = "kept"};
    CHECK(mxw_device_get(0, &info) == MXW_OK);
    CHECK_STR(info.id, "cpu");
    CHECK_STR(info.kind, "kept");
    info.struct_size = 0;
    CHECK(mxw_device_get(0, &info) == MXW_E_ARGUMENT && strstr(mxw_last_error(), "mxw_device_get: struct_size is 0"));
    memset(in, 0x55, sizeof(in));
    memset(out, 0x55, sizeof(out));
    for (int i = 0; i < 2; i++)
        in[i].known = (mxw_tensor){.struct_size = sizeof(in[0]), .dtype = MXW_F32, .rank = 1, .dims = {2},
                                   .data = values[i]};
    out[0].known.struct_size = sizeof(out[0]);
    CHECK(mxw_graph_create("sizes", &g) == MXW_OK);
    mxw_value a = mxw_graph_input(g, "a", MXW_F32, 1, (int64_t[]){2});
    mxw_value c = mxw_graph_input(g, "c", MXW_F32, 1, (int64_t[]){2});
    CHECK(mxw_graph_output(g, "sum", mxw_graph_add(g, a, c)) == MXW_OK);
    CHECK(mxw_graph_output(g, "difference", mxw_graph_sub(g, c, a)) == MXW_OK);
    mxw_program_options options = there();
    CHECK(mxw_program_compile(g, &options, &program) == MXW_OK);
    CHECK(mxw_program_execute(program, &in[0].known, 2, &out[0].known, 2) == MXW_OK);
    CHECK(((float *)out[0].known.data)[1] == 6 && ((float *)out[1].known.data)[1] == 2);
    CHECK(out[1].known.struct_size == sizeof(out[0]) && !memcmp(out[0].more, in[0].more, sizeof(out[0].more)));
    in[0].known.struct_size = 1;
    CHECK(mxw_program_execute(program, &in[0].known, 2, &out[0].known, 2) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "mxw_tensor: struct_size is 1"));
    mxw_program_destroy(program);
    CHECK(mxw_graph_constant(g, "k", &in[0].known) == 0 && strstr(mxw_graph_error(g), "struct_size is 1"));
    mxw_graph_destroy(g);
    CHECK_EQ_INT(mxw_abi_version(), MXW_ABI_VERSION);
}

/* The defaults fill the struct that the caller's header has, no more and no less. */
static void test_default_sizes(void) {
    struct newer {
        mxw_program_options known;
        int more[2];
    } larger;
    mxw_program_options smaller;
    memset(&larger, 0x55, sizeof(larger));
    memset(&smaller, 0x55, sizeof(smaller));
    const int kept = smaller.threads;
    (mxw_program_options_default)(&larger.known, sizeof(larger));
    CHECK(larger.known.struct_size == sizeof(larger) && larger.known.engine == MXW_ENGINE_MAX);
    CHECK(larger.more[0] == 0 && larger.more[1] == 0);
    (mxw_program_options_default)(&smaller, offsetof(mxw_program_options, threads));
    CHECK(smaller.struct_size == offsetof(mxw_program_options, threads));
    CHECK_STR(smaller.device, "auto");
    CHECK_EQ_INT(smaller.threads, kept);
    mxw_program_options_default(&smaller);
    CHECK(smaller.struct_size == sizeof(smaller) && smaller.threads == 0);
}

static void test_arguments(void) {
    mxw_graph *g;
    mxw_program *program = NULL;
    const char *text;
    CHECK(mxw_graph_create("t", NULL) == MXW_E_ARGUMENT);
    CHECK(mxw_graph_status(NULL) == MXW_E_ARGUMENT);
    CHECK(mxw_graph_print(NULL, &text) == MXW_E_ARGUMENT);
    CHECK(mxw_graph_matmul(NULL, 1, 1) == 0);
    CHECK(strstr(mxw_last_error(), "mxw_graph_matmul: g is NULL"));
    CHECK(mxw_program_compile(NULL, NULL, &program) == MXW_E_ARGUMENT);
    mxw_graph_destroy(NULL);
    mxw_program_destroy(NULL);
    (mxw_program_options_default)(NULL, sizeof(mxw_program_options));
    CHECK(mxw_graph_create(NULL, &g) == MXW_OK);
    CHECK(mxw_graph_print(g, &text) == MXW_OK && strcmp(text, "graph graph\n") == 0);
    mxw_program_options options;
    mxw_program_options_default(&options);
    options.threads = -1;
    CHECK(mxw_program_compile(g, &options, &program) == MXW_E_ARGUMENT);
    options.threads = 1;
    options.struct_size = 0;
    CHECK(mxw_program_compile(g, &options, &program) == MXW_E_ARGUMENT);
    options.struct_size = sizeof(options);
    options.engine = MXW_ENGINE_MAX;
    CHECK(mxw_program_compile(g, &options, &program) == MXW_OK);
    mxw_program_destroy(program);
    options.engine = MXW_ENGINE_CPU;
    options.device = "abacus";
    CHECK(mxw_program_compile(g, &options, &program) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "device abacus"));
    CHECK(mxw_graph_constant(g, "c", NULL) == 0);
    CHECK(strcmp(mxw_graph_error(g), "constant c: expected data") == 0);
    mxw_graph_destroy(g);
    mxw_tensor odd[] = {{.dtype = MXW_F32, .rank = 2, .dims = {INT64_MAX, INT64_MAX}, .data = b},
                        {.dtype = MXW_F32, .rank = 2, .dims = {INT64_MIN, -1}, .data = b},
                        {.dtype = MXW_F32, .rank = -1, .data = b},
                        {.dtype = (mxw_dtype)44, .rank = 1, .dims = {1}, .data = b}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        odd[i].struct_size = sizeof(odd[i]);
        CHECK(mxw_graph_create("odd", &g) == MXW_OK);
        CHECK(mxw_graph_constant(g, "c", &odd[i]) == 0 && mxw_graph_status(g) == MXW_E_ARGUMENT);
        CHECK(mxw_program_compile(g, NULL, &program) == MXW_E_ARGUMENT);
        mxw_graph_destroy(g);
    }
    CHECK(mxw_graph_create("open", &g) == MXW_OK);   /* a program's own memory needs numbers */
    int64_t n = mxw_graph_size(g, "n", 4);
    CHECK(mxw_graph_state(g, "s", MXW_F32, 1, &n) > 0);
    CHECK(mxw_program_compile(g, NULL, &program) == MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "state s: size 0 is open"));
    mxw_graph_destroy(g);
}

int main(int argc, char **argv) {
    device = argc > 1 ? argv[1] : device;
    fill(k1, sizeof(k1) / sizeof(float), 1);
    fill(b1, C1, 2);
    fill(k2, sizeof(k2) / sizeof(float), 3);
    fill(w, sizeof(w) / sizeof(float), 4);
    fill(b, CLASSES, 5);
    test_classifier();
    test_state();
    test_sequence();
    test_devices();
    test_other_sizes();
    test_default_sizes();
    test_arguments();
    return check_done();
}
