/* device/cpu/ref/row_ops.c - element by element and row by row: arithmetic, norms, activations, reductions.
 * Sums run in eight f64 lanes that are joined in a fixed order: vector loops without -ffast-math, and closer to the
 * true value than f32 in any order. */
#include "device/cpu/kernels.h"

#include <math.h>

#include "device/cpu/ref/math.h"

#define LANES 8

static double join(const double lane[LANES]) {
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

#define BINARY(name, type, expression)                                                                                 \
    void MX_REF(name)(type *y, const type *a, int a_step, const type *b, int b_step, int64_t n) {                     \
        if (a_step && b_step) {                                                                                        \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type l = a[i], r = b[i];                                                                               \
                y[i] = expression;                                                                                     \
            }                                                                                                          \
        } else if (a_step) {                                                                                           \
            type r = n ? b[0] : 0;                                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type l = a[i];                                                                                         \
                y[i] = expression;                                                                                     \
            }                                                                                                          \
        } else {                                                                                                       \
            type l = n ? a[0] : 0;                                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                type r = b[b_step ? i : 0];                                                                            \
                y[i] = expression;                                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }

BINARY(add_f32, float, l + r)
BINARY(sub_f32, float, l - r)
BINARY(mul_f32, float, l *r)
BINARY(div_f32, float, l / r)
/* Integers wrap around, as two's complement does. */
BINARY(add_i32, int32_t, (int32_t)((uint32_t)l + (uint32_t)r))
BINARY(sub_i32, int32_t, (int32_t)((uint32_t)l - (uint32_t)r))
BINARY(mul_i32, int32_t, (int32_t)((uint32_t)l * (uint32_t)r))

void MX_REF(add_rows)(float *y, int64_t ld, const float *x, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            y[r * ld + i] += x[i];
}

/* ---- norms and activations --------------------------------------------------------------------------------------- */

static double sum_of(const float *x, int64_t n) {
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l];
    for (int l = 0; i < n; i++, l++)
        lane[l] += (double)x[i];
    return join(lane);
}

static double sum_of_squares(const float *x, double mean, int64_t n) {
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += ((double)x[i + l] - mean) * ((double)x[i + l] - mean);
    for (int l = 0; i < n; i++, l++)
        lane[l] += ((double)x[i] - mean) * ((double)x[i] - mean);
    return join(lane);
}

void MX_REF(layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                        double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = sum_of(x, n) / (double)n;
        double variance = sum_of_squares(x, mean, n) / (double)n;
        double inverse = 1.0 / sqrt(variance + eps);
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)(((double)x[i] - mean) * inverse * (double)gamma[i] + (double)beta[i]);
    }
}

/* The sum of x - mean, or of its squares, in MX_SUM_LANES lanes, joined in halves. */
static double same_sum_of(const float *x, int64_t n, double mean, int squares) {
    double lane[MX_SUM_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i] - mean, *to = &lane[i % MX_SUM_LANES];
        *to = squares ? fma(v, v, *to) : *to + v;
    }
    for (int step = MX_SUM_LANES / 2; step > 0; step /= 2)
        for (int l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

void MX_REF(same_layer_norm)(float *y, const float *x, const float *gamma, const float *beta, int64_t rows, int64_t n,
                             double eps) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = same_sum_of(x, n, 0, 0) / (double)n;
        double inverse = 1.0 / sqrt(same_sum_of(x, n, mean, 1) / (double)n + eps);
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)fma(((double)x[i] - mean) * inverse, (double)gamma[i], (double)beta[i]);
    }
}

/* By the steps of vf_gelu_erf (simd/math.h): the same bits. */
void MX_REF(same_gelu_erf)(float *y, const float *x, int64_t n) {
    static const float tail[] = {MX_TAIL_7, MX_TAIL_6, MX_TAIL_5, MX_TAIL_4,
                                 MX_TAIL_3, MX_TAIL_2, MX_TAIL_1, MX_TAIL_0};
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], a = fabsf(v), g = MX_TAIL_8;
        a = MX_TAIL_MOST < a ? MX_TAIL_MOST : a;
        for (size_t c = 0; c < MX_COUNT(tail); c++)
            g = fmaf(g, a, tail[c]);
        y[i] = fmaf(-a, mx_exp2f(g), v > 0 ? v : 0);
    }
}

/* By the steps of vf_gelu_tanh. */
void MX_REF(same_gelu_tanh)(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], cube = v * v * (v * MX_TANH_CUBE);
        y[i] = v / (1.0f + mx_exp_fused((v + cube) * (-2.0f * MX_TANH_SCALE)));
    }
}

/* x Phi(x), from e = erfc(|x| / sqrt 2): small values on the left keep their relative precision. */
void MX_REF(gelu_erf)(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], size = v < 0 ? -v : v;
        float half_tail = 0.5f * mx_expf(-0.5f * v * v) * mx_erfcx_poly(size * 0.70710678f);
        y[i] = v * (v < 0 ? half_tail : 1.0f - half_tail);
    }
}

/* x (1 + tanh u) / 2 = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3) */
void MX_REF(gelu_tanh)(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i];
        float u = 0.79788456f * (v + 0.044715f * v * v * v);
        y[i] = v / (1.0f + mx_expf(-2.0f * u));
    }
}

static float max_of(const float *x, int64_t n) {
    float lane[LANES];
    int64_t i = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (; i < n; i++)
        lane[0] = x[i] > lane[0] ? x[i] : lane[0];
    for (int l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static float min_of(const float *x, int64_t n) {
    float best = INFINITY;
    for (int64_t i = 0; i < n; i++)
        best = x[i] < best ? x[i] : best;
    return best;
}

void MX_REF(softmax)(float *y, const float *x, int64_t rows, int64_t n, int64_t ld, float scale) {
    for (int64_t r = 0; r < rows; r++, x += ld, y += ld) {
        float top = scale >= 0 ? max_of(x, n) : min_of(x, n);
        for (int64_t i = 0; i < n; i++)
            y[i] = mx_expf((x[i] - top) * scale);
        double sum = sum_of(y, n);
        float inverse = (float)(1.0 / sum);
        for (int64_t i = 0; i < n; i++)
            y[i] *= inverse;
    }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* The sum down one column, in f64. */
static double column_sum(const float *x, int64_t n, int64_t inner) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j * inner];
    return sum;
}

/* NaN, where there is one, is the result: a maximum that hides it would hide a fault. */
static float column_best(const float *x, mxw_reduce_kind kind, int64_t n, int64_t inner) {
    float best = x[0];
    for (int64_t j = 1; j < n; j++) {
        float v = x[j * inner];
        if (isnan(v))
            return v;
        if (kind == MXW_REDUCE_MAX ? v > best : v < best)
            best = v;
    }
    return best;
}

void MX_REF(reduce_f32)(float *y, const float *x, mxw_reduce_kind kind, int64_t n, int64_t inner) {
    for (int64_t i = 0; i < inner; i++) {
        if (kind == MXW_REDUCE_MAX || kind == MXW_REDUCE_MIN)
            y[i] = column_best(x + i, kind, n, inner);
        else {
            double sum = inner == 1 ? sum_of(x, n) : column_sum(x + i, n, inner);
            y[i] = (float)(kind == MXW_REDUCE_MEAN ? sum / (double)n : sum);
        }
    }
}

void MX_REF(reduce_i32)(int32_t *y, const int32_t *x, mxw_reduce_kind kind, int64_t n, int64_t inner) {
    for (int64_t i = 0; i < inner; i++) {
        int32_t result = kind == MXW_REDUCE_SUM ? 0 : x[i];
        for (int64_t j = 0; j < n; j++) {
            int32_t v = x[j * inner + i];
            if (kind == MXW_REDUCE_SUM)
                result = (int32_t)((uint32_t)result + (uint32_t)v);
            else if (kind == MXW_REDUCE_MAX ? v > result : v < result)
                result = v;
        }
        y[i] = result;
    }
}

void MX_REF(argmax)(int32_t *y, const float *x, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    *y = (int32_t)best;
}
