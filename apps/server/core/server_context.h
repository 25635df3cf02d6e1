/* server/core/server_context.h - what all requests of a server share: options, keys, models, connections, metrics.
 *
 * Invariants: made before the first connection and freed after the last one; every part of it has a lock of its own.
 */
#ifndef SERVER_CORE_SERVER_CONTEXT_H
#define SERVER_CORE_SERVER_CONTEXT_H

#include <stdarg.h>

#include "server.h"

struct MHD_Daemon;
typedef struct server_context server_context;

struct server_context {
    const server_options *options;
    const server_host *host;
    struct auth_keys *keys;           /* http/auth.h */
    struct model_registry *models;    /* models/registry.h */
    struct admission *admission;      /* load/admission.h */
    struct server_metrics *metrics;   /* load/metrics.h */
    struct access_log *access_log;    /* core/access_log.h */
    struct connection_list *connections;   /* http/connections.h */
    struct realtime_hub *realtime;    /* realtime/hub.h */
    struct secret_list *secrets;      /* realtime/secrets.h */
    struct MHD_Daemon *daemon;
    struct server_phase *phase;       /* server_phase.c */
    int64_t start_ns;
};

int server_phase_open(server_context *s);
void server_phase_close(server_context *s);
/* Something is under way that a drain waits for (a transcription, a live socket): 1, or 0 if the server is stopping and
 * it must not begin. Each server_enter that returned 1 has its server_leave. */
int server_enter(server_context *s);
void server_leave(server_context *s);
/* 1 once a drain began: nothing new may start. */
int server_is_draining(const server_context *s);
/* 1 once the drain's time is over: what still runs must end now. */
int server_is_stopping(const server_context *s);
/* A descriptor that polls as readable once server_is_stopping; not to be read or closed. */
int server_stop_fd(const server_context *s);
void server_begin_drain(server_context *s);
/* Waits until all have left, at most so long; 1: they have. */
int server_wait_empty(server_context *s, double seconds);
void server_stop_now(server_context *s);

/* A line in the log of the command line. */
void server_log(const server_context *s, mxw_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int64_t server_now_ns(void); /* CLOCK_MONOTONIC */

#endif
