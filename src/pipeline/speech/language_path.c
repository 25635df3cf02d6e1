/* pipeline/speech/language_path.c - units of speech, and the Viterbi algorithm over their languages. */
#include "pipeline/speech/language_path.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "feature/feature.h"

/* All in chunks. */
#define CHUNKS(seconds) ((size_t)((seconds) * MXW_SAMPLE_RATE / MX_SPEECH_CHUNK + 0.5))
#define PAUSE CHUNKS(0.2)          /* that separates stretches of speech */
#define LEAST_SPEECH CHUNKS(0.1)   /* a shorter stretch is a click */
#define LEAST_UNIT CHUNKS(2.2)     /* speech by which a language can be told */
#define SHORT_UNIT CHUNKS(1.0)
#define LONGEST_UNIT CHUNKS(6.0)
#define LONG_PAUSE CHUNKS(1.0)     /* always ends a unit */

/* ---- stretches --------------------------------------------------------------------------------------------------- */

typedef struct stretches {
    mx_span *items;                /* chunks */
    size_t n, room;
} stretches;

static mxw_status add(stretches *to, size_t start, size_t end) {
    mxw_status status = mx_grow(&to->items, &to->room, to->n + 1, sizeof(*to->items));
    if (status >= 0)
        to->items[to->n++] = (mx_span){(int64_t)start, (int64_t)end};
    return status;
}

/* Where a stretch that is too long is cut: at the chunk of its next part that, with its neighbours, is least likely
 * speech. Parts are about equally long. */
static size_t cut_of(const float *p, size_t start, size_t end) {
    size_t parts = (end - start + LONGEST_UNIT - 1) / LONGEST_UNIT, part = (end - start) / parts;
    size_t best = start + part;
    float least = INFINITY;
    for (size_t i = start + part * 6 / 10; i <= start + part; i++) {
        float sum = p[i - 1] + p[i] + p[i + 1];
        if (sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

static mxw_status add_parts(stretches *to, const float *p, size_t start, size_t end) {
    mxw_status status = MXW_OK;
    if (end - start < LEAST_SPEECH)
        return MXW_OK;
    while (status >= 0 && end - start > LONGEST_UNIT) {
        size_t cut = cut_of(p, start, end);
        status = add(to, start, cut);
        start = cut;
    }
    return status < 0 ? status : add(to, start, end);
}

/* Speech begins at the threshold and ends where a pause below a lower one does, as a detector's regions do. */
static mxw_status find_stretches(const float *p, size_t n, double threshold, stretches *to) {
    float speech = (float)threshold, silence = (float)fmax(threshold - 0.15, 0.01);
    mxw_status status = MXW_OK;
    size_t start = 0, end = 0;
    int speaking = 0, pausing = 0;
    for (size_t i = 0; i < n && status >= 0; i++) {
        if (p[i] >= speech) {
            start = speaking ? start : i;
            speaking = 1;
            pausing = 0;
        } else if (speaking && p[i] < silence) {
            end = pausing ? end : i;
            pausing = 1;
        }
        if (pausing && i + 1 - end >= PAUSE) {
            status = add_parts(to, p, start, end);
            speaking = pausing = 0;
        }
    }
    return status >= 0 && speaking ? add_parts(to, p, start, pausing ? end : n) : status;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

/* A unit: stretches [first, end), and how many chunks of them are speech. */
typedef struct unit {
    size_t first, end, speech;
} unit;

static size_t length_of(const stretches *all, size_t first, size_t end) {
    return (size_t)(all->items[end - 1].end - all->items[first].start);
}

/* The pause after stretch i; before the first and after the last it is endless. */
static size_t pause_after(const stretches *all, size_t i) {
    return i + 1 < all->n ? (size_t)(all->items[i + 1].start - all->items[i].end) : SIZE_MAX;
}

/* From a stretch on, up to the first pause after which there is enough speech. */
static unit begin_unit(const stretches *all, size_t i) {
    const mx_span *s = all->items;
    unit u = {i, i + 1, (size_t)(s[i].end - s[i].start)};
    while (u.end < all->n && u.speech < LEAST_UNIT && pause_after(all, u.end - 1) < LONG_PAUSE &&
           length_of(all, i, u.end + 1) <= LONGEST_UNIT) {
        u.speech += (size_t)(s[u.end].end - s[u.end].start);
        u.end++;
    }
    return u;
}

/* What is left over before a long pause, or beside a long stretch, and is too short, joins the unit that is nearer. */
static size_t join_short(const stretches *all, unit *units, size_t n) {
    for (size_t i = 0; i < n;) {
        const unit *own = &units[i];
        size_t before = SIZE_MAX, after = SIZE_MAX;
        if (own->speech < SHORT_UNIT && i > 0 && length_of(all, units[i - 1].first, own->end) <= LONGEST_UNIT)
            before = pause_after(all, own->first - 1);
        if (own->speech < SHORT_UNIT && i + 1 < n && length_of(all, own->first, units[i + 1].end) <= LONGEST_UNIT)
            after = pause_after(all, own->end - 1);
        if (MX_MIN(before, after) >= LONG_PAUSE) {
            i++;
            continue;
        }
        size_t left = before <= after ? i - 1 : i;
        units[left] = (unit){units[left].first, units[left + 1].end, units[left].speech + units[left + 1].speech};
        memmove(units + left + 1, units + left + 2, (n - left - 2) * sizeof(*units));
        n--;
        i = left;
    }
    return n;
}

static int64_t frame_of(int64_t chunk) { return chunk * MX_SPEECH_CHUNK / MX_MEL_HOP; }

mxw_status mx_language_units(const float *p, size_t n, double threshold, mx_span **out, size_t *n_out) {
    stretches all = {0};
    unit *units = NULL;
    size_t count = 0;
    *out = NULL;
    *n_out = 0;
    mxw_status status = find_stretches(p, n, threshold, &all);
    if (status >= 0 && all.n > 0) {
        units = mx_alloc_array(all.n, sizeof(*units));
        *out = mx_alloc_array(all.n, sizeof(**out));
        status = units && *out ? MXW_OK : MXW_E_MEMORY;
    }
    for (size_t i = 0; status >= 0 && i < all.n; i = units[count++].end)
        units[count] = begin_unit(&all, i);
    count = join_short(&all, units, count);
    for (size_t i = 0; i < count; i++)
        (*out)[i] = (mx_span){frame_of(all.items[units[i].first].start), frame_of(all.items[units[i].end - 1].end)};
    *n_out = count;
    mx_free(units);
    mx_free(all.items);
    return status;
}

/* ---- the path ---------------------------------------------------------------------------------------------------- */

/* The best of k scores, without number `but`. */
static int best_of(const double *scores, int k, int but) {
    int best = -1;
    for (int i = 0; i < k; i++)
        if (i != but && (best < 0 || scores[i] > scores[best]))
            best = i;
    return best;
}

/* One unit further: `from` are the scores up to the unit before the edge, `to` those with the unit after it, whose
 * evidence is `own`. came: the best language before, for each. */
static void step(const double *from, const float *pair, const float *own, int k, double *to, int *came) {
    int best = best_of(from, k, -1), second = best_of(from, k, best);
    for (int i = 0; i < k; i++) {
        int other = i == best ? second : best;
        double stay = from[i] + (double)pair[i], change = other < 0 ? -INFINITY : from[other] - MX_LANGUAGE_SWITCH;
        came[i] = stay >= change ? i : other;
        to[i] = fmax(stay, change) + (double)own[i];
    }
}

/* The same with the sum over all languages before instead of the best, in logarithms. */
static void sum_step(const double *from, const float *pair, const float *own, int k, double *to) {
    int best = best_of(from, k, -1);
    double others = 0;   /* of all but the best, relative to it */
    for (int i = 0; i < k; i++)
        others += i == best ? 0 : exp(from[i] - from[best]);
    for (int i = 0; i < k; i++) {
        double here = exp(from[i] - from[best]), rest = i == best ? others : 1 + fmax(others - here, 0);
        to[i] = from[best] + log(here * exp((double)pair[i]) + rest * exp(-MX_LANGUAGE_SWITCH)) + (double)own[i];
    }
}

static void find_best(const float *single, const float *pair, size_t n, int k, double *score, int *came, int *path) {
    size_t width = (size_t)k;
    for (int i = 0; i < k; i++)
        score[i] = (double)single[i];
    for (size_t u = 1; u < n; u++)
        step(score + (u - 1) * width, pair + (u - 1) * width, single + u * width, k, score + u * width,
             came + u * width);
    path[n - 1] = best_of(score + (n - 1) * width, k, -1);
    for (size_t u = n - 1; u > 0; u--)
        path[u - 1] = came[u * width + (size_t)path[u]];
}

/* Sums over all sequences: forwards into score, then backwards, with the unit's own evidence in both. */
static void find_probabilities(const float *single, const float *pair, size_t n, int k, double *score, double *back,
                               double *next, const int *path, double *probability) {
    size_t width = (size_t)k;
    for (int i = 0; i < k; i++) {
        score[i] = (double)single[i];
        back[i] = (double)single[(n - 1) * width + (size_t)i];
    }
    for (size_t u = 1; u < n; u++)
        sum_step(score + (u - 1) * width, pair + (u - 1) * width, single + u * width, k, score + u * width);
    for (size_t u = n; u-- > 0;) {
        const double *here = score + u * width;
        const float *own = single + u * width;
        double all = 0, chosen = here[path[u]] + back[path[u]] - (double)own[path[u]];
        for (int i = 0; i < k; i++)
            all += exp(here[i] + back[i] - (double)own[i] - chosen);
        probability[u] = 1 / all;
        if (u > 0) {
            sum_step(back, pair + (u - 1) * width, single + (u - 1) * width, k, next);
            memcpy(back, next, width * sizeof(*back));
        }
    }
}

mxw_status mx_language_path(const float *single, const float *pair, size_t n, int k, int *path, double *probability) {
    size_t width = (size_t)k;
    double *score = mx_alloc_array((n + 2) * width, sizeof(*score));
    int *came = mx_alloc_array(n * width, sizeof(*came));
    mxw_status status = score && came ? MXW_OK : MXW_E_MEMORY;
    if (status >= 0) {
        find_best(single, pair, n, k, score, came, path);
        find_probabilities(single, pair, n, k, score, score + n * width, score + (n + 1) * width, path, probability);
    }
    mx_free(score);
    mx_free(came);
    return status;
}
