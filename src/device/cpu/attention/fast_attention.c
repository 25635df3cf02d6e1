/* device/cpu/attention/fast_attention.c - attention in compiled calls: whole windows in tiles of queries, rows over a
 * window in ranges of keys, rows over a cache one by one.
 *
 * Invariant: pieces are cut by shapes alone, at fixed positions, and partial results are combined in a fixed order; a
 * row's bits depend neither on the rows beside it nor on the threads. Rows of q, k and v may be strided. */
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

#include "device/cpu/simd/poly.h"

/* ---- whole windows ----------------------------------------------------------------------------------------------- */

typedef struct windows {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t heads, width, tiles;
} windows;

mx_cpu_scratch mx_cpu_fast_attention_scratch(const mx_call *call) {
    int64_t width = call->inputs[0].dims[2] / call->attrs->heads;
    return (mx_cpu_scratch){.slot = (size_t)mx_attn_tile_floats(width) * sizeof(float)};
}

/* One entry, one head, a tile of queries. */
static void run_tile(void *context, int64_t piece, int slot) {
    const windows *w = context;
    const mx_tensor *q = &w->call->inputs[0], *k = &w->call->inputs[1], *v = &w->call->inputs[2];
    const mx_tensor *y = &w->call->outputs[0];
    int64_t first = piece % w->tiles * MX_ATTN_QUERIES, head = piece / w->tiles % w->heads;
    int64_t entry = piece / w->tiles / w->heads, shift = head * w->width, keys = k->dims[1];
    int64_t visible = w->call->attrs->causal ? first + keys - q->dims[1] + 1 : keys;
    w->kernels->attn_tile((float *)y->data + entry * y->strides[0] + first * y->strides[1] + shift, y->strides[1],
                          (const float *)q->data + entry * q->strides[0] + first * q->strides[1] + shift,
                          q->strides[1], MX_MIN(MX_ATTN_QUERIES, q->dims[1] - first),
                          (const float *)k->data + entry * k->strides[0] + shift, k->strides[1],
                          (const float *)v->data + entry * v->strides[0] + shift, v->strides[1], keys, w->width,
                          (float)w->call->attrs->scale, visible, mx_cpu_slot(w->call, w->scratch, slot));
}

mxw_status mx_cpu_fast_attention(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *q = &call->inputs[0];
    windows w = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_attention_scratch(call),
                 .heads = call->attrs->heads, .width = q->dims[2] / call->attrs->heads,
                 .tiles = (q->dims[1] + MX_ATTN_QUERIES - 1) / MX_ATTN_QUERIES};
    mx_cpu_for(call, q->dims[0] * w.heads * w.tiles, run_tile, &w);
    return MXW_OK;
}

/* ---- rows over a window ------------------------------------------------------------------------------------------ */

#define TILE_ROWS 16   /* rows of a window that read its keys and values together */
#define WAVE_ROWS 64   /* rows at a time: what is kept of each range for them stays small */

typedef struct listening {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t d, heads, width, keys, ranges;
    mx_cpu_tiles by_window;
    int64_t first_tile, n_tiles, first_row;   /* of the wave; rows count in the order by window */
    float *q;        /* [rows of the wave][d], multiplied by scale log2 e */
    float *parts;    /* [rows of the wave][ranges][part] */
    int64_t part;    /* floats: d, and two for each head */
} listening;

static int64_t wave_rows(const mx_call *call) { return MX_MIN(call->inputs[0].dims[0], WAVE_ROWS); }
static int64_t ranges_of(const mx_call *call) { return (call->inputs[1].dims[1] + MX_ATTN_RANGE - 1) / MX_ATTN_RANGE; }

mx_cpu_scratch mx_cpu_fast_attention_window_scratch(const mx_call *call) {
    int64_t d = call->inputs[0].dims[1], heads = call->attrs->heads, rows = wave_rows(call);
    int64_t floats = rows * (d + ranges_of(call) * (d + 2 * heads));
    return (mx_cpu_scratch){.slot = (size_t)(MX_MIN(rows, TILE_ROWS) * heads * MX_ATTN_RANGE) * sizeof(float),
                            .shared = MX_CPU_ALIGN(mx_cpu_order_bytes(call)) + (size_t)floats * sizeof(float)};
}

/* One tile of rows over one range of keys. Tiles are the inner loop: those of one window read the same keys while they
 * are in the cache. */
static void run_range(void *context, int64_t piece, int slot) {
    const listening *l = context;
    const int32_t *starts = l->by_window.starts, *window = l->call->inputs[3].data;
    int64_t tile = l->first_tile + piece % l->n_tiles, range = piece / l->n_tiles, first = range * MX_ATTN_RANGE;
    int64_t row = starts[tile] - l->first_row, heard = window[l->by_window.order[starts[tile]]];
    mxw_dtype dtype = l->call->inputs[1].dtype;
    int64_t from = (heard * l->keys + first) * l->d * (int64_t)mx_dtype_bytes(dtype);
    l->kernels->attn_partial(l->parts + (row * l->ranges + range) * l->part, l->ranges * l->part, l->q + row * l->d,
                             starts[tile + 1] - starts[tile], (const char *)l->call->inputs[1].data + from,
                             (const char *)l->call->inputs[2].data + from, dtype, l->d,
                             MX_MIN(MX_ATTN_RANGE, l->keys - first), l->heads, l->width,
                             mx_cpu_slot(l->call, l->scratch, slot));
}

static void run_join(void *context, int64_t row, int slot) {
    const listening *l = context;
    (void)slot;
    l->kernels->attn_combine((float *)l->call->outputs[0].data + l->by_window.order[l->first_row + row] * l->d,
                             l->parts + row * l->ranges * l->part, l->part, l->ranges, l->heads, l->width);
}

/* The tiles from first_tile on that fit into a wave. */
static void run_wave(listening *l, int64_t tiles) {
    const int32_t *starts = l->by_window.starts;
    const mx_tensor *q = &l->call->inputs[0];
    const float scale = (float)l->call->attrs->scale * MX_LOG2_E;
    l->first_row = starts[l->first_tile];
    for (l->n_tiles = 0; l->first_tile + l->n_tiles < tiles; l->n_tiles++)
        if (starts[l->first_tile + l->n_tiles + 1] - l->first_row > WAVE_ROWS)
            break;
    int64_t rows = starts[l->first_tile + l->n_tiles] - l->first_row;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = (const float *)q->data + l->by_window.order[l->first_row + r] * q->strides[0];
        l->kernels->mul_f32(l->q + r * l->d, row, 1, &scale, 0, l->d);
    }
    mx_cpu_for(l->call, l->ranges * l->n_tiles, run_range, l);
    mx_cpu_for(l->call, rows, run_join, l);
}

mxw_status mx_cpu_fast_attention_window(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *in = call->inputs;
    mxw_status status = mx_cpu_check_index(call, "window", &in[3], in[1].dims[0]);
    listening l = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_attention_window_scratch(call),
                   .d = in[0].dims[1], .heads = call->attrs->heads, .keys = in[1].dims[1], .ranges = ranges_of(call)};
    if (status < 0)
        return status;
    l.width = l.d / l.heads;
    l.part = l.d + 2 * l.heads;
    l.q = (float *)(void *)((char *)call->scratch + MX_CPU_ALIGN(mx_cpu_order_bytes(call)));
    l.parts = l.q + wave_rows(call) * l.d;
    int64_t tiles = mx_cpu_order_rows(call, TILE_ROWS, call->scratch, &l.by_window);
    for (; l.first_tile < tiles; l.first_tile += l.n_tiles)
        run_wave(&l, tiles);
    return MXW_OK;
}

/* ---- rows over a cache ------------------------------------------------------------------------------------------- */

#define GROUP_ROWS 8   /* rows of a piece: sequences share most of their past */

typedef struct remembering {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t groups, width;
} remembering;

mx_cpu_scratch mx_cpu_fast_attention_cached_scratch(const mx_call *call) {
    int64_t width = call->inputs[0].dims[1] / call->attrs->heads, round = MX_SUM_LANES - 1;
    int64_t lanes = (width + round) / MX_SUM_LANES + (call->inputs[5].dims[1] + round) / MX_SUM_LANES;
    return (mx_cpu_scratch){.slot = (size_t)(lanes * MX_SUM_LANES) * sizeof(float)};
}

/* Asks for what the first row of a group reads of x: rows of one head, anywhere in the cache. The others read much of
 * it again. */
static void ask_cells(const char *x, int64_t apart, int64_t bytes, const int32_t *cells, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t at = 0; at < bytes; at += 64)
            __builtin_prefetch(x + cells[j] * apart + at, 0, 2);
}

/* One head, a group of rows. */
static void run_cells(void *context, int64_t piece, int slot) {
    const remembering *m = context;
    const mx_tensor *in = m->call->inputs, *y = &m->call->outputs[0];
    const int32_t *seq = in[3].data, *pos = in[4].data;
    int64_t first = piece % m->groups * GROUP_ROWS, shift = piece / m->groups * m->width;
    int64_t element = (int64_t)mx_dtype_bytes(in[1].dtype);
    for (int i = 1; i <= 2; i++)
        ask_cells((const char *)in[i].data + shift * element, in[i].strides[0] * element, m->width * element,
                  (const int32_t *)in[5].data + seq[first] * in[5].dims[1], (int64_t)pos[first] + 1);
    for (int64_t r = first; r < MX_MIN(first + GROUP_ROWS, in[0].dims[0]); r++)
        m->kernels->attn_paged((float *)y->data + r * y->strides[0] + shift,
                               (const float *)in[0].data + r * in[0].strides[0] + shift,
                               (const char *)in[1].data + shift * element, (const char *)in[2].data + shift * element,
                               in[1].dtype, (const int32_t *)in[5].data + seq[r] * in[5].dims[1], (int64_t)pos[r] + 1,
                               in[1].strides[0], m->width, (float)m->call->attrs->scale,
                               mx_cpu_slot(m->call, m->scratch, slot));
}

mxw_status mx_cpu_fast_attention_cached(const mx_call *call, const mx_kernels *kernels) {
    mxw_status status = mx_cpu_check_cells(call);
    remembering m = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_attention_cached_scratch(call),
                     .groups = (call->inputs[0].dims[0] + GROUP_ROWS - 1) / GROUP_ROWS,
                     .width = call->inputs[0].dims[1] / call->attrs->heads};
    if (status >= 0)
        mx_cpu_for(call, m.groups * call->attrs->heads, run_cells, &m);
    return status;
}

/* ---- names of kernels -------------------------------------------------------------------------------------------- */

static char names[3][48];
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    const mx_isa *best = mx_cpu_best_isa();
    snprintf(names[0], sizeof(names[0]), "attention %dx%d f32 %s", MX_ATTN_QUERIES, MX_ATTN_KEYS,
             mx_cpu_set_of(best, offsetof(mx_kernels, attn_tile)));
    snprintf(names[1], sizeof(names[1]), "attention ranges of %d f32 %s", MX_ATTN_RANGE,
             mx_cpu_set_of(best, offsetof(mx_kernels, attn_partial)));
    snprintf(names[2], sizeof(names[2]), "attention cells f32 %s",
             mx_cpu_set_of(best, offsetof(mx_kernels, attn_paged)));
}

const char *mx_cpu_attention_kernel(const mx_call *call) {
    pthread_once(&named, make_names);
    return names[call->op == MX_OP_ATTENTION ? 0 : call->op == MX_OP_ATTENTION_WINDOW ? 1 : 2];
}
