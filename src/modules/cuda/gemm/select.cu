/* modules/cuda/gemm/select.cu - which kernel runs a compiled GEMM. One table, asked for the launch, for the scratch
 * that it needs, for the output layouts that it can write, and for the name in traces and dumps. Invariants: all
 * kernels compute an element by the same chain of roundings, so the choice changes no bit. It depends on the shape,
 * the precision, the alignment of the operands and the GPU, never on data. */
#include "modules/cuda/megakernel/stages.cuh"

namespace mx::gemm {

constexpr int SKINNY_ROWS = 16;   /* at most this many rows read the weights straight from memory ... */
constexpr int SKINNY_ROWS_NO_WGMMA = 64;   /* ... and this many where the alternative is mma.sync */

static int is_aligned(const void *data, int64_t ld, int elements) {
    return (uintptr_t)data % (elements * sizeof(float)) == 0 && ld % elements == 0;
}

gemm_params make_gemm_params(const gemm_desc *f) {
    gemm_params p = {};
    p.f = *f;
    if (f->act == MX_ACT_GELU_ERF && f->precision == MXW_PRECISION_F16)
        p.f.act = ACT_GELU_SHORT;
    p.quad_x = f->k % 4 == 0 && is_aligned(f->x, f->positions ? f->channels : f->ldx, 4) &&
               is_aligned(f->gamma, 0, 4) && is_aligned(f->beta, 0, 4);
    p.even_y = is_aligned(f->y, f->ldy, 2) && is_aligned(f->bias, 0, 2) && is_aligned(f->residual, f->ld_residual, 2);
    p.quad_y = f->n >= 4 && is_aligned(f->y, f->ldy, 4) && is_aligned(f->bias, 0, 4) &&
               is_aligned(f->residual, f->ld_residual, 4);
    p.tiles = (int)mx_cuda_tiles_of(f->n);
    p.blocks = (int)(gemm_is_8(f) ? f->k / MX_CUDA_BLOCK8 : mx_cuda_blocks_of(f->k));
    p.slices = (p.blocks + SLICE_BLOCKS - 1) / SLICE_BLOCKS;
    p.w_term_bytes = (int64_t)mx_cuda_weight_bytes(f->n, f->k, 1);
    if (gemm_is_8(f)) {
        p.w_scales = mx_cuda_weight8_scales(&f->weight);
        p.w_sums = mx_cuda_weight8_sums(&f->weight);
    }
    return p;
}

namespace {

/* ---- statistics of normed rows ----------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(BLOCK_SIZE) row_stats_kernel(gemm_params p) {
    int64_t row = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_SIZE;
    float4 held[ROW_REGS];
    if (row >= p.f.m)
        return;
    x_row of = x_row_of(p.f, row);
    float2 s = p.quad_x ? row_stats<true>(p, of, held) : row_stats<false>(p, of, held);
    if (threadIdx.x % WARP_SIZE == 0)
        ((float2 *)p.f.scratch)[row] = s;
}

/* Into f.scratch, if there is a norm. */
static void launch_row_stats(mx_cuda *gpu, const gemm_params &p) {
    if (p.f.gamma)
        row_stats_kernel<<<(unsigned)((p.f.m + BLOCK_WARPS - 1) / BLOCK_WARPS), BLOCK_SIZE, 0, gpu->stream>>>(p);
}

/* ---- what each kernel can implement ------------------------------------------------------------------------------ */

static int is_f32(const gemm_params &p) { return p.f.x_layout == MX_LAYOUT_DENSE && p.f.y_layout == MX_LAYOUT_DENSE; }

}   /* namespace */

int gemm_is_skinny(const mx_cuda *gpu, int64_t rows) {
    return rows <= (gpu->has_wgmma ? SKINNY_ROWS : SKINNY_ROWS_NO_WGMMA);
}

static int can_skinny(mx_cuda *gpu, const gemm_params &p) { return is_f32(p) && gemm_is_skinny(gpu, p.f.m); }

static int can_megakernel(mx_cuda *gpu, const gemm_params &p) {
    return can_skinny(gpu, p) && megakernel::megakernel_gemm_can_implement(gpu, p);
}

static int can_skinny_cluster(mx_cuda *gpu, const gemm_params &p) {
    return can_skinny(gpu, p) && skinny_cluster_can_implement(gpu, p);
}

/* Rows that can be read and written as float4, as all of Whisper's are. */
static int is_wgmma(const mx_cuda *gpu, const gemm_params &p) { return p.quad_x && p.quad_y && gpu->has_wgmma; }

/* Resident rows pay off where each meets more columns than it is long. */
static int can_pingpong(mx_cuda *gpu, const gemm_params &p) {
    return is_wgmma(gpu, p) && wgmma_ss_can_implement(p) && p.f.n > p.f.k && p.f.n % 128 == 0 &&
           pingpong_can_implement(gpu, p);
}

static int can_wgmma_ss(mx_cuda *gpu, const gemm_params &p) {
    return p.f.y_layout == MX_LAYOUT_DENSE && is_wgmma(gpu, p) && wgmma_ss_can_implement(p);
}

static int can_persistent(mx_cuda *gpu, const gemm_params &p) {
    return is_wgmma(gpu, p) && wgmma_ss_can_implement(p) && persistent_can_implement(gpu, p);
}

static int can_8(mx_cuda *gpu, const gemm_params &p) { return persistent8_can_implement(p); }

static int can_wgmma_rs(mx_cuda *gpu, const gemm_params &p) { return is_f32(p) && is_wgmma(gpu, p); }

static int can_mma_sync(mx_cuda *gpu, const gemm_params &p) { return is_f32(p); }

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void run_skinny_cluster(mx_cuda *gpu, const gemm_params &p) { skinny_cluster_gemm(gpu, p, kv_cache_out{}); }

static void run_persistent(mx_cuda *gpu, const gemm_params &p) { persistent_gemm(gpu, prepack_a(gpu, p)); }

static void run_8_resident(mx_cuda *gpu, const gemm_params &p) { pingpong8_gemm(gpu, quantize_rows(gpu, p)); }

static void run_8(mx_cuda *gpu, const gemm_params &p) { persistent_gemm(gpu, quantize_rows(gpu, p)); }

static void run_wgmma_ss(mx_cuda *gpu, const gemm_params &p) { wgmma_ss_gemm(gpu, prepack_a(gpu, p)); }

static void run_wgmma_rs(mx_cuda *gpu, const gemm_params &p) {
    launch_row_stats(gpu, p);
    wgmma_rs_gemm(gpu, p);
}

static void run_mma_sync(mx_cuda *gpu, const gemm_params &p) {
    launch_row_stats(gpu, p);
    mma_sync_gemm(gpu, p);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* x by weight: how many f16 terms each has. */
#define LABELS(kernel, then)                                                                                           \
    { kernel ", f16 x f16" then, kernel ", 2 f16 x f16" then, kernel ", 2 f16 x 2 f16" then }
#define ALL_LABELS(kernel)                                                                                             \
    { LABELS(kernel, ""), LABELS(kernel, " + select"), LABELS(kernel, " + select_rows") }

/* The first that can implement a GEMM runs it. */
static const gemm_variant variants[] = {
    {ALL_LABELS("megakernel"), can_megakernel, megakernel::megakernel_gemm, 0, 0},
    {ALL_LABELS("skinny_cluster_splitk"), can_skinny_cluster, run_skinny_cluster, 0, 0},
    {ALL_LABELS("skinny"), can_skinny, skinny_gemm, 0, 0},
    {ALL_LABELS("pingpong_a_resident"), can_pingpong, pingpong_gemm, 0, 1},
    {ALL_LABELS("persistent_epilogue_warps"), can_persistent, run_persistent, 1, 1},
    {ALL_LABELS("wgmma_ss"), can_wgmma_ss, run_wgmma_ss, 1, 0},
    {ALL_LABELS("wgmma_rs"), can_wgmma_rs, run_wgmma_rs, 1, 0},
    {ALL_LABELS("mma_sync"), can_mma_sync, run_mma_sync, 1, 0},
};

/* The same in 8 bits, of integers and floats. */
static const gemm_variant variants_s8[] = {
    {{{"pingpong_a_resident, s8 x s8"}}, pingpong8_can_implement, run_8_resident, 1, 1},
    {{{"persistent_epilogue_warps, s8 x s8"}}, can_8, run_8, 1, 1},
};
static const gemm_variant variants_e4m3[] = {
    {{{"pingpong_a_resident, e4m3 x e4m3"}}, pingpong8_can_implement, run_8_resident, 1, 1},
    {{{"persistent_epilogue_warps, e4m3 x e4m3"}}, can_8, run_8, 1, 1},
};

template <int n>
static const gemm_variant *first_of(const gemm_variant (&list)[n], mx_cuda *gpu, const gemm_params &p) {
    for (const gemm_variant &v : list)
        if (v.can_implement(gpu, p))
            return &v;
    return NULL;
}

const gemm_variant *gemm_select(mx_cuda *gpu, const gemm_params &p) {
    switch (p.f.weight.element) {
    case MX_CUDA_S8: return first_of(variants_s8, gpu, p);
    case MX_CUDA_E4M3: return first_of(variants_e4m3, gpu, p);
    default: return first_of(variants, gpu, p);
    }
}

extern "C" int mx_cuda_gemm_writes_layout(mx_cuda *gpu, const gemm_desc *f) {
    const gemm_variant *v = gemm_select(gpu, make_gemm_params(f));
    return v && v->writes_layouts;
}

extern "C" int mx_cuda_gemm_reads_operand(mx_cuda *gpu, const gemm_desc *f) {
    return (f->m >= 8192 || gemm_is_8(f)) && f->x_layout == MX_LAYOUT_OPERAND && gemm_select(gpu, make_gemm_params(f));
}

/* The kernels that use scratch share one size: which of them runs may change with the alignment of the operands, which
 * is known only when the GEMM runs. Without wgmma none reads rows as operands: only statistics of a norm are left. */
extern "C" size_t mx_cuda_gemm_scratch(mx_cuda *gpu, const gemm_desc *f) {
    int needed = gemm_needs_scratch(f) && (gpu->has_wgmma || f->gamma);
    const gemm_variant *v = needed ? gemm_select(gpu, make_gemm_params(f)) : NULL;
    if (v && gemm_is_8(f))
        return gemm_scratch8_bytes(gemm_operand_rows(f), f->k);
    return v && v->uses_scratch ? gemm_scratch_bytes(gemm_operand_rows(f), f->k) : 0;
}

extern "C" const char *mx_cuda_gemm_label(mx_cuda *gpu, const gemm_desc *f, gemm_then then) {
    const gemm_variant *v = gemm_select(gpu, make_gemm_params(f));
    return v ? v->labels[then][x_terms_of(*f) == 1 ? 0 : f->weight.terms] : "none";
}

extern "C" mxw_status mx_cuda_gemm_run(mx_cuda *gpu, const mx_call *call, const gemm_desc *f) {
    if (f->m == 0 || f->n == 0)
        return MXW_OK;
    if (f->m > INT32_MAX)
        return mx_cuda_host->fail(MXW_E_UNSUPPORTED, "%s: %s of %lld rows: 2^31 are too many", gpu->id,
                                  mx_cuda_op_name(call->op), (long long)f->m);
    gemm_params p = make_gemm_params(f);
    const gemm_variant *v = gemm_select(gpu, p);
    if (!v)
        return mx_cuda_host->fail(MXW_E_INTERNAL, "%s: %s: no kernel for these layouts of x and y in this shape",
                                  gpu->id, mx_cuda_op_name(call->op));
    v->launch(gpu, p);
    return mx_cuda_launched(gpu, call);
}

}   /* namespace mx::gemm */
