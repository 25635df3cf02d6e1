/* server/core/access_log.h - a JSON line for each request: who, what, how it ended, how long it took.
 *
 * Invariants: no text, no key, no query is ever in it; a line is written whole.
 */
#ifndef SERVER_CORE_ACCESS_LOG_H
#define SERVER_CORE_ACCESS_LOG_H

#include "http/request.h"

typedef struct access_log access_log;

/* path NULL: a log that takes no notice. NULL with a line in message if the file cannot be written. */
access_log *access_log_open(const char *path, char *message, size_t size);
void access_log_close(access_log *log);
/* After a rotation: the file of that name, again. */
int access_log_reopen(access_log *log, char *message, size_t size);
/* The status is 499 where the client left before its answer. */
void access_log_write(access_log *log, const http_request *r, int status, double seconds);

#endif
