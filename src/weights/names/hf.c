/* weights/names/hf.c - the names that Hugging Face's Whisper has, from hf.def, for every container that uses them; what
 * such a checkpoint may have besides, and what must then hold. */
#include <stdio.h>
#include <string.h>

#include "weights/store.h"

#define PREFIX "model."

static void source_bare(const char *pattern, int layer, mx_tensor_source *source) {
    static const struct {
        const char *canonical, *name;
    } names[] = {
#define MX_HF(canonical, name) {canonical, name},
#define MX_HF_ZERO(side, name)
#include "weights/names/hf.def"
#undef MX_HF
#undef MX_HF_ZERO
    };
    *source = (mx_tensor_source){.parts = 1};
    for (size_t i = 0; i < MX_COUNT(names); i++)
        if (strcmp(names[i].canonical, pattern) == 0)
            mx_arch_name(names[i].name, layer, source->name, sizeof(source->name));
}

static void source_hf(const char *pattern, int layer, mx_tensor_source *source) {
    mx_tensor_source bare;
    source_bare(pattern, layer, &bare);
    *source = (mx_tensor_source){.parts = 1};
    snprintf(source->name, sizeof(source->name), PREFIX "%.150s", bare.name);
}

static mxw_status check_zeros(mx_weights *w, const char *prefix) {
    enum { ENCODER, DECODER };
    static const struct {
        int side;
        const char *name;
    } zeros[] = {
#define MX_HF(canonical, name)
#define MX_HF_ZERO(side, name) {side, name},
#include "weights/names/hf.def"
#undef MX_HF
#undef MX_HF_ZERO
    };
    mxw_status status = MXW_OK;
    for (size_t i = 0; i < MX_COUNT(zeros); i++) {
        int layers = zeros[i].side == ENCODER ? w->dims.n_audio_layer : w->dims.n_text_layer;
        for (int layer = 0; layer < layers && status == MXW_OK; layer++) {
            mx_tensor_source source = {.parts = 1};
            char name[120];
            mx_arch_name(zeros[i].name, layer, name, sizeof(name));
            snprintf(source.name, sizeof(source.name), "%s%s", prefix, name);
            mx_raw *raw = mx_raw_find(w, source.name);
            status = raw ? mx_rule_zero_bias(raw, &source) : MXW_OK;
        }
    }
    return status;
}

/* What such a checkpoint has besides Whisper's tensors changes nothing, and the files beside it agree. */
static mxw_status check_hf(mx_weights *w) {
    int bare = w->naming == &mx_names_hf_bare;
    mxw_status status;
    MX_TRY(check_zeros(w, bare ? "" : PREFIX));
    MX_TRY(mx_rule_tied(w, bare ? "decoder.embed_tokens.weight" : PREFIX "decoder.embed_tokens.weight",
                        "proj_out.weight"));
    MX_TRY(mx_hf_config_check(w));
out:
    return status;
}

static mxw_status settle_hf(mx_weights *w) {
    mxw_status status = mx_compressed_settle(w);
    return status < 0 ? status : mx_hf_config_load(w);
}

/* A WhisperForConditionalGeneration. */
const mx_naming mx_names_hf = {
    .encoder_layer = PREFIX "encoder.layers.",
    .decoder_layer = PREFIX "decoder.layers.",
    .folder = 1,
    .settle = settle_hf,
    .source = source_hf,
    .check = check_hf,
};

/* A WhisperModel alone. */
const mx_naming mx_names_hf_bare = {
    .encoder_layer = "encoder.layers.",
    .decoder_layer = "decoder.layers.",
    .folder = 1,
    .settle = settle_hf,
    .source = source_bare,
    .check = check_hf,
};
