/* device/cpu/ref/select.c - from a row of logits to candidates (op/select.h), and the plain top-k.
 * Invariant: a NaN never wins and never stops a loop; sums over the vocabulary are f64. */
#include "device/cpu/kernels.h"

#include <float.h>
#include <math.h>

#include "device/cpu/ref/math.h"

/* ---- the k best -------------------------------------------------------------------------------------------------- */

/* A heap of (value, id) with the worst at the root, kept in the two output arrays. */
typedef struct heap {
    float *value;
    int32_t *id;
    int64_t n;
} heap;

static int better(float a, int32_t a_id, float b, int32_t b_id) {
    if (isnan(a) || isnan(b))
        return isnan(a) == isnan(b) ? a_id < b_id : isnan(b);
    return a != b ? a > b : a_id < b_id;
}

static void put(heap *h, int64_t i, float value, int32_t id) {
    h->value[i] = value;
    h->id[i] = id;
}

/* Sinks (value, id) from place i until both children are better. */
static void sink(heap *h, int64_t i, float value, int32_t id) {
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && better(h->value[child], h->id[child], h->value[child + 1], h->id[child + 1]))
            child++;
        if (better(h->value[child], h->id[child], value, id))
            break;
        put(h, i, h->value[child], h->id[child]);
        i = child;
    }
    put(h, i, value, id);
}

static void lift(heap *h, int64_t i, float value, int32_t id) {
    while (i > 0) {
        int64_t parent = (i - 1) / 2;
        if (!better(h->value[parent], h->id[parent], value, id))
            break;
        put(h, i, h->value[parent], h->id[parent]);
        i = parent;
    }
    put(h, i, value, id);
}

/* Takes the worst away until the array is sorted, best first. */
static void sort_heap(heap *h) {
    while (h->n > 1) {
        float value = h->value[0];
        int32_t id = h->id[0];
        h->n--;
        float last = h->value[h->n];
        int32_t last_id = h->id[h->n];
        sink(h, 0, last, last_id);
        put(h, h->n, value, id);
    }
}

static void offer(heap *h, int64_t k, float value, int32_t id) {
    if (h->n < k)
        lift(h, h->n++, value, id);
    else if (better(value, id, h->value[0], h->id[0]))
        sink(h, 0, value, id);
}

void MX_REF(top_k)(float *values, int32_t *ids, const float *x, int64_t n, int64_t k) {
    heap h = {values, ids, 0};
    for (int64_t i = 0; i < n; i++)
        if (h.n < k || !(x[i] < values[0]))
            offer(&h, k, x[i], (int32_t)i);
    sort_heap(&h);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

#define LANES 8

static float max_of(const float *x, int64_t n) {
    float best = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* The sum of e^(x - top). Terms are f32, the sum is f64 in lanes joined in order. */
static double exp_sum(const float *x, int64_t n, float top) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)mx_expf(x[i + l] - top);
    for (int l = 0; i < n; i++, l++)
        lane[l] += (double)mx_expf(x[i] - top);
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* The same from terms rounded to multiples of 2^-36, by the exponential of simd/math.h: the sum is exact, so that every
 * order of the terms, in every instruction set, gives these bits. */
static double same_exp_sum(const float *x, int64_t n, float top) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((double)mx_exp_fused(x[i] - top) + MX_SAME_ROUND) - MX_SAME_ROUND;
    return sum;
}

/* log of the sum of e^x; -inf when there is nothing. */
static double log_sum(const float *x, int64_t n) {
    float top = max_of(x, n);
    return top == -INFINITY ? -INFINITY : (double)top + log(exp_sum(x, n, top));
}

/* ---- the draw ---------------------------------------------------------------------------------------------------- */

/* Philox 4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, 2011): a
 * bijection of the counter under the key, so a draw depends on (key, counter) and on nothing drawn before. */
static void philox(const uint32_t key[2], const uint32_t counter[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = 0, c3 = 0, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* An id drawn with probability softmax(left / temperature): the first whose cumulated weight passes u * total. */
static int32_t draw(const float *left, int64_t vocab, const mx_rule *rule) {
    uint32_t word[4];
    philox(rule->key, rule->counter, word);
    double u = (double)((uint64_t)word[0] << 21 ^ word[1] >> 11) * 0x1p-53;   /* [0, 1): 53 bits */
    double top = (double)max_of(left, vocab), temperature = (double)rule->temperature, total = 0, passed = 0;
    int32_t last = -1;
    for (int64_t i = 0; i < vocab; i++)
        if (left[i] > -INFINITY)
            total += exp(((double)left[i] - top) / temperature);
    for (int64_t i = 0; i < vocab; i++) {
        if (left[i] == -INFINITY)
            continue;
        double weight = exp(((double)left[i] - top) / temperature);
        passed += weight;
        if (weight > 0)
            last = (int32_t)i;
        if (passed > u * total)
            return (int32_t)i;
    }
    return last;
}

/* ---- a range of ids ---------------------------------------------------------------------------------------------- */

static float plain(float x) { return isnan(x) ? -INFINITY : x > FLT_MAX ? FLT_MAX : x; }

typedef double (*sum_fn)(const float *x, int64_t n, float top);

/* top and the sum below it of x [n]. */
static mx_select_side side_of(const float *x, int64_t n, sum_fn sum) {
    mx_select_side s = {.top = max_of(x, n)};
    s.sum = s.top == -INFINITY ? 0 : sum(x, n, s.top);
    return s;
}

/* Ids from `low` to below `high`, as far as they lie in the range; none of the others are left. */
static mx_select_side one_side(float *values, int32_t *ids, const float *x, const uint8_t *suppress, int64_t first,
                               int64_t n, int64_t low, int64_t high, int64_t k, float *left, sum_fn sum) {
    heap h = {values, ids, 0};
    for (int64_t i = 0; i < n; i++) {
        left[i] = first + i < low || first + i >= high || suppress[i] ? -INFINITY : plain(x[i]);
        if (left[i] > -INFINITY && (h.n < k || left[i] > values[0]))
            offer(&h, k, left[i], (int32_t)(first + i));
    }
    mx_select_side s = side_of(left, n, sum);
    s.n = (int32_t)h.n;
    sort_heap(&h);
    return s;
}

static void select_range_by(sum_fn sum, mx_select_part *part, float *values, int32_t *ids, const float *x,
                            const mx_rule *rule, const uint8_t *suppress, int64_t first, int64_t n, int64_t k,
                            float *left) {
    int64_t stamps = MX_MAX(rule->ts_begin, 0), id = rule->no_speech - first;
    int64_t earliest = MX_MAX(stamps, MX_MAX(rule->min_id, rule->ts_min));
    *part = (mx_select_part){0};
    if (rule->no_speech >= 0) {
        for (int64_t i = 0; i < n; i++)
            left[i] = plain(x[i]);
        part->raw = side_of(left, n, sum);
        part->no_speech = id >= 0 && id < n ? left[id] : 0;
    }
    part->side[0] = one_side(values, ids, x, suppress, first, n, rule->min_id, stamps, k, left, sum);
    part->side[1] =
        one_side(values + k, ids + k, x, suppress, first, n, earliest, (int64_t)rule->ts_max + 1, k, left, sum);
}

void MX_REF(select_range)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,
                          const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    select_range_by(exp_sum, part, values, ids, x, rule, suppress, first, n, k, left);
}

void MX_REF(same_select_range)(mx_select_part *part, float *values, int32_t *ids, const float *x, const mx_rule *rule,
                               const uint8_t *suppress, int64_t first, int64_t n, int64_t k, float *left) {
    select_range_by(same_exp_sum, part, values, ids, x, rule, suppress, first, n, k, left);
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

/* Step 2: what is left of the logits; -inf is out. */
static void mask(float *left, const float *logits, const mx_rule *rule, const uint8_t *suppress, int64_t vocab) {
    int64_t ts_begin = MX_MAX(0, MX_MIN(rule->ts_begin, vocab));
    for (int64_t i = 0; i < ts_begin; i++)
        left[i] = suppress[i] || i < rule->min_id ? -INFINITY : plain(logits[i]);
    for (int64_t i = ts_begin; i < vocab; i++) {
        int out = suppress[i] || i < rule->min_id || i < rule->ts_min || i > rule->ts_max;
        left[i] = out ? -INFINITY : plain(logits[i]);
    }
}

/* Step 3: timestamps only, when together they are likelier than the likeliest text. */
static void timestamp_sum(float *left, const mx_rule *rule, int64_t vocab) {
    int64_t ts_begin = MX_MAX(0, MX_MIN(rule->ts_begin, vocab));
    double stamps = log_sum(left + ts_begin, vocab - ts_begin), text = (double)max_of(left, ts_begin);
    if (stamps > text && text > -INFINITY)
        for (int64_t i = 0; i < ts_begin; i++)
            left[i] = -INFINITY;
}

static double no_speech(const float *logits, int32_t id, int64_t vocab, float *raw) {
    if (id < 0 || id >= vocab)
        return 0;
    for (int64_t i = 0; i < vocab; i++)
        raw[i] = plain(logits[i]);
    double sum = log_sum(raw, vocab);
    return sum == -INFINITY ? 0 : exp((double)raw[id] - sum);
}

/* The k best of what is left, in order; returns how many there are. */
static int64_t best(int32_t *ids, float *values, const float *left, int64_t vocab, int64_t k) {
    heap h = {values, ids, 0};
    for (int64_t i = 0; i < vocab; i++)
        if (left[i] > -INFINITY && (h.n < k || left[i] > values[0]))   /* ids rise: an equal value is no better */
            offer(&h, k, left[i], (int32_t)i);
    int64_t n = h.n;
    sort_heap(&h);
    return n;
}

/* Moves id to the front of the n candidates; it takes the place of the last one if it is not among them. */
static void to_front(int32_t *ids, float *values, int64_t n, int32_t id, float value) {
    int64_t at = n - 1;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] == id)
            at = i;
    for (; at > 0; at--) {
        ids[at] = ids[at - 1];
        values[at] = values[at - 1];
    }
    ids[0] = id;
    values[0] = value;
}

void MX_REF(select)(int32_t *ids, float *log_probs, float *stats, const float *logits, const mx_rule *rule,
                    const uint8_t *suppress, int64_t vocab, int64_t k, float *left) {
    stats[MX_SELECT_NO_SPEECH] = (float)no_speech(logits, rule->no_speech, vocab, left);
    mask(left, logits, rule, suppress, vocab);
    if (rule->flags & MX_RULE_TIMESTAMP_SUM)
        timestamp_sum(left, rule, vocab);
    double sum = log_sum(left, vocab);
    stats[MX_SELECT_LOG_SUM] = (float)sum;
    int64_t n = best(ids, log_probs, left, vocab, k);
    if (n && rule->temperature > 0) {
        int32_t id = draw(left, vocab, rule);
        if (id >= 0)
            to_front(ids, log_probs, n, id, left[id]);
    }
    for (int64_t i = 0; i < n; i++)
        log_probs[i] = (float)((double)log_probs[i] - sum);
    for (int64_t i = n; i < k; i++) {
        ids[i] = -1;
        log_probs[i] = -INFINITY;
    }
}
