/* weights/format/zip.c - reads the directory at the end of a ZIP file; every offset is checked against the file. */
#include "weights/format/zip.h"

#include <stdlib.h>

#include "weights/format/cursor.h"

#define END_SIGNATURE 0x06054b50u
#define END64_SIGNATURE 0x06064b50u
#define LOCATOR64_SIGNATURE 0x07064b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define LOCAL_SIGNATURE 0x04034b50u
#define END_BYTES 22
#define ENTRY_BYTES 46
#define LOCAL_BYTES 30
#define EXTRA_ZIP64 1

int mx_zip_probe(const uint8_t *bytes, size_t n) { return n >= 4 && mx_little(bytes, 4) == LOCAL_SIGNATURE; }

typedef struct directory {
    uint64_t offset, bytes, entries;
} directory;

/* The end record is the last thing in the file except for a comment of up to 64 KiB, whose length it states. */
static const uint8_t *find_end(const uint8_t *bytes, size_t n) {
    for (size_t comment = 0; comment <= 0xffff && comment + END_BYTES <= n; comment++) {
        const uint8_t *p = bytes + n - END_BYTES - comment;
        if (mx_little(p, 4) == END_SIGNATURE && mx_little(p + 20, 2) == comment)
            return p;
    }
    return NULL;
}

static mxw_status read_end64(const uint8_t *bytes, size_t n, size_t end_at, directory *d) {
    const uint8_t *locator = end_at >= 20 ? bytes + end_at - 20 : NULL;
    if (!locator || mx_little(locator, 4) != LOCATOR64_SIGNATURE)
        return mx_fail(MXW_E_FORMAT, "zip: the ZIP64 locator is missing");
    uint64_t at = mx_little(locator + 8, 8);
    if (n < 56 || at > n - 56 || mx_little(bytes + at, 4) != END64_SIGNATURE)
        return mx_fail(MXW_E_FORMAT, "zip: the ZIP64 end record is not where the locator says");
    d->entries = mx_little(bytes + at + 32, 8);
    d->bytes = mx_little(bytes + at + 40, 8);
    d->offset = mx_little(bytes + at + 48, 8);
    return MXW_OK;
}

static mxw_status read_end(const uint8_t *bytes, size_t n, directory *d) {
    const uint8_t *end = find_end(bytes, n);
    if (!end)
        return mx_fail(MXW_E_FORMAT, "zip: no end record; the file is truncated or not a zip file");
    d->entries = mx_little(end + 10, 2);
    d->bytes = mx_little(end + 12, 4);
    d->offset = mx_little(end + 16, 4);
    if (d->entries == 0xffff || d->bytes == 0xffffffff || d->offset == 0xffffffff) {
        mxw_status status = read_end64(bytes, n, (size_t)(end - bytes), d);
        if (status < 0)
            return status;
    }
    if (d->offset > n || d->bytes > n - d->offset)
        return mx_fail(MXW_E_FORMAT, "zip: the directory is outside the file");
    if (d->entries > d->bytes / ENTRY_BYTES)
        return mx_fail(MXW_E_FORMAT, "zip: the directory is too small for its %llu entries",
                       (unsigned long long)d->entries);
    return MXW_OK;
}

/* Fields that do not fit into 32 bits are in the ZIP64 extra field, in this order, and only those. */
static mxw_status read_extra(const uint8_t *extra, size_t n, mx_zip_entry *e) {
    if (e->size != 0xffffffff && e->stored != 0xffffffff && e->header != 0xffffffff)
        return MXW_OK;
    mx_cursor c = {extra, n, 0};
    while (mx_cursor_left(&c) >= 4) {
        int ok = 1;
        uint64_t id = mx_cursor_number(&c, 2, &ok), bytes = mx_cursor_number(&c, 2, &ok);
        const uint8_t *body = mx_cursor_take(&c, bytes);
        if (!body)
            break;
        if (id != EXTRA_ZIP64)
            continue;
        mx_cursor f = {body, bytes, 0};
        if (e->size == 0xffffffff)
            e->size = mx_cursor_number(&f, 8, &ok);
        if (e->stored == 0xffffffff)
            e->stored = mx_cursor_number(&f, 8, &ok);
        if (e->header == 0xffffffff)
            e->header = mx_cursor_number(&f, 8, &ok);
        if (ok)
            return MXW_OK;
    }
    return mx_fail(MXW_E_FORMAT, "zip: entry %s lacks its ZIP64 field", mx_show(e->name, e->name_n).text);
}

static mxw_status read_entry(mx_cursor *c, mx_zip_entry *e) {
    const uint8_t *p = mx_cursor_take(c, ENTRY_BYTES);
    if (!p || mx_little(p, 4) != ENTRY_SIGNATURE)
        return mx_fail(MXW_E_FORMAT, "zip: the directory is damaged");
    size_t name_n = mx_little(p + 28, 2), extra_n = mx_little(p + 30, 2), comment_n = mx_little(p + 32, 2);
    const uint8_t *name = mx_cursor_take(c, name_n), *extra = mx_cursor_take(c, extra_n);
    if (!name || !extra || !mx_cursor_take(c, comment_n))
        return mx_fail(MXW_E_FORMAT, "zip: the directory is damaged");
    e->name = (const char *)name;
    e->name_n = name_n;
    e->flags = (uint16_t)mx_little(p + 8, 2);
    e->method = (uint16_t)mx_little(p + 10, 2);
    e->crc = (uint32_t)mx_little(p + 16, 4);
    e->stored = mx_little(p + 20, 4);
    e->size = mx_little(p + 24, 4);
    e->header = mx_little(p + 42, 4);
    return read_extra(extra, extra_n, e);
}

static int compare_names(const char *a, size_t a_n, const char *b, size_t b_n) {
    int order = memcmp(a, b, MX_MIN(a_n, b_n));
    return order ? order : (a_n > b_n) - (a_n < b_n);
}

static int compare_entries(const void *a, const void *b) {
    const mx_zip_entry *x = a, *y = b;
    return compare_names(x->name, x->name_n, y->name, y->name_n);
}

mxw_status mx_zip_read(const uint8_t *bytes, size_t n, mx_arena *arena, mx_zip *zip) {
    directory d = {0};
    mxw_status status = read_end(bytes, n, &d);
    if (status < 0)
        return status;
    *zip = (mx_zip){.bytes = bytes, .n = n, .n_entries = (size_t)d.entries};
    zip->entries = mx_arena_alloc(arena, (size_t)d.entries * sizeof(*zip->entries));   /* entries <= n / 46 */
    if (!zip->entries)
        return MXW_E_MEMORY;
    mx_cursor c = {bytes + d.offset, (size_t)d.bytes, 0};
    for (size_t i = 0; i < zip->n_entries; i++) {
        status = read_entry(&c, &zip->entries[i]);
        if (status < 0)
            return status;
    }
    if (zip->n_entries)
        qsort(zip->entries, zip->n_entries, sizeof(*zip->entries), compare_entries);
    for (size_t i = 1; i < zip->n_entries; i++)
        if (compare_entries(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return mx_fail(MXW_E_FORMAT, "zip: entry %s appears twice",
                           mx_show(zip->entries[i].name, zip->entries[i].name_n).text);
    return MXW_OK;
}

const mx_zip_entry *mx_zip_find(const mx_zip *zip, const char *name, size_t name_n) {
    mx_zip_entry key = {.name = name, .name_n = name_n};
    if (zip->n_entries == 0)
        return NULL;
    return bsearch(&key, zip->entries, zip->n_entries, sizeof(key), compare_entries);
}

mxw_status mx_zip_data(const mx_zip *zip, const mx_zip_entry *e, const uint8_t **data) {
    if (!(e->flags & 1) && (e->method != 0 || e->stored != e->size))
        return mx_fail(MXW_E_UNSUPPORTED, "zip: entry %s is compressed; entries of a checkpoint must be stored",
                       mx_show(e->name, e->name_n).text);
    return mx_zip_stored(zip, e, data);
}

mxw_status mx_zip_stored(const mx_zip *zip, const mx_zip_entry *e, const uint8_t **data) {
    mx_shown name = mx_show(e->name, e->name_n);
    if (e->flags & 1)
        return mx_fail(MXW_E_UNSUPPORTED, "zip: entry %s is encrypted", name.text);
    if (zip->n < LOCAL_BYTES || e->header > zip->n - LOCAL_BYTES)
        return mx_fail(MXW_E_FORMAT, "zip: entry %s is outside the file", name.text);
    mx_cursor c = {zip->bytes, zip->n, (size_t)e->header};
    const uint8_t *p = mx_cursor_take(&c, LOCAL_BYTES);
    if (mx_little(p, 4) != LOCAL_SIGNATURE)
        return mx_fail(MXW_E_FORMAT, "zip: entry %s has no header at the directory's offset", name.text);
    size_t name_n = mx_little(p + 26, 2), extra_n = mx_little(p + 28, 2);
    const uint8_t *local_name = mx_cursor_take(&c, name_n);
    if (!local_name || compare_names((const char *)local_name, name_n, e->name, e->name_n) != 0)
        return mx_fail(MXW_E_FORMAT, "zip: entry %s has another name in its header", name.text);
    if (!mx_cursor_take(&c, extra_n) || e->stored > mx_cursor_left(&c))
        return mx_fail(MXW_E_FORMAT, "zip: entry %s is outside the file", name.text);
    *data = c.data + c.at;
    return MXW_OK;
}
