/* pipeline/live/transcript.c - all finals of a stream as a result: a segment for each sentence, at most as long as a
 * subtitle may reasonably be, and none across the end of an utterance. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "pipeline/live/live.h"

#define LONG_S 15.0       /* a segment that lasts so long ends at the next comma, ... */
#define LONGEST_S 25.0    /* ... or after the next word */

struct mx_transcript {
    mx_arena memory;              /* of finished segments */
    mxw_segment *segments;        /* [n]; with the open one, if any, behind them when they are given out */
    size_t n, room;
    mxw_word *words;              /* of the open segment, to which more will be added; text in memory */
    size_t n_words, room_words;
    char language[16];            /* its, and its probability */
    double language_probability;
    int channel;
    const char *speaker;          /* in memory, or NULL */
    mx_str text;                  /* of all, ... */
    size_t begin;                 /* ... the open segment's from here on */
    mxw_stage_times times;
    mxw_result result;
};

mxw_status mx_transcript_open(const mxw_session_options *options, mx_transcript **out) {
    mx_transcript *t = mx_alloc_zero(1, sizeof(*t));
    if (!t)
        return MXW_E_MEMORY;
    t->channel = options->channel;
    t->result.language_probability = -1;
    if (options->speaker && !(t->speaker = mx_arena_strdup(&t->memory, options->speaker))) {
        mx_transcript_close(t);
        return MXW_E_MEMORY;
    }
    *out = t;
    return MXW_OK;
}

void mx_transcript_close(mx_transcript *t) {
    if (!t)
        return;
    mx_arena_free(&t->memory);
    mx_free(t->segments);
    mx_free(t->words);
    mx_str_free(&t->text);
    mx_free(t);
}

/* The open segment, behind the finished ones; everything in it is valid until words are added. */
static mxw_status make_segment(mx_transcript *t) {
    const char *text = mx_str_get(&t->text) + t->begin;
    double logprob = 0;
    mxw_status status = mx_grow(&t->segments, &t->room, t->n + 1, sizeof(*t->segments));
    if (status < 0)
        return status;
    for (size_t i = 0; i < t->n_words; i++)
        logprob += log(MX_MAX(t->words[i].probability, 1e-9)) / (double)t->n_words;
    t->segments[t->n] = (mxw_segment){.id = (int64_t)t->n,
                                      .seek = (int64_t)(t->words[0].start * MX_MEL_RATE),
                                      .start = t->words[0].start,
                                      .end = t->words[t->n_words - 1].end,
                                      .text = text,
                                      .avg_logprob = logprob,
                                      .channel = t->channel,
                                      .speaker = t->speaker,
                                      .words = mx_word_array(t->words),
                                      .n_words = t->n_words,
                                      .language = *t->language ? t->language : NULL,
                                      .language_probability = t->language_probability};
    return mx_compression_ratio(text, strlen(text), &t->segments[t->n].compression_ratio);
}

/* What it points to is copied: it stays as it is now. */
mxw_status mx_transcript_break(mx_transcript *t) {
    if (t->n_words == 0)
        return MXW_OK;
    mxw_status status = make_segment(t);
    if (status < 0)
        return status;
    mxw_segment *segment = &t->segments[t->n];
    mxw_word *words = mx_arena_alloc(&t->memory, t->n_words * sizeof(*words));
    segment->text = mx_arena_strdup(&t->memory, segment->text);
    if (segment->language)
        segment->language = mx_arena_strdup(&t->memory, t->language);
    if (!words || !segment->text || (*t->language && !segment->language))
        return MXW_E_MEMORY;
    memcpy(words, t->words, t->n_words * sizeof(*words));
    segment->words = mx_word_array(words);
    t->n++;
    t->n_words = 0;
    t->begin = t->text.n;
    return MXW_OK;
}

static int ends_with(const char *word, const char *const *marks) {
    size_t n = strlen(word);
    for (; *marks; marks++)
        if (n >= strlen(*marks) && strcmp(word + n - strlen(*marks), *marks) == 0)
            return 1;
    return 0;
}

static int is_end(const mx_transcript *t) {
    static const char *const sentence[] = {".", "?", "!", "。", "？", "！", "…", NULL};
    static const char *const clause[] = {",", ";", ":", "、", "，", "；", NULL};
    const mxw_word *last = &t->words[t->n_words - 1];
    double length = last->end - t->words[0].start;
    return ends_with(last->word, sentence) || (length > LONG_S && ends_with(last->word, clause)) || length > LONGEST_S;
}

/* Punctuation that came after its word belongs to it: also if that ended a segment. */
static mxw_status add_word(mx_transcript *t, const mxw_word *word) {
    mxw_status status = mx_grow(&t->words, &t->room_words, t->n_words + 1, sizeof(*t->words));
    if (status < 0)
        return status;
    t->words[t->n_words] = *word;
    t->words[t->n_words].word = mx_arena_strdup(&t->memory, word->word);
    if (!t->words[t->n_words].word)
        return MXW_E_MEMORY;
    mx_str_text(&t->text, word->word);
    if (mx_str_status(&t->text) < 0)
        return MXW_E_MEMORY;
    t->n_words++;
    return is_end(t) ? mx_transcript_break(t) : MXW_OK;
}

mxw_status mx_transcript_add(mx_transcript *t, const mxw_live_event *final) {
    mxw_status status = MXW_OK;
    const char *language = final->language ? final->language : "";
    const mxw_word *words = (const mxw_word *)(const void *)final->words;
    if (t->n_words > 0 && strcmp(t->language, language) != 0)
        MX_TRY(mx_transcript_break(t));
    snprintf(t->language, sizeof(t->language), "%s", language);
    t->language_probability = final->language_probability;
    for (size_t i = 0; i < final->n_words; i++)
        MX_TRY(add_word(t, &words[i]));
out:
    return status;
}

/* All that is final, the open segment as it is now included: what reads the result at any moment misses nothing. */
const mxw_result *mx_transcript_result(mx_transcript *t, double duration_s) {
    size_t n = t->n + (t->n_words > 0);
    if (t->n_words > 0 && make_segment(t) < 0)
        return NULL;
    t->result.text = mx_str_get(&t->text);
    t->result.language = n > 0 ? t->segments[n - 1].language : NULL;
    t->result.language_probability = n > 0 ? t->segments[n - 1].language_probability : -1;
    t->result.segments = mx_segment_array(t->segments);
    t->result.n_segments = n;
    t->result.duration_s = duration_s;
    t->result.times = &t->times;
    return &t->result;
}
