/* device/cpu/ref/elementwise.c - the kernels of op/elementwise.def. The expressions are vectorised by the compiler for
 * each instruction set, and give the same bits on all of them. */
#include "device/cpu/kernels.h"

#include "device/cpu/ref/elementary.h"

#define MX_ELEMENTWISE(id, name, cpu_units, cuda_units, expression, ...)                                               \
    void MX_REF(unary_##name)(float *y, const float *from, int64_t n, float p) {                                       \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            float x = from[i];                                                                                         \
            y[i] = (float)(expression);                                                                                \
        }                                                                                                              \
    }
#include "op/elementwise.def"
