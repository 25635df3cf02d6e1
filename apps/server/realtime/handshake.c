/* realtime/handshake.c - see the header. The key comes as everywhere, or among the subprotocols, since a page cannot
 * set headers; whatever is wrong is answered in HTTP, as long as that is spoken. */
#include "realtime/handshake.h"

#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http/auth.h"
#include "http/reply.h"
#include "models/registry.h"
#include "realtime/audio/base64.h"
#include "realtime/hub.h"
#include "realtime/secrets.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define KEY_PROTOCOL "openai-insecure-api-key."

/* ---- lists in headers -------------------------------------------------------------------------------------------- */

/* The next of "a, b": its length, 0: there is none; *text moves on to it. */
static size_t next_item(const char **text) {
    *text += strspn(*text, " \t,");
    size_t n = strcspn(*text, ",");
    while (n && strchr(" \t", (*text)[n - 1]))
        n--;
    return n;
}

static int has_item(const char *list, const char *item) {
    for (size_t n; list && (n = next_item(&list)) > 0; list += n)
        if (n == strlen(item) && !strncasecmp(list, item, n))
            return 1;
    return 0;
}

/* The item that begins so, after that; NULL: none does. */
static const char *item_after(const char *list, const char *prefix, size_t *n) {
    for (size_t length; list && (length = next_item(&list)) > 0; list += length)
        if (length > strlen(prefix) && !strncmp(list, prefix, strlen(prefix))) {
            *n = length - strlen(prefix);
            return list + strlen(prefix);
        }
    return NULL;
}

/* ---- checks: 1, or 0 when it was answered ------------------------------------------------------------------------ */

static int refuse(http_request *r, enum MHD_Result result, enum MHD_Result *out) {
    *out = result;
    return 0;
}

static int check_upgrade(http_request *r, enum MHD_Result *out) {
    uint8_t key[24];
    const char *version = request_header(r, "Sec-WebSocket-Version"), *text = request_header(r, "Sec-WebSocket-Key");
    if (strcmp(r->method, MHD_HTTP_METHOD_GET) || !has_item(request_header(r, MHD_HTTP_HEADER_UPGRADE), "websocket") ||
        !has_item(request_header(r, MHD_HTTP_HEADER_CONNECTION), "upgrade"))
        return refuse(r, reply_error(r, MHD_HTTP_UPGRADE_REQUIRED, NULL, "upgrade_required",
                                     "/v1/realtime is a WebSocket: connect to it as one (ws:// or wss://)"), out);
    if (!version || strcmp(version, "13"))
        return refuse(r, reply_error(r, MHD_HTTP_UPGRADE_REQUIRED, NULL, "websocket_version",
                                     "Sec-WebSocket-Version: must be 13"), out);
    if (!text || strlen(text) != 24 || base64_decode(text, 24, key) != 16)
        return refuse(r, reply_error(r, MHD_HTTP_BAD_REQUEST, NULL, "websocket_key",
                                     "Sec-WebSocket-Key: must be 16 bytes in base64"), out);
    return 1;
}

/* A key of the server, or a secret that it gave out: then with the session of that. */
static int check_key(http_request *r, realtime_start *start, enum MHD_Result *out) {
    const char *bearer = request_header(r, MHD_HTTP_HEADER_AUTHORIZATION), *key = NULL;
    size_t n = 0;
    if (bearer && !strncasecmp(bearer, "Bearer ", 7)) {
        key = bearer + 7 + strspn(bearer + 7, " ");
        n = strcspn(key, " ");
    } else {
        key = item_after(request_header(r, "Sec-WebSocket-Protocol"), KEY_PROTOCOL, &n);
    }
    if (key && n > strlen(SECRET_PREFIX) && !strncmp(key, SECRET_PREFIX, strlen(SECRET_PREFIX))) {
        if (secrets_find(r->server->secrets, key, n, &start->config))
            return 1;
        return refuse(r, reply_error(r, MHD_HTTP_UNAUTHORIZED, NULL, "invalid_api_key",
                                     "the client secret is not valid, or no longer"), out);
    }
    if (!auth_is_needed(r->server->keys) || (key && auth_has_key(r->server->keys, key, n)))
        return 1;
    return refuse(r, reply_error(r, MHD_HTTP_UNAUTHORIZED, NULL, "invalid_api_key",
                                 "this server needs an API key: send the header Authorization: Bearer KEY, or the "
                                 "subprotocol " KEY_PROTOCOL "KEY"), out);
}

/* ?model= may name what OpenAI calls the model of a conversation: what transcribes is then the default. */
static int check_query(http_request *r, realtime_start *start, enum MHD_Result *out) {
    int good = 1;
    char *intent = request_query(r, "intent"), *model = request_query(r, "model"), *call = request_query(r, "call_id");
    if (intent && strcmp(intent, "transcription"))
        good = refuse(r, reply_error(r, MHD_HTTP_BAD_REQUEST, "intent", "invalid_value",
                                     "intent: must be transcription"), out);
    else if (call)
        good = refuse(r, reply_error(r, MHD_HTTP_BAD_REQUEST, "call_id", "unsupported_parameter",
                                     "call_id: this server has no calls"), out);
    else if (model && *model && models_find(r->server->models, model) >= 0 && strlen(model) < RT_MODEL_SIZE)
        memcpy(start->config.model, model, strlen(model) + 1);
    else if (model && *model && strncmp(model, "gpt-", 4))
        good = refuse(r, reply_error(r, MHD_HTTP_NOT_FOUND, "model", "model_not_found",
                                     "there is no model '%.100s' on this server", model), out);
    free(intent);
    free(model);
    free(call);
    return good;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void forget(http_request *r) {
    if (!r->own)
        return;
    free(r->own);   /* it did not come to the upgrade */
    realtime_unreserve(r->server->realtime);
}

static void on_upgrade(void *server, struct MHD_Connection *connection, void *state, const char *extra, size_t n_extra,
                       MHD_socket fd, struct MHD_UpgradeResponseHandle *handle) {
    http_request *r = state;
    realtime_start *start = r->own;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    start->peer = info ? info->connect_fd : fd;
    r->own = NULL;
    r->goes_on = 1;
    access_log_note(r, &start->note);
    realtime_upgraded(((server_context *)server)->realtime, start, extra, n_extra, fd, handle);
}

static enum MHD_Result upgrade(http_request *r) {
    uint8_t digest[20];
    char text[24 + sizeof(GUID)], accept[32];
    snprintf(text, sizeof(text), "%.24s" GUID, request_header(r, "Sec-WebSocket-Key"));
    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, text, strlen(text), digest) < 0)
        return reply_error(r, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL, "there is no SHA-1 here");
    base64_encode(digest, sizeof(digest), accept);
    struct MHD_Response *response = MHD_create_response_for_upgrade(on_upgrade, r->server);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, "websocket");
    MHD_add_response_header(response, "Sec-WebSocket-Accept", accept);
    if (has_item(request_header(r, "Sec-WebSocket-Protocol"), "realtime"))
        MHD_add_response_header(response, "Sec-WebSocket-Protocol", "realtime");
    return reply_send(r, MHD_HTTP_SWITCHING_PROTOCOLS, response);
}

static enum MHD_Result answer(http_request *r) {
    enum MHD_Result result = MHD_NO;
    realtime_start *start = calloc(1, sizeof(*start));
    if (!start)
        return MHD_NO;
    rt_config_default(&start->config);
    if (has_item(request_header(r, "OpenAI-Beta"), "realtime=v1") ||
        has_item(request_header(r, "Sec-WebSocket-Protocol"), "openai-beta.realtime-v1"))
        start->dialect = RT_BETA;
    if (!check_key(r, start, &result) || !check_upgrade(r, &result) || !check_query(r, start, &result)) {
        free(start);
        return result;
    }
    if (!realtime_reserve(r->server->realtime)) {
        free(start);
        return reply_refusal(r, MHD_HTTP_SERVICE_UNAVAILABLE, RETRY_LATER, 5, NULL, "too_many_sockets",
                             server_is_draining(r->server) ? "the server is stopping" : "all live sockets are in use");
    }
    r->own = start;
    return upgrade(r);
}

const route_handler handler_realtime = {.answer = answer, .forget = forget};
