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

static const struct {
    mxw_status code;
    const char *name, *text;
} codes[] = {
    {MXW_OK, "OK", "success"},
    {MXW_END, "END", "nothing more to come"},
    {MXW_MORE, "MORE", "more audio is needed first"},
    {MXW_E_ARGUMENT, "E_ARGUMENT", "invalid argument"},
    {MXW_E_MEMORY, "E_MEMORY", "out of memory"},
    {MXW_E_IO, "E_IO", "cannot read or write"},
    {MXW_E_FORMAT, "E_FORMAT", "malformed data"},
    {MXW_E_UNSUPPORTED, "E_UNSUPPORTED", "not supported"},
    {MXW_E_MISSING, "E_MISSING", "something required is missing"},
    {MXW_E_DEVICE, "E_DEVICE", "device not usable"},
    {MXW_E_STATE, "E_STATE", "call out of order"},
    {MXW_E_ABORTED, "E_ABORTED", "stopped on request"},
    {MXW_E_NOT_FOUND, "E_NOT_FOUND", "not found"},
    {MXW_E_INTERNAL, "E_INTERNAL", "internal error"},
};

const char *mxw_status_name(mxw_status status) {
    for (size_t i = 0; i < MX_COUNT(codes); i++)
        if (codes[i].code == status)
            return codes[i].name;
    return "UNKNOWN";
}

const char *mxw_status_text(mxw_status status) {
    for (size_t i = 0; i < MX_COUNT(codes); i++)
        if (codes[i].code == status)
            return codes[i].text;
    return "unknown status";
}

const char *mxw_version(void) { return MXW_VERSION; }

int mxw_abi_version(void) { return MXW_ABI_VERSION; }
