/* modules/cuda/chain_select.cuh - the end of a chain: logits, which every block makes of its range of ids, and what
 * they come to; then for each row a block that joins the ranges.
 * What holds: every logit is computed as in product_rows.cu, all else as in fused_select.cu, bit for bit. */
#ifndef MX_CUDA_CHAIN_SELECT_CUH
#define MX_CUDA_CHAIN_SELECT_CUH
#include "modules/cuda/chain_product.cuh"

#if MX_WIDE
static_assert(WORKERS == MX_BLOCK, "a row is joined by all workers of a block");

/* ---- logits ------------------------------------------------------------------------------------------------------ */

/* A lane's results of its warp's tiles among n, piece by piece along k. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void multiply_along(const mx_chain_product &job, int n, const uint4 *x,
                                                      ring_place &ring, float2 (&y)[MX_CHAIN_OF_WARP]) {
    float c[MX_CHAIN_OF_WARP][4] = {};
    int chunk = 1;
#pragma unroll
    for (int i = 0; i < MX_CHAIN_OF_WARP; i++)
        y[i] = make_float2(0, 0);
#pragma unroll 1
    for (int b = 0; b < job.blocks; b++) {
        const uint32_t *w = take_piece(ring, n * w_parts * TILE_BLOCK) + lane_of();
        operands<w_parts> o;
        load_rows(x, b, o);
#pragma unroll
        for (int i = 0; i < MX_CHAIN_OF_WARP; i++) {
            int tile = warp_of() + i * MX_CHAIN_WARPS;
            if (tile >= n)
                break;
#pragma unroll
            for (int s = 0; s < 4; s++) {
                uint32_t b0[w_parts], b1[w_parts];
#pragma unroll
                for (int part = 0; part < w_parts; part++) {
                    b0[part] = w[(part * n + tile) * (TILE_BLOCK / 4) + s * 2 * MX_WARP];
                    b1[part] = w[(part * n + tile) * (TILE_BLOCK / 4) + (s * 2 + 1) * MX_WARP];
                }
                step_both<w_parts>(c[i], o.a[s], b0, b1);
            }
        }
        if (b + 1 == job.starts[chunk]) {
            chunk++;
#pragma unroll
            for (int i = 0; i < MX_CHAIN_OF_WARP; i++) {
                y[i] = make_float2(__fadd_rn(y[i].x, mx_chunk_sum<x_parts>(c[i][0], c[i][2])),
                                   __fadd_rn(y[i].y, mx_chunk_sum<x_parts>(c[i][1], c[i][3])));
                c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
            }
        }
        meet_block();
        leave_piece(ring);
    }
}

/* Where the logits of a lane's row go, those of the block's first tile first; NULL: not there. */
struct logits_place {
    float *memory;
    range_pad *pad;
};

__device__ __forceinline__ static void put_logits(const logits_place &to, int tile, float2 v) {
    int at = tile * 8 + lane_of() % 4 * 2;
    if (to.memory)
        *(float2 *)(to.memory + at) = v;
    if (to.pad)
        keep_logits(to.pad, at, v);
}

/* Some tiles at a time, as many as a warp has sums for. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void make_logits(const mx_chain_product &job, tile_range t, const uint4 *x,
                                                   const logits_place &to) {
    ring_place ring = shared().ring;
#pragma unroll 1
    for (int first = 0; first < t.last - t.first; first += job.group) {
        int n = min(job.group, t.last - t.first - first);
        float2 y[MX_CHAIN_OF_WARP];
        multiply_along<x_parts, w_parts>(job, n, x, ring, y);
#pragma unroll
        for (int i = 0; i < MX_CHAIN_OF_WARP; i++)
            if (warp_of() + i * MX_CHAIN_WARPS < n)
                put_logits(to, first + warp_of() + i * MX_CHAIN_WARPS,
                           make_float2(__fmul_rn(y[i].x, MX_X_UP), __fmul_rn(y[i].y, MX_X_UP)));
    }
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

struct tell_pair {
    mx_told *at;
    int step;
    unsigned tag;
    __device__ __forceinline__ void operator()(int pair, float a, float b) const {
        tell_two(at + pair * step, make_float2(a, b), tag);
    }
};

__device__ __forceinline__ static bool row_draws(int row) { return shared().rules[row].temperature > 0; }

/* Of a row that draws, only that its logits are there. */
__device__ __forceinline__ static void tell_range(const mx_chain_selection &s, int row, int range, unsigned out,
                                                  range_pad *pad) {
    int step = s.of.ranges.n * 2;
    tell_pair tell = {s.parts + row * PART_PAIRS * step + range * 2, step, shared().tag};
    if (row_draws(row)) {
        __threadfence();
        if (lane_of() == 0)
            tell(0, 0, 0);
    } else {
        do_range(s.of, shared().rules[row], range, out, pad, tell);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

struct hear_pairs {
    const mx_told *at;
    int step;
    unsigned tag;
    template <int n>
    __device__ __forceinline__ void operator()(const int (&range)[n], const int (&pairs)[n], float2 (&v)[n]) const {
        int from[n];
#pragma unroll
        for (int i = 0; i < n; i++)
            from[i] = pairs[i] * step + range[i] * 2;
        hear(at, from, tag, v);
    }
};

/* All logits of a row, the plain way, whose results go to shared memory first: they are written once. */
struct draw_pad {
    scratchpad whole;
    int32_t ids[KEPT];
    float log_probs[KEPT], stats[MX_SELECT_STATS];
};

__device__ __noinline__ static void draw_row(const mx_chain_selection &s, int row, const hear_pairs &told) {
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
    told(range, first, v);
    __threadfence();
    meet_block();
    select_row(here, logits, logits, row, &pad->whole);
    meet_block();
    if (warp_of() == 0 && lane < k) {
        to.ids[row * k + lane] = pad->ids[lane];
        to.log_probs[row * k + lane] = pad->log_probs[lane];
    }
    if (warp_of() == 0 && lane < MX_SELECT_STATS)
        to.stats[row * MX_SELECT_STATS + lane] = pad->stats[lane];
}

/* A block to a row. */
__device__ __noinline__ static void run_choose(const mx_chain_phase &phase, int place) {
    const mx_chain_selection &s = phase.selection;
    int step = s.of.ranges.n * 2;
#pragma unroll 1
    for (int row = place; row < shared().rows; row += phase.place.n) {
        hear_pairs told = {s.parts + row * PART_PAIRS * step, step, shared().tag};
        if (row_draws(row))
            draw_row(s, row, told);
        else
            join_ranges(s.of, shared().rules[row], row, (join_pad *)work_start(), told);
        meet_block();
    }
}

/* ---- the phase --------------------------------------------------------------------------------------------------- */

/* The last product of a chain, and, if the chain selects, what the block's range comes to: a warp to a row. What the
 * rules leave out is found before x is there. */
template <int x_parts, int w_parts, bool tells>
__device__ __noinline__ static void run_logits(const mx_chain_phase &phase, int place) {
    const mx_chain_product &job = phase.product;
    const mx_chain_selection &s = phase.selection;
    bool selects = tells && s.parts;
    int row = warp_of(), of = lane_of() / 4;
    uint4 *x = (uint4 *)work_start();
    range_pad *pads = (range_pad *)(x + job.blocks * 4 * MX_WARP);
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
        bring_normed<x_parts, tells>(phase, x);
    else
        bring_plain<x_parts>(job, x);
    meet_block();
    make_logits<x_parts, w_parts>(job, t, x, to);
    meet_block();
    if (selects && row < shared().rows)
        tell_range(s, row, place, out, &pads[row]);
    meet_block();
}
#endif
#endif
