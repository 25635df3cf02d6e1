/* realtime/hub.c - see the header. The thread sleeps in epoll; a worker that has said something puts its socket into
 * the list of those to look at, and wakes it. */
#include "realtime/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "realtime/socket.h"

enum { EVENTS = 64, TICK_MS = 250 };
/* Seconds: a client that says nothing is asked, and gone if it does not answer; a message that does not end; one of
 * ours that is not read; a close that is not answered. */
enum { PING_AFTER_S = 30, PONG_WITHIN_S = 30, MESSAGE_WITHIN_S = 60, WRITE_WITHIN_S = 30, CLOSE_WITHIN_S = 5 };

struct realtime_hub {
    server_context *server;
    pthread_t thread;
    int epoll, wake;
    pthread_mutex_t closing;     /* held while libmicrohttpd closes a connection */
    pthread_mutex_t lock;
    rt_socket *first;            /* the thread's */
    rt_socket *ready;            /* under the lock: to look at, new ones too */
    int n_reserved;              /* places that are taken */
    int ends;
    realtime_counts counts;
};

server_context *hub_server(realtime_hub *hub) { return hub->server; }

void hub_wake(rt_socket *s) {
    realtime_hub *hub = s->hub;
    uint64_t one = 1;
    pthread_mutex_lock(&hub->lock);
    int is_new = !s->is_ready;
    if (is_new) {
        s->is_ready = 1;
        s->next_ready = hub->ready;
        hub->ready = s;
    }
    pthread_mutex_unlock(&hub->lock);
    if (is_new && write(hub->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
        server_log(hub->server, MXW_LOG_ERROR, "live sockets: cannot wake their thread");
}

void hub_count(realtime_hub *hub, int64_t messages, int64_t events, int64_t errors) {
    pthread_mutex_lock(&hub->lock);
    hub->counts.messages += messages;
    hub->counts.events += events;
    hub->counts.errors += errors;
    pthread_mutex_unlock(&hub->lock);
}

int64_t hub_waiting(realtime_hub *hub, int64_t change) {
    pthread_mutex_lock(&hub->lock);
    int64_t bytes = hub->counts.waiting_bytes += change;
    pthread_mutex_unlock(&hub->lock);
    return bytes;
}

void realtime_get_counts(realtime_hub *hub, realtime_counts *counts) {
    pthread_mutex_lock(&hub->lock);
    *counts = hub->counts;
    pthread_mutex_unlock(&hub->lock);
}

/* ---- a socket ends ----------------------------------------------------------------------------------------------- */

/* The worker's passes end, and it does. */
static void stop_worker(rt_socket *s) {
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stops, 1);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* Its client was too slow, or broke the rules. */
static void count_dropped(rt_socket *s) {
    pthread_mutex_lock(&s->hub->lock);
    s->hub->counts.dropped += !s->is_dropped;
    pthread_mutex_unlock(&s->hub->lock);
    s->is_dropped = 1;
}

/* libmicrohttpd 0.9.75 marks a connection as closed before it is done with closing it, and its thread that accepts
 * frees those with the mark whose own threads have ended: not before realtime_let_close. */
static void close_connection(realtime_hub *hub, struct MHD_UpgradeResponseHandle *handle) {
    pthread_mutex_lock(&hub->closing);
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    pthread_mutex_unlock(&hub->closing);
}

void realtime_let_close(realtime_hub *hub) {
    pthread_mutex_lock(&hub->closing);
    pthread_mutex_unlock(&hub->closing);
}

/* The connection is over, for whatever reason; the socket lives on until its worker has ended. */
static void disconnect(rt_socket *s, int dropped) {
    if (s->fd < 0)
        return;
    epoll_ctl(s->hub->epoll, EPOLL_CTL_DEL, s->fd, NULL);
    close_connection(s->hub, s->handle);
    s->fd = -1;
    stop_worker(s);
    if (dropped)
        count_dropped(s);
}

static void free_socket(rt_socket *s) {
    hub_waiting(s->hub, -(int64_t)(s->inbox.bytes + s->room));
    notes_free(&s->inbox);
    notes_free(&s->outbox);
    if (s->frames)
        wslay_event_context_free(s->frames);
    free(s->message);
    free(s->extra);
    free(s->start);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* At once with the count, so that who sees no socket open finds its place free. */
static void give_back_place(realtime_hub *hub, int was_open) {
    pthread_mutex_lock(&hub->lock);
    hub->n_reserved--;
    hub->counts.open -= was_open;
    pthread_mutex_unlock(&hub->lock);
    server_leave(hub->server);
}

/* s NULL: the connection did not become a socket after all. */
static void log_end(realtime_hub *hub, const realtime_start *start, const rt_socket *s) {
    access_sums sums = {.status = MHD_HTTP_SWITCHING_PROTOCOLS};
    if (s) {
        sums.bytes_in = s->n_received;
        sums.model = s->model;
        sums.audio_s = s->audio_s;
    }
    access_log_write_socket(hub->server->access_log, &start->note, &sums);
}

static void remove_socket(rt_socket *s) {
    realtime_hub *hub = s->hub;
    pthread_join(s->worker, NULL);
    if (s->before)
        s->before->after = s->after;
    else
        hub->first = s->after;
    if (s->after)
        s->after->before = s->before;
    pthread_mutex_lock(&hub->lock);
    for (rt_socket **at = &hub->ready; *at; at = &(*at)->next_ready)   /* it may have been put there meanwhile */
        if (*at == s) {
            *at = s->next_ready;
            break;
        }
    pthread_mutex_unlock(&hub->lock);
    log_end(hub, s->start, s);
    free_socket(s);
    give_back_place(hub, 1);
}

/* ---- a socket is looked at --------------------------------------------------------------------------------------- */

/* What the worker wants of the connection, and what it has still to say. */
static void heed_worker(rt_socket *s) {
    pthread_mutex_lock(&s->lock);
    int code = s->worker_ended && !s->outbox.first ? s->close_code : 0;
    int overflows = s->outbox.bytes > SOCKET_OUTBOX_MOST;
    char reason[sizeof(s->close_reason)];
    memcpy(reason, s->close_reason, sizeof(reason));
    pthread_mutex_unlock(&s->lock);
    if (overflows)
        disconnect(s, 1);
    else if (code && wslay_event_get_queued_msg_length(s->frames) == 0)   /* a close overtakes what is queued */
        frames_close(s, code, reason);
}

static void watch(rt_socket *s) {
    pthread_mutex_lock(&s->lock);
    int is_full = s->inbox.bytes > SOCKET_INBOX_MOST ||
                  (s->inbox.first && hub_waiting(s->hub, 0) > HUB_INBOX_MOST);
    pthread_mutex_unlock(&s->lock);
    unsigned wanted = (s->is_shut || s->close_queued || !is_full ? EPOLLIN : 0) |
                      (!s->is_shut && wslay_event_want_write(s->frames) ? EPOLLOUT : 0) | EPOLLRDHUP;
    if (wanted & EPOLLIN)
        wanted &= ~(unsigned)EPOLLRDHUP;   /* reading will tell */
    if (wanted == s->watched)
        return;
    struct epoll_event event = {.events = wanted, .data.ptr = s};
    if (epoll_ctl(s->hub->epoll, EPOLL_CTL_MOD, s->fd, &event) == 0)
        s->watched = wanted;
}

/* Both sides have said goodbye, or we have to one that broke the rules: the client sees the end of the stream, and what
 * it still sends is read away until it closes. */
static void shut_if_done(rt_socket *s) {
    if (s->is_shut || !wslay_event_get_close_sent(s->frames) || wslay_event_get_read_enabled(s->frames))
        return;
    s->is_shut = 1;
    if (!wslay_event_get_close_received(s->frames)) /* wslay closed it: it broke the rules */
        count_dropped(s);
    s->closed_ns = server_now_ns();
    shutdown(s->fd, SHUT_WR);
    stop_worker(s);
}

static void send_some(rt_socket *s) {
    if (!frames_send(s))
        disconnect(s, 0); /* the client is gone */
    else if (frames_pile_up(s))
        disconnect(s, 1);
}

static void attend(rt_socket *s, unsigned events) {
    if (s->fd >= 0 && s->is_shut) {
        if (events && !frames_discard(s))
            disconnect(s, 0);
        return;
    }
    if (s->fd >= 0 && events & EPOLLRDHUP && !(events & EPOLLIN))
        disconnect(s, 0);
    if (s->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !frames_receive(s))
        disconnect(s, 0);
    if (s->fd >= 0)
        heed_worker(s);
    if (s->fd >= 0)
        send_some(s);
    if (s->fd >= 0)
        heed_worker(s);   /* what was sent may have been the last */
    if (s->fd >= 0 && wslay_event_want_write(s->frames))
        send_some(s);
    if (s->fd >= 0 && s->close_queued && !s->closed_ns)
        s->closed_ns = server_now_ns();
    if (s->fd >= 0) {
        shut_if_done(s);
        watch(s);
    }
}

/* ---- deadlines --------------------------------------------------------------------------------------------------- */

static int is_over(int64_t since_ns, int64_t now_ns, double seconds) {
    return since_ns && (double)(now_ns - since_ns) * 1e-9 > seconds;
}

/* The worker ends what is being said, and says goodbye. */
static void finish_worker(rt_socket *s, int expired) {
    pthread_mutex_lock(&s->lock);
    s->expired |= expired && !s->finishes;
    s->finishes = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

/* With TLS libmicrohttpd 0.9.75 does not always pass on that a client has left, and asks for its bytes again and again
 * for as long as nobody closes. A client is given one look's time for what it sent last to come through. */
static int is_deserted(rt_socket *s) {
    struct pollfd peer = {s->peer, POLLRDHUP, 0};
    int left_before = s->has_left;
    s->has_left = s->peer != s->fd && poll(&peer, 1, 0) > 0;
    return left_before && s->has_left;
}

static void check_deadlines(rt_socket *s, int64_t now) {
    const server_options *o = s->hub->server->options;
    if (is_deserted(s)) {
        disconnect(s, 0);
        return;
    }
    int is_unread = is_over(s->unsent_ns, now, WRITE_WITHIN_S);
    int is_silent = s->pinged && is_over(s->heard_ns, now, PING_AFTER_S + PONG_WITHIN_S);
    if (is_over(s->closed_ns, now, CLOSE_WITHIN_S) || is_unread || is_silent) {
        disconnect(s, !s->is_shut);
        return;
    }
    if (s->close_queued)
        return;
    if (is_over(s->message_ns, now, MESSAGE_WITHIN_S)) {
        frames_close(s, WSLAY_CODE_POLICY_VIOLATION, "a message did not end in time");
        count_dropped(s);
    } else if (o->realtime_idle_s != MXW_NONE && is_over(s->used_ns, now, o->realtime_idle_s))
        frames_close(s, WSLAY_CODE_GOING_AWAY, "no message came for long");
    else if (!s->pinged && is_over(s->heard_ns, now, PING_AFTER_S) && s->watched & EPOLLIN) {
        s->pinged = 1;
        frames_ping(s);
    }
    if (o->realtime_expiry_s != MXW_NONE && is_over(s->opened_ns, now, o->realtime_expiry_s))
        finish_worker(s, 1);
    else if (server_is_draining(s->hub->server))
        finish_worker(s, 0);
    attend(s, 0);
}

static void check_all(realtime_hub *hub) {
    int64_t now = server_now_ns();
    int stops = server_is_stopping(hub->server);
    for (rt_socket *s = hub->first, *after; s; s = after) {
        after = s->after;
        if (s->fd >= 0)
            check_deadlines(s, now);
        if (s->fd >= 0 && stops)
            disconnect(s, 0);
        pthread_mutex_lock(&s->lock);
        int is_done = s->worker_ended && s->fd < 0;
        pthread_mutex_unlock(&s->lock);
        if (is_done)
            remove_socket(s);
    }
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void add_socket(rt_socket *s) {
    realtime_hub *hub = s->hub;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    s->watched = EPOLLIN;
    s->after = hub->first;
    if (s->after)
        s->after->before = s;
    hub->first = s;
    s->is_listed = 1;
    if (epoll_ctl(hub->epoll, EPOLL_CTL_ADD, s->fd, &event) != 0)
        disconnect(s, 0);
    else
        attend(s, EPOLLIN);   /* something may have come with the request */
}

static void look_at_ready(realtime_hub *hub) {
    uint64_t count;
    ssize_t got = read(hub->wake, &count, sizeof(count));
    (void)got;
    pthread_mutex_lock(&hub->lock);
    rt_socket *list = hub->ready;
    hub->ready = NULL;
    for (rt_socket *s = list; s; s = s->next_ready) {
        s->next_taken = s->next_ready;
        s->is_ready = 0;
    }
    pthread_mutex_unlock(&hub->lock);
    while (list) {
        rt_socket *s = list;
        list = s->next_taken;
        if (!s->is_listed)
            add_socket(s);
        else
            attend(s, 0);
    }
}

static void *run(void *user) {
    realtime_hub *hub = user;
    int64_t checked = 0;
    int ends = 0;
    while (!ends || hub->first) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(hub->epoll, events, EVENTS, hub->first || ends ? TICK_MS / (ends ? 10 : 1) : -1);
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr && ((rt_socket *)events[i].data.ptr)->fd >= 0)
                attend(events[i].data.ptr, events[i].events);
        look_at_ready(hub);
        int64_t now = server_now_ns();
        pthread_mutex_lock(&hub->lock);
        ends = hub->ends;
        pthread_mutex_unlock(&hub->lock);
        if (ends || now - checked > TICK_MS * 1000000ll) {
            check_all(hub);
            checked = now;
        }
    }
    return NULL;
}

realtime_hub *realtime_open(server_context *s) {
    realtime_hub *hub = calloc(1, sizeof(*hub));
    struct epoll_event event = {.events = EPOLLIN};
    if (!hub)
        return NULL;
    hub->server = s;
    pthread_mutex_init(&hub->closing, NULL);
    pthread_mutex_init(&hub->lock, NULL);
    hub->epoll = epoll_create1(EPOLL_CLOEXEC);
    hub->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hub->epoll >= 0 && hub->wake >= 0 && epoll_ctl(hub->epoll, EPOLL_CTL_ADD, hub->wake, &event) == 0 &&
        pthread_create(&hub->thread, NULL, run, hub) == 0)
        return hub;
    hub->ends = 1;
    realtime_close(hub);
    return NULL;
}

void realtime_stop(realtime_hub *hub) {
    uint64_t one = 1;
    if (!hub)
        return;
    pthread_mutex_lock(&hub->lock);
    hub->ends = 1;
    pthread_mutex_unlock(&hub->lock);
    if (write(hub->wake, &one, sizeof(one)) < 0)
        server_log(hub->server, MXW_LOG_ERROR, "live sockets: cannot wake their thread");
    pthread_join(hub->thread, NULL);
}

void realtime_close(realtime_hub *hub) {
    if (!hub)
        return;
    if (hub->epoll >= 0)
        close(hub->epoll);
    if (hub->wake >= 0)
        close(hub->wake);
    pthread_mutex_destroy(&hub->lock);
    pthread_mutex_destroy(&hub->closing);
    free(hub);
}

/* ---- new sockets ------------------------------------------------------------------------------------------------- */

int realtime_reserve(realtime_hub *hub) {
    if (!server_enter(hub->server))
        return 0;
    pthread_mutex_lock(&hub->lock);
    int may = !hub->ends && hub->n_reserved < hub->server->options->realtime_sockets;
    hub->n_reserved += may;
    hub->counts.refused += !may;
    pthread_mutex_unlock(&hub->lock);
    if (!may)
        server_leave(hub->server);
    return may;
}

void realtime_unreserve(realtime_hub *hub) { give_back_place(hub, 0); }

/* 1: it is the hub's, which its worker wakes, and may be over and freed by now. */
static int open_socket(realtime_hub *hub, realtime_start *start, const char *extra, size_t n_extra, int fd,
                       struct MHD_UpgradeResponseHandle *handle) {
    rt_socket *s = calloc(1, sizeof(*s));
    if (!s)
        return 0;
    int64_t now = server_now_ns();
    *s = (rt_socket){.hub = hub, .fd = fd, .peer = start->peer, .handle = handle, .start = start, .opened_ns = now,
                     .heard_ns = now, .used_ns = now};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    s->extra = n_extra ? malloc(n_extra) : NULL;
    if (s->extra)
        memcpy(s->extra, extra, n_extra);
    s->n_extra = s->extra ? n_extra : 0;
    int flags = fcntl(fd, F_GETFL);
    if (s->n_extra == n_extra && flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && frames_open(s) &&
        worker_start(s))
        return 1;
    s->start = NULL;
    free_socket(s);
    return 0;
}

void realtime_upgraded(realtime_hub *hub, realtime_start *start, const char *extra, size_t n_extra, int fd,
                       struct MHD_UpgradeResponseHandle *handle) {
    pthread_mutex_lock(&hub->lock);
    int ends = hub->ends;
    hub->counts.opened += !ends;
    hub->counts.open += !ends;
    pthread_mutex_unlock(&hub->lock);
    if (!ends && open_socket(hub, start, extra, n_extra, fd, handle))
        return;
    if (!ends) {
        server_log(hub->server, MXW_LOG_ERROR, "a live socket is closed at once: out of memory or threads");
        pthread_mutex_lock(&hub->lock);
        hub->counts.opened--;
        pthread_mutex_unlock(&hub->lock);
    }
    log_end(hub, start, NULL);
    free(start);
    close_connection(hub, handle);
    give_back_place(hub, !ends);
}
