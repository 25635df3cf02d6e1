/* device/cpu/neon/attention_tile.c - attention over whole windows, for 64-bit ARM.
 *
 * Queries lie across the lanes: a panel is 16 of them, transposed. Scores s [keys][16] are products of a key's
 * elements with the panel's rows; the softmax runs down the columns and needs no sum across lanes; results
 * o [width][16] are products of a value's elements with rows of weights. The same chains as in ref/attention_tile.c. */
#include "device/cpu/attention/attn_loops.h"

#include <math.h>
#include <string.h>

#include "device/cpu/neon/math.h"

#define LANES 4
#define REGS 4                       /* registers of a panel */
#define PANEL (REGS * LANES)         /* queries of a panel */
#define TURNS (MX_ATTN_QUERIES / PANEL)   /* panels that share a block of keys */
#define ROWS 4                       /* keys, or elements of the width, that a tile takes: 16 accumulators */

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static void pack_queries(const mx_panel *p, const float *q, int64_t ldq, int64_t n, int64_t width, float scale) {
    memset(p->q, 0, (size_t)(p->padded * PANEL) * sizeof(float));
    memset(p->o, 0, (size_t)(p->padded * PANEL) * sizeof(float));
    for (int64_t i = 0; i < PANEL; i++) {
        p->top[i] = -INFINITY;
        p->sum[i] = 0;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < width; c++)
            p->q[c * PANEL + i] = q[i * ldq + c] * scale;
}

static void pack_rows(float *to, const float *from, int64_t ld, int64_t n, int64_t rows, int64_t width,
                      int64_t padded) {
    for (int64_t j = 0; j < n; j++, to += padded, from += ld) {
        memcpy(to, from, (size_t)width * sizeof(float));
        for (int64_t c = width; c < padded; c++)
            to[c] = 0;
    }
    memset(to, 0, (size_t)((rows - n) * padded) * sizeof(float));
}

static void store(const mx_panel *p, float *y, int64_t ldy, int64_t n, int64_t width) {
    for (int64_t i = 0; i < n; i++) {
        float share = 1.0f / p->sum[i];
        for (int64_t c = 0; c < width; c++)
            y[i * ldy + c] = p->o[c * PANEL + i] * share;
    }
}

/* ---- one block of keys ------------------------------------------------------------------------------------------- */

/* One element of four keys, lane `lane` of theirs. */
#define ELEMENT(lane)                                                                                                  \
    do {                                                                                                               \
        _Pragma("GCC unroll 4") for (int h = 0; h < REGS; h++) {                                                       \
            float32x4_t x = vld1q_f32(q + (lane) * PANEL + h * LANES);                                                 \
            _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++)                                                     \
                sum[r][h] = vfmaq_laneq_f32(sum[r][h], x, key[r], lane);                                               \
        }                                                                                                              \
    } while (0)

/* Scores of ROWS keys; top becomes the largest of itself and them. */
MX_INLINE void score_tile(float *s, const float *k, const float *q, int64_t padded, float32x4_t top[REGS]) {
    float32x4_t sum[ROWS][REGS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < REGS; h++)
            sum[r][h] = vdupq_n_f32(0);
    for (int64_t c = 0; c < padded; c += 4, q += 4 * PANEL) {
        float32x4_t key[ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++)
            key[r] = vld1q_f32(k + r * padded + c);
        ELEMENT(0);
        ELEMENT(1);
        ELEMENT(2);
        ELEMENT(3);
    }
#pragma GCC unroll 4
    for (int h = 0; h < REGS; h++)
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; r++) {
            vst1q_f32(s + r * PANEL + h * LANES, sum[r][h]);
            top[h] = vmaxnmq_f32(sum[r][h], top[h]);   /* of a number and a NaN the number */
        }
}

/* Scores become weights; top and sum move on; returns in keep what the results so far are to be multiplied by. */
MX_INLINE void weigh(const mx_panel *p, const mx_key_block *b, const float32x4_t top[REGS], float32x4_t keep[REGS]) {
    float32x4_t sum[REGS];
#pragma GCC unroll 4
    for (int h = 0; h < REGS; h++) {
        sum[h] = vdupq_n_f32(0);
        keep[h] = mx_exp2_4(vsubq_f32(vld1q_f32(p->top + h * LANES), top[h]));
        vst1q_f32(p->top + h * LANES, top[h]);
    }
    for (float *s = b->s; s < b->s + b->n * PANEL; s += PANEL)
#pragma GCC unroll 4
        for (int h = 0; h < REGS; h++) {
            float32x4_t w = mx_exp2_4(vsubq_f32(vld1q_f32(s + h * LANES), top[h]));
            sum[h] = vaddq_f32(sum[h], w);
            vst1q_f32(s + h * LANES, w);
        }
#pragma GCC unroll 4
    for (int h = 0; h < REGS; h++)
        vst1q_f32(p->sum + h * LANES, vfmaq_f32(sum[h], vld1q_f32(p->sum + h * LANES), keep[h]));
}

/* ROWS elements of the width: o = o * keep + values times weights. */
MX_INLINE void value_tile(float *o, const float *v, int64_t padded, const float *s, int64_t n,
                          const float32x4_t keep[REGS]) {
    float32x4_t sum[ROWS][REGS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < REGS; h++)
            sum[r][h] = vmulq_f32(vld1q_f32(o + r * PANEL + h * LANES), keep[h]);
    for (int64_t j = 0; j < n; j++, v += padded, s += PANEL) {
        const float32x4_t e = vld1q_f32(v);
#pragma GCC unroll 4
        for (int h = 0; h < REGS; h++) {
            float32x4_t w = vld1q_f32(s + h * LANES);
            sum[0][h] = vfmaq_laneq_f32(sum[0][h], w, e, 0);
            sum[1][h] = vfmaq_laneq_f32(sum[1][h], w, e, 1);
            sum[2][h] = vfmaq_laneq_f32(sum[2][h], w, e, 2);
            sum[3][h] = vfmaq_laneq_f32(sum[3][h], w, e, 3);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int h = 0; h < REGS; h++)
            vst1q_f32(o + r * PANEL + h * LANES, sum[r][h]);
}

/* Query i of the panel sees the block's keys below visible + i; top becomes the largest of what is seen. */
static void hide(const mx_panel *p, const mx_key_block *b, int64_t visible, float32x4_t top[REGS]) {
    for (int64_t j = 0; j < b->n; j++)
        for (int64_t i = 0; i < PANEL && visible + i <= j; i++)
            b->s[j * PANEL + i] = -INFINITY;
    for (int h = 0; h < REGS; h++) {
        top[h] = vld1q_f32(p->top + h * LANES);
        for (int64_t j = 0; j < b->n; j++)
            top[h] = vmaxnmq_f32(vld1q_f32(b->s + j * PANEL + h * LANES), top[h]);
    }
}

/* Each panel's turn asks for a share of the next block's rows, so that they are near when it comes. */
MX_INLINE void ask(const mx_key_block *b, int64_t turn, int64_t padded) {
    for (int64_t row = turn * MX_ATTN_KEYS / TURNS; row < MX_MIN(b->n_next, (turn + 1) * MX_ATTN_KEYS / TURNS); row++)
        for (int64_t c = 0; c < padded; c += 16) {
            __builtin_prefetch(b->next_k + row * b->ldk + c, 0, 2);
            __builtin_prefetch(b->next_v + row * b->ldv + c, 0, 2);
        }
}

static void take_keys(const mx_panel *p, const mx_key_block *b, int64_t turn, int64_t visible, int64_t left) {
    float32x4_t keep[REGS], top[REGS];
    for (int h = 0; h < REGS; h++)
        top[h] = vld1q_f32(p->top + h * LANES);
    ask(b, turn, p->padded);
    for (int64_t j = 0; j < b->n; j += ROWS)
        score_tile(b->s + j * PANEL, b->k + j * p->padded, p->q, p->padded, top);
    if (visible < b->n || b->n % ROWS)
        hide(p, b, visible, top);
    weigh(p, b, top, keep);
    for (int64_t c = 0; c < p->padded; c += ROWS)
        value_tile(p->o + c * PANEL, b->v + c, p->padded, b->s, b->n, keep);
}

void MX_FAST(attn_tile)(float *y, int64_t ldy, const float *q, int64_t ldq, int64_t queries, const float *k,
                        int64_t ldk, const float *v, int64_t ldv, int64_t keys, int64_t width, float scale,
                        int64_t visible, float *scratch) {
    mx_attn_tile((mx_attn_tile_steps){PANEL, ROWS, pack_queries, pack_rows, take_keys, store},
                 (mx_queries){y, ldy, q, ldq, queries}, (mx_seen_keys){k, v, ldk, ldv, keys, visible}, width, scale,
                 scratch);
}
