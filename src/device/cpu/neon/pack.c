/* device/cpu/neon/pack.c - halves to floats, and the transposition that packs a weight, for 64-bit ARM.
 * Elements may lie at any address: they are loaded as bytes. */
#include "device/cpu/kernels.h"

#include <arm_neon.h>
#include <string.h>

void MX_FAST(widen_f16)(float *y, const void *x, int64_t n) {
    const uint8_t *from = x;
    for (; n >= 4; n -= 4, from += 8, y += 4)
        vst1q_f32(y, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from))));
    if (n > 0) {
        uint8_t rest[8] = {0};
        float wide[4];
        memcpy(rest, from, (size_t)n * 2);
        vst1q_f32(wide, vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(rest))));
        memcpy(y, wide, (size_t)n * sizeof(float));
    }
}

/* ---- transposition ----------------------------------------------------------------------------------------------- */

static inline uint32x4_t load(const char *x) { return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)x)); }
static inline uint32x4_t low16(uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u16(vzip1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
}
static inline uint32x4_t high16(uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u16(vzip2q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
}
static inline void store(char *y, uint32x4_t a, uint32x4_t b, int high) {
    uint64x2_t l = vreinterpretq_u64_u32(a), r = vreinterpretq_u64_u32(b);
    vst1q_u8((uint8_t *)y, vreinterpretq_u8_u64(high ? vzip2q_u64(l, r) : vzip1q_u64(l, r)));
}

/* Eight columns of eight elements: y[p][j] = x[j][p]. */
static inline void transpose_16(char *y, const char *x, int64_t ld) {
    uint32x4_t r[8], s[8];
    for (int j = 0; j < 8; j++)
        r[j] = load(x + j * ld * 2);
    for (int j = 0; j < 8; j += 2) {
        s[j] = low16(r[j], r[j + 1]);        /* elements 0 to 3 of two columns */
        s[j + 1] = high16(r[j], r[j + 1]);   /* 4 to 7 */
    }
    for (int j = 0; j < 8; j += 4)
        for (int h = 0; h < 2; h++) {
            r[j + 2 * h] = vzip1q_u32(s[j + h], s[j + h + 2]);       /* two elements of four columns */
            r[j + 2 * h + 1] = vzip2q_u32(s[j + h], s[j + h + 2]);
        }
    for (int p = 0; p < 8; p++)
        store(y + p * MX_PANEL * 2, r[p / 2], r[p / 2 + 4], p % 2);
}

/* Four columns of four elements. */
static inline void transpose_32(char *y, const char *x, int64_t ld) {
    uint32x4_t r[4], s[4];
    for (int j = 0; j < 4; j++)
        r[j] = load(x + j * ld * 4);
    for (int j = 0; j < 4; j += 2) {
        s[j] = vzip1q_u32(r[j], r[j + 1]);
        s[j + 1] = vzip2q_u32(r[j], r[j + 1]);
    }
    for (int p = 0; p < 4; p++)
        store(y + p * MX_PANEL * 4, s[p / 2], s[p / 2 + 2], p % 2);
}

/* What is left of a panel whose columns or rows are not a multiple of a block. */
static void rest(char *y, const char *x, int64_t ld, int64_t columns, int64_t first, int64_t k, size_t bytes) {
    for (int64_t p = first; p < k; p++) {
        char *row = y + (size_t)(p * MX_PANEL) * bytes;
        for (int64_t j = 0; j < columns; j++)
            memcpy(row + (size_t)j * bytes, x + (size_t)(j * ld + p) * bytes, bytes);
        memset(row + (size_t)columns * bytes, 0, (size_t)(MX_PANEL - columns) * bytes);
    }
}

void MX_FAST(pack_panel_16)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    int64_t p = 0;
    for (; p + 8 <= k && columns == MX_PANEL; p += 8)
        for (int64_t j = 0; j < MX_PANEL; j += 8)
            transpose_16((char *)y + (p * MX_PANEL + j) * 2, (const char *)x + (j * ld + p) * 2, ld);
    rest(y, x, ld, columns, p, k, 2);
}

void MX_FAST(pack_panel_32)(void *y, const void *x, int64_t ld, int64_t columns, int64_t k) {
    int64_t p = 0;
    for (; p + 4 <= k && columns == MX_PANEL; p += 4)
        for (int64_t j = 0; j < MX_PANEL; j += 4)
            transpose_32((char *)y + (p * MX_PANEL + j) * 4, (const char *)x + (j * ld + p) * 4, ld);
    rest(y, x, ld, columns, p, k, 4);
}
