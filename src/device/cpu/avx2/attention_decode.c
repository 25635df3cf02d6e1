/* device/cpu/avx2/attention_decode.c - attention of a decoder's rows, for AVX2; heads 64 wide, other widths as in ref/.
 *
 * Keys are read as they lie, four of one head at a time: dot products across sixteen lanes in two registers, whose sums
 * are taken together. What is read next is asked for meanwhile. The same sums in the same order as in
 * ref/attention_decode.c. */
#include "device/cpu/attention/attn_loops.h"

#include <math.h>

#include "device/cpu/avx2/math.h"

#define WIDTH 64
#define REGS 8      /* of a head */
#define KEYS 16     /* of a step */
#define FOUR 4      /* keys whose sums are taken together */

/* Lane i of each half: the sum of that half of x[i]. */
MX_INLINE __m256 half_sums(const __m256 x[FOUR]) {
    __m256 a = _mm256_add_ps(_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
    __m256 b = _mm256_add_ps(_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
    __m256d c = _mm256_castps_pd(a), d = _mm256_castps_pd(b);
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(c, d)), _mm256_castpd_ps(_mm256_unpackhi_pd(c, d)));
}

/* Lane i: the sum of the sixteen lanes low[i], high[i]. */
MX_INLINE __m128 sums(const __m256 low[FOUR], const __m256 high[FOUR]) {
    __m256 a = half_sums(low), b = half_sums(high);
    return _mm_add_ps(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)),
                      _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1)));
}

/* Scores of four keys for the query at q. */
MX_INLINE __m128 score_four(const float *const k[FOUR], const float *q) {
    __m256 x[2][FOUR];
#pragma GCC unroll 8
    for (int i = 0; i < REGS; i++) {
        __m256 e = _mm256_loadu_ps(q + 8 * i);
#pragma GCC unroll 4
        for (int j = 0; j < FOUR; j++) {
            __m256 y = _mm256_loadu_ps(k[j] + 8 * i);
            x[i % 2][j] = i < 2 ? _mm256_mul_ps(y, e) : _mm256_fmadd_ps(y, e, x[i % 2][j]);
        }
    }
    return sums(x[0], x[1]);
}

MX_INLINE void ask(const float *row) {
    for (int i = 0; i < REGS; i += 2)
        _mm_prefetch((const char *)(row + 8 * i), _MM_HINT_T0);
}

/* Scores s [n rounded up to 16], -inf past n, become weights; returns their sum. */
MX_INLINE float weigh(float *s, int64_t n, float *top) {
    __m256 most = _mm256_set1_ps(-INFINITY), sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t j = n; j % KEYS; j++)
        s[j] = -INFINITY;
    for (int64_t j = 0; j < n; j += 8)
        most = _mm256_max_ps(_mm256_loadu_ps(s + j), most);
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(most), _mm256_extractf128_ps(most, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    *top = _mm_cvtss_f32(m);
    for (int64_t j = 0; j < n; j += KEYS)
        for (int h = 0; h < 2; h++) {
            __m256 w = mx_exp2_8(_mm256_sub_ps(_mm256_loadu_ps(s + j + 8 * h), _mm256_set1_ps(*top)));
            sum[h] = _mm256_add_ps(sum[h], w);
            _mm256_storeu_ps(s + j + 8 * h, w);
        }
    const __m256 low[FOUR] = {sum[0], sum[0], sum[0], sum[0]}, high[FOUR] = {sum[1], sum[1], sum[1], sum[1]};
    return _mm_cvtss_f32(sums(low, high));
}

/* ---- rows over a range of keys ----------------------------------------------------------------------------------- */

/* One head of a step: the scores of its keys for all rows. */
MX_INLINE void score(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    const float *k = f->k + first * f->ld + head * WIDTH, *four[FOUR];
    int64_t last = f->keys - first - 1;
    for (int64_t i = 0; i < MX_MIN(KEYS, last + 1); i += FOUR) {
        for (int64_t j = 0; j < FOUR; j++) {
            four[j] = k + MX_MIN(i + j, last) * f->ld;
            ask(last >= KEYS ? k + (KEYS + i + j) * f->ld : f->v + (i + j) * f->ld + head * WIDTH);
        }
        for (int64_t r = 0; r < f->rows; r++)
            _mm_storeu_ps(f->s + (r * f->heads + head) * MX_ATTN_RANGE + first + i,
                          score_four(four, f->q + (r * f->heads + head) * WIDTH));
    }
}

/* Half a head of a step: its values times the weights of `rows` rows, added to what there is. */
MX_INLINE void add_values(const mx_attn_partial_args *f, int64_t first, int64_t at, const float *s, float *o,
                          const int rows) {
    const float *v = f->v + first * f->ld + at;
    int64_t n = MX_MIN(KEYS, f->keys - first), step = f->heads * MX_ATTN_RANGE;
    __m256 sum[3][4];
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sum[r][i] = first ? _mm256_loadu_ps(o + r * f->stride + 8 * i) : _mm256_setzero_ps();
    for (int64_t j = 0; j < n; j++, v += f->ld, s++) {
        __m256 w[3];
#pragma GCC unroll 3
        for (int r = 0; r < rows; r++)
            w[r] = _mm256_set1_ps(s[r * step]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m256 x = _mm256_loadu_ps(v + 8 * i);
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++)
                sum[r][i] = _mm256_fmadd_ps(x, w[r], sum[r][i]);
        }
    }
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            _mm256_storeu_ps(o + r * f->stride + 8 * i, sum[r][i]);
}

static void values(const mx_attn_partial_args *f, int64_t first, int64_t head) {
    int64_t next = MX_MIN(KEYS, f->keys - first - KEYS), asked = 0;
    for (int64_t row = 0; row < f->rows; row += 3) {
        for (; asked < next && asked * f->rows < (row + 3) * KEYS; asked++)
            ask(f->v + (first + KEYS + asked) * f->ld + head * WIDTH);
        const float *s = f->s + (row * f->heads + head) * MX_ATTN_RANGE + first;
        for (int64_t at = head * WIDTH; at < (head + 1) * WIDTH; at += WIDTH / 2) {
            float *o = f->part + row * f->stride + at;
            switch (MX_MIN(3, f->rows - row)) {
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

MX_INLINE void add_cell(__m256 sum[4], const float *row, float weight) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sum[i] = _mm256_fmadd_ps(_mm256_loadu_ps(row + 8 * i), _mm256_set1_ps(weight), sum[i]);
}

/* Half a head: keys at even places and at odd places are two chains. */
MX_INLINE void add_cells(float *y, const float *v, const int32_t *cells, const float *s, int64_t n, int64_t ld,
                         float inverse) {
    __m256 sum[2][4];
    for (int i = 0; i < 4; i++)
        sum[0][i] = sum[1][i] = _mm256_setzero_ps();
    for (int64_t j = 0; j + 1 < n; j += 2) {
        add_cell(sum[0], v + cells[j] * ld, s[j]);
        add_cell(sum[1], v + cells[j + 1] * ld, s[j + 1]);
    }
    if (n % 2)
        add_cell(sum[0], v + cells[n - 1] * ld, s[n - 1]);
    for (int i = 0; i < 4; i++)
        _mm256_storeu_ps(y + 8 * i, _mm256_mul_ps(_mm256_add_ps(sum[0][i], sum[1][i]), _mm256_set1_ps(inverse)));
}

void MX_FAST(attn_paged)(float *y, const float *q, const float *k, const float *v, const int32_t *cells, int64_t n,
                         int64_t ld, int64_t width, float scale, float *scratch) {
    float *s = scratch + WIDTH, top;
    if (width != WIDTH) {
        MX_REF(attn_paged)(y, q, k, v, cells, n, ld, width, scale, scratch);
        return;
    }
    for (int i = 0; i < WIDTH; i += 8)
        _mm256_storeu_ps(scratch + i, _mm256_mul_ps(_mm256_loadu_ps(q + i), _mm256_set1_ps(scale * MX_LOG2_E)));
    for (int64_t first = 0; first < n; first += FOUR) {
        const float *four[FOUR];
        for (int64_t j = 0; j < FOUR; j++) {
            four[j] = k + cells[MX_MIN(first + j, n - 1)] * ld;
            ask(k + cells[MX_MIN(first + j + 2 * FOUR, n - 1)] * ld);
        }
        _mm_storeu_ps(s + first, score_four(four, scratch));
    }
    float inverse = 1.0f / weigh(s, n, &top);
    add_cells(y, v, cells, s, n, ld, inverse);
    add_cells(y + WIDTH / 2, v + WIDTH / 2, cells, s, n, ld, inverse);
}
