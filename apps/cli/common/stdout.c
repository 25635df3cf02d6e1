/* cli/common/stdout.c - stdio on standard output, with the first error remembered. */
#include "common/stdout.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/progress.h"

static atomic_int failed; /* asked by every thread that works */

static int note_failure(void) {
    char message[256];
    int said = errno == EPIPE; /* with SIGPIPE ignored this is how `| head` ends: nothing to say */
    snprintf(message, sizeof(message), "standard output: %s",
             errno == EBADF ? "is not open for writing" : strerror(errno));
    if (!atomic_exchange(&failed, 1) && !said)
        log_print(MXW_LOG_ERROR, message); /* of no recording in particular */
    return -1;
}

int out_write(void *user, const void *bytes, size_t n) {
    (void)user;
    if (failed)
        return -1;
    progress_hide();
    return fwrite(bytes, 1, n, stdout) == n ? 0 : note_failure();
}

int out_text(const char *text) { return out_write(NULL, text, strlen(text)); }

int out_print(const char *format, ...) {
    if (failed)
        return -1;
    progress_hide();
    va_list args;
    va_start(args, format);
    int n = vprintf(format, args);
    va_end(args);
    return n >= 0 ? 0 : note_failure();
}

int out_flush(void) {
    if (failed)
        return -1;
    progress_hide();
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : note_failure();
}

int out_failed(void) { return failed; }
