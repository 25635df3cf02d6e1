/* modules/cuda/product_rows.cu - compiled products of few rows, as a decoder's step has them: reading the weights is
 * what takes the time, so every warp has a chunk of k of 8 columns under way at once, straight from global memory.
 * What holds: the chunks of an element meet in shared memory and are added in order. */
#include "modules/cuda/product.cuh"

#define SHARED_FOR_X (100 << 10)    /* bytes at most: two blocks fit on a multiprocessor */
#define SHARED_BESIDES (30 << 10)   /* for sums, statistics and a norm */

/* How a block goes about its columns. */
struct rows_cut {
    int group;          /* tiles that a block finishes together */
    int phase_chunks;   /* chunks whose x lies in shared memory at a time */
};

/* A chunk of k of a tile of columns. */
template <int w_parts> struct rows_weights { uint4 at[MX_CHUNK_BLOCKS][w_parts]; };

template <int w_parts>
__device__ __forceinline__ void fetch(const mx_product &p, int tile, int chunk, rows_weights<w_parts> &w) {
    int lane = threadIdx.x % MX_WARP, start = mx_chunk_start(p, chunk), n = mx_chunk_start(p, chunk + 1) - start;
    const uint4 *from = (const uint4 *)p.f.weight.bytes + ((int64_t)tile * p.blocks + start) * MX_WARP + lane;
#pragma unroll
    for (int b = 0; b < MX_CHUNK_BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < w_parts; i++)
            if (b < n)
                w.at[b][i] = __ldg(from + b * MX_WARP + i * p.w_part);
}

/* A lane's elements of `count` operands of 16 rows by 16 of k, `i` counts them: rows g and g + 8, k and 8 later. */
template <int m_tiles, int count>
__device__ __forceinline__ void load_x(const mx_product &p, int64_t row, int first, int i, int n,
                                       float2 (&v)[count][4]) {
    int lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int u = 0; u < count; u++) {
        int at = i + u * MX_WARPS, k = (first + at / m_tiles) * 16 + 2 * t, r = at % m_tiles * 16 + g;
        mx_row rows[2] = {mx_row_of(p.f, row + r), mx_row_of(p.f, row + r + 8)};
#pragma unroll
        for (int j = 0; j < 4; j++)
            v[u][j] = at < n ? mx_pair_of<true>(rows[j % 2], k + j / 2 * 8, p.even_x) : make_float2(0, 0);
    }
}

/* x of the chunks [first, last) as operands: [step][m tile][part][lane]. Several are loaded before the first is used;
 * norm: gamma, then beta. */
template <int m_tiles, int x_parts>
__device__ __forceinline__ void bring_x(const mx_product &p, int64_t row, int first, int last, uint4 *x,
                                        const float2 *statistics, const float *norm) {
    const int at_once = 4;
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP, g = lane / 4, t = lane % 4;
    int start = mx_chunk_start(p, first) * 2, n = (mx_chunk_start(p, last) * 2 - start) * m_tiles;
    for (int i = warp; i < n; i += MX_WARPS * at_once) {
        float2 v[at_once][4];
        load_x<m_tiles, at_once>(p, row, start, i, n, v);
#pragma unroll
        for (int u = 0; u < at_once; u++) {
            int at = i + u * MX_WARPS, k = (start + at / m_tiles) * 16 + 2 * t, mt = at % m_tiles;
            uint4 a[x_parts];
            if (at >= n)
                break;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                int r = mt * 16 + g + j % 2 * 8;
                if (p.f.gamma && row + r < p.f.m)
                    v[u][j] = mx_normed_by(v[u][j], statistics[r], k + j / 2 * 8, (int)p.f.k, norm, norm + p.f.k);
            }
            mx_operand<x_parts>(v[u], a);
#pragma unroll
            for (int part = 0; part < x_parts; part++)
                x[(at * x_parts + part) * MX_WARP + lane] = a[part];
        }
    }
}

/* The chunk's sums into sums[m tile][lane]. */
template <int m_tiles, int x_parts, int w_parts>
__device__ __forceinline__ void multiply(const uint4 *x, const rows_weights<w_parts> &w, int n, float4 *sums) {
    int lane = threadIdx.x % MX_WARP;
    float hi[m_tiles][4] = {}, lo[m_tiles][4] = {};
#pragma unroll
    for (int b = 0; b < MX_CHUNK_BLOCKS; b++) {
        if (b >= n)
            break;
#pragma unroll
        for (int i = 0; i < 2 * m_tiles; i++) {
            uint4 a[x_parts];
#pragma unroll
            for (int part = 0; part < x_parts; part++)
                a[part] = x[((b * 2 * m_tiles + i) * x_parts + part) * MX_WARP + lane];
            mx_step<x_parts, w_parts>(hi[i % m_tiles], lo[i % m_tiles], a, w.at[b], i / m_tiles);
        }
    }
#pragma unroll
    for (int mt = 0; mt < m_tiles; mt++)
        sums[mt * MX_WARP + lane] =
            make_float4(mx_chunk_sum<x_parts>(hi[mt][0], lo[mt][0]), mx_chunk_sum<x_parts>(hi[mt][1], lo[mt][1]),
                        mx_chunk_sum<x_parts>(hi[mt][2], lo[mt][2]), mx_chunk_sum<x_parts>(hi[mt][3], lo[mt][3]));
}

/* All chunks of the group's tiles, added in order; sums [tile][chunk][m tile][lane]. */
template <int m_tiles>
__device__ __forceinline__ void finish_group(const mx_product &p, int64_t row, int tile, int n_tiles,
                                             const float4 *sums) {
    for (int i = threadIdx.x; i < n_tiles * m_tiles * MX_WARP; i += MX_BLOCK) {
        int lane = i % MX_WARP, mt = i / MX_WARP % m_tiles, in_group = i / MX_WARP / m_tiles;
        int64_t r = row + mt * 16 + lane / 4;
        int column = (tile + in_group) * 8 + lane % 4 * 2;
        float4 all = make_float4(0, 0, 0, 0);
        for (int chunk = 0; chunk < p.chunks; chunk++) {
            float4 s = sums[((in_group * p.chunks + chunk) * m_tiles + mt) * MX_WARP + lane];
            all = make_float4(__fadd_rn(all.x, s.x), __fadd_rn(all.y, s.y), __fadd_rn(all.z, s.z),
                              __fadd_rn(all.w, s.w));
        }
        mx_finish(p, r, column, all.x, all.y);
        mx_finish(p, r + 8, column, all.z, all.w);
    }
}

/* What the results of the group's tiles need besides, on its way while they are computed. */
template <int m_tiles>
__device__ __forceinline__ void expect_group(const mx_product &p, int64_t row, int tile, int n_tiles) {
    for (int i = threadIdx.x; i < n_tiles * m_tiles * MX_WARP; i += MX_BLOCK) {
        int lane = i % MX_WARP, mt = i / MX_WARP % m_tiles, column = (tile + i / MX_WARP / m_tiles) * 8 + lane % 4 * 2;
        if (column >= p.f.n)
            continue;
        if (p.f.bias)
            asm volatile("prefetch.global.L1 [%0];" ::"l"(p.f.bias + column));
        for (int64_t r = row + mt * 16 + lane / 4, last = r + 8; p.f.residual && r <= last && r < p.f.m; r += 8)
            asm volatile("prefetch.global.L1 [%0];" ::"l"(p.f.residual + r % p.f.residual_rows * p.f.ld_residual +
                                                          column));
    }
}

template <int m_tiles>
__device__ __forceinline__ void find_statistics(const mx_product &p, int64_t row, float2 *statistics) {
    for (int r = threadIdx.x / MX_WARP; r < m_tiles * 16 && row + r < p.f.m; r += MX_WARPS) {
        float2 s = mx_row_statistics(p.f.x + (row + r) * p.f.ldx, (int)p.f.k, (float)p.f.eps);
        if (threadIdx.x % MX_WARP == 0)
            statistics[r] = s;
    }
}

/* Items of a group are its tiles times the chunks of a phase; a warp takes every MX_WARPS-th. The first item's weights
 * are fetched before x, or the group before, is done with. */
template <int m_tiles, int x_parts, int w_parts>
__global__ void __launch_bounds__(MX_BLOCK, 2) rows_kernel(mx_product p, rows_cut cut) {
    extern __shared__ uint4 shared[];
    __shared__ float2 statistics[m_tiles * 16];
    int phase_steps = cut.phase_chunks == p.chunks ? 2 * p.blocks : 2 * MX_CHUNK_BLOCKS * cut.phase_chunks;
    uint4 *x = shared;
    float4 *sums = (float4 *)(shared + phase_steps * m_tiles * x_parts * MX_WARP);
    int warp = threadIdx.x / MX_WARP, n_first = min(cut.phase_chunks, p.chunks);
    int64_t row = (int64_t)blockIdx.y * m_tiles * 16;
    rows_weights<w_parts> w;
    bool have_x = false;
    int tile = (int)blockIdx.x * cut.group, stride = (int)gridDim.x * cut.group;
    if (n_first > 0 && warp < min(cut.group, p.tiles - tile) * n_first)
        fetch(p, tile + warp / n_first, warp % n_first, w);
    float *norm = (float *)(sums + cut.group * p.chunks * m_tiles * MX_WARP);
    for (int i = threadIdx.x; p.f.gamma && i < (int)p.f.k; i += MX_BLOCK) {
        norm[i] = p.f.gamma[i];
        norm[p.f.k + i] = p.f.beta[i];
    }
    mx_wait_before();   /* weights and norms are constants, x is not */
    if (p.f.gamma)
        find_statistics<m_tiles>(p, row, statistics);
    for (; tile < p.tiles; tile += stride) {
        int n_tiles = min(cut.group, p.tiles - tile);
        expect_group<m_tiles>(p, row, tile, n_tiles);
        for (int first = 0; first < p.chunks; first += cut.phase_chunks) {
            int n = min(cut.phase_chunks, p.chunks - first);
            if (!have_x || n < p.chunks) {
                __syncthreads();
                bring_x<m_tiles, x_parts>(p, row, first, first + n, x, statistics, norm);
                __syncthreads();
                have_x = true;
            }
            for (int item = warp; item < n_tiles * n; item += MX_WARPS) {
                int chunk = first + item % n, start = mx_chunk_start(p, chunk);
                if (first > 0 || item != warp)
                    fetch(p, tile + item / n, chunk, w);
                multiply<m_tiles, x_parts, w_parts>(
                    x + (start - mx_chunk_start(p, first)) * 2 * m_tiles * x_parts * MX_WARP, w,
                    mx_chunk_start(p, chunk + 1) - start, sums + (item / n * p.chunks + chunk) * m_tiles * MX_WARP);
            }
        }
        int next = tile + stride;
        if (n_first > 0 && next < p.tiles && warp < min(cut.group, p.tiles - next) * n_first)
            fetch(p, next + warp / n_first, warp % n_first, w);
        __syncthreads();
        finish_group<m_tiles>(p, row, tile, n_tiles, sums);
        __syncthreads();
    }
}

template <int m_tiles, int x_parts, int w_parts> static void launch(mx_cuda *gpu, const mx_product &p) {
    const int chunk_bytes = 2 * MX_CHUNK_BLOCKS * m_tiles * x_parts * 512;
    const int all_bytes = 2 * p.blocks * m_tiles * x_parts * 512, cores = MX_MAX((int)gpu->device.info.cores, 1);
    rows_cut cut = {1, MX_MAX(p.chunks, 1)};
    int room = MX_MIN(gpu->shared_bytes - SHARED_BESIDES, SHARED_FOR_X), whole = all_bytes <= room;
    if (!whole)
        cut.phase_chunks = MX_MAX(room / chunk_bytes, 1);
    if (whole && p.tiles > 4 * cores)   /* many columns: a block stays, and every warp has work in each group */
        cut.group = MX_MAX(MX_WARPS / MX_MAX(p.chunks, 1), 1);
    int groups = (p.tiles + cut.group - 1) / cut.group;
    size_t bytes = (size_t)(whole ? all_bytes : cut.phase_chunks * chunk_bytes) +
                   (size_t)(cut.group * p.chunks * m_tiles) * 512 + (p.f.gamma ? (size_t)p.f.k * 2 * sizeof(float) : 0);
    auto kernel = rows_kernel<m_tiles, x_parts, w_parts>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    dim3 grid((unsigned)(whole ? MX_MIN(groups, 2 * cores) : groups),
              (unsigned)((p.f.m + m_tiles * 16 - 1) / (m_tiles * 16)));
    if (p.f.weight.fresh)
        kernel<<<grid, MX_BLOCK, bytes, gpu->stream>>>(p, cut);
    else
        mx_launch(gpu, kernel, grid, dim3(MX_BLOCK), bytes, p, cut);
}

template <int m_tiles> static void launch_for(mx_cuda *gpu, const mx_product &p) {
    if (p.f.precision == MXW_PRECISION_F16)
        launch<m_tiles, 1, 1>(gpu, p);
    else if (p.f.weight.parts == 1)
        launch<m_tiles, 2, 1>(gpu, p);
    else
        launch<m_tiles, 2, 2>(gpu, p);
}

void mx_rows_product(mx_cuda *gpu, const mx_product &p) {
    if (p.f.m <= 16)
        launch_for<1>(gpu, p);
    else if (p.f.m <= 32 || gpu->shared_bytes < SHARED_FOR_X)
        launch_for<2>(gpu, p);
    else
        launch_for<4>(gpu, p);
}
