/* convert/safetensors.c - a folder for Hugging Face's transformers: model.safetensors (a length, a JSON header with the
 * offsets of each tensor, bytes) and what lies beside it. int8 is the w8a8 of compressed-tensors: the weights of linear
 * layers as codes, with a scale for each row; everything else as it is. */
#include <stdio.h>
#include <string.h>

#include "convert/internal.h"

static const char *type_name(const mx_target *t) {
    return t->int8 ? "I8" : t->dtype == MXW_F32 ? "F32" : t->dtype == MXW_F16 ? "F16" : "BF16";
}

/* The embedding, which is the output matrix, too, stays as it is, as compressed-tensors' own recipes leave it. */
static mx_target type_of(const mx_conversion *c, const mx_tensor *view, const char *name) {
    int quantized = mx_is_matrix(view, name) && strcmp(name, "decoder.token_embedding.weight") != 0;
    return quantized ? c->matrices : c->rest;
}

static void list_entry(mx_str *s, const char *name, const char *type, int rank, const int64_t *dims, uint64_t at,
                       uint64_t n) {
    mx_str_print(s, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", s->n > 1 ? "," : "", name, type);
    for (int i = 0; i < rank; i++)
        mx_str_print(s, "%s%lld", i ? "," : "", (long long)dims[i]);
    mx_str_print(s, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)(at + n));
}

static mxw_status list_tensors(mx_conversion *c, mx_str *s) {
    uint64_t at = 0;
    mx_str_text(s, "{");
    for (int64_t i = 0; i < mx_weights_count(c->w); i++) {
        const mx_arch_tensor arch = mx_arch_get(c->dims, i);
        mx_tensor_source source;
        mxw_tensor_info info;
        mx_tensor view;
        mxw_status status = mx_weights_tensor(c->w, i, &info, &view);
        if (status < 0)
            return status;
        const mx_target t = type_of(c, &view, info.name);
        const uint64_t n = mx_target_bytes(&t, &view);
        mx_names_hf.source(arch.pattern, arch.layer, &source);
        list_entry(s, source.name, type_name(&t), view.rank, view.dims, at, n);
        at += n;
        if (t.int8) {
            char scale[176];
            snprintf(scale, sizeof(scale), "%s_scale", source.name);
            list_entry(s, scale, "F32", 2, (int64_t[]){view.dims[0], 1}, at, (uint64_t)view.dims[0] * 4);
            at += (uint64_t)view.dims[0] * 4;
        }
    }
    mx_str_text(s, ",\"__metadata__\":{\"format\":\"pt\"}}");
    while (s->n % 8 && mx_str_status(s) == MXW_OK)
        mx_str_text(s, " ");
    return mx_str_status(s);
}

static mxw_status put_tensor(mx_conversion *c, mx_save *save, int64_t i) {
    mxw_tensor_info info;
    mx_tensor view;
    mx_values values = {0};
    mxw_status status;
    MX_TRY(mx_weights_tensor(c->w, i, &info, &view));
    const mx_target t = type_of(c, &view, info.name);
    MX_TRY(mx_values_read(c, i, &t, &values));
    MX_TRY(mx_save_write(save, values.data, values.n));
    if (values.scales)
        MX_TRY(mx_save_write(save, values.scales, (size_t)view.dims[0] * sizeof(float)));
out:
    mx_values_free(&values);
    return status;
}

mxw_status mx_write_safetensors(mx_conversion *c, const char *folder) {
    mx_str path = {0}, header = {0};
    mx_save *save = NULL;
    mxw_status status;
    mx_str_print(&path, "%s/model.safetensors", folder);
    MX_TRY(mx_str_status(&path));
    MX_TRY(list_tensors(c, &header));
    MX_TRY(mx_save_open(mx_str_get(&path), &save));
    MX_TRY(mx_put(save, header.n, 8));
    MX_TRY(mx_save_write(save, header.data, header.n));
    for (int64_t i = 0; i < mx_weights_count(c->w); i++)
        MX_TRY(put_tensor(c, save, i));
    status = mx_save_commit(save);
    save = NULL;
    if (status == MXW_OK)
        status = mx_write_hf_beside(c, folder);
out:
    mx_save_abort(save);
    mx_str_free(&path);
    mx_str_free(&header);
    return status;
}
