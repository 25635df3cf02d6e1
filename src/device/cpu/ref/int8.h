/* device/cpu/ref/int8.h - rounding to small integers, as the plain loops of products in 8 bits and of the int8 logits
 * do it. */
#ifndef MX_REF_INT8_H
#define MX_REF_INT8_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Rounded to nearest, ties to even, for |x| < 2^22: what is left in the low bits behind so large a number. In this form
 * compilers find the vectors; lrintf they leave alone. */
static inline int32_t mx_int8_rounded(float x) {
    float shifted = x + 12582912.0f;   /* 3 * 2^22 */
    int32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    return bits - 0x4b400000;
}

/* The largest |x[i]|; not finite if one of them is not. */
static inline float mx_int8_largest(const float *x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        bits &= 0x7fffffffu;
        most = most > bits ? most : bits;
    }
    float value;
    memcpy(&value, &most, sizeof(value));
    return value;
}

/* The factor that quantizes numbers of at most `top` to integers of at most `most`; 0 where they are too small or too
 * large. */
static inline float mx_int8_step(float top, float most) {
    float step = most / top;
    return isfinite(top) && isfinite(step) ? step : 0;
}
#endif
