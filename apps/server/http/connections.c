/* server/http/connections.c - see connections.h. */
#include "http/connections.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "realtime/hub.h"

/* Seconds (--idle-timeout may leave less), and bytes a second after the first seconds of a body or an answer. */
enum { NEW_S = 30, SCARCE_S = 5, GRACE_S = 30, LEAST_RATE = 1024, LINGER_S = 5, LINGER_STEP_MS = 200 };

struct connection_record {
    connection_list *list;
    connection_record *before, *after;
    int fd;
    connection_phase phase;
    int64_t since_ns, moved_ns; /* the phase began; bytes moved last */
    int64_t bytes;              /* in this phase */
    int64_t acked;              /* of all answers on it */
    int shut;
};

struct connection_list {
    server_context *server;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    pthread_t watchdog;
    connection_record *first;
    int n, ends;
};

/* ---- the watchdog --------------------------------------------------------------------------------------- */

/* An answer is sent by libmicrohttpd, out of our sight: the system tells how much of it the client has. */
static void see_sent(connection_record *c, int64_t now) {
    struct tcp_info info;
    socklen_t n = sizeof(info);
    memset(&info, 0, sizeof(info));
    if (c->phase != CONNECTION_SENDING || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n))
        return;
    int64_t more = (int64_t)info.tcpi_bytes_acked - c->acked;
    if (more <= 0)
        return;
    c->bytes += c->acked ? more : 0;
    c->acked = (int64_t)info.tcpi_bytes_acked;
    c->moved_ns = now;
}

static double least(double a, double b) { return a < b ? a : b; }

static int is_late(const connection_record *c, int64_t now, int scarce) {
    double idle_s = c->list->server->options->idle_timeout_s, grace_s = least(GRACE_S, idle_s);
    double in_phase = (double)(now - c->since_ns) * 1e-9, still = (double)(now - c->moved_ns) * 1e-9;
    switch (c->phase) {
    case CONNECTION_NEW:
        return in_phase > least(scarce ? SCARCE_S : NEW_S, idle_s);
    case CONNECTION_IDLE:
        return in_phase > (scarce ? least(SCARCE_S, idle_s) : idle_s);
    case CONNECTION_RECEIVING:
    case CONNECTION_SENDING:
        return still > idle_s || (in_phase > grace_s && (double)c->bytes < (in_phase - grace_s) * LEAST_RATE);
    case CONNECTION_ENDING:
        return in_phase > LINGER_S;
    case CONNECTION_WORKING:
    case CONNECTION_UPGRADED:
        return 0;
    }
    return 0;
}

static void *watch(void *any) {
    connection_list *list = any;
    pthread_mutex_lock(&list->lock);
    while (!list->ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&list->ending, &list->lock, &until);
        int64_t now = server_now_ns();
        int scarce = list->n > list->server->options->max_connections / 4 * 3;
        for (connection_record *c = list->first; c; c = c->after) {
            see_sent(c, now);
            if (!c->shut && is_late(c, now, scarce)) {
                c->shut = 1;
                shutdown(c->fd, SHUT_RDWR); /* its thread wakes up and closes it */
            }
        }
    }
    pthread_mutex_unlock(&list->lock);
    return NULL;
}

/* ---- the list ------------------------------------------------------------------------------------------- */

connection_list *connections_open(server_context *s) {
    connection_list *list = calloc(1, sizeof(*list));
    if (!list)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    list->server = s;
    pthread_mutex_init(&list->lock, NULL);
    pthread_cond_init(&list->ending, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!pthread_create(&list->watchdog, NULL, watch, list))
        return list;
    pthread_cond_destroy(&list->ending);
    pthread_mutex_destroy(&list->lock);
    free(list);
    return NULL;
}

void connections_close(connection_list *list) {
    if (!list)
        return;
    pthread_mutex_lock(&list->lock);
    list->ends = 1;
    pthread_cond_signal(&list->ending);
    pthread_mutex_unlock(&list->lock);
    pthread_join(list->watchdog, NULL);
    pthread_cond_destroy(&list->ending);
    pthread_mutex_destroy(&list->lock);
    free(list);
}

int connections_count(connection_list *list) {
    pthread_mutex_lock(&list->lock);
    int n = list->n;
    pthread_mutex_unlock(&list->lock);
    return n;
}

void connection_enter(connection_record *c, connection_phase phase) {
    if (!c)
        return;
    pthread_mutex_lock(&c->list->lock);
    c->phase = phase;
    c->since_ns = c->moved_ns = server_now_ns();
    c->bytes = 0;
    pthread_mutex_unlock(&c->list->lock);
}

void connection_moved(connection_record *c, size_t bytes) {
    if (!c)
        return;
    pthread_mutex_lock(&c->list->lock);
    c->bytes += (int64_t)bytes;
    c->moved_ns = server_now_ns();
    pthread_mutex_unlock(&c->list->lock);
}

void connection_linger(connection_record *c, size_t most) {
    char bytes[1 << 14];
    connection_enter(c, CONNECTION_RECEIVING);
    shutdown(c->fd, SHUT_WR); /* the answer is with the system: the client sees its end */
    int64_t end = server_now_ns() + LINGER_S * (int64_t)1000000000;
    while (server_now_ns() < end && !server_is_stopping(c->list->server)) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        ssize_t n = poll(&p, 1, LINGER_STEP_MS) > 0 ? recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 0;
        if (n <= 0 && p.revents)
            return; /* the client has left, or the watchdog shut the socket */
        if ((size_t)n >= most)
            return;
        most -= (size_t)n;
        connection_moved(c, (size_t)n);
    }
}

/* A peer that vanished without a word is noticed by the system. */
static void keep_alive(int fd) {
    int on = 1, idle = 30, interval = 10, probes = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static void begin(connection_list *list, int fd, void **record) {
    connection_record *c = calloc(1, sizeof(*c));
    if (!c)
        return; /* its requests are refused */
    keep_alive(fd);
    *c = (connection_record){.list = list, .fd = fd, .phase = CONNECTION_NEW};
    c->since_ns = c->moved_ns = server_now_ns();
    pthread_mutex_lock(&list->lock);
    c->after = list->first;
    if (c->after)
        c->after->before = c;
    list->first = c;
    list->n++;
    pthread_mutex_unlock(&list->lock);
    *record = c;
}

static void end(connection_list *list, connection_record *c) {
    pthread_mutex_lock(&list->lock);
    if (c->before)
        c->before->after = c->after;
    else
        list->first = c->after;
    if (c->after)
        c->after->before = c->before;
    list->n--;
    pthread_mutex_unlock(&list->lock);
    free(c);
}

/* Before the socket is closed: the watchdog never sees the number of another one. */
void connection_notify(void *server, struct MHD_Connection *connection, void **record,
                       enum MHD_ConnectionNotificationCode what) {
    server_context *s = server;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && info)
        begin(s->connections, info->connect_fd, record);
    if (what != MHD_CONNECTION_NOTIFY_CLOSED)
        return;
    if (*record)
        end(s->connections, *record);
    realtime_let_close(s->realtime);
}
