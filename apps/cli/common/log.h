/* cli/common/log.h - everything this program says on standard error: its own lines and the library's log.
 *
 * In: one-line messages with a level. Out: "max-whisper: ..." lines, or one JSON object per line.
 * Invariants: a message is exactly one line whatever bytes it quotes; the progress bar is off the screen first.
 */
#ifndef CLI_COMMON_LOG_H
#define CLI_COMMON_LOG_H

#include "max_whisper.h"

/* Sets the level and form, and takes the library's log. json: one JSON object per line. */
void log_start(mxw_log_level level, int json);
/* A line of this program's own. */
void log_say(mxw_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* News worth a line on a terminal unless --quiet; elsewhere information. */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An error, whatever the level. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The library's reason for the last failure, or the status in words. subject (may be NULL) is put in front when the
 * reason does not name it already. */
void log_failure(const char *subject, mxw_status status);

/* Where the lines above go instead when this thread says them; NULL: to standard error again. */
typedef void (*log_sink)(void *user, mxw_log_level level, const char *message);
void log_divert(log_sink sink, void *user);
/* A line, not to be diverted. */
void log_print(mxw_log_level level, const char *message);

/* Called before a line is printed, to take away what stands in the terminal's last line; NULL: nothing does. */
void log_before(void (*hide)(void));

extern const char *const log_level_names[]; /* in the order of mxw_log_level, NULL-terminated */

#endif
