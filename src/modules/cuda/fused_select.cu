/* modules/cuda/fused_select.cu - select fused with the product that makes its logits: nothing of the vocabulary's size
 * leaves the GPU, and each logit is looked at once.
 *
 * A block takes a range of ids of a row: applies the rules and leaves the few best, the largest and the sum, text and
 * timestamps apart. Then a block for each row joins its ranges. Rows that draw need all their logits and are done the
 * plain way, by that second block.
 * What holds: ids are those that plain select gives for the same logits, in the same order; sums over a range are f32,
 * of ranges f64, in an order that the size of the vocabulary decides. */
#include "modules/cuda/select.cuh"

#define RANGE 4096                     /* ids of a block */
#define EACH (RANGE / MX_BLOCK)        /* of a thread */
#define KEPT 8                         /* candidates of a range, at most */
#define SIDES 2                        /* text, timestamps */

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
};

struct best_pad {
    unsigned keys[2][MX_WARPS];
    int32_t ids[2][MX_WARPS];
};

/* A float as a number that orders the same way; 0 is for none. */
__device__ __forceinline__ static unsigned key_of(float value) {
    unsigned bits = __float_as_uint(__fadd_rn(value, 0.0f));
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ static float value_of(unsigned key) {
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* The largest key of a block and, of those that have it, the lowest id; `round` counts calls of this pad. */
__device__ static void best_key(unsigned key, int32_t id, best_pad *pad, int round, unsigned *best, int32_t *best_id) {
    unsigned top = key;
    int32_t low;
#if __CUDA_ARCH__ >= 800
    top = __reduce_max_sync(0xffffffffu, top);
    low = __reduce_min_sync(0xffffffffu, key == top ? id : INT32_MAX);
#else
    for (int half = MX_WARP / 2; half > 0; half /= 2)
        top = max(top, __shfl_xor_sync(0xffffffffu, top, half));
    low = key == top ? id : INT32_MAX;
    for (int half = MX_WARP / 2; half > 0; half /= 2)
        low = min(low, __shfl_xor_sync(0xffffffffu, low, half));
#endif
    if (threadIdx.x % MX_WARP == 0) {
        pad->keys[round % 2][threadIdx.x / MX_WARP] = top;
        pad->ids[round % 2][threadIdx.x / MX_WARP] = low;
    }
    __syncthreads();
    *best = 0;
    *best_id = INT32_MAX;
#pragma unroll
    for (int warp = 0; warp < MX_WARPS; warp++) {
        unsigned other = pad->keys[round % 2][warp];
        int32_t other_id = pad->ids[round % 2][warp];
        if (other > *best || (other == *best && other_id < *best_id)) {
            *best = other;
            *best_id = other_id;
        }
    }
}

/* The values of a block, -inf where there is none: largest, sum and the k best. */
__device__ static void sum_side(float (&x)[EACH], float *top, float *sum, scratchpad *pad) {
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

__device__ static void keep_best(const float (&x)[EACH], int32_t first, int64_t k, side *out, best_pad *pad) {
    unsigned keys[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++)
        keys[i] = x[i] > -CUDART_INF_F ? key_of(x[i]) : 0;
    for (int round = 0; round < (int)k; round++) {
        unsigned mine = 0, best;
        int32_t my_id = INT32_MAX, best_id;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            if (keys[i] > mine) {
                mine = keys[i];
                my_id = first + i * MX_BLOCK + (int32_t)threadIdx.x;
            }
        best_key(mine, my_id, pad, round, &best, &best_id);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            keys[i] = first + i * MX_BLOCK + (int32_t)threadIdx.x == best_id ? 0 : keys[i];
        if (threadIdx.x == 0) {
            out->ids[round] = best ? best_id : -1;
            out->values[round] = best ? value_of(best) : -CUDART_INF_F;
        }
    }
}

/* A block for each range of each row. Rows that draw need all their logits: their turn comes when ranges are joined. */
__global__ void __launch_bounds__(MX_BLOCK) ranges_kernel(fused_selection f) {
    __shared__ scratchpad pad;
    __shared__ best_pad best;
    mx_wait_before();
    const selection &s = f.of;
    int64_t row = blockIdx.y, first = (int64_t)blockIdx.x * RANGE;
    mx_rule rule = s.rules[row];
    if (rule.temperature > 0)
        return;
    const float *logits = s.logits + row * f.ld;
    const uint8_t *suppress = s.suppress + rule.set * s.vocab;
    range_part *part = f.parts + row * f.ranges + blockIdx.x;
    int64_t ts_begin = MX_MAX(0, MX_MIN(rule.ts_begin, s.vocab)), end = MX_MIN(first + RANGE, s.vocab);
    float raw[EACH], x[EACH], top = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int64_t id = first + i * MX_BLOCK + threadIdx.x;
        bool out = id >= end || suppress[id] || id < rule.min_id ||
                   (id >= ts_begin && (id < rule.ts_min || id > rule.ts_max));
        raw[i] = id < end ? plain(logits[id]) : -CUDART_INF_F;
        x[i] = out ? -CUDART_INF_F : raw[i];
        if (id == rule.no_speech)
            part->no_speech = raw[i];
    }
    if (rule.no_speech >= 0) {
        sum_side(raw, &top, &sum, &pad);
        if (threadIdx.x == 0) {
            part->raw_top = top;
            part->raw_sum = sum;
        }
    }
    for (int i = 0; i < SIDES; i++) {
        side *to = &part->sides[i];
        float here[EACH];
        bool none = i == 0 ? first >= ts_begin : end <= ts_begin;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            int64_t id = first + j * MX_BLOCK + threadIdx.x;
            here[j] = (id < ts_begin) == (i == 0) ? x[j] : -CUDART_INF_F;
        }
        top = -CUDART_INF_F;
        sum = 0;
        if (!none)
            sum_side(here, &top, &sum, &pad);
        if (threadIdx.x == 0) {
            to->top = top;
            to->sum = sum;
        }
        if (top > -CUDART_INF_F)
            keep_best(here, (int32_t)first, s.k, to, &best);
        else if (threadIdx.x < KEPT)
            to->ids[threadIdx.x] = -1;
        __syncthreads();
    }
}

/* The sum of e^logit over all ranges, as a largest one and a sum of e^(logit - largest). */
__device__ static double join_sums(const float *top, const float *sum, int ranges, float *largest, scratchpad *pad) {
    const int step = sizeof(range_part) / sizeof(float);
    float all = -CUDART_INF_F;
    double total = 0;
    for (int i = threadIdx.x; i < ranges; i += MX_BLOCK)
        all = mx_largest()(all, top[i * step]);
    *largest = all = mx_join_block(all, mx_largest(), pad->floats);
    for (int i = threadIdx.x; i < ranges; i += MX_BLOCK)
        if (top[i * step] > -CUDART_INF_F)
            total += (double)sum[i * step] * exp((double)top[i * step] - (double)all);
    return mx_join_block(total, mx_sum(), pad->doubles);
}

/* The k best of the sides that are left: thread i has the lists of range i. */
__device__ static void merge_best(const fused_selection &f, const range_part *parts, int64_t row, int first_side,
                                  double sum, best_pad *pad) {
    const selection &s = f.of;
    int at[SIDES] = {0, 0};
    for (int round = 0; round < (int)s.k; round++) {
        unsigned mine = 0, best;
        int32_t my_id = INT32_MAX, best_id;
        for (int i = first_side; i < SIDES && (int)threadIdx.x < f.ranges; i++) {
            const side *from = &parts[threadIdx.x].sides[i];
            int32_t id = at[i] < (int)s.k ? from->ids[at[i]] : -1;
            unsigned key = id >= 0 ? key_of(from->values[at[i]]) : 0;
            if (key > mine) {   /* ties: the text's ids are the lower ones */
                mine = key;
                my_id = id;
            }
        }
        best_key(mine, my_id, pad, round, &best, &best_id);
        for (int i = first_side; i < SIDES && (int)threadIdx.x < f.ranges && best; i++)
            if (at[i] < (int)s.k && parts[threadIdx.x].sides[i].ids[at[i]] == best_id)
                at[i]++;
        if (threadIdx.x == 0) {
            s.ids[row * s.k + round] = best ? best_id : -1;
            s.log_probs[row * s.k + round] = best ? (float)((double)value_of(best) - sum) : -CUDART_INF_F;
        }
    }
}

__device__ static double log_of(float top, double sum) {
    return top == -CUDART_INF_F ? -CUDART_INF : (double)top + log(sum);
}

/* A block for each row. */
__global__ void __launch_bounds__(MX_BLOCK) join_kernel(fused_selection f) {
    __shared__ scratchpad pad;
    __shared__ best_pad best;
    mx_wait_before();
    const selection &s = f.of;
    int64_t row = blockIdx.x;
    const range_part *parts = f.parts + row * f.ranges;
    mx_rule rule = s.rules[row];
    if (rule.temperature > 0) {
        float *logits = (float *)s.logits + row * f.ld;
        select_row(s, logits, logits, row, &pad);
        return;
    }
    float tops[SIDES], raw_top = 0;
    double sums[SIDES], no_speech = 0, margin = 0;
    for (int i = 0; i < SIDES; i++)
        sums[i] = join_sums(&parts->sides[i].top, &parts->sides[i].sum, f.ranges, &tops[i], &pad);
    if (rule.no_speech >= 0) {
        double raw_sum = join_sums(&parts->raw_top, &parts->raw_sum, f.ranges, &raw_top, &pad);
        double raw = log_of(raw_top, raw_sum);
        no_speech = raw == -CUDART_INF ? 0 : exp((double)parts[rule.no_speech / RANGE].no_speech - raw);
    }
    double stamps = log_of(tops[1], sums[1]), text = (double)tops[0], sum = stamps;
    if ((rule.flags & MX_RULE_TIMESTAMP_SUM) && stamps > -CUDART_INF && text > -CUDART_INF)
        margin = stamps - text;
    if (!(margin > 0)) {
        float top = mx_largest()(tops[0], tops[1]);
        double all = 0;
        for (int i = 0; i < SIDES; i++)
            all += tops[i] == -CUDART_INF_F ? 0 : sums[i] * exp((double)tops[i] - (double)top);
        sum = log_of(top, all);
    }
    merge_best(f, parts, row, margin > 0, sum, &best);
    if (threadIdx.x == 0) {
        float *stats = s.stats + row * MX_SELECT_STATS;
        stats[MX_SELECT_NO_SPEECH] = (float)no_speech;
        stats[MX_SELECT_LOG_SUM] = (float)sum;
        stats[MX_SELECT_TS_MARGIN] = (float)margin;
    }
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

static mxw_status make_logits(mx_cuda *gpu, const mx_call *call, const fused_layout &l) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
    char *scratch = (char *)call->scratch;
    mx_cuda_fused p = {};
    p.m = l.rows;
    p.n = l.vocab;
    p.k = weight->dims[1];
    p.x = (const float *)x->data;
    p.ldx = x->strides[0];
    p.gamma = (const float *)mx_cuda_input(call, 4);
    p.beta = (const float *)mx_cuda_input(call, 5);
    p.eps = call->attrs->eps;
    p.precision = call->precision;
    p.y = (float *)(scratch + l.logits);
    p.ldy = l.ld;
    p.scratch = scratch + l.statistics;
    mxw_status status;
    if (weight->dtype == MXW_U8) {
        status = mx_cuda_weight_find(weight, &p.weight);
    } else {
        p.weight.bytes = scratch + l.weight;
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

mxw_status mx_cuda_fused_select(mx_cuda *gpu, const mx_call *call) {
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
    mxw_status status = make_logits(gpu, call, l);
    if (status < 0)
        return status;
    if (l.k > KEPT || f.ranges > MX_BLOCK || f.ranges == 0 || l.rows > 65535) {
        mx_launch(gpu, whole_rows_kernel, dim3((unsigned)l.rows), dim3(MX_BLOCK), 0, f);
    } else {
        mx_launch(gpu, ranges_kernel, dim3((unsigned)f.ranges, (unsigned)l.rows), dim3(MX_BLOCK), 0, f);
        mx_launch(gpu, join_kernel, dim3((unsigned)l.rows), dim3(MX_BLOCK), 0, f);
    }
    return mx_cuda_launched(gpu, call);
}
