/* modules/cuda/gemm/sm90/epilogue_smem.cuh - the epilogue of a warp's tile, 16 rows by S::tiles * 8 columns: the wgmma
 * accumulators go through shared memory, so that rows are read and written in whole sectors. Invariants: the
 * arithmetic is that of epilogue_apply. Loops are kept small: code that a block runs once is fetched from memory, and
 * unrolled over all columns it took longer than the multiplication. */
#ifndef MX_CUDA_GEMM_SM90_EPILOGUE_SMEM_CUH
#define MX_CUDA_GEMM_SM90_EPILOGUE_SMEM_CUH
#include "modules/cuda/common/wgmma.cuh"
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

/* Floats of a row: bank-conflict free for 16 lanes that write pairs of four rows. */
__host__ __device__ constexpr int smem_tile_pitch(int tiles) { return tiles * 8 + 8; }

#if MX_HAS_WGMMA
/* Adds a slice's sums to the totals. */
template <typename S>
__device__ __forceinline__ void add_slice_terms(float (&total)[S::sums], float (&hi)[S::sums], float (&lo)[S::sums]) {
    wgmma_wait<0>();
    wgmma_fence_operand(hi);
    if (S::x_terms == 2)
        wgmma_fence_operand(lo);
#pragma unroll
    for (int i = 0; i < S::sums; i++)
        total[i] = __fadd_rn(total[i], slice_sum<S::x_terms>(hi[i], lo[i]));
}

/* A warp's 16 rows by S::tiles * 8 columns, in shared memory. */
template <typename S> struct smem_tile {
    float *sums;       /* rows S::pitch apart */
    int64_t row;       /* the first */
    int column;
};

template <typename S>
__device__ __forceinline__ void store_sums(const smem_tile<S> &r, const float (&total)[S::sums]) {
    float *to = r.sums + threadIdx.x % WARP_SIZE / 4 * S::pitch + threadIdx.x % 4 * 2;
    __syncwarp();   /* every lane is done with what was there */
#pragma unroll
    for (int i = 0; i < S::tiles; i++) {
        *(float2 *)(to + i * 8) = make_float2(total[i * 4], total[i * 4 + 1]);
        *(float2 *)(to + i * 8 + 8 * S::pitch) = make_float2(total[i * 4 + 2], total[i * 4 + 3]);
    }
    __syncwarp();
}

/* `once` float4s for each lane, with all loads of bias and residual in flight at once. Those past the last row or
 * column are computed from row or column 0, but not stored. */
template <typename S, int once, bool act>
__device__ __forceinline__ void epilogue_rows(const gemm_params &p, const smem_tile<S> &r, int first) {
    float4 v[once], bias[once], more[once];
    float *to[once];
#pragma unroll
    for (int i = 0; i < once; i++) {
        int at = first + i * WARP_SIZE + threadIdx.x % WARP_SIZE, in = at / (S::tiles * 2),
            four = at % (S::tiles * 2) * 4;
        bool there = r.row + in < p.f.m && r.column + four + 3 < p.f.n;
        int64_t row = there ? r.row + in : 0;
        int column = there ? r.column + four : 0;
        v[i] = *(const float4 *)(r.sums + in * S::pitch + four);
        if (p.f.bias)
            bias[i] = __ldg((const float4 *)(p.f.bias + column));
        if (p.f.residual)
            more[i] = __ldg((const float4 *)(residual_row(p.f, row) + column));
        to[i] = there ? p.f.y + row * p.f.ldy + column : NULL;
    }
#pragma unroll
    for (int i = 0; i < once; i++) {
        float *e = &v[i].x;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            e[j] = __fmul_rn(e[j], X_UNSCALE);
            if (p.f.bias)
                e[j] = __fadd_rn(e[j], (&bias[i].x)[j]);
            if (act)
                e[j] = activate(p.f.act, e[j]);
            if (p.f.residual)
                e[j] = __fadd_rn(e[j], (&more[i].x)[j]);
        }
        if (to[i])
            *(float4 *)to[i] = v[i];
    }
}

/* If n is no multiple of 4: the columns after the last float4. */
template <typename S> __device__ __forceinline__ void epilogue_ragged(const gemm_params &p, const smem_tile<S> &r) {
    int in = threadIdx.x % 16, column = (int)(p.f.n / 4 * 4);
    if (threadIdx.x % WARP_SIZE >= 16 || column < r.column || column >= r.column + S::tiles * 8)
        return;
#pragma unroll 1
    for (; column < p.f.n; column += 2) {
        const float *from = r.sums + in * S::pitch + column - r.column;
        epilogue_store(p, r.row + in, column, from[0], from[1], epilogue_load(p, r.row + in, column));
    }
}

template <typename S>
__device__ __forceinline__ void epilogue_tile(const gemm_params &p, const smem_tile<S> &r,
                                              const float (&total)[S::sums]) {
    store_sums<S>(r, total);
    if (p.f.act == MX_ACT_NONE)
#pragma unroll 1
        for (int i = 0; i < S::tiles; i += 4)
            epilogue_rows<S, 4, false>(p, r, i * WARP_SIZE);
    else
#pragma unroll 1
        for (int i = 0; i < S::tiles; i++)
            epilogue_rows<S, 1, true>(p, r, i * WARP_SIZE);
    if (p.f.n % 4)
        epilogue_ragged<S>(p, r);
}

/* Prefetches the residual into L2 while the sums are computed. */
template <typename S> __device__ __forceinline__ void prefetch_residual(const gemm_params &p, const smem_tile<S> &r) {
    constexpr int lines = (S::tiles * 32 + 127) / 128;
    for (int i = threadIdx.x % WARP_SIZE; p.f.residual && i < 16 * lines; i += WARP_SIZE) {
        int64_t row = r.row + i / lines;
        int column = r.column + i % lines * 32;
        if (row < p.f.m && column < p.f.n)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(residual_row(p.f, row) + column));
    }
}
#endif

}   /* namespace mx::gemm */
#endif
