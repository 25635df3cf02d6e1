/* cli/lab/graph_test.c - `graph test`: a small network built and run through the public graph API, as a user would.
 *
 * In: an engine and a device. Out: what was found and run, and "MAX Graph ready", or one line on what is wrong.
 * Invariants: every number is checked against plain loops in double below, and 100 runs must agree in every bit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_writer.h"
#include "common/log.h"
#include "common/model.h"
#include "common/stdout.h"

typedef struct test_options {
    common_options common;
    int engine;
    int precision;
    const char *device;
    int64_t threads;
    int json;
} test_options;

static const option_row rows[] = {
    ENGINE_ROWS(test_options, engine, device, threads, precision),
    JSON_ROW(test_options, json),
    COMMON_ROWS,
    {.name = NULL},
};

/* The network: tokens [1,T] -> gather -> conv1d -> (norm, attention, add) -> (linear, gelu, linear, add) -> matmul ->
 * softmax -> top-k; and the mean over time of the features, written into one row of a state. T is open up to MAX_T. */
enum { T = 5, MAX_T = 8, VOCAB = 24, WIDTH = 6, D = 16, HEADS = 2, HIDDEN = 32, K = 3, ROWS = 4, ROW = 2, RUNS = 100 };

/* Of a result. Sums of at most 54 products of numbers around 1: f32 keeps within a few 1e-7; two factors that a CPU
 * rounded were off by 6e-4 in f16, 0.011 in int8 and 0.072 in e4m3. */
#define EXACT_BOUND 1e-5
static const double bounds[] = {[MXW_PRECISION_EXACT] = EXACT_BOUND, [MXW_PRECISION_F16] = 0.003,
                                [MXW_PRECISION_INT8] = 0.05, [MXW_PRECISION_F8] = 0.3};

static const char *const ops_run =
    "gather conv1d layer_norm attention add linear gelu matmul softmax top_k reduce state_write";

static float table[VOCAB][WIDTH], conv_w[D][WIDTH][3], conv_b[D], gamma_[D], beta_[D], w1[HIDDEN][D], b1[HIDDEN],
    w2[D][HIDDEN], b2[D], head[D][VOCAB];
static const int32_t tokens[T] = {3, 17, 0, 23, 8};

typedef struct answers {
    double probability[T][VOCAB]; /* softmax */
    double best[T][K];
    int32_t best_index[T][K];
    double state[ROWS][D];
} answers;

/* The same numbers on every machine, between -0.5 and 0.5. */
static void fill(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u; /* the generator of Numerical Recipes */
        x[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

static void fill_weights(void) {
    fill(&table[0][0], VOCAB * WIDTH, 1);
    fill(&conv_w[0][0][0], D * WIDTH * 3, 2);
    fill(conv_b, D, 3);
    fill(gamma_, D, 4);
    fill(beta_, D, 5);
    fill(&w1[0][0], HIDDEN * D, 6);
    fill(b1, HIDDEN, 7);
    fill(&w2[0][0], D * HIDDEN, 8);
    fill(b2, D, 9);
    fill(&head[0][0], D * VOCAB, 10);
}

/* ---- the answer, in double ------------------------------------------------------------------------------ */

static void plain_conv(double y[T][D]) {
    for (int t = 0; t < T; t++)
        for (int o = 0; o < D; o++) {
            y[t][o] = conv_b[o];
            for (int k = 0; k < 3; k++)
                for (int c = 0; c < WIDTH && t + k - 1 >= 0 && t + k - 1 < T; c++)
                    y[t][o] += (double)conv_w[o][c][k] * table[tokens[t + k - 1]][c];
        }
}

static void plain_norm(const double x[T][D], double y[T][D]) {
    for (int t = 0; t < T; t++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < D; i++)
            mean += x[t][i] / D;
        for (int i = 0; i < D; i++)
            variance += (x[t][i] - mean) * (x[t][i] - mean) / D;
        for (int i = 0; i < D; i++)
            y[t][i] = (x[t][i] - mean) / sqrt(variance + 1e-5) * gamma_[i] + beta_[i];
    }
}

static void plain_softmax(double *x, int n) {
    double top = x[0], sum = 0;
    for (int i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (int i = 0; i < n; i++)
        sum += x[i] = exp(x[i] - top);
    for (int i = 0; i < n; i++)
        x[i] /= sum;
}

/* Adds causal self-attention over n to y. */
static void plain_attention(const double n[T][D], double y[T][D]) {
    enum { W = D / HEADS };
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            double score[T];
            for (int s = 0; s <= t; s++) {
                score[s] = 0;
                for (int i = h * W; i < h * W + W; i++)
                    score[s] += n[t][i] * n[s][i] / sqrt((double)W);
            }
            plain_softmax(score, t + 1);
            for (int s = 0; s <= t; s++)
                for (int i = h * W; i < h * W + W; i++)
                    y[t][i] += score[s] * n[s][i];
        }
}

static void plain_mlp(double x[T][D]) {
    for (int t = 0; t < T; t++) {
        double hidden[HIDDEN];
        for (int j = 0; j < HIDDEN; j++) {
            hidden[j] = b1[j];
            for (int i = 0; i < D; i++)
                hidden[j] += w1[j][i] * x[t][i];
            hidden[j] *= 0.5 * (1 + erf(hidden[j] / sqrt(2.0)));
        }
        for (int i = 0; i < D; i++) {
            x[t][i] += b2[i];
            for (int j = 0; j < HIDDEN; j++)
                x[t][i] += w2[i][j] * hidden[j];
        }
    }
}

static void plain_top(const double *p, double *best, int32_t *index) {
    for (int k = 0; k < K; k++) {
        index[k] = -1;
        for (int v = 0; v < VOCAB; v++) {
            int taken = 0;
            for (int j = 0; j < k; j++)
                taken |= index[j] == v;
            if (!taken && (index[k] < 0 || p[v] > p[index[k]]))
                index[k] = v;
        }
        best[k] = p[index[k]];
    }
}

static void plain_answers(answers *a) {
    double x[T][D], n[T][D];
    memset(a, 0, sizeof(*a));
    plain_conv(x);
    plain_norm((const double(*)[D])x, n);
    plain_attention((const double(*)[D])n, x);
    plain_mlp(x);
    for (int t = 0; t < T; t++) {
        for (int v = 0; v < VOCAB; v++)
            for (int i = 0; i < D; i++)
                a->probability[t][v] += x[t][i] * head[i][v];
        plain_softmax(a->probability[t], VOCAB);
        plain_top(a->probability[t], a->best[t], a->best_index[t]);
        for (int i = 0; i < D; i++)
            a->state[ROW][i] += x[t][i] / T;
    }
}

/* ---- the graph ------------------------------------------------------------------------------------------ */

static mxw_value constant(mxw_graph *g, const char *name, void *data, int rank, int64_t a, int64_t b, int64_t c) {
    mxw_tensor tensor = {sizeof(mxw_tensor), MXW_F32, rank, {a, b, c}, data};
    return mxw_graph_constant(g, name, &tensor);
}

static mxw_status build(mxw_graph *g) {
    int64_t length = mxw_graph_size(g, "length", MAX_T);
    int64_t one = 1, token_dims[2] = {1, length}, state_dims[2] = {ROWS, D};
    mxw_value token = mxw_graph_input(g, "tokens", MXW_I32, 2, token_dims);
    mxw_value row = mxw_graph_input(g, "row", MXW_I32, 1, &one);
    mxw_value x = mxw_graph_gather(g, constant(g, "table", table, 2, VOCAB, WIDTH, 0), token);
    x = mxw_graph_conv1d(g, x, constant(g, "conv.weight", conv_w, 3, D, WIDTH, 3),
                         constant(g, "conv.bias", conv_b, 1, D, 0, 0), 1, 1);
    mxw_value n = mxw_graph_layer_norm(g, x, constant(g, "norm.weight", gamma_, 1, D, 0, 0),
                                       constant(g, "norm.bias", beta_, 1, D, 0, 0), 1e-5);
    x = mxw_graph_add(g, x, mxw_graph_attention(g, n, n, n, HEADS, 1 / sqrt((double)D / HEADS), 1));
    mxw_value h = mxw_graph_linear(g, x, constant(g, "mlp.0.weight", w1, 2, HIDDEN, D, 0),
                                   constant(g, "mlp.0.bias", b1, 1, HIDDEN, 0, 0));
    h = mxw_graph_linear(g, mxw_graph_gelu(g, h, MXW_GELU_ERF), constant(g, "mlp.2.weight", w2, 2, D, HIDDEN, 0),
                         constant(g, "mlp.2.bias", b2, 1, D, 0, 0));
    x = mxw_graph_add(g, x, h);
    mxw_value p = mxw_graph_softmax(g, mxw_graph_matmul(g, x, constant(g, "head", head, 2, D, VOCAB, 0)));
    mxw_value top[2] = {0, 0};
    mxw_graph_top_k(g, p, K, top);
    mxw_value state = mxw_graph_state(g, "memory", MXW_F32, 2, state_dims);
    state = mxw_graph_state_write(g, state, mxw_graph_reduce(g, x, MXW_REDUCE_MEAN, 1), row);
    mxw_graph_output(g, "probability", p);
    mxw_graph_output(g, "best", top[0]);
    mxw_graph_output(g, "best_index", top[1]);
    mxw_graph_output(g, "memory", state);
    return mxw_graph_status(g);
}

/* A mistake must be refused where it is made, with a reason. */
static int refuses_mistake(void) {
    mxw_graph *g = NULL;
    int refused = 0;
    if (mxw_graph_create("mistake", &g) >= 0) {
        int64_t a[2] = {2, 3}, b[2] = {4, 5};
        mxw_value product =
            mxw_graph_matmul(g, mxw_graph_input(g, "a", MXW_F32, 2, a), mxw_graph_input(g, "b", MXW_F32, 2, b));
        refused = product == 0 && mxw_graph_status(g) < 0 && mxw_graph_error(g)[0];
    }
    mxw_graph_destroy(g);
    return refused;
}

/* ---- the run -------------------------------------------------------------------------------------------- */

enum { N_OUTPUTS = 4 };

typedef struct findings {
    double worst;       /* largest difference to the plain answer */
    double bound;       /* on it */
    int identical_runs; /* of RUNS */
} findings;

static const int64_t sizes[N_OUTPUTS] = {T * VOCAB, T *K, T *K, ROWS *D};

static int has_right_shape(const mxw_tensor *out) {
    for (int i = 0; i < N_OUTPUTS; i++) {
        int64_t n = 1;
        for (int d = 0; d < out[i].rank; d++)
            n *= out[i].dims[d];
        if (n != sizes[i] || out[i].dtype != (i == 2 ? MXW_I32 : MXW_F32) || !out[i].data) {
            log_error("graph test: output %d has the wrong shape or dtype", i);
            return 0;
        }
    }
    return 1;
}

static double worst_difference(const float *got, const double *wanted, int64_t n, double worst) {
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)got[i] - wanted[i]);
        if (!(difference <= worst)) /* a NaN is the worst of all */
            worst = difference;
    }
    return worst;
}

static int check_answers(const mxw_tensor *out, findings *f) {
    static answers right;
    plain_answers(&right);
    f->worst = worst_difference(out[0].data, &right.probability[0][0], sizes[0], 0);
    f->worst = worst_difference(out[1].data, &right.best[0][0], sizes[1], f->worst);
    f->worst = worst_difference(out[3].data, &right.state[0][0], sizes[3], f->worst);
    if (!(f->worst <= f->bound)) {
        log_error("graph test: a value is off by %g, more than %g", f->worst, f->bound);
        return 0;
    }
    const int32_t *chosen = out[2].data;
    int same = !memcmp(chosen, right.best_index, sizeof(right.best_index));
    for (int i = 0; i < T * K && !same && f->bound > EXACT_BOUND; i++) /* what is as good within the bound may win */
        if (chosen[i] < 0 || chosen[i] >= VOCAB ||
            fabs(right.probability[i / K][chosen[i]] - right.best[i / K][i % K]) > f->bound)
            break;
        else
            same = i + 1 == T * K;
    if (!same) {
        log_error("graph test: top_k chose the wrong indices");
        return 0;
    }
    return 1;
}

/* Runs it RUNS times; the first is checked, the others must equal it in every bit. */
static int execute(mxw_program *program, findings *f) {
    static char first[N_OUTPUTS][T * VOCAB * sizeof(float)];
    int32_t row = ROW;
    mxw_tensor in[2] = {{sizeof(in[0]), MXW_I32, 2, {1, T}, (void *)tokens}, {sizeof(in[0]), MXW_I32, 1, {1}, &row}};
    for (int i = 0; i < RUNS; i++) {
        mxw_tensor out[N_OUTPUTS] = {{.struct_size = sizeof(out[0])}};
        mxw_status status = mxw_program_execute(program, in, 2, out, N_OUTPUTS);
        if (status < 0) {
            log_failure("graph test", status);
            return 0;
        }
        if (!i && (!has_right_shape(out) || !check_answers(out, f)))
            return 0;
        int same = 1;
        for (int o = 0; o < N_OUTPUTS; o++) {
            if (!i)
                memcpy(first[o], out[o].data, (size_t)sizes[o] * 4);
            same &= !memcmp(first[o], out[o].data, (size_t)sizes[o] * 4);
        }
        f->identical_runs += same;
    }
    if (f->identical_runs != RUNS)
        log_error("graph test: %d of %d runs differ from the first", RUNS - f->identical_runs, RUNS);
    return f->identical_runs == RUNS;
}

static int compile_and_execute(mxw_graph *g, const test_options *options, findings *f) {
    mxw_program_options program_options;
    mxw_program_options_default(&program_options);
    program_options.engine = (mxw_engine)options->engine;
    program_options.precision = (mxw_precision)options->precision;
    program_options.device = options->device;
    program_options.threads = (int)options->threads;
    mxw_program *program = NULL;
    mxw_status status = mxw_program_compile(g, &program_options, &program);
    if (status < 0)
        log_failure(NULL, status);
    int passed = status >= 0 && execute(program, f);
    mxw_program_destroy(program);
    return passed;
}

static int build_and_run(const test_options *options, findings *f) {
    mxw_graph *g = NULL;
    mxw_status status = mxw_graph_create("graph-test", &g);
    int passed = 0;
    fill_weights();
    if (status < 0)
        log_failure("graph test", status);
    else if (build(g) < 0)
        log_error("graph test: %s", mxw_graph_error(g));
    else if (!refuses_mistake())
        log_error("graph test: a matmul of [2,3] and [4,5] was not refused");
    else
        passed = compile_and_execute(g, options, f);
    mxw_graph_destroy(g);
    return passed;
}

/* ---- the report ----------------------------------------------------------------------------------------- */

static void print_report(const test_options *options, const findings *f) {
    mxw_device_info info = {.struct_size = sizeof(info)};
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0)
            out_print("device %s: %s%s\n", info.id, info.description, info.usable ? "" : " (not usable)");
    out_print("accelerator_count %d\nengine %s, device %s\n", mxw_accelerator_count(), engine_names[options->engine],
              options->device);
    out_print("ops run: %s\nlargest difference to plain double arithmetic %.3g\n", ops_run, f->worst);
    out_print("%d of %d runs bit-identical\nMAX Graph ready\n", f->identical_runs, RUNS);
}

static void write_report(const test_options *options, const findings *f) {
    json_writer json;
    mxw_device_info info = {.struct_size = sizeof(info)};
    json_start(&json, stdout, 1);
    json_begin(&json, NULL);
    json_list(&json, "devices");
    for (int i = 0; i < mxw_device_count(); i++)
        if (mxw_device_get(i, &info) >= 0)
            json_text(&json, NULL, info.id);
    json_end(&json);
    json_whole(&json, "accelerator_count", mxw_accelerator_count());
    json_text(&json, "engine", engine_names[options->engine]);
    json_text(&json, "device", options->device);
    json_text(&json, "ops", ops_run);
    json_number(&json, "max_difference", f->worst, 12);
    json_whole(&json, "runs", RUNS);
    json_whole(&json, "identical_runs", f->identical_runs);
    json_text(&json, "result", "MAX Graph ready");
    json_end(&json);
}

static int run(const void *chosen, char **words, int n_words) {
    const test_options *options = chosen;
    findings f = {.bound = bounds[options->precision]};
    (void)words;
    (void)n_words;
    if (!build_and_run(options, &f))
        return EXIT_FAILED;
    if (options->json)
        write_report(options, &f);
    else
        print_report(options, &f);
    return EXIT_OK;
}

const command command_graph_test = {
    .arguments = "",
    .summary = "Build and run a small graph, and check its results.",
    .options = rows,
    .options_size = sizeof(test_options),
    .run = run,
};
