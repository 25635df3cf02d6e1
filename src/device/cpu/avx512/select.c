/* device/cpu/avx512/select.c - a range of ids of one row, for AVX-512.
 * What holds: candidates are those of ref/select.c, ties and NaN included; the last bits of the sums are its own. */
#include "device/cpu/kernels.h"

#include <float.h>
#include <math.h>

#include "device/cpu/avx512/math.h"
#include "device/cpu/logits/topk_heap.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES 16

INLINE __mmask16 first_lanes(int64_t n) { return (__mmask16)(n >= LANES ? 0xffff : (1u << n) - 1); }

/* NaN is -inf, more than the largest number is that. */
INLINE __m512 plain(__m512 x) {
    __m512 most = _mm512_min_ps(x, _mm512_set1_ps(FLT_MAX));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), _mm512_set1_ps(-INFINITY), most);
}

/* The sum of e^(x - top), f32 terms added in f64. */
typedef struct sum {
    __m512d low, high;
} sum;

INLINE void add(sum *s, __m512 x, __m512 top, __mmask16 in) {
    __m512 e = _mm512_maskz_mov_ps(in, mx_exp16(_mm512_sub_ps(x, top)));
    s->low = _mm512_add_pd(s->low, _mm512_cvtps_pd(_mm512_castps512_ps256(e)));
    s->high = _mm512_add_pd(s->high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(e, 1)));
}

INLINE double total(const sum *s) { return _mm512_reduce_add_pd(_mm512_add_pd(s->low, s->high)); }

/* left [n] and the largest of each of its lanes: their sum, and the candidates. */
static mx_select_side finish(mx_topk *b, const float *left, int64_t n, int32_t first_id, __m512 largest) {
    mx_select_side side = {.top = _mm512_reduce_max_ps(largest)};
    float lane[LANES];
    if (side.top == -INFINITY)
        return side;
    _mm512_storeu_ps(lane, largest);
    const __m512 top = _mm512_set1_ps(side.top);
    __m512 bar = _mm512_set1_ps(b ? mx_topk_threshold(lane, LANES, b->k) : INFINITY);
    sum s = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    for (int64_t i = 0; i < n; i += LANES) {
        __mmask16 in = first_lanes(n - i);
        __m512 v = _mm512_maskz_loadu_ps(in, left + i);
        for (unsigned better = _mm512_mask_cmp_ps_mask(in, v, bar, _CMP_GT_OQ); better; better &= better - 1) {
            int64_t at = i + __builtin_ctz(better);
            float next = mx_topk_push(b, left[at], first_id + (int32_t)at);
            bar = _mm512_max_ps(_mm512_set1_ps(next), bar);
        }
        add(&s, v, top, in);
    }
    side.sum = total(&s);
    side.n = b ? (int32_t)b->n : 0;
    return side;
}

/* Places from .. to of the range: what the table of suppressed ids leaves of them. */
static mx_select_side one_side(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first, int64_t from,
                               int64_t to, float *left) {
    __m512 largest = _mm512_set1_ps(-INFINITY);
    for (int64_t i = from; i < to; i += LANES) {
        __mmask16 in = first_lanes(to - i);
        __m128i out = _mm_maskz_loadu_epi8(in, suppress + i);
        __m512 v = plain(_mm512_maskz_loadu_ps(in, x + i));
        v = _mm512_mask_blend_ps(in & _mm_testn_epi8_mask(out, out), _mm512_set1_ps(-INFINITY), v);
        _mm512_mask_storeu_ps(left + i, in, v);
        largest = _mm512_max_ps(v, largest);
    }
    return finish(b, left + from, to - from, (int32_t)(first + from), largest);
}

static mx_select_side all_of(const float *x, int64_t n, float *left) {
    __m512 largest = _mm512_set1_ps(-INFINITY);
    for (int64_t i = 0; i < n; i += LANES) {
        __mmask16 in = first_lanes(n - i);
        __m512 v = plain(_mm512_mask_loadu_ps(_mm512_set1_ps(-INFINITY), in, x + i));
        _mm512_mask_storeu_ps(left + i, in, v);
        largest = _mm512_max_ps(v, largest);
    }
    return finish(NULL, left, n, 0, largest);
}

void MX_FAST(select_range)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,
                           const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    mx_select_range_by(all_of, one_side, part, values, ids, x, rule, suppress, first, n, k, left);
}
