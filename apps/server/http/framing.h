/* server/http/framing.h - requests that a proxy might read otherwise than libmicrohttpd does are refused.
 *
 * libmicrohttpd lets Transfer-Encoding override Content-Length, takes any coding but "chunked" as "until the connection
 * closes", and of a repeated header the first. Each of these is a way to smuggle a second request.
 */
#ifndef SERVER_HTTP_FRAMING_H
#define SERVER_HTTP_FRAMING_H

#include "http/request.h"

/* NULL: unambiguous; else what is wrong, in one line. *length: bytes of the body, -1: chunked. */
const char *framing_problem(const http_request *r, int64_t *length);

#endif
