/* modules/cuda/attention/sm90/flash_wgmma.cu - compiled flash attention over whole windows on Hopper, heads of 64: the
 * arithmetic of attention/flash_mma.cu with wgmma. Consumer warpgroups have 64 queries each; tiles of 64 keys and
 * values come by bulk copies, shared by all of them. Persistent: a block goes from queries to queries, and the next
 * queries and their keys are prefetched before it is done.
 * Invariants: a query is computed over tiles of 64 keys in order, whatever else is in the batch; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. exact: q, k, v and the probabilities are two
 * f16 terms each (split_f16_unscaled); only the product of both second terms is dropped. */
#include "modules/cuda/attention/flash.cuh"
#include "modules/cuda/common/pipeline.cuh"
#include "modules/cuda/common/wgmma.cuh"

namespace mx::attention {

namespace flash_wgmma_kernels {

constexpr int TILE_BYTES = MX_CUDA_QKV_TILE;   /* bytes of a term of a tile of queries, keys or values */

/* ---- keys and values as columns ---------------------------------------------------------------------------------- */

/* Eight elements of a row. */
template <int terms> __device__ __forceinline__ void keep(char *to, int row, int piece, const float (&v)[8]) {
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        split_f16_unscaled<terms>(v[2 * i], v[2 * i + 1], hi[i], lo[i]);
    char *at = to + row * 128 + (piece ^ row % 8) * 16;
    *(uint4 *)at = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    if (terms == 2)
        *(uint4 *)(at + TILE_BYTES) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

/* Four elements of a key or value; zeros past the last. */
__device__ __forceinline__ float4 four_of(const float *from, bool there, int quads) {
    if (!there)
        return make_float4(0, 0, 0, 0);
    return quads ? *(const float4 *)from : make_float4(from[0], from[1], from[2], from[3]);
}

/* MX_LAYOUT_QKV without the queries. A block per tile, head and entry; zeros past the last key. Keys: a row each, along
 * the head; values: a row per element of the head, along the keys, transposed in shared memory. */
template <int terms> __global__ void __launch_bounds__(BLOCK_SIZE) prepack_kv_kernel(flash_params f) {
    __shared__ float transposed[FLASH_KEYS][HEAD_DIM + 1];
    int tile = blockIdx.x, head = blockIdx.y, first = tile * FLASH_KEYS;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * HEAD_DIM, *v = f.v + entry * f.s * f.ldv + head * HEAD_DIM;
    int64_t values = (int64_t)f.tiles * terms * TILE_BYTES;
    char *to = (char *)f.operands + (entry * f.heads + head) * 2 * values + tile * terms * TILE_BYTES;
    float4 of_v[4], of_k[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * BLOCK_SIZE, key = at / 16, d = at % 16 * 4;
        of_v[i] = four_of(v + (first + key) * f.ldv + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i / 2 * BLOCK_SIZE, key = at / 8, d = at % 8 * 8 + i % 2 * 4;
        of_k[i] = four_of(k + (first + key) * f.ldk + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * BLOCK_SIZE;
        float *row = &transposed[at / 16][at % 16 * 4];
        row[0] = of_v[i].x, row[1] = of_v[i].y, row[2] = of_v[i].z, row[3] = of_v[i].w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = threadIdx.x + i * BLOCK_SIZE;
        const float4 &a = of_k[i * 2], &b = of_k[i * 2 + 1];
        float along_head[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, along_keys[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            along_keys[j] = transposed[at % 8 * 8 + j][at / 8];
        keep<terms>(to, at / 8, at % 8, along_head);
        keep<terms>(to + values, at / 8, at % 8, along_keys);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* As many warpgroups as registers allow (128 per thread with four), so that some run softmax while others multiply, or
 * fewer where that leaves no SM with a second block. At least two: one is the producer of keys, one of values. */
template <int terms> struct flash_shape {
    static constexpr int groups = 4;                                  /* of 64 queries, at most */
    static constexpr int threads = groups * 128;
    static constexpr int stage = 2 * terms * TILE_BYTES, stages = terms == 1 ? 6 : 4;
    static constexpr int ahead = stages - 2;                           /* tiles in flight */
    static constexpr int queries = terms * TILE_BYTES;                         /* bytes of a warpgroup's queries */
    static constexpr int bytes = stages * stage + groups * queries + 1024 + (2 * stages + groups) * 8;
};

/* Keys of a tile: all valid; all, some past the last; only the first half. */
enum extent { FULL, ENDING, ENDING_HALF };

/* Shared-memory addresses. */
template <int terms> struct flash_smem {
    unsigned tiles, queries;   /* keys and values; the queries of this thread's warpgroup */
    unsigned barriers, queries_full;     /* of the stages; of the warpgroup's queries */
    __device__ __forceinline__ unsigned full(int stage) const { return barriers + stage * 8; }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(flash_shape<terms>::stages + stage); }
};

#if MX_HAS_WGMMA
__device__ __forceinline__ int groups_here() { return (int)blockDim.x / WARPGROUP; }

constexpr int MAX_EXP2 = 15;   /* largest exponent of a probability: f16 goes up to 65504 */

/* The row max of both rows. */
__device__ __forceinline__ float2 row_max_of(const float (&s)[32]) {
    float most[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float four[4];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float a = s[i / 2 * 4 + row * 2 + i % 2];
            four[i % 4] = i < 4 ? a : fmaxf(four[i % 4], a);
        }
        most[row] = fmaxf(fmaxf(four[0], four[1]), fmaxf(four[2], four[3]));
    }
    return make_float2(most[0], most[1]);
}

/* Updates the max of a row where a probability would overflow; each row decides alone. Older sums are scaled by
 * `rescale`. Both use the max as rounded, so that its rounding cancels. */
template <bool first, typename Rescale>
__device__ __forceinline__ void raise_max(const float2 &most, softmax_state &r, float scale, Rescale rescale) {
    float2 rescale_factor;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float row_max = row ? most.y : most.x, before = r.row_max[row];
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 1));
        row_max = shifted_max(fmaxf(row_max, __shfl_xor_sync(0xffffffffu, row_max, 2)), scale);
        r.row_max[row] = first || __fsub_rn(row_max, before) > MAX_EXP2 - EXP2_SHIFT ? row_max : before;
        (row ? rescale_factor.y : rescale_factor.x) = exp2_approx(__fsub_rn(before, r.row_max[row]));
        r.sum[row] = first ? 0 : __fmul_rn(r.sum[row], row ? rescale_factor.y : rescale_factor.x);
    }
    if (!first)
        rescale(rescale_factor);
}

/* Scores into probabilities, passed on in pairs: `keep` gets a pair's number, its row and both. Returns the sums of
 * both rows. The row max is sticky: that of the first tile stays as long as the probabilities fit, so older sums are
 * almost never rescaled, and lanes need not agree on a max for every tile. */
template <typename Keep>
__device__ __forceinline__ float2 exp2_scores(const float (&s)[32], const softmax_state &r, float scale, Keep keep) {
    float2 all;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float sums[4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float p = exp2_approx(__fmaf_rn(s[i * 4 + row * 2], scale, -r.row_max[row]));
            float q = exp2_approx(__fmaf_rn(s[i * 4 + row * 2 + 1], scale, -r.row_max[row]));
            sums[i % 2 * 2] = i < 2 ? p : __fadd_rn(sums[i % 2 * 2], p);
            sums[i % 2 * 2 + 1] = i < 2 ? q : __fadd_rn(sums[i % 2 * 2 + 1], q);
            keep(i, row, p, q);
        }
        (row ? all.y : all.x) = __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3]));
    }
    return all;
}

__device__ __forceinline__ void add_sums(softmax_state &r, const float2 &sums) {
    r.sum[0] = __fadd_rn(r.sum[0], sums.x);
    r.sum[1] = __fadd_rn(r.sum[1], sums.y);
}

/* Checks before whether they fit. */
template <bool first, typename Keep, typename Rescale>
__device__ __forceinline__ void online_softmax(const float (&s)[32], softmax_state &r, float scale, Keep keep,
                                               Rescale rescale) {
    float2 most = row_max_of(s);
    float above = fmaxf(__fmaf_rn(most.x, scale, -r.row_max[0]), __fmaf_rn(most.y, scale, -r.row_max[1]));
    if (first || __any_sync(0xffffffffu, above > MAX_EXP2 - 1))
        raise_max<first>(most, r, scale, rescale);
    add_sums(r, exp2_scores(s, r, scale, keep));
}

/* The same bits, optimistic: the sums show whether all fitted, and they are almost never computed again. So no max is
 * taken; but the scores must stay until the end, for which `f16` has no registers. */
template <bool first, typename Keep, typename Rescale>
__device__ __forceinline__ void online_softmax_optimistic(const float (&s)[32], softmax_state &r, float scale,
                                                          Keep keep, Rescale rescale) {
    if (first)
        raise_max<first>(row_max_of(s), r, scale, rescale);
    float2 sums = exp2_scores(s, r, scale, keep);
    if (!first && __any_sync(0xffffffffu, fmaxf(sums.x, sums.y) > (float)(1 << (MAX_EXP2 - 1)))) {
        raise_max<first>(row_max_of(s), r, scale, rescale);
        sums = exp2_scores(s, r, scale, keep);
    }
    add_sums(r, sums);
}

/* The register of an operand that a pair belongs to. */
__device__ __forceinline__ uint32_t &place_of(uint4 &v, int i, int row) {
    return i % 2 ? (row ? v.w : v.z) : (row ? v.y : v.x);
}

__device__ __forceinline__ void scale_rows(float (&o)[32], const float2 &rescale_factor) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        o[i] = __fmul_rn(o[i], i % 4 < 2 ? rescale_factor.x : rescale_factor.y);
}

/* A work item: queries of a head (of all entries) from a tile of 64 on, one tile per warpgroup; or half an item, so
 * that the last wave is spread over twice as many blocks. */
struct piece {
    int head, tile, groups;
};

__device__ __forceinline__ piece piece_of(const flash_params &f, int item) {
    int groups = groups_here(), half = item - f.whole, of = half < 0 ? item : f.whole + half / 2;
    int head = of / f.across, tile = (of - head * f.across) * groups;
    return half < 0 ? piece{head, tile, groups} : piece{head, tile + half % 2 * (groups / 2), groups / 2};
}

/* The operands of a head. */
template <int terms> __device__ __forceinline__ const char *operands_of(const flash_params &f, int64_t head) {
    return (const char *)f.operands + head * (f.qkv_operands ? 3 : 2) * terms * f.tiles * TILE_BYTES;
}

/* The producer of tiles, in the order in which they are consumed: the next one of these queries, or the first of the
 * next item; into the next stage, once all warps have released it. One thread of the first warpgroup for keys, of the
 * second for values. */
template <int terms> struct producer {
    int item, tile, stage, parity;
    const char *from;

    __device__ __forceinline__ void begin(const flash_params &f) {
        tile = 0;
        from = operands_of<terms>(f, piece_of(f, item).head) +
               (int64_t)((f.qkv_operands ? 1 : 0) + (int)threadIdx.x / WARPGROUP) * f.tiles * terms * TILE_BYTES;
    }
    __device__ __forceinline__ void load_next(const flash_params &f, const flash_smem<terms> &at) {
        using shape = flash_shape<terms>;
        if ((threadIdx.x == 0 || threadIdx.x == WARPGROUP) && item < f.items) {
            mbarrier_wait(at.empty(stage), parity ^ 1);   /* passes at once the first time */
            mbarrier_arrive_expect_tx(at.full(stage), terms * TILE_BYTES);
            cp_async_bulk(at.tiles + stage * shape::stage + threadIdx.x / WARPGROUP * terms * TILE_BYTES, from,
                          terms * TILE_BYTES, at.full(stage));
            from += terms * TILE_BYTES;
            if (++stage == shape::stages) {
                stage = 0;
                parity ^= 1;
            }
            if (++tile == f.tiles) {
                item += gridDim.x;
                begin(f);
            }
        }
        __syncwarp();
    }
};

__device__ __forceinline__ void warpgroup_sync() {
    asm volatile("bar.sync %0, 128;" ::"r"((int)threadIdx.x / WARPGROUP + 1) : "memory");
}

/* A warpgroup's queries from f32, after all of its warps are done with the last ones. */
template <int terms>
__device__ __forceinline__ void convert_queries(const flash_params &f, unsigned queries, const head_index &of,
                                                int first) {
    const float *from = f.q + of.entry * f.t * f.ldq + of.head * HEAD_DIM;
    char *to = (char *)__cvta_shared_to_generic(queries);
    warpgroup_sync();
    float4 v[4][2];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int at = threadIdx.x % WARPGROUP + i / 2 * WARPGROUP, row = first + at / 8;
        v[i / 2][i % 2] = four_of(from + row * f.ldq + at % 8 * 8 + i % 2 * 4, row < f.t, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float4 &a = v[i][0], &b = v[i][1];
        float eight[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        keep<terms>(to, threadIdx.x % WARPGROUP / 8 + i * 16, threadIdx.x % 8, eight);
    }
    fence_proxy_async();
    warpgroup_sync();
}

/* Those of an item by a bulk copy, by one thread of the warpgroup. */
template <int terms>
__device__ __forceinline__ void prefetch_queries(const flash_params &f, const flash_smem<terms> &at, int item) {
    using shape = flash_shape<terms>;
    if (item < f.items && threadIdx.x % WARPGROUP == 0) {
        piece next = piece_of(f, item);
        int tile = next.tile + (int)threadIdx.x / WARPGROUP;
        mbarrier_arrive_expect_tx(at.queries_full, shape::queries);
        cp_async_bulk(at.queries, operands_of<terms>(f, next.head) + (int64_t)min(tile, f.tiles - 1) * shape::queries,
                      shape::queries, at.queries_full);
    }
    __syncwarp();
}

/* The next stage to be multiplied; its address is computed before the wait. So is that of the queries, which stays:
 * descriptors are derived where wgmma takes them from, and not kept in registers. */
template <int terms> struct consumer {
    int stage, parity;
    unsigned tile, queries;

    __device__ __forceinline__ void wait(const flash_smem<terms> &at) const { mbarrier_wait(at.full(stage), parity); }
    /* Releases the stage before. */
    __device__ __forceinline__ void release(const flash_smem<terms> &at) const {
        if (threadIdx.x % WARP_SIZE == 0)
            mbarrier_arrive(at.empty(stage ? stage - 1 : flash_shape<terms>::stages - 1));
    }
    __device__ __forceinline__ void advance(const flash_smem<terms> &at) {
        if (++stage == flash_shape<terms>::stages) {
            stage = 0;
            parity ^= 1;
        }
        tile = warp_uniform(at.tiles + stage * flash_shape<terms>::stage);
        queries = warp_uniform(queries);
    }
    /* Skips tiles that are of no use to this warpgroup. */
    __device__ __forceinline__ void pass(const flash_smem<terms> &at, int tiles) {
        for (int i = 0; i < tiles; i++) {
            wait(at);
            advance(at);
            release(at);
        }
    }
};

/* One of the products of a tile: scores, with a column per key, or only the first 32. */
template <bool half>
__device__ __forceinline__ void multiply_keys(float (&s)[32], uint64_t rows, uint64_t keys, bool add) {
#pragma unroll
    for (int step = 0; step < 4; step++)
        if (half)
            wgmma((float (&)[16])s, rows + step * 2, keys + step * 2, add || step > 0);
        else
            wgmma(s, rows + step * 2, keys + step * 2, add || step > 0);
}

/* The same for values, summed over keys. `part`: the term of the probabilities. */
template <bool half, int terms>
__device__ __forceinline__ void multiply_values(float (&o)[32], const uint4 (&p)[4][terms], int term, uint64_t values,
                                                bool add) {
#pragma unroll
    for (int step = 0; step < (half ? 2 : 4); step++)
        wgmma(o, p[step][term], values + step * 2, add || step > 0);
}

/* A warpgroup's accumulators over the tiles of keys for its queries. Where a tile is ENDING, keys past the last are
 * masked. `meanwhile` runs while the scores are multiplied; `then` when they are done, if it was for the last time. */
template <int terms> struct sums;

/* Pins an operand in its registers until it has been multiplied. */
__device__ __forceinline__ void hold(uint4 &v) { asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

/* exact: the sums of a tile are separate, then added to those before. Least significant terms first. */
template <> struct sums<2> {
    float o[32];
    softmax_state r;

    template <bool half>
    static __device__ __forceinline__ void begin_scores(float (&s)[32], uint64_t rows, uint64_t keys) {
        wgmma_fence();
        multiply_keys<half>(s, rows + (TILE_BYTES >> 4), keys, false);
        multiply_keys<half>(s, rows, keys + (TILE_BYTES >> 4), true);
        multiply_keys<half>(s, rows, keys, true);
        wgmma_commit();
    }
    template <bool half>
    static __device__ __forceinline__ void begin_values(float (&t)[32], const uint4 (&p)[4][2], uint64_t values) {
        wgmma_fence();
        multiply_values<half>(t, p, 1, values, false);
        multiply_values<half>(t, p, 0, values + (TILE_BYTES >> 4), true);
        multiply_values<half>(t, p, 0, values, true);
        wgmma_commit();
    }
    template <bool first, extent of, typename Meanwhile, typename Then>
    __device__ __forceinline__ void attend(const flash_params &f, const flash_smem<2> &at, consumer<2> &keys,
                                           Meanwhile meanwhile, Then then) {
        float s[32];
        uint4 p[4][2];
        keys.wait(at);
        begin_scores<of == ENDING_HALF>(s, wgmma_desc_swizzle128(keys.queries), wgmma_desc_swizzle128(keys.tile));
        meanwhile();
        wgmma_wait<0>();
        wgmma_fence_operand(s);
        if (of != FULL) {
            then();
            mask_keys(s, (f.tiles - 1) * FLASH_KEYS, f.s);
        }
        online_softmax_optimistic<first>(
            s, r, f.scale,
            [&](int i, int row, float a, float b) {
                split_f16_unscaled<2>(a, b, place_of(p[i / 2][0], i, row), place_of(p[i / 2][1], i, row));
            },
            [&](const float2 &rescale_factor) { scale_rows(o, rescale_factor); });
        begin_values<of == ENDING_HALF>(s, p, wgmma_desc_swizzle128(keys.tile + 2 * TILE_BYTES));
        wgmma_wait<0>();
        wgmma_fence_operand(s);
        keys.advance(at);
        keys.release(at);
#pragma unroll
        for (int i = 0; i < 32; i++)
            o[i] = __fadd_rn(o[i], s[i]);
    }
    __device__ __forceinline__ void end(const flash_smem<2> &, const consumer<2> &) {}
};

/* f16: one chain of sums over all tiles, rescaled where a row max has moved. Values are still being multiplied when the
 * scores of the next tile begin; a tile is released after them. */
template <> struct sums<1> {
    float o[32];
    softmax_state r;
    uint4 p[4][1];

    __device__ __forceinline__ void held() {
        wgmma_fence_operand(o);
#pragma unroll
        for (int i = 0; i < 4; i++)
            hold(p[i][0]);
    }
    template <bool first, extent of, typename Meanwhile, typename Then>
    __device__ __forceinline__ void attend(const flash_params &f, const flash_smem<1> &at, consumer<1> &keys,
                                           Meanwhile meanwhile, Then then) {
        float s[32];
        uint64_t rows = wgmma_desc_swizzle128(keys.queries), columns = wgmma_desc_swizzle128(keys.tile);
        keys.wait(at);
        wgmma_fence();
        multiply_keys<false>(s, rows, columns, false);   /* 32 columns: no registers for that */
        wgmma_commit();
        meanwhile();
        wgmma_wait<0>();
        wgmma_fence_operand(s);
        held();
        if (!first)
            keys.release(at);
        if (of != FULL) {
            then();
            mask_keys(s, (f.tiles - 1) * FLASH_KEYS, f.s);
        }
        online_softmax<first>(
            s, r, f.scale, [&](int i, int row, float a, float b) { place_of(p[i / 2][0], i, row) = pack_half2(a, b); },
            [&](const float2 &rescale_factor) { scale_rows(o, rescale_factor); });
        wgmma_fence();
        multiply_values<of == ENDING_HALF>(o, p, 0, columns + (TILE_BYTES >> 4), true);
        wgmma_commit();
        keys.advance(at);
    }
    __device__ __forceinline__ void end(const flash_smem<1> &at, const consumer<1> &keys) {
        wgmma_wait<0>();
        held();
        keys.release(at);
    }
};

template <int terms, extent end>
__device__ __forceinline__ void attend(const flash_params &f, const flash_smem<terms> &at, producer<terms> &next) {
    consumer<terms> keys = {0, 0, at.tiles, at.queries};
    int queries = 0;
    auto load_next = [&] { next.load_next(f, at); };
    for (int item = blockIdx.x; item < f.items; item += gridDim.x, queries ^= 1) {
        piece mine = piece_of(f, item);
        head_index of = {mine.head / f.heads, mine.head % f.heads};
        int first = (mine.tile + (int)threadIdx.x / WARPGROUP) * 64;
        if (f.qkv_operands)
            mbarrier_wait(at.queries_full, queries);
        if ((int)threadIdx.x / WARPGROUP >= mine.groups) {
            keys.pass(at, f.tiles);   /* half an item is a block's last */
            break;
        }
        sums<terms> s = {};
        auto then = [&] {
            if (f.qkv_operands) {
                warpgroup_sync();   /* all four warps are done with these queries */
                prefetch_queries<terms>(f, at, item + gridDim.x);
            }
        };
        if (!f.qkv_operands)
            convert_queries<terms>(f, at.queries, of, first);
        if (f.tiles > 1) {
            s.template attend<true, FULL>(f, at, keys, load_next, then);
            for (int tile = 2; tile < f.tiles; tile++)
                s.template attend<false, FULL>(f, at, keys, load_next, then);
            s.template attend<false, end>(f, at, keys, load_next, then);
        } else {
            s.template attend<true, end>(f, at, keys, load_next, then);
        }
        s.end(at, keys);
        int row = first + threadIdx.x % WARPGROUP / WARP_SIZE * 16 + threadIdx.x % WARP_SIZE / 4;
        if (terms == 1 && f.y_operands == 2)
            store_output_e4m3(f, of, row, s.o, s.r);
        else if (f.y_operands)
            store_output_operand<terms>(f, of, row, s.o, s.r);
        else
            store_output(f, of, row, s.o, s.r);
    }
}
#endif

template <int terms, extent end>
__global__ void __launch_bounds__(flash_shape<terms>::threads, 1) flash_wgmma_kernel(flash_params f) {
#if MX_HAS_WGMMA
    using shape = flash_shape<terms>;
    extern __shared__ char raw[];
    flash_smem<terms> at;
    int group = (int)warp_uniform(threadIdx.x / WARPGROUP);
    at.tiles = warp_uniform((smem_addr(raw) + 1023) / 1024 * 1024);
    at.queries = at.tiles + shape::stages * shape::stage + group * shape::queries;
    at.barriers = at.tiles + shape::stages * shape::stage + shape::groups * shape::queries;
    at.queries_full = at.full(2 * shape::stages + group);
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::stages; i++) {
            mbarrier_init(at.full(i), 2);                     /* keys and values */
            mbarrier_init(at.empty(i), groups_here() * 4);   /* one per warp */
        }
        for (int i = 0; i < groups_here(); i++)
            mbarrier_init(at.full(2 * shape::stages + i), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    pdl_wait();
    producer<terms> next = {(int)blockIdx.x, 0, 0, 0, NULL};
    next.begin(f);
    if (f.qkv_operands)
        prefetch_queries<terms>(f, at, blockIdx.x);
    for (int i = 0; i < shape::ahead; i++)
        next.load_next(f, at);
    attend<terms, end>(f, at, next);
#endif
}

/* ---- launch ------------------------------------------------------------------------------------------------------ */

static int across_of(const flash_params &f, int groups) { return (f.t + groups * 64 - 1) / (groups * 64); }

template <int terms, extent end> static void launch(mx_cuda *gpu, flash_params f) {
    using shape = flash_shape<terms>;
    int64_t heads = (int64_t)f.heads * f.entries;
    int groups = 2, cores = gpu->device.info.cores;
    while (groups < shape::groups && across_of(f, groups) * heads > cores)
        groups++;
    f.across = across_of(f, groups);
    f.whole = f.items = (int)(f.across * heads);
    int rest = f.items % cores;   /* of the last wave */
    if (groups == 4 && rest * 2 <= cores) {
        f.whole -= rest;
        f.items += rest;
    }
    if (!f.qkv_operands)
        prepack_kv_kernel<terms><<<dim3((unsigned)f.tiles, (unsigned)f.heads, (unsigned)f.entries), BLOCK_SIZE, 0,
                                gpu->stream>>>(f);
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)flash_wgmma_kernel<terms, end>, shape::bytes, allowed);
    launch_kernel(gpu, flash_wgmma_kernel<terms, end>, dim3((unsigned)MX_MIN(f.items, cores)),
                  dim3((unsigned)groups * 128), shape::bytes, f);
}

}   /* namespace flash_wgmma_kernels */

using namespace flash_wgmma_kernels;

void flash_wgmma(mx_cuda *gpu, const flash_params &f, int terms) {
    bool half = f.tiles * FLASH_KEYS - f.s >= FLASH_KEYS / 2;
    if (terms == 1)
        half ? launch<1, ENDING_HALF>(gpu, f) : launch<1, ENDING>(gpu, f);
    else
        half ? launch<2, ENDING_HALF>(gpu, f) : launch<2, ENDING>(gpu, f);
}

}   /* namespace mx::attention */
