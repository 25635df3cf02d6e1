/* modules/cuda/flash_wide.cu - compiled attention over whole windows on Hopper, heads 64 wide: flash.cu's arithmetic
 * with wide steps. One warp brings tiles of 64 keys and values in bulk; groups of four warps have 64 queries each.
 * What holds: a query is computed over tiles of 64 keys in order, whatever stands beside it; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. Exact: q, k, v and the probabilities are two
 * f16 each, as mma.cuh says; only the product of what is left of both is left out. */
#include "modules/cuda/flash.cuh"
#include "modules/cuda/wgmma.cuh"

#define PART 8192           /* bytes of a part of a tile of keys, or of values */
#define WIDE_STAGES 3

/* ---- keys and values as columns ---------------------------------------------------------------------------------- */

template <int parts> __device__ __forceinline__ void keep(char *to, int row, int piece, const float (&v)[8]) {
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float a = __fmul_rn(v[2 * i], MX_X_DOWN), b = __fmul_rn(v[2 * i + 1], MX_X_DOWN);
        if (parts == 2)
            mx_split(a, b, hi[i], lo[i]);
        else
            hi[i] = mx_halves(a, b);
    }
    char *at = to + row * 128 + (piece ^ row % 8) * 16;
    *(uint4 *)at = make_uint4(hi[0], hi[1], hi[2], hi[3]);
    if (parts == 2)
        *(uint4 *)(at + PART) = make_uint4(lo[0], lo[1], lo[2], lo[3]);
}

/* A block for each tile, head and entry; zeros past the last key. Keys: a row to each, along the head; values: a row to
 * each element of the head, along the keys. */
template <int parts> __global__ void __launch_bounds__(MX_BLOCK) columns_kernel(mx_flash f) {
    int tile = blockIdx.x, head = blockIdx.y;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * MX_HEAD, *v = f.v + entry * f.s * f.ldv + head * MX_HEAD;
    char *to = (char *)f.operands + ((entry * f.heads + head) * f.tiles + tile) * 2 * parts * PART;
    for (int i = threadIdx.x; i < 512; i += MX_BLOCK) {
        float of_k[8], of_v[8];
        int key = tile * MX_KEYS + i / 8, d = i % 64, first = tile * MX_KEYS + i / 64 * 8;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            of_k[j] = key < f.s ? k[key * f.ldk + i % 8 * 8 + j] : 0;
            of_v[j] = first + j < f.s ? v[(first + j) * f.ldv + d] : 0;
        }
        keep<parts>(to, i / 8, i % 8, of_k);
        keep<parts>(to + parts * PART, d, i / 64, of_v);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

template <int parts> struct wide_shape {
    static constexpr int groups = parts == 1 ? 3 : 2;                  /* of 64 queries */
    static constexpr int threads = groups * 128 + MX_WARP;             /* the last warp brings the tiles */
    static constexpr int queries = groups * 64;
    static constexpr int stage = 2 * parts * PART;
    static constexpr int bytes = WIDE_STAGES * stage + 1024 + 2 * WIDE_STAGES * 8;   /* a boundary, gates */
};

#if MX_WIDE
/* c = a b over four steps: hi x hi; then lo x hi and hi x lo into one sum. */
template <int parts>
__device__ __forceinline__ void product_of(float (&hi)[32], float (&lo)[32], const uint4 (&a)[4][parts],
                                           const char *b) {
    uint64_t columns = mx_wide_columns(b);
    mx_wide_begin();
#pragma unroll
    for (int step = 0; step < 4; step++)
        mx_wide(hi, a[step][0], columns + step * 2, step > 0);
    if (parts == 2) {
        uint64_t left = mx_wide_columns(b + PART);
#pragma unroll
        for (int step = 0; step < 4; step++)
            mx_wide(lo, a[step][parts - 1], columns + step * 2, step > 0);
#pragma unroll
        for (int step = 0; step < 4; step++)
            mx_wide(lo, a[step][0], left + step * 2, 1);
    }
    mx_wide_commit();
    mx_wide_wait<0>();
    mx_wide_hold(hi);
    if (parts == 2)
        mx_wide_hold(lo);
}

/* ptxas 13.0 takes an operand of a wide step for dead behind it, though a loop comes back to it, and sees through plain
 * copies: what is to stay goes in as a value of its own, by way of a zero that only the run knows, tile by tile. */
template <int parts>
__device__ __forceinline__ void copy_operands(const uint4 (&from)[4][parts], uint32_t zero, uint4 (&to)[4][parts]) {
#pragma unroll
    for (int i = 0; i < 4 * parts; i++) {
        const uint4 &a = from[i / parts][i % parts];
        to[i / parts][i % parts] = make_uint4(a.x ^ zero, a.y ^ zero, a.z ^ zero, a.w ^ zero);
    }
}

template <int parts> __device__ __forceinline__ void bring_tiles(const mx_flash &f, char *shared, uint64_t *full,
                                                                 uint64_t *empty) {
    const char *from = (const char *)f.operands +
                       ((int64_t)blockIdx.z * f.heads + blockIdx.y) * f.tiles * wide_shape<parts>::stage;
    for (int tile = 0; tile < f.tiles; tile++) {
        int stage = tile % WIDE_STAGES, round = tile / WIDE_STAGES;
        if (round > 0)
            mx_gate_wait(&empty[stage], (round - 1) % 2);
        mx_gate_expect(&full[stage], wide_shape<parts>::stage);
        mx_bulk_copy(shared + stage * wide_shape<parts>::stage, from + (int64_t)tile * wide_shape<parts>::stage,
                     wide_shape<parts>::stage, &full[stage]);
    }
}

template <int parts> __device__ __forceinline__ void attend(const mx_flash &f, char *shared, uint64_t *full,
                                                            uint64_t *empty) {
    int row = blockIdx.x * wide_shape<parts>::queries + threadIdx.x / MX_WARP * 16 + threadIdx.x % MX_WARP / 4;
    uint4 q[4][parts];
    float o[32] = {}, hi[32], lo[32];
    mx_running r = {{-CUDART_INF_F, -CUDART_INF_F}, {0, 0}};
    mx_load_queries<parts>(f, row, q);
    for (int tile = 0; tile < f.tiles; tile++) {
        int stage = tile % WIDE_STAGES;
        const char *keys = shared + stage * wide_shape<parts>::stage, *values = keys + parts * PART;
        uint4 asked[4][parts];
        mx_gate_wait(&full[stage], tile / WIDE_STAGES % 2);
        copy_operands<parts>(q, f.zero & tile, asked);
        product_of<parts>(hi, lo, asked, keys);
#pragma unroll
        for (int i = 0; i < 32; i++)
            hi[i] = mx_chunk_sum<parts>(hi[i], lo[i]);
        if ((tile + 1) * MX_KEYS > f.s)
            mx_mask(hi, tile * MX_KEYS, f.s);
        float2 worth = mx_soften(hi, r);
        uint4 p[4][parts];
        mx_to_operands<parts>(hi, p);
        product_of<parts>(hi, lo, p, values);
        if (threadIdx.x % MX_WARP == 0)
            mx_gate_arrive(&empty[stage]);
#pragma unroll
        for (int i = 0; i < 32; i++)
            o[i] = __fmaf_rn(o[i], i % 4 < 2 ? worth.x : worth.y, mx_chunk_sum<parts>(hi[i], lo[i]));
    }
    mx_write_queries(f, row, o, r);
}
#endif

template <int parts> __global__ void __launch_bounds__(wide_shape<parts>::threads) wide_kernel(mx_flash f) {
#if MX_WIDE
    extern __shared__ char raw[];
    char *shared = raw + (1024 - mx_shared_at(raw) % 1024) % 1024;
    uint64_t *full = (uint64_t *)(shared + WIDE_STAGES * wide_shape<parts>::stage), *empty = full + WIDE_STAGES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < WIDE_STAGES; i++) {
            mx_gate_open(&full[i], 1);
            mx_gate_open(&empty[i], wide_shape<parts>::groups * 4);   /* a warp each */
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= wide_shape<parts>::groups * 128) {
        if (threadIdx.x % MX_WARP == 0)
            bring_tiles<parts>(f, shared, full, empty);
    } else {
        attend<parts>(f, shared, full, empty);
    }
#endif
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

template <int parts> static void launch(mx_cuda *gpu, const mx_flash &f, unsigned entries) {
    using shape = wide_shape<parts>;
    dim3 tiles((unsigned)f.tiles, (unsigned)f.heads, entries);
    dim3 blocks((unsigned)((f.t + shape::queries - 1) / shape::queries), (unsigned)f.heads, entries);
    columns_kernel<parts><<<tiles, MX_BLOCK, 0, gpu->stream>>>(f);
    static int allowed[MX_CUDA_MOST];
    mx_cuda_allow_shared(gpu, (const void *)wide_kernel<parts>, shape::bytes, allowed);
    wide_kernel<parts><<<blocks, shape::threads, shape::bytes, gpu->stream>>>(f);
}

/* Whether the GPU runs what was made for sm_90a, and not the empty kernel of older PTX. */
int mx_flash_is_wide(mx_cuda *gpu) {
    cudaFuncAttributes of;
    if (gpu->wide == 0) {
        int known = cudaFuncGetAttributes(&of, wide_kernel<2>) == cudaSuccess;
        gpu->wide = known && of.ptxVersion >= 90 ? 1 : -1;
        cudaGetLastError();
    }
    return gpu->wide > 0;
}

void mx_flash_wide(mx_cuda *gpu, const mx_flash &f, int parts, unsigned entries) {
    if (parts == 1)
        launch<1>(gpu, f, entries);
    else
        launch<2>(gpu, f, entries);
}
