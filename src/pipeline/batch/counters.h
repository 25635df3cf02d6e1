/* pipeline/batch/counters.h - how often a model's programs ran, on how much work and for how long, all sessions
 * together. Invariant: counters only grow. They are read while other threads count: each value is right, but the values
 * need not be of the same moment. */
#ifndef MX_COUNTERS_H
#define MX_COUNTERS_H
#include <stdatomic.h>

#include "base/clock.h"

typedef enum mx_counter_kind { MX_COUNTER_ENCODE, MX_COUNTER_CROSS, MX_COUNTER_PROMPT, MX_COUNTER_STEP,
                               MX_COUNTER_FORCE, MX_COUNTER_KINDS } mx_counter_kind;

typedef struct mx_counters {
    struct {
        atomic_llong runs, items, cells, ns;
    } kinds[MX_COUNTER_KINDS];
} mx_counters;

/* Counts a run that started at start_ns and just ended. */
static inline void mx_counters_add(mx_counters *counters, mx_counter_kind kind, int64_t items, int64_t cells,
                                   int64_t start_ns) {
    atomic_fetch_add_explicit(&counters->kinds[kind].runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->kinds[kind].items, items, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->kinds[kind].cells, cells, memory_order_relaxed);
    atomic_fetch_add_explicit(&counters->kinds[kind].ns, mx_now_ns() - start_ns, memory_order_relaxed);
}
#endif
