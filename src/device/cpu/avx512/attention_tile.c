/* device/cpu/avx512/attention_tile.c - attention over whole windows, for AVX-512.
 *
 * Queries lie across the lanes: a panel is 48 of them, transposed. Scores s [keys][48] are products of a key's
 * elements, spread, with the panel's rows; the softmax runs down the columns and needs no sum across lanes; results
 * o [width][48] are products of a value's elements, spread, with rows of weights. The same chains as in
 * ref/attention_tile.c. */
#include "device/cpu/attention/attn_loops.h"

#include <math.h>
#include <string.h>

#include "device/cpu/avx512/math.h"

#define LANES 16
#define PANEL (3 * LANES)   /* queries of a panel */
#define TURNS (MX_ATTN_QUERIES / PANEL)   /* panels that share a block of keys */
#define ROWS 8              /* keys, or elements of the width, that a tile takes: 24 accumulators */

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

/* A mask of the first n lanes; all for 16 and more, none for less than 1. */
MX_INLINE __mmask16 first(int64_t n) { return (__mmask16)(n >= 16 ? 0xffff : n <= 0 ? 0 : (1u << n) - 1); }

static void pack_queries(const mx_panel *p, const float *q, int64_t ldq, int64_t n, int64_t width, float scale) {
    const __m512 by = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < PANEL; i += LANES) {
        _mm512_store_ps(p->top + i, _mm512_set1_ps(-INFINITY));
        _mm512_store_ps(p->sum + i, _mm512_setzero_ps());
        for (int64_t c = 0; c < p->padded; c += LANES) {
            __m512 x[16];
            for (int64_t r = 0; r < 16; r++)
                x[r] = i + r < n ? _mm512_maskz_loadu_ps(first(width - c), q + (i + r) * ldq + c) : _mm512_setzero_ps();
            mx_transpose16(x);
            for (int64_t r = 0; r < MX_MIN(16, p->padded - c); r++) {
                _mm512_store_ps(p->q + (c + r) * PANEL + i, _mm512_mul_ps(x[r], by));
                _mm512_store_ps(p->o + (c + r) * PANEL + i, _mm512_setzero_ps());
            }
        }
    }
}

static void pack_rows(float *to, const float *from, int64_t ld, int64_t n, int64_t rows, int64_t width,
                      int64_t padded) {
    for (int64_t j = 0; j < n; j++, to += padded, from += ld) {
        int64_t c = 0;
        for (; c + LANES <= width; c += LANES)
            _mm512_storeu_ps(to + c, _mm512_loadu_ps(from + c));
        if (c < padded)
            _mm512_mask_storeu_ps(to + c, first(padded - c), _mm512_maskz_loadu_ps(first(width - c), from + c));
    }
    memset(to, 0, (size_t)((rows - n) * padded) * sizeof(float));
}

static void store(const mx_panel *p, float *y, int64_t ldy, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i += LANES) {
        const __m512 share = _mm512_div_ps(_mm512_set1_ps(1.0f), _mm512_load_ps(p->sum + i));
        for (int64_t c = 0; c < width; c += LANES) {
            __m512 x[16];
            for (int64_t r = 0; r < 16; r++)
                x[r] = c + r < width ? _mm512_mul_ps(_mm512_load_ps(p->o + (c + r) * PANEL + i), share) : share;
            mx_transpose16(x);
            for (int64_t r = 0; r < MX_MIN(16, n - i); r++)
                _mm512_mask_storeu_ps(y + (i + r) * ldy + c, first(width - c), x[r]);
        }
    }
}

/* ---- one block of keys ------------------------------------------------------------------------------------------- */

/* Scores of ROWS keys for `nv` registers of queries; top becomes the largest of itself and them. */
MX_INLINE void score_tile(float *s, const float *k, const float *q, int64_t padded, __m512 top[3], const int nv) {
    __m512 sum[ROWS][3];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            sum[r][h] = _mm512_setzero_ps();
    const float *k0 = k, *k1 = k0 + padded, *k2 = k1 + padded, *k3 = k2 + padded, *k4 = k3 + padded,
                *k5 = k4 + padded, *k6 = k5 + padded, *k7 = k6 + padded;
    for (int64_t c = 0; c < padded; c++, q += PANEL) {
        __m512 x[3];
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            x[h] = _mm512_load_ps(q + h * LANES);
#define KEY(r)                                                                                                         \
    {                                                                                                                  \
        __m512 e = _mm512_set1_ps(k##r[c]);                                                                            \
        for (int h = 0; h < nv; h++)                                                                                   \
            sum[r][h] = _mm512_fmadd_ps(e, x[h], sum[r][h]);                                                           \
    }
        KEY(0) KEY(1) KEY(2) KEY(3) KEY(4) KEY(5) KEY(6) KEY(7)
#undef KEY
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            _mm512_store_ps(s + r * PANEL + h * LANES, sum[r][h]);
#pragma GCC unroll 3
    for (int h = 0; h < nv; h++) {
        __m512 a = _mm512_max_ps(_mm512_max_ps(sum[0][h], sum[1][h]), _mm512_max_ps(sum[2][h], sum[3][h]));
        __m512 b = _mm512_max_ps(_mm512_max_ps(sum[4][h], sum[5][h]), _mm512_max_ps(sum[6][h], sum[7][h]));
        top[h] = _mm512_max_ps(_mm512_max_ps(a, b), top[h]);
    }
}

/* Scores become weights; top and sum move on; returns in keep what the results so far are to be multiplied by. */
MX_INLINE void weigh(const mx_panel *p, const mx_key_block *b, const __m512 top[3], __m512 keep[3], const int nv) {
    __m512 sum[3];
#pragma GCC unroll 3
    for (int h = 0; h < nv; h++) {
        sum[h] = _mm512_setzero_ps();
        keep[h] = mx_exp2_16(_mm512_sub_ps(_mm512_load_ps(p->top + h * LANES), top[h]));
        _mm512_store_ps(p->top + h * LANES, top[h]);
    }
    for (float *s = b->s; s < b->s + b->n * PANEL; s += PANEL)
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++) {
            __m512 w = mx_exp2_16(_mm512_sub_ps(_mm512_load_ps(s + h * LANES), top[h]));
            sum[h] = _mm512_add_ps(sum[h], w);
            _mm512_store_ps(s + h * LANES, w);
        }
#pragma GCC unroll 3
    for (int h = 0; h < nv; h++)
        _mm512_store_ps(p->sum + h * LANES, _mm512_fmadd_ps(_mm512_load_ps(p->sum + h * LANES), keep[h], sum[h]));
}

/* ROWS elements of the width: o = o * keep + values times weights. */
MX_INLINE void value_tile(float *o, const float *v, int64_t padded, const float *s, int64_t n, const __m512 keep[3],
                          const int nv) {
    __m512 sum[ROWS][3];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            sum[r][h] = _mm512_mul_ps(_mm512_load_ps(o + r * PANEL + h * LANES), keep[h]);
    for (int64_t j = 0; j < n; j++, v += padded, s += PANEL) {
        __m512 x[3];
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            x[h] = _mm512_load_ps(s + h * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            __m512 e = _mm512_set1_ps(v[r]);
#pragma GCC unroll 3
            for (int h = 0; h < nv; h++)
                sum[r][h] = _mm512_fmadd_ps(e, x[h], sum[r][h]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 3
        for (int h = 0; h < nv; h++)
            _mm512_store_ps(o + r * PANEL + h * LANES, sum[r][h]);
}

/* Query i of the panel sees the block's keys below visible + i; top becomes the largest of what is seen. */
MX_INLINE void hide(const mx_panel *p, const mx_key_block *b, int64_t visible, __m512 top[3], const int nv) {
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < PANEL && visible + i <= j; i++)
            b->s[j * PANEL + i] = -INFINITY;
    for (int h = 0; h < nv; h++) {
        top[h] = _mm512_load_ps(p->top + h * LANES);
        for (int64_t j = 0; j < b->n; j++)
            top[h] = _mm512_max_ps(_mm512_load_ps(b->s + j * PANEL + h * LANES), top[h]);
    }
}

/* Each panel's turn asks for a share of the next block's rows, so that they are near when it comes. */
MX_INLINE void ask(const mx_key_block *b, int64_t row, int64_t padded) {
    if (row < b->n_next)
        for (int64_t c = 0; c < padded; c += 16) {
            _mm_prefetch(b->next_k + row * b->ldk + c, _MM_HINT_T1);
            _mm_prefetch(b->next_v + row * b->ldv + c, _MM_HINT_T1);
        }
}

MX_INLINE void take_keys(const mx_panel *p, const mx_key_block *b, int64_t turn, int64_t visible, const int nv) {
    __m512 keep[3], top[3];
#pragma GCC unroll 3
    for (int h = 0; h < nv; h++)
        top[h] = _mm512_load_ps(p->top + h * LANES);
    for (int64_t j = 0; j < b->n; j += ROWS) {
        if (j % TURNS == 0)
            ask(b, turn * MX_ATTN_KEYS / TURNS + j / TURNS, p->padded);
        score_tile(b->s + j * PANEL, b->k + j * p->padded, p->q, p->padded, top, nv);
    }
    if (visible < b->n || b->n % ROWS)
        hide(p, b, visible, top, nv);
    weigh(p, b, top, keep, nv);
    for (int64_t c = 0; c < p->padded; c += ROWS)
        value_tile(p->o + c * PANEL, b->v + c, p->padded, b->s, b->n, keep, nv);
}

static void take_keys_of(const mx_panel *p, const mx_key_block *b, int64_t turn, int64_t visible, int64_t left) {
    if (left > 2 * LANES)
        take_keys(p, b, turn, visible, 3);
    else if (left > LANES)
        take_keys(p, b, turn, visible, 2);
    else
        take_keys(p, b, turn, visible, 1);
}

void MX_FAST(attn_tile)(float *y, int64_t ldy, const float *q, int64_t ldq, int64_t queries, const float *k,
                        int64_t ldk, const float *v, int64_t ldv, int64_t keys, int64_t width, float scale,
                        int64_t visible, float *scratch) {
    mx_attn_tile((mx_attn_tile_steps){PANEL, ROWS, pack_queries, pack_rows, take_keys_of, store},
                 (mx_queries){y, ldy, q, ldq, queries}, (mx_seen_keys){k, v, ldk, ldv, keys, visible}, width, scale,
                 scratch);
}
