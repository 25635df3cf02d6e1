/* server/models/list.h - GET /v1/models and /v1/models/{id}. */
#ifndef SERVER_MODELS_LIST_H
#define SERVER_MODELS_LIST_H

#include "http/request.h"

extern const route_handler handler_models, handler_model;

#endif
