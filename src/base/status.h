/* base/status.h - failure as a return value.
 * A function that can fail returns mxw_status; the one that detects the error calls mx_fail, which stores one
 * line for the thread (mxw_last_error) and returns the code. Callers return the code unchanged. */
#ifndef MX_STATUS_H
#define MX_STATUS_H
#include "max_whisper.h"

/* Stores the error line and returns code. */
mxw_status mx_fail(mxw_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "prefix: " before the stored line, so that a caller can add the path that it knows. Returns code. */
mxw_status mx_fail_in(mxw_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *mx_error(void);

/* Propagates a failure: if (expr) is negative, it is assigned to status and control goes to label `out`. */
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
