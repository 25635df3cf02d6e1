/* convert/convert.c - the formats and their types; what a conversion writes, decided before the first byte. */
#include "convert/convert.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "convert/internal.h"

#define AUTO "auto"
#define INT8 "int8"
#define MAX_TYPES 10

static const struct format {
    const char *name;
    const char *types[MAX_TYPES]; /* ends with NULL; AUTO first */
    mxw_status (*write_file)(mx_conversion *c);
    mxw_status (*write_folder)(mx_conversion *c, const char *folder);
    int plain; /* needs no vocabulary of ours */
} formats[] = {
    {"ggml", {AUTO, "f32", "f16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1"}, mx_write_ggml, NULL, 0},
    {"gguf", {AUTO, "f32", "f16", "bf16", "q8_0", "q5_0", "q5_1", "q4_0", "q4_1"}, mx_write_gguf, NULL, 0},
    {"ct2", {AUTO, "f32", "f16", "bf16", INT8}, NULL, mx_write_ct2, 0},
    {"safetensors", {AUTO, "f32", "f16", "bf16", INT8}, NULL, mx_write_safetensors, 0},
    {"npz", {AUTO, "f32", "f16"}, mx_write_npz, NULL, 1},
};

const char *mx_convert_format(int index) {
    return index >= 0 && (size_t)index < MX_COUNT(formats) ? formats[index].name : NULL;
}

static const struct format *find_format(const char *name) {
    for (size_t i = 0; name && i < MX_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

const char *mx_convert_type(const char *format, int index) {
    const struct format *f = find_format(format);
    return f && index >= 0 && index < MAX_TYPES ? f->types[index] : NULL;
}

/* ---- types ------------------------------------------------------------------------------------------------- */

static int has_type(const struct format *f, const char *type) {
    for (int i = 0; i < MAX_TYPES && f->types[i]; i++)
        if (strcmp(f->types[i], type) == 0)
            return 1;
    return 0;
}

static mx_target target_named(const char *name) {
    if (strcmp(name, INT8) == 0)
        return (mx_target){.name = INT8, .int8 = 1};
    const mx_block_type *blocks = mx_block_type_find(name);
    if (blocks)
        return (mx_target){.name = blocks->name, .blocks = blocks};
    return mx_plain(strcmp(name, "f32") == 0 ? MXW_F32 : strcmp(name, "f16") == 0 ? MXW_F16 : MXW_BF16);
}

int mx_is_matrix(const mx_tensor *view, const char *name) {
    const char *end = strrchr(name, '.');
    return view->rank == 2 && !(end && strcmp(end, ".positional_embedding") == 0);
}

/* The type that all matrices have, with or without the embedding; NULL if they differ. */
static const char *common_type(const mx_conversion *c, int embedding) {
    const char *type = NULL;
    for (int64_t i = 0; i < mx_weights_count(c->w); i++) {
        mxw_tensor_info info;
        mx_tensor view;
        if (mx_weights_tensor(c->w, i, &info, &view) < 0 || !mx_is_matrix(&view, info.name) ||
            (!embedding && strcmp(info.name, "decoder.token_embedding.weight") == 0))
            continue;
        if (type && strcmp(type, info.stored) != 0)
            return NULL;
        type = info.stored;
    }
    return type;
}

/* Any blocks of the file, where matrices may be of several types. */
static const mx_block_type *some_blocks(const mx_conversion *c) {
    for (int64_t i = 0; i < mx_weights_count(c->w); i++) {
        int64_t row;
        const mx_quantized *q = mx_weights_quantized(c->w, i, &row);
        if (q && q->blocks)
            return q->blocks;
    }
    return NULL;
}

/* auto: as it is, where the format has that; whisper.cpp's files of floats are f16. */
static mx_target automatic_type(mx_conversion *c, const struct format *f) {
    const char *type = common_type(c, f->write_file == mx_write_ggml);
    const int ggml = f->write_file == mx_write_ggml, gguf = f->write_file == mx_write_gguf;
    const mx_block_type *blocks = type ? mx_block_type_find(type) : NULL;
    c->automatic = 1;
    if ((ggml || gguf) && blocks) /* also of the K types, which are copied */
        return (mx_target){.name = blocks->name, .blocks = blocks};
    if (gguf && !type && some_blocks(c))
        return (mx_target){.name = "mixed", .blocks = some_blocks(c)};
    return target_named(type && has_type(f, type) && !(ggml && strcmp(type, "f32") == 0) ? type : "f16");
}

/* The type of the checkpoint's norms: what is not quantized keeps it. */
static mxw_dtype rest_type(const mx_conversion *c) {
    mx_tensor view;
    int64_t i = mx_weights_index(c->w, "decoder.ln.weight");
    if (i < 0 || mx_weights_tensor(c->w, i, NULL, &view) < 0)
        return MXW_F32;
    return view.dtype == MXW_F16 || view.dtype == MXW_BF16 ? view.dtype : MXW_F32;
}

static mxw_status choose_types(mx_conversion *c, const struct format *f) {
    const char *type = c->options->type ? c->options->type : AUTO;
    if (!has_type(f, type)) {
        mx_str all = {0};
        for (int i = 0; i < MAX_TYPES && f->types[i]; i++)
            mx_str_print(&all, "%s%s", i ? ", " : "", f->types[i]);
        mxw_status status = mx_fail(MXW_E_ARGUMENT, "type '%s': format %s has %s", type, f->name, mx_str_get(&all));
        mx_str_free(&all);
        return status;
    }
    c->matrices = strcmp(type, AUTO) == 0 ? automatic_type(c, f) : target_named(type);
    c->matrices.divide = c->matrices.int8 && f->write_folder == mx_write_ct2;
    c->rest = c->matrices.int8 ? mx_plain(rest_type(c)) : c->matrices;
    return MXW_OK;
}

/* ---- one conversion ---------------------------------------------------------------------------------------- */

static mxw_status write_folder(mx_conversion *c, const struct format *f) {
    mx_str folder = {0};
    mxw_status status;
    MX_TRY(mx_folder_begin(c->path, &folder));
    MX_TRY(f->write_folder(c, mx_str_get(&folder)));
    MX_TRY(mx_folder_commit(c->path, mx_str_get(&folder)));
out:
    if (status < 0)
        mx_folder_remove(mx_str_get(&folder));
    mx_str_free(&folder);
    return status;
}

static void report(const mx_conversion *c, const struct format *f, int64_t start) {
    const char *piece, *instead = NULL;
    for (int i = 0; (piece = mx_weights_missing(c->w, i, &instead)); i++)
        if (strcmp(piece, "alignment heads") == 0 && f->write_folder)
            mx_log(MXW_LOG_WARN, "convert", "%s has no alignment heads; written: %s", c->info.path, instead);
    if (c->made.n)
        mx_log(MXW_LOG_WARN, "convert", "%s has no %s; made from the library's vocabulary and the dimensions",
               c->info.path, mx_str_get(&c->made));
    mx_log_timed(MXW_LOG_INFO, "convert", mx_since_ms(start), "%s: %s, %s, %lld tensors", c->path, f->name,
                 c->matrices.name, (long long)mx_weights_count(c->w));
}

mxw_status mx_convert(const mx_weights *w, const char *path, const mxw_convert_options *options) {
    const struct format *f = find_format(options->format);
    mx_conversion c = {.w = w, .path = path, .options = options};
    int64_t start = mx_now_ns();
    mxw_status status;
    if (!f)
        return mx_fail(MXW_E_ARGUMENT, "format '%s' is not ggml, gguf, ct2, safetensors or npz",
                       options->format ? options->format : "");
    mx_weights_info(w, &c.info);
    c.dims = c.info.dims;
    c.total = (uint64_t)c.info.n_parameters;
    MX_TRY(choose_types(&c, f));
    if (!f->plain)
        MX_TRY(mx_text_open(c.dims->n_vocab, &c.text));
    MX_TRY(f->write_folder ? write_folder(&c, f) : f->write_file(&c));
    report(&c, f, start);
out:
    mx_text_close(c.text);
    mx_str_free(&c.made);
    return status;
}
