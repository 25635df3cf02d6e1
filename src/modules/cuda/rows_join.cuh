/* modules/cuda/rows_join.cuh - what kernels of a decoder's attention share that have a block of eight warps to a tile:
 * which rows are worked on together, operands, a tile's results on their way to memory, and the tiles of a row joined
 * in the order of the keys. */
#ifndef MX_CUDA_ROWS_JOIN_CUH
#define MX_CUDA_ROWS_JOIN_CUH
#include "modules/cuda/rows_attention.cuh"

#define THREADS (LISTENERS * MX_WARP)   /* of a block */
#define PART (WIDTH + 4)  /* floats of a tile's result: values, largest score, sum of weights, two of nothing */
#define HELD_TILES 32     /* whose weights in the whole are kept, where there are no more */

struct rows_shared {
    rows_pad pad;
    float scales[ROWS][HELD_TILES];       /* of the tiles, when they are joined */
    float top[ROWS], inverse[ROWS];
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

#define CHUNK 512     /* rows that are looked at together: a row of the grid to each */

/* Pieces: neighbouring rows that have something in common, at most so many to each. */
struct rows_pieces {
    uint16_t start[CHUNK + 2];    /* row of the chunk that each begins with; behind the last one, how many there are */
    unsigned runs[CHUNK / MX_WARP], begins[CHUNK / MX_WARP];   /* a bit to a row: whether one begins there */
};

/* Row of the chunk that the run of row r, of rows with the same in common, begins with. */
__device__ __forceinline__ static int run_of(const rows_pieces &s, int r) {
    int word = r / MX_WARP;
    unsigned begins = s.runs[word] & ((2u << r % MX_WARP) - 1);
    while (!begins && word > 0)
        begins = s.runs[--word];
    return word * MX_WARP + 31 - __clz((int)begins);
}

/* How many pieces n rows have. continues(r): whether row r has that in common with the one before it; it is asked for
 * every row once. most: rows of a piece, 1 to ROWS. */
template <typename Continues>
__device__ static int find_pieces(int n, int most, rows_pieces &s, const Continues &continues) {
    const int lane = threadIdx.x % MX_WARP, whole = (n + MX_WARP - 1) / MX_WARP * MX_WARP;
    int count = 0;
    if (most == 1) {
#pragma unroll 1
        for (int r = threadIdx.x; r <= n; r += THREADS) {
            s.start[r] = (uint16_t)r;
            if (r < n)
                continues(r);
        }
        __syncthreads();
        return n;
    }
#pragma unroll 1
    for (int r = threadIdx.x; r < whole; r += THREADS) {
        unsigned begins = __ballot_sync(0xffffffffu, r < n && (!continues(r) || r == 0));
        if (lane == 0)
            s.runs[r / MX_WARP] = begins;
    }
    __syncthreads();
#pragma unroll 1
    for (int r = threadIdx.x; r < whole; r += THREADS) {
        unsigned begins = __ballot_sync(0xffffffffu, r < n && (r - run_of(s, r)) % most == 0);
        if (lane == 0)
            s.begins[r / MX_WARP] = begins;
    }
    __syncthreads();
#pragma unroll 1
    for (int word = 0; word < whole / MX_WARP; word++) {
        unsigned begins = s.begins[word];
        if (word % (THREADS / MX_WARP) == threadIdx.x / MX_WARP && begins >> lane & 1)
            s.start[count + __popc(begins & ((1u << lane) - 1))] = (uint16_t)(word * MX_WARP + lane);
        count += __popc(begins);
    }
    if (threadIdx.x == 0)
        s.start[count] = (uint16_t)n;
    __syncthreads();
    return count;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

struct meet_threads {
    __device__ __forceinline__ void operator()() const { __syncthreads(); }
};

/* Warp r has the query of row r, a lane two columns; of rows that there are not, zeros. */
__device__ __forceinline__ static float2 query_of(const rows_job &job, const rows_piece &p) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
    const float *from = job.q + (p.row + warp) * job.ld_q + p.head * WIDTH + lane * 2;
    return warp < p.n ? make_float2(__ldcg(from), __ldcg(from + 1)) : make_float2(0, 0);
}

__device__ __forceinline__ static void put_queries(rows_pad &s, float2 q) {
    put_query(s, threadIdx.x / MX_WARP, threadIdx.x % MX_WARP, q);
}

/* A lane's fours of keys and of values, each of the warp's keys 2 i and 2 i + 1: all under way at once, in whole lines.
 * A block reads each once, and another one may just have written it. Behind the last key are zeros. */
struct rows_loads {
    float4 k[8], v[8];
};

/* The keys as the lanes take them, through the warp's part of the values' memory. Every second step's lanes change
 * places, so that a warp that writes meets no bank twice. */
__device__ __forceinline__ static void put_keys(rows_pad &s, const float4 (&of)[8], uint4 (&k)[8]) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP, step = lane % 16 / 4;
    uint4 *mine = s.v + warp * 16 * (WIDTH / 4);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int key = i * 2 + lane / 16;
        mine[(step * 2 + key / 8) * MX_WARP + ((key % 8 * 4 + lane % 4) ^ step % 2 * 4)] = four_in_parts(of[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; i++)
        k[i] = mine[i * MX_WARP + (lane ^ i / 2 % 2 * 4)];
    __syncwarp();
}

__device__ __forceinline__ static void put_values(rows_pad &s, const float4 (&of)[8]) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
#pragma unroll
    for (int i = 0; i < 8; i++)
        put_value(s, warp * 16 + i * 2 + lane / 16, lane % 16, of[i]);
}

/* A row's result of a tile, by the lanes that have it: to the parts, or, if there is no other tile, to y. */
__device__ __forceinline__ static void write_tile(const rows_job &job, const rows_piece &p, int tile, bool mine,
                                                  const rows_result &r) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP, column = warp * 8 + lane % 4 * 2;
    int64_t row = p.row + lane / 4;
    if (!mine)
        return;
    if (p.n_tiles == 1) {
        *(float2 *)(job.y + row * job.d + p.head * WIDTH + column) = times(r.y, share_of(r.sum));
        return;
    }
    float *parts = job.parts + ((row * job.heads + p.head) * job.tiles + tile) * PART;
    *(float2 *)(parts + column) = r.y;
    if (warp == 0 && lane % 4 == 0)
        *(float2 *)(parts + WIDTH) = make_float2(r.top, r.sum);
}

/* ---- joins ------------------------------------------------------------------------------------------------------- */

/* How much of a row each of its tiles is: a warp for each row. */
__device__ static void weigh_tiles(const rows_job &job, const rows_piece &p, rows_shared &s) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
#pragma unroll 1
    for (int r = warp; r < p.n; r += THREADS / MX_WARP) {
        const float *parts = job.parts + ((int64_t)(p.row + r) * job.heads + p.head) * job.tiles * PART + WIDTH;
        float2 first = lane < p.n_tiles ? __ldcg((const float2 *)(parts + lane * PART)) : make_float2(-CUDART_INF_F, 0);
        float top = first.x, sum = 0;
#pragma unroll 1
        for (int t = lane + MX_WARP; t < p.n_tiles; t += MX_WARP)
            top = mx_largest()(top, __ldcg(parts + t * PART));
        top = mx_join_warp(top, mx_largest());
#pragma unroll 1
        for (int t = lane; t < p.n_tiles; t += MX_WARP) {
            float2 of = t == lane ? first : __ldcg((const float2 *)(parts + t * PART));
            float scale = mx_power_of_2(__fsub_rn(of.x, top));
            sum = __fmaf_rn(scale, of.y, sum);
            if (t < HELD_TILES)
                s.scales[r][t] = scale;
        }
        sum = mx_join_warp(sum, mx_sum());
        if (lane == 0) {
            s.top[r] = top;
            s.inverse[r] = share_of(sum);
        }
    }
}

/* The tiles of each row, joined in order. */
__device__ static void join_tiles(const rows_job &job, const rows_piece &p, rows_shared &s) {
    weigh_tiles(job, p, s);
    __syncthreads();
#pragma unroll 1
    for (int i = threadIdx.x; i < p.n * (WIDTH / 4); i += THREADS) {
        int r = i / (WIDTH / 4), column = i % (WIDTH / 4) * 4;
        const float *parts = job.parts + ((int64_t)(p.row + r) * job.heads + p.head) * job.tiles * PART;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 6
        for (int t = 0; t < p.n_tiles; t++) {
            float4 of = __ldcg((const float4 *)(parts + t * PART + column));
            float scale = t < HELD_TILES ? s.scales[r][t]
                                         : mx_power_of_2(__fsub_rn(__ldcg(parts + t * PART + WIDTH), s.top[r]));
            sum = make_float4(__fmaf_rn(scale, of.x, sum.x), __fmaf_rn(scale, of.y, sum.y),
                              __fmaf_rn(scale, of.z, sum.z), __fmaf_rn(scale, of.w, sum.w));
        }
        float inverse = s.inverse[r];
        *(float4 *)(job.y + (int64_t)(p.row + r) * job.d + p.head * WIDTH + column) = make_float4(
            __fmul_rn(sum.x, inverse), __fmul_rn(sum.y, inverse), __fmul_rn(sum.z, inverse), __fmul_rn(sum.w, inverse));
    }
}

/* After a block wrote its tiles of a piece, of which `blocks` have some: the last of them joins them. */
__device__ static void leave_piece(const rows_job &job, const rows_piece &p, unsigned blocks, rows_shared &s) {
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
    join_tiles(job, p, s);
}

void mx_cuda_rows_over_windows(mx_cuda *gpu, const rows_job &job);   /* rows_windows.cu */
#endif
