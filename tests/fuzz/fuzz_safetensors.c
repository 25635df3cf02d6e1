/* Any bytes as a safetensors file, and as the index of several. Invariants of an index: refused with one line, or
 * names of files in its own folder, each once. */
#include "fuzz_checkpoint.h"

static void try_index(const uint8_t *data, size_t n) {
    mx_arena arena = {0};
    mx_shard_list list;
    if (mx_shards_parse(data, n, &arena, &list) < 0) {
        must_be_one_line();
    } else {
        must(list.n > 0);
        for (size_t i = 0; i < list.n; i++) {
            must(list.names[i][0] && list.names[i][0] != '.' && !strchr(list.names[i], '/'));
            must(i == 0 || strcmp(list.names[i - 1], list.names[i]) < 0);
        }
    }
    mx_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    int64_t live = mx_mem_live();
    try_checkpoint(data, n);
    try_index(data, n);
    must(mx_mem_live() == live);
    return 0;
}
