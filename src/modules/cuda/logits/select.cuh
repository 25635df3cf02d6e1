/* modules/cuda/logits/select.cuh - a row of logits by one block: top-k, sums, sampling, everything in op/select.h.
 * Invariants: a NaN never wins; ties go to the lower id; sums over the vocabulary are f64, in an order that its size
 * determines; a sample depends on the rule and the row alone. */
#ifndef MX_CUDA_LOGITS_SELECT_CUH
#define MX_CUDA_LOGITS_SELECT_CUH
#include <float.h>

#include "modules/cuda/common/block.cuh"

namespace mx::logits {

/* ---- the best of a row ------------------------------------------------------------------------------------------- */

struct candidate {
    float value;
    int32_t id;   /* -1: none */
};

/* A total order: none is last, NaN before it, then by value, then by id. */
__device__ static bool better(candidate a, candidate b) {
    if (a.id < 0 || b.id < 0)
        return a.id >= 0 && b.id < 0;
    if (isnan(a.value) || isnan(b.value))
        return isnan(a.value) == isnan(b.value) ? a.id < b.id : isnan(b.value);
    return a.value != b.value ? a.value > b.value : a.id < b.id;
}

__device__ static candidate best_of_block(candidate mine, candidate *shared) {
    for (int half = WARP_SIZE / 2; half > 0; half /= 2) {
        candidate other = {__shfl_xor_sync(0xffffffffu, mine.value, half), __shfl_xor_sync(0xffffffffu, mine.id, half)};
        mine = better(other, mine) ? other : mine;
    }
    __syncthreads();
    if (threadIdx.x % WARP_SIZE == 0)
        shared[threadIdx.x / WARP_SIZE] = mine;
    __syncthreads();
    mine = shared[0];
    for (int warp = 1; warp < BLOCK_WARPS; warp++)
        mine = better(shared[warp], mine) ? shared[warp] : mine;
    return mine;
}

/* The best of x [n] after `last`, which is none at first; entries of -inf do not count if only_left. */
__device__ static candidate next_best(const float *x, int64_t n, candidate last, bool only_left, candidate *shared) {
    candidate best = {0, -1};
    for (int64_t i = threadIdx.x; i < n; i += BLOCK_SIZE) {
        candidate here = {x[i], (int32_t)i};
        if (only_left && !(here.value > -CUDART_INF_F))
            continue;
        if ((last.id < 0 || better(last, here)) && better(here, best))
            best = here;
    }
    return best_of_block(best, shared);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

struct select_smem {
    float floats[BLOCK_WARPS];
    double doubles[BLOCK_WARPS];
    candidate candidates[BLOCK_WARPS];
    double passed[BLOCK_SIZE + 1];   /* sampling: weight before each thread's part */
    int32_t drawn;
};

__device__ static float plain(float x) { return isnan(x) ? -CUDART_INF_F : x > FLT_MAX ? FLT_MAX : x; }

__device__ static float max_of(const float *x, int64_t n, select_smem *pad) {
    float top = -CUDART_INF_F;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK_SIZE)
        top = op_max()(top, plain(x[i]));
    return block_reduce(top, op_max(), pad->floats);
}

/* log-sum-exp of x; -inf if it is empty. Terms are f32, the sum is f64. */
__device__ static double log_sum(const float *x, int64_t n, select_smem *pad) {
    float top = max_of(x, n, pad);
    double sum = 0;
    if (top == -CUDART_INF_F)
        return -CUDART_INF;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK_SIZE)
        sum += (double)expf(plain(x[i]) - top);
    return (double)top + log(block_reduce(sum, op_sum(), pad->doubles));
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

/* Philox 4x32 with ten rounds, the first two words: the same generator as the CPU device's. */
__device__ static double uniform(const uint32_t key[2], const uint32_t counter[2]) {
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
    return (double)((uint64_t)c0 << 21 ^ c1 >> 11) * 0x1p-53;   /* [0, 1): 53 bits */
}

__device__ static double weight_of(float x, double top, double temperature) {
    return x > -CUDART_INF_F ? exp(((double)x - top) / temperature) : 0;
}

/* An id sampled with probability softmax(left / temperature): the first whose cumulative weight passes u * total. Each
 * thread weighs a part of the row; the parts are accumulated in order; the thread whose part contains the target finds
 * the id. */
__device__ static int32_t draw(const float *left, int64_t vocab, const mx_rule *rule, select_smem *pad) {
    double top = (double)max_of(left, vocab, pad), temperature = (double)rule->temperature, sum = 0;
    int64_t part = (vocab + BLOCK_SIZE - 1) / BLOCK_SIZE, first = MX_MIN(threadIdx.x * part, vocab);
    int64_t end = MX_MIN(first + part, vocab);
    for (int64_t i = first; i < end; i++)
        sum += weight_of(left[i], top, temperature);
    __syncthreads();
    pad->passed[threadIdx.x + 1] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        pad->drawn = -1;
        pad->passed[0] = 0;
        for (int i = 0; i < BLOCK_SIZE; i++)
            pad->passed[i + 1] += pad->passed[i];
    }
    __syncthreads();
    double target = uniform(rule->key, rule->counter) * pad->passed[BLOCK_SIZE], passed = pad->passed[threadIdx.x];
    if (pad->passed[threadIdx.x + 1] > target && !(passed > target)) {
        int32_t id = -1;
        for (int64_t i = first; i < end && !(passed > target); i++) {
            double weight = weight_of(left[i], top, temperature);
            passed += weight;
            id = weight > 0 ? (int32_t)i : id;
        }
        pad->drawn = id;
    }
    __syncthreads();
    return pad->drawn;
}

/* ---- select ------------------------------------------------------------------------------------------------------ */

struct selection {
    int32_t *ids;
    float *log_probs, *stats, *left;   /* left [rows][vocab] */
    const float *logits;
    const mx_rule *rules;
    const uint8_t *suppress;
    int64_t rows, vocab, k;
};

/* Step 2: what is left of the logits; -inf is suppressed. */
__device__ static void mask(float *left, const float *logits, const mx_rule *rule, const uint8_t *suppress,
                            int64_t ts_begin, int64_t vocab) {
    for (int64_t i = threadIdx.x; i < vocab; i += BLOCK_SIZE) {
        bool out = suppress[i] || i < rule->min_id || (i >= ts_begin && (i < rule->ts_min || i > rule->ts_max));
        left[i] = out ? -CUDART_INF_F : plain(logits[i]);
    }
    __syncthreads();
}

/* Step 3: timestamps only, when their total probability exceeds that of the best text token. */
__device__ static void timestamp_sum(float *left, int64_t ts_begin, int64_t vocab, select_smem *pad) {
    double stamps = log_sum(left + ts_begin, vocab - ts_begin, pad), text = (double)max_of(left, ts_begin, pad);
    __syncthreads();
    if (stamps > text && text > -CUDART_INF)
        for (int64_t i = threadIdx.x; i < ts_begin; i += BLOCK_SIZE)
            left[i] = -CUDART_INF_F;
    __syncthreads();
}

/* Moves id to the front of the n candidates; it replaces the last one if it is not among them. */
__device__ static void to_front(int32_t *ids, float *values, int64_t n, int32_t id, float value) {
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

/* The k best of what is left into ids and values, by thread 0; returns how many there are. */
__device__ static int64_t find_best(int32_t *ids, float *values, const float *left, const selection &s,
                                    select_smem *pad) {
    candidate last = {0, -1};
    for (int64_t n = 0; n < s.k; n++) {
        last = next_best(left, s.vocab, last, true, pad->candidates);
        if (last.id < 0)
            return n;
        if (threadIdx.x == 0) {
            ids[n] = last.id;
            values[n] = last.value;
        }
    }
    return s.k;
}

/* One row from all its logits; left may alias them. */
__device__ static void select_row(const selection &s, const float *logits, float *left, int64_t row, select_smem *pad) {
    float *values = s.log_probs + row * s.k, *stats = s.stats + row * MX_SELECT_STATS;
    int32_t *ids = s.ids + row * s.k, drawn = -1;
    mx_rule rule = s.rules[row];
    int64_t ts_begin = MX_MAX(0, MX_MIN(rule.ts_begin, s.vocab));
    double no_speech = 0;
    if (rule.no_speech >= 0) {
        double raw = log_sum(logits, s.vocab, pad);
        no_speech = raw == -CUDART_INF ? 0 : exp((double)plain(logits[rule.no_speech]) - raw);
    }
    __syncthreads();
    mask(left, logits, &rule, s.suppress + rule.set * s.vocab, ts_begin, s.vocab);
    if (rule.flags & MX_RULE_TIMESTAMP_SUM)
        timestamp_sum(left, ts_begin, s.vocab, pad);
    double sum = log_sum(left, s.vocab, pad);
    int64_t n = find_best(ids, values, left, s, pad);
    if (n && rule.temperature > 0)
        drawn = draw(left, s.vocab, &rule, pad);
    if (threadIdx.x == 0) {
        stats[MX_SELECT_NO_SPEECH] = (float)no_speech;
        stats[MX_SELECT_LOG_SUM] = (float)sum;
        if (drawn >= 0)
            to_front(ids, values, n, drawn, left[drawn]);
        for (int64_t i = 0; i < s.k; i++) {
            ids[i] = i < n ? ids[i] : -1;
            values[i] = i < n ? (float)((double)values[i] - sum) : -CUDART_INF_F;
        }
    }
}

}   /* namespace mx::logits */
#endif
