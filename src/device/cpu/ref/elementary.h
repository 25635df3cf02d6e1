/* device/cpu/ref/elementary.h - exp, expm1 and log of a float, computed in float64 and rounded once by the caller.
 *
 * Invariants: only +, -, *, / and integer operations on the bits, so every instruction set gives the same bits and a
 * compiler can vectorise the loops; no libm, whose last bits differ between machines. The relative error is below
 * 1e-11: after the rounding to f32 a result is within 1.001 * 2^-24 of itself, half a unit in the last place and a bit.
 * NaN stays NaN. */
#ifndef MX_REF_ELEMENTARY_H
#define MX_REF_ELEMENTARY_H
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double mx_bits_to_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint64_t mx_double_to_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

#define MX_LN2 0.693147180559945309417
#define MX_ROUND64 6755399441055744.0   /* 1.5 * 2^52: adding it rounds to an integer in the low bits */

/* x = n ln 2 + r with |r| <= ln 2 / 2, for |x| <= 708: returns e^r - 1 by its series to r^9 (the next term is 3e-11 of
 * it), and 2^n in *power. */
static inline double mx_exp_parts(double x, double *power) {
    double shifted = x * 1.44269504088896340736 + MX_ROUND64;
    double r = x - (shifted - MX_ROUND64) * MX_LN2;
    double p = 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    *power = mx_bits_to_double((mx_double_to_bits(shifted) + 1023) << 52);
    return p * r;
}

/* e^x: at least e^-708 (0 as a float), infinity above 708. */
static inline double mx_exp64(double x) {
    double least = x < -708.0 ? -708.0 : x, power;
    double p = mx_exp_parts(least > 708.0 ? 708.0 : least, &power);
    double y = p * power + power;
    return x > 708.0 ? (double)INFINITY : y;
}

/* e^x - 1 for x >= 0; what it is at 100 from there on. */
static inline double mx_expm1_to_100(double x) {
    double power, p = mx_exp_parts(x > 100.0 ? 100.0 : x, &power);
    return p * power + (power - 1.0);
}

static inline double mx_tanh64(double x) {
    double e = mx_expm1_to_100(2.0 * fabs(x));
    return copysign(e / (e + 2.0), x);
}

/* log x of a float: x = 2^k m, m from sqrt(1/2) to sqrt 2; log m = 2 atanh s, s = (m - 1) / (m + 1), |s| <= 0.1716, by
 * its series to s^13 (the next term is 2e-12 of it). -infinity at 0, NaN below. */
static inline double mx_log64(double x) {
    const uint64_t one = 0x3ff0000000000000u, root = 0x3fe6a09e667f3bcdu;   /* the bits of 1, of sqrt(1/2) */
    uint64_t bits = mx_double_to_bits(x), k = (bits - root + one) >> 52;    /* k + 1023 */
    double m = mx_bits_to_double(bits - (k << 52) + one);
    double n = mx_bits_to_double(k | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);   /* 2^52: k as a double */
    double s = (m - 1.0) / (m + 1.0), t = s * s;
    double p = 1.0 / 13;
    p = p * t + 1.0 / 11;
    p = p * t + 1.0 / 9;
    p = p * t + 1.0 / 7;
    p = p * t + 1.0 / 5;
    p = p * t + 1.0 / 3;
    p = p * t + 1.0;
    double y = n * MX_LN2 + 2.0 * s * p;
    y = x > 3.5e38 ? x : y;   /* infinity */
    y = x == 0 ? -(double)INFINITY : y;
    return x >= 0 ? y : (double)NAN;
}
#endif
