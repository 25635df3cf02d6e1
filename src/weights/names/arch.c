/* weights/names/arch.c - the tensors that the dimensions require, from tensors.def, and whether dimensions are
 * plausible. */
#include <stdio.h>
#include <string.h>

#include "weights/store.h"

enum scope { ENCODER, ENCODER_LAYER, DECODER, DECODER_LAYER };
enum size { NONE, KERNEL, MELS, AUDIO_CTX, AUDIO_STATE, AUDIO_WIDE, VOCAB, TEXT_CTX, TEXT_STATE, TEXT_WIDE };

static const struct line {
    enum scope scope;
    const char *pattern;
    int rank;
    enum size sizes[3];
} lines[] = {
#define MX_TENSOR(scope, name, rank, d0, d1, d2) {scope, name, rank, {d0, d1, d2}},
#include "weights/names/tensors.def"
#undef MX_TENSOR
};

static int64_t size_of(const mxw_dims *d, enum size size) {
    switch (size) {
    case NONE: return 0;
    case KERNEL: return 3;
    case MELS: return d->n_mels;
    case AUDIO_CTX: return d->n_audio_ctx;
    case AUDIO_STATE: return d->n_audio_state;
    case AUDIO_WIDE: return 4 * (int64_t)d->n_audio_state;
    case VOCAB: return d->n_vocab;
    case TEXT_CTX: return d->n_text_ctx;
    case TEXT_STATE: return d->n_text_state;
    case TEXT_WIDE: return 4 * (int64_t)d->n_text_state;
    }
    return 0;
}

/* Lines from `first` that share its scope: a group, repeated for each layer. */
static size_t group_length(size_t first) {
    size_t n = 1;
    while (first + n < MX_COUNT(lines) && lines[first + n].scope == lines[first].scope)
        n++;
    return n;
}

static int64_t repeats(const mxw_dims *d, enum scope scope) {
    return scope == ENCODER_LAYER ? d->n_audio_layer : scope == DECODER_LAYER ? d->n_text_layer : 1;
}

int64_t mx_arch_count(const mxw_dims *dims) {
    int64_t n = 0;
    for (size_t i = 0; i < MX_COUNT(lines); i++)
        n += repeats(dims, lines[i].scope);
    return n;
}

mx_arch_tensor mx_arch_get(const mxw_dims *dims, int64_t index) {
    size_t first = 0, n = group_length(0);
    while (index >= (int64_t)n * repeats(dims, lines[first].scope)) {
        index -= (int64_t)n * repeats(dims, lines[first].scope);
        first += n;
        n = group_length(first);
    }
    const struct line *line = &lines[first + (size_t)(index % (int64_t)n)];
    mx_arch_tensor t = {.pattern = line->pattern, .layer = -1, .rank = line->rank};
    t.encoder = line->scope == ENCODER || line->scope == ENCODER_LAYER;
    if (line->scope == ENCODER_LAYER || line->scope == DECODER_LAYER)
        t.layer = (int)(index / (int64_t)n);
    for (int i = 0; i < 3; i++)
        t.dims[i] = size_of(dims, line->sizes[i]);
    return t;
}

void mx_arch_name(const char *pattern, int layer, char *out, size_t n) {
    const char *mark = strchr(pattern, '#');
    if (!mark)
        snprintf(out, n, "%s", pattern);
    else
        snprintf(out, n, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 1);
}

mxw_status mx_dims_check(const mxw_dims *d) {
    /* Far above every released model, and small enough that products do not overflow 64 bits. */
    const struct {
        const char *name;
        int32_t value, max;
    } bounds[] = {
        {"n_mels", d->n_mels, 1024},           {"n_audio_ctx", d->n_audio_ctx, 1 << 20},
        {"n_audio_state", d->n_audio_state, 1 << 16}, {"n_audio_head", d->n_audio_head, 1 << 12},
        {"n_audio_layer", d->n_audio_layer, 1 << 10}, {"n_vocab", d->n_vocab, 1 << 24},
        {"n_text_ctx", d->n_text_ctx, 1 << 20}, {"n_text_state", d->n_text_state, 1 << 16},
        {"n_text_head", d->n_text_head, 1 << 12}, {"n_text_layer", d->n_text_layer, 1 << 10},
    };
    for (size_t i = 0; i < MX_COUNT(bounds); i++)
        if (bounds[i].value < 1 || bounds[i].value > bounds[i].max)
            return mx_fail(MXW_E_FORMAT, "dims: %s is %d, not in 1..%d", bounds[i].name, (int)bounds[i].value,
                           (int)bounds[i].max);
    if (d->n_audio_state % d->n_audio_head || d->n_text_state % d->n_text_head)
        return mx_fail(MXW_E_FORMAT, "dims: states of %d and %d do not divide into %d and %d heads",
                       (int)d->n_audio_state, (int)d->n_text_state, (int)d->n_audio_head, (int)d->n_text_head);
    if (d->n_audio_state != d->n_text_state)
        return mx_fail(MXW_E_UNSUPPORTED, "dims: encoder state %d and decoder state %d differ; they must be the same",
                       (int)d->n_audio_state, (int)d->n_text_state);
    return MXW_OK;
}
