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

/* How a row is quantized to 8 bits: x is scale (p + shift), p from -128 to 127, so that all 256 of them lie between its
 * smallest number and its largest, 0 being one of them. step: 1 / scale; 0 where the row is next to nothing, whose
 * scale is 0, or not finite, whose scale is not, either. */
typedef struct mx_int8_range {
    float scale, step;
    int32_t shift;
} mx_int8_range;

/* Of the bits of a row's numbers: the largest of 0 and them as signed integers, and as unsigned ones, where those of
 * negative numbers are the larger the further they are from 0. */
static inline mx_int8_range mx_int8_range_of(int32_t most, uint32_t least) {
    float high, low;
    least = least > 0x80000000u ? least : 0;
    memcpy(&high, &most, sizeof(high));
    memcpy(&low, &least, sizeof(low));
    float scale = high / 255 - low / 255, step = 1 / scale;
    if (!isfinite(scale) || !isfinite(step))
        return (mx_int8_range){isfinite(scale) ? 0 : scale, 0, 0};
    return (mx_int8_range){scale, step, 128 + mx_int8_rounded(low * step)};
}

/* The factor that quantizes numbers of at most `top` to integers of at most `most`; 0 where they are too small or too
 * large. */
static inline float mx_int8_step(float top, float most) {
    float step = most / top;
    return isfinite(top) && isfinite(step) ? step : 0;
}
#endif
