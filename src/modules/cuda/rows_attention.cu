/* modules/cuda/rows_attention.cu - compiled attention of a decoder's rows, over a cache or over a window, heads of 64.
 *
 * Keys are cut into tiles. A block takes one head and up to ROWS neighbouring rows that listen to the same window, so
 * that keys and values are read once for all beams of a window; over a cache, a row. The last block of a row and head
 * to be done with its tiles joins them, in the order of the keys.
 * What holds: the order of every sum follows from the number of keys alone: not from the rows that share a block, nor
 * from how tiles are dealt to blocks, nor from which block is last. */
#include "modules/cuda/rows_attention.cuh"

#define THREADS 128       /* of a block */
#define HELD_TILES 64     /* whose weights in the whole are kept, where there are no more */

struct rows_shared {
    float pad[ROWS_PAD(ROWS)];
    float scales[ROWS][HELD_TILES];       /* of the tiles, when they are joined */
    float top[ROWS], inverse[ROWS];
};

/* n is 0: another block takes this row along. */
__device__ static rows_piece piece_of(const rows_job &job) {
    rows_piece p = {(int)blockIdx.y, 1, (int)blockIdx.x, 0, 0, job.k, job.v, NULL};
    int64_t shift = (int64_t)p.head * WIDTH;
    if (job.cells) {
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

/* All rows of the piece over its tiles z, z + gridDim.z, ... */
template <bool cached> __device__ static void run_tiles(const rows_job &job, const rows_piece &p, float *shared) {
    rows_group<THREADS> g = {(int)threadIdx.x, 0};
    rows_pad s = pad_at(shared, p.n);
    int64_t row_step = (int64_t)job.heads * job.tiles * PART;
    float *parts = job.parts + ((int64_t)p.row * job.heads + p.head) * job.tiles * PART;
    bring_query(job, p, g, s);
#pragma unroll 1
    for (int tile = blockIdx.z; tile < p.n_tiles; tile += gridDim.z) {
        rows_loads<rows_group<THREADS>> x;
        load_tile<cached>(job, p, g, tile * TILE, x);
        rows_parts to = {parts + tile * PART, row_step};
        finish_tile(job, p, g, tile, x, s, to);
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
            float scale = expf(__fsub_rn(of.x, top));
            sum = __fmaf_rn(scale, of.y, sum);
            if (t < HELD_TILES)
                s.scales[r][t] = scale;
        }
        sum = mx_join_warp(sum, mx_sum());
        if (lane == 0) {
            s.top[r] = top;
            s.inverse[r] = __fdiv_rn(1.0f, sum);
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
            float scale = t < HELD_TILES ? s.scales[r][t] : expf(__fsub_rn(__ldcg(parts + t * PART + WIDTH), s.top[r]));
            sum = make_float4(__fmaf_rn(scale, of.x, sum.x), __fmaf_rn(scale, of.y, sum.y),
                              __fmaf_rn(scale, of.z, sum.z), __fmaf_rn(scale, of.w, sum.w));
        }
        float inverse = s.inverse[r];
        *(float4 *)(job.y + (int64_t)(p.row + r) * job.d + p.head * WIDTH + column) = make_float4(
            __fmul_rn(sum.x, inverse), __fmul_rn(sum.y, inverse), __fmul_rn(sum.z, inverse), __fmul_rn(sum.w, inverse));
    }
}

/* Blocks: head, row, share of the tiles. */
__global__ void __launch_bounds__(THREADS) rows_attention_tiles(rows_job job) {
    __shared__ rows_shared s;
    __shared__ int is_last;
    mx_wait_before();
    rows_piece p = piece_of(job);
    int shares = min((int)gridDim.z, p.n_tiles);
    if (p.n == 0 || (int)blockIdx.z >= shares)
        return;
    if (job.cells)
        run_tiles<true>(job, p, s.pad);
    else
        run_tiles<false>(job, p, s.pad);
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

/* Blocks enough to fill the GPU about twice; beyond that, a block takes several tiles. */
static unsigned shares_of(const mx_cuda *gpu, const rows_job &job, int cached) {
    int64_t others = (int64_t)job.rows * job.heads / (cached ? 1 : MX_MIN(job.rows, 5));
    int64_t shares = (16 * (int64_t)gpu->device.info.cores + others - 1) / MX_MAX(others, 1);
    return (unsigned)MX_MAX(1, MX_MIN(shares, MX_MIN(job.tiles, 65535)));
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
    mx_launch(gpu, rows_attention_tiles, dim3((unsigned)job.heads, (unsigned)job.rows, shares_of(gpu, job, cached)),
              dim3(THREADS), 0, job);
    return mx_cuda_launched(gpu, call);
}
