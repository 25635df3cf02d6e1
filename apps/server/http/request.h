/* server/http/request.h - one request, from its headers to its answer; and the handler of a route.
 *
 * Invariants: a request belongs to its connection's thread, which may block; it lives until libmicrohttpd has sent the
 * answer, or given up. `path` is as it came: not decoded, without the query.
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <microhttpd.h>

#include "core/server_context.h"

typedef struct http_request http_request;

typedef struct route_handler {
    /* The request as a whole: headers, and the body (http_request.body) unless take is set. Replies. */
    enum MHD_Result (*answer)(http_request *r);
    /* NULL, or called when the headers are there, before any body: MHD_NO with a reply made refuses the body. */
    enum MHD_Result (*begin)(http_request *r);
    /* NULL: bodies of at most HTTP_SMALL_BODY are collected in `body`. Else called with every piece of the body; 0: the
     * rest is of no interest, and answer says why; -1: the connection ends, after reply_cut_off. */
    int (*take)(http_request *r, const char *bytes, size_t n);
    /* With take: tells by reply_cut_off why the body was refused, to a client that goes on sending. */
    void (*cut_off)(http_request *r);
    /* NULL, or called when the request ends, however it does: frees `own`. */
    void (*forget)(http_request *r);
} route_handler;

typedef struct http_route {
    const char *method, *path; /* a path that ends in "/:" stands for any last part, http_request.rest */
    int open;                  /* without a key */
    const route_handler *handler;
} http_route;

enum { HTTP_SMALL_BODY = 1 << 20, REQUEST_ID_SIZE = 40 };

struct http_request {
    server_context *server;
    struct MHD_Connection *connection;
    struct connection_record *record; /* http/connections.h */
    const http_route *route;          /* NULL: there is none */
    const char *method;
    char *path;
    const char *rest;          /* of a path with a variable last part, decoded, "" if that cannot be; else NULL */
    char id[REQUEST_ID_SIZE];  /* x-request-id */
    int64_t start_ns;
    int status;                /* of the reply; 0: none yet */
    char *body;                /* with a final 0 that is not counted; NULL: none came */
    size_t n_body;
    int has_body;              /* as its headers say */
    size_t n_received;         /* bytes of the body in all */
    int refused;               /* the rest of the body is read and dropped */
    int cut_off;               /* 0, or the status of a request that was ended while its body came */
    void *own;                 /* of the handler */
    const char *model;         /* NULL; id of the model that was used, for log and metrics; lives with the server */
    double audio_s;            /* of the recording, likewise */
    int goes_on;               /* as a socket, whose end is the request's in the log */
};

/* Descriptor of the client's socket. */
int request_fd(const http_request *r);
/* 1 once the client has closed its side: nobody waits for the answer. */
int request_client_left(const http_request *r);
/* The value of a header or of a part of the query (not decoded by libmicrohttpd); NULL: not there. */
const char *request_header(const http_request *r, const char *name);
/* A decoded copy of a query value, to be freed; NULL: not there, or no memory. */
char *request_query(const http_request *r, const char *name);

/* libmicrohttpd's callbacks. */
enum MHD_Result request_handle(void *server, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *bytes, size_t *n, void **state);
void request_completed(void *server, struct MHD_Connection *connection, void **state,
                       enum MHD_RequestTerminationCode how);

#endif
