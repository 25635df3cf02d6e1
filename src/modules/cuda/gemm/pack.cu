/* modules/cuda/gemm/pack.cu - weights of compiled GEMMs: the form that each input wants, and the packing.
 * In: views of the checkpoint. Out: the bytes that mx_cuda_weight describes, on the GPU.
 * Invariants: an f16 keeps its value; of any other element the two terms keep 22 bits. In 8 bits a column is scaled by
 * its largest element, with the numbers that the CPU has (ref/logits_int8.c, int8_pack). The bytes are uploaded as they
 * are in the file and packed on the GPU, in 8 bits twice: largest elements first. What an element is follows from the
 * format of the packed tensor (mx_packing), so that a call knows its weight without reading GPU memory. */
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <string.h>

#include "modules/cuda/gemm/gemm.cuh"

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

/* 8 bits are for linear layers of which every entry of a batch has many rows, as those of the encoder: a step of the
 * decoder waits for more than its weights. It follows from what never changes, so a row's bits don't depend on the
 * batch. */
#define ROWS_FOR_8 64

static mx_cuda_element element_of(const mx_weight_use *use, const mx_cuda_weight *w) {
    int act = use->attrs->act;
    if (use->op != MX_OP_FUSED_LINEAR || use->entry_rows < ROWS_FOR_8 || use->sources[0].rank != 2 ||
        w->n % MX_CUDA_BLOCK8 || w->k % MX_CUDA_BLOCK8 || w->n == 0 || w->k == 0 || w->k > MX_CUDA_MOST_K8 ||
        (act != MX_ACT_NONE && act != MX_ACT_GELU_ERF))
        return MX_CUDA_F16;
    return use->precision == MXW_PRECISION_INT8 ? MX_CUDA_S8
           : use->precision == MXW_PRECISION_F8 ? MX_CUDA_E4M3
                                                : MX_CUDA_F16;
}

static mx_cuda_weight weight_size(const mx_weight_use *use) {
    const mx_tensor *first = &use->sources[0];
    mx_cuda_weight w = {NULL, 0, 1, 1, 0, MX_CUDA_F16};
    for (int i = 0; i < use->n_sources; i++) {
        w.n += use->sources[i].dims[0];
        if (use->sources[i].dtype != MXW_F16)
            w.terms = 2;
    }
    for (int i = 1; i < first->rank; i++)
        w.k *= first->dims[i];
    w.element = element_of(use, &w);
    if (w.element != MX_CUDA_F16)
        w.terms = 1;
    return w;
}

extern "C" mx_packing mx_cuda_packing(const mx_device *device, const mx_weight_use *use) {
    mx_cuda_weight w = weight_size(use);
    if (w.element != MX_CUDA_F16)
        return mx_packing{mx_cuda_weight8_bytes(w.n, w.k), MX_CUDA_FORMAT_8 + (int)w.element};
    mx_packing packing = {mx_cuda_weight_bytes(w.n, w.k, w.terms), w.terms};
    return packing;
}

namespace {

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* A box of the source: outputs (columns of y), inputs, taps; k of the packed weight has taps first. */
struct packing_job {
    uint16_t *hi, *lo;    /* lo NULL: one term */
    const void *from;     /* the box's first element */
    mxw_dtype dtype;
    int64_t size[3], stride[3], first[3];   /* of the box in elements of the source; first: output, input, tap */
    int64_t inputs, tiles;                  /* of the whole weight */
    mx_cuda_element element;
    enum { PACK, FIND_LARGEST } phase;      /* in 8 bits the largest elements are found first */
    float *scales;                          /* in 8 bits: of each column, the largest element before they are done */
    int32_t *sums;
};

__device__ static float element_at(const void *from, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_F16: return __half2float(((const __half *)from)[i]);
    case MXW_BF16: return __bfloat162float(((const __nv_bfloat16 *)from)[i]);
    case MXW_F64: return (float)((const double *)from)[i];
    default: return ((const float *)from)[i];
    }
}

__global__ void pack_kernel(packing_job l) {
    int64_t column_size = l.size[1] * l.size[2], n = l.size[0] * column_size, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i / column_size, tap = i % column_size / l.size[1], input = i % l.size[1];
        float value = element_at(l.from, l.dtype, row * l.stride[0] + input * l.stride[1] + tap * l.stride[2]);
        int64_t column = l.first[0] + row, d = (l.first[2] + tap) * l.inputs + l.first[1] + input, in_step = d % 16;
        int64_t lane = column % 8 * 4 + in_step / 4, piece = d % 64 / 16 * 2 + in_step % 4 / 2;
        int64_t at = (((d / 64 * l.tiles + column / 8) * 8 + piece) * 32 + lane) * 2 + d % 2;
        __half hi = __float2half_rn(value);
        l.hi[at] = __half_as_ushort(hi);
        if (l.lo)
            l.lo[at] = __half_as_ushort(__float2half_rn((value - __half2float(hi)) * LO_SCALE));
    }
}

/* ---- packing in 8 bits ------------------------------------------------------------------------------------------- */

/* The largest finite number of each. */
__device__ __forceinline__ static float most_of(mx_cuda_element element) { return element == MX_CUDA_S8 ? 127 : 448; }

/* What elements of a column are multiplied by; 0 where they are too small or too large. */
__device__ __forceinline__ static float step_of(float largest, float most) {
    float step = __fdiv_rn(most, largest);
    return isfinite(largest) && isfinite(step) ? step : 0;
}

/* A lane whose warp is in one column has the warp's result. */
template <typename Join, typename Add>
__device__ __forceinline__ static void for_column(int64_t column, int32_t value, Join join, Add add) {
    unsigned lanes = __activemask();
    int same = 0;
    __match_all_sync(lanes, (unsigned long long)column, &same);
    if (same && lanes == 0xffffffffu) {
        value = warp_reduce(value, join);
        if (threadIdx.x % WARP_SIZE == 0)
            add(value);
    } else {
        add(value);
    }
}

struct op_max_int {
    __device__ int32_t operator()(int32_t a, int32_t b) const { return max(a, b); }
};

__global__ void pack8_kernel(packing_job l) {
    int64_t column_size = l.size[1], n = l.size[0] * column_size, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t row = i / column_size, input = i % column_size, column = l.first[0] + row, d = l.first[1] + input;
        float value = element_at(l.from, l.dtype, row * l.stride[0] + input * l.stride[1]);
        int *largest = (int *)l.scales + column;
        if (l.phase == packing_job::FIND_LARGEST) {   /* floats that are not negative are ordered like their bits */
            for_column(column, __float_as_int(fabsf(value)), op_max_int(), [&](int32_t v) { atomicMax(largest, v); });
            continue;
        }
        float scaled = __fmul_rn(value, step_of(__int_as_float(*largest), most_of(l.element)));
        int64_t tile = d / MX_CUDA_BLOCK8 * l.tiles + column / 8, piece = d % MX_CUDA_BLOCK8 / 16;
        uint8_t *to = (uint8_t *)l.hi + (tile * 8 + piece) * 128 + column % 8 * 16 + order8((int)(d % 16));
        if (l.element == MX_CUDA_E4M3) {
            *to = __nv_cvt_float_to_fp8(scaled, __NV_SATFINITE, __NV_E4M3);
            continue;
        }
        int32_t number = __float2int_rn(scaled);
        *to = (uint8_t)number;
        for_column(column, number, op_sum(), [&](int32_t v) { atomicAdd(l.sums + column, v); });
    }
}

/* Largest elements into scales, not finite if one of them is not. */
__global__ void finish8_kernel(float *scales, int64_t n, mx_cuda_element element) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float largest = scales[i], most = most_of(element);
    scales[i] = step_of(largest, most) > 0 ? __fdiv_rn(largest, most) : __fmul_rn(2.0f, largest);
}

__global__ void widen_kernel(float *to, const void *from, mxw_dtype dtype, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = element_at(from, dtype, i);
}

/* All of a dense source [outputs][inputs][taps], from output `first` of the weight on; no data yet. */
static packing_job job_of(const mx_cuda_weight *w, mxw_dtype dtype, int64_t outputs, int64_t taps, int64_t first) {
    packing_job l = {};
    l.hi = (uint16_t *)(uintptr_t)w->bytes;
    l.lo = w->terms == 2 ? l.hi + mx_cuda_weight_bytes(w->n, w->k, 1) / sizeof(*l.hi) : NULL;
    l.dtype = dtype;
    l.element = w->element;
    if (w->element != MX_CUDA_F16) {
        l.scales = mx_cuda_weight8_scales(w);
        l.sums = mx_cuda_weight8_sums(w);
    }
    l.inputs = w->k / taps;
    l.tiles = mx_cuda_tiles_of(w->n);
    l.size[0] = outputs;
    l.size[1] = l.inputs;
    l.size[2] = taps;
    l.stride[0] = w->k;
    l.stride[1] = taps;
    l.stride[2] = 1;
    l.first[0] = first;
    return l;
}

static mxw_status launch_pack(mx_cuda *gpu, const packing_job *l, const char *what) {
    int64_t n = l->size[0] * l->size[1] * l->size[2];
    if (n == 0)
        return MXW_OK;
    if (l->element == MX_CUDA_F16)
        pack_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(*l);
    else
        pack8_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(*l);
    return mx_cuda_check(gpu, cudaGetLastError(), what);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_pack_plain(mx_cuda *gpu, const mx_call *call, const mx_cuda_weight *to, const float *from,
                                         int64_t taps) {
    mxw_status status =
        mx_cuda_clear(&gpu->device, (void *)(uintptr_t)to->bytes, mx_cuda_weight_bytes(to->n, to->k, to->terms));
    packing_job l = job_of(to, MXW_F32, to->n, taps, 0);
    l.from = from;
    return status < 0 ? status : launch_pack(gpu, &l, mx_cuda_op_name(call->op));
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* The axis that lies outermost in memory; -1 if the box has gaps there. In which order its axes lie does not matter:
 * most matrices of a .pt are transposed. */
static int outermost_axis(const packing_job *l) {
    int64_t expected = 1;
    int outermost = 0;
    for (int done = 0; done < 3; done++) {
        int next = -1;
        for (int axis = 2; axis >= 0; axis--)
            if (l->stride[axis] == expected && l->size[axis] != 1)
                next = axis;
        if (next < 0)
            break;
        expected *= l->size[next];
        outermost = next;
    }
    return expected == l->size[0] * l->size[1] * l->size[2] ? outermost : -1;
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

/* Packs a part of the box: `n` of its outermost axis, from `at` on. The bytes go through the staging ring, so that
 * nothing is allocated and nothing waited for; 0: they are too many for it. */
static int pack_part(mx_cuda *gpu, packing_job l, int axis, int64_t at, int64_t n, const char *what,
                     mxw_status *status) {
    size_t each = (size_t)l.stride[axis] * mx_cuda_dtype_bytes(l.dtype);
    l.from = mx_cuda_stage(gpu, (const char *)l.from + (size_t)at * each, (size_t)n * each);
    if (!l.from)
        return 0;
    l.first[axis] += at;
    l.size[axis] = n;
    *status = launch_pack(gpu, &l, what);
    mx_cuda_staged(gpu);
    return 1;
}

static int pack_staged(mx_cuda *gpu, const packing_job *l, int axis, const char *what, mxw_status *status) {
    size_t each = (size_t)l->stride[axis] * mx_cuda_dtype_bytes(l->dtype);
    int64_t part = (int64_t)(MX_CUDA_STAGED_MAX / MX_MAX(each, 1));
    int staged = part > 0;
    *status = MXW_OK;
    for (int64_t at = 0; at < l->size[axis] && staged && *status >= 0; at += part)
        staged = pack_part(gpu, *l, axis, at, MX_MIN(part, l->size[axis] - at), what, status);
    return staged;
}

/* Without the ring: an allocation, an upload and a wait. *raw is freed by the caller, after a failure too. */
static mxw_status upload_raw(mx_cuda *gpu, const void *from, size_t bytes, void **raw) {
    *raw = mx_cuda_alloc(&gpu->device, bytes);
    return *raw ? mx_cuda_upload(&gpu->device, *raw, from, bytes) : MXW_E_MEMORY;
}

static mxw_status pack_uploaded(mx_cuda *gpu, packing_job l, size_t bytes, const char *what) {
    void *raw;
    mxw_status status = upload_raw(gpu, l.from, bytes, &raw);
    l.from = raw;
    if (status >= 0)
        status = launch_pack(gpu, &l, what);
    mx_cuda_free(&gpu->device, raw);
    return status;
}

static mxw_status pack_source(mx_cuda *gpu, const mx_cuda_weight *w, const mx_tensor *source, int64_t first,
                              int phase, const char *what) {
    size_t bytes = mx_cuda_bytes(source);
    packing_job dense = job_of(w, source->dtype, source->dims[0], source->rank == 3 ? source->dims[2] : 1, first);
    dense.phase = phase ? packing_job::FIND_LARGEST : packing_job::PACK;
    packing_job l = dense;
    char *copy = NULL;
    mxw_status status;
    if (bytes == 0)
        return MXW_OK;
    for (int axis = 0; axis < source->rank && axis < 3; axis++)
        l.stride[axis] = source->strides[axis];
    l.from = source->data;
    int axis = source->rank <= 3 ? outermost_axis(&l) : -1;
    if (axis < 0) {
        copy = (char *)mx_cuda_host->alloc(bytes);
        if (!copy)
            return MXW_E_MEMORY;
        gather(source, copy);
        l = dense;
        l.from = copy;
        axis = outermost_axis(&l);
    }
    if (!pack_staged(gpu, &l, axis, what, &status))
        status = pack_uploaded(gpu, l, bytes, what);
    mx_cuda_host->free(copy);
    return status;
}

static mxw_status widen(mx_cuda *gpu, float *to, const void *from, mxw_dtype dtype, int64_t n) {
    widen_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(to, from, dtype, n);
    return mx_cuda_check(gpu, cudaGetLastError(), "widening weights");
}

static mxw_status widen_uploaded(mx_cuda *gpu, float *to, const mx_tensor *from) {
    void *raw;
    mxw_status status = upload_raw(gpu, from->data, mx_cuda_bytes(from), &raw);
    if (status >= 0)
        status = widen(gpu, to, raw, from->dtype, mx_cuda_count(from));
    mx_cuda_free(&gpu->device, raw);
    return status;
}

extern "C" mxw_status mx_cuda_upload_f32(const mx_device *device, float *to, const mx_tensor *from) {
    mx_cuda *gpu = mx_cuda_of(device);
    int64_t each = (int64_t)mx_cuda_dtype_bytes(from->dtype), part = (int64_t)MX_CUDA_STAGED_MAX / each;
    mxw_status status = mx_cuda_enter(gpu);
    for (int64_t at = 0, count = mx_cuda_count(from); at < count && status >= 0; at += part) {
        int64_t n = MX_MIN(part, count - at);
        const void *staged = mx_cuda_stage(gpu, (const char *)from->data + at * each, (size_t)(n * each));
        if (!staged)
            return widen_uploaded(gpu, to, from);
        status = widen(gpu, to + at, staged, from->dtype, n);
        mx_cuda_staged(gpu);
    }
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
    int is_8 = w.element != MX_CUDA_F16;
    mxw_status status = mx_cuda_clear(device, to, mx_cuda_packing(device, use).bytes);
    for (int phase = is_8; phase >= 0; phase--, first = 0)
        for (int i = 0; i < use->n_sources && status >= 0; i++) {
            status = pack_source(gpu, &w, &use->sources[i], first, phase, what);
            first += use->sources[i].dims[0];
        }
    if (is_8 && status >= 0) {
        float *scales = mx_cuda_weight8_scales(&w);
        finish8_kernel<<<grid_for(w.n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(scales, w.n, w.element);
        status = mx_cuda_check(gpu, cudaGetLastError(), what);
    }
    return status;
}

}   /* namespace mx::gemm */
