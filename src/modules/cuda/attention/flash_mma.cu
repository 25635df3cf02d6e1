/* modules/cuda/attention/flash_mma.cu - compiled flash attention over whole windows with mma.sync, heads of 64: scores,
 * softmax and values in one kernel.
 * In: q [n][t][d], k and v [n][s][d], rows strided as in a stacked projection. Out: y [n][t][d].
 * Invariants: a query is computed over tiles of 64 keys in order, whatever else is in the batch; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. exact: q, k, v and the probabilities are two
 * f16 terms each (split_f16_unscaled); only the product of both second terms is dropped. */
#include "modules/cuda/attention/flash.cuh"
#include "modules/cuda/common/cp_async.cuh"

namespace mx::attention {

namespace {

constexpr int QUERIES = 64;   /* of a block: 16 per warp */
constexpr int FLASH_WARPS = 4;
constexpr int FLASH_THREADS = FLASH_WARPS * WARP_SIZE;
constexpr int TILE_TERM = 512;   /* uint4s of a term of a key or value tile: [tile of 8][block of 32][lane] */
constexpr int STAGES = 2;

/* ---- keys and values as operands --------------------------------------------------------------------------------- */

template <int terms> __device__ __forceinline__ void keep(uint4 *to, const float2 (&v)[4]) {
    uint4 a[terms];
    operand_in_order<terms>(v, a);
#pragma unroll
    for (int i = 0; i < terms; i++)
        to[i * TILE_TERM] = a[i];
}

/* A block per tile, head and entry, into [tile][keys, values][term]; zeros past the last key. */
template <int terms> __global__ void __launch_bounds__(BLOCK_SIZE) prepack_kv_kernel(flash_params f) {
    int tile = blockIdx.x, head = blockIdx.y, g = threadIdx.x % WARP_SIZE / 4, t = threadIdx.x % 4;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * HEAD_DIM, *v = f.v + entry * f.s * f.ldv + head * HEAD_DIM;
    uint4 *to = (uint4 *)f.operands + ((entry * f.heads + head) * f.tiles + tile) * 2 * terms * TILE_TERM;
    for (int i = threadIdx.x; i < TILE_TERM; i += BLOCK_SIZE) {
        int eight = i / WARP_SIZE / 2, block = i / WARP_SIZE % 2, key = tile * FLASH_KEYS + eight * 8 + g;
        float2 of_k[4], of_v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int depth = block * 32 + j * 8 + 2 * t, from = tile * FLASH_KEYS + depth;
            of_k[j] = of_v[j] = make_float2(0, 0);
            if (key < f.s) {
                of_k[j].x = k[key * f.ldk + depth];
                of_k[j].y = k[key * f.ldk + depth + 1];
            }
            if (from < f.s)
                of_v[j].x = v[from * f.ldv + eight * 8 + g];
            if (from + 1 < f.s)
                of_v[j].y = v[(from + 1) * f.ldv + eight * 8 + g];
        }
        keep<terms>(to + i, of_k);
        keep<terms>(to + terms * TILE_TERM + i, of_v);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

template <int terms> __device__ __forceinline__ void copy_tile(const flash_params &f, int tile, uint4 *to) {
    const uint4 *from = (const uint4 *)f.operands +
                        (((int64_t)blockIdx.z * f.heads + blockIdx.y) * f.tiles + tile) * 2 * terms * TILE_TERM +
                        threadIdx.x;
    if (tile < f.tiles)
#pragma unroll
        for (int i = 0; i < 2 * terms * TILE_TERM / FLASH_THREADS; i++)
            cp_async_16(to + threadIdx.x + i * FLASH_THREADS, from + i * FLASH_THREADS, true);
    cp_async_commit();
}

/* c = a b over four steps of 16, b being the eight columns `column` of a tile's term. */
template <int terms>
__device__ __forceinline__ void product_of(float *c, const uint4 (&a)[4][terms], const uint4 *b, int column) {
    float sum[4] = {};
    uint4 w[terms][2];
#pragma unroll
    for (int i = 0; i < 2 * terms; i++)
        w[i / 2][i % 2] = b[i / 2 * TILE_TERM + (column * 2 + i % 2) * WARP_SIZE];
    auto chain = [&](int of_a, int of_b) {
#pragma unroll
        for (int block = 0; block < 2; block++) {
            mma_m16n8k16(sum, a[block * 2][of_a], w[of_b][block].x, w[of_b][block].y);
            mma_m16n8k16(sum, a[block * 2 + 1][of_a], w[of_b][block].z, w[of_b][block].w);
        }
    };
    if (terms == 2) {   /* least significant first */
        chain(terms - 1, 0);
        chain(0, terms - 1);
    }
    chain(0, 0);
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = sum[i];
}

template <int terms>
__global__ void __launch_bounds__(FLASH_THREADS, terms == 1 ? 4 : 3) flash_mma_kernel(flash_params f) {
    extern __shared__ uint4 shared[];
    const int stage = 2 * terms * TILE_TERM;
    int lane = threadIdx.x % WARP_SIZE, row = blockIdx.x * QUERIES + threadIdx.x / WARP_SIZE * 16 + lane / 4;
    uint4 q[4][terms];
    float o[32] = {};
    softmax_state r = {{-CUDART_INF_F, -CUDART_INF_F}, {0, 0}};
    copy_tile<terms>(f, 0, shared);
    load_queries<terms>(f, row, q);
    for (int tile = 0; tile < f.tiles; tile++) {
        const uint4 *keys = shared + tile % STAGES * stage + lane, *values = keys + terms * TILE_TERM;
        copy_tile<terms>(f, tile + 1, shared + (tile + 1) % STAGES * stage);
        cp_async_wait<1>();
        __syncthreads();
        float s[32];
#pragma unroll
        for (int i = 0; i < 8; i++)
            product_of<terms>(s + i * 4, q, keys, i);
        if ((tile + 1) * FLASH_KEYS > f.s)
            mask_keys(s, tile * FLASH_KEYS, f.s);
        float2 rescale_factor = online_softmax(s, r, f.scale);
        uint4 p[4][terms];
        probs_to_operands<terms>(s, p);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float c[4];
            product_of<terms>(c, p, values, i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                o[i * 4 + j] = __fmaf_rn(o[i * 4 + j], j < 2 ? rescale_factor.x : rescale_factor.y, c[j]);
        }
        __syncthreads();
    }
    head_index of = {blockIdx.z, (int)blockIdx.y};
    store_output(f, of, row, o, r);
}

/* ---- op ---------------------------------------------------------------------------------------------------------- */

static int terms_of(const mx_call *call) { return call->precision == MXW_PRECISION_EXACT ? 2 : 1; }

}   /* namespace */

extern "C" int mx_cuda_flash_takes(const mx_call *call) {
    const mx_tensor *q = &call->inputs[0], *k = &call->inputs[1];
    return call->compiled && !call->attrs->causal && call->attrs->scale > 0 &&
           q->dims[2] == (int64_t)call->attrs->heads * HEAD_DIM &&
           k->dims[1] > 0 && q->dims[0] <= 65535 && call->attrs->heads <= 65535;
}

extern "C" int mx_cuda_flash_reads_qkv(mx_cuda *gpu, const mx_call *call) {
    return mx_cuda_flash_takes(call) && gpu->has_wgmma;
}

static int64_t tiles_of(const mx_call *call) { return (call->inputs[1].dims[1] + FLASH_KEYS - 1) / FLASH_KEYS; }

extern "C" size_t mx_cuda_flash_scratch(const mx_call *call) {
    if (call->inputs[0].layout == MX_LAYOUT_QKV)
        return 0;
    return (size_t)(call->inputs[0].dims[0] * call->attrs->heads * tiles_of(call) * 2 * terms_of(call)) * TILE_TERM *
           sizeof(uint4);
}

template <int terms> static void launch(mx_cuda *gpu, const flash_params &f) {
    const int bytes = STAGES * 2 * terms * TILE_TERM * (int)sizeof(uint4);
    dim3 tiles((unsigned)f.tiles, (unsigned)f.heads, (unsigned)f.entries);
    dim3 blocks((unsigned)((f.t + QUERIES - 1) / QUERIES), (unsigned)f.heads, (unsigned)f.entries);
    prepack_kv_kernel<terms><<<tiles, BLOCK_SIZE, 0, gpu->stream>>>(f);
    static int allowed[MX_CUDA_MAX_GPUS];
    mx_cuda_allow_shared(gpu, (const void *)flash_mma_kernel<terms>, bytes, allowed);
    flash_mma_kernel<terms><<<blocks, FLASH_THREADS, bytes, gpu->stream>>>(f);
}

static int is_quad(const mx_tensor *t) { return (uintptr_t)t->data % 16 == 0 && t->strides[1] % 4 == 0; }

extern "C" mxw_status mx_cuda_flash(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2], *y = &call->outputs[0];
    flash_params f = {};
    f.q = (const float *)q->data;
    f.k = (const float *)k->data;
    f.v = (const float *)v->data;
    f.y = (float *)y->data;
    f.operands = call->scratch;
    f.entries = (int)q->dims[0];
    f.qkv_operands = q->layout == MX_LAYOUT_QKV;
    f.ldq = q->strides[1];
    f.ldk = k->strides[1];
    f.ldv = v->strides[1];
    f.ldy = y->strides[1];
    f.t = (int)q->dims[1];
    f.s = (int)k->dims[1];
    f.heads = call->attrs->heads;
    f.tiles = (int)tiles_of(call);
    f.y_operands = y->layout != MX_LAYOUT_OPERAND ? 0 : call->precision == MXW_PRECISION_F8 ? 2 : 1;
    f.quads = is_quad(q) && is_quad(k) && is_quad(v);
    if (f.qkv_operands)
        f.operands = q->data;
    f.scale = (float)(call->attrs->scale * 1.4426950408889634);
    if (gpu->has_wgmma)
        flash_wgmma(gpu, f, terms_of(call));
    else if (terms_of(call) == 1)
        launch<1>(gpu, f);
    else
        launch<2>(gpu, f);
    return mx_cuda_launched(gpu, call);
}

extern "C" const char *mx_cuda_flash_label(mx_cuda *gpu, const mx_call *call) {
    static const char *const labels[2][2] = {{"flash_mma, f16", "flash_mma, 2 f16"},
                                             {"flash_wgmma, f16", "flash_wgmma, 2 f16"}};
    return mx_cuda_flash_takes(call) ? labels[gpu->has_wgmma][terms_of(call) - 1] : "plain";
}

}   /* namespace mx::attention */
