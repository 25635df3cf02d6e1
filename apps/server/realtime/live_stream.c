/* realtime/live_stream.c - see the header. Decoding is as `max-whisper live` has it by default. */
#include "realtime/live_stream.h"

mxw_status rt_live_open(mxw_model *model, const rt_stream_options *o, const rt_live_hooks *hooks, mxw_live **out) {
    mxw_session_options decoding;
    mxw_live_options options;
    mxw_live_decoding_default(&decoding);
    decoding.language = o->language;
    decoding.languages = o->languages;
    decoding.initial_prompt = o->prompt;
    decoding.task = o->translates ? MXW_TRANSLATE : MXW_TRANSCRIBE;
    decoding.vad_threshold = o->threshold;
    decoding.user = hooks->user;
    decoding.should_abort = hooks->should_abort;
    mxw_live_options_default(&options);
    options.decoding = &decoding;
    options.pause_ms = o->pause_ms;
    options.margin_ms = o->margin_ms;
    options.start_pad_ms = o->start_pad_ms;
    options.announce_end = 1;
    options.user = hooks->user;
    options.now = hooks->now;
    return mxw_live_open(model, &options, out);
}

double rt_live_silence_s(const mxw_live *live) {
    mxw_live_stats stats = {.struct_size = sizeof(stats)};
    return mxw_live_get_stats(live, &stats) < 0 ? 0 : stats.silence_s;
}
