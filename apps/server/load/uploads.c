/* server/load/uploads.c - see uploads.h. */
#include "load/uploads.h"

#include <poll.h>

static const int64_t window_ns = (int64_t)UPLOAD_WINDOW_S * 1000000000;

void upload_begin(upload_list *list, upload *u, int fd, int64_t now_ns) {
    *u = (upload){.fd = fd, .since_ns = now_ns, .before = -1, .next = list->first};
    if (u->next)
        u->next->previous = u;
    list->first = u;
}

void upload_end(upload_list *list, upload *u) {
    *(u->previous ? &u->previous->next : &list->first) = u->next;
    if (u->next)
        u->next->previous = u->previous;
    u->previous = u->next = NULL;
}

/* A window that is over becomes the one before. */
static void turn(upload *u, int64_t now_ns) {
    int64_t windows = (now_ns - u->since_ns) / window_ns;
    if (windows < 1)
        return;
    u->before = windows == 1 ? u->bytes : 0;
    u->bytes = 0;
    u->since_ns += windows * window_ns;
}

void upload_arrived(upload *u, size_t n, int64_t now_ns) {
    turn(u, now_ns);
    u->bytes += (int64_t)n;
}

static double rate_of(const upload *u, int64_t now_ns) {
    return (double)(u->before + u->bytes) * 1e9 / (double)(window_ns + now_ns - u->since_ns);
}

static int has_bytes_waiting(const upload *u) {
    struct pollfd p = {.fd = u->fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && p.revents & POLLIN;
}

upload *uploads_slowest(upload_list *list, int64_t now_ns) {
    upload *slowest = NULL;
    double least = UPLOAD_LEAST_RATE;
    for (upload *u = list->first; u; u = u->next) {
        turn(u, now_ns);
        if (u->before >= 0 && rate_of(u, now_ns) < least && !has_bytes_waiting(u)) {
            slowest = u;
            least = rate_of(u, now_ns);
        }
    }
    return slowest;
}
