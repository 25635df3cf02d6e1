/* test_gguf.c - GGUF files: the same bits as the .pt of the same values under both sets of names, every block type as
 * tensor/blocks.c widens it, and every fault of an untrusted file named. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "block_tensors.h"
#include "hostile.h"

#include "tensor/blocks.h"

static char folder[4096];

static const char *at(const char *leaf) {
    static char path[4][4200];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, leaf);
    return path[turn];
}

static mx_weights *open_generated(const gen_options *o) {
    mx_weights *w = NULL;
    CHECK_EQ_INT(gen_gguf(at("one.gguf"), o), 0);
    if (!CHECK_EQ_INT(mx_weights_open(at("one.gguf"), NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return w;
}

/* Rounded as the file's tensor is. */
static int same_values(const mx_weights *a, const gen_options *o, int64_t i) {
    mxw_tensor_info info;
    mx_tensor x;
    if (mx_weights_tensor(a, i, &info, &x) < 0)
        return 0;
    size_t n = (size_t)mx_tensor_count(&x);
    float *got = mx_alloc(n * 4), *want = mx_alloc(n * 4);
    mx_tensor_to_f32(&x, got);
    gen_values(o, info.name, &x, want);
    for (size_t k = 0; k < n; k++)
        want[k] = x.dtype == MXW_F16    ? mx_f16_to_f32(mx_f32_to_f16(want[k]))
                  : x.dtype == MXW_BF16 ? mx_bf16_to_f32(mx_f32_to_bf16(want[k]))
                                        : want[k];
    int same = memcmp(got, want, n * 4) == 0;
    mx_free(got);
    mx_free(want);
    return same;
}

static void test_values(mxw_dtype dtype, int hub_names, int bare) {
    gen_options o = {.dims = gen_small_dims(), .dtype = dtype, .hub_names = hub_names, .bare = bare, .seed = 6};
    mxw_checkpoint_info info;
    mxw_tensor_info t;
    int64_t wrong = 0;
    o.dims.n_text_layer = 2;
    if (hub_names)   /* nothing tells the heads: they are of 64 */
        o.dims.n_audio_head = o.dims.n_text_head = 1;
    mx_weights *w = open_generated(&o);
    if (!w)
        return;
    mx_weights_info(w, &info);
    CHECK_STR(info.format, "GGUF");
    CHECK(memcmp(info.dims, &o.dims, sizeof(o.dims)) == 0);
    for (int64_t i = 0; i < mx_weights_count(w); i++)
        wrong += !same_values(w, &o, i);
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(mx_weights_tensor(w, mx_weights_index(w, "decoder.blocks.1.cross_attn.out.weight"), &t, NULL), MXW_OK);
    CHECK_STR(t.file_name, !hub_names ? "dec.blocks.1.cross_attn.out.weight"
                           : bare     ? "decoder.layers.1.encoder_attn.out_proj.weight"
                                      : "model.decoder.layers.1.encoder_attn.out_proj.weight");
    CHECK(t.dtype == dtype && t.mapped);
    mx_weights_close(w);
}

static void test_blocks(const char *name) {
    const mx_block_type *type = mx_block_type_find(name);
    gen_options o = {.dims = gen_small_dims(), .blocks = name, .seed = 9};
    o.dims.n_audio_state = o.dims.n_text_state = type->elements;
    mx_weights *w = open_generated(&o);
    check_block_tensors(w, &o, type);
    mx_weights_close(w);
}

/* Kernels, too, as candle's files may have them; but not where they lie in another order. */
static void test_kernel_blocks(void) {
    gen_options o = {.dims = gen_small_dims(), .blocks = "q5_1", .kernel_blocks = 1, .hub_names = 1, .seed = 9};
    mx_weights *none = NULL;
    o.dims.n_audio_state = o.dims.n_text_state = 64;
    o.dims.n_audio_head = o.dims.n_text_head = 1;
    mx_weights *w = open_generated(&o);
    check_block_tensors(w, &o, mx_block_type_find("q5_1"));
    mx_weights_close(w);
    o.hub_names = 2;
    CHECK_EQ_INT(gen_gguf(at("one.gguf"), &o), 0);
    CHECK_EQ_INT(mx_weights_open(at("one.gguf"), NULL, &none), MXW_E_UNSUPPORTED);
    if (!CHECK(strstr(mxw_last_error(), "tensor encoder.conv1.weight is a quantized kernel in MLX's order") != NULL))
        printf("    %s\n", mxw_last_error());
}

static void test_missing(void) {
    gen_options o = {.dims = gen_small_dims()};
    const char *instead = NULL;
    mx_weights *w = open_generated(&o);
    CHECK(w && !strcmp(mx_weights_missing(w, 0, &instead), "alignment heads"));
    CHECK(w && !mx_weights_missing(w, 1, &instead));   /* tokens and merges are in the file */
    mx_weights_close(w);
    o.hub_names = 1;
    w = open_generated(&o);
    CHECK(w && !strcmp(mx_weights_missing(w, 1, &instead), "vocabulary"));
    CHECK(w && !strcmp(mx_weights_missing(w, 2, &instead), "merges"));
    mx_weights_close(w);
}

/* ---- faults ------------------------------------------------------------------------------------------- */

static void expect_failure(mxw_status status, mxw_status want, const char *line) {
    CHECK_EQ_INT(status, want);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL && !strchr(mxw_last_error(), '\n')))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
}

static uint8_t *find(uint8_t *bytes, size_t n, const char *text) {
    for (size_t i = 0; i + strlen(text) <= n; i++)
        if (memcmp(bytes + i, text, strlen(text)) == 0)
            return bytes + i;
    exit(1);
}

/* Bytes behind a text of the file are changed: `skip` behind its end. */
static void test_damaged(void) {
    static const struct {
        const char *text;
        int skip;
        uint64_t value;
        int bytes;
        mxw_status status;
        const char *line;
    } cases[] = {
        {"GGUF", 0, 0x03000000, 4, MXW_E_UNSUPPORTED, "a big-endian GGUF file"},
        {"GGUF", 0, 1, 4, MXW_E_UNSUPPORTED, "GGUF version 1; versions 2 and 3 are read"},
        {"GGUF", 4, UINT64_MAX, 8, MXW_E_FORMAT, "the file is truncated in its header"},
        {"GGUF", 12, UINT64_MAX / 16, 8, MXW_E_FORMAT, "the file is truncated in its header"},
        {"general.architecture", 12, 'L', 1, MXW_E_UNSUPPORTED, "general.architecture is Lhisper; Whisper has whisper"},
        {"general.architecture", 4, UINT64_MAX, 8, MXW_E_FORMAT, "truncated in general.architecture, or that is not"},
        {"general.architecture", 0, 13, 4, MXW_E_FORMAT, "general.architecture is of unknown type 13"},
        {"general.alignment", 4, 0, 4, MXW_E_FORMAT, "general.alignment is not a whole number from 1 to 1048576"},
        {"general.alignment", 4, 24, 4, MXW_E_FORMAT, "general.alignment is 24, not a power of two"},
        {"encoder.n_heads", 4, 0, 4, MXW_E_FORMAT, "stt.whisper.encoder.n_heads is not a whole number"},
        {"encoder.activation", 12, 'x', 1, MXW_E_UNSUPPORTED, "encoder.activation is xelu; Whisper has gelu"},
        {"scale_embedding", 4, 1, 1, MXW_E_UNSUPPORTED, "scale_embedding is true; Whisper has false"},
        {"ggml.tokens", 8, UINT64_MAX, 8, MXW_E_FORMAT, "the file is truncated in tokenizer.ggml.tokens"},
        {"ggml.tokens", 4, 9, 4, MXW_E_FORMAT, "the file is truncated in tokenizer.ggml.tokens"},
        {"enc.conv.0.weight", 0, 5, 4, MXW_E_FORMAT, "tensor enc.conv.0.weight has 5 axes"},
        {"enc.conv.0.weight", 0, 0, 4, MXW_E_FORMAT, "tensor enc.conv.0.weight has 0 axes"},
        {"enc.conv.0.weight", 4, 0, 8, MXW_E_FORMAT, "tensor enc.conv.0.weight is empty"},
        {"enc.conv.0.weight", 4, UINT64_MAX, 8, MXW_E_FORMAT, "tensor enc.conv.0.weight is empty"},
        {"enc.conv.0.weight", 4, UINT64_MAX / 4, 8, MXW_E_FORMAT, "tensor enc.conv.0.weight is too large"},
        {"enc.conv.0.weight", 4, 1 << 30, 8, MXW_E_FORMAT, "the file is truncated in tensor enc.conv.0.weight"},
        {"enc.conv.0.weight", 28, 16, 4, MXW_E_UNSUPPORTED, "tensor enc.conv.0.weight is of ggml's type 16"},
        {"enc.conv.0.weight", 32, 32, 8, MXW_E_FORMAT, "tensor enc.conv.0.weight is at byte 32 of the data; the one "
         "before it ends at 0"},
        {"enc.conv.1.weight", 32, 0, 8, MXW_E_FORMAT, "tensor enc.conv.1.weight is at byte 0 of the data"},
    };
    gen_options o = {.dims = gen_small_dims()};
    size_t n;
    CHECK_EQ_INT(gen_gguf(at("one.gguf"), &o), 0);
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        uint8_t *whole = hostile_read(at("one.gguf"), &n);
        uint8_t *p = find(whole, n, cases[i].text) + strlen(cases[i].text) + cases[i].skip;
        for (int b = 0; b < cases[i].bytes; b++)
            p[b] = (uint8_t)(cases[i].value >> (8 * b));
        expect_failure(hostile_open(whole, n), cases[i].status, cases[i].line);
        free(whole);
    }
}

static void fails(const gen_options *o, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    CHECK_EQ_INT(gen_gguf(at("one.gguf"), o), 0);
    expect_failure(mx_weights_open(at("one.gguf"), NULL, &w), status, line);
    CHECK(w == NULL);
}

static void test_faults(void) {
    gen_options o = {.dims = gen_small_dims(), .without = "decoder.blocks.0.mlp.0.bias"};
    fails(&o, MXW_E_MISSING, "decoder.blocks.0.mlp.0.bias is missing (dec.blocks.0.ffn.fc1.bias in the file's own");
    o = (gen_options){.dims = gen_small_dims(), .cut = "dec.final_norm.bias"};
    fails(&o, MXW_E_FORMAT, "tensor decoder.ln.bias is f32 [7], expected f32 [8]");
    o = (gen_options){.dims = gen_small_dims(), .extra = "enc.conv.0.bias"};
    fails(&o, MXW_E_FORMAT, "tensor enc.conv.0.bias appears twice");
    FILE *f = fopen(at("one.gguf"), "ab");
    fputs("more", f);
    fclose(f);
    mx_weights *w = NULL;
    expect_failure(mx_weights_open(at("one.gguf"), NULL, &w), MXW_E_FORMAT, "4 bytes too many at the end");
}

/* A kernel whose rows do not fill a block is blocks nevertheless in candle's files. */
static void test_convolution(void) {
    mx_ggml_type type;
    uint64_t bytes = 0;
    CHECK_EQ_INT(mx_ggml_type_get("t", 8, &type), MXW_OK);
    CHECK_EQ_INT(mx_ggml_bytes("t", &type, 3, (int64_t[]){8, 4, 3}, &bytes), MXW_OK);
    CHECK_EQ_INT(bytes, 3 * 34);
    expect_failure(mx_ggml_bytes("t", &type, 2, (int64_t[]){32, 3}, &bytes), MXW_E_FORMAT,
                   "tensor t: rows of 3 do not fill q8_0 blocks of 32");
}

static void test_hostile(int hub_names) {
    gen_options o = {.dims = gen_least_dims(), .dtype = MXW_F16, .hub_names = hub_names};
    size_t n;
    CHECK_EQ_INT(gen_gguf(at("one.gguf"), &o), 0);
    uint8_t *whole = hostile_read(at("one.gguf"), &n);
    while (n && !whole[n - 1])   /* without the padding behind the last tensor, which nobody needs */
        n--;
    hostile_truncated(whole, n);
    hostile_changed(whole, n);
    free(whole);
    hostile_no_memory(at("one.gguf"));
}

int main(void) {
    static const char *const types[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
                                        "q8_K"};
    static const mxw_dtype dtypes[] = {MXW_F32, MXW_F16, MXW_BF16};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int64_t live = mx_mem_live();
    for (size_t i = 0; i < MX_COUNT(dtypes); i++)
        for (int names = 0; names < 3; names++)
            test_values(dtypes[i], names > 0, names > 1);
    for (size_t i = 0; i < MX_COUNT(types); i++)
        test_blocks(types[i]);
    test_kernel_blocks();
    test_missing();
    test_damaged();
    test_faults();
    test_convolution();
    test_hostile(0);
    test_hostile(1);
    CHECK_EQ_INT(mx_mem_live(), live);
    gen_remove(folder);
    return check_done();
}
