/* server/transcriptions/transcriptions.h - POST /v1/audio/transcriptions and /v1/audio/translations. */
#ifndef SERVER_TRANSCRIPTIONS_TRANSCRIPTIONS_H
#define SERVER_TRANSCRIPTIONS_TRANSCRIPTIONS_H

#include "http/request.h"

extern const route_handler handler_transcriptions, handler_translations;

#endif
