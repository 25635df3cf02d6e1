/* weights/format/npz_read.c - reads the arrays of an untrusted .npz. Invariants: no field is used before it is checked
 * against the file; an array's bytes are complete before its view is returned. */
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST   /* next_in is const */
#include <zlib.h>

#include "weights/format/cursor.h"
#include "weights/format/npz.h"
#include "weights/format/zip.h"

#define MAX_INFLATED ((uint64_t)1 << 33)   /* of one file; protects against zip bombs */

/* ---- the header of a .npy ---------------------------------------------------------------------------------------- */

/* A Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: keys in any order, nothing else. */
typedef struct literal {
    const char *at, *end;
} literal;

static void skip_blanks(literal *l) {
    while (l->at < l->end && (*l->at == ' ' || *l->at == '\n' || *l->at == '\t'))
        l->at++;
}

static int take(literal *l, const char *word) {
    size_t n = strlen(word);
    skip_blanks(l);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, word, n) != 0)
        return 0;
    l->at += n;
    return 1;
}

static int take_quoted(literal *l, char *out, size_t room) {
    size_t n = 0;
    skip_blanks(l);
    if (l->at == l->end || (*l->at != '\'' && *l->at != '"'))
        return 0;
    char quote = *l->at++;
    while (l->at < l->end && *l->at != quote && n + 1 < room)
        out[n++] = *l->at++;
    out[n] = 0;
    return l->at < l->end && *l->at++ == quote;
}

static int take_number(literal *l, int64_t *out) {
    int digits = 0;
    *out = 0;
    skip_blanks(l);
    for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++, digits++) {
        if (*out > (INT64_MAX >> 4) / 10)
            return 0;
        *out = *out * 10 + (*l->at - '0');
    }
    return digits > 0;
}

typedef struct header {
    char descr[16];
    int fortran, rank;
    int64_t dims[MX_MAX_RANK];
} header;

static int take_shape(literal *l, header *h) {
    if (!take(l, "("))
        return 0;
    for (h->rank = 0; !take(l, ")"); h->rank++) {
        if (h->rank == MX_MAX_RANK || !take_number(l, &h->dims[h->rank]))
            return 0;
        if (!take(l, ",") && !take(l, ")"))
            return 0;
        if (l->at[-1] == ')') {
            h->rank++;
            break;
        }
    }
    return 1;
}

static int read_literal(literal *l, header *h) {
    char key[24];
    int seen = 0;
    if (!take(l, "{"))
        return 0;
    while (!take(l, "}")) {
        if (!take_quoted(l, key, sizeof(key)) || !take(l, ":"))
            return 0;
        if (strcmp(key, "descr") == 0 && take_quoted(l, h->descr, sizeof(h->descr)))
            seen |= 1;
        else if (strcmp(key, "fortran_order") == 0 && ((h->fortran = take(l, "True")) || take(l, "False")))
            seen |= 2;
        else if (strcmp(key, "shape") == 0 && take_shape(l, h))
            seen |= 4;
        else
            return 0;
        take(l, ",");
    }
    return seen == 7;
}

static int dtype_of(const char *descr, mxw_dtype *out) {
    static const struct {
        const char *descr;
        mxw_dtype dtype;
    } types[] = {{"<f4", MXW_F32}, {"<f2", MXW_F16}, {"<f8", MXW_F64}, {"<i4", MXW_I32}, {"<i8", MXW_I64},
                 {"|i1", MXW_I8}, {"|u1", MXW_U8}, {"|b1", MXW_U8}};
    for (size_t i = 0; i < MX_COUNT(types); i++)
        if (strcmp(types[i].descr, descr) == 0) {
            *out = types[i].dtype;
            return 1;
        }
    return 0;
}

/* The view of an array whose bytes follow the header; E_NOT_FOUND if its elements are not numbers. */
static mxw_status read_npy(const uint8_t *bytes, size_t n, const char *name, mx_npz_array *array) {
    mx_cursor c = {bytes, n, 0};
    header h = {0};
    mxw_dtype dtype = MXW_I32;
    mx_tensor *out = &array->tensor;
    int ok = 1;
    const uint8_t *magic = mx_cursor_take(&c, 8);
    if (!magic || memcmp(magic, "\x93NUMPY", 6) != 0 || magic[6] < 1 || magic[6] > 3)
        return mx_fail(MXW_E_FORMAT, "array %s: not a .npy of version 1 to 3", name);
    size_t length = (size_t)mx_cursor_number(&c, magic[6] == 1 ? 2 : 4, &ok);
    const uint8_t *text = ok ? mx_cursor_take(&c, length) : NULL;
    literal l = {(const char *)text, text ? (const char *)text + length : NULL};
    if (!text || !read_literal(&l, &h))
        return mx_fail(MXW_E_FORMAT, "array %s: its header is not numpy's, or has more than %d axes", name,
                       MX_MAX_RANK);
    array->words = array->words && strcmp(h.descr, "<u4") == 0;
    if (!array->words && !dtype_of(h.descr, &dtype)) {
        if (strpbrk(h.descr, "UOSV"))
            return MXW_E_NOT_FOUND;
        return mx_fail(MXW_E_UNSUPPORTED, "array %s: type %s is not a little-endian number", name,
                       mx_show(h.descr, strlen(h.descr)).text);
    }
    uint64_t room = mx_cursor_left(&c) / mx_dtype_bytes(dtype), count = 1;
    for (int i = 0; i < h.rank; i++) {
        if (h.dims[i] && count > room / (uint64_t)h.dims[i])
            return mx_fail(MXW_E_FORMAT, "array %s: its bytes are not all there", name);
        count *= (uint64_t)h.dims[i];
    }
    if (count > room)
        return mx_fail(MXW_E_FORMAT, "array %s: its bytes are not all there", name);
    *out = mx_tensor_of_const(dtype, h.rank, h.dims, bytes + c.at);
    int64_t stride = 1;
    for (int i = 0; h.fortran && i < h.rank; stride *= h.dims[i++])
        out->strides[i] = stride;
    return MXW_OK;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static mxw_status inflate_member(const mx_zip_entry *e, const uint8_t *packed, const char *name, uint64_t *total,
                                 mx_arena *arena, const uint8_t **out) {
    /* deflate expands at most 1032-fold */
    if (e->size / 1032 > e->stored || e->size > MAX_INFLATED - *total || e->stored > 0xffffffffu ||
        e->size > 0xffffffffu)
        return mx_fail(MXW_E_FORMAT, "array %s: %llu bytes cannot come out of %llu", name, (unsigned long long)e->size,
                       (unsigned long long)e->stored);
    uint8_t *to = mx_arena_alloc(arena, (size_t)e->size + 1);
    if (!to)
        return MXW_E_MEMORY;
    *total += e->size;
    z_stream z = {.next_in = packed, .avail_in = (uInt)e->stored, .next_out = to,
                  .avail_out = (uInt)e->size};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return mx_fail(MXW_E_MEMORY, "array %s: no memory to inflate it", name);
    int result = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (result != Z_STREAM_END || z.total_out != e->size)
        return mx_fail(MXW_E_FORMAT, "array %s: its packed bytes are damaged", name);
    *out = to;
    return MXW_OK;
}

static mxw_status member_bytes(mx_npz *npz, const mx_zip *zip, const mx_zip_entry *e, const char *name, uint64_t *total,
                               const uint8_t **out) {
    const uint8_t *bytes;
    mxw_status status = mx_zip_stored(zip, e, &bytes);
    if (status < 0)
        return status;
    if (e->method == 8)
        return inflate_member(e, bytes, name, total, &npz->arena, out);
    if (e->method != 0 || e->stored != e->size)
        return mx_fail(MXW_E_UNSUPPORTED, "array %s: packed in a way other than deflate", name);
    *out = bytes;
    return MXW_OK;
}

static int by_offset(const void *a, const void *b) {
    const mx_zip_entry *x = *(const mx_zip_entry *const *)a, *y = *(const mx_zip_entry *const *)b;
    return (x->header > y->header) - (x->header < y->header);
}

static mxw_status read_members(mx_npz *npz, const mx_zip *zip, int words) {
    uint64_t total = 0;
    const mx_zip_entry **order = mx_arena_alloc(&npz->arena, (zip->n_entries + 1) * sizeof(*order));
    npz->arrays = mx_arena_alloc(&npz->arena, (zip->n_entries + 1) * sizeof(*npz->arrays));
    if (!order || !npz->arrays)
        return MXW_E_MEMORY;
    for (size_t i = 0; i < zip->n_entries; i++)
        order[i] = &zip->entries[i];
    qsort(order, zip->n_entries, sizeof(*order), by_offset);
    for (size_t i = 0; i < zip->n_entries; i++) {
        const mx_zip_entry *e = order[i];
        if (e->name_n <= 4 || memcmp(e->name + e->name_n - 4, ".npy", 4) != 0 || memchr(e->name, 0, e->name_n))
            continue;
        mx_npz_array *a = &npz->arrays[npz->n];
        char *name = mx_arena_alloc(&npz->arena, e->name_n - 3);
        const uint8_t *bytes = NULL;
        if (!name)
            return MXW_E_MEMORY;
        memcpy(name, e->name, e->name_n - 4);
        *a = (mx_npz_array){.name = name, .inflated = e->method != 0, .words = words};
        mx_shown shown = mx_show(name, strlen(name));
        mxw_status status = member_bytes(npz, zip, e, shown.text, &total, &bytes);
        if (status >= 0)
            status = read_npy(bytes, (size_t)e->size, shown.text, a);
        if (status < 0 && status != MXW_E_NOT_FOUND)
            return status;
        npz->n += status >= 0;
    }
    return MXW_OK;
}

static mxw_status open_bytes(const uint8_t *bytes, size_t n, int words, mx_npz *npz) {
    mx_zip zip;
    mxw_status status;
    memset(npz, 0, sizeof(*npz));
    MX_TRY(mx_zip_read(bytes, n, &npz->arena, &zip));
    MX_TRY(read_members(npz, &zip, words));
    return MXW_OK;
out:
    mx_npz_close(npz);
    return status;
}

mxw_status mx_npz_open_bytes(const uint8_t *bytes, size_t n, mx_npz *npz) { return open_bytes(bytes, n, 0, npz); }

mxw_status mx_npz_open_words(const uint8_t *bytes, size_t n, mx_npz *npz) { return open_bytes(bytes, n, 1, npz); }

mxw_status mx_npz_open(const char *path, mx_npz *npz) {
    mx_map map;
    memset(npz, 0, sizeof(*npz));
    mxw_status status = mx_map_open(path, &map);
    if (status < 0)
        return status;
    status = mx_npz_open_bytes(map.data, map.n, npz);
    if (status < 0) {
        mx_map_close(&map);
        return mx_fail_in(status, "%s", path);
    }
    npz->map = map;
    return status;
}

void mx_npz_close(mx_npz *npz) {
    if (npz->map.data)
        mx_map_close(&npz->map);
    mx_arena_free(&npz->arena);
    memset(npz, 0, sizeof(*npz));
}
