/* cli/common/stdout.h - standard output, watched.
 *
 * Invariants: a reader that went away (a closed pipe) ends the output quietly; any other failure is said once, in one
 * line.
 */
#ifndef CLI_COMMON_STDOUT_H
#define CLI_COMMON_STDOUT_H

#include <stddef.h>

/* 0, or -1 once standard output failed (now or before). Fits mxw_write_fn; user is not used. */
int out_write(void *user, const void *bytes, size_t n);
int out_text(const char *text);
int out_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Pushes everything out and takes the progress bar off the screen before; same result. */
int out_flush(void);
/* 1 once a write failed. */
int out_failed(void);

#endif
