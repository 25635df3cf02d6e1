/* device/cpu/avx2/select.c - a range of ids of one row, for AVX2.
 * What holds: candidates are those of ref/select.c, ties and NaN included; the last bits of the sums are its own. */
#include "device/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "device/cpu/avx2/math.h"
#include "device/cpu/logits/topk_heap.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES 8

/* All bits in the first n lanes; all for 8 and more. */
INLINE __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)MX_MIN(n, LANES)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* x [n], 8 at most; -inf in the lanes past them. */
INLINE __m256 load(const float *x, int64_t n) {
    if (n >= LANES)
        return _mm256_loadu_ps(x);
    __m256i in = first_lanes(n);
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_maskload_ps(x, in), _mm256_castsi256_ps(in));
}

INLINE void store(float *y, __m256 x, int64_t n) {
    if (n >= LANES)
        _mm256_storeu_ps(y, x);
    else
        _mm256_maskstore_ps(y, first_lanes(n), x);
}

/* NaN is -inf, more than the largest number is that. */
INLINE __m256 plain(__m256 x) {
    __m256 most = _mm256_min_ps(x, _mm256_set1_ps(FLT_MAX));
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), most, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
}

/* All bits in the lanes whose byte is 0. */
INLINE __m256 kept(const uint8_t *suppress, int64_t n) {
    uint64_t bytes = 0;
    memcpy(&bytes, suppress, (size_t)MX_MIN(n, LANES));
    __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(wide, _mm256_setzero_si256()));
}

INLINE float max_lane(__m256 x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

/* left [n] and the largest of each of its lanes, in turn those of two registers: their sum, f32 terms added in f64, and
 * the candidates. */
static mx_select_side finish(mx_topk *b, const float *left, int64_t n, int32_t first_id, const __m256 largest[2]) {
    mx_select_side side = {.top = max_lane(_mm256_max_ps(largest[0], largest[1]))};
    __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    float lane[2 * LANES];
    double four[4];
    if (side.top == -INFINITY)
        return side;
    _mm256_storeu_ps(lane, largest[0]);
    _mm256_storeu_ps(lane + LANES, largest[1]);
    const __m256 top = _mm256_set1_ps(side.top);
    __m256 bar = _mm256_set1_ps(b ? mx_topk_threshold(lane, 2 * LANES, b->k) : INFINITY);
    for (int64_t i = 0; i < n; i += LANES) {
        __m256 v = load(left + i, n - i);
        unsigned better = (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(v, bar, _CMP_GT_OQ));
        for (; better; better &= better - 1) {
            int64_t at = i + __builtin_ctz(better);
            float next = mx_topk_push(b, left[at], first_id + (int32_t)at);
            bar = _mm256_max_ps(_mm256_set1_ps(next), bar);
        }
        __m256 e = mx_exp8(_mm256_sub_ps(v, top));
        sum[0] = _mm256_add_pd(sum[0], _mm256_cvtps_pd(_mm256_castps256_ps128(e)));
        sum[1] = _mm256_add_pd(sum[1], _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1)));
    }
    _mm256_storeu_pd(four, _mm256_add_pd(sum[0], sum[1]));
    side.sum = (four[0] + four[1]) + (four[2] + four[3]);
    side.n = b ? (int32_t)b->n : 0;
    return side;
}

/* Places from .. to of the range: what the table of suppressed ids leaves of them. */
static mx_select_side one_side(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first, int64_t from,
                               int64_t to, float *left) {
    __m256 largest[2] = {_mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY)};
    for (int64_t i = from; i < to; i += LANES) {
        __m256 v = plain(load(x + i, to - i));
        v = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), v, kept(suppress + i, to - i));
        store(left + i, v, to - i);
        largest[0] = _mm256_max_ps(v, largest[0]);
        __m256 swap = largest[0];
        largest[0] = largest[1];
        largest[1] = swap;
    }
    return finish(b, left + from, to - from, (int32_t)(first + from), largest);
}

static mx_select_side all_of(const float *x, int64_t n, float *left) {
    __m256 largest[2] = {_mm256_set1_ps(-INFINITY), _mm256_set1_ps(-INFINITY)};
    for (int64_t i = 0; i < n; i += LANES) {
        __m256 v = plain(load(x + i, n - i));
        store(left + i, v, n - i);
        largest[0] = _mm256_max_ps(v, largest[0]);
    }
    return finish(NULL, left, n, 0, largest);
}

void MX_FAST(select_range)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,
                           const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    mx_select_range_by(all_of, one_side, part, values, ids, x, rule, suppress, first, n, k, left);
}
