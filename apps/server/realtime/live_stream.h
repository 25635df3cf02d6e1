/* realtime/live_stream.h - a live stream with the options of a session: from rt_stream_options to mxw_live. */
#ifndef REALTIME_LIVE_STREAM_H
#define REALTIME_LIVE_STREAM_H

#include "realtime/engine.h"

typedef struct rt_live_hooks {
    void *user;
    int (*should_abort)(void *user);   /* NULL: never */
    double (*now)(void *user);         /* NULL: the system's clock */
} rt_live_hooks;

mxw_status rt_live_open(mxw_model *model, const rt_stream_options *options, const rt_live_hooks *hooks, mxw_live **out);
double rt_live_silence_s(const mxw_live *live);

#endif
