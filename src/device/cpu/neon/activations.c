/* device/cpu/neon/activations.c - activations, four floats at a time; the last ones through a copy, by the same
 * functions, so that an element's bits do not depend on its place. */
#include "device/cpu/kernels.h"

#include <string.h>

#include "device/cpu/neon/math.h"

#define EACH(name, function)                                                                                           \
    void MX_FAST(name)(float *y, const float *x, int64_t n) {                                                         \
        float rest[4] = {0};                                                                                           \
        for (; n >= 4; n -= 4, x += 4, y += 4)                                                                         \
            vst1q_f32(y, function(vld1q_f32(x)));                                                                      \
        memcpy(rest, x, (size_t)n * sizeof(float));                                                                    \
        vst1q_f32(rest, function(vld1q_f32(rest)));                                                                    \
        memcpy(y, rest, (size_t)n * sizeof(float));                                                                    \
    }

EACH(gelu_erf, mx_gelu_erf4)
EACH(gelu_tanh, mx_gelu_tanh4)
