/* block_tensors.h - checks the tensors of a generated checkpoint whose matrices are in blocks: widened as
 * tensor/blocks.c does it. For the tests of ggml and GGUF. */
#ifndef BLOCK_TENSORS_H
#define BLOCK_TENSORS_H
#include "base/mem.h"
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "tensor/blocks.h"
#include "weights/weights.h"

static inline void check_block_tensors(mx_weights *w, const gen_options *o, const mx_block_type *type) {
    int64_t n_blocks = 0;
    for (int64_t i = 0; w && i < mx_weights_count(w); i++) {
        mxw_tensor_info t;
        mx_tensor view;
        CHECK_EQ_INT(mx_weights_tensor(w, i, &t, &view), MXW_OK);
        if (strcmp(t.stored, o->blocks) != 0)
            continue;
        size_t count = (size_t)mx_tensor_count(&view), bytes = count / (size_t)type->elements * (size_t)type->bytes;
        uint8_t *blocks = mx_alloc(bytes);
        float *want = mx_alloc(count * 4), *got = mx_alloc(count * 4);
        gen_blocks(o, t.name, bytes, blocks);
        mx_blocks_widen(type, blocks, (int64_t)count, want);
        CHECK(view.layout == MX_LAYOUT_QUANTIZED && mx_tensor_contiguous(&view));
        CHECK_EQ_INT(mx_weights_read_f32(w, i, got), MXW_OK);
        CHECK(t.dtype == MXW_F32 && !t.mapped && t.stored_bytes == bytes && memcmp(got, want, count * 4) == 0);
        mx_free(blocks);
        mx_free(want);
        mx_free(got);
        n_blocks++;
    }
    /* The matrices of a layer a side, and the embedding. */
    CHECK_EQ_INT(n_blocks, 6 + 1 + 10 + (o->kernel_blocks ? 2 : 0));
}

#endif
