/* device/cpu/simd/attention_tile_tmpl.c - attention over whole windows: flash attention with queries across the lanes.
 *
 * A panel is PANEL queries, transposed. Scores s [keys][PANEL] are outer products of a key's elements, broadcast, and
 * the panel's rows. The online softmax runs down the columns and needs no sum across lanes. Results o [width][PANEL]
 * are outer products of a value's elements and rows of weights. The panels of a tile share each block of keys while it
 * is in the cache. The same chains as in ref/attention_tile.c. */
#include "device/cpu/simd/simd.h"

#define REGS (VL == 4 ? 4 : 3)                /* vectors of a panel */
#define ROWS (VL == 16 ? 8 : 4)               /* keys, or elements of the width, of a micro-tile: ROWS * REGS sums */
#define PANEL (REGS * VL)                     /* queries of a panel */
#define PANELS (MX_ATTN_QUERIES / PANEL)      /* that share a block of keys */

/* The state of one panel: transposed queries, results, and the online softmax's row maxima and sums. */
typedef struct panel {
    float *q, *o;        /* [padded][PANEL] */
    float *top, *sum;    /* [PANEL] */
    int64_t padded;      /* width, rounded up to ROWS */
} panel;

typedef struct key_block {
    float *k, *v;        /* [MX_ATTN_KEYS][padded] */
    float *s;            /* [MX_ATTN_KEYS][PANEL] */
    int64_t n;           /* keys */
    const float *next_k, *next_v;   /* the n_next rows of the block after this one, to be prefetched */
    int64_t ldk, ldv, n_next;
} key_block;

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* n queries, scaled, as the panel's q; o, top and sum as they are before the first key. */
static void pack_queries(const panel *p, const float *q, int64_t ldq, int64_t n, int64_t width, float scale) {
    const vf by = vf_set1(scale);
    for (int64_t i = 0; i < PANEL; i += VL) {
        vf_store(p->top + i, vf_set1(-INFINITY));
        vf_store(p->sum + i, vf_zero());
        for (int64_t c = 0; c < p->padded; c += VL) {
            vf x[VL];
            for (int64_t r = 0; r < VL; r++)
                x[r] = i + r < n ? vf_load_first(q + (i + r) * ldq + c, width - c) : vf_zero();
            vf_transpose(x);
            for (int64_t r = 0; r < MX_MIN(VL, p->padded - c); r++) {
                vf_store(p->q + (c + r) * PANEL + i, vf_mul(x[r], by));
                vf_store(p->o + (c + r) * PANEL + i, vf_zero());
            }
        }
    }
}

/* n rows to adjacent rows of `padded` floats; zeros pad each row, and up to `rows` of them. */
static void pack_rows(float *to, const float *from, int64_t ld, int64_t n, int64_t rows, int64_t width,
                      int64_t padded) {
    for (int64_t j = 0; j < n; j++, to += padded, from += ld) {
        int64_t c = 0;
        for (; c + VL <= width; c += VL)
            vf_store(to + c, vf_load(from + c));
        if (c < padded)
            vf_store_first(to + c, vf_load_first(from + c, width - c), padded - c);
    }
    memset(to, 0, (size_t)((rows - n) * padded) * sizeof(float));
}

static void store(const panel *p, float *y, int64_t ldy, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i += VL) {
        const vf share = vf_div(vf_set1(1.0f), vf_load(p->sum + i));
        for (int64_t c = 0; c < width; c += VL) {
            vf x[VL];
            for (int64_t r = 0; r < VL; r++)
                x[r] = c + r < width ? vf_mul(vf_load(p->o + (c + r) * PANEL + i), share) : share;
            vf_transpose(x);
            for (int64_t r = 0; r < MX_MIN(VL, n - i); r++)
                vf_store_first(y + (i + r) * ldy + c, x[r], width - c);
        }
    }
}

/* ---- micro-tiles ------------------------------------------------------------------------------------------------- */

/* sum[r][h] += the products over c of k[r][c] and q[c][h], for `nv` vectors of queries. */
MX_INLINE void multiply_keys(vf sum[ROWS][REGS], const float *k, const float *q, int64_t padded, const int nv) {
#ifdef VF_FMA_LANE   /* elements of a vector are factors: four of a key at once */
#define ELEMENT(lane)                                                                                                  \
    _Pragma("GCC unroll 4") for (int h = 0; h < nv; h++) {                                                             \
        vf x = vf_load(q + (lane) * PANEL + h * VL);                                                                   \
        _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++)                                                         \
            sum[r][h] = VF_FMA_LANE(sum[r][h], x, key[r], lane);                                                       \
    }
    for (int64_t c = 0; c < padded; c += 4, q += 4 * PANEL) {
        vf key[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++)
            key[r] = vf_load(k + r * padded + c);
        ELEMENT(0) ELEMENT(1) ELEMENT(2) ELEMENT(3)
    }
#undef ELEMENT
#else
    const float *key[ROWS] = {k};
#pragma GCC unroll 8
    for (int r = 1; r < ROWS; r++)
        key[r] = key[r - 1] + padded;
    for (int64_t c = 0; c < padded; c++, q += PANEL) {
        vf x[REGS];
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            x[h] = vf_load(q + h * VL);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            vf e = vf_set1(key[r][c]);
#pragma GCC unroll 4
            for (int h = 0; h < nv; h++)
                sum[r][h] = vf_fma(e, x[h], sum[r][h]);
        }
    }
#endif
}

/* Scores of ROWS keys; top becomes the largest of itself and them. */
MX_INLINE void score_tile(float *s, const float *k, const float *q, int64_t padded, vf top[REGS], const int nv) {
    vf sum[ROWS][REGS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            sum[r][h] = vf_zero();
    multiply_keys(sum, k, q, padded, nv);
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            vf_store(s + r * PANEL + h * VL, sum[r][h]);
#pragma GCC unroll 4
    for (int h = 0; h < nv; h++) {
#pragma GCC unroll 4
        for (int step = 1; step < ROWS; step *= 2)   /* pairs, then pairs of pairs */
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r += 2 * step)
                sum[r][h] = vf_maxnum(sum[r][h], sum[r + step][h]);
        top[h] = vf_maxnum(sum[0][h], top[h]);
    }
}

/* Scores become weights; the panel's maxima and sums move on; keep: the rescale factor of the results so far. */
MX_INLINE void softmax(const panel *p, const key_block *b, const vf top[REGS], vf keep[REGS], const int nv) {
    vf sum[REGS];
#pragma GCC unroll 4
    for (int h = 0; h < nv; h++) {
        sum[h] = vf_zero();
        keep[h] = vf_exp2(vf_sub(vf_load(p->top + h * VL), top[h]));
        vf_store(p->top + h * VL, top[h]);
    }
    for (float *s = b->s; s < b->s + b->n * PANEL; s += PANEL)
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++) {
            vf w = vf_exp2(vf_sub(vf_load(s + h * VL), top[h]));
            sum[h] = vf_add(sum[h], w);
            vf_store(s + h * VL, w);
        }
#pragma GCC unroll 4
    for (int h = 0; h < nv; h++)
        vf_store(p->sum + h * VL, vf_fma(vf_load(p->sum + h * VL), keep[h], sum[h]));
}

/* ROWS elements of the width: o = o * keep + values times weights. */
MX_INLINE void value_tile(float *o, const float *v, int64_t padded, const float *s, int64_t n, const vf keep[REGS],
                          const int nv) {
    vf sum[ROWS][REGS];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            sum[r][h] = vf_mul(vf_load(o + r * PANEL + h * VL), keep[h]);
    for (int64_t j = 0; j < n; j++, v += padded, s += PANEL) {
#ifdef VF_FMA_LANE
        const vf e = vf_load(v);
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++) {
            vf w = vf_load(s + h * VL);
            sum[0][h] = VF_FMA_LANE(sum[0][h], w, e, 0);
            sum[1][h] = VF_FMA_LANE(sum[1][h], w, e, 1);
            sum[2][h] = VF_FMA_LANE(sum[2][h], w, e, 2);
            sum[3][h] = VF_FMA_LANE(sum[3][h], w, e, 3);
        }
#else
        vf x[REGS];
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            x[h] = vf_load(s + h * VL);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            vf e = vf_set1(v[r]);
#pragma GCC unroll 4
            for (int h = 0; h < nv; h++)
                sum[r][h] = vf_fma(e, x[h], sum[r][h]);
        }
#endif
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < nv; h++)
            vf_store(o + r * PANEL + h * VL, sum[r][h]);
}

/* ---- a block of keys for one panel ------------------------------------------------------------------------------- */

/* The causal mask: query i of the panel sees the block's keys below visible + i; top becomes the largest of those. */
MX_INLINE void mask(const panel *p, const key_block *b, int64_t visible, vf top[REGS], const int nv) {
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < PANEL && visible + i <= j; i++)
            b->s[j * PANEL + i] = -INFINITY;
    for (int h = 0; h < nv; h++) {
        top[h] = vf_load(p->top + h * VL);
        for (int64_t j = 0; j < b->n; j++)
            top[h] = vf_maxnum(vf_load(b->s + j * PANEL + h * VL), top[h]);
    }
}

/* Each panel prefetches its share of the next block's rows. */
MX_INLINE void prefetch(const key_block *b, int64_t row, int64_t padded) {
    if (row < b->n_next)
        for (int64_t c = 0; c < padded; c += 16) {
            __builtin_prefetch(b->next_k + row * b->ldk + c, 0, 2);
            __builtin_prefetch(b->next_v + row * b->ldv + c, 0, 2);
        }
}

/* The block's keys for `nv` vectors of the index-th panel's queries. */
MX_INLINE void take_keys(const panel *p, const key_block *b, int64_t index, int64_t visible, const int nv) {
    vf keep[REGS], top[REGS];
#pragma GCC unroll 4
    for (int h = 0; h < nv; h++)
        top[h] = vf_load(p->top + h * VL);
    for (int64_t j = 0; j < b->n; j += ROWS) {
        if (j % PANELS == 0)
            prefetch(b, index * MX_ATTN_KEYS / PANELS + j / PANELS, p->padded);
        score_tile(b->s + j * PANEL, b->k + j * p->padded, p->q, p->padded, top, nv);
    }
    if (visible < b->n || b->n % ROWS)
        mask(p, b, visible, top, nv);
    softmax(p, b, top, keep, nv);
    for (int64_t c = 0; c < p->padded; c += ROWS)
        value_tile(p->o + c * PANEL, b->v + c, p->padded, b->s, b->n, keep, nv);
}

static void take_keys_of(const panel *p, const key_block *b, int64_t index, int64_t visible, int64_t queries) {
    if (REGS > 3 && queries > 3 * VL)
        take_keys(p, b, index, visible, REGS);
    else if (queries > 2 * VL)
        take_keys(p, b, index, visible, 3);
    else if (queries > VL)
        take_keys(p, b, index, visible, 2);
    else
        take_keys(p, b, index, visible, 1);
}

void MX_FAST(attn_tile)(float *y, int64_t ldy, const float *q, int64_t ldq, int64_t queries, const float *k,
                        int64_t ldk, const float *v, int64_t ldv, int64_t keys, int64_t width, float scale,
                        int64_t visible, float *scratch) {
    const int64_t padded = (width + ROWS - 1) / ROWS * ROWS, panels = (queries + PANEL - 1) / PANEL;
    panel p[PANELS];
    key_block b = {.k = scratch, .v = scratch + MX_ATTN_KEYS * padded, .s = scratch + 2 * MX_ATTN_KEYS * padded,
                   .ldk = ldk, .ldv = ldv};
    float *at = b.s + MX_ATTN_KEYS * PANEL;
    keys = MX_MIN(keys, visible + queries - 1);
    for (int64_t i = 0; i < panels; i++, at += PANEL * (2 * padded + 2)) {
        p[i] = (panel){.q = at, .o = at + PANEL * padded, .top = at + 2 * PANEL * padded,
                       .sum = at + PANEL * (2 * padded + 1), .padded = padded};
        pack_queries(&p[i], q + i * PANEL * ldq, ldq, MX_MIN(PANEL, queries - i * PANEL), width, scale * MX_LOG2_E);
    }
    for (int64_t key = 0; key < keys; key += MX_ATTN_KEYS) {
        b.n = MX_MIN(MX_ATTN_KEYS, keys - key);
        b.n_next = MX_MIN(MX_ATTN_KEYS, keys - key - b.n);
        b.next_k = k + (key + b.n) * ldk;
        b.next_v = v + (key + b.n) * ldv;
        pack_rows(b.k, k + key * ldk, ldk, b.n, (b.n + ROWS - 1) / ROWS * ROWS, width, padded);
        pack_rows(b.v, v + key * ldv, ldv, b.n, b.n, width, padded);
        for (int64_t i = 0; i < panels; i++)
            take_keys_of(&p[i], &b, i, visible + i * PANEL - key, queries - i * PANEL);
    }
    for (int64_t i = 0; i < panels; i++)
        store(&p[i], y + i * PANEL * ldy, ldy, MX_MIN(PANEL, queries - i * PANEL), width);
}
