/* modules/cuda/gemm/select.cu - compiled products: the choice between the kernels for few rows and those for many.
 * What holds: all compute an element by the same chain, so the choice, made by the number of rows, changes no bit. */
#include "modules/cuda/megakernel/stages.cuh"

#define FEW_ROWS 16          /* that read the weights straight from memory, all at once */
#define FEW_ROWS_NARROW 64   /* the same where there are no wide steps */

__global__ void __launch_bounds__(BLOCK_SIZE) statistics_kernel(gemm_params p) {
    int64_t row = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_SIZE;
    float4 held[ROW_REGS];
    if (row >= p.f.m)
        return;
    x_row of = x_row_of(p.f, row);
    float2 s = p.quad_x ? row_stats<true>(p, of, held) : row_stats<false>(p, of, held);
    if (threadIdx.x % WARP_SIZE == 0)
        ((float2 *)p.f.scratch)[row] = s;
}

static int is_aligned(const void *data, int64_t ld, int elements) {
    return (uintptr_t)data % (elements * sizeof(float)) == 0 && ld % elements == 0;
}

int mx_cuda_gemm_is_skinny(mx_cuda *gpu, int64_t rows) {
    return rows <= (has_wgmma(gpu) ? FEW_ROWS : FEW_ROWS_NARROW);
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
    p.blocks = (int)mx_cuda_blocks_of(f->k);
    p.slices = (p.blocks + SLICE_BLOCKS - 1) / SLICE_BLOCKS;
    p.w_term_bytes = (int64_t)mx_cuda_weight_bytes(f->n, f->k, 1);
    return p;
}

/* Wide tiles are for rows that can be read and written in fours, as all of Whisper's are. */
static int is_wide(mx_cuda *gpu, const gemm_params &p) { return p.quad_x && p.quad_y && has_wgmma(gpu); }

/* Held rows pay where each meets more columns than it is long. */
static int is_held(mx_cuda *gpu, const gemm_params &p) {
    return is_wide(gpu, p) && wgmma_ss_can_implement(p) && p.f.n > p.f.k && p.f.n % 128 == 0 &&
           pingpong_can_implement(gpu, p);
}

int mx_cuda_gemm_writes_layouts(mx_cuda *gpu, const gemm_desc *f) { return is_held(gpu, make_gemm_params(f)); }

int mx_cuda_gemm_reads_operand(mx_cuda *gpu, const gemm_desc *f) {
    gemm_params p = make_gemm_params(f);
    return f->m >= 8192 && is_wide(gpu, p) && wgmma_ss_can_implement(p);
}

mxw_status mx_cuda_gemm_run(mx_cuda *gpu, const mx_call *call, const gemm_desc *f) {
    if (f->m == 0 || f->n == 0)
        return MXW_OK;
    if (f->m > INT32_MAX)
        return mx_cuda_host->fail(MXW_E_UNSUPPORTED, "%s: %s of %lld rows: 2^31 are too many", gpu->id,
                                  mx_cuda_op_name(call->op), (long long)f->m);
    gemm_params p = make_gemm_params(f);
    int wide = is_wide(gpu, p), held = is_held(gpu, p);
    if (f->y_rows != MX_LAYOUT_DENSE && !held)
        return mx_cuda_host->fail(MXW_E_INTERNAL, "%s: %s cannot hand its rows on", gpu->id,
                                  mx_cuda_op_name(call->op));
    if (f->x_rows == MX_LAYOUT_DENSE && mx_cuda_gemm_is_skinny(gpu, f->m)) {
        if (!megakernel_gemm(gpu, p) && !skinny_cluster_gemm(gpu, p, kv_cache_out{}))
            skinny_gemm(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (held) {
        pingpong_gemm(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (wide && wgmma_ss_can_implement(p)) {
        p = prepack_a(gpu, p);
        if (persistent_can_implement(gpu, p))
            persistent_gemm(gpu, p);
        else
            wgmma_ss_gemm(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (f->gamma)
        statistics_kernel<<<(unsigned)((f->m + BLOCK_WARPS - 1) / BLOCK_WARPS), BLOCK_SIZE, 0, gpu->stream>>>(p);
    if (wide)
        wgmma_rs_gemm(gpu, p);
    else
        mma_sync_gemm(gpu, p);
    return mx_cuda_launched(gpu, call);
}
