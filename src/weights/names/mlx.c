/* weights/names/mlx.c - the checkpoints of mlx-whisper: OpenAI's names but for mlp1 and mlp2, kernels of convolutions
 * as [out, taps, in], alignment heads as a tensor, matrices possibly quantized in groups (X.weight in 32-bit words,
 * with X.scales and X.biases). The encoder's positions are not in such a file: MLX computes them, and so do we. */
#include <stdio.h>
#include <string.h>

#include "weights/format/cursor.h"
#include "weights/store.h"

#define DEFAULT_GROUP 64
#define POSITIONS "encoder.positional_embedding"

static mx_shown shown(const mx_raw *raw) { return mx_show(raw->name, strlen(raw->name)); }

static void source_mlx(const char *pattern, int layer, mx_tensor_source *source) {
    char name[160];
    *source = (mx_tensor_source){.parts = 1};
    mx_arch_name(pattern, layer, name, sizeof(name));
    char *mlp = strstr(name, ".mlp.");
    if (!mlp)
        memcpy(source->name, name, sizeof(name));
    else
        snprintf(source->name, sizeof(source->name), "%.*s.mlp%c%s", (int)(mlp - name), name, mlp[5] == '0' ? '1' : '2',
                 mlp + 6);
}

/* ---- quantized matrices ------------------------------------------------------------------------------------ */

static const char *type_of(int bits) {
    switch (bits) {
    case 2: return "2-bit";
    case 3: return "3-bit";
    case 4: return "4-bit";
    case 5: return "5-bit";
    case 6: return "6-bit";
    case 8: return "8-bit";
    default: return NULL;
    }
}

/* X.scales or X.biases of X.weight: [rows][groups] of one float type. */
static mxw_status find_beside(const mx_weights *w, const mx_raw *raw, const char *suffix, const mx_raw **out) {
    char name[256];
    snprintf(name, sizeof(name), "%.*s%s", (int)MX_MIN(strlen(raw->name) - 7, (size_t)200), raw->name, suffix);
    mx_raw *found = mx_raw_find(w, name);
    if (!found)
        return mx_fail(MXW_E_MISSING, "tensor %s is missing", mx_show(name, strlen(name)).text);
    mxw_dtype dtype = found->view.dtype;
    if (found->view.rank != 2 || found->view.dims[0] != raw->view.dims[0] || !mx_tensor_contiguous(&found->view) ||
        (dtype != MXW_F32 && dtype != MXW_F16 && dtype != MXW_BF16))
        return mx_fail(MXW_E_FORMAT, "tensor %s is not a list of numbers for each row", shown(found).text);
    found->used = 1;
    *out = found;
    return MXW_OK;
}

static mxw_status quantize(mx_weights *w, const mx_mlx_config *config, mx_raw *raw) {
    const mx_raw *scales = NULL, *biases = NULL;
    mxw_status status;
    MX_TRY(find_beside(w, raw, ".scales", &scales));
    MX_TRY(find_beside(w, raw, ".biases", &biases));
    const int64_t group = config->group ? config->group : DEFAULT_GROUP, groups = scales->view.dims[1];
    const int64_t words = raw->view.dims[1], all_bits = words * 32;
    if (scales->view.dtype != biases->view.dtype || biases->view.dims[1] != groups || all_bits % (groups * group))
        return mx_fail(MXW_E_FORMAT, "tensor %s: %lld words are not %lld groups of %lld", shown(raw).text,
                       (long long)words, (long long)groups, (long long)group);
    const int64_t bits = all_bits / (groups * group);
    if (bits > 8 || !type_of((int)bits) || (config->bits && config->bits != bits))
        return mx_fail(MXW_E_FORMAT, "tensor %s has codes of %lld bits, config.json states %d", shown(raw).text,
                       (long long)bits, config->bits);
    const mx_quantized q = {
        .kind = MX_QUANTIZED_GROUPS,
        .type = type_of((int)bits),
        .bits = (int)bits,
        .group = group,
        .rows = raw->view.dims[0],
        .columns = groups * group,
        .data = raw->view.data,
        .row_bytes = (size_t)words * 4,
        .scales = scales->view,
        .biases = biases->view,
    };
    MX_TRY(mx_quantized_check(&q, shown(raw).text));
    MX_TRY(mx_raw_quantize(w, raw, 2, (int64_t[]){q.rows, q.columns}, &q));
out:
    return status;
}

static int is_quantized(const mx_raw *raw) {
    size_t n = strlen(raw->name);
    return raw->stored && strcmp(raw->stored, MX_U32) == 0 && raw->view.rank == 2 && n > 7 &&
           strcmp(raw->name + n - 7, ".weight") == 0 && mx_tensor_contiguous(&raw->view);
}

/* ---- the rest ------------------------------------------------------------------------------------------------ */

/* [out, taps, in] as a view [out, in, taps]. Codes have no strides; MLX quantizes matrices alone. */
static mxw_status turn_kernel(mx_raw *raw) {
    if (!raw || raw->view.rank != 3)
        return MXW_OK;
    if (raw->quantized)
        return mx_fail(MXW_E_UNSUPPORTED, "tensor %s is a quantized kernel in MLX's order, which is not read",
                       shown(raw).text);
    int64_t taps = raw->view.dims[1], stride = raw->view.strides[1];
    raw->view.dims[1] = raw->view.dims[2];
    raw->view.strides[1] = raw->view.strides[2];
    raw->view.dims[2] = taps;
    raw->view.strides[2] = stride;
    return MXW_OK;
}

/* In the type of the other tensors, as MLX has them. */
static mxw_status add_positions(mx_weights *w) {
    const mx_raw *bias = mx_raw_find(w, "encoder.conv2.bias");
    const int64_t n_ctx = w->dims.n_audio_ctx, n_state = bias && bias->view.rank == 1 ? bias->view.dims[0] : 0;
    if (mx_raw_find(w, POSITIONS))
        return MXW_OK;
    if (n_ctx < 1 || n_ctx > 1 << 20 || n_state < 4 || n_state > 1 << 16)
        return mx_fail(MXW_E_MISSING, "tensor " POSITIONS " is missing, and no config.json beside states n_audio_ctx");
    float *values = mx_arena_alloc(&w->arena, (size_t)(n_ctx * n_state) * sizeof(*values));
    mxw_status status = values ? mx_sinusoids(n_ctx, n_state, values) : MXW_E_MEMORY;
    if (status < 0)
        return status;
    for (int64_t i = 0; i < n_ctx * n_state; i++)
        if (bias->view.dtype == MXW_F16)
            values[i] = mx_f16_to_f32(mx_f32_to_f16(values[i]));
        else if (bias->view.dtype == MXW_BF16)
            values[i] = mx_bf16_to_f32(mx_f32_to_bf16(values[i]));
    mx_tensor view = mx_tensor_of(MXW_F32, 2, (int64_t[]){n_ctx, n_state}, values);
    mx_raw *raw;
    status = mx_raw_add(w, POSITIONS, strlen(POSITIONS), &view, &raw);
    if (status == MXW_OK)
        mx_weights_lack(w, "encoder positions", "sinusoids, which MLX computes, too");
    return status < 0 ? status : mx_raws_sort(w);
}

static mxw_status settle_mlx(mx_weights *w) {
    mx_mlx_config config;
    mxw_status status;
    MX_TRY(mx_mlx_config_load(w, &config));
    for (size_t i = 0; i < w->n_raws; i++)
        if (is_quantized(&w->raws[i]))
            MX_TRY(quantize(w, &config, &w->raws[i]));
    MX_TRY(turn_kernel(mx_raw_find(w, "encoder.conv1.weight")));
    MX_TRY(turn_kernel(mx_raw_find(w, "encoder.conv2.weight")));
    if (!mx_raw_find(w, POSITIONS))
        w->dims.n_audio_ctx = config.dims.n_audio_ctx ? config.dims.n_audio_ctx : 1500;
    w->dims.n_audio_head = config.dims.n_audio_head;
    w->dims.n_text_head = config.dims.n_text_head;
    MX_TRY(add_positions(w));
out:
    return status;
}

const mx_naming mx_names_mlx = {
    .encoder_layer = "encoder.blocks.",
    .decoder_layer = "decoder.blocks.",
    .folder = 1,
    .settle = settle_mlx,
    .source = source_mlx,
    .check = mx_heads_from_tensor,
};
