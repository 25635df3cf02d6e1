/* base/status.c - the thread's last failure; the names and texts of the codes. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MX_ERROR_BYTES 1024

static _Thread_local char last_error[MX_ERROR_BYTES];

mxw_status mx_fail(mxw_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof(last_error), format, args);
    va_end(args);
    for (char *p = last_error; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    return code;
}

mxw_status mx_fail_in(mxw_status code, const char *format, ...) {
    char prefix[MX_ERROR_BYTES];
    char rest[MX_ERROR_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    memcpy(rest, last_error, sizeof(rest));
    return mx_fail(code, "%.500s: %.500s", prefix, rest);
}

const char *mx_error(void) { return last_error; }

const char *mxw_last_error(void) { return last_error; }

const char *mxw_status_name(mxw_status status) {
    switch (status) {
#define NAME(name, code, message)                                                                                      \
    case MXW_##name:                                                                                                   \
        return #name;
        MXW_STATUS_MAP(NAME)
#undef NAME
    }
    return "UNKNOWN";
}

const char *mxw_status_text(mxw_status status) {
    switch (status) {
#define TEXT(name, code, message)                                                                                      \
    case MXW_##name:                                                                                                   \
        return message;
        MXW_STATUS_MAP(TEXT)
#undef TEXT
    }
    return "unknown status";
}

const char *mxw_version(void) { return MXW_VERSION; }
