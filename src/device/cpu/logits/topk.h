/* device/cpu/logits/topk.h - what select_range does the same way for every instruction set: the sorted list of
 * candidates, and which positions of a range belong to text and to timestamps. */
#ifndef MX_CPU_TOPK_H
#define MX_CPU_TOPK_H
#include <math.h>

#include "device/cpu/kernels.h"

/* The top k so far, sorted, best first: k is small, so insertion beats a heap. */
typedef struct mx_topk {
    float *values;
    int32_t *ids;
    int64_t n, k;
} mx_topk;

/* Ids come in rising order, so that among equals the earlier one stays before. Returns what a later one must exceed. */
static inline float mx_topk_push(mx_topk *b, float value, int32_t id) {
    int64_t at = b->n;
    if (at == b->k) {
        if (!(value > b->values[at - 1]))
            return b->values[at - 1];
        at--;
    } else {
        b->n++;
    }
    for (; at > 0 && b->values[at - 1] < value; at--) {
        b->values[at] = b->values[at - 1];
        b->ids[at] = b->ids[at - 1];
    }
    b->values[at] = value;
    b->ids[at] = id;
    return b->n == b->k ? b->values[b->k - 1] : -INFINITY;
}

/* What a value must exceed to be among the k best at all, from the largest of each of n lanes: there are k values at
 * least as large as the k-th largest of those. */
static inline float mx_topk_threshold(const float *lane, int64_t n, int64_t k) {
    float largest[MX_SUM_LANES];
    int32_t unused[MX_SUM_LANES];
    mx_topk b = {largest, unused, 0, k};
    if (k > n)
        return -INFINITY;
    for (int64_t i = 0; i < n; i++)
        mx_topk_push(&b, lane[i], 0);
    return nextafterf(largest[k - 1], -INFINITY);
}

/* Positions in the range first .. first + n that a rule may leave: from[s] up to below to[s], s = 0 for text, 1 for
 * timestamps. */
typedef struct mx_select_bounds {
    int64_t from[2], to[2];
} mx_select_bounds;

static inline int64_t mx_select_place(int64_t id, int64_t first, int64_t n) {
    return MX_MAX(0, MX_MIN(id - first, n));
}

static inline mx_select_bounds mx_select_bounds_of(const mx_rule *rule, int64_t first, int64_t n) {
    int64_t stamps = MX_MAX(rule->ts_begin, 0), earliest = MX_MAX(stamps, MX_MAX(rule->min_id, rule->ts_min));
    return (mx_select_bounds){
        {mx_select_place(rule->min_id, first, n), mx_select_place(earliest, first, n)},
        {mx_select_place(stamps, first, n), mx_select_place((int64_t)rule->ts_max + 1, first, n)},
    };
}

/* The largest and the sum of x [n]; left [n]: the logits a rule leaves, here all. */
typedef mx_select_side (*mx_select_all_fn)(const float *x, int64_t n, float *left);
/* Positions from .. to of a range that begins at id `first`: their top k into b, their largest and their sum. */
typedef mx_select_side (*mx_select_side_fn)(mx_topk *b, const float *x, const uint8_t *suppress, int64_t first,
                                            int64_t from, int64_t to, float *left);

static inline void mx_select_range_by(mx_select_all_fn all_of, mx_select_side_fn one_side, mx_select_part *part,
                                      float *values, int32_t *ids, const float *x, const mx_rule *rule,
                                      const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    const mx_select_bounds at = mx_select_bounds_of(rule, first, n);
    int64_t id = rule->no_speech - first;
    *part = (mx_select_part){0};
    if (rule->no_speech >= 0) {
        part->raw = all_of(x, n, left);
        part->no_speech = id >= 0 && id < n ? left[id] : 0;
    }
    for (int s = 0; s < 2; s++) {
        mx_topk best = {values + s * k, ids + s * k, 0, k};
        part->side[s] = one_side(&best, x, suppress, first, at.from[s], at.to[s], left);
    }
}
#endif
