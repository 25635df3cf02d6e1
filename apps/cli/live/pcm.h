/* cli/live/pcm.h - plain samples without a header (--sample-format, --rate, --channels), read as the library reads WAV.
 *
 * In: what the samples are. Out: the header of a WAV file that has no end, to be put before them. So every conversion
 * is the one that files get.
 */
#ifndef CLI_LIVE_PCM_H
#define CLI_LIVE_PCM_H

enum { PCM_AUTO, PCM_S16 = 2, PCM_HEADER_BYTES = 44, PCM_MAX_CHANNELS = 64, PCM_MAX_RATE = 768000 };

/* "auto", then the formats; little-endian; NULL-terminated. */
extern const char *const pcm_names[];
/* format: index into pcm_names, not PCM_AUTO. */
void pcm_header(int format, int rate, int channels, unsigned char header[PCM_HEADER_BYTES]);

#endif
