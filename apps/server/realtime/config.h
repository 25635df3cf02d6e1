/* realtime/config.h - what a client may set in a transcription session, in both dialects of the protocol.
 *
 * In: the member `session` of an update, or of a request for a secret: what is absent stays, null clears. Out: the
 * session as the protocol writes it. A change is taken as a whole or not at all. What is not known is refused by name,
 * so that a misspelt setting is not taken for one that works.
 */
#ifndef REALTIME_CONFIG_H
#define REALTIME_CONFIG_H

#include <jansson.h>

#include "realtime/problem.h"
#include "realtime/audio/sound.h"

typedef enum rt_dialect { RT_GA, RT_BETA } rt_dialect;
typedef enum rt_turns { RT_MANUAL, RT_SERVER_VAD, RT_SEMANTIC_VAD } rt_turns;
/* How long text is held back: what is sent cannot be taken back. */
typedef enum rt_delay { RT_MINIMAL, RT_LOW, RT_MEDIUM, RT_HIGH, RT_XHIGH, RT_UNSET } rt_delay;
typedef enum rt_eagerness { RT_EAGER_LOW, RT_EAGER_MEDIUM, RT_EAGER_HIGH, RT_EAGER_AUTO } rt_eagerness;

enum { RT_MODEL_SIZE = 256, RT_LANGUAGE_SIZE = 32, RT_LANGUAGES_SIZE = 512, RT_PROMPT_SIZE = 8192 };

typedef struct rt_config {
    sound_format format;
    int rate;
    int transcribes;                       /* 0: turns are told, their text is not */
    int translates;                        /* into English; an extension */
    char model[RT_MODEL_SIZE];             /* "": the server's default */
    char language[RT_LANGUAGE_SIZE];       /* a code; "": detect it */
    char languages[RT_LANGUAGES_SIZE];     /* codes with commas; "": none */
    char prompt[RT_PROMPT_SIZE];
    rt_delay delay;
    rt_turns turns;
    double threshold;                      /* of RT_SERVER_VAD, as the three below */
    int prefix_ms, silence_ms;
    int idle_ms;                           /* 0: none */
    rt_eagerness eagerness;                /* of RT_SEMANTIC_VAD */
    int logprobs, partials, words;         /* `include` asks for them; the last two are extensions */
} rt_config;

/* 1 if there is a model of that name. */
typedef int (*rt_has_model)(void *user, const char *name);

void rt_config_default(rt_config *config);
/* Changes config by `session`; 0: problem says which member is wrong, and config is as it was. */
int rt_config_update(rt_config *config, json_t *session, rt_dialect dialect, rt_has_model has_model, void *user,
                     rt_problem *problem);
/* The session object; id may be NULL, expires_at 0: never. NULL: memory runs out. */
json_t *rt_config_json(const rt_config *config, rt_dialect dialect, const char *id, int64_t expires_at,
                       const char *default_model);

#endif
