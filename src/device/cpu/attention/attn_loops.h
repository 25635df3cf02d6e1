/* device/cpu/attention/attn_loops.h - what the attention kernels of every instruction set do the same way: how a tile
 * of queries passes its blocks of keys, and rows their range. Each set brings the steps, which are inlined here. */
#ifndef MX_CPU_ATTN_LOOPS_H
#define MX_CPU_ATTN_LOOPS_H
#include "device/cpu/kernels.h"
#include "device/cpu/simd/poly.h"

#define MX_INLINE static inline __attribute__((always_inline))

/* ---- a tile of queries over a window (attention.c) --------------------------------------------------------------- */

/* The state of one panel of queries, `of` of them, and of the block of keys at hand. */
typedef struct mx_panel {
    float *q, *o;        /* [padded][of] */
    float *top, *sum;    /* [of] */
    int64_t padded;      /* width, rounded up to the rows of a step */
} mx_panel;

typedef struct mx_key_block {
    float *k, *v;        /* [MX_ATTN_KEYS][padded] */
    float *s;            /* [MX_ATTN_KEYS][of] */
    int64_t n;           /* keys */
    const float *next_k, *next_v;   /* rows of the block after this one, to be asked for; n_next of them */
    int64_t ldk, ldv, n_next;
} mx_key_block;

typedef struct mx_attn_tile_steps {
    int64_t of, rows;    /* queries of a panel; keys, or elements of the width, of a step */
    /* n queries, scaled, as the panel's q; o, top and sum as they are before the first key. */
    void (*pack_queries)(const mx_panel *p, const float *q, int64_t ldq, int64_t n, int64_t width, float scale);
    /* n rows to rows of `padded` floats that lie together; zeros fill up each row, and up to `rows` of them. */
    void (*pack_rows)(float *to, const float *from, int64_t ld, int64_t n, int64_t rows, int64_t width, int64_t padded);
    /* The block's keys for the panel's `left` queries or fewer, the panel being the turn-th; query i of it sees keys
     * below visible + i. */
    void (*take_keys)(const mx_panel *p, const mx_key_block *b, int64_t turn, int64_t visible, int64_t left);
    void (*store)(const mx_panel *p, float *y, int64_t ldy, int64_t n, int64_t width);
} mx_attn_tile_steps;

typedef struct mx_queries {
    float *y;
    int64_t ldy;
    const float *q;
    int64_t ldq, n;
} mx_queries;

typedef struct mx_seen_keys {
    const float *k, *v;
    int64_t ldk, ldv, n, visible;
} mx_seen_keys;

/* The panels share each block of keys while it is near. */
MX_INLINE void mx_attn_tile(const mx_attn_tile_steps steps, const mx_queries of, const mx_seen_keys seen, int64_t width,
                            float scale, float *scratch) {
    const int64_t rows = steps.rows, padded = (width + rows - 1) / rows * rows;
    const int64_t panels = (of.n + steps.of - 1) / steps.of, keys = MX_MIN(seen.n, seen.visible + of.n - 1);
    mx_panel p[MX_ATTN_QUERIES / MX_SUM_LANES];   /* no panel is narrower */
    mx_key_block b = {.k = scratch, .v = scratch + MX_ATTN_KEYS * padded, .s = scratch + 2 * MX_ATTN_KEYS * padded,
                      .ldk = seen.ldk, .ldv = seen.ldv};
    float *at = b.s + MX_ATTN_KEYS * steps.of;
    for (int64_t i = 0; i < panels; i++, at += steps.of * (2 * padded + 2)) {
        p[i] = (mx_panel){.q = at, .o = at + steps.of * padded, .top = at + 2 * steps.of * padded,
                          .sum = at + steps.of * (2 * padded + 1), .padded = padded};
        steps.pack_queries(&p[i], of.q + i * steps.of * of.ldq, of.ldq, MX_MIN(steps.of, of.n - i * steps.of), width,
                           scale * MX_LOG2_E);
    }
    for (int64_t key = 0; key < keys; key += MX_ATTN_KEYS) {
        b.n = MX_MIN(MX_ATTN_KEYS, keys - key);
        b.n_next = MX_MIN(MX_ATTN_KEYS, keys - key - b.n);
        b.next_k = seen.k + (key + b.n) * seen.ldk;
        b.next_v = seen.v + (key + b.n) * seen.ldv;
        steps.pack_rows(b.k, seen.k + key * seen.ldk, seen.ldk, b.n, (b.n + rows - 1) / rows * rows, width, padded);
        steps.pack_rows(b.v, seen.v + key * seen.ldv, seen.ldv, b.n, b.n, width, padded);
        for (int64_t i = 0; i < panels; i++)
            steps.take_keys(&p[i], &b, i, seen.visible + i * steps.of - key, of.n - i * steps.of);
    }
    for (int64_t i = 0; i < panels; i++)
        steps.store(&p[i], of.y + i * steps.of * of.ldy, of.ldy, MX_MIN(steps.of, of.n - i * steps.of), width);
}

/* ---- rows of a decoder over a range of keys (decode.c) ----------------------------------------------------------- */

typedef struct mx_attn_partial_args {
    const float *k, *v, *q;
    int64_t ld, keys, heads, rows;
    float *s;            /* [rows][heads][MX_ATTN_RANGE] */
    float *part;
    int64_t stride;
} mx_attn_partial_args;

typedef struct mx_attn_partial_steps {
    int64_t keys, width;   /* keys of a step; of a head */
    void (*score)(const mx_attn_partial_args *f, int64_t first, int64_t head);
    /* Scores of n keys become weights; returns their sum. */
    float (*weigh)(float *s, int64_t n, float *top);
    void (*values)(const mx_attn_partial_args *f, int64_t first, int64_t head);
} mx_attn_partial_steps;

MX_INLINE void mx_attn_partial(const mx_attn_partial_steps steps, const mx_attn_partial_args f) {
    for (int64_t first = 0; first < f.keys; first += steps.keys)
        for (int64_t h = 0; h < f.heads; h++)
            steps.score(&f, first, h);
    for (int64_t r = 0; r < f.rows; r++)
        for (int64_t h = 0; h < f.heads; h++) {
            float *tops = f.part + r * f.stride + f.heads * steps.width;
            tops[f.heads + h] = steps.weigh(f.s + (r * f.heads + h) * MX_ATTN_RANGE, f.keys, &tops[h]);
        }
    for (int64_t first = 0; first < f.keys; first += steps.keys)
        for (int64_t h = 0; h < f.heads; h++)
            steps.values(&f, first, h);
}
#endif
