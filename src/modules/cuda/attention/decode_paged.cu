/* modules/cuda/attention/decode_paged.cu - compiled attention of decoder rows, heads of 64: the ops, and the kernel
 * over a paged KV cache of f32. Of f16: attention/decode_paged_f16.cu. Over windows: attention/decode_cross.cu.
 *
 * Keys are cut into tiles. The beams of a window are adjacent and share most of their keys, the cells before they
 * diverge: a row group is up to TILE_ROWS of them. A block goes from row to row, and a warp converts its 16 keys and
 * values to operands again only where they differ from those of the row before.
 * Invariants: the order of every sum follows from the number of keys alone: not from the rows of a group or the
 * assignment of rows to blocks. */
#include "modules/cuda/attention/decode_paged.cuh"

namespace mx::attention {

namespace {

constexpr int BLOCKS_PER_SM = 3;   /* resident blocks per SM */
static_assert(BLOCKS_PER_SM <= MAX_BLOCKS_PER_SM, "scratch is for as many");

struct paged_smem : paged_rows {
    combine_smem s;
    uint4 v[TILE_CHUNKS<2>];
};

/* float4s of keys or of values of a warp's cells, each of keys 2 i and 2 i + 1: all loads in flight at once, in whole
 * cache lines. A block reads each once, and another block may just have written it. */
__device__ __forceinline__ static void load_cells(const void *from, int head, int d, int cell, float4 (&x)[8]) {
    int lane = threadIdx.x % WARP_SIZE;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int of = __shfl_sync(0xffffffffu, cell, i * 2 + lane / 16);
        x[i] = __ldcg((const float4 *)((const float *)from + head * HEAD_DIM + (int64_t)of * d) + lane % 16);
    }
}

/* A warp's 16 keys and values as operands; zeros where it has none. */
__device__ __forceinline__ static void put_cells(const decode_params &job, int head, int cell, paged_smem &s,
                                                 uint4 (&k)[8]) {
    if (__any_sync(0xffffffffu, cell >= 0)) {
        float4 x[8];
        load_cells(job.k, head, job.d, cell, x);
        put_keys(s.v, x, k);
        load_cells(job.v, head, job.d, cell, x);
        put_values(s.v, x);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            k[i] = make_uint4(0, 0, 0, 0);
            s.v[(threadIdx.x / WARP_SIZE * 8 + i) * WARP_SIZE + threadIdx.x % WARP_SIZE] = k[i];
        }
    }
}

/* The rows of a group over a tile, one after another. */
__device__ __forceinline__ static void run_tile(const decode_params &job, const row_group &p, int first, int tile,
                                                paged_smem &s) {
    int lane = threadIdx.x % WARP_SIZE, before = -2;
    float scale = power_scale<2>(job);
    uint4 k[8];
    int cell = cell_of(job, s, first, tile);
#pragma unroll 1
    for (int r = 0; r < p.n; r++) {
        float scores[4];
        int next = r + 1 < p.n ? cell_of(job, s, first + r + 1, tile) : -1;
        __syncthreads();   /* queries are ready; the row before is no longer read */
        if (__any_sync(0xffffffffu, cell != before))
            put_cells(job, p.head, cell, s, k);
        begin_tile<2>(s.s.pad, k, s.keys[first + r] - tile * TILE_KEYS, scale, scores);
        write_tile<2>(job, p, tile, lane / 4 == r, finish_tile<2, false>(s.s.pad, s.v, scores, block_barrier()));
        before = cell;
        cell = next;
    }
}

/* most: rows per group. */
__global__ void __launch_bounds__(DECODE_THREADS, BLOCKS_PER_SM) decode_paged_kernel(decode_params job, int most) {
    __shared__ paged_smem s;
    pdl_wait();
    run_groups(job, most, s, [&](const row_group &p, int first) {
        put_queries<2>(s.s.pad, query_of(job, p));
#pragma unroll 1
        for (int tile = 0; tile < p.n_tiles; tile++)
            run_tile(job, p, first, tile, s);
        if (p.n_tiles > 1)
            finish_group<2>(job, p, 1, s.s);
    });
}

/* ---- ops --------------------------------------------------------------------------------------------------------- */

static int64_t longest(const mx_call *call) {
    return call->op == MX_OP_ATTENTION_CACHED ? call->inputs[5].dims[1] : call->inputs[1].dims[1];
}

static int even(const mx_tensor *t) { return (uintptr_t)t->data % 16 == 0 && t->dims[t->rank - 1] % 4 == 0; }

static int is_known(const mx_call *call) {
    mxw_dtype k = call->inputs[1].dtype, v = call->inputs[2].dtype;
    return k == v && (k == MXW_F32 || k == MXW_F16 || (k == MXW_F8 && call->op == MX_OP_ATTENTION_WINDOW));
}

}   /* namespace */

extern "C" int mx_cuda_decode_attention_takes(const mx_call *call) {
    const mx_tensor *q = &call->inputs[0];
    return call->compiled && q->dims[1] == (int64_t)call->attrs->heads * HEAD_DIM && longest(call) < (1 << 24) &&
           q->dims[0] * call->attrs->heads <= MX_CUDA_ARRIVALS - 2 && q->dims[0] <= 65535 && even(&call->inputs[1]) &&
           even(&call->inputs[2]) && is_known(call) && even(&call->outputs[0]);
}

static int64_t tiles_of(const mx_call *call) { return (longest(call) + TILE_KEYS - 1) / TILE_KEYS; }

/* Partial results, and those that a block keeps to itself. */
extern "C" size_t mx_cuda_decode_attention_scratch(const mx_cuda *gpu, const mx_call *call) {
    int64_t rows = call->inputs[0].dims[0], chunks = (rows + ROW_CHUNK - 1) / ROW_CHUNK;
    int64_t blocks = chunks * gpu->device.info.cores * MAX_BLOCKS_PER_SM;
    return (size_t)((rows * call->attrs->heads + blocks * TILE_ROWS) * tiles_of(call) * PARTIAL_FLOATS) * sizeof(float);
}

decode_params decode_params_of(const mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *in = call->inputs;
    decode_params job = {};
    job.q = (const float *)in[0].data;
    job.k = in[1].data;
    job.v = in[2].data;
    job.f8 = in[1].dtype == MXW_F8;
    job.terms = job.f8 || in[1].dtype == MXW_F16 ? 1 : 2;
    job.y = (float *)call->outputs[0].data;
    job.partials = (float *)call->scratch;
    job.block_partials = job.partials + in[0].dims[0] * call->attrs->heads * tiles_of(call) * PARTIAL_FLOATS;
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

/* Where each row has a block of its own, rows need not be grouped. */
static void decode_paged_attention(mx_cuda *gpu, const decode_params &job) {
    int64_t items = (int64_t)job.rows * job.heads, at_once = (int64_t)gpu->device.info.cores * BLOCKS_PER_SM;
    launch_kernel(gpu, decode_paged_kernel,
                  dim3((unsigned)MX_MIN(items, at_once), (unsigned)((job.rows + ROW_CHUNK - 1) / ROW_CHUNK)),
                  dim3(DECODE_THREADS), 0, job, items > at_once ? TILE_ROWS : 1);
}

extern "C" mxw_status mx_cuda_decode_attention(mx_cuda *gpu, const mx_call *call) {
    decode_params job = decode_params_of(gpu, call);
    if (job.rows == 0 || job.heads == 0)
        return MXW_OK;
    if (call->op == MX_OP_ATTENTION_WINDOW)
        decode_cross_attention(gpu, job);
    else if (job.terms == 1)
        decode_paged_f16_attention(gpu, job);
    else
        decode_paged_attention(gpu, job);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::attention */
