/* base/file.h - files: memory-mapped for reading, or saved atomically. */
#ifndef MX_FILE_H
#define MX_FILE_H
#include <time.h>

#include "base/status.h"

typedef struct mx_map {
    const uint8_t *data;        /* read only; NULL for an empty file */
    size_t n;
    void *base;                 /* the mapping itself; NULL: none, and no descriptor either */
    int descriptor;
    struct timespec modified;   /* the file, when it was opened */
} mx_map;

mxw_status mx_map_open(const char *path, mx_map *map);   /* a regular file; E_NOT_FOUND, E_IO */
void mx_map_close(mx_map *map);
/* Has the pages of a file that is not too large in memory by the time they are read. */
void mx_map_prefetch(const mx_map *map);
/* Whether the file was written to since it was opened: its size or time of modification is another. A file that took
 * over its name is none of it, nor is a file system that cannot tell: a network's may have lost the file by then. */
int mx_map_changed(const mx_map *map);
/* The pages may be dropped from this process's memory; they are read again from the page cache on demand. */
void mx_map_forget(const mx_map *map);

int mx_file_exists(const char *path);
int mx_file_is_dir(const char *path);

const char *mx_file_temporary_dir(void);   /* $TMPDIR, else /tmp */
/* An unnamed temporary file, deleted when *fd is closed; error messages say what it is for. */
mxw_status mx_file_temporary(const char *what, int *fd);

/* A file that appears under its name only when committed: written, synced, then linked. A killed process leaves
 * nothing; where the system has no unnamed files it may leave PATH.mxw-part until that file is saved again. */
typedef struct mx_save mx_save;
mxw_status mx_save_open(const char *path, mx_save **out);
mxw_status mx_save_write(mx_save *save, const void *bytes, size_t n);
mxw_status mx_save_commit(mx_save *save);    /* closes it; on failure no file remains */
void mx_save_abort(mx_save *save);           /* NULL is fine */
void mx_save_always_named(int on);           /* for tests: as if the system had no unnamed files */
#endif
