/* modules/cuda/product_hand.cuh - what becomes of the sums of a product of very many rows (product_turned.cuh): rows of
 * f32, or operands of the call that comes next, so that nobody has to read and split them (mx_cuda_rows).
 * What holds: the arithmetic of a result is mx_finish's; an operand is what its reader would make of the f32. */
#ifndef MX_CUDA_PRODUCT_HAND_CUH
#define MX_CUDA_PRODUCT_HAND_CUH
#include "modules/cuda/product_turned.cuh"

/* Whether these results are among those that it makes. */
static inline int mx_hand_makes(const mx_product &p) {
    int gelu = p.f.act == MX_ACT_GELU_ERF || p.f.act == MX_ACT_GELU_SHORT;
    switch (p.f.y_rows) {
    case MX_CUDA_READY:
    case MX_CUDA_TAPS: return gelu && !p.f.residual;
    case MX_CUDA_HEADS: return p.f.act == MX_ACT_NONE && !p.f.residual;
    default: return (gelu || p.f.act == MX_ACT_NONE) && !p.f.residual;
    }
}

#if MX_WIDE
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

/* Of the lane's columns of 64; to be fetched before the sums are made. */
__device__ __forceinline__ float2 mx_turned_bias(const mx_product &p, int column) {
    if (!p.f.bias)
        return make_float2(0, 0);
    const float *from = p.f.bias + column + threadIdx.x % MX_GROUP / MX_WARP * 16 + threadIdx.x % MX_WARP / 4;
    return make_float2(__ldg(from), __ldg(from + 8));
}

/* A bias of +0 for one of -0: it makes +0 of a total of -0, which elsewhere begins with 0. */
__device__ __forceinline__ float2 mx_turned_addend(float2 bias, float part) {
    return make_float2(__fmaf_rn(bias.x, part, 0.0f), __fmaf_rn(bias.y, part, 0.0f));
}

/* Of 8 rows: columns g, then g + 8, two rows each. Times 16 is exact: so one rounding gives the bits of mx_ended. */
template <typename S, bool act>
__device__ __forceinline__ void mx_turned_values(const float *total, float2 addend, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fmaf_rn(total[i], MX_X_UP, i < 2 ? addend.x : addend.y);
        if (act)
            v[i] = S::parts == 1 ? mx_gelu_short(v[i]) : mx_gelu_erf(v[i]);
    }
}

/* The same as operands, which are at 1/16 of their size, and so is the addend: columns g, then g + 8, a pair of rows
 * each, of each part. */
template <typename S, bool act>
__device__ __forceinline__ void mx_turned_operands(const float *total, float2 addend, uint32_t (&pairs)[S::parts][2]) {
    constexpr int up = (int)MX_X_UP;
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fadd_rn(total[i], i < 2 ? addend.x : addend.y);
        if (act)
            v[i] = S::parts == 1 ? mx_gelu_short<up>(v[i]) : mx_gelu_erf<up>(v[i]);
    }
#pragma unroll
    for (int j = 0; j < 2; j++)
        if (S::parts == 2)
            mx_split(v[j * 2], v[j * 2 + 1], pairs[0][j], pairs[S::parts - 1][j]);
        else
            pairs[0][j] = mx_halves(v[j * 2], v[j * 2 + 1]);
}

/* As f32, row by row; `whole`: all rows of the tile are there. Every instruction here counts: a warp runs them once for
 * a tile, and waits for each to come from the instruction cache. */
template <typename S, bool act, bool whole>
__device__ __forceinline__ void mx_turned_write(const mx_product &p, const mx_turned_place &at,
                                                float2 bias, const float (&total)[S::sums]) {
    float2 addend = mx_turned_addend(bias, 1);
    int64_t here = (int64_t)at.row * p.f.ldy + at.column, step = 8 * p.f.ldy;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++, here += step) {
        float v[4], *to = p.f.y + here, *next = to + p.f.ldy;
        mx_turned_values<S, act>(total + i * 4, addend, v);
        if (whole || i * 8 < at.left)
            to[0] = v[0], to[8] = v[2];
        if (whole || i * 8 + 1 < at.left)
            next[0] = v[1], next[8] = v[3];
    }
}

/* Eight rows by eight columns of f16 change places. */
__device__ __forceinline__ uint32_t mx_turn(uint32_t pair) {
    uint32_t turned;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}

/* Lanes that are `apart` exchange, so that each has both pairs of a column, or, of turned ones, of a row: the lower of
 * the first eight, the other of the second. */
__device__ __forceinline__ uint2 mx_turned_exchange(uint32_t first, uint32_t second, int apart) {
    bool upper = threadIdx.x & apart;
    uint32_t got = __shfl_xor_sync(0xffffffffu, upper ? first : second, apart);
    return upper ? make_uint2(got, second) : make_uint2(first, got);
}

/* Four times 8 rows by 16 columns as operands, eight bytes of each part for a lane. At once, since what turns and
 * exchanges them takes its time: of a row, or, if not `turned`, of a column. */
#define MX_AT_ONCE 4
template <typename S, bool act, bool turned, int apart>
__device__ __forceinline__ void mx_turned_eights(const float *total, float2 addend,
                                                 uint2 (&eights)[MX_AT_ONCE][S::parts]) {
    uint32_t pairs[MX_AT_ONCE][S::parts][2];
#pragma unroll
    for (int i = 0; i < MX_AT_ONCE; i++)
        mx_turned_operands<S, act>(total + i * 4, addend, pairs[i]);
#pragma unroll
    for (int i = 0; i < MX_AT_ONCE * S::parts * 2 && turned; i++) {
        uint32_t &pair = pairs[i / 2 / S::parts][i / 2 % S::parts][i % 2];
        pair = mx_turn(pair);
    }
#pragma unroll
    for (int i = 0; i < MX_AT_ONCE * S::parts; i++)
        eights[i / S::parts][i % S::parts] =
            mx_turned_exchange(pairs[i / S::parts][i % S::parts][0], pairs[i / S::parts][i % S::parts][1], apart);
}

/* As operands of the next product: 64 columns are a block of its k. Rows up to the last of 64 are written. */
template <typename S, bool whole>
__device__ __forceinline__ void mx_turned_ready(const mx_product &p, const mx_turned_place &at, float2 bias,
                                                const float (&total)[S::sums]) {
    float2 addend = mx_turned_addend(bias, MX_X_DOWN);
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4;
    unsigned first = at.row - t * 2, end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t step = p.f.n / 64 * S::parts * MX_TURNED_PART;
    char *to = (char *)p.f.y + first / 64 * step + at.column / 64 * S::parts * MX_TURNED_PART +
               at.column % 64 / 16 * 256 + t % 2 * 128 + g * 16 + t / 2 * 8;
    uint2 eights[MX_AT_ONCE][S::parts];
    char *here = to;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++) {
        if (i % MX_AT_ONCE == 0) {   /* of which all lie one behind the other: tiles begin with a multiple of 32 rows */
            mx_turned_eights<S, true, true, 2>(total + i * 4, addend, eights);
            int eight = S::rows % 64 ? (int)(first % 64) / 8 + i : i;   /* other tiles begin with a unit */
            here = to + eight / 8 * step + eight % 8 * 1024;
        }
#pragma unroll
        for (int part = 0; part < S::parts; part++)
            if (whole || first + i * 8 < end)
                *(uint2 *)(here + i % MX_AT_ONCE * 1024 + part * MX_TURNED_PART) = eights[i % MX_AT_ONCE][part];
    }
}

/* Without a branch, which the compiler would make of it. */
__device__ __forceinline__ void mx_store_if(bool there, void *to, uint2 v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.v2.u32 [%1], {%2, %3}; }"
                 ::"r"((int)there), "l"(to), "r"(v.x), "r"(v.y) : "memory");
}

/* ---- for a convolution ------------------------------------------------------------------------------------------- */

/* As rows of the next convolution: position 2 r is the middle of its row r, 2 r + 1 the last third of r and the first
 * of r + 1; the first third of an entry's first row is zeros. After the exchange a lane has position g of each eight;
 * four of the next's rows come of them, so that two eights are an eight of those, and `together` of these lie one
 * behind the other. */
template <typename S, bool whole>
__device__ __forceinline__ void mx_turned_taps(const mx_product &p, const mx_turned_place &at, float2 bias,
                                               const float (&total)[S::sums]) {
    constexpr int together = S::rows / 16 % 8 == 0 ? 8 : S::rows / 16 % 4 == 0 ? 4 : 2;
    static_assert(S::rows % 32 == 0, "tiles begin with a multiple of two eights of the next's rows");
    float2 addend = mx_turned_addend(bias, MX_X_DOWN);
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4, odd = g % 2, entry = (int)p.f.entry_rows;
    unsigned first = at.row - t * 2, row = first + g;
    int third = (int)(p.f.n / 64) * S::parts * MX_TURNED_PART, in = (int)(row % (unsigned)entry);
    char *to = (char *)p.f.y + at.column / 64 * S::parts * MX_TURNED_PART + at.column % 64 / 16 * 256 + t % 2 * 128 +
               t / 2 * 8 + g / 2 * 16 + (1 + odd) * third;
    auto base = [&](int i) {   /* of eight i of positions, which begins `together` of rows */
        unsigned r = first / 2 + i * 4;
        return to + (int64_t)(r / 64) * 3 * third + r % 64 / 8 * 1024;
    };
    int again = odd * 16 - (1 + odd) * third;   /* from one place to the other; of the last of eight rows further */
    uint32_t kept = odd ? 0xffffffffu : 0;
    char *here = base(0), *next = here;
    uint2 eights[MX_AT_ONCE][S::parts];
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++) {
        int in_group = i % (2 * together);
        if (i % MX_AT_ONCE == 0)
            mx_turned_eights<S, true, true, 2>(total + i * 4, addend, eights);
        if (in_group == 0) {
            here = next;
            next = base(i + 2 * together);
        }
        char *one = here + in_group / 2 * 1024 + in_group % 2 * 64, *two = one + again;
        if (i % 2) {
            char *far = (in_group + 1 < 2 * together ? here + (in_group / 2 + 1) * 1024 : next) - 48 - 2 * third;
            two = g == 7 ? far : two;
        }
        bool there = whole || row + i * 8 < (unsigned)p.f.m, twice = there && (in == (odd ? entry - 1 : 0)) != odd;
#pragma unroll
        for (int part = 0; part < S::parts; part++) {
            uint2 both = eights[i % MX_AT_ONCE][part];
            if (whole)
                *(uint2 *)(one + part * MX_TURNED_PART) = both;
            else
                mx_store_if(there, one + part * MX_TURNED_PART, both);
            mx_store_if(twice, two + part * MX_TURNED_PART, make_uint2(both.x & kept, both.y & kept));
        }
        in += 8;
        in -= in >= entry ? entry : 0;
    }
}

/* ---- for attention ----------------------------------------------------------------------------------------------- */

/* As mx_turned_operands, but at their own size, and rows past the last of an entry are zeros: of a pair of rows, both
 * columns. */
template <typename S>
__device__ __forceinline__ void mx_heads_operands(const float *total, float2 addend, bool there,
                                                  uint32_t (&pairs)[S::parts][2]) {
    float v[4];
    mx_turned_values<S, false>(total, addend, v);
#pragma unroll
    for (int j = 0; j < 2; j++)
        mx_split_near<S::parts>(v[j * 2], v[j * 2 + 1], pairs[0][j], pairs[S::parts - 1][j]);
#pragma unroll
    for (int i = 0; i < 2 * S::parts; i++)
        pairs[i / 2][i % 2] = there ? pairs[i / 2][i % 2] : 0;
}

/* Of 64 rows those that eight i of a tile is among. */
template <typename S> __device__ __forceinline__ char *mx_heads_eight(const mx_turned_tile &of, int i, char *to) {
    int unit = S::rows % 64 ? (of.in / 8 + i) / 8 : of.in / 64 + i / 8;
    return to + unit * (S::parts * MX_CUDA_HEAD_PART);
}

/* As queries or keys of a head: 64 columns are one. `to`: its first row. Tiles begin with a multiple of 32 rows, and so
 * four eights lie one behind the other. */
template <typename S, bool whole>
__device__ __forceinline__ void mx_turned_rows(const mx_turned_tile &of, int rows, char *to, float2 addend,
                                               const float (&total)[S::sums]) {
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x % MX_GROUP / MX_WARP;
    char *here = to += g * 128 + ((warp * 2 + t % 2) ^ g) * 16 + t / 2 * 8;
    static_assert(S::rows % 32 == 0, "four eights");
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++) {
        uint32_t pairs[S::parts][2];
        if (i % 4 == 0)
            here = mx_heads_eight<S>(of, i, to) + (S::rows % 64 ? (of.in / 8 + i) % 8 : i % 8) * 1024;
        mx_heads_operands<S>(total + i * 4, addend, whole || i * 8 + t * 2 < of.left, pairs);
#pragma unroll
        for (int part = 0; part < S::parts; part++) {
            uint2 both = mx_turned_exchange(mx_turn(pairs[part][0]), mx_turn(pairs[part][1]), 1);
            if (whole || of.in + i * 8 < rows)
                *(uint2 *)(here + i % 4 * 1024 + part * MX_CUDA_HEAD_PART) = both;
        }
    }
}

/* As values: of 16 rows, a lane writes 16 bytes, so that two write a sector of 32. */
template <typename S, bool whole>
__device__ __forceinline__ void mx_turned_columns(const mx_turned_tile &of, int rows, char *to, float2 addend,
                                                  const float (&total)[S::sums]) {
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x % MX_GROUP / MX_WARP;
    to += (warp * 16 + t % 2 * 8 + g) * 128;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += 2) {
        uint32_t pairs[2][S::parts][2];
        int piece = S::rows % 64 ? (of.in / 8 + i) % 8 : i % 8;   /* even: the bits of t / 2 and of g do not meet it */
        char *here = mx_heads_eight<S>(of, i, to) + ((piece + t / 2) ^ g) * 16;
#pragma unroll
        for (int j = 0; j < 2; j++)
            mx_heads_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
#pragma unroll
        for (int part = 0; part < S::parts; part++) {
            uint2 low = mx_turned_exchange(pairs[0][part][0], pairs[0][part][1], 1);
            uint2 high = mx_turned_exchange(pairs[1][part][0], pairs[1][part][1], 1);
            uint2 own = t < 2 ? low : high, other = t < 2 ? high : low;
            other.x = __shfl_xor_sync(0xffffffffu, other.x, 2);
            other.y = __shfl_xor_sync(0xffffffffu, other.y, 2);
            if (whole || of.in + i * 8 < rows)
                *(uint4 *)(here + part * MX_CUDA_HEAD_PART) = t < 2 ? make_uint4(own.x, own.y, other.x, other.y)
                                                                    : make_uint4(other.x, other.y, own.x, own.y);
        }
    }
}

template <typename S>
__device__ __forceinline__ void mx_turned_heads(const mx_product &p, const mx_turned_tile &of, int column, float2 bias,
                                                const float (&total)[S::sums]) {
    float2 addend = mx_turned_addend(bias, 1);
    int heads = (int)(p.f.n / 192), rows = (int)(p.f.entry_rows + 63) / 64 * 64;
    int head = column / 64, which = (head >= heads) + (head >= 2 * heads);   /* a division would take longer */
    head -= which * heads;
    char *to = (char *)p.f.y + (uint64_t)((of.entry * heads + head) * 3 + which) * (unsigned)(S::parts * rows * 128);
    bool whole = of.left >= S::rows;
    if (which == 2 && whole)
        mx_turned_columns<S, true>(of, rows, to, addend, total);
    else if (which == 2)
        mx_turned_columns<S, false>(of, rows, to, addend, total);
    else if (whole)
        mx_turned_rows<S, true>(of, rows, to, addend, total);
    else
        mx_turned_rows<S, false>(of, rows, to, addend, total);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

template <typename S, bool act>
__device__ __forceinline__ void mx_turned_write_any(const mx_product &p, const mx_turned_place &at, bool whole,
                                                    float2 bias, const float (&total)[S::sums]) {
    if (whole)
        mx_turned_write<S, act, true>(p, at, bias, total);
    else
        mx_turned_write<S, act, false>(p, at, bias, total);
}

/* 64 columns from `column` on, of a tile's rows. */
template <typename S>
__device__ __forceinline__ void mx_turned_finish(const mx_product &p, const mx_turned_tile &of, int column, float2 bias,
                                                 const float (&total)[S::sums]) {
    mx_turned_place at = mx_turned_place_of(p, of.row, column);
    bool whole = of.left == S::rows;
    mx_turned_tile here = of;
    asm volatile("" : "+r"(here.in), "+r"(here.left));   /* as above */
    if (p.f.y_rows == MX_CUDA_READY && whole)
        mx_turned_ready<S, true>(p, at, bias, total);
    else if (p.f.y_rows == MX_CUDA_READY)
        mx_turned_ready<S, false>(p, at, bias, total);
    else if (p.f.y_rows == MX_CUDA_TAPS && whole)
        mx_turned_taps<S, true>(p, at, bias, total);
    else if (p.f.y_rows == MX_CUDA_TAPS)
        mx_turned_taps<S, false>(p, at, bias, total);
    else if (p.f.y_rows == MX_CUDA_HEADS)
        mx_turned_heads<S>(p, here, column, bias, total);
    else if (p.f.act == MX_ACT_NONE)
        mx_turned_write_any<S, false>(p, at, whole, bias, total);
    else
        mx_turned_write_any<S, true>(p, at, whole, bias, total);
}
#endif
#endif
