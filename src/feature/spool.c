/* feature/spool.c - see spool.h. Past the limit, memory is one block that is written out each time it is full. */
#include "feature/spool.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

void mx_spool_init(mx_spool *spool, size_t record_bytes, size_t limit_bytes) {
    memset(spool, 0, sizeof(*spool));
    spool->record_bytes = record_bytes;
    spool->limit_bytes = MX_MAX(limit_bytes, record_bytes);
    spool->fd = -1;
}

void mx_spool_free(mx_spool *spool) {
    if (spool->fd >= 0)
        close(spool->fd);
    mx_free(spool->memory);
    spool->fd = -1;
    spool->memory = NULL;
}

/* Appends the entries in memory to the file. */
static mxw_status flush(mx_spool *spool) {
    size_t bytes = (size_t)(spool->n - spool->n_filed) * spool->record_bytes;
    off_t at = (off_t)spool->n_filed * (off_t)spool->record_bytes;
    size_t done = 0;
    if (spool->fd < 0) {
        mxw_status status = mx_file_temporary("the mel frames", &spool->fd);
        if (status < 0)
            return status;
    }
    while (done < bytes) {
        ssize_t n = pwrite(spool->fd, spool->memory + done, bytes - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mx_fail(MXW_E_IO, "%s: cannot write the temporary file of mel frames: %s (set TMPDIR)",
                           mx_file_temporary_dir(), strerror(n < 0 ? errno : ENOSPC));
        done += (size_t)n;
    }
    spool->n_filed = spool->n;
    return MXW_OK;
}

/* Makes room in memory for that many more bytes, within the limit. */
static mxw_status grow(mx_spool *spool, size_t used, size_t bytes) {
    if (used + bytes <= spool->capacity)
        return MXW_OK;
    size_t capacity = MX_MIN(MX_MAX(used + bytes, spool->capacity * 2), spool->limit_bytes);
    char *memory = mx_realloc(spool->memory, capacity);
    if (!memory)
        return MXW_E_MEMORY;
    spool->memory = memory;
    spool->capacity = capacity;
    return MXW_OK;
}

mxw_status mx_spool_add(mx_spool *spool, const void *records, int64_t count) {
    const char *from = records;
    mxw_status status = MXW_OK;
    while (count > 0 && status >= 0) {
        size_t used = (size_t)(spool->n - spool->n_filed) * spool->record_bytes;
        int64_t fit = MX_MIN(count, (int64_t)((spool->limit_bytes - used) / spool->record_bytes));
        size_t bytes = (size_t)fit * spool->record_bytes;
        if (fit == 0) {
            status = flush(spool);
            continue;
        }
        status = grow(spool, used, bytes);
        if (status >= 0) {
            memcpy(spool->memory + used, from, bytes);
            spool->n += fit;
            from += bytes;
            count -= fit;
        }
    }
    return status;
}

static mxw_status read_file(const mx_spool *spool, off_t at, char *bytes, size_t n) {
    while (n > 0) {
        ssize_t got = pread(spool->fd, bytes, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mx_fail(MXW_E_IO, "%s: cannot read the temporary file of mel frames: %s", mx_file_temporary_dir(),
                           got < 0 ? strerror(errno) : "it was cut short");
        bytes += got;
        at += got;
        n -= (size_t)got;
    }
    return MXW_OK;
}

mxw_status mx_spool_read(const mx_spool *spool, int64_t first, int64_t count, void *records) {
    char *out = records;
    if (first < spool->n_filed && count > 0) {
        int64_t filed = MX_MIN(count, spool->n_filed - first);
        size_t bytes = (size_t)filed * spool->record_bytes;
        mxw_status status = read_file(spool, (off_t)first * (off_t)spool->record_bytes, out, bytes);
        if (status < 0)
            return status;
        out += bytes;
        first += filed;
        count -= filed;
    }
    if (count > 0)
        memcpy(out, spool->memory + (size_t)(first - spool->n_filed) * spool->record_bytes,
               (size_t)count * spool->record_bytes);
    return MXW_OK;
}
