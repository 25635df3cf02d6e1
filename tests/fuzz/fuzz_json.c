/* Any bytes as the files beside a model.bin: config.json, vocabulary.json, vocabulary.txt. What must hold: refused with
 * one line, or heads that the model has and a count of tokens that fits the bytes. */
#include "fuzz_checkpoint.h"

static void try_config(const uint8_t *data, size_t n) {
    mx_weights w = {.dims = {.n_text_layer = 4, .n_text_head = 6}};
    mxw_status status = mx_config_parse(data, n, &w);
    if (status < 0)
        must_be_one_line();
    for (size_t i = 0; status == MXW_OK && i < w.n_heads; i++)
        must(w.heads[i][0] >= 0 && w.heads[i][0] < 4 && w.heads[i][1] >= 0 && w.heads[i][1] < 6);
    mx_arena_free(&w.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    int64_t live = mx_mem_live();
    try_config(data, n);
    for (int json = 0; json < 2; json++) {
        int64_t count = -1;
        if (mx_vocabulary_count(data, n, json, &count) < 0)
            must_be_one_line();
        else
            must(count >= 0 && count <= (int64_t)n);
    }
    must(mx_mem_live() == live);
    return 0;
}
