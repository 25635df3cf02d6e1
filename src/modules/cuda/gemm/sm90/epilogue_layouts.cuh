/* modules/cuda/gemm/sm90/epilogue_layouts.cuh - what becomes of the sums of a product of very many rows
 * (gemm/sm90/swap_ab.cuh): rows of f32, or operands of the call that comes next, so that nobody has to read and split
 * them (mx_layout).
 * What holds: the arithmetic of a result is epilogue_store's; an operand is what its reader would make of the f32. */
#ifndef MX_CUDA_GEMM_SM90_EPILOGUE_LAYOUTS_CUH
#define MX_CUDA_GEMM_SM90_EPILOGUE_LAYOUTS_CUH
#include "modules/cuda/gemm/sm90/swap_ab.cuh"

/* Whether these results are among those that it makes. */
static inline int epilogue_can_write(const gemm_params &p) {
    int gelu = p.f.act == MX_ACT_GELU_ERF || p.f.act == ACT_GELU_SHORT;
    switch (p.f.y_rows) {
    case MX_LAYOUT_OPERAND:
    case MX_LAYOUT_IM2COL: return gelu && !p.f.residual;
    case MX_LAYOUT_QKV: return p.f.act == MX_ACT_NONE && !p.f.residual;
    default: return (gelu || p.f.act == MX_ACT_NONE) && !p.f.residual;
    }
}

#if MX_HAS_WGMMA
/* Where a lane's results go: its first row, how many there are from it on, its first column. */
struct out_place {
    unsigned row;
    int left, column;
};

/* Opaque, so that addresses are made here: made once for all tiles, they would not find registers. */
__device__ __forceinline__ out_place out_place_of(const gemm_params &p, int64_t row, int column) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned first = (unsigned)row + lane % 4 * 2;
    asm volatile("" : "+r"(first));
    return {first, (int)p.f.m - (int)first, column + warp * 16 + lane / 4};
}

/* Of the lane's columns of 64; to be fetched before the sums are made. */
__device__ __forceinline__ float2 load_bias(const gemm_params &p, int column) {
    if (!p.f.bias)
        return make_float2(0, 0);
    const float *from = p.f.bias + column + threadIdx.x % WARPGROUP / WARP_SIZE * 16 + threadIdx.x % WARP_SIZE / 4;
    return make_float2(__ldg(from), __ldg(from + 8));
}

/* A bias of +0 for one of -0: it makes +0 of a total of -0, which elsewhere begins with 0. */
__device__ __forceinline__ float2 bias_addend(float2 bias, float scale) {
    return make_float2(__fmaf_rn(bias.x, scale, 0.0f), __fmaf_rn(bias.y, scale, 0.0f));
}

/* Of 8 rows: columns g, then g + 8, two rows each. Times 16 is exact: so one rounding gives the bits of
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

/* The same as operands, which are at 1/16 of their size, and so is the addend: columns g, then g + 8, a pair of rows
 * each, of each part. */
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

/* Without a branch, which the compiler would make of it. */
__device__ __forceinline__ void store_if(bool there, void *to, const uint4 &v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.v4.u32 [%1], {%2, %3, %4, %5}; }"
                 ::"r"((int)there), "l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void store_if(bool there, float *to, float v) {
    asm volatile("{ .reg .pred there; setp.ne.b32 there, %0, 0; @there st.global.f32 [%1], %2; }"
                 ::"r"((int)there), "l"(to), "f"(v) : "memory");
}

/* As f32, row by row. */
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

/* ---- operands by way of shared memory ---------------------------------------------------------------------------- */

/* A warp's room: two slabs of two units each; a unit is 8 rows by 16 columns of a part, in two pieces of 8 columns. Of
 * `exact` a slab is both parts of 8 rows, of `f16` 16 rows. */
#define SLAB_BYTES (STAGING_BYTES / 2)
template <typename S> __host__ __device__ constexpr int slab_eights() { return 4 / S::terms; }   /* of both */

/* Pieces of 8 columns to a row, or, if not `turned`, of 8 rows to a column. */
template <bool turned> __device__ __forceinline__ void store_slab(unsigned at, const uint32_t *v) {
    if (turned)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
}

template <bool turned, int eights, int terms>
__device__ __forceinline__ void store_slabs(unsigned room, const uint32_t (&pairs)[eights][terms][2]) {
    unsigned at = room + threadIdx.x % WARP_SIZE * 16;
    __syncwarp();   /* what was there is taken */
    store_slab<turned>(at, &pairs[0][0][0]);
    store_slab<turned>(at + SLAB_BYTES, &pairs[0][0][0] + 4);
    __syncwarp();
}

__device__ __forceinline__ uint4 load_smem16(unsigned at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at)
                 : "memory");
    return v;
}

/* A row's 16 columns as an operand has them: of each four of k, two in the one piece and two in the other. */
struct operand_row {
    uint4 first, second;
};
__device__ __forceinline__ operand_row load_operand_row(unsigned at) {
    uint4 low = load_smem16(at), high = load_smem16(at + 128);
    return {make_uint4(low.x, low.z, high.x, high.z), make_uint4(low.y, low.w, high.y, high.w)};
}

/* A lane's row of both slabs. */
template <typename S> struct slab_row {
    int eight, term, row;
    unsigned at;   /* in the room */
    __device__ __forceinline__ explicit slab_row(unsigned room) {
        int unit = threadIdx.x % WARP_SIZE / 8;
        row = threadIdx.x % 8;
        eight = S::terms == 2 ? unit / 2 : unit;
        term = S::terms == 2 ? unit % 2 : 0;
        at = room + unit * 256 + row * 16;
    }
};

/* As operands of the next product: 64 columns are a block of its k. Rows up to the last of 64 are written. */
template <typename S>
__device__ __forceinline__ void store_operand(const gemm_params &p, unsigned first, int column, unsigned room,
                                              float2 bias, const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    float2 addend = bias_addend(bias, X_SCALE);
    slab_row<S> lane(room);
    unsigned row = first + lane.eight * 8, end = ((unsigned)p.f.m + 63) / 64 * 64;
    int64_t step = p.f.n / 64 * S::terms * OPERAND_TILE_BYTES;
    char *to = (char *)p.f.y + first / 64 * step + (column / 64 * S::terms + lane.term) * OPERAND_TILE_BYTES +
               threadIdx.x % WARPGROUP / WARP_SIZE * 256 + lane.eight * 1024 + lane.row * 16;
    char *here = to;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
        if (i % 4 == 0) {   /* four lie one behind the other: tiles begin with a multiple of 32 rows */
            int eight = S::rows % 64 ? (int)(first % 64) / 8 + i : i;   /* other tiles begin with a unit */
            here = to + eight / 8 * step + eight % 8 * 1024;
        }
#pragma unroll
        for (int j = 0; j < once; j++)
            epilogue_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        store_slabs<true>(room, pairs);
        operand_row v = load_operand_row(lane.at);
        store_if(row + i * 8 < end, here + i % 4 * 1024, v.first);
        store_if(row + i * 8 < end, here + i % 4 * 1024 + 128, v.second);
    }
}

/* ---- for a convolution ------------------------------------------------------------------------------------------- */

/* As rows of the next convolution: position 2 r is the middle of its row r, 2 r + 1 the last third of r and the first
 * of r + 1; the first third of an entry's first row is zeros. Two eights of positions are an eight of its rows. */
template <typename S>
__device__ __forceinline__ void store_im2col(const gemm_params &p, unsigned first, int column, unsigned room,
                                             float2 bias, const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    static_assert(S::rows % 32 == 0, "tiles begin with a multiple of two eights of the next's rows");
    float2 addend = bias_addend(bias, X_SCALE);
    slab_row<S> lane(room);
    unsigned row = first + lane.eight * 8 + lane.row, entry = (unsigned)p.f.entry_rows;
    int third = (int)(p.f.n / 64) * S::terms * OPERAND_TILE_BYTES, in = (int)(row % entry), odd = lane.row % 2;
    int further = (int)(once * 8 % entry);   /* in the entry, or in one after it */
    char *to = (char *)p.f.y + (column / 64 * S::terms + lane.term) * OPERAND_TILE_BYTES +
               threadIdx.x % WARPGROUP / WARP_SIZE * 256 + (lane.eight % 2 * 4 + lane.row / 2) * 16 + (1 + odd) * third;
    auto base = [&](int i) {   /* of the lane's eight of the next's rows, when positions begin with eight i */
        unsigned r = first / 2 + (lane.eight / 2 * 2 + i) * 4;
        return to + (int64_t)(r / 64) * 3 * third + r % 64 / 8 * 1024;
    };
    bool far = lane.eight % 2 && lane.row == 7;   /* the next of its rows begins an eight */
    int again = far ? -112 - 2 * third : odd * 16 - (1 + odd) * third;   /* from one place to the other */
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
        char *one = base(i), *two = (far ? base(i + 2) : one) + again;
        bool there = row + i * 8 < (unsigned)p.f.m;
#pragma unroll
        for (int j = 0; j < once; j++)
            epilogue_operands<S, true>(total + (i + j) * 4, addend, pairs[j]);
        store_slabs<true>(room, pairs);
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

/* ---- for attention ----------------------------------------------------------------------------------------------- */

/* As epilogue_operands, but at their own size, and rows past the last of an entry are zeros: of a pair of rows, both
 * columns. */
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

/* Of 64 rows those that eight i of a tile is among. */
template <typename S> __device__ __forceinline__ char *qkv_eight(const row_tile &of, int i, char *to) {
    int unit = S::rows % 64 ? (of.in / 8 + i) / 8 : of.in / 64 + i / 8;
    return to + unit * (S::terms * MX_CUDA_QKV_TILE);
}

/* As queries or keys of a head: 64 columns are one. `to`: its first row. Tiles begin with a multiple of 32 rows, and so
 * four eights lie one behind the other. */
template <typename S, bool whole>
__device__ __forceinline__ void store_qk(const row_tile &of, int rows, char *to, unsigned room, float2 addend,
                                         const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>(), apart = once / 2;   /* eights from slab to slab */
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
        store_slabs<true>(room, pairs);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            uint4 v = load_smem16(room + lane * 16 + j * SLAB_BYTES);
            if (whole)
                *(uint4 *)(here + (i % 4 + j * apart) * 1024) = v;
            else
                store_if(of.in + (i + j * apart + eight) * 8 < rows, here + (i % 4 + j * apart) * 1024, v);
        }
    }
}

/* As values: a lane has 8 rows of a column, and the one beside it the next 8: two write a sector of 32 bytes. */
template <typename S, bool whole>
__device__ __forceinline__ void store_v(const row_tile &of, int rows, char *to, unsigned room, float2 addend,
                                        const float (&total)[S::sums]) {
    constexpr int once = slab_eights<S>();
    int lane = threadIdx.x % WARP_SIZE, t = lane % 4, column = lane / 2, odd = lane % 2;
    unsigned from = room + odd * (S::terms == 2 ? SLAB_BYTES : 256) + column * 16;
    to += (threadIdx.x % WARPGROUP / WARP_SIZE * 16 + column) * 128;
#pragma unroll
    for (int i = 0; i < S::rows / 8; i += once) {
        uint32_t pairs[once][S::terms][2];
#pragma unroll
        for (int j = 0; j < once; j++)
            qkv_operands<S>(total + (i + j) * 4, addend, whole || (i + j) * 8 + t * 2 < of.left, pairs[j]);
        store_slabs<false>(room, pairs);
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
__device__ __forceinline__ void store_qkv(const gemm_params &p, const row_tile &of, int column, unsigned room,
                                          float2 bias, const float (&total)[S::sums]) {
    float2 addend = bias_addend(bias, 1);
    int heads = (int)(p.f.n / 192), rows = (int)(p.f.entry_rows + 63) / 64 * 64;
    int head = column / 64, which = (head >= heads) + (head >= 2 * heads);   /* a division would take longer */
    head -= which * heads;
    char *to = (char *)p.f.y + (uint64_t)((of.entry * heads + head) * 3 + which) * (unsigned)(S::terms * rows * 128);
    bool whole = of.left >= S::rows;
    if (which == 2 && whole)
        store_v<S, true>(of, rows, to, room, addend, total);
    else if (which == 2)
        store_v<S, false>(of, rows, to, room, addend, total);
    else if (whole)
        store_qk<S, true>(of, rows, to, room, addend, total);
    else
        store_qk<S, false>(of, rows, to, room, addend, total);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* 64 columns from `column` on, of a tile's rows. */
template <typename S>
__device__ __forceinline__ void epilogue(const gemm_params &p, const row_tile &of, int column, unsigned room,
                                         float2 bias, const float (&total)[S::sums]) {
    unsigned first = (unsigned)of.row;
    row_tile here = of;
    asm volatile("" : "+r"(here.in), "+r"(here.left), "+r"(first), "+r"(room));   /* as above */
    if (p.f.y_rows == MX_LAYOUT_OPERAND)
        store_operand<S>(p, first, column, room, bias, total);
    else if (p.f.y_rows == MX_LAYOUT_IM2COL)
        store_im2col<S>(p, first, column, room, bias, total);
    else if (p.f.y_rows == MX_LAYOUT_QKV)
        store_qkv<S>(p, here, column, room, bias, total);
    else if (p.f.act == MX_ACT_NONE)
        store_dense<S, false>(p, out_place_of(p, of.row, column), bias, total);
    else
        store_dense<S, true>(p, out_place_of(p, of.row, column), bias, total);
}
#endif
#endif
