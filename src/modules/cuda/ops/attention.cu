/* modules/cuda/ops/attention.cu - eager attention in its three forms: whole windows by GEMMs and softmax; decoder
 * rows over a cache and over a window, and the scores of rows alone, by kernels.
 * Invariants: an entry is computed by calls of its own, a row and head by a block of its own; the order of their sums
 * follows from the number of keys and the width of a head. */
#include <cuda_fp16.h>

#include "modules/cuda/common/f8.cuh"

namespace mx::ops {

/* ---- whole windows ----------------------------------------------------------------------------------------------- */

/* The scores of one head, [t][s], start at aligned addresses. */
static int64_t head_step(const mx_call *call) {
    int64_t scores = call->inputs[0].dims[1] * call->inputs[1].dims[1];
    return (scores + MX_CUDA_CUBLAS_ALIGN - 1) / MX_CUDA_CUBLAS_ALIGN * MX_CUDA_CUBLAS_ALIGN;
}

extern "C" size_t mx_cuda_attention_scratch(mx_cuda *gpu, const mx_call *call) {
    if (mx_cuda_flash_takes(call))
        return mx_cuda_flash_scratch(call);
    return (size_t)(call->attrs->heads * head_step(call)) * sizeof(float);
}

static int is_even(const mx_tensor *t) {
    return (uintptr_t)t->data % (MX_CUDA_CUBLAS_ALIGN * sizeof(float)) == 0 &&
           t->strides[1] % MX_CUDA_CUBLAS_ALIGN == 0;
}

/* For one entry: scores of all heads, softmax, probabilities times values. */
static mxw_status attend_entry(mx_cuda *gpu, const mx_call *call, int64_t entry) {
    const mx_tensor *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    int64_t t = q->dims[1], s = k->dims[1], d = q->dims[2], heads = call->attrs->heads, width = d / heads;
    /* Then t d and s d are aligned as well, and strided rows only if all of theirs are. */
    int even = width % MX_CUDA_CUBLAS_ALIGN == 0 && is_even(q) && is_even(k) && is_even(v);
    mx_cuda_sgemm scores = {}, values = {};
    scores.m = t;
    scores.n = scores.ldc = s;
    scores.k = scores.a_step = scores.b_step = width;
    scores.entries = heads;
    scores.lda = q->strides[1];
    scores.ldb = k->strides[1];
    scores.a = (const float *)q->data + entry * t * scores.lda;
    scores.b = (const float *)k->data + entry * s * scores.ldb;
    scores.b_transposed = 1;
    scores.c = (float *)call->scratch;
    scores.c_step = head_step(call);
    mxw_status status = mx_cuda_sgemm_run(gpu, call, &scores, even);

    mx_cuda_softmax_rows rows = {};
    rows.x = rows.y = scores.c;
    rows.rows = heads * t;
    rows.n = rows.ld = s;
    rows.group = t;
    rows.group_step = scores.c_step;
    rows.scale = (float)call->attrs->scale;
    rows.causal = call->attrs->causal;
    rows.first_keys = s - t + 1;
    if (status >= 0)
        status = mx_cuda_run_softmax(gpu, call, &rows);

    values.m = t;
    values.n = values.b_step = values.c_step = width;
    values.k = values.lda = s;
    values.entries = heads;
    values.a = scores.c;
    values.a_step = scores.c_step;
    values.ldb = v->strides[1];
    values.b = (const float *)v->data + entry * s * values.ldb;
    values.ldc = d;
    values.c = (float *)call->outputs[0].data + entry * t * d;
    return status < 0 ? status : mx_cuda_sgemm_run(gpu, call, &values, even);
}

extern "C" mxw_status mx_cuda_attention(mx_cuda *gpu, const mx_call *call) {
    mxw_status status = MXW_OK;
    if (mx_cuda_count(&call->outputs[0]) == 0)
        return MXW_OK;
    if (mx_cuda_flash_takes(call))
        return mx_cuda_flash(gpu, call);
    for (int64_t entry = 0; entry < call->inputs[0].dims[0] && status >= 0; entry++)
        status = attend_entry(gpu, call, entry);
    return status;
}

namespace {

/* ---- rows -------------------------------------------------------------------------------------------------------- */

struct row_attention {
    const float *q;               /* [rows][d] */
    const void *k, *v;            /* of T: f32, or f16 or e4m3 where a state is kept as that */
    float *y, *scores;            /* scores: `room` per row and head */
    const int32_t *seq, *pos, *cells, *window;   /* of a cache: seq, pos and cells; of windows: window */
    int64_t rows, heads, d, ld_q, ctx, keys, room;
    float scale;
};

/* The row of key j; rows of k and v are d apart. */
__device__ static int64_t key_row(const int32_t *cells, int64_t j) { return cells ? cells[j] : j; }

/* scores[j] = q . key j: a warp per key. */
template <typename T>
__device__ static void score_keys(float *scores, const float *q, const T *k, const int32_t *cells, int64_t n,
                                  int64_t d, int64_t width) {
    int lane = threadIdx.x % WARP_SIZE;
    for (int64_t j = threadIdx.x / WARP_SIZE; j < n; j += BLOCK_WARPS) {
        const T *key = k + key_row(cells, j) * d;
        float sum = 0;
        for (int64_t i = lane; i < width; i += WARP_SIZE)
            sum = fmaf(q[i], (float)key[i], sum);
        sum = warp_reduce(sum, op_sum());
        if (lane == 0)
            scores[j] = sum;
    }
}

/* y[i] = inverse * sum of scores[j] v[j][i]. Groups of threads are as wide as the head, rounded up; group g takes keys
 * g, g + groups, ...; then the groups are reduced in order. */
template <typename T>
__device__ static void add_values(float *y, const float *scores, const T *v, const int32_t *cells, int64_t n,
                                  int64_t d, int64_t width, float inverse, float *shared) {
    int wide = width < BLOCK_SIZE ? ((int)width + WARP_SIZE - 1) / WARP_SIZE * WARP_SIZE : BLOCK_SIZE,
        groups = BLOCK_SIZE / wide;
    int group = threadIdx.x / wide, in_group = threadIdx.x % wide;
    for (int64_t first = 0; first < width; first += wide) {
        int64_t i = first + in_group;
        float sum = 0;
        if (group < groups && i < width)
            for (int64_t j = group; j < n; j += groups)
                sum = fmaf(scores[j], (float)v[key_row(cells, j) * d + i], sum);
        __syncthreads();
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (group == 0 && i < width) {
            for (int g = 1; g < groups; g++)
                sum += shared[g * wide + in_group];
            y[i] = sum * inverse;
        }
    }
}

/* A block per row and head. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_SIZE) rows_attention_kernel(row_attention a) {
    __shared__ float joined[BLOCK_WARPS], parts[BLOCK_SIZE];
    __shared__ double sums[BLOCK_WARPS];
    for (int64_t piece = blockIdx.x; piece < a.rows * a.heads; piece += gridDim.x) {
        int64_t row = piece / a.heads, width = a.d / a.heads, shift = piece % a.heads * width;
        const int32_t *cells = a.cells ? a.cells + a.seq[row] * a.ctx : NULL;
        int64_t n = a.cells ? (int64_t)a.pos[row] + 1 : a.keys, start = a.cells ? 0 : a.window[row] * a.keys * a.d;
        float *scores = a.scores + piece * a.room, top = a.scale >= 0 ? -CUDART_INF_F : CUDART_INF_F;
        double sum = 0;
        score_keys(scores, a.q + row * a.ld_q + shift, (const T *)a.k + start + shift, cells, n, a.d, width);
        __syncthreads();
        for (int64_t j = threadIdx.x; j < n; j += BLOCK_SIZE)
            top = a.scale >= 0 ? op_max()(top, scores[j]) : op_min()(top, scores[j]);
        top = a.scale >= 0 ? block_reduce(top, op_max(), joined) : block_reduce(top, op_min(), joined);
        for (int64_t j = threadIdx.x; j < n; j += BLOCK_SIZE) {
            scores[j] = expf((scores[j] - top) * a.scale);
            sum += (double)scores[j];
        }
        float inverse = (float)(1.0 / block_reduce(sum, op_sum(), sums));
        __syncthreads();
        add_values(a.y + row * a.d + shift, scores, (const T *)a.v + start + shift, cells, n, a.d, width, inverse,
                   parts);
    }
}

/* Scores of a row, at most. */
static int64_t room_of(const mx_call *call) {
    return call->op == MX_OP_ATTENTION_CACHED ? call->inputs[5].dims[1] : call->inputs[1].dims[1];
}

}   /* namespace */

extern "C" size_t mx_cuda_attention_rows_scratch(mx_cuda *gpu, const mx_call *call) {
    size_t plain = (size_t)(call->inputs[0].dims[0] * call->attrs->heads * room_of(call)) * sizeof(float);
    return call->compiled ? MX_MAX(plain, mx_cuda_decode_attention_scratch(gpu, call)) : plain;
}

static row_attention begin(const mx_call *call) {
    row_attention a = {};
    a.q = (const float *)call->inputs[0].data;
    a.k = call->inputs[1].data;
    a.v = call->inputs[2].data;
    a.y = (float *)call->outputs[0].data;
    a.scores = (float *)call->scratch;
    a.rows = call->inputs[0].dims[0];
    a.d = call->inputs[0].dims[1];
    a.ld_q = call->inputs[0].strides[0];
    a.heads = call->attrs->heads;
    a.room = room_of(call);
    a.scale = (float)call->attrs->scale;
    return a;
}

static mxw_status launch(mx_cuda *gpu, const mx_call *call, const row_attention &a) {
    if (mx_cuda_count(&call->outputs[0]) == 0)
        return MXW_OK;
    unsigned grid = grid_for(a.rows * a.heads, 1);
    if (call->inputs[1].dtype == MXW_F8)
        rows_attention_kernel<__nv_fp8_e4m3><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    else if (call->inputs[1].dtype == MXW_F16)
        rows_attention_kernel<__half><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    else
        rows_attention_kernel<float><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    return mx_cuda_launched(gpu, call);
}

extern "C" mxw_status mx_cuda_attention_cached(mx_cuda *gpu, const mx_call *call) {
    if (mx_cuda_decode_attention_takes(call))
        return mx_cuda_decode_attention(gpu, call);
    row_attention a = begin(call);
    a.seq = (const int32_t *)call->inputs[3].data;
    a.pos = (const int32_t *)call->inputs[4].data;
    a.cells = (const int32_t *)call->inputs[5].data;
    a.ctx = call->inputs[5].dims[1];
    return launch(gpu, call, a);
}

extern "C" mxw_status mx_cuda_attention_window(mx_cuda *gpu, const mx_call *call) {
    if (mx_cuda_decode_attention_takes(call))
        return mx_cuda_decode_attention(gpu, call);
    row_attention a = begin(call);
    a.window = (const int32_t *)call->inputs[3].data;
    a.keys = call->inputs[1].dims[1];
    return launch(gpu, call, a);
}

namespace {

/* ---- scores of rows alone ---------------------------------------------------------------------------------------- */

struct row_scores {
    const float *q;                /* [rows][d] */
    const void *k;                 /* of T, [windows][keys][d] */
    float *y;                      /* [rows][n][keys] */
    const int32_t *head, *window;
    int64_t rows, n, d, width, keys;
    float scale;
};

/* A block per row and head: a warp per key, whose lanes are reduced in a fixed order. */
template <typename T>
__global__ void __launch_bounds__(BLOCK_SIZE) rows_scores_kernel(row_scores a) {
    int lane = threadIdx.x % WARP_SIZE;
    for (int64_t piece = blockIdx.x; piece < a.rows * a.n; piece += gridDim.x) {
        int64_t row = piece / a.n, shift = a.head[piece % a.n] * a.width;
        const float *q = a.q + row * a.d + shift;
        const T *k = (const T *)a.k + a.window[row] * a.keys * a.d + shift;
        for (int64_t j = threadIdx.x / WARP_SIZE; j < a.keys; j += BLOCK_WARPS) {
            float sum = 0;
            for (int64_t i = lane; i < a.width; i += WARP_SIZE)
                sum = fmaf(q[i], (float)k[j * a.d + i], sum);
            sum = warp_reduce(sum, op_sum());
            if (lane == 0)
                a.y[piece * a.keys + j] = sum * a.scale;
        }
    }
}

}   /* namespace */

extern "C" mxw_status mx_cuda_attention_scores(mx_cuda *gpu, const mx_call *call) {
    row_scores a = {};
    a.q = (const float *)call->inputs[0].data;
    a.k = call->inputs[1].data;
    a.head = (const int32_t *)call->inputs[2].data;
    a.window = (const int32_t *)call->inputs[3].data;
    a.y = (float *)call->outputs[0].data;
    a.rows = call->inputs[0].dims[0];
    a.d = call->inputs[0].dims[1];
    a.width = a.d / call->attrs->heads;
    a.n = call->inputs[2].dims[0];
    a.keys = call->inputs[1].dims[1];
    a.scale = (float)call->attrs->scale;
    if (mx_cuda_count(&call->outputs[0]) == 0)
        return MXW_OK;
    unsigned grid = grid_for(a.rows * a.n, 1);
    if (call->inputs[1].dtype == MXW_F8)
        rows_scores_kernel<__nv_fp8_e4m3><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    else if (call->inputs[1].dtype == MXW_F16)
        rows_scores_kernel<__half><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    else
        rows_scores_kernel<float><<<grid, BLOCK_SIZE, 0, gpu->stream>>>(a);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
