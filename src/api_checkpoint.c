/* api_checkpoint.c - the public view of a checkpoint over weights/: argument checks live here. */
#include "api.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "hub/hub.h"
#include "pipeline/pipeline.h"
#include "weights/weights.h"

/* The public handle is the checkpoint itself. */
static mx_weights *inner(const mxw_checkpoint *checkpoint) { return (mx_weights *)(uintptr_t)checkpoint; }

mxw_status mxw_checkpoint_open(const char *name_or_path, const char *model_dir, mxw_checkpoint **out) {
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    MX_NEED(name_or_path, MXW_E_ARGUMENT);
    mx_weights *w = NULL;
    mxw_status status = mx_weights_open(name_or_path, model_dir, &w);
    *out = (mxw_checkpoint *)(void *)w;
    return status;
}

void mxw_checkpoint_close(mxw_checkpoint *checkpoint) { mx_weights_close(inner(checkpoint)); }

mxw_status mxw_checkpoint_get_info(const mxw_checkpoint *checkpoint, mxw_checkpoint_info *info) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mx_weights_info(inner(checkpoint), info);
    return MXW_OK;
}

mxw_status mxw_checkpoint_tensor(const mxw_checkpoint *checkpoint, int64_t index, mxw_tensor_info *info) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    return mx_weights_tensor(inner(checkpoint), index, info, NULL);
}

int64_t mxw_checkpoint_find(const mxw_checkpoint *checkpoint, const char *name) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(name, MXW_E_ARGUMENT);
    return mx_weights_index(inner(checkpoint), name);
}

mxw_status mxw_checkpoint_read_f32(const mxw_checkpoint *checkpoint, int64_t index, float *out, size_t n) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    mx_tensor view;
    mxw_tensor_info info;
    mxw_status status = mx_weights_tensor(inner(checkpoint), index, &info, &view);
    if (status < 0)
        return status;
    if (n != (size_t)mx_tensor_count(&view))
        return mx_fail(MXW_E_ARGUMENT, "%s: tensor %s has %lld elements, room was given for %zu", __func__, info.name,
                       (long long)mx_tensor_count(&view), n);
    return mx_tensor_to_f32(&view, out);
}

mxw_status mxw_checkpoint_crc32(const mxw_checkpoint *checkpoint, int64_t index, uint32_t *crc) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(crc, MXW_E_ARGUMENT);
    return mx_weights_crc32(inner(checkpoint), index, crc);
}

mxw_status mxw_checkpoint_sha256(const mxw_checkpoint *checkpoint, char text[65], const char **published) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(text, MXW_E_ARGUMENT);
    mxw_checkpoint_info info;
    mx_weights_info(inner(checkpoint), &info);
    mx_weights_sha256(inner(checkpoint), text);
    const mx_released *r = strcmp(info.format, "OpenAI .pt") == 0 ? mx_released_find(info.size_name) : NULL;
    if (published)
        *published = r ? mx_released_sha256(r) : NULL;
    return MXW_OK;
}

mxw_status mxw_checkpoint_export_npz(const mxw_checkpoint *checkpoint, const char *path) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    return mx_weights_export_npz(inner(checkpoint), path);
}

mxw_status mxw_checkpoint_export_ggml(const mxw_checkpoint *checkpoint, mxw_dtype matrices, const char *path) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    if (matrices != MXW_F16 && matrices != MXW_F32)
        return mx_fail(MXW_E_ARGUMENT, "matrices: type %d is neither f16 nor f32", (int)matrices);
    return mx_export_ggml(inner(checkpoint), matrices, path);
}

const char *mxw_model_dir(const char *option) { return mx_model_dir(option); }

const char *mxw_model_place(int index, const char *model_dir, int which, const char **source) {
    static _Thread_local char found[4096];
    const mx_released *r = mx_released_get(index);
    const char *whose = NULL, *place = NULL;
    mx_str path = {0};
    if (r && which >= 0 && mx_model_find(r, model_dir, which, &path, &whose) == MXW_OK && path.n < sizeof(found)) {
        snprintf(found, sizeof(found), "%s", mx_str_get(&path));
        place = found;
    }
    mx_str_free(&path);
    if (source)
        *source = place ? whose : NULL;
    return place;
}

const char *mxw_model_name(int index, const char *model_dir, const char **path) {
    const mx_released *r = mx_released_get(index);
    if (path)
        *path = r ? mxw_model_place(index, model_dir, 0, NULL) : NULL;
    return r ? r->name : NULL;
}

void mxw_fetch_options_default(mxw_fetch_options *options) {
    if (!options)
        return;
    *options = (mxw_fetch_options){.struct_size = sizeof(*options)};
}

mxw_status mxw_model_fetch(const char *name, const mxw_fetch_options *options, char *path, size_t n) {
    MX_NEED(name, MXW_E_ARGUMENT);
    mxw_fetch_options full;
    mx_str where = {0};
    mxw_fetch_options_default(&full);
    if (options) {
        mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_fetch_options");
        if (status < 0)
            return status;
    }
    mxw_status status = mx_hub_fetch(name, &full, &where);
    if (status == MXW_OK && path && where.n >= n)
        status = mx_fail(MXW_E_ARGUMENT, "%s: the path has %zu bytes, room was given for %zu", __func__, where.n + 1,
                         n);
    else if (status == MXW_OK && path)
        memcpy(path, mx_str_get(&where), where.n + 1);
    mx_str_free(&where);
    return status;
}
