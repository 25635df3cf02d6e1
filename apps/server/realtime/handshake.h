/* realtime/handshake.h - GET /v1/realtime: a request that becomes a WebSocket. */
#ifndef REALTIME_HANDSHAKE_H
#define REALTIME_HANDSHAKE_H

#include "http/request.h"

extern const route_handler handler_realtime;

#endif
