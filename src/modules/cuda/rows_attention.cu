/* modules/cuda/rows_attention.cu - compiled attention of a decoder's rows, over a cache or over a window, heads of 64.
 *
 * Keys are cut into tiles of TILE. A block takes one head and up to ROWS neighbouring rows that listen to the same
 * window, so that keys and values are read once for all beams of a window; over a cache, a row. Of each tile it leaves
 * the largest score, the sum of the weights and the weighted sum of values; the last block of a row and head to be done
 * with its tiles joins them, in the order of the keys.
 * What holds: the order of every sum follows from the number of keys alone: not from the rows that share a block, nor
 * from how tiles are dealt to blocks, nor from which block is last. */
#include "modules/cuda/block.cuh"

#define WIDTH 64          /* of a head */
#define TILE 64           /* keys */
#define ROWS 8            /* that share a block at most */
#define THREADS 128
#define PER_KEY 8         /* threads to a key, of 8 elements each */
#define PASSES (TILE / (THREADS / PER_KEY))          /* keys of a thread */
#define GROUPS (THREADS / (WIDTH / 4))               /* of threads, each over all columns */
#define PART (WIDTH + 4)  /* floats of a tile's result: values, largest score, sum of weights, two of nothing */
#define HELD_TILES 64     /* whose weights in the whole are kept, where there are no more */

struct rows_job {
    const float *q, *k, *v;
    float *y, *parts;             /* parts [rows][heads][tiles][PART] */
    unsigned *arrived;            /* [rows * heads], 0 before and after */
    const int32_t *seq, *pos, *cells, *window;   /* of a cache: seq, pos and cells; of windows: window */
    int64_t ld_q, ctx, keys;
    int rows, heads, d, tiles;    /* tiles: of the longest row there may be */
    float scale;
};

/* What a block works on. */
struct rows_piece {
    int row, n, head, n_keys, n_tiles;
    const float *k, *v;           /* of the head, key 0 */
    const int32_t *cells;         /* NULL: keys follow each other */
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

__device__ __forceinline__ static float4 load4(const float *p) { return *(const float4 *)p; }

struct rows_shared {
    float q[ROWS][WIDTH];
    float weights[ROWS][TILE];            /* scores, then weights */
    float sums[GROUPS][ROWS][WIDTH];
    float scales[ROWS][HELD_TILES];       /* of the tiles, when they are joined */
    float top[ROWS], inverse[ROWS];
};

/* A thread's elements of its keys of the tile, and of values: all under way at once. */
struct rows_loads {
    float4 k[PASSES][2], v[TILE / GROUPS];
};

__device__ __forceinline__ static int64_t offset_of(const rows_job &job, const rows_piece &p, int key) {
    return (int64_t)(p.cells ? p.cells[key] : key) * job.d;
}

__device__ __forceinline__ static void load_tile(const rows_job &job, const rows_piece &p, int first, rows_loads &x) {
    int in_key = threadIdx.x % PER_KEY, column = threadIdx.x % (WIDTH / 4) * 4, group = threadIdx.x / (WIDTH / 4);
    const float4 zero = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < PASSES; i++) {
        int key = first + i * (THREADS / PER_KEY) + (int)threadIdx.x / PER_KEY;
        const float *from = p.k + (key < p.n_keys ? offset_of(job, p, key) : 0) + in_key * 4;
        x.k[i][0] = key < p.n_keys ? load4(from) : zero;
        x.k[i][1] = key < p.n_keys ? load4(from + WIDTH / 2) : zero;
    }
#pragma unroll
    for (int i = 0; i < TILE / GROUPS; i++) {
        int key = first + i * GROUPS + group;
        x.v[i] = key < p.n_keys ? load4(p.v + offset_of(job, p, key) + column) : zero;
    }
}

__device__ __forceinline__ static float dot4(float4 a, float4 b, float sum) {
    sum = __fmaf_rn(a.x, b.x, sum);
    sum = __fmaf_rn(a.y, b.y, sum);
    sum = __fmaf_rn(a.z, b.z, sum);
    return __fmaf_rn(a.w, b.w, sum);
}

/* Scores of the tile times scale; -inf behind the last key. */
template <int rows>
__device__ __forceinline__ static void score(const rows_job &job, const rows_piece &p, int first, const rows_loads &x,
                                             rows_shared &s) {
    int in_key = threadIdx.x % PER_KEY;
#pragma unroll
    for (int r = 0; r < rows; r++) {
        float4 q0 = load4(&s.q[r][in_key * 4]), q1 = load4(&s.q[r][WIDTH / 2 + in_key * 4]);
#pragma unroll
        for (int i = 0; i < PASSES; i++) {
            int key = i * (THREADS / PER_KEY) + (int)threadIdx.x / PER_KEY;
            float sum = dot4(x.k[i][1], q1, dot4(x.k[i][0], q0, 0));
#pragma unroll
            for (int half = PER_KEY / 2; half > 0; half /= 2)
                sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, half));
            if (in_key == 0)
                s.weights[r][key] = first + key < p.n_keys ? __fmul_rn(sum, job.scale) : -CUDART_INF_F;
        }
    }
}

/* Weights e^(score - largest), their largest score and sum: a warp for each row. */
__device__ __forceinline__ static void weigh(const rows_piece &p, rows_shared &s, float *parts, int64_t row_step) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
    for (int r = warp; r < p.n; r += THREADS / MX_WARP) {
        float a = s.weights[r][lane], b = s.weights[r][lane + MX_WARP];
        float top = mx_join_warp(mx_largest()(a, b), mx_largest());
        a = expf(__fsub_rn(a, top));
        b = expf(__fsub_rn(b, top));
        s.weights[r][lane] = a;
        s.weights[r][lane + MX_WARP] = b;
        float sum = mx_join_warp(__fadd_rn(a, b), mx_sum());
        if (lane == 0) {
            parts[r * row_step + WIDTH] = top;
            parts[r * row_step + WIDTH + 1] = sum;
        }
    }
}

/* The weighted sum of values: each group its keys in order, then the groups in order. */
template <int rows>
__device__ __forceinline__ static void add_values(const rows_piece &p, const rows_loads &x, rows_shared &s,
                                                  float *parts, int64_t row_step) {
    int column = threadIdx.x % (WIDTH / 4) * 4, group = threadIdx.x / (WIDTH / 4);
#pragma unroll
    for (int r = 0; r < rows; r++) {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < TILE / GROUPS; i++) {
            float w = s.weights[r][i * GROUPS + group];
            sum.x = __fmaf_rn(w, x.v[i].x, sum.x);
            sum.y = __fmaf_rn(w, x.v[i].y, sum.y);
            sum.z = __fmaf_rn(w, x.v[i].z, sum.z);
            sum.w = __fmaf_rn(w, x.v[i].w, sum.w);
        }
        *(float4 *)&s.sums[group][r][column] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.n * WIDTH; i += THREADS) {
        float all = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++)
            all = __fadd_rn(all, s.sums[g][i / WIDTH][i % WIDTH]);
        parts[i / WIDTH * row_step + i % WIDTH] = all;
    }
}

/* All rows of the piece over its tiles z, z + gridDim.z, ... */
template <int rows>
__device__ static void run_tiles(const rows_job &job, const rows_piece &p, rows_shared &s) {
    int64_t row_step = (int64_t)job.heads * job.tiles * PART;
    float *parts = job.parts + ((int64_t)p.row * job.heads + p.head) * job.tiles * PART;
    for (int tile = blockIdx.z; tile < p.n_tiles; tile += gridDim.z) {
        rows_loads x;
        load_tile(job, p, tile * TILE, x);
        __syncthreads();   /* q is there; the tile before is done with */
        score<rows>(job, p, tile * TILE, x, s);
        __syncthreads();
        weigh(p, s, parts + tile * PART, row_step);
        __syncthreads();
        add_values<rows>(p, x, s, parts + tile * PART, row_step);
    }
}

/* How much of a row each of its tiles is: a warp for each row. */
__device__ static void weigh_tiles(const rows_job &job, const rows_piece &p, rows_shared &s) {
    int warp = threadIdx.x / MX_WARP, lane = threadIdx.x % MX_WARP;
    for (int r = warp; r < p.n; r += THREADS / MX_WARP) {
        const float *parts = job.parts + ((int64_t)(p.row + r) * job.heads + p.head) * job.tiles * PART + WIDTH;
        float2 first = lane < p.n_tiles ? __ldcg((const float2 *)(parts + lane * PART)) : make_float2(-CUDART_INF_F, 0);
        float top = first.x, sum = 0;
        for (int t = lane + MX_WARP; t < p.n_tiles; t += MX_WARP)
            top = mx_largest()(top, __ldcg(parts + t * PART));
        top = mx_join_warp(top, mx_largest());
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
    for (int i = threadIdx.x; i < p.n * (WIDTH / 4); i += THREADS) {
        int r = i / (WIDTH / 4), column = i % (WIDTH / 4) * 4;
        const float *parts = job.parts + ((int64_t)(p.row + r) * job.heads + p.head) * job.tiles * PART;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 12
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
    for (int i = threadIdx.x; i < p.n * WIDTH; i += THREADS)
        s.q[i / WIDTH][i % WIDTH] = job.q[(p.row + i / WIDTH) * job.ld_q + p.head * WIDTH + i % WIDTH];
    if (p.n == 1)
        run_tiles<1>(job, p, s);
    else if (p.n <= 5)
        run_tiles<5>(job, p, s);
    else
        run_tiles<ROWS>(job, p, s);
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
           q->dims[0] * call->attrs->heads <= MX_CUDA_ARRIVALS && q->dims[0] <= 65535 && even(&call->inputs[1]) &&
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

mxw_status mx_cuda_rows_attention(mx_cuda *gpu, const mx_call *call) {
    int cached = call->op == MX_OP_ATTENTION_CACHED;
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
    if (cached) {
        job.seq = (const int32_t *)in[3].data;
        job.pos = (const int32_t *)in[4].data;
        job.cells = (const int32_t *)in[5].data;
        job.ctx = in[5].dims[1];
    } else {
        job.window = (const int32_t *)in[3].data;
        job.keys = in[1].dims[1];
    }
    if (job.rows == 0 || job.heads == 0)
        return MXW_OK;
    mx_launch(gpu, rows_attention_tiles, dim3((unsigned)job.heads, (unsigned)job.rows, shares_of(gpu, job, cached)),
              dim3(THREADS), 0, job);
    return mx_cuda_launched(gpu, call);
}
