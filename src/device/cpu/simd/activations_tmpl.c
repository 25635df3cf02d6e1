/* device/cpu/simd/activations_tmpl.c - activations, a vector at a time; the last elements go through the same
 * functions, so that an element's bits do not depend on its position. */
#include "device/cpu/simd/simd.h"

#define EACH(name, function)                                                                                           \
    void MX_FAST(name)(float *y, const float *x, int64_t n) {                                                          \
        for (; n >= VL; n -= VL, x += VL, y += VL)                                                                     \
            vf_store(y, function(vf_load(x)));                                                                         \
        if (n > 0)                                                                                                     \
            vf_store_first(y, function(vf_load_first(x, n)), n);                                                       \
    }

EACH(gelu_erf, vf_gelu_erf)
EACH(gelu_tanh, vf_gelu_tanh)
