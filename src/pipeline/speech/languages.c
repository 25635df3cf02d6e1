/* pipeline/speech/languages.c - what a session does with the languages of its recording: clips that end where the
 * language changes, text without the context of another language, and the language that the result names. */
#include "pipeline/speech/languages.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/session.h"

/* ---- clips ------------------------------------------------------------------------------------------------------- */

static void use_clips(mx_session *s, mx_clip *clips, int n) {
    s->at.plan = (mx_clip_plan){.wanted = clips, .n_wanted = n};
    if (s->options.vad) {
        s->at.n_clips = s->at.growing = s->at.all_known = 0;
        return;
    }
    s->at.clips = clips;
    s->at.n_clips = n;
    s->at.seek = clips[0].start;
}

/* The parts of a wanted clip that are in one language each, into out if that is not NULL; their number. A clip without
 * frames stays one. */
static int split(const mx_languages *l, const mx_clip *wanted, mx_clip *out) {
    int n = 0;
    for (size_t i = 0; i < l->n_spans; i++) {
        const mx_language_span *span = &l->spans[i];
        mx_clip part = {MX_MAX(wanted->start, span->start), MX_MIN(wanted->end, span->end), span->language,
                        span->probability};
        int empty = wanted->start >= wanted->end && i == 0;
        if (empty)
            part.start = wanted->start, part.end = wanted->end;
        if (part.start < part.end || empty) {
            if (out)
                out[n] = part;
            n++;
        }
    }
    return n;
}

static mxw_status split_clips(mx_session *s) {
    mx_languages *l = &s->languages;
    int n = 0;
    for (int i = 0; i < s->at.plan.n_wanted; i++)
        n += split(l, &s->at.plan.wanted[i], NULL);
    mx_clip *clips = mx_arena_alloc(&s->memory, (size_t)n * sizeof(*clips));
    if (!clips)
        return MXW_E_MEMORY;
    l->wanted = s->at.plan.wanted;
    l->n_wanted = s->at.plan.n_wanted;
    n = 0;
    for (int i = 0; i < l->n_wanted; i++)
        n += split(l, &l->wanted[i], clips + n);
    use_clips(s, clips, n);
    return MXW_OK;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* The language with the most speech; without any speech, the one with the most time. */
static void find_most(mx_session *s) {
    mx_languages *l = &s->languages;
    int64_t frames = mx_mel_frames(s->mel), most = -1;
    int any = s->speech && mx_speech_amount(s->speech, 0, frames) > 0;
    for (int i = 0; i < l->n; i++) {
        int64_t sum = 0;
        double weighted = 0, probability = -1;
        for (size_t j = 0; j < l->n_spans; j++) {
            const mx_language_span *span = &l->spans[j];
            if (span->language != l->codes[i])
                continue;
            int64_t end = MX_MIN(span->end, frames), start = MX_MIN(span->start, end);
            int64_t amount = any ? mx_speech_amount(s->speech, start, end) : end - start;
            sum += amount;
            weighted += (double)amount * span->probability;
            probability = sum > 0 ? weighted / (double)sum : span->probability;
        }
        if (probability >= 0 && sum > most) {
            most = sum;
            l->most = l->codes[i];
            l->probability = probability;
        }
    }
    s->result.language_probability = l->probability;
}

/* Codes are those of the table of languages: the same text is the same pointer. */
static int is_listed(const mx_languages *l, const char *code) {
    for (int i = 0; i < l->n; i++)
        if (l->codes[i] == code)
            return 1;
    return 0;
}

static mxw_status check(const mx_languages *l, const mx_language_span *spans, size_t n) {
    int64_t at = 0;
    int right = n > 0;
    for (size_t i = 0; i < n; i++) {
        const mx_language_span *span = &spans[i];
        right = right && span->start == at && span->end > at && is_listed(l, span->language) &&
                span->probability >= 0 && span->probability <= 1 && (span->end == INT64_MAX) == (i + 1 == n);
        at = span->end;
    }
    return right ? MXW_OK : mx_fail(MXW_E_FORMAT, "record: malformed");
}

mxw_status mx_session_take_languages(mx_session *s, const mx_language_span *spans, size_t n) {
    mx_languages *l = &s->languages;
    mxw_status status = check(l, spans, n);
    if (status < 0)
        return status;
    l->spans = mx_arena_alloc(&s->memory, n * sizeof(*l->spans));
    if (!l->spans)
        return MXW_E_MEMORY;
    memcpy(l->spans, spans, n * sizeof(*l->spans));
    l->n_spans = n;
    status = split_clips(s);
    if (status < 0)
        return status;
    l->known = 1;
    find_most(s);
    return MXW_OK;
}

void mx_session_forget_languages(mx_session *s) {
    mx_languages *l = &s->languages;
    if (!l->known)
        return;
    s->at.plan.wanted = l->wanted;
    use_clips(s, (mx_clip *)l->wanted, l->n_wanted);
    l->known = 0;
    l->n_spans = 0;
    l->most = NULL;
    s->result.language_probability = -1;
}

void mx_session_enter_language(mx_session *s) {
    const mx_clip *clip = &s->at.clips[s->at.clip];
    if (!clip->language)
        return;
    if (s->language && s->language != clip->language)
        s->at.prompt_reset_since = s->at.tokens.n;
    s->language = clip->language;
}
