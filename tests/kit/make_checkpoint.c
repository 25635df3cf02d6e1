/* make_checkpoint.c - writes a random checkpoint by hand: for fuzz seeds, and to try a size that cannot be fetched.
 *   make_checkpoint FORMAT f32|f16|bf16|i8|q5_0|... OUT [NAME|narrow|small|least [layers [seed]]]
 * FORMAT is pt, ggml or gguf, then OUT is a file, or ct2 or safetensors, then it is a folder. NAME: a released one.
 * narrow: tiny.en but 16 wide, which transcribes, nonsense, in no time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/gen_checkpoint.h"
#include "tensor/blocks.h"

static mxw_dims dims_of(const char *size, int layers) {
    if (strcmp(size, "small") == 0)
        return gen_small_dims();
    if (strcmp(size, "least") == 0)
        return gen_least_dims();
    if (strcmp(size, "narrow") != 0)
        return gen_released_dims(size, layers);
    mxw_dims dims = gen_released_dims("tiny.en", layers);
    dims.n_audio_state = dims.n_text_state = 16;
    dims.n_audio_head = dims.n_text_head = 1;
    return dims;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        mxw_dtype dtype;
    } types[] = {{"f32", MXW_F32}, {"f16", MXW_F16}, {"bf16", MXW_BF16}, {"i8", MXW_I8}};
    gen_options o = {.seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1};
    size_t type = 0;
    o.blocks = argc > 3 && mx_block_type_find(argv[2]) ? argv[2] : NULL;
    while (argc > 3 && !o.blocks && type < MX_COUNT(types) && strcmp(types[type].name, argv[2]) != 0)
        type++;
    static const struct {
        const char *name;
        int (*write)(const char *, const gen_options *);
    } formats[] = {{"pt", gen_pt}, {"ct2", gen_ct2}, {"safetensors", gen_safetensors},
                 {"ggml", gen_ggml},           {"gguf", gen_gguf}};
    size_t format = 0;
    while (argc > 3 && format < MX_COUNT(formats) && strcmp(formats[format].name, argv[1]) != 0)
        format++;
    const char *size = argc > 4 ? argv[4] : "small";
    if (argc < 4 || type == MX_COUNT(types) || format == MX_COUNT(formats) ||
        (types[type].dtype == MXW_I8 && formats[format].write != gen_ct2) ||
        (o.blocks && formats[format].write != gen_ggml && formats[format].write != gen_gguf) ||
        (strcmp(size, "small") != 0 && strcmp(size, "least") != 0 && strcmp(size, "narrow") != 0 &&
         !mx_released_find(size))) {
        fprintf(stderr, "usage: make_checkpoint pt|ggml|gguf|ct2|safetensors f32|f16|bf16|i8|q5_0… OUT "
                        "[NAME|narrow|small|least [LAYERS [SEED]]]\n");
        return 2;
    }
    o.dtype = types[type].dtype;
    o.dims = dims_of(size, argc > 5 ? atoi(argv[5]) : 1);
    if (o.blocks && o.dims.n_audio_state < mx_block_type_find(o.blocks)->elements)   /* a row is a block at least */
        o.dims.n_audio_state = o.dims.n_text_state = mx_block_type_find(o.blocks)->elements;
    return formats[format].write(argv[3], &o);
}
