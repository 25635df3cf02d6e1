/* modules/cuda/ops/elementwise.cu - ops whose elements or rows are independent: arithmetic with broadcast, norms,
 * activations, softmax, reductions. Sums are f64, as on the CPU; the order of a row's sum follows from its length
 * alone. */
#include "modules/cuda/common/block.cuh"

namespace mx::ops {

namespace {

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* The result's axes after merging, and the operands' strides along them. */
struct axes {
    int rank;
    int64_t dims[MX_MAX_RANK], a[MX_MAX_RANK], b[MX_MAX_RANK];
};

__device__ static float apply(mx_op op, float a, float b) {
    return op == MX_OP_ADD ? a + b : op == MX_OP_SUB ? a - b : op == MX_OP_MUL ? a * b : a / b;
}

/* Integers wrap around. */
__device__ static int32_t apply(mx_op op, int32_t a, int32_t b) {
    uint32_t l = (uint32_t)a, r = (uint32_t)b;
    return (int32_t)(op == MX_OP_ADD ? l + r : op == MX_OP_SUB ? l - r : l * r);
}

template <typename T> __global__ void binary_kernel(T *y, const T *a, const T *b, mx_op op, axes f, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t rest = i, at_a = 0, at_b = 0;
        for (int d = f.rank - 1; d > 0; d--) {
            int64_t at = rest % f.dims[d];
            rest /= f.dims[d];
            at_a += at * f.a[d];
            at_b += at * f.b[d];
        }
        y[i] = apply(op, a[at_a + rest * f.a[0]], b[at_b + rest * f.b[0]]);
    }
}

static int64_t broadcast_stride(const mx_tensor *x, const mx_tensor *out, int i) {
    int axis = i - (out->rank - x->rank);
    return axis < 0 || x->dims[axis] == 1 ? 0 : x->strides[axis];
}

/* Drops axes of size one, and merges neighbours that are contiguous in both operands. */
static axes merge_axes(const mx_tensor *a, const mx_tensor *b, const mx_tensor *out) {
    axes f = {};
    for (int i = 0; i < out->rank; i++) {
        int64_t n = out->dims[i], a_stride = broadcast_stride(a, out, i), b_stride = broadcast_stride(b, out, i);
        int last = f.rank - 1;
        if (n == 1)
            continue;
        if (f.rank && f.a[last] == a_stride * n && f.b[last] == b_stride * n) {
            f.dims[last] *= n;
            f.a[last] = a_stride;
            f.b[last] = b_stride;
        } else {
            f.dims[f.rank] = n;
            f.a[f.rank] = a_stride;
            f.b[f.rank++] = b_stride;
        }
    }
    return f;
}

}   /* namespace */

extern "C" mxw_status mx_cuda_binary(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->outputs[0];
    int64_t n = mx_cuda_count(out);
    if (n == 0)
        return MXW_OK;
    axes f = merge_axes(a, b, out);
    if (out->dtype == MXW_F32)
        binary_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
            (float *)out->data, (const float *)a->data, (const float *)b->data, call->op, f, n);
    else
        binary_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
            (int32_t *)out->data, (const int32_t *)a->data, (const int32_t *)b->data, call->op, f, n);
    return mx_cuda_launched(gpu, call);
}

namespace {

/* ---- activations ------------------------------------------------------------------------------------------------- */

/* x Phi(x), from erfc(|x| / sqrt 2): small values on the left keep their relative precision. */
__device__ static float gelu_erf(float v) {
    float half_tail = 0.5f * erfcf(fabsf(v) * 0.70710678f);
    return v * (v < 0 ? half_tail : 1.0f - half_tail);
}

/* x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
__device__ static float gelu_tanh(float v) {
    float u = 0.79788456f * (v + 0.044715f * v * v * v);
    return v / (1.0f + expf(-2.0f * u));
}

__global__ void gelu_kernel(float *y, const float *x, int erf_kind, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        y[i] = erf_kind ? gelu_erf(x[i]) : gelu_tanh(x[i]);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_gelu(mx_cuda *gpu, const mx_call *call) {
    int64_t n = mx_cuda_count(&call->inputs[0]);
    if (n == 0)
        return MXW_OK;
    gelu_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
        (float *)call->outputs[0].data, (const float *)call->inputs[0].data, call->attrs->kind == MXW_GELU_ERF, n);
    return mx_cuda_launched(gpu, call);
}

namespace {

/* ---- norms ------------------------------------------------------------------------------------------------------- */

/* A warp per row. */
__global__ void layer_norm_kernel(float *y, const float *x, const float *gamma, const float *beta, int64_t rows,
                                  int64_t n, double eps) {
    int lane = threadIdx.x % WARP_SIZE;
    int64_t step = (int64_t)gridDim.x * BLOCK_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_SIZE; row < rows; row += step) {
        const float *from = x + row * n;
        double sum = 0, squares = 0;
        for (int64_t i = lane; i < n; i += WARP_SIZE)
            sum += (double)from[i];
        double mean = warp_reduce(sum, op_sum()) / (double)n;
        for (int64_t i = lane; i < n; i += WARP_SIZE)
            squares += ((double)from[i] - mean) * ((double)from[i] - mean);
        double inverse = 1.0 / sqrt(warp_reduce(squares, op_sum()) / (double)n + eps);
        for (int64_t i = lane; i < n; i += WARP_SIZE)
            y[row * n + i] = (float)(((double)from[i] - mean) * inverse * (double)gamma[i] + (double)beta[i]);
    }
}

}   /* namespace */

extern "C" mxw_status mx_cuda_layer_norm(mx_cuda *gpu, const mx_call *call) {
    if (mx_cuda_fast_norm_takes(call))
        return mx_cuda_fast_norm(gpu, call);
    const mx_tensor *x = &call->inputs[0];
    int64_t n = x->dims[x->rank - 1], rows = n ? mx_cuda_count(x) / n : 0;
    if (rows == 0)
        return MXW_OK;
    layer_norm_kernel<<<grid_for(rows, BLOCK_WARPS), BLOCK_SIZE, 0, gpu->stream>>>(
        (float *)call->outputs[0].data, (const float *)x->data, (const float *)call->inputs[1].data,
        (const float *)call->inputs[2].data, rows, n, call->attrs->eps);
    return mx_cuda_launched(gpu, call);
}

namespace {

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* A block per row. Every thread reads and writes its own elements, so y may be x. */
__global__ void softmax_kernel(mx_cuda_softmax_rows s) {
    __shared__ float joined[BLOCK_WARPS];
    __shared__ double sums[BLOCK_WARPS];
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        int64_t in_group = row % s.group, at = row / s.group * s.group_step + in_group * s.ld;
        int64_t keys = s.causal ? s.first_keys + in_group : s.n;
        const float *x = s.x + at;
        float *y = s.y + at, top = s.scale >= 0 ? -CUDART_INF_F : CUDART_INF_F;
        for (int64_t i = threadIdx.x; i < keys; i += BLOCK_SIZE)
            top = s.scale >= 0 ? op_max()(top, x[i]) : op_min()(top, x[i]);
        top = s.scale >= 0 ? block_reduce(top, op_max(), joined) : block_reduce(top, op_min(), joined);
        double sum = 0;
        for (int64_t i = threadIdx.x; i < keys; i += BLOCK_SIZE) {
            float e = expf((x[i] - top) * s.scale);
            y[i] = e;
            sum += (double)e;
        }
        float inverse = (float)(1.0 / block_reduce(sum, op_sum(), sums));
        for (int64_t i = threadIdx.x; i < keys; i += BLOCK_SIZE)
            y[i] *= inverse;
        for (int64_t i = keys + threadIdx.x; i < s.n; i += BLOCK_SIZE)
            y[i] = 0;
    }
}

}   /* namespace */

extern "C" mxw_status mx_cuda_run_softmax(mx_cuda *gpu, const mx_call *call, const mx_cuda_softmax_rows *s) {
    if (s->rows == 0 || s->n == 0)
        return MXW_OK;
    softmax_kernel<<<grid_for(s->rows, 1), BLOCK_SIZE, 0, gpu->stream>>>(*s);
    return mx_cuda_launched(gpu, call);
}

extern "C" mxw_status mx_cuda_softmax(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    mx_cuda_softmax_rows s = {};
    s.n = s.ld = x->dims[x->rank - 1];
    s.rows = s.group = s.n ? mx_cuda_count(x) / s.n : 0;
    s.x = (const float *)x->data;
    s.y = (float *)call->outputs[0].data;
    s.scale = 1;
    return mx_cuda_run_softmax(gpu, call, &s);
}

namespace {

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* NaN propagates: a maximum that hides one would hide a fault. */
struct best {
    mxw_reduce_kind kind;
    __device__ float operator()(float a, float b) const {
        if (isnan(a) || isnan(b))
            return isnan(a) ? a : b;
        return kind == MXW_REDUCE_MAX ? (b > a ? b : a) : (b < a ? b : a);
    }
    __device__ int32_t operator()(int32_t a, int32_t b) const {
        return kind == MXW_REDUCE_MAX ? (b > a ? b : a) : (b < a ? b : a);
    }
};

__device__ static double as_sum(float x) { return (double)x; }
__device__ static uint32_t as_sum(int32_t x) { return (uint32_t)x; }
__device__ static float from_sum(double sum, mxw_reduce_kind kind, int64_t n) {
    return (float)(kind == MXW_REDUCE_MEAN ? sum / (double)n : sum);
}
__device__ static int32_t from_sum(uint32_t sum, mxw_reduce_kind kind, int64_t n) { return (int32_t)sum; }

/* x [outer][n][inner]: a thread per result, down its column. */
template <typename T>
__global__ void reduce_columns(T *y, const T *x, mxw_reduce_kind kind, int64_t outer, int64_t n, int64_t inner) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < outer * inner; i += step) {
        const T *from = x + i / inner * n * inner + i % inner;
        if (kind == MXW_REDUCE_MAX || kind == MXW_REDUCE_MIN) {
            T value = from[0];
            for (int64_t j = 1; j < n; j++)
                value = best{kind}(value, from[j * inner]);
            y[i] = value;
        } else {
            decltype(as_sum(T())) sum = 0;
            for (int64_t j = 0; j < n; j++)
                sum += as_sum(from[j * inner]);
            y[i] = from_sum(sum, kind, n);
        }
    }
}

/* x [outer][n]: a warp per result. */
template <typename T> __global__ void reduce_rows(T *y, const T *x, mxw_reduce_kind kind, int64_t outer, int64_t n) {
    int lane = threadIdx.x % WARP_SIZE;
    int64_t step = (int64_t)gridDim.x * BLOCK_WARPS;
    for (int64_t row = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_SIZE; row < outer; row += step) {
        const T *from = x + row * n;
        T result;
        if (kind == MXW_REDUCE_MAX || kind == MXW_REDUCE_MIN) {
            T value = from[lane < n ? lane : 0];
            for (int64_t i = lane + WARP_SIZE; i < n; i += WARP_SIZE)
                value = best{kind}(value, from[i]);
            result = warp_reduce(value, best{kind});
        } else {
            decltype(as_sum(T())) sum = 0;
            for (int64_t i = lane; i < n; i += WARP_SIZE)
                sum += as_sum(from[i]);
            result = from_sum(warp_reduce(sum, op_sum()), kind, n);
        }
        if (lane == 0)
            y[row] = result;
    }
}

template <typename T>
static void launch_reduce(mx_cuda *gpu, const mx_call *call, int64_t outer, int64_t n, int64_t inner) {
    T *y = (T *)call->outputs[0].data;
    const T *x = (const T *)call->inputs[0].data;
    mxw_reduce_kind kind = (mxw_reduce_kind)call->attrs->kind;
    if (inner == 1)
        reduce_rows<<<grid_for(outer, BLOCK_WARPS), BLOCK_SIZE, 0, gpu->stream>>>(y, x, kind, outer, n);
    else
        reduce_columns<<<grid_for(outer * inner, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(y, x, kind, outer, n,
                                                                                            inner);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_reduce(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < x->rank; i++) {
        outer *= i < call->attrs->axis ? x->dims[i] : 1;
        inner *= i > call->attrs->axis ? x->dims[i] : 1;
    }
    if (outer * inner == 0)
        return MXW_OK;
    if (x->dtype == MXW_F32)
        launch_reduce<float>(gpu, call, outer, x->dims[call->attrs->axis], inner);
    else
        launch_reduce<int32_t>(gpu, call, outer, x->dims[call->attrs->axis], inner);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
