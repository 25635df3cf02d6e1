/* server/page/handler.h - GET / and what the page loads, open to everybody: the page itself asks for the key. */
#ifndef SERVER_PAGE_HANDLER_H
#define SERVER_PAGE_HANDLER_H

#include "http/request.h"

extern const route_handler handler_page;

#endif
