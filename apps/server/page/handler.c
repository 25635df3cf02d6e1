/* server/page/handler.c - see handler.h. */
#include "page/handler.h"

#include <stdint.h>

#include "http/reply.h"
#include "page/page.h"

static enum MHD_Result answer(http_request *r) {
    const page_asset *asset = page_find(r->path);
    if (!asset)
        return reply_error(r, MHD_HTTP_NOT_FOUND, NULL, "not_found", "the page has no file %.100s", r->path);
    int known = page_is_known(asset, request_header(r, MHD_HTTP_HEADER_IF_NONE_MATCH));
    /* The library does not write to it: its parameter lacks const. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        known ? 0 : asset->n_bytes, (void *)(uintptr_t)asset->bytes, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, asset->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, asset->etag);
    for (const page_header *header = page_headers(); header->name; header++)
        MHD_add_response_header(response, header->name, header->value);
    return reply_send(r, known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

const route_handler handler_page = {.answer = answer};
