/* live_kit.c - see the header. */
#include "kit/live_kit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define ROUNDING 1e-6
#define PAD 0.4           /* that the audio of an utterance begins before its speech */
#define NOTABLE_STEP 1.5  /* a shorter step is not told */
#define FRAME 0.021       /* times of words are frames of 20 ms: they may end so much after the last sample */

/* ---- the clock --------------------------------------------------------------------------------------------------- */

static double now(void *user) { return ((const live_clock *)user)->now_s; }

static void computed(void *user, double audio_s) {
    live_clock *clock = user;
    clock->now_s += clock->pass_s + clock->per_s * audio_s;
    if (clock->n_passes++ > 0)
        clock->oldest_s = fmax(clock->oldest_s, clock->now_s - clock->heard_s);
    clock->heard_s = clock->fed_s;
}

void live_clock_use(live_clock *clock, mxw_live_options *options) {
    options->user = clock;
    options->now = now;
    options->computed = computed;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static const char *const kinds[] = {"speech_started", "partial", "final", "speech_stopped", "slower", "gap", "end",
                                    "speech_ended"};

const char *live_kind(const mxw_live_event *e) { return kinds[e->kind]; }

static void broken(live_log *log, const mxw_live_event *e, const char *why, ...) {
    va_list list;
    if (log->broken[0])
        return;
    int n = snprintf(log->broken, sizeof(log->broken), "%s %lld, %.3f to %.3f '%.80s', heard %.3f: ", kinds[e->kind],
                     (long long)e->utterance, e->start, e->end, e->text, e->heard_s);
    va_start(list, why);
    vsnprintf(log->broken + n, sizeof(log->broken) - (size_t)n, why, list);
    va_end(list);
}

static void check_words(live_log *log, const mxw_live_event *e) {
    size_t at = 0;
    double last = e->start, sum = 0;
    for (size_t i = 0; i < e->n_words; i++) {
        const mxw_word *word = mxw_live_event_word(e, i);
        size_t n = strlen(word->word);
        if (strncmp(e->text + at, word->word, n) != 0)
            broken(log, e, "word %zu is not in the text", i);
        at += n;
        if (word->start < last - ROUNDING || word->end < word->start || word->end > e->end + ROUNDING)
            broken(log, e, "word %zu is from %.3f to %.3f, the one before it from %.3f", i, word->start, word->end,
                   last);
        if (!(word->probability >= 0 && word->probability <= 1))
            broken(log, e, "word %zu has probability %g", i, word->probability);
        last = word->start;
        sum += word->probability;
    }
    if (e->text[at])
        broken(log, e, "the text goes on after its words: '%s'", e->text + at);
    if (e->n_words && fabs(e->probability - sum / (double)e->n_words) > 1e-9)
        broken(log, e, "probability %g is not the mean", e->probability);
    if (mxw_live_event_word(e, e->n_words))
        broken(log, e, "there is a word past the end");
}

static void check_text(live_log *log, const mxw_live_event *e) {
    if (!log->inside || e->utterance != log->utterance)
        broken(log, e, "not in its utterance (%lld)", (long long)log->utterance);
    if (e->n_words && e->start < log->final_end_s - ROUNDING)
        broken(log, e, "begins before the end of the last final, %.3f", log->final_end_s);
    if (e->n_words && e->end < log->started_s - PAD)
        broken(log, e, "ends before the utterance begins, %.3f", log->started_s);
    check_words(log, e);
    if (e->kind == MXW_LIVE_PARTIAL) {
        if (e->n_words == 0 && !log->has_partial)
            broken(log, e, "replaces nothing by nothing");
        log->has_partial = e->n_words > 0;
    } else {
        if (e->n_words == 0)
            broken(log, e, "without words");
        log->has_partial = 0;
        log->final_end_s = e->end;
    }
}

static void check_event(live_log *log, const mxw_live_event *e) {
    if (log->ended)
        broken(log, e, "after the end");
    if (!(e->start >= 0 && e->end >= e->start && (e->kind == MXW_LIVE_GAP || e->end <= e->heard_s + FRAME)))
        broken(log, e, "times outside of the stream");
    if (e->heard_s < log->heard_s || e->ready_s < log->ready_s)
        broken(log, e, "heard or ready earlier than the event before");
    log->heard_s = e->heard_s;
    log->ready_s = e->ready_s;
    switch (e->kind) {
    case MXW_LIVE_SPEECH_STARTED:
        if (log->inside || e->utterance != log->counts[MXW_LIVE_SPEECH_STOPPED])
            broken(log, e, "inside %d", log->inside);
        if (e->start < log->started_s)
            broken(log, e, "before the end of the speech before it, %.3f", log->started_s);
        log->inside = 1;
        log->end_announced = 0;
        log->utterance = e->utterance;
        log->started_s = e->start;
        break;
    case MXW_LIVE_PARTIAL:
    case MXW_LIVE_FINAL: check_text(log, e); break;
    case MXW_LIVE_SPEECH_STOPPED:
        if (!log->inside || e->utterance != log->utterance || e->start != log->started_s)
            broken(log, e, "not of the utterance that began at %.3f", log->started_s);
        if (log->end_announced != log->announces_end)
            broken(log, e, "its end was %sannounced", log->end_announced ? "" : "not ");
        if (log->has_partial)
            broken(log, e, "a partial was neither made final nor taken back");
        log->inside = 0;
        log->started_s = e->end;   /* of the next one at the earliest */
        log->stop_delay_s = fmax(log->stop_delay_s, e->ready_s - e->end);
        break;
    case MXW_LIVE_SPEECH_ENDED:
        if (!log->inside || log->end_announced || e->start != log->started_s)
            broken(log, e, "not of the utterance that began at %.3f", log->started_s);
        log->end_announced = 1;
        break;
    case MXW_LIVE_SLOWER:
        if (e->step_s <= NOTABLE_STEP)
            broken(log, e, "a step of %g", e->step_s);
        log->step_s = e->step_s;
        break;
    case MXW_LIVE_GAP:
        log->started_s = log->final_end_s = e->end;
        log->heard_s = e->end;
        /* fall through */
    case MXW_LIVE_END:
        if (log->inside)
            broken(log, e, "inside an utterance");
        log->ended = e->kind == MXW_LIVE_END;
        break;
    }
    if (e->kind != MXW_LIVE_PARTIAL && e->kind != MXW_LIVE_FINAL && (e->n_words || *e->text))
        broken(log, e, "has words");
    log->counts[e->kind]++;
}

static void keep(live_log *log, const mxw_live_event *e) {
    mx_str_print(&log->lines, "%s %lld %.2f %.2f heard %.2f ready %.2f", kinds[e->kind], (long long)e->utterance,
                  e->start, e->end, e->heard_s, e->ready_s);
    if (e->kind == MXW_LIVE_SLOWER)
        mx_str_print(&log->lines, " step %.2f", e->step_s);
    mx_str_print(&log->lines, "%s%s%s", *e->text ? " '" : "", e->text, *e->text ? "'" : "");
    for (size_t i = 0; i < e->n_words; i++)
        mx_str_print(&log->lines, " %.2f", mxw_live_event_word(e, i)->end);
    mx_str_text(&log->lines, "\n");
    if (e->kind == MXW_LIVE_FINAL)
        mx_str_text(&log->finals, e->text);
}

/* The result has what is final, at any moment, as segments one after the other. */
static void check_result(mxw_live *live, live_log *log) {
    const mxw_result *result = log->keeps ? mxw_live_result(live) : NULL;
    const char *finals = mx_str_get(&log->finals);
    size_t at = 0;
    if (!result || log->broken[0])
        return;
    if (strcmp(result->text, finals) != 0)
        snprintf(log->broken, sizeof(log->broken), "the result '%.150s' is not the finals '%.150s'", result->text,
                 finals);
    for (size_t i = 0; i < result->n_segments && !log->broken[0]; i++) {
        const mxw_segment *segment = mxw_result_segment(result, i);
        size_t n = strlen(segment->text);
        if (segment->id != (int64_t)i || segment->n_words == 0 || strncmp(finals + at, segment->text, n) != 0)
            snprintf(log->broken, sizeof(log->broken), "segment %zu is '%.150s', the finals are '%.150s'", i,
                     segment->text, finals + at);
        at += n;
    }
    if (!log->broken[0] && finals[at])
        snprintf(log->broken, sizeof(log->broken), "no segment has '%.150s'", finals + at);
}

mxw_status live_take(mxw_live *live, live_log *log) {
    const mxw_live_event *e;
    mxw_status status;
    while ((status = mxw_live_next(live, &e)) == MXW_OK) {
        check_event(log, e);
        if (log->keeps)
            keep(log, e);
        if (log->on_event)
            log->on_event(log->user, e);
    }
    check_result(live, log);
    return status;
}

void live_log_free(live_log *log) {
    mx_str_free(&log->lines);
    mx_str_free(&log->finals);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */

mxw_status live_feed(mxw_live *live, live_clock *clock, const live_source *source, int64_t at, live_log *log) {
    static _Thread_local float samples[LIVE_PACKET];
    mxw_status status = MXW_MORE;
    int64_t begun = at;
    double start_s = source->on_time ? (double)at / MXW_SAMPLE_RATE : clock->now_s;
    while (at < source->n && status == MXW_MORE) {
        double arrived_s = clock->now_s - start_s;
        int64_t end = MX_MIN(at + (int64_t)source->packet, source->n);
        if ((double)(end - begun) / MXW_SAMPLE_RATE > arrived_s)   /* nothing waits: so does the machine */
            clock->now_s = start_s + (double)(end - begun) / MXW_SAMPLE_RATE;
        do {
            source->sound(source->user, at, (size_t)(end - at), samples);
            status = mxw_live_feed(live, samples, (size_t)(end - at));
            at = end;
            clock->fed_s = start_s + (double)(at - begun) / MXW_SAMPLE_RATE;
            end = MX_MIN(at + (int64_t)source->packet, source->n);
        } while (status >= 0 && at < source->n && (double)(end - begun) / MXW_SAMPLE_RATE <= clock->now_s - start_s);
        if (status >= 0)
            status = live_take(live, log);
    }
    return status;
}

mxw_status live_replay(mxw_model *model, const mxw_live_options *options, live_clock *clock, const live_source *source,
                       live_log *log) {
    mxw_live *live = NULL;
    mxw_status status = mxw_live_open(model, options, &live);
    if (status >= 0)
        status = live_feed(live, clock, source, 0, log);
    if (status >= 0)
        status = mxw_live_finish(live);
    if (status >= 0)
        status = live_take(live, log);
    if (status == MXW_END && !log->ended && !log->broken[0])
        snprintf(log->broken, sizeof(log->broken), "no event says that this is the end");
    mxw_live_close(live);
    return status;
}

/* ---- sound ------------------------------------------------------------------------------------------------------- */

static int64_t to_samples(double seconds) { return llrint(seconds * MXW_SAMPLE_RATE); }

int64_t live_script_samples(const live_script *script) {
    int64_t n = 0;
    for (size_t i = 0; i < script->n; i++)
        n += to_samples(script->turns[i].speech_s) + to_samples(script->turns[i].silence_s);
    return n;
}

/* A gliding buzz whose loudness changes, never so much that it is not loud. */
static float speech_at(uint64_t seed, int64_t i) {
    double t = (double)(i % (600 * MXW_SAMPLE_RATE)) / MXW_SAMPLE_RATE + (double)(seed % 97) * 7.3;
    double phase = 2 * 3.14159265358979 * (140 * t + 9 * sin(1.7 * t) + 30 * sin(0.31 * t));
    double loud = 0.2 + 0.1 * sin(11 * t) * sin(2.3 * t);
    return (float)(rint(loud * (sin(phase) + 0.6 * sin(3 * phase) + 0.4 * sin(7 * phase)) * 16384) / 32768);
}

void live_script_sound(void *user, int64_t first, size_t n, float *out) {
    const live_script *script = user;
    int64_t all = live_script_samples(script);
    for (size_t k = 0; k < n; k++) {
        int64_t at = first + (int64_t)k, place = script->repeats ? at % all : at;
        size_t i = 0;
        while (i < script->n) {
            int64_t speech = to_samples(script->turns[i].speech_s), silence = to_samples(script->turns[i].silence_s);
            if (place < speech + silence) {
                out[k] = place < speech ? speech_at(script->seed, at) : 0;
                break;
            }
            place -= speech + silence;
            i++;
        }
        if (i == script->n)
            out[k] = 0;
    }
}

void live_array(void *samples, int64_t first, size_t n, float *out) {
    memcpy(out, (const float *)samples + first, n * sizeof(*out));
}
