/* test_packed_files.c - checkpoints of MLX (safetensors and npz, floats and groups of 4 and 8 bits) and of
 * compressed-tensors (int8 and f8), made from a generated one, and pytorch_model.bin: the values that their codes and
 * scales mean, what such a file lacks, and one line for each that is damaged. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "hostile.h"

#include <math.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "weights/format/npz.h"
#include "weights/store.h"

#define STATE 64
#define GROUP 32

static char folder[4096];
static char path[4300];

static const char *at(const char *leaf) {
    snprintf(path, sizeof(path), "%s/%s", folder, leaf);
    return path;
}

/* ---- a safetensors file ------------------------------------------------------------------------------------- */

typedef struct file {
    mx_str header, data;
} file;

static void add(file *f, const char *name, const char *type, int rank, const int64_t *dims, const void *bytes,
                size_t n) {
    mx_str_print(&f->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", f->header.n ? "," : "{", name, type);
    for (int i = 0; i < rank; i++)
        mx_str_print(&f->header, "%s%lld", i ? "," : "", (long long)dims[i]);
    mx_str_print(&f->header, "],\"data_offsets\":[%zu,%zu]}", f->data.n, f->data.n + n);
    mx_str_add(&f->data, bytes, n);
}

static void finish(file *f, const char *leaf) {
    mx_str_text(&f->header, "}");
    uint64_t n = f->header.n;
    FILE *out = fopen(at(leaf), "wb");
    CHECK(out && fwrite(&n, 1, 8, out) == 8 && fwrite(f->header.data, 1, f->header.n, out) == f->header.n &&
          fwrite(f->data.data, 1, f->data.n, out) == f->data.n && fclose(out) == 0);
    mx_str_free(&f->header);
    mx_str_free(&f->data);
    *f = (file){0};
}

static void write_text(const char *leaf, const char *text) {
    FILE *out = fopen(at(leaf), "wb");
    CHECK(out && fputs(text, out) >= 0 && fclose(out) == 0);
}

/* ---- what the files are made from --------------------------------------------------------------------------- */

static mxw_dims dims(void) {
    mxw_dims d = gen_small_dims();
    d.n_audio_state = d.n_text_state = STATE;
    return d;
}

static mx_weights *source;   /* a generated checkpoint in f32 */

static void open_source(void) {
    gen_options o = {.dims = dims(), .dtype = MXW_F32, .seed = 7};
    CHECK_EQ_INT(gen_pt(at("source.pt"), &o), 0);
    CHECK_EQ_INT(mx_weights_open(at("source.pt"), NULL, &source), MXW_OK);
}

static int is_matrix(const mx_tensor *view, const char *name) {
    return view->rank == 2 && !strstr(name, "positional_embedding");
}

/* Words, scales and biases of random codes: what matters is that they are read as MLX reads them (test_quantized.c). */
static void add_groups(file *f, const char *name, const mx_tensor *view, int bits) {
    const int64_t rows = view->dims[0], words = view->dims[1] * bits / 32, groups = view->dims[1] / GROUP;
    uint32_t *codes = mx_alloc((size_t)(rows * words) * 4);
    uint16_t *scales = mx_alloc((size_t)(rows * groups) * 2), *biases = mx_alloc((size_t)(rows * groups) * 2);
    char other[200];
    const int n = (int)strlen(name) - 7;   /* without ".weight" */
    for (int64_t i = 0; i < rows * words; i++)
        codes[i] = (uint32_t)i * 2654435761u;
    for (int64_t i = 0; i < rows * groups; i++) {
        scales[i] = mx_f32_to_f16(0.001f * (float)(i % 7 + 1));
        biases[i] = mx_f32_to_f16(-0.02f * (float)(i % 5));
    }
    add(f, name, "U32", 2, (int64_t[]){rows, words}, codes, (size_t)(rows * words) * 4);
    snprintf(other, sizeof(other), "%.*s.scales", n, name);
    add(f, other, "F16", 2, (int64_t[]){rows, groups}, scales, (size_t)(rows * groups) * 2);
    snprintf(other, sizeof(other), "%.*s.biases", n, name);
    add(f, other, "F16", 2, (int64_t[]){rows, groups}, biases, (size_t)(rows * groups) * 2);
    mx_free(codes);
    mx_free(scales);
    mx_free(biases);
}

/* MLX's layout of a tensor: kernels [out, taps, in]. */
static float *mlx_values(const mx_tensor *view, int64_t out_dims[3]) {
    float *values = mx_alloc((size_t)mx_tensor_count(view) * 4);
    mx_tensor turned = *view;
    if (view->rank == 3) {
        turned.dims[1] = view->dims[2], turned.strides[1] = view->strides[2];
        turned.dims[2] = view->dims[1], turned.strides[2] = view->strides[1];
    }
    memcpy(out_dims, turned.dims, 3 * sizeof(*out_dims));
    mx_tensor_to_f32(&turned, values);
    return values;
}

/* bits 0: floats. without: a tensor of the file to leave out. */
static void make_mlx(const char *leaf, int bits, const char *without, int npz) {
    file f = {0};
    mx_npz_writer *arrays = NULL;
    const int32_t heads[2][2] = {{0, strcmp(leaf, "hostile") != 0}, {0, 0}};   /* without config.json there is one */
    if (npz)
        CHECK_EQ_INT(mx_npz_create(at(leaf), &arrays), MXW_OK);
    for (int64_t i = 0; i < mx_weights_count(source); i++) {
        mxw_tensor_info info;
        mx_tensor view;
        mx_tensor_source name;
        const mxw_dims d = dims();
        const mx_arch_tensor t = mx_arch_get(&d, i);
        mx_weights_tensor(source, i, &info, &view);
        mx_names_mlx.source(t.pattern, t.layer, &name);
        if (strcmp(name.name, "encoder.positional_embedding") == 0 || (without && strcmp(name.name, without) == 0))
            continue;
        if (bits && is_matrix(&view, info.name)) {
            add_groups(&f, name.name, &view, bits);
            continue;
        }
        int64_t out_dims[3];
        float *values = mlx_values(&view, out_dims);
        mx_tensor whole = mx_tensor_of(MXW_F32, view.rank, out_dims, values);
        if (npz)
            CHECK_EQ_INT(mx_npz_add(arrays, name.name, &whole), MXW_OK);
        else
            add(&f, name.name, "F32", view.rank, out_dims, values, mx_tensor_bytes(&whole));
        mx_free(values);
    }
    mx_tensor pairs = mx_tensor_of_const(MXW_I32, 2, (int64_t[]){2, 2}, heads);
    if (npz) {
        CHECK_EQ_INT(mx_npz_add(arrays, "alignment_heads", &pairs), MXW_OK);
        CHECK_EQ_INT(mx_npz_commit(arrays), MXW_OK);
    } else {
        add(&f, "alignment_heads", "I32", 2, pairs.dims, heads, sizeof(heads));
        finish(&f, leaf);
    }
}

static void write_mlx_config(int bits) {
    char text[400];
    mxw_dims d = dims();
    snprintf(text, sizeof(text),
             "{\"n_mels\": %d, \"n_audio_ctx\": %d, \"n_audio_state\": %d, \"n_audio_head\": %d, \"n_audio_layer\": 1, "
             "\"n_text_head\": %d, \"model_type\": \"whisper\"%s%d}",
             (int)d.n_mels, (int)d.n_audio_ctx, STATE, (int)d.n_audio_head, (int)d.n_text_head,
             bits ? ", \"quantization\": {\"group_size\": 32, \"bits\": " : ", \"bits\": ", bits);
    if (bits)
        strcat(text, "}");
    write_text("mlx/config.json", text);
}

/* ---- MLX ------------------------------------------------------------------------------------------------------ */

static int64_t wrong_values(const mx_weights *w, int bits) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mxw_tensor_info info;
        mx_tensor view;
        mx_weights_tensor(source, i, &info, &view);
        size_t n = (size_t)mx_tensor_count(&view);
        float *want = mx_alloc(n * 4), *got = mx_alloc(n * 4);
        mx_tensor_to_f32(&view, want);
        CHECK_EQ_INT(mx_weights_read_f32(w, i, got), MXW_OK);
        if (strcmp(info.name, "encoder.positional_embedding") == 0)
            CHECK_EQ_INT(mx_sinusoids(view.dims[0], view.dims[1], want), MXW_OK);
        if (!bits || !is_matrix(&view, info.name))
            wrong += memcmp(want, got, n * 4) != 0;
        else   /* the first code of the tensor is 0, its scale 0.001, its bias -0 */
            wrong += got[0] != 0.0f;
        mx_free(want);
        mx_free(got);
    }
    return wrong;
}

static void check_mlx(const char *leaf, int bits, const char *label) {
    mx_weights *w = NULL;
    mxw_checkpoint_info info;
    mxw_tensor_info t;
    size_t n;
    const char *instead, *piece;
    if (!CHECK_EQ_INT(mx_weights_open(at(leaf), NULL, &w), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    mx_weights_info(w, &info);
    mxw_dims d = dims();
    CHECK(strcmp(info.format, label) == 0 && memcmp(info.dims, &d, sizeof(d)) == 0);
    CHECK_EQ_INT(wrong_values(w, bits), 0);
    const int32_t(*heads)[2] = mx_weights_alignment_heads(w, &n);
    CHECK(n == 2 && heads[0][1] == 1 && heads[1][1] == 0);
    piece = mx_weights_missing(w, 0, &instead);
    CHECK(piece && strcmp(piece, "encoder positions") == 0 && strstr(instead, "sinusoids"));
    mx_weights_tensor(w, mx_weights_index(w, "decoder.token_embedding.weight"), &t, NULL);
    CHECK(strcmp(t.stored, bits == 4 ? "4-bit" : bits == 8 ? "8-bit" : "f32") == 0);
    if (bits)   /* codes, and an f16 scale and bias for every 32 */
        CHECK_EQ_INT(t.stored_bytes, t.bytes / 4 * (uint64_t)bits / 8 + t.bytes / 4 / 32 * 4);
    mx_weights_close(w);
}

static void expect(const char *leaf, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    mxw_status got = mx_weights_open(at(leaf), NULL, &w);
    CHECK_EQ_INT(got, status);
    if (!CHECK(strstr(mxw_last_error(), line) && !strchr(mxw_last_error(), '\n')))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
    mx_weights_close(w);
}

static void test_mlx(void) {
    CHECK(mkdir(at("mlx"), 0777) == 0);
    for (int bits = 0; bits <= 8; bits += 4) {
        make_mlx("mlx/weights.safetensors", bits, NULL, 0);
        write_mlx_config(bits);
        check_mlx("mlx", bits, "MLX safetensors");
    }
    write_text("mlx/config.json", "{\"n_audio_ctx\": 16, \"quantization\": {\"group_size\": 32, \"bits\": 4}}");
    expect("mlx", MXW_E_FORMAT, "has codes of 8 bits, config.json states 4");
    write_text("mlx/config.json", "{\"quantization\": {\"group_size\": 48}}");
    expect("mlx", MXW_E_FORMAT, "groups of 48");
    write_text("mlx/config.json", "{\"quantization\": {\"mode\": \"mxfp4\"}}");
    expect("mlx", MXW_E_UNSUPPORTED, "a mode other than affine");
    write_text("mlx/config.json", "{\"n_text_head\": -1}");
    expect("mlx", MXW_E_FORMAT, "config.json: n_text_head is not a positive whole number");
    make_mlx("mlx/weights.safetensors", 0, "decoder.ln.bias", 0);
    write_mlx_config(0);
    expect("mlx", MXW_E_MISSING, "tensor decoder.ln.bias is missing");
    CHECK_EQ_INT(remove(at("mlx/weights.safetensors")), 0);
    make_mlx("mlx/weights.npz", 0, NULL, 1);
    check_mlx("mlx", 0, "MLX npz");
}

/* Cut and changed anywhere: the file with codes of 8 bits and the .npz. In memory there is no config.json, so that
 * groups are taken for 64 where they are 32: refused, since the sizes do not fit then. */
static void test_mlx_hostile(void) {
    size_t n;
    for (int npz = 0; npz < 2; npz++) {
        make_mlx("hostile", npz ? 0 : 8, NULL, npz);
        uint8_t *bytes = hostile_read(at("hostile"), &n);
        if (!CHECK_EQ_INT(hostile_open(bytes, n), npz ? MXW_OK : MXW_E_UNSUPPORTED))
            printf("    %s\n", mxw_last_error());
        for (size_t cut = 0; cut < n; cut += 1 + n / 200)
            CHECK(hostile_open(bytes, cut) < 0);
        for (size_t k = 0; k < 400; k++) {
            size_t where = npz ? n - 1 - k * 61 % MX_MIN(n, (size_t)9000) : 8 + k * 61 % MX_MIN(n - 8, (size_t)9000);
            uint8_t was = bytes[where];
            bytes[where] ^= (uint8_t)(1 + k % 255);
            hostile_open(bytes, n);
            bytes[where] = was;
        }
        free(bytes);
    }
}

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

static void make_compressed(const char *leaf, int f8, const char *scale_type, const char *without) {
    const mxw_dims d = dims();
    file f = {0};
    for (int64_t i = 0; i < mx_weights_count(source); i++) {
        const mx_arch_tensor t = mx_arch_get(&d, i);
        mxw_tensor_info info;
        mx_tensor view;
        mx_tensor_source name;
        char scale[200];
        mx_weights_tensor(source, i, &info, &view);
        mx_names_hf.source(t.pattern, t.layer, &name);
        size_t n = (size_t)mx_tensor_count(&view);
        float *values = mx_alloc(n * 4);
        mx_tensor_to_f32(&view, values);
        if (!is_matrix(&view, info.name) || strstr(info.name, "token_embedding")) {
            add(&f, name.name, "F32", view.rank, view.dims, values, n * 4);
        } else {
            uint8_t *codes = mx_alloc(n);
            float *scales = mx_alloc((size_t)view.dims[0] * 4);
            for (size_t k = 0; k < n; k++)
                codes[k] = (uint8_t)(k * 37 % 251 & (f8 ? 0x77 : 0xff));
            for (int64_t r = 0; r < view.dims[0]; r++)
                scales[r] = 0.001f * (float)(r % 9 + 1);
            add(&f, name.name, f8 ? "F8_E4M3" : "I8", 2, view.dims, codes, n);
            snprintf(scale, sizeof(scale), "%s_scale", name.name);
            if (!without || !strstr(scale, without))
                add(&f, scale, scale_type, 2, (int64_t[]){view.dims[0], 1}, scales, (size_t)view.dims[0] * 4);
            mx_free(codes);
            mx_free(scales);
        }
        mx_free(values);
    }
    finish(&f, leaf);
}

static void check_compressed(int f8) {
    mx_weights *w = NULL;
    mxw_tensor_info t;
    mx_tensor view;
    int64_t i, wrong = 0;
    make_compressed("hf/model.safetensors", f8, "F32", NULL);
    if (!CHECK_EQ_INT(mx_weights_open(at("hf"), NULL, &w), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    i = mx_weights_index(w, "decoder.blocks.0.mlp.2.weight");
    CHECK_EQ_INT(mx_weights_tensor(w, i, &t, &view), MXW_OK);
    CHECK(strcmp(t.stored, f8 ? "f8_e4m3" : "int8") == 0);
    CHECK_EQ_INT(t.stored_bytes, t.bytes / 4 + (uint64_t)view.dims[0] * 4);
    CHECK(view.layout == MX_LAYOUT_QUANTIZED && !view.data);
    float *got = mx_alloc((size_t)mx_tensor_count(&view) * sizeof(*got));
    CHECK_EQ_INT(mx_weights_read_f32(w, i, got), MXW_OK);
    for (int64_t k = 0; k < mx_tensor_count(&view); k++) {
        const uint8_t code = (uint8_t)(k * 37 % 251 & (f8 ? 0x77 : 0xff));
        const float value = f8 ? mx_f8_to_f32(code) : (float)(int8_t)code;
        wrong += got[k] != value * (0.001f * (float)(k / view.dims[1] % 9 + 1));
    }
    mx_free(got);
    CHECK_EQ_INT(wrong, 0);
    mx_weights_close(w);
}

static void test_compressed(void) {
    file f = {0};
    CHECK(mkdir(at("hf"), 0777) == 0);
    check_compressed(0);
    check_compressed(1);
    make_compressed("hf/model.safetensors", 0, "F32", "decoder.layers.0.fc1.weight_scale");
    expect("hf", MXW_E_MISSING, "decoder.layers.0.fc1.weight_scale is missing");
    make_compressed("hf/model.safetensors", 0, "I32", NULL);
    expect("hf", MXW_E_FORMAT, "weight_scale is not one number a row");
    add(&f, "model.decoder.layers.0.fc1.weight_packed", "I32", 1, (int64_t[]){1}, "abcd", 4);
    finish(&f, "hf/model.safetensors");
    expect("hf", MXW_E_UNSUPPORTED, "codes of 4 bits of compressed-tensors are not read");
}

/* ---- pytorch_model.bin ------------------------------------------------------------------------------------------- */

static void check_same(const char *leaf, const char *label) {
    mx_weights *w = NULL;
    mxw_checkpoint_info info;
    int64_t wrong = 0;
    if (!CHECK_EQ_INT(mx_weights_open(at(leaf), NULL, &w), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    mx_weights_info(w, &info);
    if (!CHECK(strcmp(info.format, label) == 0))
        printf("    %s\n", info.format);
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        uint32_t a, b;
        wrong += mx_weights_crc32(w, i, &a) < 0 || mx_weights_crc32(source, i, &b) < 0 || a != b;
    }
    CHECK_EQ_INT(wrong, 0);
    mx_weights_close(w);
}

/* Every value is within half a step of the source's; a step is so much of the largest value of a row. */
static void check_within(const char *leaf, float step) {
    mx_weights *w = NULL;
    int64_t wrong = 0, n_codes = 0;
    if (!CHECK_EQ_INT(mx_weights_open(at(leaf), NULL, &w), MXW_OK)) {
        printf("    %s\n", mxw_last_error());
        return;
    }
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mx_tensor view;
        int64_t row;
        mx_weights_tensor(source, i, NULL, &view);
        size_t n = (size_t)mx_tensor_count(&view), columns = (size_t)view.dims[view.rank - 1];
        float *want = mx_alloc(n * 4), *got = mx_alloc(n * 4), largest = 0;
        mx_tensor_to_f32(&view, want);
        CHECK_EQ_INT(mx_weights_read_f32(w, i, got), MXW_OK);
        int codes = mx_weights_quantized(w, i, &row) != NULL;
        n_codes += codes;
        for (size_t k = 0; k < n; k++) {
            for (size_t c = k; k % columns == 0 && c < k + columns; c++)
                largest = fmaxf(c == k ? 0 : largest, fabsf(want[c]));
            wrong += !(fabsf(got[k] - want[k]) <= (codes ? 0.501f * step * largest : 0));
        }
        mx_free(want);
        mx_free(got);
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK(n_codes > 10);
    mx_weights_close(w);
}

static void test_pytorch(void) {
    gen_options o = {.dims = dims(), .dtype = MXW_F32, .seed = 7, .hub_names = 1, .plain = 1};
    CHECK(mkdir(at("torch"), 0777) == 0);
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    check_same("torch", "PyTorch pytorch_model.bin");
    o.bare = 1;
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    check_same("torch", "PyTorch pytorch_model.bin");
}

/* Quantized in a pytorch_model.bin, whose tensors may have any strides: codes, scales and zero points have to lie row
 * by row, an output matrix as it likes. A tensor whose elements are all the last one of its storage would be read past
 * the end of it, had it no strides. */
static void test_strides(void) {
    static const char *const names[] = {
        "model.decoder.layers.0.fc2.weight",
        "model.decoder.layers.0.fc2.weight_scale",
        "model.decoder.layers.0.fc2.weight_zero_point",
    };
    gen_options o = {.dims = dims(), .dtype = MXW_I8, .seed = 7, .hub_names = 1, .plain = 1};
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    check_within("torch", 1.0f / 127);
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        char line[200];
        o.last_alone = names[i];
        CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
        snprintf(line, sizeof(line), "tensor %s does not lie row by row", names[i]);
        expect("torch", MXW_E_UNSUPPORTED, line);
    }
    o = (gen_options){.dims = dims(), .dtype = MXW_F32, .seed = 7, .hub_names = 1, .plain = 1, .projection = 1};
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    check_same("torch", "PyTorch pytorch_model.bin");
    o.last_alone = "proj_out.weight";
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    expect("torch", MXW_E_UNSUPPORTED, "proj_out.weight differs from model.decoder.embed_tokens.weight");
    o.last_alone = "model.decoder.embed_tokens.weight";
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    expect("torch", MXW_E_UNSUPPORTED, "proj_out.weight differs from model.decoder.embed_tokens.weight");
    o.last_alone = NULL;
    o.projection = 2;
    CHECK_EQ_INT(gen_pt(at("torch/pytorch_model.bin"), &o), 0);
    expect("torch", MXW_E_UNSUPPORTED, "proj_out.weight differs from model.decoder.embed_tokens.weight");
}

/* An index of torch's files, and large-v3's index, which has a name of its own. */
static void test_indexes(void) {
    gen_options o = {.dims = dims(), .dtype = MXW_F32, .seed = 7, .hub_names = 1, .plain = 1};
    char from[4300];
    CHECK(mkdir(at("shards"), 0777) == 0);
    CHECK_EQ_INT(gen_pt(at("shards/pytorch_model-00001-of-00001.bin"), &o), 0);
    write_text("shards/pytorch_model.bin.index.json",
               "{\"weight_map\": {\"model.decoder.layer_norm.bias\": \"pytorch_model-00001-of-00001.bin\"}}");
    check_same("shards", "PyTorch pytorch_model.bin");
    o.shards = 2;
    CHECK_EQ_INT(gen_safetensors(at("large"), &o), 0);
    snprintf(from, sizeof(from), "%s", at("large/model.safetensors.index.json"));
    CHECK_EQ_INT(rename(from, at("large/model.safetensors.index.fp32.json")), 0);
    check_same("large", "Hugging Face safetensors");
}

int main(void) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    open_source();
    test_mlx();
    test_mlx_hostile();
    test_compressed();
    test_pytorch();
    test_strides();
    test_indexes();
    mx_weights_close(source);
    source = NULL;
    gen_remove(folder);
    return check_done();
}
