/* server/server.h - the server as a module: what `max-whisper serve` gives it, and the function that runs it.
 *
 * In: options that the command line has checked one by one, and a few functions of the command line (server_host). Out:
 * an exit status, after SIGTERM or SIGINT and a drain.
 *
 * How it is put together, for those who add a route:
 * - http/routes.def has one line a route: method, path, whether it is open to everybody, and a route_handler.
 * - A handler answers with http/reply.h (reply_json, reply_error, reply_send), exactly once, and sees the request as an
 *   http_request (http/request.h): connection, path, query, the body where it is small.
 * - The key was checked before a handler that is not open is called; one that is open may ask http/auth.h itself
 *   (auth_has_key). Origin and Host were checked for all (http/origin.h).
 * - A model is taken with models_acquire and given back with models_release (models/registry.h), whatever name the
 *   request has for it.
 * - What outlives a request (an upgraded socket) asks core/server_context.h: server_enter and server_leave count it for
 *   the drain, server_is_stopping tells that it must end.
 * - The page plugs in as page/ (GET / and what it loads), live sockets as realtime/ (GET /v1/realtime,
 *   POST /v1/realtime/client_secrets and transcription_sessions): each a handler of its own, a line in routes.def and a
 *   line in meson.build.
 *
 * Invariants: of the project only max_whisper.h is used. No option, path or name in a request reaches the file system.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "max_whisper.h"

#define SERVER_MODULE_ABI 1u
#define SERVER_MODULE_ENTRY "mx_module_open"

typedef struct server_list {
    int n;
    const char *const *items;
} server_list;

typedef struct server_options {
    server_list models; /* names or paths; the first is the default */
    const char *model_dir, *device;
    int engine, precision, threads;
    const char *host;
    int port;                  /* 0: any free one */
    int concurrency;           /* recordings at once; 0: choose for the device */
    int queue;                 /* recordings that may wait */
    int max_connections;
    double idle_timeout_s;     /* of a connection on which nothing moves */
    int64_t max_upload;        /* bytes of a recording */
    double idle_unload_s;      /* MXW_NONE: models stay loaded */
    double drain_timeout_s;
    int realtime_sockets;      /* live sockets at once */
    double realtime_idle_s;    /* MXW_NONE; one that sends no message for so long is closed */
    double realtime_expiry_s;  /* MXW_NONE; a session ends after so long */
    server_list api_keys;
    const char *api_key_file;  /* NULL; a key a line */
    int no_auth;
    server_list cors_origins;  /* "*": all */
    const char *tls_cert, *tls_key;
    const char *access_log;    /* NULL: none; "-": standard output; else a file, reopened by SIGHUP */
} server_options;

/* The options of one request: as the command line's, in a struct that only the host knows. Texts are not copied. */
typedef struct server_host {
    void (*log)(mxw_log_level level, const char *line);
    void (*ready)(const char *address); /* it listens there: "http://127.0.0.1:8000" */
    size_t request_size;
    void (*request_default)(void *request);
    /* 1: stored; 0: message says what is wrong with the value; -1: there is no such option for a request */
    int (*request_set)(void *request, const char *name, const char *value, char *message, size_t size);
    /* 1, or 0 with the option that does not fit the others (its name in a form) and why */
    int (*request_check)(const void *request, const char **name, char *message, size_t size);
    void (*request_apply)(const void *request, mxw_session_options *session, mxw_audio_options *audio,
                          mxw_write_options *write);
} server_host;

typedef struct server_table {
    /* Returns 0 after a drain, 1 if something failed, 2 if the options do not fit together; logs why. */
    int (*run)(const server_options *options, const server_host *host);
} server_table;

#endif
