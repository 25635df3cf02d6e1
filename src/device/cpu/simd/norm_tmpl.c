/* device/cpu/simd/norm_tmpl.c - layer norm in f64, as in ref/row_ops.c, its sums in VD_CHAINS chains of vectors.
 * Invariant: the order of a row's sums depends on its length alone; in same_layer_norm it is that of ref/row_ops.c. */
#include "device/cpu/simd/simd.h"

#define BLOCK (VD_CHAINS * VD)

MX_INLINE vd add(vd sum, vd v, const int squares) { return squares ? vd_fma(v, v, sum) : vd_add(sum, v); }

/* The sum of x - mean, or of its squares. */
static double sum_of(const float *x, int64_t n, double mean, int squares) {
    const vd centre = vd_set1(mean);
    vd sum[VD_CHAINS];
#pragma GCC unroll 8
    for (int c = 0; c < VD_CHAINS; c++)
        sum[c] = vd_zero();
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK)
#pragma GCC unroll 8
        for (int c = 0; c < VD_CHAINS; c++)
            sum[c] = add(sum[c], vd_sub(vd_load(x + c * VD), centre), squares);
#ifdef VF_HAS_MASKS
#pragma GCC unroll 8
    for (int c = 0; c < VD_CHAINS; c++, n -= VD)
        if (n > 0)
            sum[c] = add(sum[c], vd_first(vd_sub(vd_load_first(x + c * VD, n), centre), n), squares);
    return vd_join(sum);
#else
    double total = vd_join(sum);
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i] - mean;
        total += squares ? v * v : v;
    }
    return total;
#endif
}

/* y = (x - mean) inverse gamma + beta of one row. */
MX_INLINE void norm_row(float *y, const float *x, const float *gamma, const float *beta, int64_t n, double mean,
                        double factor) {
    const vd inverse = vd_set1(factor), centre = vd_set1(mean);
    int64_t i = 0;
    for (; i + VD <= n; i += VD) {
        vd v = vd_mul(vd_sub(vd_load(x + i), centre), inverse);
        vd_store(y + i, vd_fma(v, vd_load(gamma + i), vd_load(beta + i)));
    }
    if (i < n) {
        vd v = vd_mul(vd_sub(vd_load_first(x + i, n - i), centre), inverse);
        vd_store_first(y + i, vd_fma(v, vd_load_first(gamma + i, n - i), vd_load_first(beta + i, n - i)), n - i);
    }
}

void MX_FAST(layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                         double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = sum_of(x, n, 0, 0) / (double)n;
        norm_row(y, x, gamma, beta, n, mean, 1.0 / sqrt(sum_of(x, n, mean, 1) / (double)n + eps));
    }
}

/* ---- the same bits in every instruction set ---------------------------------------------------------------------- */

#define LANE_VECTORS (MX_SUM_LANES / VD)

/* The sum of x - mean, or of its squares, in MX_SUM_LANES lanes. */
static double same_sum_of(const float *x, int64_t n, double mean, int squares) {
    const vd centre = vd_set1(mean);
    vd sum[LANE_VECTORS];
    double lane[MX_SUM_LANES];
    int64_t i = 0;
#pragma GCC unroll 8
    for (int c = 0; c < LANE_VECTORS; c++)
        sum[c] = vd_zero();
    for (; i + MX_SUM_LANES <= n; i += MX_SUM_LANES)
#pragma GCC unroll 8
        for (int c = 0; c < LANE_VECTORS; c++)
            sum[c] = add(sum[c], vd_sub(vd_load(x + i + c * VD), centre), squares);
#pragma GCC unroll 8
    for (int c = 0; c < LANE_VECTORS; c++)
        vd_store_doubles(lane + c * VD, sum[c]);
    for (int l = 0; i < n; i++, l++) {
        double v = (double)x[i] - mean;
        lane[l] = squares ? fma(v, v, lane[l]) : lane[l] + v;
    }
    for (int step = MX_SUM_LANES / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

void MX_FAST(same_layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                              double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = same_sum_of(x, n, 0, 0) / (double)n;
        norm_row(y, x, gamma, beta, n, mean, 1.0 / sqrt(same_sum_of(x, n, mean, 1) / (double)n + eps));
    }
}
