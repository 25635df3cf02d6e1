/* modules/cuda/gemm/sm90/pingpong_a_resident.cu - GEMM of very many short rows on Hopper, swap-AB, with the operands
 * of 64 to 192 rows of x resident in shared memory while all weights stream past them. Such a GEMM is bound by L2
 * bandwidth: here each row is read once, and each weight once for all those rows.
 * Persistent kernel with a static tile scheduler. Ping-pong: two consumer warpgroups take every other 64 columns, and
 * one runs its main loop while the other runs its epilogue; at the start of a tile both norm its rows and make
 * operands of them. One thread of the producer warpgroup issues the bulk copies of the weights. In 8 bits rows are
 * operands already (quantize_rows.cu), and the producer copies them, too.
 * Invariants: norm, operands and the order of the sums are those of gemm/skinny.cu; in 8 bits those of
 * persistent_epilogue_warps.cu. */
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
    __device__ __forceinline__ unsigned ranges() const { return staging(8); }   /* gemm_row_range of the rows */
};
constexpr int RANGES_BYTES = 1024;   /* of 128 rows */

template <typename S> __device__ __forceinline__ pingpong_smem<S> open_smem(char *raw) {
    pingpong_smem<S> h;
    h.base = warp_uniform((smem_addr(raw) + 127) / 128 * 128);
    if (threadIdx.x == 0) {
        mbarrier_init(h.x_full(), S::element == MX_CUDA_F16 ? 8 : 1);   /* one arrival per warp, or the producer's */
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

/* ---- a block's work ---------------------------------------------------------------------------------------------- */

/* Tiles of rows, of each some pairs of 64 columns, one for either warpgroup. f16: whole tiles, every gridDim.x-th. In 8
 * bits: as many pairs for every block, adjacent ones, so that none is idle in the end; a tile may be shared by two. */
template <typename S> struct tile_walk {
    static constexpr bool adjacent = S::element != MX_CUDA_F16;
    int64_t tile, tiles;
    int pairs, from, to, round;   /* pairs [from, to) of the tile, which is the block's round-th */
    int64_t left;                 /* pairs from `from` on, if adjacent */

    __device__ __forceinline__ tile_walk(const gemm_params &p, int64_t n)
        : tile(blockIdx.x), tiles(n), pairs((int)(p.f.n / (2 * SWAP_AB_COLUMNS))), from(0), to(pairs), round(0),
          left(0) {
        if (adjacent) {
            int64_t all = tiles * pairs, begin = blockIdx.x * all / gridDim.x;
            left = (blockIdx.x + 1) * all / gridDim.x - begin;
            tile = begin / pairs;
            from = (int)(begin - tile * pairs);
            to = (int)min((int64_t)pairs, from + left);
        }
    }
    __device__ __forceinline__ bool there() const { return adjacent ? left > 0 : tile < tiles; }
    __device__ __forceinline__ void advance() {
        round++;
        if (adjacent) {
            left -= to - from;
            tile++;
            from = 0;
            to = (int)min((int64_t)pairs, left);
        } else {
            tile += gridDim.x;
        }
    }
    /* The one after; not there: none. */
    __device__ __forceinline__ int64_t next() const {
        return !adjacent ? tile + gridDim.x : left > to - from ? tile + 1 : tiles;
    }
};

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

/* In 8 bits: the rows of a tile, two units of 64 (past the last unit it is copied again, for rows that are not stored),
 * and what their numbers stand for. The first unit of the tile after is prefetched into L2. */
template <typename S>
__device__ __forceinline__ void load_operands(const gemm_params &p, const pingpong_smem<S> &h,
                                              const tile_walk<S> &at) {
    static_assert(S::rows == 128, "two units");
    auto first_unit = [&](int64_t tile) {
        row_tile of = row_tile_of<S>(p, tile);
        int64_t padded = (p.f.entry_rows + 63) / 64;
        return p.f.y_layout == MX_LAYOUT_QKV ? of.entry * padded + of.in / 64 : of.row / 64;
    };
    int64_t unit = first_unit(at.tile), units = p.x_rows / 64, unit_bytes = (int64_t)p.blocks * OPERAND_TILE_BYTES;
    int64_t second = min(unit + 1, units - 1);
    const char *x = (const char *)p.f.x;
    if (at.round > 0)
        mbarrier_wait(h.x_empty(), (at.round - 1) % 2);
    mbarrier_arrive_expect_tx(h.x_full(), S::turn * S::x_bytes + (S::element == MX_CUDA_S8 ? RANGES_BYTES : 0));
    for (int block = 0; block < S::turn; block++) {
        cp_async_bulk(h.x(block), x + unit * unit_bytes + block * OPERAND_TILE_BYTES, OPERAND_TILE_BYTES, h.x_full());
        cp_async_bulk(h.x(block) + OPERAND_TILE_BYTES, x + second * unit_bytes + block * OPERAND_TILE_BYTES,
                      OPERAND_TILE_BYTES, h.x_full());
    }
    if (S::element == MX_CUDA_S8) {
        cp_async_bulk(h.ranges(), p.x_ranges + unit * 64, RANGES_BYTES / 2, h.x_full());
        cp_async_bulk(h.ranges() + RANGES_BYTES / 2, p.x_ranges + second * 64, RANGES_BYTES / 2, h.x_full());
    }
    if (at.next() < at.tiles)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(x + first_unit(at.next()) * unit_bytes),
                     "r"((unsigned)unit_bytes) : "memory");
}

/* Streams the weights in the order of consumption: all of K for 64 columns, then for the next 64. */
template <typename S>
__device__ __forceinline__ void produce_weights(const gemm_params &p, const pingpong_smem<S> &h, int64_t tiles) {
    pipeline_state r = {0, 0};
    int unused = h.stages;
    for (tile_walk<S> at(p, tiles); at.there(); at.advance())
        for (int group = at.from * 2; group < at.to * 2; group++) {
            const char *from = (const char *)p.f.weight.bytes + (int64_t)group * SWAP_AB_W_BYTES;
            for (int stage = 0; stage < S::turn; stage++) {
                if (--unused < 0)
                    producer_acquire(h, r);
                producer_expect(h, r, SWAP_AB_W_BYTES);
                cp_async_bulk(h.w(r.stage), from, SWAP_AB_W_BYTES, h.full(r.stage));
                from += (int64_t)p.tiles * 1024;
                r.advance(1, h.stages);
                if constexpr (S::element != MX_CUDA_F16)   /* behind weights that need not wait for the rows' place */
                    if (group == at.from * 2 && stage == MX_MIN(h.stages, S::turn) - 1)
                        load_operands<S>(p, h, at);
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
__device__ __forceinline__ void multiply_slice(const pingpong_smem<S> &h, consumer_state &c,
                                               typename S::sum (&sums)[S::sums]) {
#pragma unroll
    for (int stage = 0; stage < S::blocks; stage++) {
        uint64_t weights = wgmma_desc(warp_uniform(h.w(c.ring.stage)));
        uint64_t x = wgmma_desc(h.x(slice * S::blocks + stage), S::eight);
        consumer_wait(h, c.ring);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            mma_step<S>(sums, weights + step * 16, x + step * (S::step >> 4), stage + step > 0);
        wgmma_commit();
        if (stage > 0 || followed) {
            wgmma_wait<1>();
            release_previous(h, c);
        }
        c.ring.advance(1, h.stages);
    }
}

template <typename S, bool passes>
__device__ __forceinline__ void end_slice(const pingpong_smem<S> &h, consumer_state &c,
                                          typename S::sum (&sums)[S::sums]) {
    if (passes)
        arrive(h.turn(c.group ^ 1));
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    release_previous(h, c);
}

/* All of K: the totals are the first half of `sums`. Slices are reduced in order; the second is issued right behind the
 * first, so that only rows of three slices wait for an addition. */
template <typename S>
__device__ __forceinline__ void multiply_tile(const pingpong_smem<S> &h, consumer_state &c,
                                              typename S::sum (&sums)[S::sums]) {
    typename S::sum more[S::sums];
    if (c.group)
        c.ring.advance(S::turn, h.stages);
    wait_turn(h, c);
    multiply_slice<S, 0, false>(h, c, sums);
    if constexpr (S::slices > 1) {
        multiply_slice<S, 1, true>(h, c, more);
        end_slice<S, S::slices == 2>(h, c, more);
        wgmma_fence_operand(sums);
        merge_terms<S>(sums);
        add_slice<S>(sums, more);
    } else {
        end_slice<S, true>(h, c, sums);
        if constexpr (S::terms == 2)
            merge_terms<S>(sums);
    }
    if constexpr (S::slices > 2) {
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
    if constexpr (S::element != MX_CUDA_F16) {
        mbarrier_wait(h.x_full(), round % 2);
        return;
    }
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

/* In 8 bits: sums as the epilogue has them of f16, at X_SCALE of their size, with the bits of end_sum
 * (epilogue_warps.cuh), since that is a power of 2. */
template <typename S>
__device__ __forceinline__ void end_sums(const gemm_params &p, const pingpong_smem<S> &h, int column,
                                         const typename S::sum (&sums)[S::sums], float (&ended)[S::sums]) {
    int lane = threadIdx.x % WARP_SIZE, at = column + threadIdx.x % WARPGROUP / WARP_SIZE * 16 + lane / 4;
    float scale[2] = {__ldg(p.w_scales + at), __ldg(p.w_scales + at + 8)};
    if constexpr (S::element == MX_CUDA_E4M3) {
#pragma unroll
        for (int i = 0; i < S::sums; i++)
            ended[i] = __fmul_rn(sums[i], __fmul_rn(scale[i / 2 % 2], X_SCALE));
    } else if constexpr (S::element == MX_CUDA_S8) {
        int of_column[2] = {__ldg(p.w_sums + at), __ldg(p.w_sums + at + 8)};
#pragma unroll
        for (int i = 0; i < S::sums; i += 4) {
            uint4 v = load_smem16(h.ranges() + (i * 2 + lane % 4 * 2) * 8);   /* of two rows */
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float row = __uint_as_float(j % 2 ? v.z : v.x);
                int all = sums[i + j] + (int)(j % 2 ? v.w : v.y) * of_column[j / 2];
                ended[i + j] = __fmul_rn((float)all, __fmul_rn(__fmul_rn(scale[j / 2], row), X_SCALE));
            }
        }
    }
}

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const pingpong_smem<S> &h, int64_t tiles) {
    consumer_state c = {{0, 0}, (int)threadIdx.x / WARPGROUP, 0};
    for (tile_walk<S> at(p, tiles); at.there(); at.advance()) {
        row_tile of = row_tile_of<S>(p, at.tile);
        load_x<S>(p, h, of.row, at.round);
        for (int pair = at.from; pair < at.to; pair++) {
            /* f16: sooner is faster */
            if (S::element == MX_CUDA_F16 && pair == (S::terms == 2 || p.f.positions ? max(at.pairs - 3, 0) : 0))
                prefetch_x<S>(p, at.next(), tiles);
            int column = (pair * 2 + c.group) * SWAP_AB_COLUMNS;
            float2 bias = load_bias(p, column);
            typename S::sum sums[S::sums] = {};   /* dead while rows are loaded, which frees their registers */
            multiply_tile<S>(h, c, sums);
            bool done = pair + 1 == at.to;
            if (done && S::element != MX_CUDA_S8)   /* else rows are still needed, for what their numbers stand for */
                arrive(h.x_empty());
            unsigned staging = h.staging(threadIdx.x / WARP_SIZE);
            if constexpr (S::element == MX_CUDA_F16) {
                epilogue<S>(p, of, column, staging, bias, sums);
            } else {
                float ended[S::sums];
                end_sums<S>(p, h, column, sums, ended);
                if (done && S::element == MX_CUDA_S8)
                    arrive(h.x_empty());
                epilogue<S>(p, of, column, staging, bias, ended);
            }
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
            produce_weights<S>(p, h, tiles);
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

/* In 8 bits, of integers and floats: the rows of large and turbo. */
typedef swap_ab<128, 1, 1, 10, 0, MX_CUDA_S8> shape_s8;
typedef swap_ab<128, 1, 1, 10, 0, MX_CUDA_E4M3> shape_e4m3;

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

/* Where a block has enough to do with rows to be worth their copy. */
int pingpong8_can_implement(mx_cuda *gpu, const gemm_params &p) {
    int64_t pairs = swap_ab_tiles<shape_s8>(p) * (p.f.n / 128);
    bool padded = p.f.y_layout != MX_LAYOUT_QKV || p.f.x_layout == MX_LAYOUT_DENSE;   /* entries, by quantize_rows */
    return p.blocks == shape_s8::turn && epilogue_can_write(p) && padded && p.f.n > p.f.k &&
           pairs >= 16 * (int64_t)gpu->device.info.cores;
}

void pingpong8_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.weight.element == MX_CUDA_S8)
        launch<shape_s8>(gpu, p);
    else
        launch<shape_e4m3>(gpu, p);
}

void pingpong_gemm(mx_cuda *gpu, const gemm_params &p) { shape_of(p)->launch[x_terms_of(p.f) - 1](gpu, p); }

}   /* namespace mx::gemm */
