/* device/cpu/simd/pack_tmpl.c - f16 to f32 and back, and the transposition that packs a weight's panel. */
#include "device/cpu/simd/simd.h"

void MX_FAST(widen_f16)(float *y, const void *x, int64_t n) {
    const char *from = x;
    for (; n >= VL; n -= VL, from += VL * 2, y += VL)
        vf_store(y, vf_load_f16(from));
    if (n > 0) {
        uint16_t rest[VL] = {0};
        memcpy(rest, from, (size_t)n * 2);
        vf_store_first(y, vf_load_f16(rest), n);
    }
}

void MX_FAST(narrow_f16)(void *y, const float *x, int64_t n) {
    char *to = y;
    for (; n >= VL; n -= VL, to += VL * 2, x += VL)
        vf_store_f16(to, vf_load(x));
    if (n > 0) {
        uint16_t rest[VL];
        vf_store_f16(rest, vf_load_first(x, n));
        memcpy(to, rest, (size_t)n * 2);
    }
}

#if VL < 16   /* wider vectors gain nothing: the panels of the instruction set before stay */
/* Eight columns of eight elements: y[p][j] = x[j][p]. */
static inline void transpose_16(char *y, const char *x, int64_t ld) {
    vh r[8], s[8];
    for (int j = 0; j < 8; j++)
        r[j] = vh_load(x + j * ld * 2);
    for (int j = 0; j < 8; j += 2) {
        s[j] = vh_low16(r[j], r[j + 1]);        /* elements 0 to 3 of two columns */
        s[j + 1] = vh_high16(r[j], r[j + 1]);   /* 4 to 7 */
    }
    for (int j = 0; j < 8; j += 4)
        for (int h = 0; h < 2; h++) {
            r[j + 2 * h] = vh_low32(s[j + h], s[j + h + 2]);       /* two elements of four columns */
            r[j + 2 * h + 1] = vh_high32(s[j + h], s[j + h + 2]);
        }
    for (int p = 0; p < 4; p++) {
        vh_store(y + 2 * p * MX_PANEL * 2, vh_low64(r[p], r[p + 4]));
        vh_store(y + (2 * p + 1) * MX_PANEL * 2, vh_high64(r[p], r[p + 4]));
    }
}

/* VL columns of VL elements. */
static inline void transpose_32(float *y, const char *x, int64_t ld) {
    vf r[VL];
    for (int j = 0; j < VL; j++)
        r[j] = vf_load((const float *)(const void *)(x + j * ld * 4));
    vf_transpose(r);
    for (int p = 0; p < VL; p++)
        vf_store(y + p * MX_PANEL, r[p]);
}

/* The rest of a panel whose columns or rows are no multiple of a block. */
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
    for (; p + VL <= k && columns == MX_PANEL; p += VL)
        for (int64_t j = 0; j < MX_PANEL; j += VL)
            transpose_32((float *)y + p * MX_PANEL + j, (const char *)x + (j * ld + p) * 4, ld);
    rest(y, x, ld, columns, p, k, 4);
}
#endif
