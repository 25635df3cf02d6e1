/* device/cpu/neon/math.h - functions of four floats, for kernels of 64-bit ARM.
 * NaN stays NaN in all of them. */
#ifndef MX_NEON_MATH_H
#define MX_NEON_MATH_H
#include <arm_neon.h>

#include "device/cpu/simd/poly.h"

/* 2^n for whole n in [-127, 127], -127 giving 0. */
static inline float32x4_t mx_power4(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* e^x within 1.1 units in the last place; 0 below -104, infinity above 89. */
static inline float32x4_t mx_exp4(float32x4_t x) {
    x = vmaxq_f32(x, vdupq_n_f32(MX_EXP_LEAST));   /* max and min of ARM keep a NaN */
    x = vminq_f32(x, vdupq_n_f32(MX_EXP_MOST));
    const float32x4_t magic = vdupq_n_f32(MX_ROUND);
    float32x4_t shifted = vfmaq_n_f32(magic, x, MX_LOG2_E);
    float32x4_t n = vsubq_f32(shifted, magic);
    float32x4_t r = vfmsq_n_f32(x, n, MX_LN2_HIGH);
    r = vfmsq_n_f32(r, n, MX_LN2_LOW);
    float32x4_t p = vdupq_n_f32(MX_EXP_6);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP_5), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP_4), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP_3), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP_2), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP_1), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    /* 2^n in two factors: n runs from -150 to 128 */
    int32x4_t i = vsubq_s32(vreinterpretq_s32_f32(shifted), vreinterpretq_s32_f32(magic));
    int32x4_t half = vshrq_n_s32(i, 1);
    return vmulq_f32(vmulq_f32(p, mx_power4(half)), mx_power4(vsubq_s32(i, half)));
}

/* 2^x for x <= 127, within 2.1 units in the last place, down to 2^-126; less than that below, 0 from -127 on. The
 * exponential of softmax: the exponent is added to the bits of 2^r, and at -127 those of 1 become those of 0. */
static inline float32x4_t mx_exp2_4(float32x4_t x) {
    const float32x4_t magic = vdupq_n_f32(MX_ROUND);
    x = vmaxq_f32(x, vdupq_n_f32(-127.0f));
    float32x4_t shifted = vaddq_f32(x, magic);
    float32x4_t r = vsubq_f32(x, vsubq_f32(shifted, magic));
    float32x4_t p = vdupq_n_f32(MX_EXP2_5);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP2_4), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP2_3), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP2_2), p, r);
    p = vfmaq_f32(vdupq_n_f32(MX_EXP2_1), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23);   /* magic's own bits go off the top */
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), exponent));
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), the tail Phi(-a) as 2 to the power of a polynomial: no division, and the error
 * is below 2 * 2^-24 of |x|. */
static inline float32x4_t mx_gelu_erf4(float32x4_t x) {
    float32x4_t a = vminq_f32(vabsq_f32(x), vdupq_n_f32(MX_TAIL_MOST));
    float32x4_t g = vdupq_n_f32(MX_TAIL_8);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_7), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_6), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_5), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_4), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_3), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_2), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_1), g, a);
    g = vfmaq_f32(vdupq_n_f32(MX_TAIL_0), g, a);
    return vfmsq_f32(vmaxq_f32(x, vdupq_n_f32(0.0f)), a, mx_exp2_4(g));
}

static inline float32x4_t mx_gelu_tanh4(float32x4_t x) {
    float32x4_t cube = vmulq_f32(vmulq_f32(x, x), vmulq_n_f32(x, MX_TANH_CUBE));
    float32x4_t u = vmulq_n_f32(vaddq_f32(x, cube), -2.0f * MX_TANH_SCALE);
    return vdivq_f32(x, vaddq_f32(vdupq_n_f32(1.0f), mx_exp4(u)));
}
#endif
