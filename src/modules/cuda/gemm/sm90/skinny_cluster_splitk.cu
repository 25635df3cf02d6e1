/* modules/cuda/gemm/sm90/skinny_cluster_splitk.cu - compiled products of few rows on Hopper, as a step of one or two
 * recordings has them where a model is too large for a chain (megakernel/stages.cuh). Such a product is no more than
 * its weights on their way from memory, and whatever runs once waits for its instructions: so all weights of a block
 * are under way, in registers and shared memory, before the product before is done, and the rest is short loops.
 * A block has 8 rows, its share of the columns, and all of k, or of long rows its part: the blocks of a cluster have
 * the other parts, and leave their sums with the one that finishes a tile.
 * What holds: bits are those of gemm/skinny.cu. The two parts of a row are rows r and r + 8 of one operand. */
#include "modules/cuda/gemm/gemm.cuh"

#define FEW 8                             /* rows of a block */
#define FEW_WARPS 16
#define FEW_THREADS (FEW_WARPS * WARP_SIZE)
#define STEPS 4                           /* of 16, in a block of k */
#define ITEM (SLICE_BLOCKS * 1024)     /* bytes of a slice of k of a tile of 8 columns */
#define BLOCKS_OF_K 20                    /* that a block takes at most */
#define AT_ONCE (BLOCKS_OF_K * STEPS / FEW_WARPS)   /* fours of x that a thread brings */

/* How a product is shared out; what would be a division on the GPU is made here. */
struct few_cut {
    int split_log2;              /* of the blocks of a cluster: parts of k */
    int tiles, longer;           /* of a cluster's columns; the first `longer` clusters have one more */
    int slices, of_slice;        /* of a block's k; 2^16 / slices, rounded up */
    int steps;                   /* of 16 of k, that a block has at most */
    int stashed;                 /* items behind the first of each warp, at most */
    uint8_t starts[MAX_SLICES + 1];   /* of all slices, in blocks of k */
};

/* What a block has: rows, tiles of 8 columns, and from which slice of k on. */
struct few_share {
    int row, rows, tile, tiles, slice, start;
};

__device__ __forceinline__ few_share share_of(const gemm_params &p, const few_cut &cut, int rank) {
    int cluster = (int)blockIdx.x >> cut.split_log2;
    few_share s;
    s.row = (int)blockIdx.y * FEW;
    s.rows = min((int)p.f.m - s.row, FEW);
    s.tile = cluster * cut.tiles + min(cluster, cut.longer);
    s.tiles = cut.tiles + (cluster < cut.longer);
    s.slice = rank * cut.slices;
    s.start = cut.starts[s.slice];
    return s;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A slice of k of a tile of columns. */
struct few_item {
    int tile, slice, start, blocks;   /* tile: of the block's */
};

__device__ __forceinline__ few_item item_of(const few_cut &cut, const few_share &s, int i) {
    few_item item;
    item.tile = i * cut.of_slice >> 16;
    item.slice = s.slice + i - item.tile * cut.slices;
    item.start = cut.starts[item.slice];
    item.blocks = cut.starts[item.slice + 1] - item.start;
    return item;
}

__device__ __forceinline__ const char *weights_of(const gemm_params &p, const few_share &s, const few_item &item) {
    return (const char *)p.f.weight.bytes + ((int64_t)item.start * p.tiles + s.tile + item.tile) * 1024;
}

/* A lane's pieces, two to a step, of blocks of k that are `apart`. */
typedef uint32_t few_weights[SLICE_BLOCKS * STEPS * 2];

__device__ __forceinline__ void take_weights(const char *from, int64_t apart, int blocks, few_weights &w) {
    from += threadIdx.x % WARP_SIZE * 4;
#pragma unroll
    for (int b = 0; b < SLICE_BLOCKS; b++)
        if (b < blocks)
#pragma unroll
            for (int i = 0; i < STEPS * 2; i++)
                w[b * STEPS * 2 + i] = *(const uint32_t *)(from + b * apart + i * 128);
}

__device__ __forceinline__ void stash_weights(const char *from, int64_t apart, int blocks, char *to) {
    int at = threadIdx.x % WARP_SIZE * 16;
#pragma unroll 1
    for (int b = 0; b < blocks; b++) {
        cp_async_16(to + b * 1024 + at, from + b * apart + at, true);
        cp_async_16(to + b * 1024 + 512 + at, from + b * apart + 512 + at, true);
    }
}

/* ---- x ------------------------------------------------------------------------------------------------------------
 * Of 8 rows by 16 of k, a lane's four elements of one row, as f32 or as an operand, are 16 bytes: so the one becomes
 * the other where it lies. */

/* Mean and rate of a row that lies there, by a warp, in row_stats' order. */
__device__ __forceinline__ float2 statistics_of(const gemm_params &p, const float4 *x, int row) {
    int n = (int)p.f.k, lane = threadIdx.x % WARP_SIZE, first = lane / 4 * WARP_SIZE + row * 4 + lane % 4;
    float sum = 0, squares = 0;
#pragma unroll 2
    for (int k = lane * 4, at = first; k < n; k += 4 * WARP_SIZE, at += 8 * WARP_SIZE)
        sum = sum4(sum, x[at], 0, 4);
    float mean = row_mean(sum, n);
#pragma unroll 2
    for (int k = lane * 4, at = first; k < n; k += 4 * WARP_SIZE, at += 8 * WARP_SIZE)
        squares = sum_squares4(squares, x[at], mean, 0, 4);
    return make_float2(mean, row_rstd(squares, n, p.f.eps));
}

/* What lies there becomes operands. */
template <int x_terms>
__device__ __forceinline__ void norm_x(const gemm_params &p, int rows, uint4 *x, const float4 *gamma,
                                       const float4 *beta, float2 *statistics, int slots) {
    int warp = threadIdx.x / WARP_SIZE;
    if (warp < rows) {
        float2 s = statistics_of(p, (const float4 *)x, warp);
        if (threadIdx.x % WARP_SIZE == 0)
            statistics[warp] = s;
    }
    __syncthreads();
    int row = threadIdx.x % WARP_SIZE / 4;
    if (row < rows) {
        float2 s = statistics[row];
#pragma unroll 1
        for (int at = threadIdx.x; at < slots; at += FEW_THREADS) {
            int four = at / WARP_SIZE * 4 + at % 4;
            x[at] = make_operand8<x_terms>(scale_x(norm4(((float4 *)x)[at], s, gamma[four], beta[four])));
        }
    }
}

/* As operands, or as they are where they are to be normed. All under way at once. */
template <int x_terms>
__device__ __forceinline__ void bring_x(const gemm_params &p, const few_share &s, uint4 *x, int slots) {
    int row = threadIdx.x % WARP_SIZE / 4;
    const float *from = p.f.x + (s.row + row) * p.f.ldx + s.start * 64 + threadIdx.x / WARP_SIZE * 16 +
                        threadIdx.x % 4 * 4;
    float4 v[AT_ONCE];
    if (row >= s.rows)
        return;
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if ((int)threadIdx.x + i * FEW_THREADS < slots)
            v[i] = __ldcg((const float4 *)(from + i * FEW_WARPS * 16));
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++)
        if ((int)threadIdx.x + i * FEW_THREADS < slots)
            ((float4 *)x)[threadIdx.x + i * FEW_THREADS] = v[i];
    if (!p.f.gamma)
#pragma unroll 1
        for (int at = threadIdx.x; at < slots; at += FEW_THREADS)
            x[at] = make_operand8<x_terms>(scale_x(((float4 *)x)[at]));
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Of an item: two columns of a row to a lane. */
template <int x_terms>
__device__ __forceinline__ float2 multiply(const uint4 *x, const few_weights &w, int blocks) {
    float c[4] = {};
#pragma unroll
    for (int b = 0; b < SLICE_BLOCKS; b++) {
        if (b >= blocks)
            break;
#pragma unroll
        for (int s = 0; s < STEPS; s++)
            mma_m16n8k16(c, x[(b * STEPS + s) * WARP_SIZE], w[(b * STEPS + s) * 2], w[(b * STEPS + s) * 2 + 1]);
    }
    return make_float2(slice_sum<x_terms>(c[0], c[2]), slice_sum<x_terms>(c[1], c[3]));
}

#if __CUDA_ARCH__ >= 900
__device__ __forceinline__ void meet_cluster() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

/* To the same place in shared memory of another block of the cluster. */
__device__ __forceinline__ void leave(float2 *to, int rank, float2 v) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "st.shared::cluster.v2.f32 [there], {%2, %3}; }" ::"r"(at), "r"(rank), "f"(v.x), "f"(v.y) : "memory");
}
#endif

/* What is added to a lane's two columns of its row. */
__device__ __forceinline__ epilogue_inputs ending_of(const gemm_params &p, int row, int column) {
    epilogue_inputs e = {};
    if (p.f.bias)
        e.bias = __ldg((const float2 *)(p.f.bias + column));
    if (p.f.residual)
        e.residual = __ldcg((const float2 *)(p.f.residual + row * p.f.ld_residual + column));
    return e;
}

/* Where the row's keys and values go; -1: nowhere, since a later row's go there. */
__device__ __forceinline__ int cell_of(const gemm_params &p, const kv_cache_out &to, int row) {
    int lane = threadIdx.x % WARP_SIZE, own = lane < p.f.m ? __ldcg(to.cell + lane) : -1 - lane;
    bool again = __match_any_sync(0xffffffffu, own) >> lane > 1;
    return __shfl_sync(0xffffffffu, again ? -1 : own, row);
}

/* All slices, added in order. */
__device__ __forceinline__ void finish(const gemm_params &p, const kv_cache_out &to, int row, int cell, int column,
                                       const float2 *sums, const epilogue_inputs &e) {
    float2 all = make_float2(0, 0);
#pragma unroll 5
    for (int slice = 0; slice < p.slices; slice++) {
        float2 s = sums[slice * WARP_SIZE];
        all = make_float2(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y));
    }
    all = epilogue_apply(p.f, all.x, all.y, e);
    *(float2 *)(p.f.y + row * p.f.ldy + column) = all;
    for (int i = 0; i < 2 && cell >= 0; i++)
        if ((unsigned)(column - to.from[i]) < (unsigned)to.width)
            *(float2 *)(to.state[i] + (int64_t)cell * to.width + column - to.from[i]) = all;
}

/* Warp w has items w, w + 16 and so on, and finishes the tile w * split + rank. */
template <int x_terms>
__global__ void __launch_bounds__(FEW_THREADS, 2)
    few_kernel(const __grid_constant__ gemm_params p, const __grid_constant__ few_cut cut,
               const __grid_constant__ kv_cache_out to) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ uint4 shared[];
    __shared__ float2 statistics[FEW];
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    int split = 1 << cut.split_log2, rank = (int)blockIdx.x & (split - 1);
    few_share mine = share_of(p, cut, rank);
    int items = mine.tiles * cut.slices, slots = (cut.starts[mine.slice + cut.slices] - mine.start) * STEPS * WARP_SIZE;
    int64_t apart = (int64_t)p.tiles * 1024;
    float4 *gamma = (float4 *)(shared + cut.steps * WARP_SIZE), *beta = gamma + (p.f.gamma ? (int)p.f.k / 4 : 0);
    char *stash = (char *)(beta + (p.f.gamma ? (int)p.f.k / 4 : 0));
    float2 *sums = (float2 *)(stash + cut.stashed * ITEM) + lane;
    few_weights w;
    few_item item = item_of(cut, mine, warp);
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    if (warp < items)
        take_weights(weights_of(p, mine, item), apart, item.blocks, w);
    if (warp + FEW_WARPS < items) {
        few_item next = item_of(cut, mine, warp + FEW_WARPS);
        stash_weights(weights_of(p, mine, next), apart, next.blocks, stash + warp * ITEM);
    }
#pragma unroll 1
    for (int i = threadIdx.x; p.f.gamma && i < (int)p.f.k / 4; i += FEW_THREADS) {
        cp_async_16(gamma + i, p.f.gamma + i * 4, true);
        cp_async_16(beta + i, p.f.beta + i * 4, true);
    }
    cp_async_commit();
    pdl_wait();   /* all of these are constants, x is not */
    int ends = warp * split + rank, row = mine.row + lane / 4, column = (mine.tile + ends) * 8 + lane % 4 * 2;
    bool finishes = ends < mine.tiles && row < p.f.m;
    epilogue_inputs e = {};
    int cell = to.width ? cell_of(p, to, row) : -1;
    if (finishes)
        e = ending_of(p, row, column);
    bring_x<x_terms>(p, mine, shared, slots);
    cp_async_wait<0>();
    __syncthreads();
    if (p.f.gamma) {
        norm_x<x_terms>(p, mine.rows, shared, gamma, beta, statistics, slots);
        __syncthreads();
    }
    meet_cluster();   /* its blocks are all at work, and may be written to */
#pragma unroll 1
    for (int i = warp; i < items; i += FEW_WARPS) {
        if (i != warp) {
            item = item_of(cut, mine, i);
            take_weights(stash + warp * ITEM, 1024, item.blocks, w);
        }
        const uint4 *x = shared + (item.start - mine.start) * STEPS * WARP_SIZE + lane;
        float2 sum = multiply<x_terms>(x, w, item.blocks);
        leave(sums + ((item.tile >> cut.split_log2) * p.slices + item.slice) * WARP_SIZE, item.tile & (split - 1), sum);
    }
    if (split > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        meet_cluster();
    } else {
        __syncthreads();
    }
    if (finishes)
        finish(p, to, row, cell, column, sums + warp * p.slices * WARP_SIZE, e);
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

template <int x_terms>
static void launch(mx_cuda *gpu, const gemm_params &p, const few_cut &cut, const kv_cache_out &to, int clusters,
                   int bytes) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)few_kernel<x_terms>, bytes, allowed);
    dim3 grid((unsigned)clusters << cut.split_log2, (unsigned)((p.f.m + FEW - 1) / FEW));
    launch_cluster_kernel(gpu, few_kernel<x_terms>, 1 << cut.split_log2, grid, dim3(FEW_THREADS), (size_t)bytes, p, cut,
                          to);
}

/* Whole tiles of columns; a weight of one part. */
static int takes(mx_cuda *gpu, const gemm_params &p) {
    int half = p.f.precision == MXW_PRECISION_F16;
    return has_wgmma(gpu) && gpu->overlaps && gemm_is_regular(p) && p.even_y && p.f.n % 8 == 0 &&
           (half || p.f.weight.terms == 1);
}

int skinny_cluster_gemm(mx_cuda *gpu, const gemm_params &p, const kv_cache_out &to) {
    if (!takes(gpu, p))
        return 0;
    few_cut cut = {};
    while (p.blocks > BLOCKS_OF_K << cut.split_log2 && cut.split_log2 < 2)
        cut.split_log2++;
    int split = 1 << cut.split_log2, clusters = MX_MAX(1, MX_MIN((int)gpu->device.info.cores / split, p.tiles));
    cut.tiles = p.tiles / clusters;
    cut.longer = p.tiles % clusters;
    cut.slices = p.slices / split;
    int tiles = cut.tiles + (cut.longer > 0), items = tiles * cut.slices, normed = p.f.gamma ? (int)p.f.k : 0;
    int finished = (tiles + split - 1) / split;   /* tiles, by a block */
    if (p.blocks > BLOCKS_OF_K * split || p.slices % split || (normed && split > 1) || items > 2 * FEW_WARPS ||
        finished > FEW_WARPS)
        return 0;
    cut.of_slice = (65536 + cut.slices - 1) / cut.slices;
    cut.stashed = MX_MAX(0, items - FEW_WARPS);
    slice_starts(p, cut.starts);
    for (int rank = 0; rank < split; rank++)
        cut.steps = MX_MAX(cut.steps, STEPS * (cut.starts[(rank + 1) * cut.slices] - cut.starts[rank * cut.slices]));
    int bytes = cut.steps * 512 + 2 * normed * (int)sizeof(float) + cut.stashed * ITEM +
                finished * p.slices * WARP_SIZE * (int)sizeof(float2);
    if (bytes + 1024 > gpu->shared_bytes)
        return 0;
    if (p.f.precision == MXW_PRECISION_F16)
        launch<1>(gpu, p, cut, to, clusters, bytes);
    else
        launch<2>(gpu, p, cut, to, clusters, bytes);
    return 1;
}
