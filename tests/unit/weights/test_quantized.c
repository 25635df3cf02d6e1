/* test_quantized.c - matrices that are quantized in rows and groups, bit for bit as MLX widens them
 * (tests/golden/make/mlx_groups.py) and as its rule says element by element, int8 and int16 as CTranslate2 widens them
 * (tests/golden/make/ctranslate2_rows.py), and every code of f8 as torch has it (tests/golden/make/f8.py). */
#include "kit/check.h"
#include "kit/golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tensor/quantized.h"

static mxw_dtype type_named(const char *name) {
    return strcmp(name, "f32") == 0 ? MXW_F32 : strcmp(name, "f16") == 0 ? MXW_F16 : MXW_BF16;
}

static void check_groups(const json_t *row) {
    size_t n_words, n_scales, n_biases, n_want;
    const int64_t rows = json_integer_value(json_object_get(row, "rows"));
    const int64_t columns = json_integer_value(json_object_get(row, "columns"));
    const int64_t group = json_integer_value(json_object_get(row, "group"));
    const mxw_dtype dtype = type_named(json_string_value(json_object_get(row, "type")));
    uint8_t *words = golden_bytes(row, "words", &n_words), *scales = golden_bytes(row, "scales", &n_scales);
    uint8_t *biases = golden_bytes(row, "biases", &n_biases), *want = golden_bytes(row, "f32", &n_want);
    const int64_t dims[] = {rows, columns / group};
    mx_quantized q = {
        .kind = MX_QUANTIZED_GROUPS,
        .bits = (int)json_integer_value(json_object_get(row, "bits")),
        .group = group,
        .rows = rows,
        .columns = columns,
        .data = words,
        .row_bytes = n_words / (size_t)rows,
        .scales = mx_tensor_of(dtype, 2, dims, scales),
        .biases = mx_tensor_of(dtype, 2, dims, biases),
    };
    float *got = mx_alloc(n_want);
    CHECK_EQ_INT(n_want, rows * columns * 4);
    CHECK_EQ_INT(q.row_bytes * 8, columns * q.bits);
    CHECK_EQ_INT(mx_quantized_check(&q, "x"), MXW_OK);
    CHECK_EQ_INT(mx_quantized_bytes(&q), n_words + n_scales + n_biases);
    for (int64_t r = 0; r < rows; r++)
        mx_quantized_widen(&q, r, got + r * columns);
    if (!CHECK(memcmp(got, want, n_want) == 0))
        printf("    %d bits, %s differ\n", q.bits, mx_dtype_name(dtype));
    mx_quantized other = q;
    CHECK(mx_quantized_same(&q, &other));
    other.bits++;
    CHECK(!mx_quantized_same(&q, &other));
    mx_free(got);
    free(words);
    free(scales);
    free(biases);
    free(want);
}

static uint16_t half_of(mxw_dtype dtype, float x) {
    return dtype == MXW_F16 ? mx_f32_to_f16(x) : mx_f32_to_bf16(x);
}

static float rounded(mxw_dtype dtype, float x) {
    if (dtype == MXW_F32)
        return x;
    return dtype == MXW_F16 ? mx_f16_to_f32(half_of(dtype, x)) : mx_bf16_to_f32(half_of(dtype, x));
}

/* The rule element by element, where sums are subnormal in f16, overflow it, or neither; groups need not begin with a
 * byte. */
static void check_rule(mxw_dtype dtype, int bits, int64_t group, float size) {
    enum { COLUMNS = 96, MOST = COLUMNS };
    uint32_t words[COLUMNS * 8 / 32], seed = (uint32_t)bits;
    float scales[MOST], biases[MOST], got[COLUMNS];
    uint16_t halves[2][MOST];
    const int64_t n = COLUMNS / group;
    for (size_t i = 0; i < MX_COUNT(words); i++)
        words[i] = seed = seed * 1664525 + 1013904223;
    for (int64_t i = 0; i < n; i++) {
        scales[i] = rounded(dtype, size * (float)(i - n / 3) / 40);
        biases[i] = rounded(dtype, size * (float)(n / 2 - 3 * i) / 9);
        halves[0][i] = half_of(dtype, scales[i]);
        halves[1][i] = half_of(dtype, biases[i]);
    }
    const mx_quantized q = {
        .kind = MX_QUANTIZED_GROUPS, .bits = bits, .group = group, .rows = 1, .columns = COLUMNS,
        .data = (const uint8_t *)words, .row_bytes = (size_t)(COLUMNS * bits / 8),
        .scales = mx_tensor_of(dtype, 2, (int64_t[]){1, n}, dtype == MXW_F32 ? (void *)scales : halves[0]),
        .biases = mx_tensor_of(dtype, 2, (int64_t[]){1, n}, dtype == MXW_F32 ? (void *)biases : halves[1]),
    };
    int wrong = 0;
    mx_quantized_widen(&q, 0, got);
    for (int i = 0; i < COLUMNS; i++) {
        unsigned code = 0;
        for (int b = 0; b < bits; b++)
            code |= (q.data[(i * bits + b) / 8] >> ((i * bits + b) % 8) & 1u) << b;
        float want = rounded(dtype, rounded(dtype, scales[i / group] * (float)code) + biases[i / group]);
        wrong += memcmp(&want, &got[i], 4) != 0;
    }
    if (!CHECK_EQ_INT(wrong, 0))
        printf("    %d bits in groups of %d, %s, size %g\n", bits, (int)group, mx_dtype_name(dtype), (double)size);
}

static void test_rule(void) {
    static const int bits[] = {2, 3, 4, 5, 6, 8};
    static const mxw_dtype types[] = {MXW_F32, MXW_F16, MXW_BF16};
    static const int64_t groups[] = {1, 3, 32, 96};
    static const float sizes[] = {1e-7f, 1e-5f, 1, 1e3f};
    for (size_t b = 0; b < MX_COUNT(bits); b++)
        for (size_t t = 0; t < MX_COUNT(types); t++)
            for (size_t g = 0; g < MX_COUNT(groups); g++)
                for (size_t s = 0; s < MX_COUNT(sizes); s++)
                    check_rule(types[t], bits[b], groups[g], sizes[s]);
}

static void check_rows(const json_t *row) {
    size_t n_codes, n_scales, n_want;
    const int64_t rows = json_integer_value(json_object_get(row, "rows"));
    const int64_t columns = json_integer_value(json_object_get(row, "columns"));
    const int wide = strcmp(json_string_value(json_object_get(row, "type")), "int16") == 0;
    uint8_t *codes = golden_bytes(row, "codes", &n_codes), *scales = golden_bytes(row, "scales", &n_scales);
    uint8_t *want = golden_bytes(row, "f32", &n_want);
    const mx_quantized q = {
        .kind = wide ? MX_QUANTIZED_INT16 : MX_QUANTIZED_INT8,
        .divide = 1,
        .rows = rows,
        .columns = columns,
        .data = codes,
        .row_bytes = (size_t)columns * (wide ? 2 : 1),
        .scales = mx_tensor_of(MXW_F32, 1, (int64_t[]){(int64_t)n_scales / 4}, scales),
    };
    float *got = mx_alloc(n_want);
    CHECK_EQ_INT(n_want, rows * columns * 4);
    CHECK_EQ_INT(n_codes, (size_t)rows * q.row_bytes);
    CHECK_EQ_INT(n_scales, wide ? 4 : rows * 4);
    CHECK_EQ_INT(mx_quantized_check(&q, "x"), MXW_OK);
    for (int64_t r = 0; r < rows; r++)
        mx_quantized_widen(&q, r, got + r * columns);
    if (!CHECK(memcmp(got, want, n_want) == 0))
        printf("    %s differ\n", wide ? "int16" : "int8");
    mx_free(got);
    free(codes);
    free(scales);
    free(want);
}

static void test_rows(void) {
    json_t *rows = golden_rows("ct2.jsonl");
    CHECK_EQ_INT(json_array_size(rows), 4);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_rows(json_array_get(rows, i));
    json_decref(rows);
}

static void test_f8(void) {
    size_t n;
    json_t *rows = golden_rows("f8.jsonl");
    uint8_t *bytes = golden_bytes(json_array_get(rows, 0), "f32", &n);
    int wrong = 0;
    CHECK_EQ_INT(n, 256 * 4);
    for (int i = 0; i < 256 && n == 256 * 4; i++) {
        float want, got = mx_f8_to_f32((uint8_t)i);
        memcpy(&want, bytes + 4 * i, 4);
        wrong += isnan(want) ? !isnan(got) : memcmp(&want, &got, 4) != 0;
    }
    CHECK_EQ_INT(wrong, 0);
    free(bytes);
    json_decref(rows);
}

int main(void) {
    json_t *rows = golden_rows("mlx.jsonl");
    CHECK_EQ_INT(json_array_size(rows), 18);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_groups(json_array_get(rows, i));
    json_decref(rows);
    test_rule();
    test_rows();
    test_f8();
    return check_done();
}
