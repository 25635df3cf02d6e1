/* cli/live/pcm.c - the table of formats and the 44 bytes. */
#include "live/pcm.h"

#include <stdint.h>
#include <string.h>

const char *const pcm_names[] = {"auto", "u8", "s16", "s24", "s32", "f32", "f64", "mulaw", "alaw", NULL};

/* How WAV calls them. */
static const struct {
    int tag, bits;
} kinds[] = {{0, 0}, {1, 8}, {1, 16}, {1, 24}, {1, 32}, {3, 32}, {3, 64}, {7, 8}, {6, 8}};

static unsigned char *put(unsigned char *at, uint32_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static unsigned char *put_name(unsigned char *at, const char *name) {
    memcpy(at, name, strlen(name));
    return at + strlen(name);
}

void pcm_header(int format, int rate, int channels, unsigned char header[PCM_HEADER_BYTES]) {
    int bytes = kinds[format].bits / 8 * channels;
    unsigned char *at = put_name(header, "RIFF");
    at = put_name(put(at, UINT32_MAX, 4), "WAVEfmt "); /* the largest size of all: until the end */
    at = put(put(put(at, 16, 4), (uint32_t)kinds[format].tag, 2), (uint32_t)channels, 2);
    at = put(put(at, (uint32_t)rate, 4), (uint32_t)rate * (uint32_t)bytes, 4);
    at = put(put(at, (uint32_t)bytes, 2), (uint32_t)kinds[format].bits, 2);
    put(put_name(at, "data"), UINT32_MAX, 4);
}
