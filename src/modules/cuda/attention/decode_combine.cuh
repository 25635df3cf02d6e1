/* modules/cuda/attention/decode_combine.cuh - what the kernels of decoder attention with a block of eight warps per
 * tile share: grouping rows, operands, storing partial results, and combining the tiles of a row in the order of the
 * keys. */
#ifndef MX_CUDA_ATTENTION_DECODE_COMBINE_CUH
#define MX_CUDA_ATTENTION_DECODE_COMBINE_CUH
#include "modules/cuda/attention/decode_tile.cuh"

namespace mx::attention {

constexpr int DECODE_THREADS = TILE_WARPS * WARP_SIZE;   /* of a block */
constexpr int MAX_BLOCKS_PER_SM = 3;
constexpr int PARTIAL_FLOATS =
    HEAD_DIM + 4;                 /* floats of a partial result: values, row max, sum of weights, two of padding */
constexpr int MAX_WEIGHTS = 32;   /* tiles per row whose weights are kept in shared memory */

struct combine_smem {
    tile_smem pad;
    float scales[TILE_ROWS][MAX_WEIGHTS];       /* weights of the tiles when they are combined */
    float top[TILE_ROWS], inverse[TILE_ROWS];
};

/* ---- row groups -------------------------------------------------------------------------------------------------- */

constexpr int ROW_CHUNK = 512;   /* rows grouped together: one row of the grid each */

/* Row groups: adjacent rows with something in common, limited in size. */
struct row_groups {
    uint16_t start[ROW_CHUNK + 2]; /* first row of each group, within the chunk; then the number of rows */
    unsigned runs[ROW_CHUNK / WARP_SIZE], begins[ROW_CHUNK / WARP_SIZE]; /* bit per row: one starts there */
};

/* First row, within the chunk, of the run of equal rows that row r belongs to. */
__device__ __forceinline__ static int run_of(const row_groups &s, int r) {
    int word = r / WARP_SIZE;
    unsigned begins = s.runs[word] & ((2u << r % WARP_SIZE) - 1);
    while (!begins && word > 0)
        begins = s.runs[--word];
    return word * WARP_SIZE + 31 - __clz((int)begins);
}

/* The number of groups of n rows. continues(r): whether row r has that in common with the one before it; called once
 * per row. most: rows per group, 1 to TILE_ROWS. */
template <typename Continues>
__device__ static int find_pieces(int n, int most, row_groups &s, const Continues &continues) {
    const int lane = threadIdx.x % WARP_SIZE, whole = (n + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE;
    int count = 0;
    if (most == 1) {
#pragma unroll 1
        for (int r = threadIdx.x; r <= n; r += DECODE_THREADS) {
            s.start[r] = (uint16_t)r;
            if (r < n)
                continues(r);
        }
        __syncthreads();
        return n;
    }
#pragma unroll 1
    for (int r = threadIdx.x; r < whole; r += DECODE_THREADS) {
        unsigned begins = __ballot_sync(0xffffffffu, r < n && (!continues(r) || r == 0));
        if (lane == 0)
            s.runs[r / WARP_SIZE] = begins;
    }
    __syncthreads();
#pragma unroll 1
    for (int r = threadIdx.x; r < whole; r += DECODE_THREADS) {
        unsigned begins = __ballot_sync(0xffffffffu, r < n && (r - run_of(s, r)) % most == 0);
        if (lane == 0)
            s.begins[r / WARP_SIZE] = begins;
    }
    __syncthreads();
#pragma unroll 1
    for (int word = 0; word < whole / WARP_SIZE; word++) {
        unsigned begins = s.begins[word];
        if (word % (DECODE_THREADS / WARP_SIZE) == threadIdx.x / WARP_SIZE && begins >> lane & 1)
            s.start[count + __popc(begins & ((1u << lane) - 1))] = (uint16_t)(word * WARP_SIZE + lane);
        count += __popc(begins);
    }
    if (threadIdx.x == 0)
        s.start[count] = (uint16_t)n;
    __syncthreads();
    return count;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

struct block_barrier {
    __device__ __forceinline__ void operator()() const { __syncthreads(); }
};

/* Warp r loads the query of row r, two columns per lane; zeros for rows that do not exist. */
__device__ __forceinline__ static float2 query_of(const decode_params &job, const row_group &p) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    const float *from = job.q + (p.row + warp) * job.ld_q + p.head * HEAD_DIM + lane * 2;
    return warp < p.n ? make_float2(__ldcg(from), __ldcg(from + 1)) : make_float2(0, 0);
}

template <int terms> __device__ __forceinline__ static void put_queries(tile_smem &s, float2 q) {
    put_query<terms>(s, threadIdx.x / WARP_SIZE, threadIdx.x % WARP_SIZE, q);
}

/* A lane's float4s of keys and of values, each of the warp's keys 2 i and 2 i + 1: all loads in flight at once, in
 * whole cache lines. A block reads each once, and another block may just have written it. Zeros past the last key. */
struct tile_loads {
    float4 k[8], v[8];
};

/* Keys in the order the lanes need them, through the warp's part of the value buffer. Lanes are swizzled in every
 * second step, so that the stores are bank-conflict free. */
__device__ __forceinline__ static void put_keys(uint4 *values, const float4 (&of)[8], uint4 (&k)[8]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, step = lane % 16 / 4;
    uint4 *mine = values + warp * 16 * (HEAD_DIM / 4);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int key = i * 2 + lane / 16;
        mine[(step * 2 + key / 8) * WARP_SIZE + ((key % 8 * 4 + lane % 4) ^ step % 2 * 4)] = split4(of[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; i++)
        k[i] = mine[i * WARP_SIZE + (lane ^ i / 2 % 2 * 4)];
    __syncwarp();
}

__device__ __forceinline__ static void put_values(uint4 *values, const float4 (&of)[8]) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int i = 0; i < 8; i++)
        put_value(values, warp * 16 + i * 2 + lane / 16, lane % 16, of[i]);
}

/* Where the results of a group's tiles go until they are combined: to memory that any block can read, or to the block's
 * own, which it uses again and again, so that it stays in L2. */
__device__ __forceinline__ static void place_partials(const decode_params &job, row_group &p, bool shared) {
    int64_t one = (int64_t)job.tiles * PARTIAL_FLOATS;
    p.row_step = shared ? job.heads * one : one;
    p.partials = shared ? job.partials + ((int64_t)p.row * job.heads + p.head) * one
                        : job.block_partials + (int64_t)(blockIdx.y * gridDim.x + blockIdx.x) * TILE_ROWS * one;
}

/* The columns of a warp's values: eight adjacent ones, or every second of the sixteen that two warps share. */
enum tile_columns { ADJACENT_COLUMNS, SECOND_COLUMNS };

/* Stores a lane's two columns of a head. */
template <tile_columns columns>
__device__ __forceinline__ static void put_columns(float *head, int warp, int lane, const float2 &v) {
    if constexpr (columns == ADJACENT_COLUMNS) {
        *(float2 *)(head + warp * 8 + lane % 4 * 2) = v;
    } else {
        float *to = head + warp / 2 * 16 + lane % 4 * 4 + warp % 2;
        to[0] = v.x;
        to[2] = v.y;
    }
}

/* Stores a row's result of a tile, by the lanes that own it: to the partials, or to y if there is no other tile. */
template <int terms, tile_columns columns = ADJACENT_COLUMNS>
__device__ __forceinline__ static void write_tile(const decode_params &job, const row_group &p, int tile, bool mine,
                                                  const tile_result &r) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
    int64_t row = p.row + lane / 4;
    if (!mine)
        return;
    if (p.n_tiles == 1) {
        put_columns<columns>(job.y + row * job.d + p.head * HEAD_DIM, warp, lane, times(r.y, share_of<terms>(r.sum)));
        return;
    }
    float *partials = p.partials + lane / 4 * p.row_step + tile * PARTIAL_FLOATS;
    put_columns<columns>(partials, warp, lane, r.y);
    if (warp == 0 && lane % 4 == 0)
        *(float2 *)(partials + HEAD_DIM) = make_float2(r.top, r.sum);
}

/* ---- combine ----------------------------------------------------------------------------------------------------- */

/* The weight of each of a row's tiles; a warp per row. */
template <int terms>
__device__ static void weigh_tiles(const row_group &p, combine_smem &s) {
    int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
#pragma unroll 1
    for (int r = warp; r < p.n; r += DECODE_THREADS / WARP_SIZE) {
        const float *partials = p.partials + r * p.row_step + HEAD_DIM;
        float2 first = lane < p.n_tiles ? __ldcg((const float2 *)(partials + lane * PARTIAL_FLOATS))
                                        : make_float2(-CUDART_INF_F, 0);
        float top = first.x, sum = 0;
#pragma unroll 1
        for (int t = lane + WARP_SIZE; t < p.n_tiles; t += WARP_SIZE)
            top = op_max()(top, __ldcg(partials + t * PARTIAL_FLOATS));
        top = warp_reduce(top, op_max());
#pragma unroll 1
        for (int t = lane; t < p.n_tiles; t += WARP_SIZE) {
            float2 of = t == lane ? first : __ldcg((const float2 *)(partials + t * PARTIAL_FLOATS));
            float scale = exp2_approx(__fsub_rn(of.x, top));
            sum = __fmaf_rn(scale, of.y, sum);
            if (t < MAX_WEIGHTS)
                s.scales[r][t] = scale;
        }
        sum = warp_reduce(sum, op_sum());
        if (lane == 0) {
            s.top[r] = top;
            s.inverse[r] = share_of<terms>(sum);
        }
    }
}

/* Combines the tiles of each row in order. */
template <int terms>
__device__ static void combine_tiles(const decode_params &job, const row_group &p, combine_smem &s) {
    weigh_tiles<terms>(p, s);
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < p.n * (HEAD_DIM / 4); i += DECODE_THREADS) {
        int r = i / (HEAD_DIM / 4), column = i % (HEAD_DIM / 4) * 4;
        const float *partials = p.partials + r * p.row_step;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 6
        for (int t = 0; t < p.n_tiles; t++) {
            float4 of = __ldcg((const float4 *)(partials + t * PARTIAL_FLOATS + column));
            float scale = t < MAX_WEIGHTS
                              ? s.scales[r][t]
                              : exp2_approx(__fsub_rn(__ldcg(partials + t * PARTIAL_FLOATS + HEAD_DIM), s.top[r]));
            sum = make_float4(__fmaf_rn(scale, of.x, sum.x), __fmaf_rn(scale, of.y, sum.y),
                              __fmaf_rn(scale, of.z, sum.z), __fmaf_rn(scale, of.w, sum.w));
        }
        float inverse = s.inverse[r];
        *(float4 *)(job.y + (int64_t)(p.row + r) * job.d + p.head * HEAD_DIM + column) = make_float4(
            __fmul_rn(sum.x, inverse), __fmul_rn(sum.y, inverse), __fmul_rn(sum.z, inverse), __fmul_rn(sum.w, inverse));
    }
}

/* Called after a block wrote its tiles of a group that `blocks` blocks share: the last of them combines. */
template <int terms>
__device__ static void finish_group(const decode_params &job, const row_group &p, unsigned blocks, combine_smem &s) {
    __shared__ int is_last;
    if (blocks > 1) {
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned *arrived = job.arrived + p.row * job.heads + p.head;
            is_last = atomicAdd(arrived, 1u) == blocks - 1;
            if (is_last)
                *arrived = 0;
        }
    }
    __syncthreads();
    if (blocks > 1) {
        if (!is_last)
            return;
        __threadfence();
    }
    combine_tiles<terms>(job, p, s);
}

void decode_cross_attention(mx_cuda *gpu, const decode_params &job);   /* attention/decode_cross.cu */
/* attention/decode_paged_f16.cu */
void decode_paged_f16_attention(mx_cuda *gpu, const decode_params &job);
int decode_paged_f16_fits(const mx_cuda *gpu);   /* in the shared memory of a block */

}   /* namespace mx::attention */
#endif
