/* hub/curl_module.h - the border between hub/ and modules/curl: one HTTP GET at a time.
 * Redirects are followed; proxies come from curl's own environment variables. */
#ifndef MX_CURL_MODULE_H
#define MX_CURL_MODULE_H
#include "base/module.h"

typedef struct mx_http_answer {
    long code;              /* HTTP's; 0 if none came */
    int64_t length;         /* of the body as stated, -1 if not */
    int64_t from, total;    /* of Content-Range, -1 if not stated */
    char etag[128];         /* "" if it is weak or missing */
    char linked[128];       /* x-linked-etag of any answer on the way, without quotes: SHA-256 of a large file */
    char error[48];         /* x-error-code: why the hub refuses, in a word; "" if it does not say */
    char why[256];          /* in curl's words, if the transfer failed */
} mx_http_answer;

typedef struct mx_http_request {
    const char *url;
    int64_t from;           /* > 0: only the bytes from there on */
    const char *if_range;   /* an ETag that must still hold for that, or NULL */
    const char *token;      /* shown to the host of the URL, not to one that it redirects to; NULL or "": none */
    int stall_s;            /* give up after so many seconds without a byte */
    /* The body of an answer 200 or 206, all of its headers being known; non-zero stops. Other bodies are dropped. */
    int (*body)(void *user, const mx_http_answer *answer, const void *bytes, size_t n);
    int (*tick)(void *user);   /* some times a second; non-zero stops */
    void *user;
} mx_http_request;

typedef struct mx_curl_table {
    /* OK: a whole answer came, whatever its code. E_IO: it did not (answer->why); E_ABORTED: stopped by a function. */
    mxw_status (*get)(const mx_http_request *request, mx_http_answer *answer);
} mx_curl_table;
#endif
