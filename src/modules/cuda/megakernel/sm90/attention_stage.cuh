/* modules/cuda/megakernel/sm90/attention_stage.cuh - attention as stages of the megakernel: over a cache, whose newest
 * keys and values are published by the GEMM before; over windows, with the GEMM that computes its queries; combining a
 * window's tiles. Keys and values are converted to operands before the queries are there.
 * Invariants: every element is computed as in attention/decode_paged.cu, bit for bit. */
#ifndef MX_CUDA_MEGAKERNEL_SM90_ATTENTION_STAGE_CUH
#define MX_CUDA_MEGAKERNEL_SM90_ATTENTION_STAGE_CUH
#include "modules/cuda/common/cp_async.cuh"
#include "modules/cuda/megakernel/sm90/gemm_stage.cuh"

namespace mx::megakernel {

#if MX_HAS_WGMMA
struct worker_barrier {
    __device__ __forceinline__ void operator()() const { sync_workers(); }
};

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* The cell of a lane's key of a tile; a warp has 16, lanes 16 to 31 have the same as those 16 below. Past the last key
 * it is the last one. */
__device__ __forceinline__ static int cell_of_lane(const row_group &p, int first) {
    int key = min(first + warp_of() * 16 + lane_of() % 16, p.n_keys - 1);
    return p.cells ? __ldcg(p.cells + key) : key;
}

/* Prefetches keys and values of a tile into shared memory, each warp those of its keys. Two terms: a lane's float4s of
 * keys go to where that lane converts them, and no other thread touches them. Values past the last key are zeros. */
template <int terms>
__device__ __forceinline__ static void prefetch_tile(const decode_params &job, const row_group &p, int first, int cell,
                                                     fresh_tile_smem &s) {
    int lane = lane_of(), d = job.d, warp = warp_of();
    if constexpr (terms == 2) {
        uint4 *k = s.k + warp * 8 * WARP_SIZE + lane, *v = s.v + warp * 16 * (HEAD_DIM / 4) + lane;
        first += warp * 16 + lane / 16;
#pragma unroll 2
        for (int i = 0; i < 8; i++) {
            int64_t of_key = (int64_t)__shfl_sync(0xffffffffu, cell, i % 2 * 8 + lane / 4) * d;
            int64_t of_value = (int64_t)__shfl_sync(0xffffffffu, cell, i * 2 + lane / 16) * d;
            cp_async_16(k + i * WARP_SIZE, (const float *)p.k + of_key + four_of_step(i, lane) * 4, true);
            cp_async_16(v + i * WARP_SIZE, (const float *)p.v + of_value + lane % 16 * 4, first + i * 2 < p.n_keys);
        }
    } else {
#pragma unroll 2
        for (int i = 0; i < 4; i++) {
            int key = warp * 16 + i * 4 + lane / 8, to = chunk_at(key, lane % 8);
            int64_t from = (int64_t)__shfl_sync(0xffffffffu, cell, i * 4 + lane / 8) * d + lane % 8 * 8;
            cp_async_16(s.k + to, (const __half *)p.k + from, true);
            cp_async_16(s.v + to, (const __half *)p.v + from, first + key < p.n_keys);
        }
    }
    cp_async_commit();   /* copies that are not committed are not waited for */
}

/* Waits for what was prefetched; of two terms, converts it to operands. */
template <int terms> __device__ __forceinline__ static void convert_tile(fresh_tile_smem &s) {
    int lane = lane_of();
    uint4 *k = s.k + warp_of() * 8 * WARP_SIZE + lane;
    cp_async_wait<0>();
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < 8 && terms == 2; i++) {
        int key = warp_of() * 16 + i * 2 + lane / 16;
        float4 of_key = *(const float4 *)(k + i * WARP_SIZE);
        float4 of_value = *(const float4 *)(s.v + key * (HEAD_DIM / 4) + lane % 16);
        k[i * WARP_SIZE] = split4(of_key);
        __syncwarp();   /* the values' operands take their place */
        put_value(s.v, key, lane % 16, of_value);
    }
}

template <int terms> __device__ __forceinline__ static void take_keys(const fresh_tile_smem &s, key_operand<terms> &k) {
    if constexpr (terms == 1) {
        get_keys(s.k, warp_of(), lane_of(), k);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            k[i] = s.k[(warp_of() * 8 + i) * WARP_SIZE + lane_of()];
    }
}

template <int terms>
__device__ __forceinline__ static tile_result attend(fresh_tile_smem &s, const key_operand<terms> &k, int left,
                                                     float scale) {
    float scores[4];
    begin_tile<terms>(s, k, left, scale, scores);
    return finish_tile<terms, true>(s, s.v, scores, worker_barrier());
}

/* ---- combine ----------------------------------------------------------------------------------------------------- */

/* The weight of a lane's tile, and the factor of the sum of the tiles; ends: row max and sum of the lane's tile, -inf
 * and 0 where it has none. */
template <int terms> __device__ __forceinline__ static float2 weight_of_tile(float2 ends) {
    float scale = exp2_approx(__fsub_rn(ends.x, warp_reduce(ends.x, op_max())));
    return make_float2(scale, share_of<terms>(warp_reduce(__fmaf_rn(scale, ends.y, 0), op_sum())));
}

__device__ __forceinline__ static void add_tile(float2 &sum, float2 weight, int tile, float2 v) {
    float of = __shfl_sync(0xffffffffu, weight.x, tile);
    sum = make_float2(__fmaf_rn(of, v.x, sum.x), __fmaf_rn(of, v.y, sum.y));
}

template <int x_terms>
__device__ __forceinline__ static void publish_result(const attention_stage &a, int at, float2 y, unsigned epoch) {
    publish2(a.y + at, as_terms<x_terms>(y), epoch);
    if (a.plain)
        *(float2 *)(a.plain + at) = y;
}

/* ---- over a cache ------------------------------------------------------------------------------------------------ */

/* Finds which of the tile's keys belong to rows of this step: those are published. Returns whether the warp has one. */
__device__ __forceinline__ static bool note_fresh(const row_group &p, int first, int cell, fresh_tile_smem &s) {
    bool there = lane_of() < 16 && first + warp_of() * 16 + lane_of() < p.n_keys;
    unsigned any = 0;
#pragma unroll 1
    for (int r = 0; r < shared().rows; r++) {
        unsigned keys = __ballot_sync(0xffffffffu, there && cell == shared().cell[r]);
        any |= keys;
        if (lane_of() == 0)
            s.fresh[r][warp_of()] = (uint16_t)keys;
    }
    return any != 0;
}

/* A pair of a published key or value as operands, scaled or, of one term, as a cache keeps it. */
template <int terms> __device__ __forceinline__ static uint2 fresh_of(float2 v) {
    return terms == 2 ? split2(v) : make_uint2(pack_half2(v.x, v.y), 0);
}

/* Puts it to its place among the operands. */
template <int n>
__device__ __forceinline__ static void put_fresh(fresh_tile_smem &s, bool is_key, int key, uint2 terms) {
    int pair = lane_of();
    if (n == 1) {
        ((uint32_t *)((is_key ? s.k : s.v) + chunk_at(key, pair / 4)))[pair % 4] = terms.x;
    } else if (is_key) {
        uint32_t *to =
            (uint32_t *)(s.k + (key / 16 * 8 + pair / 8 * 2 + key / 8 % 2) * WARP_SIZE + key % 8 * 4 + pair % 8 / 2) +
            pair % 2;
        to[0] = terms.x;
        to[2] = terms.y;
    } else {
        uint32_t *to = (uint32_t *)(s.v + key * (HEAD_DIM / 4)) + ((pair / 4 ^ key % 8) * 4 + pair % 4);
        to[0] = terms.x;
        to[HEAD_DIM / 2] = terms.y;
    }
}

/* A row's query, and the published keys and values of the tile, of a head; a warp each, the row's own first. */
template <int n_terms>
__device__ __forceinline__ static void acquire_heads(const attention_stage &a, int row, int head, bool first,
                                                     fresh_tile_smem &s) {
    const int lane = lane_of(), rows = shared().rows;
#pragma unroll 1
    for (int which = warp_of(); which <= 2 * rows; which += WORKER_WARPS) {
        int of = row + (which - 1) / 2, other = of < rows ? of : of - rows;
        bool is_key = which % 2;
        ulonglong2 keys = *(const ulonglong2 *)s.fresh[other];
        float2 v[1];
        if (which ? !(keys.x | keys.y) : !first)
            continue;
        const int from[1] = {(which == 0 ? row * a.ld : other * a.ld + (is_key ? a.k : a.v)) + head * HEAD_DIM +
                             lane * 2};
        acquire(a.q, from, shared().epoch, v);
        if (which == 0) {
            put_query<n_terms>(s, 0, lane, v[0]);
            continue;
        }
        uint2 terms = fresh_of<n_terms>(v[0]);
#pragma unroll 1
        for (; keys.x; keys.x &= keys.x - 1)
            put_fresh<n_terms>(s, is_key, __ffsll((long long)keys.x) - 1, terms);
#pragma unroll 1
        for (; keys.y; keys.y &= keys.y - 1)
            put_fresh<n_terms>(s, is_key, __ffsll((long long)keys.y) + 63, terms);
    }
}

/* A row's tiles, of which each warp has kept 8 columns. */
template <int terms>
__device__ __forceinline__ static float2 combine_kept(const float4 *kept, int tiles) {
    float4 mine = kept[min(lane_of(), tiles - 1) * 4];
    float2 ends = lane_of() < tiles ? make_float2(mine.z, mine.w) : make_float2(-CUDART_INF_F, 0);
    float2 weight = weight_of_tile<terms>(ends);
    float2 sum = make_float2(0, 0);
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
        float4 v = kept[i * 4 + lane_of() % 4];
        add_tile(sum, weight, i, make_float2(v.x, v.y));
    }
    return times(sum, weight.y);
}

/* A CTA has whole rows of heads, one after another. */
template <int x_terms> __device__ __noinline__ static void run_self_attn(const stage_desc &stage, int place) {
    const attention_stage &a = stage.attention;
    const decode_params &job = a.job;
    fresh_tile_smem &s = *(fresh_tile_smem *)work_start();
    float4 *kept = (float4 *)(&s + 1) + warp_of() * job.tiles * 4;
    float scale = power_scale<x_terms>(job);
#pragma unroll 1
    for (int item = place; item < shared().rows * job.heads; item += stage.place.n) {
        int row = item / job.heads, head = item - row * job.heads, keys = shared().pos[row] + 1;
        row_group p = {row,
                       1,
                       head,
                       keys,
                       (keys + TILE_KEYS - 1) / TILE_KEYS,
                       (const cached_as<x_terms> *)job.k + head * HEAD_DIM,
                       (const cached_as<x_terms> *)job.v + head * HEAD_DIM,
                       job.cells + shared().seq[row] * job.ctx};
        tile_result r;
#pragma unroll 1
        for (int tile = 0; tile < p.n_tiles; tile++) {
            key_operand<x_terms> k;
            int cell = cell_of_lane(p, tile * TILE_KEYS);
            prefetch_tile<x_terms>(job, p, tile * TILE_KEYS, cell, s);
            bool fresh = note_fresh(p, tile * TILE_KEYS, cell, s);
            convert_tile<x_terms>(s);
            take_keys<x_terms>(s, k);
            wait_hint(stage.hint);
            sync_workers();
            acquire_heads<x_terms>(a, row, head, tile == 0, s);
            sync_workers();
            if (fresh)
                take_keys<x_terms>(s, k);
            r = attend<x_terms>(s, k, keys - tile * TILE_KEYS, scale);
            if (lane_of() < 4)
                kept[tile * 4 + lane_of()] = make_float4(r.y.x, r.y.y, r.top, r.sum);
        }
        __syncwarp();
        float2 y = p.n_tiles == 1 ? times(r.y, share_of<x_terms>(r.sum)) : combine_kept<x_terms>(kept, p.n_tiles);
        if (lane_of() < 4)
            publish_result<x_terms>(a, row * job.d + head * HEAD_DIM + warp_of() * 8 + lane_of() * 2, y,
                                    shared().epoch);
        __syncwarp();
    }
    sync_workers();
}

/* ---- over windows ------------------------------------------------------------------------------------------------ */

/* Tile i of all windows that are attended to, of a head. */
template <int terms>
__device__ __forceinline__ static row_group window_group(const decode_params &job, int head, int i, int *tile) {
    typedef const cached_as<terms> *elements;
    int run = i / job.tiles;
    int64_t shift = shared().run_window[run] * job.keys * job.d + head * HEAD_DIM;
    row_group p = {shared().run_row[run], shared().run_rows[run], head, (int)job.keys, job.tiles,
                   (elements)job.k + shift, (elements)job.v + shift, NULL};
    *tile = i - run * job.tiles;
    return p;
}

/* A GEMM epilogue with a bias only. */
struct query_epilogue {
    const float *bias;
    static constexpr int act = MX_ACT_NONE;
    static constexpr const flagged *residual = NULL;
};

/* The queries of a head, of all rows, and the keys of the tile: computed by every CTA that has tiles of the head, which
 * is faster than receiving them. publishes: whether to publish them for others. */
template <int x_terms, int w_terms>
__device__ __forceinline__ static void make_queries(const stage_desc &stage, int head, bool publishes, uint4 *x,
                                                    fresh_tile_smem &s, key_operand<x_terms> &k) {
    const gemm_stage &job = stage.product;
    int slices = job.slices, n = HEAD_DIM / 8;
    tile_range t = {head * n, (head + 1) * n};
    ring_place ring = shared().ring;
    auto e = epilogue_at<cached_as<x_terms>>(job, t);
    item_of_warp item = item_from(job, n, warp_of(), 0);
    piece_of_lane piece = piece_at(job, n, wait_piece(ring, n * job.blocks * w_terms * TILE_BYTES));
    float2 *sums = sums_start();
    load_normed<x_terms, true>(stage, x);
    sync_workers();
    multiply_piece<x_terms, w_terms>(job, piece, item, slices, x, sums);
    take_keys<x_terms>(s, k);
    sync_workers();
    if (e.there) {
        query_epilogue ending = {job.bias};
        float2 v = result_of(ending, e.bias, make_float2(0, 0), slices, sums);
        put_query<x_terms>(s, lane_of() / 4, warp_of() * 4 + lane_of() % 4, v);
        if (e.plain && publishes)
            *(float2 *)e.plain = v;
    }
    release_piece(ring);
    if (threadIdx.x == 0)
        shared().ring = ring;
    sync_workers();
}

/* Tiles of a head are assigned to its CTAs. Keys and values are prefetched before the queries are computed: no stage
 * writes them. In shared memory: x as operands, a tile. */
template <int x_terms, int w_terms>
__device__ __noinline__ static void run_cross_attn(const stage_desc &stage, int place) {
    const attention_stage &a = stage.attention;
    const decode_params &job = a.job;
    int each = stage.product.each, head = place / each, row = lane_of() / 4, tile = 0;
    int items = shared().runs * job.tiles, item = place - head * each;
    uint4 *x = (uint4 *)work_start();
    key_operand<x_terms> k;
    fresh_tile_smem &s = *(fresh_tile_smem *)(x + stage.product.blocks * 4 * WARP_SIZE);
    float scale = power_scale<x_terms>(job);
    unsigned epoch = shared().epoch;
    row_group p = window_group<x_terms>(job, head, min(item, items - 1), &tile);
    prefetch_tile<x_terms>(job, p, tile * TILE_KEYS, cell_of_lane(p, tile * TILE_KEYS), s);
    convert_tile<x_terms>(s);
    make_queries<x_terms, w_terms>(stage, head, place == head * each, x, s, k);
#pragma unroll 1
    while (item < items) {
        flagged *to = a.partials + ((row * job.heads + head) * job.tiles + tile) * PARTIAL_VALUES;
        tile_result r = attend<x_terms>(s, k, p.n_keys - tile * TILE_KEYS, scale);
        if (row >= p.row && row < p.row + p.n) {
            publish2(to + warp_of() * 8 + lane_of() % 4 * 2, r.y, epoch);
            if (warp_of() == 0 && lane_of() % 4 == 0)
                publish2(to + HEAD_DIM, make_float2(r.top, r.sum), epoch);
        }
        item += each;
        if (item < items) {
            p = window_group<x_terms>(job, head, item, &tile);
            prefetch_tile<x_terms>(job, p, tile * TILE_KEYS, cell_of_lane(p, tile * TILE_KEYS), s);
            convert_tile<x_terms>(s);
            take_keys<x_terms>(s, k);
        }
    }
    sync_workers();
}

/* A warp has whole rows of heads, and acquires all that it needs at once: a lane has two columns of each tile, and the
 * max and sum of one. A tile that does not exist has weight 0. */
template <int x_terms> __device__ __noinline__ static void run_combine(const stage_desc &stage, int place) {
    const attention_stage &a = stage.attention;
    const int at_once = 12;
    int tiles = a.job.tiles, items = shared().rows * a.job.heads, lane = lane_of();
    unsigned epoch = shared().epoch;
#pragma unroll 1
    for (int item = place + warp_of() * stage.place.n; item < items; item += WORKER_WARPS * stage.place.n) {
        const flagged *from = a.partials + item * tiles * PARTIAL_VALUES;
        int at[at_once + 1];
        float2 v[at_once + 1], sum = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            at[i] = min(i, tiles - 1) * PARTIAL_VALUES + lane * 2;
        at[at_once] = min(lane, tiles - 1) * PARTIAL_VALUES + HEAD_DIM;
        wait_hint(stage.hint);
        acquire(from, at, epoch, v);
        float2 weight = weight_of_tile<x_terms>(lane < tiles ? v[at_once] : make_float2(-CUDART_INF_F, 0));
#pragma unroll
        for (int i = 0; i < at_once; i++)
            add_tile(sum, weight, i, v[i]);
#pragma unroll 1
        for (int i = at_once; i < tiles; i++) {
            float2 more[1];
            const int there[1] = {i * PARTIAL_VALUES + lane * 2};
            acquire(from, there, epoch, more);
            add_tile(sum, weight, i, more[0]);
        }
        publish_result<x_terms>(a, item * HEAD_DIM + lane * 2, times(sum, weight.y), epoch);
    }
}
#endif

}   /* namespace mx::megakernel */
#endif
