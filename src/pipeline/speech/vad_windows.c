/* pipeline/speech/vad_windows.c - windows with vad: where they begin and end, what of a recording is skipped. A window
 * never begins in silence, ends at a pause where there is one, and never crosses the end of a clip; times stay those of
 * the recording. See docs/decoding.md. */
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

#define LAST_PART (10 * MX_MEL_RATE)     /* of a window, in which it preferably ends */
#define LARGER_PART (20 * MX_MEL_RATE)   /* the same where there is no pause in the last part */
#define LEAST_PAUSE (MX_MEL_RATE / 10)   /* what counts as a pause there */
#define LEFT_OVER (3 * MX_MEL_RATE / 10)   /* speech after the last time of a window's text that is decoded again ... */
#define LEFT_OUT (1 * MX_MEL_RATE)         /* ... and if the text says that nothing follows */
#define LEAST_PROGRESS (1 * MX_MEL_RATE)   /* of a window that is followed by another one inside it */

void mx_session_lock(const mx_session *s) {
    if (s->lock)
        pthread_mutex_lock(s->lock);
}

void mx_session_unlock(const mx_session *s) {
    if (s->lock)
        pthread_mutex_unlock(s->lock);
}

int mx_session_has_threads(const mx_session *s) { return s->recognizer->batch == 1 || s->options.parallel; }

void mx_session_share(mx_session *s) {
    if (!s->lock)
        pthread_mutex_init(&s->data_lock, NULL);
    s->lock = &s->data_lock;
}

void mx_session_unshare(mx_session *s) {
    if (s->lock)
        pthread_mutex_destroy(&s->data_lock);
    s->lock = NULL;
}

/* Speech is found while the log-mel is computed and the first windows are decoded, unless something has to know all of
 * it before: records of windows, the guard, languages; or text has to come at the same samples each time. */
static int hears_beside(const mxw_session_options *o) {
    return o->vad && o->mel_reference == MXW_MEL_FILE && !o->on_window && !o->guard && !o->languages;
}

/* It may have become known since the caller looked: so once more after that. */
int mx_session_await_speech(mx_session *s) {
    if (!s->finished || !s->options.vad || s->heard_all)
        return 0;
    mx_session_lock(s);
    int pending = mx_speech_pending(s->speech);
    mxw_status status = pending ? mx_speech_wait(s->speech) : MXW_OK;
    mx_session_unlock(s);
    s->heard_all = !pending;
    if (status >= 0)
        status = mx_session_stop_if_asked(s);
    return status < 0 ? status : 1;
}

static mxw_vad_options vad_options(const mx_session *s) {
    const mxw_session_options *o = &s->options;
    return (mxw_vad_options){.struct_size = sizeof(mxw_vad_options),
                             .model = o->vad_model,
                             .sample_rate = MXW_SAMPLE_RATE,
                             .threshold = o->vad_threshold,
                             .neg_threshold = MXW_NONE,
                             .min_speech_ms = o->vad_min_speech_ms,
                             .max_speech_s = o->vad_max_speech_s,
                             .min_silence_ms = o->vad_min_silence_ms,
                             .pad_ms = o->vad_pad_ms,
                             .min_silence_at_max_speech_ms = 98,
                             .cut_at_longest_pause = 1};
}

mxw_status mx_session_open_levelled(mx_session *s) {
    mxw_status status;
    mx_detector detector;
    mxw_vad_options options = vad_options(s);
    MX_TRY(mx_level_open(&s->level));
    MX_TRY(mx_recognizer_detector(s->recognizer, &options, mx_session_has_threads(s), &detector));
    MX_TRY(mx_speech_open(&detector, &options, &s->levelled));
out:
    return status;
}

mxw_status mx_session_open_speech(mx_session *s) {
    mxw_status status;
    mx_detector detector;
    mxw_vad_options options = vad_options(s);
    MX_TRY(mx_recognizer_detector(s->recognizer, &options, mx_session_has_threads(s), &detector));
    s->detector_sha256 = detector.sha256;
    MX_TRY(mx_speech_open(&detector, &options, &s->speech));
    if (hears_beside(&s->options)) {
        mx_session_share(s);
        mx_speech_start(s->speech, s->lock);
    }
    if (s->options.guard)
        MX_TRY(mx_session_open_levelled(s));
out:
    return status;
}

/* ---- where windows begin and end --------------------------------------------------------------------------------- */

mxw_status mx_session_plan_clips(mx_session *s) {
    mx_position *at = &s->at;
    mx_clip clip;
    while (!at->all_known) {
        mx_clip_state state = mx_clip_next(&at->plan, s->speech, &clip);
        at->all_known = state == MX_CLIP_NONE;
        if (state == MX_CLIP_NONE || state == MX_CLIP_UNKNOWN)
            break;
        if (!at->growing) {
            mxw_status status = mx_grow(&at->clips, &at->room_clips, (size_t)at->n_clips + 1, sizeof(*at->clips));
            if (status < 0)
                return status;
            at->n_clips++;
        }
        at->clips[at->n_clips - 1] = clip;
        at->growing = state == MX_CLIP_GROWING;
        if (at->growing)
            break;
    }
    return MXW_OK;
}

int64_t mx_session_cut_clip(const mx_session *s, int64_t seek, int64_t end, int64_t *pause) {
    int64_t last = seek + MX_MEL_WINDOW;
    *pause = 0;
    if (end <= last)
        return end;
    int64_t cut = mx_speech_cut(s->speech, last - LAST_PART, last, pause);
    if (*pause < LEAST_PAUSE) {
        int64_t longer, earlier = mx_speech_cut(s->speech, last - LARGER_PART, last, &longer);
        if (longer >= LEAST_PAUSE) {
            *pause = longer;
            return earlier;
        }
        *pause = 0;
    }
    return cut;
}

mxw_status mx_session_choose_speech(mx_session *s, mx_choice *choice) {
    mx_position *at = &s->at;
    mxw_status status = mx_session_plan_clips(s);
    for (; status >= 0 && at->clip < at->n_clips; at->clip++, at->seek = 0) {
        const mx_clip *clip = &at->clips[at->clip];
        int growing = at->growing && at->clip == at->n_clips - 1;
        int64_t seek = mx_speech_next(s->speech, MX_MAX(at->seek, clip->start), clip->end), pause;
        if (growing && clip->end - seek <= MX_MEL_WINDOW)
            return MXW_MORE;
        if (seek >= clip->end)
            continue;
        at->seek = seek;
        choice->n_frames = mx_session_cut_clip(s, seek, clip->end, &pause) - seek;
        choice->closed = clip->end - seek <= MX_MEL_WINDOW || pause > 0;
        if (!choice->closed)   /* as without vad: what the window's edge cuts is decoded again */
            choice->n_frames = MX_MEL_WINDOW;
        return mx_session_has_frames(s, seek + choice->n_frames) ? MXW_OK : MXW_MORE;
    }
    return status < 0 ? status : at->all_known ? MXW_END : MXW_MORE;
}

void mx_session_go_on(const mx_session *s, mx_cut *cut) {
    int64_t seek = s->at.seek, window_end = seek + cut->n_frames;
    double end_s;
    cut->seek = MX_MIN(cut->seek, window_end);
    if (!cut->closed || cut->dropped || s->options.hallucination_silence_threshold != MXW_NONE)
        return;
    cut->seek = window_end;
    if (!mx_session_last_end(s, &end_s))
        return;
    int64_t end = (int64_t)(end_s * MX_MEL_RATE + 0.5);
    mx_session_lock(s);
    int64_t left = mx_speech_amount(s->speech, end, window_end);
    mx_session_unlock(s);
    if (end - seek < LEAST_PROGRESS || left < (cut->lone_end ? LEFT_OUT : LEFT_OVER))
        return;
    cut->seek = end;
    mx_log(MXW_LOG_INFO, "decode", "window at %.2f s: its text ends at %.2f s, but %.2f s of speech follow in it",
           mx_mel_frames_to_s(seek), end_s, mx_mel_frames_to_s(left));
}

int mx_session_lost_text(const mx_session *s, const mx_choice *choice, const mx_decode_result *result) {
    size_t kept = s->options.carry_initial_prompt ? s->at.n_initial_prompt : 0;
    int prompted = s->at.tokens.n > MX_MAX(s->at.prompt_reset_since, kept);
    if (!prompted || (*result->text && !mx_is_silence(result, &s->thresholds)))
        return 0;
    mx_session_lock(s);
    int64_t speech = mx_speech_amount(s->speech, s->at.seek, s->at.seek + choice->n_frames);
    mx_session_unlock(s);
    if (speech >= LEFT_OUT)
        mx_log(MXW_LOG_INFO, "decode", "window at %.2f s: no text for %.2f s of speech: decoded again without the text "
               "before it", mx_mel_frames_to_s(s->at.seek), mx_mel_frames_to_s(speech));
    return speech >= LEFT_OUT;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* Frames of what was wanted, as far as the recording goes, that are in no clip. */
static int64_t skipped_frames(const mx_session *s) {
    int64_t frames = mx_mel_frames(s->mel), skipped = 0;
    if (!s->at.all_known)
        frames = s->at.n_clips > 0 ? MX_MIN(frames, s->at.clips[s->at.n_clips - 1].end) : 0;
    for (int i = 0; i < s->at.plan.n_wanted; i++) {
        const mx_clip *wanted = &s->at.plan.wanted[i];
        skipped += MX_MAX(MX_MIN(wanted->end, frames) - wanted->start, 0);
    }
    for (int i = 0; i < s->at.n_clips; i++)
        skipped -= s->at.clips[i].end - s->at.clips[i].start;
    return MX_MAX(skipped, 0);
}

static mxw_status add_region(mx_session *s, int64_t first, int64_t end, const mx_language_span *span) {
    size_t i = s->result.n_regions;
    mxw_status status = mx_grow(&s->regions, &s->room_regions, i + 1, sizeof(*s->regions));
    if (status < 0)
        return status;
    s->regions[i] = (mxw_region){.start = mx_session_on_clock(s, (double)first / MXW_SAMPLE_RATE),
                                 .end = mx_session_on_clock(s, (double)end / MXW_SAMPLE_RATE),
                                 .channel = s->options.channel,
                                 .language = span ? span->language : NULL,
                                 .probability = span ? span->probability : -1};
    s->result.n_regions++;
    return MXW_OK;
}

/* A region in two languages is two. */
static mxw_status add_regions(mx_session *s, mx_span samples) {
    const mx_languages *l = &s->languages;
    mxw_status status = MXW_OK;
    if (!l->known)
        return add_region(s, samples.start, samples.end, NULL);
    for (size_t i = 0; i < l->n_spans && status >= 0; i++) {
        const mx_language_span *span = &l->spans[i];
        int64_t first = MX_MAX(samples.start, span->start * MX_MEL_HOP), end = samples.end;
        if (span->end < end / MX_MEL_HOP)   /* the last one ends beyond every sample */
            end = span->end * MX_MEL_HOP;
        if (first < end)
            status = add_region(s, first, end, span);
    }
    return status;
}

static mxw_status copy_regions(mx_session *s) {
    mxw_status status;
    s->result.n_regions = 0;
    MX_TRY(mx_grow(&s->regions, &s->room_regions, 1, sizeof(*s->regions)));
    for (size_t i = 0; i < mx_speech_n_regions(s->speech); i++)
        MX_TRY(add_regions(s, mx_speech_region_samples(s->speech, i)));
    s->result.regions = mx_region_array(s->regions);
    if (s->options.vad)
        s->result.skipped_s = mx_mel_frames_to_s(skipped_frames(s));
out:
    return status;
}

mxw_status mx_session_set_regions(mx_session *s) {
    if (!s->speech)
        return MXW_OK;
    mx_session_lock(s);
    mxw_status status = copy_regions(s);
    s->times.vad_ms = s->vad_ms + mx_speech_thread_ms(s->speech);
    mx_session_unlock(s);
    return status;
}
