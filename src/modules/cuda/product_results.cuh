/* modules/cuda/product_results.cuh - the results of a warp's tile of a compiled product, 16 rows by S::tiles * 8
 * columns: from the registers of wide steps by way of shared memory, so that whole pieces of rows are read and written.
 * What holds: the arithmetic is mx_finish's. Loops are kept small: code that a block runs once comes from memory, and
 * unrolled for all columns it took longer than the product. */
#ifndef MX_CUDA_PRODUCT_RESULTS_CUH
#define MX_CUDA_PRODUCT_RESULTS_CUH
#include "modules/cuda/wgmma.cuh"
#include "modules/cuda/product.cuh"

/* Floats of a row: 16 lanes that write pairs of four rows meet no bank twice. */
#define MX_RESULTS_PITCH(tiles) ((tiles) * 8 + 8)

#if MX_WIDE
/* Adds a chunk's sums to the totals. */
template <typename S>
__device__ __forceinline__ void mx_add_chunk(float (&total)[S::sums], float (&hi)[S::sums], float (&lo)[S::sums]) {
    mx_wide_wait<0>();
    mx_wide_hold(hi);
    if (S::x_parts == 2)
        mx_wide_hold(lo);
#pragma unroll
    for (int i = 0; i < S::sums; i++)
        total[i] = __fadd_rn(total[i], mx_chunk_sum<S::x_parts>(hi[i], lo[i]));
}

/* A warp's 16 rows by S::tiles * 8 columns, in shared memory. */
template <typename S> struct mx_results {
    float *sums;       /* rows S::pitch apart */
    int64_t row;       /* the first */
    int column;
};

template <typename S>
__device__ __forceinline__ void mx_put_results(const mx_results<S> &r, const float (&total)[S::sums]) {
    float *to = r.sums + threadIdx.x % MX_WARP / 4 * S::pitch + threadIdx.x % 4 * 2;
    __syncwarp();   /* nobody has need of what was there */
#pragma unroll
    for (int i = 0; i < S::tiles; i++) {
        *(float2 *)(to + i * 8) = make_float2(total[i * 4], total[i * 4 + 1]);
        *(float2 *)(to + i * 8 + 8 * S::pitch) = make_float2(total[i * 4 + 2], total[i * 4 + 3]);
    }
    __syncwarp();
}

/* `once` fours for each lane: what is added to them is under way at once. Fours past the last row or column are
 * computed from those of the first, and not written. */
template <typename S, int once, bool act>
__device__ __forceinline__ void mx_finish_fours(const mx_product &p, const mx_results<S> &r, int first) {
    float4 v[once], bias[once], more[once];
    float *to[once];
#pragma unroll
    for (int i = 0; i < once; i++) {
        int at = first + i * MX_WARP + threadIdx.x % MX_WARP, in = at / (S::tiles * 2), four = at % (S::tiles * 2) * 4;
        bool there = r.row + in < p.f.m && r.column + four + 3 < p.f.n;
        int64_t row = there ? r.row + in : 0;
        int column = there ? r.column + four : 0;
        v[i] = *(const float4 *)(r.sums + in * S::pitch + four);
        if (p.f.bias)
            bias[i] = __ldg((const float4 *)(p.f.bias + column));
        if (p.f.residual)
            more[i] = __ldg((const float4 *)(mx_residual_of(p.f, row) + column));
        to[i] = there ? p.f.y + row * p.f.ldy + column : NULL;
    }
#pragma unroll
    for (int i = 0; i < once; i++) {
        float *e = &v[i].x;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            e[j] = __fmul_rn(e[j], MX_X_UP);
            if (p.f.bias)
                e[j] = __fadd_rn(e[j], (&bias[i].x)[j]);
            if (act)
                e[j] = mx_act_of(p.f.act, e[j]);
            if (p.f.residual)
                e[j] = __fadd_rn(e[j], (&more[i].x)[j]);
        }
        if (to[i])
            *(float4 *)to[i] = v[i];
    }
}

/* Of n that is no multiple of 4, the columns behind the last four. */
template <typename S> __device__ __forceinline__ void mx_finish_rest(const mx_product &p, const mx_results<S> &r) {
    int in = threadIdx.x % 16, column = (int)(p.f.n / 4 * 4);
    if (threadIdx.x % MX_WARP >= 16 || column < r.column || column >= r.column + S::tiles * 8)
        return;
#pragma unroll 1
    for (; column < p.f.n; column += 2) {
        const float *from = r.sums + in * S::pitch + column - r.column;
        mx_finish(p, r.row + in, column, from[0], from[1], mx_ending_of(p, r.row + in, column));
    }
}

template <typename S>
__device__ __forceinline__ void mx_finish_tile(const mx_product &p, const mx_results<S> &r,
                                               const float (&total)[S::sums]) {
    mx_put_results<S>(r, total);
    if (p.f.act == MX_ACT_NONE)
#pragma unroll 1
        for (int i = 0; i < S::tiles; i += 4)
            mx_finish_fours<S, 4, false>(p, r, i * MX_WARP);
    else
#pragma unroll 1
        for (int i = 0; i < S::tiles; i++)
            mx_finish_fours<S, 1, true>(p, r, i * MX_WARP);
    if (p.f.n % 4)
        mx_finish_rest<S>(p, r);
}

/* What is added in the end is on its way to the L2 cache while the sums are made. */
template <typename S> __device__ __forceinline__ void mx_expect_residual(const mx_product &p, const mx_results<S> &r) {
    constexpr int lines = (S::tiles * 32 + 127) / 128;
    for (int i = threadIdx.x % MX_WARP; p.f.residual && i < 16 * lines; i += MX_WARP) {
        int64_t row = r.row + i / lines;
        int column = r.column + i % lines * 32;
        if (row < p.f.m && column < p.f.n)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(mx_residual_of(p.f, row) + column));
    }
}
#endif
#endif
