/* test_ggml_read.c - ggml files of whisper.cpp: the same bits as the .pt of the same values, every block type as
 * tensor/blocks.c widens it, what is missing and stands in, and every fault of an untrusted file named. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "block_tensors.h"
#include "hostile.h"

#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
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
    CHECK_EQ_INT(gen_ggml(at("one.bin"), o), 0);
    if (!CHECK_EQ_INT(mx_weights_open(at("one.bin"), NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return w;
}

static int same_values(const mx_weights *a, const mx_weights *b, int64_t i, int as_f16) {
    mx_tensor x, y;
    if (mx_weights_tensor(a, i, NULL, &x) < 0 || mx_weights_tensor(b, i, NULL, &y) < 0 ||
        mx_tensor_count(&x) != mx_tensor_count(&y))
        return 0;
    size_t n = (size_t)mx_tensor_count(&x);
    float *p = mx_alloc(n * 4), *q = mx_alloc(n * 4);
    mx_tensor_to_f32(&x, p);
    mx_tensor_to_f32(&y, q);
    for (size_t k = 0; as_f16 && x.dtype == MXW_F16 && k < n; k++)
        q[k] = mx_f16_to_f32(mx_f32_to_f16(q[k]));
    int same = memcmp(p, q, n * 4) == 0;
    mx_free(p);
    mx_free(q);
    return same;
}

/* Against the .pt of the same values in f32. */
static void test_values(mxw_dtype dtype) {
    gen_options o = {.dims = gen_small_dims(), .seed = 3};
    mx_weights *pt = NULL;
    o.dims.n_audio_layer = 2;
    CHECK_EQ_INT(gen_pt(at("one.pt"), &o), 0);
    CHECK_EQ_INT(mx_weights_open(at("one.pt"), NULL, &pt), MXW_OK);
    o.dtype = dtype;
    mx_weights *w = open_generated(&o);
    mxw_checkpoint_info info;
    mxw_tensor_info t;
    int64_t wrong = 0;
    if (!w || !pt)
        return;
    mx_weights_info(w, &info);
    CHECK_STR(info.format, "whisper.cpp ggml");
    CHECK(memcmp(info.dims, &o.dims, sizeof(o.dims)) == 0);
    for (int64_t i = 0; i < mx_weights_count(w); i++)
        wrong += !same_values(w, pt, i, dtype == MXW_F16);
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(mx_weights_tensor(w, mx_weights_index(w, "encoder.conv1.weight"), &t, NULL), MXW_OK);
    CHECK(t.dtype == dtype && t.mapped && !strcmp(t.stored, dtype == MXW_F16 ? "f16" : "f32"));
    CHECK_EQ_INT(t.stored_bytes, t.bytes);
    CHECK_EQ_INT(mx_weights_tensor(w, mx_weights_index(w, "encoder.conv1.bias"), &t, NULL), MXW_OK);
    CHECK(t.rank == 1 && t.dtype == MXW_F32);   /* a column in the file */
    mx_weights_close(w);
    mx_weights_close(pt);
}

static void test_blocks(const char *name) {
    const mx_block_type *type = mx_block_type_find(name);
    gen_options o = {.dims = gen_small_dims(), .blocks = name, .seed = 9};
    o.dims.n_audio_state = o.dims.n_text_state = type->elements;
    mx_weights *w = open_generated(&o);
    check_block_tensors(w, &o, type);
    mx_weights_close(w);
}

static void test_missing(void) {
    gen_options o = {.dims = gen_small_dims()};
    const char *instead = NULL;
    mx_weights *w = open_generated(&o);
    if (!w)
        return;
    CHECK_STR(mx_weights_missing(w, 0, &instead), "alignment heads");
    CHECK_STR(instead, "all heads of the last half of the decoder's layers");
    CHECK_STR(mx_weights_missing(w, 1, &instead), "merges");
    CHECK_STR(instead, "those of the library");
    CHECK(mx_weights_missing(w, 2, &instead) == NULL && mx_weights_missing(w, -1, &instead) == NULL);
    mx_weights_close(w);
}

/* ---- faults ------------------------------------------------------------------------------------------- */

static void expect_failure(mxw_status status, mxw_status want, const char *line) {
    CHECK_EQ_INT(status, want);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL && !strchr(mxw_last_error(), '\n')))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
}

static void put(uint8_t *p, uint32_t x) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

enum { FILTERS = 48, TOKENS = FILTERS + 8 + 80 * 201 * 4, TENSORS = TOKENS + 4 + 5 + 4 };   /* of the small one */

static void test_damaged(void) {
    static const struct {
        size_t at;
        uint32_t value;
        mxw_status status;
        const char *line;
    } cases[] = {
        {4, 0, MXW_E_FORMAT, "dims: n_vocab is 0"},
        {8, 0x80000000, MXW_E_FORMAT, "dims: n_audio_ctx is -2147483648"},
        {12, 0x7fffffff, MXW_E_FORMAT, "dims: n_audio_state is 2147483647, not in 1..65536"},
        {12, 16, MXW_E_UNSUPPORTED, "encoder state 16 and decoder state 8 differ"},
        {44, 1002, MXW_E_UNSUPPORTED, "type 1002: quantized in version 1 of ggml's layout; version 2 is read"},
        {FILTERS, 128, MXW_E_FORMAT, "a filter bank of 128 by 201; 80 by 201 are needed"},
        {FILTERS + 4, 0xffffffff, MXW_E_FORMAT, "a filter bank of 80 by 4294967295"},
        {TOKENS, 0xffffffff, MXW_E_FORMAT, "the file is truncated in its vocabulary"},
        {TOKENS, 33, MXW_E_FORMAT, "33 tokens, but the embedding has 32 rows"},
        {TOKENS + 4, 0x7fffffff, MXW_E_FORMAT, "token 0 has 2147483647 bytes"},
        {TENSORS, 5, MXW_E_FORMAT, "a tensor of 5 axes"},
        {TENSORS, 0, MXW_E_FORMAT, "a tensor of 0 axes"},
        {TENSORS + 4, 0xffffffff, MXW_E_FORMAT, "with a name of 4294967295 bytes"},
        {TENSORS + 8, 9, MXW_E_UNSUPPORTED, "tensor encoder.conv1.weight is of ggml's type 9, which is not read"},
        {TENSORS + 8, 14, MXW_E_FORMAT, "tensor encoder.conv1.weight: rows of 3 do not fill q6_K blocks of 256"},
        {TENSORS + 12, 0, MXW_E_FORMAT, "tensor encoder.conv1.weight is empty"},
        {TENSORS + 12, 0xfffffffd, MXW_E_FORMAT, "tensor encoder.conv1.weight is empty"},
        {TENSORS + 12, 0x7fffffff, MXW_E_FORMAT, "the file is truncated in tensor encoder.conv1.weight"},
    };
    gen_options o = {.dims = gen_small_dims()};
    size_t n;
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    uint8_t *whole = hostile_read(at("one.bin"), &n);
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        uint8_t was[4];
        memcpy(was, whole + cases[i].at, 4);
        put(whole + cases[i].at, cases[i].value);
        expect_failure(hostile_open(whole, n), cases[i].status, cases[i].line);
        memcpy(whole + cases[i].at, was, 4);
    }
    put(whole + 4, 10);
    memcpy(whole + 8, "silero-16k", 10);
    expect_failure(hostile_open(whole, n), MXW_E_FORMAT, "Silero VAD, which detects speech");
    free(whole);
}

static void test_faults(void) {
    gen_options o = {.dims = gen_small_dims(), .without = "decoder.blocks.0.cross_attn.key.weight"};
    mx_weights *w = NULL;
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    expect_failure(mx_weights_open(at("one.bin"), NULL, &w), MXW_E_MISSING,
                   "one.bin: tensor decoder.blocks.0.cross_attn.key.weight is missing");
    o = (gen_options){.dims = gen_small_dims(), .cut = "decoder.ln.bias"};
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    expect_failure(mx_weights_open(at("one.bin"), NULL, &w), MXW_E_FORMAT,
                   "decoder.ln.bias is f32 [7], expected f32 [8]");
    o = (gen_options){.dims = gen_small_dims(), .extra = "encoder.conv1.bias"};
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    expect_failure(mx_weights_open(at("one.bin"), NULL, &w), MXW_E_FORMAT, "tensor encoder.conv1.bias appears twice");
    o = (gen_options){.dims = gen_small_dims()};
    o.dims.n_vocab = 51865;   /* a size whose tokens are known, and these are not */
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    expect_failure(mx_weights_open(at("one.bin"), NULL, &w), MXW_E_UNSUPPORTED, "its 2 tokens are not Whisper's");
    CHECK(w == NULL);
}

/* What we export we read back: the tokens are the library's own. */
static void test_exported(int n_vocab) {
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_F16, .seed = 4};
    mx_weights *pt = NULL, *w = NULL;
    int64_t wrong = 0;
    o.dims.n_vocab = n_vocab;
    CHECK_EQ_INT(gen_pt(at("one.pt"), &o), 0);
    CHECK_EQ_INT(mx_weights_open(at("one.pt"), NULL, &pt), MXW_OK);
    const mxw_convert_options options = {.struct_size = sizeof(options), .format = "ggml", .type = "f16"};
    CHECK_EQ_INT(mx_convert(pt, at("out.bin"), &options), MXW_OK);
    if (!CHECK_EQ_INT(mx_weights_open(at("out.bin"), NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    for (int64_t i = 0; w && i < mx_weights_count(w); i++)
        wrong += !same_values(w, pt, i, 0);
    CHECK_EQ_INT(wrong, 0);
    mx_weights_close(w);
    mx_weights_close(pt);
    unlink(at("out.bin"));
}

/* By content: under any name, and in a folder that has nothing else. */
static void test_found(void) {
    gen_options o = {.dims = gen_small_dims()};
    mx_str path = {0};
    mx_weights *w = NULL;
    char alone[4200];
    snprintf(alone, sizeof(alone), "%s", at("alone"));
    CHECK(mkdir(alone, 0777) == 0);
    CHECK_EQ_INT(gen_ggml(at("alone/some.bin"), &o), 0);
    FILE *f = fopen(at("alone/training_args.bin"), "wb");
    fputs("not a checkpoint", f);
    fclose(f);
    CHECK_EQ_INT(mx_look_in_folder(alone, &path), MXW_OK);
    CHECK_STR(mx_str_get(&path), at("alone/some.bin"));
    CHECK_EQ_INT(gen_ggml(at("alone/other.bin"), &o), 0);
    expect_failure(mx_look_in_folder(alone, &path), MXW_E_ARGUMENT, "2 checkpoints in this folder; name one of them");
    CHECK_EQ_INT(gen_ggml(at("alone/model.safetensors"), &o), 0);   /* whatever its name says */
    CHECK_EQ_INT(mx_weights_open(alone, NULL, &w), MXW_OK);
    mx_weights_close(w);
    CHECK_EQ_INT(gen_ggml(at("ggml-base.en.bin"), &o), 0);
    CHECK_EQ_INT(mx_weights_open("base.en", folder, &w), MXW_OK);
    mx_weights_close(w);
    CHECK_EQ_INT(gen_ggml(at("ggml-base.en-q5_1.bin"), &o), 0);
    CHECK_EQ_INT(mx_weights_open("base.en-q5_1", folder, &w), MXW_OK);
    mx_weights_close(w);
    mx_str_free(&path);
}

static void test_hostile(void) {
    gen_options o = {.dims = gen_least_dims(), .dtype = MXW_F16};
    size_t n;
    CHECK_EQ_INT(gen_ggml(at("one.bin"), &o), 0);
    uint8_t *whole = hostile_read(at("one.bin"), &n);
    hostile_truncated(whole, n);
    hostile_changed(whole, n);
    free(whole);
    hostile_no_memory(at("one.bin"));
}

int main(void) {
    static const char *const types[] = {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K",
                                        "q8_K"};
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int64_t live = mx_mem_live();
    test_values(MXW_F32);
    test_values(MXW_F16);
    for (size_t i = 0; i < MX_COUNT(types); i++)
        test_blocks(types[i]);
    test_missing();
    test_damaged();
    test_faults();
    test_exported(51864);
    test_exported(51865);
    test_exported(51866);
    test_found();
    test_hostile();
    CHECK_EQ_INT(mx_mem_live(), live);
    gen_remove(folder);
    return check_done();
}
