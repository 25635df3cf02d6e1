/* cli/transcribe/session.h - one session of a recording, or of one of its channels: opened, fed, resumed, read out.
 *
 * Invariants: a session is open only while the recording holds a slot; after a signal, the window being decoded is
 * finished first, so that --resume does not lose it.
 */
#ifndef CLI_TRANSCRIBE_SESSION_H
#define CLI_TRANSCRIBE_SESSION_H

#include "transcribe/recording.h"

/* Transcribes to the last segment. The session and the journal stay open, for the result. */
mxw_status session_run(recording *r);
/* Closes the session and releases its slot. */
void session_close(recording *r);
/* The recording's audio, opened as its options say. */
mxw_status session_open_audio(const recording *r, mxw_audio **audio);

/* 1 if all recordings must stop: by a signal, a closed standard output or a failure of one of them. */
int session_must_stop(const recording_batch *batch);
/* Nothing more can be done, for this recording or any other. 1: the caller is the first to find out, and logs why. */
int session_stop_all(recording_batch *batch, int exit_status);

#endif
