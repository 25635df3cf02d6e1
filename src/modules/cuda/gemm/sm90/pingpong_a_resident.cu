/* modules/cuda/gemm/sm90/pingpong_a_resident.cu - GEMM of very many short rows on Hopper, swap-AB, with the operands
 * of 64 to 192 rows of x resident in shared memory while all weights stream past them. Such a GEMM is bound by L2
 * bandwidth: here each row is read once, and each weight once for all those rows.
 * Persistent kernel with a static tile scheduler. Ping-pong: two consumer warpgroups take every other 64 columns, and
 * one runs its main loop while the other runs its epilogue; at the start of a tile both norm its rows and make
 * operands of them. One thread of the producer warpgroup issues the bulk copies of the weights.
 * Invariants: norm, operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/sm90/epilogue_layouts.cuh"

namespace mx::gemm {

namespace pingpong_kernels {

#if MX_HAS_WGMMA
constexpr int MAX_STAGES = 8;
constexpr int BARRIERS = 2 * MAX_STAGES + 4;
constexpr int BARRIER_BYTES = (BARRIERS * 8 + 127) / 128 * 128;

/* Shared memory of a block: mbarriers, the resident rows, the ring of weights, staging for results. */
template <typename S> struct pingpong_smem {
    static constexpr int stages = MX_MIN(S::stages, MAX_STAGES);
    unsigned base;   /* address in shared memory */
    __device__ __forceinline__ unsigned barrier(int i) const { return base + i * 8; }
    __device__ __forceinline__ unsigned x_full() const { return barrier(0); }
    __device__ __forceinline__ unsigned x_empty() const { return barrier(1); }
    __device__ __forceinline__ unsigned turn(int i) const { return barrier(2 + i); }
    __device__ __forceinline__ unsigned full(int i) const { return barrier(4 + i); }
    __device__ __forceinline__ unsigned empty(int i) const { return barrier(4 + MAX_STAGES + i); }
    __device__ __forceinline__ unsigned x(int block) const { return base + BARRIER_BYTES + block * S::x_bytes; }
    __device__ __forceinline__ unsigned w(int i) const { return x(S::slices * S::blocks) + i * SWAP_AB_W_BYTES; }
    __device__ __forceinline__ unsigned staging(int warp) const { return w(stages) + warp * STAGING_BYTES; }
};

template <typename S> __device__ __forceinline__ pingpong_smem<S> open_smem(char *raw) {
    pingpong_smem<S> h;
    h.base = warp_uniform((smem_addr(raw) + 127) / 128 * 128);
    if (threadIdx.x == 0) {
        mbarrier_init(h.x_full(), 8);   /* one arrival per warp */
        mbarrier_init(h.x_empty(), 8);
        for (int i = 0; i < h.stages; i++) {
            mbarrier_init(h.full(i), 1);
            mbarrier_init(h.empty(i), 4);
        }
        mbarrier_init(h.turn(0), 4);
        mbarrier_init(h.turn(1), 4);
        fence_mbarrier_init();
    }
    __syncthreads();
    return h;
}

/* ---- producer ---------------------------------------------------------------------------------------------------- */

/* Prefetches the rows of the next tile into L2 while those of this one are multiplied. */
template <typename S> __device__ __forceinline__ void prefetch_x(const gemm_params &p, int64_t tile, int64_t tiles) {
    if (threadIdx.x != 0 || tile >= tiles || (!p.f.positions && p.f.ldx != p.f.k))
        return;
    row_tile of = row_tile_of<S>(p, tile);
    if (of.left <= 0)   /* nothing but the padding of an entry */
        return;
    const float *from = p.f.x + of.row * p.f.k;
    int64_t n = of.left * p.f.k;
    if (p.f.positions) {   /* from the first row's positions, as many as the rows have without a new entry */
        unsigned out = (unsigned)p.f.out_positions, entry = (unsigned)of.row / out;
        int64_t begin = (entry * p.f.positions + ((unsigned)of.row - entry * out) * p.f.stride) * p.f.channels;
        int64_t all = (p.f.m / out) * p.f.positions * p.f.channels;
        from = p.f.x + begin;
        n = min(of.left * p.f.stride * p.f.channels, all - begin);
    }
    if (n > 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"((unsigned)(n * 4)) : "memory");
}

/* Streams the weights in the order of consumption: all of K for 64 columns, then for the next 64. */
template <typename S>
__device__ __forceinline__ void produce_weights(const gemm_params &p, const pingpong_smem<S> &h, int64_t rounds) {
    pipeline_state r = {0, 0};
    int groups = (int)(p.f.n / SWAP_AB_COLUMNS), unused = h.stages;
    for (int64_t i = 0; i < rounds * groups; i++) {
        const char *from = (const char *)p.f.weight.bytes + i % groups * SWAP_AB_W_BYTES;
        for (int stage = 0; stage < S::turn; stage++) {
            if (--unused < 0)
                producer_acquire(h, r);
            producer_expect(h, r, SWAP_AB_W_BYTES);
            cp_async_bulk(h.w(r.stage), from, SWAP_AB_W_BYTES, h.full(r.stage));
            from += (int64_t)p.tiles * 1024;
            r.advance(1, h.stages);
        }
    }
}

/* ---- consumers --------------------------------------------------------------------------------------------------- */

/* A consumer warpgroup's progress. */
struct consumer_state {
    pipeline_state ring;
    int group, turns;      /* turns taken: one is all of K for its 64 columns */
};

template <typename S> __device__ __forceinline__ void wait_turn(const pingpong_smem<S> &h, const consumer_state &c) {
    if (c.group || c.turns > 0)
        mbarrier_wait(h.turn(c.group), c.group ? c.turns % 2 : (c.turns - 1) % 2);
}

/* One arrival for the warp, which then reconverges. */
__device__ __forceinline__ void arrive(unsigned barrier) {
    warp_arrive(barrier);
    __syncwarp();
}

/* The stage before this one has been multiplied. */
template <typename S>
__device__ __forceinline__ void release_previous(const pingpong_smem<S> &h, const consumer_state &c) {
    consumer_release(h, c.ring.previous(h.stages));
    __syncwarp();
}

/* A K slice into fresh sums. Its last stage is still in flight on return, as is that of the slice before if this one
 * follows it without a break (`followed`). Everything is a compile-time constant: the compiler must see where sums are
 * waited for. */
template <typename S, int slice, bool followed>
__device__ __forceinline__ void multiply_slice(const pingpong_smem<S> &h, consumer_state &c, float (&sums)[S::sums]) {
#pragma unroll
    for (int stage = 0; stage < S::blocks; stage++) {
        uint64_t weights = wgmma_desc(warp_uniform(h.w(c.ring.stage)));
        uint64_t x = wgmma_desc(h.x(slice * S::blocks + stage), S::eight);
        consumer_wait(h, c.ring);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            wgmma(sums, weights + step * 16, x + step * (S::step >> 4), stage + step > 0);
        wgmma_commit();
        if (stage > 0 || followed) {
            wgmma_wait<1>();
            release_previous(h, c);
        }
        c.ring.advance(1, h.stages);
    }
}

template <typename S, bool passes>
__device__ __forceinline__ void end_slice(const pingpong_smem<S> &h, consumer_state &c, float (&sums)[S::sums]) {
    if (passes)
        arrive(h.turn(c.group ^ 1));
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    release_previous(h, c);
}

/* All of K: the totals are the first half of `sums`. Slices are reduced in order; the second is issued right behind the
 * first, so that only rows of three slices wait for an addition. */
template <typename S>
__device__ __forceinline__ void multiply_tile(const pingpong_smem<S> &h, consumer_state &c, float (&sums)[S::sums]) {
    float more[S::sums];
    if (c.group)
        c.ring.advance(S::turn, h.stages);
    wait_turn(h, c);
    multiply_slice<S, 0, false>(h, c, sums);
    if (S::slices > 1) {
        multiply_slice<S, 1, true>(h, c, more);
        end_slice<S, S::slices == 2>(h, c, more);
        wgmma_fence_operand(sums);
        merge_terms<S>(sums);
        add_slice<S>(sums, more);
    } else {
        end_slice<S, true>(h, c, sums);
        merge_terms<S>(sums);
    }
    if (S::slices > 2) {
        multiply_slice<S, 2, false>(h, c, more);
        end_slice<S, true>(h, c, more);
        add_slice<S>(sums, more);
    }
    c.turns++;
    if (!c.group)
        c.ring.advance(S::turn, h.stages);
}

/* The operands of a tile's rows, once both warpgroups are done with those of the tile before. */
template <typename S>
__device__ __forceinline__ void load_x(const gemm_params &p, const pingpong_smem<S> &h, int64_t row, int round) {
    if (round > 0)
        mbarrier_wait(h.x_empty(), (round - 1) % 2);
    constexpr int fours = (S::slices * S::blocks + 1) / 2;
    if (p.f.gamma)
        load_a_resident<S, true, dense_rows<fours, true>>(p, row, h.x(0));
    else if (p.f.positions)
        load_a_resident<S, false, conv_rows<fours>>(p, row, h.x(0));
    else
        load_a_resident<S, false, dense_rows<fours, false>>(p, row, h.x(0));
    fence_proxy_async();
    __syncwarp();
    arrive(h.x_full());
    mbarrier_wait(h.x_full(), round % 2);
}

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const pingpong_smem<S> &h, int64_t tiles) {
    consumer_state c = {{0, 0}, (int)threadIdx.x / WARPGROUP, 0};
    int pairs = (int)(p.f.n / (2 * SWAP_AB_COLUMNS)), round = 0;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        row_tile of = row_tile_of<S>(p, tile);
        load_x<S>(p, h, of.row, round);
        for (int pair = 0; pair < pairs; pair++) {
            if (pair == (S::terms == 2 || p.f.positions ? max(pairs - 3, 0) : 0))   /* f16: sooner is faster */
                prefetch_x<S>(p, tile + gridDim.x, tiles);
            int column = (pair * 2 + c.group) * SWAP_AB_COLUMNS;
            float2 bias = load_bias(p, column);
            float sums[S::sums] = {};   /* dead while rows are loaded, which frees their registers */
            multiply_tile<S>(h, c, sums);
            if (pair + 1 == pairs)
                arrive(h.x_empty());
            epilogue<S>(p, of, column, h.staging(threadIdx.x / WARP_SIZE), bias, sums);
        }
    }
}
#endif

template <typename S> __global__ void __launch_bounds__(SWAP_AB_THREADS, 1) pingpong_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int64_t tiles = swap_ab_tiles<S>(p);
    pingpong_smem<S> h = open_smem<S>(raw);
    pdl_wait();
    if (threadIdx.x / WARPGROUP == 2) {
        warpgroup_reg_dealloc();
        if (threadIdx.x == 2 * WARPGROUP)
            produce_weights<S>(p, h, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x);
    } else {
        warpgroup_reg_alloc();
        multiply_all<S>(p, h, tiles);
    }
#endif
}

/* ---- launchers --------------------------------------------------------------------------------------------------- */

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    int64_t tiles = swap_ab_tiles<S>(p);
    mx_cuda_allow_shared(gpu, (const void *)pingpong_kernel<S>, SWAP_AB_SMEM, allowed);
    launch_kernel(gpu, pingpong_kernel<S>, dim3((unsigned)MX_MIN(tiles, gpu->device.info.cores)), dim3(SWAP_AB_THREADS),
                  SWAP_AB_SMEM, p);
}

/* The lengths of rows that have a kernel, in blocks of k, and the rows that a block keeps resident. */
typedef void launcher(mx_cuda *gpu, const gemm_params &p);
static const struct shape {
    int blocks, rows;
    launcher *launch[2];   /* f16; exact, with half as many rows */
} shapes[] = {
    {4, 192, {launch<swap_ab<192, 1, 1, 4>>, launch<swap_ab<96, 2, 1, 4>>}},    /* conv1 */
    {6, 192, {launch<swap_ab<192, 1, 2, 3>>, launch<swap_ab<96, 2, 2, 3>>}},    /* tiny */
    {8, 128, {launch<swap_ab<128, 1, 2, 4>>, launch<swap_ab<64, 2, 2, 4>>}},    /* base */
    {12, 128, {launch<swap_ab<128, 1, 3, 4, 0>>, launch<swap_ab<64, 2, 3, 4, 0>>}},   /* small */
};

static const shape *shape_of(const gemm_params &p) {
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (shapes[i].blocks == p.blocks)
            return &shapes[i];
    return NULL;
}

/* Normed rows are whole blocks of k; offsets within an entry of a convolution are 32-bit numbers. */
static int rows_fit(const gemm_params &p) {
    return (!p.f.gamma || p.f.k == p.blocks * 64) && p.f.positions * p.f.channels <= INT32_MAX / 2 &&
           p.f.ldx <= UINT32_MAX;
}

}   /* namespace pingpong_kernels */

using namespace pingpong_kernels;

int pingpong_can_implement(mx_cuda *gpu, const gemm_params &p) {
    const shape *s = shape_of(p);
    return s && rows_fit(p) && p.f.x_layout == MX_LAYOUT_DENSE && epilogue_can_write(p) &&
           p.f.m * x_terms_of(p.f) >= (int64_t)s->rows * gpu->device.info.cores;
}

void pingpong_gemm(mx_cuda *gpu, const gemm_params &p) { shape_of(p)->launch[x_terms_of(p.f) - 1](gpu, p); }

}   /* namespace mx::gemm */
