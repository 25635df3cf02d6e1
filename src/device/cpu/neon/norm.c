/* device/cpu/neon/norm.c - layer norm in f64, as in ref/row_ops.c, its sums in eight chains of two lanes.
 * What holds: the order of a row's sums depends on its length alone. */
#include "device/cpu/kernels.h"

#include <arm_neon.h>
#include <math.h>

#define LANES 2
#define CHAINS 8

static inline float64x2_t load(const float *x) { return vcvt_f64_f32(vld1_f32(x)); }

/* The sum of x - mean, or of its squares. */
static double sum_of(const float *x, int64_t n, double mean, int squares) {
    const float64x2_t centre = vdupq_n_f64(mean);
    float64x2_t sum[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        sum[c] = vdupq_n_f64(0);
    for (; n >= CHAINS * LANES; n -= CHAINS * LANES, x += CHAINS * LANES)
#pragma GCC unroll 8
        for (int c = 0; c < CHAINS; c++) {
            float64x2_t v = vsubq_f64(load(x + c * LANES), centre);
            sum[c] = squares ? vfmaq_f64(sum[c], v, v) : vaddq_f64(sum[c], v);
        }
    for (int step = CHAINS / 2; step > 0; step /= 2)
        for (int c = 0; c < step; c++)
            sum[c] = vaddq_f64(sum[c], sum[c + step]);
    double total = vgetq_lane_f64(sum[0], 0) + vgetq_lane_f64(sum[0], 1);
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i] - mean;
        total += squares ? v * v : v;
    }
    return total;
}

void MX_FAST(layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                         double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = sum_of(x, n, 0, 0) / (double)n;
        double inverse = 1.0 / sqrt(sum_of(x, n, mean, 1) / (double)n + eps);
        const float64x2_t centre = vdupq_n_f64(mean);
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            float64x2_t v = vmulq_n_f64(vsubq_f64(load(x + i), centre), inverse);
            vst1_f32(y + i, vcvt_f32_f64(vfmaq_f64(load(beta + i), v, load(gamma + i))));
        }
        for (; i < n; i++)
            y[i] = (float)fma(((double)x[i] - mean) * inverse, (double)gamma[i], (double)beta[i]);
    }
}
