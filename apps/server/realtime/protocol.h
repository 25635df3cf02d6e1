/* realtime/protocol.h - a transcription session of the realtime protocol, without its socket.
 *
 * In: a client's messages, one JSON object each. Out: the server's, through `send`, in the order of the protocol. Audio
 * is only kept and listened to by rt_session_take; the model works in rt_session_work, and where a message needs it
 * (commit, a changed configuration). A session belongs to one thread at a time.
 *
 * Invariants: whatever a client sends is answered by events; the session goes on after every error. The deltas of
 * an item, one after the other, are its transcript; an item that was committed ends with one completed or failed.
 */
#ifndef REALTIME_PROTOCOL_H
#define REALTIME_PROTOCOL_H

#include "realtime/config.h"
#include "realtime/engine.h"

enum { RT_AUDIO_MOST = 15 << 20 /* bytes of audio in one message */ };

typedef struct rt_session rt_session;

typedef struct rt_session_options {
    const rt_engine *engine;
    rt_dialect dialect;              /* of a client that has said so; else GA */
    const rt_config *config;         /* NULL: the defaults */
    const char *default_model;       /* what the session calls a model that was not named */
    int64_t expires_at;              /* seconds since 1970; 0: never */
    uint64_t seed;                   /* of the ids */
    void *user;
    void (*send)(void *user, const char *text, size_t n);
} rt_session_options;

/* NULL: memory runs out. */
rt_session *rt_session_open(const rt_session_options *options);
void rt_session_close(rt_session *s);
/* The first message: session.created. */
void rt_session_begin(rt_session *s);
/* A message of the client. */
void rt_session_take(rt_session *s, const char *text, size_t n);
/* Lets the model hear what came, and tells what follows from it. */
void rt_session_work(rt_session *s);
/* What was heard becomes text, as if the client had been silent from now on. */
void rt_session_finish(rt_session *s);
/* An error event of the server's own. */
void rt_session_tell(rt_session *s, const rt_problem *problem);
/* 1: memory ran out, or the engine was told to stop; the session cannot go on. */
int rt_session_is_broken(const rt_session *s);
/* Seconds of audio that the client has sent. */
double rt_session_audio_s(const rt_session *s);

#endif
