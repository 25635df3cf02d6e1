/* device/cpu/neon/attention_decode.c - attention of a decoder's rows, for 64-bit ARM; heads 64 wide, other widths as in
 * ref/.
 *
 * Keys are read as they lie, four of one head at a time: dot products across sixteen lanes in four registers, whose
 * sums are taken together. What is read next is asked for meanwhile. The same sums in the same order as in
 * ref/attention_decode.c. */
#include "device/cpu/attention/attn_loops.h"

#include <math.h>

#include "device/cpu/neon/math.h"

#define WIDTH 64
#define KEYS 16     /* of a step */
#define FOUR 4      /* keys whose sums are taken together; also registers of sixteen lanes */

/* Lane i: the sum of x[i]'s lanes, the outer ones of two apart first. */
MX_INLINE float32x4_t quad_sums(float32x4_t x0, float32x4_t x1, float32x4_t x2, float32x4_t x3) {
    float32x2_t a = vadd_f32(vget_low_f32(x0), vget_high_f32(x0)), b = vadd_f32(vget_low_f32(x1), vget_high_f32(x1));
    float32x2_t c = vadd_f32(vget_low_f32(x2), vget_high_f32(x2)), d = vadd_f32(vget_low_f32(x3), vget_high_f32(x3));
    return vcombine_f32(vpadd_f32(a, b), vpadd_f32(c, d));
}

/* Lane i: the sum of the sixteen lanes x[0][i] .. x[3][i]. */
MX_INLINE float32x4_t sums(float32x4_t x[FOUR][FOUR]) {
    float32x4_t four[FOUR];
#pragma GCC unroll 4
    for (int g = 0; g < FOUR; g++)
        four[g] = quad_sums(x[g][0], x[g][1], x[g][2], x[g][3]);
    return vaddq_f32(vaddq_f32(four[0], four[1]), vaddq_f32(four[2], four[3]));
}

/* Scores of four keys for the query at q. */
MX_INLINE float32x4_t score_four(const float *const k[FOUR], const float *q) {
    float32x4_t x[FOUR][FOUR];
#pragma GCC unroll 4
    for (int g = 0; g < FOUR; g++)
#pragma GCC unroll 4
        for (int j = 0; j < FOUR; j++)
            x[g][j] = vmulq_f32(vld1q_f32(k[j] + 4 * g), vld1q_f32(q + 4 * g));
    for (int i = 16; i < WIDTH; i += 16)
#pragma GCC unroll 4
        for (int g = 0; g < FOUR; g++) {
            float32x4_t e = vld1q_f32(q + i + 4 * g);
#pragma GCC unroll 4
            for (int j = 0; j < FOUR; j++)
                x[g][j] = vfmaq_f32(x[g][j], vld1q_f32(k[j] + i + 4 * g), e);
        }
    return sums(x);
}

MX_INLINE void ask(const float *row) {
    for (int i = 0; i < WIDTH; i += 16)
        __builtin_prefetch(row + i);
}

/* Scores s [n rounded up to 16], -inf past n, become weights; returns their sum. */
MX_INLINE float weigh(float *s, int64_t n, float *top) {
    float32x4_t most = vdupq_n_f32(-INFINITY), lane[FOUR];
    for (int64_t j = n; j % KEYS; j++)
        s[j] = -INFINITY;
    for (int64_t j = 0; j < n; j += 4)
        most = vmaxnmq_f32(vld1q_f32(s + j), most);
    *top = vmaxnmvq_f32(most);
    for (int g = 0; g < FOUR; g++)
        lane[g] = vdupq_n_f32(0);
    for (int64_t j = 0; j < n; j += KEYS)
#pragma GCC unroll 4
        for (int g = 0; g < FOUR; g++) {
            float32x4_t w = mx_exp2_4(vsubq_f32(vld1q_f32(s + j + 4 * g), vdupq_n_f32(*top)));
            lane[g] = vaddq_f32(lane[g], w);
            vst1q_f32(s + j + 4 * g, w);
        }
    float32x4_t four = quad_sums(lane[0], lane[1], lane[2], lane[3]);
    return (vgetq_lane_f32(four, 0) + vgetq_lane_f32(four, 1)) + (vgetq_lane_f32(four, 2) + vgetq_lane_f32(four, 3));
}

/* ---- rows over a range of keys ----------------------------------------------------------------------------------- */

/* One head of a step: the scores of its keys for all rows. */
static void score(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    const float *k = f->k + first * f->ld + head * WIDTH, *four[FOUR];
    int64_t last = f->keys - first - 1;
    for (int64_t i = 0; i < MX_MIN(KEYS, last + 1); i += FOUR) {
        for (int64_t j = 0; j < FOUR; j++) {
            four[j] = k + MX_MIN(i + j, last) * f->ld;
            ask(last >= KEYS ? k + (KEYS + i + j) * f->ld : f->v + (i + j) * f->ld + head * WIDTH);
        }
        for (int64_t r = 0; r < f->rows; r++)
            vst1q_f32(f->s + (r * f->heads + head) * MX_ATTN_RANGE + first + i,
                      score_four(four, f->q + (r * f->heads + head) * WIDTH));
    }
}

/* A quarter of a head of a step: its values times the weights of `rows` rows, added to what there is. */
MX_INLINE void add_values(const mx_attn_partial_args *f, int64_t first, int64_t at, const float *s, float *o,
                          const int rows) {
    const float *v = f->v + first * f->ld + at;
    int64_t n = MX_MIN(KEYS, f->keys - first), step = f->heads * MX_ATTN_RANGE;
    float32x4_t sum[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sum[r][i] = first ? vld1q_f32(o + r * f->stride + 4 * i) : vdupq_n_f32(0);
    for (int64_t j = 0; j < n; j++, v += f->ld, s++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            float32x4_t x = vld1q_f32(v + 4 * i);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                sum[r][i] = vfmaq_n_f32(sum[r][i], x, s[r * step]);
        }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            vst1q_f32(o + r * f->stride + 4 * i, sum[r][i]);
}

static void values(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    int64_t next = MX_MIN(KEYS, f->keys - first - KEYS), asked = 0;
    for (int64_t row = 0; row < f->rows; row += 4) {
        for (; asked < next && asked * f->rows < (row + 4) * KEYS; asked++)
            ask(f->v + (first + KEYS + asked) * f->ld + head * WIDTH);
        const float *s = f->s + (row * f->heads + head) * MX_ATTN_RANGE + first;
        for (int64_t at = head * WIDTH; at < (head + 1) * WIDTH; at += 16) {
            float *o = f->part + row * f->stride + at;
            switch (MX_MIN(4, f->rows - row)) {
            case 4: add_values(f, first, at, s, o, 4); break;
            case 3: add_values(f, first, at, s, o, 3); break;
            case 2: add_values(f, first, at, s, o, 2); break;
            case 1: add_values(f, first, at, s, o, 1); break;
            }
        }
    }
}

void MX_FAST(attn_partial)(float *part, int64_t stride, const float *q, int64_t rows, const float *k, const float *v,
                           int64_t ld, int64_t keys, int64_t heads, int64_t width, float *scratch) {
    const mx_attn_partial_args f = {k, v, q, ld, keys, heads, rows, scratch, part, stride};
    if (width == WIDTH)
        mx_attn_partial((mx_attn_partial_steps){KEYS, WIDTH, score, weigh, values}, f);
    else
        MX_REF(attn_partial)(part, stride, q, rows, k, v, ld, keys, heads, width, scratch);
}

/* ---- a row over the cells of a cache ----------------------------------------------------------------------------- */

MX_INLINE void add_cell(float32x4_t sum[8], const float *row, float weight) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        sum[i] = vfmaq_n_f32(sum[i], vld1q_f32(row + 4 * i), weight);
}

/* Half a head: keys at even places and at odd places are two chains. */
static void add_cells(float *y, const float *v, const int32_t *cells, const float *s, int64_t n, int64_t ld,
                      float inverse) {
    float32x4_t sum[2][8];
    for (int i = 0; i < 8; i++)
        sum[0][i] = sum[1][i] = vdupq_n_f32(0);
    for (int64_t j = 0; j + 1 < n; j += 2) {
        add_cell(sum[0], v + cells[j] * ld, s[j]);
        add_cell(sum[1], v + cells[j + 1] * ld, s[j + 1]);
    }
    if (n % 2)
        add_cell(sum[0], v + cells[n - 1] * ld, s[n - 1]);
    for (int i = 0; i < 8; i++)
        vst1q_f32(y + 4 * i, vmulq_n_f32(vaddq_f32(sum[0][i], sum[1][i]), inverse));
}

void MX_FAST(attn_paged)(float *y, const float *q, const float *k, const float *v, const int32_t *cells, int64_t n,
                         int64_t ld, int64_t width, float scale, float *scratch) {
    float *s = scratch + WIDTH, top;
    if (width != WIDTH) {
        MX_REF(attn_paged)(y, q, k, v, cells, n, ld, width, scale, scratch);
        return;
    }
    for (int i = 0; i < WIDTH; i += 4)
        vst1q_f32(scratch + i, vmulq_n_f32(vld1q_f32(q + i), scale * MX_LOG2_E));
    for (int64_t first = 0; first < n; first += FOUR) {
        const float *four[FOUR];
        for (int64_t j = 0; j < FOUR; j++) {
            four[j] = k + cells[MX_MIN(first + j, n - 1)] * ld;
            ask(k + cells[MX_MIN(first + j + 2 * FOUR, n - 1)] * ld);
        }
        vst1q_f32(s + first, score_four(four, scratch));
    }
    float inverse = 1.0f / weigh(s, n, &top);
    add_cells(y, v, cells, s, n, ld, inverse);
    add_cells(y + WIDTH / 2, v + WIDTH / 2, cells, s, n, ld, inverse);
}
