/* weights/format/config_hf.c - the files beside a Hugging Face model.safetensors. config.json states the heads, which
 * no tensor's shape does, and the rest once more: it must agree with the shapes. generation_config.json has the
 * alignment heads and special ids, vocab.json the ids of the text. Special ids follow from the size of the vocabulary
 * (docs/formats.md); a checkpoint that has them elsewhere is refused, since its text would be wrong. */
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/format/json.h"
#include "weights/store.h"

#define MAX_VOCABULARY_BYTES (64u << 20)
#define N_TIMESTAMPS 1501   /* 0.00 to 30.00 s; they end the vocabulary */

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
    {"num_mel_bins", offsetof(mxw_dims, n_mels)},
    {"max_source_positions", offsetof(mxw_dims, n_audio_ctx)},
    {"encoder_attention_heads", offsetof(mxw_dims, n_audio_head)},
    {"encoder_layers", offsetof(mxw_dims, n_audio_layer)},
    {"vocab_size", offsetof(mxw_dims, n_vocab)},
    {"max_target_positions", offsetof(mxw_dims, n_text_ctx)},
    {"d_model", offsetof(mxw_dims, n_text_state)},
    {"decoder_attention_heads", offsetof(mxw_dims, n_text_head)},
    {"decoder_layers", offsetof(mxw_dims, n_text_layer)},
};

static int32_t *field(mxw_dims *dims, size_t i) { return (int32_t *)(void *)((char *)dims + fields[i].offset); }

/* ---- config.json -------------------------------------------------------------------------------------- */

static mxw_status check_text(const json_t *root, const char *name, const char *want) {
    const json_t *value = json_object_get(root, name);
    if (!value || json_is_null(value))
        return MXW_OK;
    const char *text = json_is_string(value) ? json_string_value(value) : "?";
    if (strcmp(text, want) != 0)
        return mx_fail(MXW_E_UNSUPPORTED, "%s is %s; Whisper has %s", name, mx_show(text, strlen(text)).text, want);
    return MXW_OK;
}

mxw_status mx_hf_config_parse(const uint8_t *bytes, size_t n, mxw_dims *dims) {
    json_t *root = NULL;
    mxw_status status;
    memset(dims, 0, sizeof(*dims));
    MX_TRY(mx_json_load_object(bytes, n, MX_CONFIG_BYTES, 0, &root));
    MX_TRY(check_text(root, "model_type", "whisper"));
    MX_TRY(check_text(root, "activation_function", "gelu"));
    if (json_is_true(json_object_get(root, "scale_embedding")))
        MX_TRY(mx_fail(MXW_E_UNSUPPORTED, "scale_embedding is true; Whisper has false"));
    for (size_t i = 0; i < MX_COUNT(fields); i++) {
        const json_t *value = json_object_get(root, fields[i].name);
        if (!value || json_is_null(value))
            continue;
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 1 || number > INT32_MAX)
            MX_TRY(mx_fail(MXW_E_FORMAT, "%s is not a positive whole number", fields[i].name));
        *field(dims, i) = (int32_t)number;
    }
out:
    json_decref(root);
    return status;
}

static mxw_status take_heads(mx_weights *w, void *user, const mx_map *map) {
    (void)user;
    mxw_dims stated;
    mxw_status status = mx_hf_config_parse(map->data, map->n, &stated);
    if (status == MXW_OK) {
        w->dims.n_audio_head = stated.n_audio_head;
        w->dims.n_text_head = stated.n_text_head;
    }
    return status;
}

mxw_status mx_hf_config_load(mx_weights *w) { return mx_with_beside(w, "config.json", NULL, take_heads); }

static mxw_status compare_dims(mx_weights *w, void *user, const mx_map *map) {
    (void)user;
    mxw_dims stated;
    mxw_status status = mx_hf_config_parse(map->data, map->n, &stated);
    for (size_t i = 0; i < MX_COUNT(fields) && status == MXW_OK; i++)
        if (*field(&stated, i) && *field(&stated, i) != *field(&w->dims, i))
            return mx_fail(MXW_E_FORMAT, "%s is %d, but the tensors have %d", fields[i].name, (int)*field(&stated, i),
                           (int)*field(&w->dims, i));
    return status;
}

/* ---- generation_config.json, vocab.json --------------------------------------------------------------- */

static mxw_status check_special(const json_t *root, int32_t n_vocab) {
    const json_t *id = json_object_get(root, "no_timestamps_token_id");
    json_int_t want = (json_int_t)n_vocab - N_TIMESTAMPS - 1;
    if (!id || json_is_null(id))
        return MXW_OK;
    if (!json_is_integer(id) || json_integer_value(id) != want)
        return mx_fail(MXW_E_UNSUPPORTED, "no_timestamps_token_id is %lld; with %d tokens Whisper has it at %lld",
                       (long long)json_integer_value(id), (int)n_vocab, (long long)want);
    return MXW_OK;
}

mxw_status mx_hf_generation_parse(const uint8_t *bytes, size_t n, mx_weights *w) {
    json_t *root = NULL;
    mxw_status status = mx_json_load_object(bytes, n, MX_CONFIG_BYTES, 0, &root);
    if (status == MXW_OK)
        status = check_special(root, w->dims.n_vocab);
    json_decref(root);
    return status < 0 ? status : mx_config_parse(bytes, n, w);
}

static mxw_status use_generation(mx_weights *w, void *user, const mx_map *map) {
    (void)user;
    return mx_hf_generation_parse(map->data, map->n, w);
}

mxw_status mx_hf_vocabulary_check(const uint8_t *bytes, size_t n, int32_t n_vocab) {
    json_t *root = NULL, *id;
    const char *token;
    mxw_status status = mx_json_load_object(bytes, n, MAX_VOCABULARY_BYTES, 0, &root);
    if (status < 0)
        return status;
    json_object_foreach(root, token, id) {
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < n_vocab)
            continue;
        status = mx_fail(MXW_E_FORMAT, "token %s has no row in an embedding of %d", mx_show(token, strlen(token)).text,
                         (int)n_vocab);
        break;
    }
    json_decref(root);
    return status;
}

static mxw_status use_vocabulary(mx_weights *w, void *user, const mx_map *map) {
    (void)user;
    return mx_hf_vocabulary_check(map->data, map->n, w->dims.n_vocab);
}

mxw_status mx_hf_config_check(mx_weights *w) {
    mxw_status status;
    MX_TRY(mx_with_beside(w, "config.json", NULL, compare_dims));
    MX_TRY(mx_with_beside(w, "generation_config.json", NULL, use_generation));
    MX_TRY(mx_with_beside(w, "vocab.json", NULL, use_vocabulary));
out:
    return status;
}
