/* modules/cuda/logits/logits_select.cu - select fused with the GEMM that computes its logits: nothing of the size of
 * the vocabulary leaves the GPU, and each logit is read once (logits/select_partial.cuh). A warp reduces a range of ids
 * of a row; the last block of a row combines its ranges. Rows that sample need all their logits and are done as in
 * plain select, by the first block. */
#include "modules/cuda/logits/select_partial.cuh"

namespace mx::logits {

namespace {

constexpr int MAX_GRID_ROWS = 32768;   /* of a grid; each has a counter */

struct fused_selection {
    partial_selection ranged;
    float2 *partials;        /* [rows][PARTIAL_PAIRS][ranges] */
    unsigned *arrived;    /* [rows], 0 before and after */
};

/* Pairs of the ranges of a row. */
struct row_partials {
    float2 *at;
    int ranges;
};

struct put_pair {
    row_partials of;
    int range;
    __device__ __forceinline__ void operator()(int pair, float a, float b) const {
        of.at[pair * of.ranges + range] = make_float2(a, b);
    }
};

struct get_pairs {
    row_partials of;
    template <int n>
    __device__ __forceinline__ void operator()(const int (&range)[n], const int (&pairs)[n], float2 (&v)[n]) const {
#pragma unroll
        for (int i = 0; i < n; i++)
            v[i] = __ldcg(of.at + pairs[i] * of.ranges + range[i]);
    }
};

__device__ __forceinline__ static void produce_logits(const partial_selection &s, int64_t row, int range,
                                                      range_smem *pad) {
    int lane = threadIdx.x % WARP_SIZE;
    id_range r = range_at(s.ranges, range);
    const float *logits = s.of.logits + row * s.ld + r.first;
    float x[IDS_PER_LANE];
#pragma unroll
    for (int i = 0; i < IDS_PER_LANE; i++)
        x[i] = __ldcg(logits + min(i * WARP_SIZE + lane, r.n - 1));
#pragma unroll
    for (int i = 0; i < IDS_PER_LANE; i++)
        pad->values[i * KEY_STEP + lane] = plain(x[i]);
}

/* Shared memory of a block, used one after the other. */
union logits_smem {
    select_smem whole;                /* of a row that samples */
    range_smem ranges[BLOCK_WARPS];
    merge_smem join;
};

/* BLOCK_WARPS ranges of a row per block. */
__global__ void __launch_bounds__(BLOCK_SIZE) ranges_kernel(fused_selection f) {
    __shared__ logits_smem shared;
    __shared__ int is_last;
    pdl_wait();
    const partial_selection &s = f.ranged;
    int64_t row = blockIdx.y;
    mx_rule rule = s.of.rules[row];
    int warp = threadIdx.x / WARP_SIZE, range = (int)blockIdx.x * BLOCK_WARPS + warp;
    row_partials partials = {f.partials + row * PARTIAL_PAIRS * s.ranges.n, s.ranges.n};
    if (rule.temperature > 0) {
        float *logits = (float *)s.of.logits + row * s.ld;
        if (blockIdx.x == 0)
            select_row(s.of, logits, logits, row, &shared.whole);
        return;
    }
    put_pair put = {partials, range};
    get_pairs get = {partials};
    if (range < s.ranges.n) {
        unsigned out = left_out(s, rule, range);
        produce_logits(s, row, range, &shared.ranges[warp]);
        do_range(s, rule, range, out, &shared.ranges[warp], put);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(f.arrived + row, 1u) == gridDim.x - 1;
        if (is_last)
            f.arrived[row] = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    merge_ranges(s, rule, row, &shared.join, get);
}

/* ---- op ---------------------------------------------------------------------------------------------------------- */

/* Layout of the scratch memory. */
struct fused_layout {
    int64_t rows, vocab, k, ld;
    size_t statistics, weight, logits, partials, end;
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
    l.statistics = place(&l.end, gemm_scratch_bytes(l.rows, weight->dims[1]));
    int packed = weight->layout == MX_LAYOUT_PACKED;
    l.weight = place(&l.end, packed ? 0 : mx_cuda_weight_bytes(l.vocab, weight->dims[1], 2));
    l.logits = place(&l.end, (size_t)(l.rows * l.ld) * sizeof(float));
    l.partials = place(&l.end, (size_t)(l.rows * MX_MIN(mx_cuda_tiles_of(l.vocab), MAX_RANGES) * PARTIAL_PAIRS) *
                                   sizeof(float2));
    return l;
}

}   /* namespace */

extern "C" size_t mx_cuda_fused_select_scratch(mx_cuda *gpu, const mx_call *call) { return layout_of(call).end; }

static gemm_desc describe_logits(const mx_call *call, const fused_layout &l) {
    const mx_tensor *x = &call->inputs[0];
    char *scratch = (char *)call->scratch;
    gemm_desc p = {};
    p.m = l.rows;
    p.n = l.vocab;
    p.k = call->inputs[1].dims[1];
    p.x = (const float *)x->data;
    p.ldx = x->strides[0];
    p.gamma = (const float *)mx_cuda_input(call, 4);
    p.beta = (const float *)mx_cuda_input(call, 5);
    p.eps = call->attrs->eps;
    p.precision = gemm_precision_of(call->precision);
    p.y = (float *)(scratch + l.logits);
    p.ldy = l.ld;
    p.scratch = scratch + l.statistics;
    return p;
}

extern "C" int mx_cuda_logits_describe(const mx_call *call, gemm_desc *p) {
    *p = describe_logits(call, layout_of(call));
    if (call->inputs[1].layout != MX_LAYOUT_PACKED)
        return 0;
    p->weight = mx_cuda_weight_of(&call->inputs[1]);
    return 1;
}

static mxw_status make_logits(mx_cuda *gpu, const mx_call *call, const fused_layout &l) {
    const mx_tensor *weight = &call->inputs[1];
    gemm_desc p = describe_logits(call, l);
    mxw_status status = MXW_OK;
    if (weight->layout == MX_LAYOUT_PACKED) {
        p.weight = mx_cuda_weight_of(weight);
    } else {
        p.weight.bytes = (char *)call->scratch + l.weight;
        p.weight.n = p.n;
        p.weight.k = p.k;
        p.weight.terms = 2;
        p.weight.fresh = 1;
        status = mx_cuda_pack_plain(gpu, call, &p.weight, (const float *)weight->data, 1);
    }
    return status < 0 ? status : mx_cuda_gemm_run(gpu, call, &p);
}

/* As many ranges as the GPU has SMs, which is how the megakernel divides the vocabulary; more if they would be too
 * long. */
static id_ranges ranges_of(const mx_cuda *gpu, int64_t vocab) {
    int64_t tiles = mx_cuda_tiles_of(vocab), least = (tiles * 8 + RANGE_IDS - 1) / RANGE_IDS;
    int64_t n = MX_MAX(least, MX_MIN(tiles, (int64_t)gpu->device.info.cores));
    id_ranges r = {(int)vocab, (int)n, n ? (int)(tiles / n) : 0, n ? (int)(tiles % n) : 0};
    return r;
}

static partial_selection selection_of(const mx_cuda *gpu, const mx_call *call, const fused_layout &l) {
    const mx_tensor *out = call->outputs;
    partial_selection s = {};
    s.of.ids = (int32_t *)out[0].data;
    s.of.log_probs = (float *)out[1].data;
    s.of.stats = (float *)out[2].data;
    s.of.logits = (const float *)((char *)call->scratch + l.logits);
    s.of.rules = (const mx_rule *)call->inputs[2].data;
    s.of.suppress = (const uint8_t *)call->inputs[3].data;
    s.of.rows = l.rows;
    s.of.vocab = l.vocab;
    s.of.k = l.k;
    s.ld = l.ld;
    s.ranges = ranges_of(gpu, l.vocab);
    return s;
}

/* Not if there are more candidates than a range keeps, or more ranges than a block combines. */
static int takes_ranges(const partial_selection &s) {
    return s.of.k <= RANGE_TOP_K && s.ranges.n > 0 && s.ranges.n <= MAX_RANGES && s.of.rows <= MAX_GRID_ROWS;
}

int partial_selection_of(const mx_cuda *gpu, const mx_call *call, partial_selection *out) {
    *out = selection_of(gpu, call, layout_of(call));
    return takes_ranges(*out);
}

namespace {

/* Every row as in plain select. */
__global__ void __launch_bounds__(BLOCK_SIZE) whole_rows_kernel(partial_selection s) {
    __shared__ select_smem pad;
    pdl_wait();
    float *logits = (float *)s.of.logits + blockIdx.x * s.ld;
    select_row(s.of, logits, logits, blockIdx.x, &pad);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_select_logits(mx_cuda *gpu, const mx_call *call) {
    fused_layout l = layout_of(call);
    if (l.rows == 0)
        return MXW_OK;
    fused_selection f = {selection_of(gpu, call, l), (float2 *)((char *)call->scratch + l.partials), gpu->arrivals};
    unsigned blocks = (unsigned)(f.ranged.ranges.n + BLOCK_WARPS - 1) / BLOCK_WARPS;
    if (takes_ranges(f.ranged))
        launch_kernel(gpu, ranges_kernel, dim3(blocks, (unsigned)l.rows), dim3(BLOCK_SIZE), 0, f);
    else
        launch_kernel(gpu, whole_rows_kernel, dim3((unsigned)l.rows), dim3(BLOCK_SIZE), 0, f.ranged);
    return mx_cuda_launched(gpu, call);
}

extern "C" const char *mx_cuda_fused_select_label(mx_cuda *gpu, const mx_call *call) {
    gemm_desc p;
    partial_selection s;
    if (!mx_cuda_logits_describe(call, &p))
        p.weight.terms = 2;
    return mx_cuda_gemm_label(gpu, &p, partial_selection_of(gpu, call, &s) ? GEMM_THEN_SELECT_PARTIAL
                                                                           : GEMM_THEN_SELECT_ROWS);
}

extern "C" mxw_status mx_cuda_fused_select(mx_cuda *gpu, const mx_call *call) {
    fused_layout l = layout_of(call);
    mxw_status status = l.rows == 0 ? MXW_OK : make_logits(gpu, call, l);
    return status < 0 || l.rows == 0 ? status : mx_cuda_select_logits(gpu, call);
}

}   /* namespace mx::logits */
