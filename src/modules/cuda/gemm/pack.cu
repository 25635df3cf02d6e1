/* modules/cuda/gemm/pack.cu - weights of compiled GEMMs: the form that each input wants, and the packing.
 * In: views of the checkpoint. Out: the bytes that mx_cuda_weight describes, on the GPU.
 * Invariants: an f16 keeps its value; of any other element the two terms keep 22 bits. The bytes are uploaded as they
 * are in the file and packed on the GPU. The number of terms is the format of the packed tensor (mx_packing), so that a
 * call knows its weight without reading GPU memory. */
#include <cuda_bf16.h>
#include <string.h>

#include "modules/cuda/common/mma.cuh"

namespace mx::gemm {

/* ---- forms and sizes --------------------------------------------------------------------------------------------- */

extern "C" mx_form mx_cuda_weight_form(const mx_device *device, const mx_weight_use *use) {
    switch (use->op) {
    case MX_OP_FUSED_LINEAR:
    case MX_OP_FUSED_CONV1D:
    case MX_OP_FUSED_SELECT: return use->input == 1 ? MX_FORM_PACKED : MX_FORM_F32;
    default: return MX_FORM_F32;
    }
}

static mx_cuda_weight weight_size(const mx_weight_use *use) {
    const mx_tensor *first = &use->sources[0];
    mx_cuda_weight w = {NULL, 0, 1, 1};
    for (int i = 0; i < use->n_sources; i++) {
        w.n += use->sources[i].dims[0];
        if (use->sources[i].dtype != MXW_F16)
            w.terms = 2;
    }
    for (int i = 1; i < first->rank; i++)
        w.k *= first->dims[i];
    return w;
}

extern "C" mx_packing mx_cuda_packing(const mx_device *device, const mx_weight_use *use) {
    mx_cuda_weight w = weight_size(use);
    mx_packing packing = {mx_cuda_weight_bytes(w.n, w.k, w.terms), w.terms};
    return packing;
}

namespace {

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* `rows` columns of y from `first` on; each is [in][taps] elements of the source, packed taps first. */
struct packing_job {
    uint16_t *hi, *lo;   /* lo NULL: one term */
    const void *from;
    mxw_dtype dtype;
    int64_t first, rows, in, taps, tiles;
};

__device__ static float element_at(const packing_job &l, int64_t i) {
    switch (l.dtype) {
    case MXW_F16: return __half2float(((const __half *)l.from)[i]);
    case MXW_BF16: return __bfloat162float(((const __nv_bfloat16 *)l.from)[i]);
    case MXW_F64: return (float)((const double *)l.from)[i];
    default: return ((const float *)l.from)[i];
    }
}

__global__ void pack_kernel(packing_job l) {
    int64_t k = l.in * l.taps, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < l.rows * k; i += step) {
        int64_t row = i / k, d = i % k, column = l.first + row, in_step = d % 16;
        float value = element_at(l, (row * l.in + d % l.in) * l.taps + d / l.in);
        int64_t lane = column % 8 * 4 + in_step / 4, piece = d % 64 / 16 * 2 + in_step % 4 / 2;
        int64_t at = (((d / 64 * l.tiles + column / 8) * 8 + piece) * 32 + lane) * 2 + d % 2;
        __half hi = __float2half_rn(value);
        l.hi[at] = __half_as_ushort(hi);
        if (l.lo)
            l.lo[at] = __half_as_ushort(__float2half_rn((value - __half2float(hi)) * LO_SCALE));
    }
}

__global__ void widen_kernel(float *to, packing_job l, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = element_at(l, i);
}

static mxw_status pack_rows(mx_cuda *gpu, const mx_cuda_weight *w, const void *from, mxw_dtype dtype, int64_t first,
                            int64_t rows, int64_t taps, const char *what) {
    packing_job l = {};
    l.hi = (uint16_t *)(uintptr_t)w->bytes;
    l.lo = w->terms == 2 ? l.hi + mx_cuda_weight_bytes(w->n, w->k, 1) / sizeof(*l.hi) : NULL;
    l.from = from;
    l.dtype = dtype;
    l.first = first;
    l.rows = rows;
    l.taps = taps;
    l.in = w->k / taps;
    l.tiles = mx_cuda_tiles_of(w->n);
    if (rows * w->k == 0)
        return MXW_OK;
    pack_kernel<<<grid_for(rows * w->k, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(l);
    return mx_cuda_check(gpu, cudaGetLastError(), what);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_pack_plain(mx_cuda *gpu, const mx_call *call, const mx_cuda_weight *to, const float *from,
                                         int64_t taps) {
    mxw_status status =
        mx_cuda_clear(&gpu->device, (void *)(uintptr_t)to->bytes, mx_cuda_weight_bytes(to->n, to->k, to->terms));
    return status < 0 ? status : pack_rows(gpu, to, from, MXW_F32, 0, to->n, taps, mx_cuda_op_name(call->op));
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static int is_dense(const mx_tensor *t) {
    int64_t expected = 1;
    for (int i = t->rank - 1; i >= 0; expected *= t->dims[i--])
        if (t->dims[i] != 1 && t->strides[i] != expected)
            return 0;
    return 1;
}

/* Copies a view of any strides into row-major order. */
static void gather(const mx_tensor *t, char *to) {
    size_t bytes = mx_cuda_dtype_bytes(t->dtype);
    for (int64_t i = 0, n = mx_cuda_count(t); i < n; i++) {
        int64_t rest = i, offset = 0;
        for (int axis = t->rank - 1; axis >= 0; axis--) {
            offset += rest % t->dims[axis] * t->strides[axis];
            rest /= t->dims[axis];
        }
        memcpy(to + (size_t)i * bytes, (const char *)t->data + offset * (int64_t)bytes, bytes);
    }
}

/* Small ones are read by the kernel where they are staged: nothing is allocated, nothing waited for. */
static int pack_staged(mx_cuda *gpu, const mx_cuda_weight *w, const mx_tensor *source, int64_t first, const char *what,
                       mxw_status *status) {
    const void *staged = is_dense(source) ? mx_cuda_stage(gpu, source->data, mx_cuda_bytes(source)) : NULL;
    if (!staged)
        return 0;
    *status = pack_rows(gpu, w, staged, source->dtype, first, source->dims[0], source->rank == 3 ? source->dims[2] : 1,
                        what);
    mx_cuda_staged(gpu);
    return 1;
}

static mxw_status pack_source(mx_cuda *gpu, const mx_cuda_weight *w, const mx_tensor *source, int64_t first,
                              const char *what) {
    size_t bytes = mx_cuda_bytes(source);
    char *host = NULL;
    const void *from = source->data;
    mxw_status staged;
    if (bytes == 0)
        return MXW_OK;
    if (pack_staged(gpu, w, source, first, what, &staged))
        return staged;
    void *raw = mx_cuda_alloc(&gpu->device, bytes);
    mxw_status status = raw ? MXW_OK : MXW_E_MEMORY;
    if (raw && !is_dense(source)) {
        from = host = (char *)mx_cuda_host->alloc(bytes);
        if (host)
            gather(source, host);
        else
            status = MXW_E_MEMORY;
    }
    if (status >= 0)
        status = mx_cuda_upload(&gpu->device, raw, from, bytes);
    if (status >= 0)
        status = pack_rows(gpu, w, raw, source->dtype, first, source->dims[0], source->rank == 3 ? source->dims[2] : 1,
                           what);
    mx_cuda_host->free(host);
    mx_cuda_free(&gpu->device, raw);
    return status;
}

extern "C" mxw_status mx_cuda_upload_f32(const mx_device *device, float *to, const mx_tensor *from) {
    mx_cuda *gpu = mx_cuda_of(device);
    size_t bytes = mx_cuda_bytes(from);
    int64_t n = mx_cuda_count(from);
    packing_job l = {};
    void *raw = bytes ? mx_cuda_alloc(device, bytes) : NULL;
    mxw_status status = raw ? mx_cuda_upload(device, raw, from->data, bytes) : bytes ? MXW_E_MEMORY : MXW_OK;
    l.from = raw;
    l.dtype = from->dtype;
    if (status >= 0 && n > 0) {
        widen_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(to, l, n);
        status = mx_cuda_check(gpu, cudaGetLastError(), "widening weights");
    }
    mx_cuda_free(device, raw);
    return status;
}

extern "C" mxw_status mx_cuda_pack(const mx_device *device, const mx_weight_use *use, void *to, mx_pool *pool) {
    mx_cuda *gpu = mx_cuda_of(device);
    mx_cuda_weight w = weight_size(use);
    const char *what = mx_cuda_op_name(use->op);
    int64_t first = 0;
    w.bytes = to;
    if (mx_cuda_weight_form(device, use) != MX_FORM_PACKED)
        return mx_cuda_host->fail(MXW_E_INTERNAL, "%s: input %d has no packed form", what, use->input);
    mxw_status status = mx_cuda_clear(device, to, mx_cuda_weight_bytes(w.n, w.k, w.terms));
    for (int i = 0; i < use->n_sources && status >= 0; i++) {
        status = pack_source(gpu, &w, &use->sources[i], first, what);
        first += use->sources[i].dims[0];
    }
    return status;
}

}   /* namespace mx::gemm */
