/* modules/cuda/gemm/sm90/persistent_epilogue_warps.cu - GEMM of very many rows on Hopper whose x is in MMA operand
 * layout (and, in f16, long), swap-AB: both operands stream through shared memory in blocks of 64 of k, for tiles of
 * 128 columns by 192 rows (exact: 96 rows with both terms). Such a GEMM is bound by L2 and shared memory bandwidth; a
 * tile this large needs the least of both that registers allow.
 * Persistent kernel with a static tile scheduler. Two consumer warpgroups have 64 of the columns each and do nothing
 * but multiply; they leave their sums in shared memory to three dedicated epilogue warps, which work while the next
 * tile is multiplied, and write y as f32 rows or in the operand layout of the call that reads it (mx_layout). One more
 * warp is the producer.
 * Invariants: operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/sm90/swap_ab.cuh"

namespace mx::gemm {

constexpr int COLUMNS = 2 * SWAP_AB_COLUMNS;
constexpr int PITCH =
    COLUMNS + 4; /* floats of a row of sums: bank-conflict free for eight columns by four pairs of rows */
constexpr int EPILOGUE_WARPS = 3;
constexpr int ROWS_AT_ONCE = 8;   /* of an epilogue warp; half as many with an activation */
/* Registers of a thread. A block of three warpgroups starts with 168 each: asking for more in all would never return.
 */
constexpr int CONSUMER_REGISTERS = 208;
constexpr int OTHER_REGISTERS = 88;
static_assert(2 * CONSUMER_REGISTERS + OTHER_REGISTERS <= 3 * 168, "registers of a block");

namespace persistent_kernels {

template <int rows_, int terms_, int stages_> struct persistent_shape {
    static constexpr int rows = rows_, terms = terms_, stages = stages_;
    static constexpr int sums = rows * terms / 2, totals = rows / 2;   /* accumulators of a lane */
    static constexpr int x_term_bytes = rows * 128, x_bytes = x_term_bytes * terms, w_bytes = 2 * SWAP_AB_W_BYTES;
    static constexpr int stage = w_bytes + x_bytes;
    static constexpr int barriers_at = stages * stage, results_at = barriers_at + 128;
    static constexpr int bytes = results_at + rows * PITCH * 4 + 128;   /* 128: for alignment */
    static_assert(bytes <= SWAP_AB_SMEM && (2 * stages + 2) * 8 <= 128, "shared memory of a block");
    static_assert(rows % (EPILOGUE_WARPS * ROWS_AT_ONCE) == 0 && rows % 32 == 0, "rows of each epilogue warp");
};

/* Tiles of the same rows are neighbours, so that concurrent blocks find those rows in L2. */
template <typename S> __host__ __device__ __forceinline__ int64_t tiles_of(const gemm_params &p) {
    return swap_ab_tiles<S>(p) * (p.f.n / COLUMNS);
}

#if MX_HAS_WGMMA
template <typename S> struct tile_origin : row_tile {
    int64_t operand_row;   /* in x: entries of MX_LAYOUT_QKV begin with a unit of 64 rows there */
    int column;
};

template <typename S> __device__ __forceinline__ tile_origin<S> tile_origin_of(const gemm_params &p, int tile) {
    int across = (int)p.f.n / COLUMNS, down = tile / across;
    tile_origin<S> at = {row_tile_of<S>(p, down), 0, (tile - down * across) * COLUMNS};
    at.operand_row = p.f.y_layout == MX_LAYOUT_QKV ? (p.f.entry_rows + 63) / 64 * 64 * at.entry + at.in : at.row;
    return at;
}

/* Shared memory of a block: the ring of weights and rows, its mbarriers, the sums of a tile. */
template <typename S> struct persistent_smem {
    unsigned base;
    __device__ __forceinline__ unsigned stage(int i) const { return base + i * S::stage; }
    __device__ __forceinline__ unsigned barrier(int i) const { return base + S::barriers_at + i * 8; }
    __device__ __forceinline__ unsigned full(int i) const { return barrier(i); }
    __device__ __forceinline__ unsigned empty(int i) const { return barrier(S::stages + i); }
    __device__ __forceinline__ unsigned sums_full() const { return barrier(2 * S::stages); }
    __device__ __forceinline__ unsigned sums_empty() const { return barrier(2 * S::stages + 1); }
    __device__ __forceinline__ unsigned results() const { return base + S::results_at; }
};

template <typename S> __device__ __forceinline__ persistent_smem<S> open_smem(char *raw) {
    persistent_smem<S> r = {warp_uniform((smem_addr(raw) + 127) / 128 * 128)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(r.full(i), 1);
            mbarrier_init(r.empty(i), 8);   /* one arrival per warp */
        }
        mbarrier_init(r.sums_full(), 2 * WARPGROUP);   /* every thread arrives: racecheck can follow that */
        mbarrier_init(r.sums_empty(), EPILOGUE_WARPS * WARP_SIZE);
        fence_mbarrier_init();
    }
    __syncthreads();
    return r;
}

/* ---- producer ---------------------------------------------------------------------------------------------------- */

/* Rows are stored in units of 64, term by term: a tile is one to three pieces of each term. Past the last unit it is
 * copied again: those rows are computed but not stored. */
template <typename S>
__device__ __forceinline__ void load_rows(const gemm_params &p, unsigned to, int64_t row, int64_t units, int block,
                                          unsigned barrier) {
    int64_t step = (int64_t)p.blocks * S::terms * OPERAND_TILE_BYTES;
    int into = (int)(row % 64) / 8;   /* eights of rows of the first unit before this tile */
    const char *from = (const char *)p.f.x + (int64_t)block * S::terms * OPERAND_TILE_BYTES;
#pragma unroll
    for (int eight = 0, i = 0; i < (S::rows + 63) / 64; i++) {
        int n = S::rows % 64 == 0 ? 8 : min(8 - into, S::rows / 8 - eight);
        const char *unit = from + min(row / 64 + i, units - 1) * step + into * 1024;
#pragma unroll
        for (int term = 0; term < S::terms; term++)
            cp_async_bulk(to + term * S::x_term_bytes + eight * 1024, unit + term * OPERAND_TILE_BYTES, n * 1024,
                          barrier);
        eight += n;
        into = 0;
    }
}

template <typename S>
__device__ __forceinline__ void produce(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    pipeline_state ring = {0, 0};
    int unused = S::stages;
    int64_t units = p.f.y_layout == MX_LAYOUT_QKV ? p.f.m / p.f.entry_rows * ((p.f.entry_rows + 63) / 64)
                                                  : (p.f.m + 63) / 64;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_origin<S> at = tile_origin_of<S>(p, tile);
        const char *weights = (const char *)p.f.weight.bytes + (int64_t)at.column / 8 * 1024;
        for (int block = 0; block < p.blocks; block++) {
            unsigned to = r.stage(ring.stage), barrier = r.full(ring.stage);
            if (--unused < 0)
                producer_acquire(r, ring);
            mbarrier_arrive_expect_tx(barrier, S::stage);
            cp_async_bulk(to, weights + (int64_t)block * p.tiles * 1024, S::w_bytes, barrier);
            load_rows<S>(p, to + S::w_bytes, at.operand_row, units, block, barrier);
            ring.advance(1, S::stages);
        }
    }
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

template <typename S>
__device__ __forceinline__ void release_previous(const persistent_smem<S> &r, const pipeline_state &ring) {
    __syncwarp();
    warp_arrive(r.empty(ring.stage ? ring.stage - 1 : S::stages - 1));
}

/* The lengths of the slices in blocks, one after the other, as slice_start has them but without a division. */
struct slice_lengths {
    int all, each, more, over;
    __device__ __forceinline__ explicit slice_lengths(const gemm_params &p)
        : all(p.slices), each(p.blocks / p.slices), more(p.blocks % p.slices), over(0) {}
    __device__ __forceinline__ int next() {
        over += more;
        if (over < all)
            return each;
        over -= all;
        return each + 1;
    }
};

/* A K slice into fresh sums, for the columns of one warpgroup. */
template <typename S>
__device__ __forceinline__ void multiply_slice(const persistent_smem<S> &r, pipeline_state &ring, int group, int blocks,
                                               float (&sums)[S::sums]) {
    for (int block = 0; block < blocks; block++) {
        unsigned at = warp_uniform(r.stage(ring.stage));
        uint64_t w = wgmma_desc(at + group * SWAP_AB_W_BYTES), x = wgmma_desc(at + S::w_bytes);
        consumer_wait(r, ring);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            wgmma(sums, w + step * 16, x + step * 16, step > 0 || block > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (block > 0)
            release_previous(r, ring);
        ring.advance(1, S::stages);
    }
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    release_previous(r, ring);
}

/* Hands sums to the epilogue warps: a lane's columns g and g + 8 of its warp's, of each 8 rows 2 t and 2 t + 1. */
template <typename S>
__device__ __forceinline__ void store_sums(const persistent_smem<S> &r, int group, const float (&total)[S::totals]) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned to = r.results() + (lane % 4 * 2 * PITCH + group * SWAP_AB_COLUMNS + warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + (i / 4 * 8 * PITCH + i % 2 * PITCH + i % 4 / 2 * 8) * 4),
                     "f"(total[i]) : "memory");
}

template <typename S>
__device__ __forceinline__ void consume(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    int group = (int)warp_uniform(threadIdx.x / WARPGROUP), round = 0;
    pipeline_state ring = {0, 0};
    slice_lengths lengths(p);
    float sums[S::sums], total[S::totals];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            total[i] = 0;
        for (int slice = 0; slice < p.slices; slice++) {
            multiply_slice<S>(r, ring, group, lengths.next(), sums);
#pragma unroll
            for (int i = 0; i < S::totals; i++)
                total[i] = __fadd_rn(total[i], slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]));
        }
        if (round > 0)
            mbarrier_wait(r.sums_empty(), (round - 1) % 2);
        store_sums<S>(r, group, total);
        mbarrier_arrive(r.sums_full());
    }
}

/* ---- epilogue warps ---------------------------------------------------------------------------------------------- */

/* Prefetches the residual of the next tile into L2 during the epilogue of this one; not by bulk prefetch, which would
 * compete with the copies of operands. */
template <typename S>
__device__ __forceinline__ void prefetch_residual(const gemm_params &p, int tile, int tiles, int number) {
    if (tile >= tiles || p.f.residual_rows != p.f.m)   /* rows that repeat are in L2 anyway */
        return;
    tile_origin<S> at = tile_origin_of<S>(p, tile);
    int left = (int)min(p.f.m - at.row, (int64_t)S::rows);
    const float *from = p.f.residual + (at.row + number / 4) * p.f.ld_residual + at.column + number % 4 * 32;
    for (int i = number / 4; i < left; i += EPILOGUE_WARPS * 8, from += EPILOGUE_WARPS * 8 * p.f.ld_residual)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* An epilogue warp's walk over its rows of a tile, four columns to a lane. */
struct row_walk {
    const float *residual, *residual_begin;   /* of the next row, and of row 0 */
    int residual_row;
    float *to;
    int left;                                 /* rows to store */
    float4 bias;
};

template <typename S>
__device__ __forceinline__ row_walk begin_walk(const gemm_params &p, const tile_origin<S> &at, int first,
                                               bool residual) {
    int64_t row = at.row + first;
    int column = at.column + threadIdx.x % WARP_SIZE * 4;
    row_walk f = {};
    f.to = p.f.y + row * p.f.ldy + column;
    f.left = (int)max(min(p.f.m - row, (int64_t)S::rows), (int64_t)0);
    f.bias = p.f.bias ? __ldg((const float4 *)(p.f.bias + column)) : make_float4(0, 0, 0, 0);
    if (residual) {
        f.residual_row = (int)((unsigned)row % (unsigned)p.f.residual_rows);
        f.residual_begin = p.f.residual + column;
        f.residual = f.residual_begin + f.residual_row * p.f.ld_residual;
    }
    return f;
}

/* Wraps after the last residual row; rows past the last are computed but not stored. */
__device__ __forceinline__ float4 next_residual(const gemm_params &p, row_walk &f) {
    float4 v = __ldcg((const float4 *)f.residual);
    bool over = ++f.residual_row == (int)p.f.residual_rows;
    f.residual = over ? f.residual_begin : f.residual + p.f.ld_residual;
    f.residual_row = over ? 0 : f.residual_row;
    return v;
}

/* `once` rows. Multiplying by X_UNSCALE is exact, and no total is -0: so one fma has the bits of epilogue_apply, with a
 * bias or without. */
template <typename S, bool act, bool residual, int once>
__device__ __forceinline__ void epilogue_rows(const gemm_params &p, row_walk &f, unsigned results) {
    float4 more[once];
#pragma unroll
    for (int i = 0; i < once && residual; i++)
        more[i] = next_residual(p, f);
#pragma unroll
    for (int i = 0; i < once; i++, f.to += p.f.ldy) {
        float v[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(results + i * PITCH * 4) : "memory");
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = __fmaf_rn(v[j], X_UNSCALE, (&f.bias.x)[j]);
            if (act)
                v[j] = S::terms == 1 ? gelu_short(v[j]) : gelu_erf(v[j]);
            if (residual)
                v[j] = __fadd_rn(v[j], (&more[i].x)[j]);
        }
        if (i < f.left)
            *(float4 *)f.to = make_float4(v[0], v[1], v[2], v[3]);
    }
    f.left -= once;
}

template <typename S, bool act, bool residual>
__device__ __forceinline__ void epilogue_tiles(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    constexpr int each = S::rows / EPILOGUE_WARPS, once = act ? ROWS_AT_ONCE / 2 : ROWS_AT_ONCE;
    int number = threadIdx.x - 2 * WARPGROUP - WARP_SIZE, begin = number / WARP_SIZE * each, round = 0;
    unsigned results = r.results() + (begin * PITCH + number % WARP_SIZE * 4) * 4;
    if (residual)
        prefetch_residual<S>(p, blockIdx.x, tiles, number);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        row_walk f = begin_walk<S>(p, tile_origin_of<S>(p, tile), begin, residual);
        if (residual)
            prefetch_residual<S>(p, tile + gridDim.x, tiles, number);
        mbarrier_wait(r.sums_full(), round % 2);
#pragma unroll 1
        for (int i = 0; i < each; i += once)
            epilogue_rows<S, act, residual, once>(p, f, results + i * PITCH * 4);
        mbarrier_arrive(r.sums_empty());
    }
}

/* ---- the same in the layout of the next call --------------------------------------------------------------------- */

template <int n> __device__ __forceinline__ void load_sums(unsigned at, float (&v)[n]) {
#pragma unroll
    for (int i = 0; i < n; i += 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[i]), "=f"(v[i + 1]), "=f"(v[i + 2]), "=f"(v[i + 3]) : "r"(at + i * 4) : "memory");
}

/* A bias of -0 becomes +0 (bias_addend). */
template <int n>
__device__ __forceinline__ void load_addends(const gemm_params &p, int column, float scale, float (&v)[n]) {
#pragma unroll
    for (int i = 0; i < n; i++)
        v[i] = p.f.bias ? __fmaf_rn(__ldg(p.f.bias + column + i), scale, 0.0f) : 0.0f;
}

/* MX_LAYOUT_OPERAND. A lane has 16 columns of a row, a k step of the next GEMM; a warp 8 rows by 64 columns. */
template <typename S>
__device__ __forceinline__ void epilogue_operand(const gemm_params &p, const tile_origin<S> &at, int begin, int each,
                                                 unsigned results) {
    constexpr int up = (int)X_UNSCALE;
    int lane = threadIdx.x % WARP_SIZE, row = lane % 8, step = lane / 8;
    unsigned end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t tile = (int64_t)S::terms * OPERAND_TILE_BYTES, unit = p.f.n / 64 * tile;
#pragma unroll 1
    for (int half = 0; half < COLUMNS / 64; half++) {
        int column = at.column + half * 64;
        char *to = (char *)p.f.y + column / 64 * tile + step * 256 + row * 16;
        float addend[16];
        load_addends(p, column + step * 16, X_SCALE, addend);
#pragma unroll 1
        for (int i = begin; i < begin + each; i += 8) {
            unsigned first = (unsigned)at.row + i;
            if (first >= end)
                break;
            char *here = to + (int64_t)(first / 64) * unit + first % 64 / 8 * 1024;
            float v[16];
            uint32_t pairs[8][S::terms];
            load_sums(results + ((i + row) * PITCH + half * 64 + step * 16) * 4, v);
#pragma unroll
            for (int j = 0; j < 16; j++) {
                v[j] = __fadd_rn(v[j], addend[j]);
                v[j] = S::terms == 1 ? gelu_short<up>(v[j]) : gelu_erf<up>(v[j]);
            }
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (S::terms == 2)
                    split_f16(v[j * 2], v[j * 2 + 1], pairs[j][0], pairs[j][S::terms - 1]);
                else
                    pairs[j][0] = pack_half2(v[j * 2], v[j * 2 + 1]);
#pragma unroll
            for (int term = 0; term < S::terms; term++)   /* of each four, two are in either piece */
#pragma unroll
                for (int j = 0; j < 2; j++)
                    *(uint4 *)(here + term * OPERAND_TILE_BYTES + j * 128) =
                        make_uint4(pairs[j][term], pairs[2 + j][term], pairs[4 + j][term], pairs[6 + j][term]);
        }
    }
}

/* Eight values, of which `there` exist, as a piece of 16 bytes of an operand of attention, term by term. */
template <typename S>
__device__ __forceinline__ void store_piece(char *to, const float (&sums)[8], const float (&addend)[8], int there) {
    uint32_t pairs[4][2];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float a = __fmaf_rn(sums[j * 2], X_UNSCALE, addend[j * 2]);
        float b = __fmaf_rn(sums[j * 2 + 1], X_UNSCALE, addend[j * 2 + 1]);
        split_f16_unscaled<S::terms>(j * 2 < there ? a : 0.0f, j * 2 + 1 < there ? b : 0.0f, pairs[j][0], pairs[j][1]);
    }
#pragma unroll
    for (int term = 0; term < S::terms; term++)
        *(uint4 *)(to + term * MX_CUDA_QKV_TILE) =
            make_uint4(pairs[0][term], pairs[1][term], pairs[2][term], pairs[3][term]);
}

/* MX_LAYOUT_QKV: 32 columns of a head of queries or keys; `to` is its first row. A lane has 8 columns of a row, a warp
 * 8 rows. Rows past the end of an entry are zeros, up to `rows`. */
template <typename S>
__device__ __forceinline__ void epilogue_qk(const gemm_params &p, const tile_origin<S> &at, int column, char *to,
                                            int rows, int begin, int end, unsigned results) {
    int lane = threadIdx.x % WARP_SIZE, piece = column % 64 / 8 + lane % 4;
    unsigned from = results + (column - at.column + lane % 4 * 8) * 4;
    float v[8], addend[8];
    load_addends(p, column + lane % 4 * 8, 1, addend);
#pragma unroll 1
    for (int i = begin + lane / 4; i < end && at.in + i < rows; i += 8) {
        unsigned r = (unsigned)(at.in + i);
        load_sums(from + i * PITCH * 4, v);
        store_piece<S>(to + r / 64 * (S::terms * MX_CUDA_QKV_TILE) + r % 64 * 128 + (piece ^ r % 8) * 16, v, addend,
                       i < at.left ? 8 : 0);
    }
}

/* The same of values, which are stored transposed: a lane has 8 rows of a column, and its neighbour the next 8, so that
 * they write a 32-byte sector; a warp 16 rows of 16 columns. */
template <typename S>
__device__ __forceinline__ void epilogue_v(const gemm_params &p, const tile_origin<S> &at, int column, char *to,
                                           int rows, int begin, int end, unsigned results) {
    int lane = threadIdx.x % WARP_SIZE;
    float v[8], addend[8], one[1];
#pragma unroll 1
    for (int i = begin; i < end; i += 8) {
        int of = column + i / 8 % 2 * 16 + lane / 2, first = i / 16 * 16 + lane % 2 * 8, element = of % 64;
        unsigned r = (unsigned)(at.in + first), from = results + (first * PITCH + of - at.column) * 4;
        if (r >= (unsigned)rows)
            continue;
        load_addends(p, of, 1, one);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[j]) : "r"(from + j * PITCH * 4) : "memory");
            addend[j] = one[0];
        }
        store_piece<S>(to + r / 64 * (S::terms * MX_CUDA_QKV_TILE) + element * 128 + (r % 64 / 8 ^ element % 8) * 16, v,
                       addend, max(min(at.left - first, 8), 0));
    }
}

template <typename S>
__device__ __forceinline__ void epilogue_qkv(const gemm_params &p, const tile_origin<S> &at, int begin, int each,
                                             unsigned results) {
    int heads = (int)(p.f.n / 192), rows = (int)(p.f.entry_rows + 63) / 64 * 64;
#pragma unroll 1
    for (int column = at.column; column < at.column + COLUMNS; column += 32) {
        int which = column / 64 / heads, head = column / 64 - which * heads;
        uint64_t stack = (uint64_t)((at.entry * heads + head) * 3 + which);
        char *to = (char *)p.f.y + stack * (unsigned)(S::terms * rows * 128);
        if (which < 2)
            epilogue_qk<S>(p, at, column, to, rows, begin, begin + each, results);
        else
            epilogue_v<S>(p, at, column, to, rows, begin, begin + each, results);
    }
}

template <typename S, bool qkv>
__device__ __forceinline__ void epilogue_layout_tiles(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    constexpr int each = S::rows / EPILOGUE_WARPS;
    int begin = (threadIdx.x - 2 * WARPGROUP - WARP_SIZE) / WARP_SIZE * each, round = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        tile_origin<S> at = tile_origin_of<S>(p, tile);
        mbarrier_wait(r.sums_full(), round % 2);
        if (qkv)
            epilogue_qkv<S>(p, at, begin, each, r.results());
        else
            epilogue_operand<S>(p, at, begin, each, r.results());
        mbarrier_arrive(r.sums_empty());
    }
}

template <typename S>
__device__ __forceinline__ void run_epilogue(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    if (p.f.y_layout == MX_LAYOUT_QKV)
        epilogue_layout_tiles<S, true>(p, r, tiles);
    else if (p.f.y_layout == MX_LAYOUT_OPERAND)
        epilogue_layout_tiles<S, false>(p, r, tiles);
    else if (p.f.act == MX_ACT_NONE && p.f.residual)
        epilogue_tiles<S, false, true>(p, r, tiles);
    else if (p.f.act == MX_ACT_NONE)
        epilogue_tiles<S, false, false>(p, r, tiles);
    else if (p.f.residual)
        epilogue_tiles<S, true, true>(p, r, tiles);
    else
        epilogue_tiles<S, true, false>(p, r, tiles);
}
#endif

template <typename S> __global__ void __launch_bounds__(SWAP_AB_THREADS, 1) persistent_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int tiles = (int)tiles_of<S>(p);
    persistent_smem<S> r = open_smem<S>(raw);
    pdl_wait();
    if (threadIdx.x / WARPGROUP == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(OTHER_REGISTERS));
        if (threadIdx.x / WARP_SIZE % 4 > 0)
            run_epilogue<S>(p, r, tiles);
        else if (threadIdx.x % WARP_SIZE == 0)
            produce<S>(p, r, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        consume<S>(p, r, tiles);
    }
#endif
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

typedef persistent_shape<192, 1, 3> shape_f16;
typedef persistent_shape<96, 2, 4> shape_exact;

static int is_f16(const gemm_params &p) { return p.f.precision == MXW_PRECISION_F16; }

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)persistent_kernel<S>, S::bytes, allowed);
    launch_kernel(gpu, persistent_kernel<S>, dim3((unsigned)MX_MIN(tiles_of<S>(p), gpu->device.info.cores)),
                  dim3(SWAP_AB_THREADS), S::bytes, p);
}

}   /* namespace persistent_kernels */

using namespace persistent_kernels;

/* Whether it has an epilogue for this layout, activation and residual. Entries are padded by prepack_a. */
static int has_epilogue(const gemm_params &p) {
    int none = p.f.act == MX_ACT_NONE, gelu = p.f.act == (is_f16(p) ? ACT_GELU_SHORT : MX_ACT_GELU_ERF);
    switch (p.f.y_layout) {
    case MX_LAYOUT_DENSE: return none || gelu;
    case MX_LAYOUT_OPERAND: return gelu && !p.f.residual;
    case MX_LAYOUT_QKV: return none && !p.f.residual && p.f.x_layout == MX_LAYOUT_DENSE;
    default: return 0;
    }
}

/* Only where no SM idles for long. Short rows in f16 have more results to finish in the time of a tile than three warps
 * can. */
int persistent_can_implement(mx_cuda *gpu, const gemm_params &p) {
    int64_t tiles = is_f16(p) ? tiles_of<shape_f16>(p) : tiles_of<shape_exact>(p);
    return has_epilogue(p) && p.blocks >= (is_f16(p) ? 12 : 1) && p.f.n % COLUMNS == 0 &&
           tiles >= 2 * gpu->device.info.cores && tiles <= INT32_MAX;
}

void persistent_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (is_f16(p))
        launch<shape_f16>(gpu, p);
    else
        launch<shape_exact>(gpu, p);
}

}   /* namespace mx::gemm */
