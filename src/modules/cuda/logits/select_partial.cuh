/* modules/cuda/logits/select_partial.cuh - a selection (op/select.h) in two halves, for rows that do not sample: for
 * each range of ids, by a warp, the top-k, the max and the sum, text and timestamps separately; then the combination of
 * all ranges of a row, by a block. Used by kernels that differ in the assignment of ranges (logits/logits_select.cu,
 * megakernel/sm90/select_stage.cuh): they agree bit for bit.
 * Invariants: ids are those that plain select gives for the same logits, in the same order; sums over a range are f32,
 * over ranges f64, in an order that the vocabulary and the GPU determine. Loops are kept short: fetching instructions
 * that run once takes longer than running them. */
#ifndef MX_CUDA_LOGITS_SELECT_PARTIAL_CUH
#define MX_CUDA_LOGITS_SELECT_PARTIAL_CUH
#include "modules/cuda/logits/select.cuh"

namespace mx::logits {

constexpr int RANGE_IDS = 512;   /* ids of a range */
constexpr int IDS_PER_LANE = RANGE_IDS / WARP_SIZE;   /* id i of a lane is the range's first + i * WARP_SIZE + lane */
constexpr int KEY_STEP = WARP_SIZE + 1;   /* from a lane's id to the next: bank-conflict free */
constexpr int RANGE_TOP_K = 8;   /* candidates of a range, at most */
constexpr int SIDES = 2;   /* text, timestamps */
constexpr int MAX_RANGES = BLOCK_SIZE - WARP_SIZE;   /* lists of timestamps start at a warp; a range may have both */

/* The partial result of a range, in pairs of words. For each side that the range has ids of: the max logit and the sum
 * of e^(logit - max); the best, in order: key_of its logit, 0 if there are no more, and its id. Then, of the logits
 * before the rules, if needed: max and sum; the logit of no_speech. */
constexpr int SIDE_PAIRS = 1 + RANGE_TOP_K;
constexpr int RAW_PAIR = SIDES * SIDE_PAIRS;
constexpr int PARTIAL_PAIRS = RAW_PAIR + 2;

/* Division of ids into ranges: in tiles of 8, the first `longer` ranges have one more. */
struct id_ranges {
    int vocab, n, share, longer;
};
struct id_range {
    int first, n;
};

__device__ __forceinline__ static id_range range_at(const id_ranges &of, int i) {
    id_range r = {(i * of.share + min(i, of.longer)) * 8, (of.share + (i < of.longer)) * 8};
    r.n = min(r.n, of.vocab - r.first);
    return r;
}

struct partial_selection {
    selection of;      /* logits: strided rows that may be overwritten; left: none */
    int64_t ld;
    id_ranges ranges;
};

/* What the call selects from, if it can be done by ranges on this GPU (logits/logits_select.cu). */
int partial_selection_of(const mx_cuda *gpu, const mx_call *call, partial_selection *out);

/* A float as an integer with the same order; 0 is for none. */
__device__ __forceinline__ static unsigned key_of(float value) {
    unsigned bits = __float_as_uint(__fadd_rn(value, 0.0f));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ static float value_of(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The largest key of a warp and, among equals, the lowest id. */
__device__ __forceinline__ static void best_of_warp(unsigned *key, int32_t *id) {
#if __CUDA_ARCH__ >= 800
    unsigned top = __reduce_max_sync(0xffffffffu, *key);
    *id = __reduce_min_sync(0xffffffffu, *key == top ? *id : INT32_MAX);
#else
    unsigned top = *key;
    for (int half = WARP_SIZE / 2; half > 0; half /= 2)
        top = max(top, __shfl_xor_sync(0xffffffffu, top, half));
    *id = *key == top ? *id : INT32_MAX;
    for (int half = WARP_SIZE / 2; half > 0; half /= 2)
        *id = min(*id, __shfl_xor_sync(0xffffffffu, *id, half));
#endif
    *key = top;
}

__device__ __forceinline__ static unsigned largest_of_warp(unsigned key) {
    int32_t id = 0;
    best_of_warp(&key, &id);
    return key;
}

/* ---- a range, by a warp ------------------------------------------------------------------------------------------ */

/* Shared memory of a warp: its logits, and the remaining ones as keys; id i of a lane at i * KEY_STEP + lane. */
struct range_smem {
    float values[IDS_PER_LANE * KEY_STEP];
    unsigned keys[IDS_PER_LANE * KEY_STEP];
};

/* Bits of a lane's ids that are below the limit. */
__device__ __forceinline__ static unsigned lower(int limit, int first, int vocab) {
    int lane = (int)threadIdx.x % WARP_SIZE;
    int n = (min(max(limit, 0), vocab) - first - lane + WARP_SIZE - 1) >> 5;
    return (1u << min(max(n, 0), IDS_PER_LANE)) - 1;
}

__device__ __forceinline__ static float left_at(const range_smem *pad, unsigned out, int i) {
    return out >> i & 1 ? -CUDART_INF_F : pad->values[i * KEY_STEP + (int)threadIdx.x % WARP_SIZE];
}

/* The ids that are not suppressed, as keys; the max and the sum. A lane has its best key and its position. */
__device__ __noinline__ static float2 sum_range(range_smem *pad, unsigned out, unsigned *best, int32_t *at) {
    int lane = (int)threadIdx.x % WARP_SIZE;
    unsigned top = 0;
    int32_t id = lane;
    float all = 0;
#pragma unroll 4
    for (int i = 0; i < IDS_PER_LANE; i++) {
        float v = left_at(pad, out, i);
        unsigned key = v > -CUDART_INF_F ? key_of(v) : 0;
        pad->keys[i * KEY_STEP + lane] = key;
        id = key > top ? i * WARP_SIZE + lane : id;
        top = max(top, key);
    }
    *best = top;
    *at = id;
    best_of_warp(&top, &id);
    float largest = top ? value_of(top) : -CUDART_INF_F;
    if (!top)
        return make_float2(largest, 0);
#pragma unroll 4
    for (int i = 0; i < IDS_PER_LANE; i++)
        all = __fadd_rn(all, __expf(__fsub_rn(left_at(pad, out, i), largest)));
    return make_float2(largest, warp_reduce(all, op_sum()));
}

/* The k best, of which lane i gets number i: the best of all lanes, repeatedly; the lane that had it finds its next one
 * with the others' help. */
__device__ __noinline__ static uint2 best_of_range(range_smem *pad, int k, unsigned best, int32_t at) {
    int lane = (int)threadIdx.x % WARP_SIZE;
    uint2 mine = make_uint2(0, 0);
#pragma unroll 1
    for (int round = 0; round < k; round++) {
        unsigned top = best;
        int32_t id = at;
        best_of_warp(&top, &id);
        if (!top)
            break;
        int from = id % WARP_SIZE;
        mine = lane == round ? make_uint2(top, (unsigned)id) : mine;
        if (lane == 0)
            pad->keys[id / WARP_SIZE * KEY_STEP + from] = 0;
        __syncwarp();
        unsigned next = lane < IDS_PER_LANE ? pad->keys[lane * KEY_STEP + from] : 0;
        int32_t which = lane;
        best_of_warp(&next, &which);
        best = lane == from ? next : best;
        at = lane == from ? which * WARP_SIZE + from : at;
        __syncwarp();
    }
    return mine;
}

/* Two adjacent logits, the first of which is even. */
__device__ __forceinline__ static void keep_logits(range_smem *pad, int at, float2 v) {
    float *to = pad->values + at / WARP_SIZE * KEY_STEP + at % WARP_SIZE;
    to[0] = plain(v.x);
    to[1] = plain(v.y);
}

/* Which of a lane's ids the rules suppress; all loads are in flight at once. */
__device__ __forceinline__ static unsigned left_out(const partial_selection &f, const mx_rule &rule, int range) {
    int lane = (int)threadIdx.x % WARP_SIZE, vocab = f.ranges.vocab;
    id_range r = range_at(f.ranges, range);
    const uint8_t *suppress = f.of.suppress + (int64_t)rule.set * vocab + r.first;
    unsigned suppressed[IDS_PER_LANE], out = 0;
#pragma unroll
    for (int i = 0; i < IDS_PER_LANE; i++)
        suppressed[i] = __ldg(suppress + min(i * WARP_SIZE + lane, r.n - 1));
    unsigned stamps = ~lower(rule.ts_begin, r.first, vocab);
    unsigned outside = lower(rule.ts_min, r.first, vocab) | ~lower(min(rule.ts_max, vocab - 1) + 1, r.first, vocab);
#pragma unroll
    for (int i = 0; i < IDS_PER_LANE; i++)
        out |= suppressed[i] ? 1u << i : 0;
    return out | ~lower(r.first + r.n, r.first, vocab) | lower(rule.min_id, r.first, vocab) | (stamps & outside);
}

/* Reduces the logits in shared memory. put(pair, a, b) stores a pair, by one lane. */
template <typename Put>
__device__ __forceinline__ static void do_range(const partial_selection &f, const mx_rule &rule, int range,
                                                unsigned out, range_smem *pad, const Put &put) {
    int lane = (int)threadIdx.x % WARP_SIZE, vocab = f.ranges.vocab, k = (int)f.of.k;
    id_range r = range_at(f.ranges, range);
    unsigned best;
    int32_t at;
    if (rule.no_speech >= 0) {
        int asked = rule.no_speech - r.first;
        float2 raw = sum_range(pad, ~lower(r.first + r.n, r.first, vocab), &best, &at);
        if (lane == 0)
            put(RAW_PAIR, raw.x, raw.y);
        if (lane == asked % WARP_SIZE && asked >= 0 && asked < r.n)
            put(RAW_PAIR + 1, pad->values[asked / WARP_SIZE * KEY_STEP + lane], 0);
        __syncwarp();
    }
#pragma unroll 1
    for (int side = 0; side < SIDES; side++) {
        unsigned text = lower(rule.ts_begin, r.first, vocab);
        if (side == 0 ? r.first >= rule.ts_begin : r.first + r.n <= rule.ts_begin)
            continue;
        float2 sum = sum_range(pad, out | (side == 0 ? ~text : text), &best, &at);
        __syncwarp();
        uint2 mine = best_of_range(pad, k, best, at);
        if (lane < k)
            put(side * SIDE_PAIRS + 1 + lane, __uint_as_float(mine.x), __int_as_float(r.first + (int32_t)mine.y));
        else if (lane == RANGE_TOP_K)
            put(side * SIDE_PAIRS, sum.x, sum.y);
        __syncwarp();
    }
}

/* ---- all ranges of a row, by a block of BLOCK_SIZE threads ------------------------------------------------------- */

constexpr int LISTS_OF_LANE = BLOCK_SIZE / WARP_SIZE;

struct merge_smem {
    unsigned keys[RANGE_TOP_K][BLOCK_SIZE];
    int32_t ids[RANGE_TOP_K][BLOCK_SIZE];
    unsigned best_keys[RANGE_TOP_K][BLOCK_WARPS];     /* of the lists of each warp */
    int32_t best_ids[RANGE_TOP_K][BLOCK_WARPS];
    float no_speech;
    double sum;
    int only_stamps;
};

__device__ __forceinline__ static void sync_mergers() { asm volatile("bar.sync 1, %0;" ::"n"(BLOCK_SIZE) : "memory"); }

/* Max, as a key, and sum of a lane's pairs, then of all lanes'. */
struct total {
    unsigned top;
    float sum;
};

__device__ __forceinline__ static total sum_pairs(const float2 (&v)[LISTS_OF_LANE], unsigned there) {
    total t = {0, 0};
#pragma unroll
    for (int i = 0; i < LISTS_OF_LANE; i++)
        t.top = max(t.top, there >> i & 1 && v[i].x > -CUDART_INF_F ? key_of(v[i].x) : 0);
    t.top = largest_of_warp(t.top);
    float top = value_of(t.top);
#pragma unroll
    for (int i = 0; i < LISTS_OF_LANE; i++)
        t.sum = there >> i & 1 ? __fmaf_rn(v[i].y, __expf(__fsub_rn(v[i].x, top)), t.sum) : t.sum;
    t.sum = warp_reduce(t.sum, op_sum());
    return t;
}

/* A function of its own, so that its instructions are fetched once. */
__device__ __noinline__ static double log_of(total t) {
    return t.top ? (double)value_of(t.top) + log((double)t.sum) : -CUDART_INF;
}

__device__ __forceinline__ static total both_of(total a, total b) {
    total t = {max(a.top, b.top), 0};
    float top = value_of(t.top);
    t.sum = a.top ? __fmul_rn(a.sum, __expf(__fsub_rn(value_of(a.top), top))) : 0;
    t.sum = b.top ? __fmaf_rn(b.sum, __expf(__fsub_rn(value_of(b.top), top)), t.sum) : t.sum;
    return t;
}

/* The k best of the lists that the lanes of a warp have, elements `step` apart; lane i gets number i. */
__device__ __noinline__ static uint2 merge_lists(const unsigned *keys, const int32_t *ids, int step, bool there,
                                                 int k) {
    int lane = (int)threadIdx.x % WARP_SIZE, at = 0;
    unsigned head = there ? keys[0] : 0;
    int32_t id = there ? ids[0] : 0;
    uint2 mine = make_uint2(0, 0);
#pragma unroll 1
    for (int round = 0; round < k; round++) {
        unsigned top = head;
        int32_t winner = id;
        best_of_warp(&top, &winner);
        if (!top)
            break;
        mine = lane == round ? make_uint2(top, (unsigned)winner) : mine;
        if (head && id == winner) {
            at++;
            head = at < k ? keys[at * step] : 0;
            id = at < k ? ids[at * step] : 0;
        }
    }
    return mine;
}

/* The lists of a row: of the ranges that have text, then, from the next whole warp on, of those that have timestamps. A
 * lane without a list reads an existing one. */
struct list_places {
    int texts, first, stamps, n;   /* text: 0 to texts; timestamps: first to n, of ranges from `stamps` on */
};
struct list_place {
    int range, side;
    bool there;
};

__device__ __forceinline__ static list_places lists_of(const id_ranges &of, int ts_begin) {
    int tiles = (min(max(ts_begin, 0), of.vocab) + 7) / 8, long_tiles = of.longer * (of.share + 1);
    int texts = tiles <= long_tiles ? (tiles + of.share) / (of.share + 1)
                                    : of.longer + (tiles - long_tiles + of.share - 1) / of.share;
    list_places p = {min(texts, of.n), 0, 0, 0};
    id_range last = range_at(of, max(p.texts - 1, 0));
    p.first = (p.texts + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE;
    p.stamps = p.texts > 0 && last.first + last.n > ts_begin ? p.texts - 1 : p.texts;
    p.n = p.first + of.n - p.stamps;
    return p;
}

__device__ __forceinline__ static list_place list_at(const list_places &p, int i) {
    list_place text = {i, 0, true}, stamp = {p.stamps + i - p.first, 1, true};
    list_place none = {p.texts ? 0 : p.stamps, !p.texts, false};
    return i < p.texts ? text : i >= p.first && i < p.n ? stamp : none;
}

/* get(range, pairs, v) loads pairs of ranges, by whole warps: pairs[i] of range[i] into v[i]. By one warp: the totals
 * of all logits of the row, and whether only timestamps remain. */
template <typename Get>
__device__ __forceinline__ static void sum_row(const mx_rule &rule, const list_places &lists, merge_smem *pad,
                                               const Get &get) {
    int lane = (int)threadIdx.x % WARP_SIZE, range[LISTS_OF_LANE], pairs[LISTS_OF_LANE];
    float2 v[LISTS_OF_LANE];
    unsigned there[SIDES] = {};
    bool only_stamps = false;
#pragma unroll
    for (int i = 0; i < LISTS_OF_LANE; i++) {
        list_place p = list_at(lists, lane + i * WARP_SIZE);
        range[i] = p.range;
        pairs[i] = p.side * SIDE_PAIRS;
        there[0] |= p.there && !p.side ? 1u << i : 0;
        there[1] |= p.there && p.side ? 1u << i : 0;
    }
    get(range, pairs, v);
    total text = {0, 0}, stamps = {0, 0};
#pragma unroll 1
    for (int side = 0; side < SIDES; side++) {
        text = stamps;
        stamps = sum_pairs(v, side ? there[1] : there[0]);
    }
    double sum = log_of(stamps);
    if (rule.flags & MX_RULE_TIMESTAMP_SUM)
        only_stamps = text.top && sum > (double)value_of(text.top);
    if (!only_stamps)
        sum = log_of(both_of(text, stamps));
    if (lane == 0) {
        pad->sum = sum;
        pad->only_stamps = only_stamps;
        pad->no_speech = 0;
    }
}

/* By one warp, where needed. */
template <typename Get>
__device__ __noinline__ static void sum_no_speech(const partial_selection &f, const mx_rule &rule, merge_smem *pad,
                                                  const Get &get) {
    int lane = (int)threadIdx.x % WARP_SIZE, range[LISTS_OF_LANE], pairs[LISTS_OF_LANE], of[1] = {0};
    const int asked[1] = {RAW_PAIR + 1};
    float2 v[LISTS_OF_LANE], at[1];
    unsigned there = 0;
#pragma unroll
    for (int i = 0; i < LISTS_OF_LANE; i++) {
        int which = lane + i * WARP_SIZE;
        range[i] = min(which, f.ranges.n - 1);
        pairs[i] = RAW_PAIR;
        there |= which < f.ranges.n ? 1u << i : 0;
    }
    get(range, pairs, v);
#pragma unroll 1
    for (int i = 0; i < f.ranges.n; i++)
        of[0] = range_at(f.ranges, i).first <= rule.no_speech ? i : of[0];
    get(of, asked, at);
    double all = log_of(sum_pairs(v, there));
    if (lane == 0)
        pad->no_speech = all == -CUDART_INF ? 0 : (float)exp((double)at[0].x - all);
}

/* Each warp merges its lists, which are of one side; the last one also sums. Then the first warp merges the results of
 * the warps. */
template <typename Get>
__device__ __forceinline__ static void merge_ranges(const partial_selection &f, const mx_rule &rule, int64_t row,
                                                    merge_smem *pad, const Get &get) {
    const selection &s = f.of;
    int t = (int)threadIdx.x, warp = t / WARP_SIZE, lane = t % WARP_SIZE, k = (int)s.k;
    int range[RANGE_TOP_K], pairs[RANGE_TOP_K];
    list_places lists = lists_of(f.ranges, rule.ts_begin);
    list_place mine = list_at(lists, t);
    float2 v[RANGE_TOP_K];
    uint2 best = make_uint2(0, 0);
    if (warp * WARP_SIZE < lists.n) {
#pragma unroll
        for (int i = 0; i < RANGE_TOP_K; i++) {
            range[i] = mine.range;
            pairs[i] = mine.side * SIDE_PAIRS + 1 + min(i, k - 1);
        }
        get(range, pairs, v);
#pragma unroll
        for (int i = 0; i < RANGE_TOP_K; i++) {
            pad->keys[i][t] = __float_as_uint(v[i].x);
            pad->ids[i][t] = __float_as_int(v[i].y);
        }
        best = merge_lists(&pad->keys[0][t], &pad->ids[0][t], BLOCK_SIZE, mine.there, k);
    }
    if (lane < k) {
        pad->best_keys[lane][warp] = best.x;
        pad->best_ids[lane][warp] = (int32_t)best.y;
    }
    if (warp == BLOCK_WARPS - 1)
        sum_row(rule, lists, pad, get);
    if (warp == BLOCK_WARPS - 1 && rule.no_speech >= 0)
        sum_no_speech(f, rule, pad, get);
    sync_mergers();
    if (warp > 0)
        return;
    bool there = lane < BLOCK_WARPS && (!pad->only_stamps || lane * WARP_SIZE >= lists.first);
    best = merge_lists(&pad->best_keys[0][lane % BLOCK_WARPS], &pad->best_ids[0][lane % BLOCK_WARPS], BLOCK_WARPS,
                       there, k);
    if (lane < k) {
        s.ids[row * k + lane] = best.x ? (int32_t)best.y : -1;
        s.log_probs[row * k + lane] = best.x ? (float)((double)value_of(best.x) - pad->sum) : -CUDART_INF_F;
    }
    if (lane == RANGE_TOP_K) {
        s.stats[row * MX_SELECT_STATS + MX_SELECT_NO_SPEECH] = pad->no_speech;
        s.stats[row * MX_SELECT_STATS + MX_SELECT_LOG_SUM] = (float)pad->sum;
    }
}

}   /* namespace mx::logits */
#endif
