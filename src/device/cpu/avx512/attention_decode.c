/* device/cpu/avx512/attention_decode.c - attention of a decoder's rows, for AVX-512; heads 64 wide, other widths as in
 * ref/.
 *
 * Keys are read as they lie, sixteen of one head at a time: sixteen dot products across the lanes, whose sums are taken
 * together. What is read next is asked for meanwhile. The same sums in the same order as in ref/attention_decode.c. */
#include "device/cpu/attention/attn_loops.h"

#include <math.h>

#include "device/cpu/avx512/math.h"

#define WIDTH 64
#define REGS 4      /* of a head */
#define KEYS 16     /* of a step */
#define ROWS 4      /* that share a value while it is in registers */

/* Lane i: the sum of x[i]'s lanes. */
MX_INLINE __m512 sums(__m512 x[KEYS]) {
    __m512 two[8], four[4], pair[2];
    for (int i = 0; i < 8; i++)
        two[i] = _mm512_add_ps(_mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]), _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]));
    for (int i = 0; i < 4; i++) {
        __m512d a = _mm512_castps_pd(two[2 * i]), b = _mm512_castps_pd(two[2 * i + 1]);
        four[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    for (int i = 0; i < 2; i++)
        pair[i] = _mm512_add_ps(_mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0x88),
                                _mm512_shuffle_f32x4(four[2 * i], four[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(pair[0], pair[1], 0x88), _mm512_shuffle_f32x4(pair[0], pair[1], 0xdd));
}

/* The sum of the lanes of one. */
MX_INLINE float sum_of(__m512 x) {
    __m512 all[KEYS];
    for (int i = 0; i < KEYS; i++)
        all[i] = x;
    return _mm512_cvtss_f32(sums(all));
}

/* Products of one query with the key at k. */
MX_INLINE __m512 product(const float *k, const __m512 q[REGS]) {
    __m512 x = _mm512_mul_ps(_mm512_loadu_ps(k), q[0]);
    x = _mm512_fmadd_ps(_mm512_loadu_ps(k + 16), q[1], x);
    x = _mm512_fmadd_ps(_mm512_loadu_ps(k + 32), q[2], x);
    return _mm512_fmadd_ps(_mm512_loadu_ps(k + 48), q[3], x);
}

MX_INLINE void ask(const float *row) {
    for (int i = 0; i < REGS; i++)
        _mm_prefetch(row + 16 * i, _MM_HINT_T0);
}

/* Scores s [n rounded up to 16], -inf past n, become weights; returns their sum. */
MX_INLINE float weigh(float *s, int64_t n, float *top) {
    __m512 most = _mm512_set1_ps(-INFINITY), sum = _mm512_setzero_ps();
    for (int64_t j = 0; j < n; j += KEYS)
        most = _mm512_max_ps(_mm512_loadu_ps(s + j), most);
    *top = _mm512_reduce_max_ps(most);
    for (int64_t j = 0; j < n; j += KEYS) {
        __m512 w = mx_exp2_16(_mm512_sub_ps(_mm512_loadu_ps(s + j), _mm512_set1_ps(*top)));
        sum = _mm512_add_ps(sum, w);
        _mm512_storeu_ps(s + j, w);
    }
    return sum_of(sum);
}

/* -inf from lane n on. */
MX_INLINE __m512 only(__m512 x, int64_t n) {
    return n >= KEYS ? x : _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), _mm512_set1_ps(-INFINITY), x);
}

/* ---- rows over a range of keys ----------------------------------------------------------------------------------- */

/* One head of a step: the scores of its keys for all rows. */
MX_INLINE void score(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    const float *k = f->k + first * f->ld + head * WIDTH;
    int64_t last = f->keys - first - 1;
    for (int64_t r = 0, asked = 0; r < f->rows; r++) {
        const float *q = f->q + (r * f->heads + head) * WIDTH;
        __m512 regs[REGS], x[KEYS];
        for (; asked * f->rows < (r + 1) * KEYS; asked++)
            ask(last >= KEYS ? k + (KEYS + asked) * f->ld : f->v + asked * f->ld + head * WIDTH);
        for (int i = 0; i < REGS; i++)
            regs[i] = _mm512_loadu_ps(q + 16 * i);
        const float *key = k;
#pragma GCC unroll 16
        for (int i = 0; i < KEYS; i++) {
            x[i] = product(key, regs);
            key += i < last ? f->ld : 0;
        }
        _mm512_storeu_ps(f->s + (r * f->heads + head) * MX_ATTN_RANGE + first, only(sums(x), last + 1));
    }
}

/* One head of a step: its values times the weights of `rows` rows, added to what there is. */
MX_INLINE void add_values(const mx_attn_partial_args *f, int64_t first, int64_t head, int64_t row, const int rows) {
    const float *v = f->v + first * f->ld + head * WIDTH, *s = f->s + (row * f->heads + head) * MX_ATTN_RANGE + first;
    float *o = f->part + row * f->stride + head * WIDTH;
    int64_t n = MX_MIN(KEYS, f->keys - first), step = f->heads * MX_ATTN_RANGE;
    __m512 sum[ROWS][REGS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < REGS; i++)
            sum[r][i] = first ? _mm512_loadu_ps(o + r * f->stride + 16 * i) : _mm512_setzero_ps();
    for (int64_t j = 0; j < n; j++, v += f->ld, s++) {
        __m512 x[REGS];
#pragma GCC unroll 4
        for (int i = 0; i < REGS; i++)
            x[i] = _mm512_loadu_ps(v + 16 * i);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            __m512 w = _mm512_set1_ps(s[r * step]);
#pragma GCC unroll 4
            for (int i = 0; i < REGS; i++)
                sum[r][i] = _mm512_fmadd_ps(x[i], w, sum[r][i]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < REGS; i++)
            _mm512_storeu_ps(o + r * f->stride + 16 * i, sum[r][i]);
}

static void values(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    int64_t next = MX_MIN(KEYS, f->keys - first - KEYS), asked = 0;
    for (int64_t row = 0; row < f->rows; row += ROWS) {
        for (; asked < next && asked * f->rows < (row + ROWS) * KEYS; asked++)
            ask(f->v + (first + KEYS + asked) * f->ld + head * WIDTH);
        switch (f->rows - row) {
        default: add_values(f, first, head, row, ROWS); break;
        case 3: add_values(f, first, head, row, 3); break;
        case 2: add_values(f, first, head, row, 2); break;
        case 1: add_values(f, first, head, row, 1); break;
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

MX_INLINE void add_cell(__m512 sum[REGS], const float *row, float weight) {
#pragma GCC unroll 4
    for (int i = 0; i < REGS; i++)
        sum[i] = _mm512_fmadd_ps(_mm512_loadu_ps(row + 16 * i), _mm512_set1_ps(weight), sum[i]);
}

void MX_FAST(attn_paged)(float *y, const float *q, const float *k, const float *v, const int32_t *cells, int64_t n,
                         int64_t ld, int64_t width, float scale, float *scratch) {
    float *s = scratch + WIDTH, top;
    __m512 regs[REGS], sum[2][REGS];
    if (width != WIDTH) {
        MX_REF(attn_paged)(y, q, k, v, cells, n, ld, width, scale, scratch);
        return;
    }
    for (int i = 0; i < REGS; i++) {
        regs[i] = _mm512_mul_ps(_mm512_loadu_ps(q + 16 * i), _mm512_set1_ps(scale * MX_LOG2_E));
        sum[0][i] = sum[1][i] = _mm512_setzero_ps();
    }
    for (int64_t first = 0; first < n; first += KEYS) {
        __m512 x[KEYS];
        for (int64_t i = first + KEYS; i < MX_MIN(n, first + 2 * KEYS); i++)
            ask(k + cells[i] * ld);
        const int32_t *cell = cells + first;
        int64_t last = n - first - 1;
#pragma GCC unroll 16
        for (int i = 0; i < KEYS; i++) {
            x[i] = product(k + *cell * ld, regs);
            cell += i < last;
        }
        _mm512_storeu_ps(s + first, only(sums(x), n - first));
    }
    const __m512 inverse = _mm512_set1_ps(1.0f / weigh(s, n, &top));
    for (int64_t j = 0; j + 1 < n; j += 2) {
        add_cell(sum[0], v + cells[j] * ld, s[j]);
        add_cell(sum[1], v + cells[j + 1] * ld, s[j + 1]);
    }
    if (n % 2)
        add_cell(sum[0], v + cells[n - 1] * ld, s[n - 1]);
    for (int i = 0; i < REGS; i++)
        _mm512_storeu_ps(y + 16 * i, _mm512_mul_ps(_mm512_add_ps(sum[0][i], sum[1][i]), inverse));
}
