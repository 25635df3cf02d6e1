/* pipeline/live/live.c - a live stream: when the model hears what was said so far, which of its words are final, and
 * what of the stream is kept. The oldest utterance that waits is heard first. While it goes on it is heard every step,
 * and once more, with beams, as soon as a pause begins: if nothing follows, that pass has the last word. Final text is
 * given to the next pass, so that it goes on from there; what lies far back is cut off and remains as context. */
#include "pipeline/live/live.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

#define RATE MXW_SAMPLE_RATE
#define ROOM (60 * RATE)             /* samples that are kept */
#define WINDOW (29 * RATE)           /* samples that a pass hears at most */
#define SLICE 4096                   /* samples that are heard at once */
#define FIRST_PASS (RATE / 2)        /* speech before the first pass of an utterance */
#define COST_TO_STEP 6               /* a step lasts so many times what a pass costs, at least ... */
#define MAX_DELAY_S 3.0              /* ... unless text would be later than this */
#define NOTABLE_STEP_S 1.5           /* a step that the caller is told about, unless that is what was asked for */
#define NOTABLE_CHANGE 1.25          /* so many times longer, it is told again; so many times shorter, it is over */
#define FORCED_MARGIN_S 2.0          /* in a full window words this far from its end are final, agreed on or not */
#define CONTEXT_TOKENS 80            /* of final text, given to a pass */
#define KNOWN_TOKENS 120
#define LANGUAGE_S 5.0               /* of audio that settle the language */
#define SURE_LANGUAGE 0.7            /* below this a short clip does not change it */
#define SHORT_S 3.0
#define LEAST_WORD_S 0.1
#define LOUDEST_S 30                 /* a clip is clamped as if the loudest sound of so long ago were in it */
#define NOTHING_LOUD (-100.0f)       /* below every log-mel */

static double now_s(const mx_live *live) {
    return live->options.now ? live->options.now(live->options.user) : (double)mx_now_ns() / 1e9;
}

static double to_s(int64_t samples) { return (double)samples / RATE; }

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static mxw_status open_context(mx_live *live) {
    int32_t *tokens = NULL;
    size_t n = 0;
    const char *prompt = live->decoding.initial_prompt;
    const mx_text *text = live->recognizer->text;
    mxw_status status = prompt ? mx_encode_prompt(text, "initial_prompt", prompt, &tokens, &n) : MXW_OK;
    size_t skip = n > CONTEXT_TOKENS ? n - CONTEXT_TOKENS : 0;
    if (status >= 0)
        status = mx_tokens_add(&live->context, tokens ? tokens + skip : NULL, n - skip);
    if (status >= 0)
        status = mx_tokens_add(&live->known, NULL, 0);
    mx_free(tokens);
    return status;
}

mxw_status mx_live_open(mx_recognizer *r, const mxw_live_options *options, mx_live **out) {
    mxw_status status;
    mx_live *live = mx_alloc_zero(1, sizeof(*live));
    if (!live)
        return MXW_E_MEMORY;
    live->recognizer = r;
    live->options = *options;
    live->decoding = *options->decoding;
    live->policy = mx_policy_of(options->policy);
    live->heard = -1;
    live->loudest = NOTHING_LOUD;
    live->room = ROOM;
    live->samples = mx_alloc_array(live->room, sizeof(*live->samples));
    status = live->samples ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(mx_pass_open(r, &live->decoding, &live->session));
    if (mx_live_encoder_fits(r))
        MX_TRY(mx_live_encoder_open(r, &live->encoder));
    live->decoding = live->session->options;   /* its strings are copies ... */
    live->decoding.guard = options->decoding->guard;
    live->decoding.initial_prompt = options->decoding->initial_prompt;
    live->options.decoding = NULL;
    MX_TRY(open_context(live));
    live->decoding.initial_prompt = NULL;      /* ... but this one is the caller's */
    if (live->session->languages.n == 1)
        live->session->language = live->session->languages.codes[0];
    live->language_settled = live->session->language != NULL;
    MX_TRY(mx_listener_open(live));
    if (options->keep_result)
        MX_TRY(mx_transcript_open(&live->decoding, &live->transcript));
    live->opened_s = now_s(live);
    *out = live;
    return MXW_OK;
out:
    mx_live_close(live);
    return status;
}

void mx_live_close(mx_live *live) {
    if (!live)
        return;
    if (live->listener.detector.close)
        live->listener.detector.close(live->listener.detector.context);
    mx_transcript_close(live->transcript);
    mx_events_free(&live->events);
    mx_hypothesis_free(&live->before);
    mx_hypothesis_free(&live->now);
    mx_free(live->context.items);
    mx_free(live->known.items);
    mx_free(live->known_words);
    mx_free(live->samples);
    mx_live_encoder_close(live->encoder);
    mx_session_close(live->session);
    mx_free(live);
}

static mxw_status fail(mx_live *live, mxw_status status) {
    live->failure.status = status;
    snprintf(live->failure.line, sizeof(live->failure.line), "%s", mx_error());
    return status;
}

static mxw_status failed_before(const mx_live *live) {
    return live->failure.status < 0 ? mx_fail(live->failure.status, "%s", live->failure.line) : MXW_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static mxw_status add_event(mx_live *live, mxw_live_event_kind kind, double start_s, double end_s,
                            const mx_event_words *words) {
    const mx_session *s = live->session;
    const mx_event_words none = {0};
    int given = live->decoding.language || !live->recognizer->checkpoint.multilingual;
    mxw_live_event event = {.kind = kind,
                            .utterance = MX_MAX(live->listener.n_utterances - live->listener.n_waiting, 0),
                            .start = start_s,
                            .end = end_s,
                            .language = s->language,
                            .language_probability = given || !s->language ? -1 : s->result.language_probability,
                            .heard_s = live->offset_s + to_s(live->fed),
                            .ready_s = now_s(live) - live->opened_s,
                            .step_s = live->announced_step_s};
    mxw_status status = mx_events_add(&live->events, &event, words ? words : &none);
    if (status >= 0 && kind == MXW_LIVE_FINAL && live->transcript)
        status = mx_transcript_add(live->transcript, mx_events_last(&live->events));
    return status;
}

/* Words of the last pass. */
static mx_event_words words_of(const mx_live *live, size_t first, size_t end) {
    double offset = live->listener.waiting[0].offset_s + to_s(live->now_clip);
    return (mx_event_words){&live->now, first, end, offset, live->final_end_s,
                            live->decoding.guard == MXW_GUARD_DROP};
}

static size_t count_kept(const mx_event_words *words) {
    size_t n = 0;
    for (size_t i = words->first; i < words->end; i++)
        n += !words->drops || words->h->words[i].suspicion < MX_GUARD_SUSPECTED;
    return n;
}

/* What is said after the finals; nothing if nothing is to be replaced. */
static mxw_status give_partial(mx_live *live) {
    mx_event_words words = words_of(live, live->now.next, live->now.n_words);
    int any = count_kept(&words) > 0;
    if (!any && !live->has_partial)
        return MXW_OK;
    double at = words.offset_s + live->now.audio_s;
    live->has_partial = any;
    return add_event(live, MXW_LIVE_PARTIAL, at, at, &words);
}

/* ---- final words ------------------------------------------------------------------------------------------------- */

static int ends_sentence(const mx_hypothesis *h, size_t i) {
    const char *text = mx_str_get(&h->text) + h->words[i].begin;
    size_t n = h->words[i].end - h->words[i].begin;
    return n > 0 && strchr(".?!", text[n - 1]);
}

/* Words [now.next, end) become final. */
static mxw_status settle(mx_live *live, size_t end) {
    mxw_status status = MXW_OK;
    mx_event_words words = words_of(live, live->now.next, end);
    size_t n_kept = count_kept(&words);
    live->stats.n_words += (int64_t)n_kept;
    live->stats.n_words_dropped += (int64_t)(end - live->now.next - n_kept);
    for (size_t i = live->now.next; i < end; i++) {
        const mx_live_word *word = &live->now.words[i];
        if (words.drops && word->suspicion >= MX_GUARD_SUSPECTED)
            continue;
        MX_TRY(mx_tokens_add(&live->known, live->now.tokens.items + word->first_token, word->n_tokens));
        MX_TRY(mx_grow(&live->known_words, &live->room_known, live->n_known + 1, sizeof(*live->known_words)));
        live->known_words[live->n_known++] = (mx_known_word){.n_tokens = word->n_tokens,
                                                             .start = live->now_clip + (int64_t)(word->start_s * RATE),
                                                             .end = live->now_clip + (int64_t)(word->end_s * RATE),
                                                             .ends_sentence = ends_sentence(&live->now, i)};
    }
    if (n_kept > 0) {
        MX_TRY(add_event(live, MXW_LIVE_FINAL, 0, 0, &words));
        live->final_end_s = mx_events_last(&live->events)->end;
        live->has_partial = 0;
    }
    live->now.next = end;
out:
    return status;
}

/* The first n final words are no longer in the clip; their text stays as context, if that is wanted. */
static mxw_status retire(mx_live *live, size_t n) {
    size_t n_tokens = 0;
    for (size_t i = 0; i < n; i++)
        n_tokens += live->known_words[i].n_tokens;
    if (live->decoding.condition_on_previous_text && n_tokens > 0) {
        mxw_status status = mx_tokens_add(&live->context, live->known.items, n_tokens);
        if (status < 0)
            return status;
        size_t skip = live->context.n > CONTEXT_TOKENS ? live->context.n - CONTEXT_TOKENS : 0;
        live->context.n -= skip;
        memmove(live->context.items, live->context.items + skip, live->context.n * sizeof(*live->context.items));
    }
    live->known.n -= n_tokens;
    live->n_known -= n;
    if (n_tokens > 0)
        memmove(live->known.items, live->known.items + n_tokens, live->known.n * sizeof(*live->known.items));
    if (n > 0)
        memmove(live->known_words, live->known_words + n, live->n_known * sizeof(*live->known_words));
    return MXW_OK;
}

/* Where the clip is cut: after which final word, of those in the latter half, the pause is longest, a sentence's end
 * counting as half a second. 0: nowhere. */
static size_t choose_cut(const mx_live *live, int64_t *at) {
    size_t best = 0;
    int64_t best_pause = -1, half = live->clip + (live->heard - live->clip) / 2;
    for (size_t i = 0; i < live->n_known; i++) {
        const mx_known_word *word = &live->known_words[i];
        int64_t next = i + 1 < live->n_known ? live->known_words[i + 1].start : word->end;
        int64_t pause = MX_MAX(next - word->end, 0) + (word->ends_sentence ? RATE / 2 : 0);
        if (word->end >= half && pause > best_pause) {
            best = i + 1;
            best_pause = pause;
            *at = word->end + MX_MAX(next - word->end, 0) / 2;
        }
    }
    return best;
}

/* So that a pass stays short, and its text within what the decoder takes. */
static mxw_status shorten(mx_live *live) {
    int64_t at = live->clip;
    size_t most = MX_MIN(KNOWN_TOKENS, (size_t)live->session->plan->options.sample_len / 2);
    if (to_s(live->heard - live->clip) <= live->options.cut_s && live->known.n <= most)
        return MXW_OK;
    size_t n = choose_cut(live, &at), left = live->known.n;
    for (size_t i = 0; i < live->n_known && (i < n || left > most); i++) {
        left -= live->known_words[i].n_tokens;
        if (i >= n)
            at = live->known_words[i].end;
        n = MX_MAX(n, i + 1);
    }
    live->clip = MX_MAX(live->clip, at);
    return retire(live, n);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* What the machine needs: it is busy for a sixth of the time, or text is not too late. */
static double needed_step_s(const mx_live *live) {
    return MX_MIN(COST_TO_STEP * live->cost_s, MX_MAX(MAX_DELAY_S - live->cost_s, live->cost_s));
}

static double step_s(const mx_live *live) { return MX_MAX(live->options.step_ms / 1000, needed_step_s(live)); }

static mxw_status tell_step(mx_live *live) {
    double step = needed_step_s(live), notable = MX_MAX(NOTABLE_STEP_S, live->options.step_ms / 1000);
    double at = live->offset_s + to_s(live->fed);
    if (NOTABLE_CHANGE * step <= notable)
        live->announced_step_s = 0;   /* the machine has caught up */
    if (step <= notable || step <= NOTABLE_CHANGE * live->announced_step_s)
        return MXW_OK;
    live->announced_step_s = step;
    return add_event(live, MXW_LIVE_SLOWER, at, at, NULL);
}

static void settle_language(mx_live *live, const char *before) {
    mx_session *s = live->session;
    int sure = s->result.language_probability >= SURE_LANGUAGE || live->now.audio_s >= SHORT_S;
    if (before && s->language && strcmp(before, s->language) != 0 && !sure)
        s->language = before;
    live->language_settled = live->now.audio_s >= LANGUAGE_S;
}

/* The first word of a clip is said to begin with its padding. */
static void begin_with_speech(mx_live *live) {
    double speech_s = to_s(live->listener.waiting[0].speech_start - live->clip);
    for (size_t i = 0; i < live->now.n_words && live->now.words[i].start_s < speech_s; i++)
        live->now.words[i].start_s = MX_MAX(MX_MIN(speech_s, live->now.words[i].end_s - LEAST_WORD_S),
                                            live->now.words[i].start_s);
}

/* The model hears [clip, end). */
static mxw_status run_pass(mx_live *live, int64_t end, int thorough) {
    mxw_status status;
    const char *language = live->session->language;
    mx_hypothesis before = live->before;
    double start = now_s(live);
    end = MX_MAX(end, live->clip);
    live->before = live->now;
    live->now = before;
    live->before_clip = live->now_clip;
    live->now_clip = live->clip;
    mx_pass pass = {.samples = live->samples + (live->clip - live->first),
                    .n = (size_t)(end - live->clip),
                    .context = &live->context,
                    .known = &live->known,
                    .ask_language = !live->language_settled,
                    .greedy = !thorough,
                    .encoder = live->encoder,
                    .loudest = &live->loudest};
    float loudest = live->loudest;
    MX_TRY(mx_pass_run(live->session, &pass, &live->now));
    live->now_given = live->now.next;
    if (live->loudest > loudest)
        live->loudest_at = end;
    begin_with_speech(live);
    if (pass.ask_language)
        settle_language(live, language);
    if (live->options.computed)
        live->options.computed(live->options.user, to_s((int64_t)pass.n));
    double cost = MX_MAX(now_s(live) - start, 0);
    if (live->stats.n_passes > 0)   /* the first one finds cold caches and says little about the others */
        live->cost_s = live->stats.n_passes == 1 ? cost : 0.7 * live->cost_s + 0.3 * cost;
    live->stats.compute_s += cost;
    live->stats.n_passes++;
    live->heard = end;
    live->thorough = thorough;
    MX_TRY(tell_step(live));
out:
    return status;
}

/* A window is full: what is not near its end is final, and the clip goes on after that. */
static mxw_status force(mx_live *live) {
    size_t n = live->now.next;
    while (n < live->now.n_words && live->now.words[n].end_s <= live->now.audio_s - FORCED_MARGIN_S)
        n++;
    mxw_status status = settle(live, n);
    if (status < 0)
        return status;
    int64_t at = live->heard - (int64_t)(FORCED_MARGIN_S * RATE);
    if (live->n_known > 0)
        at = MX_MAX(live->known_words[live->n_known - 1].end, live->clip + WINDOW / 2);
    live->clip = at;
    return retire(live, live->n_known);
}

static mxw_status hear(mx_live *live, int64_t end, int thorough) {
    mxw_status status;
    int full = end - live->clip >= WINDOW;
    MX_TRY(run_pass(live, MX_MIN(end, live->clip + WINDOW), thorough));
    size_t n = live->policy->settle(&live->before, &live->now, live->options.margin_ms / 1000);
    if (n > live->now.next) {
        live->language_settled = 1;
        MX_TRY(settle(live, n));
    }
    MX_TRY(give_partial(live));
    MX_TRY(full ? force(live) : shorten(live));
out:
    return status;
}

static void enter(mx_live *live) {
    live->clip = live->listener.waiting[0].start;
    live->heard = -1;
    live->thorough = live->has_partial = live->end_announced = 0;
    if (live->clip - live->loudest_at > LOUDEST_S * RATE)
        live->loudest = NOTHING_LOUD;
    mx_hypothesis_clear(&live->before);
    mx_hypothesis_clear(&live->now);
    if (live->session->languages.n > 1)
        live->language_settled = 0;
    live->announced = 1;
}

/* Everything that was said becomes final. */
static mxw_status conclude(mx_live *live) {
    mxw_status status;
    mx_listener *l = &live->listener;
    mx_utterance *u = &l->waiting[0];
    if (live->options.announce_end && !live->end_announced) {
        live->end_announced = 1;
        return add_event(live, MXW_LIVE_SPEECH_ENDED, u->offset_s + to_s(u->speech_start),
                         u->offset_s + to_s(u->speech_end), NULL);
    }
    if (u->end - live->clip > WINDOW)
        return hear(live, u->end, 0);
    if (!(live->thorough && live->heard >= u->speech_end))
        MX_TRY(run_pass(live, u->end, 1));
    mx_live_keep_tail(live);
    if (mx_live_lacks_tail(live)) {
        MX_TRY(run_pass(live, u->end, 0));
        mx_live_choose_tail(live);
    }
    MX_TRY(settle(live, live->now.n_words));
    MX_TRY(give_partial(live));   /* an empty one, if the last one was not */
    MX_TRY(retire(live, live->n_known));
    if (live->transcript)
        MX_TRY(mx_transcript_break(live->transcript));
    live->language_settled = live->language_settled || live->now.n_words > 0;
    live->stats.speech_s += to_s(u->speech_end - u->speech_start);
    live->stats.n_utterances++;
    MX_TRY(add_event(live, MXW_LIVE_SPEECH_STOPPED, u->offset_s + to_s(u->speech_start),
                     u->offset_s + to_s(u->speech_end), NULL));
    memmove(l->waiting, l->waiting + 1, (size_t)--l->n_waiting * sizeof(*l->waiting));
    live->announced = 0;
out:
    return status;
}

/* Whether an utterance that goes on is to be heard now, and whether thoroughly: at the beginning of a pause. */
static int is_due(const mx_live *live, int *thorough) {
    const mx_listener *l = &live->listener;
    int64_t heard = live->heard < 0 ? l->waiting[0].speech_start : live->heard;
    *thorough = l->silence >= 0;
    if (live->fed - live->clip >= WINDOW)
        return 1;
    if (l->silence >= 0)
        return live->fed - l->silence >= MX_LIVE_PAUSE_BEGINS && live->heard < l->silence + MX_LIVE_PAUSE_BEGINS / 2;
    int64_t step = (int64_t)(step_s(live) * RATE);
    return live->fed - heard >= (live->heard < 0 ? MX_MAX(MX_MIN(step, RATE), FIRST_PASS) : step);
}

/* One thing that is due: OK; MORE if nothing is. */
static mxw_status work(mx_live *live) {
    const mx_utterance *u = &live->listener.waiting[0];
    int thorough;
    if (live->listener.n_waiting == 0)
        return MXW_MORE;
    if (!live->announced) {
        enter(live);
        return add_event(live, MXW_LIVE_SPEECH_STARTED, u->offset_s + to_s(u->speech_start),
                         u->offset_s + to_s(u->speech_start), NULL);
    }
    if (u->end >= 0)
        return conclude(live);
    return is_due(live, &thorough) ? hear(live, live->fed, thorough) : MXW_MORE;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* The oldest sample that may still be heard. */
static int64_t oldest_needed(const mx_live *live) {
    const mx_listener *l = &live->listener;
    int64_t begun = live->fed - l->start_pad - RATE;   /* an utterance that is not known yet may begin here */
    int64_t waiting = l->n_waiting == 0 ? begun : live->announced ? live->clip : l->waiting[0].start;
    return MX_MAX(MX_MIN(begun, waiting), live->first);
}

/* Forgets samples; if all are needed, the model has to hear some of them now. */
static mxw_status make_room(mx_live *live, size_t n) {
    mxw_status status = MXW_OK;
    while (status == MXW_OK && ((size_t)(live->fed - live->first) + n > live->room ||
                                live->listener.n_waiting >= MX_LIVE_UTTERANCES - 1)) {
        int64_t keep = oldest_needed(live);
        if (keep - live->first >= RATE) {
            memmove(live->samples, live->samples + (keep - live->first),
                    (size_t)(live->fed - keep) * sizeof(*live->samples));
            live->first = keep;
        } else {
            status = work(live);
        }
    }
    if (status == MXW_MORE)
        return mx_fail(MXW_E_INTERNAL, "live: samples cannot be forgotten");
    return status;
}

static void measure_level(mx_live *live, const float *samples, size_t n) {
    size_t last = MX_MIN(n, RATE / 10);
    double sum = 0;
    for (size_t i = n - last; i < n; i++)
        sum += (double)samples[i] * (double)samples[i];
    double square = last ? sum / (double)last : 0, share = (double)last / (RATE / 10.0);
    live->square = share * square + (1 - share) * live->square;
}

static mxw_status feed(mx_live *live, const float *samples, size_t n) {
    mxw_status status = MXW_OK;
    for (size_t at = 0, count; at < n; at += count) {
        count = MX_MIN(n - at, SLICE);
        MX_TRY(make_room(live, count));
        memcpy(live->samples + (live->fed - live->first), samples + at, count * sizeof(*samples));
        live->fed += (int64_t)count;
        MX_TRY(mx_listener_feed(live, samples + at, count));
    }
    measure_level(live, samples, n);
out:
    return status;
}

mxw_status mx_live_feed(mx_live *live, const float *samples, size_t n) {
    mxw_status status = failed_before(live);
    if (status < 0)
        return status;
    if (live->finished)
        return mx_fail(MXW_E_STATE, "feed after finish");
    status = feed(live, samples, n);
    return status < 0 ? fail(live, status) : status;
}

mxw_status mx_live_flush(mx_live *live) {
    mxw_status status = failed_before(live);
    if (status >= 0 && !live->finished)
        mx_listener_cut(live);
    return status;
}

/* What waits is still on the clock before the gap. */
mxw_status mx_live_gap(mx_live *live, double seconds) {
    mxw_status status = failed_before(live);
    if (status < 0)
        return status;
    if (live->finished)
        return mx_fail(MXW_E_STATE, "gap after finish");
    mx_listener_cut(live);
    while (live->listener.n_waiting > 0 && status >= 0)
        status = work(live);
    double at = live->offset_s + to_s(live->fed);
    live->offset_s += seconds;
    live->listener.last_end = live->fed;   /* nothing from before the gap belongs to what comes after it */
    if (status >= 0)
        status = add_event(live, MXW_LIVE_GAP, at, at + seconds, NULL);
    return status < 0 ? fail(live, status) : MXW_OK;
}

mxw_status mx_live_finish(mx_live *live) {
    mxw_status status = failed_before(live);
    if (status < 0 || live->finished)
        return status;
    status = make_room(live, 0);
    if (status >= 0)
        status = mx_listener_finish(live);
    live->finished = 1;
    return status < 0 ? fail(live, status) : MXW_OK;
}

/* The next thing that is due, and at last the end: OK. MORE or END: there is nothing to do. */
static mxw_status go_on(mx_live *live) {
    mxw_status status = work(live);
    if (status != MXW_MORE)
        return status;
    if (!live->finished)
        return MXW_MORE;
    if (live->ended)
        return MXW_END;
    live->ended = 1;
    double at = live->offset_s + to_s(live->fed);
    return add_event(live, MXW_LIVE_END, at, at, NULL);
}

/* What was ready before a failure is given first: no final is lost by what comes after it. */
mxw_status mx_live_next(mx_live *live, const mxw_live_event **event) {
    while (!(*event = mx_events_take(&live->events))) {
        mxw_status status = failed_before(live);
        if (status < 0)
            return status;
        status = go_on(live);
        if (status > 0)
            return status;
        if (status < 0)
            fail(live, status);
    }
    return MXW_OK;
}

const mxw_result *mx_live_result(mx_live *live) {
    return live->transcript ? mx_transcript_result(live->transcript, live->offset_s + to_s(live->fed)) : NULL;
}

void mx_live_get_stats(const mx_live *live, mxw_live_stats *stats) {
    *stats = live->stats;
    stats->fed_s = to_s(live->fed);
    stats->step_s = step_s(live);
    stats->level = sqrt(live->square);
    stats->speech = live->listener.probability;
    stats->silence_s = live->listener.silence < 0 ? 0 : to_s(live->fed - live->listener.silence);
}
