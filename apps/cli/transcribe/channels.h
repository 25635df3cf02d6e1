/* cli/transcribe/channels.h - `--channel split`: each channel of a recording in its own session, merged by time. */
#ifndef CLI_TRANSCRIBE_CHANNELS_H
#define CLI_TRANSCRIBE_CHANNELS_H

#include "transcribe/recording.h"

typedef struct split split;

/* All channels, some of them at once, then the merged result. */
recording_end channels_transcribe(recording *r);

/* For a channel's session: turns its progress into that of the whole recording. 0: there is nothing to show yet. */
int channels_progress(split *s, int channel, mxw_progress *progress);
/* Another channel failed, so that this one is of no use. */
int channels_failed(const split *s);

#endif
