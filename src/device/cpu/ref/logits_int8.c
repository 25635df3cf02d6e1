/* device/cpu/ref/logits_int8.c - the int8 logit shortlist (logits/logits_int8.h) as plain loops.
 * Invariant: sums are integers that fit in 32 bits, so their order does not matter. */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>

#include "device/cpu/ref/int8.h"

/* The largest |x[i] factor[i]|; not finite if one of them is not. */
static float largest(const float *x, const float *factor, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] * factor[i];
        uint32_t bits;
        memcpy(&bits, &v, sizeof(bits));
        bits &= 0x7fffffffu;
        most = most > bits ? most : bits;
    }
    float value;
    memcpy(&value, &most, sizeof(value));
    return value;
}

void MX_REF(int8_pack)(int8_t *y, float *scale, const float *x, const float *inverse, int64_t k) {
    float top = largest(x, inverse, k), step = mx_int8_step(top, 127);
    for (int64_t i = 0; i < k; i++)
        y[i] = (int8_t)mx_int8_rounded(x[i] * inverse[i] * step);
    *scale = step > 0 ? top / 127 : 2 * top;
    if (step == 0)
        memset(y, 0, (size_t)k);
}

/* A pair of numbers is written as one of 16 bits, which compilers make vectors of. */
void MX_REF(int8_panel)(int8_t *y, const float *x, const float *inverse, const float *steps, int64_t k) {
    for (int64_t p = 0; p < k; p += 2, x += 2 * MX_PANEL, y += 2 * MX_PANEL)
        for (int64_t j = 0; j < MX_PANEL; j++) {
            int32_t low = mx_int8_rounded(x[j] * inverse[p] * steps[j]);
            int32_t high = mx_int8_rounded(x[j + MX_PANEL] * inverse[p + 1] * steps[j]);
            uint16_t pair = (uint16_t)(steps[j] > 0 ? (low & 255) | (high & 255) << 8 : 0);
            memcpy(y + 2 * j, &pair, sizeof(pair));
        }
}

/* x c = scale (q + r), w / c = s (p + t), |r| and |t| at most a half: x w - scale s q p is at most s times the sum of
 * |x c| / 2 + scale 127 / 2. A thousandth more is for what is rounded on the way. */
void MX_REF(int8_quantize)(int16_t *y, mx_int8_row *row, const float *x, const float *column, int64_t k, int32_t most) {
    float top = largest(x, column, k), step = mx_int8_step(top, (float)most);
    int64_t sum = 0;
    for (int64_t i = 0; i < k; i++) {
        int32_t q = step > 0 ? mx_int8_rounded(x[i] * column[i] * step) : 0;
        y[i] = (int16_t)q;
        sum += q < 0 ? -q : q;
    }
    row->scale = step > 0 ? top / (float)most : 0;
    row->slack = step > 0 ? (float)((double)row->scale * 0.5005 * ((double)sum + 128.0 * (double)k)) : INFINITY;
    if (top == 0)
        row->slack = 0;
}

void MX_REF(int8_gemm)(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows,
                       const int8_t *panels, const float *scales, int64_t pairs, int64_t n_panels) {
    for (int64_t panel = 0; panel < n_panels; panel++, panels += pairs * MX_PANEL * 2, scales += MX_PANEL)
        for (int64_t r = 0; r < rows; r++) {
            const int16_t *a = x + r * pairs * 2;
            int32_t sum[MX_PANEL] = {0};
            for (int64_t p = 0; p < pairs; p++)
                for (int64_t j = 0; j < MX_PANEL; j++)
                    sum[j] += a[2 * p] * panels[(p * MX_PANEL + j) * 2] +
                              a[2 * p + 1] * panels[(p * MX_PANEL + j) * 2 + 1];
            for (int64_t j = 0; j < MX_PANEL; j++)
                y[r * ld + panel * MX_PANEL + j] = (float)sum[j] * (scales[j] * row[r].scale);
        }
}

void MX_REF(shortlist)(uint16_t *mask, uint16_t bit, const float *x, const float *scales, const uint8_t *suppress,
                       int64_t n, float likely, float best, float slack) {
    for (int64_t i = 0; i < n; i++) {
        float off = slack * scales[i];
        int in = ((x[i] + off * 0.25f >= likely) | (x[i] + off >= best)) & (suppress[i] == 0);
        mask[i] = (uint16_t)(mask[i] | (in ? bit : 0));
    }
}
