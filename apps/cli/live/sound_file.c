/* cli/live/sound_file.c - two writes for each block: the samples, and where they end. */
#include "live/sound_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "live/pcm.h"

enum { BLOCK = 4096 };

static int fail(sound_file *f) {
    log_error("--save-audio: %s: %s", f->path, strerror(errno));
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->path = NULL;
    return 0;
}

static int write_at(sound_file *f, const void *bytes, size_t n, int64_t at) {
    const char *from = bytes;
    while (n > 0) {
        ssize_t written = pwrite(f->fd, from, n, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return 0;
        from += written;
        at += written;
        n -= (size_t)written;
    }
    return 1;
}

static int write_header(sound_file *f) {
    unsigned char header[PCM_HEADER_BYTES];
    int64_t limit = (int64_t)UINT32_MAX - PCM_HEADER_BYTES;
    pcm_header(PCM_S16, MXW_SAMPLE_RATE, 1, header);
    for (int i = 0; i < 4 && f->n_bytes < limit; i++) {
        header[4 + i] = (unsigned char)((f->n_bytes + PCM_HEADER_BYTES - 8) >> 8 * i);
        header[PCM_HEADER_BYTES - 4 + i] = (unsigned char)(f->n_bytes >> 8 * i);
    }
    return write_at(f, header, sizeof(header), 0);
}

int sound_file_open(sound_file *f, const char *path) {
    *f = (sound_file){.path = path, .fd = -1};
    if (!path)
        return 1;
    f->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return f->fd >= 0 && write_header(f) ? 1 : fail(f);
}

static int add_block(sound_file *f, const float *samples, size_t n) {
    unsigned char bytes[2 * BLOCK];
    for (size_t i = 0; i < n; i++) {
        long value = lrint((double)samples[i] * 32768.0);
        value = value < -32768 ? -32768 : value > 32767 ? 32767 : value;
        bytes[2 * i] = (unsigned char)(value & 0xff);
        bytes[2 * i + 1] = (unsigned char)(value >> 8 & 0xff);
    }
    if (!write_at(f, bytes, 2 * n, PCM_HEADER_BYTES + f->n_bytes))
        return 0;
    f->n_bytes += 2 * (int64_t)n;
    return 1;
}

int sound_file_add(sound_file *f, const float *samples, size_t n) {
    if (!f->path || !n)
        return 1;
    for (size_t i = 0; i < n; i += BLOCK)
        if (!add_block(f, samples + i, n - i < BLOCK ? n - i : BLOCK))
            return fail(f);
    return write_header(f) ? 1 : fail(f);
}

/* Its last sample makes the others: a laptop that slept costs no space. */
int sound_file_gap(sound_file *f, double seconds) {
    int64_t n = llrint(seconds * MXW_SAMPLE_RATE);
    if (!f->path || n <= 0)
        return 1;
    if (!write_at(f, "\0", 2, PCM_HEADER_BYTES + f->n_bytes + 2 * (n - 1)))
        return fail(f);
    f->n_bytes += 2 * n;
    return write_header(f) ? 1 : fail(f);
}

int sound_file_close(sound_file *f) {
    int fd = f->fd;
    f->fd = -1;
    return !f->path || fd < 0 || !close(fd) ? 1 : fail(f);
}
