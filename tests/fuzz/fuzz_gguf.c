/* Any bytes as a GGUF file. */
#include "fuzz_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    try_checkpoint(data, n);
    return 0;
}
