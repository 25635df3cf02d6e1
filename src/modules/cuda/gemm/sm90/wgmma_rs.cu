/* modules/cuda/gemm/sm90/wgmma_rs.cu - GEMM of many rows on Hopper, the A operand from registers: each warpgroup
 * computes 64 rows by a tile of columns. Every warp copies the rows of x that it owns through a ring of its own in
 * shared memory (cp.async) and splits them into operands while the tensor cores work on the ones before; weights come
 * by bulk copies. Invariants: K slices are reduced in order, as in gemm/skinny.cu. */
#include "modules/cuda/common/cp_async.cuh"
#include "modules/cuda/common/pipeline.cuh"
#include "modules/cuda/gemm/operand.cuh"
#include "modules/cuda/gemm/sm90/epilogue_smem.cuh"

namespace mx::gemm {

namespace wgmma_rs_kernels {

constexpr int HALF_BYTES = 2048;   /* 16 rows by 32 of k */

/* A block's tile: 64 rows to a warpgroup, `tiles` of 8 columns; `fit` blocks fit on an SM. */
template <int groups_, int tiles_, int fit_, int x_terms_, int w_terms_, bool norm_> struct rs_shape {
    static constexpr bool norm = norm_;
    static constexpr int groups = groups_, tiles = tiles_, fit = fit_, x_terms = x_terms_, w_terms = w_terms_;
    static constexpr int rows = groups * 64, threads = groups * 128, sums = tiles * 4;
    static constexpr int term = tiles * 1024, stage = term * w_terms;      /* bytes */
    static constexpr int stages = fit > 2 ? 3 : 4;                         /* of weights */
    static constexpr int halves = fit > 2 ? 4 : 6;                         /* of blocks of x in a warp's ring */
    static constexpr int pitch = smem_tile_pitch(tiles);                   /* of results, in a ring */
    static constexpr int ring = MX_MAX(halves * HALF_BYTES, 16 * pitch * 4);
    static constexpr int bytes = stages * stage + groups * 4 * ring + 2 * stages * 8 + 128;
    static_assert(fit * bytes <= 227 << 10, "shared memory of an SM");
};

#if MX_HAS_WGMMA
constexpr int AHEAD = 2;   /* blocks of weights in flight */

/* The four rows that a lane copies from: every fourth, starting with lane / 8. */
struct x_rows {
    x_row of[4];
    char *ring;
};

/* 32 of k of the warp's 16 rows, 128 bytes to a row; in odd rows the 16-byte pieces 0 to 3 and 4 to 7 are swapped, so
 * that reading two rows at once is bank-conflict free. */
template <typename S> __device__ __forceinline__ void copy_x(const x_rows &x, int half) {
    int lane = threadIdx.x % WARP_SIZE, piece = lane % 8, k = half * 32 + piece * 4;
    char *to = x.ring + half % S::halves * HALF_BYTES;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int row = lane / 8 + i * 4;
        bool there = k >= x.of[i].first && k < x.of[i].last;
        cp_async_16(to + row * 128 + (piece ^ row % 2 * 4) * 16, there ? x.of[i].at + k : x.of[0].at, there);
    }
    cp_async_commit();
}

template <typename S>
__device__ __forceinline__ void split_x(const gemm_params &p, const float2 (&statistics)[2], const char *ring, int half,
                                        uint4 (&a)[2][S::x_terms]) {
    int g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4, k = half * 32 + t * 4;
    const char *from = ring + half % S::halves * HALF_BYTES + g * 128;
#pragma unroll
    for (int step = 0; step < 2; step++) {
        int piece = (step * 4 + t) ^ g % 2 * 4;
        float4 low = *(const float4 *)(from + piece * 16), high = *(const float4 *)(from + 1024 + piece * 16);
        if (S::norm) {
            float4 gamma = load_vec4<true>(p.f.gamma, p.f.k, k + step * 16);
            float4 beta = load_vec4<true>(p.f.beta, p.f.k, k + step * 16);
            low = norm4(low, statistics[0], gamma, beta);
            high = norm4(high, statistics[1], gamma, beta);
        }
        make_operand<S::x_terms>(low, high, a[step]);
    }
}

/* Two k steps; the first of a slice starts the sums over. */
template <typename S>
__device__ __forceinline__ void multiply(float (&hi)[S::sums], float (&lo)[S::sums], const uint4 (&a)[2][S::x_terms],
                                         const char *w, int add) {
    uint64_t columns = wgmma_desc(w);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 2; step++)
        wgmma(hi, a[step][0], columns + step * 16, step > 0 || add);
    if (S::x_terms == 2)
#pragma unroll
        for (int step = 0; step < 2; step++) {
            wgmma(lo, a[step][S::x_terms - 1], columns + step * 16, step > 0 || add);
            if (S::w_terms == 2)
                wgmma(lo, a[step][0], wgmma_desc(w + S::term) + step * 16, 1);
        }
    wgmma_commit();
}

/* The ring of weights: where they come from, its stages and their mbarriers. */
template <typename S> struct weight_ring {
    const char *from;      /* of the first block */
    int64_t step;          /* bytes from block to block */
    unsigned bytes;        /* of a term of a block */
    char *shared;
    uint64_t *fulls, *empties;   /* mbarriers of the stages */
    __device__ __forceinline__ uint64_t *full(int stage) const { return &fulls[stage]; }
    __device__ __forceinline__ uint64_t *empty(int stage) const { return &empties[stage]; }
};

template <typename S>
__device__ __forceinline__ void load_weights(const gemm_params &p, const weight_ring<S> &w, int block) {
    int stage = block % S::stages, round = block / S::stages;
    if (block < p.blocks && threadIdx.x == 0) {
        if (round > 0)
            mbarrier_wait(w.empty(stage), (round - 1) % 2);
        mbarrier_arrive_expect_tx(w.full(stage), w.bytes * S::w_terms);
#pragma unroll
        for (int term = 0; term < S::w_terms; term++)
            cp_async_bulk(w.shared + stage * S::stage + term * S::term, w.from + block * w.step + term * p.w_term_bytes,
                          w.bytes, w.full(stage));
    }
    __syncwarp();
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const weight_ring<S> &w, const x_rows &x,
                                             int64_t row, float (&total)[S::sums]) {
    float hi[S::sums], lo[S::sums];
    float2 statistics[2] = {};
    uint4 a[2][2][S::x_terms];
    for (int i = 0; i < S::halves - 1; i++)
        copy_x<S>(x, i);
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (S::norm && row + i * 8 < p.f.m)
            statistics[i] = ((const float2 *)p.f.scratch)[row + i * 8];
    for (int slice = 0, block = 0; slice < p.slices; slice++) {
        for (int begin = block, end = slice_start(p, slice + 1); block < end; block++) {
            int stage = block % S::stages;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int now = block * 2 + half;
                cp_async_wait<S::halves - 2>();
                __syncwarp();
                split_x<S>(p, statistics, x.ring, now, a[half]);
                copy_x<S>(x, now + S::halves - 1);   /* over the half before this one, which every lane has read */
                if (half == 0)
                    mbarrier_wait(w.full(stage), block / S::stages % 2);
                multiply<S>(hi, lo, a[half], w.shared + stage * S::stage + half * 512, half > 0 || block > begin);
                wgmma_wait<1>();
                if (half == 0)
                    consumer_release_block<S::stages>(w, block - 1);
            }
            load_weights<S>(p, w, block + AHEAD);
        }
        add_slice_terms<S>(total, hi, lo);
    }
    cp_async_wait<0>();
}
#endif

template <typename S> __global__ void __launch_bounds__(S::threads, S::fit) wgmma_rs_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int across = (p.tiles + S::tiles - 1) / S::tiles, tile = (int)(blockIdx.x % across) * S::tiles;
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    weight_ring<S> w;
    w.from = (const char *)p.f.weight.bytes + (int64_t)tile * 1024;
    w.step = (int64_t)p.tiles * 1024;
    w.bytes = (unsigned)min(S::tiles, p.tiles - tile) * 1024;
    w.shared = raw + (128 - smem_addr(raw) % 128) % 128;
    w.fulls = (uint64_t *)(w.shared + S::stages * S::stage + S::groups * 4 * S::ring);
    w.empties = w.fulls + S::stages;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(w.full(i), 1);
            mbarrier_init(w.empty(i), S::groups * 4);   /* one arrival per warp */
        }
        fence_mbarrier_init();
    }
    for (int i = 0; i < AHEAD; i++)
        load_weights<S>(p, w, i);
    x_rows x;
    x.ring = w.shared + S::stages * S::stage + warp * S::ring;
    smem_tile<S> r = {(float *)x.ring, (int64_t)(blockIdx.x / across) * S::rows + warp * 16, tile * 8};
#pragma unroll
    for (int i = 0; i < 4; i++)
        x.of[i] = x_row_of(p.f, r.row + lane / 8 + i * 4);
    __syncthreads();
    float total[S::sums] = {};
    prefetch_residual<S>(p, r);
    multiply_all<S>(p, w, x, r.row + lane / 4, total);
    epilogue_tile<S>(p, r, total);
#endif
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

template <typename S> static int64_t tiles_in(const gemm_params &p) {
    return (p.f.m + S::rows - 1) / S::rows * ((p.tiles + S::tiles - 1) / S::tiles);
}

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)wgmma_rs_kernel<S>, S::bytes, allowed);
    wgmma_rs_kernel<S><<<(unsigned)tiles_in<S>(p), S::threads, S::bytes, gpu->stream>>>(p);
}

/* The larger tile, unless it leaves half of the SMs idle. */
template <typename Middle, typename Small> static void launch_best(mx_cuda *gpu, const gemm_params &p) {
    if (2 * tiles_in<Middle>(p) >= gpu->device.info.cores)
        launch<Middle>(gpu, p);
    else
        launch<Small>(gpu, p);
}

template <bool norm> static void launch_for(mx_cuda *gpu, const gemm_params &p) {
    using large = rs_shape<2, 16, 1, 1, 1, norm>;   /* for many waves */
    if (p.f.precision == MXW_PRECISION_F16 && tiles_in<large>(p) >= 4 * gpu->device.info.cores)
        launch<large>(gpu, p);
    else if (p.f.precision == MXW_PRECISION_F16)
        launch_best<rs_shape<1, 12, 3, 1, 1, norm>, rs_shape<1, 4, 3, 1, 1, norm>>(gpu, p);
    else if (p.f.weight.terms == 1)
        launch_best<rs_shape<1, 12, 2, 2, 1, norm>, rs_shape<1, 4, 3, 2, 1, norm>>(gpu, p);
    else
        launch<rs_shape<1, 8, 2, 2, 2, norm>>(gpu, p);
}

}   /* namespace wgmma_rs_kernels */

using namespace wgmma_rs_kernels;

void wgmma_rs_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.gamma)
        launch_for<true>(gpu, p);
    else
        launch_for<false>(gpu, p);
}

}   /* namespace mx::gemm */
