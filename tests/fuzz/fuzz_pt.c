/* Any bytes as an OpenAI .pt: the ZIP reader, and what stands on it. Pickles have a harness of their own, because the
 * checksum of data.pkl keeps most changed ones from being read here. */
#include "fuzz_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    try_checkpoint(data, n);
    return 0;
}
