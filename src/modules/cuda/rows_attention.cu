/* modules/cuda/rows_attention.cu - compiled attention of a decoder's rows, over a cache or over a window, heads of 64.
 *
 * Keys are cut into tiles. A block takes one head and up to ROWS neighbouring rows that listen to the same window, so
 * that keys and values are read once for all beams of a window; over a cache, a row. The last block of a row and head
 * to be done with its tiles joins them, in the order of the keys.
 * What holds: the order of every sum follows from the number of keys alone: not from the rows that share a block, nor
 * from how tiles are dealt to blocks, nor from which block is last. */
#include "modules/cuda/rows_attention.cuh"

#define THREADS (LISTENERS * MX_WARP)   /* of a block */
#define PART (WIDTH + 4)  /* floats of a tile's result: values, largest score, sum of weights, two of nothing */
#define WINDOW_BLOCKS 2   /* that a multiprocessor has at a time */
#define CACHE_BLOCKS 3
#define MOST_SHARES 64    /* of a row's tiles */
#define HELD_TILES 32     /* whose weights in the whole are kept, where there are no more */

struct rows_shared {
    rows_pad pad;
    float scales[ROWS][HELD_TILES];       /* of the tiles, when they are joined */
    float top[ROWS], inverse[ROWS];
};

/* n is 0: another block takes this row along. */
template <bool cached> __device__ static rows_piece piece_of(const rows_job &job) {
    rows_piece p = {(int)blockIdx.y, 1, (int)blockIdx.x, 0, 0, job.k, job.v, NULL};
    int64_t shift = (int64_t)p.head * WIDTH;
    if (cached) {
        p.n_keys = job.pos[p.row] + 1;
        p.cells = job.cells + job.seq[p.row] * job.ctx;
    } else {
        int lane = threadIdx.x % MX_WARP, before = 0, at = p.row + lane;
        int window = job.window[p.row], behind = lane < ROWS && at < job.rows ? job.window[at] : -1;
        int earlier = p.row - 1 - lane >= 0 ? job.window[p.row - 1 - lane] : -1;
        unsigned others = __ballot_sync(0xffffffffu, behind != window);
        p.n = __ffs(others) - 1;
        /* rows right before this one that listen to the same window */
        while ((others = __ballot_sync(0xffffffffu, earlier != window)) == 0) {
            before += MX_WARP;
            at = p.row - 1 - before - lane;
            earlier = at >= 0 ? job.window[at] : -1;
        }
        before += __ffs(others) - 1;
        p.n = before % ROWS ? 0 : p.n;
        p.n_keys = (int)job.keys;
        shift += window * job.keys * job.d;
    }
    p.n_tiles = (p.n_keys + TILE - 1) / TILE;
    p.k += shift;
    p.v += shift;
    return p;
}

struct meet_threads {
    __device__ __forceinline__ void operator()() const { __syncthreads(); }
};

/* Rows that there are not are zeros. */
__device__ static void bring_queries(const rows_job &job, const rows_piece &p, rows_pad &s) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
    const float *from = job.q + (p.row + warp) * job.ld_q + p.head * WIDTH + lane * 2;
    put_query(s, warp, lane, warp < p.n ? make_float2(__ldcg(from), __ldcg(from + 1)) : make_float2(0, 0));
}

/* A lane's fours of keys and of values, each of the warp's keys 2 i and 2 i + 1: all under way at once, in whole lines.
 * A block reads each once, and another one may just have written it. Behind the last key are zeros. */
struct rows_loads {
    float4 k[8], v[8];
};

template <bool cached>
__device__ __forceinline__ static void load_tile(const rows_job &job, const rows_piece &p, int first, rows_loads &x) {
    int lane = threadIdx.x % MX_WARP, key = first + threadIdx.x / MX_WARP * 16 + lane % 16;
    int cell = min(key, p.n_keys - 1);
    unsigned there = __ballot_sync(0xffffffffu, key < p.n_keys);
    if (cached)
        cell = __ldcg(p.cells + cell);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int of = i * 2 + lane / 16;
        int64_t from = (int64_t)__shfl_sync(0xffffffffu, cell, of) * job.d;
        x.k[i] = x.v[i] = make_float4(0, 0, 0, 0);
        if (there >> of & 1) {
            x.k[i] = __ldcg((const float4 *)(p.k + from) + lane % 16);
            x.v[i] = __ldcg((const float4 *)(p.v + from) + lane % 16);
        }
    }
}

/* The keys as the lanes take them, through the warp's part of the values' memory; then the values. Every second step's
 * lanes change places, so that a warp that writes meets no bank twice. */
__device__ __forceinline__ static void put_tile(rows_pad &s, const rows_loads &x, uint4 (&k)[8]) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP, step = lane % 16 / 4;
    uint4 *mine = s.v + warp * 16 * (WIDTH / 4);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int key = i * 2 + lane / 16;
        mine[(step * 2 + key / 8) * MX_WARP + ((key % 8 * 4 + lane % 4) ^ step % 2 * 4)] = four_in_parts(x.k[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; i++)
        k[i] = mine[i * MX_WARP + (lane ^ i / 2 % 2 * 4)];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; i++)
        put_value(s, warp * 16 + i * 2 + lane / 16, lane % 16, x.v[i]);
}

/* A row's result of a tile: to the parts, or, if there is no other tile, to y. */
__device__ __forceinline__ static void write_tile(const rows_job &job, const rows_piece &p, int tile,
                                                  const rows_result &r) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP, column = warp * 8 + lane % 4 * 2;
    int64_t row = p.row + lane / 4;
    if (lane / 4 >= p.n)
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

/* All rows of the piece over its tiles z, z + gridDim.z, ...; of a window, the next one is on its way while one is
 * worked on. A cache has rarely more than one: there, fewer registers and more blocks at a time are better. */
template <bool cached> __device__ static void run_tiles(const rows_job &job, const rows_piece &p, rows_pad &s) {
    float scale = power_scale(job);
    rows_loads x;
    if (!cached)
        load_tile<cached>(job, p, blockIdx.z * TILE, x);
    bring_queries(job, p, s);
#pragma unroll 1
    for (int tile = blockIdx.z; tile < p.n_tiles; tile += gridDim.z) {
        uint4 k[8];
        float scores[4];
        if (cached)
            load_tile<cached>(job, p, tile * TILE, x);
        __syncthreads();   /* queries are there; the tile before is done with */
        put_tile(s, x, k);
        begin_tile(s, k, p.n_keys - tile * TILE, scale, scores);
        if (!cached && tile + (int)gridDim.z < p.n_tiles)
            load_tile<cached>(job, p, (tile + gridDim.z) * TILE, x);
        write_tile(job, p, tile, finish_tile<false>(s, scores, meet_threads()));
    }
}

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

/* Blocks: head, row, share of the tiles. */
template <bool cached>
__global__ void __launch_bounds__(THREADS, cached ? CACHE_BLOCKS : WINDOW_BLOCKS) rows_attention_tiles(rows_job job) {
    __shared__ rows_shared s;
    __shared__ int is_last;
    mx_wait_before();
    rows_piece p = piece_of<cached>(job);
    int shares = min((int)gridDim.z, p.n_tiles);
    if (p.n == 0 || (int)blockIdx.z >= shares)
        return;
    run_tiles<cached>(job, p, s.pad);
    if (p.n_tiles == 1)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned *arrived = job.arrived + p.row * job.heads + p.head;
        is_last = (int)atomicAdd(arrived, 1u) == shares - 1;
        if (is_last)
            *arrived = 0;
    }
    __syncthreads();
    if (is_last) {
        __threadfence();
        join_tiles(job, p, s);
    }
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

static int64_t longest(const mx_call *call) {
    return call->op == MX_OP_ATTENTION_CACHED ? call->inputs[5].dims[1] : call->inputs[1].dims[1];
}

static int even(const mx_tensor *t) {
    return (uintptr_t)t->data % 16 == 0 && t->dtype == MXW_F32 && t->dims[t->rank - 1] % 4 == 0;
}

int mx_cuda_rows_attention_takes(const mx_call *call) {
    const mx_tensor *q = &call->inputs[0];
    return call->compiled && q->dims[1] == (int64_t)call->attrs->heads * WIDTH && longest(call) < (1 << 24) &&
           q->dims[0] * call->attrs->heads <= MX_CUDA_ARRIVALS - 2 && q->dims[0] <= 65535 && even(&call->inputs[1]) &&
           even(&call->inputs[2]) && even(&call->outputs[0]);
}

static int64_t tiles_of(const mx_call *call) { return (longest(call) + TILE - 1) / TILE; }

size_t mx_cuda_rows_attention_scratch(const mx_call *call) {
    return (size_t)(call->inputs[0].dims[0] * call->attrs->heads * tiles_of(call) * PART) * sizeof(float);
}

/* Into how many shares the tiles of a row are cut: where the blocks, so many at once, are done soonest; of equals the
 * fewest, since a block that goes on to a next tile loses no time. */
static unsigned shares_of(const mx_cuda *gpu, const rows_job &job, int cached) {
    int64_t others = MX_MAX(1, (int64_t)job.rows * job.heads / (cached ? 1 : MX_MIN(job.rows, 5)));
    int64_t at_once = (int64_t)gpu->device.info.cores * (cached ? CACHE_BLOCKS : WINDOW_BLOCKS);
    int64_t best = 1, least = INT64_MAX;
    for (int64_t shares = 1; shares <= MX_MIN(job.tiles, MOST_SHARES); shares++) {
        int64_t time = (others * shares + at_once - 1) / at_once * ((job.tiles + shares - 1) / shares);
        best = time < least ? shares : best;
        least = MX_MIN(least, time);
    }
    return (unsigned)best;
}

rows_job mx_rows_job_of(const mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *in = call->inputs;
    rows_job job = {};
    job.q = (const float *)in[0].data;
    job.k = (const float *)in[1].data;
    job.v = (const float *)in[2].data;
    job.y = (float *)call->outputs[0].data;
    job.parts = (float *)call->scratch;
    job.arrived = gpu->arrivals;
    job.ld_q = in[0].strides[0];
    job.rows = (int)in[0].dims[0];
    job.d = (int)in[0].dims[1];
    job.heads = call->attrs->heads;
    job.tiles = (int)tiles_of(call);
    job.scale = (float)call->attrs->scale;
    if (call->op == MX_OP_ATTENTION_CACHED) {
        job.seq = (const int32_t *)in[3].data;
        job.pos = (const int32_t *)in[4].data;
        job.cells = (const int32_t *)in[5].data;
        job.ctx = in[5].dims[1];
    } else {
        job.window = (const int32_t *)in[3].data;
        job.keys = in[1].dims[1];
    }
    return job;
}

mxw_status mx_cuda_rows_attention(mx_cuda *gpu, const mx_call *call) {
    rows_job job = mx_rows_job_of(gpu, call);
    int cached = call->op == MX_OP_ATTENTION_CACHED;
    if (job.rows == 0 || job.heads == 0)
        return MXW_OK;
    mx_launch(gpu, cached ? rows_attention_tiles<true> : rows_attention_tiles<false>,
              dim3((unsigned)job.heads, (unsigned)job.rows, shares_of(gpu, job, cached)), dim3(THREADS), 0, job);
    return mx_cuda_launched(gpu, call);
}
