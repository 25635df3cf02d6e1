/* cli/common/trace.h - `--trace FILE`: every op of the run as a Chrome trace (chrome://tracing, ui.perfetto.dev).
 *
 * In: the library's trace events, from any thread. Out: a JSON file, an event each, in microseconds since the first.
 * Invariants: the file is valid JSON once trace_close has returned 1. */
#ifndef CLI_COMMON_TRACE_H
#define CLI_COMMON_TRACE_H

#include "max_whisper.h"

/* 0 with a line said if the file cannot be written. */
int trace_open(const char *path);
/* What a model's options need as on_trace: NULL unless a trace is open. */
void (*trace_callback(void))(void *user, const mxw_trace_event *event);
/* 0 with a line said if something could not be written; 1 also when none is open. */
int trace_close(void);

#endif
