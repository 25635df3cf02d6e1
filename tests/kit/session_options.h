/* tests/kit/session_options.h - openai-whisper's options, as a golden row names them, in a session's. */
#ifndef SESSION_OPTIONS_H
#define SESSION_OPTIONS_H
#include <jansson.h>

#include "max_whisper.h"

/* MODE's options, and those of the row where it has its own; exits with a line at a name that is not known. Strings
 * belong to the row. */
void session_options_of(const char *mode, const json_t *row, mxw_session_options *options);
#endif
