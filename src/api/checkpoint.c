/* api/checkpoint.c - the public functions of checkpoints, over weights/. */
#include "api/api.h"
#include "base/base.h"
#include "convert/convert.h"
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
    mxw_checkpoint_info full;
    mx_weights_info(inner(checkpoint), &full);
    return MX_GIVE(info, &full);
}

mxw_status mxw_checkpoint_tensor(const mxw_checkpoint *checkpoint, int64_t index, mxw_tensor_info *info) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(info, MXW_E_ARGUMENT);
    mxw_tensor_info full;
    mxw_status status = mx_weights_tensor(inner(checkpoint), index, &full, NULL);
    return status < 0 ? status : MX_GIVE(info, &full);
}

const char *mxw_checkpoint_missing(const mxw_checkpoint *checkpoint, int index, const char **instead) {
    const char *stands_in = NULL, *piece = checkpoint ? mx_weights_missing(inner(checkpoint), index, &stands_in) : NULL;
    if (instead)
        *instead = stands_in;
    return piece;
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
    return mx_weights_read_f32(inner(checkpoint), index, out);
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

void (mxw_convert_options_default)(mxw_convert_options *options, size_t struct_size) {
    const mxw_convert_options full = {0};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

mxw_status mxw_checkpoint_convert(const mxw_checkpoint *checkpoint, const char *path,
                                  const mxw_convert_options *options) {
    MX_NEED(checkpoint, MXW_E_ARGUMENT);
    MX_NEED(path, MXW_E_ARGUMENT);
    MX_NEED(options, MXW_E_ARGUMENT);
    mxw_convert_options full;
    mxw_convert_options_default(&full);
    mxw_status status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_convert_options");
    return status < 0 ? status : mx_convert(inner(checkpoint), path, &full);
}

const char *mxw_convert_format(int index) { return mx_convert_format(index); }

const char *mxw_convert_type(const char *format, int index) { return mx_convert_type(format, index); }

static mxw_status export_as(const mxw_checkpoint *checkpoint, const char *path, const char *format, const char *type) {
    mxw_convert_options options;
    mxw_convert_options_default(&options);
    options.format = format;
    options.type = type;
    return mxw_checkpoint_convert(checkpoint, path, &options);
}

mxw_status mxw_checkpoint_export_npz(const mxw_checkpoint *checkpoint, const char *path) {
    return export_as(checkpoint, path, "npz", NULL);
}

mxw_status mxw_checkpoint_export_ggml(const mxw_checkpoint *checkpoint, mxw_dtype matrices, const char *path) {
    if (matrices != MXW_F16 && matrices != MXW_F32)
        return mx_fail(MXW_E_ARGUMENT, "matrices: type %d is neither f16 nor f32", (int)matrices);
    return export_as(checkpoint, path, "ggml", matrices == MXW_F32 ? "f32" : "f16");
}
