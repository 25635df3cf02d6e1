/* gen_ggml.c - writes a random checkpoint as the file that whisper.cpp loads, and as GGUF; see gen_checkpoint.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kit/gen_internal.h"
#include "tensor/blocks.h"

#define MAGIC 0x67676d6c
#define N_BINS 201
#define GGML_BF16 30
#define ALIGNMENT 32

void gen_blocks(const gen_options *o, const char *canonical, size_t n, uint8_t *out) {
    uint64_t key = gen_mix(o->seed + 77);
    for (const char *p = canonical; *p; p++)
        key = gen_mix(key ^ (unsigned char)*p);
    for (size_t i = 0; i < n; i++)   /* below 0x40 no byte is the upper one of an f16 or f32 that is not finite */
        out[i] = (uint8_t)(gen_mix(key + i) & 0x3f);
}

/* As whisper.cpp's converter and quantizer do: vectors and positions f32, kernels of convolutions not in blocks. */
static uint32_t type_of(const gen_options *o, const gen_item *it, const mx_block_type **blocks) {
    int matrix = it->shape.rank > 1 && !strstr(it->name, "positional_embedding");
    int in_blocks = matrix && o->blocks && (it->shape.rank == 2 || o->kernel_blocks);
    *blocks = in_blocks ? mx_block_type_find(o->blocks) : NULL;
    if (*blocks)
        return (*blocks)->id;
    if (matrix && o->dtype == MXW_BF16)
        return GGML_BF16;
    return matrix && (o->blocks || o->dtype == MXW_F16) ? 1 : 0;
}

static size_t bytes_of(uint32_t type, const mx_block_type *blocks, int64_t n) {
    return blocks ? (size_t)(n / blocks->elements * blocks->bytes) : (size_t)n * (type ? 2 : 4);
}

static void put_elements(mx_str *s, const gen_options *o, const gen_item *it, uint32_t type,
                         const mx_block_type *blocks, int64_t n) {
    size_t bytes = bytes_of(type, blocks, n);
    float *values = mx_alloc((size_t)mx_tensor_count(&it->shape) * sizeof(*values));
    uint8_t *out = mx_alloc(bytes);
    if (values && out && blocks) {
        gen_blocks(o, it->name, bytes, out);
    } else if (values && out) {
        gen_values(o, it->name, &it->shape, values);
        gen_round_to(type == GGML_BF16 ? MXW_BF16 : type ? MXW_F16 : MXW_F32, values, n, out);
    }
    if (values && out)
        mx_str_add(s, out, bytes);
    mx_free(values);
    mx_free(out);
}

static void put_tensor(mx_str *s, const gen_options *o, const gen_item *it, const char *name) {
    const mx_block_type *blocks;
    uint32_t type = type_of(o, it, &blocks);
    mx_tensor shape = it->shape;
    int column = strstr(it->name, "encoder.conv") && shape.rank == 1;
    shape.dims[0] -= o->cut && strcmp(o->cut, name) == 0;
    gen_number(s, (uint64_t)(shape.rank + column), 4);
    gen_number(s, strlen(name), 4);
    gen_number(s, type, 4);
    if (column)
        gen_number(s, 1, 4);
    for (int i = shape.rank - 1; i >= 0; i--)
        gen_number(s, (uint64_t)shape.dims[i], 4);
    mx_str_text(s, name);
    put_elements(s, o, it, type, blocks, mx_tensor_count(&shape));
}

static void put_head(mx_str *s, const gen_options *o) {
    const mxw_dims *d = &o->dims;
    uint64_t type = o->blocks ? 2000 + 8 : o->dtype == MXW_F16;
    const int32_t sizes[] = {d->n_vocab,      d->n_audio_ctx, d->n_audio_state, d->n_audio_head, d->n_audio_layer,
                             d->n_text_ctx,   d->n_text_state, d->n_text_head,  d->n_text_layer, d->n_mels};
    gen_number(s, MAGIC, 4);
    for (size_t i = 0; i < MX_COUNT(sizes); i++)
        gen_number(s, (uint64_t)sizes[i], 4);
    gen_number(s, type, 4);
    gen_number(s, (uint64_t)d->n_mels, 4), gen_number(s, N_BINS, 4);
    for (int i = 0; i < d->n_mels * N_BINS; i++)
        gen_number(s, 0, 4);
    gen_number(s, 2, 4);   /* tokens: "a" and an empty one */
    gen_number(s, 1, 4), mx_str_text(s, "a"), gen_number(s, 0, 4);
}

/* Writes and frees it. */
static int save(const char *path, mx_str *s) {
    FILE *file = mx_str_status(s) < 0 ? NULL : fopen(path, "wb");
    if (file)
        fwrite(mx_str_get(s), 1, s->n, file);
    mx_str_free(s);
    return !file || fclose(file) != 0 ? gen_fail(path) : 0;
}

int gen_ggml(const char *path, const gen_options *o) {
    mx_str s = {0};
    errno = 0;
    put_head(&s, o);
    for (int64_t i = 0; i < mx_arch_count(&o->dims); i++) {
        gen_item it = gen_get_item(&mx_names_openai, o, i);
        if (!it.left_out)
            put_tensor(&s, o, &it, it.name);
        if (i == 1 && o->extra)
            put_tensor(&s, o, &it, o->extra);
    }
    return save(path, &s);
}

/* ---- GGUF ---------------------------------------------------------------------------------------------- */

static void put_text(mx_str *s, const char *text) {
    gen_number(s, strlen(text), 8);
    mx_str_text(s, text);
}

static void put_key(mx_str *s, const char *key, int type, int *n) {
    put_text(s, key);
    gen_number(s, (uint64_t)type, 4);
    *n += 1;
}

static void put_texts(mx_str *s, const char *key, int32_t count, int *n) {
    put_key(s, key, 9, n);
    gen_number(s, 8, 4), gen_number(s, (uint64_t)count, 8);
    for (int32_t i = 0; i < count; i++)
        put_text(s, i % 2 ? "b c" : "a");
}

static int put_settings(mx_str *s, const gen_options *o) {
    int n = 0;
    put_key(s, "general.architecture", 8, &n), put_text(s, "whisper");
    if (o->hub_names)
        return n;
    put_key(s, "general.alignment", 4, &n), gen_number(s, ALIGNMENT, 4);
    put_key(s, "stt.whisper.encoder.n_heads", 4, &n), gen_number(s, (uint64_t)o->dims.n_audio_head, 4);
    put_key(s, "stt.whisper.decoder.n_heads", 4, &n), gen_number(s, (uint64_t)o->dims.n_text_head, 4);
    put_key(s, "stt.whisper.encoder.activation", 8, &n), put_text(s, "gelu");
    put_key(s, "stt.whisper.decoder.scale_embedding", 7, &n), gen_number(s, 0, 1);
    put_texts(s, "tokenizer.ggml.tokens", o->dims.n_vocab, &n);
    put_texts(s, "tokenizer.ggml.merges", 3, &n);
    return n;
}

static void pad(mx_str *s) {
    while (s->n % ALIGNMENT)
        gen_number(s, 0, 1);
}

static void put_gguf_tensor(mx_str *list, mx_str *data, const gen_options *o, const gen_item *it, const char *name) {
    const mx_block_type *blocks;
    uint32_t type = type_of(o, it, &blocks);
    mx_tensor shape = it->shape;
    shape.dims[0] -= o->cut && strcmp(o->cut, name) == 0;
    put_text(list, name);
    gen_number(list, (uint64_t)shape.rank, 4);
    for (int i = shape.rank - 1; i >= 0; i--)
        gen_number(list, (uint64_t)shape.dims[i], 8);
    gen_number(list, type, 4), gen_number(list, data->n, 8);
    put_elements(data, o, it, type, blocks, mx_tensor_count(&shape));
    pad(data);
}

int gen_gguf(const char *path, const gen_options *o) {
    mx_str settings = {0}, list = {0}, data = {0}, s = {0};
    const mx_naming *naming = !o->hub_names       ? &mx_names_gguf
                              : o->hub_names == 2 ? &mx_names_mlx
                              : o->bare           ? &mx_names_hf_bare
                                                  : &mx_names_hf;
    uint64_t n = 0;
    errno = 0;
    int n_settings = put_settings(&settings, o);
    for (int64_t i = 0; i < mx_arch_count(&o->dims); i++) {
        gen_item it = gen_get_item(naming, o, i);
        if (!it.left_out)
            put_gguf_tensor(&list, &data, o, &it, it.file_name), n++;
        if (i == 1 && o->extra)
            put_gguf_tensor(&list, &data, o, &it, o->extra), n++;
    }
    mx_str_text(&s, "GGUF");
    gen_number(&s, 3, 4), gen_number(&s, n, 8), gen_number(&s, (uint64_t)n_settings, 8);
    mx_str_add(&s, settings.data, settings.n);
    mx_str_add(&s, list.data, list.n);
    pad(&s);
    mx_str_add(&s, data.data, data.n);
    mx_str_free(&settings);
    mx_str_free(&list);
    mx_str_free(&data);
    return save(path, &s);
}
