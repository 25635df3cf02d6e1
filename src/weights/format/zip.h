/* weights/format/zip.h - the entries of a ZIP file in memory, as views: nothing is copied or inflated. */
#ifndef MX_WEIGHTS_ZIP_H
#define MX_WEIGHTS_ZIP_H
#include "base/mem.h"

typedef struct mx_zip_entry {
    const char *name;      /* not 0-terminated */
    size_t name_n;
    uint64_t header;       /* offset of the local header */
    uint64_t stored, size; /* bytes in the file, bytes when decompressed */
    uint32_t crc;
    uint16_t method, flags;
} mx_zip_entry;

typedef struct mx_zip {
    const uint8_t *bytes;
    size_t n;
    mx_zip_entry *entries;   /* sorted by name, each name once */
    size_t n_entries;
} mx_zip;

int mx_zip_probe(const uint8_t *bytes, size_t n);
/* Reads the directory, also of ZIP64. Entries are in the arena; names point into bytes. */
mxw_status mx_zip_read(const uint8_t *bytes, size_t n, mx_arena *arena, mx_zip *zip);
const mx_zip_entry *mx_zip_find(const mx_zip *zip, const char *name, size_t name_n);   /* NULL if there is none */
/* The raw bytes of an entry, e->stored of them; compressed if its method says so. */
mxw_status mx_zip_stored(const mx_zip *zip, const mx_zip_entry *entry, const uint8_t **data);
/* The bytes of a stored entry; compressed or encrypted ones are rejected. */
mxw_status mx_zip_data(const mx_zip *zip, const mx_zip_entry *entry, const uint8_t **data);
#endif
