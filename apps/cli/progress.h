/* cli/progress.h - the bar on standard error: how far, how fast, how long still.
 *
 * What holds: nothing is drawn unless progress_start was told to; at most about ten redraws a second; it never wraps
 * (the terminal's width is asked at each draw); hide leaves no trace. stderr's lock guards it.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "max_whisper.h"

/* Whether standard error is a terminal that can redraw a line. */
int progress_possible(void);
/* A new recording. label is kept by pointer. wanted 0: all calls until the next start do nothing. */
void progress_start(const char *label, int wanted);
void progress_update(const mxw_progress *progress);
/* A word instead of a bar, for work of unknown length ("loading tiny.en"). */
void progress_note(const char *what);
/* Takes the line off the screen; the next update draws it again. */
void progress_hide(void);
/* Async-signal-safe: the same, when the program is about to end. */
void progress_abandon(void);

#endif
