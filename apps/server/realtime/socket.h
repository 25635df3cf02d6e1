/* realtime/socket.h - one live socket: frames on one side (frames.c), the protocol on the other (worker.c).
 *
 * Who may touch what: `hub` thread: everything in the first part; the worker: the second; both, under the lock, the
 * third. A socket is freed by the hub, after its worker has ended.
 */
#ifndef REALTIME_SOCKET_H
#define REALTIME_SOCKET_H

#include <pthread.h>
#include <stdatomic.h>
#include <wslay/wslay.h>

#include "models/registry.h"
#include "realtime/hub.h"
#include "realtime/protocol.h"

enum {
    SOCKET_MESSAGE_MOST = 21 << 20,    /* bytes of a client's message */
    SOCKET_INBOX_MOST = 8 << 20,       /* that wait for the worker; then the client is not read */
    SOCKET_OUTBOX_MOST = 8 << 20,      /* that wait for the client; then it is dropped */
    HUB_INBOX_MOST = 512 << 20,        /* that wait for all workers together, and of messages that are not whole */
};

typedef struct rt_note rt_note;
struct rt_note {
    rt_note *next;
    size_t n;
    char text[];
};

typedef struct rt_notes {
    rt_note *first, *last;
    size_t bytes;
} rt_notes;

typedef struct rt_socket rt_socket;
struct rt_socket {
    realtime_hub *hub;
    rt_socket *before, *after;
    /* the hub's */
    int fd;                              /* -1: closed */
    int peer;                            /* the client's end: with TLS fd leads to libmicrohttpd, which decrypts */
    int has_left;                        /* the client, when peer was asked last */
    struct MHD_UpgradeResponseHandle *handle;   /* closes fd */
    wslay_event_context_ptr frames;
    char *extra;                         /* bytes that came with the request */
    size_t n_extra, extra_at;
    int64_t n_received;                  /* bytes, in all */
    rt_note *message;                    /* the one that is coming, [room] */
    size_t room;                         /* counted by hub_waiting */
    int frame_opcode;
    size_t budget;                       /* bytes that may be read before others have their turn */
    unsigned watched;                    /* of epoll */
    int64_t opened_ns, heard_ns, used_ns;         /* when it was; when bytes came last; and a whole message */
    int64_t message_ns, unsent_ns, closed_ns;     /* since when: a message is coming, bytes wait to be sent, a close
                                                   * goes out; 0: not so */
    int pinged;
    int close_queued;                    /* a close goes out, or has */
    int is_shut;                         /* and nothing will after it */
    int is_dropped;                      /* counted as one whose client was too slow, or broke the rules */
    /* the worker's */
    realtime_start *start;
    rt_session *session;
    model_lease lease;
    int has_lease;
    const char *model;                   /* that was used last, and seconds of sound: for the log, when the worker */
    double audio_s;                      /* has ended */
    /* shared */
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    rt_notes inbox, outbox;
    int is_ready;                        /* in the hub's list of those to look at */
    rt_socket *next_ready, *next_taken;
    int is_listed;                       /* the hub's thread knows it */
    int finishes;                        /* the worker is to end what is being said, and itself */
    int expired;
    int worker_ended;
    int close_code;                      /* wanted by the worker; 0: none */
    char close_reason[100];
    atomic_int stops;                    /* nobody listens any more: a pass of the model may end */
};

/* ---- frames.c: the hub's thread ---- */

int frames_open(rt_socket *s);
/* What the descriptor allows; 0: the connection is over. */
int frames_receive(rt_socket *s);
int frames_send(rt_socket *s);
int frames_discard(rt_socket *s);
/* 1: a client pings, and does not read the answers. */
int frames_pile_up(const rt_socket *s);
void frames_ping(rt_socket *s);
void frames_close(rt_socket *s, int code, const char *reason);

/* ---- worker.c ---- */

int worker_start(rt_socket *s);
int notes_add(rt_notes *notes, rt_note *note);   /* 1: it was empty */
rt_note *notes_take(rt_notes *notes);
void notes_free(rt_notes *notes);

/* ---- hub.c ---- */

/* The hub's thread looks at the socket soon. */
void hub_wake(rt_socket *s);
void hub_count(realtime_hub *hub, int64_t messages, int64_t events, int64_t errors);
/* Bytes in inboxes and of messages that are coming, all together; returns the sum. */
int64_t hub_waiting(realtime_hub *hub, int64_t change);
server_context *hub_server(realtime_hub *hub);

#endif
