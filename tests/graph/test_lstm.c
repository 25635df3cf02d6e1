/* test_lstm.c - lstm against float64, eager and compiled, in every direction, with and without biases and states, on
 * odd shapes and empty axes; and the same bits for any number of threads, alone or in a batch, at once or in pieces. */
#include "kit/harness.h"
#include "lab/exact.h"

/* ---- running ----------------------------------------------------------------------------------------------------- */

enum { X, W_IH, W_HH, B_IH, B_HH, H0, C0, N_IN };
enum { Y, H, C };
static const char *const names[] = {"x", "w_ih", "w_hh", "b_ih", "b_hh", "h0", "c0"};

typedef struct layer {
    mxw_lstm_direction direction;
    int64_t t, n, in, hidden, dirs;
    unsigned without;              /* bit i: input i is left out */
    mx_tensor inputs[N_IN];
} layer;

static layer make_layer(mxw_lstm_direction direction, int64_t t, int64_t n, int64_t width, int64_t hidden,
                        unsigned without) {
    int64_t dirs = direction == MXW_LSTM_BOTH ? 2 : 1;
    double scale = 2 / sqrt((double)MX_MAX(hidden, 4));
    layer l = {.direction = direction, .t = t, .n = n, .in = width, .hidden = hidden, .dirs = dirs,
               .without = without};
    l.inputs[X] = FLOATS(2, t, n, width);
    l.inputs[W_IH] = FLOATS(scale, dirs, 4 * hidden, width);
    l.inputs[W_HH] = FLOATS(scale, dirs, 4 * hidden, hidden);
    l.inputs[B_IH] = FLOATS(1, dirs, 4 * hidden);
    l.inputs[B_HH] = FLOATS(1, dirs, 4 * hidden);
    l.inputs[H0] = FLOATS(1, dirs, n, hidden);
    l.inputs[C0] = FLOATS(2, dirs, n, hidden);
    return l;
}

typedef struct way {
    mxw_engine engine;
    int constants;    /* weights and biases are constants of the graph */
    mx_pool *pool;
} way;

/* The ways to run on the device under test. */
static int ways(way out[3]) {
    mxw_engine eager = on_cpu() ? MXW_ENGINE_CPU : MXW_ENGINE_GPU;
    out[0] = (way){eager, 0, harness_pool};
    out[1] = (way){MXW_ENGINE_MAX, 0, harness_pool};
    out[2] = (way){MXW_ENGINE_MAX, 1, harness_pool};
    return 3;
}

typedef struct program {
    mx_graph *graph;
    mx_program *program;
    mx_run *run;
} program;

/* Sizes of the sequence and the batch are open. */
static program open_layer(const layer *l, way w) {
    program p = {0};
    mx_value in_[N_IN] = {0}, out[3];
    CHECK(mx_graph_create("lstm", &p.graph) == MXW_OK);
    int64_t t = mx_graph_size(p.graph, "t", 100000), n = mx_graph_size(p.graph, "n", 1000);
    for (int i = 0; i < N_IN; i++) {
        mx_tensor tensor = l->inputs[i];
        int64_t dims[] = {tensor.dims[0], tensor.dims[1], tensor.dims[2]};
        if (i == X)
            dims[0] = t;
        if (i == X || i >= H0)
            dims[1] = n;
        if (l->without >> i & 1)
            continue;
        in_[i] = w.constants && i != X && i < H0 ? mx_graph_constant(p.graph, names[i], &tensor)
                                                 : mx_graph_input(p.graph, names[i], MXW_F32, tensor.rank, dims);
    }
    mx_graph_lstm(p.graph, in_[X], in_[W_IH], in_[W_HH], in_[B_IH], in_[B_HH], in_[H0], in_[C0], l->direction, out);
    mx_graph_output(p.graph, "y", out[Y]);
    mx_graph_output(p.graph, "h", out[H]);
    mx_graph_output(p.graph, "c", out[C]);
    mx_program_options options = {.engine = w.engine, .device = device_name, .pool = w.pool};
    if (!CHECK(mx_exec_load(p.graph, &options, &p.program) >= 0 && mx_run_open(p.program, NULL, &p.run) >= 0))
        printf("    %s\n", mx_error());
    for (int i = 0; i < N_IN; i++)
        if (!(l->without >> i & 1) && !(w.constants && i != X && i < H0))
            mx_run_input(p.run, names[i], &l->inputs[i]);
    return p;
}

static void close_layer(program *p) {
    mx_run_close(p->run);
    mx_exec_unload(p->program);
    mx_graph_destroy(p->graph);
}

static void execute(program *p, mx_tensor out[3]) {
    static const char *const results_[] = {"y", "h", "c"};
    if (!CHECK(mx_run_execute(p->run) >= 0))
        printf("    %s\n", mx_error());
    for (int i = 0; i < 3; i++) {
        mx_tensor t = {0};
        CHECK(mx_run_output(p->run, results_[i], &t) >= 0);
        out[i] = copy_of(&t);
    }
}

static void run_layer(const layer *l, way w, mx_tensor out[3]) {
    program p = open_layer(l, w);
    execute(&p, out);
    close_layer(&p);
}

/* ---- float64 ----------------------------------------------------------------------------------------------------- */

static double at(const layer *l, int input, int64_t i) {
    return l->without >> input & 1 ? 0 : (double)f32(&l->inputs[input], i);
}

typedef struct gate {
    double z, error;   /* before its activation */
} gate;

/* Gate row `row` (of 4 hidden) of a direction, from x at a time and from the h that the op itself had: what it rounded
 * before does not count. A sum of n products is off by at most n units of the sum of their sizes. */
static gate gate_of(const layer *l, int64_t dir, int64_t time, int64_t entry, int64_t row, const double *h) {
    int64_t wide = 4 * l->hidden;
    double b_ih = at(l, B_IH, dir * wide + row), b_hh = at(l, B_HH, dir * wide + row);
    double sum = b_ih + b_hh, of_x = 0, of_h = 0;
    for (int64_t i = 0; i < l->in; i++) {
        double p = at(l, X, (time * l->n + entry) * l->in + i) * at(l, W_IH, (dir * wide + row) * l->in + i);
        sum += p;
        of_x += fabs(p);
    }
    for (int64_t i = 0; i < l->hidden; i++) {
        double p = h[i] * at(l, W_HH, (dir * wide + row) * l->hidden + i);
        sum += p;
        of_h += fabs(p);
    }
    double biases = fabs(b_ih) + fabs(b_hh);
    return (gate){sum, EPS * ((double)(l->in + 3) * of_x + (double)(l->hidden + 2) * of_h + 5 * biases)};
}

/* An activation, its error by its slope (at most `slope`) and 5 units of its own. */
static gate activate(gate g, double value, double slope) {
    return (gate){value, slope * g.error + 5 * EPS * fabs(value)};
}
static gate sigmoid(gate g) { return activate(g, 1 / (1 + exp(-g.z)), 0.25); }
static gate tangent(gate g) { return activate(g, tanh(g.z), 1); }
static gate product(gate a, gate b) {
    return (gate){a.z * b.z, fabs(a.z) * b.error + fabs(b.z) * a.error + a.error * b.error + EPS * fabs(a.z * b.z)};
}
static gate sum_of(gate a, gate b) { return (gate){a.z + b.z, a.error + b.error + EPS * fabs(a.z + b.z)}; }

/* One sequence in one direction; counts elements that are off. */
static int64_t check_sequence(const layer *l, int64_t dir, int64_t entry, const mx_tensor out[3]) {
    int64_t n = l->hidden, wide = l->dirs * n, bad = 0;
    int reverse = l->direction == MXW_LSTM_REVERSE || dir == 1;
    double *h = block((size_t)n * sizeof(*h) + 1);
    gate *c = block((size_t)n * sizeof(*c) + 1);
    for (int64_t j = 0; j < n; j++) {
        h[j] = at(l, H0, (dir * l->n + entry) * n + j);
        c[j] = (gate){at(l, C0, (dir * l->n + entry) * n + j), 0};
    }
    for (int64_t s = 0; s < l->t; s++) {
        int64_t time = reverse ? l->t - 1 - s : s, row = (time * l->n + entry) * wide + dir * n;
        for (int64_t j = 0; j < n; j++) {
            gate i = sigmoid(gate_of(l, dir, time, entry, j, h)), f = sigmoid(gate_of(l, dir, time, entry, n + j, h));
            gate g = tangent(gate_of(l, dir, time, entry, 2 * n + j, h));
            gate o = sigmoid(gate_of(l, dir, time, entry, 3 * n + j, h));
            c[j] = sum_of(product(f, c[j]), product(i, g));
            gate want = product(o, tangent(c[j]));
            bad += !near((double)f32(&out[Y], row + j), want.z, want.error);
        }
        for (int64_t j = 0; j < n; j++)
            h[j] = (double)f32(&out[Y], row + j);
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t i = (dir * l->n + entry) * n + j;
        bad += (double)f32(&out[H], i) != h[j];
        bad += !near((double)f32(&out[C], i), c[j].z, c[j].error);
    }
    free(blocks[--n_blocks]);
    free(blocks[--n_blocks]);
    return bad;
}

/* The same by the oracle of verify, which must agree, with a bound that means something. */
static int64_t check_oracle(const layer *l, mx_tensor out[3]) {
    const mx_exact_op *oracle = mx_exact_find(MX_OP_LSTM);
    mx_attrs attrs = {.kind = (int)l->direction};
    mx_tensor inputs[N_IN];
    int64_t bad = 0;
    for (int i = 0; i < N_IN; i++)
        inputs[i] = l->without >> i & 1 ? (mx_tensor){0} : l->inputs[i];
    mx_call call = {.op = MX_OP_LSTM, .attrs = &attrs, .n_inputs = N_IN, .n_outputs = 3, .inputs = inputs,
                    .outputs = out};
    for (int64_t i = 0; i < mx_tensor_count(&out[Y]); i += 1 + i % 7) {
        mx_exact e = oracle->at(&call, i, NULL);
        bad += !near((double)f32(&out[Y], i), e.value, e.bound) || !(e.bound < 1e-3);
    }
    return bad;
}

static void check_layer(mxw_lstm_direction direction, int64_t t, int64_t n, int64_t width, int64_t hidden,
                        unsigned without) {
    way all[3];
    for (int i = 0; i < ways(all); i++) {
        mx_tensor out[3];
        int64_t bad = 0;
        begin();
        layer l = make_layer(direction, t, n, width, hidden, without);
        run_layer(&l, all[i], out);
        CHECK_DIMS(out[Y], t, n, l.dirs * hidden);
        CHECK_DIMS(out[H], l.dirs, n, hidden);
        CHECK_DIMS(out[C], l.dirs, n, hidden);
        for (int64_t dir = 0; dir < l.dirs; dir++)
            for (int64_t entry = 0; entry < n; entry++)
                bad += check_sequence(&l, dir, entry, out);
        bad += t < 100 ? check_oracle(&l, out) : 0;   /* it starts over for each element */
        if (!CHECK_EQ_INT(bad, 0))
            printf("    direction %d, t %d, n %d, in %d, hidden %d, without %x, way %d\n", (int)direction, (int)t,
                   (int)n, (int)width, (int)hidden, without, i);
    }
}

static void test_values(void) {
    const unsigned b_ih = 1u << B_IH, b_hh = 1u << B_HH, h0 = 1u << H0, c0 = 1u << C0;
    for (int d = 0; d < 3; d++) {
        mxw_lstm_direction direction = (mxw_lstm_direction)d;
        check_layer(direction, 1, 1, 1, 1, 0);
        check_layer(direction, 5, 3, 7, 9, 0);
        check_layer(direction, 6, 2, 4, 5, b_ih | b_hh | h0 | c0);
        check_layer(direction, 4, 1, 20, 33, b_ih | c0);
        check_layer(direction, 4, 13, 3, 16, b_hh | h0);
        check_layer(direction, 40, 17, 5, 6, 0);     /* several blocks of steps, several pieces of rows */
        check_layer(direction, 300, 1, 8, 8, h0 | c0);
        check_layer(direction, 3, 1, 128, 128, 0);
    }
}

static void test_empty(void) {
    for (int d = 0; d < 3; d++) {
        mxw_lstm_direction direction = (mxw_lstm_direction)d;
        check_layer(direction, 0, 2, 3, 5, 0);   /* the state stays as it is ... */
        check_layer(direction, 0, 2, 3, 5, 1u << H0 | 1u << C0);   /* ... or is zeros */
        check_layer(direction, 3, 0, 3, 5, 0);
        check_layer(direction, 3, 2, 0, 5, 0);
        check_layer(direction, 3, 2, 3, 0, 0);
    }
}

/* Large arguments saturate, and nothing is NaN. */
static void test_saturation(void) {
    way all[3];
    for (int w = 0; w < ways(all); w++) {
        mx_tensor out[3];
        begin();
        layer l = make_layer(MXW_LSTM_FORWARD, 4, 2, 3, 4, 0);
        for (int64_t i = 0; i < mx_tensor_count(&l.inputs[X]); i++)
            ((float *)l.inputs[X].data)[i] = i % 2 ? 1e6f : -1e6f;
        run_layer(&l, all[w], out);
        CHECK_EQ_INT(check_sequence(&l, 0, 0, out) + check_sequence(&l, 0, 1, out), 0);
    }
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* Steps [first, first + steps) of entries [entry, entry + n), with the state that is given. */
static layer part_of(const layer *l, int64_t first, int64_t steps, int64_t entry, int64_t n) {
    layer p = *l;
    p.t = steps;
    p.n = n;
    p.inputs[X] = blank(MXW_F32, 3, DIMS(steps, n, l->in));
    for (int64_t s = 0; s < steps; s++)
        memcpy((float *)p.inputs[X].data + s * n * l->in,
               (float *)l->inputs[X].data + ((first + s) * l->n + entry) * l->in, (size_t)(n * l->in) * sizeof(float));
    for (int state = H0; state <= C0; state++) {
        p.inputs[state] = blank(MXW_F32, 3, DIMS(l->dirs, n, l->hidden));
        for (int64_t d = 0; d < l->dirs; d++)
            memcpy((float *)p.inputs[state].data + d * n * l->hidden,
                   (float *)l->inputs[state].data + (d * l->n + entry) * l->hidden,
                   (size_t)(n * l->hidden) * sizeof(float));
    }
    return p;
}

/* Whether row (time, entry) of a and row (b_time, b_entry) of b are the same bits in one direction. */
static int same_row(const mx_tensor *a, int64_t time, int64_t entry, const mx_tensor *b, int64_t b_time,
                    int64_t b_entry, int64_t hidden, int64_t a_dir, int64_t b_dir) {
    const float *x = (float *)a->data + (time * a->dims[1] + entry) * a->dims[2] + a_dir * hidden;
    const float *y = (float *)b->data + (b_time * b->dims[1] + b_entry) * b->dims[2] + b_dir * hidden;
    return memcmp(x, y, (size_t)hidden * sizeof(float)) == 0;
}

/* Any number of threads, any entry alone, the directions apart. */
static void test_batch(int64_t t, int64_t n, int64_t width, int64_t hidden) {
    static const int threads[] = {1, 3, 8};
    way all[3];
    for (int w = 0; w < ways(all); w++) {
        mx_tensor out[3], other[3];
        int differ = 0;
        begin();
        layer l = make_layer(MXW_LSTM_BOTH, t, n, width, hidden, 0);
        run_layer(&l, all[w], out);
        for (size_t i = 0; i < MX_COUNT(threads); i++) {
            way on = all[w];
            CHECK(mx_pool_open(threads[i], &on.pool) == MXW_OK);
            run_layer(&l, on, other);
            for (int r = 0; r < 3; r++)
                differ += !same_bits(&out[r], &other[r]);
            mx_pool_close(on.pool);
        }
        for (int64_t entry = 0; entry < n; entry += 3) {
            layer one = part_of(&l, 0, t, entry, 1);
            run_layer(&one, all[w], other);
            for (int64_t s = 0; s < t; s++)
                for (int64_t d = 0; d < 2; d++)
                    differ += !same_row(&out[Y], s, entry, &other[Y], s, 0, hidden, d, d);
        }
        for (int d = 0; d < 2; d++) {   /* one direction alone */
            layer one = l;
            one.direction = d ? MXW_LSTM_REVERSE : MXW_LSTM_FORWARD;
            one.dirs = 1;
            for (int i = W_IH; i < N_IN; i++) {
                mx_tensor *in_ = &one.inputs[i];
                in_->dims[0] = 1;
                in_->data = (char *)in_->data + (size_t)d * mx_tensor_bytes(in_);
            }
            run_layer(&one, all[w], other);
            for (int64_t i = 0; i < t * n; i++)
                differ += !same_row(&out[Y], i / n, i % n, &other[Y], i / n, i % n, hidden, d, 0);
            differ += memcmp((float *)out[C].data + d * n * hidden, other[C].data, mx_tensor_bytes(&other[C])) != 0;
        }
        CHECK_EQ_INT(differ, 0);
    }
}

/* One program, the sequence in pieces of several lengths, each begun with the state of the one before. */
static void test_pieces(mxw_lstm_direction direction, int64_t n, int64_t width, int64_t hidden) {
    static const int64_t lengths[] = {1, 2, 0, 30, 7, 1, 270, 64, 3};
    way all[3];
    for (int w = 0; w < ways(all); w++) {
        mx_tensor whole[3], part[3], state[2];
        int64_t t = 0, done = 0;
        int differ = 0;
        begin();
        for (size_t i = 0; i < MX_COUNT(lengths); i++)
            t += lengths[i];
        layer l = make_layer(direction, t, n, width, hidden, 0);
        program p = open_layer(&l, all[w]);
        execute(&p, whole);
        state[0] = l.inputs[H0];
        state[1] = l.inputs[C0];
        for (size_t i = 0; i < MX_COUNT(lengths); i++) {
            int64_t first = direction == MXW_LSTM_REVERSE ? t - done - lengths[i] : done;
            layer piece = part_of(&l, first, lengths[i], 0, n);
            mx_run_input(p.run, "x", &piece.inputs[X]);
            mx_run_input(p.run, "h0", &state[0]);
            mx_run_input(p.run, "c0", &state[1]);
            execute(&p, part);
            for (int64_t r = 0; r < lengths[i] * n; r++)
                differ += !same_row(&whole[Y], first + r / n, r % n, &part[Y], r / n, r % n, hidden, 0, 0);
            state[0] = part[H];
            state[1] = part[C];
            done += lengths[i];
        }
        differ += !same_bits(&whole[H], &state[0]) + !same_bits(&whole[C], &state[1]);
        CHECK_EQ_INT(differ, 0);
        close_layer(&p);
    }
}

int main(int argc, char **argv) {
    harness_open("graph-lstm", argc, argv);
    mx_pool_open(2, &harness_pool);
    test_values();
    test_empty();
    test_saturation();
    test_batch(9, 14, 11, 13);
    test_batch(3, 1, 128, 128);
    test_pieces(MXW_LSTM_FORWARD, 1, 24, 40);
    test_pieces(MXW_LSTM_REVERSE, 3, 5, 7);
    end();
    mx_pool_close(harness_pool);
    CHECK_EQ_INT(mx_mem_live(), 0);
    return check_done();
}
