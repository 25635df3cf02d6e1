/* pipeline/live/listen.c - finds utterances while samples come. Speech that lasts for some chunks opens one, a little
 * before where it began; silence that lasts for the pause closes it. Thresholds and hysteresis are Silero's. */
#include <math.h>

#include "base/base.h"
#include "pipeline/live/live.h"

#define LEAST_CHUNKS 3        /* of speech, 96 ms, that open an utterance: a click does not */
#define READ_CHUNKS 64

mxw_status mx_listener_open(mx_live *live) {
    mx_listener *l = &live->listener;
    const mxw_session_options *o = &live->decoding;
    mxw_vad_options options = {.struct_size = sizeof(options),
                               .model = o->vad_model,
                               .sample_rate = MXW_SAMPLE_RATE,
                               .threshold = o->vad_threshold,
                               .neg_threshold = MXW_NONE,
                               .max_speech_s = MXW_NONE,
                               .min_silence_ms = 100,
                               .min_silence_at_max_speech_ms = 98,
                               .cut_at_longest_pause = 1};
    l->threshold = (float)o->vad_threshold;
    l->neg_threshold = (float)fmax(o->vad_threshold - 0.15, 0.01);
    l->pad = (int64_t)(o->vad_pad_ms * MXW_SAMPLE_RATE / 1000);
    double start_pad_ms = live->options.start_pad_ms;
    l->start_pad = start_pad_ms == MXW_NONE ? l->pad : (int64_t)(start_pad_ms * MXW_SAMPLE_RATE / 1000);
    l->pause = (int64_t)(live->options.pause_ms * MXW_SAMPLE_RATE / 1000);
    l->silence = -1;
    return mx_recognizer_detector(live->recognizer, &options, 0, &l->detector);
}

static mx_utterance *open_one(mx_listener *l) {
    mx_utterance *last = l->n_waiting ? &l->waiting[l->n_waiting - 1] : NULL;
    return last && last->end < 0 ? last : NULL;
}

static void begin(mx_live *live) {
    mx_listener *l = &live->listener;
    int64_t earliest = MX_MAX(l->last_end, live->first);   /* a run may have begun long ago, with doubtful speech */
    l->waiting[l->n_waiting++] = (mx_utterance){.id = l->n_utterances++,
                                                .start = MX_MAX(l->run_start - l->start_pad, earliest),
                                                .end = -1,
                                                .speech_start = MX_MAX(l->run_start, earliest),
                                                .offset_s = live->offset_s};
    l->run = 0;
    l->silence = -1;
}

/* What is heard of it reaches a little into the silence, but not to what is not there yet. */
static void end(mx_live *live, int64_t speech_end) {
    mx_listener *l = &live->listener;
    mx_utterance *u = open_one(l);
    u->speech_end = MX_MIN(speech_end, live->fed);
    u->end = MX_MIN(u->speech_end + MX_MIN(l->pad, l->pause), live->fed);
    l->last_end = u->end;
    l->silence = -1;
    l->run = 0;
}

static void hear_chunk(mx_live *live, float p) {
    mx_listener *l = &live->listener;
    int64_t start = l->n_chunks * MX_SPEECH_CHUNK;
    l->n_chunks++;
    l->probability = p;
    if (!open_one(l)) {
        if (p >= l->threshold && l->run++ == 0)
            l->run_start = start;
        if (p < l->neg_threshold && start + MX_SPEECH_CHUNK <= live->fed)   /* not the padding of the last chunk */
            l->run = 0;
        if (l->run >= LEAST_CHUNKS && l->n_waiting < MX_LIVE_UTTERANCES)
            begin(live);
        return;
    }
    if (p >= l->threshold)
        l->silence = -1;
    else if (p < l->neg_threshold && l->silence < 0)
        l->silence = start;
    if (l->silence >= 0 && start + MX_SPEECH_CHUNK - l->silence >= l->pause)
        end(live, l->silence);
}

static mxw_status read_chunks(mx_live *live) {
    float chunks[READ_CHUNKS];
    size_t got;
    mx_listener *l = &live->listener;
    do {
        mxw_vad_region region = {.struct_size = sizeof(region)};
        mxw_status status = l->detector.probabilities(l->detector.context, chunks, READ_CHUNKS, &got);
        while (status >= 0 && l->detector.next(l->detector.context, &region) == MXW_OK)
            continue;   /* its own regions are not used; they must not pile up */
        if (status < 0)
            return status;
        for (size_t i = 0; i < got; i++)
            hear_chunk(live, chunks[i]);
    } while (got > 0);
    return MXW_OK;
}

mxw_status mx_listener_feed(mx_live *live, const float *samples, size_t n) {
    mx_listener *l = &live->listener;
    mxw_status status = l->detector.feed(l->detector.context, samples, n);
    return status < 0 ? status : read_chunks(live);
}

/* Speech that began with the last samples counts, however short it is. */
mxw_status mx_listener_finish(mx_live *live) {
    mx_listener *l = &live->listener;
    mxw_status status = l->detector.finish(l->detector.context);
    if (status >= 0)
        status = read_chunks(live);
    if (status >= 0)
        mx_listener_cut(live);
    return status;
}

void mx_listener_cut(mx_live *live) {
    mx_listener *l = &live->listener;
    if (!open_one(l) && l->run > 0 && l->n_waiting < MX_LIVE_UTTERANCES)
        begin(live);
    mx_utterance *u = open_one(l);
    if (u) {
        end(live, l->silence >= 0 ? l->silence : live->fed);
        u->breaks_off = live->fed - u->speech_end < MX_LIVE_PAUSE_BEGINS;
    }
    l->run = 0;
}
