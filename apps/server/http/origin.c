/* server/http/origin.c - see origin.h. */
#include "http/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "http/auth.h"

/* An address, not a name that looks like one: the owner of 127.evil.example lets it lead where he likes. */
int origin_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return !strcasecmp(host, "localhost") || (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/* The host in "host:port", "[::1]:port" or a bare name. */
static int host_is_local(const char *value, const server_options *o) {
    char name[256];
    int in_brackets = value[0] == '[';
    const char *from = value + in_brackets;
    size_t n = strcspn(from, in_brackets ? "]" : ":");
    const char *rest = from + n + (in_brackets && from[n]);
    if (n >= sizeof(name) || (*rest && *rest != ':'))
        return 0;
    memcpy(name, from, n);
    name[n] = 0;
    return origin_is_loopback(name) || !strcasecmp(name, o->host);
}

static int is_listed(const server_list *list, const char *origin) {
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->items[i], "*") || !strcasecmp(list->items[i], origin))
            return 1;
    return 0;
}

/* "http://host:port" against the Host header. A page that came by TLS is the server's own also where the server itself
 * speaks plain HTTP: a proxy in front of it ended TLS. No header is trusted for that; a browser lets no page choose its
 * Origin or Host. The reverse, a plain page and a server with TLS, is somebody in between. */
static int is_own(const http_request *r, const char *origin) {
    const char *host = request_header(r, MHD_HTTP_HEADER_HOST), *name = NULL;
    if (!strncasecmp(origin, "https://", 8))
        name = origin + 8;
    else if (!strncasecmp(origin, "http://", 7) && !r->server->options->tls_cert)
        name = origin + 7;
    return host && name && !strcasecmp(name, host);
}

static const char *allowed_origin(const http_request *r) {
    const char *origin = request_header(r, MHD_HTTP_HEADER_ORIGIN);
    return origin && is_listed(&r->server->options->cors_origins, origin) ? origin : NULL;
}

const char *origin_problem(const http_request *r) {
    const server_options *o = r->server->options;
    const char *origin = request_header(r, MHD_HTTP_HEADER_ORIGIN);
    const char *host = request_header(r, MHD_HTTP_HEADER_HOST);
    if (origin && !is_own(r, origin) && !is_listed(&o->cors_origins, origin))
        return "pages of this origin may not use the server; start it with --cors-origin to allow one";
    if (!auth_is_needed(r->server->keys) && origin_is_loopback(o->host) && host && !host_is_local(host, o))
        return "the Host header names another machine; without an API key this server answers to localhost only";
    return NULL;
}

void origin_add_headers(const http_request *r, struct MHD_Response *response) {
    const char *origin = allowed_origin(r);
    if (!origin)
        return;
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ORIGIN);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                            "x-request-id, retry-after, x-should-retry");
}

void origin_add_preflight(const http_request *r, struct MHD_Response *response, const char *methods) {
    if (!allowed_origin(r))
        return;
    const char *wanted = request_header(r, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, methods);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                            wanted ? wanted : "authorization, content-type");
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
}
