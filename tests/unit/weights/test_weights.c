/* test_weights.c - checkpoints of both formats: every tensor found, right to the bit, and every fault named. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/store.h"

static char folder[4096];

static const char *at(const char *leaf) {
    static char path[2][4200];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, leaf);
    return path[turn];
}

/* Generates and opens; NULL after a check that failed. */
static mx_weights *open_generated(int ct2, const gen_options *o) {
    mx_weights *w = NULL;
    const char *path = at(ct2 ? "ct2" : "one.pt");
    CHECK_EQ_INT(ct2 ? gen_ct2(path, o) : gen_pt(path, o), 0);
    if (!CHECK_EQ_INT(mx_weights_open(path, NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return w;
}

/* What a value becomes in the type it is stored in. */
static void as_stored(mxw_dtype dtype, float *values, int64_t rows, int64_t columns) {
    float all = 0;
    for (int64_t i = 0; i < rows * columns; i++)
        all = fmaxf(all, fabsf(values[i]));
    for (int64_t r = 0; r < rows; r++) {
        float largest = 0;
        for (int64_t i = 0; i < columns; i++)
            largest = fmaxf(largest, fabsf(values[r * columns + i]));
        float scale = dtype == MXW_I32 ? 1024.0f / all : 127.0f / largest;
        for (int64_t i = 0; i < columns; i++) {
            float *x = &values[r * columns + i];
            if (dtype == MXW_F16)
                *x = mx_f16_to_f32(mx_f32_to_f16(*x));
            else if (dtype == MXW_BF16)
                *x = mx_bf16_to_f32(mx_f32_to_bf16(*x));
            else if (dtype != MXW_F32)
                *x = (float)(int)rintf(*x * scale) * (1.0f / scale);   /* no -0 */
        }
    }
}

/* Of int16 in fused records, the scale is of all parts: those are compared elsewhere, by CTranslate2's own rule. */
static int has_own_scale(const gen_options *o, const mxw_tensor_info *info) {
    return o->dtype != MXW_I32 || !(strstr(info->file_name, "self_attention/linear_0") ||
                                    strstr(info->file_name, "/attention/linear_1"));
}

static int64_t wrong_values(const mx_weights *w, const gen_options *o) {
    int64_t wrong = 0;
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mxw_tensor_info info;
        mx_tensor view;
        if (mx_weights_tensor(w, i, &info, &view) < 0)
            return -1;
        int64_t n = mx_tensor_count(&view);
        int quantized = gen_is_quantized(o, info.name, view.rank);
        mxw_dtype dtype = quantized || mx_dtype_is_float(o->dtype) ? o->dtype : o->rest;
        float *want = mx_alloc((size_t)n * 4), *got = mx_alloc((size_t)n * 4);
        gen_values(o, info.name, &view, want);
        as_stored(dtype, want, view.dims[0], n / view.dims[0]);
        mx_tensor_to_f32(&view, got);
        if (has_own_scale(o, &info) && memcmp(want, got, (size_t)n * 4) != 0 && ++wrong)
            printf("    %s differs\n", info.name);
        CHECK_STR(info.stored, quantized ? (o->dtype == MXW_I8 ? "int8" : "int16") : mx_dtype_name(dtype));
        mx_free(want);
        mx_free(got);
    }
    return wrong;
}

static void test_values(void) {
    static const struct {
        int ct2;
        mxw_dtype dtype, rest;
        int float_kernels;
    } cases[] = {{0, MXW_F32, 0, 0},       {0, MXW_F16, 0, 0},       {0, MXW_BF16, 0, 0},      {1, MXW_F32, 0, 0},
                 {1, MXW_F16, 0, 0},       {1, MXW_BF16, 0, 0},      {1, MXW_I8, MXW_F32, 0},  {1, MXW_I8, MXW_F16, 0},
                 {1, MXW_I8, MXW_BF16, 0}, {1, MXW_I8, MXW_F16, 1},  {1, MXW_I8, MXW_F32, 1},
                 {1, MXW_I32, MXW_F32, 0}};
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        gen_options o = {.dims = gen_small_dims(), .dtype = cases[i].dtype, .rest = cases[i].rest,
                         .float_kernels = cases[i].float_kernels, .seed = i};
        o.dims.n_audio_layer = 2;
        o.dims.n_text_layer = 3;
        mx_weights *w = open_generated(cases[i].ct2, &o);
        mxw_checkpoint_info info;
        if (!w)
            continue;
        mx_weights_info(w, &info);
        CHECK_EQ_INT(wrong_values(w, &o), 0);
        CHECK_EQ_INT(info.n_encoder_tensors, 5 + 2 * 15 + 2);
        CHECK_EQ_INT(info.n_decoder_tensors, 2 + 3 * 24 + 2);
        CHECK(memcmp(info.dims, &o.dims, sizeof(o.dims)) == 0);
        CHECK_STR(info.size_name, "custom");
        CHECK_STR(info.format, cases[i].ct2 ? "CTranslate2 model.bin" : "OpenAI .pt");
        mxw_tensor_info t;
        CHECK_EQ_INT(mx_weights_tensor(w, mx_weights_index(w, "decoder.blocks.2.cross_attn.key.weight"), &t, NULL), 0);
        CHECK_STR(t.name, "decoder.blocks.2.cross_attn.key.weight");
        CHECK_STR(t.file_name, cases[i].ct2 ? "decoder/layer_2/attention/linear_1/weight" : t.name);
        CHECK_EQ_INT(t.mapped, mx_dtype_is_float(cases[i].dtype));
        if (cases[i].dtype == MXW_I8)   /* a part of a fused tensor: its bytes and its rows' scales */
            CHECK_EQ_INT(t.stored_bytes, 8 * 8 + 8 * 4);
        mx_weights_close(w);
    }
}

static void test_names(void) {
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_F16};
    mx_weights *w = open_generated(1, &o);
    mx_tensor view;
    if (!w)
        return;
    /* The fused tensor under its own name comes whole; by index, at its first part. */
    CHECK_EQ_INT(mx_weights_find(w, "encoder/layer_0/self_attention/linear_0/weight", &view), MXW_OK);
    CHECK_EQ_INT(view.dims[0], 3 * 8);
    CHECK_EQ_INT(mx_weights_index(w, "encoder/layer_0/self_attention/linear_0/weight"),
                 mx_weights_index(w, "encoder.blocks.0.attn.query.weight"));
    CHECK_EQ_INT(mx_weights_find(w, "encoder.blocks.0.attn.value.weight", &view), MXW_OK);
    CHECK_EQ_INT(view.dims[0], 8);
    CHECK_EQ_INT(mx_weights_find(w, "encoder.blocks.1.attn.value.weight", &view), MXW_E_MISSING);
    CHECK(strstr(mxw_last_error(), "model.bin: tensor encoder.blocks.1.attn.value.weight is missing") != NULL);
    CHECK_EQ_INT(mx_weights_index(w, "nothing"), MXW_E_MISSING);
    CHECK_EQ_INT(mx_weights_tensor(w, mx_weights_count(w), NULL, &view), MXW_E_ARGUMENT);
    size_t n;
    const int32_t(*heads)[2] = mx_weights_alignment_heads(w, &n);
    CHECK(n == 1 && heads[0][0] == 0 && heads[0][1] == 0);
    mx_weights_close(w);
}

/* Every single tensor removed in turn, in both formats: a hard error that names it. */
static void test_every_tensor_missing(void) {
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_F16};
    int64_t n = mx_arch_count(&o.dims);
    for (int64_t i = 0; i < n; i++) {
        mx_arch_tensor t = mx_arch_get(&o.dims, i);
        char name[160], want[200];
        mx_arch_name(t.pattern, t.layer, name, sizeof(name));
        o.without = name;
        for (int ct2 = 0; ct2 < 2; ct2++) {
            const char *path = at(ct2 ? "ct2" : "one.pt");
            mx_weights *w = NULL;
            CHECK_EQ_INT(ct2 ? gen_ct2(path, &o) : gen_pt(path, &o), 0);
            CHECK_EQ_INT(mx_weights_open(path, NULL, &w), MXW_E_MISSING);
            CHECK(w == NULL);
            mx_tensor_source source;
            (ct2 ? mx_names_ct2 : mx_names_openai).source(t.pattern, t.layer, &source);
            /* Of a fused record the first part is the one missed; the file's own name says which record. */
            snprintf(want, sizeof(want), "%s", ct2 ? source.name : name);
            if (!CHECK(strstr(mxw_last_error(), want) && strstr(mxw_last_error(), " is missing")))
                printf("    %s: %s\n", want, mxw_last_error());
        }
    }
}

static void expect_failure(int ct2, const gen_options *o, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    const char *path = at(ct2 ? "ct2" : "one.pt");
    CHECK_EQ_INT(ct2 ? gen_ct2(path, o) : gen_pt(path, o), 0);
    CHECK_EQ_INT(mx_weights_open(path, NULL, &w), status);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
    CHECK(strncmp(mxw_last_error(), path, strlen(path)) == 0);
    mx_weights_close(w);
}

static void test_faults(void) {
    gen_options o = {.dims = gen_small_dims(), .cut = "decoder.ln.bias"};
    expect_failure(0, &o, MXW_E_FORMAT, "tensor decoder.ln.bias is f32 [7], expected f32 [8]");
    expect_failure(1, &o, MXW_E_FORMAT, "tensor decoder.ln.bias is f32 [7], expected f32 [8]");
    o.cut = "encoder/layer_0/self_attention/linear_0/weight";
    expect_failure(1, &o, MXW_E_FORMAT, "linear_0/weight does not split into 3 parts");
    o = (gen_options){.dims = gen_small_dims(), .key_bias = 1};
    expect_failure(1, &o, MXW_E_UNSUPPORTED, "encoder/layer_0/self_attention/linear_0/bias has a bias for the key");
    o = (gen_options){.dims = gen_small_dims(), .dtype = MXW_I8, .without = "decoder/embeddings/weight_scale"};
    expect_failure(1, &o, MXW_E_MISSING, "tensor decoder/embeddings/weight_scale is missing");
    o = (gen_options){.dims = gen_small_dims()};
    o.dims.n_text_head = 3;
    expect_failure(0, &o, MXW_E_FORMAT, "do not divide into");
    o = (gen_options){.dims = gen_small_dims(), .extra = "encoder.conv1.bias"};
    expect_failure(0, &o, MXW_E_FORMAT, "tensor encoder.conv1.bias appears twice");
}

static void count_warnings(void *user, const mxw_log_message *message) {
    *(int *)user += message->level == MXW_LOG_WARN && strstr(message->text, "proj_out") != NULL;
}

static void test_extra(void) {
    gen_options o = {.dims = gen_small_dims(), .extra = "proj_out"};
    int warnings = 0;
    mxw_log_set(MXW_LOG_WARN, count_warnings, &warnings);
    for (int ct2 = 0; ct2 < 2; ct2++)
        mx_weights_close(open_generated(ct2, &o));
    mxw_log_set(MXW_LOG_WARN, NULL, NULL);
    CHECK_EQ_INT(warnings, 2);
}

/* Without stated dimensions they follow from the shapes; heads are of 64. */
static void test_plain_state_dict(void) {
    gen_options o = {.dims = gen_small_dims(), .plain = 1};
    o.dims.n_audio_state = o.dims.n_text_state = 128;
    o.dims.n_text_layer = 2;
    mx_weights *w = open_generated(0, &o);
    mxw_checkpoint_info info;
    size_t n;
    if (!w)
        return;
    mx_weights_info(w, &info);
    CHECK(memcmp(info.dims, &o.dims, sizeof(o.dims)) == 0);
    const int32_t(*heads)[2] = mx_weights_alignment_heads(w, &n);
    CHECK(n == 2 && heads[0][0] == 1 && heads[0][1] == 0 && heads[1][1] == 1);   /* the last half of the layers */
    mx_weights_close(w);
}

static void write_text(const char *leaf, const char *text) {
    FILE *f = fopen(at(leaf), "wb");
    if (CHECK(f != NULL)) {
        fputs(text, f);
        fclose(f);
    }
}

static void open_fails(const char *name, const char *dir, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    CHECK_EQ_INT(mx_weights_open(name, dir, &w), status);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
    mx_weights_close(w);
}

static void test_beside(void) {
    gen_options o = {.dims = gen_small_dims()};
    static const struct {
        const char *leaf, *text, *line;
    } cases[] = {
        {"ct2/vocabulary.txt", "a\nb\nc", "vocabulary.txt: 3 tokens, but the embedding has 32 rows"},
        {"ct2/vocabulary.json", "[\"a\", \"b\"]", "vocabulary.json: 2 tokens"},
        {"ct2/vocabulary.json", "[\"a\", 1]", "vocabulary.json: item 1 is not a string"},
        {"ct2/config.json", "{\"alignment_heads\": [[0, 2]]}", "item 0 is not a [layer, head]"},
        {"ct2/config.json", "{\"alignment_heads\": 3}", "alignment_heads is not a list"},
        {"ct2/config.json", "[", "config.json: line 1: not JSON"},
        {"ct2/config.json", "[]", "config.json: not a JSON object"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        CHECK_EQ_INT(gen_ct2(at("ct2"), &o), 0);
        write_text(cases[i].leaf, cases[i].text);
        open_fails(at("ct2"), NULL, MXW_E_FORMAT, cases[i].line);
        unlink(at("ct2/vocabulary.json"));
    }
    o.no_config = 1;
    gen_remove(at("ct2"));
    mx_weights *w = open_generated(1, &o);
    size_t n = 0;
    if (w && mx_weights_alignment_heads(w, &n))
        CHECK_EQ_INT(n, 2);   /* both heads of the one layer */
    mx_weights_close(w);
}

static void test_locate(void) {
    gen_options o = {.dims = gen_small_dims()};
    mx_weights *w = NULL;
    const char *found = NULL;
    open_fails("tiny.en", folder, MXW_E_NOT_FOUND,
               "(looked for tiny.en.pt and a folder tiny.en); `max-whisper model fetch tiny.en` gets it");
    open_fails("large", folder, MXW_E_NOT_FOUND, "model 'large-v3' is not in ");
    open_fails("smal", folder, MXW_E_NOT_FOUND, "did you mean 'small'?");
    open_fails("./no/such", folder, MXW_E_NOT_FOUND, "./no/such: no such file or folder");
    open_fails("", folder, MXW_E_ARGUMENT, "empty");
    CHECK_EQ_INT(gen_pt(at("turbo.pt"), &o), 0);
    CHECK_EQ_INT(mx_weights_open("large-v3-turbo", folder, &w), MXW_OK);   /* under its other name */
    mx_weights_close(w);
    CHECK_EQ_INT(gen_ct2(at("base.en"), &o), 0);
    CHECK_EQ_INT(mx_weights_open("base.en", folder, &w), MXW_OK);
    mx_weights_close(w);
    CHECK_STR(mxw_model_name(2, folder, &found), "base.en");
    CHECK_STR(found, at("base.en/model.bin"));
    CHECK_STR(mxw_model_name(0, folder, &found), "tiny.en");
    CHECK(found == NULL);
    CHECK(mxw_model_name(1000, folder, &found) == NULL);
    write_text("empty.pt", "");
    write_text("words.pt", "some words that are no checkpoint");
    open_fails(at("empty.pt"), NULL, MXW_E_FORMAT, "the file is empty");
    open_fails(at("words.pt"), NULL, MXW_E_FORMAT, "not a Whisper checkpoint");
    open_fails(folder, NULL, MXW_E_ARGUMENT, ".pt files in this folder; name one of them");
}

static void test_model_dir(void) {
    setenv("MAX_WHISPER_MODELS", "/a", 1);
    CHECK_STR(mxw_model_dir("/option"), "/option");
    CHECK_STR(mxw_model_dir(NULL), "/a");
    unsetenv("MAX_WHISPER_MODELS");
    setenv("XDG_CACHE_HOME", "/cache", 1);
    CHECK_STR(mxw_model_dir(""), "/cache/max-whisper/models");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/me", 1);
    CHECK_STR(mxw_model_dir(NULL), "/me/.cache/max-whisper/models");
}

/* One layer a side of a released size, in the format that `ct2` says. */
static void test_size(const mx_released *r, int ct2, int n_vocab) {
    gen_options o = {.dims = gen_released_dims(r->name, 1), .dtype = MXW_F16};
    o.dims.n_vocab = n_vocab;
    mx_weights *w = open_generated(ct2, &o);
    CHECK(w && mx_weights_count(w) == 5 + 15 + 2 + 2 + 24 + 2);
    mx_weights_close(w);
    gen_remove(at("ct2"));
}

/* Every released width loads; the table's own lines make sense. */
static void test_released(void) {
    const mx_released *r;
    int32_t last_state = 0, last_mels = 0;
    for (int i = 0; (r = mx_released_get(i)); i++) {
        CHECK_EQ_INT(mx_dims_check(&r->dims), MXW_OK);
        for (int h = 0; r->heads[h][0] >= 0; h++)
            CHECK(r->heads[h][0] < r->dims.n_text_layer && r->heads[h][1] < r->dims.n_text_head);
        if (r->alias)
            CHECK(mx_released_find(r->alias) == r);
        if (r->dims.n_audio_state > last_state || r->dims.n_mels > last_mels)
            test_size(r, i % 4 == 2, 64);   /* the full vocabulary is a matter of time, not of code */
        last_state = MX_MAX(last_state, r->dims.n_audio_state);
        last_mels = MX_MAX(last_mels, r->dims.n_mels);
    }
}

/* A released model is known by its dimensions; two of the same by the file's name. */
static void test_match(void) {
    static const struct {
        const char *of, *path, *want;
    } cases[] = {
        {"large-v1", "/m/large-v1.pt", "large-v1"},        {"large-v1", "large-v1.pt", "large-v1"},
        {"large-v1", "/m/large-v1/model.bin", "large-v1"}, {"large-v1", "/m/other.pt", "large-v2"},
        {"large-v1", "/m/my-large-v1.pt", "large-v2"},     {"large-v2", "/m/tiny.pt", "large-v2"},
        {"tiny.en", "/m/tiny.pt", "tiny.en"},              {"large-v1", "/m/ggml-large-v1-q5_0.bin", "large-v1"},
        {"large-v1", "/m/whisper-large-Q5_K_M.gguf", "large-v1"},
        {"large-v2", "/m/whisper-large-v2-F16.gguf", "large-v2"},
        {"distil-large-v3.5", "distil-large-v3.5.pt", "distil-large-v3.5"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        const mx_released *r = mx_released_match(&mx_released_find(cases[i].of)->dims, cases[i].path);
        CHECK_STR(r ? r->name : NULL, cases[i].want);
    }
}

static void test_size_name(void) {
    gen_options o = {.dims = gen_released_dims("tiny", 4), .dtype = MXW_F16};
    mxw_checkpoint_info info;
    mx_weights *w = open_generated(0, &o);
    if (!w)
        return;
    mx_weights_info(w, &info);
    CHECK_STR(info.size_name, "tiny");
    CHECK_EQ_INT(info.n_tensors, 167);
    CHECK_EQ_INT(info.n_encoder_tensors, 67);
    CHECK_EQ_INT(info.n_languages, 99);
    CHECK(info.multilingual);
    mx_weights_close(w);
}

/* Argument "full": every released size with its whole vocabulary, the formats in turn. */
static void test_all_sizes(void) {
    const mx_released *r;
    for (int i = 0; (r = mx_released_get(i)); i++)
        test_size(r, i % 2, r->dims.n_vocab);
}

int main(int argc, char **argv) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int64_t live = mx_mem_live();
    test_values();
    test_names();
    test_every_tensor_missing();
    test_faults();
    test_extra();
    test_plain_state_dict();
    test_beside();
    test_locate();
    test_model_dir();
    test_released();
    test_match();
    test_size_name();
    if (argc > 1 && strcmp(argv[1], "full") == 0)
        test_all_sizes();
    CHECK_EQ_INT(mx_mem_live(), live);
    gen_remove(folder);
    return check_done();
}
