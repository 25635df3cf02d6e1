/* device/cpu/avx512/activations.c - activations, sixteen floats at a time; the last ones under a mask, by the same
 * functions, so that an element's bits do not depend on its place. */
#include "device/cpu/kernels.h"

#include "device/cpu/avx512/math.h"

#define EACH(name, function)                                                                                           \
    void MX_FAST(name)(float *y, const float *x, int64_t n) {                                                         \
        for (; n >= 16; n -= 16, x += 16, y += 16)                                                                     \
            _mm512_storeu_ps(y, function(_mm512_loadu_ps(x)));                                                         \
        __mmask16 rest = (__mmask16)((1u << n) - 1);                                                                   \
        if (rest)                                                                                                      \
            _mm512_mask_storeu_ps(y, rest, function(_mm512_maskz_loadu_ps(rest, x)));                                  \
    }

EACH(gelu_erf, mx_gelu_erf16)
EACH(gelu_tanh, mx_gelu_tanh16)
