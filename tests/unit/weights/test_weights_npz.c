/* test_weights_npz.c - the .npz export, read back: every member is a stored .npy with the tensor's own bytes.
 * With arguments FOLDER TYPE LIMIT it only exports (FOLDER/out.npz) and lists what must be in there, "name descr shape
 * crc" a line, for numpy to be held against (test_weights_npz.py). */
#include "kit/check.h"
#include "kit/gen_checkpoint.h"

#include <zlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/convert.h"
#include "weights/store.h"
#include "weights/format/npz.h"
#include "weights/format/zip.h"

static mx_weights *generated(const char *folder, mxw_dtype dtype) {
    gen_options o = {.dims = gen_small_dims(), .dtype = dtype, .seed = 5};
    char path[4200];
    mx_weights *w = NULL;
    snprintf(path, sizeof(path), "%s/model", folder);
    if (gen_ct2(path, &o) != 0 || mx_weights_open(path, NULL, &w) != MXW_OK)
        printf("%s\n", mxw_last_error());
    return w;
}

/* limit: where ZIP64 fields begin; 0: as always. */
static mxw_status convert(const mx_weights *w, const char *path, uint64_t limit) {
    const mxw_convert_options options = {.struct_size = sizeof(options), .format = "npz"};
    mx_npz_zip64_from(limit);
    mxw_status status = mx_convert(w, path, &options);
    mx_npz_zip64_from(0);
    return status;
}

static int list(const char *folder, mxw_dtype dtype, uint64_t limit) {
    static const char *const descr[] = {[MXW_F32] = "<f4", [MXW_F16] = "<f2", [MXW_BF16] = "<f4", [MXW_I8] = "<f4"};
    char path[4200];
    mx_weights *w = generated(folder, dtype);
    snprintf(path, sizeof(path), "%s/out.npz", folder);
    if (!w || convert(w, path, limit) != MXW_OK)
        return 1;
    for (int64_t i = 0; i < mx_weights_count(w); i++) {
        mxw_tensor_info info;
        mx_tensor view;
        mx_weights_tensor(w, i, &info, &view);
        uint32_t crc = 0;
        float *wide = mx_alloc((size_t)mx_tensor_count(&view) * 4);
        mx_tensor_to_f32(&view, wide);
        if (view.dtype == MXW_BF16)
            crc = (uint32_t)crc32_z(0, (const void *)wide, (size_t)mx_tensor_count(&view) * 4);
        else
            mx_weights_crc32(w, i, &crc);
        printf("%s %s ", info.name, descr[view.dtype]);
        for (int d = 0; d < info.rank; d++)
            printf("%s%lld", d ? "," : "", (long long)info.dims[d]);
        printf(" %08x\n", crc);
        mx_free(wide);
    }
    mx_weights_close(w);
    return 0;
}

static void check_member(const mx_zip *zip, const char *name, const mx_tensor *view) {
    char file[200], descr[120];
    snprintf(file, sizeof(file), "%s.npy", name);
    const mx_zip_entry *e = mx_zip_find(zip, file, strlen(file));
    const uint8_t *data = NULL;
    size_t bytes = mx_tensor_bytes(view);
    if (!CHECK(e && mx_zip_data(zip, e, &data) == MXW_OK && e->size > bytes))
        return;
    size_t head = (size_t)e->size - bytes;
    CHECK_EQ_INT(crc32_z(0, data, (size_t)e->size), e->crc);
    CHECK(head % 64 == 0 && memcmp(data, "\x93NUMPY\x01\x00", 8) == 0 && data[head - 1] == '\n');
    CHECK_EQ_INT(data[8] | data[9] << 8, head - 10);
    snprintf(descr, sizeof(descr), "{'descr': '<f2', 'fortran_order': False, 'shape': (%lld,%s",
             (long long)view->dims[0], view->rank == 1 ? ")" : "");
    CHECK(memcmp(data + 10, descr, strlen(descr)) == 0);
    void *packed = mx_alloc(bytes);
    mx_tensor_pack(view, packed);
    CHECK(memcmp(data + head, packed, bytes) == 0);
    mx_free(packed);
}

static void test_round_trip(const char *folder, uint64_t limit) {
    char path[4200];
    mx_map map = {0};
    mx_arena arena = {0};
    mx_zip zip;
    mx_weights *w = generated(folder, MXW_F16);
    snprintf(path, sizeof(path), "%s/out.npz", folder);
    if (!CHECK(w && convert(w, path, limit) == MXW_OK))
        return;
    CHECK_EQ_INT(mx_map_open(path, &map), MXW_OK);
    if (CHECK_EQ_INT(mx_zip_read(map.data, map.n, &arena, &zip), MXW_OK)) {
        CHECK_EQ_INT(zip.n_entries, mx_weights_count(w) + 11);   /* ten dimensions and the heads */
        for (int64_t i = 0; i < mx_weights_count(w); i++) {
            mxw_tensor_info info;
            mx_tensor view;
            mx_weights_tensor(w, i, &info, &view);
            check_member(&zip, info.name, &view);
        }
    }
    mx_arena_free(&arena);
    mx_map_close(&map);
    mx_weights_close(w);
}

static void test_faults(const char *folder) {
    char path[4200];
    mx_weights *w = generated(folder, MXW_F16);
    snprintf(path, sizeof(path), "%s/no/such/folder.npz", folder);
    CHECK_EQ_INT(convert(w, path, 0), MXW_E_IO);
    CHECK(strstr(mxw_last_error(), "folder.npz: cannot write") != NULL);
    snprintf(path, sizeof(path), "%s/never.npz", folder);
    int64_t live = mx_mem_live(), i = 0;
    for (mxw_status status = MXW_E_MEMORY; status == MXW_E_MEMORY && i < 10000; i += 1 + i / 16) {
        CHECK(!mx_file_exists(path));
        mx_mem_fail_after(i);
        status = convert(w, path, 0);
        mx_mem_fail_after(-1);
        CHECK(status == MXW_OK || status == MXW_E_MEMORY);
        CHECK_EQ_INT(mx_mem_live(), live);
    }
    CHECK(i > 5 && mx_file_exists(path));
    mx_weights_close(w);
}

int main(int argc, char **argv) {
    char folder[4096];
    if (argc == 4)
        return list(argv[1], (mxw_dtype)atoi(argv[2]), strtoull(argv[3], NULL, 10));
    if (gen_temp(folder, sizeof(folder)) != 0)
        return 1;
    test_round_trip(folder, 0xffffffff);
    test_round_trip(folder, 5000);   /* ZIP64 fields from there on */
    test_faults(folder);
    gen_remove(folder);
    return check_done();
}
