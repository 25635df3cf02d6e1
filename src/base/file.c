/* base/file.c - mapping, and atomic saving by rename. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

mxw_status mx_map_open(const char *path, mx_map *map) {
    mxw_status status = MXW_OK;
    struct stat st;
    memset(map, 0, sizeof(*map));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mx_fail(errno == ENOENT ? MXW_E_NOT_FOUND : MXW_E_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0) {
        status = mx_fail(MXW_E_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = mx_fail(MXW_E_IO, "%s: %s", path, S_ISDIR(st.st_mode) ? "is a folder" : "is not a regular file");
    } else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = mx_fail(MXW_E_IO, "%s: cannot map: %s", path, strerror(errno));
        } else {
            map->data = data;
            map->n = (size_t)st.st_size;
        }
    }
    close(fd);
    return status;
}

void mx_map_close(mx_map *map) {
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->n);
    memset(map, 0, sizeof(*map));
}

void mx_map_forget(const mx_map *map) {
    if (map->data)
        madvise((void *)(uintptr_t)map->data, map->n, MADV_DONTNEED);
}

int mx_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

int mx_file_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

const char *mx_file_temporary_dir(void) {
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

mxw_status mx_file_temporary(const char *what, int *fd) {
    const char *dir = mx_file_temporary_dir();
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/max-whisper-XXXXXX", dir);
    if (n < 0 || n >= (int)sizeof(path))
        return mx_fail(MXW_E_IO, "temporary folder: name too long");
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd < 0)
        return mx_fail(MXW_E_IO, "%s: cannot create a temporary file for %s: %s (set TMPDIR)", dir, what,
                       strerror(errno));
    unlink(path);
    return MXW_OK;
}

struct mx_save {
    char *path, *temporary;
    FILE *file;
};

mxw_status mx_save_open(const char *path, mx_save **out) {
    *out = NULL;
    mx_save *save = mx_alloc_zero(1, sizeof(*save));
    if (!save)
        return MXW_E_MEMORY;
    size_t n = strlen(path) + 32;
    save->path = mx_strdup(path);
    save->temporary = mx_alloc(n);
    if (!save->path || !save->temporary) {
        mx_save_abort(save);
        return MXW_E_MEMORY;
    }
    int fd = -1;
    for (int i = 0; i < 100 && fd < 0; i++) {   /* opened plainly, so that the kernel applies the process's umask */
        snprintf(save->temporary, n, "%s.%08x", path, (unsigned)(mx_now_ns() * 2654435761u) ^ (unsigned)getpid());
        fd = open(save->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0) {
        int why = errno;
        save->temporary[0] = 0;
        mx_save_abort(save);
        return mx_fail(MXW_E_IO, "%s: cannot write: %s", path, strerror(why));
    }
    save->file = fdopen(fd, "wb");
    if (!save->file) {
        int why = errno;
        close(fd);
        mx_save_abort(save);
        return mx_fail(MXW_E_IO, "%s: cannot write: %s", path, strerror(why));
    }
    *out = save;
    return MXW_OK;
}

mxw_status mx_save_write(mx_save *save, const void *bytes, size_t n) {
    if (n && fwrite(bytes, 1, n, save->file) != n)
        return mx_fail(MXW_E_IO, "%s: cannot write: %s", save->path, strerror(errno));
    return MXW_OK;
}

/* The folder of a file is told to keep its new name, too. Where it cannot be told, the name is as safe as the system
 * makes it. */
static void sync_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[4096];
    int n = slash ? snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path)
                  : snprintf(folder, sizeof(folder), ".");
    int fd = n < (int)sizeof(folder) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
}

mxw_status mx_save_commit(mx_save *save) {
    mxw_status status = MXW_OK;
    int ok = fflush(save->file) == 0 && fsync(fileno(save->file)) == 0;
    int why = errno;
    ok = fclose(save->file) == 0 && ok;
    save->file = NULL;
    if (ok && rename(save->temporary, save->path) == 0) {
        save->temporary[0] = 0;
        sync_folder(save->path);
    } else {
        status = mx_fail(MXW_E_IO, "%s: cannot write: %s", save->path, strerror(ok ? errno : why));
    }
    mx_save_abort(save);
    return status;
}

void mx_save_abort(mx_save *save) {
    if (!save)
        return;
    if (save->file)
        fclose(save->file);
    if (save->temporary && save->temporary[0])
        unlink(save->temporary);
    mx_free(save->temporary);
    mx_free(save->path);
    mx_free(save);
}
