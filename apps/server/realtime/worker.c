/* realtime/worker.c - the thread of a socket that runs the protocol: messages from the inbox, events into the outbox,
 * and the model, which it shares with all others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "load/metrics.h"
#include "realtime/live_stream.h"
#include "realtime/socket.h"

enum { STACK_BYTES = 2 << 20 };
#define CATCH_UP_S 5.0     /* of audio that is listened to at once, if so much waits, before the model hears it */

/* ---- queues ------------------------------------------------------------------------------------------------------ */

int notes_add(rt_notes *notes, rt_note *note) {
    int was_empty = notes->first == NULL;
    note->next = NULL;
    if (was_empty)
        notes->first = note;
    else
        notes->last->next = note;
    notes->last = note;
    notes->bytes += note->n;
    return was_empty;
}

rt_note *notes_take(rt_notes *notes) {
    rt_note *note = notes->first;
    if (!note)
        return NULL;
    notes->first = note->next;
    notes->bytes -= note->n;
    return note;
}

void notes_free(rt_notes *notes) {
    for (rt_note *note; (note = notes_take(notes)) != NULL;)
        free(note);
}

/* ---- the engine: a live stream of a model of the registry -------------------------------------------------------- */

static int is_left(void *user) { return atomic_load(&((rt_socket *)user)->stops); }

static void give_back(rt_socket *s) {
    if (s->has_lease)
        models_release(hub_server(s->hub), &s->lease);
    s->has_lease = 0;
}

typedef struct engine_stream {
    rt_socket *socket;
    mxw_live *live;
    double told_audio_s, told_work_s;    /* to the metrics */
} engine_stream;

static void count_work(engine_stream *stream) {
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    if (mxw_live_get_stats(stream->live, &stats) < 0)
        return;
    metrics_live(hub_server(stream->socket->hub)->metrics, stream->socket->lease.index,
                 stats.fed_s - stream->told_audio_s, stats.compute_s - stream->told_work_s);
    stream->told_audio_s = stats.fed_s;
    stream->told_work_s = stats.compute_s;
}

/* A model whose file changed would fail every stream that comes. */
static mxw_status noted(const rt_socket *s, mxw_status status) {
    if (status == MXW_E_STATE)
        models_retire(hub_server(s->hub), &s->lease);
    return status;
}

static mxw_status engine_open(void *context, const rt_stream_options *options, void **out) {
    rt_socket *s = context;
    engine_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return MXW_E_MEMORY;
    mxw_status status = models_acquire(hub_server(s->hub), options->model, &s->lease);
    s->has_lease = status >= 0;
    if (s->has_lease)
        s->model = s->lease.id;
    if (status >= 0)
        status = noted(s, rt_live_open(s->lease.model, options, &(rt_live_hooks){.user = s, .should_abort = is_left},
                                       &stream->live));
    if (status < 0) {
        give_back(s);
        free(stream);
        return status;
    }
    stream->socket = s;
    *out = stream;
    return MXW_OK;
}

static void engine_close(void *user) {
    engine_stream *stream = user;
    count_work(stream);
    mxw_live_close(stream->live);
    give_back(stream->socket);
    free(stream);
}

static mxw_status engine_feed(void *user, const float *samples, size_t n) {
    engine_stream *stream = user;
    return noted(stream->socket, mxw_live_feed(stream->live, samples, n));
}

static mxw_status engine_flush(void *user) {
    engine_stream *stream = user;
    return noted(stream->socket, mxw_live_flush(stream->live));
}

static mxw_status engine_finish(void *user) {
    engine_stream *stream = user;
    return noted(stream->socket, mxw_live_finish(stream->live));
}

static double engine_silence_s(void *user) { return rt_live_silence_s(((engine_stream *)user)->live); }

static mxw_status engine_next(void *user, const mxw_live_event **event) {
    engine_stream *stream = user;
    mxw_status status = mxw_live_next(stream->live, event);
    if (status == MXW_MORE)
        count_work(stream);
    return noted(stream->socket, status);
}

static int engine_has_model(void *context, const char *name) {
    rt_socket *s = context;
    return models_find(hub_server(s->hub)->models, name) >= 0;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void send_event(void *user, const char *text, size_t n) {
    rt_socket *s = user;
    rt_note *note = malloc(sizeof(*note) + n + 1);
    if (!note) {
        atomic_store(&s->stops, 1);
        return;
    }
    note->n = n;
    memcpy(note->text, text, n + 1);
    hub_count(s->hub, 0, 1, strstr(text, "{\"type\":\"error\"") == text);
    pthread_mutex_lock(&s->lock);
    notes_add(&s->outbox, note);
    if (s->outbox.bytes > SOCKET_OUTBOX_MOST)
        atomic_store(&s->stops, 1);   /* the hub drops it */
    pthread_mutex_unlock(&s->lock);
    hub_wake(s);
}

/* The next message; NULL: none waits and the worker is to end, or (with `wait` 0) none waits. */
static rt_note *take(rt_socket *s, int wait) {
    pthread_mutex_lock(&s->lock);
    while (wait && !s->inbox.first && !s->finishes && !atomic_load(&s->stops))
        pthread_cond_wait(&s->wake, &s->lock);
    size_t before = s->inbox.bytes;
    rt_note *note = atomic_load(&s->stops) ? NULL : notes_take(&s->inbox);
    int has_room = before > SOCKET_INBOX_MOST / 2 && s->inbox.bytes <= SOCKET_INBOX_MOST / 2;
    pthread_mutex_unlock(&s->lock);
    if (note) {
        int64_t waiting = hub_waiting(s->hub, -(int64_t)note->n);
        if (has_room || waiting + (int64_t)note->n > HUB_INBOX_MOST)
            hub_wake(s);   /* the client is read again */
    }
    return note;
}

static void run_session(rt_socket *s) {
    double heard_s = 0;
    int more = 1;
    while (more && !rt_session_is_broken(s->session)) {
        rt_note *note = take(s, 1);
        for (more = note != NULL; note; note = take(s, 0)) {
            double before_s = rt_session_audio_s(s->session);
            rt_session_take(s->session, note->text, note->n);
            free(note);
            hub_count(s->hub, 1, 0, 0);
            heard_s += rt_session_audio_s(s->session) - before_s;
            if (heard_s >= CATCH_UP_S || rt_session_is_broken(s->session))
                break;
        }
        heard_s = 0;
        rt_session_work(s->session);
    }
}

/* The server drains, or the session's time is over: what was being said is still told. */
static void say_goodbye(rt_socket *s) {
    rt_problem problem;
    int expired;
    rt_session_finish(s->session);
    pthread_mutex_lock(&s->lock);
    expired = s->expired;
    pthread_mutex_unlock(&s->lock);
    if (expired) {
        rt_problem_set(&problem, "session_expired", NULL, "Your session hit the maximum duration.");
        rt_session_tell(s->session, &problem);
    }
}

static void *work(void *user) {
    rt_socket *s = user;
    server_context *server = hub_server(s->hub);
    const rt_engine engine = {s,           engine_open, engine_close,     engine_feed,     engine_flush,
                              engine_finish, engine_next, engine_silence_s, engine_has_model};
    uint64_t seed = (uint64_t)server_now_ns();
    double limit_s = server->options->realtime_expiry_s;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed ^= (uint64_t)(uintptr_t)s;
    s->session = rt_session_open(&(rt_session_options){
        .engine = &engine, .dialect = s->start->dialect, .config = &s->start->config,
        .default_model = models_id(server->models, 0), .seed = seed, .user = s, .send = send_event,
        .expires_at = limit_s == MXW_NONE ? 0 : (int64_t)time(NULL) + (int64_t)limit_s});
    int code = WSLAY_CODE_INTERNAL_SERVER_ERROR;
    hub_wake(s); /* the hub knows of it from now on, and cannot free it before this thread has ended */
    if (s->session) {
        rt_session_begin(s->session);
        run_session(s);
        if (!rt_session_is_broken(s->session) && !atomic_load(&s->stops)) {
            say_goodbye(s);
            code = WSLAY_CODE_GOING_AWAY;
        }
    }
    s->audio_s = s->session ? rt_session_audio_s(s->session) : 0;
    rt_session_close(s->session);
    pthread_mutex_lock(&s->lock);
    s->session = NULL;
    s->close_code = code;
    snprintf(s->close_reason, sizeof(s->close_reason), "%s",
             code != WSLAY_CODE_GOING_AWAY ? "out of memory"
             : s->expired                  ? "the session has expired"
                                           : "the server is stopping");
    s->worker_ended = 1;
    pthread_mutex_unlock(&s->lock);
    hub_wake(s);
    return NULL;
}

int worker_start(rt_socket *s) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int started = pthread_create(&s->worker, &attributes, work, s) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}
