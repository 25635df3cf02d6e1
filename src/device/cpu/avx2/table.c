/* device/cpu/avx2/table.c - what is written for AVX2, FMA and F16C; the rest stays as ref/ has it. */
#include "device/cpu/kernels.h"

const mx_kernels MX_FAST(table) = {
    .layer_norm = MX_FAST(layer_norm),
    .gemm_blocks = MX_FAST(gemm_blocks),
    .gemm_tile = MX_FAST(gemm_tile),
    .gemm_rows = MX_FAST(gemm_rows),
    .widen_f16 = MX_FAST(widen_f16),
    .pack_panel_16 = MX_FAST(pack_panel_16),
    .pack_panel_32 = MX_FAST(pack_panel_32),
    .gelu_erf = MX_FAST(gelu_erf),
    .gelu_tanh = MX_FAST(gelu_tanh),
    .attn_tile = MX_FAST(attn_tile),
    .attn_partial = MX_FAST(attn_partial),
    .attn_paged = MX_FAST(attn_paged),
    .int8_gemm = MX_FAST(int8_gemm),
    .select_range = MX_FAST(select_range),
};
