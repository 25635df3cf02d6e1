/* device/cpu/simd/blocks_tmpl.c - ggml's blocks of 32 elements to f32: a panel of weights that stay in their codes.
 * The bytes of 32 blocks, one of each column, are transposed; then an element of all columns is one vector after
 * another: code, fifth bit, minus the middle, times the scale (plus the minimum). Invariant: the bits of
 * mx_blocks_widen: every product is exact, so a sum is rounded once, fused or not. */
#include "device/cpu/simd/simd.h"

#define BLOCK 32
#define CODES 16   /* bytes of codes of four bits: element i, and i + 16 above it */

/* The fields of one block of each column, side by side. */
typedef struct fields {
    _Alignas(64) uint8_t codes[BLOCK][MX_PANEL];
    uint16_t scale[MX_PANEL], minimum[MX_PANEL];
    uint32_t high[MX_PANEL];
} fields;

/* Where they are in a block: the scale is first. */
typedef struct form {
    int bits, has_minimum;
} form;

MX_INLINE int codes_at(const form f) { return 2 + 2 * f.has_minimum + (f.bits == 5 ? 4 : 0); }

/* Sixteen bytes of sixteen columns: y[i][j] = x[j][i]. */
MX_INLINE void transpose_8(uint8_t (*y)[MX_PANEL], const uint8_t *x, size_t row_bytes) {
    vh r[16], s[16];
    for (int j = 0; j < 16; j++)
        r[j] = vh_load(x + (size_t)j * row_bytes);
    for (int j = 0; j < 8; j++) {   /* a column and that eight further: then every stage is the same */
        s[2 * j] = vh_low8(r[j], r[j + 8]);
        s[2 * j + 1] = vh_high8(r[j], r[j + 8]);
    }
    for (int j = 0; j < 8; j++) {
        r[2 * j] = vh_low8(s[j], s[j + 8]);
        r[2 * j + 1] = vh_high8(s[j], s[j + 8]);
    }
    for (int j = 0; j < 8; j++) {
        s[2 * j] = vh_low8(r[j], r[j + 8]);
        s[2 * j + 1] = vh_high8(r[j], r[j + 8]);
    }
    for (int j = 0; j < 8; j++) {
        vh_store(y[2 * j], vh_low8(s[j], s[j + 8]));
        vh_store(y[2 * j + 1], vh_high8(s[j], s[j + 8]));
    }
}

MX_INLINE void read_fields(fields *b, const uint8_t *x, size_t row_bytes, const form f) {
    for (int j = 0; j < MX_PANEL; j++) {
        const uint8_t *block = x + (size_t)j * row_bytes;
        memcpy(&b->scale[j], block, 2);
        if (f.has_minimum)
            memcpy(&b->minimum[j], block + 2, 2);
        if (f.bits == 5)
            memcpy(&b->high[j], block + codes_at(f) - 4, 4);
    }
    for (int i = 0; i < (f.bits == 8 ? BLOCK : CODES); i += 16)
        for (int j = 0; j < MX_PANEL; j += 16) {
            uint8_t(*to)[MX_PANEL] = (void *)((uint8_t *)b->codes + i * MX_PANEL + j);
            transpose_8(to, x + (size_t)j * row_bytes + codes_at(f) + i, row_bytes);
        }
}

MX_INLINE vf value(vi code, vf scale, vf minimum, const form f) {
    if (f.has_minimum)
        return vf_fma(vi_to_floats(code), scale, minimum);
    return vf_mul(vi_to_floats(f.bits == 8 ? code : vi_sub(code, vi_set1(1 << (f.bits - 1)))), scale);
}

/* One vector of columns: its elements, MX_PANEL floats apart. */
MX_INLINE void widen_columns(float *y, const fields *b, int j, const form f) {
    vf scale = vf_load_f16(&b->scale[j]), minimum = f.has_minimum ? vf_load_f16(&b->minimum[j]) : vf_zero();
    if (f.bits == 8) {
        for (int i = 0; i < BLOCK; i++)
            vf_store(y + i * MX_PANEL + j, value(vi_load_i8(&b->codes[i][j]), scale, minimum, f));
        return;
    }
    vi four = vi_set1(15), bit = vi_set1(16);
    vi low = f.bits == 5 ? vi_load(&b->high[j]) : four, high = low;
    if (f.bits == 5) {   /* the fifth bits of elements 0 and 16 to bit 4 */
        high = vi_srl(low, 12);
        low = vi_shl(low, 4);
    }
    for (int i = 0; i < CODES; i++) {
        vi both = vi_load_u8(&b->codes[i][j]), first = vi_and(both, four), second = vi_srl(both, 4);
        if (f.bits == 5) {
            first = vi_or(first, vi_and(low, bit));
            second = vi_or(second, vi_and(high, bit));
            low = vi_srl(low, 1);
            high = vi_srl(high, 1);
        }
        vf_store(y + i * MX_PANEL + j, value(first, scale, minimum, f));
        vf_store(y + (i + CODES) * MX_PANEL + j, value(second, scale, minimum, f));
    }
}

MX_INLINE void widen_panel(float *y, const uint8_t *x, const mx_block_type *type, size_t row_bytes, int64_t k,
                           const form f) {
    for (int64_t p = 0; p < k; p += BLOCK, x += type->bytes, y += BLOCK * MX_PANEL) {
        fields b;
        read_fields(&b, x, row_bytes, f);
        for (int j = 0; j < MX_PANEL; j += VL)
            widen_columns(y, &b, j, f);
    }
}

void MX_FAST(blocks_panel)(float *y, const void *x, const mx_block_type *type, size_t row_bytes, int64_t columns,
                           int64_t k) {
    int id = columns == MX_PANEL ? (int)type->id : -1;
    switch (id) {
    case 2: widen_panel(y, x, type, row_bytes, k, (form){4, 0}); break;
    case 3: widen_panel(y, x, type, row_bytes, k, (form){4, 1}); break;
    case 6: widen_panel(y, x, type, row_bytes, k, (form){5, 0}); break;
    case 7: widen_panel(y, x, type, row_bytes, k, (form){5, 1}); break;
    case 8: widen_panel(y, x, type, row_bytes, k, (form){8, 0}); break;
    default: MX_REF(blocks_panel)(y, x, type, row_bytes, columns, k);
    }
}
