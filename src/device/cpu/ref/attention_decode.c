/* device/cpu/ref/attention_decode.c - attention of a decoder's rows in compiled calls, as plain loops.
 * Invariant: scores are sums in MX_SUM_LANES lanes, lane l taking elements l, l + MX_SUM_LANES, ..., joined as written
 * here; sums of weights likewise. A row's bits depend on the row, its keys and values alone. */
#include "device/cpu/kernels.h"

#include <math.h>

#include "device/cpu/ref/math.h"

/* Fours first, in each the outer sums of two apart; then the four sums of fours in pairs. */
static float join(const float lane[MX_SUM_LANES]) {
    float four[4];
    for (int g = 0; g < 4; g++)
        four[g] = (lane[4 * g] + lane[4 * g + 2]) + (lane[4 * g + 1] + lane[4 * g + 3]);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

static float element(const void *x, mxw_dtype dtype, int64_t i) {
    return dtype == MXW_F16 ? mx_f16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

static float dot(const float *a, const void *b, mxw_dtype dtype, int64_t from, int64_t n) {
    float lane[MX_SUM_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % MX_SUM_LANES] = fmaf(a[i], element(b, dtype, from + i), lane[i % MX_SUM_LANES]);
    return join(lane);
}

/* Scores become weights 2^(s - top); returns their sum. */
static float weigh(float *s, int64_t n, float *top) {
    float lane[MX_SUM_LANES] = {0};
    *top = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        *top = s[j] > *top ? s[j] : *top;
    for (int64_t j = 0; j < n; j++) {
        s[j] = mx_exp2f(s[j] - *top);
        lane[j % MX_SUM_LANES] += s[j];
    }
    return join(lane);
}

void MX_REF(attn_partial)(float *part, int64_t stride, const float *q, int64_t rows, const void *k, const void *v,
                          mxw_dtype dtype, int64_t ld, int64_t keys, int64_t heads, int64_t width, float *scratch) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            float *o = part + r * stride + h * width, *tops = part + r * stride + heads * width;
            for (int64_t j = 0; j < keys; j++)
                scratch[j] = dot(q + (r * heads + h) * width, k, dtype, j * ld + h * width, width);
            tops[heads + h] = weigh(scratch, keys, &tops[h]);
            for (int64_t c = 0; c < width; c++) {
                o[c] = 0;
                for (int64_t j = 0; j < keys; j++)
                    o[c] = fmaf(element(v, dtype, j * ld + h * width + c), scratch[j], o[c]);
            }
        }
}

void MX_REF(attn_combine)(float *y, const float *parts, int64_t stride, int64_t n, int64_t heads, int64_t width) {
    for (int64_t h = 0; h < heads; h++, y += width) {
        const float *tops = parts + heads * width + h;
        float top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            top = tops[i * stride] > top ? tops[i * stride] : top;
        for (int64_t c = 0; c < width; c++)
            y[c] = 0;
        for (int64_t i = 0; i < n; i++) {
            float share = mx_exp2f(tops[i * stride] - top);
            sum = fmaf(share, tops[i * stride + heads], sum);
            for (int64_t c = 0; c < width; c++)
                y[c] = fmaf(share, parts[i * stride + h * width + c], y[c]);
        }
        float inverse = 1.0f / sum;
        for (int64_t c = 0; c < width; c++)
            y[c] *= inverse;
    }
}

void MX_REF(attn_paged)(float *y, const float *q, const void *k, const void *v, mxw_dtype dtype, const int32_t *cells,
                        int64_t n, int64_t ld, int64_t width, float scale, float *scratch) {
    float *scaled = scratch, *s = scratch + (width + MX_SUM_LANES - 1) / MX_SUM_LANES * MX_SUM_LANES, top;
    for (int64_t c = 0; c < width; c++)
        scaled[c] = q[c] * (scale * MX_LOG2_E);
    for (int64_t j = 0; j < n; j++)
        s[j] = dot(scaled, k, dtype, cells[j] * ld, width);
    float inverse = 1.0f / weigh(s, n, &top);
    for (int64_t c = 0; c < width; c++) {   /* keys at even places and at odd places are two chains */
        float o[2] = {0, 0};
        for (int64_t j = 0; j < n; j++)
            o[j % 2] = fmaf(element(v, dtype, cells[j] * ld + c), s[j], o[j % 2]);
        y[c] = (o[0] + o[1]) * inverse;
    }
}
