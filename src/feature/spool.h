/* feature/spool.h - internal to feature/: an append-only list of fixed-size entries; in memory up to a limit, then in
 * an unlinked temporary file. Entry i reads the same either way. */
#ifndef MX_SPOOL_H
#define MX_SPOOL_H
#include "base/status.h"

typedef struct mx_spool {
    size_t record_bytes;
    size_t limit_bytes;    /* of memory */
    int64_t n;             /* entries in total */
    int64_t n_filed;       /* those in the file; the rest is in memory */
    int fd;                /* -1 until the limit is exceeded */
    char *memory;
    size_t capacity;       /* bytes */
} mx_spool;

void mx_spool_init(mx_spool *spool, size_t record_bytes, size_t limit_bytes);
void mx_spool_free(mx_spool *spool);
mxw_status mx_spool_add(mx_spool *spool, const void *records, int64_t count);
/* Entries [first, first + count), which must exist. */
mxw_status mx_spool_read(const mx_spool *spool, int64_t first, int64_t count, void *records);
#endif
