/* modules/cuda/attention/decode_cross.cu - compiled cross-attention of decoder rows over windows, heads of 64.
 *
 * A row group is up to TILE_ROWS adjacent rows that attend to the same window, so that its keys and values are read
 * once for all of them. The tiles of all groups and heads are assigned evenly to persistent blocks: a block has
 * consecutive tiles, and prefetches the next one while it works on one. Tiles of a group and head are combined by the
 * last block that has some, in the order of the keys.
 * Invariants: the order of every sum follows from the number of keys alone: not from the rows that share a group, the
 * assignment of tiles to blocks, or which block is last. */
#include "modules/cuda/attention/decode_combine.cuh"

namespace mx::attention {

namespace {

constexpr int BLOCKS_PER_SM = 2;   /* resident blocks per SM */

struct cross_smem {
    combine_smem s;
    row_groups pieces;
    int window[ROW_CHUNK];   /* of the rows */
};

struct tile_place {
    int piece, head, tile;
};

__device__ __forceinline__ static tile_place place_after(const decode_params &job, tile_place at) {
    tile_place next = {at.piece, at.head, at.tile + 1};
    if (next.tile == job.tiles) {
        next.tile = 0;
        next.head++;
    }
    if (next.head == job.heads) {
        next.head = 0;
        next.piece++;
    }
    return next;
}

__device__ __forceinline__ static row_group piece_at(const decode_params &job, const cross_smem &s, tile_place at) {
    int row = s.pieces.start[at.piece];
    row_group p = {(int)blockIdx.y * ROW_CHUNK + row, s.pieces.start[at.piece + 1] - row, at.head, (int)job.keys,
                    job.tiles, NULL, NULL, NULL};
    return p;
}

/* Streamed once: evict-first in L2. */
__device__ __forceinline__ static float4 load_once(const float *from) {
#if __CUDA_ARCH__ >= 800
    float4 v;
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from), "l"(policy));
    return v;
#else
    return __ldcg((const float4 *)from);
#endif
}

__device__ __forceinline__ static void load_tile(const decode_params &job, const cross_smem &s, tile_place at,
                                                 tile_loads &x) {
    int lane = threadIdx.x % WARP_SIZE, first = at.tile * TILE_KEYS + threadIdx.x / WARP_SIZE * 16 + lane / 16;
    int64_t from = (s.window[s.pieces.start[at.piece]] * job.keys + first) * job.d + at.head * HEAD_DIM + lane % 16 * 4;
    const float *k = job.k + from, *v = job.v + from;
    int left = (int)job.keys - first;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x.k[i] = x.v[i] = make_float4(0, 0, 0, 0);
        if (i * 2 < left) {
            x.k[i] = load_once(k + i * 2 * job.d);
            x.v[i] = load_once(v + i * 2 * job.d);
        }
    }
}

/* Of `all` tiles in the order of groups, heads and keys, a block has those from all * block / blocks on. */
__device__ __forceinline__ static unsigned block_of(unsigned tile, unsigned all, unsigned blocks) {
    return ((tile + 1) * blocks - 1) / all;
}

__global__ void __launch_bounds__(DECODE_THREADS, BLOCKS_PER_SM) decode_cross_kernel(decode_params job) {
    __shared__ cross_smem s;
    const float scale = power_scale(job);
    const int first_row = blockIdx.y * ROW_CHUNK;
    tile_loads x;
    pdl_wait();
    const int32_t *window = job.window + first_row;
    unsigned all = (unsigned)find_pieces(min(ROW_CHUNK, job.rows - first_row), TILE_ROWS, s.pieces,
                                         [&](int r) {
                                             s.window[r] = window[r];
                                             return r > 0 && window[r - 1] == window[r];
                                         }) *
                   job.heads * job.tiles;
    unsigned blocks = min(gridDim.x, all), at = blockIdx.x * all / blocks, end = (blockIdx.x + 1) * all / blocks;
    if (blockIdx.x >= blocks)
        return;
    unsigned group = at / (unsigned)job.tiles, piece = group / (unsigned)job.heads;
    tile_place now = {(int)piece, (int)(group - piece * job.heads), (int)(at - group * job.tiles)};
    load_tile(job, s, now, x);
    put_queries(s.s.pad, query_of(job, piece_at(job, s, now)));
#pragma unroll 1
    for (; at < end; at++) {
        tile_place next = place_after(job, now);
        bool more = at + 1 < end, leaves = !more || next.tile == 0;
        uint4 k[8];
        float scores[4];
        float2 q = make_float2(0, 0);
        __syncthreads();   /* queries are ready; the tile before is no longer read */
        put_keys(s.s.pad, x.k, k);
        put_values(s.s.pad, x.v);
        begin_tile(s.s.pad, k, (int)job.keys - now.tile * TILE_KEYS, scale, scores);
        if (more) {
            load_tile(job, s, next, x);
            if (leaves)
                q = query_of(job, piece_at(job, s, next));
        }
        row_group p = piece_at(job, s, now);
        write_tile(job, p, now.tile, (int)threadIdx.x % WARP_SIZE / 4 < p.n,
                   finish_tile<false>(s.s.pad, scores, block_barrier()));
        if (leaves && more)
            put_queries(s.s.pad, q);
        if (leaves && job.tiles > 1) {
            unsigned begin = at - now.tile;
            finish_group(job, p, block_of(begin + job.tiles - 1, all, blocks) - block_of(begin, all, blocks) + 1, s.s);
        }
        now = next;
    }
}

}   /* namespace */

void decode_cross_attention(mx_cuda *gpu, const decode_params &job) {
    int64_t tiles = (int64_t)job.rows * job.heads * job.tiles, most = MX_MAX(1, ((int64_t)1 << 31) / tiles);
    int64_t blocks = MX_MIN(MX_MIN((int64_t)gpu->device.info.cores * BLOCKS_PER_SM, tiles), most);
    launch_kernel(gpu, decode_cross_kernel, dim3((unsigned)blocks, (unsigned)((job.rows + ROW_CHUNK - 1) / ROW_CHUNK)),
                  dim3(DECODE_THREADS), 0, job);
}

}   /* namespace mx::attention */
