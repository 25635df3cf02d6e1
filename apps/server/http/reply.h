/* server/http/reply.h - answers: JSON, bytes, and errors in OpenAI's shape.
 *
 * Invariants: every answer has x-request-id, and the CORS headers where the origin is allowed; a reply is queued once a
 * request; a connection whose request was refused is closed after the answer.
 */
#ifndef SERVER_HTTP_REPLY_H
#define SERVER_HTTP_REPLY_H

#include <jansson.h>

#include "http/request.h"

/* What the official clients make of a status by default can be overruled. */
typedef enum reply_retry { RETRY_AS_STATUS, RETRY_NEVER, RETRY_LATER } reply_retry;

/* Takes the response, whatever happens. */
enum MHD_Result reply_send(http_request *r, unsigned status, struct MHD_Response *response);
/* Copies the bytes. */
enum MHD_Result reply_bytes(http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Takes the reference; NULL: no memory was left to make it. */
enum MHD_Result reply_json(http_request *r, unsigned status, json_t *body);
/* {"error":{"message","type","param","code"}}; param and code may be NULL. The type follows from the status. */
enum MHD_Result reply_error(http_request *r, unsigned status, const char *param, const char *code, const char *format,
                            ...) __attribute__((format(printf, 5, 6)));
/* The same with x-should-retry, and Retry-After in seconds with RETRY_LATER. */
enum MHD_Result reply_refusal(http_request *r, unsigned status, reply_retry retry, int after_s, const char *param,
                              const char *code, const char *message);
/* The same to a client that is still sending its body. libmicrohttpd answers a whole request only, so this goes out by
 * itself, as far as the socket takes it at once; the caller ends the connection then. */
void reply_cut_off(http_request *r, unsigned status, reply_retry retry, int after_s, const char *param,
                   const char *code, const char *message);
/* The error object alone, for streams and sockets. */
json_t *reply_error_object(unsigned status, const char *param, const char *code, const char *message);
/* As an HTTP status: what a failure of the library means to a client (bad audio 400, no memory 507, ...). */
unsigned reply_status_of(mxw_status status);
/* 405, with the methods that the path has. */
enum MHD_Result reply_method(http_request *r, const char *allowed);
/* 204 to a preflight of CORS. */
enum MHD_Result reply_preflight(http_request *r, const char *allowed);

#endif
