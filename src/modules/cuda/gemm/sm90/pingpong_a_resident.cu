/* modules/cuda/gemm/sm90/pingpong_a_resident.cu - compiled products of very many rows on Hopper, where rows are short:
 * a block keeps the operands of 64 to 192 rows in shared memory and passes all weights by them. What limits products
 * of this kind is what comes out of the L2 cache; here each row is read once, and each weight once for so many rows.
 * Two groups of four warps have every other 64 columns. They multiply in turns, so that one multiplies while the other
 * finishes its results; before, both norm the rows and make operands of them. A thread of a third group brings the
 * weights.
 * What holds: norm, operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/sm90/epilogue_layouts.cuh"

#define STAGES_AT_MOST 8
#define BARRIERS (2 * STAGES_AT_MOST + 4)
#define BARRIER_BYTES ((BARRIERS * 8 + 127) / 128 * 128)

/* What a block has in shared memory: gates, its rows, stages of weights, rooms for results. */
template <typename S> struct held {
    static constexpr int stages = MX_MIN(S::stages, STAGES_AT_MOST);
    unsigned base;   /* its address */
    __device__ __forceinline__ unsigned barrier(int i) const { return base + i * 8; }
    __device__ __forceinline__ unsigned x_full() const { return barrier(0); }
    __device__ __forceinline__ unsigned x_empty() const { return barrier(1); }
    __device__ __forceinline__ unsigned turn(int i) const { return barrier(2 + i); }
    __device__ __forceinline__ unsigned w_full(int i) const { return barrier(4 + i); }
    __device__ __forceinline__ unsigned w_empty(int i) const { return barrier(4 + STAGES_AT_MOST + i); }
    __device__ __forceinline__ unsigned x(int block) const { return base + BARRIER_BYTES + block * S::x_bytes; }
    __device__ __forceinline__ unsigned w(int i) const { return x(S::slices * S::blocks) + i * SWAP_AB_W_BYTES; }
    __device__ __forceinline__ unsigned room(int warp) const { return w(stages) + warp * STAGING_BYTES; }
};

#if MX_HAS_WGMMA
template <typename S> __device__ __forceinline__ held<S> open_held(char *raw) {
    held<S> h;
    h.base = warp_uniform((smem_addr(raw) + 127) / 128 * 128);
    if (threadIdx.x == 0) {
        mbarrier_init(h.x_full(), 8);   /* a warp each */
        mbarrier_init(h.x_empty(), 8);
        for (int i = 0; i < h.stages; i++) {
            mbarrier_init(h.w_full(i), 1);
            mbarrier_init(h.w_empty(i), 4);
        }
        mbarrier_init(h.turn(0), 4);
        mbarrier_init(h.turn(1), 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    return h;
}

/* ---- what is brought --------------------------------------------------------------------------------------------- */

/* The rows of the next tile into the L2 cache, while those of this one are multiplied. */
template <typename S> __device__ __forceinline__ void expect_x(const gemm_params &p, int64_t tile, int64_t tiles) {
    if (threadIdx.x != 0 || tile >= tiles || (!p.f.positions && p.f.ldx != p.f.k))
        return;
    row_tile of = row_tile_of<S>(p, tile);
    if (of.left <= 0)   /* a tile of nothing but what an entry is filled up with */
        return;
    const float *from = p.f.x + of.row * p.f.k;
    int64_t n = of.left * p.f.k;
    if (p.f.positions) {   /* the first of its rows' positions, and so many as they have without a new entry */
        unsigned out = (unsigned)p.f.out_positions, entry = (unsigned)of.row / out;
        int64_t begin = (entry * p.f.positions + ((unsigned)of.row - entry * out) * p.f.stride) * p.f.channels;
        int64_t all = (p.f.m / out) * p.f.positions * p.f.channels;
        from = p.f.x + begin;
        n = min(of.left * p.f.stride * p.f.channels, all - begin);
    }
    if (n > 0)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"((unsigned)(n * 4)) : "memory");
}

/* In the order in which the groups take them: all of k for 64 columns, then for the next. */
template <typename S>
__device__ __forceinline__ void bring_weights(const gemm_params &p, const held<S> &h, int64_t rounds) {
    pipeline_state r = {0, 0};
    int groups = (int)(p.f.n / SWAP_AB_COLUMNS), fresh = h.stages;
    for (int64_t i = 0; i < rounds * groups; i++) {
        const char *from = (const char *)p.f.weight.bytes + i % groups * SWAP_AB_W_BYTES;
        for (int stage = 0; stage < S::turn; stage++) {
            if (--fresh < 0)
                mbarrier_wait(h.w_empty(r.stage), r.parity ^ 1);
            mbarrier_arrive_expect_tx(h.w_full(r.stage), SWAP_AB_W_BYTES);
            cp_async_bulk(h.w(r.stage), from, SWAP_AB_W_BYTES, h.w_full(r.stage));
            from += (int64_t)p.tiles * 1024;
            r.advance(1, h.stages);
        }
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* One group's way through its tiles. */
struct course {
    pipeline_state ring;
    int group, turns;      /* that it has had: a turn is all of k for its columns */
};

template <typename S> __device__ __forceinline__ void wait_turn(const held<S> &h, const course &c) {
    if (c.group || c.turns > 0)
        mbarrier_wait(h.turn(c.group), c.group ? c.turns % 2 : (c.turns - 1) % 2);
}

__device__ __forceinline__ void say(unsigned barrier) {
    if (threadIdx.x % WARP_SIZE == 0)
        mbarrier_arrive(barrier);
    __syncwarp();
}

/* The stage before this one was multiplied: its weights may go. */
template <typename S> __device__ __forceinline__ void let_go(const held<S> &h, const course &c) {
    say(h.w_empty(c.ring.stage ? c.ring.stage - 1 : h.stages - 1));
}

/* A slice of k into sums that begin anew. Its last stage is still multiplied behind it, as is that of the slice before
 * it if that is `followed` without a break. All is known to the compiler, which must see where sums are waited for. */
template <typename S, int slice, bool followed>
__device__ __forceinline__ void multiply_slice(const held<S> &h, course &c, float (&sums)[S::sums]) {
#pragma unroll
    for (int stage = 0; stage < S::blocks; stage++) {
        uint64_t weights = wgmma_desc(warp_uniform(h.w(c.ring.stage)));
        uint64_t x = wgmma_desc(h.x(slice * S::blocks + stage), S::eight);
        mbarrier_wait(h.w_full(c.ring.stage), c.ring.parity);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            wgmma(sums, weights + step * 16, x + step * (S::step >> 4), stage + step > 0);
        wgmma_commit();
        if (stage > 0 || followed) {
            wgmma_wait<1>();
            let_go(h, c);
        }
        c.ring.advance(1, h.stages);
    }
}

template <typename S, bool passes>
__device__ __forceinline__ void end_slice(const held<S> &h, course &c, float (&sums)[S::sums]) {
    if (passes)
        say(h.turn(c.group ^ 1));
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    let_go(h, c);
}

/* All of k: the totals are the first of `sums`. The slices are added in order; the second is multiplied right behind
 * the first, so that only rows of three wait for an addition. */
template <typename S>
__device__ __forceinline__ void multiply_tile(const held<S> &h, course &c, float (&sums)[S::sums]) {
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

/* The operands of a tile's rows, when those before have been multiplied. */
template <typename S>
__device__ __forceinline__ void load_x(const gemm_params &p, const held<S> &h, int64_t row, int round) {
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
    say(h.x_full());
    mbarrier_wait(h.x_full(), round % 2);
}

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const held<S> &h, int64_t tiles) {
    course c = {{0, 0}, (int)threadIdx.x / WARPGROUP, 0};
    int pairs = (int)(p.f.n / (2 * SWAP_AB_COLUMNS)), round = 0;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        row_tile of = row_tile_of<S>(p, tile);
        load_x<S>(p, h, of.row, round);
        for (int pair = 0; pair < pairs; pair++) {
            if (pair == (S::terms == 2 || p.f.positions ? max(pairs - 3, 0) : 0))   /* `f16`: sooner is faster */
                expect_x<S>(p, tile + gridDim.x, tiles);
            int column = (pair * 2 + c.group) * SWAP_AB_COLUMNS;
            float2 bias = load_bias(p, column);
            float sums[S::sums] = {};   /* which tells that their registers are free while rows are loaded */
            multiply_tile<S>(h, c, sums);
            if (pair + 1 == pairs)
                say(h.x_empty());
            epilogue<S>(p, of, column, h.room(threadIdx.x / WARP_SIZE), bias, sums);
        }
    }
}
#endif

template <typename S> __global__ void __launch_bounds__(SWAP_AB_THREADS, 1) held_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int64_t tiles = swap_ab_tiles<S>(p);
    held<S> h = open_held<S>(raw);
    pdl_wait();
    if (threadIdx.x / WARPGROUP == 2) {
        warpgroup_reg_dealloc();
        if (threadIdx.x == 2 * WARPGROUP)
            bring_weights<S>(p, h, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x);
    } else {
        warpgroup_reg_alloc();
        multiply_all<S>(p, h, tiles);
    }
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static int terms_of(const gemm_params &p) { return p.f.precision == MXW_PRECISION_F16 ? 1 : 2; }

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    int64_t tiles = swap_ab_tiles<S>(p);
    mx_cuda_allow_shared(gpu, (const void *)held_kernel<S>, SWAP_AB_SMEM, allowed);
    launch_kernel(gpu, held_kernel<S>, dim3((unsigned)MX_MIN(tiles, gpu->device.info.cores)), dim3(SWAP_AB_THREADS),
                  SWAP_AB_SMEM, p);
}

/* The lengths of rows that there are kernels for, in blocks of k; how many rows a block holds. */
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

/* Normed rows are all of their blocks; what is reckoned with in a convolution's entry are numbers of 32 bits. */
static int rows_are_known(const gemm_params &p) {
    return (!p.f.gamma || p.f.k == p.blocks * 64) && p.f.positions * p.f.channels <= INT32_MAX / 2 &&
           p.f.ldx <= UINT32_MAX;
}

int pingpong_can_implement(mx_cuda *gpu, const gemm_params &p) {
    const shape *s = shape_of(p);
    return s && rows_are_known(p) && p.f.x_rows == MX_LAYOUT_DENSE && epilogue_can_write(p) &&
           p.f.m * terms_of(p) >= (int64_t)s->rows * gpu->device.info.cores;
}

void pingpong_gemm(mx_cuda *gpu, const gemm_params &p) { shape_of(p)->launch[terms_of(p) - 1](gpu, p); }
