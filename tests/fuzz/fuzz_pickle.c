/* Any bytes as the pickle of a state dict: alone, and as data.pkl of a .pt whose storages are those of the least model
 * in f32 (data/0, data/1, ... in canonical order), so that a right one opens and a wrong one meets real storages. */
#include <stdio.h>
#include <zlib.h>

#include "fuzz_checkpoint.h"
#include "weights/format/pickle.h"

static const mxw_dims least = {.n_mels = 1, .n_audio_ctx = 2, .n_audio_state = 2, .n_audio_head = 1, .n_audio_layer = 1,
                               .n_vocab = 2, .n_text_ctx = 1, .n_text_state = 2, .n_text_head = 1, .n_text_layer = 1};

static void number(mx_str *s, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++) {
        unsigned char b = (unsigned char)(x >> (8 * i));
        mx_str_add(s, &b, 1);
    }
}

/* A stored entry: its header and bytes into file, its line into directory. */
static void add_entry(mx_str *file, mx_str *directory, const char *name, const void *data, size_t n) {
    size_t at = file->n;
    for (int local = 1; local >= 0; local--) {
        mx_str *s = local ? file : directory;
        number(s, local ? 0x04034b50 : 0x02014b50, 4);
        number(s, 0, local ? 6 : 8);
        number(s, 0, 4);
        number(s, crc32_z(0, data, n), 4);
        number(s, n, 4);
        number(s, n, 4);
        number(s, strlen(name), 2);
        number(s, 0, 2);
        if (!local) {
            number(s, 0, 8);
            number(s, 0, 2);
            number(s, at, 4);
        }
        mx_str_text(s, name);
    }
    mx_str_add(file, data, n);
}

static void add_storages(mx_str *file, mx_str *directory) {
    static const unsigned char zeros[4096];
    for (int64_t i = 0; i < mx_arch_count(&least); i++) {
        mx_arch_tensor t = mx_arch_get(&least, i);
        mx_tensor shape = mx_tensor_of(MXW_F32, t.rank, t.dims, NULL);
        char name[32];
        snprintf(name, sizeof(name), "a/data/%d", (int)i);
        must(mx_tensor_bytes(&shape) <= sizeof(zeros));
        add_entry(file, directory, name, zeros, mx_tensor_bytes(&shape));
    }
}

static void try_in_pt(const uint8_t *data, size_t n) {
    static mx_str storages, lines;   /* the same each time */
    mx_str file = {0}, directory = {0};
    if (storages.n == 0)
        add_storages(&storages, &lines);
    mx_str_add(&file, storages.data, storages.n);
    mx_str_add(&directory, lines.data, lines.n);
    add_entry(&file, &directory, "a/data.pkl", data, n);
    size_t at = file.n;
    mx_str_add(&file, directory.data, directory.n);
    number(&file, 0x06054b50, 4);
    number(&file, 0, 4);
    number(&file, (uint64_t)mx_arch_count(&least) + 1, 2);
    number(&file, (uint64_t)mx_arch_count(&least) + 1, 2);
    number(&file, directory.n, 4);
    number(&file, at, 4);
    number(&file, 0, 2);
    uint8_t *exact = malloc(file.n);   /* so that a sanitizer sees the first byte past the end */
    must(exact != NULL);
    memcpy(exact, file.data, file.n);
    try_checkpoint(exact, file.n);
    free(exact);
    mx_str_free(&file);
    mx_str_free(&directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    mx_arena arena = {0};
    const mx_pickle *value = NULL;
    mxw_status status = mx_pickle_load(data, n, &arena, &value);
    if (status < 0)
        must_be_one_line();
    else
        must(value != NULL);
    mx_arena_free(&arena);
    try_in_pt(data, n);
    return 0;
}
