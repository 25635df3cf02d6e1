/* modules/cuda/gemm/sm90/wgmma_ss.cu - GEMM of many rows on Hopper, both operands from shared memory: x is in MMA
 * operand layout already (prepack_a.cu makes it so, where its rows meet many columns), both operands come by bulk
 * copies, and the warpgroups, with 64 rows each, do nothing but multiply.
 * Invariants: norm, operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/common/pipeline.cuh"
#include "modules/cuda/gemm/sm90/epilogue_smem.cuh"

namespace mx::gemm {

namespace wgmma_ss_kernels {

constexpr int X_TILE = 8192;   /* bytes of 64 rows by 64 of k, one term */
constexpr int STAGES = 3;

/* A block's tile: 64 rows to a warpgroup, `tiles` of 8 columns; `fit` blocks fit on an SM. */
template <int groups_, int tiles_, int fit_, int x_terms_> struct ss_shape {
    static constexpr int groups = groups_, tiles = tiles_, fit = fit_, x_terms = x_terms_;
    static constexpr int rows = groups * 64, threads = groups * 128, sums = tiles * 4;
    static constexpr int x_bytes = x_terms * X_TILE, stage = groups * x_bytes + tiles * 1024;
    static constexpr int pitch = smem_tile_pitch(tiles);
    static constexpr int bytes = STAGES * stage + 2 * STAGES * 8 + 128;
    static_assert(fit * bytes <= 227 << 10, "shared memory of an SM");
    static_assert(groups * 4 * 16 * pitch * 4 <= STAGES * stage, "results reuse the space of the operands");
};

#if MX_HAS_WGMMA
constexpr int AHEAD = 2;   /* blocks in flight */

/* The ring of operands: where they come from, its stages and their mbarriers. */
template <typename S> struct operand_ring {
    const char *x[S::groups], *w;   /* of the first block */
    int64_t w_step;                 /* bytes from block to block */
    unsigned w_bytes;
    char *shared;
    uint64_t *fulls, *empties;      /* mbarriers of the stages */
    __device__ __forceinline__ uint64_t *full(int stage) const { return &fulls[stage]; }
    __device__ __forceinline__ uint64_t *empty(int stage) const { return &empties[stage]; }
};

template <typename S>
__device__ __forceinline__ void load_next(const gemm_params &p, const operand_ring<S> &f, int block) {
    int stage = block % STAGES, round = block / STAGES;
    if (block < p.blocks && threadIdx.x == 0) {
        char *to = f.shared + stage * S::stage;
        if (round > 0)
            mbarrier_wait(f.empty(stage), (round - 1) % 2);
        mbarrier_arrive_expect_tx(f.full(stage), S::groups * S::x_bytes + f.w_bytes);
#pragma unroll
        for (int i = 0; i < S::groups; i++)
            cp_async_bulk(to + i * S::x_bytes, f.x[i] + (int64_t)block * S::x_bytes, S::x_bytes, f.full(stage));
        cp_async_bulk(to + S::groups * S::x_bytes, f.w + block * f.w_step, f.w_bytes, f.full(stage));
    }
    __syncwarp();
}

/* A block of k; the first of a slice starts the sums over. */
template <typename S>
__device__ __forceinline__ void multiply(float (&hi)[S::sums], float (&lo)[S::sums], const char *stage, int add) {
    unsigned at = warp_uniform(smem_addr(stage));
    uint64_t x = wgmma_desc(at + (S::groups > 1 ? threadIdx.x / WARPGROUP * S::x_bytes : 0));
    uint64_t w = wgmma_desc(at + S::groups * S::x_bytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++)
        wgmma(hi, x + step * 16, w + step * 16, step > 0 || add);
    if (S::x_terms == 2)
#pragma unroll
        for (int step = 0; step < 4; step++)
            wgmma(lo, x + (X_TILE >> 4) + step * 16, w + step * 16, step > 0 || add);
    wgmma_commit();
}

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const operand_ring<S> &f, float (&total)[S::sums]) {
    float hi[S::sums], lo[S::sums];
    for (int slice = 0, block = 0; slice < p.slices; slice++) {
        for (int begin = block, end = slice_start(p, slice + 1); block < end; block++) {
            int stage = block % STAGES;
            mbarrier_wait(f.full(stage), block / STAGES % 2);
            multiply<S>(hi, lo, f.shared + stage * S::stage, block > begin);
            wgmma_wait<1>();
            consumer_release_block<STAGES>(f, block - 1);
            load_next<S>(p, f, block + AHEAD);
        }
        add_slice_terms<S>(total, hi, lo);
    }
}

template <typename S>
__device__ __forceinline__ void open_ring(const gemm_params &p, char *raw, int tile, operand_ring<S> &f) {
    int64_t last = (p.f.m - 1) / 64, across = (p.tiles + S::tiles - 1) / S::tiles;
#pragma unroll
    for (int i = 0; i < S::groups; i++) {   /* a warpgroup past the last rows computes those again */
        int64_t rows = min((int64_t)(blockIdx.x / across) * S::groups + i, last);
        f.x[i] = (const char *)p.f.x + rows * p.blocks * S::x_bytes;
    }
    f.w = (const char *)p.f.weight.bytes + (int64_t)tile * 1024;
    f.w_step = (int64_t)p.tiles * 1024;
    f.w_bytes = (unsigned)min(S::tiles, p.tiles - tile) * 1024;
    f.shared = raw + (128 - smem_addr(raw) % 128) % 128;
    f.fulls = (uint64_t *)(f.shared + STAGES * S::stage);
    f.empties = f.fulls + STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(f.full(i), 1);
            mbarrier_init(f.empty(i), S::groups * 4);   /* one arrival per warp */
        }
        fence_mbarrier_init();
    }
}
#endif

template <typename S> __global__ void __launch_bounds__(S::threads, S::fit) wgmma_ss_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int across = (p.tiles + S::tiles - 1) / S::tiles, tile = (int)(blockIdx.x % across) * S::tiles;
    int warp = threadIdx.x / WARP_SIZE;
    float total[S::sums] = {};
    operand_ring<S> f;
    open_ring<S>(p, raw, tile, f);
    for (int i = 0; i < AHEAD; i++)
        load_next<S>(p, f, i);
    __syncthreads();
    smem_tile<S> r = {(float *)f.shared + warp * 16 * S::pitch,
                       (int64_t)(blockIdx.x / across) * S::rows + warp * 16, tile * 8};
    prefetch_residual<S>(p, r);
    multiply_all<S>(p, f, total);
    __syncthreads();   /* every warp is done with the operands */
    epilogue_tile<S>(p, r, total);
#endif
}

}   /* namespace wgmma_ss_kernels */

using namespace wgmma_ss_kernels;

/* ---- launchers --------------------------------------------------------------------------------------------------- */

int wgmma_ss_can_implement(const gemm_params &p) {
    int operands = p.f.x_layout == MX_LAYOUT_OPERAND || prepack_a_can_implement(p);
    return operands && p.f.k > 0 && (p.f.weight.terms == 1 || x_terms_of(p.f) == 1);
}

template <typename S> static int64_t tiles_in(const gemm_params &p) {
    return (p.f.m + S::rows - 1) / S::rows * ((p.tiles + S::tiles - 1) / S::tiles);
}

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)wgmma_ss_kernel<S>, S::bytes, allowed);
    wgmma_ss_kernel<S><<<(unsigned)tiles_in<S>(p), S::threads, S::bytes, gpu->stream>>>(p);
}

/* The larger tile, unless it leaves half of the SMs idle. */
template <typename Large, typename Small> static void launch_best(mx_cuda *gpu, const gemm_params &p) {
    if (2 * tiles_in<Large>(p) >= gpu->device.info.cores)
        launch<Large>(gpu, p);
    else
        launch<Small>(gpu, p);
}

void wgmma_ss_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (x_terms_of(p.f) == 1)
        launch_best<ss_shape<1, 16, 3, 1>, ss_shape<1, 4, 3, 1>>(gpu, p);
    else
        launch_best<ss_shape<1, 16, 2, 2>, ss_shape<1, 4, 3, 2>>(gpu, p);
}

}   /* namespace mx::gemm */
