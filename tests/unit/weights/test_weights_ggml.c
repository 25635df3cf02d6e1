/* test_weights_ggml.c - the ggml export, read back byte by byte: sizes, filter bank, tokens, every tensor. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"

#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/convert.h"
#include "feature/feature.h"
#include "text/text.h"
#include "weights/store.h"

/* What is left of the file. */
typedef struct reader {
    const uint8_t *at;
    size_t left;
    int failed;
} reader;

static const uint8_t *take(reader *r, size_t n) {
    if (n > r->left) {
        r->failed = 1;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += n;
    r->left -= n;
    return at;
}

static int64_t whole(reader *r) {
    const uint8_t *b = take(r, 4);
    return b ? (int64_t)(b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24) : -1;
}

static float real(reader *r) {
    float value = NAN;
    const uint8_t *b = take(r, 4);
    if (b)
        memcpy(&value, b, 4);
    return value;
}

static mx_weights *generated(const char *folder, mxw_dtype dtype, int n_vocab, int n_mels) {
    gen_options o = {.dims = gen_small_dims(), .dtype = dtype, .seed = 5};
    char path[4200];
    mx_weights *w = NULL;
    o.dims.n_vocab = n_vocab;
    o.dims.n_mels = n_mels;
    snprintf(path, sizeof(path), "%s/model.pt", folder);
    if (gen_pt(path, &o) != 0 || mx_weights_open(path, NULL, &w) != MXW_OK)
        printf("%s\n", mxw_last_error());
    return w;
}

static mxw_status convert(const mx_weights *w, mxw_dtype matrices, const char *path) {
    const mxw_convert_options options = {
        .struct_size = sizeof(options), .format = "ggml", .type = matrices == MXW_F32 ? "f32" : "f16"};
    return mx_convert(w, path, &options);
}

static void check_sizes(reader *r, const mxw_dims *d, int type) {
    const int64_t want[] = {0x67676d6c,      d->n_vocab,       d->n_audio_ctx, d->n_audio_state,
                            d->n_audio_head, d->n_audio_layer, d->n_text_ctx,  d->n_text_state,
                            d->n_text_head,  d->n_text_layer,  d->n_mels,      type};
    for (size_t i = 0; i < MX_COUNT(want); i++)
        CHECK_EQ_INT(whole(r), want[i]);
}

static void check_filters(reader *r, int n_mels) {
    float *want = mx_alloc((size_t)n_mels * MX_MEL_BINS * sizeof(*want));
    int wrong = 0, filled = 0;
    CHECK_EQ_INT(mx_mel_filters(n_mels, want), MXW_OK);
    CHECK_EQ_INT(whole(r), n_mels);
    CHECK_EQ_INT(whole(r), 201);
    for (int i = 0; i < n_mels * MX_MEL_BINS; i++) {
        wrong += real(r) != want[i];
        filled += want[i] > 0;
    }
    CHECK_EQ_INT(wrong, 0);
    CHECK(filled > MX_MEL_BINS && filled < 3 * MX_MEL_BINS);
    mx_free(want);
}

static void check_tokens(reader *r, int n_vocab) {
    mx_text *text = NULL;
    CHECK_EQ_INT(mx_text_open(n_vocab, &text), MXW_OK);
    int64_t n = whole(r);
    int wrong = 0;
    CHECK_EQ_INT(n, n_vocab == 51864 ? 50256 : 50257);
    for (int32_t id = 0; id < n && !r->failed; id++) {
        size_t want_n = 0;
        const char *want = mx_text_token_bytes(text, id, &want_n);
        int64_t got_n = whole(r);
        const uint8_t *got = take(r, (size_t)got_n);
        wrong += !got || (size_t)got_n != want_n || memcmp(got, want, want_n) != 0;
    }
    CHECK_EQ_INT(wrong, 0);
    mx_text_close(text);
}

/* Elements against the tensor's own, rounded where the file has halves. */
static void check_elements(reader *r, const mx_tensor *view, int type) {
    size_t n = (size_t)mx_tensor_count(view);
    float *want = mx_alloc(n * sizeof(*want));
    int wrong = 0;
    mx_tensor_to_f32(view, want);
    for (size_t i = 0; i < n && !r->failed; i++) {
        float got;
        if (type == 1) {
            uint16_t half = 0;
            const uint8_t *b = take(r, 2);
            if (b)
                memcpy(&half, b, 2);
            got = mx_f16_to_f32(half);
            want[i] = mx_f16_to_f32(mx_f32_to_f16(want[i]));
        } else {
            got = real(r);
        }
        wrong += got != want[i];
    }
    CHECK_EQ_INT(wrong, 0);
    mx_free(want);
}

static void check_tensor(reader *r, const mxw_tensor_info *info, const mx_tensor *view, int matrices) {
    int column = !strcmp(info->name, "encoder.conv1.bias") || !strcmp(info->name, "encoder.conv2.bias");
    int positions = strstr(info->name, "positional_embedding") != NULL;
    int type = info->rank == 1 || positions ? 0 : matrices;
    int64_t rank = whole(r), name_n = whole(r), got_type = whole(r);
    CHECK_EQ_INT(rank, info->rank + column);
    CHECK_EQ_INT(name_n, strlen(info->name));
    CHECK_EQ_INT(got_type, type);
    if (column)
        CHECK_EQ_INT(whole(r), 1);
    for (int d = info->rank - 1; d >= 0; d--)
        CHECK_EQ_INT(whole(r), info->dims[d]);
    const uint8_t *name = take(r, (size_t)name_n);
    if (CHECK(name && !memcmp(name, info->name, strlen(info->name))))
        check_elements(r, view, type);
}

static void test_read_back(const char *folder, mxw_dtype dtype, mxw_dtype matrices, int n_vocab, int n_mels) {
    char path[4200];
    mx_map map = {0};
    mxw_checkpoint_info info;
    mx_weights *w = generated(folder, dtype, n_vocab, n_mels);
    snprintf(path, sizeof(path), "%s/out.bin", folder);
    if (!CHECK(w && convert(w, matrices, path) == MXW_OK) || !CHECK(mx_map_open(path, &map) == MXW_OK)) {
        mx_weights_close(w);
        return;
    }
    reader r = {map.data, map.n, 0};
    int type = matrices == MXW_F16;
    mx_weights_info(w, &info);
    check_sizes(&r, info.dims, type);
    check_filters(&r, n_mels);
    check_tokens(&r, n_vocab);
    for (int64_t i = 0; i < mx_weights_count(w) && !r.failed; i++) {
        mxw_tensor_info tensor;
        mx_tensor view;
        mx_weights_tensor(w, i, &tensor, &view);
        check_tensor(&r, &tensor, &view, type);
    }
    CHECK(!r.failed && r.left == 0);
    mx_map_close(&map);
    mx_weights_close(w);
}

static void test_faults(const char *folder) {
    char path[4200];
    mx_weights *w = generated(folder, MXW_F32, 32, 80);
    if (!CHECK(w))
        return;
    snprintf(path, sizeof(path), "%s/never.bin", folder);
    CHECK_EQ_INT(convert(w, MXW_F16, path), MXW_E_UNSUPPORTED);   /* 32 tokens are no vocabulary of ours */
    CHECK(!mx_file_exists(path));
    mx_weights_close(w);
    w = generated(folder, MXW_F32, 51864, 80);
    snprintf(path, sizeof(path), "%s/no/such/folder.bin", folder);
    CHECK_EQ_INT(convert(w, MXW_F16, path), MXW_E_IO);
    CHECK(strstr(mxw_last_error(), "folder.bin: cannot write") != NULL);
    snprintf(path, sizeof(path), "%s/never.bin", folder);
    int64_t live = mx_mem_live(), i = 0;
    for (mxw_status status = MXW_E_MEMORY; status == MXW_E_MEMORY && i < 10000; i++) {
        CHECK(!mx_file_exists(path));
        mx_mem_fail_after(i);
        status = convert(w, MXW_F16, path);
        mx_mem_fail_after(-1);
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(i > 5 && mx_file_exists(path));
    mx_weights_close(w);
}

/* A value that f16 cannot hold is refused by name, and f32 takes it. The checkpoint lies in memory, to be changed. */
static void test_too_large(const char *folder) {
    char path[4200];
    const char *name = "decoder.blocks.0.mlp.2.weight";
    const float large = 70000;
    mx_map map = {0};
    mx_tensor view;
    mx_weights_close(generated(folder, MXW_F32, 51864, 80));
    snprintf(path, sizeof(path), "%s/model.pt", folder);
    if (!CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK))
        return;
    uint8_t *bytes = mx_alloc(map.n);
    mx_weights *w = NULL;
    memcpy(bytes, map.data, map.n);
    CHECK_EQ_INT(mx_weights_open_bytes(bytes, map.n, &w), MXW_OK);
    CHECK_EQ_INT(mx_weights_find(w, name, &view), MXW_OK);
    memcpy(view.data, &large, sizeof(large));
    snprintf(path, sizeof(path), "%s/large.bin", folder);
    CHECK_EQ_INT(convert(w, MXW_F16, path), MXW_E_UNSUPPORTED);
    CHECK(strstr(mxw_last_error(), "decoder.blocks.0.mlp.2.weight: 70000 does not fit into f16") != NULL);
    CHECK(!mx_file_exists(path));
    CHECK_EQ_INT(convert(w, MXW_F32, path), MXW_OK);
    mx_weights_close(w);
    mx_free(bytes);
    mx_map_close(&map);
}

int main(void) {
    char folder[4096];
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    test_read_back(folder, MXW_F16, MXW_F16, 51864, 80);
    test_read_back(folder, MXW_F32, MXW_F16, 51865, 80);
    test_read_back(folder, MXW_BF16, MXW_F32, 51866, 128);
    test_faults(folder);
    test_too_large(folder);
    gen_remove(folder);
    return check_done();
}
