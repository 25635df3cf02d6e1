/* base/clock.h - a monotonic clock. */
#ifndef MX_CLOCK_H
#define MX_CLOCK_H
#include <stdint.h>
#include <time.h>

static inline int64_t mx_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double mx_since_ms(int64_t start_ns) { return (double)(mx_now_ns() - start_ns) / 1e6; }
#endif
