/* base/file.c - memory-mapped reading, and atomic saving. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
            map->data = map->base = data;
            map->n = (size_t)st.st_size;
            map->descriptor = fd;
            map->modified = st.st_mtim;
        }
    }
    if (!map->base)
        close(fd);
    return status;
}

void mx_map_close(mx_map *map) {
    if (map->base) {
        munmap(map->base, map->n);
        close(map->descriptor);
    }
    memset(map, 0, sizeof(*map));
}

int mx_map_changed(const mx_map *map) {
    struct stat st;
    if (!map->base || fstat(map->descriptor, &st) != 0)
        return 0;
    return (size_t)st.st_size != map->n || st.st_mtim.tv_sec != map->modified.tv_sec ||
           st.st_mtim.tv_nsec != map->modified.tv_nsec;
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22   /* Linux 5.14 */
#endif
#define PREFETCHED_MAX ((size_t)1 << 30)

void mx_map_prefetch(const mx_map *map) {
    if (map->base && map->n <= PREFETCHED_MAX && madvise(map->base, map->n, MADV_POPULATE_READ) != 0)
        madvise(map->base, map->n, MADV_WILLNEED);
}

void mx_map_forget(const mx_map *map) {
    if (map->base)
        madvise(map->base, map->n, MADV_DONTNEED);
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

/* Where the system supports it, the file has no name until it is complete (O_TMPFILE), so that a killed process leaves
 * nothing behind. Elsewhere, and for the moment in which it replaces an older file, it has a temporary name derived
 * from its own: the next process that saves the same file takes over a leftover. */
struct mx_save {
    char *path, *temporary;
    int named;   /* the file has the temporary name */
    FILE *file;
};

static int always_named;

void mx_save_always_named(int on) { always_named = on; }

/* Its folder; 0 if the path is too long. */
static int folder_of(const char *path, char *folder, size_t size) {
    const char *slash = strrchr(path, '/');
    int n = slash ? snprintf(folder, size, "%.*s", (int)(slash - path) + 1, path) : snprintf(folder, size, ".");
    return n > 0 && (size_t)n < size;
}

static void lock(int fd) {
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;   /* without file locks there is no waiting */
}

static void name_of_descriptor(int fd, char *name, size_t size) { snprintf(name, size, "/proc/self/fd/%d", fd); }

/* A file without a name that can be given one later, or -1. */
static int open_unnamed(const char *path) {
    char folder[4096], name[64];
    if (always_named || !folder_of(path, folder, sizeof(folder)))
        return -1;
    int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);   /* the kernel applies the process's umask */
    if (fd < 0)
        return -1;
    name_of_descriptor(fd, name, sizeof(name));
    if (access(name, F_OK) == 0)
        return fd;
    close(fd);
    return -1;
}

static int is_under(int fd, const char *path) {
    struct stat mine, named;
    return fstat(fd, &mine) == 0 && lstat(path, &named) == 0 && mine.st_ino == named.st_ino &&
           mine.st_dev == named.st_dev;
}

/* Creates and locks the temporary name: other processes that save the same file wait. -1: see errno. */
static int open_named(const char *temporary) {
    for (;;) {
        int fd = open(temporary, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
            return -1;
        lock(fd);
        int ours = is_under(fd, temporary);
        if (ours && ftruncate(fd, 0) == 0)
            return fd;
        int why = errno;
        close(fd);
        errno = why;
        if (ours)
            return -1;
        /* otherwise its previous owner has renamed or removed it */
    }
}

/* Only a regular file may be replaced, not /dev/null, say. */
static mxw_status check_replaceable(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return mx_fail(MXW_E_IO, "%s: cannot write: %s", path,
                       S_ISDIR(st.st_mode) ? "is a folder" : "is not a regular file");
    return MXW_OK;
}

mxw_status mx_save_open(const char *path, mx_save **out) {
    *out = NULL;
    mxw_status status = check_replaceable(path);
    if (status < 0)
        return status;
    mx_save *save = mx_alloc_zero(1, sizeof(*save));
    if (!save)
        return MXW_E_MEMORY;
    size_t n = strlen(path) + 16;
    save->path = mx_strdup(path);
    save->temporary = mx_alloc(n);
    if (!save->path || !save->temporary) {
        mx_save_abort(save);
        return MXW_E_MEMORY;
    }
    snprintf(save->temporary, n, "%s.mxw-part", path);
    int fd = open_unnamed(path);
    if (fd < 0) {
        fd = open_named(save->temporary);
        save->named = fd >= 0;
    }
    save->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!save->file) {
        int why = errno;
        mx_save_abort(save);
        if (fd >= 0)
            close(fd);
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

/* Opens a file's folder; -1 on failure. */
static int open_folder(const char *path) {
    char folder[4096];
    return folder_of(path, folder, sizeof(folder)) ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

/* By way of the temporary name, which a leftover of another process may have. */
static int replace(mx_save *save, const char *name) {
    unlink(save->temporary);
    if (linkat(AT_FDCWD, name, AT_FDCWD, save->temporary, AT_SYMLINK_FOLLOW) != 0)
        return 0;
    if (rename(save->temporary, save->path) == 0)
        return 1;
    int why = errno;
    unlink(save->temporary);
    errno = why;
    return 0;
}

/* Links a complete unnamed file to its name. The folder is locked, since several processes may save the same file. */
static int link_name(mx_save *save, int folder) {
    char name[64];
    name_of_descriptor(fileno(save->file), name, sizeof(name));
    if (folder >= 0)
        lock(folder);
    if (linkat(AT_FDCWD, name, AT_FDCWD, save->path, AT_SYMLINK_FOLLOW) == 0) {
        unlink(save->temporary);   /* left by a killed process */
        return 1;
    }
    return errno == EEXIST && replace(save, name);
}

/* Syncs the folder as well, so that the new name is durable, where the system supports that. */
static int publish(mx_save *save) {
    if (fflush(save->file) != 0 || fsync(fileno(save->file)) != 0)
        return 0;
    int folder = open_folder(save->path);
    int done = save->named ? rename(save->temporary, save->path) == 0 : link_name(save, folder);
    int why = errno;
    if (done)
        save->named = 0;
    if (folder >= 0) {
        (void)!fsync(folder);
        close(folder);
    }
    errno = why;
    return done;
}

mxw_status mx_save_commit(mx_save *save) {
    mxw_status status = MXW_OK;
    if (!publish(save))
        status = mx_fail(MXW_E_IO, "%s: cannot write: %s", save->path, strerror(errno));
    mx_save_abort(save);
    return status;
}

void mx_save_abort(mx_save *save) {
    if (!save)
        return;
    if (save->named)   /* while we hold the lock */
        unlink(save->temporary);
    if (save->file)
        fclose(save->file);
    mx_free(save->temporary);
    mx_free(save->path);
    mx_free(save);
}
