/* device/cpu/ref/w8a8.c - products in 8 bits (gemm/w8a8.h) as plain loops.
 * Invariant: sums are integers that fit in 32 bits, so their order does not matter; every rounding of f32 is one
 * operation of its own. */
#include "device/cpu/kernels.h"

#include <math.h>
#include <string.h>

#include "device/cpu/ref/int8.h"

#define PART 256   /* numbers of a row at a time: a multiple of four */

void MX_REF(w8a8_blocks)(mx_w8a8_blocks *out) {
    *out = (mx_w8a8_blocks){.tile_rows = 8, .tile_panels = 1, .row_block = 128, .bytes = 1, .adjacent = 1};
}

void MX_REF(w8a8_begin)(int64_t rows) {}
void MX_REF(w8a8_end)(void) {}

static mx_int8_range range_of(const float *x, int64_t k) {
    int32_t most = 0;
    uint32_t least = 0;
    for (int64_t i = 0; i < k; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        most = MX_MAX(most, bits);
        least = MX_MAX(least, (uint32_t)bits);
    }
    return mx_int8_range_of(most, least);
}

/* Non-finite rows keep a scale that is not finite: 0 times that is NaN, in every column. */
void MX_REF(w8a8_row)(void *y, int64_t stride, float *scale, int32_t *shift, const float *x, int64_t k) {
    const mx_int8_range range = range_of(x, k);
    char *to = y;
    *scale = range.scale;
    *shift = range.shift;
    for (int64_t from = 0; from < k; from += PART) {
        int8_t part[PART];
        int64_t n = MX_MIN(PART, k - from);
        for (int64_t i = 0; i < n; i++) {
            int32_t p = mx_int8_rounded(x[from + i] * range.step) - range.shift;
            part[i] = (int8_t)(range.step > 0 ? MX_MIN(p, 127) : 0);
        }
        for (int64_t i = n; i % 4; i++)
            part[i] = 0;
        for (int64_t i = 0; i < n; i += 4, to += stride)
            memcpy(to, part + i, 4);
    }
}

/* One row and one panel. */
static void panel_sums(int32_t sum[MX_PANEL], const int8_t *a, int64_t a_rows, const int8_t *b, int64_t quads) {
    for (int64_t q = 0; q < quads; q++, a += a_rows * 4, b += MX_PANEL * 4)
        for (int64_t j = 0; j < MX_PANEL; j++)
            sum[j] += a[0] * b[4 * j] + a[1] * b[4 * j + 1] + a[2] * b[4 * j + 2] + a[3] * b[4 * j + 3];
}

void MX_REF(w8a8_tile)(const mx_w8a8_tile *t) {
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t column = 0; column < t->panels * MX_PANEL; column += MX_PANEL) {
            int32_t sum[MX_PANEL] = {0};
            float *y = t->y + r * t->ldy + column;
            panel_sums(sum, (const int8_t *)t->a + r * 4, t->a_rows, t->b + column * t->quads * 4, t->quads);
            for (int64_t j = 0; j < MX_PANEL; j++)
                y[j] = (float)(sum[j] + t->row_shifts[r] * t->sums[column + j]) *
                       (t->scales[column + j] * t->row_scales[r]);
            for (int64_t j = 0; t->bias && j < MX_PANEL; j++)
                y[j] += t->bias[column + j];
            for (int64_t j = 0; t->residual && j < MX_PANEL; j++)
                y[j] += t->residual[r * t->ld_residual + column + j];
        }
}
