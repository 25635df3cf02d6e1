/* modules/cuda/gemm/mma_sync.cu - GEMM of many rows with mma.sync, for GPUs without wgmma: a block computes a tile of
 * y, its warps sub-tiles in registers. x is split into operands once a block, on its way to shared memory (two
 * stages); weights are copied as they are packed (cp.async, three stages).
 * Invariants: K slices are reduced in order, as in skinny.cu. */
#include "modules/cuda/common/cp_async.cuh"
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

namespace {

/* A block's tile: warps_m x warps_n warps, each with m_tiles x n_tiles tiles of 16 x 8. */
template <int warps_m_, int warps_n_, int m_tiles_, int n_tiles_, int x_terms_, int w_terms_> struct tile_shape {
    static constexpr int warps_m = warps_m_, warps_n = warps_n_, m_tiles = m_tiles_, n_tiles = n_tiles_;
    static constexpr int x_terms = x_terms_, w_terms = w_terms_;
    static constexpr int warps = warps_m * warps_n, threads = warps * WARP_SIZE;
    static constexpr int rows = warps_m * m_tiles * 16, columns = warps_n * n_tiles * 8;
    static constexpr int x_stages = 2, w_stages = 3;
    static constexpr int each = rows / 8 / warps;                  /* A operands that a warp makes of a block */
    static constexpr int x_stage = rows / 8 * x_terms * WARP_SIZE; /* uint4 */
    static constexpr int w_stage = columns / 8 * w_terms * WARP_SIZE;
    static constexpr int bytes = (x_stages * x_stage + w_stages * w_stage) * 16;
    static_assert(each == 1 || each == 2, "a warp's operands share their rows");
};

/* 32 of k of the rows that this thread turns into operands. */
template <typename S> struct x_regs { float4 at[S::each][2]; };

template <typename S>
__device__ __forceinline__ void load_x(const gemm_params &p, const x_row (&rows)[2], int half, x_regs<S> &v) {
    int warp = threadIdx.x / WARP_SIZE, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 2 * S::each; i++) {
        int k = half * 32 + (warp * S::each + i / 2) % 2 * 16 + 4 * t;
        v.at[i / 2][i % 2] = p.quad_x ? load_row4<true>(rows[i % 2], k) : load_row4<false>(rows[i % 2], k);
    }
}

template <typename S>
__device__ __forceinline__ void store_x(const gemm_params &p, const float2 (&statistics)[2], int half, x_regs<S> &v,
                                        uint4 *x) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int e = 0; e < S::each; e++) {
        int operand = warp * S::each + e, k = half * 32 + operand % 2 * 16 + 4 * (lane % 4);
        uint4 a[S::x_terms];
        if (p.f.gamma) {
            float4 gamma = load_vec4<false>(p.f.gamma, p.f.k, k), beta = load_vec4<false>(p.f.beta, p.f.k, k);
            v.at[e][0] = norm4(v.at[e][0], statistics[0], gamma, beta);
            v.at[e][1] = norm4(v.at[e][1], statistics[1], gamma, beta);
        }
        make_operand<S::x_terms>(v.at[e][0], v.at[e][1], a);
#pragma unroll
        for (int term = 0; term < S::x_terms; term++)
            x[(operand * S::x_terms + term) * WARP_SIZE + lane] = a[term];
    }
}

/* Half a block of weights: four pieces of 128 bytes of each tile and term. */
template <typename S> __device__ __forceinline__ void copy_w(const gemm_params &p, int first_tile, int half, uint4 *w) {
    for (int i = threadIdx.x; i < S::w_stage; i += S::threads) {
        int of = i / WARP_SIZE % S::w_terms, tile = first_tile + i / WARP_SIZE / S::w_terms;
        bool there = half < 2 * p.blocks && tile < p.tiles;
        const char *from = (const char *)p.f.weight.bytes;
        if (there)
            from += ((int64_t)(half / 2) * p.tiles + tile) * 1024 + half % 2 * 512 + i % WARP_SIZE * 16 +
                    of * p.w_term_bytes;
        cp_async_16(w + i, from, there);
    }
}

template <typename S>
__device__ __forceinline__ void multiply_half(const uint4 *x, const uint4 *w, float (&hi)[S::m_tiles][S::n_tiles][4],
                                              float (&lo)[S::m_tiles][S::n_tiles][4]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    const uint4 *my_x = x + warp / S::warps_n * S::m_tiles * 2 * S::x_terms * WARP_SIZE + lane;
    const uint32_t *my_w = (const uint32_t *)(w + warp % S::warps_n * S::n_tiles * S::w_terms * WARP_SIZE) + lane;
    uint4 a[S::m_tiles][2][S::x_terms];
#pragma unroll
    for (int i = 0; i < S::m_tiles * 2 * S::x_terms; i++)
        a[i / S::x_terms / 2][i / S::x_terms % 2][i % S::x_terms] = my_x[i * WARP_SIZE];
#pragma unroll
    for (int i = 0; i < 2 * S::n_tiles; i++) {
        uint32_t b0[S::w_terms], b1[S::w_terms];
#pragma unroll
        for (int term = 0; term < S::w_terms; term++) {
            b0[term] = my_w[((i / 2 * S::w_terms + term) * 4 + i % 2 * 2) * WARP_SIZE];
            b1[term] = my_w[((i / 2 * S::w_terms + term) * 4 + i % 2 * 2 + 1) * WARP_SIZE];
        }
#pragma unroll
        for (int mt = 0; mt < S::m_tiles; mt++)
            mma_step<S::x_terms, S::w_terms>(hi[mt][i / 2], lo[mt][i / 2], a[mt][i % 2], b0, b1);
    }
}

/* Adds a slice's sums to the totals and clears them for the next. */
template <typename S>
__device__ __forceinline__ void add_slice(float (&total)[S::m_tiles][S::n_tiles][4],
                                          float (&hi)[S::m_tiles][S::n_tiles][4],
                                          float (&lo)[S::m_tiles][S::n_tiles][4]) {
#pragma unroll
    for (int mt = 0; mt < S::m_tiles; mt++)
#pragma unroll
        for (int nt = 0; nt < S::n_tiles; nt++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                total[mt][nt][i] = __fadd_rn(total[mt][nt][i], slice_sum<S::x_terms>(hi[mt][nt][i], lo[mt][nt][i]));
                hi[mt][nt][i] = lo[mt][nt][i] = 0;
            }
}

/* The thread's results, from `row` and `column` on; the epilogue's inputs of a row are loaded all at once. */
template <typename S>
__device__ __forceinline__ void finish(const gemm_params &p, int64_t row, int column,
                                       const float (&total)[S::m_tiles][S::n_tiles][4]) {
#pragma unroll
    for (int i = 0; i < 2 * S::m_tiles; i++) {   /* rows 8 apart */
        epilogue_inputs ends[S::n_tiles];
#pragma unroll
        for (int nt = 0; nt < S::n_tiles; nt++)
            ends[nt] = epilogue_load(p, row + i * 8, column + nt * 8);
#pragma unroll
        for (int nt = 0; nt < S::n_tiles; nt++)
            epilogue_store(p, row + i * 8, column + nt * 8, total[i / 2][nt][i % 2 * 2],
                           total[i / 2][nt][i % 2 * 2 + 1], ends[nt]);
    }
}

template <typename S> __global__ void __launch_bounds__(S::threads) mma_sync_kernel(gemm_params p) {
    extern __shared__ uint4 shared[];
    uint4 *x = shared, *w = shared + S::x_stages * S::x_stage;
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    int across = (p.tiles + S::columns / 8 - 1) / (S::columns / 8);
    int first_tile = (int)(blockIdx.x % across) * (S::columns / 8);
    int64_t row = (int64_t)(blockIdx.x / across) * S::rows;
    float total[S::m_tiles][S::n_tiles][4] = {}, hi[S::m_tiles][S::n_tiles][4] = {}, lo[S::m_tiles][S::n_tiles][4] = {};
    x_row rows[2];
    float2 statistics[2] = {};
    x_regs<S> v;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int64_t r = row + warp * S::each / 2 * 16 + lane / 4 + i * 8;
        rows[i] = x_row_of(p.f, r);
        if (p.f.gamma && r < p.f.m)
            statistics[i] = ((const float2 *)p.f.scratch)[r];
    }
    for (int s = 0; s < S::w_stages - 1; s++) {
        copy_w<S>(p, first_tile, s, w + s * S::w_stage);
        cp_async_commit();
    }
    load_x<S>(p, rows, 0, v);
    store_x<S>(p, statistics, 0, v, x);
    load_x<S>(p, rows, 1, v);
    for (int half = 0, slice = 1; half < 2 * p.blocks; half++) {
        cp_async_wait<S::w_stages - 2>();
        __syncthreads();
        store_x<S>(p, statistics, half + 1, v, x + (half + 1) % S::x_stages * S::x_stage);
        copy_w<S>(p, first_tile, half + S::w_stages - 1,
                  w + (half + S::w_stages - 1) % S::w_stages * S::w_stage);
        cp_async_commit();
        load_x<S>(p, rows, half + 2, v);
        multiply_half<S>(x + half % S::x_stages * S::x_stage, w + half % S::w_stages * S::w_stage, hi, lo);
        if (half + 1 == 2 * slice_start(p, slice)) {
            add_slice<S>(total, hi, lo);
            slice++;
        }
    }
    finish<S>(p, row + warp / S::warps_n * S::m_tiles * 16 + lane / 4,
              (first_tile + warp % S::warps_n * S::n_tiles) * 8 + lane % 4 * 2, total);
}

template <typename S> static int64_t tiles_in(const gemm_params &p) {
    return (p.f.m + S::rows - 1) / S::rows * ((p.f.n + S::columns - 1) / S::columns);
}

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)mma_sync_kernel<S>, S::bytes, allowed);
    mma_sync_kernel<S><<<(unsigned)tiles_in<S>(p), S::threads, S::bytes, gpu->stream>>>(p);
}

/* The large tile, unless it leaves SMs idle. */
template <typename Large, typename Small> static void launch_best(mx_cuda *gpu, const gemm_params &p) {
    if (tiles_in<Large>(p) >= gpu->device.info.cores)
        launch<Large>(gpu, p);
    else
        launch<Small>(gpu, p);
}

}   /* namespace */

void mma_sync_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.precision == MXW_PRECISION_F16)
        launch_best<tile_shape<4, 2, 2, 8, 1, 1>, tile_shape<2, 4, 2, 2, 1, 1>>(gpu, p);
    else if (p.f.weight.terms == 1)
        launch_best<tile_shape<4, 2, 2, 6, 2, 1>, tile_shape<2, 4, 2, 2, 2, 1>>(gpu, p);
    else
        launch_best<tile_shape<4, 2, 2, 6, 2, 2>, tile_shape<2, 4, 2, 2, 2, 2>>(gpu, p);
}

}   /* namespace mx::gemm */
