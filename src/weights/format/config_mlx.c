/* weights/format/config_mlx.c - config.json beside MLX's weights: the dimensions under OpenAI's names, and how matrices
 * are quantized. Every size must be a positive number; other fields are not used. */
#include <string.h>

#include "weights/format/json.h"
#include "weights/store.h"

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"n_mels", offsetof(mxw_dims, n_mels)},
    {"n_audio_ctx", offsetof(mxw_dims, n_audio_ctx)},
    {"n_audio_state", offsetof(mxw_dims, n_audio_state)},
    {"n_audio_head", offsetof(mxw_dims, n_audio_head)},
    {"n_audio_layer", offsetof(mxw_dims, n_audio_layer)},
    {"n_vocab", offsetof(mxw_dims, n_vocab)},
    {"n_text_ctx", offsetof(mxw_dims, n_text_ctx)},
    {"n_text_state", offsetof(mxw_dims, n_text_state)},
    {"n_text_head", offsetof(mxw_dims, n_text_head)},
    {"n_text_layer", offsetof(mxw_dims, n_text_layer)},
};

/* A positive whole number, if it is stated. */
static mxw_status take(const json_t *object, const char *name, int32_t *to) {
    const json_t *value = json_object_get(object, name);
    if (!value || json_is_null(value))
        return MXW_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX)
        return mx_fail(MXW_E_FORMAT, "%s is not a positive whole number", name);
    *to = (int32_t)json_integer_value(value);
    return MXW_OK;
}

mxw_status mx_mlx_config_parse(const uint8_t *bytes, size_t n, mx_mlx_config *config) {
    json_t *root = NULL;
    mxw_status status;
    *config = (mx_mlx_config){0};
    MX_TRY(mx_json_load_object(bytes, n, MX_CONFIG_BYTES, 0, &root));
    for (size_t i = 0; i < MX_COUNT(fields); i++)
        MX_TRY(take(root, fields[i].name, (int32_t *)(void *)((char *)&config->dims + fields[i].offset)));
    const json_t *quantization = json_object_get(root, "quantization");
    const json_t *mode = json_object_get(quantization, "mode");
    if (json_is_string(mode) && strcmp(json_string_value(mode), "affine") != 0)
        MX_TRY(mx_fail(MXW_E_UNSUPPORTED, "quantization: a mode other than affine is not read"));
    MX_TRY(take(quantization, "bits", &config->bits));
    MX_TRY(take(quantization, "group_size", &config->group));
out:
    json_decref(root);
    return status;
}

static mxw_status use(mx_weights *w, void *config, const mx_map *map) {
    (void)w;
    return mx_mlx_config_parse(map->data, map->n, config);
}

mxw_status mx_mlx_config_load(mx_weights *w, mx_mlx_config *config) {
    *config = (mx_mlx_config){0};
    return mx_with_beside(w, "config.json", config, use);
}
