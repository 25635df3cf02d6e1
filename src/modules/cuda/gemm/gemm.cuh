/* modules/cuda/gemm/gemm.cuh - a compiled GEMM as its kernels take it, how its K is sliced, and the kernels' entry
 * points (select.cu chooses between them). What the kernels compute with is in norm.cuh, operand.cuh and epilogue.cuh.
 * Invariants: K is cut into slices by its length alone. An element is the sum of its slices' sums, reduced in a fixed
 * order (deterministic split-K); a slice's sum is one chain of mma steps of 16 of k. So every kernel gives the same
 * bits, and a row's bits do not depend on the rows around it. In 8 bits integer sums are exact; those of e4m3 are
 * slices in order, or one chain where K is short, of steps of 32 of k. */
#ifndef MX_CUDA_GEMM_GEMM_CUH
#define MX_CUDA_GEMM_GEMM_CUH
#include "modules/cuda/common/mma.cuh"

namespace mx::gemm {

constexpr int SLICE_BLOCKS = 4;   /* blocks of 64 of k in a slice, at most */
constexpr int MAX_SLICES = 23;   /* of kernels that keep the starts of all slices in a table */

struct gemm_params {
    gemm_desc f;
    int quad_x;             /* rows of x, gamma and beta are aligned for float4 loads */
    int even_y, quad_y;     /* y, bias and residual are aligned for float2, for float4 */
    int tiles;              /* of 8 columns */
    int blocks, slices;     /* of K: blocks of 64 (in 8 bits of 128), slices of blocks */
    int64_t w_term_bytes;   /* from a term of the weight to the next */
    /* In 8 bits: of each column its scale, and of S8 the sum of its numbers; of S8 what its rows stand for. */
    const float *w_scales;
    const int32_t *w_sums;
    const gemm_row_range *x_ranges;
    int64_t x_rows;         /* of x as operands: up to the end of the last 64 */
};

__device__ __forceinline__ int slice_start(const gemm_params &p, int slice) {
    return (int)((unsigned)(slice * p.blocks) / (unsigned)p.slices);
}

/* The same for all slices, as a table for kernels that have no time for a division. */
static inline void slice_starts(const gemm_params &p, uint8_t (&starts)[MAX_SLICES + 1]) {
    for (int slice = 0; slice <= p.slices; slice++)
        starts[slice] = (uint8_t)(slice * p.blocks / p.slices);
}

gemm_params make_gemm_params(const gemm_desc *f);

/* In 8 bits: where a number lies in its piece of 16. Each is followed by the one 8 further, since a lane of
 * tensor cores has sums of two columns that are 8 apart. */
__host__ __device__ __forceinline__ int order8(int k) { return k % 8 * 2 + k / 8; }

/* f16 terms of an activation: one if the precision is f16, else two (mma.cuh). */
static inline int x_terms_of(const gemm_desc &f) { return f.precision == MXW_PRECISION_F16 ? 1 : 2; }

/* What the kernels of a decoder step ask for: rows of x aligned for float4 and made of whole blocks of k, few enough
 * slices for a table, a residual row for each row, a weight that is 16-byte aligned and was not packed by the kernel
 * right before. */
static inline int gemm_is_regular(const gemm_params &p) {
    return p.quad_x && p.f.m > 0 && p.f.k > 0 && p.f.k % 64 == 0 && p.f.positions == 0 && p.slices <= MAX_SLICES &&
           !p.f.weight.fresh && (uintptr_t)p.f.weight.bytes % 16 == 0 &&
           (!p.f.residual || p.f.residual_rows == p.f.m);
}

/* ---- variants ---------------------------------------------------------------------------------------------------- */

/* A kernel with its launcher. */
struct gemm_variant {
    const char *labels[3][3];   /* [gemm_then][f16 x f16, 2 f16 x f16, 2 f16 x 2 f16], human-readable */
    int (*can_implement)(mx_cuda *gpu, const gemm_params &p);
    void (*launch)(mx_cuda *gpu, const gemm_params &p);
    int uses_scratch;           /* of gemm_scratch_bytes(), if gemm_needs_scratch() */
    int writes_layouts;         /* y in layouts other than f32 */
};

/* The kernel for a GEMM of at least one row and column; NULL: none reads and writes these layouts. */
const gemm_variant *gemm_select(mx_cuda *gpu, const gemm_params &p);
int gemm_is_skinny(const mx_cuda *gpu, int64_t rows);   /* whether the kernels for few rows run them */

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Any shape, on any GPU; made for few rows. */
void skinny_gemm(mx_cuda *gpu, const gemm_params &p);

/* Columns from[i] to from[i] + width of row r also go to row cell[r] of a KV cache of `width` elements a row; if two
 * rows have the same cell, the later one wins. */
struct kv_cache_out {
    void *state[2];
    const int32_t *cell;
    int from[2], width;   /* width 0: no caches */
    int f16;              /* elements are f16, not f32 */
};

/* Two adjacent elements of a cache. */
__device__ __forceinline__ void store_cached(float *to, float2 v) { *(float2 *)to = v; }
__device__ __forceinline__ void store_cached(__half *to, float2 v) { *(uint32_t *)to = pack_half2(v.x, v.y); }

/* Few rows on Hopper. */
int skinny_cluster_can_implement(mx_cuda *gpu, const gemm_params &p);
void skinny_cluster_gemm(mx_cuda *gpu, const gemm_params &p, const kv_cache_out &to);

/* Many rows. Both read the statistics of normed rows from f.scratch. */
void mma_sync_gemm(mx_cuda *gpu, const gemm_params &p);
void wgmma_rs_gemm(mx_cuda *gpu, const gemm_params &p);   /* on Hopper */

/* Many rows on Hopper, x in MMA operand layout: given so, or converted into f.scratch by prepack_a. */
int wgmma_ss_can_implement(const gemm_params &p);
int prepack_a_can_implement(const gemm_params &p);
gemm_params prepack_a(mx_cuda *gpu, const gemm_params &p);   /* launches the conversion; the GEMM that is left to do */
void wgmma_ss_gemm(mx_cuda *gpu, const gemm_params &p);
/* The same for very many rows. */
int persistent_can_implement(mx_cuda *gpu, const gemm_params &p);
void persistent_gemm(mx_cuda *gpu, const gemm_params &p);

/* 8 bits, on Hopper: any number of rows. quantize_rows makes x the operand of persistent_gemm, into f.scratch. */
int persistent8_can_implement(const gemm_params &p);
gemm_params quantize_rows(mx_cuda *gpu, const gemm_params &p);   /* launches it; the GEMM that is left to do */

/* Very many short rows on Hopper: the A operand stays in shared memory. */
int pingpong_can_implement(mx_cuda *gpu, const gemm_params &p);
void pingpong_gemm(mx_cuda *gpu, const gemm_params &p);
int pingpong8_can_implement(mx_cuda *gpu, const gemm_params &p);   /* in 8 bits */
void pingpong8_gemm(mx_cuda *gpu, const gemm_params &p);

}   /* namespace mx::gemm */
#endif
