/* modules/cuda/fused_select.cu - select fused with the product that makes its logits: nothing of the vocabulary's size
 * leaves the GPU, and each logit is looked at once.
 *
 * A block takes a range of ids of a row: applies the rules and leaves the few best, the largest and the sum, text and
 * timestamps apart. The last block of a row to be done joins its ranges. Rows that draw need all their logits and are
 * done the plain way, by the first block.
 * What holds: ids are those that plain select gives for the same logits, in the same order; sums over a range are f32,
 * of ranges f64, in an order that the size of the vocabulary decides. */
#include "modules/cuda/select.cuh"

#define RANGE 1024                     /* ids of a block */
#define EACH (RANGE / MX_BLOCK)        /* of a thread */
#define KEPT 8                         /* candidates of a range, at most */
#define SIDES 2                        /* text, timestamps */
#define OF_LANE 2                      /* ranges of a lane, when they are joined */
#define MOST_ROWS 32768                /* of a grid; each has a counter */
#define MOST_RANGES (OF_LANE * MX_WARP)

/* What a range of a row comes to. */
struct side {
    float top, sum;                    /* the largest logit; the sum of e^(logit - top) */
    int32_t ids[KEPT];                 /* the best, in order; -1: no more */
    float values[KEPT];
};
struct range_part {
    side sides[SIDES];
    float raw_top, raw_sum, no_speech; /* of the logits before the rules */
};

struct fused_selection {
    selection of;                      /* logits: [rows][ld], free to be overwritten */
    int64_t ld;
    int ranges;
    range_part *parts;                 /* [rows][ranges] */
    unsigned *arrived;                 /* [rows], 0 before and after */
};

/* The best of each warp. */
struct best_pad {
    unsigned keys[MX_WARPS * KEPT];
    int32_t ids[MX_WARPS * KEPT];
};

/* A float as a number that orders the same way; 0 is for none. */
__device__ __forceinline__ static unsigned key_of(float value) {
    unsigned bits = __float_as_uint(__fadd_rn(value, 0.0f));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ static float value_of(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The largest key of a warp and, of those that have it, the lowest id. */
__device__ __forceinline__ static void best_of_warp(unsigned *key, int32_t *id) {
#if __CUDA_ARCH__ >= 800
    unsigned top = __reduce_max_sync(0xffffffffu, *key);
    *id = __reduce_min_sync(0xffffffffu, *key == top ? *id : INT32_MAX);
#else
    unsigned top = *key;
    for (int half = MX_WARP / 2; half > 0; half /= 2)
        top = max(top, __shfl_xor_sync(0xffffffffu, top, half));
    *id = *key == top ? *id : INT32_MAX;
    for (int half = MX_WARP / 2; half > 0; half /= 2)
        *id = min(*id, __shfl_xor_sync(0xffffffffu, *id, half));
#endif
    *key = top;
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

/* The values of a block, -inf where there is none: largest and sum. */
__device__ __noinline__ static void sum_side(const float (&x)[EACH], float *top, float *sum, scratchpad *pad) {
    float largest = -CUDART_INF_F, all = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        largest = mx_largest()(largest, x[i]);
    largest = mx_join_block(largest, mx_largest(), pad->floats);
#pragma unroll
    for (int i = 0; i < EACH && largest > -CUDART_INF_F; i++)
        all = __fadd_rn(all, expf(__fsub_rn(x[i], largest)));
    *sum = mx_join_block(all, mx_sum(), pad->floats);
    *top = largest;
}

/* The k best of a block: each warp finds its own, the first warp those of all. */
__device__ static void keep_best(const float (&x)[EACH], int32_t first, int k, side *out, best_pad *pad) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
    unsigned keys[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        keys[i] = x[i] > -CUDART_INF_F ? key_of(x[i]) : 0;
#pragma unroll 1
    for (int round = 0; round < k; round++) {
        unsigned best = 0;
        int32_t id = INT32_MAX;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (keys[i] > best) {
                best = keys[i];
                id = first + i * MX_BLOCK + (int32_t)threadIdx.x;
            }
        best_of_warp(&best, &id);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            keys[i] = first + i * MX_BLOCK + (int32_t)threadIdx.x == id ? 0 : keys[i];
        if (lane == 0) {
            pad->keys[warp * KEPT + round] = best;
            pad->ids[warp * KEPT + round] = id;
        }
    }
    __syncthreads();
    if (warp > 0)
        return;
#pragma unroll 1
    for (int round = 0; round < k; round++) {
        unsigned best = 0;
        int32_t id = INT32_MAX;
#pragma unroll
        for (int i = lane; i < MX_WARPS * KEPT; i += MX_WARP)
            if (i % KEPT < k && (pad->keys[i] > best || (pad->keys[i] == best && pad->ids[i] < id))) {
                best = pad->keys[i];
                id = pad->ids[i];
            }
        best_of_warp(&best, &id);
        for (int i = lane; i < MX_WARPS * KEPT && best; i += MX_WARP)
            if (i % KEPT < k && pad->ids[i] == id)
                pad->keys[i] = 0;
        if (lane == 0) {
            out->ids[round] = best ? id : -1;
            out->values[round] = best ? value_of(best) : -CUDART_INF_F;
        }
    }
}

/* One side of a range, whose values are -inf where they are not of that side. */
__device__ static void do_side(const float (&x)[EACH], int32_t first, int k, bool none, side *to, scratchpad *pad,
                               best_pad *best) {
    float top = -CUDART_INF_F, sum = 0;
    if (!none)
        sum_side(x, &top, &sum, pad);
    if (threadIdx.x == 0) {
        to->top = top;
        to->sum = sum;
    }
    if (top > -CUDART_INF_F)
        keep_best(x, first, k, to, best);
    else if (threadIdx.x < KEPT)
        to->ids[threadIdx.x] = -1;
}

__device__ static void do_range(const fused_selection &f, const mx_rule &rule, int64_t row, scratchpad *pad,
                                best_pad *best) {
    const selection &s = f.of;
    int64_t first = (int64_t)blockIdx.x * RANGE;
    const float *logits = s.logits + row * f.ld;
    const uint8_t *suppress = s.suppress + rule.set * s.vocab;
    range_part *part = f.parts + row * f.ranges + blockIdx.x;
    int64_t ts_begin = MX_MAX(0, MX_MIN(rule.ts_begin, s.vocab)), end = MX_MIN(first + RANGE, s.vocab);
    float raw[EACH], x[EACH], top, sum;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int64_t id = first + i * MX_BLOCK + threadIdx.x;
        bool out = id >= end || suppress[id] || id < rule.min_id ||
                   (id >= ts_begin && (id < rule.ts_min || id > rule.ts_max));
        raw[i] = id < end ? plain(__ldcg(logits + id)) : -CUDART_INF_F;
        x[i] = out ? -CUDART_INF_F : raw[i];
        if (id == rule.no_speech)
            part->no_speech = raw[i];
    }
    if (rule.no_speech >= 0) {
        sum_side(raw, &top, &sum, pad);
        if (threadIdx.x == 0) {
            part->raw_top = top;
            part->raw_sum = sum;
        }
    }
#pragma unroll 1
    for (int i = 0; i < SIDES; i++) {
        float here[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int64_t id = first + j * MX_BLOCK + threadIdx.x;
            here[j] = (id < ts_begin) == (i == 0) ? x[j] : -CUDART_INF_F;
        }
        do_side(here, (int32_t)first, (int)s.k, i == 0 ? first >= ts_begin : end <= ts_begin, &part->sides[i], pad,
                best + i);
    }
}

/* ---- all ranges of a row, by one warp ---------------------------------------------------------------------------- */

/* Functions of their own: fetching instructions that run once takes longer than running them. */
__device__ __noinline__ static double power_of(double x) { return exp(x); }
__device__ __noinline__ static double log_of(float top, double sum) {
    return top == -CUDART_INF_F ? -CUDART_INF : (double)top + log(sum);
}

/* The sum of e^logit over all ranges, as a largest one and a sum of e^(logit - largest). */
__device__ __noinline__ static double join_sums(const float *top, const float *sum, int ranges, float *largest) {
    const int step = sizeof(range_part) / sizeof(float);
    int lane = threadIdx.x % MX_WARP;
    float all = -CUDART_INF_F;
    double total = 0;
#pragma unroll 1
    for (int i = lane; i < ranges; i += MX_WARP)
        all = mx_largest()(all, top[i * step]);
    *largest = all = mx_join_warp(all, mx_largest());
#pragma unroll 1
    for (int i = lane; i < ranges; i += MX_WARP)
        if (top[i * step] > -CUDART_INF_F)
            total += (double)sum[i * step] * power_of((double)top[i * step] - (double)all);
    return mx_join_warp(total, mx_sum());
}

/* The k best of the sides that are left: a lane has the lists of its ranges. */
__device__ static void merge_best(const fused_selection &f, const range_part *parts, int64_t row, int first_side,
                                  double sum) {
    const selection &s = f.of;
    int lane = threadIdx.x % MX_WARP, at[OF_LANE * SIDES] = {};
#pragma unroll 1
    for (int round = 0; round < (int)s.k; round++) {
        unsigned best = 0;
        int32_t id = INT32_MAX;
        int from = -1;
#pragma unroll
        for (int i = 0; i < OF_LANE * SIDES; i++) {
            int range = lane + i / SIDES * MX_WARP;
            if (range >= f.ranges || i % SIDES < first_side || at[i] >= (int)s.k)
                continue;
            const side *of = &parts[range].sides[i % SIDES];
            int32_t other = of->ids[at[i]];
            unsigned key = other >= 0 ? key_of(of->values[at[i]]) : 0;
            if (key > best || (key == best && key && other < id)) {
                best = key;
                id = other;
                from = i;
            }
        }
        int32_t mine = id;
        best_of_warp(&best, &id);
#pragma unroll
        for (int i = 0; i < OF_LANE * SIDES; i++)
            at[i] += best && from == i && mine == id;
        if (lane == 0) {
            s.ids[row * s.k + round] = best ? id : -1;
            s.log_probs[row * s.k + round] = best ? (float)((double)value_of(best) - sum) : -CUDART_INF_F;
        }
    }
}

__device__ static void join_ranges(const fused_selection &f, const mx_rule &rule, int64_t row,
                                   const range_part *parts) {
    const selection &s = f.of;
    float tops[SIDES], raw_top = 0;
    double sums[SIDES], no_speech = 0, margin = 0;
#pragma unroll 1
    for (int i = 0; i < SIDES; i++)
        sums[i] = join_sums(&parts->sides[i].top, &parts->sides[i].sum, f.ranges, &tops[i]);
    if (rule.no_speech >= 0) {
        double raw_sum = join_sums(&parts->raw_top, &parts->raw_sum, f.ranges, &raw_top);
        double raw = log_of(raw_top, raw_sum);
        no_speech = raw == -CUDART_INF ? 0 : power_of((double)parts[rule.no_speech / RANGE].no_speech - raw);
    }
    double stamps = log_of(tops[1], sums[1]), text = (double)tops[0], sum = stamps;
    if ((rule.flags & MX_RULE_TIMESTAMP_SUM) && stamps > -CUDART_INF && text > -CUDART_INF)
        margin = stamps - text;
    if (!(margin > 0)) {
        float top = mx_largest()(tops[0], tops[1]);
        double all = 0;
    #pragma unroll 1
    for (int i = 0; i < SIDES; i++)
            all += tops[i] == -CUDART_INF_F ? 0 : sums[i] * power_of((double)tops[i] - (double)top);
        sum = log_of(top, all);
    }
    merge_best(f, parts, row, margin > 0, sum);
    if (threadIdx.x == 0) {
        float *stats = s.stats + row * MX_SELECT_STATS;
        stats[MX_SELECT_NO_SPEECH] = (float)no_speech;
        stats[MX_SELECT_LOG_SUM] = (float)sum;
    }
}

/* What a block needs of shared memory; the ranges are joined after the rest is done with. */
union select_shared {
    scratchpad pad;                              /* of a row that draws */
    struct {
        scratchpad pad;
        best_pad best[SIDES];
    } range;
    range_part parts[MOST_RANGES];
};

/* A block for each range of each row. */
__global__ void __launch_bounds__(MX_BLOCK) ranges_kernel(fused_selection f) {
    __shared__ select_shared shared;
    __shared__ int is_last;
    mx_wait_before();
    int64_t row = blockIdx.y;
    mx_rule rule = f.of.rules[row];
    if (rule.temperature > 0) {
        float *logits = (float *)f.of.logits + row * f.ld;
        if (blockIdx.x == 0)
            select_row(f.of, logits, logits, row, &shared.pad);
        return;
    }
    do_range(f, rule, row, &shared.range.pad, shared.range.best);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = (int)atomicAdd(f.arrived + row, 1u) == f.ranges - 1;
        if (is_last)
            f.arrived[row] = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    const uint32_t *from = (const uint32_t *)(f.parts + row * f.ranges);
#pragma unroll 4
    for (int i = threadIdx.x; i < f.ranges * (int)(sizeof(range_part) / 4); i += MX_BLOCK)
        ((uint32_t *)shared.parts)[i] = __ldcg(from + i);
    __syncthreads();
    if (threadIdx.x < MX_WARP)
        join_ranges(f, rule, row, shared.parts);
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */

/* Where things lie in scratch. */
struct fused_layout {
    int64_t rows, vocab, k, ld;
    size_t statistics, weight, logits, parts, end;
};

static size_t place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += (bytes + 255) / 256 * 256;
    return at;
}

static fused_layout layout_of(const mx_call *call) {
    fused_layout l = {};
    const mx_tensor *weight = &call->inputs[1];
    l.rows = call->inputs[0].dims[0];
    l.vocab = weight->dims[0];
    l.k = call->attrs->k;
    l.ld = (l.vocab + 63) / 64 * 64;
    l.statistics = place(&l.end, mx_cuda_fused_scratch(l.rows, weight->dims[1]));
    l.weight = place(&l.end, weight->dtype == MXW_U8 ? 0 : mx_cuda_weight_bytes(l.vocab, weight->dims[1], 2));
    l.logits = place(&l.end, (size_t)(l.rows * l.ld) * sizeof(float));
    l.parts = place(&l.end, (size_t)(l.rows * ((l.vocab + RANGE - 1) / RANGE)) * sizeof(range_part));
    return l;
}

size_t mx_cuda_fused_select_scratch(const mx_call *call) { return layout_of(call).end; }

static mx_cuda_fused describe_logits(const mx_call *call, const fused_layout &l) {
    const mx_tensor *x = &call->inputs[0];
    char *scratch = (char *)call->scratch;
    mx_cuda_fused p = {};
    p.m = l.rows;
    p.n = l.vocab;
    p.k = call->inputs[1].dims[1];
    p.x = (const float *)x->data;
    p.ldx = x->strides[0];
    p.gamma = (const float *)mx_cuda_input(call, 4);
    p.beta = (const float *)mx_cuda_input(call, 5);
    p.eps = call->attrs->eps;
    p.precision = call->precision;
    p.y = (float *)(scratch + l.logits);
    p.ldy = l.ld;
    p.scratch = scratch + l.statistics;
    return p;
}

int mx_cuda_logits_of(const mx_call *call, mx_cuda_fused *p) {
    *p = describe_logits(call, layout_of(call));
    return call->inputs[1].dtype == MXW_U8 && mx_cuda_weight_find(&call->inputs[1], &p->weight) >= 0;
}

static mxw_status make_logits(mx_cuda *gpu, const mx_call *call, const fused_layout &l) {
    const mx_tensor *weight = &call->inputs[1];
    mx_cuda_fused p = describe_logits(call, l);
    mxw_status status;
    if (weight->dtype == MXW_U8) {
        status = mx_cuda_weight_find(weight, &p.weight);
    } else {
        p.weight.bytes = (char *)call->scratch + l.weight;
        p.weight.n = p.n;
        p.weight.k = p.k;
        p.weight.parts = 2;
        p.weight.fresh = 1;
        status = mx_cuda_pack_plain(gpu, call, &p.weight, (const float *)weight->data, 1);
    }
    return status < 0 ? status : mx_cuda_fused_product(gpu, call, &p);
}

/* More candidates than ranges keep, or more ranges than a block joins: every row the plain way. */
__global__ void __launch_bounds__(MX_BLOCK) whole_rows_kernel(fused_selection f) {
    __shared__ scratchpad pad;
    mx_wait_before();
    float *logits = (float *)f.of.logits + blockIdx.x * f.ld;
    select_row(f.of, logits, logits, blockIdx.x, &pad);
}

mxw_status mx_cuda_select_logits(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *out = call->outputs;
    fused_layout l = layout_of(call);
    fused_selection f = {};
    if (l.rows == 0)
        return MXW_OK;
    f.of.ids = (int32_t *)out[0].data;
    f.of.log_probs = (float *)out[1].data;
    f.of.stats = (float *)out[2].data;
    f.of.logits = (const float *)((char *)call->scratch + l.logits);
    f.of.rules = (const mx_rule *)call->inputs[2].data;
    f.of.suppress = (const uint8_t *)call->inputs[3].data;
    f.of.rows = l.rows;
    f.of.vocab = l.vocab;
    f.of.k = l.k;
    f.ld = l.ld;
    f.ranges = (int)((l.vocab + RANGE - 1) / RANGE);
    f.parts = (range_part *)((char *)call->scratch + l.parts);
    f.arrived = gpu->arrivals;
    if (l.k > KEPT || f.ranges > MOST_RANGES || f.ranges == 0 || l.rows > MOST_ROWS)
        mx_launch(gpu, whole_rows_kernel, dim3((unsigned)l.rows), dim3(MX_BLOCK), 0, f);
    else
        mx_launch(gpu, ranges_kernel, dim3((unsigned)f.ranges, (unsigned)l.rows), dim3(MX_BLOCK), 0, f);
    return mx_cuda_launched(gpu, call);
}

mxw_status mx_cuda_fused_select(mx_cuda *gpu, const mx_call *call) {
    fused_layout l = layout_of(call);
    mxw_status status = l.rows == 0 ? MXW_OK : make_logits(gpu, call, l);
    return status < 0 || l.rows == 0 ? status : mx_cuda_select_logits(gpu, call);
}
