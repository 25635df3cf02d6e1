/* modules/cuda/gemm/sm90/skinny_cluster_splitk.cu - GEMM of few rows on Hopper, as in a decoder step of one or two
 * sessions whose model is too large for the megakernel. Such a GEMM is nothing but reading its weights, and code that
 * runs once waits for its instructions: so a block has all its weights in flight, in registers and shared memory,
 * before griddepcontrol.wait (PDL), and the rest is short loops.
 * A block has 8 rows, its share of the columns, and all of K or, for long rows, a part: cluster split-K, where partial
 * sums are reduced through distributed shared memory by the block that finishes a tile.
 * Invariants: bits are those of gemm/skinny.cu. The two terms of a row are rows r and r + 8 of one A operand. */
#include <assert.h>

#include "modules/cuda/common/cp_async.cuh"
#include "modules/cuda/common/mbarrier.cuh"
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

namespace {

constexpr int ROWS = 8;   /* of a block */
constexpr int WARPS = 16;
constexpr int THREADS = WARPS * WARP_SIZE;
constexpr int STEPS = 4;   /* of 16 of k, in a block of 64 */
constexpr int ITEM_BYTES = SLICE_BLOCKS * 1024;   /* of a K slice of 8 columns */
constexpr int MAX_BLOCKS_OF_K = 20;   /* of a thread block */

/* How a GEMM is split; divisions are done here, on the host. */
struct split_plan {
    int split_log2;              /* blocks of a cluster: parts of K */
    int tiles, longer;           /* of a cluster; the first `longer` clusters have one more */
    int slices, of_slice;        /* of a block; 2^16 / slices, rounded up */
    int steps;                   /* of 16 of k, of a block at most */
    int waiting;                 /* items after the first of each warp, at most: they wait in shared memory */
    uint8_t starts[MAX_SLICES + 1];   /* of all slices, in blocks of k */
};

#if MX_HAS_WGMMA
constexpr int LOADS = MAX_BLOCKS_OF_K * STEPS / WARPS;   /* float4s of x of a thread */

/* A block's share: rows, tiles of 8 columns, its first K slice and the block of k that it starts with. */
struct block_share {
    int row, rows, tile, tiles, slice, start;
};

__device__ __forceinline__ block_share share_of(const gemm_params &p, const split_plan &plan, int rank) {
    int cluster = (int)blockIdx.x >> plan.split_log2;
    block_share s;
    s.row = (int)blockIdx.y * ROWS;
    s.rows = min((int)p.f.m - s.row, ROWS);
    s.tile = cluster * plan.tiles + min(cluster, plan.longer);
    s.tiles = plan.tiles + (cluster < plan.longer);
    s.slice = rank * plan.slices;
    s.start = plan.starts[s.slice];
    return s;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A K slice of a tile of 8 columns: the work of a warp. */
struct work_item {
    int tile, slice, start, blocks;   /* tile: within the block's share */
};

__device__ __forceinline__ work_item item_of(const split_plan &plan, const block_share &s, int i) {
    work_item item;
    item.tile = i * plan.of_slice >> 16;
    item.slice = s.slice + i - item.tile * plan.slices;
    item.start = plan.starts[item.slice];
    item.blocks = plan.starts[item.slice + 1] - item.start;
    return item;
}

__device__ __forceinline__ const char *weights_of(const gemm_params &p, const block_share &s, const work_item &item) {
    return (const char *)p.f.weight.bytes + ((int64_t)item.start * p.tiles + s.tile + item.tile) * 1024;
}

/* A lane's registers of an item, two to a step; its blocks of k are `apart` bytes apart. */
typedef uint32_t item_weights[SLICE_BLOCKS * STEPS * 2];

__device__ __forceinline__ void load_weights(const char *from, int64_t apart, int blocks, item_weights &w) {
    from += threadIdx.x % WARP_SIZE * 4;
#pragma unroll
    for (int b = 0; b < SLICE_BLOCKS; b++)
        if (b < blocks)
#pragma unroll
            for (int i = 0; i < STEPS * 2; i++)
                w[b * STEPS * 2 + i] = *(const uint32_t *)(from + b * apart + i * 128);
}

__device__ __forceinline__ void prefetch_weights(const char *from, int64_t apart, int blocks, char *to) {
    int at = threadIdx.x % WARP_SIZE * 16;
#pragma unroll 1
    for (int b = 0; b < blocks; b++) {
        cp_async_16(to + b * 1024 + at, from + b * apart + at, true);
        cp_async_16(to + b * 1024 + 512 + at, from + b * apart + 512 + at, true);
    }
}

/* ---- x ------------------------------------------------------------------------------------------------------------
 * A lane's four elements of a row are 16 bytes, as f32 and as an operand: the conversion is in place. */

/* Mean and 1 / sqrt(variance + eps) of a row in shared memory, by a warp, summed in the order of row_stats. */
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

/* Norms x in place, into operands. */
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
        for (int at = threadIdx.x; at < slots; at += THREADS) {
            int four = at / WARP_SIZE * 4 + at % 4;
            x[at] = make_operand8<x_terms>(scale_x(norm4(((float4 *)x)[at], s, gamma[four], beta[four])));
        }
    }
}

/* Loads x, all of it in flight at once: as operands, or as f32 if it is to be normed. */
template <int x_terms>
__device__ __forceinline__ void load_x(const gemm_params &p, const block_share &s, uint4 *x, int slots) {
    int row = threadIdx.x % WARP_SIZE / 4;
    const float *from = p.f.x + (s.row + row) * p.f.ldx + s.start * 64 + threadIdx.x / WARP_SIZE * 16 +
                        threadIdx.x % 4 * 4;
    float4 v[LOADS];
    if (row >= s.rows)
        return;
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        if ((int)threadIdx.x + i * THREADS < slots)
            v[i] = __ldcg((const float4 *)(from + i * WARPS * 16));
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        if ((int)threadIdx.x + i * THREADS < slots)
            ((float4 *)x)[threadIdx.x + i * THREADS] = v[i];
    if (!p.f.gamma)
#pragma unroll 1
        for (int at = threadIdx.x; at < slots; at += THREADS)
            x[at] = make_operand8<x_terms>(scale_x(((float4 *)x)[at]));
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* An item's sums: two columns of a row to a lane. */
template <int x_terms>
__device__ __forceinline__ float2 multiply(const uint4 *x, const item_weights &w, int blocks) {
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

__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

/* Stores to the same address in the shared memory of another block of the cluster. */
__device__ __forceinline__ void store_remote(float2 *to, int rank, float2 v) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .u32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "st.shared::cluster.v2.f32 [there], {%2, %3}; }" ::"r"(at), "r"(rank), "f"(v.x), "f"(v.y) : "memory");
}

/* The epilogue's inputs of a lane's two columns. */
__device__ __forceinline__ epilogue_inputs load_epilogue(const gemm_params &p, int row, int column) {
    epilogue_inputs e = {};
    if (p.f.bias)
        e.bias = __ldg((const float2 *)(p.f.bias + column));
    if (p.f.residual)
        e.residual = __ldcg((const float2 *)(p.f.residual + row * p.f.ld_residual + column));
    return e;
}

/* The cache row of this row's keys and values; -1 if a later row has the same. */
__device__ __forceinline__ int cell_of(const gemm_params &p, const kv_cache_out &to, int row) {
    int lane = threadIdx.x % WARP_SIZE, own = lane < p.f.m ? __ldcg(to.cell + lane) : -1 - lane;
    bool again = __match_any_sync(0xffffffffu, own) >> lane > 1;
    return __shfl_sync(0xffffffffu, again ? -1 : own, row);
}

/* Reduces the slices in order and stores the result. */
__device__ __forceinline__ void epilogue_end(const gemm_params &p, const kv_cache_out &to, int row, int cell,
                                             int column, const float2 *sums, const epilogue_inputs &e) {
    float2 all = make_float2(0, 0);
#pragma unroll 5
    for (int slice = 0; slice < p.slices; slice++) {
        float2 s = sums[slice * WARP_SIZE];
        all = make_float2(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y));
    }
    all = epilogue_apply(p.f, all.x, all.y, e);
    *(float2 *)(p.f.y + row * p.f.ldy + column) = all;
    for (int i = 0; i < 2 && cell >= 0; i++)
        if ((unsigned)(column - to.from[i]) < (unsigned)to.width) {
            int64_t at = (int64_t)cell * to.width + column - to.from[i];
            if (to.f16)
                store_cached((__half *)to.state[i] + at, all);
            else
                store_cached((float *)to.state[i] + at, all);
        }
}
#endif

/* Warp w has items w, w + 16 and so on, and finishes tile w * split + rank. */
template <int x_terms>
__global__ void __launch_bounds__(THREADS, 2)
    skinny_cluster_kernel(const __grid_constant__ gemm_params p, const __grid_constant__ split_plan plan,
                          const __grid_constant__ kv_cache_out to) {
#if MX_HAS_WGMMA
    extern __shared__ uint4 shared[];
    __shared__ float2 statistics[ROWS];
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    int split = 1 << plan.split_log2, rank = (int)blockIdx.x & (split - 1);
    block_share mine = share_of(p, plan, rank);
    int items = mine.tiles * plan.slices,
        slots = (plan.starts[mine.slice + plan.slices] - mine.start) * STEPS * WARP_SIZE;
    int64_t apart = (int64_t)p.tiles * 1024;
    float4 *gamma = (float4 *)(shared + plan.steps * WARP_SIZE), *beta = gamma + (p.f.gamma ? (int)p.f.k / 4 : 0);
    char *stash = (char *)(beta + (p.f.gamma ? (int)p.f.k / 4 : 0));
    float2 *sums = (float2 *)(stash + plan.waiting * ITEM_BYTES) + lane;
    item_weights w;
    work_item item = item_of(plan, mine, warp);
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    if (warp < items)
        load_weights(weights_of(p, mine, item), apart, item.blocks, w);
    if (warp + WARPS < items) {
        work_item next = item_of(plan, mine, warp + WARPS);
        prefetch_weights(weights_of(p, mine, next), apart, next.blocks, stash + warp * ITEM_BYTES);
    }
#pragma unroll 1
    for (int i = threadIdx.x; p.f.gamma && i < (int)p.f.k / 4; i += THREADS) {
        cp_async_16(gamma + i, p.f.gamma + i * 4, true);
        cp_async_16(beta + i, p.f.beta + i * 4, true);
    }
    cp_async_commit();
    pdl_wait();   /* all of these are constants; x is not */
    int end_tile = warp * split + rank, row = mine.row + lane / 4, column = (mine.tile + end_tile) * 8 + lane % 4 * 2;
    bool finishes = end_tile < mine.tiles && row < p.f.m;
    epilogue_inputs e = {};
    int cell = to.width ? cell_of(p, to, row) : -1;
    if (finishes)
        e = load_epilogue(p, row, column);
    load_x<x_terms>(p, mine, shared, slots);
    cp_async_wait<0>();
    __syncthreads();
    if (p.f.gamma) {
        norm_x<x_terms>(p, mine.rows, shared, gamma, beta, statistics, slots);
        __syncthreads();
    }
    cluster_wait();   /* all its blocks have started: their shared memory may be written */
#pragma unroll 1
    for (int i = warp; i < items; i += WARPS) {
        if (i != warp) {
            item = item_of(plan, mine, i);
            load_weights(stash + warp * ITEM_BYTES, 1024, item.blocks, w);
        }
        const uint4 *x = shared + (item.start - mine.start) * STEPS * WARP_SIZE + lane;
        float2 sum = multiply<x_terms>(x, w, item.blocks);
        store_remote(sums + ((item.tile >> plan.split_log2) * p.slices + item.slice) * WARP_SIZE,
                     item.tile & (split - 1), sum);
    }
    if (split > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        cluster_wait();
    } else {
        __syncthreads();
    }
    if (finishes)
        epilogue_end(p, to, row, cell, column, sums + warp * p.slices * WARP_SIZE, e);
#endif
}

/* ---- launcher ---------------------------------------------------------------------------------------------------- */

template <int x_terms>
static void launch(mx_cuda *gpu, const gemm_params &p, const split_plan &plan, const kv_cache_out &to, int clusters,
                   int bytes) {
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)skinny_cluster_kernel<x_terms>, bytes, allowed);
    dim3 grid((unsigned)clusters << plan.split_log2, (unsigned)((p.f.m + ROWS - 1) / ROWS));
    launch_cluster_kernel(gpu, skinny_cluster_kernel<x_terms>, 1 << plan.split_log2, grid, dim3(THREADS), (size_t)bytes,
                          p, plan, to);
}

/* Splits the GEMM; the clusters and bytes of shared memory of the launch. 0: this kernel cannot implement it. It needs
 * whole tiles of columns and a weight of one term. */
static int make_plan(const mx_cuda *gpu, const gemm_params &p, split_plan *plan, int *clusters, int *bytes) {
    if (!gpu->has_wgmma || !gpu->has_pdl || !gemm_is_regular(p) || !p.even_y || p.f.n % 8 ||
        (x_terms_of(p.f) == 2 && p.f.weight.terms != 1))
        return 0;
    *plan = split_plan{};
    while (p.blocks > MAX_BLOCKS_OF_K << plan->split_log2 && plan->split_log2 < 2)
        plan->split_log2++;
    int split = 1 << plan->split_log2;
    *clusters = MX_MAX(1, MX_MIN((int)gpu->device.info.cores / split, p.tiles));
    plan->tiles = p.tiles / *clusters;
    plan->longer = p.tiles % *clusters;
    plan->slices = p.slices / split;
    int tiles = plan->tiles + (plan->longer > 0), items = tiles * plan->slices, normed = p.f.gamma ? (int)p.f.k : 0;
    int finished = (tiles + split - 1) / split;   /* tiles of a block */
    if (p.blocks > MAX_BLOCKS_OF_K * split || p.slices % split || (normed && split > 1) || items > 2 * WARPS ||
        finished > WARPS)
        return 0;
    plan->of_slice = (65536 + plan->slices - 1) / plan->slices;
    plan->waiting = MX_MAX(0, items - WARPS);
    slice_starts(p, plan->starts);
    for (int rank = 0; rank < split; rank++)
        plan->steps = MX_MAX(plan->steps, STEPS * (plan->starts[(rank + 1) * plan->slices] -
                                                   plan->starts[rank * plan->slices]));
    *bytes = plan->steps * 512 + 2 * normed * (int)sizeof(float) + plan->waiting * ITEM_BYTES +
             finished * p.slices * WARP_SIZE * (int)sizeof(float2);
    return *bytes + 1024 <= gpu->shared_bytes;
}

}   /* namespace */

int skinny_cluster_can_implement(mx_cuda *gpu, const gemm_params &p) {
    split_plan plan;
    int clusters, bytes;
    return make_plan(gpu, p, &plan, &clusters, &bytes);
}

void skinny_cluster_gemm(mx_cuda *gpu, const gemm_params &p, const kv_cache_out &to) {
    split_plan plan;
    int clusters, bytes;
    int made = make_plan(gpu, p, &plan, &clusters, &bytes);
    assert(made && "asked by skinny_cluster_can_implement before");
    (void)made;
    if (x_terms_of(p.f) == 1)
        launch<1>(gpu, p, plan, to, clusters, bytes);
    else
        launch<2>(gpu, p, plan, to, clusters, bytes);
}

}   /* namespace mx::gemm */
