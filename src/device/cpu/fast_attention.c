/* device/cpu/fast_attention.c - attention in compiled calls: whole windows in tiles of queries, rows over a window in
 * ranges of keys, rows over a cache one by one.
 *
 * What holds: pieces are cut by shapes alone, at places that are fixed, and what crosses a piece is joined in order; a
 * row's bits depend neither on the rows beside it nor on the threads. Rows of q, k and v may lie apart. */
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdio.h>

/* ---- whole windows ----------------------------------------------------------------------------------------------- */

typedef struct windows {
    const mx_call *call;
    const mx_kernels *kernels;
    mx_cpu_scratch scratch;
    int64_t heads, width, tiles;
} windows;

mx_cpu_scratch mx_cpu_fast_attention_scratch(const mx_call *call) {
    int64_t width = call->inputs[0].dims[2] / call->attrs->heads;
    return (mx_cpu_scratch){.slot = (size_t)mx_attention_floats(width) * sizeof(float)};
}

/* One entry, one head, a tile of queries. */
static void run_tile(void *context, int64_t piece, int slot) {
    const windows *w = context;
    const mx_tensor *q = &w->call->inputs[0], *k = &w->call->inputs[1], *v = &w->call->inputs[2];
    const mx_tensor *y = &w->call->outputs[0];
    int64_t first = piece % w->tiles * MX_QUERIES, head = piece / w->tiles % w->heads;
    int64_t entry = piece / w->tiles / w->heads, shift = head * w->width, keys = k->dims[1];
    int64_t visible = w->call->attrs->causal ? first + keys - q->dims[1] + 1 : keys;
    w->kernels->attention_tile((float *)y->data + entry * y->strides[0] + first * y->strides[1] + shift, y->strides[1],
                               (const float *)q->data + entry * q->strides[0] + first * q->strides[1] + shift,
                               q->strides[1], MX_MIN(MX_QUERIES, q->dims[1] - first),
                               (const float *)k->data + entry * k->strides[0] + shift, k->strides[1],
                               (const float *)v->data + entry * v->strides[0] + shift, v->strides[1], keys, w->width,
                               (float)w->call->attrs->scale, visible, mx_cpu_slot(w->call, w->scratch, slot));
}

mxw_status mx_cpu_fast_attention(const mx_call *call, const mx_kernels *kernels) {
    const mx_tensor *q = &call->inputs[0];
    windows w = {.call = call, .kernels = kernels, .scratch = mx_cpu_fast_attention_scratch(call),
                 .heads = call->attrs->heads, .width = q->dims[2] / call->attrs->heads,
                 .tiles = (q->dims[1] + MX_QUERIES - 1) / MX_QUERIES};
    mx_cpu_for(call, q->dims[0] * w.heads * w.tiles, run_tile, &w);
    return MXW_OK;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static char names[1][48];
static pthread_once_t named = PTHREAD_ONCE_INIT;

static void make_names(void) {
    const char *isa = mx_cpu_best_isa()->name;
    snprintf(names[0], sizeof(names[0]), "attention %dx%d f32 %s", MX_QUERIES, MX_KEYS, isa);
}

const char *mx_cpu_attention_kernel(const mx_call *call) {
    pthread_once(&named, make_names);
    return names[0];
}
