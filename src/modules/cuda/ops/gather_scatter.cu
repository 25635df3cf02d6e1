/* modules/cuda/ops/gather_scatter.cu - compiled calls of a decoder step that move rows: embeddings, picked rows,
 * caches. Each writes what the plain op does, bit for bit; rows may be strided, tables may be f16 or bf16. Adjacent
 * calls that a graph capture sees together (capture.c) are one kernel, which writes what all of them would have. */
#include "modules/cuda/common/f8.cuh"
#include "modules/cuda/megakernel/stages.cuh"

namespace mx::ops {

using namespace gemm;
using namespace megakernel;

namespace {

constexpr int STEP_BLOCK = 128;

/* ---- table rows -------------------------------------------------------------------------------------------------- */

/* y[r] = a[index[r]]; a block per row. */
__global__ void __launch_bounds__(STEP_BLOCK) gather_rows_kernel(float *y, embedding_table a, int n) {
    pdl_wait();
    int64_t row = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += STEP_BLOCK)
        y[row * n + i] = table_at(a, (int64_t)a.index[row] * n + i);
}

/* to_a and to_b likewise, and y is their sum. */
__global__ void __launch_bounds__(STEP_BLOCK)
    embed_kernel(float *y, float *to_a, float *to_b, embedding_table a, embedding_table b, int n) {
    pdl_wait();
    int64_t row = blockIdx.x;
    for (int i = threadIdx.x; i < n; i += STEP_BLOCK) {
        float from_a = table_at(a, (int64_t)a.index[row] * n + i);
        float from_b = table_at(b, (int64_t)b.index[row] * n + i);
        to_a[row * n + i] = from_a;
        to_b[row * n + i] = from_b;
        y[row * n + i] = from_a + from_b;
    }
}

static int is_table(const mx_tensor *t) {
    return t->rank == 2 && (t->dtype == MXW_F32 || t->dtype == MXW_F16 || t->dtype == MXW_BF16);
}

}   /* namespace */

embedding_table table_of(const mx_call *gather) {
    embedding_table t = {gather->inputs[0].data, (const int32_t *)gather->inputs[1].data, (int)gather->inputs[0].dtype};
    return t;
}

extern "C" int mx_cuda_fast_gather_takes(const mx_call *call) {
    return call->compiled && is_table(&call->inputs[0]) && call->outputs[0].dtype == MXW_F32 &&
           mx_cuda_count(&call->inputs[1]) < ((int64_t)1 << 31);
}

extern "C" mxw_status mx_cuda_fast_gather(mx_cuda *gpu, const mx_call *call) {
    int64_t rows = mx_cuda_count(&call->inputs[1]), n = call->inputs[0].dims[1];
    if (rows * n == 0)
        return MXW_OK;
    launch_kernel(gpu, gather_rows_kernel, dim3((unsigned)rows), dim3(STEP_BLOCK), 0, (float *)call->outputs[0].data,
                  table_of(call), (int)n);
    return mx_cuda_launched(gpu, call);
}

static int same_dims(const mx_tensor *a, const mx_tensor *b) {
    int same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

int is_embedding(const mx_call *const *calls, size_t n) {
    if (n < 3 || calls[0]->op != MX_OP_GATHER || calls[1]->op != MX_OP_GATHER || calls[2]->op != MX_OP_ADD ||
        !mx_cuda_fast_gather_takes(calls[0]) || !mx_cuda_fast_gather_takes(calls[1]))
        return 0;
    const mx_tensor *a = &calls[0]->outputs[0], *b = &calls[1]->outputs[0], *in = calls[2]->inputs;
    int straight = in[0].data == a->data && in[1].data == b->data;
    int crossed = in[0].data == b->data && in[1].data == a->data;   /* a sum is the same either way */
    return (straight || crossed) && a->rank == 2 && same_dims(a, b) && same_dims(a, &calls[2]->outputs[0]) &&
           mx_cuda_count(a) > 0;
}

namespace {

static size_t take_embedding(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    if (!is_embedding(calls, n))
        return 0;
    const mx_tensor *a = &calls[0]->outputs[0], *b = &calls[1]->outputs[0];
    launch_kernel(gpu, embed_kernel, dim3((unsigned)a->dims[0]), dim3(STEP_BLOCK), 0,
                  (float *)calls[2]->outputs[0].data, (float *)a->data, (float *)b->data, table_of(calls[0]),
                  table_of(calls[1]), (int)a->dims[1]);
    *status = mx_cuda_launched(gpu, calls[2]);
    return 3;
}

/* ---- caches ------------------------------------------------------------------------------------------------------ */

struct writes {
    void *state[2];
    const float *x[2];
    int64_t ld[2];   /* row stride of x */
};

__device__ __forceinline__ static void store4(float *to, const float4 &v) { *(float4 *)to = v; }

__device__ __forceinline__ static void store4(__half *to, const float4 &v) {
    *(uint2 *)to = make_uint2(pack_half2(v.x, v.y), pack_half2(v.z, v.w));
}

__device__ __forceinline__ static void store4(__nv_fp8_e4m3 *to, const float4 &v) {
    *(uint32_t *)to = pack_f8(v.x, v.y, v.z, v.w);
}

/* A block per index of each of the writes, which share their indices; each writes n elements: rows of x of `width`.
 * When an index occurs again later, the last one wins. */
template <typename T>
__global__ void __launch_bounds__(STEP_BLOCK)
    write_rows_kernel(writes w, const int32_t *index, int count, int64_t n, int64_t width) {
    pdl_wait();
    int at = blockIdx.x, which = blockIdx.y, again = 0;
    int32_t to = index[at];
    for (int j = at + 1 + threadIdx.x; j < count; j += STEP_BLOCK)
        again |= index[j] == to;
    if (__syncthreads_or(again))
        return;
    T *state = (T *)w.state[which] + to * n;
    const float *x = w.x[which] + at * (n / width) * w.ld[which];
    int64_t step = (int64_t)gridDim.z * STEP_BLOCK * 4;
    for (int64_t i = ((int64_t)blockIdx.z * STEP_BLOCK + threadIdx.x) * 4; i < n; i += step)
        store4(state + i, *(const float4 *)(x + i / width * w.ld[which] + i % width));
}

/* Elements per entry of axis 0. */
static int64_t row_elements(const mx_tensor *state) {
    int64_t n = 1;
    for (int i = 1; i < state->rank; i++)
        n *= state->dims[i];
    return n;
}

static int is_even(const mx_tensor *t) { return (uintptr_t)t->data % 16 == 0; }

}   /* namespace */

extern "C" int mx_cuda_fast_write_takes(const mx_call *call) {
    const mx_tensor *state = &call->inputs[0], *x = &call->inputs[1];
    int known = state->dtype == MXW_F32 || state->dtype == MXW_F16 || state->dtype == MXW_F8;
    return call->compiled && known && x->dtype == MXW_F32 && x->rank > 1 && x->dims[x->rank - 1] % 4 == 0 &&
           x->strides[x->rank - 2] % 4 == 0 && is_even(state) && is_even(x);
}

static mxw_status write_rows(mx_cuda *gpu, const mx_call *const *calls, int count) {
    const mx_tensor *index = &calls[0]->inputs[2], *first = &calls[0]->inputs[1];
    int64_t rows = index->dims[0], n = row_elements(&calls[0]->inputs[0]);
    writes w = {};
    for (int i = 0; i < count; i++) {
        const mx_tensor *x = &calls[i]->inputs[1];
        w.state[i] = calls[i]->inputs[0].data;
        w.x[i] = (const float *)x->data;
        w.ld[i] = x->strides[x->rank - 2];
    }
    if (rows * n == 0)
        return MXW_OK;
    dim3 grid((unsigned)rows, (unsigned)count, (unsigned)MX_MAX(1, MX_MIN(n / (STEP_BLOCK * 4), 256)));
    mxw_dtype kept = calls[0]->inputs[0].dtype;
    launch_kernel(gpu,
                  kept == MXW_F8    ? write_rows_kernel<__nv_fp8_e4m3>
                  : kept == MXW_F16 ? write_rows_kernel<__half>
                                    : write_rows_kernel<float>,
                  grid, dim3(STEP_BLOCK), 0, w, (const int32_t *)index->data, (int)rows, n,
                  first->dims[first->rank - 1]);
    return mx_cuda_launched(gpu, calls[0]);
}

extern "C" mxw_status mx_cuda_fast_write(mx_cuda *gpu, const mx_call *call) { return write_rows(gpu, &call, 1); }

/* Keys and values of the same rows. */
static int is_writes(const mx_call *const *calls, size_t n) {
    return n > 1 && calls[0]->op == MX_OP_STATE_WRITE && calls[1]->op == MX_OP_STATE_WRITE &&
           mx_cuda_fast_write_takes(calls[0]) && mx_cuda_fast_write_takes(calls[1]) &&
           calls[0]->inputs[2].data == calls[1]->inputs[2].data &&
           calls[0]->inputs[0].data != calls[1]->inputs[0].data &&
           calls[0]->inputs[0].dtype == calls[1]->inputs[0].dtype &&
           same_dims(&calls[0]->inputs[1], &calls[1]->inputs[1]);
}

int cache_writes_of(const mx_call *const *calls, size_t n, const float *y, int64_t rows, int64_t ld, int64_t columns,
                    kv_cache_out *to) {
    if (!is_writes(calls, n) || calls[0]->inputs[0].dtype == MXW_F8)   /* a GEMM writes f32 or f16 */
        return 0;
    int64_t width = calls[0]->inputs[1].dims[1];
    for (int i = 0; i < 2; i++) {
        const mx_tensor *state = &calls[i]->inputs[0], *x = &calls[i]->inputs[1];
        int64_t from = (const float *)x->data - y;
        if (x->rank != 2 || x->dims[0] != rows || x->strides[0] != ld || from < 0 || from % 2 || width % 2 ||
            from + width > columns || state->rank != 2 || state->dims[1] != width)
            return 0;
        to->from[i] = (int)from;
        to->state[i] = state->data;
    }
    to->cell = (const int32_t *)calls[0]->inputs[2].data;
    to->width = (int)width;
    to->f16 = calls[0]->inputs[0].dtype == MXW_F16;
    return 1;
}

namespace {

/* A GEMM of few rows whose keys and values go to caches. */
static size_t take_written(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    gemm_desc f;
    gemm_params p;
    kv_cache_out to = {};
    if (n < 3 || calls[0]->op != MX_OP_FUSED_LINEAR || !mx_cuda_gemm_describe(calls[0], &f) ||
        !gemm_is_skinny(gpu, f.m) || f.x_layout != MX_LAYOUT_DENSE || f.y_layout != MX_LAYOUT_DENSE ||
        !cache_writes_of(calls + 1, n - 1, f.y, f.m, f.ldy, f.n, &to) ||
        !skinny_cluster_can_implement(gpu, p = make_gemm_params(&f)))
        return 0;
    skinny_cluster_gemm(gpu, p, to);
    *status = mx_cuda_launched(gpu, calls[0]);
    return 3;
}

static size_t take_writes(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    if (!is_writes(calls, n))
        return 0;
    *status = write_rows(gpu, calls, 2);
    return 2;
}

/* ---- to and from the host ---------------------------------------------------------------------------------------- */

/* A few kilobytes of pinned memory, by a kernel: faster than issuing a copy. */
__global__ void __launch_bounds__(1024) copy_small_kernel(uint4 *to, const uint4 *from, int n) {
    pdl_wait();
    for (int i = threadIdx.x; i < n; i += 1024)
        to[i] = from[i];
}

}   /* namespace */

extern "C" mxw_status mx_cuda_copy_small(mx_cuda *gpu, void *to, const void *from, size_t bytes,
                                         enum cudaMemcpyKind kind) {
    if (bytes == 0)
        return MXW_OK;
    if (bytes > MX_CUDA_COPY_SMALL_MAX || bytes % sizeof(uint4))
        return mx_cuda_check(gpu, cudaMemcpyAsync(to, from, bytes, kind, gpu->stream), "recording a copy");
    launch_kernel(gpu, copy_small_kernel, dim3(1), dim3(1024), 0, (uint4 *)to, (const uint4 *)from,
                  (int)(bytes / sizeof(uint4)));
    return mx_cuda_check(gpu, cudaGetLastError(), "recording a copy");
}

extern "C" size_t mx_cuda_run_together(mx_cuda *gpu, const mx_call *const *calls, size_t n, mxw_status *status) {
    size_t taken = megakernel_take(gpu, calls, n, status);
    taken = taken ? taken : take_embedding(gpu, calls, n, status);
    taken = taken ? taken : take_written(gpu, calls, n, status);
    return taken ? taken : take_writes(gpu, calls, n, status);
}

}   /* namespace mx::ops */
