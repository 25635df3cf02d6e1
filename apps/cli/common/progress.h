/* cli/common/progress.h - the progress bar on standard error (done, speed, time left), of one recording or of the
 * whole batch.
 *
 * Invariants: nothing is drawn unless progress_start was told to; at most about ten redraws a second; it never wraps
 * (the terminal's width is asked at each draw); hide leaves no trace. stderr's lock guards it.
 */
#ifndef CLI_COMMON_PROGRESS_H
#define CLI_COMMON_PROGRESS_H

#include "max_whisper.h"

/* Whether standard error is a terminal that can redraw a line. */
int progress_possible(void);
/* A job of n recordings. weights: how much of it each is likely to be, in any unit (bytes of the file); NULL or
 * not positive: as much as the others. wanted 0: all calls until the next start do nothing. */
void progress_start(int n, const double *weights, int wanted);
void progress_stop(void);
/* A recording begins; its name is shown where it is the only one of the job, and kept by pointer. */
void progress_name(const char *name);
void progress_update(int index, const mxw_progress *progress);
void progress_end(int index);
/* So much of the recording was done before this run: it is no measure of its speed. */
void progress_resumed(int index, double seconds);
/* A word instead of a bar, for work of unknown length ("loading tiny.en"). */
void progress_note(const char *what);
/* Takes the line off the screen; the next update draws it again. */
void progress_hide(void);
/* Async-signal-safe: the same, when the program is about to end. */
void progress_abandon(void);

#endif
