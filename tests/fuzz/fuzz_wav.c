/* tests/fuzz/fuzz_wav.c - any bytes as a WAV file, once in memory and once as a stream that cannot seek and gives few
 * bytes at a time, without the FFmpeg module.
 * Invariants: every sample that comes out is a multiple of 1/32768 in [-1, 1), both agree, nothing leaks. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "audio/audio.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct outcome {
    mxw_status status;
    int64_t n;
    double sum;
} outcome;

static outcome read_all(const mx_audio_bytes *bytes) {
    float samples[1000];
    size_t got = 1;
    mx_audio *audio;
    outcome o = {MXW_OK, 0, 0};
    o.status = mx_audio_open(&(mx_audio_source){.bytes = *bytes, .name = "fuzzed bytes"}, &audio);
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

typedef struct stream {
    const uint8_t *data;
    size_t left, most;   /* bytes to come, and in one read at most */
} stream;

static int64_t read_some(void *user, void *bytes, size_t n) {
    stream *s = user;
    n = n < s->left ? n : s->left;
    n = n < s->most ? n : s->most;
    memcpy(bytes, s->data, n);
    s->data += n;
    s->left -= n;
    return (int64_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stream s = {data, size, size % 1000 + 1};
    setenv("MXW_MODULE_DIR", "/nonexistent-folder", 1);
    outcome memory = read_all(&(mx_audio_bytes){.data = data ? data : (const uint8_t *)"", .size = size});
    outcome streamed = read_all(&(mx_audio_bytes){.read = read_some, .user = &s});
    /* A chunk that reaches past the first 16 MB ends the header of a file, and is refused in a stream. */
    if (streamed.status != MXW_E_UNSUPPORTED &&
        (memory.status != streamed.status || memory.n != streamed.n || memory.sum != streamed.sum))
        abort();
    if (mx_mem_live() != 0)
        abort();
    return 0;
}
