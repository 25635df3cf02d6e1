/* test_safetensors.c - Hugging Face checkpoints: the same bits as the .pt of the same values, whole and in shards, in
 * every type; and every fault of an untrusted file is rejected with a line that names it. With `full`: real widths. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "hostile.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "weights/store.h"

static char folder[4096];

static const char *at(const char *leaf) {
    static char path[4][4200];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, leaf);
    return path[turn];
}

static mx_weights *open_folder(const gen_options *o) {
    mx_weights *w = NULL;
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), o), 0);
    if (!CHECK_EQ_INT(mx_weights_open(at("hf"), NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return w;
}

static void expect_failure(mxw_status status, mxw_status want, const char *line) {
    CHECK_EQ_INT(status, want);
    if (!CHECK(strstr(mxw_last_error(), line) != NULL && !strchr(mxw_last_error(), '\n')))
        printf("    want \"%s\"\n    got  \"%s\"\n", line, mxw_last_error());
}

static void open_fails(const char *leaf, mxw_status status, const char *line) {
    mx_weights *w = NULL;
    expect_failure(mx_weights_open(at(leaf), NULL, &w), status, line);
    CHECK(w == NULL);
    mx_weights_close(w);
}

static void write_text(const char *leaf, const char *text) {
    FILE *f = fopen(at(leaf), "wb");
    if (CHECK(f != NULL)) {
        fputs(text, f);
        fclose(f);
    }
}

/* ---- the same bits ------------------------------------------------------------------------------------ */

static void same_tensors(const mx_weights *a, const mx_weights *b) {
    CHECK_EQ_INT(mx_weights_count(a), mx_weights_count(b));
    for (int64_t i = 0; i < mx_weights_count(a); i++) {
        mxw_tensor_info x, y;
        uint32_t crc_x = 0, crc_y = 1;
        CHECK(mx_weights_tensor(a, i, &x, NULL) == MXW_OK && mx_weights_tensor(b, i, &y, NULL) == MXW_OK);
        CHECK(mx_weights_crc32(a, i, &crc_x) == MXW_OK && mx_weights_crc32(b, i, &crc_y) == MXW_OK);
        if (!CHECK(strcmp(x.name, y.name) == 0 && x.dtype == y.dtype && crc_x == crc_y && y.mapped))
            printf("    tensor %s\n", x.name);
        CHECK_EQ_INT(mx_weights_index(b, y.file_name), i);
    }
}

static void test_like_pt(const gen_options *base) {
    static const mxw_dtype dtypes[] = {MXW_F32, MXW_F16, MXW_BF16};
    for (size_t t = 0; t < MX_COUNT(dtypes); t++)
        for (int variant = 0; variant < 4; variant++) {
            gen_options o = *base;
            o.dtype = dtypes[t];
            o.shards = variant == 1 ? 3 : 0;
            o.bare = variant == 2;
            o.projection = variant == 3;
            o.key_bias = variant == 3;   /* zeros */
            mx_weights *pt = NULL, *hf = open_folder(&o);
            CHECK_EQ_INT(gen_pt(at("one.pt"), &o), 0);
            CHECK_EQ_INT(mx_weights_open(at("one.pt"), NULL, &pt), MXW_OK);
            mxw_checkpoint_info info, want;
            if (hf && pt) {
                same_tensors(pt, hf);
                mx_weights_info(hf, &info);
                mx_weights_info(pt, &want);
                CHECK(memcmp(info.dims, want.dims, sizeof(*info.dims)) == 0);
                CHECK_STR(info.format, "Hugging Face safetensors");
                CHECK_STR(info.size_name, want.size_name);
                CHECK(info.file_bytes > (uint64_t)info.n_parameters * mx_dtype_bytes(dtypes[t]));
                mx_weights_forget(hf);
                same_tensors(pt, hf);
            }
            mx_weights_close(hf);
            mx_weights_close(pt);
        }
}

/* Released shapes, narrow: layers, mel bins and vocabulary as they are. */
static void test_shapes(void) {
    static const char *const names[] = {"distil-small.en", "distil-large-v3", "large-v3-turbo", "large-v3", "tiny.en"};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        gen_options o = {.dims = gen_released_dims(names[i], 99), .dtype = MXW_BF16, .shards = i % 2 ? 2 : 0};
        o.dims.n_audio_state = o.dims.n_text_state = 2 * o.dims.n_text_head;
        mx_weights *w = open_folder(&o);
        mxw_checkpoint_info info;
        if (!w)
            continue;
        mx_weights_info(w, &info);
        CHECK(memcmp(info.dims, &o.dims, sizeof(o.dims)) == 0);
        size_t n;
        const int32_t(*heads)[2] = mx_weights_alignment_heads(w, &n);
        CHECK(n == 1 && heads[0][0] == o.dims.n_text_layer - 1 && heads[0][1] == 0);   /* generation_config.json's */
        mx_weights_close(w);
    }
}

static void test_names(void) {
    gen_options o = {.dims = gen_small_dims()};
    mx_weights *w = open_folder(&o);
    mx_tensor view;
    if (!w)
        return;
    CHECK_EQ_INT(mx_weights_index(w, "model.decoder.layers.0.encoder_attn.out_proj.weight"),
                 mx_weights_index(w, "decoder.blocks.0.cross_attn.out.weight"));
    CHECK_EQ_INT(mx_weights_find(w, "model.encoder.embed_positions.weight", &view), MXW_OK);
    CHECK_EQ_INT(view.dims[0], 16);
    mx_weights_close(w);
    o.extra = "model.decoder.spare.weight";   /* more than is needed is no fault */
    w = open_folder(&o);
    mx_weights_close(w);
}

/* Every single tensor removed in turn: a hard error that names it, both ways. */
static void test_every_tensor_missing(void) {
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_F16};
    int64_t n = mx_arch_count(&o.dims);
    for (int64_t i = 0; i < n; i++) {
        mx_arch_tensor t = mx_arch_get(&o.dims, i);
        char name[160], line[400];
        mx_tensor_source source;
        mx_arch_name(t.pattern, t.layer, name, sizeof(name));
        mx_names_hf.source(t.pattern, t.layer, &source);
        o.without = name;
        o.shards = (int)(i % 3);
        gen_remove(at("hf"));
        CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
        snprintf(line, sizeof(line), "%s", source.name);
        open_fails("hf", MXW_E_MISSING, line);
    }
    gen_options cut = {.dims = gen_small_dims(), .cut = "decoder.ln.bias"};
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &cut), 0);
    open_fails("hf", MXW_E_FORMAT, "tensor decoder.ln.bias is f32 [7], expected f32 [8]");
}

static void test_not_whisper(void) {
    gen_options o = {.dims = gen_small_dims(), .key_bias = 2};
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    open_fails("hf", MXW_E_UNSUPPORTED, "k_proj.bias has a bias for the key");
    o = (gen_options){.dims = gen_small_dims(), .projection = 2};
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    open_fails("hf", MXW_E_UNSUPPORTED, "tensor proj_out.weight differs from model.decoder.embed_tokens.weight");
}

/* ---- the files beside it ------------------------------------------------------------------------------ */

static void test_beside(void) {
    gen_options o = {.dims = gen_small_dims()};
    static const struct {
        const char *leaf, *text;
        mxw_status status;
        const char *line;
    } cases[] = {
        {"hf/config.json", "{\"d_model\": 16}", MXW_E_FORMAT, "config.json: d_model is 16, but the tensors"},
        {"hf/config.json", "{\"encoder_attention_heads\": 3}", MXW_E_FORMAT, "do not divide into 3 and 1 heads"},
        {"hf/config.json", "{\"decoder_layers\": 0}", MXW_E_FORMAT, "decoder_layers is not a positive whole number"},
        {"hf/config.json", "{\"vocab_size\": \"many\"}", MXW_E_FORMAT, "vocab_size is not a positive whole number"},
        {"hf/config.json", "{\"model_type\": \"bart\"}", MXW_E_UNSUPPORTED, "model_type is bart; Whisper has whisper"},
        {"hf/config.json", "{\"activation_function\": \"relu\"}", MXW_E_UNSUPPORTED, "activation_function is relu"},
        {"hf/config.json", "{\"scale_embedding\": true}", MXW_E_UNSUPPORTED, "scale_embedding is true"},
        {"hf/config.json", "{", MXW_E_FORMAT, "config.json: line 1: not JSON"},
        {"hf/config.json", "[]", MXW_E_FORMAT, "config.json: not a JSON object"},
        {"hf/generation_config.json", "{\"alignment_heads\": [[0]]}", MXW_E_FORMAT,
         "generation_config.json: alignment_heads: item 0"},
        {"hf/generation_config.json", "{\"no_timestamps_token_id\": 7}", MXW_E_UNSUPPORTED,
         "no_timestamps_token_id is 7; with 32 tokens"},
        {"hf/vocab.json", "{\"a\": 0, \"b\": 32}", MXW_E_FORMAT,
         "vocab.json: token b has no row in an embedding of 32"},
        {"hf/vocab.json", "[\"a\"]", MXW_E_FORMAT, "vocab.json: not a JSON object"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        gen_remove(at("hf"));
        CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
        write_text(cases[i].leaf, cases[i].text);
        open_fails("hf", cases[i].status, cases[i].line);
    }
    /* A distilled model with its teacher's list: the list is not used, the model is. */
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    write_text("hf/generation_config.json", "{\"alignment_heads\": [[7, 0], [10, 1], [12, 1]]}");
    mx_weights *w = NULL;
    size_t n = 0;
    CHECK_EQ_INT(mx_weights_open(at("hf"), NULL, &w), MXW_OK);
    if (w && mx_weights_alignment_heads(w, &n))
        CHECK_EQ_INT(n, 2);   /* both heads of the one layer */
    mx_weights_close(w);
}

static void test_index(void) {
    static const struct {
        const char *text;
        mxw_status status;
        const char *line;
    } cases[] = {
        {"{}", MXW_E_FORMAT, "no weight_map"},
        {"{\"weight_map\": {}}", MXW_E_FORMAT, "no weight_map"},
        {"{\"weight_map\": {\"a\": 1}}", MXW_E_FORMAT, "weight_map: a is in no file of this folder"},
        {"{\"weight_map\": {\"a\": \"../x\"}}", MXW_E_FORMAT, "weight_map: a is in no file"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", MXW_E_FORMAT, "weight_map: a is in no file"},
        {"{\"weight_map\": {\"a\": \"x\\u0000y\"}}", MXW_E_FORMAT, "weight_map: a is in no file"},
        {"{\"weight_map\": {\"a\": \"gone.safetensors\"}}", MXW_E_NOT_FOUND, "gone.safetensors: No such file"},
        {"{\"weight_map\": {\"a\": \"config.json\"}}", MXW_E_FORMAT, "config.json: "},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++) {
        gen_options o = {.dims = gen_small_dims(), .shards = 2};
        gen_remove(at("hf"));
        CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
        write_text("hf/model.safetensors.index.json", cases[i].text);
        open_fails("hf", cases[i].status, cases[i].line);
    }
    /* A tensor that lies in two files. */
    gen_options o = {.dims = gen_small_dims(), .no_config = 1};
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    CHECK_EQ_INT(symlink("model.safetensors", at("hf/b.safetensors")), 0);
    write_text("hf/two.json", "{\"weight_map\": {\"a\": \"model.safetensors\", \"b\": \"b.safetensors\"}}");
    open_fails("hf/two.json", MXW_E_FORMAT, "appears twice");
}

/* ---- headers made to harm ------------------------------------------------------------------------------ */

/* A file of a header and so many bytes of data; stated: the length before the header, SIZE_MAX for the true one. */
static void header_fails(const char *header, size_t n_data, uint64_t stated, mxw_status status, const char *line) {
    size_t header_n = strlen(header), n = 8 + header_n + n_data;
    uint8_t *bytes = calloc(1, n);
    mx_weights *w = NULL;
    uint64_t length = stated == UINT64_MAX ? header_n : stated;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, header, header_n);
    expect_failure(mx_weights_open_bytes(bytes, n, &w), status, line);
    CHECK(w == NULL);
    mx_weights_close(w);
    free(bytes);
}

#define T(name, type, shape, offsets) \
    "\"" name "\": {\"dtype\": \"" type "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"

static void test_headers(void) {
    static const struct {
        const char *header;
        size_t n_data;
        mxw_status status;
        const char *line;
    } cases[] = {
        {"{", 0, MXW_E_FORMAT, "header: line 1: not JSON"},
        {"{}", 0, MXW_E_MISSING, "tensor encoder.conv1.weight is missing"},
        {"{}", 3, MXW_E_FORMAT, "3 bytes too many at the end"},
        {"{" T("a", "F32", "[1]", "[0, 4]") "}", 5, MXW_E_FORMAT, "1 bytes too many at the end"},
        {"{" T("a", "F32", "[1]", "[0, 4]") "}", 3, MXW_E_FORMAT, "truncated: tensor a ends at byte 4 of the data, 3"},
        {"{" T("a", "F32", "[2]", "[0, 4]") "}", 4, MXW_E_FORMAT, "tensor a has 4 bytes; its shape and type require"},
        {"{" T("a", "F32", "[1]", "[4, 0]") "}", 4, MXW_E_FORMAT, "tensor a: data_offsets is not [begin, end]"},
        {"{" T("a", "F32", "[1]", "[-4, 0]") "}", 4, MXW_E_FORMAT, "tensor a: data_offsets is not [begin, end]"},
        {"{" T("a", "F32", "[1]", "[0]") "}", 4, MXW_E_FORMAT, "tensor a: data_offsets is not [begin, end]"},
        {"{" T("a", "F32", "[1]", "[0.0, 4]") "}", 4, MXW_E_FORMAT, "tensor a: data_offsets is not [begin, end]"},
        {"{" T("a", "F32", "[1]", "[9223372036854775803, 9223372036854775807]") "}", 4, MXW_E_FORMAT, "truncated"},
        {"{" T("a", "F32", "[1]", "[0, 99999999999999999999]") "}", 4, MXW_E_FORMAT, "not JSON (too big integer"},
        {"{" T("a", "F8_E5M2", "[4]", "[0, 4]") "}", 4, MXW_E_UNSUPPORTED, "tensor a is of type F8_E5M2, which is not"},
        {"{" T("a", "F32", "[0]", "[0, 0]") "}", 0, MXW_E_FORMAT, "tensor a: size 0 is not a positive whole number"},
        {"{" T("a", "F32", "[-1]", "[0, 4]") "}", 4, MXW_E_FORMAT, "tensor a: size 0 is not a positive whole number"},
        {"{" T("a", "F32", "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", "[0, 4]") "}", 4, MXW_E_FORMAT, "its shape is not"},
        {"{" T("a", "F32", "[4294967296, 4294967296]", "[0, 4]") "}", 4, MXW_E_FORMAT, "tensor a is too large"},
        {"{" T("a", "F32", "3", "[0, 4]") "}", 4, MXW_E_FORMAT, "tensor a: its shape is not a list"},
        {"{\"a\": {\"dtype\": 1}}", 0, MXW_E_FORMAT, "tensor a has no dtype"},
        {"{\"a\": []}", 0, MXW_E_FORMAT, "tensor a: its entry is not an object"},
        {"{\"__metadata__\": 1}", 0, MXW_E_FORMAT, "__metadata__ is not an object"},
        {"{\"__metadata__\": {\"x\": 1}}", 0, MXW_E_FORMAT, "__metadata__: x is not a text"},
        {"{" T("a", "F32", "[1]", "[0, 4]") ", " T("b", "F32", "[1]", "[2, 6]") "}", 6, MXW_E_FORMAT,
         "tensor b overlaps tensor a"},
        {"{" T("a", "F32", "[1]", "[0, 4]") ", " T("b", "F32", "[1]", "[0, 4]") "}", 4, MXW_E_FORMAT, "overlaps"},
        {"{" T("a", "F32", "[1]", "[0, 4]") ", " T("b", "F32", "[1]", "[6, 10]") "}", 10, MXW_E_FORMAT,
         "2 bytes before tensor b belong to no tensor"},
        {"{" T("a", "F32", "[1]", "[0, 4]") ", " T("a", "F32", "[1]", "[4, 8]") "}", 8, MXW_E_FORMAT,
         "not JSON (duplicate object key"},
    };
    for (size_t i = 0; i < MX_COUNT(cases); i++)
        header_fails(cases[i].header, cases[i].n_data, UINT64_MAX, cases[i].status, cases[i].line);
    header_fails("{}", 0, 9, MXW_E_FORMAT, "truncated in its header");
    header_fails("{}", 0, 1u << 30, MXW_E_FORMAT, "a header of 1073741824 bytes");
}

/* ---- untrusted input ---------------------------------------------------------------------------------- */

static void test_bytes(void) {
    gen_options o = {.dims = gen_least_dims(), .dtype = MXW_F16};
    size_t n;
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    uint8_t *whole = hostile_read(at("hf/model.safetensors"), &n);
    hostile_truncated(whole, n);
    hostile_changed(whole, n);
    free(whole);
}

static void test_no_memory(void) {
    gen_options o = {.dims = gen_least_dims(), .shards = 2};
    char path[4200];
    gen_remove(at("hf"));
    CHECK_EQ_INT(gen_safetensors(at("hf"), &o), 0);
    snprintf(path, sizeof(path), "%s", at("hf"));
    hostile_no_memory(path);
}

/* Real widths of the largest and the distilled models, at most two layers a side. */
static void test_wide(void) {
    static const char *const names[] = {"distil-small.en", "distil-large-v3", "large-v3-turbo", "large-v3"};
    for (size_t i = 0; i < MX_COUNT(names); i++) {
        gen_options o = {.dims = gen_released_dims(names[i], 2), .dtype = MXW_F16, .shards = i % 2 ? 2 : 0};
        mx_weights *pt = NULL, *hf = open_folder(&o);
        CHECK_EQ_INT(gen_pt(at("one.pt"), &o), 0);
        CHECK_EQ_INT(mx_weights_open(at("one.pt"), NULL, &pt), MXW_OK);
        if (pt && hf)
            same_tensors(pt, hf);
        mx_weights_close(hf);
        mx_weights_close(pt);
    }
}

int main(int argc, char **argv) {
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    int64_t live = mx_mem_live();
    if (argc > 1 && strcmp(argv[1], "full") == 0) {
        test_wide();
    } else {
        gen_options small = {.dims = gen_small_dims(), .seed = 3};
        test_like_pt(&small);
        test_shapes();
        test_names();
        test_every_tensor_missing();
        test_not_whisper();
        test_beside();
        test_index();
        test_headers();
        test_bytes();
        test_no_memory();
    }
    CHECK_EQ_INT(mx_mem_live(), live);
    gen_remove(folder);
    return check_done();
}
