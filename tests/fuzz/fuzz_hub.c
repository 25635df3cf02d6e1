/* Any bytes as the hub's list of a repository's files. Invariants: refused with one line, or files of plain names,
 * each with a sum that is one or none. */
#include "fuzz_checkpoint.h"
#include "hub/internal.h"

static void try_list(const uint8_t *data, size_t n, int model_bin) {
    mx_arena arena = {0};
    mx_hub_list list;
    if (mx_hub_list_parse(data, n, model_bin, &arena, &list) < 0) {
        must_be_one_line();
    } else {
        must(list.n > 0);
        for (size_t i = 0; i < list.n; i++) {
            must(list.files[i].name[0] != '.' && !strchr(list.files[i].name, '/'));
            must(!list.files[i].sha256 || strlen(list.files[i].sha256) == 64);
        }
        must(strlen(list.commit) == 40 || !list.commit[0]);
    }
    mx_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    int64_t live = mx_mem_live();
    try_list(data, n, 0);
    try_list(data, n, 1);
    must(mx_mem_live() == live);
    return 0;
}
