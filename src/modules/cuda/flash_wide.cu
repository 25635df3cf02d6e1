/* modules/cuda/flash_wide.cu - compiled attention over whole windows on Hopper, heads 64 wide: flash.cu's arithmetic
 * with wide steps. Groups of four warps have 64 queries each; tiles of 64 keys and values come in bulk, for them all.
 * What holds: a query is computed over tiles of 64 keys in order, whatever stands beside it; keys past the last are
 * masked, not padded; softmax, its sum and the sums over tiles are f32. Exact: q, k, v and the probabilities are two
 * f16 each, as mma.cuh says; only the product of what is left of both is left out. */
#include "modules/cuda/flash.cuh"
#include "modules/cuda/wgmma.cuh"

#define PART 8192           /* bytes of a part of a tile of keys, or of values */

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

/* Four elements of a key or value; zeros past the last. */
__device__ __forceinline__ float4 four_of(const float *from, bool there, int quads) {
    if (!there)
        return make_float4(0, 0, 0, 0);
    return quads ? *(const float4 *)from : make_float4(from[0], from[1], from[2], from[3]);
}

/* A block for each tile, head and entry; zeros past the last key. Keys: a row to each, along the head; values: a row to
 * each element of the head, along the keys, which change places in shared memory. */
template <int parts> __global__ void __launch_bounds__(MX_BLOCK) columns_kernel(mx_flash f) {
    __shared__ float turned[MX_KEYS][MX_HEAD + 1];
    int tile = blockIdx.x, head = blockIdx.y, first = tile * MX_KEYS;
    int64_t entry = blockIdx.z;
    const float *k = f.k + entry * f.s * f.ldk + head * MX_HEAD, *v = f.v + entry * f.s * f.ldv + head * MX_HEAD;
    char *to = (char *)f.operands + ((entry * f.heads + head) * f.tiles + tile) * 2 * parts * PART;
    float4 of_v[4], of_k[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * MX_BLOCK, key = at / 16, d = at % 16 * 4;
        of_v[i] = four_of(v + (first + key) * f.ldv + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i / 2 * MX_BLOCK, key = at / 8, d = at % 8 * 8 + i % 2 * 4;
        of_k[i] = four_of(k + (first + key) * f.ldk + d, first + key < f.s, f.quads);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = threadIdx.x + i * MX_BLOCK;
        float *row = &turned[at / 16][at % 16 * 4];
        row[0] = of_v[i].x, row[1] = of_v[i].y, row[2] = of_v[i].z, row[3] = of_v[i].w;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int at = threadIdx.x + i * MX_BLOCK;
        const float4 &a = of_k[i * 2], &b = of_k[i * 2 + 1];
        float along_head[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, along_keys[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            along_keys[j] = turned[at % 8 * 8 + j][at / 8];
        keep<parts>(to, at / 8, at % 8, along_head);
        keep<parts>(to + parts * PART, at / 8, at % 8, along_keys);
    }
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* As many groups as registers allow, so that some reckon while others multiply: 168 for a thread of three, 128 of four.
 * One warp more, to bring the tiles, would cost each of them a quarter. */
template <int parts> struct wide_shape {
    static constexpr int groups = parts == 1 ? 4 : 3;                  /* of 64 queries */
    static constexpr int threads = groups * 128;
    static constexpr int queries = groups * 64;
    static constexpr int stage = 2 * parts * PART, stages = parts == 1 ? 6 : 4;
    static constexpr int ahead = stages - 2;                           /* tiles that are under way */
    static constexpr int asked = threads * 4 * parts * 16;             /* bytes of the queries, as operands */
    static constexpr int bytes = stages * stage + asked + 1024 + 2 * stages * 8;   /* a boundary, gates */
};

/* What a block has in shared memory. */
template <int parts> struct places {
    char *tiles;
    uint4 *asked;   /* of this thread: every wide_shape::threads-th */
    uint64_t *full, *empty;
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

/* By one thread: tile by tile into the next stage, once all warps have let go of it. */
template <int parts>
__device__ __forceinline__ void bring_tile(const mx_flash &f, const places<parts> &at, int tile) {
    using shape = wide_shape<parts>;
    int stage = tile % shape::stages, round = tile / shape::stages;
    if (tile < f.tiles && threadIdx.x == 0) {
        const char *from = (const char *)f.operands +
                           ((int64_t)blockIdx.z * f.heads + blockIdx.y) * f.tiles * shape::stage;
        if (round > 0)
            mx_gate_wait(&at.empty[stage], (round - 1) % 2);
        mx_gate_expect(&at.full[stage], shape::stage);
        mx_bulk_copy(at.tiles + stage * shape::stage, from + (int64_t)tile * shape::stage, shape::stage,
                     &at.full[stage]);
    }
    __syncwarp();
}

template <int parts> __device__ __forceinline__ void keep_queries(const mx_flash &f, const places<parts> &at, int row) {
    uint4 q[4][parts];
    mx_load_queries<parts>(f, row, q);
#pragma unroll
    for (int i = 0; i < 4 * parts; i++)
        at.asked[i * wide_shape<parts>::threads] = q[i / parts][i % parts];
}

/* Anew for each tile: registers are few, and ptxas 13.0 takes an operand of a wide step for dead behind it, though a
 * loop comes back to it. Volatile, so that the loads stay in the loop. */
template <int parts>
__device__ __forceinline__ void load_asked(const places<parts> &at, uint4 (&q)[4][parts]) {
#pragma unroll
    for (int i = 0; i < 4 * parts; i++) {
        uint4 &to = q[i / parts][i % parts];
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)
                     : "r"(mx_shared_at(at.asked + i * wide_shape<parts>::threads)));
    }
}

template <int parts> __device__ __forceinline__ void attend(const mx_flash &f, const places<parts> &at) {
    using shape = wide_shape<parts>;
    int row = blockIdx.x * shape::queries + threadIdx.x / MX_WARP * 16 + threadIdx.x % MX_WARP / 4;
    float o[32] = {}, hi[32], lo[32];
    mx_running r = {{-CUDART_INF_F, -CUDART_INF_F}, {0, 0}};
    keep_queries<parts>(f, at, row);
    for (int tile = 0; tile < f.tiles; tile++) {
        int stage = tile % shape::stages;
        const char *keys = at.tiles + stage * shape::stage, *values = keys + parts * PART;
        uint4 a[4][parts];
        bring_tile<parts>(f, at, tile + shape::ahead);
        load_asked<parts>(at, a);
        mx_gate_wait(&at.full[stage], tile / shape::stages % 2);
        product_of<parts>(hi, lo, a, keys);
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
            mx_gate_arrive(&at.empty[stage]);
#pragma unroll
        for (int i = 0; i < 32; i++)
            o[i] = __fmaf_rn(o[i], i % 4 < 2 ? worth.x : worth.y, mx_chunk_sum<parts>(hi[i], lo[i]));
    }
    if (f.ready)
        mx_hand_queries<parts>(f, row, o, r);
    else
        mx_write_queries(f, row, o, r);
}
#endif

template <int parts> __global__ void __launch_bounds__(wide_shape<parts>::threads, 1) wide_kernel(mx_flash f) {
#if MX_WIDE
    using shape = wide_shape<parts>;
    extern __shared__ char raw[];
    places<parts> at;
    at.tiles = raw + (1024 - mx_shared_at(raw) % 1024) % 1024;
    at.asked = (uint4 *)(at.tiles + shape::stages * shape::stage) + threadIdx.x;
    at.full = (uint64_t *)(at.tiles + shape::stages * shape::stage + shape::asked);
    at.empty = at.full + shape::stages;
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::stages; i++) {
            mx_gate_open(&at.full[i], 1);
            mx_gate_open(&at.empty[i], shape::groups * 4);   /* a warp each */
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    for (int i = 0; i < shape::ahead; i++)
        bring_tile<parts>(f, at, i);
    __syncthreads();
    attend<parts>(f, at);
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
