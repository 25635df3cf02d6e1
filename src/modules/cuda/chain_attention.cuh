/* modules/cuda/chain_attention.cuh - attention as phases of a chain: over a cache, whose newest keys and values are
 * told by the product before; over windows, with the product that makes its queries; the join of a window's tiles.
 * What holds: every element is computed as in rows_attention.cu, bit for bit. */
#ifndef MX_CUDA_CHAIN_ATTENTION_CUH
#define MX_CUDA_CHAIN_ATTENTION_CUH
#include "modules/cuda/chain_product.cuh"

#if MX_WIDE
typedef rows_group<TEAM> team_group;

/* A tile's results, told. */
struct told_parts {
    mx_told *at;
    int row_step;
    unsigned tag;
    __device__ __forceinline__ void put_four(int r, int column, float4 v) const {
        tell_two(at + r * row_step + column, make_float2(v.x, v.y), tag);
        tell_two(at + r * row_step + column + 2, make_float2(v.z, v.w), tag);
    }
    __device__ __forceinline__ void put_ends(int r, float top, float sum) const {
        tell_two(at + r * row_step + WIDTH, make_float2(top, sum), tag);
    }
};

/* ---- over a cache ------------------------------------------------------------------------------------------------ */

/* The rows whose keys and values are those of a thread's keys of a tile; -1: they are in the cache. */
struct fresh_rows {
    int k[team_group::passes], v[TILE / STREAMS];
};

/* A tile as load_tile has it, and which of it is not in the cache yet. */
__device__ __forceinline__ static void load_cached(const rows_job &job, const rows_piece &p,
                                                   const team_group &g, int first, rows_loads<team_group> &x,
                                                   fresh_rows &fresh) {
    const int across = WIDTH / team_group::columns;
    int in_key = g.thread % PER_KEY, column = g.thread % across * team_group::columns, stream = g.thread / across;
    int k[team_group::passes], v[TILE / STREAMS];
#pragma unroll
    for (int i = 0; i < team_group::passes; i++)
        k[i] = __ldcg(p.cells + min(first + i * (TEAM / PER_KEY) + g.thread / PER_KEY, p.n_keys - 1));
#pragma unroll
    for (int i = 0; i < TILE / STREAMS; i++)
        v[i] = __ldcg(p.cells + min(first + i * STREAMS + stream, p.n_keys - 1));
#pragma unroll
    for (int i = 0; i < team_group::passes; i++) {
        const float *from = p.k + (int64_t)k[i] * job.d + in_key * 4;
        x.k[i][0] = __ldcg((const float4 *)from);
        x.k[i][1] = __ldcg((const float4 *)(from + WIDTH / 2));
        fresh.k[i] = -1;
    }
#pragma unroll
    for (int i = 0; i < TILE / STREAMS; i++) {
        load_columns(p.v + (int64_t)v[i] * job.d + column, x.v[i]);
        fresh.v[i] = -1;
    }
#pragma unroll 1
    for (int r = 0; r < shared().rows; r++) {
        int cell = shared().cell[r];
#pragma unroll
        for (int i = 0; i < team_group::passes; i++)
            fresh.k[i] = k[i] == cell ? r : fresh.k[i];
#pragma unroll
        for (int i = 0; i < TILE / STREAMS; i++)
            fresh.v[i] = v[i] == cell ? r : fresh.v[i];
    }
}

/* keys, values: [rows][WIDTH], of the head. */
__device__ __forceinline__ static void take_fresh(const team_group &g, const fresh_rows &fresh, const float *keys,
                                                  const float *values, rows_loads<team_group> &x) {
    const int across = WIDTH / team_group::columns;
    int in_key = g.thread % PER_KEY, column = g.thread % across * team_group::columns;
#pragma unroll
    for (int i = 0; i < team_group::passes; i++)
        if (fresh.k[i] >= 0) {
            x.k[i][0] = *(const float4 *)(keys + fresh.k[i] * WIDTH + in_key * 4);
            x.k[i][1] = *(const float4 *)(keys + fresh.k[i] * WIDTH + in_key * 4 + WIDTH / 2);
        }
#pragma unroll
    for (int i = 0; i < TILE / STREAMS; i++)
        if (fresh.v[i] >= 0)
#pragma unroll
            for (int j = 0; j < team_group::columns; j++)
                x.v[i][j] = values[fresh.v[i] * WIDTH + column + j];
}

/* The query of a row, and all rows' keys and values, of a head: [1 + 2 rows][WIDTH]; a warp to each. */
__device__ __forceinline__ static void hear_heads(const mx_chain_attention &a, int rows, int row, int head,
                                                  unsigned tag, float *to) {
    const int lane = lane_of();
    const int at_once = (1 + 2 * MX_CHAIN_ROWS + MX_CHAIN_WARPS - 1) / MX_CHAIN_WARPS;
#pragma unroll
    for (int i = 0; i < at_once; i++) {
        int which = warp_of() + i * MX_CHAIN_WARPS, other = (which - 1) / 2;
        float2 v[1];
        if (which > 2 * rows)
            break;
        const int from[1] = {(which == 0 ? row * a.ld : other * a.ld + (which % 2 ? a.k : a.v)) + head * WIDTH +
                             lane * 2};
        hear(a.q, from, tag, v);
        *(float2 *)(to + (which == 0 ? 0 : 1 + other + (which % 2 ? 0 : rows)) * WIDTH + lane * 2) = v[0];
    }
}

/* The tiles of a row and head, joined in order by a warp: at most one to a lane. A lane has two columns. */
template <int step>
__device__ __forceinline__ static float2 join_row(const float *parts, int n_tiles, int lane) {
    float2 mine = lane < n_tiles ? *(const float2 *)(parts + lane * step + WIDTH) : make_float2(-CUDART_INF_F, 0);
    float2 sum = make_float2(0, 0);
    float scale = expf(__fsub_rn(mine.x, mx_join_warp(mine.x, mx_largest())));
    float weight = mx_join_warp(lane < n_tiles ? __fmaf_rn(scale, mine.y, 0) : 0, mx_sum());
#pragma unroll 4
    for (int i = 0; i < n_tiles; i++) {
        float of = __shfl_sync(0xffffffffu, scale, i);
        float2 v = *(const float2 *)(parts + i * step + lane * 2);
        sum = make_float2(__fmaf_rn(of, v.x, sum.x), __fmaf_rn(of, v.y, sum.y));
    }
    float inverse = __fdiv_rn(1.0f, weight);
    return make_float2(__fmul_rn(sum.x, inverse), __fmul_rn(sum.y, inverse));
}

/* A block has whole rows of heads, one after the other; its teams take tiles in turn. */
template <int x_parts> __device__ __noinline__ static void run_cached(const mx_chain_phase &phase, int place) {
    const mx_chain_attention a = phase.attention;
    const rows_job &job = a.job;
    int team = (int)threadIdx.x / TEAM, rows = shared().rows;
    unsigned tag = shared().tag;
    team_group g = {(int)threadIdx.x % TEAM, 2 + team};
    float *told = (float *)work_start(), *parts = told + (1 + 2 * rows) * WIDTH;
    rows_pad pad = pad_at(parts + job.tiles * PART + team * ROWS_PAD(1), 1);
    pad.q = told;
#pragma unroll 1
    for (int item = place; item < rows * job.heads; item += phase.place.n) {
        int row = item / job.heads, head = item - row * job.heads, keys = shared().pos[row] + 1;
        rows_piece p = {row, 1, head, keys, (keys + TILE - 1) / TILE, job.k + head * WIDTH, job.v + head * WIDTH,
                        job.cells + shared().seq[row] * job.ctx};
        rows_loads<team_group> x;
        fresh_rows fresh;
        load_cached(job, p, g, team * TILE, x, fresh);
        await_sign(phase.sign);
        hear_heads(a, rows, row, head, tag, told);
        meet_block();
#pragma unroll 1
        for (int tile = team; tile < p.n_tiles; tile += MX_CHAIN_TEAMS) {
            rows_parts to = {parts + tile * PART, 0};
            take_fresh(g, fresh, told + WIDTH, told + (1 + rows) * WIDTH, x);
            finish_tile(job, p, g, tile, x, pad, to);
            if (tile + MX_CHAIN_TEAMS < p.n_tiles)
                load_cached(job, p, g, (tile + MX_CHAIN_TEAMS) * TILE, x, fresh);
        }
        meet_block();
        if (warp_of() == 0) {
            float2 y = join_row<PART>(parts, p.n_tiles, lane_of());
            int at = row * job.d + head * WIDTH + lane_of() * 2;
            tell_two(a.y + at, parts_of<x_parts>(y), tag);
            if (a.plain)
                *(float2 *)(a.plain + at) = y;
        }
        meet_block();
    }
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

/* The queries of a head, of all rows: by every block that has tiles of the head, which is sooner than to be told them.
 * tells: whether they are to be written where others may read them. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void make_queries(const mx_chain_phase &phase, int head, bool tells, uint4 *x,
                                                    float *q) {
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
    meet_block();
    if (e.there) {
        float2 v = result_of(job, e, chunks, sums);
        *(float2 *)(q + lane_of() / 4 * WIDTH + e.column - head * WIDTH) = v;
        if (e.plain && tells)
            *(float2 *)e.plain = v;
    }
    leave_piece(ring);
    if (threadIdx.x == 0)
        shared().ring = ring;
    mx_copy_wait<0>();
    meet_block();
}

/* Keys and values of a tile on their way to shared memory: [2][TILE][WIDTH]. */
__device__ __forceinline__ static void send_for_tile(const rows_job &job, const rows_piece &p, const team_group &g,
                                                     int first, float *to) {
    const int fours = WIDTH / 4;
#pragma unroll 4
    for (int i = g.thread; i < 2 * TILE * fours; i += TEAM) {
        int key = min(first + i / fours % TILE, p.n_keys - 1);
        const float *from = (i < TILE * fours ? p.k : p.v) + (int64_t)key * job.d + i % fours * 4;
        mx_copy_16(to + i * 4, from, true);
    }
    mx_copy_commit();   /* what is not committed is not waited for */
}

/* As load_tile has it. */
__device__ __forceinline__ static void fetch_tile(const team_group &g, const float *from,
                                                  rows_loads<team_group> &x) {
    const int across = WIDTH / team_group::columns;
    const float *k = from + g.thread / PER_KEY * WIDTH + g.thread % PER_KEY * 4;
    const float *v = from + TILE * WIDTH + g.thread / across * WIDTH + g.thread % across * team_group::columns;
#pragma unroll
    for (int i = 0; i < team_group::passes; i++) {
        x.k[i][0] = *(const float4 *)(k + i * (TEAM / PER_KEY) * WIDTH);
        x.k[i][1] = *(const float4 *)(k + i * (TEAM / PER_KEY) * WIDTH + WIDTH / 2);
    }
#pragma unroll
    for (int i = 0; i < TILE / STREAMS; i++)
#pragma unroll
        for (int j = 0; j < team_group::columns; j++)
            x.v[i][j] = v[i * STREAMS * WIDTH + j];
}

/* Tiles of a head are dealt to the teams of its blocks. Keys and values are on their way before the queries are made,
 * or while a tile is worked on: no phase writes them. In shared memory: x as operands, a tile of each team, queries,
 * pads. */
template <int x_parts, int w_parts>
__device__ __noinline__ static void run_listen(const mx_chain_phase &phase, int place) {
    const mx_chain_attention a = phase.attention;
    const rows_job &job = a.job;
    int each = phase.product.each, head = place / each, team = (int)threadIdx.x / TEAM, rows = shared().rows, tile = 0;
    int items = shared().runs * job.tiles, item = (place - head * each) * MX_CHAIN_TEAMS + team;
    team_group g = {(int)threadIdx.x % TEAM, 2 + team};
    uint4 *x = (uint4 *)work_start();
    float *tiles = (float *)(x + phase.product.blocks * 4 * MX_WARP), *mine = tiles + team * 2 * TILE * WIDTH;
    float *q = tiles + MX_CHAIN_TEAMS * 2 * TILE * WIDTH;
    rows_pad pad = pad_at(q + rows * WIDTH + team * ROWS_PAD(rows), rows);
    rows_piece p = window_piece(job, head, min(item, items - 1), &tile);
    send_for_tile(job, p, g, tile * TILE, mine);
    make_queries<x_parts, w_parts>(phase, head, place == head * each, x, q);
#pragma unroll 1
    while (item < items) {
        rows_loads<team_group> held;
        told_parts to = {a.parts + ((p.row * job.heads + head) * job.tiles + tile) * MX_CHAIN_PART,
                         job.heads * job.tiles * MX_CHAIN_PART,
                         shared().tag};
        rows_piece now = p;
        int first = tile;
        fetch_tile(g, mine, held);
        meet_group(g);
        item += each * MX_CHAIN_TEAMS;
        if (item < items) {
            p = window_piece(job, head, item, &tile);
            send_for_tile(job, p, g, tile * TILE, mine);
        }
        pad.q = q + now.row * WIDTH;
        finish_tile(job, now, g, first, held, pad, to);
        mx_copy_wait<0>();
        meet_group(g);
    }
    meet_block();
}

/* A block has whole rows of heads: all threads bring the tiles, a warp joins them. */
template <int x_parts> __device__ __noinline__ static void run_join(const mx_chain_phase &phase, int place) {
    const mx_chain_attention a = phase.attention;
    const int at_once = 4;
    int tiles = a.job.tiles, pairs = tiles * (MX_CHAIN_PART / 2), items = shared().rows * a.job.heads;
    unsigned tag = shared().tag;
    float *parts = (float *)work_start();
#pragma unroll 1
    for (int item = place; item < items; item += phase.place.n) {
        const mx_told *from = a.parts + item * pairs * 2;
        await_sign(phase.sign);
#pragma unroll 1
        for (int first = (int)threadIdx.x; first - (int)threadIdx.x < pairs; first += at_once * WORKERS) {
            int at[at_once];
            float2 v[at_once];
#pragma unroll
            for (int i = 0; i < at_once; i++)
                at[i] = min(first + i * WORKERS, pairs - 1) * 2;
            hear(from, at, tag, v);
#pragma unroll
            for (int i = 0; i < at_once; i++)
                *(float2 *)(parts + at[i]) = v[i];
        }
        meet_block();
        if (warp_of() == 0) {
            float2 y = join_row<MX_CHAIN_PART>(parts, tiles, lane_of());
            int to = item * WIDTH + lane_of() * 2;
            tell_two(a.y + to, parts_of<x_parts>(y), tag);
            if (a.plain)
                *(float2 *)(a.plain + to) = y;
        }
        meet_block();
    }
}
#endif
#endif
