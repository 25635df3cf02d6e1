/* modules/cuda/attention/decode_paged.cuh - rows over a paged KV cache (page size 1: a cell index per position): the
 * groups of rows, and the cells of a tile. Shared by the kernels over caches of f32 and of f16. */
#ifndef MX_CUDA_ATTENTION_DECODE_PAGED_CUH
#define MX_CUDA_ATTENTION_DECODE_PAGED_CUH
#include "modules/cuda/attention/decode_combine.cuh"

namespace mx::attention {

struct paged_rows {
    row_groups pieces;
    int keys[ROW_CHUNK], seq[ROW_CHUNK];   /* of the rows */
};

/* The cell of the lane's key in row r's tile, lanes 16 to 31 as those 16 below; past the last key it is the last one,
 * with weight 0. -1: the warp has none. */
__device__ __forceinline__ static int cell_of(const decode_params &job, const paged_rows &s, int r, int tile) {
    int first = tile * TILE_KEYS + threadIdx.x / WARP_SIZE * 16, last = s.keys[r] - 1;
    return first <= last ? __ldcg(job.cells + s.seq[r] * job.ctx + min(first + (int)threadIdx.x % 16, last)) : -1;
}

/* Rows of a group have the same first cell and the same number of tiles. */
__device__ static int find_beams(const decode_params &job, int first_row, int n, int most, paged_rows &s) {
    const int32_t *pos = job.pos + first_row, *seq = job.seq + first_row;
    return find_pieces(n, most, s.pieces, [&](int r) {
        s.keys[r] = pos[r] + 1;
        s.seq[r] = seq[r];
        return most > 1 && r > 0 && pos[r - 1] / TILE_KEYS == pos[r] / TILE_KEYS &&
               __ldcg(job.cells + seq[r - 1] * job.ctx) == __ldcg(job.cells + seq[r] * job.ctx);
    });
}

/* The group that a row of the chunk belongs to. */
__device__ __forceinline__ static int group_with(const paged_rows &s, int row, int pieces) {
    int first = 0;
    for (int behind = pieces; behind - first > 1;) {
        int middle = (first + behind) / 2;
        if (s.pieces.start[middle] <= row)
            first = middle;
        else
            behind = middle;
    }
    return first;
}

/* Rows are assigned to blocks evenly, in the order of groups, heads and rows: run(p, first) for each part of a group
 * that the block has, whose first row is number `first` of the chunk. */
template <typename Run>
__device__ __forceinline__ static void run_groups(const decode_params &job, int most, paged_rows &s, const Run &run) {
    const int first_row = blockIdx.y * ROW_CHUNK, n = min(ROW_CHUNK, job.rows - first_row);
    int pieces = find_beams(job, first_row, n, most, s);
    int at = (int)(blockIdx.x * (unsigned)(n * job.heads) / gridDim.x);
    int end = (int)((blockIdx.x + 1) * (unsigned)(n * job.heads) / gridDim.x);
    int piece = group_with(s, at / job.heads, pieces);
#pragma unroll 1
    while (at < end) {
        int begin = s.pieces.start[piece], rows = s.pieces.start[piece + 1] - begin, in = at - begin * job.heads;
        int head = in / rows, first = begin + in - head * rows, count = min(begin + rows - first, end - at);
        row_group p = {first_row + first, count, head, 0, (s.keys[first] + TILE_KEYS - 1) / TILE_KEYS};
        place_partials(job, p, false);
        run(p, first);
        at += count;
        piece += at == (begin + rows) * job.heads;
    }
}


}   /* namespace mx::attention */
#endif
