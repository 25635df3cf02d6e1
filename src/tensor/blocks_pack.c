/* tensor/blocks_pack.c - rounds f32 values into ggml's blocks of 32. Every step is that of libggml's
 * quantize_row_*_ref, in its order, so that the bytes are equal. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/blocks.h"
#include "tensor/tensor.h"

#define N 32

static void put_half(uint8_t *out, float x) {
    uint16_t half = mx_f32_to_f16(x);
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
}

static void put_word(uint8_t *out, uint32_t x) {
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(x >> (8 * i));
}

/* The value farthest from 0, with its sign; the first of equals. */
static float extreme(const float *x) {
    float largest = 0, at = 0;
    for (int i = 0; i < N; i++)
        if (largest < fabsf(x[i])) {
            largest = fabsf(x[i]);
            at = x[i];
        }
    return at;
}

static void range(const float *x, float *low, float *high) {
    *low = FLT_MAX;
    *high = -FLT_MAX;
    for (int i = 0; i < N; i++) {
        if (x[i] < *low)
            *low = x[i];
        if (x[i] > *high)
            *high = x[i];
    }
}

static float inverse(float x) { return x != 0 ? 1.0f / x : 0.0f; }

/* The whole number below, within a code: what a cast to int8_t gives for values that are finite. */
static unsigned code(float x, int top) {
    int whole = x > 127 ? 127 : x < -128 ? -128 : (int)x;
    return (unsigned)(whole > top ? top : whole);
}

void mx_pack_q4_0(const float *x, uint8_t *out) {
    const float d = extreme(x) / -8, id = inverse(d);
    put_half(out, d);
    for (int i = 0; i < N / 2; i++)
        out[2 + i] = (uint8_t)((code(x[i] * id + 8.5f, 15) & 255) | code(x[N / 2 + i] * id + 8.5f, 15) << 4);
}

void mx_pack_q4_1(const float *x, uint8_t *out) {
    float low, high;
    range(x, &low, &high);
    const float d = (high - low) / 15, id = inverse(d);
    put_half(out, d);
    put_half(out + 2, low);
    for (int i = 0; i < N / 2; i++)
        out[4 + i] = (uint8_t)((code((x[i] - low) * id + 0.5f, 15) & 255) |
                               code((x[N / 2 + i] - low) * id + 0.5f, 15) << 4);
}

/* Codes of 5 bits: nibbles, and the fifth bits in one word before them. */
static void put_five(const float *x, float low, float id, float half, uint8_t *out) {
    uint32_t high = 0;
    for (int i = 0; i < N / 2; i++) {
        const unsigned a = code((x[i] - low) * id + half, 31), b = code((x[N / 2 + i] - low) * id + half, 31);
        out[4 + i] = (uint8_t)((a & 15) | (b & 15) << 4);
        high |= (uint32_t)(a >> 4 & 1) << i | (uint32_t)(b >> 4 & 1) << (N / 2 + i);
    }
    put_word(out, high);
}

void mx_pack_q5_0(const float *x, uint8_t *out) {
    const float d = extreme(x) / -16;
    put_half(out, d);
    put_five(x, 0, inverse(d), 16.5f, out + 2);
}

void mx_pack_q5_1(const float *x, uint8_t *out) {
    float low, high;
    range(x, &low, &high);
    const float d = (high - low) / 31;
    put_half(out, d);
    put_half(out + 2, low);
    put_five(x, low, inverse(d), 0.5f, out + 4);
}

void mx_pack_q8_0(const float *x, uint8_t *out) {
    const float d = fabsf(extreme(x)) / 127, id = inverse(d);
    put_half(out, d);
    for (int i = 0; i < N; i++)
        out[2 + i] = (uint8_t)(int8_t)roundf(x[i] * id);
}

void mx_blocks_pack(const mx_block_type *type, const float *x, int64_t n, void *blocks) {
    uint8_t *to = blocks;
    float block[N];
    for (int64_t i = 0; i + N <= n; i += N, to += type->bytes) {
        memcpy(block, x + i, sizeof(block));   /* out may be x itself: a block is smaller than its values */
        type->pack(block, to);
    }
}
