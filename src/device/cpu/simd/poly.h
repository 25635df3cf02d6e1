/* device/cpu/simd/poly.h - coefficients of the polynomials of simd/math.h and ref/math.h, lowest power first.
 * Each is a minimax fit (least squares, reweighted towards the largest error) of the relative error it names. */
#ifndef MX_SIMD_POLY_H
#define MX_SIMD_POLY_H

/* e^r = 1 + r P(r) on |r| <= ln 2 / 2: within 2e-9. */
#define MX_EXP_1 1.000000032f
#define MX_EXP_2 0.4999999421f
#define MX_EXP_3 0.1666643126f
#define MX_EXP_4 0.04166800204f
#define MX_EXP_5 0.008374155312f
#define MX_EXP_6 0.001384365351f
#define MX_LOG2_E 1.44269504f
#define MX_LN2_HIGH 0.693359375f      /* ln 2 in two parts: a product of the first with n is exact */
#define MX_LN2_LOW (-2.12194440e-4f)
#define MX_EXP_LEAST (-104.0f)        /* e^x is 0 below, ... */
#define MX_EXP_MOST 89.0f             /* ... infinity above */

/* 2^r = 1 + r P(r) on |r| <= 1/2: within 9.2e-8, half a unit in the last place of a result. P(0) is 1 exactly, so that
 * 2^-127 can be made an exact 0 by exponent arithmetic. */
#define MX_EXP2_1 0.6931469776f
#define MX_EXP2_2 0.2402224209f
#define MX_EXP2_3 0.05550733743f
#define MX_EXP2_4 0.009671512645f
#define MX_EXP2_5 0.001326472712f
#define MX_ROUND 12582912.0f          /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
#define MX_SAME_ROUND 98304.0          /* 1.5 * 2^16, a double: adding it rounds to a multiple of 2^-36 */

/* log2 of the normal distribution's tail, log2(erfc(a / sqrt 2) / 2), for a >= 0: the tail comes out within 2.5e-8
 * absolute up to a = 6, and falls on from there: below 2^-150 at MX_TAIL_MOST. */
#define MX_TAIL_0 (-0.9999999294f)
#define MX_TAIL_1 (-1.151108824f)
#define MX_TAIL_2 (-0.4591744434f)
#define MX_TAIL_3 (-0.05261314418f)
#define MX_TAIL_4 0.007254661569f
#define MX_TAIL_5 (-0.0002996357332f)
#define MX_TAIL_6 (-0.0001127139931f)
#define MX_TAIL_7 2.282125691e-05f
#define MX_TAIL_8 (-1.381728707e-06f)
#define MX_TAIL_MOST 13.0f

/* tanh x = x + x z P(z), z = x^2, on |x| < MX_TANH_NEAR: within 4.5e-9. */
#define MX_TANH_0 (-0.3333328196f)
#define MX_TANH_1 0.1333144281f
#define MX_TANH_2 (-0.05373976808f)
#define MX_TANH_3 0.0206392655f
#define MX_TANH_4 (-0.005705191446f)
#define MX_TANH_NEAR 0.625f

/* gelu, tanh form: x / (1 + e^-2u), u = MX_TANH_SCALE (x + MX_TANH_CUBE x^3) */
#define MX_TANH_SCALE 0.79788456f     /* sqrt(2 / pi) */
#define MX_TANH_CUBE 0.044715f
#endif
