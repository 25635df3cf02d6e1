/* test_weights_real.c - the released files: tiny.en as .pt and as CTranslate2 hold the same 167 tensors, bit for bit,
 * and every tensor of tiny.en and base has the bytes, and widened to f32 the bytes, that numpy finds in them. A file
 * that is not in the model folder is skipped, by name. */
#include "kit/check.h"

#include <zlib.h>

#include "base/mem.h"
#include "weights/weights.h"

static int skipped;

/* CRC-32 over all tensors in the order of their names, row major, as numpy computes it from the file (through
 * torch.load, and through the reader of tests/golden/make/oracle/models.py, which shares nothing with ours): in
 * their own type and as f32. */
static const struct {
    const char *name, *size_name, *format;
    int64_t tensors, strided;
    uint32_t crc, crc_f32;
    int multilingual, heads;
} files[] = {
    {"tiny.en.pt", "tiny.en", "OpenAI .pt", 167, 64, 0xb89c01e9, 0xe69d2827, 0, 8},
    {"tiny.en-ct2", "tiny.en", "CTranslate2 model.bin", 167, 0, 0xb89c01e9, 0xe69d2827, 0, 8},
    {"base", "base", "CTranslate2 model.bin", 245, 0, 0xf731d51d, 0x6ae2b58a, 1, 8},
};

/* From the model folder by name; NULL, counted as skipped, if it is not there. */
static mx_weights *open_real(const char *name) {
    mx_weights *w = NULL;
    mx_str path = {0};
    if (strstr(name, ".pt"))
        mx_str_print(&path, "%s/", mx_model_dir(NULL));
    mx_str_text(&path, name);
    mxw_status status = mx_weights_open(mx_str_get(&path), NULL, &w);
    mx_str_free(&path);
    if (status == MXW_E_NOT_FOUND) {
        printf("SKIP: weights-real: %s is not in %s\n", name, mx_model_dir(NULL));
        skipped++;
    } else if (!CHECK_EQ_INT(status, MXW_OK)) {
        printf("    %s\n", mxw_last_error());
    }
    return w;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void check_sums(const mx_weights *w, uint32_t want, uint32_t want_f32, int64_t strided) {
    int64_t n = mx_weights_count(w);
    const char **names = mx_alloc_array((size_t)n, sizeof(*names));
    uint32_t crc = 0, crc_f32 = 0;
    for (int64_t i = 0; i < n; i++) {
        mxw_tensor_info info;
        mx_weights_tensor(w, i, &info, NULL);
        names[i] = info.name;
    }
    qsort(names, (size_t)n, sizeof(*names), compare_names);
    for (int64_t i = 0; i < n; i++) {
        mx_tensor view;
        CHECK_EQ_INT(mx_weights_find(w, names[i], &view), MXW_OK);
        strided -= !mx_tensor_contiguous(&view);
        size_t count = (size_t)mx_tensor_count(&view);
        void *bytes = mx_alloc(count * 4);
        mx_tensor_pack(&view, bytes);
        crc = (uint32_t)crc32_z(crc, bytes, mx_tensor_bytes(&view));
        mx_tensor_to_f32(&view, bytes);
        crc_f32 = (uint32_t)crc32_z(crc_f32, bytes, count * 4);
        mx_free(bytes);
    }
    mx_free(names);
    CHECK_EQ_INT(crc, want);
    CHECK_EQ_INT(crc_f32, want_f32);
    CHECK_EQ_INT(strided, 0);
}

static void check_same(const mx_weights *a, const mx_weights *b) {
    CHECK_EQ_INT(mx_weights_count(a), mx_weights_count(b));
    for (int64_t i = 0; i < mx_weights_count(a); i++) {
        mxw_tensor_info x, y;
        uint32_t crc_x = 0, crc_y = 1;
        mx_weights_tensor(a, i, &x, NULL);
        mx_weights_tensor(b, i, &y, NULL);
        CHECK_STR(x.name, y.name);
        CHECK(x.dtype == y.dtype && x.rank == y.rank && memcmp(x.dims, y.dims, sizeof(x.dims)) == 0);
        CHECK(x.mapped && y.mapped);
        mx_weights_crc32(a, i, &crc_x);
        mx_weights_crc32(b, i, &crc_y);
        if (!CHECK_EQ_INT(crc_x, crc_y))
            printf("    %s differs\n", x.name);
    }
}

int main(void) {
    mx_weights *open[MX_COUNT(files)] = {0};
    for (size_t i = 0; i < MX_COUNT(files); i++) {
        mxw_checkpoint_info info;
        size_t n_heads;
        open[i] = open_real(files[i].name);
        if (!open[i])
            continue;
        mx_weights_info(open[i], &info);
        CHECK_STR(info.size_name, files[i].size_name);
        CHECK_STR(info.format, files[i].format);
        CHECK_EQ_INT(info.n_tensors, files[i].tensors);
        CHECK_EQ_INT(info.multilingual, files[i].multilingual);
        CHECK_EQ_INT(info.n_languages, files[i].multilingual ? 99 : 0);
        mx_weights_alignment_heads(open[i], &n_heads);
        CHECK_EQ_INT(n_heads, files[i].heads);
        check_sums(open[i], files[i].crc, files[i].crc_f32, files[i].strided);
    }
    if (open[0] && open[1])
        check_same(open[0], open[1]);
    for (size_t i = 0; i < MX_COUNT(files); i++)
        mx_weights_close(open[i]);
    return skipped == (int)MX_COUNT(files) ? 77 : check_done();
}
