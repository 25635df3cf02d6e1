/* tests/golden/randn.h - numpy.random.seed(n); numpy.random.randn: MT19937, 53-bit doubles, the polar method. */
#ifndef RANDN_H
#define RANDN_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef struct randn {
    uint32_t state[624];
    int at;
    int has_spare;
    double spare;
} randn;

static inline void randn_seed(randn *r, uint32_t seed) {
    for (uint32_t i = 0; i < 624; i++) {
        r->state[i] = seed;
        seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
    }
    r->at = 624;
    r->has_spare = 0;
}

static inline uint32_t randn_word(randn *r) {
    if (r->at == 624) {
        for (int i = 0; i < 624; i++) {
            uint32_t y = (r->state[i] & 0x80000000u) | (r->state[(i + 1) % 624] & 0x7fffffffu);
            r->state[i] = r->state[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        r->at = 0;
    }
    uint32_t y = r->state[r->at++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static inline double randn_uniform(randn *r) {
    uint32_t a = randn_word(r) >> 5, b = randn_word(r) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

static inline double randn_next(randn *r) {
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    double x, y, square;
    do {
        x = 2 * randn_uniform(r) - 1;
        y = 2 * randn_uniform(r) - 1;
        square = x * x + y * y;
    } while (square >= 1 || square == 0);
    double f = sqrt(-2 * log(square) / square);
    r->spare = f * x;
    r->has_spare = 1;
    return f * y;
}

/* n values of mean and deviation, rounded to f32 at the end. */
static inline void randn_fill(uint32_t seed, float *out, size_t n, double deviation, double mean) {
    randn r;
    randn_seed(&r, seed);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(randn_next(&r) * deviation + mean);
}
#endif
