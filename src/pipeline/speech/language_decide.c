/* pipeline/speech/language_decide.c - decides the spans of a recording: what the model hears in windows of speech, the
 * best sequence of languages for them, and where exactly one ends and the next begins.
 *
 * A window costs a run of the encoder and one row of the decoder. Most of them are units of speech; others are heard
 * only where languages are in doubt or change. */
#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "pipeline/session.h"
#include "pipeline/speech/language_path.h"

#define MARGIN 10                       /* frames around a window of speech, if there are so many */
#define CERTAIN (-0.1f)                 /* log probability: two neighbours that are this sure need no third opinion */
#define WHOLE_UNIT (2 * MX_MEL_RATE)    /* speech of which all is believed */
#define NOT_HEARD (-20.0f)              /* log probability of a language that is not among the best candidates */

/* Places where a language may change: */
#define PLACE_PAUSE (MX_MEL_RATE / 5)   /* a pause, if there is one; else shorter ones and dips of the probability */
#define SHORT_PAUSE (MX_MEL_RATE / 10)
#define DIP_EVERY MX_MEL_RATE
#define DIP_REACH (3 * MX_MEL_RATE)     /* around the end of a unit that ends without a pause */
#define PLACES_APART (6 * MX_MEL_RATE / 10)
#define SAME (3 * MX_MEL_RATE / 20)     /* ends of pauses and of units that are that close are the same */
#define PIECE_FLOOR (-3.0)              /* log probability: what a short piece between two places may say at most */
#define WHOLE_PIECE (3 * MX_MEL_RATE / 2)   /* a shorter one counts less */
#define PAUSE_BONUS 0.3                 /* for a pause of a second; a longer one gets no more */
#define CONTENDERS 3                    /* places that are compared by what is heard beside them ... */
#define CLOSE 2.0                       /* ... if their scores are that close to the best */
#define BESIDE (4 * MX_MEL_RATE)
#define LEAST_BESIDE (3 * MX_MEL_RATE / 10)

typedef struct decision {
    mx_session *s;
    int k;                    /* languages */
    mx_span *units;           /* mel frames */
    size_t n;
    float *heard;             /* [n][k]: in each unit */
    float *single, *pair;     /* [n][k], [n - 1][k]: as far as it is believed */
    int *path;                /* [n]: index of the language */
    double *probability;      /* [n] */
    float *here;              /* [k]: scratch */
    int32_t *cells;           /* of the decoder's row */
    int64_t n_heard;
} decision;

/* ---- what the model hears ---------------------------------------------------------------------------------------- */

static int index_of(const decision *d, const char *code) {
    for (int i = 0; i < d->k; i++)
        if (d->s->languages.codes[i] == code)
            return i;
    return -1;
}

/* The log probability of each language in the audio of [start, end), relative to the others of the list. */
static mxw_status hear(decision *d, int64_t start, int64_t end, float *out) {
    mxw_status status;
    mx_session *s = d->s;
    const float *features = s->features;
    const int32_t pick = 0;
    int k = MX_MIN(d->k, MX_FORCE_CANDIDATES);
    mx_decode_row row = {s->plan->special.sot, 0, 0, 0};
    mx_rule rule = mx_decode_language_rule(s->plan);
    mx_decode_step step = {&row, 1, d->cells, 1, &pick, &rule, 1};
    int32_t ids[MX_FORCE_CANDIDATES];
    float logprobs[MX_FORCE_CANDIDATES], stats[MX_SELECT_STATS];
    start = MX_MIN(MX_MAX(start - MARGIN, 0), mx_mel_frames(s->mel));
    end = MX_MIN(MX_MIN(end + MARGIN, mx_mel_frames(s->mel)), start + MX_MEL_WINDOW);
    s->features = NULL;   /* they are those of the first window that is decoded */
    status = mx_session_encode_window(s, start, end - start, MX_MEL_SILENCE);
    s->features = features;
    if (status < 0)
        return status;
    int64_t began = mx_now_ns();
    MX_TRY(mx_slot_step(s->slot, &step, k, ids, logprobs, stats));
    s->times.decode_ms += mx_since_ms(began);
    for (int i = 0; i < d->k; i++)
        out[i] = NOT_HEARD;
    for (int i = 0; i < k && ids[i] >= 0; i++) {
        int language = index_of(d, mx_text_language_of(s->recognizer->text, ids[i]));
        if (language >= 0)
            out[language] = fmaxf(logprobs[i], NOT_HEARD);
    }
    d->n_heard++;
out:
    return status;
}

/* What is believed of what was heard from start to end: little speech counts less. */
static void believe(const decision *d, int64_t start, int64_t end, const float *heard, float *out) {
    float weight = (float)mx_speech_amount(d->s->speech, start, end) / WHOLE_UNIT;
    for (int i = 0; i < d->k; i++)
        out[i] = fminf(weight, 1) * fmaxf(heard[i], MX_LANGUAGE_FLOOR);
}

static void report(const decision *d, int64_t frame) {
    mx_session *s = d->s;
    mxw_progress progress = {"languages", mx_mel_frames_to_s(frame), mx_mel_seconds(s->mel),
                             mx_since_ms(s->opened_ns) / 1e3};
    if (s->options.on_progress)
        s->options.on_progress(s->options.user, &progress);
}

/* Every unit by itself; two neighbours together where they do not agree, or one of them is not certain. */
static mxw_status hear_units(decision *d) {
    mxw_status status = MXW_OK;
    size_t k = (size_t)d->k;
    int *best = d->path;   /* not needed for anything else yet */
    for (size_t u = 0; u < d->n; u++) {
        float *own = d->single + u * k;
        MX_TRY(hear(d, d->units[u].start, d->units[u].end, d->heard + u * k));
        believe(d, d->units[u].start, d->units[u].end, d->heard + u * k, own);
        best[u] = 0;
        for (int i = 1; i < d->k; i++)
            best[u] = own[i] > own[best[u]] ? i : best[u];
        report(d, d->units[u].end);
    }
    for (size_t u = 0; u + 1 < d->n; u++) {
        const float *own = d->single + u * k, *next = own + k;
        float *both = d->pair + u * k;
        if (best[u] != best[u + 1] || own[best[u]] < CERTAIN || next[best[u]] < CERTAIN) {
            MX_TRY(hear(d, d->units[u].start, d->units[u + 1].end, d->here));
            believe(d, d->units[u].start, d->units[u + 1].end, d->here, both);
            continue;
        }
        for (size_t i = 0; i < k; i++)
            both[i] = 0.5f * (own[i] + next[i]);
    }
out:
    return status;
}

/* ---- where a language ends --------------------------------------------------------------------------------------- */

/* A place where one language may end and another begin: a pause, or a moment. */
typedef struct place {
    int64_t end, begin;       /* mel frames: of the speech before, and of the speech after it */
    double score;
} place;

typedef struct places {
    place *items;
    size_t n, room;
} places;

static mxw_status add_place(places *to, int64_t end, int64_t begin) {
    mxw_status status = mx_grow(&to->items, &to->room, to->n + 1, sizeof(*to->items));
    if (status >= 0)
        to->items[to->n++] = (place){.end = end, .begin = begin};
    return status;
}

static int64_t chunk_of(int64_t frame) { return frame * MX_MEL_HOP / MX_SPEECH_CHUNK; }
static int64_t frame_of(int64_t chunk) { return chunk * MX_SPEECH_CHUNK / MX_MEL_HOP; }

static mxw_status find_pauses(const decision *d, mx_span search, int64_t least, places *to) {
    size_t n;
    const float *p = mx_speech_probabilities(d->s->speech, &n);
    float silence = (float)fmax(d->s->options.vad_threshold - 0.15, 0.01);
    mxw_status status = MXW_OK;
    for (int64_t i = chunk_of(search.start), end; i < (int64_t)n && frame_of(i) < search.end && status >= 0; i = end) {
        for (end = i; end < (int64_t)n && p[end] < silence; end++)
            ;
        if (frame_of(end) - frame_of(i) >= least)
            status = add_place(to, frame_of(i), frame_of(end));
        end = MX_MAX(end, i + 1);
    }
    return status;
}

/* In every second of the search the chunk that, with its neighbours, is least likely speech. */
static mxw_status find_dips(const decision *d, mx_span search, places *to) {
    size_t n;
    const float *p = mx_speech_probabilities(d->s->speech, &n);
    mxw_status status = MXW_OK;
    for (int64_t from = search.start; from < search.end && status >= 0; from += DIP_EVERY) {
        int64_t best = -1, end = MX_MIN(chunk_of(MX_MIN(from + DIP_EVERY, search.end)), (int64_t)n - 1);
        float least = INFINITY;
        for (int64_t i = MX_MAX(chunk_of(from), 1); i < end; i++)
            if (p[i - 1] + p[i] + p[i + 1] < least) {
                least = p[i - 1] + p[i] + p[i + 1];
                best = i;
            }
        if (best >= 0)
            status = add_place(to, frame_of(best), frame_of(best));
    }
    return status;
}

static int in_order(const void *a, const void *b) {
    const place *x = a, *y = b;
    return x->end != y->end ? (x->end > y->end) - (x->end < y->end) : (x->begin > y->begin) - (x->begin < y->begin);
}

/* In order; of two that are close together, the one with the longer pause, else the first. */
static void thin_out(places *all) {
    size_t n = 0;
    if (all->n)
        qsort(all->items, all->n, sizeof(*all->items), in_order);
    for (size_t i = 0; i < all->n; i++) {
        const place *one = &all->items[i], *last = n ? &all->items[n - 1] : NULL;
        if (last && one->end - last->begin < PLACES_APART) {
            if (one->begin - one->end > last->begin - last->end)
                all->items[n - 1] = *one;
            continue;
        }
        all->items[n++] = *one;
    }
    all->n = n;
}

/* Pauses, if the units that the change is between are apart by one; else shorter ones and dips, too. */
static mxw_status find_places(const decision *d, mx_span search, const mx_span *before, places *all) {
    const mx_span *after = before + 1;
    mxw_status status = find_pauses(d, search, PLACE_PAUSE, all);
    if (status >= 0 && (all->n == 0 || after->start - before->end < PLACE_PAUSE)) {
        mx_span near = {MX_MAX(search.start, before->end - DIP_REACH), MX_MIN(search.end, after->start + DIP_REACH)};
        all->n = 0;
        MX_TRY(find_pauses(d, search, SHORT_PAUSE, all));
        MX_TRY(find_dips(d, near, all));
        thin_out(all);
    }
out:
    return status;
}

/* How probable one language is if it can only be the other instead. */
static double between(const float *heard, int one, int other) {
    return -log1p(exp((double)heard[other] - (double)heard[one]));
}

/* What is between two places near unit u; if that is a unit, it was heard before. */
static mxw_status hear_piece(decision *d, size_t u, int64_t start, int64_t end, const float **heard) {
    for (size_t i = u; i < MX_MIN(u + 2, d->n); i++)
        if (llabs(d->units[i].start - start) <= SAME && llabs(d->units[i].end - end) <= SAME) {
            *heard = d->heard + i * (size_t)d->k;
            return MXW_OK;
        }
    *heard = d->here;
    return hear(d, start, end, d->here);
}

/* Scores by what is between places: before a place one language, after it the other. */
static mxw_status hear_pieces(decision *d, size_t u, places *all, int before, int after) {
    mxw_status status = MXW_OK;
    const float *heard;
    for (size_t i = 0; i < all->n; i++)
        all->items[i].score = PAUSE_BONUS * fmin(mx_mel_frames_to_s(all->items[i].begin - all->items[i].end), 1);
    for (size_t i = 0; i + 1 < all->n; i++) {
        MX_TRY(hear_piece(d, u, all->items[i].begin, all->items[i + 1].end, &heard));
        double length = (double)(all->items[i + 1].end - all->items[i].begin), weight = fmin(length / WHOLE_PIECE, 1);
        double left = weight * fmax(between(heard, before, after), PIECE_FLOOR);
        double right = weight * fmax(between(heard, after, before), PIECE_FLOOR);
        for (size_t j = 0; j < all->n; j++)
            all->items[j].score += j > i ? left : right;
    }
out:
    return status;
}

/* Adds to a place's score what is heard right before and right after it. */
static mxw_status hear_beside(decision *d, place *at, mx_span limits, int before, int after) {
    mxw_status status = MXW_OK;
    int64_t from = MX_MAX(limits.start, at->end - BESIDE), to = MX_MIN(limits.end, at->begin + BESIDE);
    if (at->end - from < LEAST_BESIDE || to - at->begin < LEAST_BESIDE) {
        at->score += PIECE_FLOOR;
        return MXW_OK;
    }
    MX_TRY(hear(d, from, at->end, d->here));
    at->score += fmax(between(d->here, before, after), MX_LANGUAGE_FLOOR);
    MX_TRY(hear(d, at->begin, to, d->here));
    at->score += fmax(between(d->here, after, before), MX_LANGUAGE_FLOOR);
out:
    return status;
}

/* The places that are worth comparing: the best one, and those close to it; they are moved to the front. */
static size_t find_contenders(places *all) {
    size_t n = 0;
    double best = -INFINITY;
    for (; n < MX_MIN(all->n, CONTENDERS); n++) {
        size_t top = n;
        for (size_t i = n; i < all->n; i++)
            top = all->items[i].score > all->items[top].score ? i : top;
        best = n == 0 ? all->items[top].score : best;
        if (all->items[top].score < best - CLOSE)
            break;
        place moved = all->items[n];
        all->items[n] = all->items[top];
        all->items[top] = moved;
    }
    return n;
}

/* The language changes between unit u and the next, as far as units tell; where it does exactly, after the previous
 * change. */
static mxw_status find_switch(decision *d, size_t u, int64_t previous, int64_t *boundary) {
    mxw_status status;
    const mx_span *before = &d->units[u], *after = before + 1;
    mx_span limits = {before->start, after->end}, search = limits;
    int old = d->path[u], new = d->path[u + 1];
    places all = {0};
    if (u > 0 && d->path[u - 1] == old) {
        limits.start = before[-1].start;
        search.start = before[-1].end;
    }
    if (u + 2 < d->n && d->path[u + 2] == new) {
        limits.end = after[1].end;
        search.end = after[1].start;
    }
    search.start = MX_MAX(search.start, previous);
    limits.start = MX_MAX(limits.start, previous);
    MX_TRY(find_places(d, search, before, &all));
    MX_TRY(hear_pieces(d, u, &all, old, new));
    size_t n = find_contenders(&all), best = 0;
    for (size_t i = 0; i < n && n > 1; i++)
        MX_TRY(hear_beside(d, &all.items[i], limits, old, new));
    for (size_t i = 1; i < n; i++)
        best = all.items[i].score > all.items[best].score ? i : best;
    *boundary = n ? (all.items[best].end + all.items[best].begin) / 2 : (before->end + after->start) / 2;
out:
    mx_free(all.items);
    return status;
}

/* ---- the whole recording ----------------------------------------------------------------------------------------- */

/* The units that are in a wanted clip. */
static void drop_unwanted(decision *d) {
    const mx_clip_plan *plan = &d->s->at.plan;
    size_t n = 0;
    for (size_t u = 0; u < d->n; u++)
        for (int i = 0; i < plan->n_wanted; i++)
            if (d->units[u].start < plan->wanted[i].end && d->units[u].end > plan->wanted[i].start) {
                d->units[n++] = d->units[u];
                break;
            }
    d->n = n;
}

static mxw_status make_room(decision *d) {
    size_t n = MX_MAX(d->n, 1), k = (size_t)d->k;
    d->heard = mx_alloc_array(n * k, sizeof(*d->heard));
    d->single = mx_alloc_array(n * k, sizeof(*d->single));
    d->pair = mx_alloc_array(n * k, sizeof(*d->pair));
    d->here = mx_alloc_array(k, sizeof(*d->here));
    d->path = mx_alloc_array(n, sizeof(*d->path));
    d->probability = mx_alloc_array(n, sizeof(*d->probability));
    d->cells = mx_alloc_zero((size_t)d->s->plan->options.n_text_ctx, sizeof(*d->cells));
    return d->heard && d->single && d->pair && d->here && d->path && d->probability && d->cells ? MXW_OK : MXW_E_MEMORY;
}

/* Without any speech: one language for all of it, as plain detection would. */
static mxw_status decide_silence(decision *d) {
    int64_t seek = d->s->at.plan.wanted[0].start;
    mxw_status status = hear(d, seek, seek + MX_MEL_WINDOW - 2 * MARGIN, d->here);
    if (status < 0)
        return status;
    int best = 0;
    for (int i = 1; i < d->k; i++)
        best = d->here[i] > d->here[best] ? i : best;
    mx_language_span all = {0, INT64_MAX, d->s->languages.codes[best], fmin(exp((double)d->here[best]), 1)};
    return mx_session_take_languages(d->s, &all, 1);
}

/* Units of one language in a row are a span; its probability is their mean, each counted by its length. */
static mxw_status make_spans(decision *d, mx_language_span *spans, size_t *n) {
    double weighted = 0, length = 0;
    int64_t start = 0;
    *n = 0;
    for (size_t u = 0; u < d->n; u++) {
        int64_t end = INT64_MAX;
        double own = (double)(d->units[u].end - d->units[u].start);
        weighted += own * d->probability[u];
        length += own;
        if (u + 1 < d->n && d->path[u] == d->path[u + 1])
            continue;
        if (u + 1 < d->n) {
            mxw_status status = find_switch(d, u, start, &end);
            if (status < 0)
                return status;
        }
        spans[(*n)++] = (mx_language_span){start, end, d->s->languages.codes[d->path[u]], fmin(weighted / length, 1)};
        start = end;
        weighted = length = 0;
    }
    return MXW_OK;
}

static mxw_status decide(decision *d) {
    mxw_status status;
    size_t n_chunks, n_spans;
    mx_language_span *spans = NULL;
    const float *p = mx_speech_probabilities(d->s->speech, &n_chunks);
    MX_TRY(mx_language_units(p, n_chunks, d->s->options.vad_threshold, &d->units, &d->n));
    drop_unwanted(d);
    d->s->languages.known = d->s->options.vad && mx_speech_n_regions(d->s->speech) == 0;
    if (d->s->languages.known)   /* nothing will be decoded */
        return MXW_OK;
    MX_TRY(make_room(d));
    if (d->n == 0)
        return decide_silence(d);
    MX_TRY(hear_units(d));
    MX_TRY(mx_language_path(d->single, d->pair, d->n, d->k, d->path, d->probability));
    spans = mx_alloc_array(d->n, sizeof(*spans));
    status = spans ? MXW_OK : MXW_E_MEMORY;
    if (status < 0)
        goto out;
    MX_TRY(make_spans(d, spans, &n_spans));
    mx_log(MXW_LOG_INFO, "languages", "%zu spans: %zu units of speech, %lld windows heard", n_spans, d->n,
           (long long)d->n_heard);
    MX_TRY(mx_session_take_languages(d->s, spans, n_spans));
out:
    mx_free(spans);
    return status;
}

mxw_status mx_session_decide_languages(mx_session *s) {
    mx_languages *l = &s->languages;
    decision d = {.s = s, .k = l->n};
    if (l->known)
        return MXW_OK;
    if (l->n == 1)
        return mx_session_take_languages(s, &(mx_language_span){0, INT64_MAX, l->codes[0], 1}, 1);
    mxw_status status = decide(&d);
    mx_free(d.units);
    mx_free(d.heard);
    mx_free(d.single);
    mx_free(d.pair);
    mx_free(d.here);
    mx_free(d.path);
    mx_free(d.probability);
    mx_free(d.cells);
    return status;
}
