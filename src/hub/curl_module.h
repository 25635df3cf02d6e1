/* hub/curl_module.h - the interface between hub/ and modules/curl: one HTTP GET at a time.
 * Redirects are followed; proxies come from curl's own environment variables. */
#ifndef MX_CURL_MODULE_H
#define MX_CURL_MODULE_H
#include "base/module.h"

typedef struct mx_http_response {
    long code;              /* HTTP status; 0 if there was no response */
    int64_t length;         /* Content-Length, -1 if not stated */
    int64_t from, total;    /* of Content-Range, -1 if not stated */
    char etag[128];         /* "" if it is weak or missing */
    char linked[128];       /* x-linked-etag of any response on the way, unquoted: SHA-256 of a large file */
    char error[48];         /* x-error-code: the hub's reason for a refusal; "" if not stated */
    char why[256];          /* curl's error message, if the transfer failed */
} mx_http_response;

typedef struct mx_http_request {
    const char *url;
    int64_t from;           /* > 0: only the bytes from there on */
    const char *if_range;   /* an ETag that must still be valid for that, or NULL */
    const char *token;      /* sent to the host of the URL, not to redirect targets; NULL or "": none */
    int stall_s;            /* timeout in seconds without a byte */
    /* The body of a response 200 or 206, called once its headers are complete; non-zero stops. Other bodies are
     * dropped. / */
    int (*body)(void *user, const mx_http_response *response, const void *bytes, size_t n);
    int (*tick)(void *user);   /* called several times per second; non-zero stops */
    void *user;
} mx_http_request;

typedef struct mx_curl_table {
    /* OK: a complete response, whatever its status. E_IO: none (response->why); E_ABORTED: stopped by a callback. */
    mxw_status (*get)(const mx_http_request *request, mx_http_response *response);
} mx_curl_table;
#endif
