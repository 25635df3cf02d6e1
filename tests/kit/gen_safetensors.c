/* gen_safetensors.c - writes generated checkpoints as Hugging Face folders: one file, or several and an index. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "kit/gen_internal.h"

typedef struct file {
    mx_str header, data;
    int tensors;
} file;

static void add_tensor(file *f, const char *name, const mx_tensor *shape, const void *bytes) {
    static const char *const types[] = {[MXW_F32] = "F32", [MXW_F16] = "F16", [MXW_BF16] = "BF16"};
    size_t n = mx_tensor_bytes(shape);
    mx_str_print(&f->header, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [", f->tensors++ ? ", " : "{", name,
                 types[shape->dtype]);
    for (int i = 0; i < shape->rank; i++)
        mx_str_print(&f->header, "%s%lld", i ? ", " : "", (long long)shape->dims[i]);
    mx_str_print(&f->header, "], \"data_offsets\": [%zu, %zu]}", f->data.n, f->data.n + n);
    mx_str_add(&f->data, bytes, n);
}

/* The values of a canonical tensor in its type, mx_free'd by the caller. */
static void *make_bytes(const gen_options *o, const gen_item *it) {
    int64_t n = mx_tensor_count(&it->shape);
    float *values = mx_alloc((size_t)n * 4);
    char *bytes = mx_alloc((size_t)n * 4);
    if (values && bytes) {
        gen_values(o, it->name, &it->shape, values);
        gen_round_to(it->shape.dtype, values, n, bytes);
    }
    mx_free(values);
    return bytes;
}

static int add_item(file *f, const gen_options *o, const gen_item *it, const char *name) {
    mx_tensor shape = it->shape;
    char *bytes = make_bytes(o, it);
    if (!bytes)
        return 1;
    if (o->cut && (strcmp(o->cut, it->name) == 0 || strcmp(o->cut, name) == 0))
        shape.dims[0]--;
    if (o->projection == 2 && strcmp(name, "proj_out.weight") == 0)
        bytes[0] ^= 1;
    add_tensor(f, name, &shape, bytes);
    mx_free(bytes);
    return 0;
}

/* What Whisper's own files do not have: a key's bias, the output matrix, a stray tensor. */
static int add_others(file *f, const gen_options *o, const gen_item *it) {
    char name[200];
    int bad = 0;
    if (o->key_bias && strcmp(it->name, "encoder.blocks.0.attn.query.bias") == 0) {
        float zero[4096] = {0};
        zero[1] = o->key_bias == 2 ? 0.5f : 0.0f;
        snprintf(name, sizeof(name), "%sencoder.layers.0.self_attn.k_proj.bias", o->bare ? "" : "model.");
        mx_tensor shape = mx_tensor_of(MXW_F32, 1, it->shape.dims, NULL);
        add_tensor(f, name, &shape, zero);
    }
    if (o->projection && strcmp(it->name, "decoder.token_embedding.weight") == 0)
        bad |= add_item(f, o, it, "proj_out.weight");
    if (o->extra && strcmp(it->name, "encoder.conv1.bias") == 0)
        bad |= add_item(f, o, it, o->extra);
    return bad;
}

static int write_file(const char *folder, const char *leaf, file *f) {
    mx_str head = {0};
    mx_str_text(&f->header, f->tensors ? ", \"__metadata__\": {\"format\": \"pt\"}}" : "{}");
    while (f->header.n % 8)
        mx_str_text(&f->header, " ");
    gen_number(&head, f->header.n, 8);
    mx_str_add(&head, f->header.data, f->header.n);
    int bad = gen_write_file(folder, leaf, &head, &f->data);
    mx_str_free(&head);
    mx_str_free(&f->header);
    mx_str_free(&f->data);
    *f = (file){0};
    return bad;
}

static int write_config(const char *folder, const gen_options *o) {
    const mxw_dims *d = &o->dims;
    mx_str s = {0};
    mx_str_print(&s,
                 "{\"model_type\": \"whisper\", \"activation_function\": \"gelu\", \"scale_embedding\": false, "
                 "\"d_model\": %d, \"encoder_layers\": %d, \"decoder_layers\": %d, \"encoder_attention_heads\": %d, "
                 "\"decoder_attention_heads\": %d, \"num_mel_bins\": %d, \"vocab_size\": %d, "
                 "\"max_source_positions\": %d, \"max_target_positions\": %d}\n",
                 (int)d->n_text_state, (int)d->n_audio_layer, (int)d->n_text_layer, (int)d->n_audio_head,
                 (int)d->n_text_head, (int)d->n_mels, (int)d->n_vocab, (int)d->n_audio_ctx, (int)d->n_text_ctx);
    int bad = gen_write_file(folder, "config.json", &s, NULL);
    mx_str_clear(&s);
    mx_str_print(&s, "{\"alignment_heads\": [[%d, 0]], \"no_timestamps_token_id\": %d}\n", (int)d->n_text_layer - 1,
                 (int)d->n_vocab - 1502);
    bad |= gen_write_file(folder, "generation_config.json", &s, NULL);
    mx_str_free(&s);
    return bad;
}

int gen_safetensors(const char *folder, const gen_options *o) {
    const mx_naming *naming = o->bare ? &mx_names_hf_bare : &mx_names_hf;
    int64_t n = mx_arch_count(&o->dims);
    int shards = o->shards ? o->shards : 1, bad = 0;
    mx_str index = {0};
    file f = {0};
    errno = 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gen_fail(folder);
    mx_str_text(&index, "{\"metadata\": {\"total_size\": 0}, \"weight_map\": {");
    for (int64_t i = 0; i < n && !bad; i++) {
        gen_item it = gen_get_item(naming, o, i);
        int64_t shard = i * shards / n;
        char leaf[64];
        snprintf(leaf, sizeof(leaf), "model-%05d-of-%05d.safetensors", (int)shard + 1, shards);
        mx_str_print(&index, "%s\"%s\": \"%s\"", i ? ", " : "", it.file_name, leaf);
        if (!it.left_out)
            bad = add_item(&f, o, &it, it.file_name) || add_others(&f, o, &it);
        if (i + 1 == n || (i + 1) * shards / n != shard)
            bad = bad || write_file(folder, o->shards ? leaf : "model.safetensors", &f);
    }
    mx_str_text(&index, "}}\n");
    if (o->shards)
        bad = bad || gen_write_file(folder, "model.safetensors.index.json", &index, NULL);
    mx_str_free(&index);
    return bad || (!o->no_config && write_config(folder, o));
}
