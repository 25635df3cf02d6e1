/* base/file.h - files: mapped whole for reading, or written whole or not at all. */
#ifndef MX_FILE_H
#define MX_FILE_H
#include "base/status.h"

typedef struct mx_map {
    const uint8_t *data;   /* read only; NULL for an empty file */
    size_t n;
} mx_map;

mxw_status mx_map_open(const char *path, mx_map *map);   /* a regular file; E_NOT_FOUND, E_IO */
void mx_map_close(mx_map *map);
/* Its pages need not stay in this process's memory; they come back, from the system's cache, when they are read. */
void mx_map_forget(const mx_map *map);

int mx_file_exists(const char *path);
int mx_file_is_dir(const char *path);

const char *mx_file_temporary_dir(void);   /* $TMPDIR, else /tmp */
/* A temporary file without a name, gone when *fd is closed; `what` says in a failure what it was for. */
mxw_status mx_file_temporary(const char *what, int *fd);

/* A file that appears under its name only when committed: written, synced, then named. A killed process leaves nothing;
 * where the system knows no files without a name, it may leave PATH.mxw-part until that file is saved again. */
typedef struct mx_save mx_save;
mxw_status mx_save_open(const char *path, mx_save **out);
mxw_status mx_save_write(mx_save *save, const void *bytes, size_t n);
mxw_status mx_save_commit(mx_save *save);    /* closes it; on failure nothing is left behind */
void mx_save_abort(mx_save *save);           /* NULL is fine */
void mx_save_always_named(int on);           /* for tests: as if the system knew no files without a name */
#endif
