/* device/cpu/simd/lstm_tmpl.c - a step of an LSTM: one row times panels that stay in the cache, and the cell. Bits as
 * in ref/lstm.c: chains over k in order, and elements whose place does not matter. */
#include "device/cpu/simd/simd.h"

/* ---- one row ----------------------------------------------------------------------------------------------------- */

/* Enough chains side by side to hide the latency of a multiply-add, as far as the registers go. */
#define AT_ONCE (VL == 16 ? 4 : 2)
#define PER_PANEL (MX_PANEL / VL)

MX_INLINE void row_panels(float *y, const float *a, const float *b, int64_t k, const int panels) {
    const int64_t stride = k * MX_PANEL;
    vf sum[AT_ONCE * PER_PANEL];
#pragma GCC unroll 16
    for (int i = 0; i < panels * PER_PANEL; i++)
        sum[i] = vf_zero();
    for (int64_t p = 0; p < k; p++) {
        vf x = vf_set1(a[p]);
#pragma GCC unroll 16
        for (int i = 0; i < panels * PER_PANEL; i++)
            sum[i] = vf_fma(x, vf_load(b + i / PER_PANEL * stride + p * MX_PANEL + i % PER_PANEL * VL), sum[i]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < panels * PER_PANEL; i++)
        vf_store(y + i * VL, sum[i]);
}

void MX_FAST(gemm_row)(float *y, const float *a, const float *panels, int64_t k, int64_t n_panels) {
    for (; n_panels >= AT_ONCE; n_panels -= AT_ONCE, y += AT_ONCE * MX_PANEL, panels += AT_ONCE * MX_PANEL * k)
        row_panels(y, a, panels, k, AT_ONCE);
    for (; n_panels > 0; n_panels--, y += MX_PANEL, panels += MX_PANEL * k)
        row_panels(y, a, panels, k, 1);
}

/* ---- the cell ---------------------------------------------------------------------------------------------------- */

/* The gates of up to VL units, hidden apart, `left` of them. */
MX_INLINE vf gate(const float *x, const float *z, int64_t left) {
    return left >= VL ? vf_add(vf_load(x), vf_load(z)) : vf_add(vf_load_first(x, left), vf_load_first(z, left));
}

MX_INLINE void units(float *h, float *c, const float *x, const float *z, int64_t hidden, int64_t left) {
    vf i = vf_sigmoid(gate(x, z, left)), f = vf_sigmoid(gate(x + hidden, z + hidden, left));
    vf g = vf_tanh(gate(x + 2 * hidden, z + 2 * hidden, left));
    vf o = vf_sigmoid(gate(x + 3 * hidden, z + 3 * hidden, left));
    vf kept = vf_fma(f, left >= VL ? vf_load(c) : vf_load_first(c, left), vf_mul(i, g));
    vf out = vf_mul(o, vf_tanh(kept));
    if (left >= VL) {
        vf_store(c, kept);
        vf_store(h, out);
    } else {
        vf_store_first(c, kept, left);
        vf_store_first(h, out, left);
    }
}

void MX_FAST(lstm_cell)(float *h, int64_t ldh, float *c, const float *x, int64_t ldx, const float *z, int64_t ldz,
                        int64_t rows, int64_t hidden) {
    for (int64_t r = 0; r < rows; r++, h += ldh, c += hidden, x += ldx, z += ldz) {
        int64_t j = 0;
        for (; j + VL <= hidden; j += VL)
            units(h + j, c + j, x + j, z + j, hidden, VL);
        if (j < hidden)
            units(h + j, c + j, x + j, z + j, hidden, hidden - j);
    }
}
