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

/* Without a branch, which the compiler would make of it. */
__device__ __forceinline__ void mx_store_if(bool there, void *to, const uint4 &v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.v4.u32 [%1], {%2, %3, %4, %5}; }"
                 ::"r"((int)there), "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void mx_store_if(bool there, float *to, float v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.f32 [%1], %2; }"
                 ::"r"((int)there), "l"(to), "f"(v) : "memory");
}

/* As f32, row by row. */
template <typename S, bool act>
__device__ __forceinline__ void mx_turned_write(const mx_product &p, const mx_turned_place &at, float2 bias,
                                                const float (&total)[S::sums]) {
    float2 addend = mx_turned_addend(bias, 1);
    int64_t here = (int64_t)at.row * p.f.ldy + at.column, step = 8 * p.f.ldy;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i++, here += step) {
        float v[4], *to = p.f.y + here, *next = to + p.f.ldy;
        mx_turned_values<S, act>(total + i * 4, addend, v);
        mx_store_if(i * 8 < at.left, to, v[0]);
        mx_store_if(i * 8 < at.left, to + 8, v[2]);
        mx_store_if(i * 8 + 1 < at.left, next, v[1]);
        mx_store_if(i * 8 + 1 < at.left, next + 8, v[3]);
    }
}

/* ---- operands by way of shared memory ---------------------------------------------------------------------------- */

/* A warp's room: two slabs of two units each; a unit is 8 rows by 16 columns of a part, in two pieces of 8 columns. Of
 * `exact` a slab is both parts of 8 rows, of `f16` 16 rows. */
#define MX_SLAB (MX_TURNED_ROOM / 2)
template <typename S> __host__ __device__ constexpr int mx_slab_eights() { return 4 / S::parts; }   /* of both */

/* Pieces of 8 columns to a row, or, if not `turned`, of 8 rows to a column. */
template <bool turned> __device__ __forceinline__ void mx_put_slab(unsigned at, const uint32_t *v) {
    if (turned)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

template <bool turned, int eights, int parts>
__device__ __forceinline__ void mx_put_slabs(unsigned room, const uint32_t (&pairs)[eights][parts][2]) {
    unsigned at = room + threadIdx.x % MX_WARP * 16;
    __syncwarp();   /* what was there is taken */
    mx_put_slab<turned>(at, &pairs[0][0][0]);
    mx_put_slab<turned>(at + MX_SLAB, &pairs[0][0][0] + 4);
    __syncwarp();
}

__device__ __forceinline__ uint4 mx_take_piece(unsigned at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at)
                 : "memory");
    return v;
}

/* A row's 16 columns as an operand has them: of each four of k, two in the one piece and two in the other. */
struct mx_two_pieces {
    uint4 first, second;
};
__device__ __forceinline__ mx_two_pieces mx_take_row(unsigned at) {
    uint4 low = mx_take_piece(at), high = mx_take_piece(at + 128);
    return {make_uint4(low.x, low.z, high.x, high.z), make_uint4(low.y, low.w, high.y, high.w)};
}

/* A lane's row of both slabs. */
template <typename S> struct mx_slab_row {
    int eight, part, row;
    unsigned at;   /* in the room */
    __device__ __forceinline__ explicit mx_slab_row(unsigned room) {
        int unit = threadIdx.x % MX_WARP / 8;
        row = threadIdx.x % 8;
        eight = S::parts == 2 ? unit / 2 : unit;
        part = S::parts == 2 ? unit % 2 : 0;
        at = room + unit * 256 + row * 16;
    }
};

/* As operands of the next product: 64 columns are a block of its k. Rows up to the last of 64 are written. */
template <typename S>
__device__ __forceinline__ void mx_turned_ready(const mx_product &p, unsigned first, int column, unsigned room,
                                                float2 bias, const float (&total)[S::sums]) {
    constexpr int once = mx_slab_eights<S>();
    float2 addend = mx_turned_addend(bias, MX_X_DOWN);
    mx_slab_row<S> lane(room);
    unsigned row = first + lane.eight * 8, end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t step = p.f.n / 64 * S::parts * MX_TURNED_PART;
    char *to = (char *)p.f.y + first / 64 * step + (column / 64 * S::parts + lane.part) * MX_TURNED_PART +
               threadIdx.x % MX_GROUP / MX_WARP * 256 + lane.eight * 1024 + lane.row * 16;
    char *here = to;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::parts][2];
        if (i % 4 == 0) {   /* four lie one behind the other: tiles begin with a multiple of 32 rows */
            int eight = S::rows % 64 ? (int)(first % 64) / 8 + i : i;   /* other tiles begin with a unit */
            here = to + eight / 8 * step + eight % 8 * 1024;
        }
#pragma unroll
        for (int j = 0; j < once; j++)
            mx_turned_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        mx_put_slabs<true>(room, pairs);
        mx_two_pieces v = mx_take_row(lane.at);
        mx_store_if(row + i * 8 < end, here + i % 4 * 1024, v.first);
        mx_store_if(row + i * 8 < end, here + i % 4 * 1024 + 128, v.second);
    }
}

/* ---- for a convolution ------------------------------------------------------------------------------------------- */

/* As rows of the next convolution: position 2 r is the middle of its row r, 2 r + 1 the last third of r and the first
 * of r + 1; the first third of an entry's first row is zeros. Two eights of positions are an eight of its rows. */
template <typename S>
__device__ __forceinline__ void mx_turned_taps(const mx_product &p, unsigned first, int column, unsigned room,
                                               float2 bias, const float (&total)[S::sums]) {
    constexpr int once = mx_slab_eights<S>();
    static_assert(S::rows % 32 == 0, "tiles begin with a multiple of two eights of the next's rows");
    float2 addend = mx_turned_addend(bias, MX_X_DOWN);
    mx_slab_row<S> lane(room);
    unsigned row = first + lane.eight * 8 + lane.row, entry = (unsigned)p.f.entry_rows;
    int third = (int)(p.f.n / 64) * S::parts * MX_TURNED_PART, in = (int)(row % entry), odd = lane.row % 2;
    int further = (int)(once * 8 % entry);   /* in the entry, or in one after it */
    char *to = (char *)p.f.y + (column / 64 * S::parts + lane.part) * MX_TURNED_PART +
               threadIdx.x % MX_GROUP / MX_WARP * 256 + (lane.eight % 2 * 4 + lane.row / 2) * 16 + (1 + odd) * third;
    auto base = [&](int i) {   /* of the lane's eight of the next's rows, when positions begin with eight i */
        unsigned r = first / 2 + (lane.eight / 2 * 2 + i) * 4;
        return to + (int64_t)(r / 64) * 3 * third + r % 64 / 8 * 1024;
    };
    bool far = lane.eight % 2 && lane.row == 7;   /* the next of its rows begins an eight */
    int again = far ? -112 - 2 * third : odd * 16 - (1 + odd) * third;   /* from one place to the other */
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::parts][2];
        char *one = base(i), *two = (far ? base(i + 2) : one) + again;
        bool there = row + i * 8 < (unsigned)p.f.m;
#pragma unroll
        for (int j = 0; j < once; j++)
            mx_turned_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        mx_put_slabs<true>(room, pairs);
        mx_two_pieces v = mx_take_row(lane.at);
        mx_store_if(there, one, v.first);
        mx_store_if(there, one + 128, v.second);
        bool twice = there && odd && in != (int)entry - 1, none = there && !odd && in == 0;
        mx_store_if(twice, two, v.first);
        mx_store_if(twice, two + 128, v.second);
        mx_store_if(none, two, make_uint4(0, 0, 0, 0));
        mx_store_if(none, two + 128, make_uint4(0, 0, 0, 0));
        in += further;
        in -= in >= (int)entry ? (int)entry : 0;
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
__device__ __forceinline__ void mx_turned_rows(const mx_turned_tile &of, int rows, char *to, unsigned room,
                                               float2 addend, const float (&total)[S::sums]) {
    constexpr int once = mx_slab_eights<S>(), apart = once / 2;   /* eights from slab to slab */
    int lane = threadIdx.x % MX_WARP, t = lane % 4, row = lane % 8, unit = lane / 16;
    int piece = threadIdx.x % MX_GROUP / MX_WARP * 2 + lane / 8 % 2, eight = S::parts == 2 ? 0 : unit;
    char *here = to += row * 128 + (piece ^ row) * 16 + unit * (S::parts == 2 ? MX_CUDA_HEAD_PART : 1024);
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::parts][2];
        if (i % 4 == 0)
            here = mx_heads_eight<S>(of, i, to) + (S::rows % 64 ? (of.in / 8 + i) % 8 : i % 8) * 1024;
#pragma unroll
        for (int j = 0; j < once; j++)
            mx_heads_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
        mx_put_slabs<true>(room, pairs);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint4 v = mx_take_piece(room + lane * 16 + j * MX_SLAB);
            if (whole)
                *(uint4 *)(here + (i % 4 + j * apart) * 1024) = v;
            else
                mx_store_if(of.in + (i + j * apart + eight) * 8 < rows, here + (i % 4 + j * apart) * 1024, v);
        }
    }
}

/* As values: a lane has 8 rows of a column, and the one beside it the next 8: two write a sector of 32 bytes. */
template <typename S, bool whole>
__device__ __forceinline__ void mx_turned_columns(const mx_turned_tile &of, int rows, char *to, unsigned room,
                                                  float2 addend, const float (&total)[S::sums]) {
    constexpr int once = mx_slab_eights<S>();
    int lane = threadIdx.x % MX_WARP, t = lane % 4, column = lane / 2, odd = lane % 2;
    unsigned from = room + odd * (S::parts == 2 ? MX_SLAB : 256) + column * 16;
    to += (threadIdx.x % MX_GROUP / MX_WARP * 16 + column) * 128;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::parts][2];
#pragma unroll
        for (int j = 0; j < once; j++)
            mx_heads_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
        mx_put_slabs<false>(room, pairs);
#pragma unroll
        for (int j = 0; j < 2; j++) {   /* parts, or the next two eights */
            int eight = S::parts == 2 ? i : i + j * 2;
            int piece = (S::rows % 64 ? (of.in / 8 + eight) % 8 : eight % 8) + odd;
            char *here = mx_heads_eight<S>(of, eight, to) + (piece ^ column % 8) * 16;
            uint4 v = mx_take_piece(from + j * (S::parts == 2 ? 256 : MX_SLAB));
            here += S::parts == 2 ? j * MX_CUDA_HEAD_PART : 0;
            if (whole)
                *(uint4 *)here = v;
            else
                mx_store_if(of.in + eight * 8 < rows, here, v);
        }
    }
}

template <typename S>
__device__ __forceinline__ void mx_turned_heads(const mx_product &p, const mx_turned_tile &of, int column,
                                                unsigned room, float2 bias, const float (&total)[S::sums]) {
    float2 addend = mx_turned_addend(bias, 1);
    int heads = (int)(p.f.n / 192), rows = (int)(p.f.entry_rows + 63) / 64 * 64;
    int head = column / 64, which = (head >= heads) + (head >= 2 * heads);   /* a division would take longer */
    head -= which * heads;
    char *to = (char *)p.f.y + (uint64_t)((of.entry * heads + head) * 3 + which) * (unsigned)(S::parts * rows * 128);
    bool whole = of.left >= S::rows;
    if (which == 2 && whole)
        mx_turned_columns<S, true>(of, rows, to, room, addend, total);
    else if (which == 2)
        mx_turned_columns<S, false>(of, rows, to, room, addend, total);
    else if (whole)
        mx_turned_rows<S, true>(of, rows, to, room, addend, total);
    else
        mx_turned_rows<S, false>(of, rows, to, room, addend, total);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* 64 columns from `column` on, of a tile's rows. */
template <typename S>
__device__ __forceinline__ void mx_turned_finish(const mx_product &p, const mx_turned_tile &of, int column,
                                                 unsigned room, float2 bias, const float (&total)[S::sums]) {
    unsigned first = (unsigned)of.row;
    mx_turned_tile here = of;
    asm volatile("" : "+r"(here.in), "+r"(here.left), "+r"(first), "+r"(room));   /* as above */
    if (p.f.y_rows == MX_CUDA_READY)
        mx_turned_ready<S>(p, first, column, room, bias, total);
    else if (p.f.y_rows == MX_CUDA_TAPS)
        mx_turned_taps<S>(p, first, column, room, bias, total);
    else if (p.f.y_rows == MX_CUDA_HEADS)
        mx_turned_heads<S>(p, here, column, room, bias, total);
    else if (p.f.act == MX_ACT_NONE)
        mx_turned_write<S, false>(p, mx_turned_place_of(p, of.row, column), bias, total);
    else
        mx_turned_write<S, true>(p, mx_turned_place_of(p, of.row, column), bias, total);
}
#endif
#endif
