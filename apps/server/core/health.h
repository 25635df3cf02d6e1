/* server/core/health.h - GET /health: the process answers; GET /ready: it takes new work. */
#ifndef SERVER_CORE_HEALTH_H
#define SERVER_CORE_HEALTH_H

#include "http/request.h"

extern const route_handler handler_health, handler_ready;

#endif
