/* modules/cuda/chain_product.cuh - products as phases of a chain: their weights on the way to shared memory ahead of
 * time, rows of x as operands, sums.
 * What holds: every element is computed as in product_rows.cu, bit for bit. */
#ifndef MX_CUDA_CHAIN_PRODUCT_CUH
#define MX_CUDA_CHAIN_PRODUCT_CUH
#include "modules/cuda/chain_crew.cuh"

#if MX_WIDE
/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct tile_range {
    int first, last;
};

/* The tiles of a product that the phase's block number `place` has. */
__device__ __forceinline__ static tile_range tiles_at(const mx_chain_product &job, int place) {
    int at = job.each == 1 ? place : place / job.each;
    tile_range t = {at * job.share + min(at, job.longer), 0};
    t.last = min(t.first + job.share + (at < job.longer), job.tiles);
    return t;
}

/* Where a piece lies: behind the one before, or at the beginning if there is no room behind it. */
__device__ __forceinline__ static int place_piece(int at, int bytes, int ring_bytes) {
    return at + bytes > ring_bytes ? 0 : at;
}

/* Where block b of a tile lies, blocks of a weight's second part behind those of the first. */
template <int w_parts>
__device__ __forceinline__ static const char *tile_at(const mx_chain_product &job, int tile, int b) {
    int64_t part = w_parts == 2 && b >= job.blocks ? job.w_part - (int64_t)job.blocks * job.tiles * TILE_BLOCK : 0;
    return (const char *)job.weight + part + ((int64_t)b * job.tiles + tile) * TILE_BLOCK;
}

/* How far the ring is filled: bytes since the beginning, and those that are free again; a lane keeps the end of a
 * piece. */
struct ring_filler {
    int at, issued, freed;
    unsigned head, tail, end_of_mine;
};

/* Room for a piece, as soon as there is. */
__device__ __forceinline__ static char *make_room(ring_filler &f, int bytes, uint64_t **gate) {
    int ring_bytes = shared().ring_bytes, which = f.issued % GATES, to = place_piece(f.at, bytes, ring_bytes);
    f.head += (unsigned)(to < f.at ? ring_bytes - f.at : 0) + (unsigned)bytes;
    f.at = to + bytes;
    while (f.freed < f.issued && (f.head - f.tail > (unsigned)ring_bytes || f.issued - f.freed == GATES)) {
        mx_gate_wait(&shared().empty[f.freed % GATES], f.freed / GATES % 2);
        f.tail = __shfl_sync(0xffffffffu, f.end_of_mine, f.freed % GATES);
        f.freed++;
    }
    f.end_of_mine = lane_of() == which ? f.head : f.end_of_mine;
    *gate = &shared().full[which];
    f.issued++;
    return ring_start() + to;
}

/* The piece's copies are all under way, and its gate waits for their bytes: nobody passes it before this. */
__device__ __forceinline__ static void expect_piece(uint64_t *gate, int bytes) {
    __syncwarp();
    if (lane_of() == 0)
        mx_gate_expect(gate, (unsigned)bytes);
}

/* Pieces of all of k. */
template <int w_parts>
__device__ __forceinline__ static void fill_tiles(ring_filler &f, const mx_chain_product &job, tile_range t) {
#pragma unroll 1
    for (; t.first < t.last; t.first += job.group) {
        int n = min(job.group, t.last - t.first);
        uint64_t *gate;
        char *to = make_room(f, n * job.blocks * w_parts * TILE_BLOCK, &gate);
#pragma unroll 1
        for (int b = lane_of(); b < job.blocks * w_parts; b += MX_WARP)
            mx_bulk_copy(to + b * n * TILE_BLOCK, tile_at<w_parts>(job, t.first, b), (unsigned)(n * TILE_BLOCK), gate);
        expect_piece(gate, n * job.blocks * w_parts * TILE_BLOCK);
    }
}

/* Pieces of 64 of k: few copies, each of many bytes, since they are as much work to set going as small ones. The
 * vocabulary is most of what a step reads; what it takes of the cache by the memory goes first again, so that the rest
 * stays from step to step, the instructions of the next kernels among it. */
template <int w_parts>
__device__ __forceinline__ static void fill_logits(ring_filler &f, const mx_chain_product &job, tile_range t) {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#pragma unroll 1
    for (; t.first < t.last; t.first += job.group) {
        int n = min(job.group, t.last - t.first);
#pragma unroll 1
        for (int b = 0; b < job.blocks; b++) {
            uint64_t *gate;
            char *to = make_room(f, n * w_parts * TILE_BLOCK, &gate);
            if (lane_of() < w_parts)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                             "[%0], [%1], %2, [%3], %4;"
                             ::"r"(mx_shared_at(to + lane_of() * n * TILE_BLOCK)),
                             "l"(tile_at<w_parts>(job, t.first, b + lane_of() * job.blocks)), "r"(n * TILE_BLOCK),
                             "r"(mx_shared_at(gate)), "l"(policy) : "memory");
            expect_piece(gate, n * w_parts * TILE_BLOCK);
        }
    }
}

/* By one warp: pieces of the block's tiles of every product, in order, as soon as there is room. */
template <int w_parts> __device__ static void bring_weights() {
    ring_filler f = {};
#pragma unroll 1
    for (int i = 0; i < shared().n; i++) {
        const mx_chain_phase &phase = phases_start()[i];
        int place = place_in(phase);
        if (place >= phase.place.n)
            continue;
        if (phase.kind == MX_CHAIN_LOGITS)
            fill_logits<w_parts>(f, phase.product, tiles_at(phase.product, place));
        else if (phase.kind == MX_CHAIN_PRODUCT || phase.kind == MX_CHAIN_LISTEN)
            fill_tiles<w_parts>(f, phase.product, tiles_at(phase.product, place));
    }
}

/* The next piece, when it has come. */
__device__ __forceinline__ static const uint32_t *take_piece(ring_place &ring, int bytes) {
    int at = place_piece(ring.at, bytes, shared().ring_bytes);
    ring.at = at + bytes;
    mx_gate_wait(&shared().full[ring.piece % GATES], ring.piece / GATES % 2);
    return (const uint32_t *)(ring_start() + at);
}

/* By every worker that is done with it: when all are, nobody reads the piece any more. */
__device__ __forceinline__ static void leave_piece(ring_place &ring) {
    mx_gate_arrive(&shared().empty[ring.piece % GATES]);
    ring.piece++;
}

/* ---- products: x ------------------------------------------------------------------------------------------------- */

/* Where four elements of row r, from k = 4 `four` on, lie among the operands [step][lane]. An operand has 16 rows, of
 * which 8 are there: the first parts are rows 0 to 7 of it, the second ones the others, so that one step multiplies
 * both; where there is one part, zeros. Lanes change places from step to step, so that a warp that writes a row meets
 * few banks twice. */
__device__ __forceinline__ static int operand_at(int r, int four) {
    return four / 4 * MX_WARP + ((r * 4 + four % 4) ^ four / 4 % 8 * 4);
}

/* A row by a warp, of `held` fours to each lane. What does not depend on x is on its way before x is there, and nothing
 * waits for it before. One function for all phases: what one phase has fetched of it, the next one need not. */
template <int x_parts, bool tells, int held_>
__device__ __noinline__ static void bring_held(const mx_chain_phase &phase, uint4 *x) {
    const mx_chain_product &job = phase.product;
    int r = warp_of(), lane = lane_of(), at = r < shared().rows ? job.picked ? shared().pick[r] : r : -1;
    float eps = job.eps, sum = 0, squares = 0;
    unsigned tag = shared().tag;
    const mx_told *told = job.x + at * (held_ * 4 * MX_WARP) + lane * 4;
    const float4 *plain = (const float4 *)(job.plain_x + (int64_t)at * job.ldx) + lane;
    uint4 v[held_], *to = x + operand_at(r, lane);
    float4 scale[held_], shift[held_];
    if (at < 0)
        return;
#pragma unroll
    for (int i = 0; i < held_; i++) {
        scale[i] = __ldg((const float4 *)job.gamma + lane + i * MX_WARP);
        shift[i] = __ldg((const float4 *)job.beta + lane + i * MX_WARP);
    }
    if (tells) {
        int steps[held_];
#pragma unroll
        for (int i = 0; i < held_; i++)
            steps[i] = i * 4 * MX_WARP;
        await_sign(phase.sign);
        hear_fours(told, steps, tag, v);
    } else {
#pragma unroll
        for (int i = 0; i < held_; i++)
            v[i] = __ldcg((const uint4 *)plain + i * MX_WARP);
    }
#pragma unroll
    for (int i = 0; i < held_; i++)
        sum = mx_sum_four(sum, floats_of(v[i]), 0, 4);
    float mean = mx_mean_of(sum, held_ * 4 * MX_WARP);
#pragma unroll
    for (int i = 0; i < held_; i++)
        squares = mx_square_four(squares, floats_of(v[i]), mean, 0, 4);
    float2 s = make_float2(mean, mx_rate_of(squares, held_ * 4 * MX_WARP, eps));
#pragma unroll
    for (int i = 0; i < held_; i++)
        to[i * 8 * MX_WARP] =
            mx_operand_of_8<x_parts>(mx_sixteenth(mx_norm_four(floats_of(v[i]), s, scale[i], shift[i])));
}

/* The same of any length that is whole fours of a warp's half, four by four. */
template <int x_parts, bool tells>
__device__ __noinline__ static void bring_any(const mx_chain_phase &phase, uint4 *x) {
    const mx_chain_product &job = phase.product;
    int r = warp_of(), lane = lane_of(), n = job.k / 4;
    float sum = 0, squares = 0;
    if (r >= shared().rows)
        return;
    int row = job.picked ? shared().pick[r] : r;
    auto at = [&](int i) {
        uint4 v[1];
        const int here[1] = {row * job.k + i * 4};
        if (tells)
            hear_fours(job.x, here, shared().tag, v);
        else
            v[0] = __ldcg((const uint4 *)(job.plain_x + (int64_t)row * job.ldx) + i);
        return floats_of(v[0]);
    };
#pragma unroll 1
    for (int i = lane; i < (n + MX_WARP - 1) / MX_WARP * MX_WARP; i += MX_WARP) {
        float4 v = at(min(i, n - 1));
        sum = i < n ? mx_sum_four(sum, v, 0, 4) : sum;
    }
    float mean = mx_mean_of(sum, job.k);
#pragma unroll 1
    for (int i = lane; i < (n + MX_WARP - 1) / MX_WARP * MX_WARP; i += MX_WARP) {
        float4 v = at(min(i, n - 1));
        squares = i < n ? mx_square_four(squares, v, mean, 0, 4) : squares;
    }
    float2 s = make_float2(mean, mx_rate_of(squares, job.k, job.eps));
#pragma unroll 1
    for (int i = lane; i < (n + MX_WARP - 1) / MX_WARP * MX_WARP; i += MX_WARP) {
        float4 v = at(min(i, n - 1));
        if (i < n)
            x[operand_at(r, i)] = mx_operand_of_8<x_parts>(mx_sixteenth(
                mx_norm_four(v, s, __ldg((const float4 *)job.gamma + i), __ldg((const float4 *)job.beta + i))));
    }
}

template <int x_parts, bool tells>
__device__ __forceinline__ static void bring_normed(const mx_chain_phase &phase, uint4 *x) {
    int k = phase.product.k;
    if (k == 384)
        bring_held<x_parts, tells, 3>(phase, x);
    else if (k == 512)
        bring_held<x_parts, tells, 4>(phase, x);
    else
        bring_any<x_parts, tells>(phase, x);
}

/* Fours of all rows, told as parts, dealt to threads, `at_once` to each at a time. */
template <int at_once>
__device__ __forceinline__ static void bring_parts(const mx_chain_product &job, const mx_chain_sign &sign, uint4 *x) {
    int row_fours = job.k / 4, all = shared().rows * row_fours;
    unsigned tag = shared().tag, fours = job.fours;
    const mx_told *from = job.x;
#pragma unroll 1
    for (int first = 0; first < all; first += WORKERS * at_once) {
        uint4 v[at_once];
        int at[at_once], to[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            int four = min(first + i * WORKERS + (int)threadIdx.x, all - 1), r = (int)__umulhi((unsigned)four, fours);
            at[i] = four * 4;
            to[i] = operand_at(r, four - r * row_fours);
        }
        if (first == 0)
            await_sign(sign);
        hear_fours(from, at, tag, v);
#pragma unroll
        for (int i = 0; i < at_once; i++)
            x[to[i]] = v[i];
    }
}

template <int x_parts>
__device__ __forceinline__ static void bring_plain(const mx_chain_product &job, uint4 *x) {
    int row_fours = job.k / 4, all = shared().rows * row_fours;
#pragma unroll 1
    for (int at = (int)threadIdx.x; at < all; at += WORKERS) {
        int r = (int)__umulhi((unsigned)at, job.fours), four = at - r * row_fours;
        const float4 *row = (const float4 *)(job.plain_x + (int64_t)r * job.ldx);
        x[operand_at(r, four)] = mx_operand_of_8<x_parts>(mx_sixteenth(__ldcg(row + four)));
    }
}

/* ---- products: sums ---------------------------------------------------------------------------------------------- */

/* A lane's operands of 64 of k, of two tiles. */
template <int w_parts> struct operands {
    uint4 a[4];
    uint32_t b0[4][2][w_parts], b1[4][2][w_parts];
};

/* A warp's work on a piece: a chunk of k of two neighbouring tiles, or of one, which is then done twice. */
struct item_of_warp {
    int pair, chunk;        /* chunk: none if it is past the last */
    int first, blocks;      /* of 64 of k */
    int second;             /* words to the second tile */
};

/* Items are dealt to warps, pairs of tiles first; n: tiles of the piece. */
__device__ __forceinline__ static item_of_warp item_from(const mx_chain_product &job, int n, int pair, int chunk) {
    int pairs = (n + 1) / 2;
    for (; pair >= pairs && chunk < job.chunks; chunk++)
        pair -= pairs;
    item_of_warp i = {pair, chunk, 0, 0, pair * 2 + 1 < n ? TILE_BLOCK / 4 : 0};
    if (chunk < job.chunks) {
        i.first = job.starts[chunk];
        i.blocks = job.starts[chunk + 1] - i.first;
    }
    return i;
}

/* How a piece lies in shared memory, for a lane: blocks of 64 of k are `step` words apart, a further part of the weight
 * `part` words behind. */
struct piece_of_lane {
    const uint32_t *w;
    int n, step, part;
};

__device__ __forceinline__ static piece_of_lane piece_at(const mx_chain_product &job, int n, const uint32_t *w) {
    piece_of_lane p = {w + lane_of(), n, n * (TILE_BLOCK / 4), job.blocks * n * (TILE_BLOCK / 4)};
    return p;
}

template <int w_parts>
__device__ __forceinline__ static void load_weights(const piece_of_lane &p, const item_of_warp &item, int block,
                                                    operands<w_parts> &o) {
    const uint32_t *w = p.w + (item.first + block) * p.step + item.pair * 2 * (TILE_BLOCK / 4);
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int t = 0; t < 2; t++)
#pragma unroll
            for (int i = 0; i < w_parts; i++) {
                o.b0[s][t][i] = w[i * p.part + t * item.second + s * 2 * MX_WARP];
                o.b1[s][t][i] = w[i * p.part + t * item.second + (s * 2 + 1) * MX_WARP];
            }
}

template <int w_parts>
__device__ __forceinline__ static void load_rows(const uint4 *x, int block, operands<w_parts> &o) {
    int lane = lane_of() ^ block % 2 * 16;
#pragma unroll
    for (int s = 0; s < 4; s++)
        o.a[s] = x[(block * 4 + s) * MX_WARP + (lane ^ s * 4)];
}

/* One step of the chains of a tile: c[0] and c[1] are those of the first parts of x, c[2] and c[3] all else. */
template <int w_parts>
__device__ __forceinline__ static void step_both(float (&c)[4], const uint4 &a, const uint32_t (&b0)[w_parts],
                                                 const uint32_t (&b1)[w_parts]) {
    mx_mma(c, a, b0[0], b1[0]);
    if (w_parts == 2)
        mx_mma(c, make_uint4(0, a.x, 0, a.z), b0[w_parts - 1], b1[w_parts - 1]);
}

/* The sums of a warp's items of a piece, into sums [tile][chunk][lane]. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void multiply_piece(const mx_chain_product &job, const piece_of_lane &p,
                                                      item_of_warp item, int chunks, const uint4 *x, float2 *sums) {
#pragma unroll 1
    while (item.chunk < chunks) {
        float c[2][4] = {};
#pragma unroll 1
        for (int b = 0; b < item.blocks; b++) {
            operands<w_parts> o;
            load_weights(p, item, b, o);
            load_rows(x, item.first + b, o);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int t = 0; t < 2; t++)
                    step_both<w_parts>(c[t], o.a[s], o.b0[s][t], o.b1[s][t]);
        }
        float2 *to = sums + (item.pair * 2 * chunks + item.chunk) * MX_WARP + lane_of();
        to[0] = make_float2(mx_chunk_sum<x_parts>(c[0][0], c[0][2]), mx_chunk_sum<x_parts>(c[0][1], c[0][3]));
        if (item.second)
            to[chunks * MX_WARP] = make_float2(mx_chunk_sum<x_parts>(c[1][0], c[1][2]),
                                               mx_chunk_sum<x_parts>(c[1][1], c[1][3]));
        item = item_from(job, p.n, item.pair + MX_CHAIN_WARPS, item.chunk);
    }
}

/* What is added to a lane's two columns of its row, and where they go; a warp to a tile. */
struct ending_of_lane {
    float2 bias;
    const mx_told *residual;   /* NULL: none */
    int column;
    bool there;
    mx_told *told;
    float *plain, *cache;
};

__device__ __forceinline__ static ending_of_lane ending_at(const mx_chain_product &job, tile_range t) {
    int tile = t.first + warp_of(), row = lane_of() / 4;
    ending_of_lane e = {make_float2(0, 0), NULL, tile * 8 + lane_of() % 4 * 2, tile < t.last && row < shared().rows,
                        NULL, NULL, NULL};
    if (!e.there)
        return e;
    if (job.bias)
        e.bias = __ldg((const float2 *)(job.bias + e.column));
    if (job.residual)
        e.residual = job.residual + row * job.n + e.column;
    if (job.y)
        e.told = job.y + row * job.n + e.column;
    if (job.plain)
        e.plain = job.plain + (int64_t)row * job.ldy + e.column;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (job.width && shared().cell[row] >= 0 && e.column >= job.from[i] && e.column < job.from[i] + job.width)
            e.cache = job.cache[i] + (int64_t)shared().cell[row] * job.width + e.column - job.from[i];
    return e;
}

/* The residual is of an earlier phase than x, so it is as good as always there when x is: asked for then, and looked at
 * when the product is done. */
struct asked_residual {
    mx_told told[2];
};

__device__ __forceinline__ static asked_residual ask_residual(const ending_of_lane &e) {
    asked_residual r = {{0, 0}};
    if (e.residual)
        look_two(e.residual, r.told);
    return r;
}

__device__ __forceinline__ static float2 value_of_residual(const ending_of_lane &e, asked_residual &r, unsigned tag) {
    while (e.residual && ((unsigned)(r.told[0] >> 32) != tag || (unsigned)(r.told[1] >> 32) != tag))
        look_two(e.residual, r.told);
    return make_float2(value_of_told(r.told[0]), value_of_told(r.told[1]));
}

/* A lane's two results. F: what has a bias, act and residual. */
template <typename F>
__device__ __forceinline__ static float2 result_of(const F &job, float2 bias, float2 residual, int chunks,
                                                   const float2 *sums) {
    float2 all = make_float2(0, 0);
    sums += warp_of() * chunks * MX_WARP + lane_of();
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; chunk++) {
        float2 s = sums[chunk * MX_WARP];
        all = make_float2(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y));
    }
    mx_ending ending = {bias, residual, 2};
    return mx_ended(job, all.x, all.y, ending);
}

template <int x_parts>
__device__ __forceinline__ static void finish_piece(const mx_chain_product &job, const ending_of_lane &e,
                                                    asked_residual &residual, int chunks, unsigned tag,
                                                    const float2 *sums) {
    float2 all = result_of(job, e.bias, value_of_residual(e, residual, tag), chunks, sums);
    if (e.told)
        tell_two(e.told, job.split ? parts_of<x_parts>(all) : all, tag);
    if (e.plain)
        *(float2 *)e.plain = all;
    if (e.cache)
        *(float2 *)e.cache = all;
}

/* x of all rows as operands; the block has yet to meet. */
template <int x_parts> __device__ __forceinline__ static void bring_x(const mx_chain_phase &phase, uint4 *x) {
    const mx_chain_product &job = phase.product;
    if (job.gamma)
        bring_normed<x_parts, true>(phase, x);
    else if (shared().rows * job.k <= 2 * 4 * WORKERS)
        bring_parts<2>(job, phase.sign, x);
    else
        bring_parts<4>(job, phase.sign, x);
}

/* The block's tiles, piece by piece. Sums have two places, taken in turn, so that a piece needs to be met for once. All
 * that is known before x is there is made ready before. */
template <int x_parts, int w_parts>
__device__ __noinline__ static void run_product(const mx_chain_phase &phase, int place) {
    const mx_chain_product &job = phase.product;
    int turn = 0, group = job.group, chunks = job.chunks, piece_bytes = job.blocks * w_parts * TILE_BLOCK;
    unsigned tag = shared().tag;
    bool first = true;
    tile_range t = tiles_at(job, place);
    uint4 *x = (uint4 *)work_start();
    ring_place ring = shared().ring;
#pragma unroll 1
    for (; t.first < t.last; t.first += group, turn ^= 1) {
        float2 *sums = sums_start() + turn * MX_CHAIN_ITEMS * MX_WARP;
        int n = min(group, t.last - t.first);
        ending_of_lane e = ending_at(job, t);
        item_of_warp item = item_from(job, n, warp_of(), 0);
        piece_of_lane piece = piece_at(job, n, take_piece(ring, n * piece_bytes));
        if (first) {
            bring_x<x_parts>(phase, x);
            meet_block();
        }
        asked_residual residual = ask_residual(e);   /* behind a meeting, which would wait for it */
        first = false;
        multiply_piece<x_parts, w_parts>(job, piece, item, chunks, x, sums);
        meet_block();
        if (e.there && warp_of() < n)
            finish_piece<x_parts>(job, e, residual, chunks, tag, sums);
        leave_piece(ring);
    }
    if (threadIdx.x == 0)
        shared().ring = ring;
    meet_block();
}
#endif
#endif
