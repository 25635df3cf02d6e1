/* guard/evidence.c - the numbers of evidence.def for each word of a window. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "guard/guard.h"

#define MARGIN_S 0.15          /* word times are that imprecise */
#define LEAST_LOGPROB (-7.0)   /* less tells nothing more */
#define LONG_WORD_S 1.0        /* of a longer one only an end is looked at: pauses are part of the words beside them */
#define LOOK_BACK 64           /* tokens in which a repetition is looked for */
#define GRAM 3                 /* tokens that have to be the same in a row */
#define STILL_S 0.04

typedef struct span {
    size_t first, end;
} span;

static span frames_of(const mx_guard_window *w, double from_s, double to_s) {
    double last = (double)w->n_frames;
    double first = fmin(fmax(floor(from_s * MX_GUARD_FRAMES_PER_S), 0), last);
    double end = fmin(fmax(ceil(to_s * MX_GUARD_FRAMES_PER_S), first), last);
    return (span){(size_t)first, (size_t)end};
}

static double highest(const mx_guard_window *w, span s) {
    double most = 0;
    for (size_t i = s.first; i < s.end; i++)
        most = fmax(most, (double)w->speech[i]);
    return most;
}

static double sum(const mx_guard_window *w, span s) {
    double total = 0;
    for (size_t i = s.first; i < s.end; i++)
        total += (double)w->speech[i];
    return total;
}

/* Index -1 is the last token before the window. */
static int32_t token_at(const mx_guard_window *w, int64_t at) {
    return at >= 0 ? w->tokens[at].id : w->before[w->n_before - (size_t)-at];
}

/* Whether the last GRAM tokens up to `at` occur shortly before. */
static int repeats(const mx_guard_window *w, int64_t at) {
    int64_t first = -(int64_t)w->n_before;
    for (int64_t back = 1; back <= LOOK_BACK && at - back - (GRAM - 1) >= first; back++) {
        int same = 1;
        for (int64_t i = 0; same && i < GRAM; i++)
            same = token_at(w, at - i) == token_at(w, at - i - back);
        if (same)
            return 1;
    }
    return 0;
}

static double mean(const mx_guard_window *w, span s) {
    return s.end > s.first ? sum(w, s) / (double)(s.end - s.first) : 0;
}

/* The frames of a word; of a long one those at the end where there is more speech. */
static span word_frames(const mx_guard_window *w, const mx_guard_word *word, double margin_s) {
    double start = word->start_s, end = word->end_s;
    if (end - start > LONG_WORD_S) {
        span first = frames_of(w, start, start + LONG_WORD_S), last = frames_of(w, end - LONG_WORD_S, end);
        if (mean(w, last) >= mean(w, first))
            start = end - LONG_WORD_S;
        else
            end = start + LONG_WORD_S;
    }
    return frames_of(w, start - margin_s, end + margin_s);
}

static double limited(double logprob) { return isnan(logprob) ? LEAST_LOGPROB : fmax(logprob, LEAST_LOGPROB); }

static double mean_looked(const mx_guard_token *tokens, size_t n) {
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += tokens[i].on_speech;
    return n ? total / (double)n : 0;
}

static double mean_logprob(const mx_guard_token *tokens, size_t n) {
    double total = 0;
    for (size_t i = 0; i < n; i++)
        total += limited(tokens[i].logprob);
    return n ? total / (double)n : LEAST_LOGPROB;
}

/* What the words [first, end) of one segment have in common; their tokens are [token, token + n). */
static void judge_segment(const mx_guard_window *w, span words, size_t token, size_t n, double *e) {
    const mx_guard_token *tokens = w->tokens + token;
    double entropy = 0, still = 0, again = 0, speech = 0, frames = 0;
    for (size_t i = 0; i < n; i++) {
        entropy += tokens[i].entropy;
        still += i > 0 && fabs(tokens[i].centre_s - tokens[i - 1].centre_s) < STILL_S;
        again += repeats(w, (int64_t)(token + i));
    }
    for (size_t i = words.first; i < words.end; i++) {
        span s = word_frames(w, &w->words[i], 0);
        speech += sum(w, s);
        frames += (double)(s.end - s.first);
    }
    double count = fmax((double)n, 1), p = fmin(fmax(w->no_speech_prob, 1e-4), 1 - 1e-4);
    span whole = frames_of(w, w->words[words.first].start_s - MARGIN_S, w->words[words.end - 1].end_s + MARGIN_S);
    e[MX_EVIDENCE_SPEECH_SEGMENT] = frames > 0 ? speech / frames : mean(w, whole);
    e[MX_EVIDENCE_SPEECH_HIGHEST] = highest(w, whole);
    e[MX_EVIDENCE_NO_SPEECH] = log(p / (1 - p));
    e[MX_EVIDENCE_LOGPROB_SEGMENT] = mean_logprob(tokens, n);
    e[MX_EVIDENCE_LOGPROB_FIRST] = mean_logprob(tokens, MX_MIN(n, 1));
    e[MX_EVIDENCE_LOGPROB_WINDOW] = fmax(w->avg_logprob, LEAST_LOGPROB);
    e[MX_EVIDENCE_DISAGREEMENT] = fmax(e[MX_EVIDENCE_LOGPROB_WINDOW] - e[MX_EVIDENCE_LOGPROB_SEGMENT], 0);
    e[MX_EVIDENCE_ENTROPY] = entropy / count;
    e[MX_EVIDENCE_LOOKED_SEGMENT] = mean_looked(tokens, n);
    e[MX_EVIDENCE_STILL] = still / count;
    e[MX_EVIDENCE_RATE] = log(count / (sum(w, whole) / MX_GUARD_FRAMES_PER_S + 0.3));
    e[MX_EVIDENCE_REPETITION] = again / count;
    e[MX_EVIDENCE_COMPRESSION] = fmax(w->compression_ratio - 1.5, 0);
    e[MX_EVIDENCE_TEMPERATURE] = w->temperature;
}

static void judge_word(const mx_guard_window *w, mx_guard_word *word, const double *segment) {
    const mx_guard_token *tokens = w->tokens + word->first_token;
    double *e = word->evidence, seconds = word->end_s - word->start_s;
    memcpy(e, segment, sizeof(word->evidence));
    e[MX_EVIDENCE_SPEECH_WORD] = highest(w, word_frames(w, word, MARGIN_S));
    e[MX_EVIDENCE_LOOKED_WORD] = mean_looked(tokens, word->n_tokens);
    e[MX_EVIDENCE_LOGPROB_WORD] = mean_logprob(tokens, word->n_tokens);
    e[MX_EVIDENCE_SHORT_WORD] = seconds < 0.03;
    word->suspicion = mx_guard_score(e, &word->reasons);
}

void mx_guard_judge(mx_guard_window *w) {
    for (size_t first = 0, end; first < w->n_words; first = end) {
        double segment[MX_N_EVIDENCE] = {0};
        size_t n = 0;
        for (end = first; end < w->n_words && w->words[end].segment == w->words[first].segment; end++)
            n += w->words[end].n_tokens;
        judge_segment(w, (span){first, end}, w->words[first].first_token, n, segment);
        for (size_t i = first; i < end; i++)
            judge_word(w, &w->words[i], segment);
    }
}
