/* realtime/session.h - internals of a session: protocol.c takes what the client sends, turns.c what the engine says,
 * outbox.c writes events. */
#ifndef REALTIME_SESSION_H
#define REALTIME_SESSION_H

#include "realtime/protocol.h"

enum { RT_ID_SIZE = 32 };

/* What becomes an item of the conversation: an utterance, or with manual commits all that came since the last. */
typedef struct rt_turn {
    int is_open;                     /* it has an id */
    int is_committed;
    char id[RT_ID_SIZE];
    double start_s, end_s;
    char *text;                      /* what was said, from the first word on */
    size_t n, room, n_sent;
    json_t *logprobs;                /* of its words, or NULL */
    json_t *words;                   /* with their times, or NULL */
    size_t n_logprobs_sent;
    char language[16];
} rt_turn;

struct rt_session {
    rt_session_options options;
    rt_config config;
    rt_dialect dialect;
    char id[RT_ID_SIZE];
    uint64_t random;                 /* state of the ids */
    int is_broken;

    sound *sound;                    /* NULL until audio comes, and after a change of format */
    double appended_s;               /* all audio that came */
    double buffer_s;                 /* where the uncommitted part of it begins */
    int64_t fed;                     /* samples given to engines, 16 kHz */

    void *stream;                    /* of the engine, or NULL */
    double stream_s;                 /* where in all audio it begins */
    enum { RT_HEARS, RT_MISSES_REST, RT_DEAF } ears;   /* it failed: the rest of a message is dropped; or it could not
                                                        * be opened: all is, until something changes ... */
    rt_problem failure;              /* ... because of this */
    int is_lost;                     /* because of it, something of the uncommitted audio was not heard */

    rt_turn turn;
    int is_speaking;                 /* an utterance goes on */
    int ends_sentence;               /* its text so far */
    char last_item[RT_ID_SIZE];      /* that was committed; "": none */
    double idle_since_s;             /* nobody has spoken since; negative: the timeout was told */
};

/* ---- outbox.c ---- */

void rt_new_id(rt_session *s, const char *prefix, char *id);
/* Takes fields, an object; adds type and event_id. */
void rt_send(rt_session *s, const char *type, json_t *fields);
/* event_id: of the client's message; NULL: it had none. */
void rt_send_error(rt_session *s, const rt_problem *problem, const char *event_id);
/* The same as an object. */
json_t *rt_problem_json(const rt_problem *problem);
void rt_send_session(rt_session *s, const char *type, rt_dialect dialect);

/* ---- turns.c ---- */

void rt_turn_forget(rt_session *s);
/* Takes the engine's events until it needs more audio. */
void rt_drain(rt_session *s);
/* Gives samples to the engine, which is opened if need be. */
void rt_hear(rt_session *s, const float *samples, size_t n);
/* Ends the stream: with its events, or (clear) without. */
void rt_end_stream(rt_session *s);
void rt_drop_stream(rt_session *s);
/* Everything since the last commit becomes an item now. */
void rt_commit(rt_session *s);
void rt_check_idle(rt_session *s);
void rt_check_sentence(rt_session *s);

#endif
