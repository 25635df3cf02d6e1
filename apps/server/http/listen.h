/* server/http/listen.h - the socket, its TLS, and libmicrohttpd on it.
 *
 * A thread for each connection, so that handlers may simply wait; the number of connections is bounded, and so is the
 * stack of each.
 */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include "core/server_context.h"

/* 0 with a line in message: the address is taken, the certificate cannot be read. */
int listen_start(server_context *s, char *message, size_t size);
/* Closes every connection. */
void listen_stop(server_context *s);
/* "http://127.0.0.1:8000" */
void listen_address(const server_context *s, char *text, size_t size);

#endif
