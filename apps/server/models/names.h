/* server/models/names.h - what requests call a model. */
#ifndef SERVER_MODELS_NAMES_H
#define SERVER_MODELS_NAMES_H

#include <stddef.h>

/* 1 if OpenAI has a speech-to-text model of that name: here it means the default. */
int names_is_openai(const char *name);
/* Whether a request's name means the model that is known by that id: the same, or with the prefixes that other hosts of
 * the model put in front ("openai/whisper-tiny.en", "Systran/faster-whisper-base"). */
int names_match(const char *id, const char *name);
/* The id of a model that --model names: of a path its last part, without the ending of a weights file. */
void names_id_of(const char *model, char *id, size_t size);

#endif
