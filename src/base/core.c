/* base/core.c - see core.h. */
#include "base/core.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_NS 3000   /* the CPU clock of a running thread advances within this */

int mx_core_now(void) { return sched_getcpu(); }

int mx_core_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : -1;
}

int mx_core_is_waiting(pthread_t thread) {
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock) != 0)
        return 0;
    int64_t before = clock_ns(clock), start = mx_now_ns();
    while (mx_now_ns() - start < LOOK_NS)
        ;
    return before >= 0 && clock_ns(clock) == before;
}

void mx_core_move_here(pthread_t thread) {
    cpu_set_t allowed, here;
    int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE || pthread_getaffinity_np(thread, sizeof(allowed), &allowed) != 0 ||
        !CPU_ISSET(core, &allowed))
        return;
    CPU_ZERO(&here);
    CPU_SET(core, &here);
    if (pthread_setaffinity_np(thread, sizeof(here), &here) == 0)
        pthread_setaffinity_np(thread, sizeof(allowed), &allowed);
}

void mx_core_leave(void) {
    cpu_set_t allowed, elsewhere;
    int core = sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return;
    elsewhere = allowed;
    CPU_CLR(core, &elsewhere);
    if (CPU_COUNT(&elsewhere) > 0 && sched_setaffinity(0, sizeof(elsewhere), &elsewhere) == 0)
        sched_setaffinity(0, sizeof(allowed), &allowed);
}
