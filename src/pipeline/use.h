/* pipeline/use.h - what a model's programs did: runs, work and time, of all its sessions together.
 * Counters only ever grow, and are read while others count: a reader sees each of them right, not all at one moment. */
#ifndef MX_USE_H
#define MX_USE_H
#include <stdatomic.h>

#include "base/clock.h"

typedef enum mx_use_kind { MX_USE_ENCODE, MX_USE_CROSS, MX_USE_PROMPT, MX_USE_STEP, MX_USE_FORCE,
                           MX_USE_COUNT } mx_use_kind;

typedef struct mx_use {
    struct {
        atomic_llong runs, items, cells, ns;
    } kinds[MX_USE_COUNT];
} mx_use;

/* One run that began at start_ns and is over. */
static inline void mx_use_add(mx_use *use, mx_use_kind kind, int64_t items, int64_t cells, int64_t start_ns) {
    atomic_fetch_add_explicit(&use->kinds[kind].runs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->kinds[kind].items, items, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->kinds[kind].cells, cells, memory_order_relaxed);
    atomic_fetch_add_explicit(&use->kinds[kind].ns, mx_now_ns() - start_ns, memory_order_relaxed);
}
#endif
