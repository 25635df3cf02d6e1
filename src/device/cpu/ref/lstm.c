/* device/cpu/ref/lstm.c - a step of an LSTM as plain loops: one row times panels, and the cell. Every element is
 * computed alone, so the bits depend on neither rows nor hidden size. */
#include "device/cpu/kernels.h"

#include "device/cpu/ref/math.h"

void MX_REF(gemm_row)(float *y, const float *a, const float *panels, int64_t k, int64_t n_panels) {
    for (int64_t panel = 0; panel < n_panels; panel++, y += MX_PANEL, panels += k * MX_PANEL) {
        float sum[MX_PANEL] = {0};
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < MX_PANEL; j++)
                sum[j] = fmaf(a[p], panels[p * MX_PANEL + j], sum[j]);
        for (int64_t j = 0; j < MX_PANEL; j++)
            y[j] = sum[j];
    }
}

static void cell(float *restrict h, float *restrict c, const float *restrict x, const float *restrict z, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        float i = mx_sigmoid_fused(x[j] + z[j]), f = mx_sigmoid_fused(x[n + j] + z[n + j]);
        float g = mx_tanh_fused(x[2 * n + j] + z[2 * n + j]), o = mx_sigmoid_fused(x[3 * n + j] + z[3 * n + j]);
        float kept = fmaf(f, c[j], i * g);
        c[j] = kept;
        h[j] = o * mx_tanh_fused(kept);
    }
}

void MX_REF(lstm_cell)(float *h, int64_t ldh, float *c, const float *x, int64_t ldx, const float *z, int64_t ldz,
                       int64_t rows, int64_t hidden) {
    for (int64_t r = 0; r < rows; r++)
        cell(h + r * ldh, c + r * hidden, x + r * ldx, z + r * ldz, hidden);
}
