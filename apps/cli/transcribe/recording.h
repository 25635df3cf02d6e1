/* cli/transcribe/recording.h - one recording from file to text.
 *
 * In: a path, an open model (or how to open it), the options. Out: text on standard output and files, as requested.
 * Invariants: timed lines are printed, whole and flushed, as soon as they are found, or when it is their turn; a result
 * file is written, at once, only of a recording that was transcribed to its end. Threads may each run one.
 *
 *     recording.c   the whole recording           session.c   one session: audio, journal, segments
 *     channels.c    --channel split               deliver.c   the finished result: screen, files, statistics
 */
#ifndef CLI_TRANSCRIBE_RECORDING_H
#define CLI_TRANSCRIBE_RECORDING_H

#include <pthread.h>
#include <stdatomic.h>

#include "transcribe/inputs.h"
#include "transcribe/journal.h"
#include "transcribe/output/ordered_output.h"
#include "transcribe/output/screen.h"
#include "transcribe/transcribe_options.h"

typedef enum recording_end {
    RECORDING_DONE,
    RECORDING_FAILED, /* this one; the others continue */
    RECORDING_STOP    /* nothing more can be done: batch->exit_status is set */
} recording_end;

/* Shared by all recordings of a command line. */
typedef struct recording_batch {
    const transcribe_options *options;
    const inputs *list; /* all recordings of the run */
    ordered_output *output;
    int several;  /* more than one recording was named */
    int batch;    /* sessions that may be open at once; fewer if memory is short (session_slots.h) */
    int n_open;   /* of those */
    int lanes;    /* pieces of a recording that each session decodes together; 0 without --parallel */
    int channels; /* of one recording that is split, transcribed at once */
    pthread_mutex_t lock;
    pthread_cond_t freed; /* n_open decreased */
    mxw_model *model;     /* opened when the first recording could be, closed by the caller */
    int exit_status;
    atomic_int stopped; /* the others end too, soon */
} recording_batch;

/* A recording, or one of its channels, while it is transcribed. */
typedef struct recording {
    recording_batch *batch;
    const transcribe_options *options;
    const input *in;
    const char *path; /* in->path */
    const char *name; /* in messages */
    screen screen;    /* screen.place is the recording's number on the command line, from 0 */
    int language_logged;
    int has_slot; /* may have a session open */
    mxw_session *session;
    struct split *split; /* the recording that this is a channel of, or NULL */
    int channel;         /* from 1; 0: not split */
    char speaker[24];
    const char *manifest; /* of a split recording: of its channels */
    int decoding;         /* windows are being decoded, ... */
    int window_ended;     /* ... and one ended after a signal came */
    journal *journal;     /* with --resume */
    int n_resumed;        /* windows taken from it */
    double resumed_s;     /* how far they reach */
    int failure_logged;
    char **failure; /* the last error that was logged */
} recording;

/* place: its number on the command line, from 0. *failure, if it fails, is the line that says why (or NULL); the caller
 * frees it. */
recording_end recording_transcribe(recording_batch *batch, int place, const input *in, char **failure);
/* This thread's messages go to the recording's place in the output, until log_divert(NULL, NULL). */
void recording_divert_log(const recording *r);

#endif
