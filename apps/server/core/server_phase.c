/* server/core/server_phase.c - serving, draining, stopping; and how many things a drain waits for. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/server_context.h"

struct server_phase {
    pthread_mutex_t lock;
    pthread_cond_t left;
    int n_inside;
    atomic_int draining, stopping;
    int stop_fd;
};

int server_phase_open(server_context *s) {
    struct server_phase *p = calloc(1, sizeof(*p));
    if (!p)
        return 0;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->left, &attributes);
    pthread_condattr_destroy(&attributes);
    p->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->phase = p;
    return p->stop_fd >= 0;
}

void server_phase_close(server_context *s) {
    struct server_phase *p = s->phase;
    if (!p)
        return;
    if (p->stop_fd >= 0)
        close(p->stop_fd);
    pthread_cond_destroy(&p->left);
    pthread_mutex_destroy(&p->lock);
    free(p);
    s->phase = NULL;
}

int server_enter(server_context *s) {
    struct server_phase *p = s->phase;
    pthread_mutex_lock(&p->lock);
    int may = !p->draining;
    p->n_inside += may;
    pthread_mutex_unlock(&p->lock);
    return may;
}

void server_leave(server_context *s) {
    struct server_phase *p = s->phase;
    pthread_mutex_lock(&p->lock);
    if (--p->n_inside == 0)
        pthread_cond_broadcast(&p->left);
    pthread_mutex_unlock(&p->lock);
}

int server_is_draining(const server_context *s) { return atomic_load(&s->phase->draining); }

int server_is_stopping(const server_context *s) { return atomic_load(&s->phase->stopping); }

int server_stop_fd(const server_context *s) { return s->phase->stop_fd; }

void server_begin_drain(server_context *s) {
    pthread_mutex_lock(&s->phase->lock);
    atomic_store(&s->phase->draining, 1);
    pthread_mutex_unlock(&s->phase->lock);
}

int server_wait_empty(server_context *s, double seconds) {
    struct server_phase *p = s->phase;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&p->lock);
    int late = 0;
    while (p->n_inside > 0 && !late)
        late = pthread_cond_timedwait(&p->left, &p->lock, &until) != 0;
    int empty = p->n_inside == 0;
    pthread_mutex_unlock(&p->lock);
    return empty;
}

void server_stop_now(server_context *s) {
    uint64_t one = 1;
    server_begin_drain(s);
    atomic_store(&s->phase->stopping, 1);
    if (write(s->phase->stop_fd, &one, sizeof(one)) < 0)
        server_log(s, MXW_LOG_ERROR, "cannot wake what still runs");
}

void server_log(const server_context *s, mxw_log_level level, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    s->host->log(level, line);
}

int64_t server_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
