/* modules/cuda/ops/move.cu - ops that move or convert elements: permute, slice, concat, gather, state_write, cast.
 * Moves are byte-exact; a conversion rounds once, to nearest even. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "modules/cuda/common/f8.cuh"

namespace mx::ops {

namespace {

/* ---- strided copies ---------------------------------------------------------------------------------------------- */

/* The result's axes, and the input's strides along them, in elements. */
struct strided {
    int rank;
    int64_t dims[MX_MAX_RANK], strides[MX_MAX_RANK];
};

template <typename T> __global__ void strided_kernel(T *y, const T *x, strided s, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        int64_t rest = i, from = 0;
        for (int d = s.rank - 1; d >= 0; d--) {
            from += rest % s.dims[d] * s.strides[d];
            rest /= s.dims[d];
        }
        y[i] = x[from];
    }
}

static mxw_status copy_strided(mx_cuda *gpu, const mx_call *call, const strided &s, int64_t first) {
    const mx_tensor *out = &call->outputs[0];
    int64_t n = mx_cuda_count(out);
    unsigned grid = grid_for(n, BLOCK_SIZE);
    if (n == 0)
        return MXW_OK;
#define COPY(type)                                                                                                     \
    strided_kernel<<<grid, BLOCK_SIZE, 0, gpu->stream>>>((type *)out->data,                                            \
                                                         (const type *)call->inputs[0].data + first, s, n)
    switch (mx_cuda_dtype_bytes(out->dtype)) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    default: COPY(uint64_t); break;
    }
#undef COPY
    return mx_cuda_launched(gpu, call);
}

/* The result's axes with the strides of the input's, one to one. */
static strided straight(const mx_call *call) {
    strided s = {};
    s.rank = call->outputs[0].rank;
    for (int i = 0; i < s.rank; i++) {
        s.dims[i] = call->outputs[0].dims[i];
        s.strides[i] = call->inputs[0].strides[i];
    }
    return s;
}

}   /* namespace */

extern "C" mxw_status mx_cuda_permute(mx_cuda *gpu, const mx_call *call) {
    strided s = straight(call);
    for (int i = 0; i < s.rank; i++)
        s.strides[i] = call->inputs[0].strides[call->attrs->axes[i]];
    return copy_strided(gpu, call, s, 0);
}

extern "C" mxw_status mx_cuda_transpose(mx_cuda *gpu, const mx_call *call) {
    strided s = straight(call);
    s.strides[s.rank - 2] = call->inputs[0].strides[s.rank - 1];
    s.strides[s.rank - 1] = call->inputs[0].strides[s.rank - 2];
    return copy_strided(gpu, call, s, 0);
}

extern "C" mxw_status mx_cuda_reshape(mx_cuda *gpu, const mx_call *call) {
    size_t bytes = mx_cuda_bytes(&call->inputs[0]);
    if (bytes == 0)
        return MXW_OK;
    return mx_cuda_check(gpu, cudaMemcpyAsync(call->outputs[0].data, call->inputs[0].data, bytes,
                                              cudaMemcpyDeviceToDevice, gpu->stream),
                         mx_cuda_op_name(call->op));
}

/* A start as numpy has it, on an axis of n. */
static int64_t slice_first(int64_t n, int64_t start) {
    if (start < 0)
        start = start < -n ? 0 : start + n;
    return MX_MIN(start, n);
}

extern "C" mxw_status mx_cuda_slice(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    int axis = call->attrs->axis;
    strided s = straight(call);
    if (s.dims[axis] > 1)   /* else the step may be larger than any axis */
        s.strides[axis] *= call->attrs->step;
    return copy_strided(gpu, call, s, slice_first(x->dims[axis], call->attrs->start) * x->strides[axis]);
}

namespace {

/* ---- runs of bytes ----------------------------------------------------------------------------------------------- */

/* The widest unit that divides all of these byte counts. */
static size_t unit_of(size_t a, size_t b, size_t c) {
    size_t all = a | b | c, unit = 16;
    while (all % unit)
        unit /= 2;
    return unit;
}

/* Calls launch(a pointer of the unit's type). */
template <typename Launch> static void with_unit(size_t unit, Launch launch) {
    switch (unit) {
    case 1: launch((uint8_t *)0); break;
    case 2: launch((uint16_t *)0); break;
    case 4: launch((uint32_t *)0); break;
    case 8: launch((uint64_t *)0); break;
    default: launch((uint4 *)0); break;
    }
}

/* `runs` runs of `run` units each, to places y_run apart. */
template <typename T> __global__ void runs_kernel(T *y, const T *x, int64_t runs, int64_t run, int64_t y_run) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < runs * run; i += step)
        y[i / run * y_run + i % run] = x[i];
}

}   /* namespace */

extern "C" mxw_status mx_cuda_concat(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *out = &call->outputs[0];
    size_t outer = 1, at = 0;
    for (int i = 0; i < call->attrs->axis; i++)
        outer *= (size_t)out->dims[i];
    if (mx_cuda_count(out) == 0)
        return MXW_OK;
    size_t out_run = mx_cuda_bytes(out) / outer;
    for (int i = 0; i < call->n_inputs; i++) {
        size_t run = mx_cuda_bytes(&call->inputs[i]) / outer;
        if (run == 0)
            continue;
        size_t unit = unit_of(run, out_run, at);
        void *to = (char *)out->data + at;
        with_unit(unit, [&](auto *type) {
            typedef decltype(type) pointer;
            runs_kernel<<<grid_for((int64_t)(outer * run / unit), BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
                (pointer)to, (pointer)call->inputs[i].data, (int64_t)outer, (int64_t)(run / unit),
                (int64_t)(out_run / unit));
        });
        at += run;
    }
    return mx_cuda_launched(gpu, call);
}

namespace {

/* ---- rows by index ----------------------------------------------------------------------------------------------- */

static size_t row_bytes(const mx_tensor *x) {
    int64_t n = 1;
    for (int i = 1; i < x->rank; i++)
        n *= x->dims[i];
    return (size_t)n * mx_cuda_dtype_bytes(x->dtype);
}

template <typename T>
__global__ void gather_kernel(T *y, const T *table, const int32_t *index, int64_t n, int64_t row) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * row; i += step)
        y[i] = table[index[i / row] * row + i % row];
}

}   /* namespace */

extern "C" mxw_status mx_cuda_gather(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *table = &call->inputs[0], *index = &call->inputs[1];
    int64_t n = mx_cuda_count(index);
    size_t bytes = row_bytes(table), unit = unit_of(bytes, 0, 0);
    if (n == 0 || bytes == 0)
        return MXW_OK;
    if (mx_cuda_fast_gather_takes(call))
        return mx_cuda_fast_gather(gpu, call);
    with_unit(unit, [&](auto *type) {
        typedef decltype(type) pointer;
        gather_kernel<<<grid_for(n * (int64_t)(bytes / unit), BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
            (pointer)call->outputs[0].data, (pointer)table->data, (const int32_t *)index->data, n,
            (int64_t)(bytes / unit));
    });
    return mx_cuda_launched(gpu, call);
}

namespace {

/* A block per row of the state, which is rows of x of `width`, ld apart. If an index occurs twice, the later row
 * wins. */
template <typename S, typename T>
__global__ void state_write_kernel(S *state, const T *x, const int32_t *index, int64_t n, int64_t row, int64_t width,
                                   int64_t ld) {
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        int again = 0;
        for (int64_t j = i + 1 + threadIdx.x; j < n; j += blockDim.x)
            again |= index[j] == index[i];
        if (__syncthreads_or(again))
            continue;
        for (int64_t u = threadIdx.x; u < row; u += blockDim.x)
            state[index[i] * row + u] = (S)x[(i * (row / width) + u / width) * ld + u % width];
    }
}

/* From f32, to a state that is kept narrower than the graph says. */
template <typename S>
static mxw_status write_narrow(mx_cuda *gpu, const mx_call *call, int64_t width, int64_t apart) {
    const mx_tensor *state = &call->inputs[0], *x = &call->inputs[1], *index = &call->inputs[2];
    int64_t n = mx_cuda_count(index);
    state_write_kernel<<<grid_for(n, 1), BLOCK_SIZE, 0, gpu->stream>>>(
        (S *)state->data, (const float *)x->data, (const int32_t *)index->data, n,
        (int64_t)(row_bytes(state) / sizeof(S)), width, apart);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_state_write(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *state = &call->inputs[0], *x = &call->inputs[1], *index = &call->inputs[2];
    int64_t n = mx_cuda_count(index);
    int64_t row = x->rank > 1 ? x->dims[x->rank - 1] : 1, apart = x->rank > 1 ? x->strides[x->rank - 2] : 1;
    size_t bytes = row_bytes(state), element = mx_cuda_dtype_bytes(x->dtype);
    if (n == 0 || bytes == 0)
        return MXW_OK;
    if (mx_cuda_fast_write_takes(call))
        return mx_cuda_fast_write(gpu, call);
    if (state->dtype == MXW_F16 && x->dtype == MXW_F32)
        return write_narrow<__half>(gpu, call, row, apart);
    if (state->dtype == MXW_F8)
        return write_narrow<__nv_fp8_e4m3>(gpu, call, row, apart);
    size_t width = (size_t)row * element, ld = (size_t)apart * element;
    size_t unit = unit_of(width, ld, (size_t)((uintptr_t)x->data | (uintptr_t)state->data));
    with_unit(unit, [&](auto *type) {
        typedef decltype(type) pointer;
        state_write_kernel<<<grid_for(n, 1), BLOCK_SIZE, 0, gpu->stream>>>(
            (pointer)state->data, (pointer)x->data, (const int32_t *)index->data, n, (int64_t)(bytes / unit),
            (int64_t)(width / unit), (int64_t)(ld / unit));
    });
    return mx_cuda_launched(gpu, call);
}

namespace {

/* ---- casts ------------------------------------------------------------------------------------------------------- */

__device__ static int is_float(mxw_dtype dtype) {
    return dtype == MXW_F32 || dtype == MXW_F16 || dtype == MXW_BF16 || dtype == MXW_F64;
}

/* Integers are widened to i64 and floats to f64, both exactly; then narrowed once. */
__device__ static int64_t load_int(const void *x, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_I8: return ((const int8_t *)x)[i];
    case MXW_U8: return ((const uint8_t *)x)[i];
    case MXW_I32: return ((const int32_t *)x)[i];
    default: return ((const int64_t *)x)[i];
    }
}

__device__ static double load_float(const void *x, mxw_dtype dtype, int64_t i) {
    switch (dtype) {
    case MXW_F16: return (double)__half2float(((const __half *)x)[i]);
    case MXW_BF16: return (double)__bfloat162float(((const __nv_bfloat16 *)x)[i]);
    case MXW_F32: return (double)((const float *)x)[i];
    default: return ((const double *)x)[i];
    }
}

__device__ static int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

__device__ static void store_int(void *y, mxw_dtype dtype, int64_t i, int64_t v) {
    switch (dtype) {
    case MXW_I8: ((int8_t *)y)[i] = (int8_t)clamp(v, -128, 127); break;
    case MXW_U8: ((uint8_t *)y)[i] = (uint8_t)clamp(v, 0, 255); break;
    case MXW_I32: ((int32_t *)y)[i] = (int32_t)clamp(v, INT32_MIN, INT32_MAX); break;
    default: ((int64_t *)y)[i] = v; break;
    }
}

/* To f32 by rounding to odd, so that rounding again to bf16 equals rounding the double once. */
__device__ static float to_f32_odd(double v) {
    float towards_zero = __double2float_rz(v);
    if ((double)towards_zero == v || isnan(v) || isinf(towards_zero))
        return towards_zero;
    return __uint_as_float(__float_as_uint(towards_zero) | 1);
}

__device__ static void store_float(void *y, mxw_dtype dtype, int64_t i, double v) {
    switch (dtype) {
    case MXW_F16: ((__half *)y)[i] = __double2half(v); break;
    case MXW_BF16: ((__nv_bfloat16 *)y)[i] = __float2bfloat16_rn(to_f32_odd(v)); break;
    case MXW_F32: ((float *)y)[i] = (float)v; break;
    default: ((double *)y)[i] = v; break;
    }
}

__device__ static int64_t truncate(double v) {
    if (isnan(v))
        return 0;
    if (v >= 9223372036854775808.0)
        return INT64_MAX;
    return v < -9223372036854775808.0 ? INT64_MIN : (int64_t)v;
}

__global__ void cast_kernel(void *y, mxw_dtype to, const void *x, mxw_dtype from, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        if (from == MXW_I64 && to == MXW_F32)
            ((float *)y)[i] = (float)((const int64_t *)x)[i];
        else if (is_float(from) && is_float(to))
            store_float(y, to, i, load_float(x, from, i));
        else if (is_float(from))
            store_int(y, to, i, truncate(load_float(x, from, i)));
        else if (is_float(to))
            store_float(y, to, i, (double)load_int(x, from, i));
        else
            store_int(y, to, i, load_int(x, from, i));
    }
}

}   /* namespace */

extern "C" mxw_status mx_cuda_cast(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t n = mx_cuda_count(x);
    if (x->dtype == y->dtype)
        return mx_cuda_reshape(gpu, call);
    if (n == 0)
        return MXW_OK;
    cast_kernel<<<grid_for(n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(y->data, y->dtype, x->data, x->dtype, n);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
