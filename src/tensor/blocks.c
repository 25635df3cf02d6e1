/* tensor/blocks.c - widens ggml's blocks to f32; see the header. d is a block's scale, m its minimum, both f16; s, t
 * are scales and minima of the groups within a block of 256. */
#include "tensor/blocks.h"

#include <string.h>

#include "tensor/tensor.h"

#define SMALL 32     /* elements of the older blocks */
#define LARGE 256    /* of the K types */

static float half_at(const uint8_t *p) { return mx_f16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

static uint32_t word_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- blocks of 32: low nibbles are the first half, high ones the second -------------------------------- */

static void widen_q4_0(const uint8_t *b, float *out) {
    float d = half_at(b);
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)((b[2 + i] & 15) - 8) * d;
        out[i + SMALL / 2] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

static void widen_q4_1(const uint8_t *b, float *out) {
    float d = half_at(b), m = half_at(b + 2);
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)(b[4 + i] & 15) * d + m;
        out[i + SMALL / 2] = (float)(b[4 + i] >> 4) * d + m;
    }
}

/* The fifth bits of elements 0 to 31 are the bits of one word. */
static int fifth(uint32_t high, int i) { return (int)(high >> i & 1) << 4; }

static void widen_q5_0(const uint8_t *b, float *out) {
    float d = half_at(b);
    uint32_t high = word_at(b + 2);
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)(((b[6 + i] & 15) | fifth(high, i)) - 16) * d;
        out[i + SMALL / 2] = (float)(((b[6 + i] >> 4) | fifth(high, i + SMALL / 2)) - 16) * d;
    }
}

static void widen_q5_1(const uint8_t *b, float *out) {
    float d = half_at(b), m = half_at(b + 2);
    uint32_t high = word_at(b + 4);
    for (int i = 0; i < SMALL / 2; i++) {
        out[i] = (float)((b[8 + i] & 15) | fifth(high, i)) * d + m;
        out[i + SMALL / 2] = (float)((b[8 + i] >> 4) | fifth(high, i + SMALL / 2)) * d + m;
    }
}

static void widen_q8_0(const uint8_t *b, float *out) {
    float d = half_at(b);
    for (int i = 0; i < SMALL; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

/* ---- blocks of 256 --------------------------------------------------------------------------------------- */

/* Two bits each: 32 bytes hold 128 elements, four to a byte, 32 apart. Groups of 16. */
static int two_bits(const uint8_t *codes, int i) {
    return codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

static void widen_q2_k(const uint8_t *b, float *out) {
    const uint8_t *scales = b, *codes = b + 16;
    float d = half_at(b + 80), m = half_at(b + 82);
    for (int i = 0; i < LARGE; i++) {
        uint8_t scale = scales[i / 16];
        float s = d * (float)(scale & 15), t = m * (float)(scale >> 4);
        out[i] = s * (float)two_bits(codes, i) - t;
    }
}

/* Sixteen scales of 6 bits: the low nibbles of bytes 0 to 7 and then their high ones; the upper two bits of scale j are
 * in byte 8 + j % 4. */
static int scale_q3(const uint8_t *p, int j) {
    int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
    return (low | (p[8 + j % 4] >> (j / 4 * 2) & 3) << 4) - 32;
}

static void widen_q3_k(const uint8_t *b, float *out) {
    const uint8_t *high = b, *codes = b + 32, *scales = b + 96;
    float d = half_at(b + 108);
    for (int i = 0; i < LARGE; i++) {
        float s = d * (float)scale_q3(scales, i / 16);
        int upper = high[i % 32] >> (i / 32) & 1;
        out[i] = s * (float)(two_bits(codes, i) - (upper ? 0 : 4));
    }
}

/* Scale and minimum of 6 bits for each of eight groups of 32, in 12 bytes. */
static void scale_q4(const uint8_t *p, int j, int *scale, int *minimum) {
    if (j < 4) {
        *scale = p[j] & 63;
        *minimum = p[j + 4] & 63;
    } else {
        *scale = (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        *minimum = p[j + 4] >> 4 | p[j] >> 6 << 4;
    }
}

/* q4_K, and q5_K, whose fifth bits are in 32 bytes before the codes: a bit of each byte for a group. */
static void widen_q45_k(const uint8_t *b, const uint8_t *high, const uint8_t *codes, float *out) {
    float d = half_at(b), m = half_at(b + 2);
    for (int group = 0; group < LARGE / 32; group++) {
        int scale, minimum;
        scale_q4(b + 4, group, &scale, &minimum);
        float s = d * (float)scale, t = m * (float)minimum;
        for (int i = 0; i < 32; i++) {
            int code = codes[group / 2 * 32 + i] >> (group % 2 * 4) & 15;
            if (high)
                code |= (high[i] >> group & 1) << 4;
            out[group * 32 + i] = s * (float)code - t;
        }
    }
}

static void widen_q4_k(const uint8_t *b, float *out) { widen_q45_k(b, NULL, b + 16, out); }

static void widen_q5_k(const uint8_t *b, float *out) { widen_q45_k(b, b + 16, b + 48, out); }

/* Low nibbles: 64 bytes hold 128 elements, the upper half in the high nibbles; two more bits as in two_bits. */
static void widen_q6_k(const uint8_t *b, float *out) {
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    float d = half_at(b + 208);
    for (int i = 0; i < LARGE; i++) {
        int nibble = low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
        int code = (nibble | two_bits(high, i) << 4) - 32;
        out[i] = d * (float)(int8_t)scales[i / 16] * (float)code;
    }
}

static void widen_q8_k(const uint8_t *b, float *out) {
    uint32_t bits = word_at(b);
    float d;
    memcpy(&d, &bits, sizeof(d));
    for (int i = 0; i < LARGE; i++)
        out[i] = d * (float)(int8_t)b[4 + i];
}

/* ---- the table ------------------------------------------------------------------------------------------- */

static const mx_block_type types[] = {
    {"q4_0", 2, SMALL, 18, widen_q4_0, mx_pack_q4_0}, {"q4_1", 3, SMALL, 20, widen_q4_1, mx_pack_q4_1},
    {"q5_0", 6, SMALL, 22, widen_q5_0, mx_pack_q5_0}, {"q5_1", 7, SMALL, 24, widen_q5_1, mx_pack_q5_1},
    {"q8_0", 8, SMALL, 34, widen_q8_0, mx_pack_q8_0}, {"q2_K", 10, LARGE, 84, widen_q2_k, NULL},
    {"q3_K", 11, LARGE, 110, widen_q3_k, NULL},       {"q4_K", 12, LARGE, 144, widen_q4_k, NULL},
    {"q5_K", 13, LARGE, 176, widen_q5_k, NULL},       {"q6_K", 14, LARGE, 210, widen_q6_k, NULL},
    {"q8_K", 15, LARGE, 292, widen_q8_k, NULL},
};

const mx_block_type *mx_block_type_get(uint32_t id) {
    for (size_t i = 0; i < MX_COUNT(types); i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

const mx_block_type *mx_block_type_find(const char *name) {
    for (size_t i = 0; i < MX_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

void mx_blocks_widen(const mx_block_type *type, const void *blocks, int64_t n, float *out) {
    const uint8_t *from = blocks;
    for (int64_t i = 0; i + type->elements <= n; i += type->elements, from += type->bytes)
        type->widen(from, out + i);
}
