/* device/cpu/avx2/activations.c - activations, eight floats at a time; the last ones under a mask, by the same
 * functions, so that an element's bits do not depend on its place. */
#include "device/cpu/kernels.h"

#include "device/cpu/avx2/math.h"

/* -1 in the first n of eight lanes. */
static inline __m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define EACH(name, function)                                                                                           \
    void MX_FAST(name)(float *y, const float *x, int64_t n) {                                                         \
        for (; n >= 8; n -= 8, x += 8, y += 8)                                                                         \
            _mm256_storeu_ps(y, function(_mm256_loadu_ps(x)));                                                         \
        __m256i rest = first_lanes(n);                                                                                 \
        if (n)                                                                                                         \
            _mm256_maskstore_ps(y, rest, function(_mm256_maskload_ps(x, rest)));                                       \
    }

EACH(gelu_erf, mx_gelu_erf8)
EACH(gelu_tanh, mx_gelu_tanh8)
