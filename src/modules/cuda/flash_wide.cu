/* modules/cuda/flash_wide.cu - compiled attention over whole windows on Hopper, heads 64 wide: flash.cu's arithmetic
 * with wide steps. Groups of four warps have 64 queries each; tiles of 64 keys and values come in bulk, for them all.
 * A block goes from queries to queries; those that come next, and their keys, are on their way before it is done.
 * What holds: a query is computed over tiles of 64 keys in order, whatever stands beside it; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. Exact: q, k, v and the probabilities are two
 * f16 each (mx_split_near); only the product of what is left of both is left out. */
#include "modules/cuda/flash.cuh"
#include "modules/cuda/wgmma.cuh"

#define PART MX_CUDA_HEAD_PART   /* bytes of a part of a tile of queries, keys or values */

/* ---- keys and values as columns ---------------------------------------------------------------------------------- */

/* Eight elements of a row. */
template <int parts> __device__ __forceinline__ void keep(char *to, int row, int piece, const float (&v)[8]) {
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        mx_split_near<parts>(v[2 * i], v[2 * i + 1], hi[i], lo[i]);
    char *at = to + row * 128 + (piece ^ row % 8) * 16;
    *(uint4 *)at = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    if (parts == 2)
        *(uint4 *)(at + PART) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

/* Four elements of a key or value; zeros past the last. */
__device__ __forceinline__ float4 four_of(const float *from, bool there, int quads) {
    if (!there)
        return make_float4(0, 0, 0, 0);
    return quads ? *(const float4 *)from : make_float4(from[0], from[1], from[2], from[3]);
}

/* As MX_CUDA_HEADS has them, but for the queries. A block for each tile, head and entry; zeros past the last key. Keys:
 * a row to each, along the head; values: a row to each element of the head, along the keys, which change places in
 * shared memory. */
template <int parts> __global__ void __launch_bounds__(MX_BLOCK) columns_kernel(mx_flash f) {
    __shared__ float turned[MX_KEYS][MX_HEAD + 1];
    int tile = blockIdx.x, head = blockIdx.y, first = tile * MX_KEYS;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * MX_HEAD, *v = f.v + entry * f.s * f.ldv + head * MX_HEAD;
    int64_t values = (int64_t)f.tiles * parts * PART;
    char *to = (char *)f.operands + (entry * f.heads + head) * 2 * values + tile * parts * PART;
    float4 of_v[4], of_k[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * MX_BLOCK, key = at / 16, d = at % 16 * 4;
        of_v[i] = four_of(v + (first + key) * f.ldv + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i / 2 * MX_BLOCK, key = at / 8, d = at % 8 * 8 + i % 2 * 4;
        of_k[i] = four_of(k + (first + key) * f.ldk + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * MX_BLOCK;
        float *row = &turned[at / 16][at % 16 * 4];
        row[0] = of_v[i].x, row[1] = of_v[i].y, row[2] = of_v[i].z, row[3] = of_v[i].w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = threadIdx.x + i * MX_BLOCK;
        const float4 &a = of_k[i * 2], &b = of_k[i * 2 + 1];
        float along_head[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, along_keys[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            along_keys[j] = turned[at % 8 * 8 + j][at / 8];
        keep<parts>(to, at / 8, at % 8, along_head);
        keep<parts>(to + values, at / 8, at % 8, along_keys);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Of a block: as many groups as registers allow (128 for each thread of four), so that some reckon while others
 * multiply, or fewer where that leaves no multiprocessor with a second block. At least two: keys and values are brought
 * by one each. */
template <int parts> struct wide_shape {
    static constexpr int groups = 4;                                  /* of 64 queries, at most */
    static constexpr int threads = groups * 128;
    static constexpr int stage = 2 * parts * PART, stages = parts == 1 ? 6 : 4;
    static constexpr int ahead = stages - 2;                           /* tiles that are under way */
    static constexpr int asked = parts * PART;                         /* bytes of a group's queries */
    static constexpr int bytes = stages * stage + groups * asked + 1024 + (2 * stages + groups) * 8;
};

/* Of a tile of keys: all, of which none is past the last; all; the first half. */
enum extent { FULL, ENDING, ENDING_HALF };

/* What a block has in shared memory: addresses. */
template <int parts> struct places {
    unsigned tiles, asked;   /* keys and values; the queries of this thread's group */
    unsigned gates, got;     /* of the stages; of the group's queries */
    __device__ __forceinline__ unsigned full(int stage) const { return gates + stage * 8; }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(wide_shape<parts>::stages + stage); }
};

#if MX_WIDE
__device__ __forceinline__ int groups_here() { return (int)blockDim.x / MX_GROUP; }

#define MOST 15   /* of a probability, as a power of 2: f16 go up to 65504 */

/* The largest scores of both rows. */
__device__ __forceinline__ float2 largest_of(const float (&s)[32]) {
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

/* Takes the top of a row anew where a probability would be too large; by rows, whatever stands beside them. What older
 * sums are worth then goes to `rescale`. Both are reckoned with the top as it was rounded, so that its rounding does
 * not show. */
template <bool first, typename Rescale>
__device__ __forceinline__ void raise_tops(const float2 &most, mx_running &r, float scale, Rescale rescale) {
    float2 worth;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float top = row ? most.y : most.x, before = r.top[row];
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
        top = mx_top_of(fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2)), scale);
        r.top[row] = first || __fsub_rn(top, before) > MOST - MX_POWERS_UP ? top : before;
        (row ? worth.y : worth.x) = mx_power_of_2(__fsub_rn(before, r.top[row]));
        r.sum[row] = first ? 0 : __fmul_rn(r.sum[row], row ? worth.y : worth.x);
    }
    if (!first)
        rescale(worth);
}

/* Scores into probabilities, which are told two by two: `keep` of a pair's number, its row and both. Returns the sums
 * of both rows. The top that powers are reckoned from is that of the first tile, and stays as long as the
 * probabilities fit: so older sums are hardly ever scaled, and lanes need not agree on a top for every tile. */
template <typename Keep>
__device__ __forceinline__ float2 powers_of(const float (&s)[32], const mx_running &r, float scale, Keep keep) {
    float2 all;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float sums[4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float p = mx_power_of_2(__fmaf_rn(s[i * 4 + row * 2], scale, -r.top[row]));
            float q = mx_power_of_2(__fmaf_rn(s[i * 4 + row * 2 + 1], scale, -r.top[row]));
            sums[i % 2 * 2] = i < 2 ? p : __fadd_rn(sums[i % 2 * 2], p);
            sums[i % 2 * 2 + 1] = i < 2 ? q : __fadd_rn(sums[i % 2 * 2 + 1], q);
            keep(i, row, p, q);
        }
        (row ? all.y : all.x) = __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3]));
    }
    return all;
}

__device__ __forceinline__ void add_powers(mx_running &r, const float2 &sums) {
    r.sum[0] = __fadd_rn(r.sum[0], sums.x);
    r.sum[1] = __fadd_rn(r.sum[1], sums.y);
}

/* Whether they fit is known before. */
template <bool first, typename Keep, typename Rescale>
__device__ __forceinline__ void soften(const float (&s)[32], mx_running &r, float scale, Keep keep, Rescale rescale) {
    float2 most = largest_of(s);
    float above = fmaxf(__fmaf_rn(most.x, scale, -r.top[0]), __fmaf_rn(most.y, scale, -r.top[1]));
    if (first || __any_sync(0xffffffffu, above > MOST - 1))
        raise_tops<first>(most, r, scale, rescale);
    add_powers(r, powers_of(s, r, scale, keep));
}

/* The same bits: whether they fitted is told by the sums, and hardly ever must they be made again. So nobody looks for
 * the largest score; but the scores are still there when all is made, for which `f16` has no registers. */
template <bool first, typename Keep, typename Rescale>
__device__ __forceinline__ void soften_tried(const float (&s)[32], mx_running &r, float scale, Keep keep,
                                             Rescale rescale) {
    if (first)
        raise_tops<first>(largest_of(s), r, scale, rescale);
    float2 sums = powers_of(s, r, scale, keep);
    if (!first && __any_sync(0xffffffffu, fmaxf(sums.x, sums.y) > (float)(1 << (MOST - 1)))) {
        raise_tops<first>(largest_of(s), r, scale, rescale);
        sums = powers_of(s, r, scale, keep);
    }
    add_powers(r, sums);
}

/* The part of an operand that a pair is. */
__device__ __forceinline__ uint32_t &place_of(uint4 &v, int i, int row) {
    return i % 2 ? (row ? v.w : v.z) : (row ? v.y : v.x);
}

__device__ __forceinline__ void scale_rows(float (&o)[32], const float2 &worth) {
#pragma unroll
    for (int i = 0; i < 32; i++)
        o[i] = __fmul_rn(o[i], i % 4 < 2 ? worth.x : worth.y);
}

/* What a block does at a time: queries of a head (of all entries), from a tile of 64 on, one to each of its groups; or
 * to the first half of them, so that what is left for the last round goes to twice as many blocks. */
struct piece {
    int head, tile, groups;
};

__device__ __forceinline__ piece piece_of(const mx_flash &f, int item) {
    int groups = groups_here(), half = item - f.whole, of = half < 0 ? item : f.whole + half / 2;
    int head = of / f.across, tile = (of - head * f.across) * groups;
    return half < 0 ? piece{head, tile, groups} : piece{head, tile + half % 2 * (groups / 2), groups / 2};
}

/* What of a head's operands lies where. */
template <int parts> __device__ __forceinline__ const char *operands_of(const mx_flash &f, int64_t head) {
    return (const char *)f.operands + head * (f.handed ? 3 : 2) * parts * f.tiles * PART;
}

/* What brings tiles, in the order in which they are taken: the next one of these queries, or the first of the next;
 * into the next stage, once all warps have let go of it. By one thread of the first group for keys, of the second for
 * values. */
template <int parts> struct courier {
    int item, tile, stage, parity;
    const char *from;

    __device__ __forceinline__ void begin(const mx_flash &f) {
        tile = 0;
        from = operands_of<parts>(f, piece_of(f, item).head) +
               (int64_t)((f.handed ? 1 : 0) + (int)threadIdx.x / MX_GROUP) * f.tiles * parts * PART;
    }
    __device__ __forceinline__ void bring(const mx_flash &f, const places<parts> &at) {
        using shape = wide_shape<parts>;
        if ((threadIdx.x == 0 || threadIdx.x == MX_GROUP) && item < f.items) {
            mx_gate_wait(at.empty(stage), parity ^ 1);   /* the first time it is passed at once */
            mx_gate_expect(at.full(stage), parts * PART);
            mx_bulk_copy(at.tiles + stage * shape::stage + threadIdx.x / MX_GROUP * parts * PART, from, parts * PART,
                         at.full(stage));
            from += parts * PART;
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

__device__ __forceinline__ void join_group() {
    asm volatile("bar.sync %0, 128;" ::"r"((int)threadIdx.x / MX_GROUP + 1) : "memory");
}

/* A group's queries from f32; nobody reads those before. */
template <int parts>
__device__ __forceinline__ void keep_queries(const mx_flash &f, unsigned asked, const mx_asked &of, int first) {
    const float *from = f.q + of.entry * f.t * f.ldq + of.head * MX_HEAD;
    char *to = (char *)__cvta_shared_to_generic(asked);
    join_group();
    float4 v[4][2];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int at = threadIdx.x % MX_GROUP + i / 2 * MX_GROUP, row = first + at / 8;
        v[i / 2][i % 2] = four_of(from + row * f.ldq + at % 8 * 8 + i % 2 * 4, row < f.t, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float4 &a = v[i][0], &b = v[i][1];
        float eight[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        keep<parts>(to, threadIdx.x % MX_GROUP / 8 + i * 16, threadIdx.x % 8, eight);
    }
    mx_shared_fence();
    join_group();
}

/* Those of an item in bulk, by one thread of the group. */
template <int parts>
__device__ __forceinline__ void send_for_queries(const mx_flash &f, const places<parts> &at, int item) {
    using shape = wide_shape<parts>;
    if (item < f.items && threadIdx.x % MX_GROUP == 0) {
        piece next = piece_of(f, item);
        int tile = next.tile + (int)threadIdx.x / MX_GROUP;
        mx_gate_expect(at.got, shape::asked);
        mx_bulk_copy(at.asked, operands_of<parts>(f, next.head) + (int64_t)min(tile, f.tiles - 1) * shape::asked,
                     shape::asked, at.got);
    }
    __syncwarp();
}

/* The stage that is next to be multiplied; its address is reckoned before it is waited for. So is that of the queries,
 * which stays: what wide steps take from it is made where they take it from, and not kept in registers. */
template <int parts> struct reader {
    int stage, parity;
    unsigned tile, asked;

    __device__ __forceinline__ void wait(const places<parts> &at) const { mx_gate_wait(at.full(stage), parity); }
    /* Done with the one before. */
    __device__ __forceinline__ void let_go(const places<parts> &at) const {
        if (threadIdx.x % MX_WARP == 0)
            mx_gate_arrive(at.empty(stage ? stage - 1 : wide_shape<parts>::stages - 1));
    }
    __device__ __forceinline__ void go_on(const places<parts> &at) {
        if (++stage == wide_shape<parts>::stages) {
            stage = 0;
            parity ^= 1;
        }
        tile = mx_same_for_all(at.tiles + stage * wide_shape<parts>::stage);
        asked = mx_same_for_all(asked);
    }
    /* Of no use to this group. */
    __device__ __forceinline__ void pass(const places<parts> &at, int tiles) {
        for (int i = 0; i < tiles; i++) {
            wait(at);
            go_on(at);
            let_go(at);
        }
    }
};

/* One of the products of a tile: scores, in which each key is a column, or only the first 32 are. */
template <bool half>
__device__ __forceinline__ void multiply_keys(float (&s)[32], uint64_t rows, uint64_t keys, bool add) {
#pragma unroll
    for (int step = 0; step < 4; step++)
        if (half)
            mx_wide((float (&)[16])s, rows + step * 2, keys + step * 2, add || step > 0);
        else
            mx_wide(s, rows + step * 2, keys + step * 2, add || step > 0);
}

/* The same of values, in which keys are summed over. `part`: of the probabilities. */
template <bool half, int parts>
__device__ __forceinline__ void multiply_values(float (&o)[32], const uint4 (&p)[4][parts], int part, uint64_t values,
                                                bool add) {
#pragma unroll
    for (int step = 0; step < (half ? 2 : 4); step++)
        mx_wide(o, p[step][part], values + step * 2, add || step > 0);
}

/* A group's sums over the tiles of keys for its queries. Where a tile is ENDING, keys past the last are masked. While
 * the scores are multiplied, `meanwhile` is done; when they have been, `then`, if it was for the last time. */
template <int parts> struct sums;

/* An operand stays where it is until it has been multiplied. */
__device__ __forceinline__ void hold(uint4 &v) { asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }

/* Exact: the sums of a tile stand alone, then are added to those before. What matters least is summed first. */
template <> struct sums<2> {
    float o[32];
    mx_running r;

    template <bool half>
    static __device__ __forceinline__ void begin_scores(float (&s)[32], uint64_t rows, uint64_t keys) {
        mx_wide_begin();
        multiply_keys<half>(s, rows + (PART >> 4), keys, false);
        multiply_keys<half>(s, rows, keys + (PART >> 4), true);
        multiply_keys<half>(s, rows, keys, true);
        mx_wide_commit();
    }
    template <bool half>
    static __device__ __forceinline__ void begin_values(float (&t)[32], const uint4 (&p)[4][2], uint64_t values) {
        mx_wide_begin();
        multiply_values<half>(t, p, 1, values, false);
        multiply_values<half>(t, p, 0, values + (PART >> 4), true);
        multiply_values<half>(t, p, 0, values, true);
        mx_wide_commit();
    }
    template <bool first, extent of, typename Meanwhile, typename Then>
    __device__ __forceinline__ void attend(const mx_flash &f, const places<2> &at, reader<2> &keys,
                                           Meanwhile meanwhile, Then then) {
        float s[32];
        uint4 p[4][2];
        keys.wait(at);
        begin_scores<of == ENDING_HALF>(s, mx_wide_columns(keys.asked), mx_wide_columns(keys.tile));
        meanwhile();
        mx_wide_wait<0>();
        mx_wide_hold(s);
        if (of != FULL) {
            then();
            mx_mask(s, (f.tiles - 1) * MX_KEYS, f.s);
        }
        soften_tried<first>(s, r, f.scale, [&](int i, int row, float a, float b) {
            mx_split_near<2>(a, b, place_of(p[i / 2][0], i, row), place_of(p[i / 2][1], i, row));
        }, [&](const float2 &worth) { scale_rows(o, worth); });
        begin_values<of == ENDING_HALF>(s, p, mx_wide_columns(keys.tile + 2 * PART));
        mx_wide_wait<0>();
        mx_wide_hold(s);
        keys.go_on(at);
        keys.let_go(at);
#pragma unroll
        for (int i = 0; i < 32; i++)
            o[i] = __fadd_rn(o[i], s[i]);
    }
    __device__ __forceinline__ void end(const places<2> &, const reader<2> &) {}
};

/* f16: one chain of sums over all tiles, scaled where a row's top has moved. Values are still multiplied when the
 * scores of the next tile are begun; a tile is let go of when they have been. */
template <> struct sums<1> {
    float o[32];
    mx_running r;
    uint4 p[4][1];

    __device__ __forceinline__ void held() {
        mx_wide_hold(o);
#pragma unroll
        for (int i = 0; i < 4; i++)
            hold(p[i][0]);
    }
    template <bool first, extent of, typename Meanwhile, typename Then>
    __device__ __forceinline__ void attend(const mx_flash &f, const places<1> &at, reader<1> &keys,
                                           Meanwhile meanwhile, Then then) {
        float s[32];
        uint64_t rows = mx_wide_columns(keys.asked), columns = mx_wide_columns(keys.tile);
        keys.wait(at);
        mx_wide_begin();
        multiply_keys<false>(s, rows, columns, false);   /* 32 columns: no registers for that */
        mx_wide_commit();
        meanwhile();
        mx_wide_wait<0>();
        mx_wide_hold(s);
        held();
        if (!first)
            keys.let_go(at);
        if (of != FULL) {
            then();
            mx_mask(s, (f.tiles - 1) * MX_KEYS, f.s);
        }
        soften<first>(s, r, f.scale, [&](int i, int row, float a, float b) {
            place_of(p[i / 2][0], i, row) = mx_halves(a, b);
        }, [&](const float2 &worth) { scale_rows(o, worth); });
        mx_wide_begin();
        multiply_values<of == ENDING_HALF>(o, p, 0, columns + (PART >> 4), true);
        mx_wide_commit();
        keys.go_on(at);
    }
    __device__ __forceinline__ void end(const places<1> &at, const reader<1> &keys) {
        mx_wide_wait<0>();
        held();
        keys.let_go(at);
    }
};

template <int parts, extent end>
__device__ __forceinline__ void attend(const mx_flash &f, const places<parts> &at, courier<parts> &next) {
    reader<parts> keys = {0, 0, at.tiles, at.asked};
    int asked = 0;
    auto bring = [&] { next.bring(f, at); };
    for (int item = blockIdx.x; item < f.items; item += gridDim.x, asked ^= 1) {
        piece mine = piece_of(f, item);
        mx_asked of = {mine.head / f.heads, mine.head % f.heads};
        int first = (mine.tile + (int)threadIdx.x / MX_GROUP) * 64;
        if (f.handed)
            mx_gate_wait(at.got, asked);
        if ((int)threadIdx.x / MX_GROUP >= mine.groups) {
            keys.pass(at, f.tiles);   /* half a piece is a block's last */
            break;
        }
        sums<parts> s = {};
        auto then = [&] {
            if (f.handed) {
                join_group();   /* all four warps have done with these queries */
                send_for_queries<parts>(f, at, item + gridDim.x);
            }
        };
        if (!f.handed)
            keep_queries<parts>(f, at.asked, of, first);
        if (f.tiles > 1) {
            s.template attend<true, FULL>(f, at, keys, bring, then);
            for (int tile = 2; tile < f.tiles; tile++)
                s.template attend<false, FULL>(f, at, keys, bring, then);
            s.template attend<false, end>(f, at, keys, bring, then);
        } else {
            s.template attend<true, end>(f, at, keys, bring, then);
        }
        s.end(at, keys);
        int row = first + threadIdx.x % MX_GROUP / MX_WARP * 16 + threadIdx.x % MX_WARP / 4;
        if (f.ready)
            mx_hand_queries<parts>(f, of, row, s.o, s.r);
        else
            mx_write_queries(f, of, row, s.o, s.r);
    }
}
#endif

template <int parts, extent end>
__global__ void __launch_bounds__(wide_shape<parts>::threads, 1) wide_kernel(mx_flash f) {
#if MX_WIDE
    using shape = wide_shape<parts>;
    extern __shared__ char raw[];
    places<parts> at;
    int group = (int)mx_same_for_all(threadIdx.x / MX_GROUP);
    at.tiles = mx_same_for_all((mx_shared_at(raw) + 1023) / 1024 * 1024);
    at.asked = at.tiles + shape::stages * shape::stage + group * shape::asked;
    at.gates = at.tiles + shape::stages * shape::stage + shape::groups * shape::asked;
    at.got = at.full(2 * shape::stages + group);
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::stages; i++) {
            mx_gate_open(at.full(i), 2);                     /* keys and values */
            mx_gate_open(at.empty(i), groups_here() * 4);   /* a warp each */
        }
        for (int i = 0; i < groups_here(); i++)
            mx_gate_open(at.full(2 * shape::stages + i), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    mx_wait_before();
    courier<parts> next = {(int)blockIdx.x, 0, 0, 0, NULL};
    next.begin(f);
    if (f.handed)
        send_for_queries<parts>(f, at, blockIdx.x);
    for (int i = 0; i < shape::ahead; i++)
        next.bring(f, at);
    attend<parts, end>(f, at, next);
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static int across_of(const mx_flash &f, int groups) { return (f.t + groups * 64 - 1) / (groups * 64); }

template <int parts, extent end> static void launch(mx_cuda *gpu, mx_flash f) {
    using shape = wide_shape<parts>;
    int64_t heads = (int64_t)f.heads * f.entries;
    int groups = 2, cores = gpu->device.info.cores;
    while (groups < shape::groups && across_of(f, groups) * heads > cores)
        groups++;
    f.across = across_of(f, groups);
    f.whole = f.items = (int)(f.across * heads);
    int rest = f.items % cores;   /* of the last round */
    if (groups == 4 && rest * 2 <= cores) {
        f.whole -= rest;
        f.items += rest;
    }
    if (!f.handed)
        columns_kernel<parts><<<dim3((unsigned)f.tiles, (unsigned)f.heads, (unsigned)f.entries), MX_BLOCK, 0,
                                gpu->stream>>>(f);
    static int allowed[MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)wide_kernel<parts, end>, shape::bytes, allowed);
    mx_launch(gpu, wide_kernel<parts, end>, dim3((unsigned)MX_MIN(f.items, cores)), dim3((unsigned)groups * 128),
              shape::bytes, f);
}

/* Whether the GPU runs what was made for sm_90a, and not the empty kernels that others have, newer ones too. */
int mx_flash_is_wide(mx_cuda *gpu) {
    cudaFuncAttributes of;
    if (gpu->wide == 0) {
        int known = cudaFuncGetAttributes(&of, wide_kernel<2, ENDING>) == cudaSuccess;
        gpu->wide = known && of.binaryVersion == 90 && of.ptxVersion == 90 ? 1 : -1;
        cudaGetLastError();
    }
    return gpu->wide > 0;
}

void mx_flash_wide(mx_cuda *gpu, const mx_flash &f, int parts) {
    bool half = f.tiles * MX_KEYS - f.s >= MX_KEYS / 2;
    if (parts == 1)
        half ? launch<1, ENDING_HALF>(gpu, f) : launch<1, ENDING>(gpu, f);
    else
        half ? launch<2, ENDING_HALF>(gpu, f) : launch<2, ENDING>(gpu, f);
}
