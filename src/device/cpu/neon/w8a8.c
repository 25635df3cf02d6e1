/* device/cpu/neon/w8a8.c - products in 8 bits, for 64-bit ARM. Compiled twice: with the dot product and without.
 *
 * A tile is 8 rows by a panel, eight columns at a time. With the dot product a register of the panel is four columns by
 * four of k, multiplied by a four of a row from a lane: 16 accumulators. Without, four rows at a time: products of two
 * columns in 16 bits, added in pairs to 32, and the two pairs of a column are joined at the end. */
#include "device/cpu/kernels.h"

#include <arm_neon.h>
#include <string.h>

#include "device/cpu/ref/int8.h"

#define INLINE static inline __attribute__((always_inline))
#define TILE_ROWS 8
#define STRIP 8               /* columns of a tile at a time */
#define LINE (MX_PANEL * 4)   /* bytes of a four of k */
#define PREFETCH 1024         /* prefetch distance in a panel, bytes */

void MX_FAST(w8a8_blocks)(mx_w8a8_blocks *out) {
    *out = (mx_w8a8_blocks){.tile_rows = TILE_ROWS, .tile_panels = 1, .row_block = 128, .bytes = 1,
                            .adjacent = 1};
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

INLINE mx_int8_range range_of(const float *x, int64_t k) {
    int32x4_t mosts = vdupq_n_s32(0);
    uint32x4_t leasts = vdupq_n_u32(0);
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        float32x4_t v = vld1q_f32(x + i);
        mosts = vmaxq_s32(mosts, vreinterpretq_s32_f32(v));
        leasts = vmaxq_u32(leasts, vreinterpretq_u32_f32(v));
    }
    int32_t most = vmaxvq_s32(mosts), bits;
    uint32_t least = vmaxvq_u32(leasts);
    for (; i < k; i++) {
        memcpy(&bits, x + i, sizeof(bits));
        most = MX_MAX(most, bits);
        least = MX_MAX(least, (uint32_t)bits);
    }
    return mx_int8_range_of(most, least);
}

void MX_FAST(w8a8_row)(void *y, int64_t stride, float *scale, int32_t *shift, const float *x, int64_t k) {
    const mx_int8_range range = range_of(x, k);
    float last[4] = {0};
    char *to = y;
    *scale = range.scale;
    *shift = range.shift;
    for (int64_t i = 0; i < k; i += 4, to += stride) {
        if (i + 4 > k) {
            memcpy(last, x + i, (size_t)(k - i) * sizeof(float));
            x = last - i;
        }
        int32x4_t p = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + i), range.step));
        p = vsubq_s32(p, vdupq_n_s32(range.shift));   /* one that is too large for 8 bits becomes 127 */
        int8x8_t small = vqmovn_s16(vcombine_s16(vqmovn_s32(p), vdup_n_s16(0)));
        if (range.step <= 0)   /* 0 times a NaN is no number */
            small = vdup_n_s8(0);
        vst1_lane_u32((void *)to, vreinterpret_u32_s8(small), 0);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Four columns from `at` on: with the row's shift, times the scales of column and row, and what comes after. */
INLINE void store(const mx_w8a8_tile *t, int32x4_t sum, int64_t r, int64_t at) {
    sum = vmlaq_n_s32(sum, vld1q_s32(t->sums + at), t->row_shifts[r]);
    float32x4_t v = vmulq_f32(vcvtq_f32_s32(sum), vmulq_n_f32(vld1q_f32(t->scales + at), t->row_scales[r]));
    if (t->bias)
        v = vaddq_f32(v, vld1q_f32(t->bias + at));
    if (t->residual)
        v = vaddq_f32(v, vld1q_f32(t->residual + r * t->ld_residual + at));
    vst1q_f32(t->y + r * t->ldy + at, v);
}

#ifdef __ARM_FEATURE_DOTPROD
#define ROW_STEP TILE_ROWS
/* Rows `base` to base + 3 of `rows`, whose fours are the lanes of v. */
#define DOT(base)                                                                                                      \
    do {                                                                                                               \
        int8x16_t v = vld1q_s8(a + (base) * 4);                                                                        \
        for (int h = 0; h < 2; h++) {                                                                                  \
            sum[base][h] = vdotq_laneq_s32(sum[base][h], x[h], v, 0);                                                  \
            sum[(base) + 1][h] = vdotq_laneq_s32(sum[(base) + 1][h], x[h], v, 1);                                      \
            sum[(base) + 2][h] = vdotq_laneq_s32(sum[(base) + 2][h], x[h], v, 2);                                      \
            sum[(base) + 3][h] = vdotq_laneq_s32(sum[(base) + 3][h], x[h], v, 3);                                      \
        }                                                                                                              \
    } while (0)

/* `rows` is a multiple of four; those past t->rows are computed and not stored. */
INLINE void strip(const mx_w8a8_tile *t, int64_t first, int64_t at, const int rows) {
    const int8_t *a = (const int8_t *)t->a + first * 4, *b = t->b + at * 4;
    int32x4_t sum[TILE_ROWS][2];
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = vdupq_n_s32(0);
    for (int64_t q = 0; q < t->quads; q++, a += t->a_rows * 4, b += LINE) {
        if (t->streams)
            __builtin_prefetch(b + PREFETCH, 0, 2);
        int8x16_t x[2] = {vld1q_s8(b), vld1q_s8(b + 16)};
        DOT(0);
        if (rows > 4)
            DOT(4);
    }
    for (int r = 0; r < rows && first + r < t->rows; r++)
        for (int h = 0; h < 2; h++)
            store(t, sum[r][h], first + r, at + h * 4);
}
#else
#define ROW_STEP 4
/* A register: two columns, of each the sums of its first and its second pairs. */
INLINE void strip(const mx_w8a8_tile *t, int64_t first, int64_t at, const int rows) {
    const int8_t *a = (const int8_t *)t->a + first * 4, *b = t->b + at * 4;
    int32x4_t sum[4][4];
    for (int r = 0; r < 4; r++)
        for (int h = 0; h < 4; h++)
            sum[r][h] = vdupq_n_s32(0);
    for (int64_t q = 0; q < t->quads; q++, a += t->a_rows * 4, b += LINE) {
        if (t->streams)
            __builtin_prefetch(b + PREFETCH, 0, 2);
        int8x8_t x[4] = {vld1_s8(b), vld1_s8(b + 8), vld1_s8(b + 16), vld1_s8(b + 24)};
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            int8x8_t v = vreinterpret_s8_s32(vld1_dup_s32((const void *)(a + r * 4)));
#pragma GCC unroll 4
            for (int h = 0; h < 4; h++)
                sum[r][h] = vpadalq_s16(sum[r][h], vmull_s8(x[h], v));
        }
    }
    for (int r = 0; r < 4 && first + r < t->rows; r++)
        for (int h = 0; h < 2; h++)
            store(t, vpaddq_s32(sum[r][2 * h], sum[r][2 * h + 1]), first + r, at + h * 4);
    (void)rows;
}
#endif

/* A tile has room for TILE_ROWS rows, whatever t->rows says: those that are not there are computed in vain. */
void MX_FAST(w8a8_tile)(const mx_w8a8_tile *t) {
    for (int64_t at = 0; at < MX_PANEL; at += STRIP)
        for (int64_t first = 0; first < t->rows; first += ROW_STEP) {
            if (t->rows - first > 4)
                strip(t, first, at, 8);
            else
                strip(t, first, at, 4);
        }
}
