/* cli/recording.h - one recording from file to text.
 *
 * In: a path, an open model (or how to open it), the options. Out: text on standard output and files, as asked for.
 * What holds: timed lines are printed, whole and flushed, when they are found; a result file is written only of a
 * recording that was transcribed to its end.
 */
#ifndef CLI_RECORDING_H
#define CLI_RECORDING_H

#include "transcribe_options.h"

typedef enum recording_end {
    RECORDING_DONE,
    RECORDING_FAILED, /* this one; the others may go on */
    RECORDING_STOP    /* nothing more can be done: exit_status says how to leave */
} recording_end;

typedef struct recording_batch {
    const transcribe_options *options;
    int several;      /* more than one recording was named */
    int n_begun;      /* of those with something on standard output */
    mxw_model *model; /* opened when the first recording could be, closed by the caller */
    int exit_status;
} recording_batch;

recording_end recording_transcribe(recording_batch *batch, const char *path);
/* The name its files get before the extension, *length bytes: the file's own up to the last dot; "stdin" for "-". */
const char *recording_stem(const char *path, size_t *length);
/* mm:ss.mmm, hours in front from the first hour on; rounded as Python's round() does. 40 bytes are enough. */
void recording_timestamp(char *out, size_t size, double seconds);
/* A signal handler: makes the recording under way stop soon; leaves at once if it waits for standard input. */
void recording_interrupt(int signal_number);
int recording_interrupted(void); /* the signal's number, 0 if none came */

#endif
