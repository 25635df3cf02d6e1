/* modules/cuda/product_turned.cuh - a part of a compiled product of very many rows (product_held.cu). Four warps
 * make 64 columns of the result for many rows, turned: the weights are what a wide step calls rows, and the rows of x,
 * all of their parts side by side, are its columns. So a step reads each weight once for both parts.
 * A lane has columns g and g + 8 of its warp's 16, and of each 8 rows the two neighbours 2 t and 2 t + 1.
 * What holds: the chunks of k are added in order, as in product_rows.cu; the arithmetic of a result is mx_finish's. */
#ifndef MX_CUDA_PRODUCT_TURNED_CUH
#define MX_CUDA_PRODUCT_TURNED_CUH
#include "modules/cuda/wgmma.cuh"
#include "modules/cuda/product.cuh"

#define MX_TURNED_COLUMNS 64             /* of a group */
#define MX_TURNED_WEIGHT 8192            /* bytes of 64 columns by 64 of k */
#define MX_TURNED_PART 8192              /* bytes of 64 rows by 64 of k, a part of them */
#define MX_TURNED_SHARED (227 << 10)     /* bytes that a block may have */
#define MX_TURNED_THREADS 384            /* two groups that multiply, one that brings operands */

template <int rows_, int parts_> struct mx_turned {
    static constexpr int rows = rows_, parts = parts_;
    static constexpr int sums = rows * parts / 2, totals = rows / 2;   /* floats of a lane */
    static constexpr int x_bytes = rows * parts * 128;                 /* of a block of k */
};

/* Whether these results are among those that it makes. */
static inline int mx_turned_makes(const mx_product &p) {
    return p.f.y_rows == MX_CUDA_READY ? p.f.act == MX_ACT_GELU_ERF && !p.f.residual
                                       : (p.f.act == MX_ACT_NONE || p.f.act == MX_ACT_GELU_ERF) &&
                                             (!p.f.residual || p.f.residual_rows >= 192);
}

#if MX_WIDE
/* Stages of a ring in the order in which they are filled; the parity of a stage's gate turns with each round. */
struct mx_ring {
    int stage, parity;
    __device__ __forceinline__ void skip(int n, int stages) {
        for (stage += n; stage >= stages; stage -= stages)
            parity ^= 1;
    }
};

/* A block of k: the first of a chunk begins the sums anew. */
template <typename S>
__device__ __forceinline__ void mx_turned_step(float (&sums)[S::sums], const char *weights, const char *x, int add) {
    uint64_t a = mx_wide_pieces(weights), b = mx_wide_pieces(x);
    mx_wide_begin();
#pragma unroll
    for (int step = 0; step < 4; step++)
        mx_wide(sums, a + step * 16, b + step * 16, step > 0 || add);
    mx_wide_commit();
}

/* Adds a chunk's sums to the totals. */
template <typename S>
__device__ __forceinline__ void mx_turned_add(float (&total)[S::totals], float (&sums)[S::sums]) {
    mx_wide_wait<0>();
    mx_wide_hold(sums);
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        total[i] = __fadd_rn(total[i], mx_chunk_sum<S::parts>(sums[i], sums[(S::parts - 1) * S::totals + i]));
}

/* Where the operands of a tile's rows lie, 64 rows to each unit; the first block of k. The thread that brings them has
 * little to reckon for each block: its instructions come one after the other. Of rows past the last, those of the last
 * unit: nobody takes their results. */
template <typename S> struct mx_turned_rows {
    static constexpr int units = (S::rows + 63) / 64;   /* tiles of 96 begin at a unit, or in its middle */
    const char *at[units];
    unsigned first;                /* bytes of a part of the first unit, if the tile begins inside of it; else all */

    __device__ __forceinline__ mx_turned_rows(const mx_product &p, int64_t row) {
        int64_t last = (p.f.m - 1) / 64, unit = row / 64, step = (int64_t)p.blocks * S::parts * MX_TURNED_PART;
        int off = (int)(row % 64);
        first = (unsigned)(64 - off) * 128;
#pragma unroll
        for (int i = 0; i < units; i++)
            at[i] = (const char *)p.f.x + min(unit + i, last) * step + (i == 0 ? off * 128 : 0);
    }

    /* A part of a block of k, by copy(where in the block, from, bytes). */
    template <typename Copy> __device__ __forceinline__ void bring(int block, int part, Copy copy) const {
        unsigned to = part * S::rows * 128, left = S::rows * 128;
#pragma unroll
        for (int i = 0; i < units; i++) {
            unsigned bytes = i == 0 && S::rows % 64 ? min(first, left) : min((unsigned)MX_TURNED_PART, left);
            copy(to, at[i] + (int64_t)(block * S::parts + part) * MX_TURNED_PART, bytes);
            to += bytes;
            left -= bytes;
        }
    }
};

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* Where a lane's results go: its first row, how many there are from it on, its first column. */
struct mx_turned_place {
    unsigned row;
    int left, column;
};

/* Opaque, so that addresses are made here: made once for all tiles, they would not find registers. */
__device__ __forceinline__ mx_turned_place mx_turned_place_of(const mx_product &p, int64_t row, int column) {
    int lane = threadIdx.x % MX_WARP, warp = threadIdx.x % MX_GROUP / MX_WARP;
    unsigned first = (unsigned)row + lane % 4 * 2;
    asm volatile("" : "+r"(first));
    return {first, (int)p.f.m - (int)first, column + warp * 16 + lane / 4};
}

__device__ __forceinline__ float2 mx_turned_bias(const mx_product &p, const mx_turned_place &at) {
    if (!p.f.bias)
        return make_float2(0, 0);
    return make_float2(__ldg(p.f.bias + at.column), __ldg(p.f.bias + at.column + 8));
}

/* Of 8 rows: columns g, then g + 8, two rows each. Times 16 is exact, and a total, which began with 0, is never -0: so
 * one rounding, and a bias of 0 where there is none, give the bits of mx_ended. */
template <bool act>
__device__ __forceinline__ void mx_turned_values(const float *total, float2 bias, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fmaf_rn(total[i], MX_X_UP, i < 2 ? bias.x : bias.y);
        if (act)
            v[i] = mx_gelu_erf(v[i]);
    }
}

/* What is added to 32 rows, in the order of the totals, so that as many loads are waited for at once. The rows of a
 * residual for all, which are not fewer than a tile's, come again: `start` is the first. */
__device__ __forceinline__ void mx_turned_more(const mx_product &p, const mx_turned_place &at, unsigned start,
                                               int first, float (&more)[16]) {
    unsigned wrap = (unsigned)p.f.residual_rows;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int in = first + i / 2 * 8 + i % 2;
        unsigned row = start + (in < at.left ? in : 0);
        const float *from = p.f.residual + (int64_t)(row < wrap ? row : row - wrap) * p.f.ld_residual + at.column;
        more[i / 2 * 4 + i % 2] = __ldg(from);
        more[i / 2 * 4 + i % 2 + 2] = __ldg(from + 8);
    }
}

/* The same on its way to the L2 cache, before the sums are made. */
template <typename S>
__device__ __forceinline__ void mx_turned_expect(const mx_product &p, int64_t first, int column) {
    for (int i = threadIdx.x % MX_GROUP; p.f.residual && i < S::rows * 2; i += MX_GROUP) {
        unsigned row = (unsigned)first + i / 2;
        if (row < p.f.m)
            asm volatile("prefetch.global.L2 [%0];"
                         ::"l"(p.f.residual + (int64_t)(row % (unsigned)p.f.residual_rows) * p.f.ld_residual + column +
                               i % 2 * 32));
    }
}

/* As f32, row by row; `whole`: all rows of the tile are there. Every instruction here counts: a warp runs them once for
 * a tile, and waits for each to come from the instruction cache. */
template <typename S, bool act, bool residual, bool whole>
__device__ __forceinline__ void mx_turned_write(const mx_product &p, const mx_turned_place &at,
                                                const float (&total)[S::totals]) {
    float2 bias = mx_turned_bias(p, at);
    int64_t here = (int64_t)at.row * p.f.ldy + at.column, step = 8 * p.f.ldy;
    unsigned start = residual ? at.row % (unsigned)p.f.residual_rows : 0;
    float more[16];
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++, here += step) {
        float v[4], *to = p.f.y + here, *next = to + p.f.ldy;
        if (residual && i % 4 == 0) {
            asm volatile("" : "+r"(start));
            mx_turned_more(p, at, start, i * 8, more);
        }
        mx_turned_values<act>(total + i * 4, bias, v);
#pragma unroll
        for (int j = 0; j < 4 && residual; j++)
            v[j] = __fadd_rn(v[j], more[i % 4 * 4 + j]);
        if (whole || i * 8 < at.left)
            to[0] = v[0], to[8] = v[2];
        if (whole || i * 8 + 1 < at.left)
            next[0] = v[1], next[8] = v[3];
    }
}

/* Eight rows by eight columns of f16 change places. */
__device__ __forceinline__ uint32_t mx_turn(uint32_t pair) {
    uint32_t turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}

/* A part of 8 rows by 16 columns, turned back: row g, columns 2 t and 2 t + 1 of both eights. Lanes that are `apart`
 * exchange, so that each has eight bytes in a row: the lower of the first eight, the other of the second. */
__device__ __forceinline__ uint2 mx_turned_pairs(uint32_t first, uint32_t second, int apart) {
    uint32_t a = mx_turn(first), b = mx_turn(second);
    bool upper = threadIdx.x & apart;
    uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? a : b, apart);
    return upper ? make_uint2(got, b) : make_uint2(a, got);
}

/* A part of 8 rows; `first` and `second` are its columns g and g + 8. */
__device__ __forceinline__ void mx_turned_put(char *to, uint32_t first, uint32_t second, bool there) {
    uint2 pairs = mx_turned_pairs(first, second, 2);
    if (there)
        *(uint2 *)to = pairs;
}

/* As operands of the next product: 64 columns are a block of its k. Rows up to the last of 64 are written. */
template <typename S, bool act>
__device__ __forceinline__ void mx_turned_hand(const mx_product &p, const mx_turned_place &at,
                                               const float (&total)[S::totals]) {
    float2 bias = mx_turned_bias(p, at);
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4;
    unsigned first = at.row - t * 2, end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t step = p.f.n / 64 * S::parts * MX_TURNED_PART;
    char *to = (char *)p.f.y + first / 64 * step + at.column / 64 * S::parts * MX_TURNED_PART +
               at.column % 64 / 16 * 256 + t % 2 * 128 + g * 16 + t / 2 * 8;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++) {
        float v[4];
        uint32_t hi[2], lo[2];
        mx_turned_values<act>(total + i * 4, bias, v);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float a = __fmul_rn(v[j * 2], MX_X_DOWN), b = __fmul_rn(v[j * 2 + 1], MX_X_DOWN);
            if (S::parts == 2)
                mx_split(a, b, hi[j], lo[j]);
            else
                hi[j] = mx_halves(a, b);
        }
        int eight = S::rows % 64 ? (int)(first % 64) / 8 + i : i;   /* other tiles begin with a unit */
        char *here = to + eight / 8 * step + eight % 8 * 1024;
        bool there = first + i * 8 < end;
        mx_turned_put(here, hi[0], hi[1], there);
        if (S::parts == 2)
            mx_turned_put(here + MX_TURNED_PART, lo[0], lo[1], there);
    }
}

template <typename S, bool act, bool residual>
__device__ __forceinline__ void mx_turned_write_any(const mx_product &p, const mx_turned_place &at, bool whole,
                                                    const float (&total)[S::totals]) {
    if (whole)
        mx_turned_write<S, act, residual, true>(p, at, total);
    else
        mx_turned_write<S, act, residual, false>(p, at, total);
}

/* 64 columns from `column` on, of S::rows rows from `row` on. */
template <typename S>
__device__ __forceinline__ void mx_turned_finish(const mx_product &p, int64_t row, int column,
                                                 const float (&total)[S::totals]) {
    mx_turned_place at = mx_turned_place_of(p, row, column);
    bool whole = row + S::rows <= p.f.m;
    if (p.f.y_rows == MX_CUDA_READY)
        mx_turned_hand<S, true>(p, at, total);
    else if (p.f.act == MX_ACT_NONE && p.f.residual)
        mx_turned_write<S, false, true, false>(p, at, total);
    else if (p.f.act == MX_ACT_NONE)
        mx_turned_write_any<S, false, false>(p, at, whole, total);
    else if (p.f.residual)
        mx_turned_write<S, true, true, false>(p, at, total);
    else
        mx_turned_write_any<S, true, false>(p, at, whole, total);
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

/* Registers go from the group that brings to those that multiply. */
__device__ __forceinline__ void mx_registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
__device__ __forceinline__ void mx_registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
#endif
#endif
