/* device/cpu/ref/math.h - functions that a compiler can put into vector loops, without -ffast-math. */
#ifndef MX_REF_MATH_H
#define MX_REF_MATH_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "device/cpu/simd/poly.h"

static inline float mx_bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t mx_float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* e^x within 2.1 units in the last place; 0 below -104, infinity above 89, NaN stays. x = n ln 2 + r, |r| <= ln 2 / 2;
 * e^r by its series to r^7 (the next term is below 6e-9); 2^n in two factors, so that subnormal results come out. */
static inline float mx_expf(float x) {
    const float magic = 12582912.0f;   /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 1.44269504f + magic;
    float n = shifted - magic;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;   /* ln 2 in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t i = mx_float_to_bits(shifted) - mx_float_to_bits(magic);   /* n as an integer, modulo 2^32 */
    uint32_t half = (uint32_t)((int32_t)i >> 1);
    return p * mx_bits_to_float((half + 127) << 23) * mx_bits_to_float((i - half + 127) << 23);
}

/* 2^x for x <= 127, within 2.1 units in the last place, down to 2^-126; less than that below, 0 from -127 on. The
 * exponential of attention in compiled calls; every instruction set gives these bits. */
static inline float mx_exp2f(float x) {
    x = x < -127.0f ? -127.0f : x;
    float shifted = x + MX_ROUND;
    float r = x - (shifted - MX_ROUND);
    float p = fmaf(MX_EXP2_5, r, MX_EXP2_4);
    p = fmaf(p, r, MX_EXP2_3);
    p = fmaf(p, r, MX_EXP2_2);
    p = fmaf(p, r, MX_EXP2_1);
    p = fmaf(p, r, 1.0f);
    return mx_bits_to_float(mx_float_to_bits(p) + (mx_float_to_bits(shifted) << 23));
}

/* e^x within 1.1 units in the last place, by the steps of vf_exp (simd/math.h): the same bits. */
static inline float mx_exp_fused(float x) {
    x = MX_EXP_LEAST > x ? MX_EXP_LEAST : x;
    x = MX_EXP_MOST < x ? MX_EXP_MOST : x;
    float shifted = fmaf(x, MX_LOG2_E, MX_ROUND), n = shifted - MX_ROUND;
    float r = fmaf(-n, MX_LN2_HIGH, x);
    r = fmaf(-n, MX_LN2_LOW, r);
    float p = fmaf(MX_EXP_6, r, MX_EXP_5);
    p = fmaf(p, r, MX_EXP_4);
    p = fmaf(p, r, MX_EXP_3);
    p = fmaf(p, r, MX_EXP_2);
    p = fmaf(p, r, MX_EXP_1);
    p = fmaf(p, r, 1.0f);
    uint32_t i = mx_float_to_bits(shifted) - mx_float_to_bits(MX_ROUND), half = (uint32_t)((int32_t)i >> 1);
    return p * mx_bits_to_float((half + 127) << 23) * mx_bits_to_float((i - half + 127) << 23);
}

/* 1 / (1 + e^-x) within 3 units in the last place, 0 below -89; of the cell of an LSTM, as vf_sigmoid. */
static inline float mx_sigmoid_fused(float x) { return 1.0f / (1.0f + mx_exp_fused(-x)); }

/* tanh x within 4 units in the last place; of the cell of an LSTM, as vf_tanh. */
static inline float mx_tanh_fused(float x) {
    float a = fabsf(x), z = x * x;
    float p = fmaf(MX_TANH_4, z, MX_TANH_3);
    p = fmaf(p, z, MX_TANH_2);
    p = fmaf(p, z, MX_TANH_1);
    p = fmaf(p, z, MX_TANH_0);
    float near_zero = fmaf(x * z, p, x), far = 1.0f - 2.0f / (mx_exp_fused(a + a) + 1.0f);
    far = x < 0.0f ? -far : far;
    return a < MX_TANH_NEAR ? near_zero : far;
}

/* erfc(z) e^(z^2) for z >= 0, within 3e-8 of itself up to z = 11: a polynomial in t = 1 / (1 + z / 2), fitted by least
 * squares on the relative error, reweighted towards its maximum. */
static inline float mx_erfcx_poly(float z) {
    float t = 1.0f / (1.0f + 0.5f * z);
    float p = 0.009437364743f;
    p = p * t - 0.108200240747f;
    p = p * t + 0.394603557461f;
    p = p * t - 0.625866758206f;
    p = p * t + 0.386066086822f;
    p = p * t - 0.080331076517f;
    p = p * t + 0.219674350511f;
    p = p * t + 0.239819671287f;
    p = p * t + 0.282726385729f;
    p = p * t + 0.282070634714f;
    return p * t;
}
#endif
