/* server/http/origin.h - which web pages may use the server: CORS, Origin and Host.
 *
 * A browser sends Origin with what a page asks of another host. Such a request is refused unless the origin is the
 * server's own, with TLS of its own or of a proxy, or was named by --cors-origin. A server without keys that listens
 * on this machine alone also refuses hosts that are no name of it, so that a page cannot reach it through a name of its
 * own (DNS rebinding).
 */
#ifndef SERVER_HTTP_ORIGIN_H
#define SERVER_HTTP_ORIGIN_H

#include "http/request.h"

/* NULL: allowed; else why not, in one line. */
const char *origin_problem(const http_request *r);
void origin_add_headers(const http_request *r, struct MHD_Response *response);
void origin_add_preflight(const http_request *r, struct MHD_Response *response, const char *methods);
/* 1 if the address is one of this machine alone. */
int origin_is_loopback(const char *host);

#endif
