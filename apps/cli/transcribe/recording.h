/* cli/transcribe/recording.h - one recording from file to text.
 *
 * In: a path, an open model (or how to open it), the options. Out: text on standard output and files, as asked for.
 * What holds: timed lines are printed, whole and flushed, when they are found, or when it is their turn; a result file
 * is written, at once, only of a recording that was transcribed to its end. Several threads may each be at one.
 */
#ifndef CLI_TRANSCRIBE_RECORDING_H
#define CLI_TRANSCRIBE_RECORDING_H

#include <pthread.h>
#include <stdatomic.h>

#include "transcribe/inputs.h"
#include "transcribe/ordered_output.h"
#include "transcribe/transcribe_options.h"

typedef enum recording_end {
    RECORDING_DONE,
    RECORDING_FAILED, /* this one; the others may go on */
    RECORDING_STOP    /* nothing more can be done: exit_status says how to leave */
} recording_end;

typedef struct recording_batch {
    const transcribe_options *options;
    ordered_output *output;
    int several; /* more than one recording was named */
    int batch;   /* sessions that may be under way at once; fewer if memory does not suffice (session_slots.h) */
    int n_open;  /* of those */
    int channels; /* of one recording that is split, among them */
    pthread_mutex_t lock;
    pthread_cond_t freed; /* fewer are open */
    mxw_model *model; /* opened when the first recording could be, closed by the caller */
    int exit_status;
    atomic_int stopped; /* the others end too, soon */
} recording_batch;

/* place: its number on the command line, from 0. *failure, if it fails, is the line that told why (or NULL), the
 * caller's. */
recording_end recording_transcribe(recording_batch *batch, int place, const input *in, char **failure);
/* mm:ss.mmm, hours in front from the first hour on; rounded as Python's round() does. 40 bytes are enough. */
void recording_timestamp(char *out, size_t size, double seconds);
/* For a signal handler: makes all recordings under way stop once their window is done, but for one that waits for
 * standard input. */
void recording_interrupt(int signal_number);
int recording_interrupted(void); /* the signal's number, 0 if none came */
int recording_waits_for_input(void);

#endif
