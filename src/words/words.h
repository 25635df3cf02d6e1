/* words/words.h - public header of words/: cross-attention scores and tokens in, words with times out.
 *
 * mx_words_matrix: attention scores of known tokens to one matrix of how well each token fits each frame of 20 ms.
 * mx_words_align:  that matrix and the tokens to words: the best path through it, tokens grouped into words, each
 *                  with its start, its end and its probability; punctuation joined to its word.
 *
 * The algorithm is openai-whisper's (timing.py), including the order of ties; see docs/words.md. No tensors, no
 * sessions; results depend neither on the device nor on the number of threads. */
#ifndef MX_WORDS_H
#define MX_WORDS_H
#include "base/pool.h"
#include "text/text.h"

#define MX_WORD_FRAMES_PER_S 50

/* The rows of a forced run: [before][1 + n_tokens][end of text]. */
typedef struct mx_align_scores {
    const float *scores;    /* [n_rows][n_heads][n_keys], before the softmax */
    size_t n_rows, n_heads, n_keys;
    size_t n_before;        /* rows before the one that predicts the first token */
    size_t n_frames;        /* of the keys: those of audio; the rest is padding */
} mx_align_scores;

/* matrix [n_rows - n_before - 1][n_frames], filled in: the mean over the heads of their weights, each frame
 * normalized over all rows, smoothed along time. */
mxw_status mx_words_matrix(const mx_align_scores *scores, mx_pool *pool, float *matrix);

/* Where in time each row of a matrix [n][n_frames] begins on the path of the greatest sum from the first corner to the
 * last: frames [n]. */
mxw_status mx_words_dtw(const float *matrix, size_t n, size_t n_frames, int32_t *frames);

typedef struct mx_word {
    size_t begin, end;      /* bytes of the text; equal if it was merged with a neighbour */
    size_t n_tokens;        /* 0 likewise */
    double start_s, end_s;  /* from the beginning of the window */
    double probability;
} mx_word;

typedef struct mx_words {
    mx_word *items;
    size_t n, capacity;
    mx_str text;
    double median_s;        /* of the words' durations, at most 0.7 */
} mx_words;

/* The tokens of a window's text as words, each with its number of tokens. By spaces and punctuation, or, in languages
 * written without spaces, wherever characters end. An incomplete last character is left out. */
mxw_status mx_words_split(const mx_text *text, const char *language, const int32_t *tokens, size_t n, mx_words *out);

typedef struct mx_word_options {
    const char *prepend, *append;   /* characters merged with the word after, or before, them */
} mx_word_options;

/* tokens [n]: of text alone; frames [n + 1]: of mx_words_dtw; probabilities [n]. */
mxw_status mx_words_align(const mx_text *text, const char *language, const mx_word_options *options,
                          const int32_t *tokens, size_t n, const int32_t *frames, const double *probabilities,
                          mx_words *out);
void mx_words_clear(mx_words *words);   /* removes all words; keeps the memory */
void mx_words_free(mx_words *words);

/* Whether Python's `part in whole` holds. */
int mx_words_contains(const char *whole, const char *part, size_t n_part);
#endif
