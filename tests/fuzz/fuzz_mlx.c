/* Any bytes as an .npz of weights, as MLX has them, and as the config.json beside it. Invariants of a
 * configuration: refused with one line, or no number below 0. */
#include "fuzz_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mx_mlx_config config;
    int64_t live = mx_mem_live();
    try_checkpoint(data, n);
    if (mx_mlx_config_parse(data, n, &config) < 0)
        must_be_one_line();
    else
        must(config.bits >= 0 && config.group >= 0 && config.dims.n_mels >= 0 && config.dims.n_text_layer >= 0);
    must(mx_mem_live() == live);
    return 0;
}
