/* server/http/listen.c - see listen.h. */
#include "http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/connections.h"
#include "http/request.h"
#include "http/tls.h"

enum { BACKLOG = 1024, STACK_BYTES = 256 << 10, SPARE_FILES = 256 };

/* ---- the socket ----------------------------------------------------------------------------------------- */

static int bind_one(const struct addrinfo *address) {
    int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, address->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, BACKLOG))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int open_socket(const server_options *o, char *message, size_t size) {
    char port[16];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    snprintf(port, sizeof(port), "%d", o->port);
    int problem = getaddrinfo(o->host, port, &hints, &found);
    if (problem) {
        snprintf(message, size, "--host: '%s': %s", o->host, gai_strerror(problem));
        return -1;
    }
    int fd = -1, why = 0;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = bind_one(a);
        why = errno;
    }
    freeaddrinfo(found);
    if (fd < 0)
        snprintf(message, size, "cannot listen on %s, port %d: %s", o->host, o->port, strerror(why));
    return fd;
}

/* A descriptor for each connection, and as many again: its upload. */
static void raise_file_limit(int connections) {
    struct rlimit limit;
    rlim_t wanted = 2 * (rlim_t)connections + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- libmicrohttpd -------------------------------------------------------------------------------------- */

/* Paths stay as they came, so that %2F is no border of a part; a value is decoded where it is needed. */
static size_t keep_escapes(void *user, struct MHD_Connection *connection, char *text) {
    (void)user;
    (void)connection;
    return strlen(text);
}

static void log_line(void *server, const char *format, va_list arguments) {
    char line[512];
    vsnprintf(line, sizeof(line), format, arguments);
    line[strcspn(line, "\r\n")] = 0;
    server_log(server, MXW_LOG_DEBUG, "http: %s", line);
}

int listen_start(server_context *s, char *message, size_t size) {
    const server_options *o = s->options;
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_ITC | MHD_USE_ERROR_LOG |
                     MHD_ALLOW_UPGRADE;
    if (o->tls_cert && !tls_open(o, message, size))
        return 0;
    raise_file_limit(o->max_connections);
    int fd = open_socket(o, message, size);
    if (fd < 0)
        return 0;
    if (o->tls_cert)
        flags |= MHD_USE_TLS;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, request_handle, s, MHD_OPTION_EXTERNAL_LOGGER, log_line, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, s, MHD_OPTION_NOTIFY_CONNECTION, connection_notify, s,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, s, MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_BYTES, o->tls_cert ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, tls_certificate,
        MHD_OPTION_HTTPS_PRIORITIES, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
        MHD_OPTION_END); /* the first END counts; the callback cannot be in an MHD_OPTION_ARRAY */
    if (s->daemon)
        return 1;
    snprintf(message, size, "the HTTP server does not start: %s", strerror(errno));
    close(fd);
    return 0;
}

void listen_stop(server_context *s) {
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
    tls_close();
}

void listen_address(const server_context *s, char *text, size_t size) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    char host[64] = "?", port[16] = "?";
    if (info && !getsockname(info->listen_fd, (struct sockaddr *)&address, &length))
        getnameinfo((struct sockaddr *)&address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV);
    int v6 = address.ss_family == AF_INET6;
    snprintf(text, size, "%s://%s%s%s:%s", s->options->tls_cert ? "https" : "http", v6 ? "[" : "", host, v6 ? "]" : "",
             port);
}
