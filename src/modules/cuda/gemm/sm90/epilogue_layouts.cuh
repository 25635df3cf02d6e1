/* modules/cuda/gemm/sm90/epilogue_layouts.cuh - the epilogue of the swap-AB GEMMs (swap_ab.cuh): y as f32 rows, or in
 * the operand layout of the call that reads it (mx_layout), so that nothing has to read and split it again.
 * Invariants: the arithmetic has the bits of epilogue_apply; an operand is what its reader would make of the f32. */
#ifndef MX_CUDA_GEMM_SM90_EPILOGUE_LAYOUTS_CUH
#define MX_CUDA_GEMM_SM90_EPILOGUE_LAYOUTS_CUH
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/sm90/swap_ab.cuh"

namespace mx::gemm {

/* Whether it has an epilogue for this layout, activation and residual. */
static inline int epilogue_can_write(const gemm_params &p) {
    int gelu = p.f.act == MX_ACT_GELU_ERF || p.f.act == ACT_GELU_SHORT;
    switch (p.f.y_layout) {
    case MX_LAYOUT_OPERAND:
    case MX_LAYOUT_IM2COL: return gelu && !p.f.residual;
    case MX_LAYOUT_QKV: return p.f.act == MX_ACT_NONE && !p.f.residual;
    default: return (gelu || p.f.act == MX_ACT_NONE) && !p.f.residual;
    }
}

#if MX_HAS_WGMMA
/* Where a lane's results go: its first row, how many rows exist from there on, its first column. */
struct out_place {
    unsigned row;
    int left, column;
};

/* The asm hides the value, so that addresses are computed here: hoisted out of the loop over tiles, they would spill.
 */
__device__ __forceinline__ out_place out_place_of(const gemm_params &p, int64_t row, int column) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned first = (unsigned)row + lane % 4 * 2;
    asm volatile("" : "+r"(first));
    return {first, (int)p.f.m - (int)first, column + warp * 16 + lane / 4};
}

/* The bias of the lane's two columns; loaded before the main loop. */
__device__ __forceinline__ float2 load_bias(const gemm_params &p, int column) {
    if (!p.f.bias)
        return make_float2(0, 0);
    const float *from = p.f.bias + column + threadIdx.x % WARPGROUP / WARP_SIZE * 16 + threadIdx.x % WARP_SIZE / 4;
    return make_float2(__ldg(from), __ldg(from + 8));
}

/* A bias of -0 becomes +0, which then turns a total of -0 into +0, as in the other kernels, whose totals start at 0. */
__device__ __forceinline__ float2 bias_addend(float2 bias, float scale) {
    return make_float2(__fmaf_rn(bias.x, scale, 0.0f), __fmaf_rn(bias.y, scale, 0.0f));
}

/* Of 8 rows: columns g, then g + 8, two rows each. Multiplying by X_UNSCALE is exact, so one fma has the bits of
 * epilogue_apply. */
template <typename S, bool act>
__device__ __forceinline__ void epilogue_values(const float *total, float2 addend, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fmaf_rn(total[i], X_UNSCALE, i < 2 ? addend.x : addend.y);
        if (act)
            v[i] = S::terms == 1 ? gelu_short(v[i]) : gelu_erf(v[i]);
    }
}

/* The same as operands, scaled by X_SCALE, as is the addend: columns g, then g + 8, a pair of rows each, of each term.
 */
template <typename S, bool act>
__device__ __forceinline__ void epilogue_operands(const float *total, float2 addend, uint32_t (&pairs)[S::terms][2]) {
    constexpr int up = (int)X_UNSCALE;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fadd_rn(total[i], i < 2 ? addend.x : addend.y);
        if (act)
            v[i] = S::terms == 1 ? gelu_short<up>(v[i]) : gelu_erf<up>(v[i]);
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
        if (S::terms == 2)
            split_f16(v[j * 2], v[j * 2 + 1], pairs[0][j], pairs[S::terms - 1][j]);
        else
            pairs[0][j] = pack_half2(v[j * 2], v[j * 2 + 1]);
}

/* A predicated store; the compiler would branch. */
__device__ __forceinline__ void store_if(bool there, void *to, const uint4 &v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.v4.u32 [%1], {%2, %3, %4, %5}; }"
                 ::"r"((int)there), "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void store_if(bool there, float *to, float v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.f32 [%1], %2; }"
                 ::"r"((int)there), "l"(to), "f"(v) : "memory");
}

/* MX_LAYOUT_DENSE: rows of floats. */
template <typename S, bool act>
__device__ __forceinline__ void store_dense(const gemm_params &p, const out_place &at, float2 bias,
                                            const float (&total)[S::sums]) {
    float2 addend = bias_addend(bias, 1);
    int64_t here = (int64_t)at.row * p.f.ldy + at.column, step = 8 * p.f.ldy;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++, here += step) {
        float v[4], *to = p.f.y + here, *next = to + p.f.ldy;
        epilogue_values<S, act>(total + i * 4, addend, v);
        store_if(i * 8 < at.left, to, v[0]);
        store_if(i * 8 < at.left, to + 8, v[2]);
        store_if(i * 8 + 1 < at.left, next, v[1]);
        store_if(i * 8 + 1 < at.left, next + 8, v[3]);
    }
}

/* ---- operands, through a staging buffer in shared memory --------------------------------------------------------- */

/* A warp's staging buffer: two slabs of two units each; a unit is 8 rows by 16 columns of a term, in two pieces of 8
 * columns. A slab is both terms of 8 rows (exact), or 16 rows (f16). */
constexpr int SLAB_BYTES = STAGING_BYTES / 2;
template <typename S> __host__ __device__ constexpr int slab_eights() { return 4 / S::terms; }   /* of both slabs */

/* Pieces of 8 columns of a row (`transposed`), or of 8 rows of a column. */
template <bool transposed> __device__ __forceinline__ void store_slab(unsigned at, const uint32_t *v) {
    if (transposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

template <bool transposed, int eights, int terms>
__device__ __forceinline__ void store_slabs(unsigned staging, const uint32_t (&pairs)[eights][terms][2]) {
    unsigned at = staging + threadIdx.x % WARP_SIZE * 16;
    __syncwarp();   /* every lane has read what was there */
    store_slab<transposed>(at, &pairs[0][0][0]);
    store_slab<transposed>(at + SLAB_BYTES, &pairs[0][0][0] + 4);
    __syncwarp();
}

__device__ __forceinline__ uint4 load_smem16(unsigned at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at)
                 : "memory");
    return v;
}

/* A row's 16 columns in operand order: of each four of k, two are in the first piece and two in the second. */
struct operand_row {
    uint4 first, second;
};
__device__ __forceinline__ operand_row load_operand_row(unsigned at) {
    uint4 low = load_smem16(at), high = load_smem16(at + 128);
    return {make_uint4(low.x, low.z, high.x, high.z), make_uint4(low.y, low.w, high.y, high.w)};
}

/* The row that a lane moves, of both slabs. */
template <typename S> struct slab_row {
    int eight, term, row;
    unsigned at;   /* in the staging buffer */
    __device__ __forceinline__ explicit slab_row(unsigned staging) {
        int unit = threadIdx.x % WARP_SIZE / 8;
        row = threadIdx.x % 8;
        eight = S::terms == 2 ? unit / 2 : unit;
        term = S::terms == 2 ? unit % 2 : 0;
        at = staging + unit * 256 + row * 16;
    }
};

/* MX_LAYOUT_OPERAND: 64 columns are a block of the next GEMM's K. Rows are written up to a multiple of 64. */
template <typename S>
__device__ __forceinline__ void store_operand(const gemm_params &p, unsigned first, int column, unsigned staging,
                                              float2 bias, const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    float2 addend = bias_addend(bias, X_SCALE);
    slab_row<S> lane(staging);
    unsigned row = first + lane.eight * 8, end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t step = p.f.n / 64 * S::terms * OPERAND_TILE_BYTES;
    char *to = (char *)p.f.y + first / 64 * step + (column / 64 * S::terms + lane.term) * OPERAND_TILE_BYTES +
               threadIdx.x % WARPGROUP / WARP_SIZE * 256 + lane.eight * 1024 + lane.row * 16;
    char *here = to;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
        if (i % 4 == 0) {   /* four eights are contiguous: tiles start at multiples of 32 rows */
            int eight = S::rows % 64 ? (int)(first % 64) / 8 + i : i;   /* else tiles start with a unit */
            here = to + eight / 8 * step + eight % 8 * 1024;
        }
#pragma unroll
        for (int j = 0; j < once; j++)
            epilogue_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        store_slabs<true>(staging, pairs);
        operand_row v = load_operand_row(lane.at);
        store_if(row + i * 8 < end, here + i % 4 * 1024, v.first);
        store_if(row + i * 8 < end, here + i % 4 * 1024 + 128, v.second);
    }
}

/* The same as 8-bit floats, 64 columns of a block of 128: a column and the one 8 further are neighbours (order8), so
 * that a warp's 16 columns of 8 rows are eight 16-bit elements of 8 rows: a piece. */
template <typename S>
__device__ __forceinline__ void store_operand_e4m3(const gemm_params &p, unsigned first, int column, unsigned staging,
                                                   float2 bias, const float (&total)[S::sums]) {
    constexpr int up = (int)X_UNSCALE;
    float2 addend = bias_addend(bias, X_SCALE);
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t unit = p.f.n / MX_CUDA_BLOCK8 * OPERAND_TILE_BYTES;
    char *to = (char *)p.f.y + first / 64 * unit + column / MX_CUDA_BLOCK8 * OPERAND_TILE_BYTES +
               (column / 64 % 2 * 4 + warp) * 128 + lane % 8 * 16;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += 4) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float v[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                v[k] = gelu_short<up>(__fadd_rn(total[(i + j) * 4 + k], k < 2 ? addend.x : addend.y)) * X_UNSCALE;
            pairs[j] = pack_f8(v[0], v[2], v[1], v[3]);
        }
        __syncwarp();   /* every lane has read what was there */
        store_slab<true>(staging + lane * 16, pairs);
        __syncwarp();
        int eight = i + lane / 8;
        store_if(first + eight * 8 < end, to + eight / 8 * unit + eight % 8 * 1024, load_smem16(staging + lane * 16));
    }
}

/* ---- im2col ------------------------------------------------------------------------------------------------------ */

/* MX_LAYOUT_IM2COL: rows of the next convolution (3 wide, stride 2, pad 1). Position 2 r is the middle tap of its row
 * r, 2 r + 1 the last tap of r and the first of r + 1; the first tap of an entry's first row is zeros. Two eights of
 * positions are an eight of its rows. */
template <typename S>
__device__ __forceinline__ void store_im2col(const gemm_params &p, unsigned first, int column, unsigned staging,
                                             float2 bias, const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    static_assert(S::rows % 32 == 0, "tiles begin with a multiple of two eights of the next's rows");
    float2 addend = bias_addend(bias, X_SCALE);
    slab_row<S> lane(staging);
    unsigned row = first + lane.eight * 8 + lane.row, entry = (unsigned)p.f.entry_rows;
    int third = (int)(p.f.n / 64) * S::terms * OPERAND_TILE_BYTES, in = (int)(row % entry), odd = lane.row % 2;
    int further = (int)(once * 8 % entry);   /* positions to the next iteration, modulo the entry */
    char *to = (char *)p.f.y + (column / 64 * S::terms + lane.term) * OPERAND_TILE_BYTES +
               threadIdx.x % WARPGROUP / WARP_SIZE * 256 + (lane.eight % 2 * 4 + lane.row / 2) * 16 + (1 + odd) * third;
    auto base = [&](int i) {   /* the lane's eight of the next GEMM's rows, for positions from eight i on */
        unsigned r = first / 2 + (lane.eight / 2 * 2 + i) * 4;
        return to + (int64_t)(r / 64) * 3 * third + r % 64 / 8 * 1024;
    };
    bool far = lane.eight % 2 && lane.row == 7;   /* the second row to write starts another eight */
    int again = far ? -112 - 2 * third : odd * 16 - (1 + odd) * third;   /* offset of the second copy */
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
        char *one = base(i), *two = (far ? base(i + 2) : one) + again;
        bool there = row + i * 8 < (unsigned)p.f.m;
#pragma unroll
        for (int j = 0; j < once; j++)
            epilogue_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        store_slabs<true>(staging, pairs);
        operand_row v = load_operand_row(lane.at);
        store_if(there, one, v.first);
        store_if(there, one + 128, v.second);
        bool twice = there && odd && in != (int)entry - 1, none = there && !odd && in == 0;
        store_if(twice, two, v.first);
        store_if(twice, two + 128, v.second);
        store_if(none, two, make_uint4(0, 0, 0, 0));
        store_if(none, two + 128, make_uint4(0, 0, 0, 0));
        in += further;
        in -= in >= (int)entry ? (int)entry : 0;
    }
}

/* ---- QKV for attention ------------------------------------------------------------------------------------------- */

/* As epilogue_operands but unscaled, and zero for rows past the end of an entry: of a pair of rows, both columns. */
template <typename S>
__device__ __forceinline__ void qkv_operands(const float *total, float2 addend, bool there,
                                             uint32_t (&pairs)[S::terms][2]) {
    float v[4];
    epilogue_values<S, false>(total, addend, v);
#pragma unroll
    for (int j = 0; j < 2; j++)
        split_f16_unscaled<S::terms>(v[j * 2], v[j * 2 + 1], pairs[0][j], pairs[S::terms - 1][j]);
#pragma unroll
    for (int i = 0; i < 2 * S::terms; i++)
        pairs[i / 2][i % 2] = there ? pairs[i / 2][i % 2] : 0;
}

/* The tile of 64 rows that eight i of this tile is in. */
template <typename S> __device__ __forceinline__ char *qkv_eight(const row_tile &of, int i, char *to) {
    int unit = S::rows % 64 ? (of.in / 8 + i) / 8 : of.in / 64 + i / 8;
    return to + unit * (S::terms * MX_CUDA_QKV_TILE);
}

/* Queries or keys of a head, which is 64 columns. `to`: its first row. Tiles start at multiples of 32 rows, so four
 * eights are contiguous. */
template <typename S, bool whole>
__device__ __forceinline__ void store_qk(const row_tile &of, int rows, char *to, unsigned staging, float2 addend,
                                         const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>(), apart = once / 2;   /* eights from one slab to the next */
    int lane = threadIdx.x % WARP_SIZE, t = lane % 4, row = lane % 8, unit = lane / 16;
    int piece = threadIdx.x % WARPGROUP / WARP_SIZE * 2 + lane / 8 % 2, eight = S::terms == 2 ? 0 : unit;
    char *here = to += row * 128 + (piece ^ row) * 16 + unit * (S::terms == 2 ? MX_CUDA_QKV_TILE : 1024);
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
        if (i % 4 == 0)
            here = qkv_eight<S>(of, i, to) + (S::rows % 64 ? (of.in / 8 + i) % 8 : i % 8) * 1024;
#pragma unroll
        for (int j = 0; j < once; j++)
            qkv_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
        store_slabs<true>(staging, pairs);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint4 v = load_smem16(staging + lane * 16 + j * SLAB_BYTES);
            if (whole)
                *(uint4 *)(here + (i % 4 + j * apart) * 1024) = v;
            else
                store_if(of.in + (i + j * apart + eight) * 8 < rows, here + (i % 4 + j * apart) * 1024, v);
        }
    }
}

/* Values, transposed: a lane has 8 rows of a column and its neighbour the next 8; together they write a 32-byte
 * sector. */
template <typename S, bool whole>
__device__ __forceinline__ void store_v(const row_tile &of, int rows, char *to, unsigned staging, float2 addend,
                                        const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    int lane = threadIdx.x % WARP_SIZE, t = lane % 4, column = lane / 2, odd = lane % 2;
    unsigned from = staging + odd * (S::terms == 2 ? SLAB_BYTES : 256) + column * 16;
    to += (threadIdx.x % WARPGROUP / WARP_SIZE * 16 + column) * 128;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
#pragma unroll
        for (int j = 0; j < once; j++)
            qkv_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
        store_slabs<false>(staging, pairs);
#pragma unroll
        for (int j = 0; j < 2; j++) {   /* parts, or the next two eights */
            int eight = S::terms == 2 ? i : i + j * 2;
            int piece = (S::rows % 64 ? (of.in / 8 + eight) % 8 : eight % 8) + odd;
            char *here = qkv_eight<S>(of, eight, to) + (piece ^ column % 8) * 16;
            uint4 v = load_smem16(from + j * (S::terms == 2 ? 256 : SLAB_BYTES));
            here += S::terms == 2 ? j * MX_CUDA_QKV_TILE : 0;
            if (whole)
                *(uint4 *)here = v;
            else
                store_if(of.in + eight * 8 < rows, here, v);
        }
    }
}

template <typename S>
__device__ __forceinline__ void store_qkv(const gemm_params &p, const row_tile &of, int column, unsigned staging,
                                          float2 bias, const float (&total)[S::sums]) {
    float2 addend = bias_addend(bias, 1);
    int heads = (int)(p.f.n / 192), rows = (int)(p.f.entry_rows + 63) / 64 * 64;
    int head = column / 64, which = (head >= heads) + (head >= 2 * heads);   /* cheaper than a division */
    head -= which * heads;
    char *to = (char *)p.f.y + (uint64_t)((of.entry * heads + head) * 3 + which) * (unsigned)(S::terms * rows * 128);
    bool whole = of.left >= S::rows;
    if (which == 2 && whole)
        store_v<S, true>(of, rows, to, staging, addend, total);
    else if (which == 2)
        store_v<S, false>(of, rows, to, staging, addend, total);
    else if (whole)
        store_qk<S, true>(of, rows, to, staging, addend, total);
    else
        store_qk<S, false>(of, rows, to, staging, addend, total);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

/* 64 columns from `column` on, of a tile's rows. */
template <typename S>
__device__ __forceinline__ void epilogue(const gemm_params &p, const row_tile &of, int column, unsigned staging,
                                         float2 bias, const float (&total)[S::sums]) {
    unsigned first = (unsigned)of.row;
    row_tile here = of;
    asm volatile("" : "+r"(here.in), "+r"(here.left), "+r"(first), "+r"(staging));   /* as in out_place_of */
    if (S::element == MX_CUDA_E4M3 && p.f.y_layout == MX_LAYOUT_OPERAND)
        store_operand_e4m3<S>(p, first, column, staging, bias, total);
    else if (p.f.y_layout == MX_LAYOUT_OPERAND)
        store_operand<S>(p, first, column, staging, bias, total);
    else if (S::element == MX_CUDA_F16 && p.f.y_layout == MX_LAYOUT_IM2COL)
        store_im2col<S>(p, first, column, staging, bias, total);
    else if (p.f.y_layout == MX_LAYOUT_QKV)
        store_qkv<S>(p, here, column, staging, bias, total);
    else if (p.f.act == MX_ACT_NONE)
        store_dense<S, false>(p, out_place_of(p, of.row, column), bias, total);
    else
        store_dense<S, true>(p, out_place_of(p, of.row, column), bias, total);
}
#endif

}   /* namespace mx::gemm */
#endif
