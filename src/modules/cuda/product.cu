/* modules/cuda/product.cu - compiled products: the choice between the kernel for few rows and the one for many.
 * What holds: both compute an element by the same chain, so the choice, made by the number of rows, changes no bit. */
#include "modules/cuda/product.cuh"

__global__ void __launch_bounds__(MX_BLOCK) statistics_kernel(mx_product p) {
    int64_t row = (int64_t)blockIdx.x * MX_WARPS + threadIdx.x / MX_WARP;
    if (row >= p.f.m)
        return;
    float2 s = mx_row_statistics(p.f.x + row * p.f.ldx, (int)p.f.k, (float)p.f.eps);
    if (threadIdx.x % MX_WARP == 0)
        ((float2 *)p.f.scratch)[row] = s;
}

static int is_even(const void *data, int64_t ld) { return (uintptr_t)data % 8 == 0 && ld % 2 == 0; }

mxw_status mx_cuda_fused_product(mx_cuda *gpu, const mx_call *call, const mx_cuda_fused *f) {
    mx_product p = {};
    p.f = *f;
    if (f->m == 0 || f->n == 0)
        return MXW_OK;
    p.even_x = f->k % 2 == 0 && is_even(f->x, f->positions ? f->channels : f->ldx);
    p.even_y = is_even(f->y, f->ldy) && (!f->residual || is_even(f->residual, f->ld_residual));
    p.tiles = (int)mx_cuda_tiles_of(f->n);
    p.w_part = (int64_t)(mx_cuda_weight_bytes(f->n, f->k, 1) / sizeof(uint4));
    p.blocks = (int)mx_cuda_blocks_of(f->k);
    p.chunks = (p.blocks + MX_CHUNK_BLOCKS - 1) / MX_CHUNK_BLOCKS;
    if (f->m <= MX_ROWS_AT_MOST) {
        mx_rows_product(gpu, p);
    } else {
        if (f->gamma)
            statistics_kernel<<<(unsigned)((f->m + MX_WARPS - 1) / MX_WARPS), MX_BLOCK, 0, gpu->stream>>>(p);
        mx_tiles_product(gpu, p);
    }
    return mx_cuda_launched(gpu, call);
}
