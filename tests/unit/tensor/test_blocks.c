/* test_blocks.c - ggml's block types, bit for bit as libggml widens them (tests/golden/make/blocks.py) and makes them
 * (quantize.py). */
#include "kit/check.h"
#include "kit/golden.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tensor/blocks.h"

static void check_row(const json_t *row) {
    const char *name = json_string_value(json_object_get(row, "type"));
    const mx_block_type *type = mx_block_type_find(name);
    size_t n_blocks, n_want;
    if (!CHECK(type != NULL))
        return;
    CHECK(mx_block_type_get((uint32_t)json_integer_value(json_object_get(row, "id"))) == type);
    CHECK_EQ_INT(type->elements, json_integer_value(json_object_get(row, "elements")));
    CHECK_EQ_INT(type->bytes, json_integer_value(json_object_get(row, "bytes")));
    uint8_t *blocks = golden_bytes(row, "blocks", &n_blocks);
    uint8_t *want = golden_bytes(row, "f32", &n_want);
    float *got = mx_alloc(n_want);
    CHECK(n_want / 4 == n_blocks / (size_t)type->bytes * (size_t)type->elements && n_want > 0);
    mx_blocks_widen(type, blocks, (int64_t)n_want / 4, got);
    if (!CHECK(memcmp(got, want, n_want) == 0))
        printf("    %s differs\n", name);
    mx_free(got);
    free(want);
    free(blocks);
}

/* The same bytes as libggml's own quantizer, also into the memory of the values. */
static void test_pack(void) {
    json_t *rows = golden_rows("quantize.jsonl");
    size_t n_values, n_want;
    uint8_t *values = golden_bytes(json_array_get(rows, 0), "values", &n_values);
    CHECK(json_array_size(rows) == 6 && n_values == 32 * 32 * 4);
    for (size_t i = 1; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const mx_block_type *type = mx_block_type_find(golden_string(row, "type"));
        uint8_t *want = golden_bytes(row, "blocks", &n_want);
        float *got = mx_alloc(n_values);
        memcpy(got, values, n_values);
        if (CHECK(type && type->pack && n_want == n_values / 128 * (size_t)type->bytes)) {
            mx_blocks_pack(type, got, (int64_t)n_values / 4, got);
            for (size_t b = 0; b < n_values / 128; b++)
                if (!CHECK(memcmp((uint8_t *)got + b * (size_t)type->bytes, want + b * (size_t)type->bytes,
                                  (size_t)type->bytes) == 0))
                    printf("    block %zu of %s differs\n", b, type->name);
        }
        mx_free(got);
        free(want);
    }
    free(values);
    json_decref(rows);
}

int main(void) {
    json_t *rows = golden_rows("blocks.jsonl");
    CHECK_EQ_INT(json_array_size(rows), 11);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_row(json_array_get(rows, i));
    CHECK(!mx_block_type_get(0) && !mx_block_type_get(9) && !mx_block_type_get(1000) && !mx_block_type_find("q9_9"));
    json_decref(rows);
    test_pack();
    return check_done();
}
