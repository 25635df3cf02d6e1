/* modules/cuda/attention/decode_paged_f16.cu - compiled attention of decoder rows over a paged KV cache of f16, heads
 * of 64. As decode_paged.cu, but the rows of a group go through a tile together.
 *
 * A warp's 16 keys and values are those of the group's first row. Rows that have others there, beams since they
 * diverged, have copies of their own (`own`); scores and values of such a row are taken from these, with a step of its
 * own in which all other rows have weight 0. Where a tile has more of them than there is room for, its rows go through
 * one by one.
 * Invariants: the order of every sum follows from the number of keys alone: not from the rows of a group, the cells
 * they share, or the assignment of rows to blocks. A step of weight 0 leaves a sum as it is. */
#include "modules/cuda/attention/decode_paged.cuh"
#include "modules/cuda/common/cp_async.cuh"

namespace mx::attention {

namespace {

constexpr int BLOCKS_PER_SM = 3;                       /* resident blocks per SM */
static_assert(BLOCKS_PER_SM <= MAX_BLOCKS_PER_SM, "scratch is for as many");
constexpr int OWN = 10;                                /* warps' keys of single rows that a tile has room for */
constexpr int WARP_CHUNKS = 16 * HEAD_DIM / 8;         /* of 16 keys */

struct paged_smem_f16 : paged_rows {
    combine_smem s;
    unsigned differs[2][TILE_WARPS];                   /* bit per row: it has keys of its own there; by turns */
    alignas(128) uint4 k[TILE_CHUNKS<1>];
    uint4 v[TILE_CHUNKS<1>], own[OWN][WARP_CHUNKS];    /* own: first keys, then values */
};

/* Begins to copy a warp's cells; zeros where it has none. */
__device__ __forceinline__ static void copy_cells(const void *from, int head, int d, int cell, uint4 *to) {
    int lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int key = i * 4 + lane / 8, of = __shfl_sync(0xffffffffu, cell, key);
        cp_async_16(to + chunk_at(key, lane % 8),
                    (const __half *)from + (int64_t)max(of, 0) * d + head * HEAD_DIM + lane % 8 * 8, of >= 0);
    }
}

/* Cells of the lane's key in rows `from` to `to` of the group, and which rows differ from the first of them there. */
__device__ __forceinline__ static unsigned find_cells(const decode_params &job, const paged_rows &s, int first,
                                                      int tile, int from, int to, int (&cell)[TILE_ROWS]) {
    int key = tile * TILE_KEYS + threadIdx.x / WARP_SIZE * 16 + threadIdx.x % 16;
    unsigned differs = 0;
#pragma unroll
    for (int r = 0; r < TILE_ROWS; r++)
        cell[r] = from + r < to ? cell_of(job, s, first + from + r, tile) : -1;
#pragma unroll
    for (int r = 1; r < TILE_ROWS; r++) {
        bool other = from + r < to && key < s.keys[first + from + r] && cell[r] != cell[0];
        differs |= (unsigned)__any_sync(0xffffffffu, other) << r;
    }
    return differs;
}

/* Copies what the warp needs, and scores it for all rows; the values of single rows are then still on their way. own:
 * the warp's first place there. */
__device__ __forceinline__ static void score_rows(const decode_params &job, int head, int from, int left,
                                                  const int (&cell)[TILE_ROWS], unsigned differs, int own,
                                                  paged_smem_f16 &s, float (&scores)[4]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, at = own;
    unsigned left_over = differs;
    float scale = power_scale<1>(job);
    key_operand<1> k;
    copy_cells(job.k, head, job.d, cell[0], s.k + warp * WARP_CHUNKS);
    copy_cells(job.v, head, job.d, cell[0], s.v + warp * WARP_CHUNKS);
#pragma unroll
    for (int r = 1; r < TILE_ROWS; r++)
        if (differs >> r & 1)
            copy_cells(job.k, head, job.d, cell[r], s.own[at++]);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    get_keys(s.k, warp, lane, k);
    score<1>(s.s.pad, k, left - warp * 16, scale, lane, scores);
#pragma unroll 1
    for (at = own; left_over; left_over &= left_over - 1, at++) {
        float others[4];
        get_keys(s.own[at], 0, lane, k);
        score<1>(s.s.pad, k, left - warp * 16, scale, lane, others);
        if (lane / 4 == from + __ffs((int)left_over) - 1)
            memcpy(scores, others, sizeof(others));
    }
    note_max(s.s.pad, scores);
    __syncwarp();   /* no lane reads keys any more */
    at = own;
#pragma unroll
    for (int r = 1; r < TILE_ROWS; r++)
        if (differs >> r & 1)
            copy_cells(job.v, head, job.d, cell[r], s.own[at++]);
    cp_async_commit();
}

__device__ __forceinline__ static uint2 get_own_values(const uint4 *values, int warp, int lane) {
    uint2 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "r"((unsigned)__cvta_generic_to_shared(values + chunk_at(lane % 16, warp)))
                 : "memory");
    return v;
}

__device__ __forceinline__ static uint4 only_if(bool mine, const uint4 &w) {
    return mine ? w : make_uint4(0, 0, 0, 0);
}

/* The weighted values of all rows, in the order of finish_tile<1>. */
__device__ __forceinline__ static float2 add_values(const paged_smem_f16 &s, int turn, int from) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, own = 0;
    float sums[2][4] = {};
#pragma unroll
    for (int i = 0; i < TILE_WARPS; i += 2) {
        uint4 v = get_values<1>(s.v, i / 2, warp, lane);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint4 w = s.s.pad.weights[(i + half) * WARP_SIZE + lane];
            unsigned differs = s.differs[turn][i + half] << from;
            mma_m16n8k16(sums[half], only_if(!(differs >> lane / 4 & 1), w), half ? v.z : v.x, half ? v.w : v.y);
#pragma unroll 1
            for (; differs; differs &= differs - 1) {
                uint2 of = get_own_values(s.own[own++], warp, lane);
                mma_m16n8k16(sums[half], only_if(lane / 4 == __ffs((int)differs) - 1, w), of.x, of.y);
            }
        }
    }
    return tile_values(sums);
}

/* Rows `from` to `to` of a group over a tile; false: there is not enough room for all of them together. turn: 0 and 1,
 * alternating. */
__device__ static bool run_rows(const decode_params &job, const row_group &p, int first, int tile, int from, int to,
                                int turn, paged_smem_f16 &s) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, row = lane / 4, cell[TILE_ROWS];
    int left = s.keys[first + max(from, min(row, to - 1))] - tile * TILE_KEYS, own = 0, all = 0;
    unsigned differs = find_cells(job, s, first, tile, from, to, cell);
    if (lane == 0)
        s.differs[turn][warp] = differs;
    __syncthreads();   /* queries are ready; the rows before are no longer read */
#pragma unroll
    for (int w = 0; w < TILE_WARPS; w++) {
        own = w == warp ? all : own;
        all += __popc(s.differs[turn][w]);
    }
    if (all > OWN)
        return false;
    float scores[4];
    tile_result r;
    score_rows(job, p.head, from, left, cell, differs, own, s, scores);
    __syncthreads();
    r.top = largest_of_row(s.s.pad.row_max[row]);
    weigh(s.s.pad, scores, r.top, warp, lane);
    cp_async_wait<0>();
    __syncthreads();
    r.y = add_values(s, turn, from);
    r.sum = sum_of_row(s.s.pad.sums[row]);
    write_tile<1>(job, p, tile, row >= from && row < to, r);
    return true;
}

/* most: rows per group. */
__global__ void __launch_bounds__(DECODE_THREADS, BLOCKS_PER_SM) decode_paged_f16_kernel(decode_params job, int most) {
    extern __shared__ __align__(128) unsigned char dynamic[];
    paged_smem_f16 &s = *(paged_smem_f16 *)dynamic;
    int turn = 0;
    pdl_wait();
    run_groups(job, most, s, [&](const row_group &p, int first) {
        put_queries<1>(s.s.pad, query_of(job, p));
#pragma unroll 1
        for (int tile = 0; tile < p.n_tiles; tile++) {
            bool together = run_rows(job, p, first, tile, 0, p.n, turn, s);
            turn ^= 1;
#pragma unroll 1
            for (int r = 0; r < p.n && !together; r++, turn ^= 1)
                run_rows(job, p, first, tile, r, r + 1, turn, s);
        }
        if (p.n_tiles > 1)
            finish_group<1>(job, p, 1, s.s);
    });
}

}   /* namespace */

int decode_paged_f16_fits(const mx_cuda *gpu) { return gpu->shared_bytes >= (int)sizeof(paged_smem_f16); }

/* Where each row has a block of its own, rows need not be grouped. */
void decode_paged_f16_attention(mx_cuda *gpu, const decode_params &job) {
    static int allowed[MX_CUDA_MAX_GPUS];
    int64_t items = (int64_t)job.rows * job.heads, at_once = (int64_t)gpu->device.info.cores * BLOCKS_PER_SM;
    mx_cuda_allow_shared(gpu, (const void *)decode_paged_f16_kernel, (int)sizeof(paged_smem_f16), allowed);
    launch_kernel(gpu, decode_paged_f16_kernel,
                  dim3((unsigned)MX_MIN(items, at_once), (unsigned)((job.rows + ROW_CHUNK - 1) / ROW_CHUNK)),
                  dim3(DECODE_THREADS), sizeof(paged_smem_f16), job, items > at_once ? TILE_ROWS : 1);
}

}   /* namespace mx::attention */
