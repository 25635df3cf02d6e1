/* cli/live/sound_file.h - `--save-audio`: the stream as a WAV file, 16 kHz mono, 16 bits.
 *
 * Invariants: at any moment the file is a valid WAV of all that its header says: samples are written first, then the
 * sizes. A gap is silence, so that times in the file are those of the stream. Past 4 GB (37 hours) the sizes say
 * "until the end", as programs that stream do.
 */
#ifndef CLI_LIVE_SOUND_FILE_H
#define CLI_LIVE_SOUND_FILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct sound_file {
    const char *path; /* kept by pointer; NULL: no file */
    int fd;
    int64_t n_bytes; /* of samples */
} sound_file;

/* 0 with a line said if it cannot be made; path NULL: nothing is. */
int sound_file_open(sound_file *f, const char *path);
/* 0 with a line said, once, if it cannot be written; it is closed then. */
int sound_file_add(sound_file *f, const float *samples, size_t n);
int sound_file_gap(sound_file *f, double seconds);
int sound_file_close(sound_file *f);

#endif
