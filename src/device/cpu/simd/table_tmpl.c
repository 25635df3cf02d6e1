/* device/cpu/simd/table_tmpl.c - the kernels written for one instruction set; the rest stays as the instruction sets
 * before it and ref/ have it. */
#include "device/cpu/simd/simd.h"

extern const mx_kernels MX_FAST(table);

const mx_kernels MX_FAST(table) = {
    .layer_norm = MX_FAST(layer_norm),
    .gelu_erf = MX_FAST(gelu_erf),
    .gelu_tanh = MX_FAST(gelu_tanh),
    .same_layer_norm = MX_FAST(same_layer_norm),
    .same_gelu_erf = MX_FAST(gelu_erf),
    .same_gelu_tanh = MX_FAST(gelu_tanh),
    .same_select_range = MX_FAST(same_select_range),
    .lstm_cell = MX_FAST(lstm_cell),
    .gemm_blocks = MX_FAST(gemm_blocks),
    .gemm_tile = MX_FAST(gemm_tile),
    .gemm_rows = MX_FAST(gemm_rows),
    .gemm_row = MX_FAST(gemm_row),
    .widen_f16 = MX_FAST(widen_f16),
    .narrow_f16 = MX_FAST(narrow_f16),
    .blocks_panel = MX_FAST(blocks_panel),
#if VL == 16
    .pack_row = MX_FAST(pack_row),
#else
    .pack_panel_16 = MX_FAST(pack_panel_16),
    .pack_panel_32 = MX_FAST(pack_panel_32),
#endif
    .w8a8_blocks = MX_FAST(w8a8_blocks),
    .w8a8_row = MX_FAST(w8a8_row),
    .w8a8_tile = MX_FAST(w8a8_tile),
    .attn_tile = MX_FAST(attn_tile),
    .attn_partial = MX_FAST(attn_partial),
    .attn_combine = MX_FAST(attn_combine),
    .attn_paged = MX_FAST(attn_paged),
    .int8_gemm = MX_FAST(int8_gemm),
    .select_range = MX_FAST(select_range),
};
