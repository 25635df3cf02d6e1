/* base/status.h - failure as a return value.
 * A function that can fail returns mxw_status; the one that finds the fault calls mx_fail, which keeps one line
 * for the thread (mxw_last_error) and hands the code back. Callers pass the code on unchanged. */
#ifndef MX_STATUS_H
#define MX_STATUS_H
#include "max_whisper.h"

/* Records the line and returns code. */
mxw_status mx_fail(mxw_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before the recorded line, so that a caller can add the path it knows. Returns code. */
mxw_status mx_fail_in(mxw_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *mx_error(void);

/* Passes a failure on: if (expr) is negative, status gets it and control goes to label `out`. */
#define MX_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        status = (expr);                                                                                               \
        if (status < 0)                                                                                                \
            goto out;                                                                                                  \
    } while (0)

#define MX_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MX_MIN(a, b) ((a) < (b) ? (a) : (b))
#define MX_MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
