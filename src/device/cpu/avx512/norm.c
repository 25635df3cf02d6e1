/* device/cpu/avx512/norm.c - layer norm in f64, as in ref/row_ops.c, its sums in four chains of eight lanes.
 * What holds: the order of a row's sums depends on its length alone. */
#include "device/cpu/kernels.h"

#include <immintrin.h>
#include <math.h>

#define LANES 8
#define CHAINS 4

static inline __mmask8 first(int64_t n) { return n >= LANES ? 0xff : (__mmask8)((1u << n) - 1); }
static inline __m512d load(const float *x, __mmask8 mask) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x));
}

/* The sum of x - mean, or of its squares. */
static double sum_of(const float *x, int64_t n, double mean, int squares) {
    const __m512d centre = _mm512_set1_pd(mean);
    __m512d sum[CHAINS] = {_mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd(), _mm512_setzero_pd()};
    for (; n > 0; n -= CHAINS * LANES, x += CHAINS * LANES)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            __mmask8 mask = first(n > c * LANES ? n - c * LANES : 0);
            __m512d v = _mm512_maskz_sub_pd(mask, load(x + c * LANES, mask), centre);
            sum[c] = squares ? _mm512_fmadd_pd(v, v, sum[c]) : _mm512_add_pd(sum[c], v);
        }
    return _mm512_reduce_add_pd(_mm512_add_pd(_mm512_add_pd(sum[0], sum[1]), _mm512_add_pd(sum[2], sum[3])));
}

void MX_FAST(layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                         double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = sum_of(x, n, 0, 0) / (double)n;
        const __m512d inverse = _mm512_set1_pd(1.0 / sqrt(sum_of(x, n, mean, 1) / (double)n + eps));
        const __m512d centre = _mm512_set1_pd(mean);
        for (int64_t i = 0; i < n; i += LANES) {
            __mmask8 mask = first(n - i);
            __m512d v = _mm512_mul_pd(_mm512_sub_pd(load(x + i, mask), centre), inverse);
            v = _mm512_fmadd_pd(v, load(gamma + i, mask), load(beta + i, mask));
            _mm256_mask_storeu_ps(y + i, mask, _mm512_cvtpd_ps(v));
        }
    }
}
