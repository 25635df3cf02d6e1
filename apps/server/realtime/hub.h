/* realtime/hub.h - all live sockets of a server: one thread reads and writes them, each has a thread that transcribes.
 *
 * The first answers pings, keeps deadlines and never waits for a model; the second runs the protocol (protocol.h).
 * Between them are two queues of messages, both bounded: a client that sends faster than the model hears is not read
 * until there is room again; one that does not read what it is sent is dropped.
 */
#ifndef REALTIME_HUB_H
#define REALTIME_HUB_H

#include <microhttpd.h>

#include "core/access_log.h"
#include "realtime/config.h"

typedef struct realtime_hub realtime_hub;

/* Since the start; `open` is now. */
typedef struct realtime_counts {
    int64_t open, opened, refused, dropped;     /* sockets; dropped: a deadline passed, or a client broke the rules */
    int64_t messages, events, errors;           /* of clients; of ours, of those errors */
    int64_t waiting_bytes;                      /* now, in all queues, and of messages that are not whole */
} realtime_counts;

/* How a socket begins. */
typedef struct realtime_start {
    access_note note;   /* of its request */
    rt_dialect dialect;
    rt_config config;
    int peer;           /* the connection's own descriptor */
} realtime_start;

realtime_hub *realtime_open(server_context *s);
/* Ends every socket; before libmicrohttpd stops, which waits for them. */
void realtime_stop(realtime_hub *hub);
/* After it has stopped. */
void realtime_close(realtime_hub *hub);
/* A place for one more: 1, or 0 if all are taken or the server is stopping. What was reserved is used by
 * realtime_upgraded, or given back. */
int realtime_reserve(realtime_hub *hub);
void realtime_unreserve(realtime_hub *hub);
/* A connection has become a socket; start is freed here. */
void realtime_upgraded(realtime_hub *hub, realtime_start *start, const char *extra, size_t n_extra, int fd,
                       struct MHD_UpgradeResponseHandle *handle);
/* libmicrohttpd is about to free a connection: returns once the hub is done with closing it. */
void realtime_let_close(realtime_hub *hub);
void realtime_get_counts(realtime_hub *hub, realtime_counts *counts);

#endif
