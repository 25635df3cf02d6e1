/* server/transcriptions/chunking.h - chunking_strategy: speech detection under OpenAI's name.
 *
 * "auto", an object as JSON, or its keys one by one (chunking_strategy[type], ...), as the official clients send them.
 */
#ifndef SERVER_TRANSCRIPTIONS_CHUNKING_H
#define SERVER_TRANSCRIPTIONS_CHUNKING_H

#include "transcriptions/form.h"

typedef struct chunking_strategy {
    int is_auto, is_server_vad;
    double threshold, prefix_padding_ms, silence_duration_ms; /* MXW_NONE: not given */
} chunking_strategy;

void chunking_init(chunking_strategy *c);
/* Whether this field is part of it. */
int chunking_is_field(const char *name);
/* 0 with the problem. */
int chunking_take(chunking_strategy *c, const char *name, const char *value, form_problem *problem);
/* After the last field: 0 with the problem, if keys came without their type. */
int chunking_check(const chunking_strategy *c, form_problem *problem);

#endif
