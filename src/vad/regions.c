/* vad/regions.c - the state machine from probabilities to regions; see the header. Comparisons, strict or not, are
 * those of get_speech_timestamps, and so is the arithmetic: positions are whole numbers, limits are doubles. */
#include "vad/regions.h"

#include <math.h>

#include "base/mem.h"

void mx_regions_start(mx_regions *r, const mxw_vad_options *o) {
    const double rate = o->sample_rate;
    mx_regions fresh = {.ready = r->ready, .room = r->room};
    fresh.chunk = o->sample_rate == 16000 ? 512 : 256;
    fresh.threshold = o->threshold;
    fresh.neg_threshold = o->neg_threshold == MXW_NONE ? fmax(o->threshold - 0.15, 0.01) : o->neg_threshold;
    fresh.min_speech = rate * o->min_speech_ms / 1000;
    fresh.min_silence = rate * o->min_silence_ms / 1000;
    fresh.min_cut_silence = rate * o->min_silence_at_max_speech_ms / 1000;
    fresh.pad = rate * o->pad_ms / 1000;
    fresh.max_speech = o->max_speech_s == MXW_NONE ? INFINITY
                                                   : rate * o->max_speech_s - (double)fresh.chunk - 2 * fresh.pad;
    fresh.longest = o->cut_at_longest_pause != 0;
    fresh.padded_start = -1;
    *r = fresh;
}

void mx_regions_free(mx_regions *r) {
    mx_free(r->ready);
    *r = (mx_regions){0};
}

/* ---- regions that are certain ----------------------------------------------------------------------------------- */

static mxw_status give(mx_regions *r, mx_region span) {
    if (r->at == r->n)
        r->at = r->n = 0;
    mxw_status status = mx_grow(&r->ready, &r->room, r->n + 1, sizeof(*r->ready));
    if (status == MXW_OK)
        r->ready[r->n++] = span;
    return status;
}

int mx_regions_take(mx_regions *r, mx_region *span) {
    if (r->at == r->n)
        return 0;
    *span = r->ready[r->at++];
    return 1;
}

/* Gives the held region, after which nothing begins within twice the padding. */
static mxw_status give_apart(mx_regions *r, int64_t length) {
    double end = (double)r->last.end + r->pad;
    r->last.end = (int64_t)fmin((double)length, end);
    r->held = 0;
    return give(r, r->last);
}

static int64_t padded_first(const mx_regions *r, int64_t first) {
    return (int64_t)fmax(0, (double)first - r->pad);
}

/* This speech is going to be a region: settles its start, and the end of the one before. */
static mxw_status settle_start(mx_regions *r) {
    if (r->padded_start >= 0)
        return MXW_OK;
    r->padded_start = padded_first(r, r->start);
    if (!r->held)
        return MXW_OK;
    int64_t gap = r->start - r->last.end;
    if (!((double)gap < 2 * r->pad))
        return give_apart(r, INT64_MAX);
    r->last.end += gap / 2;
    r->padded_start = r->start - gap / 2;
    r->held = 0;
    return give(r, r->last);
}

/* Where this speech ends at the earliest. */
static int64_t least_end(const mx_regions *r) { return r->quiet ? r->quiet : r->known; }

/* This speech is long enough wherever it ends. */
static int will_be_kept(const mx_regions *r) {
    return r->speaking && (double)(least_end(r) - r->start) > r->min_speech;
}

/* What is certain after a chunk: the held region, as soon as the next one is far, or is near and sure to be kept. */
static mxw_status settle(mx_regions *r) {
    if (!r->held)
        return MXW_OK;
    int64_t next = r->speaking ? r->start : r->position;   /* nothing begins before */
    if (!((double)(next - r->last.end) < 2 * r->pad) && (double)r->known >= (double)r->last.end + r->pad)
        return give_apart(r, r->known);
    return will_be_kept(r) ? settle_start(r) : MXW_OK;
}

int mx_regions_ahead(const mx_regions *r, mx_region *span) {
    int cuts = isfinite(r->max_speech), certain = 1;
    if (r->at < r->n)
        *span = r->ready[r->at];
    else if (r->held)
        *span = r->last;
    else if (r->ended)
        *span = (mx_region){INT64_MAX, INT64_MAX}, certain = 0;
    else {
        int64_t first = r->speaking ? r->start : r->position;
        *span = (mx_region){r->padded_start >= 0 ? r->padded_start : padded_first(r, first), least_end(r)};
        certain = will_be_kept(r);
    }
    return certain && !cuts;
}

/* ---- the state machine ------------------------------------------------------------------------------------------ */

static mxw_status keep(mx_regions *r, int64_t end) {
    mxw_status status = settle_start(r);
    r->last = (mx_region){r->padded_start, end};
    r->held = 1;
    r->padded_start = -1;
    return status;
}

static void forget_pauses(mx_regions *r) {
    r->quiet = r->cut_end = r->cut_start = r->longest_end = r->longest_pause = 0;
}

/* Speech after a possible end: a pause, where a cut may be made. */
static void speech_returns(mx_regions *r) {
    int64_t pause = r->position - r->quiet;
    if ((double)pause > r->min_cut_silence && pause > r->longest_pause) {
        r->longest_end = r->quiet;
        r->longest_pause = pause;
    }
    r->quiet = 0;
    if (r->cut_start < r->cut_end)
        r->cut_start = r->position;
}

/* This speech is too long: cuts it, without regard to the least length. 1 in *idle: it ended with this chunk. */
static mxw_status cut(mx_regions *r, int *idle) {
    int64_t end, next;
    *idle = 0;
    if (r->longest && r->longest_pause) {
        end = r->longest_end;
        next = end + r->longest_pause;
    } else if (r->cut_end) {
        end = r->cut_end;
        next = r->cut_start;
    } else {
        end = r->position;
        next = -1;
        *idle = 1;
    }
    mxw_status status = keep(r, end);
    r->speaking = next >= end;   /* else it is still quiet after the last pause began, or this is a cut in speech */
    r->start = next;
    forget_pauses(r);
    return status;
}

static mxw_status hear_silence(mx_regions *r) {
    mxw_status status = MXW_OK;
    if (!r->quiet)
        r->quiet = r->position;
    int64_t pause = r->position - r->quiet;
    if (!r->longest && (double)pause > r->min_cut_silence)
        r->cut_end = r->quiet;
    if ((double)pause < r->min_silence)
        return MXW_OK;
    if ((double)(r->quiet - r->start) > r->min_speech)
        status = keep(r, r->quiet);
    r->padded_start = -1;
    r->speaking = 0;
    forget_pauses(r);
    return status;
}

static mxw_status step(mx_regions *r, double probability) {
    mxw_status status = MXW_OK;
    int idle = 0;
    if (probability >= r->threshold && r->quiet)
        speech_returns(r);
    if (probability >= r->threshold && !r->speaking) {
        r->speaking = 1;
        r->start = r->position;
        return MXW_OK;
    }
    if (r->speaking && (double)(r->position - r->start) > r->max_speech)
        status = cut(r, &idle);
    if (status == MXW_OK && !idle && probability < r->neg_threshold && r->speaking)
        status = hear_silence(r);
    return status;
}

mxw_status mx_regions_add(mx_regions *r, float probability, int64_t known) {
    mxw_status status = step(r, (double)probability);
    r->position += r->chunk;
    r->known = known;
    return status < 0 ? status : settle(r);
}

mxw_status mx_regions_end(mx_regions *r, int64_t length) {
    mxw_status status = MXW_OK;
    if (r->speaking && (double)(length - r->start) > r->min_speech)
        status = keep(r, length);
    r->speaking = 0;
    r->ended = 1;
    r->padded_start = -1;
    forget_pauses(r);
    if (status == MXW_OK && r->held)
        status = give_apart(r, length);
    return status;
}
