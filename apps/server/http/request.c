/* server/http/request.c - libmicrohttpd's calls for one request, in order: headers, pieces of the body, the answer. */
#include "http/request.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/access_log.h"
#include "http/auth.h"
#include "http/connections.h"
#include "http/framing.h"
#include "http/origin.h"
#include "http/reply.h"
#include "http/routes.h"
#include "load/metrics.h"

/* Of a body that is of no interest any more so much is read, for the sake of the answer; then the connection ends. */
enum { DRAIN_BYTES = 64 << 20, CLIENT_LEFT = 499 };
_Static_assert(HTTP_SMALL_BODY == 1 << 20, "as the message has it");
static const char too_large[] = "the body of this request may have 1 MiB";

int request_fd(const http_request *r) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

int request_client_left(const http_request *r) {
    struct pollfd p = {.fd = request_fd(r), .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

const char *request_header(const http_request *r, const char *name) {
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

char *request_query(const http_request *r, const char *name) {
    const char *value = MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
    char *copy = value ? strdup(value) : NULL;
    if (!copy)
        return NULL;
    for (char *p = copy; *p; p++)
        *p = *p == '+' ? ' ' : *p;
    MHD_http_unescape(copy);
    return copy;
}

/* ---- the headers ---------------------------------------------------------------------------------------- */

static void make_id(char id[REQUEST_ID_SIZE]) {
    unsigned char bytes[16] = {0};
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        snprintf((char *)bytes, sizeof(bytes), "%lx", (unsigned long)server_now_ns());
    strcpy(id, "req_");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(id + 4 + 2 * i, 3, "%02x", bytes[i]);
}

static http_request *request_open(server_context *s, struct MHD_Connection *connection, const char *url,
                                  const char *method) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http_request *r = info && info->socket_context ? calloc(1, sizeof(*r)) : NULL;
    if (!r)
        return NULL;
    *r = (http_request){.server = s, .connection = connection, .record = info->socket_context, .method = method};
    r->path = strdup(url);
    r->start_ns = server_now_ns();
    make_id(r->id);
    if (!r->path) {
        free(r);
        return NULL;
    }
    const char *rest;
    r->route = routes_find(method, r->path, &rest);
    if (rest) {
        size_t n = MHD_http_unescape((char *)(uintptr_t)rest); /* it points into path, which is ours */
        r->rest = strlen(rest) == n ? rest : "";                /* no name holds a zero byte */
    }
    return r;
}

static enum MHD_Result refuse_route(http_request *r) {
    char methods[64];
    if (!routes_methods(r->path, methods, sizeof(methods)))
        return reply_error(r, MHD_HTTP_NOT_FOUND, NULL, "not_found", "there is no %.20s %.200s here", r->method,
                           r->path);
    if (!strcmp(r->method, MHD_HTTP_METHOD_OPTIONS))
        return reply_preflight(r, methods);
    return reply_method(r, methods);
}

/* What can be refused without looking at the body: then it is not even sent for, if the client waits for 100. */
static enum MHD_Result check_headers(http_request *r) {
    int64_t length;
    const char *problem = framing_problem(r, &length);
    r->has_body = length != 0;
    if (problem)
        return reply_error(r, MHD_HTTP_BAD_REQUEST, NULL, "bad_framing", "%s", problem);
    problem = origin_problem(r);
    if (problem)
        return reply_error(r, MHD_HTTP_FORBIDDEN, NULL, "origin_not_allowed", "%s", problem);
    if (!r->route)
        return refuse_route(r);
    if (!r->route->open && !auth_check(r))
        return reply_error(r, MHD_HTTP_UNAUTHORIZED, NULL, "invalid_api_key",
                           "this server needs an API key: send the header Authorization: Bearer KEY");
    if (!r->route->handler->take && length > HTTP_SMALL_BODY)
        return reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "body_too_large", "%s", too_large);
    return r->route->handler->begin ? r->route->handler->begin(r) : MHD_YES;
}

/* ---- the body ------------------------------------------------------------------------------------------- */

static int collect(http_request *r, const char *bytes, size_t n) {
    char *grown = n <= HTTP_SMALL_BODY - r->n_body ? realloc(r->body, r->n_body + n + 1) : NULL;
    if (!grown)
        return 0;
    memcpy(grown + r->n_body, bytes, n);
    r->body = grown;
    r->n_body += n;
    r->body[r->n_body] = 0;
    return 1;
}

/* The client has been told why, and may still be sending. */
static enum MHD_Result end_body(http_request *r) {
    connection_linger(r->record, DRAIN_BYTES);
    return MHD_NO;
}

/* A refused body is read to its end, where libmicrohttpd takes the answer; one that has no end in sight is answered
 * before. */
static enum MHD_Result drop_piece(http_request *r, size_t n) {
    r->refused = n < (size_t)(DRAIN_BYTES - r->refused) ? r->refused + (int)n : DRAIN_BYTES;
    if (r->refused < DRAIN_BYTES)
        return MHD_YES;
    if (r->route->handler->take)
        r->route->handler->cut_off(r);
    else
        reply_cut_off(r, MHD_HTTP_CONTENT_TOO_LARGE, RETRY_AS_STATUS, 0, NULL, "body_too_large", too_large);
    return end_body(r);
}

static enum MHD_Result take_piece(http_request *r, const char *bytes, size_t n) {
    if (!r->n_received)
        connection_enter(r->record, CONNECTION_RECEIVING);
    connection_moved(r->record, n);
    r->n_received += n;
    if (r->refused)
        return drop_piece(r, n);
    const route_handler *handler = r->route->handler;
    int took = handler->take ? handler->take(r, bytes, n) : collect(r, bytes, n);
    r->refused = took == 0;
    return took < 0 ? end_body(r) : MHD_YES;
}

static enum MHD_Result answer(http_request *r) {
    connection_enter(r->record, CONNECTION_WORKING);
    enum MHD_Result result =
        r->refused && !r->route->handler->take
            ? reply_error(r, MHD_HTTP_CONTENT_TOO_LARGE, NULL, "body_too_large", "%s", too_large)
            : r->route->handler->answer(r);
    if (result == MHD_YES)
        connection_enter(r->record, r->status == MHD_HTTP_SWITCHING_PROTOCOLS ? CONNECTION_UPGRADED
                                                                              : CONNECTION_SENDING);
    return result;
}

enum MHD_Result request_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *bytes, size_t *n, void **state) {
    http_request *r = *state;
    (void)version;
    if (!r) {
        r = request_open(server, connection, url, method);
        if (!r)
            return MHD_NO;
        *state = r;
        enum MHD_Result result = check_headers(r);
        return r->status ? MHD_YES : result;
    }
    if (r->status)
        return MHD_YES; /* answered with the headers */
    if (!*n)
        return answer(r);
    size_t length = *n;
    *n = 0;
    return take_piece(r, bytes, length);
}

void request_completed(void *server, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode how) {
    http_request *r = *state;
    server_context *s = server;
    (void)connection;
    if (!r)
        return;
    if (r->route && r->route->handler->forget)
        r->route->handler->forget(r);
    int answered = r->status && how == MHD_REQUEST_TERMINATED_COMPLETED_OK;
    int status = answered || r->status == MHD_HTTP_SWITCHING_PROTOCOLS ? r->status
                 : r->cut_off                                          ? r->cut_off
                                                                       : CLIENT_LEFT;
    double seconds = (double)(server_now_ns() - r->start_ns) * 1e-9;
    metrics_request(s->metrics, r->route ? r->route->path : NULL, r->method, status, seconds, r->n_received);
    if (!r->goes_on)
        access_log_write(s->access_log, r, status);
    if (answered && r->has_body && !r->n_received) /* refused by its headers */
        connection_linger(r->record, DRAIN_BYTES);
    if (r->status != MHD_HTTP_SWITCHING_PROTOCOLS)
        connection_enter(r->record, CONNECTION_IDLE);
    free(r->body);
    free(r->path);
    free(r);
    *state = NULL;
}
