/* base/log.h - structured log messages to the caller's sink; nothing is printed here. */
#ifndef MX_LOG_H
#define MX_LOG_H
#include "base/status.h"

void mx_log(mxw_log_level level, const char *component, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same, with how long the reported work took. */
void mx_log_timed(mxw_log_level level, const char *component, double duration_ms, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
int mx_log_enabled(mxw_log_level level);
#endif
