/* cli/live/clip.h - text cut to columns of a terminal.
 *
 * Invariants: a character is never cut in two; no estimate is too small, so that a line that fits here never wraps:
 * what the table does not know has one column, joined characters are counted one by one.
 */
#ifndef CLI_LIVE_CLIP_H
#define CLI_LIVE_CLIP_H

#include <stddef.h>

int clip_width(const char *text, size_t n);
/* The longest beginning that has at most so many columns: its bytes. */
size_t clip_head(const char *text, size_t n, int columns);
/* Where the longest end that has at most so many columns begins. */
size_t clip_tail(const char *text, size_t n, int columns);
/* The bytes of the next line: as clip_head, but broken at a space where there is one; all of it if it fits. */
size_t clip_line(const char *text, size_t n, int columns);

#endif
