/* modules/cuda/gemm/sm90/persistent_epilogue_warps.cu - GEMM of very many rows on Hopper whose x is in MMA operand
 * layout (and, in f16, long), swap-AB: both operands stream through shared memory in blocks of 64 of k, for tiles of
 * 128 columns by 192 rows (exact: 96 rows with both terms). Such a GEMM is bound by L2 and shared memory bandwidth; a
 * tile this large needs the least of both that registers allow.
 * Persistent kernel with a static tile scheduler. Two consumer warpgroups have 64 of the columns each and do nothing
 * but multiply; they leave their sums in shared memory to three or six dedicated epilogue warps (epilogue_warps.cuh),
 * which work while the next tile is multiplied. One more warp is the producer.
 * In 8 bits a block is 128 of k, the same bytes, and any number of rows will do. Sums of 8-bit floats are one chain
 * where K is short, else slices that are added up in f32.
 * Invariants: operands and the order of the sums are those of gemm/skinny.cu; in 8 bits those of
 * pingpong_a_resident.cu. */
#include "modules/cuda/gemm/sm90/epilogue_warps.cuh"

namespace mx::gemm {

namespace persistent_kernels {

#if MX_HAS_WGMMA
/* ---- producer ---------------------------------------------------------------------------------------------------- */

/* Rows are stored in units of 64, term by term: a tile is one to three pieces of each term. Past the last unit it is
 * copied again: those rows are computed but not stored. */
template <typename S>
__device__ __forceinline__ void load_rows(const gemm_params &p, unsigned to, int64_t row, int64_t units, int block,
                                          unsigned barrier) {
    int64_t step = (int64_t)p.blocks * S::terms * OPERAND_TILE_BYTES;
    int into = (int)(row % 64) / 8;   /* eights of rows of the first unit before this tile */
    const char *from = (const char *)p.f.x + (int64_t)block * S::terms * OPERAND_TILE_BYTES;
#pragma unroll
    for (int eight = 0, i = 0; i < (S::rows + 63) / 64; i++) {
        int n = S::rows % 64 == 0 ? 8 : min(8 - into, S::rows / 8 - eight);
        const char *unit = from + min(row / 64 + i, units - 1) * step + into * 1024;
#pragma unroll
        for (int term = 0; term < S::terms; term++)
            cp_async_bulk(to + term * S::x_term_bytes + eight * 1024, unit + term * OPERAND_TILE_BYTES, n * 1024,
                          barrier);
        eight += n;
        into = 0;
    }
}

template <typename S>
__device__ __forceinline__ void produce(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    pipeline_state ring = {0, 0};
    int unused = S::stages;
    int64_t units = p.f.y_layout == MX_LAYOUT_QKV ? p.f.m / p.f.entry_rows * ((p.f.entry_rows + 63) / 64)
                                                  : (p.f.m + 63) / 64;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        tile_origin<S> at = tile_origin_of<S>(p, tile);
        const char *weights = (const char *)p.f.weight.bytes + (int64_t)at.column / 8 * 1024;
        for (int block = 0; block < p.blocks; block++) {
            unsigned to = r.stage(ring.stage), barrier = r.full(ring.stage);
            if (--unused < 0)
                producer_acquire(r, ring);
            mbarrier_arrive_expect_tx(barrier, S::stage);
            cp_async_bulk(to, weights + (int64_t)block * p.tiles * 1024, S::w_bytes, barrier);
            load_rows<S>(p, to + S::w_bytes, at.operand_row, units, block, barrier);
            ring.advance(1, S::stages);
        }
    }
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

template <typename S>
__device__ __forceinline__ void release_previous(const persistent_smem<S> &r, const pipeline_state &ring) {
    __syncwarp();
    warp_arrive(r.empty(ring.stage ? ring.stage - 1 : S::stages - 1));
}

/* The lengths of the slices in blocks, one after the other, as slice_start has them but without a division. */
struct slice_lengths {
    int all, each, more, over;
    __device__ __forceinline__ explicit slice_lengths(const gemm_params &p)
        : all(p.slices), each(p.blocks / p.slices), more(p.blocks % p.slices), over(0) {}
    __device__ __forceinline__ int next() {
        over += more;
        if (over < all)
            return each;
        over -= all;
        return each + 1;
    }
};

/* A K slice into fresh sums, for the columns of one warpgroup. */
template <typename S>
__device__ __forceinline__ void multiply_slice(const persistent_smem<S> &r, pipeline_state &ring, int group, int blocks,
                                               typename S::sum (&sums)[S::sums]) {
    for (int block = 0; block < blocks; block++) {
        unsigned at = warp_uniform(r.stage(ring.stage));
        uint64_t w = wgmma_desc(at + group * SWAP_AB_W_BYTES), x = wgmma_desc(at + S::w_bytes);
        consumer_wait(r, ring);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            mma_step<S>(sums, w + step * 16, x + step * 16, step > 0 || block > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (block > 0)
            release_previous(r, ring);
        ring.advance(1, S::stages);
    }
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    release_previous(r, ring);
}

__device__ __forceinline__ uint32_t bits_of(float v) { return __float_as_uint(v); }
__device__ __forceinline__ uint32_t bits_of(int v) { return (uint32_t)v; }

/* Hands sums to the epilogue warps: a lane's columns g and g + 8 of its warp's, of each 8 rows 2 t and 2 t + 1. */
template <typename S>
__device__ __forceinline__ void store_sums(const persistent_smem<S> &r, int group,
                                           const typename S::sum (&total)[S::totals]) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned to = r.results() + (lane % 4 * 2 * PITCH + group * SWAP_AB_COLUMNS + warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + (i / 4 * 8 * PITCH + i % 2 * PITCH + i % 4 / 2 * 8) * 4),
                     "r"(bits_of(total[i])) : "memory");
}

/* All of K of a tile. */
template <typename S>
__device__ __forceinline__ void multiply_tile(const gemm_params &p, const persistent_smem<S> &r, pipeline_state &ring,
                                              int group, slice_lengths &lengths,
                                              typename S::sum (&total)[S::totals]) {
    if constexpr (S::chain) {
        multiply_slice<S>(r, ring, group, p.blocks, total);
    } else {
        float sums[S::sums];
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            total[i] = 0;
        for (int slice = 0; slice < p.slices; slice++) {
            multiply_slice<S>(r, ring, group, lengths.next(), sums);
#pragma unroll
            for (int i = 0; i < S::totals; i++)
                total[i] = __fadd_rn(total[i], slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]));
        }
    }
}

template <typename S>
__device__ __forceinline__ void consume(const gemm_params &p, const persistent_smem<S> &r, int tiles) {
    int group = (int)warp_uniform(threadIdx.x / WARPGROUP), round = 0;
    pipeline_state ring = {0, 0};
    slice_lengths lengths(p);
    typename S::sum total[S::totals];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        multiply_tile<S>(p, r, ring, group, lengths, total);
        if (round > 0)
            mbarrier_wait(r.sums_empty(), (round - 1) % 2);
        store_sums<S>(r, group, total);
        mbarrier_arrive(r.sums_full());
    }
}
#endif

template <typename S> __global__ void __launch_bounds__(S::threads, 1) persistent_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int tiles = (int)tiles_of<S>(p);
    persistent_smem<S> r = open_smem<S>(raw);
    pdl_wait();
    if (threadIdx.x / WARPGROUP >= 2) {
        int warp = (int)threadIdx.x / WARP_SIZE - 8;
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::other_registers));
        if (warp > 0 && warp <= S::epilogue_warps)
            run_epilogue<S>(p, r, tiles);
        else if (threadIdx.x == 2 * WARPGROUP)
            produce<S>(p, r, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::consumer_registers));
        consume<S>(p, r, tiles);
    }
#endif
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

typedef persistent_shape<192, 1, 3> shape_f16;
typedef persistent_shape<96, 2, 4> shape_exact;
typedef persistent_shape<192, 1, 3, MX_CUDA_S8, true> shape_s8;
typedef persistent_shape<192, 1, 3, MX_CUDA_E4M3> shape_e4m3;
/* Of so few blocks of K an element's sum can stay where tensor cores keep it, with 14 bits or so, and a tile is done
 * too soon for three epilogue warps. */
constexpr int SHORT_BLOCKS = 12;
typedef persistent_shape<192, 1, 3, MX_CUDA_E4M3, true> shape_e4m3_short;

static int is_f16(const gemm_params &p) { return p.f.precision == MXW_PRECISION_F16; }

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)persistent_kernel<S>, S::bytes, allowed);
    launch_kernel(gpu, persistent_kernel<S>, dim3((unsigned)MX_MIN(tiles_of<S>(p), gpu->device.info.cores)),
                  dim3(S::threads), S::bytes, p);
}

}   /* namespace persistent_kernels */

using namespace persistent_kernels;

/* Whether it has an epilogue for this layout, activation and residual. Entries are padded by prepack_a. */
static int has_epilogue(const gemm_params &p) {
    int none = p.f.act == MX_ACT_NONE, gelu = p.f.act == (is_f16(p) ? ACT_GELU_SHORT : MX_ACT_GELU_ERF);
    switch (p.f.y_layout) {
    case MX_LAYOUT_DENSE: return none || gelu;
    case MX_LAYOUT_OPERAND: return gelu && !p.f.residual;
    case MX_LAYOUT_QKV: return none && !p.f.residual && p.f.x_layout == MX_LAYOUT_DENSE;
    default: return 0;
    }
}

/* Only where no SM idles for long. Short rows in f16 have more results to finish in the time of a tile than three warps
 * can. */
int persistent_can_implement(mx_cuda *gpu, const gemm_params &p) {
    int64_t tiles = is_f16(p) ? tiles_of<shape_f16>(p) : tiles_of<shape_exact>(p);
    return has_epilogue(p) && p.blocks >= (is_f16(p) ? 12 : 1) && p.f.n % COLUMNS == 0 &&
           tiles >= 2 * gpu->device.info.cores && tiles <= INT32_MAX;
}

/* In 8 bits it takes what has such weights (pack.cu, element_of). */
int persistent8_can_implement(const gemm_params &p) {
    return has_epilogue(p) && tiles_of<shape_s8>(p) <= INT32_MAX;
}

void persistent_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.weight.element == MX_CUDA_S8)
        launch<shape_s8>(gpu, p);
    else if (p.f.weight.element == MX_CUDA_E4M3 && p.blocks <= SHORT_BLOCKS)
        launch<shape_e4m3_short>(gpu, p);
    else if (p.f.weight.element == MX_CUDA_E4M3)
        launch<shape_e4m3>(gpu, p);
    else if (is_f16(p))
        launch<shape_f16>(gpu, p);
    else
        launch<shape_exact>(gpu, p);
}

}   /* namespace mx::gemm */
