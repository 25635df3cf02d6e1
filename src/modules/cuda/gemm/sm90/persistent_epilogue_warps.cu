/* modules/cuda/gemm/sm90/persistent_epilogue_warps.cu - compiled products of very many rows on Hopper, where rows are
 * operands already (and, in `f16`, long): both operands pass through shared memory, in blocks of 64 of k, 128 columns
 * by 192 rows (`exact`: 96 rows, both parts of them). What limits products of this kind is what comes out of the L2
 * cache and goes through shared memory: a tile this large has the least of both that registers allow.
 * A block stays and takes tile after tile. Two groups of four warps have 64 of the columns each and do nothing but
 * multiply; they leave their sums in shared memory to three warps that finish them meanwhile. One more warp brings
 * operands.
 * What holds: operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/sm90/swap_ab.cuh"

#define COLUMNS (2 * SWAP_AB_COLUMNS)
#define PITCH (COLUMNS + 4)      /* floats of a row of sums: eight columns by four pairs of rows meet no bank twice */
#define FINISHERS 3              /* warps */
#define AT_ONCE 8                /* rows of a finisher; half as many of those that are more work */
/* Of a group. A kernel of three begins with 168 each: more than that together would be waited for without an end. */
#define REGISTERS_MULTIPLY 208
#define REGISTERS_ELSE 88
static_assert(2 * REGISTERS_MULTIPLY + REGISTERS_ELSE <= 3 * 168, "registers of a block");

template <int rows_, int terms_, int stages_> struct passed {
    static constexpr int rows = rows_, terms = terms_, stages = stages_;
    static constexpr int sums = rows * terms / 2, totals = rows / 2;   /* floats of a lane */
    static constexpr int x_term_bytes = rows * 128, x_bytes = x_term_bytes * terms, w_bytes = 2 * SWAP_AB_W_BYTES;
    static constexpr int stage = w_bytes + x_bytes;
    static constexpr int gates_at = stages * stage, results_at = gates_at + 128;
    static constexpr int bytes = results_at + rows * PITCH * 4 + 128;   /* to begin with a multiple of 128 */
    static_assert(bytes <= SWAP_AB_SMEM && (2 * stages + 2) * 8 <= 128, "a block's shared memory");
    static_assert(rows % (FINISHERS * AT_ONCE) == 0 && rows % 32 == 0, "rows of each finisher");
};

/* Tiles of the same rows are neighbours, so that blocks that run together read them out of the L2 cache. */
template <typename S> __host__ __device__ __forceinline__ int64_t tiles_of(const gemm_params &p) {
    return (p.f.m + S::rows - 1) / S::rows * (p.f.n / COLUMNS);
}

#if MX_HAS_WGMMA
template <typename S> struct place {
    int64_t row;
    int column;
};

template <typename S> __device__ __forceinline__ place<S> place_of(const gemm_params &p, int tile) {
    int across = (int)p.f.n / COLUMNS, down = tile / across;
    return {(int64_t)down * S::rows, (tile - down * across) * COLUMNS};
}

/* What a block has in shared memory: stages of weights and rows, gates, sums of a tile. */
template <typename S> struct room {
    unsigned base;
    __device__ __forceinline__ unsigned stage(int i) const { return base + i * S::stage; }
    __device__ __forceinline__ unsigned barrier(int i) const { return base + S::gates_at + i * 8; }
    __device__ __forceinline__ unsigned full(int i) const { return barrier(i); }
    __device__ __forceinline__ unsigned empty(int i) const { return barrier(S::stages + i); }
    __device__ __forceinline__ unsigned sums_there() const { return barrier(2 * S::stages); }
    __device__ __forceinline__ unsigned sums_taken() const { return barrier(2 * S::stages + 1); }
    __device__ __forceinline__ unsigned results() const { return base + S::results_at; }
};

template <typename S> __device__ __forceinline__ room<S> open_room(char *raw) {
    room<S> r = {warp_uniform((smem_addr(raw) + 127) / 128 * 128)};
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::stages; i++) {
            mbarrier_init(r.full(i), 1);
            mbarrier_init(r.empty(i), 8);   /* a warp each */
        }
        mbarrier_init(r.sums_there(), 2 * WARPGROUP);   /* who writes or reads arrives, which racecheck follows */
        mbarrier_init(r.sums_taken(), FINISHERS * WARP_SIZE);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    return r;
}

__device__ __forceinline__ void say(unsigned barrier) {
    __syncwarp();
    if (threadIdx.x % WARP_SIZE == 0)
        mbarrier_arrive(barrier);
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Rows lie by 64, part by part: a tile's are one to three pieces of each part. Of a tile that ends behind the last
 * rows, those are brought again: nobody takes the results. */
template <typename S>
__device__ __forceinline__ void bring_rows(const gemm_params &p, unsigned to, int64_t row, int block,
                                           unsigned barrier) {
    int64_t units = (p.f.m + 63) / 64, step = (int64_t)p.blocks * S::terms * OPERAND_TILE_BYTES;
    int into = (int)(row % 64) / 8;   /* eights of the first unit that are not this tile's */
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

template <typename S> __device__ __forceinline__ void bring_all(const gemm_params &p, const room<S> &r, int tiles) {
    pipeline_state ring = {0, 0};
    int fresh = S::stages;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        place<S> at = place_of<S>(p, tile);
        const char *weights = (const char *)p.f.weight.bytes + (int64_t)at.column / 8 * 1024;
        for (int block = 0; block < p.blocks; block++) {
            unsigned to = r.stage(ring.stage), barrier = r.full(ring.stage);
            if (--fresh < 0)
                mbarrier_wait(r.empty(ring.stage), ring.parity ^ 1);
            mbarrier_arrive_expect_tx(barrier, S::stage);
            cp_async_bulk(to, weights + (int64_t)block * p.tiles * 1024, S::w_bytes, barrier);
            bring_rows<S>(p, to + S::w_bytes, at.row, block, barrier);
            ring.advance(1, S::stages);
        }
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

template <typename S> __device__ __forceinline__ void let_go(const room<S> &r, const pipeline_state &ring) {
    say(r.empty(ring.stage ? ring.stage - 1 : S::stages - 1));
}

/* The slices' lengths, in blocks, one after the other: what slice_start says, without a division. */
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

/* A slice of k into sums that begin anew, of the columns of one group. */
template <typename S>
__device__ __forceinline__ void multiply_slice(const room<S> &r, pipeline_state &ring, int group, int blocks,
                                               float (&sums)[S::sums]) {
    for (int block = 0; block < blocks; block++) {
        unsigned at = warp_uniform(r.stage(ring.stage));
        uint64_t w = wgmma_desc(at + group * SWAP_AB_W_BYTES), x = wgmma_desc(at + S::w_bytes);
        mbarrier_wait(r.full(ring.stage), ring.parity);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; step++)
            wgmma(sums, w + step * 16, x + step * 16, step > 0 || block > 0);
        wgmma_commit();
        wgmma_wait<1>();
        if (block > 0)
            let_go(r, ring);
        ring.advance(1, S::stages);
    }
    wgmma_wait<0>();
    wgmma_fence_operand(sums);
    let_go(r, ring);
}

/* Sums to where finishers take them from: a lane's columns g and g + 8 of its warp's, of 8 rows 2 t and 2 t + 1. */
template <typename S>
__device__ __forceinline__ void leave_sums(const room<S> &r, int group, const float (&total)[S::totals]) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x % WARPGROUP / WARP_SIZE;
    unsigned to = r.results() + (lane % 4 * 2 * PITCH + group * SWAP_AB_COLUMNS + warp * 16 + lane / 4) * 4;
#pragma unroll
    for (int i = 0; i < S::totals; i++)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + (i / 4 * 8 * PITCH + i % 2 * PITCH + i % 4 / 2 * 8) * 4),
                     "f"(total[i]) : "memory");
}

template <typename S> __device__ __forceinline__ void multiply_all(const gemm_params &p, const room<S> &r, int tiles) {
    int group = (int)warp_uniform(threadIdx.x / WARPGROUP), round = 0;
    pipeline_state ring = {0, 0};
    slice_lengths lengths(p);
    float sums[S::sums], total[S::totals];
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
#pragma unroll
        for (int i = 0; i < S::totals; i++)
            total[i] = 0;
        for (int slice = 0; slice < p.slices; slice++) {
            multiply_slice<S>(r, ring, group, lengths.next(), sums);
#pragma unroll
            for (int i = 0; i < S::totals; i++)
                total[i] = __fadd_rn(total[i], slice_sum<S::terms>(sums[i], sums[(S::terms - 1) * S::totals + i]));
        }
        if (round > 0)
            mbarrier_wait(r.sums_taken(), (round - 1) % 2);
        leave_sums<S>(r, group, total);
        mbarrier_arrive(r.sums_there());
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* What is added in the end is on its way to the L2 cache while the sums before are finished. Not by the engine that
 * brings operands, which would take its time for it. */
template <typename S>
__device__ __forceinline__ void expect_residual(const gemm_params &p, int tile, int tiles, int number) {
    if (tile >= tiles || p.f.residual_rows != p.f.m)   /* rows that come again are there */
        return;
    place<S> at = place_of<S>(p, tile);
    int left = (int)min(p.f.m - at.row, (int64_t)S::rows);
    const float *from = p.f.residual + (at.row + number / 4) * p.f.ld_residual + at.column + number % 4 * 32;
    for (int i = number / 4; i < left; i += FINISHERS * 8, from += FINISHERS * 8 * p.f.ld_residual)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/* A warp's way along the rows of a tile that it finishes, four columns to a lane. */
struct finishing {
    const float *more, *more_begin;   /* what is added to the next row, and to row 0 */
    int more_row;
    float *to;
    int left;                         /* rows that are to be written */
    float4 bias;
};

template <typename S>
__device__ __forceinline__ finishing begin_rows(const gemm_params &p, const place<S> &at, int first, bool residual) {
    int64_t row = at.row + first;
    int column = at.column + threadIdx.x % WARP_SIZE * 4;
    finishing f = {};
    f.to = p.f.y + row * p.f.ldy + column;
    f.left = (int)max(min(p.f.m - row, (int64_t)S::rows), (int64_t)0);
    f.bias = p.f.bias ? __ldg((const float4 *)(p.f.bias + column)) : make_float4(0, 0, 0, 0);
    if (residual) {
        f.more_row = (int)((unsigned)row % (unsigned)p.f.residual_rows);
        f.more_begin = p.f.residual + column;
        f.more = f.more_begin + f.more_row * p.f.ld_residual;
    }
    return f;
}

/* The rows after the last are those of the first: they are there, and nobody takes the results. */
__device__ __forceinline__ float4 next_more(const gemm_params &p, finishing &f) {
    float4 v = __ldcg((const float4 *)f.more);
    bool over = ++f.more_row == (int)p.f.residual_rows;
    f.more = over ? f.more_begin : f.more + p.f.ld_residual;
    f.more_row = over ? 0 : f.more_row;
    return v;
}

/* Some rows. Times 16 is exact, and no total is -0: so one rounding gives the bits of epilogue_apply, with a bias or
 * none. */
template <typename S, bool act, bool residual, int once>
__device__ __forceinline__ void finish_rows(const gemm_params &p, finishing &f, unsigned results) {
    float4 more[once];
#pragma unroll
    for (int i = 0; i < once && residual; i++)
        more[i] = next_more(p, f);
#pragma unroll
    for (int i = 0; i < once; i++, f.to += p.f.ldy) {
        float v[4];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(results + i * PITCH * 4) : "memory");
#pragma unroll
        for (int j = 0; j < 4; j++) {
            v[j] = __fmaf_rn(v[j], X_UNSCALE, (&f.bias.x)[j]);
            if (act)
                v[j] = S::terms == 1 ? gelu_short(v[j]) : gelu_erf(v[j]);
            if (residual)
                v[j] = __fadd_rn(v[j], (&more[i].x)[j]);
        }
        if (i < f.left)
            *(float4 *)f.to = make_float4(v[0], v[1], v[2], v[3]);
    }
    f.left -= once;
}

template <typename S, bool act, bool residual>
__device__ __forceinline__ void finish_all(const gemm_params &p, const room<S> &r, int tiles) {
    constexpr int each = S::rows / FINISHERS, once = act ? AT_ONCE / 2 : AT_ONCE;
    int number = threadIdx.x - 2 * WARPGROUP - WARP_SIZE, begin = number / WARP_SIZE * each, round = 0;
    unsigned results = r.results() + (begin * PITCH + number % WARP_SIZE * 4) * 4;
    if (residual)
        expect_residual<S>(p, blockIdx.x, tiles, number);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, round++) {
        finishing f = begin_rows<S>(p, place_of<S>(p, tile), begin, residual);
        if (residual)
            expect_residual<S>(p, tile + gridDim.x, tiles, number);
        mbarrier_wait(r.sums_there(), round % 2);
#pragma unroll 1
        for (int i = 0; i < each; i += once)
            finish_rows<S, act, residual, once>(p, f, results + i * PITCH * 4);
        mbarrier_arrive(r.sums_taken());
    }
}

template <typename S> __device__ __forceinline__ void finish_any(const gemm_params &p, const room<S> &r, int tiles) {
    if (p.f.act == MX_ACT_NONE && p.f.residual)
        finish_all<S, false, true>(p, r, tiles);
    else if (p.f.act == MX_ACT_NONE)
        finish_all<S, false, false>(p, r, tiles);
    else if (p.f.residual)
        finish_all<S, true, true>(p, r, tiles);
    else
        finish_all<S, true, false>(p, r, tiles);
}
#endif

template <typename S> __global__ void __launch_bounds__(SWAP_AB_THREADS, 1) passed_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int tiles = (int)tiles_of<S>(p);
    room<S> r = open_room<S>(raw);
    pdl_wait();
    if (threadIdx.x / WARPGROUP == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS_ELSE));
        if (threadIdx.x / WARP_SIZE % 4 > 0)
            finish_any<S>(p, r, tiles);
        else if (threadIdx.x % WARP_SIZE == 0)
            bring_all<S>(p, r, tiles);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_MULTIPLY));
        multiply_all<S>(p, r, tiles);
    }
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

typedef passed<192, 1, 3> passed_f16;
typedef passed<96, 2, 4> passed_exact;

static int is_f16(const gemm_params &p) { return p.f.precision == MXW_PRECISION_F16; }

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)passed_kernel<S>, S::bytes, allowed);
    launch_kernel(gpu, passed_kernel<S>, dim3((unsigned)MX_MIN(tiles_of<S>(p), gpu->device.info.cores)),
                  dim3(SWAP_AB_THREADS), S::bytes, p);
}

/* Where it leaves no multiprocessor without work for long. Short rows of `f16` have more results to finish in the time
 * of a tile than three warps can. */
int persistent_can_implement(mx_cuda *gpu, const gemm_params &p) {
    int64_t tiles = is_f16(p) ? tiles_of<passed_f16>(p) : tiles_of<passed_exact>(p);
    int act = p.f.act == MX_ACT_NONE || p.f.act == (is_f16(p) ? ACT_GELU_SHORT : MX_ACT_GELU_ERF);
    return act && p.blocks >= (is_f16(p) ? 12 : 1) && p.f.n % COLUMNS == 0 &&
           tiles >= 2 * gpu->device.info.cores && tiles <= INT32_MAX;
}

void persistent_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (is_f16(p))
        launch<passed_f16>(gpu, p);
    else
        launch<passed_exact>(gpu, p);
}
