/* test_quantized.c - matrices that are quantized in rows and groups, bit for bit as MLX widens them
 * (tests/golden/make/mlx_groups.py), and every code of f8 as torch has it (tests/golden/make/f8.py). */
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
    test_f8();
    return check_done();
}
