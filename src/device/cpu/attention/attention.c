/* device/cpu/attention/attention.c - attention in its three forms: whole windows, rows over a cache, rows over a
 * window; and the scores of rows over a window alone. */
#include "device/cpu/cpu.h"

#include <limits.h>
#include <string.h>

#define TILE_QUERIES 125   /* their scores over 1500 keys are 750 kB: a second-level cache */

typedef void (*gemm_fn)(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb,
                        int b_transposed, float *c, int64_t ldc);

typedef struct attention {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t t, s, d, heads, width, tiles;   /* queries, keys, all heads' width, heads, one head's width */
    const float *q, *k, *v;
    float *y;
    const int32_t *seq, *pos, *cells, *window;
    mx_cpu_tiles by_window;
    int64_t rows, ctx;
    gemm_fn gemm;
} attention;

static attention begin(const mx_call *call, const mx_kernels *kernels, mx_cpu_scratch scratch) {
    const mx_tensor *in = call->inputs;
    attention a = {.call = call, .kernels = kernels, .scratch = scratch, .heads = call->attrs->heads};
    a.q = in[0].data;
    a.k = in[1].data;
    a.v = in[2].data;
    a.y = call->outputs[0].data;
    a.d = in[0].dims[in[0].rank - 1];
    a.width = a.d / a.heads;
    return a;
}

/* BLAS counts in int. */
static gemm_fn choose_gemm(const attention *a) {
    return a->d > INT_MAX || a->s > INT_MAX ? mx_ref_gemm : a->kernels->gemm;
}

/* ---- whole windows ----------------------------------------------------------------------------------------------- */

mx_cpu_scratch mx_cpu_attention_scratch(const mx_call *call) {
    int64_t queries = MX_MIN(call->inputs[0].dims[1], TILE_QUERIES);
    return (mx_cpu_scratch){.slot = (size_t)(queries * call->inputs[1].dims[1]) * sizeof(float)};
}

static void softmax_causal(const attention *a, float *scores, int64_t first, int64_t queries) {
    for (int64_t i = 0; i < queries; i++) {
        int64_t keys = first + i + a->s - a->t + 1;
        float *row = scores + i * a->s;
        a->kernels->softmax(row, row, 1, keys, a->s, (float)a->call->attrs->scale);
        memset(row + keys, 0, (size_t)(a->s - keys) * sizeof(float));
    }
}

/* One entry, one head, a tile of queries. */
static void run_queries(void *context, int64_t piece, int slot) {
    const attention *a = context;
    int64_t first = piece % a->tiles * TILE_QUERIES, head = piece / a->tiles % a->heads;
    int64_t entry = piece / a->tiles / a->heads, queries = MX_MIN(TILE_QUERIES, a->t - first);
    int64_t to_keys = entry * a->s * a->d + head * a->width;
    int64_t to_queries = (entry * a->t + first) * a->d + head * a->width;
    float *scores = mx_cpu_slot(a->call, a->scratch, slot);
    a->gemm(queries, a->s, a->width, a->q + to_queries, a->d, a->k + to_keys, a->d, 1, scores, a->s);
    if (a->call->attrs->causal)
        softmax_causal(a, scores, first, queries);
    else
        a->kernels->softmax(scores, scores, queries, a->s, a->s, (float)a->call->attrs->scale);
    a->gemm(queries, a->width, a->s, scores, a->s, a->v + to_keys, a->d, 0, a->y + to_queries, a->d);
}

mxw_status mx_cpu_attention(const mx_call *call, const mx_kernels *kernels) {
    attention a = begin(call, kernels, mx_cpu_attention_scratch(call));
    a.t = call->inputs[0].dims[1];
    a.s = call->inputs[1].dims[1];
    a.gemm = choose_gemm(&a);
    a.tiles = a.t ? (a.t - 1) / TILE_QUERIES + 1 : 0;
    mx_cpu_for(call, call->inputs[0].dims[0] * a.heads * a.tiles, run_queries, &a);
    return MXW_OK;
}

/* ---- rows over a cache ------------------------------------------------------------------------------------------- */

mx_cpu_scratch mx_cpu_attention_cached_scratch(const mx_call *call) {
    return (mx_cpu_scratch){.slot = (size_t)call->inputs[5].dims[1] * sizeof(float)};
}

static void run_cached(void *context, int64_t piece, int slot) {
    const attention *a = context;
    int64_t row = piece % a->rows, head = piece / a->rows;
    int64_t at = row * a->d + head * a->width, shift = head * a->width;
    a->kernels->attn_row(a->y + at, a->q + at, a->k + shift, a->v + shift, a->cells + a->seq[row] * a->ctx,
                         (int64_t)a->pos[row] + 1, a->d, a->width, (float)a->call->attrs->scale,
                         mx_cpu_slot(a->call, a->scratch, slot));
}

mxw_status mx_cpu_check_cells(const mx_call *call) {
    const mx_tensor *in = call->inputs;
    const int32_t *seq = in[3].data, *pos = in[4].data;
    int64_t ctx = in[5].dims[1], n_cells = in[1].dims[0];
    mxw_status status;
    MX_TRY(mx_cpu_check_index(call, "seq", &in[3], in[5].dims[0]));
    MX_TRY(mx_cpu_check_index(call, "pos", &in[4], ctx));
    for (int64_t r = 0; r < in[0].dims[0]; r++) {
        const int32_t *cells = (const int32_t *)in[5].data + seq[r] * ctx;
        for (int32_t p = 0; p <= pos[r]; p++)
            if (cells[p] < 0 || cells[p] >= n_cells)
                return mx_fail(MXW_E_ARGUMENT, "%s: cells[%d][%d] is %d: expected 0 to %lld", mx_op_name(call->op),
                               (int)seq[r], (int)p, (int)cells[p], (long long)n_cells - 1);
    }
out:
    return status;
}

mxw_status mx_cpu_attention_cached(const mx_call *call, const mx_kernels *kernels) {
    attention a = begin(call, kernels, mx_cpu_attention_cached_scratch(call));
    mxw_status status;
    a.rows = call->inputs[0].dims[0];
    a.seq = call->inputs[3].data;
    a.pos = call->inputs[4].data;
    a.cells = call->inputs[5].data;
    a.ctx = call->inputs[5].dims[1];
    MX_TRY(mx_cpu_check_cells(call));
    mx_cpu_for(call, a.rows * a.heads, run_cached, &a);
out:
    return status;
}

/* ---- rows over a window ------------------------------------------------------------------------------------------ */

/* Rows that attend to the same window are put together, ROW_TILE at a time, so that the products are products of
 * matrices. A tile that is not full is padded with zeros: every call has the same size, and a row's bits depend neither
 * on its place in the tile nor on its neighbours (tested). */
#define ROW_TILE 8

/* The rows ordered by window, where each tile begins among them, and a count for each window. */
size_t mx_cpu_order_bytes(const mx_call *call) {
    int64_t rows = call->inputs[0].dims[0], windows = call->inputs[1].dims[0];
    return (size_t)(2 * rows + 1 + windows + 1) * sizeof(int32_t);
}

mx_cpu_scratch mx_cpu_attention_window_scratch(const mx_call *call) {
    int64_t width = call->inputs[0].dims[1] / call->attrs->heads, keys = call->inputs[1].dims[1];
    return (mx_cpu_scratch){.slot = (size_t)(ROW_TILE * (keys + 2 * width)) * sizeof(float),
                            .shared = mx_cpu_order_bytes(call)};
}

int64_t mx_cpu_order_rows(const mx_call *call, int64_t most, void *memory, mx_cpu_tiles *out) {
    int64_t rows = call->inputs[0].dims[0], windows = call->inputs[1].dims[0], tiles = 0, at = 0;
    const int32_t *window = call->inputs[3].data;
    int32_t *order = memory, *starts = order + rows, *next = starts + rows + 1;
    memset(next, 0, (size_t)(windows + 1) * sizeof(*next));
    for (int64_t r = 0; r < rows; r++)
        next[window[r] + 1]++;
    for (int64_t w = 0; w < windows; w++) {
        int64_t end = at + next[w + 1];
        next[w + 1] = (int32_t)end;
        for (; at < end; at = MX_MIN(at + most, end))
            starts[tiles++] = (int32_t)at;
    }
    starts[tiles] = (int32_t)rows;
    for (int64_t r = 0; r < rows; r++)
        order[next[window[r]]++] = (int32_t)r;
    *out = (mx_cpu_tiles){order, starts};
    return tiles;
}

/* Heads are the outer loop: neighbouring pieces read the same keys while they are in the cache. */
static void run_window(void *context, int64_t piece, int slot) {
    const attention *a = context;
    int64_t tile = piece % a->tiles, head = piece / a->tiles, width = a->width;
    const int32_t *rows = a->by_window.order + a->by_window.starts[tile];
    int64_t n = a->by_window.starts[tile + 1] - a->by_window.starts[tile];
    int64_t keys = a->window[rows[0]] * a->s * a->d + head * width;
    float *scores = mx_cpu_slot(a->call, a->scratch, slot), *q = scores + ROW_TILE * a->s, *y = q + ROW_TILE * width;
    for (int64_t r = 0; r < n; r++)
        memcpy(q + r * width, a->q + rows[r] * a->d + head * width, (size_t)width * sizeof(float));
    memset(q + n * width, 0, (size_t)((ROW_TILE - n) * width) * sizeof(float));
    a->gemm(ROW_TILE, a->s, width, q, width, a->k + keys, a->d, 1, scores, a->s);
    a->kernels->softmax(scores, scores, n, a->s, a->s, (float)a->call->attrs->scale);
    a->gemm(ROW_TILE, width, a->s, scores, a->s, a->v + keys, a->d, 0, y, width);
    for (int64_t r = 0; r < n; r++)
        memcpy(a->y + rows[r] * a->d + head * width, y + r * width, (size_t)width * sizeof(float));
}

mxw_status mx_cpu_attention_window(const mx_call *call, const mx_kernels *kernels) {
    attention a = begin(call, kernels, mx_cpu_attention_window_scratch(call));
    mxw_status status;
    a.rows = call->inputs[0].dims[0];
    a.s = call->inputs[1].dims[1];
    a.window = call->inputs[3].data;
    a.gemm = choose_gemm(&a);
    MX_TRY(mx_cpu_check_index(call, "window", &call->inputs[3], call->inputs[1].dims[0]));
    a.tiles = mx_cpu_order_rows(call, ROW_TILE, call->scratch, &a.by_window);
    mx_cpu_for(call, a.tiles * a.heads, run_window, &a);
out:
    return status;
}

/* ---- scores of rows over a window -------------------------------------------------------------------------------- */

#define SCORE_TILE 64   /* rows of a window that share its keys once they are packed */

mx_cpu_scratch mx_cpu_attention_scores_scratch(const mx_call *call) {
    int64_t width = call->inputs[0].dims[1] / call->attrs->heads;
    return (mx_cpu_scratch){.slot = (size_t)(MX_SUM_LANES * width) * sizeof(float), .shared = mx_cpu_order_bytes(call)};
}

/* One of the requested heads, a tile of rows. */
static void run_scores(void *context, int64_t piece, int slot) {
    const attention *a = context;
    const mx_tensor *q = &a->call->inputs[0], *k = &a->call->inputs[1], *y = &a->call->outputs[0];
    const int32_t *heads = a->call->inputs[2].data;
    int64_t tile = piece % a->tiles, at = piece / a->tiles, shift = heads[at] * a->width;
    const int32_t *rows = a->by_window.order + a->by_window.starts[tile];
    int64_t from = (a->window[rows[0]] * a->s * a->d + shift) * (int64_t)mx_dtype_bytes(k->dtype);
    a->kernels->attn_scores((float *)y->data + at * a->s, y->dims[1] * a->s, (const float *)q->data + shift,
                            q->strides[0], rows, a->by_window.starts[tile + 1] - a->by_window.starts[tile],
                            (const char *)k->data + from, k->dtype, a->d, a->s, a->width,
                            (float)a->call->attrs->scale, mx_cpu_slot(a->call, a->scratch, slot));
}

mxw_status mx_cpu_attention_scores(const mx_call *call, const mx_kernels *kernels) {
    attention a = begin(call, kernels, mx_cpu_attention_scores_scratch(call));
    mxw_status status;
    a.s = call->inputs[1].dims[1];
    a.window = call->inputs[3].data;
    MX_TRY(mx_cpu_check_index(call, "head", &call->inputs[2], a.heads));
    MX_TRY(mx_cpu_check_index(call, "window", &call->inputs[3], call->inputs[1].dims[0]));
    a.tiles = mx_cpu_order_rows(call, SCORE_TILE, call->scratch, &a.by_window);
    mx_cpu_for(call, a.tiles * call->inputs[2].dims[0], run_scores, &a);
out:
    return status;
}
