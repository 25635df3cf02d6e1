/* device/cpu/lstm.c - the LSTM, for eager and compiled calls: the input's part of the gates as one GEMM for many steps,
 * then the steps one after the other, each a skinny GEMM with the recurrent weights and the cell.
 *
 * Sequences are cut into blocks of steps, so that the gates of a block stay in the cache and scratch does not grow with
 * the length; the rows of the batch, and the directions, are cut into pieces, each of which takes all steps of a block
 * by itself: a single sequence never waits for another thread.
 * Invariant: both parts of a gate are chains of fused multiply-adds in order, (chain of x + bias) + chain of h, and the
 * cell works element by element. So the bits depend on neither the cut, the batch, the threads nor the number of
 * steps. */
#include <string.h>

#include "device/cpu/gemm/gemm.h"

#define BLOCK_ROWS 128   /* rows of x in a block: enough for the GEMM, and 256 KB of gates at 128 units */
#define PIECE_ROWS 12    /* of a piece at most: each recurrent weight that is read serves them all */

typedef struct lstm {
    const mx_call *call;
    const mx_kernels *kernels;
    int64_t t, n, in, hidden, dirs;
    int64_t steps;                      /* of a block */
    int64_t rows, pieces;               /* of a piece; pieces of a direction */
    size_t recurrent_at, bias_at, gates_at, rest_at;   /* in scratch, bytes */
    mx_cpu_scratch rest;                /* what GEMM and pieces need from rest_at on, one after the other */
    int64_t first_step, n_steps;        /* the block at hand, counted in the order of the steps */
    const mx_packed *recurrent[2];
    const float *bias;                  /* [dirs][4 * hidden] or NULL */
    float *gates;                       /* [dirs][steps * n][4 * hidden] */
} lstm;

static const mx_tensor *input(const mx_call *call, int i) {
    return i < call->n_inputs && call->inputs[i].rank ? &call->inputs[i] : NULL;
}

static int64_t panel_columns(const lstm *f) { return (4 * f->hidden + MX_PANEL - 1) / MX_PANEL * MX_PANEL; }
static size_t packed_bytes(const lstm *f) {
    return sizeof(mx_packed) + (size_t)(panel_columns(f) * f->hidden) * sizeof(float);
}
static int is_packed(const mx_call *call, int i) { return call->inputs[i].layout == MX_LAYOUT_PACKED; }

/* The input's part of a block's gates. */
static mx_gemm gates_of(const lstm *f, int64_t dir, int64_t steps) {
    const mx_tensor *x = &f->call->inputs[0], *weight = &f->call->inputs[1];
    mx_gemm p = {.call = f->call, .m = steps * f->n, .n = 4 * f->hidden, .k = f->in, .entries = 1, .ldx = f->in,
                 .ldb = f->in, .b_transposed = 1};
    p.x = x->data;
    if (is_packed(f->call, 1))
        p.packed = mx_packed_direction(weight, dir);
    else if (weight->data)
        p.b = (const float *)weight->data + dir * p.n * p.k;
    return p;
}

static lstm describe(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[2];
    lstm f = {.call = call, .kernels = kernels, .t = x->dims[0], .n = x->dims[1], .in = x->dims[2],
              .hidden = weight->dims[2], .dirs = weight->dims[0]};
    int64_t slots = mx_cpu_slots(call), both = input(call, 3) && input(call, 4);
    f.steps = MX_MAX(1, MX_MIN(f.t, BLOCK_ROWS / MX_MAX(f.n, 1)));
    f.rows = MX_MAX(1, MX_MIN(PIECE_ROWS, (f.n * f.dirs + slots - 1) / slots));
    f.pieces = (f.n + f.rows - 1) / f.rows;
    size_t gates = (size_t)(f.dirs * f.steps * f.n * 4 * f.hidden) * sizeof(float);
    f.bias_at = f.recurrent_at + (is_packed(call, 2) ? 0 : (size_t)f.dirs * packed_bytes(&f));
    f.gates_at = f.bias_at + (both ? MX_CPU_ALIGN((size_t)(f.dirs * 4 * f.hidden) * sizeof(float)) : 0);
    f.rest_at = f.gates_at + MX_CPU_ALIGN(gates);
    mx_gemm whole = gates_of(&f, 0, f.steps), tail = gates_of(&f, 0, f.t % f.steps);   /* two sizes of block */
    mx_cpu_scratch a = mx_gemm_scratch(&whole, kernels), b = mx_gemm_scratch(&tail, kernels);
    f.rest = (mx_cpu_scratch){.slot = MX_MAX(a.slot, b.slot), .shared = MX_MAX(a.shared, b.shared)};
    size_t sums = (size_t)(f.rows * panel_columns(&f)) * sizeof(float);
    f.rest.slot = MX_MAX(f.rest.slot, sums + mx_packed_rows_floats(f.rows, f.hidden) * sizeof(float));
    return f;
}

mx_cpu_scratch mx_cpu_lstm_scratch(const mx_call *call) {
    lstm f = describe(call, call->compiled ? mx_cpu_fast_kernels() : mx_cpu_kernels());
    return (mx_cpu_scratch){.slot = f.rest.slot, .shared = f.rest_at + f.rest.shared};
}

/* ---- before the first step --------------------------------------------------------------------------------------- */

/* Recurrent weights that did not come packed. */
static const mx_packed *pack_recurrent(const lstm *f, int64_t dir) {
    const float *from = (const float *)f->call->inputs[2].data + dir * 4 * f->hidden * f->hidden;
    mx_packed *to = (void *)((char *)f->call->scratch + f->recurrent_at + (size_t)dir * packed_bytes(f));
    *to = (mx_packed){.dtype = MXW_F32, .panel = MX_PANEL, .k = f->hidden, .n = 4 * f->hidden};
    for (int64_t panel = 0; panel < mx_packed_panels(to); panel++) {
        int64_t first = panel * MX_PANEL, columns = MX_MIN(MX_PANEL, to->n - first);
        void *at = (char *)(to + 1) + (size_t)panel * mx_packed_panel_bytes(to);
        f->kernels->pack_panel_32(at, from + first * f->hidden, f->hidden, columns, f->hidden);
    }
    return to;
}

static void set_bias(lstm *f) {
    const mx_tensor *a = input(f->call, 3), *b = input(f->call, 4);
    f->bias = a ? a->data : b ? b->data : NULL;
    if (!a || !b)
        return;
    float *sum = (void *)((char *)f->call->scratch + f->bias_at);
    f->kernels->add_f32(sum, a->data, 1, b->data, 1, f->dirs * 4 * f->hidden);
    f->bias = sum;
}

/* The result is the state: it begins as the one that is given, or as zeros. */
static void set_state(const mx_call *call, int from, int to) {
    const mx_tensor *state = input(call, from);
    size_t bytes = mx_tensor_bytes(&call->outputs[to]);
    if (bytes && state)
        memcpy(call->outputs[to].data, state->data, bytes);
    else if (bytes)
        memset(call->outputs[to].data, 0, bytes);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static int is_reverse(const lstm *f, int64_t dir) { return f->call->attrs->kind == MXW_LSTM_REVERSE || dir == 1; }

/* The earliest time of the block at hand. */
static int64_t block_time(const lstm *f, int64_t dir) {
    return is_reverse(f, dir) ? f->t - f->first_step - f->n_steps : f->first_step;
}

static float *block_gates(const lstm *f, int64_t dir) { return f->gates + dir * f->steps * f->n * 4 * f->hidden; }

static void project_input(const lstm *f, int64_t dir) {
    mx_call rest = *f->call;
    mx_gemm p = gates_of(f, dir, f->n_steps);
    rest.scratch = (char *)f->call->scratch + f->rest_at;
    p.call = &rest;
    p.x += block_time(f, dir) * f->n * f->in;
    p.bias = f->bias ? f->bias + dir * p.n : NULL;
    p.y = block_gates(f, dir);
    mx_gemm_run(&p, f->kernels);
}

/* The recurrent part of the gates. One row needs no packing. */
static void multiply(const lstm *f, float *sums, const float *h, int64_t ld, int64_t rows, const mx_packed *w,
                     float *packed) {
    if (rows == 1 && w->dtype == MXW_F32) {
        f->kernels->gemm_row(sums, h, mx_packed_panel(w, 0), f->hidden, mx_packed_panels(w));
        return;
    }
    mx_pack_rows(f->kernels, packed, h, ld, rows, f->hidden, NULL);
    mx_gemm_rows(f->kernels, sums, panel_columns(f), packed, rows, w, 0, mx_packed_panels(w));
}

static void run_piece(void *context, int64_t piece, int slot) {
    const lstm *f = context;
    int64_t dir = piece / f->pieces, row = piece % f->pieces * f->rows, rows = MX_MIN(f->rows, f->n - row);
    int64_t hidden = f->hidden, columns = panel_columns(f), ldy = f->dirs * hidden, first = block_time(f, dir);
    const mx_packed *w = f->recurrent[dir];
    mx_call rest = *f->call;
    rest.scratch = (char *)f->call->scratch + f->rest_at;
    float *sums = mx_cpu_slot(&rest, (mx_cpu_scratch){.slot = f->rest.slot}, slot), *packed = sums + rows * columns;
    float *y = (float *)f->call->outputs[0].data + row * ldy + dir * hidden;
    float *h = (float *)f->call->outputs[1].data + (dir * f->n + row) * hidden;
    float *c = (float *)f->call->outputs[2].data + (dir * f->n + row) * hidden;
    const float *gates = block_gates(f, dir) + row * 4 * hidden, *last = h;
    int64_t ld = hidden;
    for (int64_t s = 0; s < f->n_steps; s++, ld = ldy) {
        int64_t at = is_reverse(f, dir) ? f->n_steps - 1 - s : s;
        float *now = y + (first + at) * f->n * ldy;
        multiply(f, sums, last, ld, rows, w, packed);
        f->kernels->lstm_cell(now, ldy, c, gates + at * f->n * 4 * hidden, 4 * hidden, sums, columns, rows, hidden);
        last = now;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(h + r * hidden, last + r * ld, (size_t)hidden * sizeof(float));
}

mxw_status mx_cpu_lstm(const mx_call *call, const mx_kernels *kernels) {
    lstm f = describe(call, kernels);
    set_state(call, 5, 1);
    set_state(call, 6, 2);
    if (f.t == 0 || f.n == 0 || f.hidden == 0)
        return MXW_OK;
    set_bias(&f);
    f.gates = (void *)((char *)call->scratch + f.gates_at);
    for (int64_t dir = 0; dir < f.dirs; dir++)
        f.recurrent[dir] = is_packed(call, 2) ? mx_packed_direction(&call->inputs[2], dir) : pack_recurrent(&f, dir);
    for (; f.first_step < f.t; f.first_step += f.n_steps) {
        f.n_steps = MX_MIN(f.steps, f.t - f.first_step);
        for (int64_t dir = 0; dir < f.dirs; dir++)
            project_input(&f, dir);
        mx_cpu_for(call, f.dirs * f.pieces, run_piece, &f);
    }
    return MXW_OK;
}
