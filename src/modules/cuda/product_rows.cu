/* modules/cuda/product_rows.cu - compiled products of few rows, of any shape and weight, on any GPU (product_few.cu has
 * those of Whisper on Hopper): reading the weights is what takes the time, so every warp has a chunk of k of 8 columns
 * under way at once, straight from global memory, before it looks at x.
 * What holds: the chunks of an element meet in shared memory and are added in order. */
#include "modules/cuda/product.cuh"

#define ROWS 16                     /* of a block */
#define STEPS 4                     /* of 16, in a block of k */
#define SHARED_FOR_X (100 << 10)    /* bytes at most: two blocks fit on a multiprocessor */
#define SHARED_BESIDES (14 << 10)   /* for sums */

/* How a block goes about its columns. */
struct rows_cut {
    int group;          /* tiles of 8 columns that a block finishes together */
    int phase_chunks;   /* chunks whose x lies in shared memory at a time */
};

/* A chunk of k of a tile of columns: two pieces to a step. */
template <int w_parts> struct rows_weights { uint32_t at[w_parts][MX_CHUNK_BLOCKS * STEPS * 2]; };

template <int w_parts>
__device__ __forceinline__ void fetch(const mx_product &p, int tile, int chunk, rows_weights<w_parts> &w) {
    int start = mx_chunk_start(p, chunk), n = mx_chunk_start(p, chunk + 1) - start;
    const char *from = (const char *)p.f.weight.bytes + ((int64_t)start * p.tiles + tile) * 1024 +
                       threadIdx.x % MX_WARP * 4;
#pragma unroll
    for (int part = 0; part < w_parts; part++)
#pragma unroll
        for (int b = 0; b < MX_CHUNK_BLOCKS; b++)
            if (b < n)
#pragma unroll
                for (int i = 0; i < STEPS * 2; i++)
                    w.at[part][b * STEPS * 2 + i] =
                        __ldg((const uint32_t *)(from + part * p.w_part + (int64_t)b * p.tiles * 1024 + i * 128));
}

/* ---- x ----------------------------------------------------------------------------------------------------------- */

/* Four elements of row r, from k on, into the operands [step][part][lane] of steps from `first` on. */
template <int x_parts> __device__ __forceinline__ void put_four(const float4 &v, int r, int k, int first, uint32_t *x) {
    uint32_t low[x_parts], high[x_parts];
    mx_pairs<x_parts>(v, low, high);
#pragma unroll
    for (int part = 0; part < x_parts; part++) {
        uint32_t *at = x + (((k / 16 - first) * x_parts + part) * MX_WARP + r % 8 * 4 + k % 16 / 4) * 4 + r / 8;
        at[0] = low[part];
        at[2] = high[part];
    }
}

/* A normed row, all of it in shared memory: a warp reads it once. */
template <int x_parts, bool quad>
__device__ __forceinline__ void bring_normed(const mx_product &p, const mx_row &row, int r, int last, uint32_t *x) {
    int lane = threadIdx.x % MX_WARP;
    float4 held[MX_HELD], gamma[MX_HELD], beta[MX_HELD];
#pragma unroll
    for (int i = 0; i < MX_HELD; i++) {
        gamma[i] = mx_four_at<quad>(p.f.gamma, p.f.k, (lane + i * MX_WARP) * 4);
        beta[i] = mx_four_at<quad>(p.f.beta, p.f.k, (lane + i * MX_WARP) * 4);
    }
    float2 s = mx_row_statistics<quad, true>(p, row, held);
#pragma unroll
    for (int i = 0; i < MX_HELD; i++) {
        int k = (lane + i * MX_WARP) * 4;
        if (k < last)
            put_four<x_parts>(k < p.f.k ? mx_norm_four(held[i], s, gamma[i], beta[i]) : make_float4(0, 0, 0, 0), r,
                              k, 0, x);
    }
}

/* Elements [start, last) of a row, normed if there is a norm. */
template <int x_parts, bool quad>
__device__ __forceinline__ void bring_any(const mx_product &p, const mx_row &row, int r, int start, int last,
                                          uint32_t *x) {
    int lane = threadIdx.x % MX_WARP;
    float2 s = make_float2(0, 0);
    if (p.f.gamma) {
        float4 held[MX_HELD];
        s = mx_row_statistics<quad, true>(p, row, held);
    }
    for (int at = start + lane * 4; at < last; at += 4 * 4 * MX_WARP) {
        float4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = mx_four_of<quad, true>(row, at + i * 4 * MX_WARP);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int k = at + i * 4 * MX_WARP;
            if (p.f.gamma && k < p.f.k)
                v[i] = mx_norm_four(v[i], s, mx_four_at<quad>(p.f.gamma, p.f.k, k),
                                    mx_four_at<quad>(p.f.beta, p.f.k, k));
            if (k < last)
                put_four<x_parts>(v[i], r, k, start / 16, x);
        }
    }
}

/* x of the chunks [first, last) as operands, a warp to a row. Rows that are not there are not written: whatever they
 * hold stays in their own results, which nobody takes. */
template <int x_parts, bool quad>
__device__ __forceinline__ void bring_x(const mx_product &p, int64_t row, int first, int last, uint32_t *x) {
    int start = mx_chunk_start(p, first) * 64, end = mx_chunk_start(p, last) * 64;
    for (int r = threadIdx.x / MX_WARP; r < ROWS && row + r < p.f.m; r += MX_WARPS) {
        mx_row of = mx_row_of(p.f, row + r);
        if (quad && p.f.gamma && start == 0 && end <= MX_HELD_AT_MOST)
            bring_normed<x_parts, quad>(p, of, r, end, x);
        else
            bring_any<x_parts, quad>(p, of, r, start, end, x);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The chunk's sums into sums[lane]. */
template <int x_parts, int w_parts>
__device__ __forceinline__ void multiply(const uint4 *x, const rows_weights<w_parts> &w, int n, float4 *sums) {
    int lane = threadIdx.x % MX_WARP;
    float hi[4] = {}, lo[4] = {};
#pragma unroll
    for (int b = 0; b < MX_CHUNK_BLOCKS; b++) {
        if (b >= n)
            break;
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            uint4 a[x_parts];
            uint32_t b0[w_parts], b1[w_parts];
#pragma unroll
            for (int part = 0; part < x_parts; part++)
                a[part] = x[((b * STEPS + s) * x_parts + part) * MX_WARP + lane];
#pragma unroll
            for (int part = 0; part < w_parts; part++) {
                b0[part] = w.at[part][(b * STEPS + s) * 2];
                b1[part] = w.at[part][(b * STEPS + s) * 2 + 1];
            }
            mx_step<x_parts, w_parts>(hi, lo, a, b0, b1);
        }
    }
    sums[lane] = make_float4(mx_chunk_sum<x_parts>(hi[0], lo[0]), mx_chunk_sum<x_parts>(hi[1], lo[1]),
                             mx_chunk_sum<x_parts>(hi[2], lo[2]), mx_chunk_sum<x_parts>(hi[3], lo[3]));
}

/* A thread's part in finishing a group: rows g and g + 8 of one lane of one tile. */
struct rows_end {
    int in_group, column;
    int64_t row;
    mx_ending of[2];
};

__device__ __forceinline__ rows_end prepare_end(const mx_product &p, int64_t row, int tile, int n_tiles) {
    int lane = threadIdx.x % MX_WARP;
    rows_end e = {};
    e.in_group = threadIdx.x / MX_WARP;
    e.column = (tile + e.in_group) * 8 + lane % 4 * 2;
    e.row = row + lane / 4;
    if (e.in_group < n_tiles) {
        e.of[0] = mx_ending_of<true>(p, e.row, e.column);
        e.of[1] = mx_ending_of<true>(p, e.row + 8, e.column);
    }
    return e;
}

/* All chunks, added in order; sums [tile][chunk][lane]. */
__device__ __forceinline__ void finish(const mx_product &p, const rows_end &e, const float4 *sums) {
    float4 all = make_float4(0, 0, 0, 0);
    if (!e.of[0].there)
        return;
    for (int chunk = 0; chunk < p.chunks; chunk++) {
        float4 s = sums[(e.in_group * p.chunks + chunk) * MX_WARP + threadIdx.x % MX_WARP];
        all = make_float4(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y), __fadd_rn(all.z, s.z), __fadd_rn(all.w, s.w));
    }
    mx_finish(p, e.row, e.column, all.x, all.y, e.of[0]);
    mx_finish(p, e.row + 8, e.column, all.z, all.w, e.of[1]);
}

/* Items of a group are its tiles times the chunks of a phase; a warp takes every MX_WARPS-th. The first item's weights,
 * and what is added in the end, are fetched before x or the group before is done with; sums have two places, taken in
 * turn, so that a group needs to be waited for once. */
template <int x_parts, int w_parts, bool quad>
__global__ void __launch_bounds__(MX_BLOCK, 2) rows_kernel(mx_product p, rows_cut cut) {
    extern __shared__ uint4 shared[];
    int warp = threadIdx.x / MX_WARP, n_first = min(cut.phase_chunks, p.chunks);
    int steps = STEPS * (cut.phase_chunks >= p.chunks ? p.blocks : MX_CHUNK_BLOCKS * cut.phase_chunks);
    float4 *sums = (float4 *)(shared + steps * x_parts * MX_WARP);
    int64_t row = (int64_t)blockIdx.y * ROWS;
    rows_weights<w_parts> w;
    bool have_x = false;
    int tile = (int)blockIdx.x * cut.group, stride = (int)gridDim.x * cut.group, turn = 0;
    if (n_first > 0 && warp < min(cut.group, p.tiles - tile) * n_first)
        fetch(p, tile + warp / n_first, warp % n_first, w);
    mx_wait_before();   /* weights are constants, x is not */
    rows_end end = prepare_end(p, row, tile, min(cut.group, p.tiles - tile));
    for (; tile < p.tiles; tile += stride) {
        int n_tiles = min(cut.group, p.tiles - tile), next = tile + stride;
        float4 *my_sums = sums + turn * cut.group * p.chunks * MX_WARP;
        for (int first = 0; first < p.chunks; first += cut.phase_chunks) {
            int n = min(cut.phase_chunks, p.chunks - first), from = mx_chunk_start(p, first);
            if (!have_x || n < p.chunks) {
                __syncthreads();
                bring_x<x_parts, quad>(p, row, first, first + n, (uint32_t *)shared);
                __syncthreads();
                have_x = true;
            }
            for (int item = warp; item < n_tiles * n; item += MX_WARPS) {
                int chunk = first + item % n, start = mx_chunk_start(p, chunk);
                if (first > 0 || item != warp)
                    fetch(p, tile + item / n, chunk, w);
                multiply<x_parts, w_parts>(shared + (start - from) * STEPS * x_parts * MX_WARP, w,
                                           mx_chunk_start(p, chunk + 1) - start,
                                           my_sums + (item / n * p.chunks + chunk) * MX_WARP);
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

template <int x_parts, int w_parts> static void launch(mx_cuda *gpu, const mx_product &p) {
    const int block_bytes = STEPS * x_parts * 512, cores = MX_MAX((int)gpu->device.info.cores, 1);
    const int chunk_bytes = MX_CHUNK_BLOCKS * block_bytes, all_bytes = p.blocks * block_bytes;
    rows_cut cut = {1, MX_MAX(p.chunks, 1)};
    int room = MX_MIN(gpu->shared_bytes - SHARED_BESIDES, SHARED_FOR_X), whole = all_bytes <= room;
    if (!whole)
        cut.phase_chunks = MX_MAX(room / chunk_bytes, 1);
    if (whole && p.tiles > 4 * cores)   /* many columns: a block stays, and every warp has work in each group */
        cut.group = MX_MAX(MX_WARPS / MX_MAX(p.chunks, 1), 1);
    int groups = (p.tiles + cut.group - 1) / cut.group;
    size_t bytes = (size_t)(whole ? all_bytes : cut.phase_chunks * chunk_bytes) +
                   (size_t)(2 * cut.group * p.chunks) * 512;
    auto kernel = p.quad_x ? rows_kernel<x_parts, w_parts, true> : rows_kernel<x_parts, w_parts, false>;
    static int allowed[2][MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)kernel, (int)bytes, allowed[p.quad_x]);
    dim3 grid((unsigned)(whole ? MX_MIN(groups, 2 * cores) : groups), (unsigned)((p.f.m + ROWS - 1) / ROWS));
    if (p.f.weight.fresh)
        kernel<<<grid, MX_BLOCK, bytes, gpu->stream>>>(p, cut);
    else
        mx_launch(gpu, kernel, grid, dim3(MX_BLOCK), bytes, p, cut);
}

void mx_rows_product(mx_cuda *gpu, const mx_product &p) {
    if (p.f.precision == MXW_PRECISION_F16)
        launch<1, 1>(gpu, p);
    else if (p.f.weight.parts == 1)
        launch<2, 1>(gpu, p);
    else
        launch<2, 2>(gpu, p);
}
