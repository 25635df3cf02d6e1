/* Any bytes as the files beside a model.bin (config.json, vocabulary.json, vocabulary.txt) or a model.safetensors
 * (config.json, generation_config.json, vocab.json). Invariants: refused with one line, or heads that the model
 * has, sizes that are positive where stated, and a count of tokens that fits the bytes. */
#include "fuzz_checkpoint.h"

static void try_heads(mxw_status (*parse)(const uint8_t *, size_t, mx_weights *), const uint8_t *data, size_t n) {
    mx_weights w = {.path = "memory", .dims = {.n_text_layer = 4, .n_text_head = 6, .n_vocab = 51865}};
    mxw_status status = parse(data, n, &w);
    if (status < 0)
        must_be_one_line();
    for (size_t i = 0; status == MXW_OK && i < w.n_heads; i++)
        must(w.heads[i][0] >= 0 && w.heads[i][0] < 4 && w.heads[i][1] >= 0 && w.heads[i][1] < 6);
    mx_arena_free(&w.arena);
}

static void try_hugging_face(const uint8_t *data, size_t n) {
    mxw_dims dims;
    if (mx_hf_config_parse(data, n, &dims) < 0)
        must_be_one_line();
    else
        must(dims.n_mels >= 0 && dims.n_vocab >= 0 && dims.n_text_state >= 0 && dims.n_text_head >= 0 &&
             dims.n_audio_head >= 0 && dims.n_audio_layer >= 0 && dims.n_text_layer >= 0);
    if (mx_hf_vocabulary_check(data, n, 51865) < 0)
        must_be_one_line();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    int64_t live = mx_mem_live();
    try_heads(mx_config_parse, data, n);
    try_heads(mx_hf_generation_parse, data, n);
    try_hugging_face(data, n);
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
