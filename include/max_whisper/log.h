/* max_whisper/log.h - log messages.
 *
 * The library prints nothing. Warnings (a damaged recording, a converter that is not bit-exact) and progress reports
 * reach a program only through the callback that it installs here.
 */
#ifndef MXW_LOG_H
#define MXW_LOG_H

#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxw_log_level {
    MXW_LOG_ERROR = 0,
    MXW_LOG_WARN = 1,
    MXW_LOG_INFO = 2,
    MXW_LOG_DEBUG = 3
} mxw_log_level;

/* Owned by the library and valid during the callback; fields may be added at the end. */
typedef struct mxw_log_message {
    mxw_log_level level;
    const char *component;   /* "audio", "weights", "decode", ... */
    const char *text;        /* one line, no newline */
    double elapsed_ms;       /* since logging was first turned on */
    double duration_ms;      /* of the work that the message reports; negative: it reports none */
} mxw_log_message;

typedef void (*mxw_log_fn)(void *user, const mxw_log_message *message);

/* Messages of this level and the more severe ones go to fn; fn NULL (the default) turns logging off. Process-wide. fn
 * may be called from any thread and must not call the library. */
MXW_API void mxw_log_set(mxw_log_level level, mxw_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
