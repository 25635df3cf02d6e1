/* modules/cuda/gemm/sm90/epilogue_warps.cuh - the tile of the persistent GEMM (persistent_epilogue_warps.cu), and the
 * warps that finish it: they take a tile's sums from shared memory and write y as f32 rows, or in the operand layout of
 * the call that reads it (mx_layout). Integer sums stay integers up to here.
 * Invariants: the arithmetic has the bits of epilogue_apply; in 8 bits that of the CPU (ref/w8a8.c). */
#ifndef MX_CUDA_GEMM_SM90_EPILOGUE_WARPS_CUH
#define MX_CUDA_GEMM_SM90_EPILOGUE_WARPS_CUH
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/sm90/swap_ab.cuh"

namespace mx::gemm {

constexpr int COLUMNS = 2 * SWAP_AB_COLUMNS;
constexpr int PITCH = COLUMNS + 4;   /* floats of a row of sums: no bank conflicts of 8 columns by 4 pairs of rows */

namespace persistent_kernels {

/* chain: all of K is one chain of sums, with no totals beside it, which leaves registers for six epilogue warps, in two
 * warpgroups, instead of three. */
template <int rows_, int terms_, int stages_, mx_cuda_element element_ = MX_CUDA_F16, bool chain_ = false>
struct persistent_shape {
    static constexpr mx_cuda_element element = element_;
    static constexpr bool chain = chain_;
    static constexpr int epilogue_warps = chain ? 6 : 3, threads = chain ? 512 : 384;
    static constexpr int rows_at_once = chain ? 16 : 8;   /* of an epilogue warp; fewer with an activation */
    /* Registers of a thread: asking for more in all than a block starts with would never return. */
    static constexpr int consumer_registers = chain ? 136 : 208, other_registers = chain ? 120 : 88;
    static_assert(chain ? consumer_registers + other_registers <= 2 * 128
                        : 2 * consumer_registers + other_registers <= 3 * 168, "registers of a block");
    typedef typename sum_of<element>::type sum;
    static constexpr int rows = rows_, terms = terms_, stages = stages_;
    static constexpr int sums = rows * terms / 2, totals = rows / 2;   /* accumulators of a lane */
    static constexpr int x_term_bytes = rows * 128, x_bytes = x_term_bytes * terms, w_bytes = 2 * SWAP_AB_W_BYTES;
    static constexpr int stage = w_bytes + x_bytes;
    static constexpr int barriers_at = stages * stage, results_at = barriers_at + 128;
    static constexpr int bytes = results_at + rows * PITCH * 4 + 128;   /* 128: for alignment */
    static_assert(bytes <= SWAP_AB_SMEM && (2 * stages + 2) * 8 <= 128, "shared memory of a block");
    static_assert(rows % (epilogue_warps * rows_at_once) == 0 && rows % 32 == 0, "rows of each epilogue warp");
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
        mbarrier_init(r.sums_empty(), S::epilogue_warps * WARP_SIZE);
        fence_mbarrier_init();
    }
    __syncthreads();
    return r;
}

/* ---- epilogue warps ---------------------------------------------------------------------------------------------- */

/* What makes sums of n columns their elements. */
template <int n> struct column_ends {
    float scale[n], addend[n];
    int sum[n];
};

/* Once for columns that stay. A bias of -0 becomes +0 (bias_addend). */
template <typename S, int n>
__device__ __forceinline__ void load_ends(const gemm_params &p, int column, column_ends<n> &ends) {
#pragma unroll
    for (int i = 0; i < n; i++) {
        ends.addend[i] = p.f.bias ? __fadd_rn(__ldg(p.f.bias + column + i), 0.0f) : 0.0f;
        ends.scale[i] = S::element == MX_CUDA_F16 ? X_UNSCALE : __ldg(p.w_scales + column + i);
        ends.sum[i] = S::element == MX_CUDA_S8 ? __ldg(p.w_sums + column + i) : 0;
    }
}

/* Of S8: what the numbers of a row of x stand for; rows past the last tile have what that one's last has. */
template <typename S> __device__ __forceinline__ gemm_row_range range_of(const gemm_params &p, int64_t operand_row) {
    gemm_row_range range = {1, 0};
    if (S::element == MX_CUDA_S8) {
        int2 v = __ldcg((const int2 *)p.x_ranges + min(operand_row, p.x_rows - 1));
        range = {__int_as_float(v.x), v.y};
    }
    return range;
}

/* Multiplying by X_UNSCALE is exact, and no total is -0: so one fma has the bits of epilogue_apply, with a bias or
 * without. Integers: the arithmetic of the CPU (ref/w8a8.c). */
template <typename S, int n>
__device__ __forceinline__ float end_sum(float sum, const column_ends<n> &ends, int i, const gemm_row_range &range) {
    if (S::element == MX_CUDA_F16)
        return __fmaf_rn(sum, ends.scale[i], ends.addend[i]);
    if (S::element == MX_CUDA_E4M3)
        return __fadd_rn(__fmul_rn(sum, ends.scale[i]), ends.addend[i]);
    int all = __float_as_int(sum) + range.shift * ends.sum[i];
    return __fadd_rn(__fmul_rn((float)all, __fmul_rn(ends.scale[i], range.scale)), ends.addend[i]);
}

/* Prefetches the residual of the next tile into L2 during the epilogue of this one; not by bulk prefetch, which would
 * compete with the copies of operands. */
template <typename S>
__device__ __forceinline__ void prefetch_residual(const gemm_params &p, int tile, int tiles, int number) {
    if (tile >= tiles || p.f.residual_rows != p.f.m)   /* rows that repeat are in L2 anyway */
        return;
    tile_origin<S> at = tile_origin_of<S>(p, tile);
    int left = (int)min(p.f.m - at.row, (int64_t)S::rows);
    const float *from = p.f.residual + (at.row + number / 4) * p.f.ld_residual + at.column + number % 4 * 32;
    for (int i = number / 4; i < left; i += S::epilogue_warps * 8, from += S::epilogue_warps * 8 * p.f.ld_residual)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* An epilogue warp's walk over its rows of a tile, four columns to a lane. */
struct row_walk {
    const float *residual, *residual_begin;   /* of the next row, and of row 0 */
    int residual_row;
    float *to;
    int left;                                 /* rows to store */
    int64_t operand_row;                      /* of the next row */
    column_ends<4> ends;
};

template <typename S>
__device__ __forceinline__ row_walk begin_walk(const gemm_params &p, const tile_origin<S> &at, int first,
                                               bool residual) {
    int64_t row = at.row + first;
    int column = at.column + threadIdx.x % WARP_SIZE * 4;
    row_walk f = {};
    f.to = p.f.y + row * p.f.ldy + column;
    f.left = (int)max(min(p.f.m - row, (int64_t)S::rows), (int64_t)0);
    f.operand_row = at.operand_row + first;
    load_ends<S>(p, column, f.ends);
    if (residual) {
        f.residual_row = (int)((unsigned)row % (unsigned)p.f.residual_rows);
        f.residual_begin = p.f.residual + column;
        f.residual = f.residual_begin + f.residual_row * p.f.ld_residual;
    }
    return f;
}

/* Wraps after the last residual row; rows past the last are computed but not stored. */
__device__ __forceinline__ float4 next_residual(const gemm_params &p, row_walk &f, bool quad) {
    float4 v;
    if (quad)
        v = __ldcg((const float4 *)f.residual);
    else
        v = make_float4(__ldcg(f.residual), __ldcg(f.residual + 1), __ldcg(f.residual + 2), __ldcg(f.residual + 3));
    bool over = ++f.residual_row == (int)p.f.residual_rows;
    f.residual = over ? f.residual_begin : f.residual + p.f.ld_residual;
    f.residual_row = over ? 0 : f.residual_row;
    return v;
}

template <int n> __device__ __forceinline__ void load_sums(unsigned at, float (&v)[n]) {
#pragma unroll
    for (int i = 0; i < n; i += 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[i]), "=f"(v[i + 1]), "=f"(v[i + 2]), "=f"(v[i + 3]) : "r"(at + i * 4) : "memory");
}

/* `once` rows. */
template <typename S, bool act, bool residual, int once>
__device__ __forceinline__ void epilogue_rows(const gemm_params &p, row_walk &f, unsigned results) {
    float4 more[once];
#pragma unroll
    for (int i = 0; i < once && residual; i++)
        more[i] = next_residual(p, f, S::element == MX_CUDA_F16 || p.quad_y);
#pragma unroll
    for (int i = 0; i < once; i++, f.to += p.f.ldy) {
        float v[4];
        gemm_row_range range = range_of<S>(p, f.operand_row + i);
        load_sums(results + i * PITCH * 4, v);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = end_sum<S>(v[j], f.ends, j, range);
            if (act)
                v[j] = S::terms == 1 ? gelu_short(v[j]) : gelu_erf(v[j]);
            if (residual)
                v[j] = __fadd_rn(v[j], (&more[i].x)[j]);
        }
        if (i < f.left)
            *(float4 *)f.to = make_float4(v[0], v[1], v[2], v[3]);
    }
    f.left -= once;
    f.operand_row += once;
}

template <typename S, bool act, bool residual>
__device__ __forceinline__ void epilogue_tiles(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    constexpr int each = S::rows / S::epilogue_warps, once = act ? 4 : S::rows_at_once;
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

/* MX_LAYOUT_OPERAND of a GEMM in 8 bits, whose reader is one, too: 8-bit floats, or f16 that the next kernel makes
 * integers of, when it has the whole row. A warp has a row of the tile, and a lane four of its columns: as 8-bit floats
 * 2 j and 2 j + 1 of sixteen, and those 8 further, which are neighbours in memory. */
template <typename S>
__device__ __forceinline__ void epilogue_operand8(const gemm_params &p, const tile_origin<S> &at, int begin, int each,
                                                  unsigned results) {
    constexpr int once = 4, bytes = S::element == MX_CUDA_E4M3 ? 1 : 2;
    int lane = threadIdx.x % WARP_SIZE, column = bytes == 1 ? lane / 4 * 16 + lane % 4 * 2 : lane * 4;
    unsigned end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t unit = p.f.n * bytes * 64;
    char *to = (char *)p.f.y + at.column * bytes * 64;
    to += bytes == 1 ? lane / 4 * 128 + lane % 4 * 4
                     : column / 64 * OPERAND_TILE_BYTES + column % 64 / 16 * 256 + column % 16;
    constexpr int apart = bytes == 1 ? 8 : 2;   /* from the first pair of columns to the second */
    column_ends<2> ends[2];
    load_ends<S>(p, at.column + column, ends[0]);
    load_ends<S>(p, at.column + column + apart, ends[1]);
#pragma unroll 1
    for (int i = begin; i < begin + each; i += once) {
        unsigned first = (unsigned)at.row + i;
        if (first >= end)
            break;
        char *here = to + (int64_t)(first / 64) * unit + first % 64 / 8 * 1024 + first % 8 * 16;
        float v[once][2][2];
#pragma unroll
        for (int row = 0; row < once; row++)
#pragma unroll
            for (int pair = 0; pair < 2; pair++)
                asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[row][pair][0]), "=f"(v[row][pair][1])
                             : "r"(results + ((i + row) * PITCH + column + pair * apart) * 4) : "memory");
#pragma unroll
        for (int row = 0; row < once; row++) {
            gemm_row_range range = range_of<S>(p, first + row);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[row][j / 2][j % 2] = gelu_short(end_sum<S>(v[row][j / 2][j % 2], ends[j / 2], j % 2, range));
            if (bytes == 1) {
                *(uint32_t *)(here + row * 16) = pack_f8(v[row][0][0], v[row][1][0], v[row][0][1], v[row][1][1]);
            } else {
                float4 x = scale_x(make_float4(v[row][0][0], v[row][0][1], v[row][1][0], v[row][1][1]));
                *(uint32_t *)(here + row * 16) = pack_half2(x.x, x.y);
                *(uint32_t *)(here + row * 16 + 128) = pack_half2(x.z, x.w);
            }
        }
    }
}

/* Eight values, of which `there` exist, as a piece of 16 bytes of an operand of attention, term by term. */
template <typename S> __device__ __forceinline__ void store_piece(char *to, const float (&v)[8], int there) {
    uint32_t pairs[4][2];
#pragma unroll
    for (int j = 0; j < 4; j++)
        split_f16_unscaled<S::terms>(j * 2 < there ? v[j * 2] : 0.0f, j * 2 + 1 < there ? v[j * 2 + 1] : 0.0f,
                                     pairs[j][0], pairs[j][1]);
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
    float v[8];
    column_ends<8> ends;
    load_ends<S>(p, column + lane % 4 * 8, ends);
#pragma unroll 1
    for (int i = begin + lane / 4; i < end && at.in + i < rows; i += 8) {
        unsigned r = (unsigned)(at.in + i);
        gemm_row_range range = range_of<S>(p, at.operand_row + i);
        load_sums(from + i * PITCH * 4, v);
#pragma unroll
        for (int j = 0; j < 8; j++)
            v[j] = end_sum<S>(v[j], ends, j, range);
        store_piece<S>(to + r / 64 * (S::terms * MX_CUDA_QKV_TILE) + r % 64 * 128 + (piece ^ r % 8) * 16, v,
                       i < at.left ? 8 : 0);
    }
}

/* The same of values, which are stored transposed: a lane has 8 rows of a column, and its neighbour the next 8, so that
 * they write a 32-byte sector; a warp 16 rows of 16 columns. */
template <typename S>
__device__ __forceinline__ void epilogue_v(const gemm_params &p, const tile_origin<S> &at, int column, char *to,
                                           int rows, int begin, int end, unsigned results) {
    int lane = threadIdx.x % WARP_SIZE;
    float v[8];
    column_ends<1> ends;
#pragma unroll 1
    for (int i = begin; i < end; i += 8) {
        int of = column + i / 8 % 2 * 16 + lane / 2, first = i / 16 * 16 + lane % 2 * 8, element = of % 64;
        unsigned r = (unsigned)(at.in + first), from = results + (first * PITCH + of - at.column) * 4;
        if (r >= (unsigned)rows)
            continue;
        load_ends<S>(p, of, ends);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[j]) : "r"(from + j * PITCH * 4) : "memory");
            v[j] = end_sum<S>(v[j], ends, 0, range_of<S>(p, at.operand_row + first + j));
        }
        store_piece<S>(to + r / 64 * (S::terms * MX_CUDA_QKV_TILE) + element * 128 + (r % 64 / 8 ^ element % 8) * 16, v,
                       max(min(at.left - first, 8), 0));
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
    constexpr int each = S::rows / S::epilogue_warps;
    int begin = (threadIdx.x - 2 * WARPGROUP - WARP_SIZE) / WARP_SIZE * each, round = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        tile_origin<S> at = tile_origin_of<S>(p, tile);
        mbarrier_wait(r.sums_full(), round % 2);
        if (qkv)
            epilogue_qkv<S>(p, at, begin, each, r.results());
        else if (S::element != MX_CUDA_F16)
            epilogue_operand8<S>(p, at, begin, each, r.results());
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

}   /* namespace persistent_kernels */

}   /* namespace mx::gemm */
#endif
