/* test_convert.c - every format in every type that it has: opened again, the values are those of the source rounded to
 * the type; converted again, the bytes are the same. Scales that a type cannot have are refused, or rows rounded again.
 * Nothing is left of a conversion that fails. */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"
#include "kit/golden.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/file.h"
#include "convert/convert.h"
#include "weights/names/names.h"

#define STATE 64
#define FC2 "model.decoder.layers.0.fc2.weight"   /* [STATE][4 STATE] */

static char folder[4096];

static void at(const char *leaf, char *path) { snprintf(path, 4300, "%s/%s", folder, leaf); }

static mx_weights *open_at(const char *leaf) {
    char path[4300];
    mx_weights *w = NULL;
    at(leaf, path);
    if (!CHECK_EQ_INT(mx_weights_open(path, NULL, &w), MXW_OK))
        printf("    %s\n", mxw_last_error());
    return w;
}

static mxw_status convert(const mx_weights *w, const char *leaf, const char *format, const char *type) {
    const mxw_convert_options options = {.struct_size = sizeof(options), .format = format, .type = type};
    char path[4300];
    at(leaf, path);
    return mx_convert(w, path, &options);
}

static int entries(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* ---- values ------------------------------------------------------------------------------------------------- */

static int is_matrix(const mx_tensor *view, const char *name) {
    return view->rank == 2 && !strstr(name, "positional_embedding");
}

/* n values as the type has them. */
static void round_to(const char *type, const mx_tensor *view, float *x) {
    const int64_t n = mx_tensor_count(view);
    const mx_block_type *blocks = mx_block_type_find(type);
    if (blocks) {
        uint8_t *packed = mx_alloc((size_t)(n / blocks->elements) * (size_t)blocks->bytes);
        mx_blocks_pack(blocks, x, n, packed);
        mx_blocks_widen(blocks, packed, n, x);
        mx_free(packed);
    } else if (strcmp(type, "int8") == 0) {
        const int64_t columns = n / view->dims[0];
        for (int64_t r = 0; r < view->dims[0]; r++) {
            float largest = 0;
            for (int64_t i = 0; i < columns; i++)
                largest = MX_MAX(largest, fabsf(x[r * columns + i]));
            const float scale = 127.0f / largest;
            for (int64_t i = 0; i < columns; i++)
                x[r * columns + i] = (float)(int8_t)rintf(x[r * columns + i] * scale) * (1.0f / scale);
        }
    } else {
        for (int64_t i = 0; i < n; i++)
            x[i] = strcmp(type, "f16") == 0    ? mx_f16_to_f32(mx_f32_to_f16(x[i]))
                   : strcmp(type, "bf16") == 0 ? mx_bf16_to_f32(mx_f32_to_bf16(x[i]))
                                               : x[i];
    }
}

/* The type that a tensor has in a file of this format and type; the source is f32. */
static const char *type_in(const char *format, const char *type, const mx_tensor *view, const char *name) {
    const int quantized = mx_block_type_find(type) || strcmp(type, "int8") == 0;
    const int ggml = strcmp(format, "ggml") == 0, gguf = strcmp(format, "gguf") == 0;
    if (strcmp(format, "safetensors") == 0 && quantized && strstr(name, "token_embedding"))
        return "f32";
    if (is_matrix(view, name))
        return type;
    if (ggml && view->rank == 3 && strcmp(type, "f32") != 0)
        return "f16";
    return ggml || gguf || quantized ? "f32" : type;
}

static void check_values(const mx_weights *source, const char *leaf, const char *format, const char *type) {
    mx_weights *w = open_at(leaf);
    for (int64_t i = 0; w && i < mx_weights_count(source); i++) {
        mxw_tensor_info info, got_info;
        mx_tensor view;
        mx_weights_tensor(source, i, &info, &view);
        mx_weights_tensor(w, i, &got_info, NULL);
        const char *want_type = type_in(format, type, &view, info.name);
        size_t n = (size_t)mx_tensor_count(&view);
        float *want = mx_alloc(n * 4), *got = mx_alloc(n * 4);
        mx_weights_read_f32(source, i, want);
        round_to(want_type, &view, want);
        CHECK_EQ_INT(mx_weights_read_f32(w, i, got), MXW_OK);
        if (!CHECK(memcmp(want, got, n * 4) == 0 && strcmp(got_info.stored, want_type) == 0))
            printf("    %s as %s: %s is %s, want %s\n", format, type, info.name, got_info.stored, want_type);
        mx_free(want);
        mx_free(got);
    }
    mx_weights_close(w);
}

/* ---- round trips ----------------------------------------------------------------------------------------------- */

static int same_files(const char *a, const char *b) {
    mx_map x = {0}, y = {0};
    int same = mx_map_open(a, &x) == MXW_OK && mx_map_open(b, &y) == MXW_OK && x.n == y.n &&
               memcmp(x.data, y.data, x.n) == 0;
    mx_map_close(&x);
    mx_map_close(&y);
    return same;
}

/* The same again from what was written, in its own type: the same bytes, quantized ones without being rounded twice. */
static void check_again(const char *leaf, const char *format, const char *type, const char *weights) {
    char again[80], a[4400], b[4400];
    mx_weights *w = open_at(leaf);
    snprintf(again, sizeof(again), "again-%s", leaf);
    if (!w || !CHECK_EQ_INT(convert(w, again, format, strcmp(format, "ggml") == 0 ? type : NULL), MXW_OK))
        return;
    at(leaf, a);
    at(again, b);
    strcat(a, weights);
    strcat(b, weights);
    if (!CHECK(same_files(a, b)))
        printf("    %s as %s differs the second time\n", format, type);
    mx_weights_close(w);
}

static void test_formats(const mx_weights *source) {
    const char *format, *type;
    for (int f = 0; (format = mx_convert_format(f)); f++)
        for (int t = 1; (type = mx_convert_type(format, t)); t++) {
            char leaf[64];
            const int is_folder = strcmp(format, "ct2") == 0 || strcmp(format, "safetensors") == 0;
            snprintf(leaf, sizeof(leaf), "%s-%s", format, type);
            if (!CHECK_EQ_INT(convert(source, leaf, format, type), MXW_OK)) {
                printf("    %s\n", mxw_last_error());
                continue;
            }
            check_values(source, leaf, format, type);
            check_again(leaf, format, type,
                        !is_folder ? "" : strcmp(format, "ct2") == 0 ? "/model.bin" : "/model.safetensors");
        }
}

/* Quantized by one program, copied for the other: blocks from ggml to GGUF and back, without rounding. */
static void test_across(void) {
    mx_weights *w = open_at("ggml-q5_1");
    char a[4300], b[4300];
    CHECK_EQ_INT(convert(w, "across.gguf", "gguf", NULL), MXW_OK);
    mx_weights_close(w);
    at("across.gguf", a);
    w = open_at("across.gguf");
    mxw_tensor_info info;
    mx_weights_tensor(w, mx_weights_index(w, "decoder.token_embedding.weight"), &info, NULL);
    CHECK(strcmp(info.stored, "q5_1") == 0);
    CHECK_EQ_INT(convert(w, "across.bin", "ggml", NULL), MXW_OK);
    mx_weights_close(w);
    at("across.bin", a);
    at("ggml-q5_1", b);
    CHECK(same_files(a, b));
}

/* ---- scales ----------------------------------------------------------------------------------------------------- */

/* Bytes of a tensor of a .safetensors file, from element byte `from` on, replaced. */
static void patch(const char *leaf, const char *tensor, size_t from, const void *bytes, size_t n) {
    char path[4400], entry[200];
    static char header[1 << 16];
    unsigned long long header_n = 0, begin = 0;
    at(leaf, path);
    FILE *f = fopen(path, "r+b");
    if (!CHECK(f && fread(&header_n, 8, 1, f) == 1 && header_n < sizeof(header) &&
               fread(header, 1, (size_t)header_n, f) == header_n))
        return;
    header[header_n] = 0;
    snprintf(entry, sizeof(entry), "\"%s\":{", tensor);
    const char *found = strstr(header, entry), *offsets = found ? strstr(found, "\"data_offsets\":[") : NULL;
    CHECK(offsets && sscanf(offsets, "\"data_offsets\":[%llu", &begin) == 1);
    CHECK(fseek(f, (long)(8 + header_n + begin + from), SEEK_SET) == 0 && fwrite(bytes, 1, n, f) == n);
    CHECK(fclose(f) == 0);
}

static float *read_values(const mx_weights *w, const char *name) {
    int64_t i = mx_weights_index(w, name);
    mx_tensor view;
    mx_weights_tensor(w, i, NULL, &view);
    float *values = mx_alloc((size_t)mx_tensor_count(&view) * sizeof(*values));
    CHECK_EQ_INT(mx_weights_read_f32(w, i, values), MXW_OK);
    return values;
}

/* A value that a type has no scale for: the tensor is named, and nothing is written. */
static void test_too_large(const mx_weights *source) {
    static const char *const types[][2] = {{"gguf", "q8_0"}, {"gguf", "q5_0"}, {"gguf", "q4_0"}, {"ggml", "q5_1"},
                                           {"ggml", "q4_1"}, {"ct2", "int8"},  {"safetensors", "int8"}};
    const int before = entries(folder);
    CHECK_EQ_INT(convert(source, "large", "safetensors", "f32"), MXW_OK);
    for (size_t i = 0; i < MX_COUNT(types); i++) {
        const int int8 = strcmp(types[i][1], "int8") == 0;
        const float large = int8 ? 3.4028234e38f : 1e7f;
        patch("large/model.safetensors", FC2, 40 * sizeof(float), &large, sizeof(large));
        mx_weights *w = open_at("large");
        CHECK_EQ_INT(convert(w, "out", types[i][0], types[i][1]), MXW_E_UNSUPPORTED);
        if (!CHECK(strstr(mxw_last_error(), int8 ? "decoder.blocks.0.mlp.2.weight: 3.40282e+38 does not fit into"
                                                 : "decoder.blocks.0.mlp.2.weight: 1e+07 does not fit into") &&
                   strstr(mxw_last_error(), types[i][1])))
            printf("    %s as %s: %s\n", types[i][0], types[i][1], mxw_last_error());
        CHECK_EQ_INT(entries(folder), before + 1);
        mx_weights_close(w);
    }
}

/* Rows as CTranslate2's own converter rounds them (tests/golden/make/ctranslate2_rows.py): zeros, ties, numbers so
 * small that 127 / largest is infinite. */
static void test_rows(const mx_weights *source) {
    size_t n_values, n_codes, n_scales;
    json_t *golden = golden_rows("ct2.jsonl");
    const json_t *made = json_array_get(golden, 0);
    uint8_t *values = golden_bytes(made, "values", &n_values), *codes = golden_bytes(made, "codes", &n_codes);
    uint8_t *scales = golden_bytes(made, "scales", &n_scales);
    CHECK_EQ_INT(n_values, 8 * 4 * STATE * sizeof(float));
    CHECK_EQ_INT(convert(source, "rows", "safetensors", "f32"), MXW_OK);
    patch("rows/model.safetensors", FC2, 0, values, n_values);
    mx_weights *w = open_at("rows");
    CHECK_EQ_INT(convert(w, "rows-ct2", "ct2", "int8"), MXW_OK);
    mx_weights_close(w);
    w = open_at("rows-ct2");
    if (w) {
        int64_t row;
        const mx_quantized *q = mx_weights_quantized(w, mx_weights_index(w, "decoder.blocks.0.mlp.2.weight"), &row);
        CHECK(q && row == 0 && n_codes == 8 * q->row_bytes && memcmp(q->data, codes, n_codes) == 0);
        CHECK(q && n_scales == 8 * sizeof(float) && memcmp(q->scales.data, scales, n_scales) == 0);
    }
    mx_weights_close(w);
    free(values);
    free(codes);
    free(scales);
    json_decref(golden);
}

/* w8a8 to CTranslate2, whose scales are inverse and positive: what cannot be inverted is rounded again, every other row
 * has its codes, -128 among them. */
static void test_w8a8_to_ct2(const mx_weights *source) {
    const float scales[3] = {0, -0.01f, 0.02f};
    const int8_t extreme = -128;
    const size_t columns = 4 * STATE;
    CHECK_EQ_INT(convert(source, "w8a8", "safetensors", "int8"), MXW_OK);
    patch("w8a8/model.safetensors", FC2 "_scale", 0, scales, sizeof(scales));
    patch("w8a8/model.safetensors", FC2, 2 * columns + 5, &extreme, 1);
    mx_weights *w = open_at("w8a8"), *back;
    CHECK_EQ_INT(convert(w, "from-w8a8", "ct2", NULL), MXW_OK);
    back = open_at("from-w8a8");
    if (back) {
        float *want = read_values(w, "decoder.blocks.0.mlp.2.weight"), largest = 0;
        float *got = read_values(back, "decoder.blocks.0.mlp.2.weight");
        int64_t wrong = 0;
        for (size_t i = 0; i < columns; i++)
            largest = MX_MAX(largest, fabsf(want[columns + i]));
        for (size_t i = 0; i < STATE * columns; i++) {
            float most = i < columns ? 0 : i < 2 * columns ? largest / 254 * 1.0001f : fabsf(want[i]) * 2e-7f;
            wrong += !(fabsf(got[i] - want[i]) <= most);
        }
        CHECK_EQ_INT(wrong, 0);
        CHECK(want[2 * columns + 5] == -128 * 0.02f && largest > 0.5f);
        mx_free(want);
        mx_free(got);
    }
    mx_weights_close(w);
    mx_weights_close(back);
}

/* Kernels in int8, as CTranslate2's converters write them, stay that. */
static void test_int8_kernels(void) {
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_I8, .seed = 9};
    char path[4300], again[4400], first[4400];
    o.dims.n_audio_state = o.dims.n_text_state = STATE;
    o.dims.n_vocab = 51864;
    at("kernels", path);
    CHECK_EQ_INT(gen_ct2(path, &o), 0);
    mx_weights *w = open_at("kernels");
    CHECK_EQ_INT(convert(w, "kernels-1", "ct2", NULL), MXW_OK);
    CHECK_EQ_INT(convert(w, "kernels-2", "ct2", "int8"), MXW_OK);
    for (int i = 1; i <= 2; i++) {
        char leaf[32];
        snprintf(leaf, sizeof(leaf), "kernels-%d", i);
        mx_weights *back = open_at(leaf);
        float *want = read_values(w, "encoder.conv1.weight"), *got = read_values(back, "encoder.conv1.weight");
        mxw_tensor_info info;
        CHECK_EQ_INT(mx_weights_tensor(back, mx_weights_index(back, "encoder.conv1.weight"), &info, NULL), MXW_OK);
        CHECK(strcmp(info.stored, "int8") == 0);
        CHECK(memcmp(want, got, (size_t)STATE * 80 * 3 * sizeof(float)) == 0);
        mx_free(want);
        mx_free(got);
        mx_weights_close(back);
    }
    mx_weights_close(w);
    at("kernels-1/model.bin", first);
    at("kernels-2/model.bin", again);
    CHECK(same_files(first, again));
}

/* ---- failures -------------------------------------------------------------------------------------------------- */

static int stop_at;

static int stop(void *user, const char *tensor, uint64_t done, uint64_t total) {
    uint64_t *last = user;
    CHECK(tensor && done > *last && done <= total);
    *last = done;
    return stop_at-- == 0;
}

static void test_failures(const mx_weights *source) {
    char path[4300];
    const int before = entries(folder);
    uint64_t last = 0;
    mxw_convert_options options = {.struct_size = sizeof(options), .format = "ct2", .progress = stop, .user = &last};
    at("stopped", path);
    stop_at = 5;
    CHECK_EQ_INT(mx_convert(source, path, &options), MXW_E_ABORTED);
    options.format = "gguf";
    last = 0;
    stop_at = 5;
    CHECK_EQ_INT(mx_convert(source, path, &options), MXW_E_ABORTED);
    CHECK_EQ_INT(entries(folder), before);
    CHECK_EQ_INT(convert(source, "ct2-f16", "ct2", "f16"), MXW_E_IO);   /* it is there */
    CHECK(strstr(mxw_last_error(), "ct2-f16: is not empty; name a folder that is new or empty"));
    CHECK_EQ_INT(convert(source, "no/such/x", "safetensors", "f16"), MXW_E_IO);
    CHECK(strstr(mxw_last_error(), "no/such/x: cannot make the folder"));
    CHECK_EQ_INT(convert(source, "x", "gguff", NULL), MXW_E_ARGUMENT);
    CHECK_EQ_INT(convert(source, "x", "ct2", "q5_0"), MXW_E_ARGUMENT);
    CHECK(strstr(mxw_last_error(), "type 'q5_0': format ct2 has auto, f32, f16, bf16, int8"));
    CHECK_EQ_INT(entries(folder), before);
    at("empty", path);
    CHECK(mkdir(path, 0777) == 0);
    CHECK_EQ_INT(convert(source, "empty/", "ct2", "f16"), MXW_OK);
    CHECK_EQ_INT(entries(folder), before + 1);
}

/* Allocations fail one after the other: no crash, no leak, no file. */
static void test_no_memory(const mx_weights *source, const char *format) {
    const int before = entries(folder);
    int64_t i = 0, live = mx_mem_live();
    for (mxw_status status = MXW_E_MEMORY; status == MXW_E_MEMORY && i < 10000000; i += 1 + i) {
        CHECK_EQ_INT(entries(folder), before);
        mx_mem_fail_after(i);
        status = convert(source, format, format, "f16");
        mx_mem_fail_after(-1);
        if (!CHECK(status == MXW_OK || status == MXW_E_MEMORY))
            printf("    %s\n", mxw_last_error());
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK_EQ_INT(entries(folder), before + 1);
}

int main(void) {
    char path[4300];
    gen_options o = {.dims = gen_small_dims(), .dtype = MXW_F32, .seed = 9};
    mx_weights *source = NULL;
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    o.dims.n_audio_state = o.dims.n_text_state = STATE;
    o.dims.n_vocab = 51864;
    at("source.pt", path);
    if (!CHECK(gen_pt(path, &o) == 0 && mx_weights_open(path, NULL, &source) == MXW_OK))
        return 1;
    test_formats(source);
    test_across();
    test_too_large(source);
    test_rows(source);
    test_w8a8_to_ct2(source);
    test_int8_kernels();
    test_failures(source);
    for (int f = 0; mx_convert_format(f); f++)
        test_no_memory(source, mx_convert_format(f));
    mx_weights_close(source);
    gen_remove(folder);
    return check_done();
}
