/* modules/cuda/megakernel/sm90/select_stage.cuh - the last stages of the megakernel: every CTA computes and reduces the
 * logits of its range of ids; then a CTA per row combines the ranges.
 * Invariants: every logit is computed as in gemm/skinny.cu, everything else as in logits/logits_select.cu, bit for bit.
 */
#ifndef MX_CUDA_MEGAKERNEL_SM90_SELECT_STAGE_CUH
#define MX_CUDA_MEGAKERNEL_SM90_SELECT_STAGE_CUH
#include "modules/cuda/megakernel/sm90/gemm_stage.cuh"

namespace mx::megakernel {

#if MX_HAS_WGMMA
static_assert(WORKER_THREADS == BLOCK_SIZE, "a row is combine_terms by all workers of a block");

/* ---- logits ------------------------------------------------------------------------------------------------------ */

/* A lane's results of its warp's tiles among n, piece by piece along K. */
template <int x_terms, int w_terms>
__device__ __forceinline__ static void multiply_along(const gemm_stage &job, int n, const uint4 *x, ring_place &ring,
                                                      float2 (&y)[LOGIT_TILES_PER_WARP]) {
    float c[LOGIT_TILES_PER_WARP][4] = {};
    int slice = 1;
#pragma unroll
    for (int i = 0; i < LOGIT_TILES_PER_WARP; i++)
        y[i] = make_float2(0, 0);
#pragma unroll 1
    for (int b = 0; b < job.blocks; b++) {
        const uint32_t *w = wait_piece(ring, n * w_terms * TILE_BYTES) + lane_of();
        operands<w_terms> o;
        load_rows(x, b, o);
#pragma unroll
        for (int i = 0; i < LOGIT_TILES_PER_WARP; i++) {
            int tile = warp_of() + i * WORKER_WARPS;
            if (tile >= n)
                break;
#pragma unroll
            for (int s = 0; s < 4; s++) {
                uint32_t b0[w_terms], b1[w_terms];
#pragma unroll
                for (int part = 0; part < w_terms; part++) {
                    b0[part] = w[(part * n + tile) * (TILE_BYTES / 4) + s * 2 * WARP_SIZE];
                    b1[part] = w[(part * n + tile) * (TILE_BYTES / 4) + (s * 2 + 1) * WARP_SIZE];
                }
                step_both<w_terms>(c[i], o.a[s], b0, b1);
            }
        }
        if (b + 1 == job.starts[slice]) {
            slice++;
#pragma unroll
            for (int i = 0; i < LOGIT_TILES_PER_WARP; i++) {
                y[i] = make_float2(__fadd_rn(y[i].x, slice_sum<x_terms>(c[i][0], c[i][2])),
                                   __fadd_rn(y[i].y, slice_sum<x_terms>(c[i][1], c[i][3])));
                c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
            }
        }
        sync_workers();
        release_piece(ring);
    }
}

/* Where the logits of a lane's row go, those of the CTA's first tile first; NULL: none. */
struct logits_place {
    float *memory;
    range_smem *pad;
};

__device__ __forceinline__ static void put_logits(const logits_place &to, int tile, float2 v) {
    int at = tile * 8 + lane_of() % 4 * 2;
    if (to.memory)
        *(float2 *)(to.memory + at) = v;
    if (to.pad)
        keep_logits(to.pad, at, v);
}

/* Some tiles at a time, as many as a warp has accumulators for. */
template <int x_terms, int w_terms>
__device__ __forceinline__ static void make_logits(const gemm_stage &job, tile_range t, const uint4 *x,
                                                   const logits_place &to) {
    ring_place ring = shared().ring;
#pragma unroll 1
    for (int first = 0; first < t.last - t.first; first += job.group) {
        int n = min(job.group, t.last - t.first - first);
        float2 y[LOGIT_TILES_PER_WARP];
        multiply_along<x_terms, w_terms>(job, n, x, ring, y);
#pragma unroll
        for (int i = 0; i < LOGIT_TILES_PER_WARP; i++)
            if (warp_of() + i * WORKER_WARPS < n)
                put_logits(to, first + warp_of() + i * WORKER_WARPS,
                           make_float2(__fmul_rn(y[i].x, X_UNSCALE), __fmul_rn(y[i].y, X_UNSCALE)));
    }
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

struct publish_pair {
    flagged *at;
    int step;
    unsigned epoch;
    __device__ __forceinline__ void operator()(int pair, float a, float b) const {
        publish2(at + pair * step, make_float2(a, b), epoch);
    }
};

__device__ __forceinline__ static bool row_draws(int row) { return shared().rules[row].temperature > 0; }

/* For a row that samples, only that its logits are there. */
__device__ __forceinline__ static void publish_range(const select_stage &s, int row, int range, unsigned out,
                                                     range_smem *pad) {
    int step = s.of.ranges.n * 2;
    publish_pair publish = {s.partials + row * PARTIAL_PAIRS * step + range * 2, step, shared().epoch};
    if (row_draws(row)) {
        __threadfence();
        if (lane_of() == 0)
            publish(0, 0, 0);
    } else {
        do_range(s.of, shared().rules[row], range, out, pad, publish);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

struct acquire_pairs {
    const flagged *at;
    int step;
    unsigned epoch;
    template <int n>
    __device__ __forceinline__ void operator()(const int (&range)[n], const int (&pairs)[n], float2 (&v)[n]) const {
        int from[n];
#pragma unroll
        for (int i = 0; i < n; i++)
            from[i] = pairs[i] * step + range[i] * 2;
        acquire(at, from, epoch, v);
    }
};

/* All logits of a row, as in plain select; results go to shared memory first, since they are written once. */
struct draw_pad {
    select_smem whole;
    int32_t ids[RANGE_TOP_K];
    float log_probs[RANGE_TOP_K], stats[MX_SELECT_STATS];
};

__device__ __noinline__ static void draw_row(const select_stage &s, int row, const acquire_pairs &flagged_at) {
    const int range[1] = {min((int)threadIdx.x, s.of.ranges.n - 1)}, first[1] = {0};
    const int k = (int)s.of.of.k, lane = lane_of();
    const selection &to = s.of.of;
    draw_pad *pad = (draw_pad *)work_start();
    selection here = to;
    float2 v[1];
    float *logits = (float *)to.logits + row * s.of.ld;
    here.ids = pad->ids - row * k;
    here.log_probs = pad->log_probs - row * k;
    here.stats = pad->stats - row * MX_SELECT_STATS;
    flagged_at(range, first, v);
    __threadfence();
    sync_workers();
    select_row(here, logits, logits, row, &pad->whole);
    sync_workers();
    if (warp_of() == 0 && lane < k) {
        to.ids[row * k + lane] = pad->ids[lane];
        to.log_probs[row * k + lane] = pad->log_probs[lane];
    }
    if (warp_of() == 0 && lane < MX_SELECT_STATS)
        to.stats[row * MX_SELECT_STATS + lane] = pad->stats[lane];
}

/* A CTA per row. */
__device__ __noinline__ static void run_select(const stage_desc &stage, int place) {
    const select_stage &s = stage.selection;
    int step = s.of.ranges.n * 2;
#pragma unroll 1
    for (int row = place; row < shared().rows; row += stage.place.n) {
        acquire_pairs flagged_at = {s.partials + row * PARTIAL_PAIRS * step, step, shared().epoch};
        if (row_draws(row))
            draw_row(s, row, flagged_at);
        else
            merge_ranges(s.of, shared().rules[row], row, (merge_smem *)work_start(), flagged_at);
        sync_workers();
    }
}

/* ---- stage ------------------------------------------------------------------------------------------------------- */

/* The last GEMM and, if the megakernel selects, the reduction of the CTA's range: a warp per row. What the rules
 * suppress is found before x is there. */
template <int x_terms, int w_terms, bool publishes>
__device__ __noinline__ static void run_logits(const stage_desc &stage, int place) {
    const gemm_stage &job = stage.product;
    const select_stage &s = stage.selection;
    bool selects = publishes && s.partials;
    int row = warp_of(), of = lane_of() / 4;
    uint4 *x = (uint4 *)work_start();
    range_smem *pads = (range_smem *)(x + job.blocks * 4 * WARP_SIZE);
    tile_range t = tiles_at(job, place);
    logits_place to = {NULL, NULL};
    unsigned out = 0;
    if (of < shared().rows && selects && !row_draws(of))
        to.pad = &pads[of];
    else if (of < shared().rows)
        to.memory = job.plain + (int64_t)of * job.ldy + t.first * 8;
    if (selects && row < shared().rows)
        out = left_out(s.of, shared().rules[row], place);
    if (job.gamma)
        load_normed<x_terms, publishes>(stage, x);
    else
        load_plain<x_terms>(job, x);
    sync_workers();
    make_logits<x_terms, w_terms>(job, t, x, to);
    sync_workers();
    if (selects && row < shared().rows)
        publish_range(s, row, place, out, &pads[row]);
    sync_workers();
}
#endif

}   /* namespace mx::megakernel */
#endif
