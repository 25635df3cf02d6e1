/* server/http/reply.c - see reply.h. */
#include "http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/origin.h"
#include "http/tls.h"

static const char *type_of(unsigned status) {
    switch (status) {
    case MHD_HTTP_UNAUTHORIZED:
    case MHD_HTTP_FORBIDDEN:
        return "authentication_error";
    case MHD_HTTP_TOO_MANY_REQUESTS:
        return "rate_limit_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

static void add_headers(const http_request *r, unsigned status, struct MHD_Response *response) {
    MHD_add_response_header(response, "x-request-id", r->id);
    origin_add_headers(r, response);
    if (status >= 400) /* a body that was not read, or a request that a proxy may have read otherwise */
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

enum MHD_Result reply_send(http_request *r, unsigned status, struct MHD_Response *response) {
    if (!response)
        return MHD_NO;
    add_headers(r, status, response);
    r->status = (int)status;
    enum MHD_Result queued = MHD_queue_response(r->connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static struct MHD_Response *response_of(const char *content_type, const void *bytes, size_t n) {
    /* The library does not write to it: its parameter lacks const. */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(n, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY);
    if (response && content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    return response;
}

enum MHD_Result reply_bytes(http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n) {
    return reply_send(r, status, response_of(content_type, bytes, n));
}

static struct MHD_Response *json_response(json_t *body) {
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(body);
    struct MHD_Response *response = text ? response_of("application/json", text, strlen(text)) : NULL;
    free(text);
    return response;
}

enum MHD_Result reply_json(http_request *r, unsigned status, json_t *body) {
    return reply_send(r, status, json_response(body));
}

json_t *reply_error_object(unsigned status, const char *param, const char *code, const char *message) {
    json_t *error = json_object();
    json_t *text = json_string(message); /* NULL unless it is UTF-8 */
    json_object_set_new(error, "message", text ? text : json_string("the request holds text that is not UTF-8"));
    json_object_set_new(error, "type", json_string(type_of(status)));
    json_t *name = param ? json_string(param) : NULL;
    json_object_set_new(error, "param", name ? name : json_null());
    json_object_set_new(error, "code", code ? json_string(code) : json_null());
    json_t *body = json_object();
    json_object_set_new(body, "error", error);
    return body;
}

static void add_retry(struct MHD_Response *response, reply_retry retry, int after_s) {
    char seconds[16];
    if (retry != RETRY_AS_STATUS)
        MHD_add_response_header(response, "x-should-retry", retry == RETRY_LATER ? "true" : "false");
    if (retry == RETRY_LATER) {
        snprintf(seconds, sizeof(seconds), "%d", after_s);
        MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
}

enum MHD_Result reply_refusal(http_request *r, unsigned status, reply_retry retry, int after_s, const char *param,
                              const char *code, const char *message) {
    struct MHD_Response *response = json_response(reply_error_object(status, param, code, message));
    if (!response)
        return MHD_NO;
    add_retry(response, retry, after_s);
    if (status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (status == MHD_HTTP_UPGRADE_REQUIRED) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, "websocket");
        MHD_add_response_header(response, "Sec-WebSocket-Version", "13");
    }
    return reply_send(r, status, response);
}

enum MHD_Result reply_error(http_request *r, unsigned status, const char *param, const char *code, const char *format,
                            ...) {
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return reply_refusal(r, status, RETRY_AS_STATUS, 0, param, code, message);
}

/* ---- in the middle of a body ---------------------------------------------------------------------------- */

static enum MHD_Result put_header(void *file, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind;
    fprintf(file, "%s: %s\r\n", name, value);
    return MHD_YES;
}

static void send_now(const http_request *r, const char *bytes, size_t n) {
    ssize_t sent = r->server->options->tls_cert ? tls_send(r->connection, bytes, n)
                                                : send(request_fd(r), bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent != (ssize_t)n)
        server_log(r->server, MXW_LOG_DEBUG, "http: %s: the client does not take its answer", r->id);
}

void reply_cut_off(http_request *r, unsigned status, reply_retry retry, int after_s, const char *param,
                   const char *code, const char *message) {
    char *answer = NULL;
    size_t n = 0;
    json_t *error = reply_error_object(status, param, code, message);
    char *text = error ? json_dumps(error, JSON_COMPACT) : NULL;
    struct MHD_Response *response = text ? response_of("application/json", text, strlen(text)) : NULL;
    FILE *file = response ? open_memstream(&answer, &n) : NULL;
    if (file) {
        add_headers(r, status, response);
        add_retry(response, retry, after_s);
        fprintf(file, "HTTP/1.1 %u %s\r\n", status, MHD_get_reason_phrase_for(status));
        MHD_get_response_headers(response, put_header, file);
        fprintf(file, "Content-Length: %zu\r\n\r\n%s", strlen(text), text);
        if (!fclose(file))
            send_now(r, answer, n);
    }
    r->cut_off = (int)status;
    if (response)
        MHD_destroy_response(response);
    json_decref(error);
    free(answer);
    free(text);
}

unsigned reply_status_of(mxw_status status) {
    switch (status) {
    case MXW_E_ARGUMENT:
    case MXW_E_FORMAT:
    case MXW_E_UNSUPPORTED:
    case MXW_E_IO:
        return MHD_HTTP_BAD_REQUEST;
    case MXW_E_ABORTED:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case MXW_E_MEMORY:
        return MHD_HTTP_INSUFFICIENT_STORAGE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

enum MHD_Result reply_method(http_request *r, const char *allowed) {
    char message[300];
    snprintf(message, sizeof(message), "%.20s is not allowed here; use %s", r->method, allowed);
    struct MHD_Response *response =
        json_response(reply_error_object(MHD_HTTP_METHOD_NOT_ALLOWED, NULL, "method_not_allowed", message));
    if (response)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allowed);
    return reply_send(r, MHD_HTTP_METHOD_NOT_ALLOWED, response);
}

enum MHD_Result reply_preflight(http_request *r, const char *allowed) {
    struct MHD_Response *response = response_of(NULL, "", 0);
    if (response)
        origin_add_preflight(r, response, allowed);
    return reply_send(r, MHD_HTTP_NO_CONTENT, response);
}
