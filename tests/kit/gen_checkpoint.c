/* gen_checkpoint.c - writers of both checkpoint formats; see the header. They share the tables of names with the
 * readers: that those are right is shown by the real files (test_weights_real.c). */
#include "kit/gen_checkpoint.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "kit/gen_internal.h"

/* ---- values ------------------------------------------------------------------------------------------- */

uint64_t gen_mix(uint64_t x) {   /* splitmix64's output function */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Centre and half-width of the uniform values of a tensor. */
static void spread(const char *name, const mx_tensor *t, float *centre, float *width) {
    int64_t fan_in = t->rank > 1 ? mx_tensor_count(t) / t->dims[0] : 1;
    *centre = 0;
    if (strstr(name, "ln") && ends_with(name, ".weight"))
        *centre = 1, *width = 0.1f;
    else if (t->rank == 1 || ends_with(name, "positional_embedding"))
        *width = 0.1f;
    else if (ends_with(name, "token_embedding.weight"))
        *width = 3.0f / sqrtf((float)fan_in);   /* logits a few units apart */
    else
        *width = 1.7f / sqrtf((float)fan_in);   /* keeps the variance of what goes in */
}

void gen_values(const gen_options *o, const char *canonical, const mx_tensor *shape, float *out) {
    uint64_t key = gen_mix(o->seed);
    float centre, width;
    for (const char *p = canonical; *p; p++)
        key = gen_mix(key ^ (unsigned char)*p);
    spread(canonical, shape, &centre, &width);
    for (int64_t i = 0; i < mx_tensor_count(shape); i++)
        out[i] = centre + width * ((float)(gen_mix(key + (uint64_t)i) >> 40) * 0x1p-23f - 1.0f);
}

void gen_round_to(mxw_dtype dtype, const float *values, int64_t n, void *out) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = dtype == MXW_BF16 ? mx_f32_to_bf16(values[i]) : mx_f32_to_f16(values[i]);
        if (dtype == MXW_F32)
            memcpy((char *)out + 4 * i, &values[i], 4);
        else
            memcpy((char *)out + 2 * i, &half, 2);
    }
}

/* ---- bytes -------------------------------------------------------------------------------------------- */

void gen_number(mx_str *s, uint64_t x, int bytes) {
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(x >> (8 * i));
    mx_str_add(s, b, (size_t)bytes);
}

int gen_fail(const char *path) {
    printf("generate %s: %s\n", path, errno ? strerror(errno) : mxw_last_error());
    return 1;
}

/* A row at a time: scale = 127 / largest, q = nearest(w * scale). */
static void quantise(const float *values, int64_t rows, int64_t columns, mx_str *q, mx_str *scales) {
    for (int64_t r = 0; r < rows; r++) {
        float largest = 0;
        for (int64_t i = 0; i < columns; i++)
            largest = fmaxf(largest, fabsf(values[r * columns + i]));
        float scale = 127.0f / (largest > 0 ? largest : 127.0f);
        for (int64_t i = 0; i < columns; i++) {
            int8_t x = (int8_t)rintf(values[r * columns + i] * scale);
            mx_str_add(q, &x, 1);
        }
        mx_str_add(scales, &scale, 4);
    }
}

gen_item gen_get_item(const mx_naming *naming, const gen_options *o, int64_t index) {
    mx_arch_tensor t = mx_arch_get(&o->dims, index);
    gen_item it = {.shape = mx_tensor_of(mx_dtype_is_float(o->dtype) ? o->dtype : o->rest, t.rank, t.dims, NULL)};
    mx_arch_name(t.pattern, t.layer, it.name, sizeof(it.name));
    naming->source(t.pattern, t.layer, &it.source);
    snprintf(it.file_name, sizeof(it.file_name), "%s", it.source.name);
    it.left_out = o->without && (strcmp(o->without, it.name) == 0 || strcmp(o->without, it.file_name) == 0);
    return it;
}

/* ---- .pt ----------------------------------------------------------------------------------------------- */

typedef struct zip_writer {
    FILE *file;
    uint64_t at;
    mx_str directory;
    int entries;
} zip_writer;

/* A stored entry whose data starts at a multiple of 64, as torch.save does with an extra field of padding. */
static void zip_add(zip_writer *z, const char *name, const void *data, size_t n) {
    mx_str head = {0};
    size_t name_n = strlen(name), pad = (64 - (z->at + 30 + name_n + 4) % 64) % 64;
    uint32_t crc = (uint32_t)crc32_z(0, data, n);
    for (int local = 1; local >= 0; local--) {
        mx_str *s = local ? &head : &z->directory;
        gen_number(s, local ? 0x04034b50 : 0x02014b50, 4);
        if (!local)
            gen_number(s, 0, 2);
        gen_number(s, 0, 2), gen_number(s, 0, 2), gen_number(s, 0, 2), gen_number(s, 0, 4);   /* to the time */
        gen_number(s, crc, 4), gen_number(s, n, 4), gen_number(s, n, 4);
        gen_number(s, name_n, 2), gen_number(s, local ? pad + 4 : 0, 2);
        if (!local)
            gen_number(s, 0, 6), gen_number(s, 0, 4), gen_number(s, z->at, 4);
        mx_str_text(s, name);
    }
    gen_number(&head, 0x4246, 2), gen_number(&head, pad, 2);
    for (size_t i = 0; i < pad; i++)
        mx_str_text(&head, "Z");
    fwrite(head.data, 1, head.n, z->file);
    fwrite(data, 1, n, z->file);
    z->at += head.n + n;
    z->entries++;
    mx_str_free(&head);
}

static void zip_end(zip_writer *z) {
    mx_str s = {0};
    gen_number(&s, 0x06054b50, 4), gen_number(&s, 0, 4);
    gen_number(&s, (uint64_t)z->entries, 2), gen_number(&s, (uint64_t)z->entries, 2);
    gen_number(&s, z->directory.n, 4), gen_number(&s, z->at, 4), gen_number(&s, 0, 2);
    fwrite(z->directory.data, 1, z->directory.n, z->file);
    fwrite(s.data, 1, s.n, z->file);
    mx_str_free(&s);
    mx_str_free(&z->directory);
}

static void pickle_text(mx_str *p, const char *text) {
    mx_str_text(p, "X");
    gen_number(p, strlen(text), 4);
    mx_str_text(p, text);
}

static void pickle_int(mx_str *p, int64_t x) {
    mx_str_text(p, x < 256 ? "K" : x < 65536 ? "M" : "J");
    gen_number(p, (uint64_t)x, x < 256 ? 1 : x < 65536 ? 2 : 4);
}

static void pickle_dims(mx_str *p, const mxw_dims *d) {
    static const char *const names[] = {"n_mels", "n_audio_ctx", "n_audio_state", "n_audio_head", "n_audio_layer",
                                        "n_vocab", "n_text_ctx", "n_text_state", "n_text_head", "n_text_layer"};
    const int32_t values[] = {d->n_mels, d->n_audio_ctx, d->n_audio_state, d->n_audio_head, d->n_audio_layer,
                              d->n_vocab, d->n_text_ctx, d->n_text_state, d->n_text_head, d->n_text_layer};
    pickle_text(p, "dims");
    mx_str_text(p, "}(");
    for (int i = 0; i < 10; i++) {
        pickle_text(p, names[i]);
        pickle_int(p, values[i]);
    }
    mx_str_text(p, "u");
}

/* Matrices of the MLP lie transposed in their storage, as many do in the released files; the others as they are. */
static int lies_transposed(const gen_item *it) { return it->shape.rank == 2 && strstr(it->name, "mlp") != NULL; }

static void pickle_tensor(mx_str *p, const char *name, const mx_tensor *t, int64_t count, int64_t offset,
                          const char *key) {
    static const char *const storages[] = {
        [MXW_F32] = "Float", [MXW_F16] = "Half", [MXW_BF16] = "BFloat16", [MXW_I8] = "Char"};
    pickle_text(p, name);
    mx_str_text(p, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle_text(p, "storage");
    mx_str_print(p, "ctorch\n%sStorage\n", storages[t->dtype]);
    pickle_text(p, key);
    pickle_text(p, "cpu");
    pickle_int(p, count);
    mx_str_text(p, "tQ");
    pickle_int(p, offset);
    for (int which = 0; which < 2; which++) {
        mx_str_text(p, "(");
        for (int i = 0; i < t->rank; i++)
            pickle_int(p, which ? t->strides[i] : t->dims[i]);
        mx_str_text(p, "t");
    }
    static const char rest[] = "\x89" "ccollections\nOrderedDict\n)RtR";   /* requires_grad False, no hooks */
    mx_str_add(p, rest, sizeof(rest) - 1);
}

/* A tensor with its strides, and its storage of as many elements. */
static void pt_add(zip_writer *z, mx_str *p, const gen_options *o, const char *name, mx_tensor t, const void *bytes) {
    int64_t count = mx_tensor_count(&t), offset = 0;
    char key[24], entry[64];
    snprintf(key, sizeof(key), "%d", z->entries);
    snprintf(entry, sizeof(entry), "archive/data/%s", key);
    if (o->last_alone && strcmp(o->last_alone, name) == 0) {
        memset(t.strides, 0, sizeof(t.strides));
        offset = count - 1;
    }
    zip_add(z, entry, bytes, (size_t)count * mx_dtype_bytes(t.dtype));
    t.dims[0] -= o->cut && strcmp(o->cut, name) == 0;
    pickle_tensor(p, name, &t, count, offset, key);
}

/* In 8 bits as compressed-tensors has it, with zero points, too, that are zeros. */
static int pt_quantized(zip_writer *z, mx_str *p, const gen_options *o, const gen_item *it, const float *values) {
    const int64_t rows = it->shape.dims[0], columns = it->shape.dims[1], each[2] = {rows, 1};
    mx_str codes = {0}, inverse = {0};
    char name[200];
    float *scales = mx_alloc_zero((size_t)rows, sizeof(*scales));
    quantise(values, rows, columns, &codes, &inverse);
    int bad = !scales || mx_str_status(&codes) < 0 || mx_str_status(&inverse) < 0;
    if (!bad) {
        snprintf(name, sizeof(name), "%s_zero_point", it->file_name);
        pt_add(z, p, o, name, mx_tensor_of(MXW_I8, 2, each, NULL), scales);
        memcpy(scales, inverse.data, (size_t)rows * sizeof(*scales));
        for (int64_t r = 0; r < rows; r++)
            scales[r] = 1 / scales[r];
        snprintf(name, sizeof(name), "%s_scale", it->file_name);
        pt_add(z, p, o, name, mx_tensor_of(MXW_F32, 2, each, NULL), scales);
        pt_add(z, p, o, it->file_name, mx_tensor_of(MXW_I8, 2, it->shape.dims, NULL), codes.data);
    }
    mx_free(scales);
    mx_str_free(&codes);
    mx_str_free(&inverse);
    return bad;
}

static int pt_floats(zip_writer *z, mx_str *p, const gen_options *o, const gen_item *it, const float *values) {
    int64_t n = mx_tensor_count(&it->shape);
    mx_tensor t = it->shape;
    char *bytes = mx_alloc((size_t)n * 4), *turned = mx_alloc((size_t)n * 4);
    int ok = bytes && turned;
    if (ok) {
        gen_round_to(t.dtype, values, n, bytes);
        if (lies_transposed(it)) {
            mx_tensor view = mx_tensor_of(t.dtype, 2, (int64_t[]){t.dims[1], t.dims[0]}, bytes);
            view.strides[0] = 1;
            view.strides[1] = t.dims[1];
            mx_tensor_pack(&view, turned);
            t.strides[0] = 1;
            t.strides[1] = t.dims[0];
        }
        if (o->projection == 2 && strcmp(it->file_name, "proj_out.weight") == 0)
            bytes[0] ^= 1;
        pt_add(z, p, o, it->file_name, t, lies_transposed(it) ? turned : bytes);
    }
    mx_free(bytes);
    mx_free(turned);
    return !ok;
}

static int pt_item(zip_writer *z, mx_str *p, const gen_options *o, const gen_item *it) {
    float *values = mx_alloc((size_t)mx_tensor_count(&it->shape) * sizeof(*values));
    if (!values)
        return 1;
    gen_values(o, it->name, &it->shape, values);
    int codes = gen_is_quantized(o, it->name, it->shape.rank) && it->shape.rank == 2 && !strstr(it->name, "token_emb");
    int bad = codes ? pt_quantized(z, p, o, it, values) : pt_floats(z, p, o, it, values);
    mx_free(values);
    return bad;
}

int gen_pt(const char *path, const gen_options *o) {
    zip_writer z = {.file = fopen(path, "wb")};
    mx_str p = {0};
    int bad = 0;
    errno = 0;
    if (!z.file)
        return gen_fail(path);
    mx_str_add(&p, "\x80\x02}", 3);
    if (!o->plain) {
        mx_str_text(&p, "(");
        pickle_dims(&p, &o->dims);
        pickle_text(&p, "model_state_dict");
        mx_str_text(&p, "}");
    }
    mx_str_text(&p, "(");
    int64_t n = mx_arch_count(&o->dims);
    const mx_naming *naming = !o->hub_names ? &mx_names_openai : o->bare ? &mx_names_hf_bare : &mx_names_hf;
    for (int64_t i = 0; i < n && !bad; i++) {
        gen_item it = gen_get_item(naming, o, i);
        int embedding = strcmp(it.name, "decoder.token_embedding.weight") == 0;
        bad = !it.left_out && pt_item(&z, &p, o, &it);
        if (o->extra && i == 1)
            snprintf(it.file_name, sizeof(it.file_name), "%s", o->extra);
        if (o->projection && embedding)
            snprintf(it.file_name, sizeof(it.file_name), "proj_out.weight");
        if ((o->extra && i == 1) || (o->projection && embedding))
            bad = bad || pt_item(&z, &p, o, &it);
    }
    mx_str_text(&p, o->plain ? "u." : "uu.");
    zip_add(&z, "archive/data.pkl", mx_str_get(&p), p.n);
    zip_add(&z, "archive/byteorder", "little", 6);
    zip_add(&z, "archive/version", "3\n", 2);
    zip_end(&z);
    mx_str_free(&p);
    return fclose(z.file) != 0 || bad ? gen_fail(path) : 0;
}

/* ---- CTranslate2 --------------------------------------------------------------------------------------- */

static void ct2_text(mx_str *s, const char *text) {
    gen_number(s, strlen(text) + 1, 2);
    mx_str_add(s, text, strlen(text) + 1);
}

static void ct2_record(mx_str *s, const char *name, int rank, const int64_t *dims, int type, uint64_t bytes) {
    ct2_text(s, name);
    gen_number(s, (uint64_t)rank, 1);
    for (int i = 0; i < rank; i++)
        gen_number(s, (uint64_t)dims[i], 4);
    gen_number(s, (uint64_t)type, 1);
    gen_number(s, bytes, 4);
}

/* One scale for all: 10 bits for the largest. */
static void quantise_16(const float *values, int64_t n, mx_str *q, mx_str *scales) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    float scale = 1024.0f / largest;
    for (int64_t i = 0; i < n; i++)
        gen_number(q, (uint64_t)(int64_t)rintf(values[i] * scale), 2);
    mx_str_add(scales, &scale, 4);
}

int gen_is_quantized(const gen_options *o, const char *canonical, int rank) {
    return !mx_dtype_is_float(o->dtype) && rank > 1 && !strstr(canonical, "positional_embedding") &&
           !(rank == 3 && o->float_kernels);
}

/* One record of the file from the canonical tensors that lie in it; parts that none fills are 0 (the key's bias). */
static int ct2_tensor(mx_str *s, const gen_options *o, const gen_item *first, int64_t index, int64_t n_items,
                      int *records) {
    mx_tensor shape = first->shape;
    int64_t part = mx_tensor_count(&shape);
    int parts = first->source.parts, quantised = gen_is_quantized(o, first->name, shape.rank);
    float *values = mx_alloc_zero((size_t)(part * parts), 4);
    if (!values)
        return 1;
    for (int64_t i = index; i < n_items && i < index + 8; i++) {
        gen_item it = gen_get_item(&mx_names_ct2, o, i);
        if (strcmp(it.file_name, first->file_name) == 0)
            gen_values(o, it.name, &it.shape, values + it.source.part * part);
    }
    if (o->key_bias && parts == 3 && shape.rank == 1)
        values[part] = 0.5f;
    int cut = o->cut && (strcmp(o->cut, first->name) == 0 || strcmp(o->cut, first->file_name) == 0);
    shape.dims[0] = shape.dims[0] * parts - cut;
    int64_t count = mx_tensor_count(&shape);
    if (quantised) {
        char scale_name[200];
        mx_str q = {0}, scales = {0};
        int wide = o->dtype == MXW_I32;
        snprintf(scale_name, sizeof(scale_name), "%s_scale", first->file_name);
        if (wide)
            quantise_16(values, count, &q, &scales);
        else
            quantise(values, shape.dims[0], count / shape.dims[0], &q, &scales);
        ct2_record(s, first->file_name, shape.rank, shape.dims, wide ? 2 : 1, q.n);
        mx_str_add(s, q.data, q.n);
        if (!o->without || strcmp(o->without, scale_name) != 0) {
            ct2_record(s, scale_name, wide ? 0 : 1, shape.dims, 0, scales.n);
            mx_str_add(s, scales.data, scales.n);
            *records += 1;
        }
        mx_str_free(&q);
        mx_str_free(&scales);
    } else {
        static const int types[] = {[MXW_F32] = 0, [MXW_F16] = 4, [MXW_BF16] = 5};
        size_t bytes = (size_t)count * mx_dtype_bytes(shape.dtype);
        ct2_record(s, first->file_name, shape.rank, shape.dims, types[shape.dtype], bytes);
        void *rounded = mx_alloc(bytes);
        if (rounded)
            gen_round_to(shape.dtype, values, count, rounded);
        mx_str_add(s, rounded, rounded ? bytes : 0);
        mx_free(rounded);
    }
    *records += 1;
    mx_free(values);
    return 0;
}

static void ct2_scalar(mx_str *s, const char *name, int type, int bytes, uint64_t value, int *records) {
    ct2_record(s, name, 0, NULL, type, (uint64_t)bytes);
    gen_number(s, value, bytes);
    *records += 1;
}

static void ct2_settings(mx_str *s, const gen_options *o, int *records) {
    ct2_scalar(s, "decoder/activation", 1, 1, 3, records);
    ct2_scalar(s, "decoder/alibi", 1, 1, 0, records);
    ct2_scalar(s, "decoder/alignment_heads", 2, 2, 1, records);
    ct2_scalar(s, "decoder/alignment_layer", 2, 2, 0xffff, records);
    ct2_scalar(s, "decoder/num_heads", 2, 2, (uint64_t)o->dims.n_text_head, records);
    ct2_scalar(s, "decoder/pre_norm", 1, 1, 1, records);
    ct2_scalar(s, "decoder/scale_embeddings", 1, 1, 0, records);
    ct2_scalar(s, "decoder/start_from_zero_embedding", 1, 1, 0, records);
    ct2_scalar(s, "encoder/num_heads", 2, 2, (uint64_t)o->dims.n_audio_head, records);
}

/* Whether any of the canonical tensors of a record is to be left out: then the record is. */
static int ct2_left_out(const gen_options *o, const gen_item *first, int64_t index, int64_t n_items) {
    int left_out = 0;
    for (int64_t i = index; i < n_items && i < index + 8; i++) {
        gen_item it = gen_get_item(&mx_names_ct2, o, i);
        left_out |= it.left_out && strcmp(it.file_name, first->file_name) == 0;
    }
    return left_out;
}

static int ct2_body(mx_str *s, const gen_options *o, int *records) {
    int64_t n = mx_arch_count(&o->dims);
    char last[2][160] = {"", ""};   /* weights and biases of fused records alternate */
    ct2_settings(s, o, records);
    for (int64_t i = 0; i < n; i++) {
        gen_item it = gen_get_item(&mx_names_ct2, o, i);
        if (strcmp(it.file_name, last[0]) == 0 || strcmp(it.file_name, last[1]) == 0)
            continue;
        memcpy(last[0], last[1], sizeof(last[0]));
        memcpy(last[1], it.file_name, sizeof(last[1]));
        if (!ct2_left_out(o, &it, i, n) && ct2_tensor(s, o, &it, i, n, records) != 0)
            return 1;
    }
    if (o->extra)
        ct2_record(s, o->extra, 1, (int64_t[]){1}, 0, 4), gen_number(s, 0, 4), *records += 1;
    return mx_str_status(s) < 0;
}

int gen_write_file(const char *folder, const char *leaf, const mx_str *head, const mx_str *body) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    FILE *file = fopen(path, "wb");
    if (!file)
        return gen_fail(path);
    fwrite(mx_str_get(head), 1, head->n, file);
    if (body)
        fwrite(mx_str_get(body), 1, body->n, file);
    return fclose(file) != 0 ? gen_fail(path) : 0;
}

static int ct2_beside(const char *folder, const gen_options *o) {
    mx_str s = {0};
    mx_str_print(&s, "{\"alignment_heads\": [[%d, 0]], \"lang_ids\": [7], \"suppress_ids\": []}\n",
                 (int)o->dims.n_text_layer - 1);
    int bad = gen_write_file(folder, "config.json", &s, NULL);
    mx_str_clear(&s);
    for (int i = 0; i < o->dims.n_vocab; i++)
        mx_str_print(&s, "t%d\n", i);
    bad |= gen_write_file(folder, "vocabulary.txt", &s, NULL);
    mx_str_free(&s);
    return bad;
}

int gen_ct2(const char *folder, const gen_options *o) {
    mx_str head = {0}, body = {0};
    int records = 0, bad = 0;
    errno = 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return gen_fail(folder);
    if (ct2_body(&body, o, &records) != 0)
        bad = gen_fail(folder);
    gen_number(&head, 6, 4);
    ct2_text(&head, "WhisperSpec");
    gen_number(&head, 3, 4);
    gen_number(&head, (uint64_t)records, 4);
    int tied = !o->without || strcmp(o->without, "decoder/embeddings/weight") != 0;
    gen_number(&body, (uint64_t)tied, 4);
    if (tied) {
        ct2_text(&body, "decoder/projection/weight");
        ct2_text(&body, "decoder/embeddings/weight");
    }
    bad = bad || gen_write_file(folder, "model.bin", &head, &body) || (!o->no_config && ct2_beside(folder, o));
    mx_str_free(&head);
    mx_str_free(&body);
    return bad;
}

/* ---- dimensions and folders ---------------------------------------------------------------------------- */

mxw_dims gen_small_dims(void) {
    return (mxw_dims){.n_mels = 80, .n_audio_ctx = 16, .n_audio_state = 8, .n_audio_head = 2, .n_audio_layer = 1,
                      .n_vocab = 32, .n_text_ctx = 8, .n_text_state = 8, .n_text_head = 2, .n_text_layer = 1};
}

mxw_dims gen_least_dims(void) {
    return (mxw_dims){.n_mels = 1, .n_audio_ctx = 2, .n_audio_state = 2, .n_audio_head = 1, .n_audio_layer = 1,
                      .n_vocab = 2, .n_text_ctx = 1, .n_text_state = 2, .n_text_head = 1, .n_text_layer = 1};
}

mxw_dims gen_released_dims(const char *name, int layers) {
    const mx_released *r = mx_released_find(name);
    mxw_dims dims = r ? r->dims : gen_small_dims();
    dims.n_audio_layer = MX_MIN(dims.n_audio_layer, layers);
    dims.n_text_layer = MX_MIN(dims.n_text_layer, layers);
    return dims;
}

int gen_temp(char *path, size_t n) {
    const char *base = getenv("TMPDIR");
    snprintf(path, n, "%s/mxw-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(path) ? 0 : gen_fail(path);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void gen_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
