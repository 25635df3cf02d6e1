/* server/http/auth.h - API keys: from the command line, and from a file that can be read again.
 *
 * Invariants: keys are compared in a time that does not tell how much of one was right; none is ever logged.
 */
#ifndef SERVER_HTTP_AUTH_H
#define SERVER_HTTP_AUTH_H

#include "http/request.h"

typedef struct auth_keys auth_keys;

/* NULL with a line in message: a key that is empty or not printable ASCII, a file that cannot be read or has none. */
auth_keys *auth_open(const server_options *options, char *message, size_t size);
void auth_close(auth_keys *keys);
/* Reads the file again. 0: it stays as it was, see message. */
int auth_reload(auth_keys *keys, char *message, size_t size);
/* 1 if a key is needed at all. */
int auth_is_needed(auth_keys *keys);
/* 1 if this is one of the keys. */
int auth_has_key(auth_keys *keys, const char *key, size_t n);
/* 1 if the request has a right one in Authorization: Bearer, or if none is needed. */
int auth_check(const http_request *r);

#endif
