/* feature/fft.c - power spectra and log-mel of MX_FRAME_LANES frames at once, in double; compiled once per instruction
 * set (MX_FFT_ISA). Lanes never mix and nothing is contracted to FMA, so all builds give the same bits. The real
 * transform of 400 points is a complex one of 200 = 5 * 5 * 4 * 2 points, as a Stockham FFT: each stage reads one array
 * and writes the other, without bit reversal. */
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "feature/spectrum.h"

#ifndef MX_FFT_ISA
#define MX_FFT_ISA mx_fft_ref
#endif

#define N 200
#define FLOOR_POWER 1e-10f

typedef double lanes[MX_FRAME_LANES];

/* ---- the transform ----------------------------------------------------------------------------------------------- */

/* y = (re, im) * twiddle */
static inline void rotate(const double t[2], double re, double im, double *out_re, double *out_im) {
    *out_re = re * t[0] - im * t[1];
    *out_im = re * t[1] + im * t[0];
}

/* One stage: n points left in each of `stride` interleaved transforms; the twiddle's step is the stride, since
 * stride * n = 200 throughout. */
static void radix2(const mx_spectrum *s, int n, int stride, lanes *restrict xr, lanes *restrict xi,
                   lanes *restrict yr, lanes *restrict yi) {
    int m = n / 2;
    for (int p = 0; p < m; p++) {
        const double *w = s->twiddle[p * stride];
        for (int q = 0; q < stride; q++) {
            const int a = q + stride * p, b = a + stride * m, o = q + stride * 2 * p;
            for (int l = 0; l < MX_FRAME_LANES; l++) {
                yr[o][l] = xr[a][l] + xr[b][l];
                yi[o][l] = xi[a][l] + xi[b][l];
                rotate(w, xr[a][l] - xr[b][l], xi[a][l] - xi[b][l], &yr[o + stride][l], &yi[o + stride][l]);
            }
        }
    }
}

static void radix4(const mx_spectrum *s, int n, int stride, lanes *restrict xr, lanes *restrict xi,
                   lanes *restrict yr, lanes *restrict yi) {
    int m = n / 4;
    for (int p = 0; p < m; p++) {
        const double *w1 = s->twiddle[p * stride], *w2 = s->twiddle[2 * p * stride], *w3 = s->twiddle[3 * p * stride];
        for (int q = 0; q < stride; q++) {
            const int a = q + stride * p, b = a + stride * m, c = b + stride * m, d = c + stride * m;
            const int o = q + stride * 4 * p;
            for (int l = 0; l < MX_FRAME_LANES; l++) {
                double sum_r = xr[a][l] + xr[c][l], sum_i = xi[a][l] + xi[c][l];
                double dif_r = xr[a][l] - xr[c][l], dif_i = xi[a][l] - xi[c][l];
                double odd_r = xr[b][l] + xr[d][l], odd_i = xi[b][l] + xi[d][l];
                double rot_r = xi[b][l] - xi[d][l], rot_i = xr[d][l] - xr[b][l];   /* -i (b - d) */
                yr[o][l] = sum_r + odd_r;
                yi[o][l] = sum_i + odd_i;
                rotate(w1, dif_r + rot_r, dif_i + rot_i, &yr[o + stride][l], &yi[o + stride][l]);
                rotate(w2, sum_r - odd_r, sum_i - odd_i, &yr[o + 2 * stride][l], &yi[o + 2 * stride][l]);
                rotate(w3, dif_r - rot_r, dif_i - rot_i, &yr[o + 3 * stride][l], &yi[o + 3 * stride][l]);
            }
        }
    }
}

static void radix5(const mx_spectrum *s, int n, int stride, lanes *restrict xr, lanes *restrict xi,
                   lanes *restrict yr, lanes *restrict yi) {
    const double c1 = s->twiddle[N / 5][0], s1 = -s->twiddle[N / 5][1];
    const double c2 = s->twiddle[2 * N / 5][0], s2 = -s->twiddle[2 * N / 5][1];
    int m = n / 5;
    for (int p = 0; p < m; p++) {
        const double *w1 = s->twiddle[p * stride], *w2 = s->twiddle[2 * p * stride];
        const double *w3 = s->twiddle[3 * p * stride], *w4 = s->twiddle[4 * p * stride];
        for (int q = 0; q < stride; q++) {
            const int a = q + stride * p, b = a + stride * m, c = b + stride * m, d = c + stride * m,
                      e = d + stride * m;
            const int o = q + stride * 5 * p;
            for (int l = 0; l < MX_FRAME_LANES; l++) {
                double be_r = xr[b][l] + xr[e][l], be_i = xi[b][l] + xi[e][l];
                double bd_r = xr[b][l] - xr[e][l], bd_i = xi[b][l] - xi[e][l];
                double cd_r = xr[c][l] + xr[d][l], cd_i = xi[c][l] + xi[d][l];
                double ce_r = xr[c][l] - xr[d][l], ce_i = xi[c][l] - xi[d][l];
                double m1_r = xr[a][l] + c1 * be_r + c2 * cd_r, m1_i = xi[a][l] + c1 * be_i + c2 * cd_i;
                double m2_r = xr[a][l] + c2 * be_r + c1 * cd_r, m2_i = xi[a][l] + c2 * be_i + c1 * cd_i;
                double r1_r = s1 * bd_i + s2 * ce_i, r1_i = -(s1 * bd_r + s2 * ce_r);
                double r2_r = s2 * bd_i - s1 * ce_i, r2_i = -(s2 * bd_r - s1 * ce_r);
                yr[o][l] = xr[a][l] + be_r + cd_r;
                yi[o][l] = xi[a][l] + be_i + cd_i;
                rotate(w1, m1_r + r1_r, m1_i + r1_i, &yr[o + stride][l], &yi[o + stride][l]);
                rotate(w2, m2_r + r2_r, m2_i + r2_i, &yr[o + 2 * stride][l], &yi[o + 2 * stride][l]);
                rotate(w3, m2_r - r2_r, m2_i - r2_i, &yr[o + 3 * stride][l], &yi[o + 3 * stride][l]);
                rotate(w4, m1_r - r1_r, m1_i - r1_i, &yr[o + 4 * stride][l], &yi[o + 4 * stride][l]);
            }
        }
    }
}

/* From Z = FFT(even + i odd): X[k] = (Z[k] + Z*[200-k]) / 2 - i w^k (Z[k] - Z*[200-k]) / 2. Bins k and 200 - k share
 * the two halves: X[200-k] is their difference, conjugated, so one iteration serves both. */
static void split_power(const mx_spectrum *s, lanes *restrict zr, lanes *restrict zi,
                        lanes *restrict power) {
    for (int k = 0; k <= N / 2; k++) {
        const int j = (N - k) % N;
        const double *w = s->split[k];
        for (int l = 0; l < MX_FRAME_LANES; l++) {
            double even_r = 0.5 * (zr[k][l] + zr[j][l]), even_i = 0.5 * (zi[k][l] - zi[j][l]);
            double odd_r = 0.5 * (zi[k][l] + zi[j][l]), odd_i = 0.5 * (zr[j][l] - zr[k][l]);
            double turned_r, turned_i;
            rotate(w, odd_r, odd_i, &turned_r, &turned_i);
            double a_r = even_r + turned_r, a_i = even_i + turned_i;
            double b_r = even_r - turned_r, b_i = even_i - turned_i;
            power[k][l] = a_r * a_r + a_i * a_i;
            power[N - k][l] = b_r * b_r + b_i * b_i;
        }
    }
}

static void power_of(mx_spectrum *s, float x[MX_SPECTRUM_FFT][MX_FRAME_LANES],
                     double power[MX_SPECTRUM_BINS][MX_FRAME_LANES]) {
    for (int k = 0; k < N; k++)
        for (int l = 0; l < MX_FRAME_LANES; l++) {
            s->re[0][k][l] = x[2 * k][l];
            s->im[0][k][l] = x[2 * k + 1][l];
        }
    radix5(s, 200, 1, s->re[0], s->im[0], s->re[1], s->im[1]);
    radix5(s, 40, 5, s->re[1], s->im[1], s->re[0], s->im[0]);
    radix4(s, 8, 25, s->re[0], s->im[0], s->re[1], s->im[1]);
    radix2(s, 2, 100, s->re[1], s->im[1], s->re[0], s->im[0]);
    split_power(s, s->re[0], s->im[0], power);
}

/* ---- mel, and its logarithm -------------------------------------------------------------------------------------- */

/* log10 of a normal number above 0: x = m 2^e with m around 1, and log m as the series of s = (m - 1) / (m + 1), which
 * is at most 0.172, so that the truncation error is below 1e-18. No call, no table, no branch, so that it
 * vectorizes. */
static inline double log10_of(double x) {
    const double two_52 = 4503599627370496.0, root = 1.4142135623730951;
    const double log10_2 = 0.30102999566398120, log10_e = 0.43429448190325183;
    uint64_t bits, exponent;
    double m, e;
    memcpy(&bits, &x, sizeof(bits));
    exponent = bits >> 52 | 0x4330000000000000u;   /* 2^52 plus its value */
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    memcpy(&m, &bits, sizeof(m));
    memcpy(&e, &exponent, sizeof(e));
    e -= two_52 + 1023;
    double above = m > root ? 1 : 0;
    m *= 1 - 0.5 * above;
    e += above;
    double s = (m - 1) / (m + 1), z = s * s, sum = 1.0 / 23;
    sum = sum * z + 1.0 / 21;
    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return e * log10_2 + (2 * s + 2 * s * z * sum) * log10_e;
}

static void project(const mx_filters *filters, lanes *power, float out[MX_FILTERS_MAX][MX_FRAME_LANES]) {
    for (int i = 0; i < filters->n_mels; i++) {
        const float *weight = filters->weight + filters->offset[i];
        lanes *from = power + filters->first[i];
        lanes sum = {0};
        for (int j = 0; j < filters->count[i]; j++)
            for (int l = 0; l < MX_FRAME_LANES; l++)
                sum[l] += (double)weight[j] * from[j][l];
        for (int l = 0; l < MX_FRAME_LANES; l++) {
            float rounded = (float)sum[l];   /* infinite for samples beyond 1e18 */
            double of = log10_of(rounded > FLOOR_POWER ? rounded : FLOOR_POWER);
            out[i][l] = rounded <= FLT_MAX ? (float)of : rounded;
        }
    }
}

const mx_fft_kernels MX_FFT_ISA = {power_of, project};
