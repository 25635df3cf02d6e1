/* server/models/list.c - the models as OpenAI's API lists them, and whether each is loaded. */
#include "models/list.h"

#include <time.h>

#include "http/reply.h"
#include "models/registry.h"

static json_t *describe(server_context *s, int index) {
    time_t started = time(NULL) - (time_t)((server_now_ns() - s->start_ns) / 1000000000);
    return json_pack("{s:s, s:s, s:I, s:s, s:b}", "id", models_id(s->models, index), "object", "model", "created",
                     (json_int_t)started, "owned_by", "max-whisper", "loaded", models_is_loaded(s->models, index));
}

static enum MHD_Result answer_list(http_request *r) {
    json_t *data = json_array();
    for (int i = 0; models_id(r->server->models, i); i++)
        json_array_append_new(data, describe(r->server, i));
    return reply_json(r, MHD_HTTP_OK, json_pack("{s:s, s:o}", "object", "list", "data", data));
}

/* OpenAI's names are answered, too: a client may look before it asks. */
static enum MHD_Result answer_one(http_request *r) {
    int index = *r->rest ? models_find(r->server->models, r->rest) : -1;
    if (index < 0)
        return reply_error(r, MHD_HTTP_NOT_FOUND, "model", "model_not_found", "the model '%.100s' does not exist here",
                           r->rest);
    return reply_json(r, MHD_HTTP_OK, describe(r->server, index));
}

const route_handler handler_models = {.answer = answer_list};
const route_handler handler_model = {.answer = answer_one};
