/* modules/cuda/gemm/skinny.cu - compiled products of few rows, of any shape and weight, on any GPU
 * (gemm/sm90/skinny_cluster_splitk.cu has those of Whisper on Hopper): reading the weights is what takes the time, so
 * every warp has a slice of k of 8 columns under way at once, straight from global memory, before it looks at x.
 * What holds: the slices of an element meet in shared memory and are added in order. */
#include "modules/cuda/gemm/gemm.cuh"

#define ROWS 16                     /* of a block */
#define STEPS 4                     /* of 16, in a block of k */
#define SHARED_FOR_X (100 << 10)    /* bytes at most: two blocks fit on a multiprocessor */
#define SHARED_BESIDES (14 << 10)   /* for sums */

/* How a block goes about its columns. */
struct rows_cut {
    int group;          /* tiles of 8 columns that a block finishes together */
    int phase_chunks;   /* slices whose x lies in shared memory at a time */
};

/* A slice of k of a tile of columns: two pieces to a step. */
template <int w_terms> struct rows_weights { uint32_t at[w_terms][SLICE_BLOCKS * STEPS * 2]; };

template <int w_terms>
__device__ __forceinline__ void fetch(const gemm_params &p, int tile, int slice, rows_weights<w_terms> &w) {
    int start = slice_start(p, slice), n = slice_start(p, slice + 1) - start;
    const char *from = (const char *)p.f.weight.bytes + ((int64_t)start * p.tiles + tile) * 1024 +
                       threadIdx.x % WARP_SIZE * 4;
#pragma unroll
    for (int term = 0; term < w_terms; term++)
#pragma unroll
        for (int b = 0; b < SLICE_BLOCKS; b++)
            if (b < n)
#pragma unroll
                for (int i = 0; i < STEPS * 2; i++)
                    w.at[term][b * STEPS * 2 + i] =
                        __ldg((const uint32_t *)(from + term * p.w_term_bytes + (int64_t)b * p.tiles * 1024 + i * 128));
}

/* ---- x ----------------------------------------------------------------------------------------------------------- */

/* Four elements of row r, from k on, into the operands [step][part][lane] of steps from `first` on. */
template <int x_terms> __device__ __forceinline__ void put_four(const float4 &v, int r, int k, int first, uint32_t *x) {
    uint32_t low[x_terms], high[x_terms];
    operand_pairs<x_terms>(v, low, high);
#pragma unroll
    for (int term = 0; term < x_terms; term++) {
        uint32_t *at = x + (((k / 16 - first) * x_terms + term) * WARP_SIZE + r % 8 * 4 + k % 16 / 4) * 4 + r / 8;
        at[0] = low[term];
        at[2] = high[term];
    }
}

/* A normed row, all of it in shared memory: a warp reads it once. */
template <int x_terms, bool quad>
__device__ __forceinline__ void bring_normed(const gemm_params &p, const x_row &row, int r, int last, uint32_t *x) {
    int lane = threadIdx.x % WARP_SIZE;
    float4 held[ROW_REGS], gamma[ROW_REGS], beta[ROW_REGS];
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++) {
        gamma[i] = load_vec4<quad>(p.f.gamma, p.f.k, (lane + i * WARP_SIZE) * 4);
        beta[i] = load_vec4<quad>(p.f.beta, p.f.k, (lane + i * WARP_SIZE) * 4);
    }
    float2 s = row_stats<quad, true>(p, row, held);
#pragma unroll
    for (int i = 0; i < ROW_REGS; i++) {
        int k = (lane + i * WARP_SIZE) * 4;
        if (k < last)
            put_four<x_terms>(k < p.f.k ? norm4(held[i], s, gamma[i], beta[i]) : make_float4(0, 0, 0, 0), r, k, 0, x);
    }
}

/* Elements [start, last) of a row, normed if there is a norm. */
template <int x_terms, bool quad>
__device__ __forceinline__ void bring_any(const gemm_params &p, const x_row &row, int r, int start, int last,
                                          uint32_t *x) {
    int lane = threadIdx.x % WARP_SIZE;
    float2 s = make_float2(0, 0);
    if (p.f.gamma) {
        float4 held[ROW_REGS];
        s = row_stats<quad, true>(p, row, held);
    }
    for (int at = start + lane * 4; at < last; at += 4 * 4 * WARP_SIZE) {
        float4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = load_row4<quad, true>(row, at + i * 4 * WARP_SIZE);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int k = at + i * 4 * WARP_SIZE;
            if (p.f.gamma && k < p.f.k)
                v[i] = norm4(v[i], s, load_vec4<quad>(p.f.gamma, p.f.k, k), load_vec4<quad>(p.f.beta, p.f.k, k));
            if (k < last)
                put_four<x_terms>(v[i], r, k, start / 16, x);
        }
    }
}

/* x of the slices [first, last) as operands, a warp to a row. Rows that are not there are not written: whatever they
 * hold stays in their own results, which nobody takes. */
template <int x_terms, bool quad>
__device__ __forceinline__ void bring_x(const gemm_params &p, int64_t row, int first, int last, uint32_t *x) {
    int start = slice_start(p, first) * 64, end = slice_start(p, last) * 64;
    for (int r = threadIdx.x / WARP_SIZE; r < ROWS && row + r < p.f.m; r += BLOCK_WARPS) {
        x_row of = x_row_of(p.f, row + r);
        if (quad && p.f.gamma && start == 0 && end <= ROW_REGS_FLOATS)
            bring_normed<x_terms, quad>(p, of, r, end, x);
        else
            bring_any<x_terms, quad>(p, of, r, start, end, x);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The slice's sums into sums[lane]. */
template <int x_terms, int w_terms>
__device__ __forceinline__ void multiply(const uint4 *x, const rows_weights<w_terms> &w, int n, float4 *sums) {
    int lane = threadIdx.x % WARP_SIZE;
    float hi[4] = {}, lo[4] = {};
#pragma unroll
    for (int b = 0; b < SLICE_BLOCKS; b++) {
        if (b >= n)
            break;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            uint4 a[x_terms];
            uint32_t b0[w_terms], b1[w_terms];
#pragma unroll
            for (int term = 0; term < x_terms; term++)
                a[term] = x[((b * STEPS + s) * x_terms + term) * WARP_SIZE + lane];
#pragma unroll
            for (int term = 0; term < w_terms; term++) {
                b0[term] = w.at[term][(b * STEPS + s) * 2];
                b1[term] = w.at[term][(b * STEPS + s) * 2 + 1];
            }
            mma_step<x_terms, w_terms>(hi, lo, a, b0, b1);
        }
    }
    sums[lane] = make_float4(slice_sum<x_terms>(hi[0], lo[0]), slice_sum<x_terms>(hi[1], lo[1]),
                             slice_sum<x_terms>(hi[2], lo[2]), slice_sum<x_terms>(hi[3], lo[3]));
}

/* A thread's part in finishing a group: rows g and g + 8 of one lane of one tile. */
struct rows_end {
    int in_group, column;
    int64_t row;
    epilogue_inputs of[2];
};

__device__ __forceinline__ rows_end prepare_end(const gemm_params &p, int64_t row, int tile, int n_tiles) {
    int lane = threadIdx.x % WARP_SIZE;
    rows_end e = {};
    e.in_group = threadIdx.x / WARP_SIZE;
    e.column = (tile + e.in_group) * 8 + lane % 4 * 2;
    e.row = row + lane / 4;
    if (e.in_group < n_tiles) {
        e.of[0] = epilogue_load<true>(p, e.row, e.column);
        e.of[1] = epilogue_load<true>(p, e.row + 8, e.column);
    }
    return e;
}

/* All slices, added in order; sums [tile][slice][lane]. */
__device__ __forceinline__ void finish(const gemm_params &p, const rows_end &e, const float4 *sums) {
    float4 all = make_float4(0, 0, 0, 0);
    if (!e.of[0].there)
        return;
    for (int slice = 0; slice < p.slices; slice++) {
        float4 s = sums[(e.in_group * p.slices + slice) * WARP_SIZE + threadIdx.x % WARP_SIZE];
        all = make_float4(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y), __fadd_rn(all.z, s.z), __fadd_rn(all.w, s.w));
    }
    epilogue_store(p, e.row, e.column, all.x, all.y, e.of[0]);
    epilogue_store(p, e.row + 8, e.column, all.z, all.w, e.of[1]);
}

/* Items of a group are its tiles times the slices of a phase; a warp takes every BLOCK_WARPS-th. The first item's
 * weights, and what is added in the end, are fetched before x or the group before is done with; sums have two places,
 * taken in turn, so that a group needs to be waited for once. */
template <int x_terms, int w_terms, bool quad>
__global__ void __launch_bounds__(BLOCK_SIZE, 2) rows_kernel(gemm_params p, rows_cut cut) {
    extern __shared__ uint4 shared[];
    int warp = threadIdx.x / WARP_SIZE, n_first = min(cut.phase_chunks, p.slices);
    int steps = STEPS * (cut.phase_chunks >= p.slices ? p.blocks : SLICE_BLOCKS * cut.phase_chunks);
    float4 *sums = (float4 *)(shared + steps * x_terms * WARP_SIZE);
    int64_t row = (int64_t)blockIdx.y * ROWS;
    rows_weights<w_terms> w;
    bool have_x = false;
    int tile = (int)blockIdx.x * cut.group, stride = (int)gridDim.x * cut.group, turn = 0;
    if (n_first > 0 && warp < min(cut.group, p.tiles - tile) * n_first)
        fetch(p, tile + warp / n_first, warp % n_first, w);
    pdl_wait();   /* weights are constants, x is not */
    rows_end end = prepare_end(p, row, tile, min(cut.group, p.tiles - tile));
    for (; tile < p.tiles; tile += stride) {
        int n_tiles = min(cut.group, p.tiles - tile), next = tile + stride;
        float4 *my_sums = sums + turn * cut.group * p.slices * WARP_SIZE;
        for (int first = 0; first < p.slices; first += cut.phase_chunks) {
            int n = min(cut.phase_chunks, p.slices - first), from = slice_start(p, first);
            if (!have_x || n < p.slices) {
                __syncthreads();
                bring_x<x_terms, quad>(p, row, first, first + n, (uint32_t *)shared);
                __syncthreads();
                have_x = true;
            }
            for (int item = warp; item < n_tiles * n; item += BLOCK_WARPS) {
                int slice = first + item % n, start = slice_start(p, slice);
                if (first > 0 || item != warp)
                    fetch(p, tile + item / n, slice, w);
                multiply<x_terms, w_terms>(shared + (start - from) * STEPS * x_terms * WARP_SIZE, w,
                                           slice_start(p, slice + 1) - start,
                                           my_sums + (item / n * p.slices + slice) * WARP_SIZE);
            }
        }
        if (n_first > 0 && next < p.tiles && warp < min(cut.group, p.tiles - next) * n_first)
            fetch(p, next + warp / n_first, warp % n_first, w);
        __syncthreads();
        finish(p, end, my_sums);
        end = prepare_end(p, row, next, min(cut.group, p.tiles - next));
        turn ^= 1;
    }
}

template <int x_terms, int w_terms> static void launch(mx_cuda *gpu, const gemm_params &p) {
    const int block_bytes = STEPS * x_terms * 512, cores = MX_MAX((int)gpu->device.info.cores, 1);
    const int chunk_bytes = SLICE_BLOCKS * block_bytes, all_bytes = p.blocks * block_bytes;
    rows_cut cut = {1, MX_MAX(p.slices, 1)};
    int room = MX_MIN(gpu->shared_bytes - SHARED_BESIDES, SHARED_FOR_X), whole = all_bytes <= room;
    if (!whole)
        cut.phase_chunks = MX_MAX(room / chunk_bytes, 1);
    if (whole && p.tiles > 4 * cores)   /* many columns: a block stays, and every warp has work in each group */
        cut.group = MX_MAX(BLOCK_WARPS / MX_MAX(p.slices, 1), 1);
    int groups = (p.tiles + cut.group - 1) / cut.group;
    size_t bytes = (size_t)(whole ? all_bytes : cut.phase_chunks * chunk_bytes) +
                   (size_t)(2 * cut.group * p.slices) * 512;
    auto kernel = p.quad_x ? rows_kernel<x_terms, w_terms, true> : rows_kernel<x_terms, w_terms, false>;
    static int allowed[2][MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)kernel, (int)bytes, allowed[p.quad_x]);
    dim3 grid((unsigned)(whole ? MX_MIN(groups, 2 * cores) : groups), (unsigned)((p.f.m + ROWS - 1) / ROWS));
    if (p.f.weight.fresh)
        kernel<<<grid, BLOCK_SIZE, bytes, gpu->stream>>>(p, cut);
    else
        launch_kernel(gpu, kernel, grid, dim3(BLOCK_SIZE), bytes, p, cut);
}

void skinny_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.precision == MXW_PRECISION_F16)
        launch<1, 1>(gpu, p);
    else if (p.f.weight.terms == 1)
        launch<2, 1>(gpu, p);
    else
        launch<2, 2>(gpu, p);
}
