/* Any bytes as Silero VAD's weights: as a file (zip or safetensors), and as the data.pkl of a .jit whose storages are
 * all there, so that a right one opens at both rates and a wrong one meets real storages. */
#include "fuzz_checkpoint.h"
#include "kit/gen_silero.h"

static void try_silero(const uint8_t *data, size_t n, int rate) {
    int64_t live = mx_mem_live();
    mx_weights *w = NULL;
    mxw_status status = mx_silero_open_bytes(data, n, rate, &w);
    must(status == MXW_OK ? w != NULL : status < 0 && w == NULL);
    if (status == MXW_OK)
        try_tensors(w);
    else
        must_be_one_line();
    mx_weights_close(w);
    must(mx_mem_live() == live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mx_str pickle = {0}, file = {0};
    gen_silero options = {.seed = 1};
    try_silero(data, n, 16000);
    try_checkpoint(data, n);
    mx_str_add(&pickle, data, n);
    gen_silero_jit(&file, &options, &pickle);
    uint8_t *exact = malloc(file.n);   /* so that a sanitizer sees the first byte past the end */
    must(exact != NULL);
    memcpy(exact, file.data, file.n);
    try_silero(exact, file.n, 16000);
    try_silero(exact, file.n, 8000);
    free(exact);
    mx_str_free(&pickle);
    mx_str_free(&file);
    return 0;
}
