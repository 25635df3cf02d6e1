/* bench.c - kcheck --bench: how fast the kernels are beside what the machine can do. */
#include "kcheck.h"

int kcheck_bench(const char *filter) {
    printf("%s", filter);
    return 0;
}
