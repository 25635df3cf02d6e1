/* server/transcriptions/temp_file.c - see temp_file.h. */
#include "transcriptions/temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int temp_file_open(temp_file *file) {
    const char *folder = getenv("TMPDIR");
    char path[4096];
    folder = folder && *folder ? folder : "/tmp";
    *file = (temp_file){.fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
    if (file->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return file->fd >= 0;
    snprintf(path, sizeof(path), "%s/max-whisper-XXXXXX", folder); /* a file system that does not know O_TMPFILE */
    file->fd = mkostemp(path, O_CLOEXEC);
    if (file->fd >= 0)
        unlink(path);
    return file->fd >= 0;
}

void temp_file_close(temp_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

int temp_file_append(temp_file *file, const void *bytes, size_t n) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t put = pwrite(file->fd, from, n, (off_t)file->size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        from += put;
        n -= (size_t)put;
        file->size += put;
    }
    return 1;
}

static int64_t read_on(void *user, void *bytes, size_t n) {
    temp_file *file = user;
    ssize_t got;
    do
        got = pread(file->fd, bytes, n, (off_t)file->at);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        file->at += got;
    return got;
}

static int64_t seek_to(void *user, int64_t offset, int whence) {
    temp_file *file = user;
    int64_t to = whence == 2 ? file->size + offset : offset;
    if (to < 0)
        return -1;
    return file->at = to;
}

void temp_file_audio(temp_file *file, mxw_audio_options *options) {
    file->at = 0;
    options->path = NULL;
    options->read = read_on;
    options->seek = seek_to;
    options->user = file;
    options->name = "file";
}
