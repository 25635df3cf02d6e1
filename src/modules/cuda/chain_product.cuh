/* modules/cuda/chain_product.cuh - products as phases of a chain: their weights on the way to shared memory ahead of
 * time, rows of x as operands, sums.
 * What holds: every element is computed as in product_rows.cu, bit for bit. */
#ifndef MX_CUDA_CHAIN_PRODUCT_CUH
#define MX_CUDA_CHAIN_PRODUCT_CUH
#include "modules/cuda/chain_crew.cuh"

#if MX_WIDE
/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* The block's tiles of a product. */
__device__ __forceinline__ static int first_tile(const mx_chain_product &job, int block) {
    return block * job.share + min(block, job.longer);
}

/* Where a piece lies: behind the one before, or at the beginning if there is no room behind it. */
__device__ __forceinline__ static int place_piece(int at, int bytes, int ring_bytes) {
    return at + bytes > ring_bytes ? 0 : at;
}

/* By one warp: pieces of the block's tiles of every product, in order, as soon as there is room. */
template <int w_parts, typename Crew> __device__ static void bring_weights(const Crew &c) {
    int at = 0, issued = 0, freed = 0, ring_bytes = c.chain.ring_bytes;
    unsigned head = 0, tail = 0, end_of_mine = 0;   /* bytes since the beginning; a lane keeps the end of a piece */
#pragma unroll 1
    for (int i = 0; i < c.chain.n; i++) {
        const mx_chain_product &job = c.phases()[i].product;
        if (c.phases()[i].kind != MX_CHAIN_PRODUCT)
            continue;
        const mx_product &p = job.p;
        int last = first_tile(job, c.block() + 1);
#pragma unroll 1
        for (int tile = first_tile(job, c.block()); tile < last; tile += job.group, issued++) {
            int n = min(job.group, last - tile), bytes = n * p.blocks * w_parts * TILE_BLOCK, gate = issued % GATES;
            int to = place_piece(at, bytes, ring_bytes);
            head += (unsigned)(to < at ? ring_bytes - at : 0) + (unsigned)bytes;
            at = to + bytes;
            while (head - tail > (unsigned)ring_bytes || issued - freed == GATES) {
                mx_gate_wait(&shared().empty[freed % GATES], freed / GATES % 2);
                tail = __shfl_sync(0xffffffffu, end_of_mine, freed % GATES);
                freed++;
            }
            end_of_mine = c.lane() == gate ? head : end_of_mine;
            if (c.lane() == 0)
                mx_gate_expect(&shared().full[gate], (unsigned)bytes);
            __syncwarp();
            const char *from = (const char *)p.f.weight.bytes + (int64_t)tile * TILE_BLOCK;
#pragma unroll 1
            for (int b = c.lane(); b < p.blocks * w_parts; b += MX_WARP)
                mx_bulk_copy(ring_start() + to + b * n * TILE_BLOCK,
                             from + (w_parts == 2 && b >= p.blocks ? p.w_part - (int64_t)p.blocks * p.tiles * TILE_BLOCK
                                                                   : 0) + (int64_t)b * p.tiles * TILE_BLOCK,
                             (unsigned)(n * TILE_BLOCK), &shared().full[gate]);
        }
    }
}

/* The next piece, when it has come. */
template <typename Crew> __device__ __forceinline__ static const uint32_t *take_piece(Crew &c, int bytes) {
    int at = place_piece(c.ring_at, bytes, c.chain.ring_bytes);
    c.ring_at = at + bytes;
    mx_gate_wait(&shared().full[c.piece % GATES], c.piece / GATES % 2);
    return (const uint32_t *)(ring_start() + at);
}

/* After the block has met: nobody reads the piece any more. */
template <typename Crew> __device__ __forceinline__ static void leave_piece(Crew &c) {
    if (c.thread() == 0)
        mx_gate_arrive(&shared().empty[c.piece % GATES]);
    c.piece++;
}

/* ---- products: x ------------------------------------------------------------------------------------------------- */

/* Four elements of row r into the operands [step][part][lane]; the halves of rows 8 and more are left as they are: what
 * they hold stays in results that nobody takes. Lanes change places from step to step, so that a warp that writes a row
 * meets few banks twice. */
template <int x_parts> __device__ __forceinline__ static void put_four(const float4 &v, int r, int k, uint4 *x) {
    uint32_t low[x_parts], high[x_parts];
    int step = k / 16, lane = (r * 4 + k % 16 / 4) ^ step % 8 * 4;
    mx_pairs<x_parts>(v, low, high);
#pragma unroll
    for (int part = 0; part < x_parts; part++) {
        uint32_t *at = (uint32_t *)&x[(step * x_parts + part) * MX_WARP + lane];
        at[0] = low[part];
        at[2] = high[part];
    }
}

/* Gamma and beta of a lane's elements; constants, so they are read before blocks meet. */
struct norm_of_lane {
    float4 gamma[MX_HELD], beta[MX_HELD];
};

template <typename Crew>
__device__ __forceinline__ static void load_norm(const mx_product &p, const Crew &c, norm_of_lane &norm) {
    const float4 *gamma = (const float4 *)p.f.gamma + c.lane(), *beta = (const float4 *)p.f.beta + c.lane();
    int n = (int)p.f.k / 4 - c.lane();
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        if (i * MX_WARP < n) {
            norm.gamma[i] = __ldg(gamma + i * MX_WARP);
            norm.beta[i] = __ldg(beta + i * MX_WARP);
        }
}

/* The sums of mx_row_statistics, in the same order, of a row of whole fours; n: the lane's part of the row begins so
 * many fours before its end. */
__device__ __forceinline__ static float2 statistics_of(const mx_product &p, const float4 *row, int n,
                                                       float4 (&held)[MX_HELD]) {
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        if (i * MX_WARP < n)
            held[i] = __ldcg(row + i * MX_WARP);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        if (i * MX_WARP < n)
            sum = mx_sum_four(sum, held[i], 0, 4);
#pragma unroll 1
    for (int i = MX_HELD * MX_WARP; i < n; i += MX_WARP)
        sum = mx_sum_four(sum, __ldcg(row + i), 0, 4);
    float mean = mx_mean_of(sum, (int)p.f.k);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        if (i * MX_WARP < n)
            squares = mx_square_four(squares, held[i], mean, 0, 4);
#pragma unroll 1
    for (int i = MX_HELD * MX_WARP; i < n; i += MX_WARP)
        squares = mx_square_four(squares, __ldcg(row + i), mean, 0, 4);
    return make_float2(mean, mx_rate_of(squares, (int)p.f.k, p.f.eps));
}

/* A row by a warp. */
template <int x_parts, typename Crew>
__device__ __forceinline__ static void bring_normed(const mx_product &p, const Crew &c, const norm_of_lane &norm,
                                                    uint4 *x) {
    int r = c.warp(), n = (int)p.f.k / 4 - c.lane();
    const float4 *row = (const float4 *)(p.f.x + r * p.f.ldx) + c.lane();
    float4 held[MX_HELD];
    float2 s = statistics_of(p, row, n, held);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++)
        if (i * MX_WARP < n)
            put_four<x_parts>(mx_norm_four(held[i], s, norm.gamma[i], norm.beta[i]), r, (c.lane() + i * MX_WARP) * 4,
                              x);
#pragma unroll 1
    for (int i = MX_HELD * MX_WARP; i < n; i += MX_WARP)
        put_four<x_parts>(mx_norm_four(__ldcg(row + i), s, __ldg((const float4 *)p.f.gamma + c.lane() + i),
                                       __ldg((const float4 *)p.f.beta + c.lane() + i)), r, (c.lane() + i) * 4, x);
}

/* Pieces of rows, dealt to warps. */
template <int x_parts, typename Crew>
__device__ __forceinline__ static void bring_plain(const mx_product &p, const Crew &c, uint4 *x) {
    const int at_once = 4, step = MX_WARP * 4;
    int n = (int)p.f.k, row = 0, first = c.warp() * step * at_once;
#pragma unroll 1
    while (true) {
        for (; first >= n && row < c.rows(); row++)   /* as many pieces as a row has, the last one short */
            first -= (n + step * at_once - 1) / (step * at_once) * (step * at_once);
        if (row >= c.rows())
            break;
        const float *from = p.f.x + row * p.f.ldx;
        int k = first + c.lane() * 4;
        float4 v[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++)
            v[i] = __ldcg((const float4 *)(from + min(k + i * step, n - 4)));
#pragma unroll
        for (int i = 0; i < at_once; i++)
            if (k + i * step < n)
                put_four<x_parts>(v[i], row, k + i * step, x);
        first += MX_CHAIN_WARPS * step * at_once;
    }
}

/* ---- products: sums ---------------------------------------------------------------------------------------------- */

/* A warp's item of a piece: a chunk of k of a tile. */
struct item_of_warp {
    int tile, chunk, first, blocks;   /* of 64 of k: the first and how many */
};

__device__ __forceinline__ static item_of_warp item_at(const mx_chain_product &job, int item) {
    item_of_warp i;
    i.tile = (int)((unsigned)item / (unsigned)job.p.chunks);
    i.chunk = item - i.tile * job.p.chunks;
    i.first = job.starts[i.chunk];
    i.blocks = job.starts[i.chunk + 1] - i.first;
    return i;
}

/* A lane's operands of 64 of k. */
template <int x_parts, int w_parts> struct operands {
    uint4 a[4][x_parts];
    uint32_t b0[4][w_parts], b1[4][w_parts];
};

template <int x_parts, int w_parts>
__device__ __forceinline__ static void load_operands(const uint4 *x, int lane, const uint32_t *w, int part,
                                                     operands<x_parts, w_parts> &o) {
#pragma unroll
    for (int s = 0; s < 4; s++) {
#pragma unroll
        for (int i = 0; i < x_parts; i++)
            o.a[s][i] = x[(s * x_parts + i) * MX_WARP + (lane ^ s * 4)];
#pragma unroll
        for (int i = 0; i < w_parts; i++) {
            o.b0[s][i] = w[i * part + s * 2 * MX_WARP];
            o.b1[s][i] = w[i * part + (s * 2 + 1) * MX_WARP];
        }
    }
}

/* Blocks of a tile are `step` words apart, a further part of the weight `part` words behind. The next block's operands
 * are on their way while one is multiplied. */
template <int x_parts, int w_parts>
__device__ __forceinline__ static void multiply(const item_of_warp &item, const uint4 *x, const uint32_t *w, int step,
                                                int part, int lane, float2 *sums) {
    float hi[4] = {}, lo[4] = {};
    operands<x_parts, w_parts> next;
    x += item.first * 4 * x_parts * MX_WARP;
    lane ^= item.first % 2 * 16;
    load_operands<x_parts, w_parts>(x, lane, w, part, next);
#pragma unroll 1
    for (int b = 1; b <= item.blocks; b++) {
        operands<x_parts, w_parts> now = next;
        if (b < item.blocks) {
            x += 4 * x_parts * MX_WARP;
            w += step;
            lane ^= 16;
        }
        load_operands<x_parts, w_parts>(x, lane, w, part, next);
#pragma unroll
        for (int s = 0; s < 4; s++)
            mx_step<x_parts, w_parts>(hi, lo, now.a[s], now.b0[s], now.b1[s]);
    }
    *sums = make_float2(mx_chunk_sum<x_parts>(hi[0], lo[0]), mx_chunk_sum<x_parts>(hi[1], lo[1]));
}

/* A warp to a tile; a lane has two columns of a row. */
struct ending_of_lane {
    float2 bias, residual;
    int column;
    bool there;
};

template <typename Crew>
__device__ __forceinline__ static void finish_piece(const mx_chain_product &job, const Crew &c, const ending_of_lane &e,
                                                    const float2 *sums) {
    const mx_cuda_fused &f = job.p.f;
    int row = c.lane() / 4;
    float2 all = make_float2(0, 0);
#pragma unroll 2
    for (int chunk = 0; chunk < job.p.chunks; chunk++) {
        float2 s = sums[(c.warp() * job.p.chunks + chunk) * MX_WARP + c.lane()];
        all = make_float2(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y));
    }
    mx_ending ending = {e.bias, e.residual, 2};
    all = mx_ended(f, all.x, all.y, ending);
    *(float2 *)(f.y + row * f.ldy + e.column) = all;
    if (job.width == 0)
        return;
    int cell = shared().cell[row];
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (cell >= 0 && e.column >= job.from[i] && e.column < job.from[i] + job.width)
            *(float2 *)(job.cache[i] + (int64_t)cell * job.width + e.column - job.from[i]) = all;
}

/* The block's tiles, piece by piece; what does not depend on other blocks was prepared while they were waited for. */
template <int x_parts, int w_parts, typename Crew>
__device__ __forceinline__ static void multiply_pieces(Crew &c, const mx_chain_product &job, int tile, int last,
                                                       item_of_warp item, float2 bias, const uint4 *x, float2 *sums) {
    const mx_cuda_fused &f = job.p.f;
    const int words = TILE_BLOCK / 4;
    int turn = 0, blocks = job.p.blocks;
    bool first = true;
#pragma unroll 1
    for (; tile < last; tile += job.group, turn ^= 1, first = false) {
        int n = min(job.group, last - tile), all = n * job.p.chunks;
        ending_of_lane e = {bias, make_float2(0, 0), (tile + c.warp()) * 8 + c.lane() % 4 * 2,
                            c.warp() < n && c.lane() / 4 < c.rows()};
        if (e.there && f.residual)
            e.residual = __ldcg((const float2 *)(f.residual + c.lane() / 4 * f.ld_residual + e.column));
        if (e.there && f.bias && !first)
            e.bias = __ldg((const float2 *)(f.bias + e.column));
        float2 *my_sums = sums + turn * MX_CHAIN_ITEMS * MX_WARP;
        const uint32_t *w = take_piece(c, n * blocks * w_parts * TILE_BLOCK);
#pragma unroll 1
        for (int i = c.warp(); i < all; i += MX_CHAIN_WARPS) {
            if (i != c.warp() || !first)
                item = item_at(job, i);
            multiply<x_parts, w_parts>(item, x, w + (item.first * n + item.tile) * words + c.lane(), n * words,
                                       blocks * n * words, c.lane(), my_sums + i * MX_WARP + c.lane());
        }
        meet_block();
        leave_piece(c);
        if (e.there)
            finish_piece(job, c, e, my_sums);
    }
}

template <int x_parts, int w_parts, typename Crew> __device__ static void run_product(Crew &c) {
    const mx_chain_product &job = c.phase().product;
    const mx_product &p = job.p;
    int tile = first_tile(job, c.block()), last = first_tile(job, c.block() + 1);
    uint4 *x = (uint4 *)c.work();
    float2 *sums = (float2 *)(x + p.blocks * 4 * x_parts * MX_WARP), bias = make_float2(0, 0);
    item_of_warp item = item_at(job, c.warp());
    norm_of_lane norm;
    bool normed = p.f.gamma != NULL;
    if (normed && c.warp() < c.rows())
        load_norm(p, c, norm);
    if (p.f.bias && tile + c.warp() < last)
        bias = __ldg((const float2 *)(p.f.bias + (tile + c.warp()) * 8 + c.lane() % 4 * 2));
    begin(c);
    if (tile < last) {
        if (normed && c.warp() < c.rows())
            bring_normed<x_parts>(p, c, norm, x);
        if (!normed)
            bring_plain<x_parts>(p, c, x);
        meet_block();
        multiply_pieces<x_parts, w_parts>(c, job, tile, last, item, bias, x, sums);
    }
    leave(c);
}
#endif
#endif
