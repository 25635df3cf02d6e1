/* modules/cuda/gemm/sm90/wgmma_ss.cu - compiled products of many rows on Hopper, where each row meets many columns.
 * The rows are normed and split into operands once, by a kernel before; then both operands come in bulk, and the
 * groups of four warps, with 64 rows each, have nothing to do but multiply.
 * What holds: norm, operands and the order of the sums are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/sm90/epilogue_smem.cuh"

#define X_PART 8192          /* bytes of 64 rows by 64 of k, a part of them */
#define STAGES 3
#define AHEAD 2              /* blocks that are under way */
#define SHARED_AT_MOST (100 << 10)   /* bytes of 8 rows as operands */
#define PADDED(at) ((at) + (at) / 256 * 16)   /* 16 bytes after each 256: a row's pieces meet no bank twice */

/* ---- rows as operands -------------------------------------------------------------------------------------------- */

/* Four elements of row `in` of eight, from k on, into [block of k][part][piece][row]: as columns lie in weights. */
template <int terms> __device__ __forceinline__ void put_four(const float4 &v, int in, int k, char *to) {
    uint32_t first[terms], second[terms];
    operand_pairs<terms>(v, first, second);
#pragma unroll
    for (int term = 0; term < terms; term++) {
        char *at = to + PADDED((k / 64 * terms + term) * 1024 + k % 64 / 16 * 256) + in * 16 + k % 16 / 4 * 4;
        *(uint32_t *)at = first[term];
        *(uint32_t *)(at + 128) = second[term];
    }
}

template <int terms>
__device__ __forceinline__ void norm_and_put(const gemm_params &p, const float4 &v, float2 s, int in, int k, char *to) {
    bool there = k < p.f.k;
    float4 gamma = load_vec4<true>(p.f.gamma, p.f.k, k), beta = load_vec4<true>(p.f.beta, p.f.k, k);
    put_four<terms>(there ? norm4(v, s, gamma, beta) : make_float4(0, 0, 0, 0), in, k, to);
}

template <int terms>
__device__ __forceinline__ void put_normed(const gemm_params &p, const x_row &row, int in, int padded, char *to) {
    int lane = threadIdx.x % WARP_SIZE;
    float4 held[ROW_REGS];
    float2 s = row_stats<true>(p, row, held);
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++)
        if ((lane + i * WARP_SIZE) * 4 < padded)
            norm_and_put<terms>(p, held[i], s, in, (lane + i * WARP_SIZE) * 4, to);
    for (int k = (lane + ROW_REGS * WARP_SIZE) * 4; k < padded; k += 4 * WARP_SIZE)
        norm_and_put<terms>(p, load_row4<true>(row, k), s, in, k, to);
}

template <int terms> __device__ __forceinline__ void put_plain(const x_row &row, int in, int padded, char *to) {
    for (int first = threadIdx.x % WARP_SIZE * 4; first < padded; first += 4 * 4 * WARP_SIZE) {
        float4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = load_row4<true>(row, first + i * 4 * WARP_SIZE);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + i * 4 * WARP_SIZE < padded)
                put_four<terms>(v[i], in, first + i * 4 * WARP_SIZE, to);
    }
}

/* Eight rows to a block, one to a warp; zeros for those past the last. In scratch: [64 rows][block of k][part][8 rows],
 * each of 1024 bytes. */
template <int terms> __global__ void __launch_bounds__(BLOCK_SIZE) ready_rows_kernel(gemm_params p) {
    extern __shared__ char eight[];
    int in = threadIdx.x / WARP_SIZE;
    int64_t row = (int64_t)blockIdx.x * 8 + in;
    x_row of = x_row_of(p.f, row);
    if (p.f.gamma && row < p.f.m)
        put_normed<terms>(p, of, in, p.blocks * 64, eight);
    else
        put_plain<terms>(of, in, p.blocks * 64, eight);
    __syncthreads();
    char *to = (char *)p.f.scratch + (int64_t)(blockIdx.x / 8) * p.blocks * terms * X_PART + blockIdx.x % 8 * 1024;
    for (int i = threadIdx.x; i < p.blocks * terms * 64; i += BLOCK_SIZE)
        *(uint4 *)(to + (int64_t)(i / 64) * X_PART + i % 64 * 16) = *(const uint4 *)(eight + PADDED(i * 16));
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* A block's tile: 64 rows to a group, `tiles` of 8 columns; `fit` blocks are to fit on a multiprocessor. */
template <int groups_, int tiles_, int fit_, int x_parts_> struct ready_shape {
    static constexpr int groups = groups_, tiles = tiles_, fit = fit_, x_terms = x_parts_;
    static constexpr int rows = groups * 64, threads = groups * 128, sums = tiles * 4;
    static constexpr int x_bytes = x_terms * X_PART, stage = groups * x_bytes + tiles * 1024;
    static constexpr int pitch = SMEM_TILE_PITCH(tiles);
    static constexpr int bytes = STAGES * stage + 2 * STAGES * 8 + 128;
    static_assert(fit * bytes <= 227 << 10, "a multiprocessor's shared memory");
    static_assert(groups * 4 * 16 * pitch * 4 <= STAGES * stage, "results lie where operands did");
};

#if MX_HAS_WGMMA
/* Where operands come from, and the gates of their stages. */
template <typename S> struct feed {
    const char *x[S::groups], *w;   /* of the first block */
    int64_t w_step;                 /* bytes from block to block */
    unsigned w_bytes;
    char *shared;
    uint64_t *full, *empty;
};

template <typename S> __device__ __forceinline__ void bring(const gemm_params &p, const feed<S> &f, int block) {
    int stage = block % STAGES, round = block / STAGES;
    if (block < p.blocks && threadIdx.x == 0) {
        char *to = f.shared + stage * S::stage;
        if (round > 0)
            mbarrier_wait(&f.empty[stage], (round - 1) % 2);
        mbarrier_arrive_expect_tx(&f.full[stage], S::groups * S::x_bytes + f.w_bytes);
#pragma unroll
        for (int i = 0; i < S::groups; i++)
            cp_async_bulk(to + i * S::x_bytes, f.x[i] + (int64_t)block * S::x_bytes, S::x_bytes, &f.full[stage]);
        cp_async_bulk(to + S::groups * S::x_bytes, f.w + block * f.w_step, f.w_bytes, &f.full[stage]);
    }
    __syncwarp();
}

template <typename S> __device__ __forceinline__ void let_go(const feed<S> &f, int block) {
    if (block >= 0 && threadIdx.x % WARP_SIZE == 0)
        mbarrier_arrive(&f.empty[block % STAGES]);
    __syncwarp();
}

/* A block of k: the first of a slice begins the sums anew. */
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
            wgmma(lo, x + (X_PART >> 4) + step * 16, w + step * 16, step > 0 || add);
    wgmma_commit();
}

template <typename S>
__device__ __forceinline__ void multiply_all(const gemm_params &p, const feed<S> &f, float (&total)[S::sums]) {
    float hi[S::sums], lo[S::sums];
    for (int slice = 0, block = 0; slice < p.slices; slice++) {
        for (int begin = block, end = slice_start(p, slice + 1); block < end; block++) {
            int stage = block % STAGES;
            mbarrier_wait(&f.full[stage], block / STAGES % 2);
            multiply<S>(hi, lo, f.shared + stage * S::stage, block > begin);
            wgmma_wait<1>();
            let_go(f, block - 1);
            bring<S>(p, f, block + AHEAD);
        }
        add_slice_terms<S>(total, hi, lo);
    }
}

template <typename S> __device__ __forceinline__ void open_feed(const gemm_params &p, char *raw, int tile, feed<S> &f) {
    int64_t last = (p.f.m - 1) / 64, across = (p.tiles + S::tiles - 1) / S::tiles;
#pragma unroll
    for (int i = 0; i < S::groups; i++) {   /* of a group without rows, those of the last: nobody takes its results */
        int64_t rows = min((int64_t)(blockIdx.x / across) * S::groups + i, last);
        f.x[i] = (const char *)p.f.x + rows * p.blocks * S::x_bytes;
    }
    f.w = (const char *)p.f.weight.bytes + (int64_t)tile * 1024;
    f.w_step = (int64_t)p.tiles * 1024;
    f.w_bytes = (unsigned)min(S::tiles, p.tiles - tile) * 1024;
    f.shared = raw + (128 - smem_addr(raw) % 128) % 128;
    f.full = (uint64_t *)(f.shared + STAGES * S::stage);
    f.empty = f.full + STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            mbarrier_init(&f.full[i], 1);
            mbarrier_init(&f.empty[i], S::groups * 4);   /* a warp each */
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
}
#endif

template <typename S> __global__ void __launch_bounds__(S::threads, S::fit) ready_kernel(gemm_params p) {
#if MX_HAS_WGMMA
    extern __shared__ char raw[];
    int across = (p.tiles + S::tiles - 1) / S::tiles, tile = (int)(blockIdx.x % across) * S::tiles;
    int warp = threadIdx.x / WARP_SIZE;
    float total[S::sums] = {};
    feed<S> f;
    open_feed<S>(p, raw, tile, f);
    for (int i = 0; i < AHEAD; i++)
        bring<S>(p, f, i);
    __syncthreads();
    smem_tile<S> r = {(float *)f.shared + warp * 16 * S::pitch,
                       (int64_t)(blockIdx.x / across) * S::rows + warp * 16, tile * 8};
    prefetch_residual<S>(p, r);
    multiply_all<S>(p, f, total);
    __syncthreads();   /* no warp has need of operands any more */
    epilogue_tile<S>(p, r, total);
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

static int terms_of(const gemm_params &p) { return p.f.precision == MXW_PRECISION_F16 ? 1 : 2; }

int wgmma_ss_can_implement(const gemm_params &p) {
    int kept = gemm_needs_scratch(&p.f) && p.blocks * terms_of(p) * 1024 <= SHARED_AT_MOST;
    return (kept || p.f.x_rows == MX_LAYOUT_OPERAND) && p.f.k > 0 && (p.f.weight.terms == 1 || terms_of(p) == 1);
}

template <typename S> static int64_t tiles_in(const gemm_params &p) {
    return (p.f.m + S::rows - 1) / S::rows * ((p.tiles + S::tiles - 1) / S::tiles);
}

template <typename S> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)ready_kernel<S>, S::bytes, allowed);
    ready_kernel<S><<<(unsigned)tiles_in<S>(p), S::threads, S::bytes, gpu->stream>>>(p);
}

/* The larger tile, unless it leaves half of the multiprocessors without work. */
template <typename Large, typename Small> static void launch_best(mx_cuda *gpu, const gemm_params &p) {
    if (2 * tiles_in<Large>(p) >= gpu->device.info.cores)
        launch<Large>(gpu, p);
    else
        launch<Small>(gpu, p);
}

template <int terms> static void make_ready(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    int bytes = PADDED(p.blocks * terms * 1024);
    mx_cuda_allow_shared(gpu, (const void *)ready_rows_kernel<terms>, bytes, allowed);
    ready_rows_kernel<terms><<<(unsigned)((p.f.m + 63) / 64 * 8), BLOCK_SIZE, bytes, gpu->stream>>>(p);
}

gemm_params prepack_a(mx_cuda *gpu, const gemm_params &plain) {
    gemm_params p = plain;
    if (p.f.x_rows == MX_LAYOUT_OPERAND)
        return p;
    if (terms_of(p) == 1)
        make_ready<1>(gpu, p);
    else
        make_ready<2>(gpu, p);
    p.f.x = (const float *)p.f.scratch;
    p.f.x_rows = MX_LAYOUT_OPERAND;
    return p;
}

void wgmma_ss_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (terms_of(p) == 1)
        launch_best<ready_shape<1, 16, 3, 1>, ready_shape<1, 4, 3, 1>>(gpu, p);
    else
        launch_best<ready_shape<1, 16, 2, 2>, ready_shape<1, 4, 3, 2>>(gpu, p);
}
