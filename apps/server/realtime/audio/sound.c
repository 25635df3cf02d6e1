/* realtime/audio/sound.c - see the header. */
#include "realtime/audio/sound.h"

#include <stdlib.h>

#include "realtime/audio/resample.h"

#define BLOCK 1024

struct sound {
    sound_format format;
    resampler *resampler;
    int has_low;                 /* the first byte of a 16-bit sample came alone ... */
    uint8_t low;                 /* ... and is this one */
    float table[256];            /* of G.711 */
    float in[BLOCK], out[2 * BLOCK + 2];
};

/* ITU-T G.711: sign, three bits of exponent, four of mantissa; 14 bits of µ-law and 13 of A-law as 16. */
static int ulaw(uint8_t byte) {
    int code = ~byte & 0xff, magnitude = (((code & 15) << 3) + 132) << (code >> 4 & 7);
    return code & 0x80 ? 132 - magnitude : magnitude - 132;
}

static int alaw(uint8_t byte) {
    int code = byte ^ 0x55, exponent = code >> 4 & 7, magnitude = ((code & 15) << 4) + 8;
    if (exponent > 0)
        magnitude = (magnitude + 256) << (exponent - 1);
    return code & 0x80 ? magnitude : -magnitude;
}

sound *sound_open(sound_format format, int rate) {
    sound *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->format = format;
    s->resampler = resampler_open(rate);
    if (!s->resampler) {
        sound_close(s);
        return NULL;
    }
    for (int i = 0; i < 256 && format != SOUND_PCM; i++)
        s->table[i] = (float)(format == SOUND_PCMU ? ulaw((uint8_t)i) : alaw((uint8_t)i)) / 32768;
    return s;
}

void sound_close(sound *s) {
    if (!s)
        return;
    resampler_close(s->resampler);
    free(s);
}

/* Fills s->in from the bytes; *used of them. */
static size_t take(sound *s, const uint8_t *bytes, size_t n, size_t *used) {
    size_t count = 0, at = 0;
    if (s->format != SOUND_PCM) {
        for (; at < n && count < BLOCK; at++)
            s->in[count++] = s->table[bytes[at]];
    } else {
        for (; at < n && count < BLOCK; at++) {
            if (s->has_low)
                s->in[count++] = (float)(int16_t)(uint16_t)(s->low | bytes[at] << 8) / 32768;
            s->low = bytes[at];
            s->has_low = !s->has_low;
        }
    }
    *used = at;
    return count;
}

void sound_finish(sound *s, sound_sink sink, void *user) {
    size_t n = resampler_finish(s->resampler, s->out);
    if (n > 0)
        sink(user, s->out, n);
}

int sound_feed(sound *s, const uint8_t *bytes, size_t n, sound_sink sink, void *user) {
    int stopped = 0;
    for (size_t at = 0, used; at < n && !stopped; at += used) {
        size_t count = take(s, bytes + at, n - at, &used);
        size_t n_out = resampler_feed(s->resampler, s->in, count, s->out);
        if (n_out > 0)
            stopped = sink(user, s->out, n_out);
    }
    return stopped;
}
