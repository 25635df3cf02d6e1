/* modules/cuda/flash.cu - compiled attention over whole windows, heads 64 wide: scores, softmax and values in one
 * kernel, on tensor cores.
 * In: q [n][t][d], k and v [n][s][d], rows apart as they lie in a stacked product. Out: y [n][t][d].
 * What holds: a query is computed over tiles of 64 keys in order, whatever stands beside it; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. Exact: q, k, v and the probabilities are two
 * f16 each (mx_split_near); only the product of what is left of both is left out. */
#include "modules/cuda/flash.cuh"

#define QUERIES 64          /* of a block: 16 to a warp */
#define FLASH_WARPS 4
#define FLASH_THREADS (FLASH_WARPS * MX_WARP)
#define PART 512            /* uint4 of a part of a tile of keys, or of values: [tile of 8][block of 32][lane] */
#define STAGES 2

/* ---- keys and values as operands --------------------------------------------------------------------------------- */

template <int parts> __device__ __forceinline__ void keep(uint4 *to, const float2 (&v)[4]) {
    uint4 a[parts];
    mx_in_order<parts>(v, a);
#pragma unroll
    for (int i = 0; i < parts; i++)
        to[i * PART] = a[i];
}

/* A block for each tile, head and entry, into [tile][keys, values][part]; zeros past the last key. */
template <int parts> __global__ void __launch_bounds__(MX_BLOCK) operands_kernel(mx_flash f) {
    int tile = blockIdx.x, head = blockIdx.y, g = threadIdx.x % MX_WARP / 4, t = threadIdx.x % 4;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * MX_HEAD, *v = f.v + entry * f.s * f.ldv + head * MX_HEAD;
    uint4 *to = (uint4 *)f.operands + ((entry * f.heads + head) * f.tiles + tile) * 2 * parts * PART;
    for (int i = threadIdx.x; i < PART; i += MX_BLOCK) {
        int eight = i / MX_WARP / 2, block = i / MX_WARP % 2, key = tile * MX_KEYS + eight * 8 + g;
        float2 of_k[4], of_v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int depth = block * 32 + j * 8 + 2 * t, from = tile * MX_KEYS + depth;
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
        keep<parts>(to + i, of_k);
        keep<parts>(to + parts * PART + i, of_v);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

template <int parts> __device__ __forceinline__ void copy_tile(const mx_flash &f, int tile, uint4 *to) {
    const uint4 *from = (const uint4 *)f.operands +
                        (((int64_t)blockIdx.z * f.heads + blockIdx.y) * f.tiles + tile) * 2 * parts * PART +
                        threadIdx.x;
    if (tile < f.tiles)
#pragma unroll
        for (int i = 0; i < 2 * parts * PART / FLASH_THREADS; i++)
            mx_copy_16(to + threadIdx.x + i * FLASH_THREADS, from + i * FLASH_THREADS, true);
    mx_copy_commit();
}

/* c = a b over four steps of 16, b the eight columns `column` of a tile's part. */
template <int parts>
__device__ __forceinline__ void product_of(float *c, const uint4 (&a)[4][parts], const uint4 *b, int column) {
    float sum[4] = {};
    uint4 w[parts][2];
#pragma unroll
    for (int i = 0; i < 2 * parts; i++)
        w[i / 2][i % 2] = b[i / 2 * PART + (column * 2 + i % 2) * MX_WARP];
    auto chain = [&](int of_a, int of_b) {
#pragma unroll
        for (int block = 0; block < 2; block++) {
            mx_mma(sum, a[block * 2][of_a], w[of_b][block].x, w[of_b][block].y);
            mx_mma(sum, a[block * 2 + 1][of_a], w[of_b][block].z, w[of_b][block].w);
        }
    };
    if (parts == 2) {   /* what matters least first */
        chain(parts - 1, 0);
        chain(0, parts - 1);
    }
    chain(0, 0);
#pragma unroll
    for (int i = 0; i < 4; i++)
        c[i] = sum[i];
}

template <int parts> __global__ void __launch_bounds__(FLASH_THREADS, parts == 1 ? 4 : 3) flash_kernel(mx_flash f) {
    extern __shared__ uint4 shared[];
    const int stage = 2 * parts * PART;
    int lane = threadIdx.x % MX_WARP, row = blockIdx.x * QUERIES + threadIdx.x / MX_WARP * 16 + lane / 4;
    uint4 q[4][parts];
    float o[32] = {};
    mx_running r = {{-CUDART_INF_F, -CUDART_INF_F}, {0, 0}};
    copy_tile<parts>(f, 0, shared);
    mx_load_queries<parts>(f, row, q);
    for (int tile = 0; tile < f.tiles; tile++) {
        const uint4 *keys = shared + tile % STAGES * stage + lane, *values = keys + parts * PART;
        copy_tile<parts>(f, tile + 1, shared + (tile + 1) % STAGES * stage);
        mx_copy_wait<1>();
        __syncthreads();
        float s[32];
#pragma unroll
        for (int i = 0; i < 8; i++)
            product_of<parts>(s + i * 4, q, keys, i);
        if ((tile + 1) * MX_KEYS > f.s)
            mx_mask(s, tile * MX_KEYS, f.s);
        float2 worth = mx_soften(s, r, f.scale);
        uint4 p[4][parts];
        mx_to_operands<parts>(s, p);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float c[4];
            product_of<parts>(c, p, values, i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                o[i * 4 + j] = __fmaf_rn(o[i * 4 + j], j < 2 ? worth.x : worth.y, c[j]);
        }
        __syncthreads();
    }
    mx_asked of = {blockIdx.z, (int)blockIdx.y};
    mx_write_queries(f, of, row, o, r);
}

/* ---- the op ------------------------------------------------------------------------------------------------------ */

static int parts_of(const mx_call *call) { return call->precision == MXW_PRECISION_F16 ? 1 : 2; }

int mx_cuda_flash_takes(const mx_call *call) {
    const mx_tensor *q = &call->inputs[0], *k = &call->inputs[1];
    return call->compiled && !call->attrs->causal && call->attrs->scale > 0 &&
           q->dims[2] == (int64_t)call->attrs->heads * MX_HEAD &&
           k->dims[1] > 0 && q->dims[0] <= 65535 && call->attrs->heads <= 65535;
}

int mx_cuda_flash_hands(mx_cuda *gpu, const mx_call *call) {
    return mx_cuda_flash_takes(call) && mx_flash_is_wide(gpu);
}

static int64_t tiles_of(const mx_call *call) { return (call->inputs[1].dims[1] + MX_KEYS - 1) / MX_KEYS; }

size_t mx_cuda_flash_scratch(const mx_call *call) {
    if (call->inputs[0].dtype == MXW_U8)
        return 0;
    return (size_t)(call->inputs[0].dims[0] * call->attrs->heads * tiles_of(call) * 2 * parts_of(call)) * PART *
           sizeof(uint4);
}

template <int parts> static void launch(mx_cuda *gpu, const mx_flash &f) {
    const int bytes = STAGES * 2 * parts * PART * (int)sizeof(uint4);
    dim3 tiles((unsigned)f.tiles, (unsigned)f.heads, (unsigned)f.entries);
    dim3 blocks((unsigned)((f.t + QUERIES - 1) / QUERIES), (unsigned)f.heads, (unsigned)f.entries);
    operands_kernel<parts><<<tiles, MX_BLOCK, 0, gpu->stream>>>(f);
    static int allowed[MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)flash_kernel<parts>, bytes, allowed);
    flash_kernel<parts><<<blocks, FLASH_THREADS, bytes, gpu->stream>>>(f);
}

static int is_quad(const mx_tensor *t) { return (uintptr_t)t->data % 16 == 0 && t->strides[1] % 4 == 0; }

mxw_status mx_cuda_flash(mx_cuda *gpu, const mx_call *call) {
    const mx_tensor *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2], *y = &call->outputs[0];
    mx_flash f = {};
    f.q = (const float *)q->data;
    f.k = (const float *)k->data;
    f.v = (const float *)v->data;
    f.y = (float *)y->data;
    f.operands = call->scratch;
    f.entries = (int)q->dims[0];
    f.handed = q->dtype == MXW_U8;
    f.ldq = q->strides[1];
    f.ldk = k->strides[1];
    f.ldv = v->strides[1];
    f.ldy = y->strides[1];
    f.t = (int)q->dims[1];
    f.s = (int)k->dims[1];
    f.heads = call->attrs->heads;
    f.tiles = (int)tiles_of(call);
    f.ready = y->dtype == MXW_U8;
    f.quads = is_quad(q) && is_quad(k) && is_quad(v);
    if (f.handed)
        f.operands = q->data;
    f.scale = (float)(call->attrs->scale * 1.4426950408889634);
    if (mx_flash_is_wide(gpu))
        mx_flash_wide(gpu, f, parts_of(call));
    else if (parts_of(call) == 1)
        launch<1>(gpu, f);
    else
        launch<2>(gpu, f);
    return mx_cuda_launched(gpu, call);
}

const char *mx_cuda_flash_kernel(const mx_call *call) {
    if (!mx_cuda_flash_takes(call))
        return "plain";
    return parts_of(call) == 1 ? "flash 64x64 f16" : "flash 64x64 2 f16";
}
