/* modules/cuda/gemm/sm90/prepack_a.cu - activations into MMA operand layout (MX_LAYOUT_OPERAND), normed on the way: one
 * kernel before a GEMM of many rows on Hopper, where converting each row once is cheaper than for every tile of
 * columns. Invariants: norm and operands are those of gemm/skinny.cu. */
#include "modules/cuda/gemm/operand.cuh"

namespace mx::gemm {

namespace {

constexpr int X_TILE = 8192;   /* bytes of 64 rows by 64 of k, one term */
constexpr int MAX_SMEM = 100 << 10;   /* bytes of 8 rows as operands */

/* 16 bytes after each 256 make a warp that writes a row bank-conflict free. */
#define PADDED(at) ((at) + (at) / 256 * 16)

/* Four elements of row `in` of eight, from k on, into [block of k][term][piece][row], as in packed weights. */
template <int terms> __device__ __forceinline__ void store_operand4(const float4 &v, int in, int k, char *to) {
    uint32_t first[terms], second[terms];
    operand_pairs<terms>(v, first, second);
#pragma unroll
    for (int term = 0; term < terms; term++) {
        char *at = to + PADDED((k / 64 * terms + term) * 1024 + k % 64 / 16 * 256) + in * 16 + k % 16 / 4 * 4;
        *(uint32_t *)at = first[term];
        *(uint32_t *)(at + 128) = second[term];
    }
}

template <int terms>
__device__ __forceinline__ void store_normed4(const gemm_params &p, const float4 &v, float2 s, int in, int k,
                                              char *to) {
    bool there = k < p.f.k;
    float4 gamma = load_vec4<true>(p.f.gamma, p.f.k, k), beta = load_vec4<true>(p.f.beta, p.f.k, k);
    store_operand4<terms>(there ? norm4(v, s, gamma, beta) : make_float4(0, 0, 0, 0), in, k, to);
}

/* `fours`: float4s of a row that a lane keeps in registers; longer rows are read again. */
template <int terms, int fours>
__device__ __forceinline__ void convert_normed(const gemm_params &p, const x_row &row, int in, int k_end, char *to) {
    int lane = threadIdx.x % WARP_SIZE;
    float4 held[fours];
    float2 s = row_stats<true>(p, row, held);
#pragma unroll
    for (int i = 0; i < fours; i++)
        if ((lane + i * WARP_SIZE) * 4 < k_end)
            store_normed4<terms>(p, held[i], s, in, (lane + i * WARP_SIZE) * 4, to);
    for (int k = (lane + fours * WARP_SIZE) * 4; k < k_end; k += 4 * WARP_SIZE)
        store_normed4<terms>(p, load_row4<true>(row, k), s, in, k, to);
}

template <int terms> __device__ __forceinline__ void convert_plain(const x_row &row, int in, int k_end, char *to) {
    for (int first = threadIdx.x % WARP_SIZE * 4; first < k_end; first += 4 * 4 * WARP_SIZE) {
        float4 v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = load_row4<true>(row, first + i * 4 * WARP_SIZE);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (first + i * 4 * WARP_SIZE < k_end)
                store_operand4<terms>(v[i], in, first + i * 4 * WARP_SIZE, to);
    }
}

/* Eight rows to a block, one to a warp; zeros past the last row. In scratch: [64 rows][block of k][term][8 rows], each
 * of 1024 bytes. */
template <int terms, int fours> __global__ void __launch_bounds__(BLOCK_SIZE) prepack_a_kernel(gemm_params p) {
    extern __shared__ char eight[];
    int in = threadIdx.x / WARP_SIZE;
    int64_t row = (int64_t)blockIdx.x * 8 + in;
    if (p.f.y_layout == MX_LAYOUT_QKV) {   /* entries begin with a tile */
        unsigned entry = (unsigned)p.f.entry_rows, padded = (entry + 63) / 64 * 64, number = (unsigned)row / padded;
        unsigned at = (unsigned)row - number * padded;
        row = at < entry ? (int64_t)number * entry + at : p.f.m;
    }
    x_row of = x_row_of(p.f, row);
    if (p.f.gamma && row < p.f.m)
        convert_normed<terms, fours>(p, of, in, p.blocks * 64, eight);
    else
        convert_plain<terms>(of, in, p.blocks * 64, eight);
    __syncthreads();
    char *to = (char *)p.f.scratch + (int64_t)(blockIdx.x / 8) * p.blocks * terms * X_TILE + blockIdx.x % 8 * 1024;
    for (int i = threadIdx.x; i < p.blocks * terms * 64; i += BLOCK_SIZE)
        *(uint4 *)(to + (int64_t)(i / 64) * X_TILE + i % 64 * 16) = *(const uint4 *)(eight + PADDED(i * 16));
}

template <int terms, int fours> static void launch(mx_cuda *gpu, const gemm_params &p) {
    static int allowed[MX_CUDA_MAX_GPUS];
    int bytes = PADDED(p.blocks * terms * 1024);
    mx_cuda_allow_shared(gpu, (const void *)prepack_a_kernel<terms, fours>, bytes, allowed);
    int64_t rows = p.f.y_layout == MX_LAYOUT_QKV ? gemm_operand_rows(&p.f) : p.f.m;
    prepack_a_kernel<terms, fours><<<(unsigned)((rows + 63) / 64 * 8), BLOCK_SIZE, bytes, gpu->stream>>>(p);
}

}   /* namespace */

int prepack_a_can_implement(const gemm_params &p) {
    return gemm_needs_scratch(&p.f) && p.blocks * x_terms_of(p.f) * 1024 <= MAX_SMEM;
}

gemm_params prepack_a(mx_cuda *gpu, const gemm_params &plain) {
    gemm_params p = plain;
    if (p.f.x_layout == MX_LAYOUT_OPERAND)
        return p;
    bool large = p.f.gamma && p.f.k > ROW_REGS_FLOATS;
    if (x_terms_of(p.f) == 1)
        large ? launch<1, 10>(gpu, p) : launch<1, ROW_REGS>(gpu, p);
    else
        large ? launch<2, 10>(gpu, p) : launch<2, ROW_REGS>(gpu, p);
    p.f.x = (const float *)p.f.scratch;
    p.f.x_layout = MX_LAYOUT_OPERAND;
    return p;
}

}   /* namespace mx::gemm */
