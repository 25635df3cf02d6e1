/* modules/cuda/ops/gemm.cu - eager GEMM and convolution in f32.
 *
 * Invariants: how a result is computed depends on the shape of its own entry, never on the batch around it.
 *   [.., rows, k] with leading axes: each entry is a GEMM of its own, one cuBLAS call of one size; or, where entries do
 *   not start at aligned addresses, which could change cuBLAS's algorithm, one by our own tiles.
 *   [rows, k]: the rows are the batch (decoder rows). A kernel of our own, in which every element is summed over k in
 *   one order, whatever row it is in and however many there are. */
#include "modules/cuda/common/block.cuh"

namespace mx::ops {

namespace {

/* ---- our own tiles ----------------------------------------------------------------------------------------------- */

constexpr int TILE = 64;   /* rows and columns of a block; each of the 256 threads has 4 x 4 */
constexpr int DEPTH = 16;
constexpr int EACH = 4;

__device__ static void load_tile(const mx_cuda_sgemm &p, int64_t entry, int64_t row, int64_t column, int64_t depth,
                                 float (*a)[TILE + EACH], float (*b)[TILE + EACH]) {
    const float *from_a = p.a + entry * p.a_step, *from_b = p.b + entry * p.b_step;
    for (int i = threadIdx.x; i < TILE * DEPTH; i += BLOCK_SIZE) {
        int64_t r = row + i / DEPTH, d = depth + i % DEPTH;
        a[i % DEPTH][i / DEPTH] = r < p.m && d < p.k ? from_a[r * p.lda + d] : 0;
        if (p.b_transposed) {
            int64_t c = column + i / DEPTH;
            b[i % DEPTH][i / DEPTH] = c < p.n && d < p.k ? from_b[c * p.ldb + d] : 0;
        } else {
            int64_t c = column + i % TILE;
            d = depth + i / TILE;
            b[i / TILE][i % TILE] = c < p.n && d < p.k ? from_b[d * p.ldb + c] : 0;
        }
    }
}

__device__ static void one_tile(const mx_cuda_sgemm &p, int64_t entry, int64_t row, int64_t column,
                                float (*a)[TILE + EACH], float (*b)[TILE + EACH]) {
    int x = threadIdx.x % (TILE / EACH) * EACH, y = threadIdx.x / (TILE / EACH) * EACH;
    float sum[EACH][EACH] = {};
    for (int64_t depth = 0; depth < p.k; depth += DEPTH) {
        load_tile(p, entry, row, column, depth, a, b);
        __syncthreads();
        for (int d = 0; d < DEPTH; d++)
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    sum[i][j] = fmaf(a[d][y + i], b[d][x + j], sum[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++)
            if (row + y + i < p.m && column + x + j < p.n)
                p.c[entry * p.c_step + (row + y + i) * p.ldc + column + x + j] = sum[i][j];
}

__global__ void __launch_bounds__(BLOCK_SIZE) tile_kernel(mx_cuda_sgemm p) {
    __shared__ float a[DEPTH][TILE + EACH], b[DEPTH][TILE + EACH];
    int64_t columns = (p.n + TILE - 1) / TILE, rows = (p.m + TILE - 1) / TILE;
    for (int64_t tile = blockIdx.x; tile < p.entries * rows * columns; tile += gridDim.x)
        one_tile(p, tile / columns / rows, tile / columns % rows * TILE, tile % columns * TILE, a, b);
}

}   /* namespace */

extern "C" mxw_status mx_cuda_sgemm_tiles(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p) {
    int64_t tiles = p->entries * ((p->m + TILE - 1) / TILE) * ((p->n + TILE - 1) / TILE);
    tile_kernel<<<grid_for(tiles, 1), BLOCK_SIZE, 0, gpu->stream>>>(*p);
    return mx_cuda_launched(gpu, call);
}

extern "C" mxw_status mx_cuda_sgemm_run(mx_cuda *gpu, const mx_call *call, const mx_cuda_sgemm *p, int even) {
    if (p->m == 0 || p->n == 0 || p->entries == 0)
        return MXW_OK;
    return even && p->k > 0 ? mx_cuda_sgemm_cublas(gpu, call, p) : mx_cuda_sgemm_tiles(gpu, call, p);
}

namespace {

/* Whether contiguous matrices of that many floats all start at aligned addresses. */
static int is_even(int64_t floats) { return floats % MX_CUDA_CUBLAS_ALIGN == 0; }

/* ---- bias -------------------------------------------------------------------------------------------------------- */

__global__ void bias_kernel(float *y, const float *bias, int64_t count, int64_t n) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        y[i] += bias[i % n];
}

/* y [rows][n] += bias [n] in each row; NULL: none */
static mxw_status add_bias(mx_cuda *gpu, const mx_call *call, float *y, const void *bias, int64_t rows, int64_t n) {
    if (!bias || rows * n == 0)
        return MXW_OK;
    bias_kernel<<<grid_for(rows * n, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(y, (const float *)bias, rows * n, n);
    return mx_cuda_launched(gpu, call);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

constexpr int ROWS = 8;   /* that share a load of the weights */
constexpr int COLUMNS = 4;   /* of one warp; ROWS * COLUMNS == WARP_SIZE: each lane writes one result */
constexpr int ROW_WARPS = 4;

/* y [rows][n] = x [rows][k] w^T + bias, w [n][k]. Lane l sums the terms l, l + 32, ...; then the lanes are reduced. A
 * row or column past the end repeats the last one and is not stored. */
__global__ void __launch_bounds__(ROW_WARPS *WARP_SIZE)
    rows_kernel(float *y, const float *x, const float *w, const float *bias, int64_t rows, int64_t n, int64_t k) {
    int lane = threadIdx.x % WARP_SIZE;
    int64_t column = ((int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / WARP_SIZE) * COLUMNS;
    if (column >= n)
        return;
    for (int64_t row = (int64_t)blockIdx.y * ROWS; row < rows; row += (int64_t)gridDim.y * ROWS) {
        const float *of_x[ROWS], *of_w[COLUMNS];
        float sum[ROWS][COLUMNS] = {}, mine = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            of_x[r] = x + (row + r < rows ? row + r : rows - 1) * k;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            of_w[c] = w + (column + c < n ? column + c : n - 1) * k;
        for (int64_t p = lane; p < k; p += WARP_SIZE) {
            float weight[COLUMNS];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                weight[c] = of_w[c][p];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float value = of_x[r][p];
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    sum[r][c] = fmaf(value, weight[c], sum[r][c]);
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                float joined = warp_reduce(sum[r][c], op_sum());
                mine = lane == r * COLUMNS + c ? joined : mine;
            }
        int64_t to_row = row + lane / COLUMNS, to_column = column + lane % COLUMNS;
        if (to_row < rows && to_column < n)
            y[to_row * n + to_column] = mine + (bias ? bias[to_column] : 0);
    }
}

/* y [rows][n] = a [rows][k] b, b [k][n]: a thread per column, each sum in the order of k. */
__global__ void __launch_bounds__(BLOCK_SIZE)
    rows_plain_kernel(float *y, const float *a, const float *b, int64_t rows, int64_t n, int64_t k) {
    int64_t column = (int64_t)blockIdx.x * BLOCK_SIZE + threadIdx.x;
    if (column >= n)
        return;
    for (int64_t row = (int64_t)blockIdx.y * ROWS; row < rows; row += (int64_t)gridDim.y * ROWS) {
        const float *of_a[ROWS];
        float sum[ROWS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            of_a[r] = a + (row + r < rows ? row + r : rows - 1) * k;
        for (int64_t p = 0; p < k; p++) {
            float value = b[p * n + column];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r] = fmaf(of_a[r][p], value, sum[r]);
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (row + r < rows)
                y[(row + r) * n + column] = sum[r];
    }
}

static dim3 row_grid(int64_t n, int64_t columns, int64_t rows) {
    int64_t tiles = (rows + ROWS - 1) / ROWS;
    return dim3((unsigned)((n + columns - 1) / columns), (unsigned)MX_MIN(tiles, 65535));
}

}   /* namespace */

/* ---- linear, matmul ---------------------------------------------------------------------------------------------- */

extern "C" mxw_status mx_cuda_linear(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1];
    const void *bias = mx_cuda_input(call, 2);
    float *y = (float *)call->outputs[0].data;
    mx_cuda_sgemm p = {};
    p.m = x->rank > 1 ? x->dims[x->rank - 2] : 1;
    p.n = p.ldc = weight->dims[0];
    p.k = p.lda = p.ldb = weight->dims[1];
    p.b = (const float *)weight->data;
    p.b_transposed = 1;
    p.entries = 1;
    int64_t entries = 1;
    for (int i = 0; i < x->rank - 2; i++)
        entries *= x->dims[i];
    if (p.m == 0 || p.n == 0 || entries == 0)
        return MXW_OK;
    if (x->rank <= 2) {
        rows_kernel<<<row_grid(p.n, ROW_WARPS * COLUMNS, p.m), ROW_WARPS * WARP_SIZE, 0, gpu->stream>>>(
            y, (const float *)x->data, p.b, (const float *)bias, p.m, p.n, p.k);
        return mx_cuda_launched(gpu, call);
    }
    mxw_status status = MXW_OK;
    for (int64_t e = 0; e < entries && status >= 0; e++) {
        p.a = (const float *)x->data + e * p.m * p.k;
        p.c = y + e * p.m * p.n;
        status = mx_cuda_sgemm_run(gpu, call, &p, is_even(p.m * p.k) && is_even(p.m * p.n));
    }
    return status < 0 ? status : add_bias(gpu, call, y, bias, entries * p.m, p.n);
}

/* The stride of an operand along axis i of the result's leading axes; 0 where it is broadcast. */
static int64_t leading_stride(const mx_tensor *x, const mx_tensor *out, int i) {
    int axis = i - (out->rank - x->rank);
    return axis < 0 || x->dims[axis] == 1 ? 0 : x->strides[axis];
}

extern "C" mxw_status mx_cuda_matmul(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->outputs[0];
    mx_cuda_sgemm p = {};
    p.m = a->dims[a->rank - 2];
    p.k = p.lda = a->dims[a->rank - 1];
    p.n = p.ldb = p.ldc = b->dims[b->rank - 1];
    p.entries = 1;
    int64_t count = mx_cuda_count(out), entries = count ? count / (p.m * p.n) : 0;
    if (entries && a->rank == 2 && b->rank == 2) {
        rows_plain_kernel<<<row_grid(p.n, BLOCK_SIZE, p.m), BLOCK_SIZE, 0, gpu->stream>>>(
            (float *)out->data, (const float *)a->data, (const float *)b->data, p.m, p.n, p.k);
        return mx_cuda_launched(gpu, call);
    }
    mxw_status status = MXW_OK;
    int even = is_even(p.m * p.k) && is_even(p.k * p.n) && is_even(p.m * p.n);
    for (int64_t e = 0; e < entries && status >= 0; e++) {
        int64_t rest = e, at_a = 0, at_b = 0;
        for (int i = out->rank - 3; i >= 0; i--) {
            at_a += rest % out->dims[i] * leading_stride(a, out, i);
            at_b += rest % out->dims[i] * leading_stride(b, out, i);
            rest /= out->dims[i];
        }
        p.a = (const float *)a->data + at_a;
        p.b = (const float *)b->data + at_b;
        p.c = (float *)out->data + e * p.m * p.n;
        status = mx_cuda_sgemm_run(gpu, call, &p, even);
    }
    return status;
}

namespace {

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* im2col over images [height][width][in]: each position's window becomes a row, which is multiplied by the weights.
 * One dimension is a height of one; its window is [in][kernel], as its weights are, else [kernel][in]. */
struct convolution {
    int64_t entries;                                            /* images of a launch */
    int64_t height, width, in, out_width, positions, kernel_height, kernel_width;
    int64_t stride[2], pad[2], dilation;                        /* dilation along the width */
    int channels_first;
};

__global__ void windows_kernel(float *y, const float *x, convolution c) {
    int64_t k = c.kernel_height * c.kernel_width * c.in, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < c.entries * c.positions * k; i += step) {
        int64_t entry = i / k / c.positions, position = i / k % c.positions, j = i % k;
        int64_t channel = c.channels_first ? j / c.kernel_width : j % c.in;
        int64_t tap = c.channels_first ? j % c.kernel_width : j / c.in;
        int64_t row = position / c.out_width * c.stride[0] - c.pad[0] + tap / c.kernel_width;
        int64_t column = position % c.out_width * c.stride[1] - c.pad[1] + tap % c.kernel_width * c.dilation;
        int inside = row >= 0 && row < c.height && column >= 0 && column < c.width;
        y[i] = inside ? x[((entry * c.height + row) * c.width + column) * c.in + channel] : 0;
    }
}

static convolution describe(const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    const mx_attrs *attrs = call->attrs;
    convolution c = {};
    c.entries = c.dilation = 1;
    c.channels_first = call->op == MX_OP_CONV1D;
    if (call->op != MX_OP_CONV2D) {   /* x [n][t][in], weight [out][in][k] */
        c.height = c.kernel_height = c.stride[0] = 1;
        c.width = x->dims[1];
        c.kernel_width = weight->dims[2];
        c.out_width = c.positions = out->dims[1];
        c.stride[1] = attrs->stride[0];
        c.pad[1] = attrs->pad[0];
        c.dilation = attrs->dilation;
    } else {                  /* x [n][h][w][in], weight [r][s][in][out] */
        c.height = x->dims[1];
        c.width = x->dims[2];
        c.kernel_height = weight->dims[0];
        c.kernel_width = weight->dims[1];
        c.out_width = out->dims[2];
        c.positions = out->dims[1] * out->dims[2];
        for (int i = 0; i < 2; i++) {
            c.stride[i] = attrs->stride[i];
            c.pad[i] = attrs->pad[i];
        }
    }
    c.in = x->dims[x->rank - 1];
    return c;
}

}   /* namespace */

extern "C" size_t mx_cuda_conv_scratch(mx_cuda *gpu, const mx_call *call) {
    convolution c = describe(call);
    return (size_t)(c.positions * c.kernel_height * c.kernel_width * c.in) * sizeof(float);
}

extern "C" mxw_status mx_cuda_conv1d_rows(mx_cuda *gpu, const mx_call *call, float *rows) {
    convolution c = describe(call);
    c.entries = call->inputs[0].dims[0];
    int64_t count = c.entries * c.positions * c.kernel_width * c.in;
    if (count == 0)
        return MXW_OK;
    windows_kernel<<<grid_for(count, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
        rows, (const float *)call->inputs[0].data, c);
    return mx_cuda_launched(gpu, call);
}

extern "C" mxw_status mx_cuda_conv(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *x = &call->inputs[0], *weight = &call->inputs[1], *out = &call->outputs[0];
    convolution c = describe(call);
    mx_cuda_sgemm p = {};
    p.m = c.positions;
    p.k = p.lda = c.kernel_height * c.kernel_width * c.in;
    p.n = p.ldc = out->dims[out->rank - 1];
    p.a = (const float *)call->scratch;
    p.b = (const float *)weight->data;
    p.b_transposed = c.channels_first;
    p.ldb = c.channels_first ? p.k : p.n;
    p.entries = 1;
    if (mx_cuda_count(out) == 0)
        return MXW_OK;
    mxw_status status = MXW_OK;
    for (int64_t e = 0; e < x->dims[0] && status >= 0; e++) {
        if (p.k > 0)
            windows_kernel<<<grid_for(p.m * p.k, BLOCK_SIZE), BLOCK_SIZE, 0, gpu->stream>>>(
                (float *)call->scratch, (const float *)x->data + e * c.height * c.width * c.in, c);
        p.c = (float *)out->data + e * p.m * p.n;
        status = mx_cuda_launched(gpu, call);
        if (status >= 0)
            status = mx_cuda_sgemm_run(gpu, call, &p, is_even(p.m * p.n));
    }
    return status < 0 ? status : add_bias(gpu, call, (float *)out->data, mx_cuda_input(call, 2), x->dims[0] * p.m, p.n);
}

}   /* namespace mx::ops */
