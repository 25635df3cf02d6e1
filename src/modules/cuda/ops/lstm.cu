/* modules/cuda/ops/lstm.cu - the LSTM in f32, for eager and compiled calls: the input's part of the gates by our own
 * GEMM tiles for a block of steps, then the steps, one thread block for each sequence and direction.
 *
 * Invariants: a gate is (chain over x + biases) + sum over h, the chain in the order of k, the sum in lanes that depend
 * on the hidden size alone. So the bits depend on neither the batch nor on how a sequence is cut. */
#include "modules/cuda/common/block.cuh"

namespace mx::ops {

namespace {

constexpr int64_t BLOCK_ROWS = 8192;   /* rows of x whose gates are in scratch at a time */
constexpr int STEP_WARPS = 32;         /* of the thread block of a sequence */

struct lstm {
    int64_t t, n, in, hidden, dirs, steps;   /* steps: of a block */
    int64_t first, count;                    /* the block at hand: its first step, and how many it has */
    int reverse;                             /* the first direction runs backwards; the second always does */
    const float *gates;                      /* [dirs][steps * n][4 hidden] */
    const float *w;                          /* [dirs][4 hidden][hidden] */
    const float *b_ih, *b_hh;                /* [dirs][4 hidden] or NULL */
    float *y, *h, *c;
};

/* ---- states ------------------------------------------------------------------------------------------------------ */

__global__ void begin_kernel(float *h, float *c, const float *h0, const float *c0, int64_t count) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        h[i] = h0 ? h0[i] : 0;
        c[i] = c0 ? c0[i] : 0;
    }
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/* The recurrent sums of one unit's four gates: lane l adds the terms l, l + 32, ... of each, then lanes are joined. */
__device__ __forceinline__ void unit_sums(const lstm &f, int64_t dir, int64_t unit, const float *h, float sum[4]) {
    const float *w = f.w + (dir * 4 * f.hidden + unit) * f.hidden;
    int64_t gate = f.hidden * f.hidden;
    for (int i = 0; i < 4; i++)
        sum[i] = 0;
    for (int64_t k = threadIdx.x % WARP_SIZE; k < f.hidden; k += WARP_SIZE) {
        float value = h[k];
#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[i] = fmaf(value, w[i * gate + k], sum[i]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        sum[i] = warp_reduce(sum[i], op_sum());
}

/* The cell of one unit; x: its gate i of the row's gates. Returns h. */
__device__ __forceinline__ float cell(const lstm &f, int64_t dir, int64_t unit, const float *x, const float sum[4],
                                      float *c) {
    float z[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t row = (dir * 4 + i) * f.hidden + unit;
        float bias = __fadd_rn(f.b_ih ? f.b_ih[row] : 0, f.b_hh ? f.b_hh[row] : 0);
        z[i] = __fadd_rn(__fadd_rn(x[i * f.hidden], bias), sum[i]);
    }
    float kept = fmaf(sigmoid(z[1]), *c, __fmul_rn(sigmoid(z[0]), tanhf(z[2])));
    *c = kept;
    return __fmul_rn(sigmoid(z[3]), tanhf(kept));
}

/* One step: each warp has every STEP_WARPS-th unit. It sums them one after the other; lane l then has the l-th of up to
 * 32 of them. h is read and written through memory, so no hidden size is too large. */
__device__ void one_step(const lstm &f, int64_t dir, int64_t entry, int64_t in_block, const float *before, float *now) {
    int lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
    const float *gates = f.gates + ((dir * f.steps + in_block) * f.n + entry) * 4 * f.hidden;
    float *c = f.c + (dir * f.n + entry) * f.hidden;
    for (int64_t first = warp; first < f.hidden; first += (int64_t)STEP_WARPS * WARP_SIZE) {
        float mine[4] = {}, sum[4];
        for (int l = 0; l < WARP_SIZE && first + (int64_t)l * STEP_WARPS < f.hidden; l++) {
            unit_sums(f, dir, first + (int64_t)l * STEP_WARPS, before, sum);
#pragma unroll
            for (int i = 0; i < 4; i++)
                mine[i] = lane == l ? sum[i] : mine[i];
        }
        int64_t unit = first + (int64_t)lane * STEP_WARPS;
        if (unit < f.hidden)
            now[unit] = cell(f, dir, unit, gates + unit, mine, c + unit);
    }
}

__global__ void __launch_bounds__(STEP_WARPS *WARP_SIZE) steps_kernel(lstm f) {
    for (int64_t sequence = blockIdx.x; sequence < f.dirs * f.n; sequence += gridDim.x) {
        int64_t dir = sequence / f.n, entry = sequence % f.n;
        int backwards = f.reverse || dir == 1;
        float *h = f.h + sequence * f.hidden;
        const float *before = h;
        for (int64_t s = 0; s < f.count; s++) {
            int64_t time = backwards ? f.t - 1 - f.first - s : f.first + s;
            float *now = f.y + ((time * f.n + entry) * f.dirs + dir) * f.hidden;
            one_step(f, dir, entry, backwards ? f.count - 1 - s : s, before, now);
            __syncthreads();   /* also makes what the block wrote visible to it */
            before = now;
        }
        for (int64_t i = threadIdx.x; i < f.hidden; i += blockDim.x)
            h[i] = before[i];
        __syncthreads();
    }
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */

static lstm describe(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *w = &call->inputs[2];
    lstm f = {};
    f.t = x->dims[0];
    f.n = x->dims[1];
    f.in = x->dims[2];
    f.hidden = w->dims[2];
    f.dirs = w->dims[0];
    f.steps = MX_MAX((int64_t)1, MX_MIN(f.t, BLOCK_ROWS / MX_MAX(f.n, (int64_t)1)));
    f.reverse = call->attrs->kind == MXW_LSTM_REVERSE;
    f.gates = (const float *)call->scratch;
    f.w = (const float *)w->data;
    f.b_ih = (const float *)mx_cuda_input(call, 3);
    f.b_hh = (const float *)mx_cuda_input(call, 4);
    f.y = (float *)call->outputs[0].data;
    f.h = (float *)call->outputs[1].data;
    f.c = (float *)call->outputs[2].data;
    return f;
}

/* The input's part of the gates of the block at hand, in the order of time. */
static mxw_status project(mx_cuda *gpu, const mx_call *call, const lstm &f, int64_t dir) {
    int64_t time = f.reverse || dir == 1 ? f.t - f.first - f.count : f.first;
    mx_cuda_sgemm p = {};
    p.m = f.count * f.n;
    p.n = p.ldc = 4 * f.hidden;
    p.k = p.lda = p.ldb = f.in;
    p.entries = 1;
    p.a = (const float *)call->inputs[0].data + time * f.n * f.in;
    p.b = (const float *)call->inputs[1].data + dir * p.n * p.k;
    p.b_transposed = 1;
    p.c = (float *)call->scratch + dir * f.steps * f.n * p.n;
    return mx_cuda_sgemm_tiles(gpu, call, &p);
}

}   /* namespace */

extern "C" size_t mx_cuda_lstm_scratch(mx_cuda *gpu, const mx_call *call) {
    lstm f = describe(call);
    return (size_t)(f.dirs * f.steps * f.n * 4 * f.hidden) * sizeof(float);
}

extern "C" mxw_status mx_cuda_lstm(mx_cuda *gpu, const mx_call *call) {
    lstm f = describe(call);
    int64_t states = f.dirs * f.n * f.hidden;
    if (states == 0)
        return MXW_OK;
    begin_kernel<<<grid_for(states, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
        f.h, f.c, (const float *)mx_cuda_input(call, 5), (const float *)mx_cuda_input(call, 6), states);
    mxw_status status = mx_cuda_launched(gpu, call);
    for (; f.first < f.t && status >= 0; f.first += f.count) {
        f.count = MX_MIN(f.steps, f.t - f.first);
        for (int64_t dir = 0; dir < f.dirs && status >= 0; dir++)
            status = project(gpu, call, f, dir);
        if (status < 0)
            break;
        steps_kernel<<<grid_for(f.dirs * f.n, 1), STEP_WARPS * WARP_SIZE, 0, gpu->stream>>>(f);
        status = mx_cuda_launched(gpu, call);
    }
    return status;
}

}   /* namespace mx::ops */
