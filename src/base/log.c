/* base/log.c - one sink for the process, guarded by a mutex. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mxw_log_fn sink;
static void *sink_user;
static mxw_log_level threshold;
static int64_t first_ns;

void mxw_log_set(mxw_log_level level, mxw_log_fn fn, void *user) {
    pthread_mutex_lock(&lock);
    threshold = level;
    sink = fn;
    sink_user = user;
    if (!first_ns)
        first_ns = mx_now_ns();
    pthread_mutex_unlock(&lock);
}

int mx_log_enabled(mxw_log_level level) {
    pthread_mutex_lock(&lock);
    int enabled = sink && level <= threshold;
    pthread_mutex_unlock(&lock);
    return enabled;
}

static void emit(mxw_log_level level, const char *component, double duration_ms, const char *format, va_list args) {
    char text[1024];
    if (!mx_log_enabled(level))
        return;
    vsnprintf(text, sizeof(text), format, args);
    for (char *p = text; *p; p++)
        if (*p == '\n')
            *p = ' ';
    pthread_mutex_lock(&lock);
    if (sink && level <= threshold) {
        mxw_log_message message = {level, component, text, (double)(mx_now_ns() - first_ns) / 1e6, duration_ms};
        sink(sink_user, &message);
    }
    pthread_mutex_unlock(&lock);
}

void mx_log(mxw_log_level level, const char *component, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(level, component, -1, format, args);
    va_end(args);
}

void mx_log_timed(mxw_log_level level, const char *component, double duration_ms, const char *format, ...) {
    va_list args;
    va_start(args, format);
    emit(level, component, duration_ms, format, args);
    va_end(args);
}
