/* weights/format/npz.c - writes a ZIP of stored .npy members that numpy.load reads, atomically. ZIP64 fields are
 * written where an offset needs them, so the file may be of any size. */
#include <string.h>
#include <zlib.h>

#include "base/base.h"
#include "base/file.h"
#include "weights/format/npz.h"

#define ZIP64_MARK 0xffffffffu   /* in a 32-bit field: see the ZIP64 one */

typedef struct mx_npz_writer {
    mx_save *save;
    uint64_t at;           /* bytes written */
    uint64_t limit;        /* offsets from here on go into ZIP64 fields */
    mx_str directory;      /* built along with the members, written last */
    uint64_t members;
    mx_str head;           /* scratch: header of one member */
} writer;

static void add_number(mx_str *s, uint64_t x, int bytes) {
    unsigned char b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(x >> (8 * i));
    mx_str_add(s, b, (size_t)bytes);
}

static mxw_status put(writer *w, const void *bytes, size_t n) {
    w->at += n;
    return mx_save_write(w->save, bytes, n);
}

static const char *numpy_type(mxw_dtype dtype) {
    switch (dtype) {
    case MXW_F32: return "<f4";
    case MXW_F16: return "<f2";
    case MXW_F64: return "<f8";
    case MXW_I32: return "<i4";
    case MXW_I64: return "<i8";
    case MXW_I8: return "|i1";
    case MXW_U8: return "|u1";
    case MXW_BF16: break;   /* widened before */
    case MXW_F8: break;     /* only of states on a device */
    }
    return "";
}

/* The .npy header, version 1.0: magic, length, a Python literal padded so that the data starts at a multiple of 64. */
static void npy_header(mx_str *s, const mx_tensor *t) {
    mx_str text = {0};
    mx_str_print(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", numpy_type(t->dtype));
    for (int i = 0; i < t->rank; i++)
        mx_str_print(&text, "%lld,%s", (long long)t->dims[i], i + 1 < t->rank ? " " : "");
    mx_str_text(&text, "), }");
    while ((10 + text.n + 1) % 64 && mx_str_status(&text) == MXW_OK)
        mx_str_text(&text, " ");
    mx_str_text(&text, "\n");
    mx_str_add(s, "\x93NUMPY\x01\x00", 8);
    add_number(s, text.n, 2);
    mx_str_add(s, mx_str_get(&text), text.n);
    if (mx_str_status(&text) < 0)
        s->status = mx_str_status(&text);
    mx_str_free(&text);
}

/* The fields that a local header and a directory entry share. A member is below 4 GiB: only offsets can be above. */
static void add_common(mx_str *s, uint32_t crc, uint64_t bytes, size_t name_n, size_t extra_n) {
    add_number(s, 0, 2);              /* flags */
    add_number(s, 0, 2);              /* stored */
    add_number(s, 0, 2);              /* time */
    add_number(s, 0x21, 2);           /* 1 January 1980 */
    add_number(s, crc, 4);
    add_number(s, bytes, 4);
    add_number(s, bytes, 4);
    add_number(s, name_n, 2);
    add_number(s, extra_n, 2);
}

static void add_directory_entry(writer *w, const char *name, uint32_t crc, uint64_t bytes) {
    mx_str *d = &w->directory;
    int large = w->at >= w->limit;
    add_number(d, 0x02014b50, 4);
    add_number(d, 45, 2);
    add_number(d, large ? 45 : 20, 2);
    add_common(d, crc, bytes, strlen(name), large ? 12 : 0);
    add_number(d, 0, 2);              /* comment */
    add_number(d, 0, 2);              /* disk */
    add_number(d, 0, 2);
    add_number(d, 0, 4);
    add_number(d, large ? ZIP64_MARK : w->at, 4);
    mx_str_text(d, name);
    if (large) {
        add_number(d, 1, 2);
        add_number(d, 8, 2);
        add_number(d, w->at, 8);
    }
    w->members++;
}

/* One member from row-major data. */
static mxw_status add_member(writer *w, const char *name, const mx_tensor *t) {
    mx_str npy = {0}, file = {0};
    mxw_status status;
    size_t data_n = mx_tensor_bytes(t);
    npy_header(&npy, t);
    mx_str_print(&file, "%s.npy", name);
    MX_TRY(mx_str_status(&npy));
    MX_TRY(mx_str_status(&file));
    uint64_t bytes = (uint64_t)npy.n + data_n;
    if (bytes >= ZIP64_MARK) {
        status = mx_fail(MXW_E_UNSUPPORTED, "tensor %s is too large for one member", name);
        goto out;
    }
    uint32_t crc = (uint32_t)crc32_z(crc32_z(0, (const unsigned char *)npy.data, npy.n), t->data, data_n);
    add_directory_entry(w, file.data, crc, bytes);
    mx_str_clear(&w->head);
    add_number(&w->head, 0x04034b50, 4);
    add_number(&w->head, 20, 2);
    add_common(&w->head, crc, bytes, file.n, 0);
    mx_str_add(&w->head, file.data, file.n);
    MX_TRY(mx_str_status(&w->head));
    MX_TRY(mx_str_status(&w->directory));
    MX_TRY(put(w, w->head.data, w->head.n));
    MX_TRY(put(w, npy.data, npy.n));
    MX_TRY(put(w, t->data, data_n));
out:
    mx_str_free(&npy);
    mx_str_free(&file);
    return status;
}

/* A tensor as numpy supports it: row major, bf16 widened. */
static mxw_status add_tensor(writer *w, const char *name, const mx_tensor *t) {
    if (mx_tensor_contiguous(t) && t->dtype != MXW_BF16)
        return add_member(w, name, t);
    int widen = t->dtype == MXW_BF16;
    void *copy = mx_alloc((size_t)mx_tensor_count(t) * (widen ? sizeof(float) : mx_dtype_bytes(t->dtype)));
    if (!copy)
        return MXW_E_MEMORY;
    mxw_status status = MXW_OK;
    if (widen)
        status = mx_tensor_to_f32(t, copy);
    else
        mx_tensor_pack(t, copy);
    mx_tensor packed = mx_tensor_of(widen ? MXW_F32 : t->dtype, t->rank, t->dims, copy);
    if (status == MXW_OK)
        status = add_member(w, name, &packed);
    mx_free(copy);
    return status;
}

static mxw_status add_end(writer *w) {
    uint64_t offset = w->at, bytes = w->directory.n;
    mx_str *s = &w->head;
    mxw_status status = put(w, mx_str_get(&w->directory), bytes);
    if (status < 0)
        return status;
    int large = offset >= w->limit || w->members >= 0xffff;
    mx_str_clear(s);
    if (large) {
        uint64_t at = w->at;
        add_number(s, 0x06064b50, 4);
        add_number(s, 44, 8);
        add_number(s, 45, 2);
        add_number(s, 45, 2);
        add_number(s, 0, 8);          /* disks */
        add_number(s, w->members, 8);
        add_number(s, w->members, 8);
        add_number(s, bytes, 8);
        add_number(s, offset, 8);
        add_number(s, 0x07064b50, 4);
        add_number(s, 0, 4);
        add_number(s, at, 8);
        add_number(s, 1, 4);
    }
    add_number(s, 0x06054b50, 4);
    add_number(s, 0, 4);              /* disks */
    add_number(s, large ? 0xffff : w->members, 2);
    add_number(s, large ? 0xffff : w->members, 2);
    add_number(s, large ? ZIP64_MARK : bytes, 4);
    add_number(s, large ? ZIP64_MARK : offset, 4);
    add_number(s, 0, 2);
    status = mx_str_status(s);
    return status < 0 ? status : put(w, s->data, s->n);
}

static void free_writer(writer *w) {
    mx_save_abort(w->save);
    mx_str_free(&w->directory);
    mx_str_free(&w->head);
}

static mxw_status commit(writer *w) {
    mxw_status status = add_end(w);
    if (status < 0)
        return status;
    mx_save *save = w->save;
    w->save = NULL;
    return mx_save_commit(save);
}

static uint64_t zip64_from = ZIP64_MARK;

void mx_npz_zip64_from(uint64_t limit) { zip64_from = limit ? limit : ZIP64_MARK; }

mxw_status mx_npz_create(const char *path, mx_npz_writer **out) {
    writer *w = mx_alloc_zero(1, sizeof(*w));
    *out = NULL;
    if (!w)
        return MXW_E_MEMORY;
    w->limit = zip64_from;
    mxw_status status = mx_save_open(path, &w->save);
    if (status < 0)
        mx_free(w);
    else
        *out = w;
    return status;
}

mxw_status mx_npz_add(mx_npz_writer *w, const char *name, const mx_tensor *t) { return add_tensor(w, name, t); }

mxw_status mx_npz_commit(mx_npz_writer *w) {
    mxw_status status = commit(w);
    mx_npz_abort(w);
    return status;
}

void mx_npz_abort(mx_npz_writer *w) {
    if (w)
        free_writer(w);
    mx_free(w);
}
