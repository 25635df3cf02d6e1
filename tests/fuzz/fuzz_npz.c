/* tests/fuzz/fuzz_npz.c - any bytes as a .npz of features. Invariants: refused with one line, or arrays whose
 * statistics can be read and that compare equal to themselves. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lab/lab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t live = mx_mem_live();
    mx_features *f = NULL;
    mx_comparison *c = NULL;
    mxw_status status = mx_features_read(data, size, &f);
    if (status < 0 && (!*mx_error() || strchr(mx_error(), '\n') || f))
        abort();
    if (status >= 0 && mx_comparison_open(f, f, &c) >= 0)
        for (size_t i = 0; i < c->n; i++)
            if (c->rows[i].bad && f->stages[i].info.n_not_finite == 0)
                abort();
    mx_comparison_close(c);
    mx_features_close(f);
    if (mx_mem_live() != live)
        abort();
    return 0;
}
