/* weights/names/naming.c - whose names the tensors of a file have; OpenAI's, which are the canonical ones. */
#include <string.h>

#include "weights/store.h"

#define MAX_HEADS 4096
#define HEADS "alignment_heads"

static int begins(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

const mx_naming *mx_naming_find(const mx_weights *w, const mx_naming *otherwise) {
    int gguf = 0, mlx = 0, hf = 0, bare = 0, openai = 0;
    for (size_t i = 0; i < w->n_raws; i++) {
        const char *name = w->raws[i].name;
        gguf |= begins(name, "enc.");
        mlx |= begins(name, "encoder.blocks.") && strstr(name, ".mlp1.");
        hf |= begins(name, "model.");
        bare |= begins(name, "encoder.layers.") || begins(name, "decoder.layers.");
        openai |= begins(name, "encoder.blocks.") || begins(name, "decoder.blocks.");
    }
    if (gguf)
        return &mx_names_gguf;
    if (hf || bare)
        return hf ? &mx_names_hf : &mx_names_hf_bare;
    if (openai)
        return mlx ? &mx_names_mlx : &mx_names_openai;
    return otherwise;
}

static void source_openai(const char *pattern, int layer, mx_tensor_source *source) {
    *source = (mx_tensor_source){.parts = 1};
    mx_arch_name(pattern, layer, source->name, sizeof(source->name));
}

/* A tensor of pairs, as MLX and our own .npz have it. */
mxw_status mx_heads_from_tensor(mx_weights *w) {
    mx_raw *raw = mx_raw_find(w, HEADS);
    const int64_t n = raw && raw->view.rank == 2 ? raw->view.dims[0] : 0;
    if (!raw)
        return MXW_OK;
    raw->used = 1;
    if (raw->quantized || n < 1 || n > MAX_HEADS || raw->view.dims[1] != 2)
        return mx_fail(MXW_E_FORMAT, "tensor " HEADS " is not a list of [layer, head]");
    float values[2 * MAX_HEADS];
    int32_t(*heads)[2] = mx_arena_alloc(&w->arena, (size_t)n * sizeof(*heads));
    if (!heads)
        return MXW_E_MEMORY;
    mxw_status status = mx_tensor_to_f32(&raw->view, values);
    for (int64_t i = 0; i < 2 * n; i++)
        heads[i / 2][i % 2] = values[i] >= 0 && values[i] < 1e6f ? (int32_t)values[i] : -1;
    return status < 0 ? status : mx_heads_take(w, (size_t)n, (const int32_t(*)[2])heads);
}

const mx_naming mx_names_openai = {
    .encoder_layer = "encoder.blocks.",
    .decoder_layer = "decoder.blocks.",
    .source = source_openai,
    .check = mx_heads_from_tensor,
};
