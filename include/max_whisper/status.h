/* max_whisper/status.h - how functions report failure.
 *
 * A function that can fail returns an mxw_status: negative is failure, zero is success, positive is success with
 * information. After a failure mxw_last_error() has one line that names the file, option or tensor.
 */
#ifndef MXW_STATUS_H
#define MXW_STATUS_H

#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* New codes are added at the end; numbers never change. */
typedef enum mxw_status {
    MXW_OK = 0,
    MXW_END = 1,              /* nothing more to come */
    MXW_MORE = 2,             /* more audio is needed first */
    MXW_E_ARGUMENT = -1,      /* invalid argument */
    MXW_E_MEMORY = -2,        /* out of memory, on the host or on a device */
    MXW_E_IO = -3,            /* cannot read or write */
    MXW_E_FORMAT = -4,        /* malformed data */
    MXW_E_UNSUPPORTED = -5,   /* well-formed, but not supported */
    MXW_E_MISSING = -6,       /* something required is missing: a tensor, a track, a module */
    MXW_E_DEVICE = -7,        /* device not usable */
    MXW_E_STATE = -8,         /* call out of order, or a model whose file was changed while it was open */
    MXW_E_ABORTED = -9,       /* stopped by a callback */
    MXW_E_NOT_FOUND = -10,    /* no such file, name or index */
    MXW_E_INTERNAL = -11      /* a bug in the library */
} mxw_status;

#define MXW_NONE (-1e30)   /* "none", for the numbers in options that may be none */

MXW_API const char *mxw_status_name(mxw_status status);   /* "E_FORMAT"; "UNKNOWN" for a code of a newer library */
MXW_API const char *mxw_status_text(mxw_status status);   /* "malformed data" */
/* One line about the last failure on this thread, "" if there was none. Valid until the thread's next failure. */
MXW_API const char *mxw_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
