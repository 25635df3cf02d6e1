/* bench_ops.c - kcheck --bench: attention, select and lstm through the device, as a transcription runs them.
 *
 * What a decoder's step reads comes from memory, not from a cache: each call takes another copy of keys, values or
 * weights, and there are more of them than any cache holds. An lstm reads its weights at every step, so they stay where
 * they are. As in bench.c, the best of the turns counts. */
#include "bench.h"

#include "base/base.h"
#include "device/cpu/peak.h"

#define COLD_BYTES ((size_t)192 << 20)
#define MAX_COPIES 64

typedef struct op_shape {
    const char *what;
    mx_op op;
    int64_t rows, keys;   /* of select: rows, ids; of lstm: steps, sequences */
    int heads;            /* 64 wide; of lstm: 64 units each */
    mxw_dtype dtype;      /* of a decoder's keys and values: MXW_F16, else f32 */
} op_shape;

static const op_shape shapes[] = {
    {"tiny encoder attention", MX_OP_ATTENTION, 1500, 1500, 6},
    {"base encoder attention", MX_OP_ATTENTION, 1500, 1500, 8},
    {"tiny decoder window, 1 row", MX_OP_ATTENTION_WINDOW, 1, 1500, 6},
    {"tiny decoder window, 5 rows", MX_OP_ATTENTION_WINDOW, 5, 1500, 6},
    {"base decoder window, 5 rows", MX_OP_ATTENTION_WINDOW, 5, 1500, 8},
    {"tiny prompt window, 225 rows", MX_OP_ATTENTION_WINDOW, 225, 1500, 6},
    {"tiny decoder window, halves, 5 rows", MX_OP_ATTENTION_WINDOW, 5, 1500, 6, MXW_F16},
    {"tiny prompt window, halves, 225 rows", MX_OP_ATTENTION_WINDOW, 225, 1500, 6, MXW_F16},
    {"tiny decoder cells, 5 rows", MX_OP_ATTENTION_CACHED, 5, 224, 6},
    {"tiny decoder cells, halves, 5 rows", MX_OP_ATTENTION_CACHED, 5, 224, 6, MXW_F16},
    {"tiny select, 1 row", MX_OP_FUSED_SELECT, 1, 51864, 6},
    {"tiny select, 5 rows", MX_OP_FUSED_SELECT, 5, 51864, 6},
    {"base select, 5 rows", MX_OP_FUSED_SELECT, 5, 51865, 8},
    {"lstm, 128 units", MX_OP_LSTM, 300, 1, 2},
    {"lstm, 128 units, 1 step", MX_OP_LSTM, 1, 1, 2},
    {"lstm, 128 units, batch of 8", MX_OP_LSTM, 64, 8, 2},
    {"lstm, 512 units", MX_OP_LSTM, 20, 1, 8},
};

typedef struct op_job {
    const op_shape *s;
    mx_attrs attrs;
    mx_call call;
    mx_tensor in[6], out[3];
    mx_tensor copies[2][MAX_COPIES];   /* of inputs 1 and 2 */
    int n_copies, n_copied;
    mx_tensor source;                  /* of a packed weight, which may look at it */
    double flops, bytes;               /* of a call; bytes 0: arithmetic is what counts */
} op_job;

static mx_tensor tensor(mxw_dtype dtype, int rank, const int64_t *dims) {
    mx_tensor t = mx_tensor_of(dtype, rank, dims, NULL);
    t.data = mx_alloc_zero(1, MX_MAX(mx_tensor_bytes(&t), 1));
    if (!t.data)
        exit(1);
    for (int64_t i = 0; dtype == MXW_F32 && i < mx_tensor_count(&t); i++)
        ((float *)t.data)[i] = (float)uniform(-1, 1);
    for (int64_t i = 0; dtype == MXW_F16 && i < mx_tensor_count(&t); i++)
        ((uint16_t *)t.data)[i] = mx_f32_to_f16((float)uniform(-1, 1));
    return t;
}

#define TENSOR(dtype, ...)                                                                                             \
    tensor(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* The rest of the copies, as many as make COLD_BYTES. */
static void copy_inputs(op_job *j, int n_copied) {
    size_t bytes = 0, each[2];
    j->n_copied = n_copied;
    for (int i = 0; i < n_copied; i++)
        bytes += each[i] = mx_tensor_bytes(&j->copies[i][0]);
    j->n_copies = (int)MX_MIN(MAX_COPIES, COLD_BYTES / bytes + 1);
    for (int i = 0; i < n_copied; i++)
        for (int c = 1; c < j->n_copies; c++) {
            j->copies[i][c] = j->copies[i][0];
            j->copies[i][c].data = mx_alloc(each[i]);
            if (!j->copies[i][c].data)
                exit(1);
            memcpy(j->copies[i][c].data, j->copies[i][0].data, each[i]);
        }
}

static void open_attention(op_job *j) {
    const op_shape *s = j->s;
    int64_t d = 64 * s->heads;
    j->attrs = (mx_attrs){.heads = s->heads, .scale = 0.125};
    j->flops = 4.0 * (double)s->rows * (double)s->keys * (double)d;
    if (s->op == MX_OP_ATTENTION) {
        j->in[0] = TENSOR(MXW_F32, 1, s->rows, d);
        j->copies[0][0] = TENSOR(MXW_F32, 1, s->keys, d);
        j->copies[1][0] = TENSOR(MXW_F32, 1, s->keys, d);
        j->out[0] = TENSOR(MXW_F32, 1, s->rows, d);
        j->n_copies = 1;
        j->n_copied = 2;
        j->call.n_inputs = 3;
        return;
    }
    j->in[0] = TENSOR(MXW_F32, s->rows, d);
    j->in[3] = TENSOR(MXW_I32, s->rows);
    j->out[0] = TENSOR(MXW_F32, s->rows, d);
    mxw_dtype dtype = s->dtype == MXW_F16 ? MXW_F16 : MXW_F32;
    j->bytes = 2.0 * (double)mx_dtype_bytes(dtype) * (double)s->keys * (double)d;
    if (s->op == MX_OP_ATTENTION_WINDOW) {
        j->copies[0][0] = TENSOR(dtype, 1, s->keys, d);
        j->copies[1][0] = TENSOR(dtype, 1, s->keys, d);
        j->call.n_inputs = 4;
    } else {   /* all rows at the end of one past, as beams that have just parted */
        j->copies[0][0] = TENSOR(dtype, s->keys, d);
        j->copies[1][0] = TENSOR(dtype, s->keys, d);
        j->in[4] = TENSOR(MXW_I32, s->rows);
        j->in[5] = TENSOR(MXW_I32, 1, s->keys);
        for (int64_t r = 0; r < s->rows; r++)
            ((int32_t *)j->in[4].data)[r] = (int32_t)s->keys - 1;
        for (int64_t k = 0; k < s->keys; k++)
            ((int32_t *)j->in[5].data)[k] = (int32_t)k;
        j->call.n_inputs = 6;
    }
    copy_inputs(j, 2);
}

static void open_select(op_job *j, const mx_device *cpu, mx_pool *pool) {
    const op_shape *s = j->s;
    int64_t d = 64 * s->heads;
    mx_rule rule = {.ts_begin = (int32_t)s->keys, .ts_max = -1, .no_speech = -1};
    mx_tensor half = TENSOR(MXW_F16, s->keys, d);
    j->attrs = (mx_attrs){.k = 6, .eps = 1e-5};
    mx_weight_use use = {.op = s->op, .attrs = &j->attrs, .input = 1, .sources = &half, .n_sources = 1};
    mx_packing packing = cpu->packing(cpu, &use);
    size_t bytes = packing.bytes;
    j->in[0] = TENSOR(MXW_F32, s->rows, d);
    j->copies[0][0] = half;
    j->copies[0][0].layout = MX_LAYOUT_PACKED;
    j->copies[0][0].packing = packing;
    j->copies[0][0].data = mx_alloc(bytes);
    if (!j->copies[0][0].data || cpu->pack(cpu, &use, j->copies[0][0].data, pool) < 0)
        exit(1);
    j->n_copied = 1;
    j->n_copies = (int)(COLD_BYTES / bytes) + 1;
    for (int c = 1; c < j->n_copies; c++) {
        j->copies[0][c] = j->copies[0][0];
        j->copies[0][c].data = mx_alloc(bytes);
        if (!j->copies[0][c].data)
            exit(1);
        memcpy(j->copies[0][c].data, j->copies[0][0].data, bytes);
    }
    j->source = half;
    j->in[2] = TENSOR(MXW_I32, s->rows, MX_RULE_WORDS);
    for (int64_t r = 0; r < s->rows; r++)
        memcpy((int32_t *)j->in[2].data + r * MX_RULE_WORDS, &rule, sizeof(rule));
    j->in[3] = TENSOR(MXW_U8, 1, s->keys);
    j->in[4] = TENSOR(MXW_F32, d);
    j->in[5] = TENSOR(MXW_F32, d);
    j->out[0] = TENSOR(MXW_I32, s->rows, j->attrs.k);
    j->out[1] = TENSOR(MXW_F32, s->rows, j->attrs.k);
    j->out[2] = TENSOR(MXW_F32, s->rows, MX_SELECT_STATS);
    j->call.n_inputs = 6;
    j->bytes = (double)bytes;
    j->flops = 2.0 * (double)s->keys * (double)d * (double)s->rows;
}

static mx_tensor packed(const op_job *j, const mx_device *cpu, int input, mx_tensor source, mx_pool *pool) {
    mx_weight_use use = {.op = j->s->op, .attrs = &j->attrs, .input = input, .sources = &source, .n_sources = 1};
    mx_tensor t = source;
    t.layout = MX_LAYOUT_PACKED;
    t.packing = cpu->packing(cpu, &use);
    t.data = mx_alloc(t.packing.bytes);
    if (!t.data || cpu->pack(cpu, &use, t.data, pool) < 0)
        exit(1);
    mx_free(source.data);
    return t;
}

static void open_lstm(op_job *j, const mx_device *cpu, mx_pool *pool) {
    int64_t t = j->s->rows, n = j->s->keys, d = 64 * j->s->heads;
    j->in[0] = TENSOR(MXW_F32, t, n, d);
    j->copies[0][0] = packed(j, cpu, 1, TENSOR(MXW_F32, 1, 4 * d, d), pool);
    j->copies[1][0] = packed(j, cpu, 2, TENSOR(MXW_F32, 1, 4 * d, d), pool);
    j->n_copied = 2;
    j->n_copies = 1;
    j->in[3] = TENSOR(MXW_F32, 1, 4 * d);
    j->in[4] = TENSOR(MXW_F32, 1, 4 * d);
    j->out[0] = TENSOR(MXW_F32, t, n, d);
    j->out[1] = TENSOR(MXW_F32, 1, n, d);
    j->out[2] = TENSOR(MXW_F32, 1, n, d);
    j->call.n_inputs = 5;
    j->flops = 16.0 * (double)(t * n) * (double)(d * d);
}

static void close_job(op_job *j) {
    for (int i = 0; i < 6; i++)
        if (i == 0 || i > j->n_copied)
            mx_free(j->in[i].data);
    for (int i = 0; i < j->n_copied; i++)
        for (int c = 0; c < j->n_copies; c++)
            mx_free(j->copies[i][c].data);
    for (int i = 0; i < 3; i++)
        mx_free(j->out[i].data);
    mx_free(j->source.data);
    mx_free(j->call.scratch);
}

static void next_copy(op_job *j, int turn) {
    for (int i = 0; i < j->n_copied; i++)
        j->in[1 + i] = j->copies[i][turn % j->n_copies];
}

static void run_shape(const bench_machine *b, const op_shape *s, double *flops, double *read) {
    op_job j = {.s = s};
    double best = 0;
    j.call = (mx_call){.op = s->op, .attrs = &j.attrs, .n_outputs = mx_op_outputs(s->op), .inputs = j.in,
                       .outputs = j.out, .pool = b->pool, .compiled = 1};
    if (s->op == MX_OP_FUSED_SELECT)
        open_select(&j, b->cpu, b->pool);
    else if (s->op == MX_OP_LSTM)
        open_lstm(&j, b->cpu, b->pool);
    else
        open_attention(&j);
    next_copy(&j, 0);
    j.call.scratch = mx_alloc(MX_MAX(b->cpu->scratch_bytes(b->cpu, &j.call), 1));
    if (!j.call.scratch)
        exit(1);
    for (int turn = 0; turn < b->turns * (j.bytes > 0 ? 4 : 1); turn++) {
        next_copy(&j, turn);
        int64_t start = mx_now_ns();
        if (b->cpu->run_op(b->cpu, &j.call) < 0) {
            printf("kcheck: %s: %s\n", s->what, mx_error());
            exit(1);
        }
        double ns = (double)(mx_now_ns() - start);
        best = turn == 0 ? ns : MX_MIN(best, ns);
        *flops = MX_MAX(*flops, mx_peak_gflops(b->isa, b->pool));
        if (j.bytes > 0 && turn % 4 == 0)
            *read = MX_MAX(*read, mx_peak_read_gbs(b->isa, b->pool, b->memory, b->memory_bytes));
    }
    printf("%-28s %5d x %5d, %d heads  %9.1f us ", s->what, (int)s->rows, (int)s->keys, s->heads, best / 1e3);
    if (s->op == MX_OP_LSTM)
        printf("%7.2f us a step ", best / 1e3 / (double)s->rows);
    if (j.bytes > 0)
        printf("%7.1f GB/s    %3.0f %% of %.0f\n", j.bytes / best, 100 * j.bytes / best / *read, *read);
    else
        printf("%7.1f GFLOP/s %3.0f %% of %.0f\n", j.flops / best, 100 * j.flops / best / *flops, *flops);
    fflush(stdout);
    close_job(&j);
}

void bench_ops(const bench_machine *b, const char *filter, double flops, double read) {
    for (size_t i = 0; i < MX_COUNT(shapes); i++)
        if (strstr(shapes[i].what, filter))
            run_shape(b, &shapes[i], &flops, &read);
}
