/* server/core/access_log.h - a JSON line for each request: who, what, how it ended, how long it took.
 *
 * Invariants: no text, no key, no query is ever in it; a line is written whole.
 */
#ifndef SERVER_CORE_ACCESS_LOG_H
#define SERVER_CORE_ACCESS_LOG_H

#include "http/request.h"

typedef struct access_log access_log;

/* Of a request, what its line begins with. */
typedef struct access_note {
    char id[REQUEST_ID_SIZE], client[64], method[17], path[201]; /* a client's own words are cut */
    int64_t start_ns;
} access_note;

/* And what it ends with. */
typedef struct access_sums {
    int status;
    int64_t bytes_in;
    const char *model; /* NULL: none was used */
    double audio_s;
} access_sums;

/* path NULL: a log that takes no notice. NULL with a line in message if the file cannot be written. */
access_log *access_log_open(const char *path, char *message, size_t size);
void access_log_close(access_log *log);
/* After a rotation: the file of that name, again. */
int access_log_reopen(access_log *log, char *message, size_t size);
/* A request that has ended. The status is 499 where the client left before its answer. */
void access_log_write(access_log *log, const http_request *r, int status);
/* A request that goes on as a socket has its line at that one's end, when the request itself is long gone. */
void access_log_note(const http_request *r, access_note *note);
void access_log_write_socket(access_log *log, const access_note *note, const access_sums *sums);

#endif
