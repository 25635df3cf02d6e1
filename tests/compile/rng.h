/* rng.h - random numbers for tests: the same for the same seed, everywhere. */
#ifndef RNG_H
#define RNG_H
#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint32_t rng_word(rng *r) {   /* splitmix64 */
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}
static inline int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_word(r) % (uint32_t)n); }
static inline int rng_one_in(rng *r, int n) { return rng_below(r, n) == 0; }
static inline double rng_uniform(rng *r, double low, double high) {
    return low + (high - low) * (rng_word(r) / 4294967296.0);
}
#endif
