/* modules/cuda/chain_attention.cuh - attention as phases of a chain: over a cache, whose newest keys and values are
 * told by the product before; over windows, with the product that makes its queries; the join of a window's tiles.
 * Keys and values are made operands before the queries are there, since no query is needed for it.
 * What holds: every element is computed as in rows_attention.cu, bit for bit. */
#ifndef MX_CUDA_CHAIN_ATTENTION_CUH
#define MX_CUDA_CHAIN_ATTENTION_CUH
#include "modules/cuda/chain_product.cuh"

#if MX_WIDE
struct meet_workers {
    __device__ __forceinline__ void operator()() const { meet_block(); }
};

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Where a lane's key of a tile lies; a warp has 16, a lane above has the same as the one 16 below it. Behind the last
 * key lies the last one. */
__device__ __forceinline__ static int cell_of_lane(const rows_piece &p, int first) {
    int key = min(first + warp_of() * 16 + lane_of() % 16, p.n_keys - 1);
    return p.cells ? __ldcg(p.cells + key) : key;
}

/* Keys and values of a tile on their way to shared memory, those of a warp's keys by the warp. A lane's fours of keys
 * go to where it makes operands of them: nobody else looks at these places. Values behind the last key are zeros. */
__device__ __forceinline__ static void send_for_tile(const rows_job &job, const rows_piece &p, int first, int cell,
                                                     mx_tile_pad &s) {
    int lane = lane_of(), d = job.d;
    uint4 *k = s.k + warp_of() * 8 * MX_WARP + lane, *v = s.v + warp_of() * 16 * (WIDTH / 4) + lane;
    first += warp_of() * 16 + lane / 16;
#pragma unroll 2
    for (int i = 0; i < 8; i++) {
        int64_t of_key = (int64_t)__shfl_sync(0xffffffffu, cell, i % 2 * 8 + lane / 4) * d;
        int64_t of_value = (int64_t)__shfl_sync(0xffffffffu, cell, i * 2 + lane / 16) * d;
        mx_copy_16(k + i * MX_WARP, p.k + of_key + four_of_step(i, lane) * 4, true);
        mx_copy_16(v + i * MX_WARP, p.v + of_value + lane % 16 * 4, first + i * 2 < p.n_keys);
    }
    mx_copy_commit();   /* what is not committed is not waited for */
}

/* What has come, as operands. */
__device__ __forceinline__ static void turn_tile(mx_tile_pad &s) {
    int lane = lane_of();
    uint4 *k = s.k + warp_of() * 8 * MX_WARP + lane;
    mx_copy_wait<0>();
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        int key = warp_of() * 16 + i * 2 + lane / 16;
        float4 of_key = *(const float4 *)(k + i * MX_WARP);
        float4 of_value = *(const float4 *)(s.v + key * (WIDTH / 4) + lane % 16);
        k[i * MX_WARP] = four_in_parts(of_key);
        __syncwarp();   /* the values' operands take their place */
        put_value(s, key, lane % 16, of_value);
    }
}

__device__ __forceinline__ static void take_keys(const mx_tile_pad &s, uint4 (&k)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i++)
        k[i] = s.k[(warp_of() * 8 + i) * MX_WARP + lane_of()];
}

__device__ __forceinline__ static rows_result attend(mx_tile_pad &s, const uint4 (&k)[8], int left, float scale) {
    float scores[4];
    begin_tile(s, k, left, scale, scores);
    return finish_tile<true>(s, scores, meet_workers());
}

/* ---- joins ------------------------------------------------------------------------------------------------------- */

/* How much of a row a lane's tile is, and what the sum of the tiles is multiplied by; ends: largest score and sum of
 * the lane's tile, -inf and 0 where it has none. */
__device__ __forceinline__ static float2 weight_of_tile(float2 ends) {
    float scale = mx_power_of_2(__fsub_rn(ends.x, mx_join_warp(ends.x, mx_largest())));
    return make_float2(scale, share_of(mx_join_warp(__fmaf_rn(scale, ends.y, 0), mx_sum())));
}

__device__ __forceinline__ static void add_tile(float2 &sum, float2 weight, int tile, float2 v) {
    float of = __shfl_sync(0xffffffffu, weight.x, tile);
    sum = make_float2(__fmaf_rn(of, v.x, sum.x), __fmaf_rn(of, v.y, sum.y));
}

template <int x_parts>
__device__ __forceinline__ static void tell_result(const mx_chain_attention &a, int at, float2 y, unsigned tag) {
    tell_two(a.y + at, parts_of<x_parts>(y), tag);
    if (a.plain)
        *(float2 *)(a.plain + at) = y;
}

/* ---- over a cache ------------------------------------------------------------------------------------------------ */

/* Which of the tile's keys are those of each row of the step: they are told. Returns whether a key of the warp is. */
__device__ __forceinline__ static bool note_fresh(const rows_piece &p, int first, int cell, mx_tile_pad &s) {
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

/* A pair of a told key or value, to where it belongs among the operands. */
__device__ __forceinline__ static void put_fresh(mx_tile_pad &s, bool is_key, int key, uint2 parts) {
    int pair = lane_of();
    if (is_key) {
        uint32_t *to = (uint32_t *)(s.k + (key / 16 * 8 + pair / 8 * 2 + key / 8 % 2) * MX_WARP + key % 8 * 4 +
                                    pair % 8 / 2) + pair % 2;
        to[0] = parts.x;
        to[2] = parts.y;
    } else {
        uint32_t *to = (uint32_t *)(s.v + key * (WIDTH / 4)) + ((pair / 4 ^ key % 8) * 4 + pair % 4);
        to[0] = parts.x;
        to[WIDTH / 2] = parts.y;
    }
}

/* A row's query, and what is told of the tile's keys and values, of a head; a warp to each, the row's own first. */
__device__ __forceinline__ static void hear_heads(const mx_chain_attention &a, int row, int head, bool first,
                                                  mx_tile_pad &s) {
    const int lane = lane_of(), rows = shared().rows;
#pragma unroll 1
    for (int which = warp_of(); which <= 2 * rows; which += MX_CHAIN_WARPS) {
        int of = row + (which - 1) / 2, other = of < rows ? of : of - rows;
        bool is_key = which % 2;
        ulonglong2 keys = *(const ulonglong2 *)s.fresh[other];
        float2 v[1];
        if (which ? !(keys.x | keys.y) : !first)
            continue;
        const int from[1] = {(which == 0 ? row * a.ld : other * a.ld + (is_key ? a.k : a.v)) + head * WIDTH + lane * 2};
        hear(a.q, from, shared().tag, v);
        if (which == 0) {
            put_query(s, 0, lane, v[0]);
            continue;
        }
        uint2 parts = two_in_parts(v[0]);
#pragma unroll 1
        for (; keys.x; keys.x &= keys.x - 1)
            put_fresh(s, is_key, __ffsll((long long)keys.x) - 1, parts);
#pragma unroll 1
        for (; keys.y; keys.y &= keys.y - 1)
            put_fresh(s, is_key, __ffsll((long long)keys.y) + 63, parts);
    }
}

/* A row's tiles, of which each warp has kept 8 columns. */
__device__ __forceinline__ static float2 join_kept(const float4 *kept, int tiles) {
    float4 mine = kept[min(lane_of(), tiles - 1) * 4];
    float2 weight = weight_of_tile(lane_of() < tiles ? make_float2(mine.z, mine.w) : make_float2(-CUDART_INF_F, 0));
    float2 sum = make_float2(0, 0);
#pragma unroll 1
    for (int i = 0; i < tiles; i++) {
        float4 v = kept[i * 4 + lane_of() % 4];
        add_tile(sum, weight, i, make_float2(v.x, v.y));
    }
    return times(sum, weight.y);
}

/* A block has whole rows of heads, one after the other. */
template <int x_parts> __device__ __noinline__ static void run_cached(const mx_chain_phase &phase, int place) {
    const mx_chain_attention &a = phase.attention;
    const rows_job &job = a.job;
    mx_tile_pad &s = *(mx_tile_pad *)work_start();
    float4 *kept = (float4 *)(&s + 1) + warp_of() * job.tiles * 4;
    float scale = power_scale(job);
#pragma unroll 1
    for (int item = place; item < shared().rows * job.heads; item += phase.place.n) {
        int row = item / job.heads, head = item - row * job.heads, keys = shared().pos[row] + 1;
        rows_piece p = {row, 1, head, keys, (keys + TILE - 1) / TILE, job.k + head * WIDTH, job.v + head * WIDTH,
                        job.cells + shared().seq[row] * job.ctx};
        rows_result r;
#pragma unroll 1
        for (int tile = 0; tile < p.n_tiles; tile++) {
            uint4 k[8];
            int cell = cell_of_lane(p, tile * TILE);
            send_for_tile(job, p, tile * TILE, cell, s);
            bool fresh = note_fresh(p, tile * TILE, cell, s);
            turn_tile(s);
            take_keys(s, k);
            await_sign(phase.sign);
            meet_block();
            hear_heads(a, row, head, tile == 0, s);
            meet_block();
            if (fresh)
                take_keys(s, k);
            r = attend(s, k, keys - tile * TILE, scale);
            if (lane_of() < 4)
                kept[tile * 4 + lane_of()] = make_float4(r.y.x, r.y.y, r.top, r.sum);
        }
        __syncwarp();
        float2 y = p.n_tiles == 1 ? times(r.y, share_of(r.sum)) : join_kept(kept, p.n_tiles);
        if (lane_of() < 4)
            tell_result<x_parts>(a, row * job.d + head * WIDTH + warp_of() * 8 + lane_of() * 2, y, shared().tag);
        __syncwarp();
    }
    meet_block();
}

/* ---- over windows ------------------------------------------------------------------------------------------------ */

/* Tile i of all windows that are listened to, of a head. */
__device__ __forceinline__ static rows_piece window_piece(const rows_job &job, int head, int i, int *tile) {
    int run = i / job.tiles;
    int64_t shift = shared().run_window[run] * job.keys * job.d + head * WIDTH;
    rows_piece p = {shared().run_row[run], shared().run_rows[run], head, (int)job.keys, job.tiles, job.k + shift,
                    job.v + shift, NULL};
    *tile = i - run * job.tiles;
    return p;
}

/* A product that ends with its bias. */
struct query_ending {
    const float *bias;
    static constexpr int act = MX_ACT_NONE;
    static constexpr const mx_told *residual = NULL;
};

/* The queries of a head, of all rows, and the keys of the tile: by every block that has tiles of the head, which is
 * sooner than to be told them. tells: whether they are to be written where others may read them. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void make_queries(const mx_chain_phase &phase, int head, bool tells, uint4 *x,
                                                    mx_tile_pad &s, uint4 (&k)[8]) {
    const mx_chain_product &job = phase.product;
    int chunks = job.chunks, n = WIDTH / 8;
    tile_range t = {head * n, (head + 1) * n};
    ring_place ring = shared().ring;
    ending_of_lane e = ending_at(job, t);
    item_of_warp item = item_from(job, n, warp_of(), 0);
    piece_of_lane piece = piece_at(job, n, take_piece(ring, n * job.blocks * w_parts * TILE_BLOCK));
    float2 *sums = sums_start();
    bring_normed<x_parts, true>(phase, x);
    meet_block();
    multiply_piece<x_parts, w_parts>(job, piece, item, chunks, x, sums);
    take_keys(s, k);
    meet_block();
    if (e.there) {
        query_ending ending = {job.bias};
        float2 v = result_of(ending, e.bias, make_float2(0, 0), chunks, sums);
        put_query(s, lane_of() / 4, warp_of() * 4 + lane_of() % 4, v);
        if (e.plain && tells)
            *(float2 *)e.plain = v;
    }
    leave_piece(ring);
    if (threadIdx.x == 0)
        shared().ring = ring;
    meet_block();
}

/* Tiles of a head are dealt to its blocks. Keys and values are brought before the queries are made: no phase writes
 * them. In shared memory: x as operands, a tile. */
template <int x_parts, int w_parts>
__device__ __noinline__ static void run_listen(const mx_chain_phase &phase, int place) {
    const mx_chain_attention &a = phase.attention;
    const rows_job &job = a.job;
    int each = phase.product.each, head = place / each, row = lane_of() / 4, tile = 0;
    int items = shared().runs * job.tiles, item = place - head * each;
    uint4 *x = (uint4 *)work_start(), k[8];
    mx_tile_pad &s = *(mx_tile_pad *)(x + phase.product.blocks * 4 * MX_WARP);
    float scale = power_scale(job);
    unsigned tag = shared().tag;
    rows_piece p = window_piece(job, head, min(item, items - 1), &tile);
    send_for_tile(job, p, tile * TILE, cell_of_lane(p, tile * TILE), s);
    turn_tile(s);
    make_queries<x_parts, w_parts>(phase, head, place == head * each, x, s, k);
#pragma unroll 1
    while (item < items) {
        mx_told *to = a.parts + ((row * job.heads + head) * job.tiles + tile) * MX_CHAIN_PART;
        rows_result r = attend(s, k, p.n_keys - tile * TILE, scale);
        if (row >= p.row && row < p.row + p.n) {
            tell_two(to + warp_of() * 8 + lane_of() % 4 * 2, r.y, tag);
            if (warp_of() == 0 && lane_of() % 4 == 0)
                tell_two(to + WIDTH, make_float2(r.top, r.sum), tag);
        }
        item += each;
        if (item < items) {
            p = window_piece(job, head, item, &tile);
            send_for_tile(job, p, tile * TILE, cell_of_lane(p, tile * TILE), s);
            turn_tile(s);
            take_keys(s, k);
        }
    }
    meet_block();
}

/* A warp has whole rows of heads, and hears all that it needs at once: a lane two columns of each tile, and the ends of
 * one. A tile that is not there weighs nothing. */
template <int x_parts> __device__ __noinline__ static void run_join(const mx_chain_phase &phase, int place) {
    const mx_chain_attention &a = phase.attention;
    const int at_once = 12;
    int tiles = a.job.tiles, items = shared().rows * a.job.heads, lane = lane_of();
    unsigned tag = shared().tag;
#pragma unroll 1
    for (int item = place + warp_of() * phase.place.n; item < items; item += MX_CHAIN_WARPS * phase.place.n) {
        const mx_told *from = a.parts + item * tiles * MX_CHAIN_PART;
        int at[at_once + 1];
        float2 v[at_once + 1], sum = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            at[i] = min(i, tiles - 1) * MX_CHAIN_PART + lane * 2;
        at[at_once] = min(lane, tiles - 1) * MX_CHAIN_PART + WIDTH;
        await_sign(phase.sign);
        hear(from, at, tag, v);
        float2 weight = weight_of_tile(lane < tiles ? v[at_once] : make_float2(-CUDART_INF_F, 0));
#pragma unroll
        for (int i = 0; i < at_once; i++)
            add_tile(sum, weight, i, v[i]);
#pragma unroll 1
        for (int i = at_once; i < tiles; i++) {
            float2 more[1];
            const int there[1] = {i * MX_CHAIN_PART + lane * 2};
            hear(from, there, tag, more);
            add_tile(sum, weight, i, more[0]);
        }
        tell_result<x_parts>(a, item * WIDTH + lane * 2, times(sum, weight.y), tag);
    }
}
#endif
#endif
