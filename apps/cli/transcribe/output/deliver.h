/* cli/transcribe/output/deliver.h - a finished recording: its result on screen and in files, its statistics. */
#ifndef CLI_TRANSCRIBE_DELIVER_H
#define CLI_TRANSCRIBE_DELIVER_H

#include "transcribe/recording.h"

/* Writes the result wherever it was requested; logs why not. NULL: there is none, for lack of memory. */
mxw_status deliver(recording *r, const mxw_result *result);
/* How the recording ended, by its last status. A failure that ends all of them stops the batch. */
recording_end deliver_end(recording *r, mxw_status status);

#endif
