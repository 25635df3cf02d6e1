/* modules/cuda/product.cu - compiled products: the choice between the kernels for few rows and those for many.
 * What holds: all compute an element by the same chain, so the choice, made by the number of rows, changes no bit. */
#include "modules/cuda/chain.cuh"

#define FEW_ROWS 16          /* that read the weights straight from memory, all at once */
#define FEW_ROWS_NARROW 64   /* the same where there are no wide steps */

__global__ void __launch_bounds__(MX_BLOCK) statistics_kernel(mx_product p) {
    int64_t row = (int64_t)blockIdx.x * MX_WARPS + threadIdx.x / MX_WARP;
    float4 held[MX_HELD];
    if (row >= p.f.m)
        return;
    mx_row of = mx_row_of(p.f, row);
    float2 s = p.quad_x ? mx_row_statistics<true>(p, of, held) : mx_row_statistics<false>(p, of, held);
    if (threadIdx.x % MX_WARP == 0)
        ((float2 *)p.f.scratch)[row] = s;
}

static int is_aligned(const void *data, int64_t ld, int elements) {
    return (uintptr_t)data % (elements * sizeof(float)) == 0 && ld % elements == 0;
}

int mx_cuda_product_is_few(mx_cuda *gpu, int64_t rows) {
    return rows <= (mx_product_is_wide(gpu) ? FEW_ROWS : FEW_ROWS_NARROW);
}

mx_product mx_product_of(const mx_cuda_fused *f) {
    mx_product p = {};
    p.f = *f;
    if (f->act == MX_ACT_GELU_ERF && f->precision == MXW_PRECISION_F16)
        p.f.act = MX_ACT_GELU_SHORT;
    p.quad_x = f->k % 4 == 0 && is_aligned(f->x, f->positions ? f->channels : f->ldx, 4) &&
               is_aligned(f->gamma, 0, 4) && is_aligned(f->beta, 0, 4);
    p.even_y = is_aligned(f->y, f->ldy, 2) && is_aligned(f->bias, 0, 2) && is_aligned(f->residual, f->ld_residual, 2);
    p.quad_y = f->n >= 4 && is_aligned(f->y, f->ldy, 4) && is_aligned(f->bias, 0, 4) &&
               is_aligned(f->residual, f->ld_residual, 4);
    p.tiles = (int)mx_cuda_tiles_of(f->n);
    p.blocks = (int)mx_cuda_blocks_of(f->k);
    p.chunks = (p.blocks + MX_CHUNK_BLOCKS - 1) / MX_CHUNK_BLOCKS;
    p.w_part = (int64_t)mx_cuda_weight_bytes(f->n, f->k, 1);
    return p;
}

/* Wide tiles are for rows that can be read and written in fours, as all of Whisper's are. */
static int is_wide(mx_cuda *gpu, const mx_product &p) { return p.quad_x && p.quad_y && mx_product_is_wide(gpu); }

/* Held rows pay where each meets more columns than it is long. */
static int is_held(mx_cuda *gpu, const mx_product &p) {
    return is_wide(gpu, p) && mx_ready_takes(p) && p.f.n > p.f.k && p.f.n % 128 == 0 && mx_held_takes(gpu, p);
}

int mx_cuda_product_holds_rows(mx_cuda *gpu, const mx_cuda_fused *f) { return is_held(gpu, mx_product_of(f)); }

int mx_cuda_product_takes_rows(mx_cuda *gpu, const mx_cuda_fused *f) {
    mx_product p = mx_product_of(f);
    return f->m >= 8192 && is_wide(gpu, p) && mx_ready_takes(p);
}

mxw_status mx_cuda_fused_product(mx_cuda *gpu, const mx_call *call, const mx_cuda_fused *f) {
    if (f->m == 0 || f->n == 0)
        return MXW_OK;
    if (f->m > INT32_MAX)
        return mx_cuda_host->fail(MXW_E_UNSUPPORTED, "%s: %s of %lld rows: 2^31 are too many", gpu->id,
                                  mx_cuda_op_name(call->op), (long long)f->m);
    mx_product p = mx_product_of(f);
    int wide = is_wide(gpu, p), held = is_held(gpu, p);
    if (f->y_rows != MX_CUDA_PLAIN && !held)
        return mx_cuda_host->fail(MXW_E_INTERNAL, "%s: %s cannot hand its rows on", gpu->id,
                                  mx_cuda_op_name(call->op));
    if (f->x_rows == MX_CUDA_PLAIN && mx_cuda_product_is_few(gpu, f->m)) {
        if (!mx_chain_one_product(gpu, p) && !mx_few_product(gpu, p, mx_few_caches{}))
            mx_rows_product(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (held) {
        mx_held_product(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (wide && mx_ready_takes(p)) {
        p = mx_ready_rows(gpu, p);
        if (mx_passed_takes(gpu, p))
            mx_passed_product(gpu, p);
        else
            mx_ready_product(gpu, p);
        return mx_cuda_launched(gpu, call);
    }
    if (f->gamma)
        statistics_kernel<<<(unsigned)((f->m + MX_WARPS - 1) / MX_WARPS), MX_BLOCK, 0, gpu->stream>>>(p);
    if (wide)
        mx_wide_product(gpu, p);
    else
        mx_tiles_product(gpu, p);
    return mx_cuda_launched(gpu, call);
}
