/* server/core/health.c - see health.h. Neither waits for a lock that is held during a computation. */
#include "core/health.h"

#include "http/reply.h"

static enum MHD_Result answer_health(http_request *r) {
    return reply_json(r, MHD_HTTP_OK, json_pack("{s:s, s:s}", "status", "ok", "version", mxw_version()));
}

static enum MHD_Result answer_ready(http_request *r) {
    if (server_is_draining(r->server))
        return reply_error(r, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "draining", "the server is about to stop");
    return reply_json(r, MHD_HTTP_OK, json_pack("{s:s}", "status", "ready"));
}

const route_handler handler_health = {.answer = answer_health};
const route_handler handler_ready = {.answer = answer_ready};
