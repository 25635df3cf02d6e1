/* device/cpu/neon/logits_int8.c - int8 logits of a few rows, for 64-bit ARM: sixteen ids at a time, pairs are
 * de-interleaved as they are loaded. */
#include "device/cpu/kernels.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))
#define FEW_ROWS 4        /* of a group */
#define STRIP 16          /* ids at a time */
#define LINE (MX_PANEL * 2)
#define PREFETCH 512   /* prefetch distance, bytes */

INLINE void few(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, const int8_t *b, const float *scales,
                int64_t pairs, const int rows) {
    int32x4_t sum[FEW_ROWS][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++)
            sum[r][e] = vdupq_n_s32(0);
    for (int64_t p = 0; p < pairs; p++, b += LINE, x += 2) {
        __builtin_prefetch(b + PREFETCH, 0, 2);
        int8x16x2_t both = vld2q_s8(b);
        int16x8_t even[2] = {vmovl_s8(vget_low_s8(both.val[0])), vmovl_s8(vget_high_s8(both.val[0]))};
        int16x8_t odd[2] = {vmovl_s8(vget_low_s8(both.val[1])), vmovl_s8(vget_high_s8(both.val[1]))};
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const int16_t *v = x + r * pairs * 2;
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                sum[r][2 * h] = vmlal_n_s16(sum[r][2 * h], vget_low_s16(even[h]), v[0]);
                sum[r][2 * h] = vmlal_n_s16(sum[r][2 * h], vget_low_s16(odd[h]), v[1]);
                sum[r][2 * h + 1] = vmlal_n_s16(sum[r][2 * h + 1], vget_high_s16(even[h]), v[0]);
                sum[r][2 * h + 1] = vmlal_n_s16(sum[r][2 * h + 1], vget_high_s16(odd[h]), v[1]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int e = 0; e < 4; e++) {
            float32x4_t scale = vmulq_n_f32(vld1q_f32(scales + e * 4), row[r].scale);
            vst1q_f32(y + r * ld + e * 4, vmulq_f32(vcvtq_f32_s32(sum[r][e]), scale));
        }
}

INLINE void group(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows, const int8_t *b,
                  const float *scales, int64_t pairs) {
    switch (rows) {
    case 1: few(y, ld, x, row, b, scales, pairs, 1); break;
    case 2: few(y, ld, x, row, b, scales, pairs, 2); break;
    case 3: few(y, ld, x, row, b, scales, pairs, 3); break;
    case 4: few(y, ld, x, row, b, scales, pairs, 4); break;
    }
}

void MX_FAST(int8_gemm)(float *y, int64_t ld, const int16_t *x, const mx_int8_row *row, int64_t rows,
                        const int8_t *panels, const float *scales, int64_t pairs, int64_t n_panels) {
    int64_t groups = (rows + FEW_ROWS - 1) / FEW_ROWS;
    for (int64_t panel = 0; panel < n_panels; panel++, panels += pairs * LINE)
        for (int64_t strip = 0; strip < MX_PANEL; strip += STRIP)
            for (int64_t g = 0; g < groups; g++) {
                int64_t first = rows * g / groups, count = rows * (g + 1) / groups - first;
                int64_t column = panel * MX_PANEL + strip;
                group(y + first * ld + column, ld, x + first * pairs * 2, row + first, count, panels + strip * 2,
                      scales + column, pairs);
            }
}
