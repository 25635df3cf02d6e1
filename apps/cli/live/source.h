/* cli/live/source.h - where a live stream comes from: a microphone, standard input, or a file that is replayed.
 *
 * In: a choice. Out: 16 kHz mono samples, read on a thread of its own into a queue of at most 30 seconds.
 * Invariants: nothing is lost in silence. When the queue is full, a file or a pipe is read later; a microphone cannot
 * wait, so what it says then is counted and comes out as a gap at its place, and so does what the source's timestamps
 * skip. source_stop ends every wait.
 */
#ifndef CLI_LIVE_SOURCE_H
#define CLI_LIVE_SOURCE_H

#include "common/cli.h"

typedef enum source_kind { SOURCE_DEVICE, SOURCE_PIPE, SOURCE_FILE } source_kind;

typedef struct source_options {
    source_kind kind;
    const char *name;  /* of the device, or the path */
    int rate;          /* of a device or of plain samples; 0: any */
    int channels;      /* of plain samples */
    int sample_format; /* of plain samples, as pcm_names has them; PCM_AUTO: there is a header */
    double pace;       /* seconds of a file in a second; 0: as fast as it is taken */
} source_options;

typedef enum source_state { SOURCE_OPENING, SOURCE_OPEN, SOURCE_ENDED, SOURCE_FAILED } source_state;

/* What a source_take gives: samples, or a gap, or a change of rate, or nothing. */
typedef struct source_block {
    size_t n;     /* samples */
    double gap_s; /* lost before the next sample */
    int rate;     /* of the source from the next sample on */
    int slow;     /* lost because the queue was full; else the source left it out */
} source_block;

/* What a page shows, at any time. */
typedef struct source_view {
    double received_s; /* of sound since source_begin, with what was lost */
    double level;      /* 0 to 1, root mean square, falling slowly */
    double waiting_s;  /* in the queue */
} source_view;

typedef struct sound_source sound_source;

/* The file that is read, "-" for standard input; NULL: a microphone. */
const char *source_path(const source_options *options);

/* Starts to open it; names are kept by pointer. NULL: no memory or no thread, which is logged. */
sound_source *source_open(const source_options *options);
/* Waits until it is open, or cannot be. Of a pipe that may take for ever. */
source_state source_wait(sound_source *s);
/* What comes from now on is kept; a microphone's sound before is not. */
void source_begin(sound_source *s);
/* No more is read; what is in the queue can still be taken. */
void source_stop(sound_source *s);
/* Up to n samples, waiting at most wait_ms for some; whole: for all n, unless the end, a gap or another rate comes
 * first. The state is ENDED or FAILED only when nothing is left. */
source_state source_take(sound_source *s, float *samples, size_t n, int whole, int wait_ms, source_block *block);
void source_look(sound_source *s, source_view *view);
/* One line, when it FAILED. */
const char *source_error(sound_source *s);
void source_close(sound_source *s);

#endif
