/* audio/input.c - see input.h. */
#include "audio/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define PEEK_LIMIT (16 << 20)
#define PEEK_STEP 65536

static mxw_status fail_errno(const mx_input *input, int why) {
    return mx_fail(why == ENOENT || why == ENOTDIR ? MXW_E_NOT_FOUND : MXW_E_IO, "%s: %s", input->name,
                   why == ENOENT ? "no such file" : why == EBADF ? "is not open for reading" : strerror(why));
}

mxw_status mx_input_open(mx_input *input, const char *path) {
    struct stat st;
    int standard = strcmp(path, "-") == 0;
    memset(input, 0, sizeof(*input));
    input->name = standard ? "standard input" : path;
    input->owned = !standard;
    input->size = -1;
    input->fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 || fstat(input->fd, &st) != 0) {
        mxw_status status = fail_errno(input, errno);
        mx_input_close(input);
        return status;
    }
    if (S_ISDIR(st.st_mode)) {
        mx_input_close(input);
        return mx_fail(MXW_E_IO, "%s: is a folder, not a file", input->name);
    }
    off_t here = S_ISREG(st.st_mode) ? lseek(input->fd, 0, SEEK_CUR) : -1;
    if (here >= 0) {
        input->regular = 1;
        input->start = here;
        input->size = MX_MAX((int64_t)st.st_size - here, 0);
    }
    return MXW_OK;
}

mxw_status mx_input_fail_callback(mx_input *input, const char *which) {
    input->failed = which;
    return mx_fail(MXW_E_IO, "%s: the %s callback failed", input->name, which);
}

mxw_status mx_input_open_bytes(mx_input *input, const mx_audio_bytes *bytes, const char *name) {
    memset(input, 0, sizeof(*input));
    input->name = name;
    input->fd = -1;
    input->bytes = *bytes;
    input->size = -1;
    if (bytes->data) {
        input->regular = 1;
        input->size = (int64_t)bytes->size;
    } else if (bytes->seek) {
        input->regular = 1;
        input->size = bytes->seek(bytes->user, 0, SEEK_END);
        input->bytes_at = input->size;
        if (input->size < 0)
            return mx_input_fail_callback(input, "seek");
    }
    return MXW_OK;
}

void mx_input_close(mx_input *input) {
    if (input->owned && input->fd >= 0)
        close(input->fd);
    mx_free(input->head);
    input->head = NULL;
    input->n_head = 0;
    input->fd = -1;
}

static mxw_status read_memory(const mx_input *input, int64_t offset, void *bytes, size_t n, size_t *got) {
    if (offset < input->size) {
        *got = MX_MIN(n, (size_t)(input->size - offset));
        memcpy(bytes, (const char *)input->bytes.data + offset, *got);
    }
    return MXW_OK;
}

static mxw_status read_callback(mx_input *input, int64_t offset, void *bytes, size_t n, size_t *got) {
    const mx_audio_bytes *from = &input->bytes;
    if (input->regular && offset > input->size)   /* a damaged header points there; not every seek goes so far */
        return MXW_OK;
    if (input->regular && input->bytes_at != offset) {
        if (from->seek(from->user, offset, SEEK_SET) != offset)
            return mx_input_fail_callback(input, "seek");
        input->bytes_at = offset;
    }
    int64_t count = from->read(from->user, bytes, n);
    if (count < 0 || count > (int64_t)n)
        return mx_input_fail_callback(input, "read");
    input->bytes_at += count;
    *got = (size_t)count;
    return MXW_OK;
}

/* One successful read, 0 at the end. */
static mxw_status read_once(mx_input *input, int64_t offset, void *bytes, size_t n, size_t *got) {
    ssize_t count;
    *got = 0;
    if (input->bytes.data)
        return read_memory(input, offset, bytes, n, got);
    if (input->bytes.read)
        return read_callback(input, offset, bytes, n, got);
    do
        count = input->regular ? pread(input->fd, bytes, n, (off_t)(input->start + offset))
                               : read(input->fd, bytes, n);
    while (count < 0 && errno == EINTR);
    if (count < 0)
        return fail_errno(input, errno);
    *got = (size_t)count;
    return MXW_OK;
}

/* Reads a pipe's first n bytes, or all there are, into head: in steps, so that a wrong size in a header costs no more
 * memory than the pipe has bytes. */
static mxw_status fill_head(mx_input *input, size_t n) {
    while (input->n_head < n) {
        size_t got, step = MX_MIN(n - input->n_head, (size_t)PEEK_STEP);
        mxw_status status = mx_grow(&input->head, &input->head_capacity, input->n_head + step, 1);
        if (status >= 0)
            status = read_once(input, 0, input->head + input->n_head, step, &got);
        if (status < 0)
            return status;
        if (got == 0)
            break;
        input->n_head += got;
    }
    return MXW_OK;
}

mxw_status mx_input_peek(mx_input *input, int64_t offset, void *bytes, size_t n, size_t *got) {
    *got = 0;
    if (input->regular) {
        while (*got < n) {
            size_t part;
            mxw_status status = read_once(input, offset + (int64_t)*got, (char *)bytes + *got, n - *got, &part);
            if (status < 0)
                return status;
            if (part == 0)
                break;
            *got += part;
        }
        return MXW_OK;
    }
    if (offset > PEEK_LIMIT || n > PEEK_LIMIT)
        return mx_fail(MXW_E_UNSUPPORTED, "%s: the audio of this pipe begins after more than 16 MB", input->name);
    mxw_status status = fill_head(input, (size_t)offset + n);
    if (status >= 0 && input->n_head > (size_t)offset) {
        *got = MX_MIN(n, input->n_head - (size_t)offset);
        memcpy(bytes, input->head + offset, *got);
    }
    return status;
}

mxw_status mx_input_read_some(mx_input *input, void *bytes, size_t n, size_t *got) {
    mxw_status status = MXW_OK;
    *got = 0;
    if (!input->regular && input->position < (int64_t)input->n_head) {
        *got = MX_MIN(n, input->n_head - (size_t)input->position);
        memcpy(bytes, input->head + input->position, *got);
    } else if (n > 0) {
        status = read_once(input, input->position, bytes, n, got);
    }
    input->position += (int64_t)*got;
    return status;
}

mxw_status mx_input_read(mx_input *input, void *bytes, size_t n, size_t *got) {
    *got = 0;
    while (*got < n) {
        size_t part;
        mxw_status status = mx_input_read_some(input, (char *)bytes + *got, n - *got, &part);
        if (status < 0)
            return status;
        if (part == 0)
            break;
        *got += part;
    }
    return MXW_OK;
}

mxw_status mx_input_seek(mx_input *input, int64_t offset) {
    char scratch[4096];
    if (input->regular || offset <= (int64_t)input->n_head) {
        input->position = offset;
        return MXW_OK;
    }
    while (input->position < offset) {
        size_t got;
        mxw_status status =
            mx_input_read_some(input, scratch,
                               (size_t)MX_MIN(offset - input->position, (int64_t)sizeof(scratch)), &got);
        if (status < 0 || got == 0)
            return status;
    }
    return MXW_OK;
}

static mxw_status write_all(int fd, const char *bytes, size_t n) {
    while (n > 0) {
        ssize_t count = write(fd, bytes, n);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return mx_fail(MXW_E_IO, "cannot write the temporary file: %s (set TMPDIR)", strerror(errno));
        bytes += count;
        n -= (size_t)count;
    }
    return MXW_OK;
}

mxw_status mx_input_spool(mx_input *input) {
    char block[65536];
    size_t got = 1;
    int64_t size = 0;
    int fd = -1;
    mxw_status status = mx_file_temporary("a piped recording", &fd);
    while (status >= 0) {
        status = mx_input_read_some(input, block, sizeof(block), &got);
        if (status < 0 || got == 0)
            break;
        status = write_all(fd, block, got);
        size += (int64_t)got;
    }
    if (status < 0) {
        if (fd >= 0)
            close(fd);
        return mx_fail_in(status, "%s", input->name);
    }
    if (input->owned)
        close(input->fd);
    input->fd = fd;
    input->bytes = (mx_audio_bytes){0};   /* all of them are in the file now */
    input->owned = input->regular = 1;
    input->start = input->position = 0;
    input->size = size;
    return MXW_OK;
}
