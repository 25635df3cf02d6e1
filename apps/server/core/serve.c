/* server/core/serve.c - opens the parts of a server in order, waits for signals, drains, closes them. */
#include "core/serve.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/access_log.h"
#include "core/server_context.h"
#include "http/auth.h"
#include "http/connections.h"
#include "http/listen.h"
#include "http/origin.h"
#include "http/tls.h"
#include "load/admission.h"
#include "load/metrics.h"
#include "models/registry.h"
#include "realtime/hub.h"
#include "realtime/secrets.h"

enum { RUN_DONE = 0, RUN_FAILED = 1, RUN_USAGE = 2 };
/* Every connection is a thread. A heap for each core and thread, as malloc would have them, fragments into twice the
 * memory; decoder steps, where speed matters, allocate nothing. */
enum { N_ARENAS = 2 };

/* ---- checks --------------------------------------------------------------------------------------------- */

static const char *usage_problem(const server_options *o) {
    if (!o->tls_cert != !o->tls_key)
        return o->tls_cert ? "--tls-cert: needs --tls-key FILE" : "--tls-key: needs --tls-cert FILE";
    if (o->no_auth && (o->api_keys.n || o->api_key_file))
        return "--no-auth: not together with --api-key or --api-key-file";
    if (!origin_is_loopback(o->host) && !o->api_keys.n && !o->api_key_file && !o->no_auth)
        return "--host: an address that other machines can reach needs --api-key or --api-key-file; --no-auth if "
               "everybody there may use the server";
    return NULL;
}

/* ---- signals -------------------------------------------------------------------------------------------- */

static void reload(server_context *s) {
    char message[1024];
    int keys = auth_reload(s->keys, message, sizeof(message));
    if (!keys)
        server_log(s, MXW_LOG_ERROR, "%s; the old keys stay", message);
    int pair = !s->options->tls_cert || tls_open(s->options, message, sizeof(message));
    if (!pair)
        server_log(s, MXW_LOG_ERROR, "%s; the old certificate stays", message);
    if (keys && pair)
        server_log(s, MXW_LOG_INFO, "keys and certificate read again");
    if (!access_log_reopen(s->access_log, message, sizeof(message)))
        server_log(s, MXW_LOG_ERROR, "%s; the old file stays", message);
}

/* Until SIGTERM or SIGINT. */
static void wait_for_end(server_context *s, const sigset_t *signals) {
    for (;;) {
        int number = 0;
        if (sigwait(signals, &number) || number == SIGTERM || number == SIGINT)
            return;
        if (number == SIGHUP)
            reload(s);
    }
}

/* A second signal ends the patience. */
static void drain(server_context *s, const sigset_t *signals) {
    int64_t start = server_now_ns();
    server_begin_drain(s);
    server_log(s, MXW_LOG_INFO, "draining: new requests are refused, those under way have %g s",
               s->options->drain_timeout_s);
    while (!server_wait_empty(s, 0.1)) {
        struct timespec none = {0, 0};
        int number = sigtimedwait(signals, NULL, &none);
        double waited = (double)(server_now_ns() - start) * 1e-9;
        if (number == SIGTERM || number == SIGINT || waited > s->options->drain_timeout_s)
            break;
    }
    server_stop_now(s);
    admission_wake(s->admission);
}

/* ---- the whole ------------------------------------------------------------------------------------------ */

static int open_parts(server_context *s, char *message, size_t size) {
    message[0] = 0;
    if (!server_phase_open(s) || !(s->metrics = metrics_open()) || !(s->connections = connections_open(s)) ||
        !(s->secrets = secrets_open()) || !(s->realtime = realtime_open(s)))
        snprintf(message, size, "out of memory or threads");
    else if (!(s->access_log = access_log_open(s->options->access_log, message, size)))
        return 0;
    else if ((s->keys = auth_open(s->options, message, size)) && (s->models = models_open(s, message, size)) &&
             (s->admission = admission_open(s)))
        return 1;
    return 0;
}

static void close_parts(server_context *s) {
    realtime_stop(s->realtime);
    listen_stop(s);
    realtime_close(s->realtime);
    secrets_close(s->secrets);
    connections_close(s->connections);
    admission_close(s->admission);
    models_close(s->models);
    auth_close(s->keys);
    access_log_close(s->access_log);
    metrics_close(s->metrics);
    server_phase_close(s);
}

/* The default model is there before the first request; a file that cannot be loaded ends the start. */
static int preload(server_context *s, char *message, size_t size) {
    model_lease lease;
    if (models_acquire(s, NULL, &lease) < 0) {
        snprintf(message, size, "%s", lease.message);
        return 0;
    }
    models_release(s, &lease);
    return 1;
}

int serve_run(const server_options *options, const server_host *host) {
    server_context s = {.options = options, .host = host, .start_ns = server_now_ns()};
    char message[1024];
    sigset_t signals;
    const char *problem = usage_problem(options);
    if (problem) {
        host->log(MXW_LOG_ERROR, problem);
        return RUN_USAGE;
    }
    mallopt(M_ARENA_MAX, N_ARENAS);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* for good: a signal that comes late finds nobody to kill */
    int good = open_parts(&s, message, sizeof(message)) && preload(&s, message, sizeof(message)) &&
               listen_start(&s, message, sizeof(message));
    if (good) {
        listen_address(&s, message, sizeof(message));
        host->ready(message);
        wait_for_end(&s, &signals);
        drain(&s, &signals);
    } else {
        host->log(MXW_LOG_ERROR, message);
    }
    close_parts(&s);
    return good ? RUN_DONE : RUN_FAILED;
}
