/* cli/transcribe/stats.h - what --stats tells of a recording.
 *
 * In: the model, the recording's path and result. Out: a line of JSON, with its newline.
 */
#ifndef CLI_TRANSCRIBE_STATS_H
#define CLI_TRANSCRIBE_STATS_H

#include "max_whisper.h"

/* n_resumed: windows that were taken from a journal, or -1 if none is kept. The line is the caller's (free); NULL: no
 * memory. */
char *stats_line(const mxw_model *model, const char *path, const mxw_result *result, int n_resumed, size_t *length);

#endif
