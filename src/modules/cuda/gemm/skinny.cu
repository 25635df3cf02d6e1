/* modules/cuda/gemm/skinny.cu - GEMM of few rows, any shape and weight, any GPU (sm90/skinny_cluster_splitk.cu is the
 * fast one for Whisper's shapes on Hopper). Such a GEMM is bound by reading the weights: every warp loads a K slice of
 * 8 columns straight from global memory, all of it in flight before it looks at x, and before griddepcontrol.wait
 * (PDL). Invariants: the slices of an element meet in shared memory and are reduced in order. */
#include "modules/cuda/gemm/epilogue.cuh"
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

namespace {

constexpr int ROWS = 16;   /* of a block */
constexpr int STEPS = 4;   /* of 16 of k, in a block of 64 */
constexpr int X_SMEM = 100 << 10;   /* bytes at most, so that two blocks fit on an SM */
constexpr int SUMS_SMEM = 14 << 10;   /* bytes */

/* How a block walks its columns and K. */
struct skinny_plan {
    int group;          /* tiles of 8 columns that a block finishes together */
    int pass_slices;    /* slices whose x is in shared memory at a time */
};

/* A K slice of 8 columns: two registers to a step. */
template <int w_terms> struct slice_weights { uint32_t at[w_terms][SLICE_BLOCKS * STEPS * 2]; };

template <int w_terms>
__device__ __forceinline__ void load_weights(const gemm_params &p, int tile, int slice, slice_weights<w_terms> &w) {
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

/* Four elements of row r, from k on, into the operands [step][term][lane] of steps from `first` on. */
template <int x_terms>
__device__ __forceinline__ void store_operand4(const float4 &v, int r, int k, int first, uint32_t *x) {
    uint32_t low[x_terms], high[x_terms];
    operand_pairs<x_terms>(v, low, high);
#pragma unroll
    for (int term = 0; term < x_terms; term++) {
        uint32_t *at = x + (((k / 16 - first) * x_terms + term) * WARP_SIZE + r % 8 * 4 + k % 16 / 4) * 4 + r / 8;
        at[0] = low[term];
        at[2] = high[term];
    }
}

/* A normed row that fits in shared memory whole: a warp reads it once. */
template <int x_terms, bool quad>
__device__ __forceinline__ void load_normed(const gemm_params &p, const x_row &row, int r, int last, uint32_t *x) {
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
            store_operand4<x_terms>(k < p.f.k ? norm4(held[i], s, gamma[i], beta[i]) : make_float4(0, 0, 0, 0), r, k, 0,
                                    x);
    }
}

/* Elements [start, last) of a row, normed if there is a norm. */
template <int x_terms, bool quad>
__device__ __forceinline__ void load_any(const gemm_params &p, const x_row &row, int r, int start, int last,
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
                store_operand4<x_terms>(v[i], r, k, start / 16, x);
        }
    }
}

/* x of the slices [first, last) as operands, a warp to a row. Rows past the last are left as they are: their sums are
 * computed but not stored. */
template <int x_terms, bool quad>
__device__ __forceinline__ void load_x(const gemm_params &p, int64_t row, int first, int last, uint32_t *x) {
    int start = slice_start(p, first) * 64, end = slice_start(p, last) * 64;
    for (int r = threadIdx.x / WARP_SIZE; r < ROWS && row + r < p.f.m; r += BLOCK_WARPS) {
        x_row of = x_row_of(p.f, row + r);
        if (quad && p.f.gamma && start == 0 && end <= ROW_REGS_FLOATS)
            load_normed<x_terms, quad>(p, of, r, end, x);
        else
            load_any<x_terms, quad>(p, of, r, start, end, x);
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* A slice's sums into sums[lane]. */
template <int x_terms, int w_terms>
__device__ __forceinline__ void multiply(const uint4 *x, const slice_weights<w_terms> &w, int n, float4 *sums) {
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

/* A thread's share of a group's epilogue: rows g and g + 8 of one lane of one tile. */
struct skinny_epilogue {
    int in_group, column;
    int64_t row;
    epilogue_inputs of[2];
};

__device__ __forceinline__ skinny_epilogue epilogue_begin(const gemm_params &p, int64_t row, int tile, int n_tiles) {
    int lane = threadIdx.x % WARP_SIZE;
    skinny_epilogue e = {};
    e.in_group = threadIdx.x / WARP_SIZE;
    e.column = (tile + e.in_group) * 8 + lane % 4 * 2;
    e.row = row + lane / 4;
    if (e.in_group < n_tiles) {
        e.of[0] = epilogue_load<true>(p, e.row, e.column);
        e.of[1] = epilogue_load<true>(p, e.row + 8, e.column);
    }
    return e;
}

/* Reduces the slices in order; sums [tile][slice][lane]. */
__device__ __forceinline__ void epilogue_end(const gemm_params &p, const skinny_epilogue &e, const float4 *sums) {
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

/* The work items of a group are its tiles times the slices of a pass; a warp takes every BLOCK_WARPS-th. The first
 * item's weights and the epilogue's inputs are loaded before x is, or while the group before is finished. Sums are
 * double-buffered, so that a group needs one barrier. */
template <int x_terms, int w_terms, bool quad>
__global__ void __launch_bounds__(BLOCK_SIZE, 2) skinny_kernel(gemm_params p, skinny_plan plan) {
    extern __shared__ uint4 shared[];
    int warp = threadIdx.x / WARP_SIZE, n_first = min(plan.pass_slices, p.slices);
    int steps = STEPS * (plan.pass_slices >= p.slices ? p.blocks : SLICE_BLOCKS * plan.pass_slices);
    float4 *sums = (float4 *)(shared + steps * x_terms * WARP_SIZE);
    int64_t row = (int64_t)blockIdx.y * ROWS;
    slice_weights<w_terms> w;
    bool have_x = false;
    int tile = (int)blockIdx.x * plan.group, stride = (int)gridDim.x * plan.group, turn = 0;
    if (n_first > 0 && warp < min(plan.group, p.tiles - tile) * n_first)
        load_weights(p, tile + warp / n_first, warp % n_first, w);
    pdl_wait();   /* weights are constants; x is not */
    skinny_epilogue end = epilogue_begin(p, row, tile, min(plan.group, p.tiles - tile));
    for (; tile < p.tiles; tile += stride) {
        int n_tiles = min(plan.group, p.tiles - tile), next = tile + stride;
        float4 *my_sums = sums + turn * plan.group * p.slices * WARP_SIZE;
        for (int first = 0; first < p.slices; first += plan.pass_slices) {
            int n = min(plan.pass_slices, p.slices - first), from = slice_start(p, first);
            if (!have_x || n < p.slices) {
                __syncthreads();
                load_x<x_terms, quad>(p, row, first, first + n, (uint32_t *)shared);
                __syncthreads();
                have_x = true;
            }
            for (int item = warp; item < n_tiles * n; item += BLOCK_WARPS) {
                int slice = first + item % n, start = slice_start(p, slice);
                if (first > 0 || item != warp)
                    load_weights(p, tile + item / n, slice, w);
                multiply<x_terms, w_terms>(shared + (start - from) * STEPS * x_terms * WARP_SIZE, w,
                                           slice_start(p, slice + 1) - start,
                                           my_sums + (item / n * p.slices + slice) * WARP_SIZE);
            }
        }
        if (n_first > 0 && next < p.tiles && warp < min(plan.group, p.tiles - next) * n_first)
            load_weights(p, next + warp / n_first, warp % n_first, w);
        __syncthreads();
        epilogue_end(p, end, my_sums);
        end = epilogue_begin(p, row, next, min(plan.group, p.tiles - next));
        turn ^= 1;
    }
}

template <int x_terms, int w_terms> static void launch(mx_cuda *gpu, const gemm_params &p) {
    const int block_bytes = STEPS * x_terms * 512, cores = MX_MAX((int)gpu->device.info.cores, 1);
    const int slice_bytes = SLICE_BLOCKS * block_bytes, all_bytes = p.blocks * block_bytes;
    skinny_plan plan = {1, MX_MAX(p.slices, 1)};
    int room = MX_MIN(gpu->shared_bytes - SUMS_SMEM, X_SMEM), whole = all_bytes <= room;
    if (!whole)
        plan.pass_slices = MX_MAX(room / slice_bytes, 1);
    if (whole && p.tiles > 4 * cores)   /* many columns: persistent blocks, with work for every warp in each group */
        plan.group = MX_MAX(BLOCK_WARPS / MX_MAX(p.slices, 1), 1);
    int groups = (p.tiles + plan.group - 1) / plan.group;
    size_t bytes = (size_t)(whole ? all_bytes : plan.pass_slices * slice_bytes) +
                   (size_t)(2 * plan.group * p.slices) * 512;
    auto kernel = p.quad_x ? skinny_kernel<x_terms, w_terms, true> : skinny_kernel<x_terms, w_terms, false>;
    static int allowed[2][MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)kernel, (int)bytes, allowed[p.quad_x]);
    dim3 grid((unsigned)(whole ? MX_MIN(groups, 2 * cores) : groups), (unsigned)((p.f.m + ROWS - 1) / ROWS));
    if (p.f.weight.fresh)
        kernel<<<grid, BLOCK_SIZE, bytes, gpu->stream>>>(p, plan);
    else
        launch_kernel(gpu, kernel, grid, dim3(BLOCK_SIZE), bytes, p, plan);
}

}   /* namespace */

void skinny_gemm(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.precision == MXW_PRECISION_F16)
        launch<1, 1>(gpu, p);
    else if (p.f.weight.terms == 1)
        launch<2, 1>(gpu, p);
    else
        launch<2, 2>(gpu, p);
}

}   /* namespace mx::gemm */
