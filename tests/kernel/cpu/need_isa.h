/* need_isa.h - for tests of one instruction set, which MXW_CPU names. */
#ifndef NEED_ISA_H
#define NEED_ISA_H
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"

/* Called first. Exits as skipped where that set cannot be used: the kernels of another one would run. */
static inline void need_isa(void) {
    const char *isa = getenv("MXW_CPU");
    if (!isa || mx_cpu_enable(isa))
        return;
    printf("SKIP: %s: this processor does not have it\n", isa);
    exit(77);
}
#endif
