/* fuzz_checkpoint.h - invariants of any bytes taken for a checkpoint: refused with one line and nothing left
 * behind, or open with every tensor of its dimensions readable. */
#ifndef FUZZ_CHECKPOINT_H
#define FUZZ_CHECKPOINT_H
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "weights/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static inline void must(int condition) {
    if (!condition)
        abort();
}

static inline void must_be_one_line(void) { must(mx_error()[0] && !strchr(mx_error(), '\n')); }

static inline void try_tensors(const mx_weights *w) {
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mxw_tensor_info info;
        mx_tensor view, found;
        uint32_t crc;
        must(mx_weights_tensor(w, i, &info, &view) == MXW_OK && mx_dtype_is_float(info.dtype));
        must(mx_weights_index(w, info.name) == i && mx_weights_find(w, info.name, &found) == MXW_OK);
        must(mx_weights_find(w, info.file_name, &found) == MXW_OK);
        must(mx_weights_crc32(w, i, &crc) == MXW_OK);   /* reads every element */
    }
}

static inline void try_checkpoint(const uint8_t *data, size_t n) {
    int64_t live = mx_mem_live();
    mx_weights *w = NULL;
    mxw_status status = mx_weights_open_bytes(data, n, &w);
    must(status == MXW_OK ? w != NULL : status < 0 && w == NULL);
    if (status == MXW_OK) {
        size_t n_heads;
        must(mx_weights_alignment_heads(w, &n_heads) && n_heads > 0);
        try_tensors(w);
    } else {
        must_be_one_line();
    }
    mx_weights_close(w);
    must(mx_mem_live() == live);
}
#endif
