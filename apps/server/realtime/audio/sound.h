/* realtime/audio/sound.h - the bytes that a client sends as audio → 16 kHz samples in [-1, 1].
 *
 * In: 16-bit little-endian PCM at any rate of resample.h, or G.711 at 8 kHz, mono, cut anywhere, also inside a sample.
 * Out: the same samples however the bytes were cut.
 */
#ifndef REALTIME_AUDIO_SOUND_H
#define REALTIME_AUDIO_SOUND_H

#include <stddef.h>
#include <stdint.h>

typedef enum sound_format { SOUND_PCM, SOUND_PCMU, SOUND_PCMA } sound_format;

typedef struct sound sound;
/* Takes samples; non-zero stops. */
typedef int (*sound_sink)(void *user, const float *samples, size_t n);

/* NULL: memory runs out. */
sound *sound_open(sound_format format, int rate);
void sound_close(sound *s);
/* What the sink returned last. */
int sound_feed(sound *s, const uint8_t *bytes, size_t n, sound_sink sink, void *user);
/* The last samples: those that a filter kept back. */
void sound_finish(sound *s, sound_sink sink, void *user);

#endif
