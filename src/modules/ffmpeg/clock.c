/* modules/ffmpeg/clock.c - see clock.h. */
#include "modules/ffmpeg/clock.h"

#include <math.h>
#include <time.h>

#define LEAST_S 0.2            /* that are missing; less is trembling */
#define DRIFT 0.001            /* of clocks that are not the same: seconds in a second */
#define LONGEST_S (24 * 3600)  /* no more is believed of any */

/* With the time in which the machine slept. */
static double real_s(void) {
    struct timespec t;
#ifdef CLOCK_BOOTTIME
    clock_gettime(CLOCK_BOOTTIME, &t);
#else
    clock_gettime(CLOCK_MONOTONIC, &t);
#endif
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Back: the source says something again, or starts again. */
static double go_back(source_clock *clock, double by_s) {
    clock->ahead_s = by_s <= SOURCE_RESTART_S ? clock->ahead_s + by_s : 0;
    return 0;
}

/* Forward: no sound can be missing that there was no time for, where a jump may mean something else. */
static double go_forward(source_clock *clock, double by_s, double waited_s) {
    if (by_s > fmin(waited_s + clock->slack_s, LONGEST_S)) {
        clock->ahead_s = 0;
        return 0;
    }
    double there = fmin(by_s, clock->ahead_s);
    clock->ahead_s -= there;
    return by_s - there < LEAST_S ? 0 : by_s - there;
}

double source_clock_missing(source_clock *clock, double at_s, double length_s) {
    double now = real_s(), waited = now - clock->last_read_s;
    double jump = clock->begun && !isnan(at_s) ? at_s - clock->next_s : 0;
    clock->last_read_s = now;
    if (!clock->begun && isnan(at_s))
        return 0;
    if (!clock->begun)
        clock->next_s = at_s;
    clock->begun = 1;
    if (fabs(jump) < LEAST_S) {
        clock->next_s += length_s + fmax(-DRIFT * length_s, fmin(DRIFT * length_s, jump));
        return 0;
    }
    clock->next_s = at_s + length_s;
    return jump < 0 ? go_back(clock, -jump) : go_forward(clock, jump, waited);
}
