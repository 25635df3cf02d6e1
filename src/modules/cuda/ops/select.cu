/* modules/cuda/ops/select.cu - from a row of logits to candidates (op/select.h), top-k, argmax: a block
 * per row. */
#include "modules/cuda/logits/select.cuh"

namespace mx::ops {

using namespace logits;

namespace {

/* values NULL: ids only */
__global__ void __launch_bounds__(BLOCK_SIZE)
    top_k_kernel(float *values, int32_t *ids, const float *x, int64_t rows, int64_t n, int64_t k) {
    __shared__ candidate shared[BLOCK_WARPS];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        candidate last = {0, -1};
        for (int64_t j = 0; j < k; j++) {
            last = next_best(x + row * n, n, last, false, shared);
            if (threadIdx.x == 0 && values)
                values[row * k + j] = last.value;
            if (threadIdx.x == 0)
                ids[row * k + j] = last.id;
        }
    }
}

static mxw_status launch_top_k(mx_cuda *gpu, const mx_call *call, float *values, int32_t *ids, int64_t k) {
    const mx_tensor *x = &call->inputs[0];
    int64_t n = x->dims[x->rank - 1], rows = n ? mx_cuda_count(x) / n : 0;
    if (rows == 0)
        return MXW_OK;
    top_k_kernel<<<grid_for(rows, 1), BLOCK_SIZE, 0, gpu->stream>>>(values, ids, (const float *)x->data, rows, n, k);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_argmax(mx_cuda *gpu, const mx_call *call) {
    return launch_top_k(gpu, call, NULL, (int32_t *)call->outputs[0].data, 1);
}

extern "C" mxw_status mx_cuda_top_k(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *out = call->outputs;
    return launch_top_k(gpu, call, (float *)out[0].data, (int32_t *)out[1].data, out[0].dims[out[0].rank - 1]);
}

namespace {

/* ---- select ------------------------------------------------------------------------------------------------------ */

__global__ void __launch_bounds__(BLOCK_SIZE) select_kernel(selection s) {
    __shared__ select_smem pad;
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x)
        select_row(s, s.logits + row * s.vocab, s.left + row * s.vocab, row, &pad);
}

}   /* namespace */

extern "C" size_t mx_cuda_select_scratch(mx_cuda *gpu, const mx_call *call) {
    return (size_t)mx_cuda_count(&call->inputs[0]) * sizeof(float);
}

extern "C" mxw_status mx_cuda_select(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *in = call->inputs, *out = call->outputs;
    selection s = {};
    s.ids = (int32_t *)out[0].data;
    s.log_probs = (float *)out[1].data;
    s.stats = (float *)out[2].data;
    s.left = (float *)call->scratch;
    s.logits = (const float *)in[0].data;
    s.rules = (const mx_rule *)in[1].data;
    s.suppress = (const uint8_t *)in[2].data;
    s.rows = in[0].dims[0];
    s.vocab = in[0].dims[1];
    s.k = out[0].dims[1];
    if (s.rows == 0)
        return MXW_OK;
    select_kernel<<<grid_for(s.rows, 1), BLOCK_SIZE, 0, gpu->stream>>>(s);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::ops */
