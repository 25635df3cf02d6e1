/* tests/fuzz/fuzz_wav.c - any bytes as a WAV file, once as a file and once through a pipe, without the FFmpeg module.
 * Invariants: every sample that comes out is a multiple of 1/32768 in [-1, 1), file and pipe agree, nothing leaks. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audio/audio.h"
#include "base/mem.h"

#define PIPE_LIMIT 60000   /* fits into a pipe that nobody reads yet */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct outcome {
    mxw_status status;
    int64_t n;
    double sum;
} outcome;

static outcome read_fd(int fd) {
    char path[64];
    float samples[1000];
    size_t got = 1;
    mx_audio *audio;
    outcome o = {MXW_OK, 0, 0};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    o.status = mx_audio_open(&(mx_audio_source){path}, &audio);
    if (o.status < 0)
        return o;
    mxw_audio_info info;
    mx_audio_info(audio, &info);
    while (o.status >= 0 && got > 0) {
        o.status = mx_audio_read(audio, samples, 1000, &got);
        for (size_t i = 0; o.status >= 0 && i < got; i++, o.n++) {
            double steps = samples[i] * 32768.0;
            if (!(steps >= -32768 && steps <= 32767 && steps == nearbyint(steps)))
                abort();
            o.sum += steps * (double)(o.n % 127 + 1);
        }
    }
    mx_audio_close(audio);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int ends[2], fd = memfd_create("wav", MFD_CLOEXEC);
    setenv("MXW_MODULE_DIR", "/nonexistent-folder", 1);
    if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size))
        abort();
    outcome file = read_fd(fd);
    close(fd);
    if (size <= PIPE_LIMIT && pipe(ends) == 0) {
        if (size && write(ends[1], data, size) != (ssize_t)size)
            abort();
        close(ends[1]);
        outcome piped = read_fd(ends[0]);
        close(ends[0]);
        /* A chunk that reaches past the first 16 MB ends the header of a file, and is refused in a pipe. */
        if (piped.status != MXW_E_UNSUPPORTED &&
            (file.status != piped.status || file.n != piped.n || file.sum != piped.sum))
            abort();
    }
    if (mx_mem_live() != 0)
        abort();
    return 0;
}
