/* modules/cuda/ops/norm.cu - compiled layer norm of rows that no GEMM norms for itself, as the encoder's last: a warp
 * reads a row once and keeps it in registers.
 * In: rows of a multiple of 4 elements, at most MAX_ROW. Out: the normed rows.
 * Invariants: f32, element by element what a GEMM makes of its rows (gemm/norm.cuh); a row's bits do not depend on its
 * neighbours. The plain op (elementwise.cu) takes every other row, and computes in f64. */
#include "modules/cuda/gemm/norm.cuh"

namespace mx::ops {

using namespace gemm;

namespace {

constexpr int MAX_ROW = 1280;   /* elements: the widest Whisper */

template <int fours>
__global__ void __launch_bounds__(BLOCK_SIZE)
    norm_kernel(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int n, double eps) {
    int64_t row = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_SIZE;
    int first = threadIdx.x % WARP_SIZE * 4;
    if (row >= rows)
        return;
    float4 v[fours];
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < fours; i++) {
        int k = first + i * 4 * WARP_SIZE;
        v[i] = k < n ? *(const float4 *)(x + row * n + k) : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < fours; i++)
        sum = sum4(sum, v[i], first + i * 4 * WARP_SIZE, n);
    float mean = row_mean(sum, n);
#pragma unroll
    for (int i = 0; i < fours; i++)
        squares = sum_squares4(squares, v[i], mean, first + i * 4 * WARP_SIZE, n);
    float2 statistics = make_float2(mean, row_rstd(squares, n, eps));
#pragma unroll
    for (int i = 0; i < fours; i++) {
        int k = first + i * 4 * WARP_SIZE;
        if (k < n)
            *(float4 *)(y + row * n + k) =
                norm4(v[i], statistics, *(const float4 *)(gamma + k), *(const float4 *)(beta + k));
    }
}

static bool in_fours(const mx_tensor *t) { return (uintptr_t)t->data % sizeof(float4) == 0; }

}   /* namespace */

extern "C" int mx_cuda_fast_norm_takes(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    int64_t n = x->dims[x->rank - 1];
    return call->compiled && n % 4 == 0 && n <= MAX_ROW && mx_cuda_count(x) / MX_MAX(n, 1) < ((int64_t)1 << 31) &&
           in_fours(x) && in_fours(&call->inputs[1]) && in_fours(&call->inputs[2]) && in_fours(&call->outputs[0]);
}

template <int fours> static void launch(mx_cuda *gpu, const mx_call *call, int64_t rows, int n) {
    norm_kernel<fours><<<(unsigned)((rows + BLOCK_WARPS - 1) / BLOCK_WARPS), BLOCK_SIZE, 0, gpu->stream>>>(
        (float *)call->outputs[0].data, (const float *)call->inputs[0].data, (const float *)call->inputs[1].data,
        (const float *)call->inputs[2].data, rows, n, call->attrs->eps);
}

extern "C" mxw_status mx_cuda_fast_norm(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0];
    int n = (int)x->dims[x->rank - 1];
    int64_t rows = n ? mx_cuda_count(x) / n : 0;
    if (rows == 0)
        return MXW_OK;
    /* 384, 512, 768, 1024 and 1280 are Whisper's. */
    if (n <= 384)
        launch<3>(gpu, call, rows, n);
    else if (n <= 512)
        launch<4>(gpu, call, rows, n);
    else if (n <= 768)
        launch<6>(gpu, call, rows, n);
    else if (n <= 1024)
        launch<8>(gpu, call, rows, n);
    else
        launch<10>(gpu, call, rows, n);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
