/* device/cpu/avx2/norm.c - layer norm in f64, as in ref/row_ops.c, its sums in four chains of four lanes.
 * What holds: the order of a row's sums depends on its length alone. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <math.h>

#define LANES 4
#define CHAINS 4

static inline __m256d load(const float *x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }

static double join(__m256d sum) {
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    return _mm_cvtsd_f64(half) + _mm_cvtsd_f64(_mm_unpackhi_pd(half, half));
}

/* The sum of x - mean, or of its squares. */
static double sum_of(const float *x, int64_t n, double mean, int squares) {
    const __m256d centre = _mm256_set1_pd(mean);
    __m256d sum[CHAINS] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    for (; n >= CHAINS * LANES; n -= CHAINS * LANES, x += CHAINS * LANES)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            __m256d v = _mm256_sub_pd(load(x + c * LANES), centre);
            sum[c] = squares ? _mm256_fmadd_pd(v, v, sum[c]) : _mm256_add_pd(sum[c], v);
        }
    double total = join(_mm256_add_pd(_mm256_add_pd(sum[0], sum[1]), _mm256_add_pd(sum[2], sum[3])));
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
        const __m256d centre = _mm256_set1_pd(mean), scale = _mm256_set1_pd(inverse);
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) {
            __m256d v = _mm256_mul_pd(_mm256_sub_pd(load(x + i), centre), scale);
            _mm_storeu_ps(y + i, _mm256_cvtpd_ps(_mm256_fmadd_pd(v, load(gamma + i), load(beta + i))));
        }
        for (; i < n; i++)
            y[i] = (float)fma(((double)x[i] - mean) * inverse, (double)gamma[i], (double)beta[i]);
    }
}
