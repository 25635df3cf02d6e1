/* realtime/engine.h - what the protocol needs of live transcription: the functions of max_whisper/live.h behind a
 * table, so that tests can put another engine there.
 *
 * Invariants: a stream belongs to one thread at a time. Failures are those of max_whisper.h, with mxw_last_error.
 */
#ifndef REALTIME_ENGINE_H
#define REALTIME_ENGINE_H

#include "max_whisper.h"

typedef struct rt_stream_options {
    const char *model;               /* as the client calls it; "": the default */
    const char *language, *languages, *prompt;   /* NULL: none */
    int translates;                  /* into English */
    double threshold, start_pad_ms, pause_ms, margin_ms;
} rt_stream_options;

typedef struct rt_engine {
    void *context;
    mxw_status (*open)(void *context, const rt_stream_options *options, void **stream);
    void (*close)(void *stream);
    mxw_status (*feed)(void *stream, const float *samples, size_t n);
    mxw_status (*flush)(void *stream);
    mxw_status (*finish)(void *stream);
    /* As mxw_live_next, with announce_end. */
    mxw_status (*next)(void *stream, const mxw_live_event **event);
    double (*silence_s)(void *stream);
    int (*has_model)(void *context, const char *name);
} rt_engine;

#endif
