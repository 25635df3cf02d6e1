/* modules/cuda/megakernel/sm90/gemm_stage.cuh - GEMMs as stages of the megakernel: weights prefetched into a ring in
 * shared memory, rows of x as operands, sums.
 * Invariants: every element is computed as in gemm/skinny.cu, bit for bit. */
#ifndef MX_CUDA_MEGAKERNEL_SM90_GEMM_STAGE_CUH
#define MX_CUDA_MEGAKERNEL_SM90_GEMM_STAGE_CUH
#include "modules/cuda/megakernel/sm90/grid_sync.cuh"

namespace mx::megakernel {

#if MX_HAS_WGMMA
/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct tile_range {
    int first, last;
};

/* The tiles of a GEMM that CTA number `place` of the stage has. */
__device__ __forceinline__ static tile_range tiles_at(const gemm_stage &job, int place) {
    int at = job.each == 1 ? place : place / job.each;
    tile_range t = {at * job.share + min(at, job.longer), 0};
    t.last = min(t.first + job.share + (at < job.longer), job.tiles);
    return t;
}

/* Where a piece is placed: after the one before, or at the start if there is no room after it. */
__device__ __forceinline__ static int place_piece(int at, int bytes, int ring_bytes) {
    return at + bytes > ring_bytes ? 0 : at;
}

/* Address of block b of a tile; blocks of a weight's second term follow those of the first. */
template <int w_terms>
__device__ __forceinline__ static const char *tile_at(const gemm_stage &job, int tile, int b) {
    int64_t part =
        w_terms == 2 && b >= job.blocks ? job.w_term_bytes - (int64_t)job.blocks * job.tiles * TILE_BYTES : 0;
    return (const char *)job.weight + part + ((int64_t)b * job.tiles + tile) * TILE_BYTES;
}

/* Producer state of the ring: bytes since the start, and those that are free again; a lane keeps the end of a piece. */
struct ring_filler {
    int at, issued, freed;
    unsigned head, tail, end_of_mine;
};

/* Acquires room for a piece. */
__device__ __forceinline__ static char *acquire_room(ring_filler &f, int bytes, uint64_t **barrier) {
    int ring_bytes = shared().ring_bytes, which = f.issued % RING_BARRIERS, to = place_piece(f.at, bytes, ring_bytes);
    f.head += (unsigned)(to < f.at ? ring_bytes - f.at : 0) + (unsigned)bytes;
    f.at = to + bytes;
    while (f.freed < f.issued && (f.head - f.tail > (unsigned)ring_bytes || f.issued - f.freed == RING_BARRIERS)) {
        mbarrier_wait(&shared().empty[f.freed % RING_BARRIERS], f.freed / RING_BARRIERS % 2);
        f.tail = __shfl_sync(0xffffffffu, f.end_of_mine, f.freed % RING_BARRIERS);
        f.freed++;
    }
    f.end_of_mine = lane_of() == which ? f.head : f.end_of_mine;
    *barrier = &shared().full[which];
    f.issued++;
    return ring_start() + to;
}

/* All copies of the piece are issued, and its mbarrier waits for their bytes: no thread passes it before this. */
__device__ __forceinline__ static void expect_piece(uint64_t *barrier, int bytes) {
    __syncwarp();
    if (lane_of() == 0)
        mbarrier_arrive_expect_tx(barrier, (unsigned)bytes);
}

/* Pieces of all of K. */
template <int w_terms>
__device__ __forceinline__ static void fill_tiles(ring_filler &f, const gemm_stage &job, tile_range t) {
#pragma unroll 1
    for (; t.first < t.last; t.first += job.group) {
        int n = min(job.group, t.last - t.first);
        uint64_t *barrier;
        char *to = acquire_room(f, n * job.blocks * w_terms * TILE_BYTES, &barrier);
#pragma unroll 1
        for (int b = lane_of(); b < job.blocks * w_terms; b += WARP_SIZE)
            cp_async_bulk(to + b * n * TILE_BYTES, tile_at<w_terms>(job, t.first, b), (unsigned)(n * TILE_BYTES),
                          barrier);
        expect_piece(barrier, n * job.blocks * w_terms * TILE_BYTES);
    }
}

/* Pieces of 64 of K: few large copies, since issuing one costs the same whatever its size. The vocabulary is most of
 * what a step reads; it is loaded evict-first, so that the rest, the instructions of the next kernels included, stays
 * in L2 from step to step. */
template <int w_terms>
__device__ __forceinline__ static void fill_logits(ring_filler &f, const gemm_stage &job, tile_range t) {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll 1
    for (; t.first < t.last; t.first += job.group) {
        int n = min(job.group, t.last - t.first);
#pragma unroll 1
        for (int b = 0; b < job.blocks; b++) {
            uint64_t *barrier;
            char *to = acquire_room(f, n * w_terms * TILE_BYTES, &barrier);
            if (lane_of() < w_terms)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                             "[%0], [%1], %2, [%3], %4;"
                             ::"r"(smem_addr(to + lane_of() * n * TILE_BYTES)),
                             "l"(tile_at<w_terms>(job, t.first, b + lane_of() * job.blocks)), "r"(n * TILE_BYTES),
                             "r"(smem_addr(barrier)), "l"(policy) : "memory");
            expect_piece(barrier, n * w_terms * TILE_BYTES);
        }
    }
}

/* The producer warp: pieces of the CTA's tiles of every GEMM, in order, as soon as there is room. */
template <int w_terms> __device__ static void produce_weights() {
    ring_filler f = {};
#pragma unroll 1
    for (int i = 0; i < shared().n; i++) {
        const stage_desc &stage = stages_start()[i];
        int place = place_in(stage);
        if (place >= stage.place.n)
            continue;
        if (stage.kind == STAGE_LOGITS)
            fill_logits<w_terms>(f, stage.product, tiles_at(stage.product, place));
        else if (stage.kind == STAGE_GEMM || stage.kind == STAGE_CROSS_ATTN)
            fill_tiles<w_terms>(f, stage.product, tiles_at(stage.product, place));
    }
}

/* The next piece, once it has arrived. */
__device__ __forceinline__ static const uint32_t *wait_piece(ring_place &ring, int bytes) {
    int at = place_piece(ring.at, bytes, shared().ring_bytes);
    ring.at = at + bytes;
    mbarrier_wait(&shared().full[ring.piece % RING_BARRIERS], ring.piece / RING_BARRIERS % 2);
    return (const uint32_t *)(ring_start() + at);
}

/* Called by every worker that is done with the piece: after all have, it may be overwritten. */
__device__ __forceinline__ static void release_piece(ring_place &ring) {
    mbarrier_arrive(&shared().empty[ring.piece % RING_BARRIERS]);
    ring.piece++;
}

/* ---- GEMM: x ----------------------------------------------------------------------------------------------------- */

/* Position of four elements of row r, from k = 4 `four` on, among the operands [step][lane]. An operand has 16 rows, of
 * which 8 are used: the first terms are its rows 0 to 7, the second terms the others, so that one step multiplies both;
 * zeros where there is one term. Lanes are rotated from step to step to keep bank conflicts rare when a warp writes a
 * row. */
__device__ __forceinline__ static int operand_at(int r, int four) {
    return four / 4 * WARP_SIZE + ((r * 4 + four % 4) ^ four / 4 % 8 * 4);
}

/* A row per warp, `held` float4s per lane. What does not depend on x is prefetched before x is there. One function for
 * all stages: its instructions are fetched once. */
template <int x_terms, bool publishes, int held_>
__device__ __noinline__ static void load_resident(const stage_desc &stage, uint4 *x) {
    const gemm_stage &job = stage.product;
    int r = warp_of(), lane = lane_of(), at = r < shared().rows ? job.picked ? shared().pick[r] : r : -1;
    float eps = job.eps, sum = 0, squares = 0;
    unsigned epoch = shared().epoch;
    const flagged *flagged_at = job.x + at * (held_ * 4 * WARP_SIZE) + lane * 4;
    const float4 *plain = (const float4 *)(job.plain_x + (int64_t)at * job.ldx) + lane;
    uint4 v[held_], *to = x + operand_at(r, lane);
    float4 scale[held_], shift[held_];
    if (at < 0)
        return;
#pragma unroll
    for (int i = 0; i < held_; i++) {
        scale[i] = __ldg((const float4 *)job.gamma + lane + i * WARP_SIZE);
        shift[i] = __ldg((const float4 *)job.beta + lane + i * WARP_SIZE);
    }
    if (publishes) {
        int steps[held_];
#pragma unroll
        for (int i = 0; i < held_; i++)
            steps[i] = i * 4 * WARP_SIZE;
        wait_hint(stage.hint);
        acquire4(flagged_at, steps, epoch, v);
    } else {
#pragma unroll
        for (int i = 0; i < held_; i++)
            v[i] = __ldcg((const uint4 *)plain + i * WARP_SIZE);
    }
#pragma unroll
    for (int i = 0; i < held_; i++)
        sum = sum4(sum, floats_of(v[i]), 0, 4);
    float mean = row_mean(sum, held_ * 4 * WARP_SIZE);
#pragma unroll
    for (int i = 0; i < held_; i++)
        squares = sum_squares4(squares, floats_of(v[i]), mean, 0, 4);
    float2 s = make_float2(mean, row_rstd(squares, held_ * 4 * WARP_SIZE, eps));
#pragma unroll
    for (int i = 0; i < held_; i++)
        to[i * 8 * WARP_SIZE] =
            make_operand8<x_terms>(scale_x(norm4(floats_of(v[i]), s, scale[i], shift[i])));
}

/* The same for any length that is a multiple of 64, float4 by float4. */
template <int x_terms, bool publishes>
__device__ __noinline__ static void load_any(const stage_desc &stage, uint4 *x) {
    const gemm_stage &job = stage.product;
    int r = warp_of(), lane = lane_of(), n = job.k / 4;
    float sum = 0, squares = 0;
    if (r >= shared().rows)
        return;
    int row = job.picked ? shared().pick[r] : r;
    auto at = [&](int i) {
        uint4 v[1];
        const int here[1] = {row * job.k + i * 4};
        if (publishes)
            acquire4(job.x, here, shared().epoch, v);
        else
            v[0] = __ldcg((const uint4 *)(job.plain_x + (int64_t)row * job.ldx) + i);
        return floats_of(v[0]);
    };
#pragma unroll 1
    for (int i = lane; i < (n + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE; i += WARP_SIZE) {
        float4 v = at(min(i, n - 1));
        sum = i < n ? sum4(sum, v, 0, 4) : sum;
    }
    float mean = row_mean(sum, job.k);
#pragma unroll 1
    for (int i = lane; i < (n + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE; i += WARP_SIZE) {
        float4 v = at(min(i, n - 1));
        squares = i < n ? sum_squares4(squares, v, mean, 0, 4) : squares;
    }
    float2 s = make_float2(mean, row_rstd(squares, job.k, job.eps));
#pragma unroll 1
    for (int i = lane; i < (n + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE; i += WARP_SIZE) {
        float4 v = at(min(i, n - 1));
        if (i < n)
            x[operand_at(r, i)] = make_operand8<x_terms>(
                scale_x(norm4(v, s, __ldg((const float4 *)job.gamma + i), __ldg((const float4 *)job.beta + i))));
    }
}

template <int x_terms, bool publishes>
__device__ __forceinline__ static void load_normed(const stage_desc &stage, uint4 *x) {
    int k = stage.product.k;
    if (k == 384)
        load_resident<x_terms, publishes, 3>(stage, x);
    else if (k == 512)
        load_resident<x_terms, publishes, 4>(stage, x);
    else
        load_any<x_terms, publishes>(stage, x);
}

/* float4s of all rows, published as terms, distributed over threads, `at_once` per thread at a time. */
template <int at_once>
__device__ __forceinline__ static void load_terms(const gemm_stage &job, const hint_flag &hint, uint4 *x) {
    int row_fours = job.k / 4, all = shared().rows * row_fours;
    unsigned epoch = shared().epoch, fours = job.fours;
    const flagged *from = job.x;
#pragma unroll 1
    for (int first = 0; first < all; first += WORKER_THREADS * at_once) {
        uint4 v[at_once];
        int at[at_once], to[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            int four = min(first + i * WORKER_THREADS + (int)threadIdx.x, all - 1),
                r = (int)__umulhi((unsigned)four, fours);
            at[i] = four * 4;
            to[i] = operand_at(r, four - r * row_fours);
        }
        if (first == 0)
            wait_hint(hint);
        acquire4(from, at, epoch, v);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            x[to[i]] = v[i];
    }
}

template <int x_terms>
__device__ __forceinline__ static void load_plain(const gemm_stage &job, uint4 *x) {
    int row_fours = job.k / 4, all = shared().rows * row_fours;
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < all; at += WORKER_THREADS) {
        int r = (int)__umulhi((unsigned)at, job.fours), four = at - r * row_fours;
        const float4 *row = (const float4 *)(job.plain_x + (int64_t)r * job.ldx);
        x[operand_at(r, four)] = make_operand8<x_terms>(scale_x(__ldcg(row + four)));
    }
}

/* ---- GEMM: sums -------------------------------------------------------------------------------------------------- */

/* A lane's operands of 64 of K, of two tiles. */
template <int w_terms> struct operands {
    uint4 a[4];
    uint32_t b0[4][2][w_terms], b1[4][2][w_terms];
};

/* A warp's work on a piece: a K slice of two adjacent tiles, or of one, which is then computed twice. */
struct item_of_warp {
    int pair, slice;        /* slice: none if it is past the last */
    int first, blocks;      /* in blocks of 64 of K */
    int second;             /* words to the second tile */
};

/* Items are assigned to warps, pairs of tiles first; n: tiles of the piece. */
__device__ __forceinline__ static item_of_warp item_from(const gemm_stage &job, int n, int pair, int slice) {
    int pairs = (n + 1) / 2;
    for (; pair >= pairs && slice < job.slices; slice++)
        pair -= pairs;
    item_of_warp i = {pair, slice, 0, 0, pair * 2 + 1 < n ? TILE_BYTES / 4 : 0};
    if (slice < job.slices) {
        i.first = job.starts[slice];
        i.blocks = job.starts[slice + 1] - i.first;
    }
    return i;
}

/* Layout of a piece in shared memory, for a lane: blocks of 64 of K are `step` words apart, the next term of the weight
 * is `part` words further. */
struct piece_of_lane {
    const uint32_t *w;
    int n, step, part;
};

__device__ __forceinline__ static piece_of_lane piece_at(const gemm_stage &job, int n, const uint32_t *w) {
    piece_of_lane p = {w + lane_of(), n, n * (TILE_BYTES / 4), job.blocks * n * (TILE_BYTES / 4)};
    return p;
}

template <int w_terms>
__device__ __forceinline__ static void load_weights(const piece_of_lane &p, const item_of_warp &item, int block,
                                                    operands<w_terms> &o) {
    const uint32_t *w = p.w + (item.first + block) * p.step + item.pair * 2 * (TILE_BYTES / 4);
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < w_terms; i++) {
                o.b0[s][t][i] = w[i * p.part + t * item.second + s * 2 * WARP_SIZE];
                o.b1[s][t][i] = w[i * p.part + t * item.second + (s * 2 + 1) * WARP_SIZE];
            }
}

template <int w_terms>
__device__ __forceinline__ static void load_rows(const uint4 *x, int block, operands<w_terms> &o) {
    int lane = lane_of() ^ block % 2 * 16;
#pragma unroll
    for (int s = 0; s < 4; s++)
        o.a[s] = x[(block * 4 + s) * WARP_SIZE + (lane ^ s * 4)];
}

/* One step of the chains of a tile: c[0] and c[1] are those of the first terms of x, c[2] and c[3] the rest. */
template <int w_terms>
__device__ __forceinline__ static void step_both(float (&c)[4], const uint4 &a, const uint32_t (&b0)[w_terms],
                                                 const uint32_t (&b1)[w_terms]) {
    mma_m16n8k16(c, a, b0[0], b1[0]);
    if (w_terms == 2)
        mma_m16n8k16(c, make_uint4(0, a.x, 0, a.z), b0[w_terms - 1], b1[w_terms - 1]);
}

/* The sums of a warp's items of a piece, into sums [tile][slice][lane]. */
template <int x_terms, int w_terms>
__device__ __forceinline__ static void multiply_piece(const gemm_stage &job, const piece_of_lane &p, item_of_warp item,
                                                      int slices, const uint4 *x, float2 *sums) {
#pragma unroll 1
    while (item.slice < slices) {
        float c[2][4] = {};
#pragma unroll 1
        for (int b = 0; b < item.blocks; b++) {
            operands<w_terms> o;
            load_weights(p, item, b, o);
            load_rows(x, item.first + b, o);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int t = 0; t < 2; t++)
                    step_both<w_terms>(c[t], o.a[s], o.b0[s][t], o.b1[s][t]);
        }
        float2 *to = sums + (item.pair * 2 * slices + item.slice) * WARP_SIZE + lane_of();
        to[0] = make_float2(slice_sum<x_terms>(c[0][0], c[0][2]), slice_sum<x_terms>(c[0][1], c[0][3]));
        if (item.second)
            to[slices * WARP_SIZE] =
                make_float2(slice_sum<x_terms>(c[1][0], c[1][2]), slice_sum<x_terms>(c[1][1], c[1][3]));
        item = item_from(job, p.n, item.pair + WORKER_WARPS, item.slice);
    }
}

/* Elements of caches. */
template <int x_terms> using cached_as = std::conditional_t<x_terms == 1, __half, float>;

/* Epilogue state of a lane: what is added to its two columns of its row, and where they go; a warp per tile. */
template <typename cached> struct lane_epilogue {
    float2 bias;
    const flagged *residual;   /* NULL: none */
    int column;
    bool there;
    flagged *flagged_at;
    float *plain;
    cached *cache;
};

template <typename cached>
__device__ __forceinline__ static lane_epilogue<cached> epilogue_at(const gemm_stage &job, tile_range t) {
    int tile = t.first + warp_of(), row = lane_of() / 4;
    lane_epilogue<cached> e = {make_float2(0, 0), NULL, tile * 8 + lane_of() % 4 * 2,
                               tile < t.last && row < shared().rows, NULL, NULL, NULL};
    if (!e.there)
        return e;
    if (job.bias)
        e.bias = __ldg((const float2 *)(job.bias + e.column));
    if (job.residual)
        e.residual = job.residual + row * job.n + e.column;
    if (job.y)
        e.flagged_at = job.y + row * job.n + e.column;
    if (job.plain)
        e.plain = job.plain + (int64_t)row * job.ldy + e.column;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (job.width && shared().cell[row] >= 0 && e.column >= job.from[i] && e.column < job.from[i] + job.width)
            e.cache = (cached *)job.cache[i] + (int64_t)shared().cell[row] * job.width + e.column - job.from[i];
    return e;
}

/* The residual is from an earlier stage than x, so it is almost always there when x is: requested then, and read after
 * the GEMM. */
struct pending_residual {
    flagged flagged_at[2];
};

template <typename cached>
__device__ __forceinline__ static pending_residual request_residual(const lane_epilogue<cached> &e) {
    pending_residual r = {{0, 0}};
    if (e.residual)
        load_flagged2(e.residual, r.flagged_at);
    return r;
}

template <typename cached>
__device__ __forceinline__ static float2 value_of_residual(const lane_epilogue<cached> &e, pending_residual &r,
                                                           unsigned epoch) {
    while (e.residual && ((unsigned)(r.flagged_at[0] >> 32) != epoch || (unsigned)(r.flagged_at[1] >> 32) != epoch))
        load_flagged2(e.residual, r.flagged_at);
    return make_float2(flagged_value(r.flagged_at[0]), flagged_value(r.flagged_at[1]));
}

/* A lane's two results. F: has bias, activation and residual. */
template <typename F>
__device__ __forceinline__ static float2 result_of(const F &job, float2 bias, float2 residual, int slices,
                                                   const float2 *sums) {
    float2 all = make_float2(0, 0);
    sums += warp_of() * slices * WARP_SIZE + lane_of();
#pragma unroll 1
    for (int slice = 0; slice < slices; slice++) {
        float2 s = sums[slice * WARP_SIZE];
        all = make_float2(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y));
    }
    epilogue_inputs ending = {bias, residual, 2};
    return epilogue_apply(job, all.x, all.y, ending);
}

template <int x_terms>
__device__ __forceinline__ static void finish_piece(const gemm_stage &job, const lane_epilogue<cached_as<x_terms>> &e,
                                                    pending_residual &residual, int slices, unsigned epoch,
                                                    const float2 *sums) {
    float2 all = result_of(job, e.bias, value_of_residual(e, residual, epoch), slices, sums);
    if (e.flagged_at)
        publish2(e.flagged_at, job.split ? as_terms<x_terms>(all) : all, epoch);
    if (e.plain)
        *(float2 *)e.plain = all;
    if (e.cache)
        store_cached(e.cache, all);
}

/* x of all rows as operands; the CTA has yet to synchronise. */
template <int x_terms> __device__ __forceinline__ static void load_x(const stage_desc &stage, uint4 *x) {
    const gemm_stage &job = stage.product;
    if (job.gamma)
        load_normed<x_terms, true>(stage, x);
    else if (shared().rows * job.k <= 2 * 4 * WORKER_THREADS)
        load_terms<2>(job, stage.hint, x);
    else
        load_terms<4>(job, stage.hint, x);
}

/* The CTA's tiles, piece by piece. Sums are double-buffered, so that a piece needs one barrier. Everything that is
 * known before x is there is prepared before. */
template <int x_terms, int w_terms>
__device__ __noinline__ static void run_gemm(const stage_desc &stage, int place) {
    const gemm_stage &job = stage.product;
    int turn = 0, group = job.group, slices = job.slices, piece_bytes = job.blocks * w_terms * TILE_BYTES;
    unsigned epoch = shared().epoch;
    bool first = true;
    tile_range t = tiles_at(job, place);
    uint4 *x = (uint4 *)work_start();
    ring_place ring = shared().ring;
#pragma unroll 1
    for (; t.first < t.last; t.first += group, turn ^= 1) {
        float2 *sums = sums_start() + turn * MAX_ITEMS * WARP_SIZE;
        int n = min(group, t.last - t.first);
        auto e = epilogue_at<cached_as<x_terms>>(job, t);
        item_of_warp item = item_from(job, n, warp_of(), 0);
        piece_of_lane piece = piece_at(job, n, wait_piece(ring, n * piece_bytes));
        if (first) {
            load_x<x_terms>(stage, x);
            sync_workers();
        }
        pending_residual residual = request_residual(e);   /* after a barrier, which would wait for it */
        first = false;
        multiply_piece<x_terms, w_terms>(job, piece, item, slices, x, sums);
        sync_workers();
        if (e.there && warp_of() < n)
            finish_piece<x_terms>(job, e, residual, slices, epoch, sums);
        release_piece(ring);
    }
    if (threadIdx.x == 0)
        shared().ring = ring;
    sync_workers();
}
#endif

}   /* namespace mx::megakernel */
#endif
