/* api/live.c - the public functions of live streams, over pipeline/. */
#include "api/api.h"
#include "base/arrays.h"
#include "base/base.h"
#include "pipeline/pipeline.h"

#define MOST_PAD_MS 5000   /* more of the past is not kept */

void (mxw_live_options_default)(mxw_live_options *options, size_t struct_size) {
    const mxw_live_options full = {
        .pause_ms = 500, .step_ms = 500, .margin_ms = 1000, .cut_s = 12, .start_pad_ms = MXW_NONE};
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

void (mxw_live_decoding_default)(mxw_session_options *options, size_t struct_size) {
    mxw_session_options full;
    mxw_session_options_default(&full);
    full.guard = MXW_GUARD_DROP;
    full.temperature_increment = MXW_NONE;
    full.condition_on_previous_text = 0;
    mx_give_defaults(options, struct_size, &full, sizeof(full));
}

static mxw_status check(const mxw_live_options *o) {
    const mx_range ranges[] = {
        {"policy", o->policy, MXW_LIVE_AGREEMENT, MXW_LIVE_ALIGNATT, 0},
        {"pause_ms", o->pause_ms, 100, 10000, 0},
        {"step_ms", o->step_ms, 20, 10000, 0},
        {"margin_ms", o->margin_ms, 0, 10000, 0},
        {"cut_s", o->cut_s, 2, 25, 0},
        {"keep_result", o->keep_result, 0, 1, 0},
        {"start_pad_ms", o->start_pad_ms, 0, MOST_PAD_MS, 1},
        {"announce_end", o->announce_end, 0, 1, 0},
    };
    return mx_check_ranges(ranges, MX_COUNT(ranges));
}

/* What has no meaning in a stream must not look as if it had. Three switches may be set, as it does that anyway:
 * vad, word_timestamps, without_timestamps. */
static mxw_status check_decoding(const mxw_session_options *o) {
    mxw_session_options usual;
    mxw_session_options_default(&usual);
    const struct {
        const char *name;
        int is_set;
    } options[] = {
        {"clip_timestamps", o->clip_timestamps && *o->clip_timestamps && strcmp(o->clip_timestamps, "0") != 0},
        {"start_s", o->start_s != 0},
        {"parallel", o->parallel != 0},
        {"prefix", o->prefix != NULL},
        {"carry_initial_prompt", o->carry_initial_prompt != 0},
        {"max_initial_timestamp", o->max_initial_timestamp != usual.max_initial_timestamp},
        {"hallucination_silence_threshold", o->hallucination_silence_threshold != MXW_NONE},
        {"token_details", o->token_details != 0},
        {"mel_reference", o->mel_reference != usual.mel_reference},
        {"on_progress", o->on_progress != NULL},
        {"on_segment", o->on_segment != NULL},
        {"on_window", o->on_window != NULL},
        {"vad_min_silence_ms", o->vad_min_silence_ms != usual.vad_min_silence_ms},   /* it is pause_ms */
        {"vad_min_speech_ms", o->vad_min_speech_ms != usual.vad_min_speech_ms},
        {"vad_max_speech_s", o->vad_max_speech_s != usual.vad_max_speech_s},
    };
    for (size_t i = 0; i < MX_COUNT(options); i++)
        if (options[i].is_set)
            return mx_fail(MXW_E_ARGUMENT, "%s: has no meaning in a live stream", options[i].name);
    if (o->vad_pad_ms > MOST_PAD_MS)
        return mx_fail(MXW_E_ARGUMENT, "vad_pad_ms: %g is more than %d in a live stream", o->vad_pad_ms, MOST_PAD_MS);
    return MXW_OK;
}

mxw_status mxw_live_open(mxw_model *model, const mxw_live_options *options, mxw_live **out) {
    mxw_live_options full;
    mxw_session_options decoding;
    mxw_status status = MXW_OK;
    MX_NEED(model, MXW_E_ARGUMENT);
    MX_NEED(out, MXW_E_ARGUMENT);
    *out = NULL;
    mxw_live_options_default(&full);
    if (options)
        status = mx_take_options(&full, sizeof(full), options, options->struct_size, "mxw_live_options");
    if (status >= 0)
        status = check(&full);
    if (status < 0)
        return status;
    mxw_live_decoding_default(&decoding);
    status = mx_take_session_options(full.decoding ? full.decoding : &decoding, &decoding);
    if (status >= 0)
        status = check_decoding(&decoding);
    full.decoding = &decoding;
    return status < 0 ? status : mx_live_open(model, &full, out);
}

void mxw_live_close(mxw_live *live) { mx_live_close(live); }

mxw_status mxw_live_feed(mxw_live *live, const float *samples, size_t n) {
    MX_NEED(live, MXW_E_ARGUMENT);
    if (n)
        MX_NEED(samples, MXW_E_ARGUMENT);
    mxw_status status = mx_check_samples(samples, n);
    return status < 0 ? status : mx_live_feed(live, samples, n);
}

mxw_status mxw_live_gap(mxw_live *live, double seconds) {
    MX_NEED(live, MXW_E_ARGUMENT);
    if (!(seconds >= 0 && seconds <= 1e9))
        return mx_fail(MXW_E_ARGUMENT, "gap: %g seconds cannot be", seconds);
    return mx_live_gap(live, seconds);
}

mxw_status mxw_live_flush(mxw_live *live) {
    MX_NEED(live, MXW_E_ARGUMENT);
    return mx_live_flush(live);
}

mxw_status mxw_live_finish(mxw_live *live) {
    MX_NEED(live, MXW_E_ARGUMENT);
    return mx_live_finish(live);
}

mxw_status mxw_live_next(mxw_live *live, const mxw_live_event **event) {
    MX_NEED(live, MXW_E_ARGUMENT);
    MX_NEED(event, MXW_E_ARGUMENT);
    return mx_live_next(live, event);
}

const mxw_word *mxw_live_event_word(const mxw_live_event *event, size_t i) {
    return event && i < event->n_words ? &((const mxw_word *)(const void *)event->words)[i] : NULL;
}

const mxw_result *mxw_live_result(mxw_live *live) {
    MX_NEED(live, NULL);
    return mx_live_result(live);
}

mxw_status mxw_live_get_stats(const mxw_live *live, mxw_live_stats *stats) {
    MX_NEED(live, MXW_E_ARGUMENT);
    MX_NEED(stats, MXW_E_ARGUMENT);
    mxw_live_stats full = {0};
    mx_live_get_stats(live, &full);
    return MX_GIVE(stats, &full);
}
