/* device/cpu/simd/select_tmpl.c - top-k and the softmax's sum of a range of ids of one row.
 * Invariant: candidates are those of ref/select.c, ties and NaN included; the last bits of the sums are the instruction
 * set's own, except in same_select_range, whose terms are rounded so that their sums are exact. */
#include "device/cpu/simd/simd.h"

#include <float.h>

#include "device/cpu/logits/topk.h"

/* NaN is -inf, more than the largest number is that. */
MX_INLINE vf plain(vf x) { return vf_number_or(x, vf_min(x, vf_set1(FLT_MAX)), vf_set1(-INFINITY)); }

MX_INLINE vf load(const float *x, int64_t n) { return vf_load_or(x, n, vf_set1(-INFINITY)); }

MX_INLINE void store(float *y, vf x, int64_t n) {
    if (n >= VL)
        vf_store(y, x);
    else
        vf_store_first(y, x, n);
}

MX_INLINE void no_lanes(vf largest[VPARTS]) {
#pragma GCC unroll 4
    for (int r = 0; r < VPARTS; r++)
        largest[r] = vf_set1(-INFINITY);
}

/* As it is, or rounded to a multiple of 2^-36. */
MX_INLINE vd term(vd e, const int same) {
    const vd round = vd_set1(MX_SAME_ROUND);
    return same ? vd_sub(vd_add(e, round), round) : e;
}

/* From left [n] and the largest of each of MX_SUM_LANES lanes: the sum of exp(left - largest), f32 terms added in f64,
 * and the candidates. */
MX_INLINE mx_select_side finish(mx_topk *b, const float *left, int64_t n, int32_t first_id, const vf largest[VPARTS],
                                const int same) {
    vf most = largest[0];
    float lane[MX_SUM_LANES];
#pragma GCC unroll 4
    for (int r = 1; r < VPARTS; r++)
        most = vf_maxnum(most, largest[r]);
    mx_select_side side = {.top = vf_reduce_max(most)};
    if (side.top == -INFINITY)
        return side;
#pragma GCC unroll 4
    for (int r = 0; r < VPARTS; r++)
        vf_store(lane + r * VL, largest[r]);
    const vf top = vf_set1(side.top);
    vf bar = vf_set1(b ? mx_topk_threshold(lane, MX_SUM_LANES, b->k) : INFINITY);
    vd sum[2] = {vd_zero(), vd_zero()};
    for (int64_t i = 0; i < n; i += VL) {
        vf v = load(left + i, n - i);
        for (unsigned better = vf_greater(v, bar); better; better &= better - 1) {
            int64_t at = i + __builtin_ctz(better);
            float next = mx_topk_push(b, left[at], first_id + (int32_t)at);
            bar = vf_maxnum(vf_set1(next), bar);
        }
        vf e = vf_exp(vf_sub(v, top));
        sum[0] = vd_add(sum[0], term(vd_low(e), same));
        sum[1] = vd_add(sum[1], term(vd_high(e), same));
    }
    side.sum = vd_sum(vd_add(sum[0], sum[1]));
    side.n = b ? (int32_t)b->n : 0;
    return side;
}

/* The ids at from .. to of the range that are not suppressed. */
MX_INLINE mx_select_side side_of(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first, int64_t from,
                                 int64_t to, float *left, const int same) {
    vf largest[VPARTS];
    no_lanes(largest);
    for (int64_t at = from; at < to; at += MX_SUM_LANES)
#pragma GCC unroll 4
        for (int r = 0; r < VPARTS; r++) {
            int64_t i = at + r * VL;
            if (i >= to)
                break;
            vf v = vf_suppress(plain(load(x + i, to - i)), suppress + i, to - i);
            store(left + i, v, to - i);
            largest[r] = vf_maxnum(v, largest[r]);
        }
    return finish(b, left + from, to - from, (int32_t)(first + from), largest, same);
}

MX_INLINE mx_select_side all_ids(const float *x, int64_t n, float *left, const int same) {
    vf largest[VPARTS];
    no_lanes(largest);
    for (int64_t i = 0; i < n; i += VL) {
        vf v = plain(load(x + i, n - i));
        store(left + i, v, n - i);
        largest[0] = vf_maxnum(v, largest[0]);
    }
    return finish(NULL, left, n, 0, largest, same);
}

#define RANGE(name, same)                                                                                              \
    static mx_select_side name##_all(const float *x, int64_t n, float *left) { return all_ids(x, n, left, same); }     \
    static mx_select_side name##_side(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first,              \
                                      int64_t from, int64_t to, float *left) {                                         \
        return side_of(b, x, suppress, first, from, to, left, same);                                                   \
    }                                                                                                                  \
    void MX_FAST(name)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,         \
                       const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {                    \
        mx_select_range_by(name##_all, name##_side, part, values, ids, x, rule, suppress, first, n, k, left);          \
    }

RANGE(select_range, 0)
RANGE(same_select_range, 1)
