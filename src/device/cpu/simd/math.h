/* device/cpu/simd/math.h - functions of a vector of floats, for the kernel templates. NaN stays NaN in all of them, and
 * every instruction set gives the same bits. */
#ifndef MX_SIMD_MATH_H
#define MX_SIMD_MATH_H
#include "device/cpu/simd/poly.h"
#include "device/cpu/simd/simd.h"

/* p = p r + c, a step of Horner's scheme. */
#define STEP(p, r, c) p = vf_fma(p, r, vf_set1(c))

#ifndef VF_HAS_SCALE
/* 2^n for whole n in [-127, 127], -127 giving 0. */
MX_INLINE vf power(vi n) { return vi_floats(vi_shl(vi_add(n, vi_set1(127)), 23)); }

/* In two factors: n runs from -150 to 128. */
MX_INLINE vf vf_scale(vf p, vf n, vf shifted) {
    vi i = vi_sub(vf_bits(shifted), vf_bits(vf_set1(MX_ROUND)));
    vi half = vi_sra(i, 1);
    return vf_mul(vf_mul(p, power(half)), power(vi_sub(i, half)));
}
#endif

/* e^x within 1.1 units in the last place, subnormal results included; 0 below -104, infinity above 89. */
MX_INLINE vf vf_exp(vf x) {
    x = vf_max(vf_set1(MX_EXP_LEAST), x);
    x = vf_min(vf_set1(MX_EXP_MOST), x);
    const vf magic = vf_set1(MX_ROUND);
    vf shifted = vf_fma(x, vf_set1(MX_LOG2_E), magic);
    vf n = vf_sub(shifted, magic);
    vf r = vf_fnma(n, vf_set1(MX_LN2_HIGH), x);
    r = vf_fnma(n, vf_set1(MX_LN2_LOW), r);
    vf p = vf_set1(MX_EXP_6);
    STEP(p, r, MX_EXP_5);
    STEP(p, r, MX_EXP_4);
    STEP(p, r, MX_EXP_3);
    STEP(p, r, MX_EXP_2);
    STEP(p, r, MX_EXP_1);
    STEP(p, r, 1.0f);
    return vf_scale(p, n, shifted);
}

/* 2^x for x <= 127, within 2.1 units in the last place, down to 2^-126; less than that below, 0 from -127 on. The
 * exponential of softmax: the exponent is added to the bits of 2^r, and at -127 those of 1 become those of 0. */
MX_INLINE vf vf_exp2(vf x) {
    const vf magic = vf_set1(MX_ROUND);
    x = vf_max(vf_set1(-127.0f), x);
    vf shifted = vf_add(x, magic);
    vf r = vf_sub(x, vf_sub(shifted, magic));
    vf p = vf_set1(MX_EXP2_5);
    STEP(p, r, MX_EXP2_4);
    STEP(p, r, MX_EXP2_3);
    STEP(p, r, MX_EXP2_2);
    STEP(p, r, MX_EXP2_1);
    STEP(p, r, 1.0f);
    return vi_floats(vi_add(vf_bits(p), vi_shl(vf_bits(shifted), 23)));   /* magic's own bits are shifted out */
}

/* x Phi(x) = max(x, 0) - |x| Phi(-|x|), the tail Phi(-a) as 2 to the power of a polynomial: no division, and the error
 * is below 2 * 2^-24 of |x|. */
MX_INLINE vf vf_gelu_erf(vf x) {
    vf a = vf_min(vf_set1(MX_TAIL_MOST), vf_abs(x));
    vf g = vf_set1(MX_TAIL_8);
    STEP(g, a, MX_TAIL_7);
    STEP(g, a, MX_TAIL_6);
    STEP(g, a, MX_TAIL_5);
    STEP(g, a, MX_TAIL_4);
    STEP(g, a, MX_TAIL_3);
    STEP(g, a, MX_TAIL_2);
    STEP(g, a, MX_TAIL_1);
    STEP(g, a, MX_TAIL_0);
    return vf_fnma(a, vf_exp2(g), vf_max(x, vf_zero()));
}

MX_INLINE vf vf_gelu_tanh(vf x) {
    vf cube = vf_mul(vf_mul(x, x), vf_mul(x, vf_set1(MX_TANH_CUBE)));
    vf u = vf_mul(vf_add(x, cube), vf_set1(-2.0f * MX_TANH_SCALE));
    return vf_div(x, vf_add(vf_set1(1.0f), vf_exp(u)));
}

/* 1 / (1 + e^-x) within 3 units in the last place, 0 below -89. */
MX_INLINE vf vf_sigmoid(vf x) {
    const vf one = vf_set1(1.0f);
    return vf_div(one, vf_add(one, vf_exp(vf_sub(vf_zero(), x))));
}

/* tanh x within 4 units in the last place: a polynomial near 0, elsewhere 1 - 2 / (e^2|x| + 1) with the sign of x. */
MX_INLINE vf vf_tanh(vf x) {
    const vf one = vf_set1(1.0f);
    vf a = vf_abs(x), z = vf_mul(x, x);
    vf p = vf_set1(MX_TANH_4);
    STEP(p, z, MX_TANH_3);
    STEP(p, z, MX_TANH_2);
    STEP(p, z, MX_TANH_1);
    STEP(p, z, MX_TANH_0);
    vf q = vf_div(vf_set1(2.0f), vf_add(vf_exp(vf_add(a, a)), one));
    vf far = vf_less(x, vf_zero(), vf_sub(q, one), vf_sub(one, q));
    return vf_less(a, vf_set1(MX_TANH_NEAR), vf_fma(vf_mul(x, z), p, x), far);
}
#undef STEP
#endif
