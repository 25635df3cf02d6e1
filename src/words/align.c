/* words/align.c - words with times: boundaries from the DTW path, overlong words at sentence ends shortened,
 * punctuation merged with its word. The rules and their order are openai-whisper's. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "words/words.h"

#define LONGEST_MEDIAN_S 0.7
#define SENTENCE_ENDS ".。!！?？"

void mx_words_clear(mx_words *words) {
    words->n = 0;
    words->median_s = 0;
    mx_str_clear(&words->text);
}

void mx_words_free(mx_words *words) {
    mx_free(words->items);
    mx_str_free(&words->text);
    *words = (mx_words){0};
}

static void set_times(mx_words *words, const int32_t *frames, const double *probabilities) {
    size_t token = 0;
    for (size_t i = 0; i < words->n; i++) {
        mx_word *word = &words->items[i];
        double sum = 0;
        word->start_s = frames[token] / (double)MX_WORD_FRAMES_PER_S;
        for (size_t j = 0; j < word->n_tokens; j++)
            sum += probabilities[token + j];
        token += word->n_tokens;
        word->end_s = frames[token] / (double)MX_WORD_FRAMES_PER_S;
        word->probability = sum / (double)word->n_tokens;
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the durations that are not 0; *n is their number. */
static mxw_status median_duration(const mx_words *words, double *median, size_t *n) {
    double *durations = mx_alloc_array(MX_MAX(words->n, 1), sizeof(*durations));
    if (!durations)
        return MXW_E_MEMORY;
    *n = 0;
    for (size_t i = 0; i < words->n; i++) {
        double d = words->items[i].end_s - words->items[i].start_s;
        if (d != 0)
            durations[(*n)++] = d;
    }
    qsort(durations, *n, sizeof(*durations), by_size);
    *median = *n == 0 ? 0 : *n % 2 ? durations[*n / 2] : (durations[*n / 2 - 1] + durations[*n / 2]) / 2;
    mx_free(durations);
    return MXW_OK;
}

static int is_in(const mx_words *words, const mx_word *word, const char *characters) {
    return mx_words_contains(characters, mx_str_get(&words->text) + word->begin, word->end - word->begin);
}

/* A pause is often attributed to the mark that ends a sentence, or to the word after it. */
static void limit_durations(mx_words *words, double most) {
    for (size_t i = 1; i < words->n; i++) {
        mx_word *word = &words->items[i];
        if (!(word->end_s - word->start_s > most))
            continue;
        if (is_in(words, word, SENTENCE_ENDS))
            word->end_s = word->start_s + most;
        else if (is_in(words, word - 1, SENTENCE_ENDS))
            word->start_s = word->end_s - most;
    }
}

/* Adjacent words are adjacent in the text, so a merged word is a longer part of it. */
static void join(mx_word *from, mx_word *to) {
    to->begin = MX_MIN(to->begin, from->begin);
    to->end = MX_MAX(to->end, from->end);
    to->n_tokens += from->n_tokens;
    from->n_tokens = 0;
}

static void prepend(mx_words *words, const char *characters) {
    const char *text = mx_str_get(&words->text);
    size_t j = words->n - 1;
    for (size_t i = words->n - 1; i-- > 0;) {
        mx_word *word = &words->items[i];
        size_t n = word->end - word->begin;
        const char *stripped = mx_utf8_strip(text + word->begin, &n);
        if (word->end > word->begin && text[word->begin] == ' ' && mx_words_contains(characters, stripped, n)) {
            join(word, &words->items[j]);
            word->end = word->begin;
        } else {
            j = i;
        }
    }
}

static void append(mx_words *words, const char *characters) {
    const char *text = mx_str_get(&words->text);
    size_t i = 0;
    for (size_t j = 1; j < words->n; j++) {
        mx_word *word = &words->items[i], *next = &words->items[j];
        int ends_blank = word->end > word->begin && text[word->end - 1] == ' ';
        if (!ends_blank && is_in(words, next, characters)) {
            if (next->end > next->begin)
                join(next, word);
            next->begin = next->end;
            next->n_tokens = 0;
        } else {
            i = j;
        }
    }
}

mxw_status mx_words_align(const mx_text *text, const char *language, const mx_word_options *options,
                          const int32_t *tokens, size_t n, const int32_t *frames, const double *probabilities,
                          mx_words *out) {
    mxw_status status;
    size_t n_durations;
    double median;
    MX_TRY(mx_words_split(text, language, tokens, n, out));
    if (out->n == 0)
        return MXW_OK;
    set_times(out, frames, probabilities);
    MX_TRY(median_duration(out, &median, &n_durations));
    out->median_s = MX_MIN(LONGEST_MEDIAN_S, median);
    if (n_durations > 0)
        limit_durations(out, out->median_s * 2);
    prepend(out, options->prepend);
    append(out, options->append);
out:
    return status;
}
